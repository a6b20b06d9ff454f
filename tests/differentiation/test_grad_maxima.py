"""Maxima that no output depends on have no gradient; all others have. The gradients are compared with forward mode, which differentiates every maximum."""

import grad_check
import jvp_check
import nereid
import nereid.language as tl
import pytest
import torch
from test_grad_loads import stage


@nereid.jit
def rows(x, w, y, n, ROWS: tl.constexpr, BLOCK: tl.constexpr, KIND: tl.constexpr):
    """Of blocks of rows; the maximum is that of each row."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    i = tl.arange(0, BLOCK)
    at = row[:, None] * n + i[None, :]
    inside = (row[:, None] >= 0) & (i < n)[None, :]
    v = tl.load(x + at, mask=inside, other=-float("inf"))
    m = tl.max(v, 1)
    p = tl.exp(v - m[:, None])
    total = tl.sum(p, 1)
    weight = tl.load(w + i, mask=i < n, other=0.0)
    if KIND == "softmax":
        tl.store(y + at, p / total[:, None], mask=inside)
    elif KIND == "log-softmax":
        tl.store(y + at, v - m[:, None] - tl.log(total)[:, None], mask=inside)
    elif KIND == "base 2":
        q = tl.exp2((v - m[:, None]) * 0.5)
        tl.store(y + at, q / tl.sum(q, 1)[:, None], mask=inside)
    elif KIND == "turned":
        q = tl.trans(tl.exp(v - m[:, None]))
        tl.store(y + at, tl.trans(q / tl.sum(q, 0)[None, :]), mask=inside)
    elif KIND == "loss":
        tl.store(y + row, tl.log(total) + m - tl.sum(tl.where(i[None, :] == 1, v, 0.0), 1))
    elif KIND == "weighted":
        tl.store(y + row, tl.sum(p * weight[None, :], 1) / total)
    elif KIND == "not divided":
        tl.store(y + at, p, mask=inside)
    elif KIND == "maximum itself":
        tl.store(y + at, p / total[:, None] + m[:, None], mask=inside)
    elif KIND == "two powers":
        tl.store(y + at, p * p / total[:, None], mask=inside)
    elif KIND == "columns":  # each row is scaled by a number of its own, which the sums over rows do not share
        columns = tl.sum(tl.where(inside, p, 0.0), 0)
        tl.store(y + tl.program_id(0) * n + i, columns / tl.sum(total, 0), mask=i < n)
    elif KIND == "rows and columns":  # p[i, j] has the factor of row i, that of row j is in its transpose
        tl.store(y + at, p / (tl.trans(p) + 1.0e-3 * p), mask=inside)
    elif KIND == "sine":
        tl.store(y + at, tl.sin(v - m[:, None]) * p / total[:, None], mask=inside)


INDEPENDENT = ["softmax", "log-softmax", "base 2", "turned", "loss", "weighted"]
DEPENDENT = ["not divided", "maximum itself", "two powers", "columns", "rows and columns", "sine"]


@pytest.mark.parametrize("kind", [*INDEPENDENT, *DEPENDENT])
def test_softmax_of_rows(kind):
    n = 4 if kind == "rows and columns" else 3
    x, w = jvp_check.random(8, n), jvp_check.random(n)
    size = {"loss": (8, ), "weighted": (8, ), "columns": (2, n)}.get(kind, (8, n))
    arguments = dict(x=x, w=w, y=torch.zeros(*size, dtype=torch.float64), n=n)
    options = dict(ROWS=4, BLOCK=4, KIND=kind)
    grad_check.check(rows, (2, ), arguments, ("x", "w") if kind == "weighted" else ("x", ), ("y", ), **options)
    # An index of the maximum is searched for only where the maximum has a gradient.
    text, _ = stage(rows, "x", "y", arguments, "tile", target="cpu", **options)
    assert ("any_order" in text) == (kind in DEPENDENT), kind


@nereid.jit
def in_loops(x, y, n, count, BLOCK: tl.constexpr, KIND: tl.constexpr):
    """A softmax a round, or what rounds carry depends on the maximum of an earlier one."""
    i = tl.arange(0, BLOCK)
    carried = tl.zeros([BLOCK], tl.float64)
    for k in range(count):
        at = (tl.program_id(0) * count + k) * n + i
        v = tl.load(x + at, mask=i < n, other=-float("inf"))
        m = tl.max(v, 0)
        p = tl.exp(v - m)
        if KIND == "carried":
            carried = carried * 0.5 + p
        else:
            carried = carried * 0.5 + p / tl.sum(p, 0)
    tl.store(y + tl.program_id(0) * n + i, carried, mask=i < n)


@pytest.mark.parametrize("kind", ["alone", "carried"])
def test_maxima_in_loops(kind):
    arguments = dict(x=jvp_check.random(6, 5), y=torch.zeros(2, 5, dtype=torch.float64), n=5, count=3)
    options = dict(BLOCK=8, KIND=kind)
    grad_check.check(in_loops, (2, ), arguments, ("x", ), ("y", ), **options)
    text, _ = stage(in_loops, "x", "y", arguments, "tile", target="cpu", **options)
    assert ("any_order" in text) == (kind == "carried")


@nereid.jit
def clipped(x, y, BLOCK: tl.constexpr):
    """The larger of two maxima, and one of each element with a number, which is a result itself."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    m = tl.maximum(tl.max(v, 0), tl.max(v * 0.5, 0))
    p = tl.exp(v - m)
    tl.store(y + i, p / tl.sum(p, 0) + tl.maximum(v, 0.1))


def test_the_larger_of_two_maxima():
    arguments = dict(x=jvp_check.random(16), y=torch.zeros(16, dtype=torch.float64))
    grad_check.check(clipped, (2, ), arguments, ("x", ), ("y", ), BLOCK=8)
    text, _ = stage(clipped, "x", "y", arguments, "tile", target="cpu", BLOCK=8)
    assert "any_order" not in text


def test_second_derivative():
    x = jvp_check.random(8, 3)
    given = dict(y=torch.zeros(8, 3, dtype=torch.float64), w=jvp_check.random(3), n=3, ROWS=4, BLOCK=4, KIND="softmax")
    first = nereid.grad(rows, "x", "y")
    second = nereid.grad(first.backward, wrt={"x": "second"}, out={"dx": "given"})
    dy, s = jvp_check.random(8, 3), jvp_check.random(8, 3)
    found = torch.full_like(x, float("nan"))
    second.backward[(2, )](x=x, dx=torch.zeros_like(x), dy=dy, given=s, second=found, **given)
    wide = x.clone().requires_grad_()
    dx, = torch.autograd.grad(wide.softmax(1), wide, dy, create_graph=True)
    expected, = torch.autograd.grad(dx, wide, s)
    torch.testing.assert_close(found, expected)


@nereid.jit
def online_rows(x, y, n, ROWS: tl.constexpr, BLOCK: tl.constexpr, MIXED: tl.constexpr):
    """An online softmax of several rows, whose sums are divided row by row, or added up over the rows first."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    m = tl.full([ROWS], -float("inf"), tl.float64)
    total = tl.zeros([ROWS], tl.float64)
    weighted = tl.zeros([ROWS], tl.float64)
    for k in range(0, n, BLOCK):
        i = k + tl.arange(0, BLOCK)
        s = tl.load(x + row[:, None] * n + i[None, :], mask=(i < n)[None, :], other=-float("inf"))
        new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp(m - new)
        p = tl.exp(s - new[:, None])
        total = total * alpha + tl.sum(p, 1)
        weighted = weighted * alpha + tl.sum(p * i[None, :], 1)
        m = new
    if MIXED:
        tl.store(y + tl.program_id(0), tl.sum(weighted, 0) / tl.sum(total, 0))
    else:
        tl.store(y + row, weighted / total)


@pytest.mark.parametrize("mixed", [False, True])
def test_rows_of_an_online_softmax(mixed):
    """Each row has a maximum of its own: what is summed over rows has no common factor, and so depends on the maxima."""
    arguments = dict(x=jvp_check.random(8, 5), y=torch.zeros(2 if mixed else 8, dtype=torch.float64), n=5)
    grad_check.check(online_rows, (2, ), arguments, ("x", ), ("y", ), ROWS=4, BLOCK=4, MIXED=mixed)
