"""Linear layers with a low-rank change of their weights (Hu et al. 2021, "LoRA: low-rank adaptation of large language models")."""

import torch

import nereid.language as tl

from .. import products
from .._launch import launch
from .._strided import NARROW, cdiv
from ..grouped import precision_of
from ..kernels.lora import lora_product
from ..scaled import cut_parts, finish
from . import _arguments, _sharding
from ._declare import operator
from .linear import check_layer, linear_weight_backward, linear_x_backward, product_into, rows_of, wanted

_SIZES = {name: "i32" for name in ("m_size", "n_size", "k_size", "rank", "tiles_of_part")}
#: Up to these numbers of rows of a tile and of the rank, the low-rank product is computed along with the other one.
TOGETHER_ROWS, TOGETHER_RANK = 32, 64


def _check(x, weight, a, b, bias=None):
    shape = check_layer(x, weight, bias)
    check_layer(x, a, name="a")
    _arguments.one_dtype(x=x, b=b)
    _arguments.one_device(x=x, b=b)
    _arguments.shape(b, (weight.shape[0], a.shape[0]), "b")
    return shape


def _apply(x, weight, a, b, scale, bias):
    shape = _check(x, weight, a, b, bias)
    out = torch.empty(shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    x = rows_of(x)
    (m, k), (n, rank) = x.shape, b.shape
    matrix = out.view(m, n)
    if not k or not rank:
        return product_into(matrix, x, weight.t(), bias).view(shape)
    precision = precision_of(x)
    cut = products.tiles(x.device, x.dtype, 1, m, n, k, precision)
    low, step = None, max(16, 1 << (rank - 1).bit_length())
    if cut.m > TOGETHER_ROWS or rank > TOGETHER_RANK:
        low, step = torch.empty((m, rank), dtype=x.dtype, device=x.device), min(step, 32)
        product_into(low, x, a.t(), alpha=scale)
    acc = tl.float64 if x.dtype == torch.float64 else tl.float32
    each, parts, workspace = cut_parts(matrix, m, n, cdiv(k, cut.k), cut.parts)
    unit = 16 // x.element_size()
    w_unit = "k" if weight.stride(1) == 1 else "n" if weight.stride(0) == 1 else None
    multiple = [number % unit == 0 for number in (x.stride(0), weight.stride(1 if w_unit == "n" else 0), n, k, a.stride(0))]
    multiple.append(b.stride(0) % unit == 0 and rank % unit == 0)
    reach = max(cut.k * x.stride(1), cut.n * weight.stride(0) + cut.k * weight.stride(1), cut.m * n)
    arguments = {
        "out": matrix, "x": x, "weight": weight, "a": a, "b": b, "low": low, "bias": bias if parts == 1 else None, "parts": workspace, "scale": float(scale), "m_size": m, "n_size": n,
        "k_size": k, "rank": rank, "tiles_of_part": each, "out_strides": (0, n, 1), "x_strides": x.stride(), "weight_strides": weight.stride(), "a_strides": a.stride(),
        "b_strides": b.stride(), "bias_strides": None if bias is None or bias.stride(0) == 1 else (0, 0, bias.stride(0))
    }
    constants = {
        "ACC": acc, "PRECISION": precision, "X_UNIT": x.stride(1) == 1, "W_UNIT": w_unit, "A_UNIT": a.stride(1) == 1, "B_UNIT": b.stride(1) == 1, "ALIGNED": sum(flag << i for i, flag in enumerate(multiple)),
        "MULTIPLE": unit, "EVEN": (m % cut.m == 0) | (n % cut.n == 0) << 1 | (k % cut.k == 0) << 2, "IN_ORDER": x.device.type == "cpu", "GROUP": cut.group, "BM": cut.m, "BN": cut.n, "BK": cut.k,
        "BR": step, "WIDE": reach > NARROW
    }
    launch(lora_product, (cdiv(m, cut.m) * cdiv(n, cut.n), parts), x.device, arguments, constants, _SIZES, num_warps=cut.warps, num_stages=cut.stages)
    finish(matrix, workspace, bias, parts)
    return out


def _save(ctx, inputs, output):
    x, weight, a, b, *rest = inputs
    ctx.save_for_backward(x, weight, a, b)
    ctx.scale = rest[0] if rest else 1.0


def _backward(ctx, grad):
    x, weight, a, b = ctx.saved_tensors
    needs = wanted(ctx, 6)
    of_x = lora_linear(grad, weight.t(), b.t(), a.t(), ctx.scale) if needs[0] else None
    of_a = linear_weight_backward(linear_x_backward(grad, b) * ctx.scale, x) if needs[2] else None
    of_b = linear_weight_backward(grad, torch.ops.nereid.linear(x, a) * ctx.scale) if needs[3] else None
    return (of_x, linear_weight_backward(grad, x) if needs[1] else None, of_a, of_b, None,
            grad.sum(tuple(range(grad.dim() - 1))) if needs[5] and grad.dim() > 1 else grad if needs[5] else None)


def _fake(x, weight, a, b, scale=1.0, bias=None):
    return x.new_empty(_check(x, weight, a, b, bias))


@operator("lora_linear(Tensor x, Tensor weight, Tensor a, Tensor b, float scale=1., Tensor? bias=None) -> Tensor", fake=_fake, backward=_backward, save=_save,
          sharding=_sharding.low_rank)
def lora_linear(x, weight, a, b, scale, bias):
    """x @ weight.T + scale * (x @ a.T) @ b.T + bias, with gradients of all tensors.

    x: (..., k); weight: (n, k); a: (rank, k); b: (n, rank); bias: (n,) or None; of one float dtype and device, any strides. The result (..., n) is contiguous.

    One launch where tiles have few rows (a step of decoding) and the rank is at most 64: the low-rank product is computed along with the other one, from the same tiles of `x`. Else x @ a.T is a
    launch before, and its product with `b` goes on in the sums of the other one. (One more launch adds parts of k.) Sums are in fp32 (fp64 for fp64); scale * x @ a.T is
    rounded to the dtype of `x`, for each part of k in the first case.

    Raises TypeError for other dtypes, ValueError for shapes or devices that do not fit.
    """
    return _apply(x, weight, a, b, scale, bias)
