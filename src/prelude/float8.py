# The 8-bit floats that no hardware of ours converts, by arithmetic on bits. Their values are bytes to every target.
#
# `mantissa` and `bias` describe the type; `largest` is the code of its largest number. Types with `nan` (the fnuz family) have the
# code 0x80 for NaN and no negative zero.


def _float8_to_float32(code, mantissa: constexpr, bias: constexpr, nan: constexpr):
    # Exponent and mantissa at their places in fp32 are the number times a power of two, subnormals included.
    bits = code.to(uint32)
    scale: constexpr = 2.0 ** (127 - bias)
    value = ((bits & 0x7f) << (23 - mantissa)).to(float32, bitcast=True) * scale
    if nan:
        value = where(bits == 0x80, float("nan"), value)
    return (value.to(uint32, bitcast=True) | ((bits & 0x80) << 24)).to(float32, bitcast=True)


# `x` is the number in fp32, `source` the bits of the float of `width` bits that it was made from.
def _float32_to_float8(x, source, width: constexpr, mantissa: constexpr, bias: constexpr, largest: constexpr, nan: constexpr,
                       towards_zero: constexpr):
    bits = x.to(uint32, bitcast=True)
    size = bits & 0x7fffffff
    shift: constexpr = 23 - mantissa
    smallest: constexpr = 2.0 ** (1 - bias)
    magnitude = size.to(float32, bitcast=True)
    # Normal numbers: another bias; a carry out of the mantissa is right. Subnormal ones: a whole number of quanta.
    normal = size - ((127 - bias) << 23)
    if towards_zero:
        quanta: constexpr = 2.0 ** (bias - 1 + mantissa)
        subnormal = (minimum(magnitude, smallest) * quanta).to(uint32)
    else:
        normal = normal + (1 << (shift - 1)) - 1 + ((size >> shift) & 1)
        ruler: constexpr = 2.0 ** (1 - bias - mantissa + 23)
        subnormal = (magnitude + ruler).to(uint32, bitcast=True) - full((), ruler, float32).to(uint32, bitcast=True)
    code = minimum(where(magnitude < smallest, subnormal, normal >> shift), largest)
    negative = (source >> (width - 8)).to(uint32) & 0x80
    if nan:
        code = where(code == 0, code, code | negative)
        code = where(size > 0x7f800000, 0x80, code)
    else:
        code = where(size > 0x7f800000, largest, code) | negative
    return code.to(uint8)


def _float64_to_odd(x):
    # fp32 towards zero, with the last bit set where something was lost: rounding that again rounds `x`.
    near = x.to(float32, fp_downcast_rounding="rtz")
    lost = (near.to(float64) != x).to(uint32)
    return (near.to(uint32, bitcast=True) | lost).to(float32, bitcast=True)
