"""Derivatives that authors write: `nereid.derivative`, `tl.detach`, `tl.with_tangent`."""

import re

import grad_check
import jvp_check
import nereid
import nereid.language as tl
import pytest
import torch
from nereid.language.extra import libdevice

F64 = torch.float64


def zeros(*shape):
    return torch.zeros(*shape, dtype=F64)


@nereid.jit
def softplus(x):
    return tl.log(1 + tl.exp(x))


@nereid.derivative(softplus)
@nereid.jit
def softplus_tangent(x, dx):
    return dx * tl.sigmoid(x)


@nereid.jit
def weighted(x, w, n, SCALE: tl.constexpr = 2):
    """An integer and a constexpr among the parameters, two results."""
    return SCALE * x * w + n, x + w


@nereid.derivative(weighted)
@nereid.jit
def weighted_tangent(x, w, n, SCALE: tl.constexpr, dx, dw):
    return 3 * SCALE * dx * w + SCALE * x * dw, dx - dw


@nereid.jit
def gamma(x):
    """The compiler has no rule of its own for this function."""
    return libdevice.lgamma(x)


@nereid.derivative(gamma)
@nereid.jit
def gamma_tangent(x, dx):
    return dx * (tl.log(x) - 0.5 / x)


@nereid.jit
def applies(x, y, n, F: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, F(tl.load(x + i, mask=i < n, other=1.0)), mask=i < n)


def slopes(function, x):
    """The derivatives in forward and in reverse mode."""
    y, dy, dx = zeros(len(x)), zeros(len(x)), zeros(len(x))
    ones = torch.ones(len(x), dtype=F64)
    nereid.jvp(applies, "x", "y")[(1, )](x, y, len(x), function, 64, dx=ones, dy=dy)
    nereid.grad(applies, "x", "y").backward[(1, )](x, zeros(len(x)), len(x), function, 64, dx=dx, dy=ones)
    torch.testing.assert_close(dx, dy)
    return y, dx


def test_values_stay_what_they_are(target):
    x = jvp_check.random(50)
    y = zeros(50)
    applies[(1, )](x, y, 50, softplus, 64)
    torch.testing.assert_close(y, torch.nn.functional.softplus(x))


def test_a_rule_that_is_stable(target):
    """exp(1000) is infinite: the compiler's own derivative is not a number."""
    x = torch.tensor([-2.0, 0.0, 1.0, 1000.0], dtype=F64)
    y, slope = slopes(softplus, x)
    assert torch.isinf(y[3])
    torch.testing.assert_close(slope, torch.sigmoid(x))


def test_a_rule_where_the_compiler_has_none(target):
    x = jvp_check.random(50).abs() + 1
    y, slope = slopes(gamma, x)
    torch.testing.assert_close(y, torch.lgamma(x))
    torch.testing.assert_close(slope, torch.log(x) - 0.5 / x)


@nereid.jit
def with_two_results(x, w, y, z, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b = weighted(tl.load(x + i, mask=i < n), tl.load(w + i, mask=i < n), n)
    tl.store(y + i, a, mask=i < n)
    tl.store(z + i, b * b, mask=i < n)


def test_several_parameters_and_results(target):
    x, w = jvp_check.random(20), jvp_check.random(20)
    arguments = dict(x=x, w=w, y=zeros(20), z=zeros(20), n=20)
    dy, dz = jvp_check.random(20), jvp_check.random(20)
    found = grad_check.gradients(with_two_results, (1, ), arguments, ("x", "w"), ("y", "z"), dict(y=dy, z=dz), BLOCK=32)
    through = 2 * (x + w) * dz
    torch.testing.assert_close(found["x"], 6 * w * dy + through)
    torch.testing.assert_close(found["w"], 2 * x * dy - through)
    grad_check.check(with_two_results, (1, ), arguments, ("x", "w"), ("y", "z"), BLOCK=32)


def test_numbers_as_arguments(target):

    @nereid.jit
    def half(x, y, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, mask=i < n) * softplus(0.5), mask=i < n)

    found = grad_check.check(half, (1, ), dict(x=jvp_check.random(20), y=zeros(20), n=20), ("x", ), ("y", ), rtol=1e-6, BLOCK=32)
    assert not torch.isnan(found["x"]).any()


@nereid.jit
def _detached(x):
    return x * tl.detach(x * x)


@nereid.jit
def _detached_by_package(x):
    return x * nereid.detach(x * x)


@nereid.jit
def _straight_through(x):
    return tl.with_tangent(tl.floor(x), x) * 3


def test_detach(target):
    x = jvp_check.random(50)
    for function in (_detached, _detached_by_package):
        y, slope = slopes(function, x)
        torch.testing.assert_close(y, x**3)
        torch.testing.assert_close(slope, x * x)


def test_straight_through(target):
    x = jvp_check.random(50) * 3
    y, slope = slopes(_straight_through, x)
    torch.testing.assert_close(y, torch.floor(x) * 3)
    torch.testing.assert_close(slope, torch.full_like(x, 3))


def test_code_without_derivatives_has_no_traces():
    x = torch.zeros(64, dtype=F64)
    for machine in ("cpu", "cuda:90"):
        tile = applies.warmup(x, x, 64, softplus, 64, grid=(1, ), target=machine).asm["tile"]
        assert "with_tangent" not in tile and "sigmoid" not in tile and tile.count("math.exp") == 1
        assert "with_tangent" not in nereid.grad(applies, "x", "y").backward.warmup(x, x, 64, softplus, 64, dx=x, dy=x, grid=(1, ), target=machine).asm["tile"]


# ---- refusals --------------------------------------------------------------------------------------------


@nereid.jit
def _square(x):
    return x * x


@nereid.derivative(_square)
@nereid.jit
def _not_linear(x, dx):
    return dx * dx


@nereid.jit
def _cube(x):
    return x * x * x


@nereid.derivative(_cube)
@nereid.jit
def _not_linear_either(x, dx):
    return tl.abs(dx) * x


@pytest.mark.parametrize("function", [_square, _cube])
def test_rules_that_are_not_linear_are_refused(function):
    with pytest.raises(nereid.CompilationError, match="a rule that is not linear in tangents cannot be differentiated"):
        slopes(function, jvp_check.random(8))


def test_rules_that_do_not_fit():

    def make():

        @nereid.jit
        def function(x, n):
            return x * n

        return function

    def refused(error, message, function, rule):
        with pytest.raises(error, match=re.escape(message)):
            nereid.derivative(function)(rule)

    @nereid.jit
    def other_names(y, dy):
        return dy

    @nereid.jit
    def no_tangent(x, n):
        return x

    @nereid.jit
    def unknown_tangent(x, n, dy):
        return dy

    refused(ValueError, "`other_names` takes `y`, `dy`: a rule of `function` takes `x`, `n`, then `d` and a name for each of them that has a tangent", make(), other_names)
    refused(ValueError, "`no_tangent` takes `x`, `n`", make(), no_tangent)
    refused(ValueError, "`unknown_tangent` takes `x`, `n`, `dy`", make(), unknown_tangent)
    refused(TypeError, "a rule is a function made with @jit, found int", make(), 3)
    with pytest.raises(TypeError, match="derivative needs a function made with @jit, found int"):
        nereid.derivative(3)
    refused(ValueError, "`softplus` has a rule already", softplus, softplus_tangent)


def test_rules_come_before_the_first_use():

    @nereid.jit
    def late(x):
        return x * x

    x = torch.zeros(8, dtype=F64)
    applies.warmup(x, x, 8, late, 8, grid=(1, ))
    with pytest.raises(RuntimeError, match="`late` is part of a compiled kernel already: give its derivative where it is defined"):
        nereid.derivative(late)(softplus_tangent)


def test_types_of_tangents():
    with pytest.raises(nereid.CompilationError, match=re.escape("`with_tangent` takes floats, found int64")):

        @nereid.jit
        def integers(x):
            return tl.with_tangent(x.to(tl.int64), x)

        slopes(integers, jvp_check.random(8))
