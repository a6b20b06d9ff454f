"""RMSNorm and LayerNorm, with the addition of a residual, and with quantised results."""

import pytest
import torch
import torch.nn.functional as F
from fused_checks import check, compare, layouts, random

from nereid.ops import fused

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def rms(x, weight=None, eps=1e-6, weight_offset=0.0):
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return y if weight is None else y * (weight + weight_offset)


def add_rms(x, residual, *others, dtype=torch.float64, **named):
    total = rounded(x + residual, dtype)
    return rms(total, *others, **named), total


def layer(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def add_layer(x, residual, *others, dtype=torch.float64, **named):
    total = rounded(x + residual, dtype)
    return layer(total, *others, **named), total


def rounded(x, dtype):
    """x as it is rounded to a dtype, with the gradient of x."""
    return x + (x.to(dtype).double() - x).detach()


def operands(shape, dtype, target):
    x, residual = random(*shape, dtype=dtype, device=target, scale=2), random(*shape, dtype=dtype, device=target, seed=1)
    return x, residual, random(shape[-1], dtype=dtype, device=target, seed=2), random(shape[-1], dtype=dtype, device=target, seed=3)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rms_norm(dtype, target):
    for shape in ((7, 33), (2, 3, 128), (1, 3), (0, 4), (3, 0), (5, )):
        x, residual, weight, _ = operands(shape, dtype, target)
        check(fused.rms_norm, rms, [x, weight], units=4)
        check(fused.add_rms_norm, lambda *given, **named: add_rms(*given, dtype=dtype, **named), [x, residual, weight], units=4, weight_offset=1.0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layer_norm(dtype, target):
    for shape in ((7, 33), (2, 3, 128), (0, 4), (3, 0), (5, )):
        x, residual, weight, bias = operands(shape, dtype, target)
        check(fused.layer_norm, layer, [x, weight, bias], units=4)
        check(fused.add_layer_norm, lambda *given, **named: add_layer(*given, dtype=dtype, **named), [x, residual, weight, bias], units=4)


def test_layer_norm_without_weight_or_bias(target):
    x, residual, weight, bias = operands((6, 40), torch.float32, target)
    for given in ((None, None), (weight, None), (None, bias)):
        check(fused.layer_norm, layer, [x, *given], units=8, eps=1e-2)
    check(fused.add_layer_norm, add_layer, [x, residual], units=8)


@pytest.mark.parametrize("rows,columns", [(2200, 20), (3, 2048), (270, 2500)])
def test_layer_norm_sizes(rows, columns, target):
    x, residual, weight, bias = operands((rows, columns), torch.float32, target)
    check(fused.add_layer_norm, add_layer, [x, residual, weight, bias], units=16)


def test_layer_norm_far_from_zero(target):
    """The variance is that of the differences from the mean: sums of squares would lose it."""
    x = random(4, 300, device=target) + 10000
    check(fused.layer_norm, layer, [x], units=4000, gradients=False)


def test_rms_norm_without_weight(target):
    x, residual, _, _ = operands((6, 40), torch.float32, target)
    check(fused.rms_norm, rms, [x], units=8, eps=1e-2)
    check(fused.add_rms_norm, add_rms, [x, residual], units=8)


@pytest.mark.parametrize("rows,columns", [(2200, 20), (3, 2048), (3, 2100), (270, 2500), (2, 16385)])
def test_rms_norm_sizes(rows, columns, target):
    """Several rows in a block, rows held whole, rows in a loop, and several rows of a program."""
    x, residual, weight, _ = operands((rows, columns), torch.float32, target)
    check(fused.add_rms_norm, add_rms, [x, residual, weight], units=16)


def test_strides(target):
    x, residual, weight, _ = operands((9, 40), torch.float32, target)
    for _, first in layouts(x):
        check(fused.rms_norm, rms, [first, weight], units=8)
        for _, second in layouts(residual):
            check(fused.add_rms_norm, add_rms, [first, second, weight], units=8)
    check(fused.rms_norm, rms, [random(4, 3, 2, 16, device=target).transpose(0, 2)[:, 1:], random(32, device=target)[::2]], units=8)


def test_only_one_result_is_used(target):
    x, residual, weight, _ = operands((4, 24), torch.float32, target)
    for which in (0, 1):
        check(lambda *given: fused.add_rms_norm(*given)[which], lambda *given: add_rms(*given)[which], [x, residual, weight], units=8)


def test_weight_of_another_dtype(target):
    x, _, weight, _ = operands((4, 24), torch.bfloat16, target)
    check(fused.rms_norm, rms, [x, weight.float()], units=4)


def test_special_values(target):
    x = torch.tensor([[0.0, 0, 0, 0], [1e-30, 0, 0, 0], [1e4, -1e4, 0, 1], [float("nan"), 1, 2, 3]], device=target)
    check(fused.rms_norm, rms, [x], units=4, gradients=False)


def test_gradient_of_weight_is_the_same_in_every_run(target):
    x, _, weight, _ = operands((600, 32), torch.float32, target)
    found = [torch.ops.nereid.rms_norm_backward(x, None, x, weight, 1e-6, 0.0)[1] for _ in range(3)]
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_errors(target):
    x, residual, weight, _ = operands((4, 24), torch.float32, target)
    with pytest.raises(ValueError, match=r"`weight` has shape \(23,\): expected \(24,\)"):
        fused.rms_norm(x, weight[:23])
    with pytest.raises(ValueError, match=r"`residual` has shape \(3, 24\): expected \(4, 24\)"):
        fused.add_rms_norm(x, residual[:3], weight)
    with pytest.raises(TypeError, match="`residual` has dtype torch.float64, `x` torch.float32"):
        fused.add_rms_norm(x, residual.double(), weight)
    with pytest.raises(TypeError, match="`x` has dtype torch.int64"):
        fused.rms_norm(x.long())
    with pytest.raises(ValueError, match="`x` has no dimensions"):
        fused.rms_norm(x[0, 0])
