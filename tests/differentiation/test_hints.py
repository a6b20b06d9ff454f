"""What authors say about gradients in kernels: values to save, states to compute again, bounds of loops."""

import re

import grad_check
import jvp_check
import nereid
import nereid.language as tl
import pytest
import torch
from test_autograd import given, route  # noqa: F401
from test_grad import of_text, refused, zeros

F64 = torch.float64


def tile_of(kernel, arguments, wrt, out, **options):
    """The tile IR of the gradient kernel."""
    gradient = nereid.grad(kernel, wrt, out)
    gradient.backward.warmup(**arguments, **{f"d{name}": torch.zeros_like(arguments[name]) for name in (*wrt, *out)}, grid=(1, ), **options)
    (compiled, _), = gradient.backward._compiled()
    return compiled.asm["tile"]


# ---- values that the kernel saves -------------------------------------------------------------------------


@nereid.jit
def norm(x, w, y, rstd, rows, n, eps, M: tl.constexpr, N: tl.constexpr, SAVE: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    i = tl.arange(0, N)[None, :]
    mask = (row < rows)[:, None] & (i < n)
    v = tl.load(x + row[:, None] * n + i, mask=mask, other=0.0)
    r = tl.rsqrt(tl.sum(v * v, 1) / n + eps)
    if SAVE:
        r = tl.save(r, rstd + row, mask=row < rows, other=1.0)
    tl.store(y + row[:, None] * n + i, v * r[:, None] * tl.load(w + i, mask=i < n, other=0.0), mask=mask)


def norm_arguments(rstd):
    return dict(x=jvp_check.random(5, 13), w=jvp_check.random(13), y=zeros(5, 13), rstd=rstd, rows=5, n=13, eps=0.125)


def test_saved_values_are_loaded():
    options = dict(M=4, N=16)
    arguments = norm_arguments(zeros(5))
    norm[(2, )](**arguments, SAVE=True, **options)
    expected = (arguments["x"].square().mean(1) + 0.125).rsqrt()
    torch.testing.assert_close(arguments["rstd"], expected)
    dy = jvp_check.random(5, 13)
    found = grad_check.gradients(norm, (2, ), arguments, ("x", "w"), ("y", ), {"y": dy}, SAVE=True, **options)
    without = grad_check.gradients(norm, (2, ), arguments, ("x", "w"), ("y", ), {"y": dy}, SAVE=False, **options)
    for name in "xw":
        torch.testing.assert_close(found[name], without[name])
    # The gradient is that of what is in the tensor: another value gives another gradient.
    arguments["rstd"].mul_(2)
    other = grad_check.gradients(norm, (2, ), arguments, ("x", "w"), ("y", ), {"y": dy}, SAVE=True, **options)
    torch.testing.assert_close(other["w"], 2 * without["w"])
    text = tile_of(norm, arguments, ("x", "w"), ("y", ), SAVE=True, **options)
    assert "math.rsqrt" in tile_of(norm, arguments, ("x", "w"), ("y", ), SAVE=False, **options) and text.count("tile.load") > 0


def test_saved_values_have_their_derivative_in_forward_mode():
    jvp_check.check(norm, (2, ), norm_arguments(zeros(5)), ("x", "w"), ("y", ), SAVE=True, M=4, N=16)


@nereid.jit
def recurrence(x, y, states, n, N: tl.constexpr, SAVE: tl.constexpr):
    i = tl.arange(0, N)
    h = tl.zeros((N, ), tl.float64)
    for k in range(n):
        if SAVE:
            h = tl.save(h, states + k * N + i)
        h = tl.sin(h) * 0.9 + tl.load(x + k * N + i)
    tl.store(y + i, h)


def test_states_that_are_saved_are_not_computed_again():
    arguments = dict(x=jvp_check.random(20, 16), y=zeros(16), states=zeros(20, 16), n=20)
    recurrence[(1, )](**arguments, SAVE=True, N=16)
    given = {"y": jvp_check.random(16)}
    found = grad_check.gradients(recurrence, (1, ), arguments, ("x", ), ("y", ), given, SAVE=True, N=16)["x"]
    torch.testing.assert_close(found, grad_check.gradients(recurrence, (1, ), arguments, ("x", ), ("y", ), given, SAVE=False, N=16)["x"])
    assert tile_of(recurrence, arguments, ("x", ), ("y", ), SAVE=True, N=16).count("scf.for") == 1
    assert tile_of(recurrence, arguments, ("x", ), ("y", ), SAVE=False, N=16).count("scf.for") > 1


def test_second_derivatives_compute_saved_values():
    """The gradient of the gradient needs to know how the value depends on the inputs."""
    first = nereid.grad(norm, ("x", "w"), "y")
    arguments, options = norm_arguments(torch.full((5, ), float("nan"), dtype=F64)), dict(M=4, N=16, SAVE=True)
    dy, s, found = jvp_check.random(5, 13), jvp_check.random(5, 13), zeros(5, 13)
    nereid.grad(first.backward, {"x": "again"}, {"dx": "s"}).backward[(2, )](**arguments, dy=dy, dx=zeros(5, 13), dw=None, s=s, again=found, **options)
    x = arguments["x"].clone().requires_grad_()
    dx, = torch.autograd.grad(x * (x.square().mean(1, keepdim=True) + 0.125).rsqrt() * arguments["w"], x, dy, create_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad(dx, x, s)[0])


def test_saved_values_in_operators(route):
    saving = nereid.autograd(norm, wrt=("x", "w"), out={"y": "x", "rstd": lambda a: a["x"].new_empty(len(a["x"]))}, saved="rstd",
                             grid=lambda a: (nereid.cdiv(a["rows"], a["M"]), ),
                             arguments={"rows": lambda a: a["x"].shape[0], "n": lambda a: a["x"].shape[1], "M": 4, "N": 16, "SAVE": True})
    x, w = given(5, 13), given(13)
    y = saving(x, w, eps=0.125)
    assert isinstance(y, torch.Tensor)
    assert torch.autograd.gradcheck(lambda x, w: saving(x, w, eps=0.125), (x, w))
    assert torch.autograd.gradgradcheck(lambda x, w: saving(x, w, eps=0.125), (x, w))
    torch.library.opcheck(saving.operator, ([x, w], [], [0.125], "x:tensor;w:tensor;eps:float"))
    with pytest.raises(ValueError, match="`z` in `saved` is not in `out`"):
        nereid.autograd(norm, wrt="x", out="y", grid=(1, ), saved="z")
    with pytest.raises(ValueError, match="all outputs of `norm` are in `saved`"):
        nereid.autograd(norm, wrt="x", out="y", grid=(1, ), saved="y")


def test_saved_tensors_have_no_gradient():
    """Diagnostic GradientOfSaved: a kernel that saves in an output, which `autograd` is not told of, is an error."""
    arguments = norm_arguments(zeros(5))
    refused(norm, arguments, ("x", ), ("y", "rstd"), "`rstd` holds what `tl.save` stores, and has no gradient: remove it from `wrt` and `out`", SAVE=True, M=8, N=16)
    untold = nereid.autograd(norm, wrt=("x", "w"), out={"y": "x", "rstd": lambda a: a["x"].new_empty(len(a["x"]))}, grid=(2, ),
                             arguments={"rows": 5, "n": 13, "M": 4, "N": 16, "SAVE": True})
    with pytest.raises(nereid.CompilationError, match="`rstd` holds what `tl.save` stores"):
        untold(given(5, 13), given(13), eps=0.125)[0].sum().backward()


@pytest.mark.parametrize("call,message", [("tl.save(v, 3)", "expects a pointer"), ("tl.save(v, y)", "shape"), ("tl.save(i, y + i)", "floats"),
                                          ("tl.save(v, y + i, other=1.0)", "mask")])
def test_mistakes_in_saving(call, message):
    with pytest.raises(nereid.CompilationError, match=message):
        of_text(f"v = tl.load(x + i)\ntl.store(y + i, {call})")[(1, )](zeros(16), zeros(16), N=16)


# ---- states that are computed again -----------------------------------------------------------------------


@nereid.jit
def short(x, y, N: tl.constexpr, RECOMPUTE: tl.constexpr):
    i = tl.arange(0, N)
    h = tl.load(x + i)
    for k in range(9):
        h = tl.sin(h) + 0.1 * k
        if RECOMPUTE:
            h = tl.recompute(h)
    tl.store(y + i, h)


def test_states_of_short_loops_are_kept_unless_told_otherwise():
    arguments = dict(x=jvp_check.random(16), y=zeros(16))
    for recompute in (False, True):
        grad_check.check(short, (1, ), arguments, ("x", ), ("y", ), RECOMPUTE=recompute, N=16)
        assert ("scf.for" in tile_of(short, arguments, ("x", ), ("y", ), RECOMPUTE=recompute, N=16)) == recompute


# ---- loops with a bound -----------------------------------------------------------------------------------


@nereid.jit
def newton(x, y, steps, n, bound, N: tl.constexpr, BOUND: tl.constexpr):
    """Square roots, until all are near enough."""
    i = tl.arange(0, N)
    a = tl.load(x + i)
    r = 0.5 * (a + 1.0)
    k = 0
    if BOUND == "constant":
        while tl.at_most(tl.max(tl.abs(r * r - a)) > 1e-9, 12):
            r = 0.5 * (r + a / r)
            k += 1
    elif BOUND == "argument":
        while tl.at_most((tl.max(tl.abs(r * r - a)) > 1e-9) & (k < 100), bound):
            r = 0.5 * (r + a / r)
            k += 1
    else:
        for step in range(n):
            if tl.max(tl.abs(r * r - a)) < 1e-9:
                break
            r = 0.5 * (r + a / r)
            k += 1
    tl.store(y + i, r)
    tl.store(steps, k)


@pytest.mark.parametrize("bound", ["constant", "argument", "range"])
def test_loops_with_a_bound(bound):
    x = jvp_check.random(16, low=0.5, high=3.0)
    arguments = dict(x=x, y=zeros(16), steps=torch.zeros(1, dtype=torch.int32), n=20, bound=10)
    found = grad_check.check(newton, (1, ), arguments, ("x", ), ("y", ), rtol=1e-9, BOUND=bound, N=16)
    assert found
    dx = grad_check.gradients(newton, (1, ), arguments, ("x", ), ("y", ), {"y": torch.ones(16, dtype=F64)}, BOUND=bound, N=16)["x"]
    torch.testing.assert_close(dx, 0.5 / x.sqrt(), rtol=1e-6, atol=1e-6)


def test_a_loop_that_runs_more_often_than_it_may_has_the_gradient_nan():
    x = jvp_check.random(16, low=0.5, high=3.0)
    arguments = dict(x=x, y=zeros(16), steps=torch.zeros(1, dtype=torch.int32), n=20, bound=10)
    newton[(1, )](**arguments, BOUND="argument", N=16)
    runs = int(arguments["steps"][0])
    assert 1 < runs < 10
    for bound in (runs, runs - 1, 0):
        dx = grad_check.gradients(newton, (1, ), arguments | {"bound": bound}, ("x", ), ("y", ), {"y": torch.ones(16, dtype=F64)}, BOUND="argument", N=16)["x"]
        assert dx.isnan().any() == (bound < runs), bound


def test_loops_that_are_left_early():
    body = "h = tl.load(x + i)\nfor k in range(1, n, 2):\n    if tl.sum(h) > 100.0:\n        break\n    h = tl.sin(h) * k + tl.load(x + k * N + i)\ntl.store(y + i, h)"
    for n in (0, 1, 2, 9, 40):
        grad_check.check(of_text(body, "x, y, n"), (1, ), dict(x=jvp_check.random(40, 16), y=zeros(16), n=n), ("x", ), ("y", ), N=16)


def test_mistakes_in_bounds():
    body = "h = tl.load(x + i)\nk = 0\nwhile tl.at_most(k < 3, {}):\n    h = tl.sin(h)\n    k += 1\ntl.store(y + i, h)"
    with pytest.raises(nereid.CompilationError, match=re.escape("an integer")):
        of_text(body.format("2.5"))[(1, )](zeros(16), zeros(16), N=16)
    grad_check.check(of_text(body.format("3")), (1, ), dict(x=jvp_check.random(16), y=zeros(16)), ("x", ), ("y", ), N=16)
