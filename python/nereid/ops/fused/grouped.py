"""Grouped products: rows, columns or parts of the summed dimension in groups, each with a matrix of its own."""

import torch

from ..grouped import grouped_into
from . import _arguments, _sharding
from ._declare import operator


def check_ends(ends, groups, device, name="ends"):
    """Raises TypeError or ValueError unless `ends` are int32 or int64 (groups,) with stride 1 on this device."""
    if ends.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"`{name}` has dtype {ends.dtype}: expected int32 or int64")
    if ends.dim() != 1 or groups is not None and ends.shape[0] != groups:
        raise ValueError(f"`{name}` has shape {tuple(ends.shape)}: expected ({'groups' if groups is None else groups},)")
    if ends.device != device:
        raise ValueError(f"`{name}` is on {ends.device}, the matrices on {device}: expected one device")


def check(a, b, ends):
    """Raises what `grouped_mm` says; the shape of the result."""
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dim() not in (2, 3):
            raise ValueError(f"`{name}` has shape {tuple(tensor.shape)}: expected 2 or 3 dimensions")
    _arguments.one_device(a=a, b=b)
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"`b` has shape {tuple(b.shape)}: expected ({'groups, ' if b.dim() == 3 else ''}{a.shape[-1]}, n), as `a` has shape {tuple(a.shape)}")
    if a.dim() == b.dim() == 3:
        if ends is not None:
            raise ValueError("`ends` are given: expected None where both matrices have 3 dimensions")
        _arguments.shape(b, (a.shape[0], *b.shape[1:]), "b")
        return (*a.shape[:2], b.shape[2])
    if ends is None:
        raise ValueError("`ends` are None: expected the ends of the groups where a matrix has 2 dimensions")
    check_ends(ends, a.shape[0] if a.dim() == 3 else b.shape[0] if b.dim() == 3 else None, a.device)
    return (ends.shape[0], a.shape[0], b.shape[1]) if a.dim() == b.dim() else (a.shape[-2], b.shape[-1])


def _check_floats(a, b, ends):
    _arguments.floats(a=a, b=b)
    _arguments.one_dtype(a=a, b=b)
    return check(a, b, ends)


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs, *[None] * (3 - len(inputs)))


def _backward(ctx, grad):
    a, b, ends = ctx.saved_tensors
    return (grouped_mm(grad, b.mT, ends) if ctx.needs_input_grad[0] else None, grouped_mm(a.mT, grad, ends) if ctx.needs_input_grad[1] else None, None)


@operator("grouped_mm(Tensor a, Tensor b, Tensor? ends=None) -> Tensor", fake=lambda a, b, ends=None: a.new_empty(_check_floats(a, b, ends)), backward=_backward, save=_save,
          sharding=_sharding.grouped)
def grouped_mm(a, b, ends):
    """Products of groups with gradients, in one launch and without a look at `ends` on the host. Rows and columns of group g are those from ends[g - 1] to ends[g]:

    | a | b | result | |
    |---|---|---|---|
    | (m, k) | (groups, k, n) | (m, n) | rows of `a` in groups: tokens sorted by expert, and a matrix for each |
    | (groups, m, k) | (k, n) | (m, n) | columns of `b` in groups |
    | (m, k) | (k, n) | (groups, m, n) | k in groups: a result for each, the gradient of weights |
    | (groups, m, k) | (groups, k, n) | (groups, m, n) | without `ends`: a batch |

    a, b: of one float dtype and device, any strides. ends: (groups,), int32 or int64, ascending; those beyond the size count as the size, and groups may be empty.
    What is behind the last end is 0 in the result. The result is contiguous; sums are in fp32 (fp64 for fp64) and rounded once.

    Raises TypeError for other dtypes, ValueError for shapes or devices that do not fit.
    """
    shape = _check_floats(a, b, ends)
    return grouped_into(torch.empty(shape, dtype=a.dtype, device=a.device), a, b, ends)
