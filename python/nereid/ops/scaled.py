"""Products of 8-bit operands with scales: the host side of `kernels/quantized.py`; sums in parts along k."""

import dataclasses

import torch

import nereid.language as tl

from . import products
from ._launch import launch
from ._strided import NARROW, cdiv, step_up
from .attention import divides_warps
from .grouped import power_above
from .kernels.quantized import scaled_product

#: The side of blocks that have one scale.
BLOCK = 128
#: Whether `can_copy` may hold.
COPIES = True
#: How many products of 8-bit floats a matrix unit of a GPU adds up before its sum, which has fewer bits than fp32, is added in fp32.
EXACT = 4096
_SIZES = {name: "i32" for name in ("m_size", "n_size", "k_size", "groups", "tiles_of_part")}


def _scaled_tiles(device, groups, m, n, k, blocks):
    """The tiles of products of `groups` matrices (m, k) by (k, n)."""
    if device.type == "cpu":
        cut = products.cpu_tiles(torch.float32, groups, m, n, k)
        return dataclasses.replace(cut, parts=1, **({"k": BLOCK, "n": min(cut.n, 64)} if blocks else {}))
    if blocks:
        # 128 x 128 with the two accumulators in the registers of eight warps; fewer rows for small products.
        block_m = step_up(m, (16, 32, 64, 128))
        processors = torch.cuda.get_device_properties(device).multi_processor_count
        if block_m == 128 and groups * cdiv(m, 128) * cdiv(n, 128) < processors:
            block_m = 64
        cut = products.Tiles(block_m, 128, BLOCK, 1, 8, 8 if block_m == 128 else 4, 4)
        count, steps = groups * cdiv(m, block_m) * cdiv(n, 128), cdiv(k, BLOCK)
        return dataclasses.replace(cut, parts=parts_of(count, steps, 2 * processors) if block_m < 128 else 1)
    cut = products.gpu_tiles(torch.cuda.get_device_properties(device).multi_processor_count, torch.int8, groups, m, n, cdiv(k, 2))
    return dataclasses.replace(cut, k=min(2 * cut.k, BLOCK) if cut.m > 16 else 2 * cut.k)


def can_copy(a, b, rows):
    """Whether tiles of 8-bit floats `a` (m, k), `b` (1, n, k) can be blocks of tensor descriptors in a loop whose warps are divided: on GPUs of sm_90, with tiles of 128 `rows`, strides of 1 along k and
    multiples of 16 along rows."""
    if a.device.type != "cuda" or a.dtype == torch.int8 or rows != 128 or not divides_warps(a.device):
        return False
    return all(x.stride(-1) == 1 and 0 < x.stride(-2) and x.stride(-2) % 16 == 0 and x.data_ptr() % 16 == 0 and max(x.shape) <= NARROW for x in (a, b))


def _run(device, k, block):
    """`RUN` of `scaled_product` for 8-bit floats without blocks."""
    return None if device.type == "cpu" or k <= EXACT else EXACT // block


def parts_of(count, steps, wanted, least=4):
    """Into how many parts to cut `steps`, so that about `wanted` programs run; each has `least` steps or more."""
    return max(1, min(wanted // count, steps // least, 32))


def _aligned(unit, *numbers):
    return all(number % unit == 0 for number in numbers)


def _scale_strides(scale, rank):
    """Strides of a scale as of `rank` dimensions, those that it lacks at the end 0."""
    return (*scale.stride(), *[0] * rank)[:rank]


def scaled_into(out, a, b, a_scale, b_scale, kinds, bias=None, ends=None):
    """Writes (a * a_scale) @ (b * b_scale).T + bias to `out` (m, n), contiguous, not empty.

    a: (m, k); b: (n, k), or with the `ends` of groups of rows (groups, n, k), and scales of the groups in front of those of `b`; rows behind the last end are 0. kinds: (whether scales belong to blocks,
    to rows of `a`, to rows of `b`). No bias with groups.
    """
    blocks, a_rows, b_rows = kinds
    (m, k), n = a.shape, b.shape[-2]
    if ends is None:
        b, b_scale = b.unsqueeze(0), b_scale.unsqueeze(0)
    groups = b.shape[0]
    cut = _scaled_tiles(a.device, min(groups, m), cdiv(m, groups), n, k, blocks)
    if ends is not None:
        cut = dataclasses.replace(cut, parts=1)
    whole = a.dtype == torch.int8
    copies = COPIES and blocks and ends is None and can_copy(a, b, cut.m)
    if copies:
        cut = dataclasses.replace(cut, stages=5)
    cpu = a.device.type == "cpu"
    # CPUs have no products of 8-bit floats.
    operand = tl.float32 if cpu and not whole else None
    each, parts, workspace = cut_parts(out, m, n, cdiv(k, cut.k), cut.parts)
    aligned = _aligned(16, a.stride(0)) | _aligned(16, b.stride(1), b.stride(0) if groups > 1 else 0) << 1 | _aligned(16, n) << 2 | _aligned(16, k) << 3
    reach = max(cut.m * a.stride(0) + cut.k * a.stride(1), cut.n * b.stride(1) + cut.k * b.stride(2), cut.m * n)
    arguments = {
        "out": out, "a": a, "b": b, "a_scale": a_scale, "b_scale": b_scale, "bias": bias if parts == 1 else None, "parts": workspace, "ends": ends, "m_size": m, "n_size": n, "k_size": k,
        "groups": groups, "tiles_of_part": each, "out_strides": (0, n, 1), "a_strides": a.stride(), "b_strides": b.stride(), "a_scale_strides": _scale_strides(a_scale, 2),
        "b_scale_strides": _scale_strides(b_scale, 3), "bias_strides": None if bias is None or bias.stride(0) == 1 else (0, 0, bias.stride(0))
    }
    constants = {
        "ACC": tl.int32 if whole else tl.float32, "OPERAND": operand, "PRECISION": "ieee", "RUN": None if whole or blocks else _run(a.device, k, cut.k), "BLOCKS": blocks, "A_ROWS": a_rows, "B_ROWS": b_rows, "A_UNIT": a.stride(1) == 1,
        "B_UNIT": b.stride(2) == 1, "ALIGNED": aligned, "MULTIPLE": 16, "EVEN": (ends is None and m % cut.m == 0) | (n % cut.n == 0) << 1 | (k % cut.k == 0) << 2, "IN_ORDER": cpu,
        "GROUPS": power_above(groups), "GROUP": cut.group, "COPIES": copies, "BM": cut.m, "BN": cut.n, "BK": cut.k, "WIDE": reach > NARROW
    }
    tiles_m = cdiv(m, cut.m) if ends is None else min(m // cut.m + groups + 1, m)
    launch(scaled_product, (tiles_m * cdiv(n, cut.n), parts), a.device, arguments, constants, _SIZES, ("a_strides", "b_strides") if copies else (), num_warps=cut.warps, num_stages=cut.stages)
    finish(out, workspace, bias, parts)
    return out


def cut_parts(out, m, n, steps, parts):
    """(steps of a part, number of parts, workspace or None)."""
    each = max(1, cdiv(steps, parts))
    parts = max(1, cdiv(steps, each))
    dtype = torch.promote_types(out.dtype, torch.float32)
    return each, parts, torch.empty((parts, 1, m, n), dtype=dtype, device=out.device) if parts > 1 else None


def finish(out, workspace, bias, parts):
    if parts > 1:
        m, n = out.shape
        fixed = {"ALPHA": False, "BETA": False, "ACTIVATION": None}
        products.add_up(out, workspace, bias, None, (1, m, n, parts), (0, n, 1), (0, 0, bias.stride(0)) if bias is not None else (0, 0, 0), tl.float32 if workspace.dtype == torch.float32 else tl.float64,
                        {"alpha": 1.0, "beta": 1.0}, fixed)
