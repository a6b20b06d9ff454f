"""Tensors that the backward pass computes again instead of keeping them.

Selective recomputation: of what autograd saves in a forward pass, normalised rows, gated activations and weights cast to 16 bits are cheap to compute from tensors
that are saved as well, and take a large share of the memory. Activation checkpointing (`torch.utils.checkpoint`) would repeat the matrix products of a block, too.
"""

import contextlib
import threading

import torch

__all__ = ["recompute"]


class _Value:
    """A tensor that is computed again when it is first asked for, and let go when all that saved it have had it."""

    def __init__(self, tensor, function, arguments):
        self.function = function
        # Detached, so that the graph of an argument is not kept; of the tensor itself only how it lay in memory.
        self.arguments = [x.detach() if isinstance(x, torch.Tensor) else x for x in arguments]
        self.versions = [x._version if isinstance(x, torch.Tensor) else None for x in arguments]
        self.form = tensor.dtype, tensor.shape, tensor.stride()
        self.offset, self.version = tensor.storage_offset(), tensor._version
        device = tensor.device.type
        # PyTorch has no autocast for meta tensors.
        self.casts = None if device == "meta" else (device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device), torch.is_autocast_cache_enabled())
        self.saved = self.asked = 0
        self.value = None
        self.lock = threading.Lock()

    def again(self):
        with self.lock:
            value = self.value
            if value is None:
                value = self._compute()
            self.asked += 1
            self.value = value if self.asked % self.saved else None
            return value

    def _autocast(self):
        if self.casts is None:
            return contextlib.nullcontext()
        device, dtype, enabled, cache = self.casts
        return torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=cache)

    def _compute(self):
        for x, version in zip(self.arguments, self.versions):
            if version is not None and x._version != version:
                raise RuntimeError(f"recompute: an argument of {_name(self.function)} was changed in place after the forward pass; the tensor made from it cannot be computed again")
        with torch.no_grad(), self._autocast():
            value = self.function(*self.arguments)
        if (value.dtype, value.shape, value.stride()) != self.form:
            raise RuntimeError(f"recompute: {_name(self.function)} gave {value.dtype} of {tuple(value.shape)} with strides {value.stride()} in the backward pass, and "
                               f"{self.form[0]} of {tuple(self.form[1])} with strides {self.form[2]} before: expected a function that always gives the same")
        return value


def _name(function):
    return getattr(function, "__name__", None) or repr(function)


class recompute:
    """A context in which autograd does not keep the tensors that it is told how to compute again:

        with fused.recompute() as again:
            normalised = again(fused.rms_norm, x, weight, 1e-6)      # fused.rms_norm(x, weight, 1e-6)
            q, k, v = (F.linear(normalised, w) for w in weights)     # save no `normalised`: the backward pass calls rms_norm once more

    `again(function, *arguments)` returns function(*arguments), one tensor. `again.known(tensor, function, *arguments)` returns a tensor that was computed in another
    way, of which function(*arguments) gives the same values and strides (one output of several, say). The function has to give the same each time (no random numbers)
    and is called without autograd, in the state of autocast of the forward pass; its arguments are kept until the graph is freed, so it pays where they are kept anyway.
    What the function itself saves for its own gradient is kept as ever.

    Gradients are those without the context, if the function gives the same bits each time; gradients of gradients work. Tensors of subclasses (DTensors) are kept. Under
    `torch.compile` the context does nothing, since Inductor chooses itself what to recompute. A tensor computed by `again` lives until the context ends, if not longer.
    The object can be entered again later, by one thread at a time.

    The backward pass raises RuntimeError if an argument was changed in place since, or if the function gives another dtype, shape or strides.
    """

    def __init__(self):
        self._values = {}
        self._hooks = None

    def __enter__(self):
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack)
            self._hooks.__enter__()
        return self

    def __exit__(self, *error):
        if self._hooks is not None:
            self._hooks.__exit__(*error)
            self._hooks = None
        self._values.clear()

    def __call__(self, function, *arguments):
        return self.known(function(*arguments), function, *arguments)

    def known(self, tensor, function, *arguments):
        if self._hooks is None or type(tensor) is not torch.Tensor:
            return tensor
        place = tensor.untyped_storage()._cdata
        tensors = [x for x in arguments if isinstance(x, torch.Tensor)]
        plain = all(type(x) in (torch.Tensor, torch.nn.Parameter) for x in tensors)
        if plain and tensor.numel() and not any(x.untyped_storage()._cdata == place for x in tensors):
            # The tensor is kept here, so that no other one can get its memory while the context lasts.
            self._values[place] = tensor, _Value(tensor, function, arguments)
        return tensor

    def _pack(self, tensor):
        if type(tensor) is not torch.Tensor:
            return tensor
        known = self._values.get(tensor.untyped_storage()._cdata)
        if known is None:
            return tensor
        value = known[1]
        if tensor.dtype != value.form[0] or tensor._version != value.version:
            return tensor  # other bits, or changed in place after it was computed
        value.saved += 1
        return value, tensor.shape, tensor.stride(), tensor.storage_offset() - value.offset


def _unpack(packed):
    if isinstance(packed, torch.Tensor):
        return packed
    value, shape, strides, offset = packed
    whole = value.again()
    return whole.as_strided(shape, strides, whole.storage_offset() + offset)
