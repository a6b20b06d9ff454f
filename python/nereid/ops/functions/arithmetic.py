"""Functions of two and three operands. An operand can be a number: then it is a scalar where others are blocks."""

import nereid
import nereid.language as tl
from nereid.language.extra import libdevice

from . import narrow


@nereid.jit
def divide(x, y):
    """x / y, correctly rounded."""
    if x.dtype == tl.float64:
        return x / y
    return tl.div_rn(x, y)


@nereid.jit
def add(x, y, alpha):
    if x.dtype == tl.int1:
        return x | (y & alpha)
    return x + y * alpha


@nereid.jit
def add_outer(x, column, row, beta, alpha):
    if x.dtype == tl.int1:
        return (x & beta) | (column & row & alpha)
    return x * beta + alpha * column * row


@nereid.jit
def scaled_outer(x, column, row, beta, alpha):
    if x.dtype == tl.int1:
        return column & row & alpha
    return alpha * column * row


@nereid.jit
def plus(x, y):
    return x + y


@nereid.jit
def sub(x, y, alpha):
    return x - y * alpha


@nereid.jit
def mul(x, y):
    if x.dtype == tl.int1:
        return x & y
    return x * y


@nereid.jit
def div(x, y):
    return divide(x, y)


@nereid.jit
def div_trunc(x, y):
    if x.dtype.is_floating():
        return libdevice.trunc(divide(x, y))
    return x // y


@nereid.jit
def div_floor(x, y):
    if x.dtype.is_floating():
        x, y = tl.broadcast(x, y)
        rest = libdevice.fmod(x, y)
        quotient = divide(x - rest, y)
        quotient = tl.where((rest != 0) & ((y < 0) != (rest < 0)), quotient - 1, quotient)
        whole = tl.floor(quotient)
        whole = tl.where(quotient - whole > 0.5, whole + 1, whole)
        exact = divide(x, y)
        whole = tl.where(quotient == 0, libdevice.copysign(tl.zeros_like(x), exact), whole)
        return tl.where(y == 0, exact, whole)
    elif x.dtype.is_int_unsigned():
        return x // y
    else:
        quotient = x // y
        return tl.where((quotient * y != x) & ((x < 0) != (y < 0)), quotient - 1, quotient)


@nereid.jit
def remainder(x, y):
    if x.dtype.is_floating():
        rest = fmod(x, y)
    else:
        rest = x % y
    if x.dtype.is_int_unsigned():
        return rest
    return tl.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


@nereid.jit
def fmod(x, y):
    if x.dtype.is_floating():
        x, y = tl.broadcast(x, y)
        return libdevice.fmod(x, y)
    return x % y


@nereid.jit
def power_of_floats(x, y):
    x, y = tl.broadcast(x, y)
    return libdevice.pow(x, y)


@nereid.jit
def power(x, y):
    if x.dtype.is_floating():
        if len(y.shape) != 0:
            return power_of_floats(x, y)
        # Exponents that are numbers, known when the kernel runs.
        if y == 2:
            result = x * x
        elif y == 3:
            result = x * x * x
        elif y == -1:
            result = divide(tl.full(x.shape, 1, x.dtype), x)
        elif y == -2:
            result = divide(tl.full(x.shape, 1, x.dtype), x * x)
        elif y == 0.5:  # not-a-number for -inf, as in ATen, but for fp16 on CPUs
            result = tl.sqrt(x) if x.dtype == tl.float64 else tl.sqrt_rn(x)
        elif y == -0.5:
            result = tl.rsqrt(x)
        else:
            result = power_of_floats(x, y)
        return result
    else:
        base, y = tl.broadcast(x, y)
        exponent = y
        result = tl.full(base.shape, 1, base.dtype)
        for _ in range(base.dtype.primitive_bitwidth):
            result = tl.where((exponent & 1) != 0, result * base, result)
            base = base * base
            exponent = exponent >> 1
        if y.dtype.is_int_signed():
            one, x = tl.broadcast(tl.full((), 1, result.dtype), x + tl.zeros_like(y))
            odd = (y & 1) != 0
            negative = tl.where(x == 1, one, tl.where(x == -1, tl.where(odd, -one, one), tl.zeros_like(one)))
            result = tl.where(y < 0, negative, result)
        return result


@nereid.jit
def square_of(x, exponent):
    return x * x


@nereid.jit
def cube_of(x, exponent):
    return x * x * x


@nereid.jit
def atan2(x, y):
    x, y = tl.broadcast(x, y)
    return libdevice.atan2(x, y)


@nereid.jit
def maximum(x, y):
    if x.dtype == tl.int1:
        return x | y
    return tl.where((x > y) | (x != x), x, y)


@nereid.jit
def minimum(x, y):
    if x.dtype == tl.int1:
        return x & y
    return tl.where((x < y) | (x != x), x, y)


@nereid.jit
def fmax(x, y):
    if x.dtype == tl.int1:
        return x | y
    return tl.where((x >= y) | (y != y), x, y)


@nereid.jit
def fmin(x, y):
    if x.dtype == tl.int1:
        return x & y
    return tl.where((x <= y) | (y != y), x, y)


@nereid.jit
def hypot(x, y):
    x, y = tl.broadcast(x, y)
    return libdevice.hypot(x, y)


@nereid.jit
def copysign(x, y):
    x, y = tl.broadcast(x, y)
    return libdevice.copysign(x, y)


@nereid.jit
def nextafter(x, y):
    x, y = tl.broadcast(x, y)
    return libdevice.nextafter(x, y)


@nereid.jit
def xlogy(x, y, NARROW: tl.constexpr = False):
    return tl.where((x == 0) & (y == y), 0.0, x * narrow.log(y, NARROW))


@nereid.jit
def xlog1py(x, y, NARROW: tl.constexpr = False):
    return tl.where((x == 0) & (y == y), 0.0, x * narrow.log1p_of_any(y, NARROW))


@nereid.jit
def logaddexp(x, y, NARROW: tl.constexpr = False):
    high = maximum(x, y)
    result = high + narrow.log1p(tl.exp(-tl.abs(x - y)), NARROW)
    return tl.where((x == y) & (tl.abs(x) == float("inf")), x, result)


@nereid.jit
def logaddexp2(x, y, NARROW: tl.constexpr = False):
    high = maximum(x, y)
    result = high + narrow.log1p(narrow.exp2_of_any(-tl.abs(x - y)), NARROW) * 1.4426950408889634
    return tl.where((x == y) & (tl.abs(x) == float("inf")), x, result)


@nereid.jit
def any_left(y):
    """Whether an element of a block, or a number, is not 0."""
    if len(y.shape) != 0:
        return tl.max((y != 0).to(tl.int32)) != 0
    else:
        return y != 0


@nereid.jit
def gcd(x, y):
    x, y = tl.broadcast(x, y)
    x = tl.abs(x)
    y = tl.abs(y)
    while any_left(y):
        divisor = tl.where(y == 0, tl.full(y.shape, 1, y.dtype), y)
        rest = tl.where(y == 0, y, x % divisor)
        x = tl.where(y == 0, x, y)
        y = rest
    return x


@nereid.jit
def lcm(x, y):
    x, y = tl.broadcast(x, y)
    divisor = gcd(x, y)
    one = tl.full(x.shape, 1, x.dtype)
    factor = x // tl.where(divisor == 0, one, divisor)
    if x.dtype.primitive_bitwidth < 32:  # as in C++, whose products of narrow integers are `int`
        factor, y = factor.to(tl.int32), y.to(tl.int32)
    return tl.where(divisor == 0, tl.zeros_like(x), tl.abs(factor * y).to(x.dtype))


@nereid.jit
def heaviside(x, values):
    x, values = tl.broadcast(x, values)
    return tl.where(x == 0, values, (x > 0).to(values.dtype))


@nereid.jit
def bitwise_and(x, y):
    return x & y


@nereid.jit
def bitwise_or(x, y):
    return x | y


@nereid.jit
def bitwise_xor(x, y):
    return x ^ y


@nereid.jit
def left_shift(x, y):
    x, y = tl.broadcast(x, y)
    BITS: tl.constexpr = x.dtype.primitive_bitwidth
    outside = (y < 0) | (y >= BITS)
    return tl.where(outside, tl.zeros_like(x), x << tl.where(outside, tl.zeros_like(y), y))


@nereid.jit
def right_shift(x, y):
    x, y = tl.broadcast(x, y)
    MOST: tl.constexpr = x.dtype.primitive_bitwidth - (1 if x.dtype.is_int_signed() else 0)
    if x.dtype.is_int_signed():
        return x >> tl.where((y < 0) | (y >= MOST), tl.full(y.shape, MOST, y.dtype), y)
    return tl.where(y >= MOST, tl.zeros_like(x), x >> tl.where(y >= MOST, tl.zeros_like(y), y))


@nereid.jit
def logical_and(x, y):
    return (x != 0) & (y != 0)


@nereid.jit
def logical_or(x, y):
    return (x != 0) | (y != 0)


@nereid.jit
def logical_xor(x, y):
    return (x != 0) != (y != 0)


@nereid.jit
def eq(x, y):
    return x == y


@nereid.jit
def ne(x, y):
    return x != y


@nereid.jit
def lt(x, y):
    return x < y


@nereid.jit
def le(x, y):
    return x <= y


@nereid.jit
def gt(x, y):
    return x > y


@nereid.jit
def ge(x, y):
    return x >= y


@nereid.jit
def lerp(x, end, weight):
    distance = end - x
    return tl.where(tl.abs(weight) < 0.5, x + weight * distance, end - distance * (1 - weight))


@nereid.jit
def where(condition, x, y):
    return tl.where(condition, x, y)


@nereid.jit
def clamp(x, low, high):
    if low is not None:
        x = tl.where((x <= low) | (low != low), low, x)
    if high is not None:
        x = tl.where((x >= high) | (high != high), high, x)
    return x


@nereid.jit
def clamp_min(x, low):
    return tl.where((x <= low) | (low != low), low, x)


@nereid.jit
def clamp_max(x, high):
    return tl.where((x >= high) | (high != high), high, x)


@nereid.jit
def addcmul(x, first, second, value):
    return x + value * first * second


@nereid.jit
def addcdiv(x, first, second, value):
    first, second = tl.broadcast(first, second)
    return x + value * divide(first, second)


@nereid.jit
def masked_fill(x, mask, value):
    return tl.where(mask, value, x)


@nereid.jit
def constant(value):
    return value


@nereid.jit
def zero():
    return tl.full((), 0, tl.int32)


@nereid.jit
def both(x, y):
    return x, y


@nereid.jit
def polar(length, angle):
    return length * tl.cos(angle), length * tl.sin(angle)
