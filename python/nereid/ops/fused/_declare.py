"""How a fused operator is declared: one `torch.library` operator in the namespace `nereid`, on CPUs and GPUs.

    @operator("swiglu(Tensor gate, Tensor up) -> Tensor", fake=_like_gate, backward=_swiglu_gradient, save=_inputs, sharding=pointwise_sharding)
    def swiglu(gate, up): ...

What it allocates and launches is recorded at the first call of each signature (`nereid.ops._record`) and repeated by the router without Python, like a call
of ATen's operators. Everything must therefore follow from the arguments' dtypes, shapes, strides and numbers. The function may allocate, view, launch
(`_launch.launch`) and call operators of ATen that `nereid.ops` declares; it raises ValueError or TypeError for arguments that do not fit.
"""

import threading

import torch

from nereid import knobs

from .. import _router, _schema

_library = torch.library.Library("nereid", "FRAGMENT")
_lock = threading.Lock()
#: {name: Fused}, in the order of declaration.
FUSED = {}


class Fused:
    """An operator of this package in PyTorch's dispatcher.

    name: without namespace. run: the function that is called with the arguments of the schema, by name. sharding: None, or a function for
    `torch.distributed.tensor.experimental.register_sharding`.
    """

    def __init__(self, schema, run, sharding):
        self.name = _library.define(schema)
        self.run, self.sharding = run, sharding
        self.overload = getattr(torch.ops.nereid, self.name).default
        self.form = _schema.form_of(self.overload)
        self._entries = {}
        for key in _schema.KEYS.values():
            _library.impl(self.name, self._kernel(key), key)

    def call(self, form, values, outs):
        """As `Operator.call`."""
        return self.run(**values)

    def _kernel(self, key):

        def kernel(*args, **kwargs):
            entry = self._entries.get(key, self)
            if entry is self:
                entry = self._enter(key)
            if entry is None:
                return self.run(**self.form.bind(args, kwargs)[0])
            return entry.run(self.call, self.form, args, kwargs)

        return kernel

    def _enter(self, key):
        """Puts the router before the Python kernel, where there is a router: the first call comes here."""
        with _lock:
            if key not in self._entries:
                router = _router.load() if knobs.nereid.ops_router else None
                entry = _router.entry(router, self, self.form, key) if router else None
                if entry is not None:
                    entry.enter()
                self._entries[key] = entry
            return self._entries[key]


def operator(schema, fake, backward=None, save=None, sharding=None):
    """Declares an operator; decorates the function that runs it and returns the object in `torch.ops`, which is called like a function.

    schema: in PyTorch's notation, without namespace. fake: what the operator returns for tensors without memory, from the same arguments; it checks them and
    raises as the function does. backward, save: as `backward` and `setup_context` of `torch.library.register_autograd`; None: asking for a gradient raises
    RuntimeError. sharding: see `Fused`.
    """

    def declared(run):
        fused = Fused(schema, run, sharding)
        FUSED[fused.name] = fused
        qualified = f"nereid::{fused.name}"
        torch.library.register_fake(qualified, fake, lib=_library)
        if not fused.overload._schema.is_mutable:
            torch.library.register_autograd(qualified, _reading_once(backward) if backward else _no_gradient(qualified), setup_context=save, lib=_library)
        return fused.overload

    return declared


class _Context:
    """The context of a backward function, whose saved tensors are taken once: checkpointing of activations frees them as they are taken."""

    def __init__(self, context):
        self._context = context
        self.saved_tensors = context.saved_tensors

    def __getattr__(self, name):
        return getattr(self._context, name)


def _reading_once(backward):
    return lambda ctx, *gradients: backward(_Context(ctx), *gradients)


def _no_gradient(name):

    def backward(ctx, *gradients):
        raise RuntimeError(f"`{name}` has no gradient")

    return backward


def register_sharding():
    """Tells DTensor how the operators are sharded. It imports `torch.distributed.tensor`; call it once in programs that use DTensor.

    Raises ImportError where PyTorch was built without torch.distributed.
    """
    from torch.distributed.tensor.experimental import register_sharding as register
    with _lock:
        for fused in FUSED.values():
            if fused.sharding is not None:
                register(fused.overload)(fused.sharding)
                fused.sharding = None
