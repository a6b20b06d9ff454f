"""Leaves of ATen that no OpInfo reaches by its name, or that have edges of their own."""

import math

import pytest
import torch

import nereid.ops


def both(call, name):
    """ATen's results and ours, which must have been served."""
    expected = call()
    nereid.ops.report(clear=True)
    with nereid.ops.use(routing=False):
        found = call()
    rows = [row for row in nereid.ops.report() if row.overload.split(".")[0] == name]
    assert rows and all(row.route == "nereid" for row in rows), nereid.ops.report()
    return expected, found


@pytest.mark.parametrize("name", ["__ilshift__", "__irshift__"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64], ids=str)
def test_shifts_in_place(name, dtype, target):
    operator = getattr(torch.ops.aten, name)
    x, by = torch.arange(60, dtype=dtype, device=target).view(6, 10), torch.arange(10, dtype=dtype, device=target) % 5
    for other in (by, 2):
        expected, found = both(lambda: operator(x.clone(), other), name)
        assert expected.equal(found)
        y = x.clone()
        with nereid.ops.use(routing=False):
            assert operator(y, other) is y and y.equal(expected)


CALLS = {
    "_aminmax": lambda x: torch.ops.aten._aminmax(x), "_aminmax dim": lambda x: torch.ops.aten._aminmax(x, 1, True), "_stack": lambda x: (torch.ops.aten._stack([x, x], 1), ),
    "_logcumsumexp": lambda x: (torch.ops.aten._logcumsumexp(x, 1), )
}


@pytest.mark.parametrize("name", CALLS)
def test_inner_operators(name, target):
    x = torch.randn(5, 37, device=target)
    expected, found = both(lambda: CALLS[name](x), name.split()[0])
    for one, other in zip(expected, found):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
@pytest.mark.parametrize("rows,columns", [(1, 1), (5, 5), (3, 9), (9, 3), (1, 1500), (1500, 2), (0, 4), (4, 0)])
def test_places_of_triangles(name, rows, columns, target):
    for diagonal in (0, 1, -1, 2, -2, 4, -4, 8, -8, 2000, -2000):
        for dtype in (torch.int64, torch.int32):
            expected, found = both(lambda: getattr(torch, name)(rows, columns, diagonal, dtype=dtype, device=target), name)
            assert expected.equal(found) and expected.dtype == found.dtype, diagonal


def test_polygamma_of_known_numbers(target):
    """polygamma(2, 1/2) = -14 zeta(3), polygamma(3, 1/2) = pi^4, polygamma(n, x + 1) - polygamma(n, x) = (-1)^n n! / x^(n + 1)."""
    with nereid.ops.use(only=["polygamma"], routing=False):
        half = torch.tensor([0.5], dtype=torch.float64, device=target)
        assert math.isclose(torch.polygamma(2, half).item(), -14 * 1.2020569031595942, rel_tol=1e-15)
        assert math.isclose(torch.polygamma(3, half).item(), math.pi**4, rel_tol=1e-14)
        x = torch.tensor([-30.25, -7.5, -0.5, 0.3, 1.0, 8.9, 9.0, 9.1], dtype=torch.float64, device=target)
        for n in (2, 3, 6):
            step = (-1)**n * math.factorial(n) / x**(n + 1)
            found, expected = torch.polygamma(n, x + 1), torch.polygamma(n, x) + step
            # Terms cancel at -7.5, and at 0.3, where the step has seven digits.
            assert ((found - expected).abs() <= 1e-10 + 1e-11 * expected.abs() + 4 * torch.finfo(x.dtype).eps * step.abs()).all(), (n, found, expected)
    rows = [row for row in nereid.ops.report() if row.overload == "polygamma"]
    assert rows and any(row.route == "nereid" for row in rows)
