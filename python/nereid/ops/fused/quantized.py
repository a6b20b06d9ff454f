"""Products of quantised matrices: 8-bit operands with scales (fp8 and int8)."""

import torch

from .._strided import cdiv
from ..scaled import BLOCK, scaled_into
from . import _arguments, _sharding
from ._declare import operator
from .grouped import check_ends

EIGHTS = (torch.float8_e4m3fn, torch.float8_e5m2, torch.int8)


def _kind_of_scales(a, b, a_scale, b_scale):
    """(block scales, scales for rows of a, for rows of b)."""
    (m, k), n = a.shape, b.shape[0]
    if a_scale.dim() == 2 and tuple(a_scale.shape) == (m, cdiv(k, BLOCK)) and tuple(b_scale.shape) == (cdiv(n, BLOCK), cdiv(k, BLOCK)):
        return True, False, False
    found = [False]
    for name, scale, rows in (("a_scale", a_scale, m), ("b_scale", b_scale, n)):
        if scale.numel() != 1 and tuple(scale.shape) not in ((rows, ), (rows, 1)):
            raise ValueError(f"`{name}` has shape {tuple(scale.shape)}: expected one element, ({rows},), or blocks: ({m}, {cdiv(k, BLOCK)}) for `a_scale` and "
                             f"({cdiv(n, BLOCK)}, {cdiv(k, BLOCK)}) for `b_scale`")
        found.append(scale.numel() != 1)
    return tuple(found)


def _kind_of_grouped_scales(a, b, a_scale, b_scale):
    """As `_kind_of_scales`, with `b` (groups, n, k)."""
    (m, k), (groups, n, _) = a.shape, b.shape
    blocks = (m, cdiv(k, BLOCK)), (groups, cdiv(n, BLOCK), cdiv(k, BLOCK))
    if (tuple(a_scale.shape), tuple(b_scale.shape)) == blocks:
        return True, False, False
    for name, scale, shape, kinds in (("a_scale", a_scale, (m, ), blocks[0]), ("b_scale", b_scale, (groups, n), blocks[1])):
        if tuple(scale.shape) not in ((shape[0], ), shape, (*shape, 1)) and (name == "b_scale" or scale.numel() != 1):
            one = "one element" if name == "a_scale" else f"({groups},)"
            raise ValueError(f"`{name}` has shape {tuple(scale.shape)}: expected {one}, {shape}, or blocks with those of the other matrix: {kinds}")
    return False, a_scale.numel() != 1, b_scale.dim() > 1


def _check_operands(a, b, a_scale, b_scale, out_dtype):
    """Shared by products of two matrices and of groups."""
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dtype not in EIGHTS:
            raise TypeError(f"`{name}` has dtype {tensor.dtype}: expected float8_e4m3fn, float8_e5m2 or int8")
    if (a.dtype == torch.int8) != (b.dtype == torch.int8):
        raise TypeError(f"`b` has dtype {b.dtype}, `a` {a.dtype}: expected two of 8-bit floats, or int8 twice")
    for name, scale in (("a_scale", a_scale), ("b_scale", b_scale)):
        if scale.dtype != torch.float32:
            raise TypeError(f"`{name}` has dtype {scale.dtype}: expected float32")
    _arguments.one_device(a=a, b=b, a_scale=a_scale, b_scale=b_scale)
    if out_dtype is not None and out_dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise TypeError(f"`out_dtype` is {out_dtype}: expected float16, bfloat16 or float32")


def _check_scaled(a, b, a_scale, b_scale, bias=None, out_dtype=None):
    _check_operands(a, b, a_scale, b_scale, out_dtype)
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dim() != 2:
            raise ValueError(f"`{name}` has shape {tuple(tensor.shape)}: expected a matrix")
    _arguments.one_device(a=a, bias=bias)
    _arguments.shape(b, (b.shape[0], a.shape[1]), "b")
    _arguments.shape(bias, (b.shape[0], ), "bias")
    _arguments.floats(bias=bias)
    return _kind_of_scales(a, b, a_scale, b_scale)


def _check_grouped(a, b, a_scale, b_scale, ends, out_dtype=None):
    _check_operands(a, b, a_scale, b_scale, out_dtype)
    if a.dim() != 2 or b.dim() != 3 or b.shape[2] != a.shape[1]:
        raise ValueError(f"`a` and `b` have shapes {tuple(a.shape)} and {tuple(b.shape)}: expected (m, k) and (groups, n, k)")
    check_ends(ends, b.shape[0], a.device)
    return _kind_of_grouped_scales(a, b, a_scale, b_scale)


def _fake_scaled(a, b, a_scale, b_scale, bias=None, out_dtype=None):
    _check_scaled(a, b, a_scale, b_scale, bias, out_dtype)
    return a.new_empty((a.shape[0], b.shape[0]), dtype=out_dtype or torch.bfloat16)


@operator("scaled_mm(Tensor a, Tensor b, Tensor a_scale, Tensor b_scale, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor", fake=_fake_scaled, sharding=_sharding.scaled)
def scaled_mm(a, b, a_scale, b_scale, bias, out_dtype):
    """(a * a_scale) @ (b * b_scale).T + bias of 8-bit operands. No gradient.

    a: (m, k), b: (n, k): both 8-bit floats (float8_e4m3fn or float8_e5m2, also mixed), or both int8. Any strides; GPUs are fast with k contiguous and multiples of 16.
    a_scale, b_scale: fp32. Of one element; or (m,) and (n,) (also with a last dimension of 1), one for each row, where one may have rows and the other one element;
    or blocks as in DeepSeek-V3 (arXiv 2412.19437): a_scale (m, ceil(k / 128)), b_scale (ceil(n / 128), ceil(k / 128)), with sums of 128 of k scaled and added in a second
    fp32 accumulator. bias: (n,) or None. out_dtype: float16, bfloat16 (by default) or float32. The result is contiguous.

    GPUs sum products of 8-bit floats in their matrix units, with fewer bits than fp32 has; int8 is summed in int32, exactly.

    Raises TypeError for other dtypes, ValueError for shapes or devices that do not fit.
    """
    blocks, a_rows, b_rows = _check_scaled(a, b, a_scale, b_scale, bias, out_dtype)
    out = torch.empty((a.shape[0], b.shape[0]), dtype=out_dtype or torch.bfloat16, device=a.device)
    if not out.numel():
        return out
    return scaled_into(out, a, b, a_scale, b_scale, (blocks, a_rows, b_rows), bias)


def _fake_grouped(a, b, a_scale, b_scale, ends, out_dtype=None):
    _check_grouped(a, b, a_scale, b_scale, ends, out_dtype)
    return a.new_empty((a.shape[0], b.shape[1]), dtype=out_dtype or torch.bfloat16)


@operator("grouped_scaled_mm(Tensor a, Tensor b, Tensor a_scale, Tensor b_scale, Tensor ends, ScalarType? out_dtype=None) -> Tensor", fake=_fake_grouped, sharding=_sharding.grouped_scaled)
def grouped_scaled_mm(a, b, a_scale, b_scale, ends, out_dtype):
    """`scaled_mm` of groups of rows, each with a matrix of its own: a (m, k), b (groups, n, k); the rows of group g are those from ends[g - 1] to ends[g]. No gradient, no bias.

    a_scale: one element, (m,) or (m, 1); b_scale: (groups,), one for each matrix, or (groups, n), also with a last dimension of 1, one for each row; or blocks: (m, ceil(k / 128)) and
    (groups, ceil(n / 128), ceil(k / 128)). ends: as for `grouped_mm`; what is behind the last end is 0. Others as for `scaled_mm`; groups are not padded.

    Raises TypeError for other dtypes, ValueError for shapes or devices that do not fit.
    """
    kinds = _check_grouped(a, b, a_scale, b_scale, ends, out_dtype)
    out = torch.empty((a.shape[0], b.shape[1]), dtype=out_dtype or torch.bfloat16, device=a.device)
    if not out.numel():
        return out
    if not b.shape[0]:
        return out.zero_()
    return scaled_into(out, a, b, a_scale, b_scale, kinds, ends=ends.contiguous())
