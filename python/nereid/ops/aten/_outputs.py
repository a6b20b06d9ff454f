"""Outputs of operators that are not elementwise: those that the caller gives are checked, resized where they are empty, or new ones are made."""

import torch

from .._declare import Native
from .._shapes import conflict, overlaps_itself
from .._strided import COMPUTE


def unusable(tensors, outs=()):
    """`Native` where tensors (None among them is passed over) are not dense, of one device and of dtypes that kernels have; else None."""
    device = None
    for tensor in (*tensors, *(outs or ())):
        if tensor is None:
            continue
        if tensor.dtype not in COMPUTE or tensor.layout is not torch.strided:
            return Native("dtype")
        if tensor.dim() > 64:
            return Native("dimensions")  # ATen's limit
        if device is None:
            device = tensor.device
        elif tensor.device != device:
            return Native("devices")
    return None


def ready(outs, wanted, tensors):
    """Whether given outputs can be written: None, or `Native` before anything is changed.

    outs: the caller's tensors; they have the shapes and dtypes wanted, or are empty and resized here. wanted: [(shape, dtype)]. tensors: what is read (None is
    passed over): an output may be one of them, but must not overlap them otherwise.
    """
    for out, (shape, dtype) in zip(outs, wanted):
        if out.dtype != dtype:
            return Native("dtype of the output")
        if tuple(out.shape) == tuple(shape):
            if overlaps_itself(out) or any(conflict(out, tensor) for tensor in (*tensors, *outs) if tensor is not None):
                return Native("overlap")
        elif out.numel() or not out.untyped_storage().resizable():
            return Native("shape of the output")
    for out, (shape, _) in zip(outs, wanted):
        if tuple(out.shape) != tuple(shape):
            out.resize_(shape)
    return None


def made(outs, wanted, tensors, device):
    """The caller's outputs, or new contiguous ones if `outs` is None; `Native` as `ready`."""
    if outs is not None:
        return ready(outs, wanted, tensors) or outs
    return [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in wanted]


def returned(results):
    return results[0] if len(results) == 1 else tuple(results)
