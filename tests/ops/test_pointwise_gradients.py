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


# ---- second derivatives and higher ones -------------------------------------------------------------------


def gradgradcheck(function, *inputs):
    assert torch.autograd.gradgradcheck(function, inputs)


def test_gradgradcheck(target):
    gradgradcheck(lambda x, y: blend(x, y, 0.25), random(2, 3, device=target), random(2, 3, device=target))
    gradgradcheck(gated, random(2, 3, device=target), random(2, 3, device=target))
    gradgradcheck(sine_and_cosine, random(4, device=target))
    gradgradcheck(lambda x: sine_and_cosine(x)[1], random(4, device=target))
    gradgradcheck(lambda x: masked(x, torch.arange(3, device=target) % 2 == 0), random(2, 3, device=target))
    gradgradcheck(lambda x: leaky(x, 0.1), random(5, device=target))
    gradgradcheck(lambda x: gated(x, x), random(5, device=target))


def test_second_derivatives_of_broadcast_inputs_of_any_strides(target):
    for shapes in ((2, 3), (3, )), ((2, 1), (1, 3)), ((), (2, 3)), ((2, 1, 3), (2, 1)):
        gradgradcheck(gated, *(random(*shape, device=target) for shape in shapes))
    gradgradcheck(lambda x, y: gated(x.t(), y[:, ::2]), random(3, 2, device=target), random(2, 6, device=target))
    gradgradcheck(lambda x, y: gated(x, y).t()[1:], random(2, 3, device=target), random(3, device=target))
    gradgradcheck(lambda x, y: gated(x.expand(2, 3), y), random(3, device=target), random(2, 3, device=target))


def test_second_derivatives_beside_numbers(target):
    gradgradcheck(lambda x: gated(x, 0.3), random(4, device=target))
    gradgradcheck(lambda x: gated(0.3, x), random(4, device=target))
    gradgradcheck(lambda x: gated(x, torch.arange(4, device=target)), random(4, device=target))
    x, y = random(4, device=target), random(4, device=target)
    gradgradcheck(lambda x: gated(x, y.detach()), x)
    empty = torch.autograd.grad(gated(x[:0], y[:0]).sum(), x, create_graph=True)[0]
    assert torch.equal(torch.autograd.grad(empty.sum(), x)[0], torch.zeros_like(x))


def test_gradients_of_what_second_derivatives_read(target):
    """Sums of gradients of broadcast inputs, and a gradient that is not dense."""
    x, y, dy = random(3, device=target), random(2, 3, device=target), random(3, 2, device=target)

    def found(function):
        first = torch.autograd.grad(function(x, y), (x, y), dy.t(), create_graph=True)
        return torch.autograd.grad(first[0].square().sum() + first[1].sin().sum(), (x, y, dy))

    for one, other in zip(found(gated), found(lambda x, y: torch.nn.functional.silu(x) * y)):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_second_derivatives_of_dtypes(target, dtype):
    x, y = random(10, 300, dtype=dtype, device=target), random(300, dtype=torch.float32, device=target)
    wide = [each.detach().double().requires_grad_() for each in (x, y)]

    def penalty(function, inputs):
        first = torch.autograd.grad(function(*inputs).sum(), inputs, create_graph=True)
        return torch.autograd.grad((first[0] * first[1]).sum(), inputs)

    found, expected = penalty(gated, (x, y)), penalty(lambda x, y: torch.nn.functional.silu(x) * y, wide)
    assert [gradient.dtype for gradient in found] == [dtype, torch.float32]
    tolerance = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 1e-4}[dtype]
    for one, other in zip(found, expected):
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance * float(other.abs().max()))


@pytest.mark.parametrize("order", [3, 4])
def test_higher_derivatives(target, order):
    x, y = random(2, 3, device=target), random(3, device=target)

    def found(function):
        output = function(x, y)
        for _ in range(order):
            gradients = torch.autograd.grad(output.square().sum(), (x, y), create_graph=True)
            output = (gradients[0] * gradients[1]).sum() + gradients[0].sum()
        return gradients

    for one, other in zip(found(gated), found(lambda x, y: torch.nn.functional.silu(x) * y)):
        torch.testing.assert_close(one, other)


def test_third_derivatives_by_differences(target):
    x = random(3, device=target)
    gradgradcheck(lambda x: torch.autograd.grad(sine_and_cosine(x), x, torch.linspace(-1, 1, 6, dtype=F64, device=target).view(2, 3).unbind(), create_graph=True)[0], x)


def test_second_derivatives_have_one_owner(target):
    """No atomic additions."""
    second, x = _gradients._order(2), torch.ones(8)
    gradient = nereid.grad(_gradients._order(1).kernel, {"ins": "a", "d1_outs": "b"}, {"d1_ins": "c"})
    gradient.backward.warmup(_gated, (x, ), (x, x), (), 8, d1_outs=(x, ), d1_ins=(x, x), c=(x, x), a=(x, x), b=(x, ), COMMON=tl.float32, COMPUTE=tl.float32, RAW=0, NARROW=False, BLOCK=1024, grid=(1, ))
    assert gradient.explain().count("is stored by the program that owns it") == len(second.outputs) + 1


def test_refusals(target):
    x = random(4, device=target)
    with pytest.raises(RuntimeError, match=re.escape("_gated: a result in `out` has no gradient, and an input requires one")):
        gated(x, x, out=torch.empty(4, dtype=F64, device=target))
    with pytest.raises(nereid.CompilationError, match="lgamma"):
        nereid.ops.pointwise(unary.lgamma)(x).sum().backward()


def test_within_a_compiled_function():
    x, y = random(8), random(8)
    found = torch.autograd.grad(torch.compile(lambda x, y: gated(x.sin(), y).sum(), backend="aot_eager")(x, y), x)[0]
    torch.testing.assert_close(found, torch.autograd.grad(gated(x.sin(), y).sum(), x)[0])


def test_second_derivatives_within_a_compiled_function():
    x, y = random(8), random(8)

    def found(function):
        first, = torch.autograd.grad(function(x, y).sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), (x, y))

    for one, other in zip(found(torch.compile(gated, backend="aot_eager")), found(gated)):
        torch.testing.assert_close(one, other)
