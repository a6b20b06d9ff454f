"""Derivatives of digamma, by the Hurwitz zeta function."""

import fractions
import math

import nereid
import nereid.language as tl
from nereid.language.extra import libdevice

from .unary import digamma


@nereid.constexpr_function
def factor(k):
    """B(2k) / (2k)!, with the Bernoulli numbers from their recurrence."""
    numbers = [fractions.Fraction(1)]
    for m in range(1, 2 * k + 1):
        numbers.append(-sum(math.comb(m + 1, j) * number for j, number in enumerate(numbers)) / (m + 1))
    return float(numbers[2 * k] / math.factorial(2 * k))


@nereid.jit
def hurwitz(x, q):
    """The sum of (q + k) ** -x over k >= 0, for x > 1 and q > 0, in fp64: 10 terms, then the Euler-Maclaurin formula with 12 more (DLMF 25.11.5)."""
    total = libdevice.pow(q, -x)
    at = q
    term = total
    for _ in range(9):
        at += 1
        term = libdevice.pow(at, -x)
        total += term
    rest = term * at / (x - 1) - 0.5 * term
    rising = x
    power = term / at
    for k in tl.static_range(1, 13):
        rest += rising * power * factor(k)
        rising *= (x + (2 * k - 1)) * (x + 2 * k)
        power /= at * at
    return tl.where(tl.abs(term) < 1e-16 * tl.abs(total), total, total + rest)  # where terms vanish, factors may be infinite


@nereid.jit
def zeta(x, q):
    """The Hurwitz zeta function. Of q < 0, where x has to be whole, the terms below 0 are those of two other sums, with a sign."""
    x, q = tl.broadcast(x, q)
    wide, base = x.to(tl.float64), q.to(tl.float64)
    order = tl.where(wide > 1, wide, 2.0)
    negative = base < 0
    part = base - libdevice.floor(base)
    result = hurwitz(order, tl.where(negative, part, base))
    below = hurwitz(order, tl.where(negative, 1 - part, 1.0)) - hurwitz(order, tl.where(negative, 1 - base, 1.0))
    odd = libdevice.floor(order * 0.5) * 2 != order
    result = tl.where(negative, result + tl.where(odd, -below, below), result).to(x.dtype)
    result = tl.where(x != x, float("nan"), result)
    result = tl.where((base <= 0) & (libdevice.floor(wide) != wide), float("nan"), result)
    result = tl.where((base <= 0) & (libdevice.floor(base) == base), float("inf"), result)
    return tl.where(wide == 1, float("inf"), tl.where(wide < 1, float("nan"), result))


@nereid.jit
def polygamma(x, n):
    """The derivative of order n of digamma: (-1) ** (n + 1) n! zeta(n + 1, x)."""
    if n == 0:
        result = digamma(x)
    else:
        order = n.to(tl.float64)
        sign = tl.where(libdevice.floor(order * 0.5) * 2 == order, -1.0, 1.0)
        size = libdevice.tgamma(tl.full(x.shape, order + 1, tl.float64))
        result = (sign * size * zeta(tl.full(x.shape, order + 1, tl.float64), x.to(tl.float64))).to(x.dtype)
    return result
