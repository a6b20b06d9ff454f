"""Products of groups: the host side of `kernels/grouped.py`."""

import dataclasses
import functools

import torch

import nereid.language as tl

from . import products
from ._launch import launch
from ._strided import NARROW, cdiv
from .attention import divides_warps
from .kernels.grouped import grouped_outer_product, grouped_product, grouped_product_copied, grouped_product_scheduled, schedule_of_groups, tiles_of_groups

_SIZES = {name: "i32" for name in ("m_size", "n_size", "k_size", "groups", "row_divisor", "a_divisor", "b_divisor", "tiles_n", "programs")}


#: The tiles for which `grouped_product_copied` was measured: rows, columns, terms and warps.
_COPIED = (128, 256, 64, 8)
#: How many tiles of rows a program of `tiles_of_groups` finds, and how many entries one of `schedule_of_groups` writes.
_ROW_TILES = 32


def power_above(number):
    """The least power of 2 that is greater."""
    return 1 << int(number).bit_length()


@functools.lru_cache(4096)
def whole_tiles(device, dtype, batches, m, n, k, precision="ieee"):
    """`products.tiles` for kernels that do not cut the summed dimension into parts."""
    if device.type == "cpu":
        return products.cpu_tiles(dtype, batches, m, n, k)
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    estimates = products.estimates(processors, dtype, batches, m, n, k, precision)
    return min((pair for pair in estimates if pair[1].parts == 1), key=lambda pair: pair[0])[1]


def _for_groups(cut):
    """The tiles of rows in groups: where 128 x 256 x 64 are chosen, four stages, and fewer tiles of rows walked together, which belong to several matrices (docs/ops-products.md)."""
    return dataclasses.replace(cut, group=4, stages=4) if (cut.m, cut.n, cut.k, cut.warps) == _COPIED and cut.stages == 3 else cut


def can_copy(out, a, b, cut):
    """Whether `grouped_product_copied` computes out (m, n) from `a` (m, k) and `b` (groups, n, k) with these tiles: 16-bit floats on GPUs of sm_90, the tiles for which it was measured to be faster,
    and strides and addresses that it takes."""
    if a.device.type != "cuda" or a.dtype not in (torch.float16, torch.bfloat16) or (cut.m, cut.n, cut.k, cut.warps) != _COPIED or not divides_warps(a.device):
        return False
    return copies_take(out, a, b) and _aligned(16, a.data_ptr(), b.data_ptr())


def copies_take(out, a, b):
    """Whether `grouped_product_copied` takes tensors of these shapes and strides."""
    if a.stride(1) != 1 or out.stride(1) != 1 or 1 not in b.stride()[1:] or not a.shape[1] or max(*a.shape, *b.shape) > NARROW:
        return False
    others = (out.stride(0), a.stride(0), b.stride(0), b.stride(1) if b.stride(2) == 1 else b.stride(2))
    return all(stride > 0 for stride in others) and _aligned(8, out.shape[1], *others)


def is_scheduled(m, groups):
    """Whether `grouped_product_scheduled` computes m rows in so many groups, not `grouped_product_copied`: few groups of many rows, where it was measured to be faster. With 128 groups its list takes 70 us."""
    return groups < 16 and m >= 1024 * groups


def _copied_rows(out, a, b, ends, cut):
    m, n = out.shape
    groups, _, k = b.shape
    scheduled = is_scheduled(m, groups)
    # Each group ends in a tile that may be incomplete, as do the rows behind the last group.
    tiles_m, tiles_n = min(m // cut.m + groups + 1, m), cdiv(n, cut.n)
    programs = min(torch.cuda.get_device_properties(a.device).multi_processor_count, tiles_m * tiles_n)
    entries = cdiv(tiles_m * tiles_n, programs) * programs if scheduled else tiles_m
    table = torch.empty(4 * (entries + 1), dtype=torch.int32, device=a.device)
    # What was measured to be faster than pointers in each order of weights (docs/ops-products.md).
    unit, group = ("k", 8) if b.stride(2) == 1 else ("n", 2)
    lists, product = (schedule_of_groups, grouped_product_scheduled) if scheduled else (tiles_of_groups, grouped_product_copied)
    order = {"GROUP": group}
    launch(lists, cdiv(entries, _ROW_TILES), a.device, {"table": table, "ends": ends, "groups": groups, "m_size": m} | ({"tiles_n": tiles_n, "programs": programs} if scheduled else {}),
           {"GROUPS": power_above(groups), "BM": cut.m, "BT": _ROW_TILES} | (order if scheduled else {}), _SIZES)
    launch(product, programs, a.device, {
        "out": out, "a": a, "b": b, "table": table, "m_size": m, "n_size": n, "k_size": k, "groups": groups, "out_strides": out.stride(), "a_strides": a.stride(), "b_strides": b.stride()
    }, {"B_UNIT": unit, "BM": cut.m, "BN": cut.n, "BK": cut.k} | ({} if scheduled else order), _SIZES, ("out_strides", "a_strides", "b_strides"), num_warps=cut.warps, num_stages=3 if scheduled else 4)
    return out


def precision_of(a):
    return products.fp32_precision(a.device) if a.dtype == torch.float32 else "ieee"


def _aligned(unit, *numbers):
    return all(number % unit == 0 for number in numbers)


def grouped_rows(out, a, b, ends=None, up=None, saved=None, rows=None, row_divisor=1):
    """out (m, n) = a[rows // row_divisor] (m, k) @ b[group].T, `b` of shape (groups, n, k); with `up` silu(a @ b.T) * (a @ up.T). Arguments: as for the kernel.

    out: any strides, m and n not 0. saved: None, or two tensors (m, n) of equal strides, 1 along n. a, b, up: any strides.
    """
    m, n = out.shape
    groups, _, k = b.shape
    width = 2 * n if up is not None else n
    # Groups are taken to be of equal size; with few rows, each to have a group of its own.
    precision = precision_of(a)
    cut = whole_tiles(a.device, a.dtype, min(groups, m), cdiv(m, groups), width, k, precision)
    if ends is not None and up is None and rows is None and a.element_size() == 2:
        if can_copy(out, a, b, cut):
            return _copied_rows(out, a, b, ends, cut)
        cut = _for_groups(cut)
    unit = 16 // a.element_size()
    b_strides = b.stride()
    if up is not None and up.stride() != b_strides:
        raise ValueError("strides of the two matrices differ")
    b_unit = "k" if b_strides[2] == 1 else "n" if b_strides[1] == 1 else None
    b_other = b_strides[2] if b_unit == "n" else b_strides[1]
    saved_stride = saved[0].stride(0) if saved is not None else 0
    aligned = (_aligned(unit, a.stride(0)) | _aligned(unit, b_other, b_strides[0] if groups > 1 else 0) << 1 | _aligned(unit, n, saved_stride) << 2
               | _aligned(unit, out.stride(0)) << 3 | _aligned(unit, k) << 4)
    columns = cut.n // 2 if up is not None else cut.n
    even = (n % columns == 0) << 1 | (k % cut.k == 0) << 2
    reach = max(cut.k * a.stride(1), cut.k * b_strides[2] + cut.n * b_strides[1], cut.n * out.stride(1))
    # Each group ends in a tile that may be incomplete, as do the rows behind the last group.
    tiles_m = cdiv(m, cut.m) if ends is None else min(m // cut.m + groups + 1, m)
    arguments = {
        "out": out, "a": a, "b": b, "up": up, "saved": saved, "rows": rows, "ends": ends, "m_size": m, "n_size": n, "k_size": k, "groups": groups,
        "row_divisor": row_divisor, "out_strides": out.stride(), "a_strides": a.stride(), "b_strides": b_strides, "saved_stride": saved_stride
    }
    constants = {
        "PRECISION": precision, "ACC": tl.float64 if a.dtype == torch.float64 else tl.float32, "OUT_UNIT": out.stride(1) == 1, "A_UNIT": a.stride(1) == 1, "B_UNIT": b_unit,
        "ALIGNED": aligned, "MULTIPLE": unit, "EVEN": even, "IN_ORDER": a.device.type == "cpu", "GROUPS": power_above(groups), "GROUP": cut.group, "BM": cut.m, "BN": cut.n, "BK": cut.k,
        "WIDE": reach > NARROW
    }
    launch(grouped_product, tiles_m * cdiv(n, columns), a.device, arguments, constants, _SIZES, num_warps=cut.warps, num_stages=cut.stages)
    return out


def _unit(matrix):
    return "column" if matrix.stride(1) == 1 else "row" if matrix.stride(0) == 1 else None


def grouped_outer(out, a, b, ends, a_rows=None, b_rows=None, a_divisor=1, b_divisor=1, rows=None):
    """out[g] (n, k) = a[rows of g].T @ b[rows of g]; `ends` and the other arguments as for the kernel. out: contiguous, not empty. rows: how many there are, if
    neither `a` nor `b` says it."""
    groups, n, k = out.shape
    m = rows if rows is not None else a.shape[0]
    precision = precision_of(a)
    cut = whole_tiles(a.device, a.dtype, groups, n, k, max(1, cdiv(m, groups)), precision)
    unit = 16 // a.element_size()
    arguments = {
        "out": out, "a": a, "b": b, "a_rows": a_rows, "b_rows": b_rows, "ends": ends, "m_size": m, "n_size": n, "k_size": k, "groups": groups,
        "a_divisor": a_divisor, "b_divisor": b_divisor, "a_strides": a.stride(), "b_strides": b.stride()
    }
    constants = {
        "PRECISION": precision, "ACC": tl.float64 if a.dtype == torch.float64 else tl.float32, "A_UNIT": _unit(a), "B_UNIT": _unit(b),
        "ALIGNED": _aligned(unit, a.stride(0)) | _aligned(unit, b.stride(0)) << 1 | _aligned(unit, n) << 2 | _aligned(unit, k) << 3, "MULTIPLE": unit,
        "EVEN": (n % cut.m == 0) | (k % cut.n == 0) << 1, "GROUPS": power_above(groups), "GROUP": cut.group, "BM": cut.m, "BN": cut.n, "BK": cut.k
    }
    launch(grouped_outer_product, (cdiv(n, cut.m) * cdiv(k, cut.n), groups), a.device, arguments, constants, _SIZES, num_warps=cut.warps, num_stages=cut.stages)
    return out


def grouped_into(out, a, b, ends):
    """Writes products of groups to `out`, which has the shape of the result; contiguous for two matrices. The four forms: `fused.grouped_mm`."""
    if not out.numel():
        return out
    if a.dim() == b.dim() == 3:
        products.multiply(out, a, b, None, (*out.shape, a.shape[2]), (out.stride(), (a.stride(0), 0, *a.stride()[1:]), (b.stride(0), 0, *b.stride()[1:]), (0, 0, 0)))
    elif a.dim() == b.dim():
        grouped_outer(out, a.t(), b, ends.contiguous())
    elif not ends.shape[0]:
        out.zero_()
    elif a.dim() == 2:
        grouped_rows(out, a, b.transpose(1, 2), ends.contiguous())
    else:
        grouped_rows(out.t(), b.t(), a, ends.contiguous())
    return out
