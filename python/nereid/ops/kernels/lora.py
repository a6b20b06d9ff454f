"""A product with a low-rank one beside it (Hu et al. 2021, "LoRA"): out = x @ weight^T + scale * (x @ a^T) @ b^T + bias."""

import nereid
import nereid.language as tl

from ._shared import step
from .products import grouped, hinted, loaded, multiplied, store_tile


@nereid.jit
def lora_product(out, x, weight, a, b, low, bias, parts, scale, m_size, n_size, k_size, rank, tiles_of_part, out_strides, x_strides, weight_strides, a_strides, b_strides, bias_strides,
                 ACC: tl.constexpr, PRECISION: tl.constexpr, X_UNIT: tl.constexpr, W_UNIT: tl.constexpr, A_UNIT: tl.constexpr, B_UNIT: tl.constexpr, ALIGNED: tl.constexpr, MULTIPLE: tl.constexpr,
                 EVEN: tl.constexpr, IN_ORDER: tl.constexpr, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BR: tl.constexpr, WIDE: tl.constexpr):
    """Grid: (tiles of the result, parts of k).

    low               (m, rank), contiguous, scale * x @ a^T in the dtype of `x`; or None: each program computes its rows of it along with its tile, from the same tiles of `x`,
                      for its part of k. BR is at least `rank` then, else a step of it
    x_strides         (m, k); weight_strides: (n, k); a_strides: (rank, k); b_strides: (n, rank)
    X_UNIT, A_UNIT    whether the stride along k is 1; W_UNIT: which stride of `weight` is 1: "k", "n" or None; B_UNIT: whether that of `b` along its rows is
    ALIGNED           bits: the other strides of `x` (1), of `weight` (2), n_size (4), k_size (8), the stride between rows of `a` (16), that of `b` and the rank (32) are
                      multiples of MULTIPLE
    EVEN              bits: m (1), n (2), k (4) are multiples of the tile's sizes
    Others: as for `product`.
    """
    tile_m, tile_n = grouped(tl.program_id(0), tl.cdiv(m_size, BM), tl.cdiv(n_size, BN), GROUP)
    part = tl.program_id(1)
    row, column = tile_m * BM, tile_n * BN
    W_TRANSPOSED: tl.constexpr = IN_ORDER and W_UNIT == "k"
    i = tl.arange(0, BM)[:, None]
    j = tl.expand_dims(tl.arange(0, BN), 1 if W_TRANSPOSED else 0)
    r = tl.arange(0, BR)
    k_of_x = tl.arange(0, BK)[None, :]
    k_of_w = tl.expand_dims(tl.arange(0, BK), 0 if W_TRANSPOSED else 1)
    row_mask = i < m_size - row
    column_mask = j < hinted(n_size, ALIGNED & 4 != 0, MULTIPLE) - column
    first = part * tiles_of_part
    last = tl.minimum(first + tiles_of_part, tl.cdiv(k_size, BK))
    x_k = step(x_strides[1], X_UNIT, WIDE)
    w_k = step(hinted(weight_strides[1], ALIGNED & 2 != 0 and W_UNIT == "n", MULTIPLE), W_UNIT == "k", WIDE)
    w_n = step(hinted(weight_strides[0], ALIGNED & 2 != 0 and W_UNIT == "k", MULTIPLE), W_UNIT == "n", WIDE)
    k_first = first.to(tl.int64) * BK
    x_place = x + (row + i).to(tl.int64) * hinted(x_strides[0], ALIGNED & 1 != 0, MULTIPLE) + k_first * x_k + k_of_x * x_k
    w_place = weight + (column.to(tl.int64) * w_n + k_first * w_k) + k_of_w * w_k + j * w_n
    k_known = hinted(k_size, ALIGNED & 8 != 0, MULTIPLE)
    total = tl.zeros((BM, BN), ACC)
    if low is None:
        a_k = step(a_strides[1], A_UNIT, True)
        a_place = a + r[:, None].to(tl.int64) * hinted(a_strides[0], ALIGNED & 16 != 0, MULTIPLE) + k_first * a_k + k_of_x * a_k
        reduced = tl.zeros((BM, BR), ACC)
    for position in range(first, last):
        left = k_known - position * BK
        value = loaded(x_place, row_mask, k_of_x < left, EVEN & 1 == 0, EVEN & 4 == 0)
        w = loaded(w_place, k_of_w < left, column_mask, EVEN & 4 == 0, EVEN & 2 == 0)
        total = multiplied(value, w, total, False, W_TRANSPOSED, None, PRECISION)
        if low is None:
            down = loaded(a_place, (r < rank)[:, None], k_of_x < left, True, EVEN & 4 == 0)
            reduced = multiplied(value, down, reduced, False, True, None, PRECISION)
            a_place += BK * a_k
        x_place += BK * x_k
        w_place += BK * w_k
    columns = tl.arange(0, BN)[:, None]
    ranks = tl.arange(0, BR)[None, :]
    b_place = b + (column + columns).to(tl.int64) * hinted(b_strides[0], ALIGNED & 32 != 0, MULTIPLE) + ranks * step(b_strides[1], B_UNIT, True)
    b_mask = columns < n_size - column
    rank_known = hinted(rank, ALIGNED & 32 != 0, MULTIPLE)
    if low is None:
        up = tl.load(b_place, mask=b_mask & (ranks < rank_known), other=0)
        total = multiplied((reduced * scale.to(ACC)).to(up.dtype), up, total, False, True, None, PRECISION)
    elif part == 0:
        low_place = low + (row + i).to(tl.int64) * rank_known + ranks
        for start in range(0, rank_known, BR):
            inside = ranks < rank_known - start
            up = tl.load(b_place, mask=b_mask & inside, other=0)
            reduced = tl.load(low_place, mask=row_mask & inside, other=0)
            total = multiplied(reduced, up, total, False, True, None, PRECISION)
            b_place += BR * step(b_strides[1], B_UNIT, True)
            low_place += BR
    store_tile(out, bias, None, parts, part, total, 1, 1, tile_m * 0, row, column, m_size, n_size, 1, out_strides, bias_strides, ACC, False, False, None, True, EVEN & 3 != 3,
               ALIGNED & 4 != 0, MULTIPLE, BM, BN, WIDE)
