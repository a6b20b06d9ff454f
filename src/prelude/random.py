# Random numbers from counters: Philox (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#
# Every offset is a counter, so any program can draw its numbers without a state. 32-bit counters use
# Philox-4x32, 64-bit ones Philox-4x64.


def philox_impl(c0, c1, c2, c3, k0, k1, n_rounds: constexpr = 10):
    """`n_rounds` rounds of Philox on a counter of four unsigned words and a key of two.

    :returns: four blocks of the counter's type, uint32 or uint64.
    """
    if c0.dtype == uint32:
        multiplier_a: constexpr = 0xD2511F53
        multiplier_b: constexpr = 0xCD9E8D57
        weyl_a: constexpr = 0x9E3779B9
        weyl_b: constexpr = 0xBB67AE85
    else:
        static_assert(c0.dtype == uint64, "the counters of philox_impl must be uint32 or uint64")
        multiplier_a: constexpr = 0xD2E7470EE14C6C93
        multiplier_b: constexpr = 0xCA5A826395121157
        weyl_a: constexpr = 0x9E3779B97F4A7C15
        weyl_b: constexpr = 0xBB67AE8584CAA73B
    for _ in static_range(n_rounds):
        old0 = c0
        old2 = c2
        c0 = umulhi(multiplier_b, old2) ^ c1 ^ k0
        c2 = umulhi(multiplier_a, old0) ^ c3 ^ k1
        c1 = multiplier_b * old2
        c3 = multiplier_a * old0
        k0 = k0 + weyl_a
        k1 = k1 + weyl_b
    return c0, c1, c2, c3


def philox(seed, c0, c1, c2, c3, n_rounds: constexpr = 10):
    """Philox on a counter of four words. 64-bit counters use the key's low and high halves as they are.

    :param seed: an integer, of which 64 bits are used.
    :returns: four blocks of random bits, uint32 or uint64.
    """
    static_assert(to_tensor(seed).dtype.is_int() or not strict(), "the seed must be an integer (strict mode)")
    key = to_tensor(seed).to(uint64)
    first = to_tensor(c0)
    if first.dtype.primitive_bitwidth == 32:
        low = key.to(uint32)
        high = (key >> 32).to(uint32)
        return philox_impl(first.to(uint32, bitcast=True), to_tensor(c1).to(uint32, bitcast=True),
                           to_tensor(c2).to(uint32, bitcast=True), to_tensor(c3).to(uint32, bitcast=True), low, high,
                           n_rounds)
    else:
        static_assert(first.dtype.primitive_bitwidth == 64, "the counters of philox must have 32 or 64 bits")
        low = key
        high = key & 0
        return philox_impl(first.to(uint64, bitcast=True), to_tensor(c1).to(uint64, bitcast=True),
                           to_tensor(c2).to(uint64, bitcast=True), to_tensor(c3).to(uint64, bitcast=True), low, high,
                           n_rounds)


def randint4x(seed, offset, n_rounds: constexpr = 10):
    """Four blocks of random bits per offset: the cheapest way to draw many.

    :param seed: an integer, of which 64 bits are used.
    :param offset: integers of at most 64 bits, which count in the first two words.
    :returns: four blocks of the offset's shape, uint32.
    """
    counter = to_tensor(offset)
    low = counter.to(uint32)
    zero = full(counter.shape, 0, uint32)
    if counter.dtype.primitive_bitwidth > 32:
        return philox(seed, low, (counter >> 32).to(uint32), zero, zero, n_rounds)
    else:
        return philox(seed, low, zero, zero, zero, n_rounds)


def randint(seed, offset, n_rounds: constexpr = 10):
    """A block of random bits, one number per offset.

    :param seed: an integer, of which 64 bits are used.
    :param offset: integers of at most 64 bits.
    :returns: a block of the offset's shape, uint32.
    """
    first, second, third, fourth = randint4x(seed, offset, n_rounds)
    return first


def uint_to_uniform_float(x):
    """Random bits (uint32, int32, uint64 or int64) as fp32 numbers in [0, 1)."""
    if x.dtype.primitive_bitwidth == 32:
        bits = x.to(int32, bitcast=True)
        scale: constexpr = 4.6566127342e-10
    else:
        static_assert(x.dtype.primitive_bitwidth == 64, "random bits must have 32 or 64 bits")
        bits = x.to(int64, bitcast=True)
        scale: constexpr = 1.0842020432385337e-19
    positive = where(bits < 0, -bits - 1, bits)
    return positive * scale


def rand(seed, offset, n_rounds: constexpr = 10):
    """fp32 numbers in [0, 1), uniformly distributed, one per offset.

    :param seed: an integer, of which 64 bits are used.
    :param offset: integers of at most 64 bits.
    """
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


def rand4x(seed, offsets, n_rounds: constexpr = 10):
    """Four blocks of fp32 numbers in [0, 1) per offset.

    :param seed: an integer, of which 64 bits are used.
    :param offsets: integers of at most 64 bits.
    """
    first, second, third, fourth = randint4x(seed, offsets, n_rounds)
    return (uint_to_uniform_float(first), uint_to_uniform_float(second), uint_to_uniform_float(third),
            uint_to_uniform_float(fourth))


def pair_uniform_to_normal(u1, u2):
    """Two independent normal numbers from two uniform ones (Box and Muller 1958)."""
    u1 = maximum(1.0e-7, u1)
    angle = 6.283185307179586 * u2
    radius = sqrt(-2.0 * log(u1))
    return radius * cos(angle), radius * sin(angle)


def randn(seed, offset, n_rounds: constexpr = 10):
    """fp32 numbers, normally distributed with mean 0 and variance 1, one per offset.

    :param seed: an integer, of which 64 bits are used.
    :param offset: integers of at most 64 bits.
    """
    first, second, third, fourth = randint4x(seed, offset, n_rounds)
    x, y = pair_uniform_to_normal(uint_to_uniform_float(first), uint_to_uniform_float(second))
    return x


def randn4x(seed, offset, n_rounds: constexpr = 10):
    """Four blocks of normally distributed fp32 numbers per offset.

    :param seed: an integer, of which 64 bits are used.
    :param offset: integers of at most 64 bits.
    """
    u1, u2, u3, u4 = rand4x(seed, offset, n_rounds)
    n1, n2 = pair_uniform_to_normal(u1, u2)
    n3, n4 = pair_uniform_to_normal(u3, u4)
    return n1, n2, n3, n4
