"""Building blocks for functions of 16-bit floats. They compute in fp32 and the result is rounded to 8 or 11 bits: errors of some units in the last place of fp32 are rounded away,
so the approximations of the GPU's hardware are accurate enough. NARROW: whether results are of 16 bits (8 or 11: of which precision); else these are the exact functions."""

import nereid
import nereid.language as tl
from nereid.language import target_info
from nereid.language.extra import libdevice

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@nereid.jit
def divide(x, y, NARROW: tl.constexpr = False):
    """x / y, correctly rounded unless NARROW."""
    if NARROW or x.dtype == tl.float64:
        return x / y
    x, y = tl.broadcast(x, y)
    return tl.div_rn(x, y)


@nereid.jit
def exp(x, NARROW: tl.constexpr):
    """NARROW: relative error 2^-17, by the rounding of x * log2(e); on GPUs 0 below 2^-126."""
    if NARROW:
        return tl.exp2(x * LOG2_E)
    else:
        return tl.exp(x)


@nereid.jit
def exp2_of_any(x):
    """2^x. The GPU's instruction gives 0 where the result is subnormal."""
    if x.dtype == tl.float32 and not target_info.is_cpu():
        small = x < -125
        result = tl.exp2(tl.where(small, x + 24, x))
        return tl.where(small, result * 5.9604644775390625e-08, result)
    else:
        return tl.exp2(x)


@nereid.jit
def exp_of_any(x, NARROW: tl.constexpr):
    """`exp` where the result may be as small as that: bf16 has the exponents of fp32."""
    if NARROW:
        return exp2_of_any(x * LOG2_E)
    else:
        return tl.exp(x)


@nereid.jit
def expm1(x, NARROW: tl.constexpr):
    if NARROW:
        small = x * (1 + x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120)))))
        return tl.where(tl.abs(x) < 0.125, small, exp(x, True) - 1)
    else:
        return libdevice.expm1(x)


@nereid.jit
def log2(x, NARROW: tl.constexpr):
    """NARROW of 8 bits, on GPUs: an error of 2^-22 between 1/2 and 2, which is too much for 11 bits beside 1."""
    if NARROW == 8 and not target_info.is_cpu():
        # The GPU's instruction takes subnormal numbers for 0.
        small = x < 1.1754943508222875e-38
        result = libdevice.fast_log2f(tl.where(small, x * 16777216, x))
        return tl.where(small, result - 24, result)
    else:
        return tl.log2(x)


@nereid.jit
def log(x, NARROW: tl.constexpr):
    if NARROW == 8 and not target_info.is_cpu():
        return log2(x, NARROW) * LN_2
    else:
        return tl.log(x)


@nereid.jit
def log1p_of_any(x, NARROW: tl.constexpr):
    """NARROW, on GPUs: the series of `log1p` up to 1, where |x / (2 + x)| is 1/3 at most; elsewhere the sum is far from 1."""
    if NARROW and not target_info.is_cpu():
        return tl.where(tl.abs(x - 0.25) < 0.75, log1p(x, True), libdevice.fast_log2f(x + 1) * LN_2)
    else:
        return libdevice.log1p(x)


@nereid.jit
def log1p(x, NARROW: tl.constexpr):
    """For -1/2 <= x <= 1. NARROW: 2 * artanh(x / (2 + x)), whose series is cut off at a relative error of 2e-8: `logaddexp` subtracts it from numbers that are nearly as large."""
    if NARROW:
        s = x / (x + 2)
        q = s * s
        return 2 * s * (1 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * (1 / 11 + q * (1 / 13)))))))
    else:
        return libdevice.log1p(x)


@nereid.jit
def tanh(x, NARROW: tl.constexpr):
    if NARROW:
        q = x * x
        small = x * (1 + q * (-1 / 3 + q * (2 / 15)))
        a = tl.abs(x)
        large = 1 - 2 / (1 + exp(2 * a, True))
        return tl.where(a < 0.125, small, tl.where(x < 0, -large, large))
    else:
        return libdevice.tanh(x)


@nereid.jit
def density(x):
    """exp(-x * x / 2), for results of 16 bits: relative error 2^-17; 0 where it is below 2^-126."""
    if target_info.is_cpu():
        # The bound of the exponent takes the place of what exp2 does about small results; a power of two with the exponent -127 is 0.
        power = tl.maximum(x * x * (-0.5 * LOG2_E), -127.0)
        shifted = power + 12582912.0  # 1.5 * 2^23: the integer nearest to `power` in the lowest bits
        rest = power - (shifted - 12582912.0)
        near = 0.99999928 + rest * (0.69312179 + rest * (0.24024744 + rest * (0.055917859 + rest * 0.0095701022)))
        return near * ((shifted.to(tl.int32, bitcast=True) << 23) + 0x3F800000).to(tl.float32, bitcast=True)
    else:
        return exp(-0.5 * x * x, True)


@nereid.jit
def normal_below_bf16(x):
    """`normal_below` for results of bf16 on CPUs, density included: relative error 2^-11.8, a sixth of what rounding adds."""
    power = tl.maximum(x * x * (-0.5 * LOG2_E), -127.0)
    shifted = power + 12582912.0  # as in `density`
    rest = power - (shifted - 12582912.0)
    near = 0.999928074 + rest * (0.693260986 + rest * (0.242611122 + rest * 0.055171668))
    t = tl.minimum(tl.abs(x), 5.5) - 2.75
    tail = 0.000750474113 + t * (-0.000108535311 + t * (3.34793146e-05 + t * (-2.08504892e-05 + t * 3.8993926e-06)))
    tail = 0.130716439 + t * (-0.0393680082 + t * (0.0111416404 + t * (-0.00310827585 + t * tail)))
    tail = near * ((shifted.to(tl.int32, bitcast=True) << 23) + 0x3F800000).to(tl.float32, bitcast=True) * tail
    return tl.where(x < 0, tail, 1 - tail)


@nereid.jit
def normal_below(x, density):
    """How probable a normal number below x is, for results of 16 bits. density: exp(-x * x / 2).

    Below -|x| it is density * (a polynomial of |x|, fitted for a small relative error up to 5.5: 2^-16), also where it is tiny.
    """
    t = tl.minimum(tl.abs(x), 5.5) - 2.75
    tail = 4.2751482e-05 + t * (-4.4250737e-06 + t * (1.437508e-06 + t * (-1.003067e-06 + t * 1.7647351e-07)))
    tail = 0.011115967 + t * (-0.0029347253 + t * (0.00074872322 + t * (-0.00019709556 + t * tail)))
    tail = density * (0.13072546 + t * (-0.039457109 + t * tail))
    return tl.where(x < 0, tail, 1 - tail)


@nereid.jit
def normal_below_single(x):
    """How probable a normal number below x is, in fp32 on CPUs: absolute error 2^-23.8 (0.5 * (1 + erf(x / sqrt(2))) in fp32: 2^-24.4), exactly 0 below -5.4375. The coefficients are those of scripts/fit_math_polynomials.py --gelu."""
    inside = tl.minimum(tl.maximum(x, -5.4375), 5.4375)
    t = inside * inside - 14.783203125
    p = 7.7623895e-15 + t * (-1.66791997e-16 + t * (8.50749304e-18 + t * (-7.08649353e-19 + t * 1.86738237e-20)))
    p = -3.66610493e-08 + t * (1.90588545e-09 + t * (-9.24158319e-11 + t * (4.36685063e-12 + t * (-2.08555449e-13 + t * p))))
    p = 0.130026951 + t * (-0.00438947929 + t * (0.00022061124 + t * (-1.20883906e-05 + t * (6.72350041e-07 + t * p))))
    return tl.where(x < -5.4375, tl.zeros_like(x), 0.5 + inside * p)
