"""The kernels of matrix products.

    out[b, m, n] = ACTIVATION(alpha * sum over o and k of a[b, o, m, k] * b[b, o, k, n] + beta * bias[b, m, n])

`o` is a second dimension that is summed over (a sum of products, as of `addbmm`); it mostly has one place. All tensors have strides of their own in
each of these dimensions, 0 where they are broadcast. Deep products with few tiles are cut into parts along (o, k): each part writes its sum to
a workspace, and `add_parts` adds them in their order, so that results do not depend on which part was first.
"""

import nereid
import nereid.language as tl

from ..functions import activation
from ._shared import split_index, step, write


@nereid.jit
def loaded(pointer, row_mask, column_mask, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A tile, 0 where a mask is false. ROWS, COLUMNS: whether rows and columns have to be masked."""
    if ROWS and COLUMNS:
        return tl.load(pointer, mask=row_mask & column_mask, other=0)
    elif ROWS:
        return tl.load(pointer, mask=row_mask, other=0)
    elif COLUMNS:
        return tl.load(pointer, mask=column_mask, other=0)
    else:
        return tl.load(pointer)


@nereid.jit
def grouped(tile, tiles_m, tiles_n, GROUP: tl.constexpr):
    """(row, column) of a tile: GROUP rows of tiles are walked column by column, so that programs that run together share operands."""
    per_group = GROUP * tiles_n
    first = tile // per_group * GROUP
    rows = tl.minimum(tiles_m - first, GROUP)
    rest = tile % per_group
    return first + rest % rows, rest // rows


@nereid.jit
def hinted(number, KNOWN: tl.constexpr, MULTIPLE: tl.constexpr):
    """A number; with KNOWN the compiler is told that it is a multiple of MULTIPLE, the elements of 16 bytes."""
    if KNOWN:
        return tl.multiple_of(number, MULTIPLE)
    else:
        return number


@nereid.jit
def gelu_erf(x):
    return 0.5 * x * (1 + tl.math.erf(x * 0.7071067811865476))


@nereid.jit
def gelu_tanh(x):
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return x / (1 + tl.exp(-2 * inner))


@nereid.jit
def biased(total, bias, mask, alpha, beta, EPILOGUE: tl.constexpr, ALPHA: tl.constexpr, BETA: tl.constexpr):
    """alpha * total + beta * bias. total: the sum of products; bias: a block of pointers, or None; EPILOGUE: the dtype to compute in; ALPHA, BETA: whether they
    are not 1."""
    value = total.to(EPILOGUE)
    if ALPHA:
        value = value * alpha.to(EPILOGUE)
    if bias is not None:
        added = tl.load(bias, mask=mask, other=0).to(EPILOGUE)
        if BETA:
            added = added * beta.to(EPILOGUE)
        value = value + added
    return value


@nereid.jit
def activated(value, RESULT: tl.constexpr, ACTIVATION: tl.constexpr):
    """ACTIVATION: None, "relu", "gelu" (with erf), "gelu_tanh" or "silu". RESULT: the dtype in memory."""
    if ACTIVATION is not None:
        if value.dtype.is_int():
            value = value.to(RESULT)
    if ACTIVATION == "relu":
        value = tl.where(value < 0, 0, value)
    elif ACTIVATION == "gelu":
        value = gelu_erf(value)
    elif ACTIVATION == "gelu_tanh":
        value = gelu_tanh(value)
    elif ACTIVATION == "silu":
        value = activation.silu(value, RESULT.primitive_bitwidth == 16)
    return value


@nereid.jit
def finished(total, bias, bias_mask, mask, alpha, beta, saved, residual, RESULT: tl.constexpr, EPILOGUE: tl.constexpr, ALPHA: tl.constexpr, BETA: tl.constexpr, ACTIVATION: tl.constexpr):
    """The value to store, in the dtype RESULT. saved: a block of pointers that receives the argument of the activation, or None; residual: a block of pointers to a value that is added last, or None;
    other arguments: see `biased` and `activated`."""
    value = biased(total, bias, bias_mask, alpha, beta, EPILOGUE, ALPHA, BETA)
    if saved is not None:
        tl.store(saved, value.to(saved.dtype.element_ty), mask=mask)
    value = activated(value, RESULT, ACTIVATION)
    if residual is not None:
        value = value + tl.load(residual, mask=mask, other=0).to(EPILOGUE)
    return value.to(RESULT)


@nereid.jit
def store_tile(out, bias, extra, parts, part, total, alpha, beta, place, row, column, m_size, n_size, batches, out_strides, bias_strides, EPILOGUE: tl.constexpr,
               ALPHA: tl.constexpr, BETA: tl.constexpr, ACTIVATION: tl.constexpr, OUT_UNIT: tl.constexpr, MASKED: tl.constexpr, ALIGNED: tl.constexpr,
               MULTIPLE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, WIDE: tl.constexpr):
    """Writes a tile of sums: finished to `out`, or as they are to the workspace `parts`. place: the batch; row, column: of the tile's first element. extra: see
    `product`."""
    i = tl.arange(0, BM)[:, None]
    j = tl.arange(0, BN)[None, :]
    mask = (i < m_size - row) & (j < hinted(n_size, ALIGNED, MULTIPLE) - column)
    if WIDE:
        i = i.to(tl.int64)
        j = j.to(tl.int64)
    if parts is not None:
        n_known = hinted(n_size, ALIGNED, MULTIPLE)
        start = ((part.to(tl.int64) * batches + place) * m_size + row) * n_known + column
        pointer = parts + start + i * n_known + j
        if MASKED:
            tl.store(pointer, total, mask=mask)
        else:
            tl.store(pointer, total)
    else:
        sources, bias_mask = None, mask
        if bias is not None:
            if bias_strides is None:
                sources = bias + column.to(tl.int64) + j
                bias_mask = j < hinted(n_size, ALIGNED, MULTIPLE) - column
            else:
                sources = bias + (place.to(tl.int64) * bias_strides[0] + row.to(tl.int64) * bias_strides[1] + column.to(tl.int64) * bias_strides[2])
                sources = sources + i * step(bias_strides[1], False, WIDE) + j * step(bias_strides[2], False, WIDE)
        first = (place.to(tl.int64) * hinted(out_strides[0], ALIGNED and OUT_UNIT, MULTIPLE) + row.to(tl.int64) * hinted(out_strides[1], ALIGNED and OUT_UNIT, MULTIPLE)
                 + column.to(tl.int64) * step(out_strides[2], OUT_UNIT, WIDE))
        offset = i * step(hinted(out_strides[1], ALIGNED and OUT_UNIT, MULTIPLE), False, WIDE) + j * step(out_strides[2], OUT_UNIT, WIDE)
        residual, saved = None, None
        if extra is not None:
            if extra[0] is not None:
                if extra[2] is None:
                    along = hinted(extra[1], ALIGNED, MULTIPLE)
                    residual = extra[0] + (row.to(tl.int64) * along + column) + i * step(along, False, WIDE) + j
                else:
                    residual = extra[0] + (row.to(tl.int64) * extra[1] + column.to(tl.int64) * extra[2]) + i * step(extra[1], False, WIDE) + j * step(extra[2], False, WIDE)
            if extra[3] is not None:
                saved = extra[3] + first + offset
        value = finished(total, sources, bias_mask, mask, alpha, beta, saved, residual, out.dtype.element_ty, EPILOGUE, ALPHA, BETA, ACTIVATION)
        pointer = out + first + offset
        if MASKED:
            tl.store(pointer, value, mask=mask)
        else:
            tl.store(pointer, value)


@nereid.jit
def product(out, a, b, bias, extra, parts, alpha, beta, m_size, n_size, k_size, outer_size, batches, tiles_of_part, out_strides, a_strides, b_strides, bias_strides,
            ACC: tl.constexpr, OPERAND: tl.constexpr, EPILOGUE: tl.constexpr, PRECISION: tl.constexpr, ALPHA: tl.constexpr, BETA: tl.constexpr, ACTIVATION: tl.constexpr,
            OUTER: tl.constexpr, BATCH: tl.constexpr, A_UNIT: tl.constexpr, B_UNIT: tl.constexpr, OUT_UNIT: tl.constexpr, ALIGNED: tl.constexpr, MULTIPLE: tl.constexpr, EVEN: tl.constexpr,
            IN_ORDER: tl.constexpr, BY_TILE: tl.constexpr, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WIDE: tl.constexpr):
    """Grid: (tiles of the results of all batches, parts of the summed dimensions).

    out, a, b         pointers; bias: a pointer or None; parts: the workspace (part, batch, m, n), contiguous, or None with one part
    extra             None, or with one batch (residual, its strides along m and n, saved): what is added behind the activation, or None; a stride along n of None
                      stands for 1, aligned as the result; where to write what the activation is applied to, with the strides of the result, or None
    m_size, n_size, k_size, outer_size, batches: the sizes
    tiles_of_part     how many tiles of (o, k) a part has
    out_strides       (batch, m, n), bias_strides likewise, or None: a contiguous row that all rows share; a_strides: (batch, o, m, k); b_strides: (batch, o, k, n)
    ACC               dtype of the sums: fp32, fp64, or int32 for 8-bit integers; OPERAND: what operands become first: None, or int8 in place of uint8
    EPILOGUE, ALPHA, BETA, ACTIVATION: see `finished`
    OUTER, BATCH      whether there is more than one place of `o`, more than one batch
    A_UNIT            which stride of `a` is 1: "k", "m" or None; B_UNIT: "n", "k" or None; OUT_UNIT: whether that of `out` along n is
    ALIGNED           bits: the other strides of `a` (1), of `b` (2), n_size and the other strides of `out` (4), m_size (8), k_size (16) are multiples of MULTIPLE,
                      the elements of 16 bytes
    EVEN              bits: m (1), n (2), k (4) are multiples of the tile's sizes
    IN_ORDER          tiles are read in the order of memory and transposed afterwards: for CPUs; units of GPUs take either order
    BY_TILE           the products of a tile are added up first, and their sum then: shorter sums have smaller errors
    WIDE              places within a tile take 64 bits
    """
    tiles_m, tiles_n = tl.cdiv(m_size, BM), tl.cdiv(n_size, BN)
    place, tile = split_index(tl.program_id(0), tiles_m * tiles_n, BATCH)
    part = tl.program_id(1)
    tile_m, tile_n = grouped(tile, tiles_m, tiles_n, GROUP)
    row, column = tile_m * BM, tile_n * BN
    # Tiles of operands are read with the dimension that is contiguous in memory as the last one where IN_ORDER says so, and transposed.
    A_TRANSPOSED: tl.constexpr = IN_ORDER and A_UNIT == "m"
    B_TRANSPOSED: tl.constexpr = IN_ORDER and B_UNIT == "k"
    i = tl.expand_dims(tl.arange(0, BM), 0 if A_TRANSPOSED else 1)
    j = tl.expand_dims(tl.arange(0, BN), 1 if B_TRANSPOSED else 0)
    k_of_a = tl.expand_dims(tl.arange(0, BK), 1 if A_TRANSPOSED else 0)
    k_of_b = tl.expand_dims(tl.arange(0, BK), 0 if B_TRANSPOSED else 1)
    row_mask = i < hinted(m_size, ALIGNED & 8 != 0, MULTIPLE) - row
    column_mask = j < hinted(n_size, ALIGNED & 4 != 0, MULTIPLE) - column
    if WIDE:
        i = i.to(tl.int64)
        j = j.to(tl.int64)
        k_of_a = k_of_a.to(tl.int64)
        k_of_b = k_of_b.to(tl.int64)
    a_m = step(hinted(a_strides[2], (ALIGNED & 1 != 0) and A_UNIT == "k", MULTIPLE), A_UNIT == "m", WIDE)
    a_k = step(hinted(a_strides[3], (ALIGNED & 1 != 0) and A_UNIT == "m", MULTIPLE), A_UNIT == "k", WIDE)
    b_k = step(hinted(b_strides[2], (ALIGNED & 2 != 0) and B_UNIT == "n", MULTIPLE), B_UNIT == "k", WIDE)
    b_n = step(hinted(b_strides[3], (ALIGNED & 2 != 0) and B_UNIT == "k", MULTIPLE), B_UNIT == "n", WIDE)
    a_place = a + (place.to(tl.int64) * hinted(a_strides[0], ALIGNED & 1 != 0, MULTIPLE) + row.to(tl.int64) * a_m) + i * a_m + k_of_a * a_k
    b_place = b + (place.to(tl.int64) * hinted(b_strides[0], ALIGNED & 2 != 0, MULTIPLE) + column.to(tl.int64) * b_n) + k_of_b * b_k + j * b_n
    k_tiles = tl.cdiv(k_size, BK)
    first = part * tiles_of_part
    last = tl.minimum(first + tiles_of_part, k_tiles * outer_size)
    k_known = hinted(k_size, ALIGNED & 16 != 0, MULTIPLE)
    total = tl.zeros((BM, BN), ACC)
    if OUTER:
        for position in range(first, last):
            outer, inner = position // k_tiles, position % k_tiles
            k_first = inner.to(tl.int64) * BK
            left = k_known - inner * BK
            x = loaded(a_place + (outer.to(tl.int64) * hinted(a_strides[1], ALIGNED & 1 != 0, MULTIPLE) + k_first * a_k), row_mask, k_of_a < left, EVEN & 1 == 0, EVEN & 4 == 0)
            y = loaded(b_place + (outer.to(tl.int64) * hinted(b_strides[1], ALIGNED & 2 != 0, MULTIPLE) + k_first * b_k), k_of_b < left, column_mask, EVEN & 4 == 0, EVEN & 2 == 0)
            total = multiplied(x, y, total, A_TRANSPOSED, B_TRANSPOSED, OPERAND, PRECISION)
    else:
        a_place += first.to(tl.int64) * BK * a_k
        b_place += first.to(tl.int64) * BK * b_k
        for position in range(first, last):
            left = k_known - position * BK
            x = loaded(a_place, row_mask, k_of_a < left, EVEN & 1 == 0, EVEN & 4 == 0)
            y = loaded(b_place, k_of_b < left, column_mask, EVEN & 4 == 0, EVEN & 2 == 0)
            if BY_TILE:
                # From 0.0 on, the compiler would let the product begin with `total`.
                total += multiplied(x, y, tl.full((BM, BN), -0.0, ACC), A_TRANSPOSED, B_TRANSPOSED, OPERAND, PRECISION)
            else:
                total = multiplied(x, y, total, A_TRANSPOSED, B_TRANSPOSED, OPERAND, PRECISION)
            a_place += BK * a_k
            b_place += BK * b_k
    store_tile(out, bias, extra, parts, part, total, alpha, beta, place, row, column, m_size, n_size, batches, out_strides, bias_strides, EPILOGUE, ALPHA, BETA,
               ACTIVATION, OUT_UNIT, EVEN & 3 != 3, ALIGNED & 4 != 0, MULTIPLE, BM, BN, WIDE)


@nereid.jit
def multiplied(x, y, total, A_TRANSPOSED: tl.constexpr, B_TRANSPOSED: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr):
    """total + x @ y, either of which may be the transpose."""
    if A_TRANSPOSED:
        x = tl.trans(x)
    if B_TRANSPOSED:
        y = tl.trans(y)
    if OPERAND is not None:
        x = x.to(OPERAND, bitcast=True)
        y = y.to(OPERAND, bitcast=True)
    return tl.dot(x, y, total, input_precision=PRECISION, out_dtype=total.dtype)


@nereid.jit
def integer_product(out, a, b, bias, alpha, beta, m_size, n_size, k_size, outer_size, out_strides, a_strides, b_strides, bias_strides,
                    ACC: tl.constexpr, ALPHA: tl.constexpr, BETA: tl.constexpr, ACTIVATION: tl.constexpr, B_UNIT: tl.constexpr, OUT_UNIT: tl.constexpr,
                    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WIDE: tl.constexpr):
    """`product` by outer products, for integers that `tl.dot` does not take; sums wrap. Grid: the tiles of the results of all batches.

    BK: steps of k that are added at once. ACC: dtype of the sums, not narrower than the result. Other arguments: as for `product`.
    """
    tiles_m, tiles_n = tl.cdiv(m_size, BM), tl.cdiv(n_size, BN)
    pid = tl.program_id(0)
    place, tile = pid // (tiles_m * tiles_n), pid % (tiles_m * tiles_n)
    row, column = tile // tiles_n * BM, tile % tiles_n * BN
    i = tl.arange(0, BM)
    j = tl.arange(0, BN)
    row_mask = i < m_size - row
    column_mask = j < n_size - column
    if WIDE:
        i = i.to(tl.int64)
        j = j.to(tl.int64)
    a_place = a + (place.to(tl.int64) * a_strides[0] + row.to(tl.int64) * a_strides[2]) + i * step(a_strides[2], False, WIDE)
    b_place = b + (place.to(tl.int64) * b_strides[0] + column.to(tl.int64) * b_strides[3]) + j * step(b_strides[3], B_UNIT == "n", WIDE)
    total = tl.zeros((BM, BN), ACC)
    for outer in range(0, outer_size):
        for k in range(0, k_size, BK):
            found = tl.zeros((BM, BN), ACC)
            for s in tl.static_range(BK):
                inside = k + s < k_size
                x = tl.load(a_place + (outer.to(tl.int64) * a_strides[1] + (k + s).to(tl.int64) * a_strides[3]), mask=row_mask & inside, other=0)
                y = tl.load(b_place + (outer.to(tl.int64) * b_strides[1] + (k + s).to(tl.int64) * b_strides[2]), mask=column_mask & inside, other=0)
                found += x.to(ACC)[:, None] * y.to(ACC)[None, :]
            total += found
    store_tile(out, bias, None, None, place, total, alpha, beta, place, row, column, m_size, n_size, 1, out_strides, bias_strides, ACC, ALPHA, BETA, ACTIVATION, OUT_UNIT,
               True, False, 1, BM, BN, WIDE)


@nereid.jit
def add_parts(out, parts, bias, extra, alpha, beta, m_size, n_size, batches, count, out_strides, bias_strides, EPILOGUE: tl.constexpr, ALPHA: tl.constexpr,
              BETA: tl.constexpr, ACTIVATION: tl.constexpr, OUT_UNIT: tl.constexpr, ALIGNED: tl.constexpr, MULTIPLE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
              WIDE: tl.constexpr):
    """Adds the `count` parts in their order and finishes the sums. Grid: the tiles of the results of all batches. Arguments: as for `product`."""
    tiles_m, tiles_n = tl.cdiv(m_size, BM), tl.cdiv(n_size, BN)
    pid = tl.program_id(0)
    place, tile = pid // (tiles_m * tiles_n), pid % (tiles_m * tiles_n)
    row, column = tile // tiles_n * BM, tile % tiles_n * BN
    i = tl.arange(0, BM)[:, None]
    j = tl.arange(0, BN)[None, :]
    n_known = hinted(n_size, ALIGNED, MULTIPLE)
    mask = (i < m_size - row) & (j < n_known - column)
    part_size = tl.full((), 1, tl.int64) * batches * m_size * n_known
    start = parts + ((place.to(tl.int64) * m_size + row) * n_known + column) + i * n_known + j
    total = tl.load(start, mask=mask, other=0)
    for part in range(1, count):
        total += tl.load(start + part * part_size, mask=mask, other=0)
    store_tile(out, bias, extra, None, place, total, alpha, beta, place, row, column, m_size, n_size, batches, out_strides, bias_strides, EPILOGUE, ALPHA, BETA, ACTIVATION,
               OUT_UNIT, True, ALIGNED, MULTIPLE, BM, BN, WIDE)


@nereid.jit
def vector_product(out, a, x, bias, extra, parts, alpha, beta, m_size, k_size, batches, tiles_of_part, out_strides, a_strides, x_strides, bias_strides,
                   ACC: tl.constexpr, EPILOGUE: tl.constexpr, ALPHA: tl.constexpr, BETA: tl.constexpr, ACTIVATION: tl.constexpr, COLUMNS: tl.constexpr,
                   UNIT: tl.constexpr, X_UNIT: tl.constexpr, ALIGNED: tl.constexpr, MULTIPLE: tl.constexpr, LANES: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
                   WIDE: tl.constexpr):
    """out[b, m] = ACTIVATION(alpha * sum over k of a[b, m, k] * x[b, k] + beta * bias[b, m]). Grid: (tiles of m of all batches, parts of k).

    out_strides, bias_strides: (batch, m); a_strides: (batch, m, k); x_strides: (batch, k); parts: the workspace (part, batch, m), or None
    COLUMNS           tiles are (BK, BM) rather than (BM, BK): m has the smaller stride in `a`
    UNIT, X_UNIT      whether the inner stride of `a`'s tiles, and that of `x` along k, are 1; ALIGNED: bits: the other strides of
                      `a` (1), the size along its inner stride (2) are multiples of MULTIPLE
    LANES             sums of a whole tile are kept, and added along k at the end; else each tile is added at once
    Other arguments: as for `product`.
    """
    AXIS: tl.constexpr = 0 if COLUMNS else 1
    tiles = tl.cdiv(m_size, BM)
    pid = tl.program_id(0)
    part = tl.program_id(1)
    place, tile = pid // tiles, pid % tiles
    row = tile * BM
    m = tl.arange(0, BM)
    k = tl.arange(0, BK)
    m_mask = m < hinted(m_size, COLUMNS and ALIGNED & 2 != 0, MULTIPLE) - row
    if WIDE:
        m = m.to(tl.int64)
        k = k.to(tl.int64)
    m_step = step(hinted(a_strides[1], ALIGNED & 1 != 0 and UNIT and not COLUMNS, MULTIPLE), UNIT and COLUMNS, WIDE)
    k_step = step(hinted(a_strides[2], ALIGNED & 1 != 0 and UNIT and COLUMNS, MULTIPLE), UNIT and not COLUMNS, WIDE)
    first = part * tiles_of_part
    last = tl.minimum(first + tiles_of_part, tl.cdiv(k_size, BK))
    a_place = a + (place.to(tl.int64) * hinted(a_strides[0], ALIGNED & 1 != 0, MULTIPLE) + row.to(tl.int64) * m_step + first.to(tl.int64) * BK * k_step)
    a_place = a_place + tl.expand_dims(m, AXIS) * m_step + tl.expand_dims(k, 1 - AXIS) * k_step
    x_step = step(x_strides[1], X_UNIT, WIDE)
    x_place = x + (place.to(tl.int64) * x_strides[0] + first.to(tl.int64) * BK * x_step) + k * x_step
    total = tl.zeros(((BK, BM) if COLUMNS else (BM, BK)) if LANES else (BM,), ACC)
    for position in range(first, last):
        k_mask = k < hinted(k_size, not COLUMNS and ALIGNED & 2 != 0, MULTIPLE) - position * BK
        values = tl.load(a_place, mask=tl.expand_dims(m_mask, AXIS) & tl.expand_dims(k_mask, 1 - AXIS), other=0).to(ACC)
        factors = tl.load(x_place, mask=k_mask, other=0).to(ACC)
        products = values * tl.expand_dims(factors, 1 - AXIS)
        total += products if LANES else tl.sum(products, AXIS).to(ACC)
        a_place += BK * k_step
        x_place += BK * x_step
    found = tl.sum(total, AXIS).to(ACC) if LANES else total
    if parts is not None:
        tl.store(parts + ((part.to(tl.int64) * batches + place) * m_size + row) + m, found, mask=m_mask)
    else:
        sources = None
        if bias is not None:
            sources = bias + (place.to(tl.int64) * bias_strides[0] + row.to(tl.int64) * bias_strides[1]) + m * step(bias_strides[1], False, WIDE)
        offset = (place.to(tl.int64) * out_strides[0] + row.to(tl.int64) * out_strides[1]) + m * step(out_strides[1], False, WIDE)
        residual, saved = None, None
        if extra is not None:
            if extra[0] is not None:
                residual = extra[0] + (row + m.to(tl.int64)) * extra[1]
            if extra[3] is not None:
                saved = extra[3] + offset
        value = finished(found, sources, m_mask, m_mask, alpha, beta, saved, residual, out.dtype.element_ty, EPILOGUE, ALPHA, BETA, ACTIVATION)
        write(out + offset, value, m_mask)
