"""Gradients of operators that `nereid.ops.pointwise` makes."""

import re

import nereid
import nereid.language as tl
import nereid.ops
import pytest
import torch
from nereid.ops import _gradients
from nereid.ops.functions import unary

F64 = torch.float64


@nereid.jit
def _blend(x, y, weight):
    return x + weight * (y - x)


@nereid.jit
def _gated(x, y):
    return x * tl.sigmoid(x) * y


@nereid.jit
def _sine_and_cosine(x):
    return tl.sin(x), tl.cos(x)


@nereid.jit
def _masked(x, mask):
    return tl.where(mask, x * x, tl.zeros_like(x))


@nereid.jit
def _leaky(x, slope):
    return tl.where(x > 0, x, x * slope)


@nereid.jit
def _floor(x):
    return tl.floor(x)


@nereid.jit
def _is_less(x, y):
    return x < y


blend = nereid.ops.pointwise(_blend, scalars=["weight"])
gated = nereid.ops.pointwise(_gated)
sine_and_cosine = nereid.ops.pointwise(_sine_and_cosine, results=2)
masked = nereid.ops.pointwise(_masked, raw=["mask"])
leaky = nereid.ops.pointwise(_leaky, scalars=["slope"])


def random(*shape, dtype=F64, device="cpu"):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape)), dtype=F64).to(device, dtype).requires_grad_()


def gradcheck(function, *inputs):
    assert torch.autograd.gradcheck(function, inputs)


def test_gradcheck(target):
    gradcheck(lambda x, y: blend(x, y, 0.25), random(3, 5, device=target), random(3, 5, device=target))
    gradcheck(gated, random(3, 5, device=target), random(3, 5, device=target))
    gradcheck(sine_and_cosine, random(7, device=target))
    gradcheck(lambda x: sine_and_cosine(x)[1], random(7, device=target))
    gradcheck(lambda x: masked(x, torch.arange(5, device=target) % 2 == 0), random(3, 5, device=target))


def test_broadcast_inputs_of_any_strides(target):
    for shapes in ((3, 5), (5, )), ((3, 1), (1, 5)), ((), (3, 5)), ((2, 1, 3), (4, 1)):
        gradcheck(gated, *(random(*shape, device=target) for shape in shapes))
    gradcheck(lambda x, y: gated(x.t(), y[:, ::2]), random(5, 3, device=target), random(3, 10, device=target))
    gradcheck(lambda x, y: gated(x, y).t()[1:], random(3, 5, device=target), random(5, device=target))  # gradients with strides of their own


def test_numbers_among_inputs(target):
    gradcheck(lambda x: gated(x, 0.3), random(4, device=target))
    gradcheck(lambda y: gated(0.3, y), random(4, device=target))
    gradcheck(lambda x: gated(x, torch.arange(4, device=target)), random(4, device=target))  # integers have no gradient


def test_numbers_keep_their_precision(target):
    x = random(4, device=target)
    blend(x, 1 / 3, 0.1).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((4, ), 1 - 0.1, dtype=F64, device=target), rtol=1e-15, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_dtypes(target, dtype):
    x, y = random(10, 300, dtype=dtype, device=target), random(300, dtype=torch.float32, device=target)
    found = torch.autograd.grad(gated(x, y).sum(), (x, y))
    assert [gradient.dtype for gradient in found] == [dtype, torch.float32]
    wide = [each.detach().double().requires_grad_() for each in (x, y)]
    expected = torch.autograd.grad((torch.nn.functional.silu(wide[0]) * wide[1]).sum(), wide)
    for one, other in zip(found, expected):
        torch.testing.assert_close(one.double(), other, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(leaky(x, 0.5), torch.where(x > 0, x, x * 0.5))


def test_what_has_no_gradient(target):
    x, y = random(4, device=target), random(4, device=target)
    assert not nereid.ops.pointwise(_is_less, "always_bool")(x, y).requires_grad
    assert torch.equal(torch.autograd.grad(nereid.ops.pointwise(_floor)(x).sum(), x)[0], torch.zeros(4, dtype=F64, device=target))
    with torch.no_grad():
        assert not gated(x, y).requires_grad
    gated(x, y.detach()).sum().backward()
    assert x.grad is not None and y.grad is None
    gated(random(0, device=target), y[:0]).sum().backward()
    out = torch.empty(4, dtype=F64, device=target)
    torch.testing.assert_close(gated(x.detach(), y.detach(), out=out), gated(x, y))


def test_each_element_has_one_owner(target):
    """No atomic additions."""
    x = torch.ones(8)
    gradient = nereid.grad(_gradients.kernels.dense, "ins", "outs")
    gradient.backward.warmup(_gated, (x, ), (x, x), (), 8, douts=(x, ), dins=(x, x), COMMON=tl.float32, COMPUTE=tl.float32, RAW=0, NARROW=False, BLOCK=1024,
                             grid=(1, ))
    assert gradient.explain().count("is stored by the program that owns it") == 2


def test_refusals(target):
    x = random(4, device=target)
    with pytest.raises(RuntimeError, match=re.escape("_gated: a result in `out` has no gradient, and an input requires one")):
        gated(x, x, out=torch.empty(4, dtype=F64, device=target))
    first = torch.autograd.grad(gated(x, x).sum(), x, create_graph=True)[0]
    with pytest.raises(NotImplementedError, match="_gated: second derivatives of operators made by `pointwise` are not supported"):
        first.sum().backward()
    with pytest.raises(nereid.CompilationError, match="lgamma"):
        nereid.ops.pointwise(unary.lgamma)(x).sum().backward()


def test_within_a_compiled_function():
    x, y = random(8), random(8)
    found = torch.autograd.grad(torch.compile(lambda x, y: gated(x.sin(), y).sum(), backend="aot_eager")(x, y), x)[0]
    torch.testing.assert_close(found, torch.autograd.grad(gated(x.sin(), y).sum(), x)[0])
