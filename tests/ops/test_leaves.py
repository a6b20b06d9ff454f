"""Leaves of ATen that no OpInfo reaches by its name, or that have edges of their own."""

import fractions
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


def test_zeta_and_polygamma_of_known_numbers(target):
    """zeta(2k) = |B(2k)| (2 pi)^(2k) / (2 (2k)!), zeta(s, q) = zeta(s, q + 1) + q^-s, polygamma(1, 1/2) = pi^2 / 2."""
    bernoulli = {2: fractions.Fraction(1, 6), 4: fractions.Fraction(1, 30), 6: fractions.Fraction(1, 42), 8: fractions.Fraction(1, 30)}
    with nereid.ops.use(only=["special_zeta", "polygamma"], routing=False):
        for s, number in bernoulli.items():
            found = torch.special.zeta(torch.full((1, ), s, dtype=torch.float64, device=target), torch.ones(1, dtype=torch.float64, device=target)).item()
            assert math.isclose(found, float(number) * (2 * math.pi) ** s / (2 * math.factorial(s)), rel_tol=1e-15)
        q = torch.tensor([-30.25, -7.5, -0.5, 0.3, 1.0, 8.9, 9.0, 9.1, 1e4], dtype=torch.float64, device=target)
        s = torch.full_like(q, 3)
        torch.testing.assert_close(torch.special.zeta(s, q), torch.special.zeta(s, q + 1) + q**-3, rtol=1e-13, atol=0)
        half = torch.tensor([0.5], dtype=torch.float64, device=target)
        assert math.isclose(torch.polygamma(1, half).item(), math.pi**2 / 2, rel_tol=1e-15)
        assert math.isclose(torch.polygamma(3, half).item(), math.pi**4, rel_tol=1e-14)
