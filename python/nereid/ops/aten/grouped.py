"""Grouped products of ATen: `_grouped_mm` in all its forms, and `_scaled_grouped_mm` of groups of rows with scales for rows."""

import dataclasses

import torch

from .._declare import Native, Operator, declare
from .._strided import NARROW
from ..grouped import grouped_into
from ..scaled import scaled_into

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def _aligned(matrix):
    """Whether ATen takes the strides: one of the last two is 1, the other a multiple of 16 bytes that covers the row; and memory begins at such a multiple."""
    unit = 16 // matrix.element_size()
    (rows, columns), (outer, inner) = matrix.shape[-2:], matrix.stride()[-2:]
    row_major = inner == 1 and outer >= max(1, columns) and outer % unit == 0
    column_major = outer == 1 and inner >= max(1, rows) and inner % unit == 0
    return (row_major or column_major) and matrix.data_ptr() % 16 == 0


def _refused(a, b, offs, bias):
    """Why ATen has to decide, or to complain: None, or a few words."""
    if any(x.layout is not torch.strided or x.is_neg() or x.device != a.device for x in (a, b)) or offs is not None and offs.device != a.device:
        return "devices"
    if bias is not None:
        return "bias"
    if a.dim() not in (2, 3) or b.dim() not in (2, 3) or a.shape[-1] != b.shape[-2] or a.dim() == b.dim() == 3 and a.shape[0] != b.shape[0]:
        return "shapes"
    if (offs is None) != (a.dim() == b.dim() == 3):
        return "offsets"
    if offs is not None:
        groups = a.shape[0] if a.dim() == 3 else b.shape[0] if b.dim() == 3 else None
        if offs.dtype != torch.int32 or offs.dim() != 1 or groups is not None and offs.shape[0] != groups or not offs.shape[0]:
            return "offsets"
    if max(*a.shape, *b.shape) > NARROW:
        return "size"
    if not a.numel() or not b.numel():
        return "no elements"
    return None if _aligned(a) and _aligned(b) else "alignment"


def _shape(a, b, offs):
    """Of the result; a list."""
    if a.dim() == b.dim() == 2:
        return [offs.shape[0], a.shape[0], b.shape[1]]
    return [*a.shape[:-1], b.shape[-1]] if a.dim() == b.dim() else [a.shape[-2], b.shape[-1]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupedProduct(Operator):
    """`_grouped_mm`. ATen leaves rows and columns behind the last offset as they are in memory; here they are 0."""

    family = "product"

    def accepts(self, form):
        return {argument.name for argument in form.arguments} == {"self", "mat2", "offs", "bias", "out_dtype"} and form.kind == "functional"

    def call(self, form, values, outs):
        a, b, offs = values["self"], values["mat2"], values["offs"]
        if a.dtype not in DTYPES or b.dtype != a.dtype or values["out_dtype"] not in (None, a.dtype):
            return Native("dtype")
        why = _refused(a, b, offs, values["bias"])
        if why is not None:
            return Native(why)
        shape = _shape(a, b, offs)
        if shape[-1] * a.element_size() % 16:
            return Native("strides of the result")
        return grouped_into(torch.empty(shape, dtype=a.dtype, device=a.device), a, b, offs if offs is None or offs.stride(0) == 1 else offs.contiguous())


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaledGroupedProduct(Operator):
    """`_scaled_grouped_mm` of matrices (m, k) and (groups, k, n) in float8_e4m3fn with a scale for each row of the first and each column of the others."""

    family = "product"
    keys = ("CUDA", )

    def accepts(self, form):
        names = {"self", "mat2", "scale_a", "scale_b", "offs", "bias", "scale_result", "out_dtype", "use_fast_accum"}
        return {argument.name for argument in form.arguments} == names and form.kind == "functional"

    def call(self, form, values, outs):
        a, b, offs, a_scale, b_scale = (values[name] for name in ("self", "mat2", "offs", "scale_a", "scale_b"))
        if any(x.dtype != torch.float8_e4m3fn for x in (a, b)) or any(x.dtype != torch.float32 or x.device != a.device for x in (a_scale, b_scale)):
            return Native("dtype")
        if values["out_dtype"] not in (None, torch.bfloat16):
            return Native("dtype")
        if a.dim() != 2 or b.dim() != 3:
            return Native("form")
        why = "scale of the result" if values["scale_result"] is not None else _refused(a, b, offs, values["bias"])
        if why is not None:
            return Native(why)
        if a.stride(1) != 1 or b.stride(1) != 1:
            return Native("strides")
        m, n = a.shape[0], b.shape[2]
        if tuple(a_scale.shape) != (m, ) or tuple(b_scale.shape) != (b.shape[0], n) or a_scale.stride(0) != 1 or b_scale.stride(1) != 1:
            return Native("scales")
        if 2 * n % 16:
            return Native("strides of the result")
        out = torch.empty((m, n), dtype=torch.bfloat16, device=a.device)
        return scaled_into(out, a, b.transpose(1, 2), a_scale, b_scale, (False, True, True), ends=offs if offs.stride(0) == 1 else offs.contiguous())


declare(GroupedProduct(name="_grouped_mm"))
declare(ScaledGroupedProduct(name="_scaled_grouped_mm"))
