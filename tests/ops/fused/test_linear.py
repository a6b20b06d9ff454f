"""Linear layers with bias, activation and residual."""

import pytest
import torch
import torch.nn.functional as F
from fused_checks import check, layouts, random

from nereid.ops import fused

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
FUNCTIONS = {"none": lambda x: x, "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu}


def definition(x, weight, bias=None, activation="none", residual=None):
    y = FUNCTIONS[activation](F.linear(x, weight, bias))
    return y if residual is None else y + residual


def layer(m, n, k, dtype, target, bias=True, residual=True):
    """The tensors x, weight, bias, residual."""
    x = random(m, k, dtype=dtype, device=target)
    weight = random(n, k, dtype=dtype, device=target, scale=k**-0.5 if k else 1)
    return [x, weight, random(n, dtype=dtype, device=target) if bias else None, random(m, n, dtype=dtype, device=target, seed=3) if residual else None]


def in_order(operator, activation):
    return lambda x, weight, bias, residual: operator(x, weight, bias, activation, residual)


@pytest.mark.parametrize("activation", FUNCTIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_and_gradients(activation, dtype, target):
    residual = activation in ("none", "relu", "silu")
    tensors = layer(19, 40, 33, dtype, target, residual=residual)
    check(in_order(fused.linear, activation), in_order(definition, activation), tensors, units=8)


@pytest.mark.parametrize("shape", [(1, 24, 64), (16, 1, 40), (3, 130, 2048), (1, 7, 4099), (0, 4, 8), (4, 0, 8), (4, 8, 0)], ids=str)
def test_shapes(shape, target):
    """Vectors, sums in parts, empty dimensions; with what is saved for the gradient."""
    for dtype in (torch.float32, torch.bfloat16):
        check(in_order(fused.linear, "gelu_tanh"), in_order(definition, "gelu_tanh"), layer(*shape, dtype, target), units=16)


def test_gradient_of_the_operator_without_saved_values(target):
    check(in_order(torch.ops.nereid.linear, "silu"), in_order(definition, "silu"), layer(5, 16, 32, torch.float32, target), units=8)
    check(in_order(torch.ops.nereid.linear, "relu"), in_order(definition, "relu"), layer(5, 16, 32, torch.float32, target, residual=False), units=8)


def test_more_dimensions(target):
    x, weight = random(2, 3, 32, device=target), random(8, 32, device=target)
    check(lambda x, weight: fused.linear(x, weight), lambda x, weight: F.linear(x, weight), [x, weight], units=8)
    check(lambda x, weight: fused.linear(x, weight), lambda x, weight: F.linear(x, weight), [x.transpose(0, 1), weight], units=8)
    check(lambda x, weight: fused.linear(x, weight), lambda x, weight: F.linear(x, weight), [x[0, 0], weight], units=8)


def test_strides(target):
    x, weight, bias, residual = layer(9, 16, 24, torch.float32, target)
    for _, first in layouts(x)[1:]:
        check(in_order(fused.linear, "relu"), in_order(definition, "relu"), [first, weight, bias, residual], units=8)
    for _, second in layouts(weight)[1:]:
        check(in_order(fused.linear, "relu"), in_order(definition, "relu"), [x, second, bias, residual], units=8)
    for (_, third), (_, fourth) in zip([layouts(bias)[1], *layouts(bias)[1:]], layouts(residual)[1:]):
        check(in_order(fused.linear, "relu"), in_order(definition, "relu"), [x, weight, third, fourth], units=8)


def test_broadcast_residual(target):
    x, weight, bias, residual = layer(9, 16, 24, torch.float32, target)
    check(in_order(fused.linear, "none"), in_order(definition, "none"), [x, weight, bias, residual[:1].expand(9, 16)], units=8, gradients=False)


def test_special_values(target):
    x = torch.tensor([[float("inf"), 1.0], [float("nan"), 0.0], [-1e30, 0.0], [0.0, 0.0]], device=target)
    weight = torch.eye(2, device=target)[:1]
    for activation in ("none", "relu", "silu"):
        check(in_order(fused.linear, activation), in_order(definition, activation), [x[:, :1], weight[:, :1], None, None], units=4, gradients=False)


def swiglu_definition(x, gate_weight, up_weight):
    return F.silu(F.linear(x, gate_weight)) * F.linear(x, up_weight)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_swiglu(dtype, target):
    for m, n, k in ((19, 40, 33), (1, 24, 64), (0, 4, 8), (4, 8, 0)):
        tensors = [random(m, k, dtype=dtype, device=target), *(random(n, k, dtype=dtype, device=target, seed=i, scale=max(k, 1)**-0.5) for i in range(2))]
        check(fused.linear_swiglu, swiglu_definition, tensors, units=16)
    check(torch.ops.nereid.linear_swiglu, swiglu_definition, [random(3, 16, dtype=dtype, device=target), *(random(8, 16, dtype=dtype, device=target, seed=i) for i in range(2))], units=24)


def test_swiglu_strides(target):
    x, gate, up = random(2, 9, 24, device=target), random(16, 24, device=target), random(16, 24, device=target, seed=1)
    packed = random(32, 24, device=target)
    for weights in ((packed[:16], packed[16:]), (packed[::2], packed[1::2]), (gate.t().contiguous().t(), up.t().contiguous().t()), (gate, up.t().contiguous().t())):
        check(fused.linear_swiglu, swiglu_definition, [x, *weights], units=16)
    check(fused.linear_swiglu, swiglu_definition, [x.transpose(0, 1), gate, up], units=16)


def test_errors(target):
    x, weight = torch.ones(4, 8, device=target), torch.ones(3, 8, device=target)
    with pytest.raises(ValueError, match=r"`weight` has shape \(3, 7\): expected \(n, 8\)"):
        fused.linear(x, weight[:, :7])
    with pytest.raises(ValueError, match=r"`bias` has shape \(2,\): expected \(3,\)"):
        fused.linear(x, weight, torch.ones(2, device=target))
    with pytest.raises(ValueError, match=r"`residual` has shape \(3,\): expected \(4, 3\)"):
        fused.linear(x, weight, residual=torch.ones(3, device=target))
    with pytest.raises(ValueError, match="`activation` is 'tanh'"):
        fused.linear(x, weight, activation="tanh")
    with pytest.raises(TypeError, match="`weight` has dtype torch.float64, `x` torch.float32"):
        fused.linear(x, weight.double())
    with pytest.raises(ValueError, match=r"`up_weight` has shape \(2, 8\): expected \(3, 8\)"):
        fused.linear_swiglu(x, weight, weight[:2])
    with pytest.raises(TypeError, match="`x` has dtype torch.int32"):
        fused.linear(x.int(), weight.int())
