"""Products of quantised matrices: 8-bit operands with scales (fp8 and int8)."""

import dataclasses

import torch

import nereid.language as tl

from .. import products
from .._launch import launch
from .._strided import NARROW, cdiv, step_up
from ..kernels.quantized import scaled_product
from . import _arguments, _sharding
from ._declare import operator

EIGHTS = (torch.float8_e4m3fn, torch.float8_e5m2, torch.int8)
#: The side of blocks that have one scale.
BLOCK = 128
_SIZES = {name: "i32" for name in ("m_size", "n_size", "k_size", "tiles_of_part")}


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


def _check_scaled(a, b, a_scale, b_scale, bias=None, out_dtype=None):
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dtype not in EIGHTS:
            raise TypeError(f"`{name}` has dtype {tensor.dtype}: expected float8_e4m3fn, float8_e5m2 or int8")
        if tensor.dim() != 2:
            raise ValueError(f"`{name}` has shape {tuple(tensor.shape)}: expected a matrix")
    if (a.dtype == torch.int8) != (b.dtype == torch.int8):
        raise TypeError(f"`b` has dtype {b.dtype}, `a` {a.dtype}: expected two of 8-bit floats, or int8 twice")
    for name, scale in (("a_scale", a_scale), ("b_scale", b_scale)):
        if scale.dtype != torch.float32:
            raise TypeError(f"`{name}` has dtype {scale.dtype}: expected float32")
    _arguments.one_device(a=a, b=b, a_scale=a_scale, b_scale=b_scale, bias=bias)
    _arguments.shape(b, (b.shape[0], a.shape[1]), "b")
    _arguments.shape(bias, (b.shape[0], ), "bias")
    _arguments.floats(bias=bias)
    if out_dtype is not None and out_dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise TypeError(f"`out_dtype` is {out_dtype}: expected float16, bfloat16 or float32")
    return _kind_of_scales(a, b, a_scale, b_scale)


def _fake_scaled(a, b, a_scale, b_scale, bias=None, out_dtype=None):
    _check_scaled(a, b, a_scale, b_scale, bias, out_dtype)
    return a.new_empty((a.shape[0], b.shape[0]), dtype=out_dtype or torch.bfloat16)


def _scaled_tiles(device, m, n, k, blocks):
    if device.type == "cpu":
        cut = products.cpu_tiles(torch.float32, 1, m, n, k)
        return dataclasses.replace(cut, parts=1, **({"k": BLOCK, "n": min(cut.n, 64)} if blocks else {}))
    if blocks:
        # 128 x 128 with the two accumulators in the registers of eight warps; fewer rows for small products.
        block_m = step_up(m, (16, 32, 64, 128))
        processors = torch.cuda.get_device_properties(device).multi_processor_count
        if block_m == 128 and cdiv(m, 128) * cdiv(n, 128) < processors:
            block_m = 64
        cut = products.Tiles(block_m, 128, BLOCK, 1, 8, 8 if block_m == 128 else 4, 4)
        count, steps = cdiv(m, block_m) * cdiv(n, 128), cdiv(k, BLOCK)
        return dataclasses.replace(cut, parts=parts_of(count, steps, 2 * processors) if block_m < 128 else 1)
    cut = products.gpu_tiles(torch.cuda.get_device_properties(device).multi_processor_count, torch.int8, 1, m, n, cdiv(k, 2))
    return dataclasses.replace(cut, k=min(2 * cut.k, BLOCK) if cut.m > 16 else 2 * cut.k)


def parts_of(count, steps, wanted, least=4):
    """Into how many parts to cut `steps`, so that about `wanted` programs run; each has `least` steps or more."""
    return max(1, min(wanted // count, steps // least, 32))


def _aligned(unit, *numbers):
    return all(number % unit == 0 for number in numbers)


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
    (m, k), n = a.shape, b.shape[0]
    out = torch.empty((m, n), dtype=out_dtype or torch.bfloat16, device=a.device)
    if not out.numel():
        return out
    cut = _scaled_tiles(a.device, m, n, k, blocks)
    whole = a.dtype == torch.int8
    # CPUs have no products of 8-bit floats.
    operand = tl.float32 if a.device.type == "cpu" and not whole else None
    each, parts, workspace = cut_parts(out, m, n, cdiv(k, cut.k), cut.parts)
    aligned = _aligned(16, a.stride(0)) | _aligned(16, b.stride(0)) << 1 | _aligned(16, n) << 2 | _aligned(16, k) << 3
    reach = max(cut.m * a.stride(0) + cut.k * a.stride(1), cut.n * b.stride(0) + cut.k * b.stride(1), cut.m * n)
    arguments = {
        "out": out, "a": a, "b": b, "a_scale": a_scale, "b_scale": b_scale, "bias": bias if parts == 1 else None, "parts": workspace, "m_size": m, "n_size": n, "k_size": k,
        "tiles_of_part": each, "out_strides": (0, n, 1), "a_strides": a.stride(), "b_strides": b.stride(), "a_scale_strides": _scale_strides(a_scale),
        "b_scale_strides": _scale_strides(b_scale), "bias_strides": _bias_strides(bias)
    }
    constants = {
        "ACC": tl.int32 if whole else tl.float32, "OPERAND": operand, "PRECISION": "ieee", "BLOCKS": blocks, "A_ROWS": a_rows, "B_ROWS": b_rows, "A_UNIT": a.stride(1) == 1,
        "B_UNIT": b.stride(1) == 1, "ALIGNED": aligned, "MULTIPLE": 16, "EVEN": (m % cut.m == 0) | (n % cut.n == 0) << 1 | (k % cut.k == 0) << 2,
        "IN_ORDER": a.device.type == "cpu", "GROUP": cut.group, "BM": cut.m, "BN": cut.n, "BK": cut.k, "WIDE": reach > NARROW
    }
    launch(scaled_product, (cdiv(m, cut.m) * cdiv(n, cut.n), parts), a.device, arguments, constants, _SIZES, num_warps=cut.warps, num_stages=cut.stages)
    finish(out, workspace, bias, parts)
    return out


def _scale_strides(scale):
    return scale.stride() if scale.dim() == 2 else (scale.stride(0) if scale.dim() else 0, 0)


def _bias_strides(bias):
    return None if bias is None or bias.stride(0) == 1 else (0, 0, bias.stride(0))


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
