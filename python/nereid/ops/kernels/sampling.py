"""Drawing a token of each row of logits, and dropout whose mask is made again from its seed.

Random bits are Philox's: the key is a seed in memory, the counter the place of an element. The same seed gives the same numbers, whatever the blocks are.
"""

import nereid
import nereid.language as tl
from nereid.language.extra import libdevice


@nereid.jit
def bits_of(seed, low, high):
    """Four blocks of 32 random bits at the counter (low, high), blocks that broadcast. seed: a pointer to 64 bits."""
    key = tl.load(seed)
    low = low.to(tl.int64)
    high = high.to(tl.int64)
    return tl.philox(key, (low & 0xffffffff).to(tl.uint32), (low >> 32).to(tl.uint32), (high & 0xffffffff).to(tl.uint32) + low.to(tl.uint32) * 0,
                     (high >> 32).to(tl.uint32) + low.to(tl.uint32) * 0)


@nereid.jit
def dropped(out, x, residual, seed, numel, threshold, scale, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """out = x * scale where 32 random bits are at least `threshold`, else 0, plus the residual where there is one. All contiguous. Grid: numel / (4 * BLOCK).

    The four words of a counter belong to elements that are BLOCK apart: loads are contiguous.
    """
    first = tl.program_id(0).to(tl.int64) * (4 * BLOCK)
    lane = tl.arange(0, BLOCK)
    words = bits_of(seed, tl.program_id(0).to(tl.int64) * BLOCK + lane, tl.full((), 0, tl.int64))
    for i in tl.static_range(4):
        place = first + i * BLOCK + lane
        mask = place < numel
        value = tl.load(x + place, mask=mask, other=0).to(COMPUTE) * scale.to(COMPUTE)
        value = tl.where(words[i].to(tl.int64) >= threshold, value, 0.0)
        if residual is not None:
            value = value + tl.load(residual + place, mask=mask, other=0).to(COMPUTE)
        tl.store(out + place, value.to(out.dtype.element_ty), mask=mask)


@nereid.jit
def scaled_logits(logits, place, mask, inverse):
    """A block of logits by the temperature, in fp32. Masked elements and not-a-number become -inf."""
    x = tl.load(logits + place, mask=mask, other=float("-inf")).to(tl.float32)
    return tl.where(x == x, x * inverse, float("-inf")) + 0.0


@nereid.jit
def key_of(x):
    """Integers from 0 to 2^32 - 1, in the order of fp32 numbers, as int64."""
    bits = x.to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) & 0x7fffffff)).to(tl.int64) + 2147483648


@nereid.jit
def weight_of(x, greatest):
    """exp(x - greatest), 1 where both are infinite."""
    return tl.exp(tl.where(x == greatest, 0.0, x - greatest))


@nereid.jit
def threshold_of(logits, columns, inverse, greatest, least, target, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """The greatest key t for which the elements whose keys are at least t count `target` (with COUNT), or have weights that sum up to it. Elements with keys below `least`
    do not count. Each round compares with 16 keys at once and finds four bits: a row is read eight times."""
    base = tl.full((), 0, tl.int64)
    lane = tl.arange(0, BLOCK)
    digit = tl.arange(0, 16)
    for turn in range(0, 8):
        shift = 28 - 4 * turn
        pivots = base + (digit.to(tl.int64) << shift)
        sums = tl.zeros((BLOCK, 16), tl.float32)
        for start in range(0, columns, BLOCK):
            x = scaled_logits(logits, start + lane, start + lane < columns, inverse)
            key = key_of(x)
            inside = (key >= least) & (start + lane < columns)
            if COUNT:
                weight = tl.where(inside, 1.0, 0.0)
            else:
                weight = tl.where(inside, weight_of(x, greatest), 0.0)
            sums += tl.where(key[:, None] >= pivots[None, :], weight[:, None], 0.0)
        reached = tl.sum((tl.sum(sums, 0) >= target).to(tl.int32), 0)
        base += tl.maximum(reached - 1, 0).to(tl.int64) << shift
    return base


@nereid.jit
def of_row(number, numbers, row):
    """A row's parameter: of the tensor where there is one."""
    if numbers is not None:
        return tl.load(numbers + row)
    else:
        return number


@nereid.jit
def sample(out, logits, seed, columns, row_stride, temperature, top_k, top_p, min_p, temperatures, top_ks, top_ps, min_ps, USE_K: tl.constexpr, USE_P: tl.constexpr,
           USE_MIN: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """out[row]: a column, drawn with the probabilities softmax(logits / temperature) of those that are left over. Grid: rows.

    The greatest of weight / exponential number is a draw by the weights (Efraimidis and Spirakis 2006): nothing is summed up or sorted. temperatures, top_ks, top_ps,
    min_ps: a number for each row, or None for the same one in all. USE_K, USE_P, USE_MIN: whether columns are left out by it. BLOCK, WIDTH: columns at once of the search, of the other passes.
    """
    row = tl.program_id(0).to(tl.int64)
    logits += row * row_stride
    lane = tl.arange(0, WIDTH)
    warmth = of_row(temperature, temperatures, row).to(tl.float32)
    greedy = warmth <= 0
    inverse = tl.where(greedy, 1.0, 1.0 / tl.where(greedy, 1.0, warmth))
    highest = tl.full((WIDTH,), float("-inf"), tl.float32)
    for start in range(0, columns, WIDTH):
        highest = tl.maximum(highest, scaled_logits(logits, start + lane, start + lane < columns, inverse))
    greatest = tl.max(highest, 0)
    least = tl.full((), 0, tl.int64)
    if USE_K:
        count = of_row(top_k, top_ks, row).to(tl.int64)
        if (count > 0) & (count < columns):
            least = threshold_of(logits, columns, inverse, greatest, least, count.to(tl.float32), True, BLOCK)
    if USE_P:
        part = of_row(top_p, top_ps, row).to(tl.float32)
        if part < 1:
            total = tl.zeros((WIDTH,), tl.float32)
            for start in range(0, columns, WIDTH):
                x = scaled_logits(logits, start + lane, start + lane < columns, inverse)
                total += tl.where((key_of(x) >= least) & (start + lane < columns), weight_of(x, greatest), 0.0)
            least = tl.maximum(least, threshold_of(logits, columns, inverse, greatest, least, part * tl.sum(total, 0), False, BLOCK))
    if USE_MIN:
        share = of_row(min_p, min_ps, row).to(tl.float32)
        bound = tl.where(share > 0, greatest + tl.log(tl.where(share > 0, share, 1.0)), float("-inf"))
        least = tl.maximum(least, key_of(bound + 0.0))
    best = tl.full((WIDTH,), float("-inf"), tl.float32)
    place = tl.zeros((WIDTH,), tl.int64)
    for start in range(0, columns, 4 * WIDTH):
        words = bits_of(seed, start // 4 + lane, row)
        for i in tl.static_range(4):
            column = start + i * WIDTH + lane
            x = scaled_logits(logits, column, column < columns, inverse)
            part_of_one = tl.minimum(words[i].to(tl.float32) * 2.3283064365386963e-10 + 1.1641532182693481e-10, 0.99999994)
            wait = -libdevice.log1p(-part_of_one)
            score = tl.where(x == greatest, 0.0, x - greatest) - tl.where(greedy, 0.0, tl.log(wait))
            score = tl.where((key_of(x) >= least) & (column < columns) & (x > float("-inf")), score, float("-inf"))
            better = score > best
            best = tl.where(better, score, best)
            place = tl.where(better, column.to(tl.int64), place)
    top = tl.max(best, 0)
    # Of equals the first column; 0 where no column has a finite logit.
    chosen = tl.min(tl.where((best == top) & (best > float("-inf")), place, columns), 0)
    tl.store(out + row, tl.where(chosen < columns, chosen, 0))
