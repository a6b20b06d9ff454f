"""The kernels of attention: softmax(scale * query @ key^T + bias) @ value without the matrix of scores in memory, and its gradients.

query (batch, head, l, d), key (batch, head of keys, s, d), value (batch, head of keys, s, dv); a head of keys serves HEADS heads of queries. All tensors have
strides of their own. Scores are computed in base 2: `scale` and the bias are multiplied by log2(e) on the way.

With CAUSAL, query l sees the keys s <= l + shift. A query that sees no key has the result 0, and `empty` as its log-sum-exp. Gradients: the scores are computed
again from the log-sum-exp. Every location of a gradient is written by one program, so results do not depend on their order.
"""

import nereid
import nereid.language as tl

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
def start_of(pointer, strides, batch, head, HINT: tl.constexpr):
    return pointer + (batch.to(tl.int64) * hinted(strides[0], HINT) + head.to(tl.int64) * hinted(strides[1], HINT))


@nereid.jit
def product(x, y, ACC: tl.constexpr, PRECISION: tl.constexpr):
    return tl.dot(x, y, input_precision=PRECISION, out_dtype=ACC)


@nereid.jit
def scores_of(products, bias, bias_strides, rows, columns, l_size, s_size, scale, shift, ACC: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr):
    """Scores in base 2: -inf where a key is not seen. MASKED: whether there may be such keys, or places outside."""
    scores = products * (scale * LOG2E).to(ACC)
    inside = columns[None, :] < s_size
    if bias is not None:
        places = bias + rows.to(tl.int64)[:, None] * bias_strides[2] + columns.to(tl.int64)[None, :] * bias_strides[3]
        scores += tl.load(places, mask=inside & (rows[:, None] < l_size), other=0).to(ACC) * LOG2E
    if MASKED:
        if CAUSAL:
            inside = inside & (columns[None, :] <= rows[:, None] + shift)
        scores = tl.where(inside, scores, float("-inf"))
    return scores


@nereid.jit
def walk(total, sums, most, q, key, value, bias, k_strides, v_strides, bias_strides, rows, low, high, l_size, s_size, d_size, dv_size, scale, shift,
         ACC: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, D_EVEN: tl.constexpr, UNIT: tl.constexpr, HINT: tl.constexpr, WIDE: tl.constexpr,
         BN: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr):
    """Adds what the keys from `low` to `high` contribute: (sums of values, sums of weights, greatest scores)."""
    d = tl.arange(0, BD)
    dv = tl.arange(0, BV)
    for first in range(low, high, BN):
        columns = first + tl.arange(0, BN)
        k = tile(key, columns, d, k_strides, s_size, d_size, MASKED, not D_EVEN, UNIT, HINT, WIDE)
        scores = scores_of(product(q, tl.trans(k), ACC, PRECISION), bias, bias_strides, rows, columns, l_size, s_size, scale, shift, ACC, CAUSAL, MASKED)
        greatest = tl.maximum(most, tl.max(scores, 1))
        base = greatest
        if MASKED or bias is not None:
            base = tl.where(greatest == float("-inf"), 0.0, greatest).to(ACC)
        weights = tl.exp2(scores - base[:, None])
        shrink = tl.exp2(most - base)
        sums = sums * shrink + tl.sum(weights, 1)
        v = tile(value, columns, dv, v_strides, s_size, dv_size, MASKED, not D_EVEN, UNIT, HINT, WIDE)
        total = total * shrink[:, None]
        total = tl.dot(weights.to(OPERAND), v.to(OPERAND), total, input_precision=PRECISION, out_dtype=ACC)
        most = greatest
    return total, sums, most


@nereid.jit
def forward(out, logsumexp, query, key, value, bias, scale, empty, l_size, s_size, d_size, dv_size, heads, shift, lse_size, out_strides, lse_strides, q_strides, k_strides,
            v_strides, bias_strides, HEADS: tl.constexpr, ACC: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr, CAUSAL: tl.constexpr, D_EVEN: tl.constexpr,
            UNIT: tl.constexpr, HINT: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr):
    """Grid: tiles of queries of all heads of all batches.

    out               (batch, head, l, dv); logsumexp: (batch, head, l), or None; bias: (batch, head, l, s), or None; all strides in this order
    scale, empty, shift: see above; heads: of queries; lse_size: places of the log-sum-exp, those from l_size on get +inf
    ACC               dtype to compute in; OPERAND: that of the weights when they are multiplied; PRECISION: of products of fp32
    D_EVEN            whether d and dv are BD and BV
    UNIT              whether the last stride of all tensors but the bias is 1; HINT: a number of which their other strides, d and dv are multiples; WIDE: whether places within a
                      tile take 64 bits
    """
    tiles = tl.cdiv(tl.maximum(l_size, lse_size), BM)
    place, number = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    batch, head = place // heads, place % heads
    if CAUSAL:
        number = tiles - 1 - number  # those with most keys come first
    rows = number * BM + tl.arange(0, BM)
    d = tl.arange(0, BD)
    dv = tl.arange(0, BV)
    q = tile(start_of(query, q_strides, batch, head, HINT), rows, d, q_strides, l_size, d_size, True, not D_EVEN, UNIT, HINT, WIDE)
    k_start = start_of(key, k_strides, batch, head // HEADS, HINT)
    v_start = start_of(value, v_strides, batch, head // HEADS, HINT)
    bias_start = None
    if bias is not None:
        bias_start = start_of(bias, bias_strides, batch, head, 1)
    total = tl.zeros((BM, BV), ACC)
    sums = tl.zeros((BM,), ACC)
    most = tl.full((BM,), float("-inf"), ACC)
    high = s_size
    whole = s_size // BN * BN
    if CAUSAL:
        high = tl.minimum(s_size, tl.maximum(number * BM + BM + shift, 0))
        whole = tl.minimum(whole, tl.maximum(number * BM + shift + 1, 0) // BN * BN)
    total, sums, most = walk(total, sums, most, q, k_start, v_start, bias_start, k_strides, v_strides, bias_strides, rows, 0, whole, l_size, s_size, d_size, dv_size,
                             scale, shift, ACC, OPERAND, PRECISION, CAUSAL, False, D_EVEN, UNIT, HINT, WIDE, BN, BD, BV)
    total, sums, most = walk(total, sums, most, q, k_start, v_start, bias_start, k_strides, v_strides, bias_strides, rows, whole, high, l_size, s_size, d_size, dv_size,
                             scale, shift, ACC, OPERAND, PRECISION, CAUSAL, True, D_EVEN, UNIT, HINT, WIDE, BN, BD, BV)
    nothing = sums == 0
    total = total / tl.where(nothing, 1.0, sums).to(ACC)[:, None]
    put(start_of(out, out_strides, batch, head, HINT), total, rows, dv, out_strides, l_size, dv_size, not D_EVEN, UNIT, HINT, WIDE)
    if logsumexp is not None:
        found = (most + tl.log2(tl.where(nothing, 1.0, sums).to(ACC))) * LN2
        found = tl.where(nothing, empty.to(ACC), found)
        found = tl.where(rows < l_size, found, float("inf"))
        tl.store(start_of(logsumexp, lse_strides, batch, head, 1) + rows * lse_strides[2], found, mask=rows < lse_size)


@nereid.jit
def correlation(delta, gradient, out, l_size, dv_size, heads, g_strides, out_strides, ACC: tl.constexpr, D_EVEN: tl.constexpr, UNIT: tl.constexpr,
                HINT: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BV: tl.constexpr):
    """delta[batch, head, l], contiguous: the sum of gradient * out. Grid: tiles of queries of all heads of all batches."""
    tiles = tl.cdiv(l_size, BM)
    place = tl.program_id(0) // tiles
    rows = tl.program_id(0) % tiles * BM + tl.arange(0, BM)
    dv = tl.arange(0, BV)
    g = tile(start_of(gradient, g_strides, place // heads, place % heads, HINT), rows, dv, g_strides, l_size, dv_size, True, not D_EVEN, UNIT, HINT, WIDE)
    o = tile(start_of(out, out_strides, place // heads, place % heads, HINT), rows, dv, out_strides, l_size, dv_size, True, not D_EVEN, UNIT, HINT, WIDE)
    tl.store(delta + place.to(tl.int64) * l_size + rows, tl.sum(g.to(ACC) * o.to(ACC), 1), mask=rows < l_size)


@nereid.jit
def differences(q, k, v, g, sums, delta, bias, bias_strides, rows, columns, l_size, s_size, scale, shift, ACC: tl.constexpr, PRECISION: tl.constexpr,
                CAUSAL: tl.constexpr):
    """(weights, gradients of the scores) of a tile of queries by keys."""
    scores = scores_of(product(q, tl.trans(k), ACC, PRECISION), bias, bias_strides, rows, columns, l_size, s_size, scale, shift, ACC, CAUSAL, True)
    # A query that sees no key has no gradient, whatever its log-sum-exp is.
    weights = tl.where((scores == float("-inf")) | (rows[:, None] >= l_size), 0.0, tl.exp2(scores - (sums * LOG2E)[:, None])).to(ACC)
    changes = weights * (product(g, tl.trans(v), ACC, PRECISION) - delta[:, None])
    return weights, changes


@nereid.jit
def backward_query(grad_query, grad_bias, gradient, query, key, value, bias, logsumexp, delta, scale, l_size, s_size, d_size, dv_size, heads, shift, dq_strides,
                   db_strides, g_strides, q_strides, k_strides, v_strides, bias_strides, lse_strides, HEADS: tl.constexpr, ACC: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr,
                   CAUSAL: tl.constexpr, D_EVEN: tl.constexpr, UNIT: tl.constexpr, HINT: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                   BD: tl.constexpr, BV: tl.constexpr):
    """Gradients of the queries and, if there is `grad_bias`, of the scores before the bias is added. Grid: tiles of queries of all heads of all batches.

    delta: see `correlation`; gradient: of the result. Other arguments: as for `forward`.
    """
    tiles = tl.cdiv(l_size, BM)
    place = tl.program_id(0) // tiles
    batch, head = place // heads, place % heads
    first_row = tl.program_id(0) % tiles * BM
    rows = first_row + tl.arange(0, BM)
    d = tl.arange(0, BD)
    dv = tl.arange(0, BV)
    q = tile(start_of(query, q_strides, batch, head, HINT), rows, d, q_strides, l_size, d_size, True, not D_EVEN, UNIT, HINT, WIDE)
    g = tile(start_of(gradient, g_strides, batch, head, HINT), rows, dv, g_strides, l_size, dv_size, True, not D_EVEN, UNIT, HINT, WIDE)
    sums = tl.load(start_of(logsumexp, lse_strides, batch, head, 1) + rows * lse_strides[2], mask=rows < l_size, other=0).to(ACC)
    correlations = tl.load(delta + place.to(tl.int64) * l_size + rows, mask=rows < l_size, other=0)
    k_start = start_of(key, k_strides, batch, head // HEADS, HINT)
    v_start = start_of(value, v_strides, batch, head // HEADS, HINT)
    bias_start = None
    if bias is not None:
        bias_start = start_of(bias, bias_strides, batch, head, 1)
    high = s_size
    if CAUSAL and grad_bias is None:
        high = tl.minimum(s_size, tl.maximum(first_row + BM + shift, 0))
    total = tl.zeros((BM, BD), ACC)
    for first in range(0, high, BN):
        columns = first + tl.arange(0, BN)
        k = tile(k_start, columns, d, k_strides, s_size, d_size, True, not D_EVEN, UNIT, HINT, WIDE)
        v = tile(v_start, columns, dv, v_strides, s_size, dv_size, True, not D_EVEN, UNIT, HINT, WIDE)
        weights, changes = differences(q, k, v, g, sums, correlations, bias_start, bias_strides, rows, columns, l_size, s_size, scale, shift, ACC, PRECISION, CAUSAL)
        if grad_bias is not None:
            put(start_of(grad_bias, db_strides, batch, head, 1), changes, rows, columns, db_strides, l_size, s_size, True, False, 1, True)
        total = tl.dot(changes.to(OPERAND), k.to(OPERAND), total, input_precision=PRECISION, out_dtype=ACC)
    put(start_of(grad_query, dq_strides, batch, head, HINT), total * scale.to(ACC), rows, d, dq_strides, l_size, d_size, not D_EVEN, UNIT, HINT, WIDE)


@nereid.jit
def backward_key(grad_key, grad_value, gradient, query, key, value, bias, logsumexp, delta, scale, l_size, s_size, d_size, dv_size, heads, shift, dk_strides, dv_strides,
                 g_strides, q_strides, k_strides, v_strides, bias_strides, lse_strides, HEADS: tl.constexpr, ACC: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr,
                 CAUSAL: tl.constexpr, D_EVEN: tl.constexpr, UNIT: tl.constexpr, HINT: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                   BD: tl.constexpr, BV: tl.constexpr):
    """Gradients of keys and values, added up over the HEADS heads of queries that share them. Grid: tiles of keys of all heads of keys."""
    key_heads = heads // HEADS
    tiles = tl.cdiv(s_size, BN)
    place = tl.program_id(0) // tiles
    batch, key_head = place // key_heads, place % key_heads
    first_column = tl.program_id(0) % tiles * BN
    columns = first_column + tl.arange(0, BN)
    d = tl.arange(0, BD)
    dv = tl.arange(0, BV)
    k = tile(start_of(key, k_strides, batch, key_head, HINT), columns, d, k_strides, s_size, d_size, True, not D_EVEN, UNIT, HINT, WIDE)
    v = tile(start_of(value, v_strides, batch, key_head, HINT), columns, dv, v_strides, s_size, dv_size, True, not D_EVEN, UNIT, HINT, WIDE)
    of_keys = tl.zeros((BN, BD), ACC)
    of_values = tl.zeros((BN, BV), ACC)
    low = 0
    if CAUSAL:
        low = tl.maximum(first_column - shift, 0) // BM * BM
    for inner in range(0, HEADS):
        head = key_head * HEADS + inner
        q_start = start_of(query, q_strides, batch, head, HINT)
        g_start = start_of(gradient, g_strides, batch, head, HINT)
        lse_start = start_of(logsumexp, lse_strides, batch, head, 1)
        delta_start = delta + (batch * heads + head).to(tl.int64) * l_size
        bias_start = None
        if bias is not None:
            bias_start = start_of(bias, bias_strides, batch, head, 1)
        for first in range(low, l_size, BM):
            rows = first + tl.arange(0, BM)
            q = tile(q_start, rows, d, q_strides, l_size, d_size, True, not D_EVEN, UNIT, HINT, WIDE)
            g = tile(g_start, rows, dv, g_strides, l_size, dv_size, True, not D_EVEN, UNIT, HINT, WIDE)
            sums = tl.load(lse_start + rows * lse_strides[2], mask=rows < l_size, other=0).to(ACC)
            correlations = tl.load(delta_start + rows, mask=rows < l_size, other=0)
            weights, changes = differences(q, k, v, g, sums, correlations, bias_start, bias_strides, rows, columns, l_size, s_size, scale, shift, ACC, PRECISION, CAUSAL)
            of_values = tl.dot(tl.trans(weights).to(OPERAND), g.to(OPERAND), of_values, input_precision=PRECISION, out_dtype=ACC)
            of_keys = tl.dot(tl.trans(changes).to(OPERAND), q.to(OPERAND), of_keys, input_precision=PRECISION, out_dtype=ACC)
    put(start_of(grad_key, dk_strides, batch, key_head, HINT), of_keys * scale.to(ACC), columns, d, dk_strides, s_size, d_size, not D_EVEN, UNIT, HINT, WIDE)
    put(start_of(grad_value, dv_strides, batch, key_head, HINT), of_values, columns, dv, dv_strides, s_size, dv_size, not D_EVEN, UNIT, HINT, WIDE)
