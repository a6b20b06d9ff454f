# Microscaling formats as numbers: the operands of dot_scaled.


def _e2m1(nibble, dtype: constexpr):
    """Four bits, a sign, two of exponent and one of mantissa, as a number: 0, 0.5, 1, 1.5, 2, 3, 4, 6."""
    half: constexpr = 0x3800 if dtype == float16 else 0x3F00
    bits: constexpr = 9 if dtype == float16 else 6
    magnitude = nibble & 7
    # From 1 on the bits are those of the wide format, two exponents further up; 0.5 is subnormal.
    number = where(magnitude < 2, magnitude * half, half + (magnitude << bits))
    return (number | ((nibble & 8) << 12)).to(dtype, bitcast=True)


def _e2m1_pairs(x, dtype: constexpr, axis: constexpr):
    """Bytes of two numbers that lie one behind the other along the last axis or the last but one, the lower bits first."""
    wide = x.to(uint8, bitcast=True).to(uint16)
    pairs = join(_e2m1(wide & 15, dtype), _e2m1(wide >> 4, dtype))
    if axis == -1:
        return reshape(pairs, x.shape[:-1] + (2 * x.shape[-1],))
    else:
        return reshape(trans(pairs), x.shape[:-2] + (2 * x.shape[-2], x.shape[-1]))


def _scales(scale, dtype: constexpr, fast_math: constexpr):
    """Scales as numbers: bytes are exponents of 2, 255 is NaN."""
    if scale.dtype == float8e4nv:
        return scale.to(dtype)
    else:
        exponent = scale.to(uint8, bitcast=True).to(uint32)
        # 2 ** -127 is subnormal.
        bits = where(exponent == 0, 0x400000, exponent << 23)
        if not fast_math:
            bits = where(exponent == 255, 0x7FC00000, bits)
        return bits.to(float32, bitcast=True).to(dtype)


def _scaled(x, scale, kind: constexpr, dtype: constexpr, pack_axis: constexpr, is_lhs: constexpr, fast_math: constexpr):
    """An operand of dot_scaled as numbers of `dtype`."""
    if kind == "e2m1":
        values = _e2m1_pairs(x, dtype, pack_axis)
    elif kind == "e4m3":
        values = x.to(float8e4nv, bitcast=True).to(dtype)
    elif kind == "e5m2":
        values = x.to(float8e5, bitcast=True).to(dtype)
    else:
        values = x.to(dtype)
    if scale is None:
        return values
    else:
        # bf16 has the exponents of the scales; with fp16 the product may be a number where the scale is none.
        wide: constexpr = float32 if dtype == float16 else dtype
        factors = _scales(scale, wide, fast_math)
        shape: constexpr = values.shape
        if is_lhs:
            group: constexpr = shape[-1] // factors.shape[-1]
            factors = broadcast_to(expand_dims(factors, -1), factors.shape + (group,))
        else:
            groups: constexpr = factors.shape[-1]
            group: constexpr = shape[-2] // groups
            factors = expand_dims(trans(factors), -2)
            factors = broadcast_to(factors, shape[:-2] + (groups, group, shape[-1]))
        return (values.to(wide) * reshape(factors, shape)).to(dtype)
