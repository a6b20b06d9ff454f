"""Attention over a paged cache (Kwon et al. 2023, "PagedAttention"), with the keys of a sequence cut into parts whose results a second kernel combines.

A cache is (pages, PAGE tokens, heads of keys, d). table (sequence, place) holds the pages of each sequence in their order, `lengths` how many tokens of them are keys. The queries of a sequence
are its last tokens. The G heads of queries that share a head of keys, of all queries of a sequence, are the rows of one matrix: row r is the query r // G and the head r % G.

Scores, weights and `rules` are those of `kernels/attention.py`.
"""

import nereid
import nereid.language as tl

from ._shared import step
from .attention import LN2, capped, hinted, highest_key, lowest_key, product, scores_of, weigh, whole_keys


@nereid.jit
def range_of(split, splits, low, high, BN: tl.constexpr):
    """The part number `split` of the keys from `low` to `high`; low is a multiple of BN, and so are all parts but the last."""
    each = tl.cdiv(tl.cdiv(tl.maximum(high - low, 0), BN), splits) * BN
    first = low + split * each
    return first, tl.minimum(high, first + each)


@nereid.jit
def pages_of(table, first, high, keys, MASKED: tl.constexpr, PAGE: tl.constexpr, BN: tl.constexpr):
    """The pages of the tokens from `first` on: a number if they are in one page, else (BN,). table: of the sequence. Nothing is read from `high` on, and with MASKED for tokens from `keys` on; without
    it, all tokens of a tile that begins below `high` exist."""
    n = tl.arange(0, BN)
    if PAGE % BN == 0:
        page = tl.load(table + first // PAGE, mask=first < high, other=0)
    else:
        # `first` is a multiple of BN.
        page = tl.load(table + (first // PAGE + n // PAGE if BN % PAGE == 0 else (first + n) // PAGE), mask=n < keys - first if MASKED else n < tl.where(first < high, BN, 0), other=0)
    return page.to(tl.int64)


@nereid.jit
def rows_in_cache(cache, page, strides, first, PAGE: tl.constexpr, BN: tl.constexpr, HINT: tl.constexpr):
    """Pointers (BN, 1) to the tokens from `first` on. cache: to the head; page: see `pages_of`; strides: (page, token)."""
    n = tl.arange(0, BN)
    if PAGE % BN == 0:
        return cache + page * hinted(strides[0], HINT) + (first % PAGE + n)[:, None] * hinted(strides[1], HINT)
    else:
        within = n % PAGE if BN % PAGE == 0 else (first + n) % PAGE
        return cache + (page * hinted(strides[0], HINT))[:, None] + within[:, None] * hinted(strides[1], HINT)


@nereid.jit
def tokens_of(rows, first, size, keys, MASKED: tl.constexpr, EVEN: tl.constexpr, HINT: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr):
    """The tile of the tokens from `first` on. rows: pointers (BN, 1); size: elements of a token, BD with EVEN."""
    d = tl.arange(0, BD)[None, :]
    places = rows + d
    columns = (first + tl.arange(0, BN))[:, None]
    if MASKED and EVEN:
        found = tl.load(places, mask=columns < keys, other=0)
    elif MASKED:
        found = tl.load(places, mask=(columns < keys) & (d < hinted(size, HINT)), other=0)
    elif EVEN:
        found = tl.load(places)
    else:
        found = tl.load(places, mask=d < hinted(size, HINT), other=0)
    return found


@nereid.jit
def narrowed(q):
    """(q as fp16, factors): the product with the factors (rows,), powers of 2, is q. The greatest number of a row becomes 1 to 2, so that no number overflows, and rounding changes it by 2^-24 of the
    greatest one at most: as much as rounding of sums in fp32. q: bf16."""
    most = tl.max(tl.abs(q.to(tl.float32)), 1)
    exponent = tl.minimum(tl.maximum(most.to(tl.int32, bitcast=True) >> 23, 1), 253)
    down = ((254 - exponent) << 23).to(tl.float32, bitcast=True)
    return (q.to(tl.float32) * down[:, None]).to(tl.float16), (exponent << 23).to(tl.float32, bitcast=True)


@nereid.jit
def row_places(strides, first_query, first_head, rows, G: tl.constexpr, HINT: tl.constexpr):
    """Offsets (BM, 1) of the rows. strides: (token, head)."""
    return ((first_query + rows // G) * hinted(strides[0], HINT) + (first_head + rows % G) * hinted(strides[1], HINT))[:, None]


@nereid.jit
def keep(out, logsumexp, parts, part_sums, total, sums, most, factor, split, first_query, first_head, rows, count, tokens, heads, dv_size, out_strides, lse_strides, ACC: tl.constexpr, EVEN: tl.constexpr,
         HINT: tl.constexpr, G: tl.constexpr, SPLIT: tl.constexpr, BV: tl.constexpr):
    """Writes the results of the rows; with SPLIT to `parts` (part, token, head, dv) and `part_sums` (part, token, head), in base 2: for `combine`. Parts without keys get -inf only."""
    dv = tl.arange(0, BV)[None, :]
    nothing = sums == 0
    total = total * (factor / tl.where(nothing, 1.0, sums)).to(ACC)[:, None]
    found = tl.where(nothing, float("-inf"), most + tl.log2(tl.where(nothing, 1.0, sums).to(ACC)))
    inside = rows < count
    mask = inside[:, None]
    if not EVEN:
        mask = mask & (dv < hinted(dv_size, HINT))
    if SPLIT:
        places = (split.to(tl.int64) * tokens + first_query + rows // G) * heads + (first_head + rows % G)
        tl.store(parts + places[:, None] * hinted(dv_size, HINT) + dv, total, mask=mask & (sums > 0)[:, None])
        tl.store(part_sums + places, found, mask=inside)
    else:
        tl.store(out + row_places(out_strides, first_query, first_head, rows, G, HINT) + dv, total.to(out.dtype.element_ty), mask=mask)
        if logsumexp is not None:
            tl.store(logsumexp + (first_head + rows % G) * lse_strides[0] + (first_query + rows // G) * lse_strides[1], found * LN2, mask=inside)


@nereid.jit
def sequence_of(q_starts, lengths, batch, queries):
    """(first token among the queries, number of queries, number of keys) of a sequence."""
    keys = tl.load(lengths + batch).to(tl.int32)
    if q_starts is None:
        return batch.to(tl.int64) * queries, queries, keys
    else:
        first = tl.load(q_starts + batch).to(tl.int64)
        return first, (tl.load(q_starts + batch + 1) - first).to(tl.int32), keys


@nereid.jit
def halves_of(words, dtype, OPERAND: tl.constexpr):
    """(the first, the second) element of each pair of 8 bits, as OPERAND. words: int16; dtype: of the elements."""
    return words.to(tl.int8).to(dtype, bitcast=True).to(OPERAND), (words >> 8).to(tl.int8).to(dtype, bitcast=True).to(OPERAND)


@nereid.jit
def walk_pages(total, sums, most, q, key, value, table, k_strides, v_strides, slope, tokens, low, high, count, keys, d_size, dv_size, shift, scale, rules, ACC: tl.constexpr, OPERAND: tl.constexpr,
               PRECISION: tl.constexpr, NARROW: tl.constexpr, SHIFT: tl.constexpr, MASKED: tl.constexpr, D_EVEN: tl.constexpr, PAIRED: tl.constexpr, HINT: tl.constexpr, PAGE: tl.constexpr,
               BN: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr):
    """PAIRED: total and q are of the even and of the odd places; for caches of 8 bits, without a cap. Elements are read in pairs, as numbers of 16 bits: the matrix loads of shared memory move these."""
    WORD: tl.constexpr = tl.pointer_type(tl.int16) if PAIRED else key.dtype
    WIDTH: tl.constexpr = 2 if PAIRED else 1
    # Pages are read an iteration ahead of the copies that need them.
    page = pages_of(table, low, high, keys, MASKED, PAGE, BN)
    for first in range(low, high, BN):
        k = tokens_of(rows_in_cache(key, page, k_strides, first, PAGE, BN, HINT).to(WORD), first, d_size // WIDTH, keys, MASKED, D_EVEN, HINT // WIDTH, BN, BD // WIDTH)
        if PAIRED:
            k_even, k_odd = halves_of(tl.trans(k), key.dtype.element_ty, OPERAND)
            scores = capped(product(q[0], k_even, ACC, PRECISION), scale, rules, ACC, NARROW) + capped(product(q[1], k_odd, ACC, PRECISION), scale, rules, ACC, NARROW)
        else:
            scores = capped(product(q, tl.trans(k).to(OPERAND), ACC, PRECISION), scale, rules, ACC, NARROW)
        columns = (first + tl.arange(0, BN))[None, :]
        scores = scores_of(scores, None, (0, 0, 0, 0), slope, tokens[:, None], columns, count, keys, shift, rules, ACC, MASKED)
        weights, shrink, sums, most = weigh(scores, sums, most, MASKED, SHIFT=SHIFT)
        weights = weights.to(OPERAND)
        v = tokens_of(rows_in_cache(value, page, v_strides, first, PAGE, BN, HINT).to(WORD), first, dv_size // WIDTH, keys, MASKED, D_EVEN, HINT // WIDTH, BN, BV // WIDTH)
        page = pages_of(table, first + BN, high, keys, MASKED, PAGE, BN)
        if PAIRED:
            v_even, v_odd = halves_of(v, value.dtype.element_ty, OPERAND)
            even = tl.dot(weights, v_even, total[0] * shrink[:, None], input_precision=PRECISION, out_dtype=ACC)
            odd = tl.dot(weights, v_odd, total[1] * shrink[:, None], input_precision=PRECISION, out_dtype=ACC)
            total = even, odd
        else:
            total = tl.dot(weights, v.to(OPERAND), total * shrink[:, None], input_precision=PRECISION, out_dtype=ACC)
    return total, sums, most


@nereid.jit
def paged_forward(out, logsumexp, parts, part_sums, query, key_cache, value_cache, table, lengths, q_starts, slopes, k_scales, v_scales, scale, rules, queries, tokens, heads, splits, d_size, dv_size,
                  out_strides, lse_strides, q_strides, key_strides, value_strides, table_stride, slope_strides, scale_strides, G: tl.constexpr, ACC: tl.constexpr, OPERAND: tl.constexpr,
                  PRECISION: tl.constexpr, NARROW: tl.constexpr, SHIFT: tl.constexpr, SPREAD: tl.constexpr, PAIRED: tl.constexpr, D_EVEN: tl.constexpr, HINT: tl.constexpr, PAGE: tl.constexpr, SPLIT: tl.constexpr,
                  BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr):
    """Grid: (tiles of rows of all heads of keys of all sequences, splits).

    query             (token, head, d); out (token, head, dv); logsumexp (head, token), or None; strides of tokens and heads, elements are neighbours
    parts, part_sums  see `keep`; splits: how many parts
    key_cache, value_cache, table, lengths: see above; strides of caches: (page, token, head); table_stride: of sequences
    q_starts          where the queries of each sequence begin, or None: each has `queries`; with q_starts that is the most of them
    slopes            (sequence, head), or None; k_scales, v_scales: (heads of keys,), fp32, or None: what the elements of the caches are multiplied by
    tokens, heads     of queries, in all
    HINT              a number of which strides of pages, tokens and heads, d and dv are multiples
    SHIFT             weights are at most 2^SHIFT: with 0 those of fp16 would be 0 below 2^-25
    SPREAD            whether weights are summed over the columns of a tile only at the end
    PAIRED            see `walk_pages`; with D_EVEN and a HINT of 2 or more
    Other constants: as for `kernels/attention.py`; OPERAND may be fp16 for queries of bf16.
    """
    key_heads = heads // G
    tiles = tl.cdiv(queries * G, BM)
    place, number = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    batch, key_head = place // key_heads, place % key_heads
    if rules[1] is not None:
        number = tiles - 1 - number
    split = tl.program_id(1)
    first_query, count, keys = sequence_of(q_starts, lengths, batch, queries)
    shift = keys - count
    first_row = number * BM
    rows = first_row + tl.arange(0, BM)
    tokens_of_rows = rows // G
    first_head = key_head * G
    d = tl.arange(0, BD)[None, :]
    mask = (rows < count * G)[:, None]
    if not D_EVEN:
        mask = mask & (d < hinted(d_size, HINT))
    q = tl.load(query + row_places(q_strides, first_query, first_head, rows, G, HINT) + d, mask=mask, other=0)
    k_start = key_cache + key_head.to(tl.int64) * hinted(key_strides[2], HINT)
    v_start = value_cache + key_head.to(tl.int64) * hinted(value_strides[2], HINT)
    pages = table + batch.to(tl.int64) * table_stride
    factor = tl.full((), 1.0, ACC)
    scaled = scale.to(ACC)
    if k_scales is not None:
        scaled *= tl.load(k_scales + key_head * scale_strides[0]).to(ACC)
    if v_scales is not None:
        factor = tl.load(v_scales + key_head * scale_strides[1]).to(ACC)
    if OPERAND == tl.float16 and query.dtype.element_ty == tl.bfloat16:
        q, factors = narrowed(q)
        scaled = scaled * factors[:, None]
    q = q.to(OPERAND)
    if PAIRED:
        q = tl.split(tl.reshape(q, (BM, BD // 2, 2)))
    slope = None
    if slopes is not None:
        slope = (tl.load(slopes + batch * slope_strides[0] + (first_head + rows % G) * slope_strides[1], mask=rows < count * G, other=0).to(ACC) * (1 / LN2))[:, None]
    if PAIRED:
        total = tl.zeros((BM, BV // 2), ACC), tl.zeros((BM, BV // 2), ACC)
    else:
        total = tl.zeros((BM, BV), ACC)
    sums = tl.zeros((BM, BN) if SPREAD else (BM,), ACC)
    most = tl.full((BM,), float("-inf"), ACC)
    first_seen = first_row // G
    seen = tl.minimum((first_row + BM - 1) // G, count - 1) + 1 - first_seen
    low, high = lowest_key(first_seen, shift, rules, BN), highest_key(first_seen, seen, keys, shift, rules)
    high = tl.where(first_row < count * G, high, 0)
    if SPLIT:
        low, high = range_of(split, splits, low, high, BN)
    begin, end = whole_keys(first_seen, seen, low, high, keys, shift, rules, BN)
    begin = tl.maximum(begin, low)
    end = tl.maximum(tl.minimum(end, high), begin)
    if rules[0] is not None:
        total, sums, most = walk_pages(total, sums, most, q, k_start, v_start, pages, key_strides, value_strides, slope, tokens_of_rows, low, begin, count, keys, d_size, dv_size, shift, scaled, rules,
                                       ACC, OPERAND, PRECISION, NARROW, SHIFT, True, D_EVEN, PAIRED, HINT, PAGE, BN, BD, BV)
    total, sums, most = walk_pages(total, sums, most, q, k_start, v_start, pages, key_strides, value_strides, slope, tokens_of_rows, begin, end, count, keys, d_size, dv_size, shift, scaled, rules,
                                   ACC, OPERAND, PRECISION, NARROW, SHIFT, False, D_EVEN, PAIRED, HINT, PAGE, BN, BD, BV)
    total, sums, most = walk_pages(total, sums, most, q, k_start, v_start, pages, key_strides, value_strides, slope, tokens_of_rows, end, high, count, keys, d_size, dv_size, shift, scaled, rules,
                                   ACC, OPERAND, PRECISION, NARROW, SHIFT, True, D_EVEN, PAIRED, HINT, PAGE, BN, BD, BV)
    if SPREAD:
        sums = tl.sum(sums, 1)
    if PAIRED:
        total = tl.reshape(tl.join(total[0], total[1]), (BM, BV))
    keep(out, logsumexp, parts, part_sums, total, sums, most, factor, split, first_query, first_head, rows, count * G, tokens, heads, dv_size, out_strides, lse_strides, ACC, D_EVEN, HINT, G, SPLIT, BV)


@nereid.jit
def combine(out, logsumexp, parts, part_sums, tokens, heads, splits, dv_size, out_strides, lse_strides, ACC: tl.constexpr, BS: tl.constexpr, BV: tl.constexpr):
    """The result of the parts of all keys: their mean, weighted by their sums of weights. Grid: (tokens * heads,). Other arguments: as for `paged_forward`."""
    place = tl.program_id(0).to(tl.int64)
    token, head = place // heads, place % heads
    dv = tl.arange(0, BV)
    total = tl.zeros((BV,), ACC)
    weight = tl.full((), 0.0, ACC)
    most = tl.full((), float("-inf"), ACC)
    for first in range(0, splits, BS):
        part = first + tl.arange(0, BS)
        places = part.to(tl.int64) * (tokens * heads) + place
        sums = tl.load(part_sums + places, mask=part < splits, other=float("-inf"))
        greatest = tl.maximum(most, tl.max(sums, 0))
        base = tl.where(greatest == float("-inf"), 0.0, greatest).to(ACC)
        weights = tl.exp2(sums - base)
        values = tl.load(parts + places[:, None] * dv_size + dv[None, :], mask=(sums > float("-inf"))[:, None] & (dv < dv_size)[None, :], other=0)
        shrink = tl.exp2(most - base)
        total = total * shrink + tl.sum(values * weights[:, None], 0)
        weight = weight * shrink + tl.sum(weights, 0)
        most = greatest
    nothing = weight == 0
    safe = tl.where(nothing, 1.0, weight).to(ACC)
    tl.store(out + token * out_strides[0] + head * out_strides[1] + dv, (total / safe).to(out.dtype.element_ty), mask=dv < dv_size)
    if logsumexp is not None:
        tl.store(logsumexp + head * lse_strides[0] + token * lse_strides[1], tl.where(nothing, float("-inf"), (most + tl.log2(safe)) * LN2))


@nereid.jit
def walk_latents(total, sums, most, q, q_rope, cache, table, strides, tokens, low, high, count, keys, size, rope_size, shift, scale, rules, ACC: tl.constexpr, OPERAND: tl.constexpr,
                 PRECISION: tl.constexpr, NARROW: tl.constexpr, MASKED: tl.constexpr, EVEN: tl.constexpr, ROPE_EVEN: tl.constexpr, HINT: tl.constexpr, PAGE: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
                 BR: tl.constexpr):
    page = pages_of(table, low, high, keys, MASKED, PAGE, BN)
    for first in range(low, high, BN):
        rows = rows_in_cache(cache, page, strides, first, PAGE, BN, HINT)
        page = pages_of(table, first + BN, high, keys, MASKED, PAGE, BN)
        latent = tokens_of(rows, first, size, keys, MASKED, EVEN, HINT, BN, BD).to(OPERAND)
        scores = product(q, tl.trans(latent), ACC, PRECISION)
        if BR > 0:
            turned = tokens_of(rows + hinted(size, HINT), first, rope_size, keys, MASKED, ROPE_EVEN, HINT, BN, BR).to(OPERAND)
            scores = tl.dot(q_rope, tl.trans(turned), scores, input_precision=PRECISION, out_dtype=ACC)
        scores = capped(scores, scale, rules, ACC, NARROW)
        columns = (first + tl.arange(0, BN))[None, :]
        scores = scores_of(scores, None, (0, 0, 0, 0), None, tokens[:, None], columns, count, keys, shift, rules, ACC, MASKED)
        weights, shrink, sums, most = weigh(scores, sums, most, MASKED)
        total = tl.dot(weights.to(OPERAND), latent, total * shrink[:, None], input_precision=PRECISION, out_dtype=ACC)
    return total, sums, most


@nereid.jit
def latent_forward(out, logsumexp, parts, part_sums, query, cache, table, lengths, scale, rules, queries, tokens, heads, splits, size, rope_size, out_strides, lse_strides, q_strides, strides,
                   table_stride, ACC: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr, NARROW: tl.constexpr, EVEN: tl.constexpr, ROPE_EVEN: tl.constexpr, HINT: tl.constexpr, PAGE: tl.constexpr,
                   SPLIT: tl.constexpr, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr, BR: tl.constexpr):
    """Attention with one cached vector a token that all heads share: its first `size` elements are key and value, the next `rope_size` belong to the key (DeepSeek-V2, arXiv 2405.04434).

    query (token, head, size + rope_size); out (token, head, size); cache (page, PAGE tokens, size + rope_size), strides (page, token). G: the heads. Grid and other arguments: as for
    `paged_forward`; EVEN, ROPE_EVEN: whether `size` is BD and `rope_size` BR.
    """
    tiles = tl.cdiv(queries * G, BM)
    batch, number = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    split = tl.program_id(1)
    first_query, count, keys = sequence_of(None, lengths, batch, queries)
    shift = keys - count
    first_row = number * BM
    rows = first_row + tl.arange(0, BM)
    d = tl.arange(0, BD)[None, :]
    inside = (rows < count * G)[:, None]
    places = query + row_places(q_strides, first_query, 0, rows, G, HINT)
    q = tl.load(places + d, mask=inside & (d < hinted(size, HINT)), other=0).to(OPERAND)
    q_rope = None
    if BR > 0:
        r = tl.arange(0, BR)[None, :]
        q_rope = tl.load(places + hinted(size, HINT) + r, mask=inside & (r < hinted(rope_size, HINT)), other=0).to(OPERAND)
    pages = table + batch.to(tl.int64) * table_stride
    total = tl.zeros((BM, BD), ACC)
    sums = tl.zeros((BM,), ACC)
    most = tl.full((BM,), float("-inf"), ACC)
    first_seen = first_row // G
    seen = tl.minimum((first_row + BM - 1) // G, count - 1) + 1 - first_seen
    low, high = 0, highest_key(first_seen, seen, keys, shift, rules)
    if SPLIT:
        low, high = range_of(split, splits, low, high, BN)
    begin, end = whole_keys(first_seen, seen, low, high, keys, shift, rules, BN)
    end = tl.maximum(tl.minimum(end, high), begin)
    total, sums, most = walk_latents(total, sums, most, q, q_rope, cache, pages, strides, rows // G, begin, end, count, keys, size, rope_size, shift, scale, rules, ACC, OPERAND, PRECISION, NARROW, False,
                                     EVEN, ROPE_EVEN, HINT, PAGE, BN, BD, BR)
    total, sums, most = walk_latents(total, sums, most, q, q_rope, cache, pages, strides, rows // G, end, high, count, keys, size, rope_size, shift, scale, rules, ACC, OPERAND, PRECISION, NARROW, True,
                                     EVEN, ROPE_EVEN, HINT, PAGE, BN, BD, BR)
    keep(out, logsumexp, parts, part_sums, total, sums, most, tl.full((), 1.0, ACC), split, first_query, 0, rows, count * G, tokens, heads, size, out_strides, lse_strides, ACC, EVEN, HINT, G, SPLIT, BD)
