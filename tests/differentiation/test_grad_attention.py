"""Loops that carry a maximum and sums rescaled to it (src/differentiate/OnlineSums.h): which are differentiated as plain sums, and that others keep their gradient."""

import grad_check
import jvp_check
import nereid
import nereid.language as tl
import pytest
import torch


@nereid.jit
def online(x, w, y, extra, sink, n, ROWS: tl.constexpr, BLOCK: tl.constexpr, KIND: tl.constexpr):
    """y[i] = sum(softmax(x[i]) * w), with further outputs or another recurrence as KIND says."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    m = tl.full([ROWS], -float("inf"), tl.float64)
    l = tl.zeros([ROWS], tl.float64)
    acc = tl.zeros([ROWS], tl.float64)
    if KIND == "sink":
        m = tl.load(sink + row)
        l += 1.0
    for k in range(0, n, BLOCK):
        at = k + tl.arange(0, BLOCK)
        s = tl.load(x + row[:, None] * n + at[None, :], mask=at[None, :] < n, other=-float("inf"))
        if KIND == "masked rows":
            s = tl.where((row % 3 > 0)[:, None], s, -float("inf"))
        if KIND == "maximum of another block":
            new = tl.maximum(m, tl.max(s, 1) * 0.5)
        else:
            new = tl.maximum(m, tl.max(s, 1))
        base = tl.where(new == -float("inf"), 0.0, new)
        if KIND == "natural":
            alpha = tl.exp(m - base)
            p = tl.exp(s - base[:, None])
        elif KIND == "two bases":
            alpha = tl.exp(m - base)
            p = tl.exp2(s - base[:, None])
        elif KIND == "squares":
            alpha = tl.exp2(m - base)
            p = tl.exp2((s - base[:, None]) * 2.0)
        else:
            alpha = tl.exp2(m - base)
            p = tl.exp2(s - base[:, None])
        v = tl.load(w + at, mask=at < n, other=0.0)
        l = l * alpha + tl.sum(p, 1)
        if KIND == "not homogeneous":
            acc = acc * alpha + tl.sum(p * v[None, :] + v[None, :], 1)
        else:
            acc = acc * alpha + tl.sum(p * v[None, :], 1)
        m = new
    l = tl.where(l == 0.0, 1.0, l)
    if KIND == "unscaled":
        tl.store(y + row, acc)
    elif KIND == "raw maximum":
        tl.store(y + row, acc / l + m)
    elif KIND == "wrong power":
        tl.store(y + row, acc / (l * l))
    else:
        tl.store(y + row, acc / l)
    if KIND == "natural":
        tl.store(extra + row, m + tl.log(l))
    elif KIND == "masked rows":
        tl.store(extra + row, tl.where(row % 3 > 0, m + tl.log2(l), 0.0))
    else:
        tl.store(extra + row, m + tl.log2(l))


PLAIN = ("base 2", "natural", "masked rows", "maximum of another block")
OTHERS = ("sink", "two bases", "squares", "not homogeneous", "unscaled", "raw maximum", "wrong power")


def given(n):
    rows = 8
    return dict(x=jvp_check.random(rows, n), w=jvp_check.random(n), y=torch.zeros(rows, dtype=torch.float64), extra=torch.zeros(rows, dtype=torch.float64),
                sink=jvp_check.random(rows), n=n)


@pytest.mark.parametrize("n", [5, 29])
@pytest.mark.parametrize("kind", [*PLAIN, *OTHERS])
def test_transpose_of_the_forward_derivative(kind, n):
    """Forward mode differentiates the loop as it is written."""
    wrt = ("x", "w", "sink") if kind == "sink" else ("x", "w")
    grad_check.check(online, (2, ), given(n), wrt, ("y", "extra"), begin=0.0, ROWS=4, BLOCK=8, KIND=kind)


def loops(kind):
    arguments, wrt = given(29), ("x", "sink") if kind == "sink" else ("x", )
    gradients = {f"d{name}": arguments[name] for name in (*wrt, "y", "extra")}
    compiled = nereid.grad(online, wrt, ("y", "extra")).backward.warmup(**arguments, **gradients, grid=(1, ), ROWS=4, BLOCK=8, KIND=kind)
    return compiled.asm["tile"].count("scf.for")


@pytest.mark.parametrize("kind", [*PLAIN, *OTHERS])
def test_which_repeat_no_rounds(kind):
    """One loop for the maximum and the sums, one for the gradients; with recurrences further loops that find their states."""
    assert (loops(kind) == 2) == (kind in PLAIN)


def test_against_autograd():
    arguments = given(29)
    x, w = (arguments[name].clone().requires_grad_() for name in ("x", "w"))
    scores = x * 0.6931471805599453
    dy, dextra = jvp_check.random(8), jvp_check.random(8)
    ((scores.softmax(1) @ w * dy).sum() + (scores.logsumexp(1) / 0.6931471805599453 * dextra).sum()).backward()
    found = grad_check.gradients(online, (2, ), arguments, ("x", "w"), ("y", "extra"), dict(y=dy, extra=dextra), ROWS=4, BLOCK=8, KIND="base 2")
    torch.testing.assert_close(found["x"], x.grad, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found["w"], w.grad, rtol=1e-9, atol=1e-12)
