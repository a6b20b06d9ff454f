"""The kernels of attention: softmax(scale * query @ key^T + bias) @ value without the matrix of scores in memory, and its gradients.

query (batch, head, l, d), key (batch, head of keys, s, d), value (batch, head of keys, s, dv); a head of keys serves HEADS heads of queries. All tensors have
strides of their own. In ragged batches the tokens of all sequences lie one after the other: strides of the batch are 0, and `q_starts` and `k_starts` hold where
each sequence begins and, one place more, where the last one ends. Scores are computed in base 2: `scale`, the bias and the slopes are multiplied by log2(e) on the way.

rules = (left, right, cap, 1 / cap), each None if it is absent: the query at the place p sees the keys from p - left to p + right; with `cap` scaled scores x become cap * tanh(x / cap), before
the bias and the slopes are added. p is the number of the query, with END plus the number of keys minus that of queries: the last query is at the last key. slopes (batch, head): a score gets
-slope * |p - key| (Press et al. 2022, "Train short, test long").

A query that sees no key has the result 0, and `empty` as its log-sum-exp. Gradients: the scores are computed again from the log-sum-exp (Dao et al. 2022,
"FlashAttention"). Every location of a gradient is written by one program, so results do not depend on their order; except where all gradients are computed in one pass (`backward_copied`).
"""

import nereid
import nereid.language as tl

from ..functions import narrow
from ._shared import step

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@nereid.jit
def hinted(stride, HINT: tl.constexpr):
    if HINT > 1:
        return tl.multiple_of(stride, HINT)
    else:
        return stride


@nereid.jit
def places_of(pointer, rows, columns, strides, UNIT: tl.constexpr, HINT: tl.constexpr, WIDE: tl.constexpr):
    return pointer + rows[:, None] * step(hinted(strides[2], HINT), False, WIDE) + columns[None, :] * step(strides[3], UNIT, WIDE)


@nereid.jit
def tile(pointer, rows, columns, strides, row_count, column_count, ROWS: tl.constexpr, COLUMNS: tl.constexpr, UNIT: tl.constexpr, HINT: tl.constexpr,
         WIDE: tl.constexpr):
    """The tile at rows x columns, 0 beyond the counts. ROWS, COLUMNS: whether they have to be masked. UNIT, HINT, WIDE: see `forward`."""
    places = places_of(pointer, rows, columns, strides, UNIT, HINT, WIDE)
    if ROWS and COLUMNS:
        return tl.load(places, mask=(rows[:, None] < row_count) & (columns[None, :] < hinted(column_count, HINT)), other=0)
    elif ROWS:
        return tl.load(places, mask=rows[:, None] < row_count, other=0)
    elif COLUMNS:
        return tl.load(places, mask=columns[None, :] < hinted(column_count, HINT), other=0)
    else:
        return tl.load(places)


@nereid.jit
def put(pointer, value, rows, columns, strides, row_count, column_count, COLUMNS: tl.constexpr, UNIT: tl.constexpr, HINT: tl.constexpr, WIDE: tl.constexpr):
    """Stores what lies inside the counts. COLUMNS: whether columns have to be masked."""
    places = places_of(pointer, rows, columns, strides, UNIT, HINT, WIDE)
    mask = rows[:, None] < row_count
    if COLUMNS:
        mask = mask & (columns[None, :] < hinted(column_count, HINT))
    tl.store(places, value.to(pointer.dtype.element_ty), mask=mask)


@nereid.jit
def start_of(pointer, strides, batch, head, token, HINT: tl.constexpr):
    """Where a head of a sequence begins. token: the number of the sequence's first token; None where each sequence has a batch of its own."""
    start = pointer + (batch.to(tl.int64) * hinted(strides[0], HINT) + head.to(tl.int64) * hinted(strides[1], HINT))
    if token is not None:
        start += token * hinted(strides[2], HINT)
    return start


@nereid.jit
def described(pointer, batches, heads, tokens, strides, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A descriptor of (batch, head, token, COLUMNS) with blocks of ROWS tokens of one head; tokens behind the last one are read as 0 and not written."""
    return tl.make_tensor_descriptor(pointer, [batches, heads, tokens, COLUMNS], [strides[0], strides[1], strides[2], 1], [1, 1, ROWS, COLUMNS])


@nereid.jit
def first_token(starts, batch):
    if starts is None:
        return None
    else:
        return tl.load(starts + batch).to(tl.int64)


@nereid.jit
def token_count(starts, batch, size):
    """The number of tokens of a sequence, int32. size: of every sequence, where there are no `starts`."""
    if starts is None:
        return size
    else:
        return (tl.load(starts + batch + 1) - tl.load(starts + batch)).to(tl.int32)


@nereid.jit
def shift_of(length, keys, END: tl.constexpr):
    """The offset from the number of a query to its place among the keys."""
    if END:
        return keys - length
    else:
        return 0


@nereid.jit
def slope_of(slopes, strides, batch, head, ACC: tl.constexpr):
    """The slope of a head in base 2, or None."""
    if slopes is None:
        return None
    else:
        return tl.load(slopes + batch * strides[0] + head * strides[1]).to(ACC) * LOG2E


@nereid.jit
def product(x, y, ACC: tl.constexpr, PRECISION: tl.constexpr):
    return tl.dot(x, y, input_precision=PRECISION, out_dtype=ACC)


@nereid.jit
def capped(products, scale, rules, ACC: tl.constexpr, NARROW: tl.constexpr):
    """The scaled scores in base 2; with a cap their tanh. NARROW: whether a relative error of 2e-6 will do."""
    if rules[2] is None:
        return products * (scale * LOG2E).to(ACC)
    else:
        return narrow.tanh(products * (scale * rules[3]).to(ACC), NARROW)


@nereid.jit
def visible(rows, columns, keys, shift, rules):
    """Which keys the queries `rows` see; rows and columns broadcast."""
    inside = columns < keys
    if rules[1] is not None:
        inside = inside & (columns <= rows + (shift + rules[1]))
    if rules[0] is not None:
        inside = inside & (columns >= rows + (shift - rules[0]))
    return inside


@nereid.jit
def scores_of(scores, bias, bias_strides, slope, rows, columns, length, keys, shift, rules, ACC: tl.constexpr, MASKED: tl.constexpr):
    """Scores in base 2 from what `capped` returns: -inf where a key is not seen. rows (m, 1), columns (1, n). MASKED: whether there may be such keys, or places outside."""
    if rules[2] is not None:
        scores = scores * (rules[2] * LOG2E).to(ACC)
    if bias is not None:
        places = bias + rows.to(tl.int64) * bias_strides[2] + columns.to(tl.int64) * bias_strides[3]
        scores += tl.load(places, mask=(columns < keys) & (rows < length), other=0).to(ACC) * LOG2E
    if slope is not None:
        scores -= slope * tl.abs(rows + shift - columns).to(ACC)
    if MASKED:
        scores = tl.where(visible(rows, columns, keys, shift, rules), scores, float("-inf"))
    return scores


@nereid.jit
def weigh(scores, sums, most, GUARDED: tl.constexpr, factor=None, THRESHOLD: tl.constexpr = 0, SHIFT: tl.constexpr = 0):
    """(weights, factor of what was summed before, sums of weights, reference) of one more tile of scores.

    factor: positive, what the scores are still to be multiplied by; None: nothing. most: the reference of each row before this tile, from which its weights are 2^(score - reference).
    GUARDED: whether all scores of a row may be -inf.
    THRESHOLD: a row gets its greatest score as a new reference when that exceeds the old one by more than THRESHOLD, so that weights are at most 2^THRESHOLD, and most tiles leave
    `shrink` at 1 (as in FlashAttention-4). 0: the reference is the greatest score.
    SHIFT: the reference is less by that, and weights are at most 2^(THRESHOLD + SHIFT).
    sums: (m,), or those of each column, (m, n).
    """
    top = tl.max(scores, 1)
    if factor is not None:
        top = top * factor
    if SHIFT:
        top = top - SHIFT
    if THRESHOLD:
        reference = tl.where(top > most + THRESHOLD, top, most)
    else:
        reference = tl.maximum(most, top)
    base = reference
    if GUARDED:
        base = tl.where(reference == float("-inf"), 0.0, reference).to(scores.dtype)
    if factor is not None:
        weights = tl.exp2(scores * factor - base[:, None])
    else:
        weights = tl.exp2(scores - base[:, None])
    shrink = tl.exp2(most - base)
    if len(sums.shape) == 2:
        sums = sums * shrink[:, None] + weights
    else:
        sums = sums * shrink + tl.sum(weights, 1)
    return weights, shrink, sums, reference


@nereid.jit
def lowest_key(first_row, shift, rules, BN: tl.constexpr):
    """The first key, a multiple of BN, that is seen by a query from `first_row` on."""
    if rules[0] is None:
        return 0
    else:
        return tl.maximum(first_row + shift - rules[0], 0) // BN * BN


@nereid.jit
def highest_key(first_row, count, keys, shift, rules):
    """The number of keys that may be seen by `count` queries from `first_row` on."""
    if rules[1] is None:
        return keys
    else:
        return tl.minimum(keys, tl.maximum(first_row + count + shift + rules[1], 0))


@nereid.jit
def whole_keys(first_row, count, low, high, keys, shift, rules, BN: tl.constexpr):
    """(from, to): tiles of keys between are seen by all of the `count` queries from `first_row` on. low, high: of the keys that any of them may see."""
    begin = low
    if rules[0] is not None:
        begin = tl.minimum(tl.cdiv(tl.maximum(first_row + count - 1 + shift - rules[0], 0), BN) * BN, high)
    end = keys // BN * BN
    if rules[1] is not None:
        end = tl.minimum(end, tl.maximum(first_row + shift + rules[1] + 1, 0) // BN * BN)
    if rules[0] is not None:
        end = tl.maximum(begin, end)
    return begin, end


@nereid.jit
def spans(first_row, length, keys, shift, rules, q_starts, BM: tl.constexpr, BN: tl.constexpr):
    """(low, begin, end, high): a block of queries sees keys from `low` to `high`, and those from `begin` to `end` without a mask. q_starts: None in dense batches; in ragged ones
    a block behind the last query sees none."""
    low, high = lowest_key(first_row, shift, rules, BN), highest_key(first_row, BM, keys, shift, rules)
    if q_starts is not None:
        high = tl.where(first_row < length, high, 0)
    begin, end = whole_keys(first_row, BM, low, high, keys, shift, rules, BN)
    if q_starts is not None:
        end = tl.minimum(end, high)
    return low, begin, end, high


@nereid.jit
def walk(total, sums, most, q, key, value, head_place, bias, k_strides, v_strides, bias_strides, slope, rows, low, high, length, keys, d_size, dv_size, shift, scale, rules,
         ACC: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr, NARROW: tl.constexpr, MASKED: tl.constexpr, D_EVEN: tl.constexpr, UNIT: tl.constexpr,
         HINT: tl.constexpr, WIDE: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr, COPIES: tl.constexpr, SCALES: tl.constexpr, THRESHOLD: tl.constexpr):
    """Adds what the keys from `low` to `high` contribute: (sums of values, sums of weights, references). key, value: pointers to the head, or with COPIES descriptors, of which
    head_place is (batch, head of keys)."""
    d = tl.arange(0, BD)
    dv = tl.arange(0, BV)
    for first in range(low, high, BN):
        columns = first + tl.arange(0, BN)
        if COPIES:
            k = key.load([head_place[0], head_place[1], first, 0]).reshape(BN, BD)
        else:
            k = tile(key, columns, d, k_strides, keys, d_size, MASKED, not D_EVEN, UNIT, HINT, WIDE)
        scores = product(q, tl.trans(k), ACC, PRECISION)
        if SCALES:
            if MASKED:
                scores = tl.where(visible(rows[:, None], columns[None, :], keys, shift, rules), scores, float("-inf"))
            weights, shrink, sums, most = weigh(scores, sums, most, MASKED, (scale * LOG2E).to(ACC), THRESHOLD)
        else:
            scores = capped(scores, scale, rules, ACC, NARROW)
            scores = scores_of(scores, bias, bias_strides, slope, rows[:, None], columns[None, :], length, keys, shift, rules, ACC, MASKED)
            weights, shrink, sums, most = weigh(scores, sums, most, MASKED or bias is not None, None, THRESHOLD)
        if COPIES:
            v = value.load([head_place[0], head_place[1], first, 0]).reshape(BN, BV)
        else:
            v = tile(value, columns, dv, v_strides, keys, dv_size, MASKED, not D_EVEN, UNIT, HINT, WIDE)
        total = total * shrink[:, None]
        total = tl.dot(weights.to(OPERAND), v.to(OPERAND), total, input_precision=PRECISION, out_dtype=ACC)
    return total, sums, most


@nereid.jit
def forward(out, logsumexp, query, key, value, bias, slopes, q_starts, k_starts, scale, empty, rules, l_size, s_size, d_size, dv_size, batches, heads, key_heads, lse_size, out_strides, lse_strides,
            q_strides, k_strides, v_strides, bias_strides, slope_strides, HEADS: tl.constexpr, END: tl.constexpr, ACC: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr, NARROW: tl.constexpr,
            D_EVEN: tl.constexpr, UNIT: tl.constexpr, HINT: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr, COPIES: tl.constexpr, SCALES: tl.constexpr,
            THRESHOLD: tl.constexpr):
    """Grid: tiles of queries of all heads of all batches.

    out               (batch, head, l, dv); logsumexp: (batch, head, l), or None; bias: (batch, head, l, s), or None; slopes: (batch, head), or None; all strides in this order
    q_starts, k_starts, rules, scale, empty, END: see above; l_size, s_size: of the longest sequence
    heads             of queries; lse_size: places of the log-sum-exp of a dense batch, those from l_size on get +inf
    ACC               dtype to compute in; OPERAND: that of the weights when they are multiplied; PRECISION: of products of fp32; NARROW: see `capped`
    D_EVEN            whether d and dv are BD and BV
    UNIT              whether the last stride of all tensors but the bias is 1; HINT: a number of which their other strides, d and dv are multiples; WIDE: whether places within a
                      tile take 64 bits
    COPIES            whether tiles are blocks of tensor descriptors, which needs dense batches, D_EVEN and UNIT; batches, key_heads: of these
    SCALES            whether scores are products * scale with a positive scale, without a cap, bias and slopes; THRESHOLD: see `weigh`
    """
    tiles = tl.cdiv(tl.maximum(l_size, lse_size), BM)
    place, number = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    batch, head = place // heads, place % heads
    if rules[1] is not None:
        number = tiles - 1 - number  # those with most keys come first
    first_query, length = first_token(q_starts, batch), token_count(q_starts, batch, l_size)
    first_key, keys = first_token(k_starts, batch), token_count(k_starts, batch, s_size)
    shift = shift_of(length, keys, END)
    first_row = number * BM
    rows = first_row + tl.arange(0, BM)
    d = tl.arange(0, BD)
    dv = tl.arange(0, BV)
    head_place = (batch, head // HEADS)
    if COPIES:
        q = described(query, batches, heads, l_size, q_strides, BM, BD).load([batch, head, first_row, 0]).reshape(BM, BD)
        k_start = described(key, batches, key_heads, s_size, k_strides, BN, BD)
        v_start = described(value, batches, key_heads, s_size, v_strides, BN, BV)
    else:
        q = tile(start_of(query, q_strides, batch, head, first_query, HINT), rows, d, q_strides, length, d_size, True, not D_EVEN, UNIT, HINT, WIDE)
        k_start = start_of(key, k_strides, batch, head // HEADS, first_key, HINT)
        v_start = start_of(value, v_strides, batch, head // HEADS, first_key, HINT)
    bias_start = None
    if bias is not None:
        bias_start = start_of(bias, bias_strides, batch, head, None, 1)
    slope = slope_of(slopes, slope_strides, batch, head, ACC)
    total = tl.zeros((BM, BV), ACC)
    sums = tl.zeros((BM,), ACC)
    most = tl.full((BM,), float("-inf"), ACC)
    low, begin, end, high = spans(first_row, length, keys, shift, rules, q_starts, BM, BN)
    if rules[0] is not None:
        total, sums, most = walk(total, sums, most, q, k_start, v_start, head_place, bias_start, k_strides, v_strides, bias_strides, slope, rows, low, begin, length, keys, d_size, dv_size, shift,
                                 scale, rules, ACC, OPERAND, PRECISION, NARROW, True, D_EVEN, UNIT, HINT, WIDE, BN, BD, BV, COPIES, SCALES, THRESHOLD)
    total, sums, most = walk(total, sums, most, q, k_start, v_start, head_place, bias_start, k_strides, v_strides, bias_strides, slope, rows, begin, end, length, keys, d_size, dv_size, shift,
                             scale, rules, ACC, OPERAND, PRECISION, NARROW, False, D_EVEN, UNIT, HINT, WIDE, BN, BD, BV, COPIES, SCALES, THRESHOLD)
    total, sums, most = walk(total, sums, most, q, k_start, v_start, head_place, bias_start, k_strides, v_strides, bias_strides, slope, rows, end, high, length, keys, d_size, dv_size, shift,
                             scale, rules, ACC, OPERAND, PRECISION, NARROW, True, D_EVEN, UNIT, HINT, WIDE, BN, BD, BV, COPIES, SCALES, THRESHOLD)
    nothing = sums == 0
    total = total / tl.where(nothing, 1.0, sums).to(ACC)[:, None]
    if COPIES:
        described(out, batches, heads, l_size, out_strides, BM, BV).store([batch, head, first_row, 0], total.to(OPERAND).reshape(1, 1, BM, BV))
    else:
        put(start_of(out, out_strides, batch, head, first_query, HINT), total, rows, dv, out_strides, length, dv_size, not D_EVEN, UNIT, HINT, WIDE)
    if logsumexp is not None:
        found = (most + tl.log2(tl.where(nothing, 1.0, sums).to(ACC))) * LN2
        found = tl.where(nothing, empty.to(ACC), found)
        places = length
        if q_starts is None:
            places = lse_size
            found = tl.where(rows < length, found, float("inf"))
        tl.store(start_of(logsumexp, lse_strides, batch, head, first_query, 1) + rows * lse_strides[2], found, mask=rows < places)


@nereid.jit
def correlation(delta, sums, of_queries, gradient, out, logsumexp, lse_gradient, q_starts, l_size, dv_size, heads, delta_strides, sums_strides, sq_strides, g_strides, out_strides, lse_strides,
                lg_strides, ACC: tl.constexpr, D_EVEN: tl.constexpr, UNIT: tl.constexpr, HINT: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BV: tl.constexpr):
    """delta (batch, head, l): the sum of gradient * out, minus the gradient of the log-sum-exp unless that is None. sums: (batch, head, l), which gets the log-sum-exp in base 2, or None.
    of_queries: (batch, head, l, BV) of ACC, which gets zeros, or None. Grid: tiles of queries of all heads of all batches."""
    tiles = tl.cdiv(l_size, BM)
    place = tl.program_id(0) // tiles
    batch, head = place // heads, place % heads
    rows = tl.program_id(0) % tiles * BM + tl.arange(0, BM)
    dv = tl.arange(0, BV)
    first_query, length = first_token(q_starts, batch), token_count(q_starts, batch, l_size)
    g = tile(start_of(gradient, g_strides, batch, head, first_query, HINT), rows, dv, g_strides, length, dv_size, True, not D_EVEN, UNIT, HINT, WIDE)
    o = tile(start_of(out, out_strides, batch, head, first_query, HINT), rows, dv, out_strides, length, dv_size, True, not D_EVEN, UNIT, HINT, WIDE)
    found = tl.sum(g.to(ACC) * o.to(ACC), 1)
    if lse_gradient is not None:
        found -= tl.load(start_of(lse_gradient, lg_strides, batch, head, first_query, 1) + rows * lg_strides[2], mask=rows < length, other=0).to(ACC)
    tl.store(start_of(delta, delta_strides, batch, head, first_query, 1) + rows * delta_strides[2], found, mask=rows < length)
    if sums is not None:
        lse = tl.load(start_of(logsumexp, lse_strides, batch, head, None, 1) + rows * lse_strides[2], mask=rows < length, other=0)
        tl.store(start_of(sums, sums_strides, batch, head, None, 1) + rows, lse * LOG2E, mask=rows < length)
    if of_queries is not None:
        put(start_of(of_queries, sq_strides, batch, head, None, 16), tl.zeros((BM, BV), ACC), rows, dv, sq_strides, length, dv_size, not D_EVEN, True, 16, True)


@nereid.jit
def differences(q, k, v, g, sums, delta, bias, bias_strides, slope, rows, columns, length, keys, shift, scale, rules, ACC: tl.constexpr, PRECISION: tl.constexpr, NARROW: tl.constexpr,
                MASKED: tl.constexpr):
    """(weights, gradients of the scores with bias, gradients of the scaled products) of a tile of queries by keys. MASKED: see `scores_of`."""
    found = capped(product(q, tl.trans(k), ACC, PRECISION), scale, rules, ACC, NARROW)
    scores = scores_of(found, bias, bias_strides, slope, rows[:, None], columns[None, :], length, keys, shift, rules, ACC, MASKED)
    weights = tl.exp2(scores - (sums * LOG2E)[:, None])
    if MASKED or bias is not None:
        # A query that sees no key has no gradient, whatever its log-sum-exp is.
        weights = tl.where((scores == float("-inf")) | (rows[:, None] >= length), 0.0, weights).to(ACC)
    changes = weights * (product(g, tl.trans(v), ACC, PRECISION) - delta[:, None])
    if rules[2] is None:
        return weights, changes, changes
    else:
        return weights, changes, changes * (1 - found * found)


@nereid.jit
def walk_keys(total, q, g, sums, correlations, key, value, bias, grad_bias, k_strides, v_strides, bias_strides, db_strides, slope, rows, low, high, length, keys, d_size, dv_size, shift,
              scale, rules, ACC: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr, NARROW: tl.constexpr, MASKED: tl.constexpr, D_EVEN: tl.constexpr, UNIT: tl.constexpr,
              HINT: tl.constexpr, WIDE: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr):
    """Adds what the keys from `low` to `high` contribute to the gradient of a tile of queries; writes the gradient of the bias."""
    d = tl.arange(0, BD)
    dv = tl.arange(0, BV)
    for first in range(low, high, BN):
        columns = first + tl.arange(0, BN)
        k = tile(key, columns, d, k_strides, keys, d_size, MASKED, not D_EVEN, UNIT, HINT, WIDE)
        v = tile(value, columns, dv, v_strides, keys, dv_size, MASKED, not D_EVEN, UNIT, HINT, WIDE)
        _, of_scores, of_products = differences(q, k, v, g, sums, correlations, bias, bias_strides, slope, rows, columns, length, keys, shift, scale, rules, ACC, PRECISION, NARROW, MASKED)
        if grad_bias is not None:
            put(grad_bias, of_scores, rows, columns, db_strides, length, keys, True, False, 1, True)
        total = tl.dot(of_products.to(OPERAND), k.to(OPERAND), total, input_precision=PRECISION, out_dtype=ACC)
    return total


@nereid.jit
def backward_query(grad_query, grad_bias, gradient, query, key, value, bias, slopes, q_starts, k_starts, logsumexp, delta, scale, rules, l_size, s_size, d_size, dv_size, heads, dq_strides,
                   db_strides, g_strides, q_strides, k_strides, v_strides, bias_strides, slope_strides, lse_strides, delta_strides, HEADS: tl.constexpr, END: tl.constexpr, ACC: tl.constexpr,
                   OPERAND: tl.constexpr, PRECISION: tl.constexpr, NARROW: tl.constexpr, D_EVEN: tl.constexpr, UNIT: tl.constexpr, HINT: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr,
                   BN: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr):
    """Gradients of the queries and, if there is `grad_bias`, of the scores before the bias is added. Grid: tiles of queries of all heads of all batches.

    delta: see `correlation`; gradient: of the result. Other arguments: as for `forward`.
    """
    tiles = tl.cdiv(l_size, BM)
    place, number = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    batch, head = place // heads, place % heads
    if rules[1] is not None:
        number = tiles - 1 - number
    first_query, length = first_token(q_starts, batch), token_count(q_starts, batch, l_size)
    first_key, keys = first_token(k_starts, batch), token_count(k_starts, batch, s_size)
    shift = shift_of(length, keys, END)
    first_row = number * BM
    rows = first_row + tl.arange(0, BM)
    d = tl.arange(0, BD)
    dv = tl.arange(0, BV)
    q = tile(start_of(query, q_strides, batch, head, first_query, HINT), rows, d, q_strides, length, d_size, True, not D_EVEN, UNIT, HINT, WIDE)
    g = tile(start_of(gradient, g_strides, batch, head, first_query, HINT), rows, dv, g_strides, length, dv_size, True, not D_EVEN, UNIT, HINT, WIDE)
    sums = tl.load(start_of(logsumexp, lse_strides, batch, head, first_query, 1) + rows * lse_strides[2], mask=rows < length, other=0).to(ACC)
    correlations = tl.load(start_of(delta, delta_strides, batch, head, first_query, 1) + rows * delta_strides[2], mask=rows < length, other=0)
    k_start = start_of(key, k_strides, batch, head // HEADS, first_key, HINT)
    v_start = start_of(value, v_strides, batch, head // HEADS, first_key, HINT)
    bias_start = None
    if bias is not None:
        bias_start = start_of(bias, bias_strides, batch, head, None, 1)
    changes_start = None
    if grad_bias is not None:
        changes_start = start_of(grad_bias, db_strides, batch, head, None, 1)
    slope = slope_of(slopes, slope_strides, batch, head, ACC)
    total = tl.zeros((BM, BD), ACC)
    if grad_bias is not None:
        # All places of the bias get a gradient.
        total = walk_keys(total, q, g, sums, correlations, k_start, v_start, bias_start, changes_start, k_strides, v_strides, bias_strides, db_strides, slope, rows, 0, keys, length, keys, d_size,
                          dv_size, shift, scale, rules, ACC, OPERAND, PRECISION, NARROW, True, D_EVEN, UNIT, HINT, WIDE, BN, BD, BV)
    else:
        low, begin, end, high = spans(first_row, length, keys, shift, rules, q_starts, BM, BN)
        if rules[0] is not None:
            total = walk_keys(total, q, g, sums, correlations, k_start, v_start, bias_start, None, k_strides, v_strides, bias_strides, db_strides, slope, rows, low, begin, length, keys, d_size,
                              dv_size, shift, scale, rules, ACC, OPERAND, PRECISION, NARROW, True, D_EVEN, UNIT, HINT, WIDE, BN, BD, BV)
        total = walk_keys(total, q, g, sums, correlations, k_start, v_start, bias_start, None, k_strides, v_strides, bias_strides, db_strides, slope, rows, begin, end, length, keys, d_size, dv_size,
                          shift, scale, rules, ACC, OPERAND, PRECISION, NARROW, False, D_EVEN, UNIT, HINT, WIDE, BN, BD, BV)
        total = walk_keys(total, q, g, sums, correlations, k_start, v_start, bias_start, None, k_strides, v_strides, bias_strides, db_strides, slope, rows, end, high, length, keys, d_size, dv_size,
                          shift, scale, rules, ACC, OPERAND, PRECISION, NARROW, True, D_EVEN, UNIT, HINT, WIDE, BN, BD, BV)
    put(start_of(grad_query, dq_strides, batch, head, first_query, HINT), total * scale.to(ACC), rows, d, dq_strides, length, d_size, not D_EVEN, UNIT, HINT, WIDE)


@nereid.jit
def backward_key(grad_key, grad_value, gradient, query, key, value, bias, slopes, q_starts, k_starts, logsumexp, delta, scale, rules, l_size, s_size, d_size, dv_size, heads, dk_strides, dv_strides,
                 g_strides, q_strides, k_strides, v_strides, bias_strides, slope_strides, lse_strides, delta_strides, HEADS: tl.constexpr, END: tl.constexpr, ACC: tl.constexpr, OPERAND: tl.constexpr,
                 PRECISION: tl.constexpr, NARROW: tl.constexpr, D_EVEN: tl.constexpr, UNIT: tl.constexpr, HINT: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
                 BV: tl.constexpr):
    """Gradients of keys and values, added up over the HEADS heads of queries that share them. Grid: tiles of keys of all heads of keys."""
    key_heads = heads // HEADS
    tiles = tl.cdiv(s_size, BN)
    place = tl.program_id(0) // tiles
    batch, key_head = place // key_heads, place % key_heads
    first_column = tl.program_id(0) % tiles * BN
    columns = first_column + tl.arange(0, BN)
    d = tl.arange(0, BD)
    dv = tl.arange(0, BV)
    first_query, length = first_token(q_starts, batch), token_count(q_starts, batch, l_size)
    first_key, keys = first_token(k_starts, batch), token_count(k_starts, batch, s_size)
    shift = shift_of(length, keys, END)
    k = tile(start_of(key, k_strides, batch, key_head, first_key, HINT), columns, d, k_strides, keys, d_size, True, not D_EVEN, UNIT, HINT, WIDE)
    v = tile(start_of(value, v_strides, batch, key_head, first_key, HINT), columns, dv, v_strides, keys, dv_size, True, not D_EVEN, UNIT, HINT, WIDE)
    of_keys = tl.zeros((BN, BD), ACC)
    of_values = tl.zeros((BN, BV), ACC)
    low, high = 0, length
    if rules[1] is not None:
        low = tl.maximum(first_column - shift - rules[1], 0) // BM * BM
    if rules[0] is not None:
        high = tl.minimum(length, tl.maximum(first_column + BN - shift + rules[0], 0))
    if k_starts is not None:
        high = tl.where(first_column < keys, high, 0)
    for inner in range(0, HEADS):
        head = key_head * HEADS + inner
        q_start = start_of(query, q_strides, batch, head, first_query, HINT)
        g_start = start_of(gradient, g_strides, batch, head, first_query, HINT)
        lse_start = start_of(logsumexp, lse_strides, batch, head, first_query, 1)
        delta_start = start_of(delta, delta_strides, batch, head, first_query, 1)
        bias_start = None
        if bias is not None:
            bias_start = start_of(bias, bias_strides, batch, head, None, 1)
        slope = slope_of(slopes, slope_strides, batch, head, ACC)
        # One loop for whole tiles and others: a second one, without masks, takes registers that the accumulators need.
        for first in range(low, high, BM):
            rows = first + tl.arange(0, BM)
            q = tile(q_start, rows, d, q_strides, length, d_size, True, not D_EVEN, UNIT, HINT, WIDE)
            g = tile(g_start, rows, dv, g_strides, length, dv_size, True, not D_EVEN, UNIT, HINT, WIDE)
            sums = tl.load(lse_start + rows * lse_strides[2], mask=rows < length, other=0).to(ACC)
            correlations = tl.load(delta_start + rows * delta_strides[2], mask=rows < length, other=0)
            weights, _, changes = differences(q, k, v, g, sums, correlations, bias_start, bias_strides, slope, rows, columns, length, keys, shift, scale, rules, ACC, PRECISION, NARROW, True)
            of_values = tl.dot(tl.trans(weights).to(OPERAND), g.to(OPERAND), of_values, input_precision=PRECISION, out_dtype=ACC)
            of_keys = tl.dot(tl.trans(changes).to(OPERAND), q.to(OPERAND), of_keys, input_precision=PRECISION, out_dtype=ACC)
    put(start_of(grad_key, dk_strides, batch, key_head, first_key, HINT), of_keys * scale.to(ACC), columns, d, dk_strides, keys, d_size, not D_EVEN, UNIT, HINT, WIDE)
    put(start_of(grad_value, dv_strides, batch, key_head, first_key, HINT), of_values, columns, dv, dv_strides, keys, dv_size, not D_EVEN, UNIT, HINT, WIDE)


# The same gradients through tensor descriptors, with divided warps: dense batches, heads of queries, keys and values of BD elements, scores that are products * scale. In one pass there are five
# products for a tile of keys and queries, in two seven.


@nereid.jit
def changes_of(x, y, u, z, sums, correlations, seen, scale, ACC: tl.constexpr):
    """(weights, gradients of the products) of a tile: x @ y^T are the products, u @ z^T the gradients of the weights. sums: log-sum-exps in base 2; sums and correlations broadcast. seen: which
    weights are not 0, or None."""
    weights = tl.exp2(tl.dot(x, tl.trans(y), out_dtype=ACC) * (scale * LOG2E).to(ACC) - sums)
    if seen is not None:
        weights = tl.where(seen, weights, 0.0)
    return weights, weights * (tl.dot(u, tl.trans(z), out_dtype=ACC) - correlations)


@nereid.jit
def seeing_queries(first_column, length, keys, shift, rules, BM: tl.constexpr, BN: tl.constexpr):
    """(low, high, begin, end): queries from `low` to `high` see keys of the tile at `first_column`, those from `begin` to `end` all of them. `low`, `begin` and, with a left rule, `end` are multiples
    of BM."""
    low, high, begin, end = 0, length, 0, length
    if rules[1] is not None:
        low = tl.maximum(first_column - shift - rules[1], 0) // BM * BM
        begin = tl.cdiv(tl.maximum(first_column + BN - 1 - shift - rules[1], 0), BM) * BM
    if rules[0] is not None:
        high = tl.minimum(length, tl.maximum(first_column + BN - shift + rules[0], 0))
        end = tl.minimum(tl.cdiv(high, BM), tl.maximum(first_column + 1 - shift + rules[0], 0) // BM) * BM
    behind = tl.cdiv(high, BM) * BM
    begin = tl.where(first_column + BN > keys, behind, tl.minimum(begin, behind))
    return low, high, begin, tl.maximum(begin, end)


@nereid.jit
def add_keys(total, q, g, key, value, sums, correlations, batch, key_head, low, high, rows, keys, shift, scale, rules, ACC: tl.constexpr, OPERAND: tl.constexpr, MASKED: tl.constexpr, BN: tl.constexpr,
             BD: tl.constexpr):
    """Adds what the keys from `low` to `high` contribute to the gradient of a tile of scaled queries. key, value: descriptors. MASKED: whether queries do not see all keys."""
    for first in tl.range(low, high, BN, warp_specialize=True):
        k = key.load([batch, key_head, first, 0]).reshape(BN, BD)
        v = value.load([batch, key_head, first, 0]).reshape(BN, BD)
        seen = None
        if MASKED:
            seen = visible(rows[:, None], (first + tl.arange(0, BN))[None, :], keys, shift, rules)
        _, changes = changes_of(q, k, g, v, sums[:, None], correlations[:, None], seen, scale, ACC)
        total = tl.dot(changes.to(OPERAND), k, total, out_dtype=ACC)
    return total


@nereid.jit
def backward_query_copied(grad_query, gradient, query, key, value, sums, delta, scale, rules, l_size, s_size, batches, heads, key_heads, dq_strides, g_strides, q_strides, k_strides, v_strides,
                          sums_strides, delta_strides, HEADS: tl.constexpr, END: tl.constexpr, ACC: tl.constexpr, OPERAND: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr):
    """As `backward_query`, without a gradient of a bias. Arguments: as for `backward_copied` and `backward_query`."""
    tiles = tl.cdiv(l_size, BM)
    place, number = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    batch, head = place // heads, place % heads
    if rules[1] is not None:
        number = tiles - 1 - number
    first_row = number * BM
    rows = first_row + tl.arange(0, BM)
    shift = shift_of(l_size, s_size, END)
    q = described(query, batches, heads, l_size, q_strides, BM, BD).load([batch, head, first_row, 0]).reshape(BM, BD)
    g = described(gradient, batches, heads, l_size, g_strides, BM, BD).load([batch, head, first_row, 0]).reshape(BM, BD)
    k = described(key, batches, key_heads, s_size, k_strides, BN, BD)
    v = described(value, batches, key_heads, s_size, v_strides, BN, BD)
    sums = tl.load(start_of(sums, sums_strides, batch, head, None, 1) + rows * sums_strides[2], mask=rows < l_size, other=float("inf"))
    correlations = tl.load(start_of(delta, delta_strides, batch, head, None, 1) + rows * delta_strides[2], mask=rows < l_size, other=0)
    total = tl.zeros((BM, BD), ACC)
    low, begin, end, high = spans(first_row, l_size, s_size, shift, rules, None, BM, BN)
    key_head = head // HEADS
    if rules[0] is not None:
        total = add_keys(total, q, g, k, v, sums, correlations, batch, key_head, low, begin, rows, s_size, shift, scale, rules, ACC, OPERAND, True, BN, BD)
    total = add_keys(total, q, g, k, v, sums, correlations, batch, key_head, begin, end, rows, s_size, shift, scale, rules, ACC, OPERAND, False, BN, BD)
    total = add_keys(total, q, g, k, v, sums, correlations, batch, key_head, end, high, rows, s_size, shift, scale, rules, ACC, OPERAND, True, BN, BD)
    described(grad_query, batches, heads, l_size, dq_strides, BM, BD).store([batch, head, first_row, 0], (total * scale.to(ACC)).to(OPERAND).reshape(1, 1, BM, BD))


@nereid.jit
def add_part(of_queries, k, changes, batch, head, first, BM: tl.constexpr, BD: tl.constexpr, ACC: tl.constexpr):
    """Adds changes^T @ k to the rows from `first` of a head of `of_queries`, a descriptor."""
    part = tl.trans(tl.dot(tl.trans(k), changes, out_dtype=ACC))
    of_queries.atomic_add([batch, head, first, 0], part.reshape(1, 1, BM, BD))


@nereid.jit
def add_queries(of_keys, of_values, changes, last_head, last, k, v, query, gradient, of_queries, sums_of, correlations_of, batch, key_head, low, high, columns, keys, shift, scale, rules,
                ACC: tl.constexpr, OPERAND: tl.constexpr, MASKED: tl.constexpr, HEADS: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr):
    """Adds what the queries from `low` to `high` of HEADS heads contribute to the gradients of a tile of scaled keys and values. query, gradient, sums_of, correlations_of: descriptors. MASKED: whether
    queries do not see all keys of the tile.

    of_queries: a descriptor of the gradients of scaled queries, to which the tile's part is added, or None. The product for these stands one iteration behind the others, so that it runs beside them:
    `changes` are the gradients of the scaled scores of the tile before, the rows from `last` of `last_head`; the new ones are returned."""
    blocks = tl.cdiv(tl.maximum(high - low, 0), BM)
    for index in tl.range(0, blocks * HEADS, warp_specialize=True):
        if HEADS == 1:
            head, first = key_head, low + index * BM
        else:  # one loop for all heads, as products end with a loop
            head, first = key_head * HEADS + index // blocks, low + index % blocks * BM
        q = query.load([batch, head, first, 0]).reshape(BM, BD)
        g = gradient.load([batch, head, first, 0]).reshape(BM, BD)
        sums = sums_of.load([batch, head, first]).reshape(1, BM)
        correlations = correlations_of.load([batch, head, first]).reshape(1, BM)
        if of_queries is not None:
            add_part(of_queries, k, changes, batch, last_head, last, BM, BD, ACC)
        seen = None
        if MASKED:
            seen = visible((first + tl.arange(0, BM))[None, :], columns[:, None], keys, shift, rules)
        weights, fresh = changes_of(k, q, v, g, sums, correlations, seen, scale, ACC)
        of_values = tl.dot(weights.to(OPERAND), g, of_values, out_dtype=ACC)
        fresh = fresh.to(OPERAND)
        of_keys = tl.dot(fresh, q, of_keys, out_dtype=ACC)
        if of_queries is not None:
            changes, last_head, last = fresh, head, first
    return of_keys, of_values, changes, last_head, last


@nereid.jit
def backward_copied(grad_query, grad_key, grad_value, gradient, query, key, value, sums, delta, scale, rules, l_size, s_size, batches, heads, key_heads, sq_strides, dk_strides, dv_strides, g_strides,
                    q_strides, k_strides, v_strides, sums_strides, delta_strides, HEADS: tl.constexpr, END: tl.constexpr, ACC: tl.constexpr, OPERAND: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                    BD: tl.constexpr):
    """As `backward_key`; unless grad_query is None, adds the gradients of scaled queries to it, (batch, head, l, BD) of ACC. Programs add in no fixed order, so its rounding differs from run to run.
    sums, delta: see `correlation`; other arguments: as for `forward` and `backward_key`."""
    tiles = tl.cdiv(s_size, BN)
    place = tl.program_id(0) // tiles
    batch, key_head = place // key_heads, place % key_heads
    first_column = tl.program_id(0) % tiles * BN
    columns = first_column + tl.arange(0, BN)
    shift = shift_of(l_size, s_size, END)
    k = described(key, batches, key_heads, s_size, k_strides, BN, BD).load([batch, key_head, first_column, 0]).reshape(BN, BD)
    v = described(value, batches, key_heads, s_size, v_strides, BN, BD).load([batch, key_head, first_column, 0]).reshape(BN, BD)
    queries = described(query, batches, heads, l_size, q_strides, BM, BD)
    gradients = described(gradient, batches, heads, l_size, g_strides, BM, BD)
    of_queries = None
    if grad_query is not None:
        of_queries = described(grad_query, batches, heads, l_size, sq_strides, BM, BD)
    sums_of = tl.make_tensor_descriptor(sums, [batches, heads, l_size], [sums_strides[0], sums_strides[1], 1], [1, 1, BM])
    correlations_of = tl.make_tensor_descriptor(delta, [batches, heads, l_size], [delta_strides[0], delta_strides[1], 1], [1, 1, BM])
    of_keys = tl.zeros((BN, BD), ACC)
    of_values = tl.zeros((BN, BD), ACC)
    low, high, begin, end = seeing_queries(first_column, l_size, s_size, shift, rules, BM, BN)
    # Before the first tile there is none: rows behind the last one are not written.
    changes, last_head, last = tl.zeros((BN, BM), OPERAND), key_head * HEADS, l_size + first_column
    of_keys, of_values, changes, last_head, last = add_queries(of_keys, of_values, changes, last_head, last, k, v, queries, gradients, of_queries, sums_of, correlations_of, batch, key_head, low, begin,
                                                           columns, s_size, shift, scale, rules, ACC, OPERAND, True, HEADS, BM, BD)
    of_keys, of_values, changes, last_head, last = add_queries(of_keys, of_values, changes, last_head, last, k, v, queries, gradients, of_queries, sums_of, correlations_of, batch, key_head, begin, end,
                                                           columns, s_size, shift, scale, rules, ACC, OPERAND, False, HEADS, BM, BD)
    if rules[0] is not None:
        of_keys, of_values, changes, last_head, last = add_queries(of_keys, of_values, changes, last_head, last, k, v, queries, gradients, of_queries, sums_of, correlations_of, batch, key_head, end, high,
                                                               columns, s_size, shift, scale, rules, ACC, OPERAND, True, HEADS, BM, BD)
    if grad_query is not None:
        add_part(of_queries, k, changes, batch, last_head, last, BM, BD, ACC)
    described(grad_key, batches, key_heads, s_size, dk_strides, BN, BD).store([batch, key_head, first_column, 0], (of_keys * scale.to(ACC)).to(OPERAND).reshape(1, 1, BN, BD))
    described(grad_value, batches, key_heads, s_size, dv_strides, BN, BD).store([batch, key_head, first_column, 0], of_values.to(OPERAND).reshape(1, 1, BN, BD))


@nereid.jit
def scaled_gradient(grad_query, of_queries, scale, l_size, heads, dq_strides, sq_strides, BM: tl.constexpr, BD: tl.constexpr):
    """grad_query = scale * of_queries, both (batch, head, l, BD) with strides of 1 of the last dimension. Grid: tiles of BM rows of all heads of all batches."""
    tiles = tl.cdiv(l_size, BM)
    place = tl.program_id(0) // tiles
    batch, head = place // heads, place % heads
    rows, d = tl.program_id(0) % tiles * BM + tl.arange(0, BM), tl.arange(0, BD)
    part = tile(start_of(of_queries, sq_strides, batch, head, None, 16), rows, d, sq_strides, l_size, BD, True, False, True, 16, True)
    put(start_of(grad_query, dq_strides, batch, head, None, 16), part * scale, rows, d, dq_strides, l_size, BD, False, True, 16, True)
