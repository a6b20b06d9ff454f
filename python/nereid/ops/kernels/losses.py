"""The kernels of cross-entropy, of logits in memory and of logits that are computed tile by tile.

A row is walked once (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"): each lane keeps the greatest logit that it has seen and the sum of
exp(logit - greatest), and lanes and parts of a row are combined at the end, always in the same order. `greatest` starts at LEAST, a finite number, so that
logits of -inf need no special case.

With CAP a logit x becomes softcap * tanh(x / softcap) first. The loss of a row with the target t:

    lse - (1 - smoothing) * logit[t] - smoothing * mean(logits) + z_loss * lse ** 2
"""

import nereid
import nereid.language as tl

from ._shared import step
from .products import grouped, hinted, loaded, multiplied

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
LEAST = tl.constexpr(-1e38)


@nereid.jit
def capped(x, softcap, CAP: tl.constexpr):
    """Logits after the cap. softcap: a scalar of the dtype of x."""
    if CAP:
        return softcap - 2 * softcap / (1 + tl.exp2(x * (2 * LOG2E / softcap)))
    else:
        return x


@nereid.jit
def absorbed(greatest, total, plain, z, inside, SMOOTH: tl.constexpr):
    """The state of lanes with a tile of logits more. z: (R, L), -inf where there are none; inside: where there are logits, or None: everywhere."""
    most = tl.maximum(greatest, tl.max(z, 0))
    total = total * tl.exp2((greatest - most) * LOG2E) + tl.sum(tl.exp2((z - most[None, :]) * LOG2E), 0)
    if SMOOTH:
        if inside is None:
            plain += tl.sum(z, 0)
        else:
            plain += tl.sum(tl.where(inside, z, 0.0), 0)
    return most, total, plain


@nereid.jit
def finished_loss(lse, chosen, plain, target, columns, smoothing, share, z_loss, SMOOTH: tl.constexpr, Z: tl.constexpr, COMPUTE: tl.constexpr):
    """The loss of rows whose target is not ignored: not-a-number where it is no class."""
    if SMOOTH:
        loss = lse - (1 - smoothing).to(COMPUTE) * chosen - share.to(COMPUTE) * plain
    else:
        loss = lse - chosen
    if Z:
        loss += z_loss.to(COMPUTE) * lse * lse
    return tl.where((target >= 0) & (target < columns), loss, float("nan"))


@nereid.jit
def entropy_of_rows(loss, lse, parts, chosen, logits, target, row_stride, column_stride, target_stride, rows, columns, tiles_of_part, ignore_index, smoothing, share, z_loss,
                    softcap, SMOOTH: tl.constexpr, Z: tl.constexpr, CAP: tl.constexpr, COMPUTE: tl.constexpr, UNIT: tl.constexpr, ALIGNED: tl.constexpr,
                    VECTOR: tl.constexpr, R: tl.constexpr, L: tl.constexpr):
    """Loss and log-sum-exp of rows of logits, or the states of parts of rows. Grid: (rows, parts).

    loss, lse         by row, contiguous, used when a row has one part
    parts, chosen     else the states (2 or, with SMOOTH, 3; part, row), contiguous, and the logits of the targets by row; or None
    tiles_of_part     tiles of a part; the last part has what is left
    SMOOTH, Z, CAP    whether smoothing, z_loss and softcap are not 0
    share             smoothing / columns
    UNIT              whether column_stride is 1; ALIGNED: whether rows begin at multiples of 16 bytes and `columns` is a multiple of VECTOR, the elements of 16 bytes
    R, L              a tile of R * L columns; a lane keeps the state of one of L places
    """
    row = tl.program_id(0).to(tl.int64)
    wanted = tl.load(target + row * target_stride)
    ignored = wanted == ignore_index
    size = hinted(columns, ALIGNED, VECTOR)
    first = tl.program_id(1) * tiles_of_part * (R * L)
    last = tl.where(ignored, first, tl.minimum(first + tiles_of_part * (R * L), size))
    whole = first + (last - first) // (R * L) * (R * L)
    column_step = step(column_stride, UNIT, True)
    within = tl.arange(0, R)[:, None] * L + tl.arange(0, L)[None, :]
    start = logits + row * hinted(row_stride, ALIGNED, VECTOR)
    cap = softcap.to(COMPUTE)
    greatest = tl.full((L,), LEAST, COMPUTE)
    total = tl.zeros((L,), COMPUTE)
    plain = tl.zeros((L,), COMPUTE)
    for c in range(first, whole, R * L):
        x = tl.load(start + c * column_step + within * column_step).to(COMPUTE)
        greatest, total, plain = absorbed(greatest, total, plain, capped(x, cap, CAP), None, SMOOTH)
    for c in range(whole, last, R * L):
        inside = within < hinted(last, ALIGNED, VECTOR) - c
        x = tl.load(start + c * column_step + within * column_step, mask=inside, other=0).to(COMPUTE)
        z = tl.where(inside, capped(x, cap, CAP), float("-inf"))
        greatest, total, plain = absorbed(greatest, total, plain, z, inside, SMOOTH)
    most = tl.max(greatest, 0)
    total_of_row = tl.sum(total * tl.exp2((greatest - most) * LOG2E), 0)
    plain_of_row = tl.sum(plain, 0)
    here = (wanted >= first) & (wanted < last)
    found = capped(tl.load(start + wanted * column_step, mask=here, other=0).to(COMPUTE), cap, CAP)
    if parts is None:
        sums = most + tl.log2(total_of_row) * LN2
        value = finished_loss(sums, found, plain_of_row, wanted, columns, smoothing, share, z_loss, SMOOTH, Z, COMPUTE)
        tl.store(loss + row, tl.where(ignored, 0.0, value))
        tl.store(lse + row, tl.where(ignored, 0.0, sums))
    else:
        count = tl.num_programs(1).to(tl.int64)
        place = parts + tl.program_id(1).to(tl.int64) * rows + row
        tl.store(place, most)
        tl.store(place + count * rows, total_of_row)
        if SMOOTH:
            tl.store(place + 2 * count * rows, plain_of_row)
        tl.store(chosen + row, found, mask=here)


@nereid.jit
def combine_parts(loss, lse, count, parts, chosen, target, target_stride, rows, part_count, columns, ignore_index, smoothing, share, z_loss, SMOOTH: tl.constexpr,
                  Z: tl.constexpr, REDUCTION: tl.constexpr, COMPUTE: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr):
    """Loss and log-sum-exp from the states of parts (see `entropy_of_rows`).

    REDUCTION: "none": `loss` is by row, count is None; the grid is the tiles of ROWS rows. "sum" or "mean": `loss` is one number, `count` how many rows are not
    ignored; the grid is one program.
    """
    losses = tl.zeros((ROWS,), COMPUTE)
    counts = tl.zeros((ROWS,), tl.int64)
    states = part_count.to(tl.int64) * rows
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = first + tl.arange(0, ROWS)
        here = row < rows
        greatest = tl.full((ROWS,), LEAST, COMPUTE)
        total = tl.zeros((ROWS,), COMPUTE)
        plain = tl.zeros((ROWS,), COMPUTE)
        for p in range(0, part_count, PARTS):
            part = p + tl.arange(0, PARTS)
            mask = (part < part_count)[:, None] & here[None, :]
            place = parts + part.to(tl.int64)[:, None] * rows + row[None, :]
            its_greatest = tl.load(place, mask=mask, other=LEAST)
            its_total = tl.load(place + states, mask=mask, other=0)
            most = tl.maximum(greatest, tl.max(its_greatest, 0))
            total = total * tl.exp2((greatest - most) * LOG2E) + tl.sum(its_total * tl.exp2((its_greatest - most[None, :]) * LOG2E), 0)
            if SMOOTH:
                plain += tl.sum(tl.load(place + 2 * states, mask=mask, other=0), 0)
            greatest = most
        wanted = tl.load(target + row.to(tl.int64) * target_stride, mask=here, other=ignore_index)
        ignored = wanted == ignore_index
        found = tl.load(chosen + row, mask=here & (wanted >= 0) & (wanted < columns), other=0)
        sums = greatest + tl.log2(total) * LN2
        value = tl.where(ignored, 0.0, finished_loss(sums, found, plain, wanted, columns, smoothing, share, z_loss, SMOOTH, Z, COMPUTE)).to(COMPUTE)
        tl.store(lse + row, tl.where(ignored, 0.0, sums), mask=here)
        if REDUCTION == "none":
            tl.store(loss + row, value, mask=here)
        else:
            losses += value
            counts += tl.where(ignored, 0, 1)
    if REDUCTION != "none":
        store_total(loss, count, losses, counts, REDUCTION, COMPUTE)


@nereid.jit
def store_total(loss, count, losses, counts, REDUCTION: tl.constexpr, COMPUTE: tl.constexpr):
    total = tl.sum(losses, 0)
    number = tl.sum(counts, 0)
    if REDUCTION == "mean":
        total = tl.where(number == 0, float("nan"), total / tl.maximum(number, 1).to(COMPUTE))
    tl.store(loss, total)
    tl.store(count, number)


@nereid.jit
def add_losses(loss, count, losses, target, target_stride, rows, ignore_index, REDUCTION: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """The sum or mean of the losses of rows, and how many rows are not ignored. One program."""
    total = tl.zeros((BLOCK,), COMPUTE)
    number = tl.zeros((BLOCK,), tl.int64)
    for first in range(0, rows, BLOCK):
        row = first + tl.arange(0, BLOCK)
        total += tl.load(losses + row, mask=row < rows, other=0)
        wanted = tl.load(target + row.to(tl.int64) * target_stride, mask=row < rows, other=ignore_index)
        number += tl.where(wanted == ignore_index, 0, 1)
    store_total(loss, count, total, number, REDUCTION, COMPUTE)


@nereid.jit
def factors_of(grad, grad_lse, lse, count, wanted, row, grad_stride, grad_lse_stride, columns, ignore_index, smoothing, share, z_loss, mask, SMOOTH: tl.constexpr,
               Z: tl.constexpr, REDUCTION: tl.constexpr, COMPUTE: tl.constexpr):
    """(a, b, c) by row: the gradient of a logit is a * softmax - c, and - b more for the target. Not-a-number where the target is no class, 0 where it is ignored."""
    if REDUCTION == "none":
        own = tl.load(grad + row * grad_stride, mask=mask).to(COMPUTE)
    else:
        own = tl.load(grad).to(COMPUTE)
    if REDUCTION == "mean":
        own = own / tl.load(count).to(COMPUTE)
    a = own
    b = own
    c = own * 0
    if SMOOTH:
        b = own * (1 - smoothing).to(COMPUTE)
        c = own * share.to(COMPUTE)
    if Z:
        a = own * (1 + 2 * z_loss.to(COMPUTE) * lse)
    if grad_lse is not None:
        a = a + tl.load(grad_lse + row * grad_lse_stride, mask=mask).to(COMPUTE)
    ignored = wanted == ignore_index
    a = tl.where(ignored, 0.0, tl.where((wanted >= 0) & (wanted < columns), a, float("nan")))
    return a.to(COMPUTE), tl.where(ignored, 0.0, b).to(COMPUTE), tl.where(ignored, 0.0, c).to(COMPUTE)


@nereid.jit
def gradient_of(x, column, lse, wanted, a, b, c, softcap, SMOOTH: tl.constexpr, CAP: tl.constexpr):
    """Gradients of logits. x: the logits before the cap; the other arguments broadcast with them."""
    z = capped(x, softcap, CAP)
    value = a * tl.exp2((z - lse) * LOG2E) - tl.where(column == wanted, b, 0.0)
    if SMOOTH:
        value = value - c
    if CAP:
        ratio = z / softcap
        value = value * (1 - ratio * ratio)
    return value


@nereid.jit
def gradient_of_rows(out, grad, grad_lse, logits, target, lse, count, row_stride, column_stride, out_row_stride, out_column_stride, target_stride, grad_stride,
                     grad_lse_stride, columns, tiles_of_part, ignore_index, smoothing, share, z_loss, softcap, SMOOTH: tl.constexpr, Z: tl.constexpr, CAP: tl.constexpr,
                     REDUCTION: tl.constexpr, COMPUTE: tl.constexpr, UNIT: tl.constexpr, OUT_UNIT: tl.constexpr, ALIGNED: tl.constexpr, VECTOR: tl.constexpr,
                     BLOCK: tl.constexpr):
    """The gradients of the logits of a row. Grid: (rows, parts). `out` may be `logits`. Other arguments: see `entropy_of_rows` and `factors_of`."""
    row = tl.program_id(0).to(tl.int64)
    wanted = tl.load(target + row * target_stride)
    sums = tl.load(lse + row)
    a, b, c = factors_of(grad, grad_lse, sums, count, wanted, row, grad_stride, grad_lse_stride, columns, ignore_index, smoothing, share, z_loss, None, SMOOTH, Z, REDUCTION,
                         COMPUTE)
    ignored = wanted == ignore_index
    cap = softcap.to(COMPUTE)
    size = hinted(columns, ALIGNED, VECTOR)
    first = tl.program_id(1) * tiles_of_part * BLOCK
    last = tl.minimum(first + tiles_of_part * BLOCK, size)
    column_step = step(column_stride, UNIT, True)
    out_step = step(out_column_stride, OUT_UNIT, True)
    start = logits + row * hinted(row_stride, ALIGNED, VECTOR)
    out_start = out + row * hinted(out_row_stride, ALIGNED, VECTOR)
    for begin in range(first, last, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        inside = column < size
        x = tl.load(start + column * column_step, mask=inside & (not ignored), other=0).to(COMPUTE)
        value = gradient_of(x, column, sums, wanted, a, b, c, cap, SMOOTH, CAP)
        value = tl.where(ignored, 0.0, value)
        tl.store(out_start + column * out_step, value.to(out.dtype.element_ty), mask=inside)


@nereid.jit
def product_tile(x, weight, bias, row, column, m_size, n_size, k_size, k_tiles, x_strides, w_strides, bias_stride, ACC: tl.constexpr, PRECISION: tl.constexpr,
                 X_UNIT: tl.constexpr, W_UNIT: tl.constexpr, ALIGNED: tl.constexpr, MULTIPLE: tl.constexpr, EVEN: tl.constexpr, IN_ORDER: tl.constexpr, BM: tl.constexpr,
                 BN: tl.constexpr, BK: tl.constexpr, WIDE: tl.constexpr):
    """A tile of x @ weight^T + bias, (BM, BN) in ACC, from `row` and `column` on; of the product the first k_tiles tiles.

    x_strides: (m, k), w_strides: (n, k). X_UNIT, W_UNIT: whether strides[1] is 1. ALIGNED: bits: the other stride of `x` (1), of `weight` (2), k_size (4) are multiples
    of MULTIPLE. EVEN: bits: m (1), n (2), k (4) are multiples of the tile's sizes. Others as for `products.product`.
    """
    W_TRANSPOSED: tl.constexpr = IN_ORDER and W_UNIT
    i = tl.arange(0, BM)[:, None]
    j = tl.expand_dims(tl.arange(0, BN), 1 if W_TRANSPOSED else 0)
    k_of_x = tl.arange(0, BK)[None, :]
    k_of_w = tl.expand_dims(tl.arange(0, BK), 0 if W_TRANSPOSED else 1)
    row_mask = i < m_size - row
    column_mask = j < n_size - column
    if WIDE:
        i = i.to(tl.int64)
        j = j.to(tl.int64)
        k_of_x = k_of_x.to(tl.int64)
        k_of_w = k_of_w.to(tl.int64)
    x_m = step(hinted(x_strides[0], ALIGNED & 1 != 0, MULTIPLE), False, WIDE)
    x_k = step(x_strides[1], X_UNIT, WIDE)
    w_n = step(hinted(w_strides[0], ALIGNED & 2 != 0, MULTIPLE), False, WIDE)
    w_k = step(w_strides[1], W_UNIT, WIDE)
    x_place = x + row.to(tl.int64) * x_m + i * x_m + k_of_x * x_k
    w_place = weight + column.to(tl.int64) * w_n + k_of_w * w_k + j * w_n
    k_known = hinted(k_size, ALIGNED & 4 != 0, MULTIPLE)
    total = tl.zeros((BM, BN), ACC)
    for position in range(0, k_tiles):
        left = k_known - position * BK
        a = loaded(x_place, row_mask, k_of_x < left, EVEN & 1 == 0, EVEN & 4 == 0)
        b = loaded(w_place, k_of_w < left, column_mask, EVEN & 4 == 0, EVEN & 2 == 0)
        total = multiplied(a, b, total, False, W_TRANSPOSED, None, PRECISION)
        x_place += BK * x_k
        w_place += BK * w_k
    if bias is not None:
        columns = column + tl.arange(0, BN)
        total += tl.load(bias + columns.to(tl.int64) * bias_stride, mask=columns < n_size, other=0).to(ACC)[None, :]
    return total


@nereid.jit
def entropy_of_tiles(parts, chosen, x, weight, bias, target, target_stride, m_size, n_size, k_size, x_strides, w_strides, bias_stride, ignore_index, softcap,
                     SMOOTH: tl.constexpr, CAP: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr, X_UNIT: tl.constexpr, W_UNIT: tl.constexpr,
                     ALIGNED: tl.constexpr, MULTIPLE: tl.constexpr, EVEN: tl.constexpr, IN_ORDER: tl.constexpr, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                     BK: tl.constexpr, WIDE: tl.constexpr):
    """The states (see `entropy_of_rows`) of tiles of logits x @ weight^T + bias, which are not stored: a tile of BN columns is a part of its BM rows. Grid: the tiles.

    m_size, n_size, k_size: rows, classes, width. Tiles without a target that counts are not computed. Other arguments: see `product_tile`.
    """
    tile_m, tile_n = grouped(tl.program_id(0), tl.cdiv(m_size, BM), tl.cdiv(n_size, BN), GROUP)
    row, column = tile_m * BM, tile_n * BN
    rows = row + tl.arange(0, BM)
    here = rows < m_size
    wanted = tl.load(target + rows.to(tl.int64) * target_stride, mask=here, other=ignore_index)
    counting = tl.max(tl.where(wanted == ignore_index, 0, 1), 0)
    z = capped(product_tile(x, weight, bias, row, column, m_size, n_size, k_size, counting * tl.cdiv(k_size, BK), x_strides, w_strides, bias_stride, COMPUTE, PRECISION,
                            X_UNIT, W_UNIT, ALIGNED, MULTIPLE, EVEN, IN_ORDER, BM, BN, BK, WIDE), softcap.to(COMPUTE), CAP)
    columns = column + tl.arange(0, BN)
    place = parts + tile_n.to(tl.int64) * m_size + rows
    count = tl.cdiv(n_size, BN).to(tl.int64) * m_size
    if SMOOTH:
        tl.store(place + 2 * count, tl.sum(tl.where(columns[None, :] < n_size, z, 0.0), 1), mask=here)
    found = tl.sum(tl.where(columns[None, :] == wanted[:, None], z, 0.0), 1)
    tl.store(chosen + rows, found, mask=here & (wanted >= column) & (wanted < tl.minimum(column + BN, n_size)))
    if EVEN & 2 == 0:
        z = tl.where(columns[None, :] < n_size, z, float("-inf"))
    most = tl.maximum(tl.max(z, 1), LEAST)
    tl.store(place, most, mask=here)
    tl.store(place + count, tl.sum(tl.exp2((z - most[:, None]) * LOG2E), 1), mask=here)


@nereid.jit
def gradient_of_tiles(out, column_sums, grad, grad_lse, lse, count, x, weight, bias, target, out_stride, grad_stride, grad_lse_stride, target_stride, m_size, n_size,
                      k_size, first_class, classes, x_strides, w_strides, bias_stride, ignore_index, smoothing, share, z_loss, softcap, SMOOTH: tl.constexpr, Z: tl.constexpr, CAP: tl.constexpr,
                      REDUCTION: tl.constexpr, COMPUTE: tl.constexpr, PRECISION: tl.constexpr, X_UNIT: tl.constexpr, W_UNIT: tl.constexpr, ALIGNED: tl.constexpr,
                      MULTIPLE: tl.constexpr, EVEN: tl.constexpr, IN_ORDER: tl.constexpr, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                      WIDE: tl.constexpr):
    """The gradients of tiles of logits, which are computed again. Grid: the tiles.

    out          (rows, n_size), its rows out_stride apart, a multiple of 16
    weight, bias those of the n_size classes from first_class on, of `classes` in all
    column_sums  the sums of each tile's rows: (tile of rows, classes), contiguous, or None
    Other arguments: see `factors_of` and `product_tile`.
    """
    tile_m, tile_n = grouped(tl.program_id(0), tl.cdiv(m_size, BM), tl.cdiv(n_size, BN), GROUP)
    row, column = tile_m * BM, tile_n * BN
    rows = row + tl.arange(0, BM)
    here = rows < m_size
    wanted = tl.load(target + rows.to(tl.int64) * target_stride, mask=here, other=ignore_index)
    counting = tl.max(tl.where(wanted == ignore_index, 0, 1), 0)
    logits = product_tile(x, weight, bias, row, column, m_size, n_size, k_size, counting * tl.cdiv(k_size, BK), x_strides, w_strides, bias_stride, COMPUTE, PRECISION,
                          X_UNIT, W_UNIT, ALIGNED, MULTIPLE, EVEN, IN_ORDER, BM, BN, BK, WIDE)
    sums = tl.load(lse + rows, mask=here, other=0)
    a, b, c = factors_of(grad, grad_lse, sums, count, wanted, rows.to(tl.int64), grad_stride, grad_lse_stride, classes, ignore_index, smoothing, share, z_loss, here, SMOOTH, Z,
                         REDUCTION, COMPUTE)
    columns = column + tl.arange(0, BN)
    value = gradient_of(logits, (first_class + columns)[None, :], sums[:, None], wanted[:, None], a[:, None], b[:, None], c[:, None], softcap.to(COMPUTE), SMOOTH, CAP)
    value = tl.where((wanted == ignore_index)[:, None], 0.0, value)
    if column_sums is not None:
        tl.store(column_sums + tile_m.to(tl.int64) * classes + first_class + columns, tl.sum(value, 0), mask=columns < n_size)
    place = out + (row.to(tl.int64) * tl.multiple_of(out_stride, 16) + column) + tl.arange(0, BM)[:, None].to(tl.int64) * tl.multiple_of(out_stride, 16) \
        + tl.arange(0, BN)[None, :]
    value = value.to(out.dtype.element_ty)
    if EVEN & 3 == 3:
        tl.store(place, value)
    else:
        tl.store(place, value, mask=here[:, None] & (columns < n_size)[None, :])


@nereid.jit
def add_rows(out, parts, rows, columns, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """out[c] = the sum of parts[r, c], contiguous, in the order of rows. Grid: tiles of columns."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), COMPUTE)
    for r in range(0, rows):
        total += tl.load(parts + r.to(tl.int64) * columns + c, mask=c < columns, other=0)
    tl.store(out + c, total.to(out.dtype.element_ty), mask=c < columns)
