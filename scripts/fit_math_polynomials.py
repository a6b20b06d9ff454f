#!/usr/bin/env python3
"""Fits the polynomials of the targets' math and writes src/support/Coefficients.h.

Every table is a minimax polynomial: it minimises the largest |weight(x) * (f(x) - p(x))| on its interval. For fp64 by the Remez
exchange algorithm in 40-digit arithmetic; for fp32 by Lawson's reweighted least squares, where the coefficients are
rounded one after the other, lowest order first, and the rest is fitted again each time, so that later coefficients
absorb earlier roundings.

usage: scripts/fit_math_polynomials.py [--gelu]        (needs mpmath and numpy)

--gelu prints the coefficients of `normal_below_single` in python/nereid/ops/functions/narrow.py and writes nothing.
"""
import pathlib
import struct
import sys

import numpy as np
from mpmath import (mp, mpf, mpmathify, matrix, lu_solve, arg, cos, pi, exp, log, sin, sqrt, erf, erfc, tanh, expm1, log1p, atan, asin, erfinv, gamma,
                    loggamma, sinh, besseli, besselj, besseljzero, bessely, besselyzero)

mp.dps = 40
LN2 = log(2)


def to_f32(x):
    return mpf(struct.unpack('f', struct.pack('f', float(x)))[0])


def to_f64(x):
    return mpf(float(x))


def remez(f, weight, powers, a, b, rounds=12, grid=600):
    """Coefficients for x**p, p in powers; and the largest weighted error."""
    a, b = mpmathify(a), mpmathify(b)
    n = len(powers)
    points = [(a + b) / 2 - (b - a) / 2 * cos(pi * (i + mpf('0.5')) / grid) for i in range(grid)]
    values = [(x, f(x), abs(weight(x))) for x in points]
    reference = [round(i * (grid - 1) / n) for i in range(n + 1)]
    for _ in range(rounds):
        rows, rhs = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for i, k in enumerate(reference):
            x, y, w = values[k]
            for j, p in enumerate(powers):
                rows[i, j] = x ** p
            rows[i, n] = (-1) ** i / w
            rhs[i] = y
        solution = lu_solve(rows, rhs)
        coefficients = [solution[j] for j in range(n)]
        errors = [w * (y - sum(c * x ** p for c, p in zip(coefficients, powers))) for x, y, w in values]
        # One extremum of each run of equal sign; drop the smallest ends until n + 1 are left.
        extrema = []
        for k, e in enumerate(errors):
            if extrema and (errors[extrema[-1]] > 0) == (e > 0):
                if abs(e) > abs(errors[extrema[-1]]):
                    extrema[-1] = k
            else:
                extrema.append(k)
        while len(extrema) > n + 1:
            extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
        if len(extrema) < n + 1 or extrema == reference:
            break
        reference = extrema
    return coefficients, max(abs(e) for e in errors)


def lawson(x, y, w, powers, rounds=80):
    """Nearly minimax coefficients by reweighted least squares; unlike Remez it bears rounded lower terms."""
    basis = np.stack([x ** p for p in powers], axis=1)
    emphasis = np.full(len(x), 1 / len(x))
    best, best_error = None, np.inf
    for _ in range(rounds):
        scale = np.sqrt(emphasis) * w
        solution = np.linalg.lstsq(basis * scale[:, None], y * scale, rcond=None)[0]
        error = np.abs(w * (y - basis @ solution))
        if error.max() < best_error:
            best, best_error = solution, error.max()
        emphasis *= error + 1e-30
        emphasis /= emphasis.sum()
    return best


def fit(f, weight, degree, a, b, single):
    powers = list(range(degree + 1))
    if not single:
        coefficients, _ = remez(f, weight, powers, a, b)
        coefficients = [to_f64(c) for c in coefficients]
    else:
        lo, hi = mpmathify(a), mpmathify(b)
        points = [(lo + hi) / 2 - (hi - lo) / 2 * cos(pi * (i + mpf('0.5')) / 400) for i in range(400)]
        x, y, w = (np.array([float(g(t)) for t in points]) for g in (mpf, f, lambda t: abs(weight(t))))
        coefficients = []
        for p in powers:
            coefficients.append(to_f32(lawson(x, y, w, powers[p:])[0]))
            y = y - float(coefficients[-1]) * x ** p
    a, b = mpmathify(a), mpmathify(b)
    error = max(abs(weight(x) * (f(x) - sum(c * x ** i for i, c in enumerate(coefficients))))
                for x in (a + (b - a) * (i + mpf('0.37')) / 1000 for i in range(1000)))
    return coefficients, error


HALF_LN2 = LN2 / 2 * mpf('1.01')
QUARTER_PI = pi / 4 * mpf('1.01')
SQRT_HALF, SQRT_TWO = sqrt(mpf(1) / 2), sqrt(mpf(2))


def exp_rest(r):
    return (expm1(r) - r) / r ** 2


def log_rest(f):
    return (log1p(f) - f + f ** 2 / 2) / f ** 3


def log_weight(f):
    return f ** 3 / log1p(f)


def sin_rest(z):
    r = sqrt(z)
    return (sin(r) - r) / r ** 3


def cos_rest(z):
    r = sqrt(z)
    return (cos(r) - 1 + z / 2) / z ** 2


def atanh_rest(z):
    """log((1+s)/(1-s)) = 2s + s * z * rest(z), z = s*s."""
    s = sqrt(z)
    return (log((1 + s) / (1 - s)) - 2 * s) / s ** 3


def atanh_tail(z):
    """log((1+s)/(1-s)) = 2s (1 + z/3 + z^2 tail(z)), z = s*s."""
    if z < mpf(10) ** -8:
        return mpf(1) / 5 + z / 7
    s = sqrt(z)
    return (log((1 + s) / (1 - s)) / (2 * s) - 1 - z / 3) / z ** 2


def scaled_erfc(t):
    """(1 + 2x) exp(x^2) erfc(x) of t = (x - 2) / (x + 2): 1 at x = 0, 2/sqrt(pi) at infinity."""
    if t > 1 - mpf(10) ** -6:
        return 2 / sqrt(pi)
    x = 2 * (1 + t) / (1 - t)
    if x < 100:
        return (1 + 2 * x) * exp(x * x) * erfc(x)
    series = sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(12))
    return (1 + 2 * x) / (x * sqrt(pi)) * series


def log_gamma_factor(d):
    """log(gamma(2 + d)) / (d (1 + d))."""
    return 1 - mp.euler if abs(d) < mpf(10) ** -15 else loggamma(2 + d) / (d * (1 + d))


def inverse_of_erf(w):
    """erfinv(x) / x of w = -log((1 - x)(1 + x))."""
    x = sqrt(-expm1(-w))
    if w < 5:
        return erfinv(x) / x
    # By Newton's method erfc(z) = 1 - x, without cancellation.
    y = exp(-w) / (1 + x)
    z = sqrt(w)
    for _ in range(9):
        z += (log(erfc(z)) - log(y)) * erfc(z) * sqrt(pi) / 2 * exp(z * z)
    return z / x


# Bessel functions. J_n(x) = M(x) cos(x - (2n + 1) pi/4 + D(x)) and Y_n(x) = M(x) sin(...) with M sqrt(x) and D x smooth in 1/x up to infinity.


def near_zero_of_j(order):
    """J_n(x) / x^n of x^2 - 32, divided by x^2 - r^2 for the first four zeros r, the last two of them rounded to fp64."""
    zeros = [besseljzero(order, 1), besseljzero(order, 2), to_f64(besseljzero(order, 3)), to_f64(besseljzero(order, 4))]

    def value(t):
        z = t + 32
        product = mpf(1)
        for r in zeros:
            product *= z - r * r
        return besselj(order, sqrt(z)) / sqrt(z) ** order / product
    return value


def modulus(order):
    """sqrt(x) M of 1/x - 1/4."""
    return lambda s: sqrt((besselj(order, 1 / (s + 0.25)) ** 2 + bessely(order, 1 / (s + 0.25)) ** 2) / (s + 0.25))


def phase(order):
    """x D of 1/x - 1/4."""
    def value(s):
        x = 1 / (s + 0.25)
        turned = (besselj(order, x) + 1j * bessely(order, x)) * exp(-1j * (x - (2 * order + 1) * pi / 4))
        return x * arg(turned)
    return value


Y0_ZERO = besselyzero(0, 1)


def y0_rest(z):
    """(Y0(x) - 2/pi log(x / r) J0(x)) / (x^2 - r^2) of x^2, r the first zero of Y0."""
    x = sqrt(z)
    return (bessely(0, x) - 2 / pi * log(x / Y0_ZERO) * besselj(0, x)) / (z - Y0_ZERO ** 2)


def y1_rest(z):
    """(Y1(x) - 2/pi (log(x) J1(x) - 1/x)) / x of x^2."""
    x = sqrt(z)
    return (bessely(1, x) - 2 / pi * (log(x) * besselj(1, x) - 1 / x)) / x


def scaled_i(order):
    """4 exp(8 - x) sqrt(x) I_n(x) of 1/x - 1/16."""
    def value(s):
        x = 1 / (s + mpf(1) / 16)
        if x < 4000:
            return 4 * exp(8 - x) * sqrt(x) * besseli(order, x)
        term = total = mpf(1)
        for k in range(1, 12):
            term *= ((2 * k - 1) ** 2 - 4 * order * order) / (8 * k * x)
            total += term
        return 4 * exp(8) / sqrt(2 * pi) * total
    return value


def relative(f):
    return lambda x: 1 / f(x)


def bessel_tables(order):
    j, near = near_zero_of_j(order), (TINY - 32, 32)
    i, far = scaled_i(order), (mpf(10) ** -9 - mpf(1) / 16, mpf(1) / 16)
    small = lambda z: besselj(order, sqrt(z)) / sqrt(z) ** order  # noqa: E731
    modified = lambda z: besseli(order, sqrt(z)) / sqrt(z) ** order  # noqa: E731
    rest = (y0_rest, y1_rest)[order]
    every = (mpf(10) ** -9 - 0.25, '0.25')
    return [
        (f'BesselJ{order}F64', f'J{order}(x) / x^{order} over the products of x^2 - r^2 of four zeros, in x^2 - 32, x < 8', j, relative(j), 12, near),
        (f'BesselJ{order}SmallF64', f'J{order}(x) / x^{order} in x^2, x < 2', small, relative(small), (10, 8)[order], (TINY, 4)),
        (f'BesselY{order}SmallF64', (f'(Y0(x) - 2/pi log(x/r) J0(x)) / (x^2 - r^2) in x^2, x < 2, r the first zero of Y0', 'Y1(x)/x - 2/pi (log(x) J1(x) - 1/x) / x in x^2, x < 2')[order],
         rest, relative(rest), (8, 11)[order], (TINY, 4)),
        (f'BesselModulus{order}F64', f'sqrt(x (J{order}(x)^2 + Y{order}(x)^2)) in 1/x - 1/4, x > 2', modulus(order), relative(modulus(order)), 26, every),
        (f'BesselPhase{order}F64', f'x (arg(J{order}(x) + i Y{order}(x)) - x + {2 * order + 1} pi/4) in 1/x - 1/4, x > 2', phase(order), relative(phase(order)), 27, every),
        (f'BesselI{order}F64', f'I{order}(x) / x^{order} in x^2, x < 8', modified, relative(modified), 15, (TINY, 64)),
        (f'BesselI{order}LargeF64', f'4 exp(8 - x) sqrt(x) I{order}(x) in 1/x - 1/16, x > 8', i, relative(i), 23, far),
    ]


TINY = mpf(10) ** -12
# name: (what it approximates, f, weight, degree, interval)
TABLES = [
    ('ExpF32', '(exp(r) - 1 - r) / r^2', exp_rest, lambda r: r ** 2, 4, (-HALF_LN2, HALF_LN2)),
    ('Exp2F32', '(2^r - 1) / r', lambda r: expm1(r * LN2) / r, lambda r: r, 6, ('-0.5', '0.5')),
    ('LogF32', '(log(1 + f) - f + f^2/2) / f^3', log_rest, log_weight, 8, (SQRT_HALF - 1, SQRT_TWO - 1)),
    ('SinF32', '(sin(r) - r) / r^3 in r^2', sin_rest, lambda z: z, 3, (TINY, QUARTER_PI ** 2)),
    ('CosF32', '(cos(r) - 1 + r^2/2) / r^4 in r^2', cos_rest, lambda z: z ** 2, 2, (TINY, QUARTER_PI ** 2)),
    ('ErfSmallF32', 'erf(x)/x - 1 in x^2, x < 1', lambda z: erf(sqrt(z)) / sqrt(z) - 1,
     lambda z: sqrt(z) / erf(sqrt(z)), 6, (TINY, '1.0')),
    ('ErfLargeF32', 'log2(erfc(x)), 1 <= x <= 4', lambda x: log(erfc(x)) / LN2, lambda x: erfc(x) / erf(x), 8,
     ('0.99', '4.0')),
    ('TanhF32', '(tanh(x)/x - 1) / x^2 in x^2, x < 0.625', lambda z: (tanh(sqrt(z)) / sqrt(z) - 1) / z,
     lambda z: z * sqrt(z) / tanh(sqrt(z)), 4, (TINY, '0.4')),
    ('AtanF32', '(atan(t) - t) / t^3 in t^2', lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, lambda z: z * sqrt(z) / atan(sqrt(z)), 8, (TINY, 1)),
    ('AsinF32', '(asin(x) - x) / x^3 in x^2', lambda z: (asin(sqrt(z)) / sqrt(z) - 1) / z, lambda z: z * sqrt(z) / asin(sqrt(z)), 4,
     (TINY, '0.2501')),
    ('SinhF32', '(sinh(x) - x) / x^3 in x^2, x < 1', lambda z: (sinh(sqrt(z)) / sqrt(z) - 1) / z, lambda z: z * sqrt(z) / sinh(sqrt(z)), 3,
     (TINY, '1.02')),
    ('ErfcF32', '(1 + 2x) exp(x^2) erfc(x) in (x - 2) / (x + 2)', scaled_erfc, lambda t: 1 / scaled_erfc(t), 12, (-1, 1)),
    ('ExpF64', '(exp(r) - 1 - r) / r^2', exp_rest, lambda r: r ** 2, 10, (-HALF_LN2, HALF_LN2)),
    ('LogF64', '(log((1+s)/(1-s)) - 2s) / s^3 in s^2', atanh_rest, lambda z: z, 6,
     (TINY, (mpf('0.1716')) ** 2)),
    ('Log2ShortF64', 'log2((1+s)/(1-s)) / s in s^2, for fp32', lambda z: log((1 + sqrt(z)) / (1 - sqrt(z))) / sqrt(z) / LN2, lambda z: mpf(1), 5,
     (TINY, (mpf('0.1716')) ** 2)),
    ('Log2TailF64', '(log((1+s)/(1-s)) / 2s - 1 - s^2/3) / s^4 in s^2', atanh_tail, lambda z: z ** 2, 7, (TINY, (mpf('0.1716')) ** 2)),
    ('Exp2ShortF64', '2^r, for fp32', lambda r: exp(r * LN2), lambda r: mpf(1), 8, ('-0.5', '0.5')),
    ('SinF64', '(sin(r) - r) / r^3 in r^2', sin_rest, lambda z: z, 5, (TINY, QUARTER_PI ** 2)),
    ('CosF64', '(cos(r) - 1 + r^2/2) / r^4 in r^2', cos_rest, lambda z: z ** 2, 5, (TINY, QUARTER_PI ** 2)),
    ('AtanF64', '(atan(t) - t) / t^3 in t^2', lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, lambda z: z, 11, (TINY, '0.17164')),
    ('AsinF64', '(asin(x) - x) / x^3 in x^2', lambda z: (asin(sqrt(z)) / sqrt(z) - 1) / z, lambda z: z, 12, (TINY, '0.2501')),
    ('ErfSmallF64', 'erf(x)/x - 1 in x^2, x < 1', lambda z: erf(sqrt(z)) / sqrt(z) - 1, lambda z: sqrt(z) / erf(sqrt(z)), 12,
     (TINY, '1.0')),
    ('ErfLargeF64', 'log2(erfc(x)), 1 <= x <= 6', lambda x: log(erfc(x)) / LN2, lambda x: erfc(x) / erf(x), 18, ('0.999', '6')),
    ('LogGammaF64', 'log(gamma(2 + d)) / (d (1 + d))', log_gamma_factor, lambda d: 1 / log_gamma_factor(d), 22, ('-0.75', '0.5')),
    ('GammaF64', 'gamma(2 + d)', lambda d: gamma(2 + d), lambda d: 1 / gamma(2 + d), 22, ('-0.75', '0.5')),
    ('ErfcF64', '(1 + 2x) exp(x^2) erfc(x) in (x - 2) / (x + 2)', scaled_erfc, lambda t: 1 / scaled_erfc(t), 24, (-1, 1)),
    ('ErfcShortF64', 'the same, for fp32', scaled_erfc, lambda t: 1 / scaled_erfc(t), 13, (-1, 1)),
    ('ErfinvNearLongF64', 'erfinv(x)/x in w - 2.5, w = -log(1 - x^2) < 5, for fp64', lambda w: inverse_of_erf(w + 2.5), lambda w: 1 / inverse_of_erf(w + 2.5), 24,
     (-2.5 + TINY, 2.5)),
    ('ErfinvMiddleLongF64', 'erfinv(x)/x in sqrt(w) - 3, 5 <= w < 16, for fp64', lambda s: inverse_of_erf((s + 3) ** 2), lambda s: 1 / inverse_of_erf((s + 3) ** 2), 22,
     ('-0.764', 1)),
    ('ErfinvFarLongF64', 'erfinv(x)/x in sqrt(w) - 7, 16 <= w < 105, for fp64', lambda s: inverse_of_erf((s + 7) ** 2), lambda s: 1 / inverse_of_erf((s + 7) ** 2),
     28, (-3, '3.3')),
    ('ErfinvFarthestLongF64', 'erfinv(x)/x in sqrt(w) - 18.5, 105 <= w < 746', lambda s: inverse_of_erf((s + 18.5) ** 2),
     lambda s: 1 / inverse_of_erf((s + 18.5) ** 2), 26, ('-8.26', '8.82')),
    ('ErfinvNearF64', 'erfinv(x)/x in w - 2.5, w = -log(1 - x^2) < 5', lambda w: inverse_of_erf(w + 2.5),
     lambda w: 1 / inverse_of_erf(w + 2.5), 10, (-2.5 + TINY, 2.5)),
    ('ErfinvMiddleF64', 'erfinv(x)/x in sqrt(w) - 3, 5 <= w < 16', lambda s: inverse_of_erf((s + 3) ** 2),
     lambda s: 1 / inverse_of_erf((s + 3) ** 2), 11, ('-0.764', 1)),
    ('ErfinvFarF64', 'erfinv(x)/x in sqrt(w) - 7, 16 <= w < 105', lambda s: inverse_of_erf((s + 7) ** 2),
     lambda s: 1 / inverse_of_erf((s + 7) ** 2), 11, (-3, '3.3')),
    *bessel_tables(0), *bessel_tables(1),
]


def normal_for_gelu(limit='5.4375', degree=14):
    """(Phi(x) - 1/2) / x of x^2 - limit^2 / 2 up to the limit in fp32; the weight makes the error that of x Phi(x) next to x. Fitted in sixteenths, so that the powers stay small."""
    middle = mpf(limit) ** 2 / 2

    def value(s):
        x = sqrt(16 * s + middle)
        return erf(x / sqrt(2)) / (2 * x)
    coefficients, error = fit(value, lambda s: max(sqrt(16 * s + middle), mpf('0.3')), degree, TINY - middle / 16, middle / 16, True)
    print(f'2^{float(log(error) / LN2):.1f}, middle {float(middle)}')
    print(', '.join(f'{float(c) / 16.0 ** k:.9g}' for k, c in enumerate(coefficients)))


def main():
    if sys.argv[1:] == ['--gelu']:
        return normal_for_gelu()
    lines = ['// Generated by scripts/fit_math_polynomials.py; do not edit. Minimax polynomials, lowest order first; beside each',
             "// the largest error of the exact polynomial, relative to the function's value.", '#pragma once', '',
             'namespace nereid::coefficients {', '']
    for name, what, f, weight, degree, (a, b) in TABLES:
        single = name.endswith('F32')
        coefficients, error = fit(f, weight, degree, a, b, single)
        print(f'{name}: 2^{float(log(error) / LN2):.1f}')
        lines.append(f'// {what}; error 2^{float(log(error) / LN2):.1f}')
        lines.append(f'inline constexpr double {name[0].lower() + name[1:]}[] = {{')
        lines += [f'    {float(c).hex()},' for c in coefficients]
        lines += ['};', '']
    lines.append('} // namespace nereid::coefficients')
    out = pathlib.Path(__file__).parent.parent / 'src/support/Coefficients.h'
    out.write_text('\n'.join(lines) + '\n')


if __name__ == '__main__':
    main()
