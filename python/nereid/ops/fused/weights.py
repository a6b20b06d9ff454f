"""Linear layers with weights in 8 or 4 bits and activations in 16 or 32: a fourth or half of the bytes that a step of few tokens has to read.

Layout of 4-bit weights (n, k): uint8 (n, 64 * ceil(k / 128)). Byte j of block b of 64 bytes holds the numbers of k = 128 b + j (low four bits) and of k = 128 b + 64 + j (high
four bits); what is behind k is anything. Numbers are from 0 to 15; a weight is (number - zero) * scale, with zeros from 0 to 15 in uint8, or 8 without zeros.
"""

import torch

import nereid.language as tl

from .._launch import DTYPES, launch
from .._strided import NARROW, cdiv, step_up
from .. import products
from ..products import fp32_precision
from ..kernels import weights as kernels
from ..scaled import cut_parts, finish, parts_of
from . import _arguments, _sharding
from ._declare import operator
from .linear import linear_x_backward, rows_of, wanted

FLOATS = (torch.float16, torch.bfloat16, torch.float32)
#: Bytes of expanded weights that exist at a time.
EXPANDED = 2**27
_SIZES = {name: "i32" for name in ("m_size", "n_size", "k_size", "groups", "blocks_of_part", "group_size")}


def _check_group(group):
    if group and group != 32 and (group < 64 or group % 64):
        raise ValueError(f"`group` is {group}: expected 0 (one group), 32 or a multiple of 64")


def _groups(k, group):
    return cdiv(k, group) if group else 1


def quantize_int4(weight, group=128, symmetric=False):
    """(packed, scale, zero) of weights (n, k) for `linear_int4`, by rounding to the nearest: no operator, made of PyTorch's.

    Each `group` of k (0: all of a row; 32 or a multiple of 64) has a scale and a zero, such that its least and greatest weights (0 among them) are numbers from 0 to 15. With symmetric=True
    zero is None, which stands for 8: numbers are 1 to 15, of magnitudes of at most 7. packed: uint8 in the layout of this module; scale: (n, groups), of the weight's dtype; zero:
    uint8 (n, groups). Infinities and NaN have no number: results are undefined for their groups.

    Raises TypeError for dtypes other than float16, bfloat16 and float32, ValueError for shapes and groups that do not fit.
    """
    _check_group(group)
    if weight.dtype not in FLOATS:
        raise TypeError(f"`weight` has dtype {weight.dtype}: expected float16, bfloat16 or float32")
    if weight.dim() != 2 or not weight.numel():
        raise ValueError(f"`weight` has shape {tuple(weight.shape)}: expected (n, k), both at least 1")
    n, k = weight.shape
    groups = _groups(k, group)
    width = group or k
    grouped = torch.nn.functional.pad(weight.float(), (0, groups * width - k)).view(n, groups, width)
    if symmetric:
        scale = (grouped.abs().amax(2) / 7).to(weight.dtype)
        zero = None
    else:
        low, high = grouped.amin(2).clamp(max=0), grouped.amax(2).clamp(min=0)
        scale = ((high - low) / 15).to(weight.dtype)
    # Numbers for the scale as it is kept. A group of zeros has the scale 0.
    divisor = torch.where(scale == 0, 1, scale).float()
    if not symmetric:
        zero = (-low / divisor).round().clamp(0, 15).to(torch.uint8)
    middle = 8 if zero is None else zero.float().unsqueeze(2)
    numbers = ((grouped / divisor.unsqueeze(2)).round() + middle).clamp(1 if symmetric else 0, 15).to(torch.uint8).view(n, -1)[:, :k]
    halves = torch.nn.functional.pad(numbers, (0, -k % 128)).view(n, -1, 2, 64)
    return (halves[:, :, 0] | halves[:, :, 1] << 4).reshape(n, -1), scale, zero


def _check_weights(weight, scale, zero, group, k, bits):
    """Raises what the operators say about weights (n, k); n."""
    _check_group(group)
    kind, width = (torch.uint8, 64 * cdiv(k, 128)) if bits == 4 else (torch.int8, k)
    if weight.dtype != kind:
        raise TypeError(f"`weight` has dtype {weight.dtype}: expected {str(kind)[6:]}")
    if weight.dim() != 2 or weight.shape[1] != width:
        raise ValueError(f"`weight` has shape {tuple(weight.shape)}: expected (n, {width}), as k is {k}")
    n = weight.shape[0]
    if scale.dtype not in FLOATS:
        raise TypeError(f"`scale` has dtype {scale.dtype}: expected float16, bfloat16 or float32")
    if not (tuple(scale.shape) == (n, ) and _groups(k, group) == 1):
        _arguments.shape(scale, (n, _groups(k, group)), "scale")
    if zero is not None:
        if zero.dtype != torch.uint8:
            raise TypeError(f"`zero` has dtype {zero.dtype}: expected uint8")
        _arguments.shape(zero, scale.shape, "zero")
    _arguments.one_device(weight=weight, scale=scale, zero=zero)
    return n


def _check_linear(x, weight, scale, zero, bias, group, bits):
    if x.dtype not in FLOATS:
        raise TypeError(f"`x` has dtype {x.dtype}: expected float16, bfloat16 or float32")
    if x.dim() < 1:
        raise ValueError("`x` has no dimensions: expected (..., k)")
    n = _check_weights(weight, scale, zero, group, x.shape[-1], bits)
    _arguments.one_device(x=x, weight=weight, bias=bias)
    _arguments.floats(bias=bias)
    _arguments.shape(bias, (n, ), "bias")
    return (*x.shape[:-1], n)


def _dense(x):
    return x if x.stride(-1) == 1 else x.contiguous()


def _tile(device, m, n, k, group):
    """(tokens, weights, warps, stages, parts of k)."""
    blocks = cdiv(k, 128)
    if device.type == "cpu":
        block_m, block_n = step_up(m, (4, 16, 64)), step_up(n, (16, 64))
        return block_m, block_n, 4, 3, parts_of(cdiv(m, block_m) * cdiv(n, block_n), blocks, 8) if m * n <= 64 * 64 else 1
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    # With groups of 32, four scales and zeros are on the way beside the sums: 128 tokens would not fit the registers.
    block_m = step_up(m, (16, 32, 64) if group == 32 else (16, 32, 64, 128))
    # A step of few tokens is as fast as its weights are read: small tiles, of which several run on a multiprocessor, and all of k in parts.
    block_n, warps, stages = (64, 4, 4) if m <= 64 else (128, 8, 3)
    count = cdiv(m, block_m) * cdiv(n, block_n)
    return block_m, block_n, warps, stages, parts_of(count, blocks, 4 * processors if block_m <= 32 else processors)


def _expands(x):
    """Whether weights are expanded to 16 bits before the product with `x` (m, k): each tile of tokens would expand them again, and reading them counts little."""
    return x.device.type == "cuda" and x.shape[0] >= 256 and x.dtype != torch.float32


def _expanded_product(out, x, weight, scale, zero, bias, group, bits):
    """out = x @ w.T + bias with expanded weights, so many rows of them at a time as fit EXPANDED bytes."""
    (m, k), n = x.shape, weight.shape[0]
    rows = max(256, EXPANDED // (k * x.element_size()) // 256 * 256)
    of_rows = lambda tensor, first: tensor if tensor is None or rows >= n else tensor[first:first + rows]
    for first in range(0, n, rows):
        w = _expand(*[of_rows(tensor, first) for tensor in (weight, scale, zero)], group, k, x.dtype, bits)
        products.multiply(out if rows >= n else out[:, first:first + rows], x, w, of_rows(bias, first), (1, m, w.shape[0], k),
                          ((0, n, 1), (0, 0, *x.stride()), (0, 0, 1, k), (0, 0, bias.stride(0) if bias is not None else 0)))


def _product(x, weight, scale, zero, bias, group, bits):
    shape = _check_linear(x, weight, scale, zero, bias, group, bits)
    out = torch.empty(shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    x, weight, scale, zero = _dense(rows_of(x)), _dense(weight), scale.contiguous(), zero.contiguous() if zero is not None else None
    (m, k), n = x.shape, weight.shape[0]
    if _expands(x):
        _expanded_product(out.view(m, n), x, weight, scale, zero, bias, group, bits)
        return out
    block_m, block_n, warps, stages, parts = _tile(x.device, m, n, k, group)
    matrix = out.view(m, n)
    each, parts, workspace = cut_parts(matrix, m, n, cdiv(k, 128), parts)
    cpu = x.device.type == "cpu"
    unit = 16 // x.element_size()
    group = 0 if _groups(k, group) == 1 else group
    arguments = {
        "out": matrix, "x": x, "weight": weight, "scale": scale, "zero": zero, "bias": bias if parts == 1 else None, "parts": workspace, "m_size": m, "n_size": n, "k_size": k,
        "groups": _groups(k, group), "blocks_of_part": each, "out_strides": (0, n, 1), "x_stride": x.stride(0), "weight_stride": weight.stride(0),
        "bias_strides": None if bias is None or bias.stride(0) == 1 else (0, 0, bias.stride(0))
    }
    aligned = (x.stride(0) % unit == 0) | (weight.stride(0) % 16 == 0) << 1 | (n % unit == 0) << 2 | (k % unit == 0) << 3 | (not cpu and _groups(k, group) % 4 == 0) << 4
    constants = {
        "BITS": bits, "GROUP": group, "OPERAND": tl.float32 if cpu else DTYPES[x.dtype], "PRECISION": fp32_precision(x.device) if x.dtype == torch.float32 else "ieee", "ALIGNED": aligned,
        "MULTIPLE": unit, "EVEN": (m % block_m == 0) | (n % block_n == 0) << 1 | (k % 128 == 0) << 2, "TOGETHER": 8, "BM": block_m, "BN": block_n, "WIDE": block_m * n > NARROW
    }
    launch(kernels.weight_product, (cdiv(m, block_m) * cdiv(n, block_n), parts), x.device, arguments, constants, _SIZES, num_warps=warps, num_stages=stages)
    finish(matrix, workspace, bias, parts)
    return out


def _expand(weight, scale, zero, group, k, dtype, bits):
    n = _check_weights(weight, scale, zero, group, k, bits)
    out = torch.empty((n, k), dtype=dtype, device=weight.device)
    if not out.numel():
        return out
    weight = _dense(weight)
    arguments = {
        "out": out, "weight": weight, "scale": scale.contiguous(), "zero": zero.contiguous() if zero is not None else None, "n_size": n, "k_size": k, "groups": _groups(k, group),
        "group_size": group or k, "weight_stride": weight.stride(0)
    }
    unit = 16 // out.element_size()
    constants = {"BITS": bits, "PIECE": 32 if group == 32 else 64, "ALIGNED": (k % unit == 0) | (weight.stride(0) % 16 == 0) << 1, "MULTIPLE": unit, "ROWS": 32}
    launch(kernels.expand_weights, (cdiv(n, 32), cdiv(k, 128)), out.device, arguments, constants, _SIZES, num_warps=4)
    return out


def _fake_expanded(weight, scale, zero, group, k, dtype, bits):
    if dtype not in FLOATS:
        raise TypeError(f"`dtype` is {dtype}: expected float16, bfloat16 or float32")
    return weight.new_empty((_check_weights(weight, scale, zero, group, k, bits), k), dtype=dtype)


@operator("dequantize_int4(Tensor weight, Tensor scale, Tensor? zero, int k, int group=128, ScalarType? dtype=None) -> Tensor",
          fake=lambda weight, scale, zero, k, group=128, dtype=None: _fake_expanded(weight, scale, zero, group, k, dtype or scale.dtype, 4))
def dequantize_int4(weight, scale, zero, k, group, dtype):
    """The weights (n, k) that `quantize_int4` has put into 4 bits, rounded to `dtype`: float16, bfloat16 or float32, by default that of `scale`. No gradient.

    Raises TypeError for other dtypes, ValueError for shapes, devices and groups that do not fit.
    """
    dtype = dtype or scale.dtype
    if dtype not in FLOATS:
        raise TypeError(f"`dtype` is {dtype}: expected float16, bfloat16 or float32")
    return _expand(weight, scale, zero, group, k, dtype, 4)


@operator("linear_quantized_x_backward(Tensor grad, Tensor weight, Tensor scale, Tensor? zero, int group, int k, int bits) -> Tensor",
          fake=lambda grad, weight, scale, zero, group, k, bits: grad.new_empty((*grad.shape[:-1], k)))
def linear_quantized_x_backward(grad, weight, scale, zero, group, k, bits):
    """The gradient of `x`: grad @ the expanded weights."""
    return linear_x_backward(grad, _expand(weight, scale, zero, group, k, grad.dtype, bits))


def _save(bits):

    def save(ctx, inputs, output):
        # The dispatcher leaves out trailing arguments that have their defaults.
        given = dict(zip(("x", "weight", "scale", "zero", "bias", "group") if bits == 4 else ("x", "weight", "scale", "bias", "group"), inputs))
        ctx.save_for_backward(given["weight"], given["scale"], given.get("zero"))
        ctx.group, ctx.k = given.get("group", 128 if bits == 4 else 0), given["x"].shape[-1]

    return save


def _backward(bits):

    def backward(ctx, grad):
        needs = wanted(ctx, 6)
        weight, scale, zero = ctx.saved_tensors
        x = linear_quantized_x_backward(grad, weight, scale, zero, ctx.group, ctx.k, bits) if needs[0] else None
        at = 4 if bits == 4 else 3
        return x, *[grad.sum(tuple(range(grad.dim() - 1))) if i == at and needs[i] else None for i in range(1, at + 2)]

    return backward


@operator("linear_int4(Tensor x, Tensor weight, Tensor scale, Tensor? zero=None, Tensor? bias=None, int group=128) -> Tensor",
          fake=lambda x, weight, scale, zero=None, bias=None, group=128: x.new_empty(_check_linear(x, weight, scale, zero, bias, group, 4)), backward=_backward(4), save=_save(4),
          sharding=_sharding.quantized_layer(True))
def linear_int4(x, weight, scale, zero, bias, group):
    """x @ w.T + bias with weights w = (number - zero) * scale in 4 bits; gradients of `x` and `bias`.

    x: (..., k), float16, bfloat16 or float32, any strides. weight, scale, zero: as `quantize_int4` yields them, uint8 (n, 64 * ceil(k / 128)) in the layout of this module, (n, groups) of a float
    dtype of up to 32 bits, uint8 (n, groups) or None for 8. group: of `quantize_int4`. bias: (n,) or None. The result (..., n) is contiguous.

    Numbers minus zeros are multiplied exactly, and scales multiply the fp32 sums of groups: weights are not rounded to 16 bits. On GPUs products of 256 rows of 16-bit numbers and more expand
    them first, rounded to the dtype of `x`, at most 128 MiB of them at a time; so does the gradient of `x`.

    Raises TypeError for other dtypes, ValueError for shapes, devices and groups that do not fit.
    """
    return _product(x, weight, scale, zero, bias, group, 4)


@operator("linear_int8(Tensor x, Tensor weight, Tensor scale, Tensor? bias=None, int group=0) -> Tensor",
          fake=lambda x, weight, scale, bias=None, group=0: x.new_empty(_check_linear(x, weight, scale, None, bias, group, 8)), backward=_backward(8), save=_save(8),
          sharding=_sharding.quantized_layer(False))
def linear_int8(x, weight, scale, bias, group):
    """x @ (weight * scale).T + bias with int8 weights; otherwise as `linear_int4`.

    weight: (n, k), int8; scale: (n,) or (n, 1), or with a group of 32 or a multiple of 64 (n, ceil(k / group)). `quantize(w, dtype=torch.int8, group=group)` makes both.
    """
    return _product(x, weight, scale, None, bias, group, 8)
