"""Linear layers with a low-rank change of their weights."""

import pytest
import torch
from fused_checks import check, layouts, random

from nereid.ops import fused

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def layer(m, n, k, rank, dtype, target, bias=True):
    """The tensors x, weight, a, b, bias."""
    return [
        random(m, k, dtype=dtype, device=target), random(n, k, dtype=dtype, device=target, scale=max(k, 1)**-0.5),
        random(rank, k, dtype=dtype, device=target, seed=1, scale=max(k, 1)**-0.5), random(n, rank, dtype=dtype, device=target, seed=2, scale=max(rank, 1)**-0.5),
        random(n, dtype=dtype, device=target) if bias else None
    ]


def ours(x, weight, a, b, bias):
    return fused.lora_linear(x, weight, a, b, 0.7, bias)


def definition(x, weight, a, b, bias):
    y = x @ weight.t() + 0.7 * (x @ a.t()) @ b.t()
    return y if bias is None else y + bias


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("m,rank", [(5, 8), (70, 8), (5, 80), (70, 80)], ids=str)
def test_values_and_gradients(m, rank, dtype, target):
    """One launch and two."""
    check(ours, definition, layer(m, 40, 33, rank, dtype, target), units=16)


@pytest.mark.parametrize("shape", [(1, 24, 64, 1), (1, 1, 4099, 4), (3, 20, 2048, 16), (40, 20, 2048, 100), (0, 4, 8, 2), (4, 0, 8, 2), (4, 8, 0, 2), (4, 8, 8, 0)], ids=str)
def test_shapes(shape, target):
    for bias in (False, True):
        check(ours, definition, layer(*shape, torch.float32, target, bias), units=32)


def test_strides_and_dimensions(target):
    x, weight, a, b, bias = layer(6, 16, 24, 4, torch.float32, target)
    for i in range(1, 4):
        strided = [layouts(tensor)[i][1] for tensor in (x, weight, a, b)]
        check(ours, definition, [*strided, layouts(bias)[-1][1]], units=16)
    check(ours, definition, [x.view(2, 3, 24).transpose(0, 1), weight, a, b, bias], units=16)
    check(ours, definition, [x[0], weight, a, b, bias], units=16)


def test_gradients_by_differences(target):
    tensors = [tensor.requires_grad_() for tensor in layer(3, 4, 5, 2, torch.float64, target)]
    assert torch.autograd.gradcheck(ours, tensors)


def test_errors(target):
    x, weight, a, b, bias = layer(4, 3, 8, 2, torch.float32, target)
    with pytest.raises(ValueError, match=r"`a` has shape \(2, 7\): expected \(n, 8\)"):
        fused.lora_linear(x, weight, a[:, :7], b)
    with pytest.raises(ValueError, match=r"`b` has shape \(3, 1\): expected \(3, 2\)"):
        fused.lora_linear(x, weight, a, b[:, :1])
    with pytest.raises(ValueError, match=r"`bias` has shape \(2,\): expected \(3,\)"):
        fused.lora_linear(x, weight, a, b, 1.0, bias[:2])
    with pytest.raises(TypeError, match="`b` has dtype torch.float64, `x` torch.float32"):
        fused.lora_linear(x, weight, a, b.double())
