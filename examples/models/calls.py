"""Which operators of ATen a program calls below autograd, and which of them `nereid.ops` has kernels for.

    with calls.Recorder() as recorder: ...
    served, total = calls.share(recorder.found())
"""

import collections

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

#: Prefixes of operators that GPUs have kernels of, though CPUs compose them of others, or hide their work in a library.
WHOLE_ON_GPUS = ("_foreach_", "_fused_", "_amp_", "convolution", "_grouped_mm")
#: They allocate, or only look at a tensor's description.
NOTHING = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_", "set_", "_local_scalar_dense", "is_same_size"}
STATES = ("registered", "random", "missing", "composed", "view")


class Recorder(TorchDispatchMode):
    """A `with` block that counts calls: `calls` is a Counter of (overload, whether floating-point tensors take part). key: of the device whose kernels count, "CPU" or "CUDA"."""

    def __init__(self, key="CPU"):
        super().__init__()
        self.key = key
        self.calls = collections.Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not function._schema.name.startswith("aten::"):
            return function(*args, **kwargs)  # marks of the profiler, operators of other packages
        name = function._schema.name.removeprefix("aten::") + (f".{function._overloadname}" if function._overloadname != "default" else "")
        if state(name, self.key) == "composed":
            # The kernel itself, with this mode in force, so that what it calls comes here.
            kernel = torch.library.get_kernel(f"aten::{name}", self.key)
            with self:
                result = kernel.call_boxed(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, self.key)), *args, **kwargs)
            floats = False
        else:
            result = function(*args, **kwargs)
            floats = any(isinstance(leaf, torch.Tensor) and leaf.is_floating_point() for leaf in pytree.tree_leaves((args, kwargs, result)))
        self.calls[name, floats] += 1
        return result

    def found(self):
        """{overload: [calls, those with floating-point tensors]}"""
        found = {}
        for (overload, floats), calls in self.calls.items():
            counts = found.setdefault(overload, [0, 0])
            counts[0] += calls
            counts[1] += calls * floats
        return found


_states = {}


def state(name, key="CPU"):
    """One of STATES for an overload of ATen ("add.Tensor") at a key of the dispatcher: "registered": `nereid.ops` has a kernel for it; "random": for GPUs only, on CPUs ATen draws its random
    numbers; "composed": ATen computes it by other overloads; "view": a view or an allocation; "missing": left to ATen."""
    if key not in _states:
        import nereid.ops
        _states[key] = {form.name: "registered" if operator.keys is None or key in operator.keys else "random" for operator in nereid.ops.OPERATORS.values() for form in operator.forms}
    states = _states[key]
    if name not in states:
        packet, _, overload = name.partition(".")
        schema = getattr(getattr(torch.ops.aten, packet), overload or "default")._schema
        aliases = [result.alias_info for result in schema.returns]
        if packet in NOTHING or aliases and all(alias is not None and not alias.is_write for alias in aliases):
            states[name] = "view"
        elif torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key) or packet.startswith(WHOLE_ON_GPUS):
            states[name] = "missing"
        else:
            states[name] = "composed"
    return states[name]


def share(found, key="CPU"):
    """(calls with floating-point tensors of registered overloads, all of them that compute something)."""
    counted = {overload: floats for overload, (_, floats) in found.items() if state(overload, key) in ("registered", "random", "missing")}
    return sum(floats for overload, floats in counted.items() if state(overload, key) != "missing"), sum(counted.values())
