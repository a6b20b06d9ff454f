"""Functions of one operand."""

import nereid
import nereid.language as tl
from nereid.language.extra import libdevice

from . import narrow
from .narrow import divide

PI = tl.constexpr(3.141592653589793)
SQRT_HALF = tl.constexpr(0.7071067811865476)


@nereid.jit
def identity(x):
    return x


@nereid.jit
def absolute(x):
    return tl.abs(x)


@nereid.jit
def neg(x):
    return -x


@nereid.jit
def exp(x):
    return tl.exp(x)


@nereid.jit
def exp2(x):
    return narrow.exp2_of_any(x)


@nereid.jit
def expm1(x):
    return libdevice.expm1(x)


@nereid.jit
def log(x, NARROW: tl.constexpr = False):
    return narrow.log(x, NARROW)


@nereid.jit
def log2(x, NARROW: tl.constexpr = False):
    return narrow.log2(x, NARROW)


@nereid.jit
def log10(x):
    return libdevice.log10(x)


@nereid.jit
def log1p(x, NARROW: tl.constexpr = False):
    return narrow.log1p_of_any(x, NARROW)


@nereid.jit
def sin(x):
    return tl.sin(x)


@nereid.jit
def cos(x):
    return tl.cos(x)


@nereid.jit
def tan(x):
    return libdevice.tan(x)


@nereid.jit
def asin(x):
    return libdevice.asin(x)


@nereid.jit
def acos(x):
    return libdevice.acos(x)


@nereid.jit
def atan(x):
    return libdevice.atan(x)


@nereid.jit
def sinh(x):
    return libdevice.sinh(x)


@nereid.jit
def cosh(x):
    return libdevice.cosh(x)


@nereid.jit
def tanh(x, NARROW: tl.constexpr = False):
    return narrow.tanh(x, NARROW)


@nereid.jit
def asinh(x):
    return libdevice.asinh(x)


@nereid.jit
def acosh(x):
    return libdevice.acosh(x)


@nereid.jit
def atanh(x):
    return libdevice.atanh(x)


@nereid.jit
def sqrt(x):
    if x.dtype == tl.float64:
        return tl.sqrt(x)
    return tl.sqrt_rn(x)


@nereid.jit
def rsqrt(x):
    return tl.rsqrt(x)


@nereid.jit
def reciprocal(x, NARROW: tl.constexpr = False):
    return divide(tl.full(x.shape, 1, x.dtype), x, NARROW)


@nereid.jit
def erf(x):
    return tl.erf(x)


@nereid.jit
def erfc(x):
    return libdevice.erfc(x)


@nereid.jit
def erfinv(x):
    return libdevice.erfinv(x)


@nereid.jit
def floor(x):
    if x.dtype.is_floating():
        return tl.floor(x)
    return x


@nereid.jit
def ceil(x):
    if x.dtype.is_floating():
        return tl.ceil(x)
    return x


@nereid.jit
def trunc(x):
    if x.dtype.is_floating():
        return libdevice.trunc(x)
    return x


@nereid.jit
def to_nearest(x):
    """A float rounded to the nearest whole number, to the even one of two."""
    return libdevice.rint(x)


@nereid.jit
def round_to_even(x, decimals):
    if not x.dtype.is_floating():
        return x
    elif decimals is None:
        return libdevice.rint(x)
    elif decimals < 0:
        scale = libdevice.pow(tl.full((), 10, tl.float64), -decimals.to(tl.float64)).to(x.dtype)
        return libdevice.rint(divide(x, tl.zeros_like(x) + scale)) * scale
    else:
        scale = libdevice.pow(tl.full((), 10, tl.float64), decimals.to(tl.float64)).to(x.dtype)
        return divide(libdevice.rint(x * scale), tl.zeros_like(x) + scale)


@nereid.jit
def frac(x):
    return x - libdevice.trunc(x)


@nereid.jit
def sign(x):
    if x.dtype == tl.int1:
        return x
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@nereid.jit
def signbit(x):
    if x.dtype == tl.float64:
        return x.to(tl.int64, bitcast=True) < 0
    elif x.dtype.is_floating():
        return x.to(tl.int32, bitcast=True) < 0
    elif x.dtype == tl.int1 or x.dtype.is_int_unsigned():
        return tl.zeros(x.shape, tl.int1)
    else:
        return x < 0


@nereid.jit
def isnan(x):
    return x != x


@nereid.jit
def isinf(x):
    if x.dtype.is_floating():
        return tl.abs(x) == float("inf")
    return tl.zeros(x.shape, tl.int1)


@nereid.jit
def isposinf(x):
    if x.dtype.is_floating():
        return x == float("inf")
    return tl.zeros(x.shape, tl.int1)


@nereid.jit
def isneginf(x):
    if x.dtype.is_floating():
        return x == float("-inf")
    return tl.zeros(x.shape, tl.int1)


@nereid.jit
def bitwise_not(x):
    if x.dtype == tl.int1:
        return x == 0
    return ~x


@nereid.jit
def logical_not(x):
    return x == 0


@nereid.jit
def nan_to_num(x, nan, posinf, neginf):
    result = tl.where(x == float("inf"), posinf, x)
    result = tl.where(x == float("-inf"), neginf, result)
    return tl.where(x != x, nan, result)


@nereid.jit
def lgamma(x):
    return libdevice.lgamma(x)


@nereid.jit
def digamma(x):
    """The recurrence up to 10, then the asymptotic series; reflected for negative numbers."""
    negative = x < 0
    whole = libdevice.trunc(x)
    y = tl.where(negative, 1 - x, x)
    shifted = tl.zeros_like(x)
    for _ in range(10):
        small = y < 10
        shifted -= tl.where(small, 1 / y, 0)
        y += tl.where(small, 1, 0).to(x.dtype)
    z = 1 / (y * y)
    series = 1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * (691 / 32760 - z / 12)))))
    result = tl.log(y) - 0.5 / y - z * series + shifted
    result = tl.where(y == float("inf"), y, result)
    # Near a pole the tangent needs more digits.
    reflected = result - (PI / libdevice.tan((x - whole).to(tl.float64) * PI)).to(x.dtype)
    result = tl.where(negative, reflected, result)
    result = tl.where(negative & (whole == x), float("nan"), result)
    return tl.where(x == 0, libdevice.copysign(tl.full(x.shape, float("inf"), x.dtype), -x), result)


@nereid.jit
def i0(x):
    # ATen's is NaN at infinity.
    return tl.where(tl.abs(x) == float("inf"), float("nan"), libdevice.cyl_bessel_i0(x))


@nereid.jit
def i1(x):
    result = tl.where(tl.abs(x) == float("inf"), float("nan"), libdevice.cyl_bessel_i1(x))
    return tl.where(x == 0, 0.0, result)  # also of -0, as ATen


@nereid.jit
def scaled_bessel(x, value, ORDER: tl.constexpr):
    """exp(-|x|) times the modified Bessel function of the first kind, `value`. Where that would overflow, by the first terms of its expansion at infinity (DLMF 10.40.1)."""
    far = tl.abs(x)
    LIMIT: tl.constexpr = 700.0 if x.dtype == tl.float64 else 80.0
    near = tl.where(far < LIMIT, value * tl.exp(-far), 0.0)
    u = divide(tl.full(x.shape, 0.125, x.dtype), tl.where(far < LIMIT, LIMIT, far))
    m: tl.constexpr = 4 * ORDER * ORDER
    fifth = 1 - (m - 81) / 5 * u
    fourth = 1 - (m - 49) / 4 * u * fifth
    third = 1 - (m - 25) / 3 * u * fourth
    second = 1 - (m - 9) / 2 * u * third
    series = (1 - (m - 1) * u * second) * tl.sqrt(u * (4 / PI))
    if ORDER == 1:
        series = tl.where(x < 0, -series, series)
    return tl.where(far < LIMIT, near, series)


@nereid.jit
def i0e(x):
    return tl.where(x != x, x, scaled_bessel(x, libdevice.cyl_bessel_i0(x), 0))


@nereid.jit
def i1e(x):
    result = tl.where(x != x, x, scaled_bessel(x, libdevice.cyl_bessel_i1(x), 1))
    return tl.where(x == 0, 0.0, result)  # also of -0, as ATen


@nereid.jit
def sinc(x):
    scaled = x * PI
    return tl.where(x == 0, 1, divide(tl.sin(scaled), scaled))


@nereid.jit
def ndtri(x):
    return libdevice.normcdfinv(x)


@nereid.jit
def log_ndtr(x):
    t = x * SQRT_HALF
    return tl.where(x < -1, tl.log(libdevice.erfcx(-t) * 0.5) - t * t, libdevice.log1p(-0.5 * libdevice.erfc(t)))


@nereid.jit
def erfcx(x):
    # The CPU target's function gives NaN at minus infinity.
    return tl.where(x == float("-inf"), float("inf"), libdevice.erfcx(x))


@nereid.jit
def entr(x, NARROW: tl.constexpr = False):
    result = tl.where(x > 0, -x * narrow.log(x, NARROW), tl.where(x == 0, 0.0, float("-inf")))
    return tl.where(x != x, x, result)


@nereid.jit
def angle(x):
    # Two numbers alone would be fp32.
    return tl.where(x != x, x, tl.where(x < 0, tl.full((), PI, x.dtype), 0.0))


@nereid.jit
def deg2rad(x):
    return x * (PI / 180)


@nereid.jit
def rad2deg(x):
    return x * (180 / PI)


@nereid.jit
def logit(x, eps, NARROW: tl.constexpr = False):
    if eps is not None:
        # A negative number means none.
        low = tl.where(eps < 0, float("-inf"), eps)
        high = tl.where(eps < 0, float("inf"), 1 - eps)
        x = tl.where(x < low, low, tl.where(x > high, high, x))
    return narrow.log(divide(x, 1 - x, NARROW == 8), NARROW)
