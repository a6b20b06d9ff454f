"""Kernels that only move elements, or make them from their place. All offsets are 64 bits wide."""

import nereid
import nereid.language as tl

from ._shared import write
from .indexing import decoded


@nereid.jit
def cat_rows(out, ins, widths, starts, rows, total, most, BR: tl.constexpr, BC: tl.constexpr):
    """Tensors (rows, widths[i]), each contiguous, side by side into `out`, (rows, total). starts: the first column of each; most: the largest width.

    Grid: (tiles of the widest one, tensors).
    """
    tiles = tl.cdiv(most, BC)
    r = (tl.program_id(0) // tiles).to(tl.int64) * BR + tl.arange(0, BR)
    c = (tl.program_id(0) % tiles).to(tl.int64) * BC + tl.arange(0, BC)
    for i in tl.static_range(len(ins)):
        if tl.program_id(1) == i:
            mask = (r < rows)[:, None] & (c < widths[i])[None, :]
            value = tl.load(ins[i] + (r * widths[i])[:, None] + c[None, :], mask=mask)
            tl.store(out + (r * total + starts[i])[:, None] + c[None, :], value, mask=mask)


@nereid.jit
def cat_lines(out, ins, widths, starts, rows, total, share, BLOCK: tl.constexpr):
    """As `cat_rows`, for CPUs: row after row of `out`, so that what several of `ins` share is read once. share: rows of a program. Grid: rows / share."""
    program = tl.program_id(0).to(tl.int64)
    for r in range(program * share, tl.minimum(rows, program * share + share)):
        for i in tl.static_range(len(ins)):
            for first in range(0, widths[i], BLOCK):
                c = first + tl.arange(0, BLOCK)
                value = tl.load(ins[i] + r * widths[i] + c, mask=c < widths[i])
                tl.store(out + r * total + starts[i] + c, value, mask=c < widths[i])


@nereid.jit
def padded(out, x, value, sizes, in_sizes, in_strides, starts, rows, UNIT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """`out`, contiguous, of `sizes`: element i is x[i - starts], or `value` where that does not exist.

    rows: product of `sizes` but the last; UNIT: the last stride of `x` is 1. Grid: rows / BR * last size / BC.
    """
    LAST: tl.constexpr = len(sizes) - 1
    width = sizes[LAST]
    tiles = tl.cdiv(width, BC)
    r = (tl.program_id(0) // tiles).to(tl.int64) * BR + tl.arange(0, BR)
    c = (tl.program_id(0) % tiles).to(tl.int64) * BC + tl.arange(0, BC)
    there = r < rows
    offset = tl.zeros([BR], tl.int64)
    rest = r
    for i in tl.static_range(LAST):
        d: tl.constexpr = LAST - 1 - i
        place = rest % sizes[d] - starts[d]
        rest = rest // sizes[d]
        there = there & (place >= 0) & (place < in_sizes[d])
        offset += place * in_strides[d]
    column = c - starts[LAST]
    step = column if UNIT else column * in_strides[LAST]
    inside = there[:, None] & ((column >= 0) & (column < in_sizes[LAST]))[None, :]
    moved = tl.load(x + offset[:, None] + step[None, :], mask=inside, other=0)
    tl.store(out + (r * width)[:, None] + c[None, :], tl.where(inside, moved, value.to(moved.dtype)), mask=(r < rows)[:, None] & (c < width)[None, :])


@nereid.jit
def fill_run(to, value, count, BLOCK: tl.constexpr):
    """`count` neighbours from `to` on are `value`."""
    for first in range(0, count, BLOCK):
        lane = tl.arange(0, BLOCK)
        tl.store(to + first + lane, tl.full([BLOCK], value, to.dtype.element_ty), mask=lane < count - first)


@nereid.jit
def padded_planes(out, x, value, outer, in_outer, in_strides, outer_starts, rows, in_rows, row_start, row_stride, width, count, start, items, part, share,
                  BR: tl.constexpr, BC: tl.constexpr):
    """As `padded`, for CPUs: planes (rows, width) of `out`, contiguous, from planes (in_rows, count) of `x`, whose last stride is 1.

    A row of `x` is stored together with the values behind it, up to the place of the next one, so that a plane takes one pass, in the order of memory. outer, in_outer, in_strides, outer_starts: as
    in `padded`, of the dimensions before. row_start, start: where the first row and column of `x` are. part: rows of an item; items: all of them, share: those of a program. in_rows, count > 0; width, count, start: of 32 bits.
    Grid: items / share.
    """
    value = value.to(out.dtype.element_ty)
    program = tl.program_id(0).to(tl.int64)
    step = width.to(tl.int64)
    size = rows * step
    head = row_start * step + start
    parts = tl.cdiv(in_rows, part)
    lane = tl.arange(0, BC)
    several = tl.arange(0, BR)
    for item in range(program * share, tl.minimum(items, program * share + share)):
        plane = item // parts
        row = item % parts * part
        end = tl.minimum(in_rows, row + part)
        to = out + plane * size
        source = x
        there = plane >= 0
        rest = plane
        for k in tl.static_range(len(outer)):
            d: tl.constexpr = len(outer) - 1 - k
            place = (rest % outer[d] if d > 0 else rest) - outer_starts[d]
            rest = rest // outer[d] if d > 0 else rest
            there = there & (place >= 0) & (place < in_outer[d])
            source += place * in_strides[d]
        if there:
            if row == 0:
                fill_run(to, value, head, 64)
            to += head + row * step
            source += row * row_stride
            # The last row of a plane has no next one.
            whole = (tl.minimum(end, in_rows - 1) - row) // BR * BR
            for _ in range(0, whole, BR):
                for first in range(0, width, BC):
                    moved = tl.load(source + first + several[:, None] * row_stride + lane[None, :], mask=(lane < count - first)[None, :], other=value)
                    tl.store(to + first + several[:, None] * step + lane[None, :], moved, mask=(lane < width - first)[None, :])
                source += BR * row_stride
                to += BR * step
            for one in range(row + whole, end):
                stop = count if one == in_rows - 1 else width
                for first in range(0, stop, BC):
                    moved = tl.load(source + first + lane, mask=lane < count - first, other=value)
                    tl.store(to + first + lane, moved, mask=lane < stop - first)
                source += row_stride
                to += step
            if end == in_rows:
                fill_run(to - step + count, value, size - head - (in_rows - 1) * step - count, 64)
        elif row == 0:
            fill_run(to, value, size, 256)


@nereid.jit
def triangle(out, x, rows, columns, outer, out_strides, in_strides, diagonal, UPPER: tl.constexpr, UNIT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """Matrices with the elements above (below with UPPER) the diagonal set to 0.

    out_strides, in_strides: of the outer dimensions, then of rows and columns. UNIT: bits of `out` and `x` whose last stride is 1. Grid: (tiles of a matrix, row by
    row; matrices).
    """
    OUTER: tl.constexpr = len(outer)
    tiles = tl.cdiv(columns, BC)
    r = (tl.program_id(0) // tiles).to(tl.int64) * BR + tl.arange(0, BR)
    c = (tl.program_id(0) % tiles).to(tl.int64) * BC + tl.arange(0, BC)
    rest = tl.program_id(1).to(tl.int64)
    to = tl.zeros((), tl.int64)
    source = tl.zeros((), tl.int64)
    for i in tl.static_range(OUTER):
        d: tl.constexpr = OUTER - 1 - i
        place = rest % outer[d]
        rest = rest // outer[d]
        to += place * out_strides[d]
        source += place * in_strides[d]
    inside = (r < rows)[:, None] & (c < columns)[None, :]
    # What lies wholly on the other side of the diagonal is not read; masks that follow the diagonal would cut loads into elements.
    first_row = (tl.program_id(0) // tiles).to(tl.int64) * BR
    first_column = (tl.program_id(0) % tiles).to(tl.int64) * BC
    if UPPER:
        kept = (c[None, :] - r[:, None]) >= diagonal
        some = first_column + BC - 1 - first_row >= diagonal
    else:
        kept = (c[None, :] - r[:, None]) <= diagonal
        some = first_column - first_row - (BR - 1) <= diagonal
    out_step = c if UNIT & 1 else c * out_strides[OUTER + 1]
    in_step = c if UNIT & 2 else c * in_strides[OUTER + 1]
    value = tl.load(x + source + r[:, None] * in_strides[OUTER] + in_step[None, :], mask=inside & some, other=0)
    tl.store(out + to + r[:, None] * out_strides[OUTER] + out_step[None, :], tl.where(kept, value, 0).to(value.dtype), mask=inside)


@nereid.jit
def triangle_lines(out, x, rows, columns, outer, out_strides, in_strides, diagonal, share, UPPER: tl.constexpr, UNIT: tl.constexpr, BLOCK: tl.constexpr,
                   MIXED: tl.constexpr):
    """As `triangle`, for CPUs: of each row one part is copied, one cleared, and between them are MIXED elements, so that no store crosses a line of the cache. share: rows of a program. Grid: (rows / share, matrices)."""
    OUTER: tl.constexpr = len(outer)
    offsets = decoded(tl.program_id(1).to(tl.int64), outer, (out_strides, in_strides))
    row_start = tl.program_id(0).to(tl.int64) * share
    for r in range(row_start, tl.minimum(rows, row_start + share)):
        to = out + offsets[0] + r * out_strides[OUTER]
        source = x + offsets[1] + r * in_strides[OUTER]
        border = tl.minimum(tl.maximum(r + diagonal if UPPER else r + diagonal + 1, 0), columns)
        before = border // MIXED * MIXED
        after = tl.minimum(before + MIXED, columns)
        for first in range(after if UPPER else 0, columns if UPPER else before, BLOCK):
            c = first + tl.arange(0, BLOCK)
            inside = c < (columns if UPPER else before)
            value = tl.load(source + (c if UNIT & 2 else c * in_strides[OUTER + 1]), mask=inside)
            tl.store(to + (c if UNIT & 1 else c * out_strides[OUTER + 1]), value, mask=inside)
        for first in range(0 if UPPER else after, before if UPPER else columns, BLOCK):
            c = first + tl.arange(0, BLOCK)
            tl.store(to + (c if UNIT & 1 else c * out_strides[OUTER + 1]), tl.zeros([BLOCK], out.dtype.element_ty), mask=c < (before if UPPER else columns))
        c = before + tl.arange(0, MIXED)
        inside = c < columns
        kept = inside & (c >= border) if UPPER else inside & (c < border)
        value = tl.load(source + (c if UNIT & 2 else c * in_strides[OUTER + 1]), mask=kept, other=0)
        tl.store(to + (c if UNIT & 1 else c * out_strides[OUTER + 1]), value, mask=inside)


@nereid.jit
def in_rows_before(row, columns, diagonal):
    """How many elements on and below a diagonal the rows before `row` have: the rows up to the diagonal one more each, those behind it `columns`."""
    first = tl.maximum(-diagonal, 0)
    end = tl.maximum(tl.minimum(row, columns - diagonal), first)
    growing = tl.where(row > first, end - first, 0)
    return growing * (first + end - 1) // 2 + growing * (diagonal + 1) + tl.maximum(row - end, 0) * columns


@nereid.jit
def triangle_places(out, columns, diagonal, row_stride, stride, UPPER: tl.constexpr, BLOCK: tl.constexpr):
    """out[0], out[1] = the rows and columns of a triangle's elements, row by row: on and below the diagonal, with UPPER on and above. row_stride, stride: of `out`. Grid: rows."""
    row = tl.program_id(0).to(tl.int64)
    if UPPER:
        first = tl.minimum(tl.maximum(row + diagonal, 0), columns)
        count = columns - first
        start = row * columns - in_rows_before(row, columns, diagonal - 1)
    else:
        first = tl.zeros((), tl.int64)
        count = tl.minimum(tl.maximum(row + diagonal + 1, 0), columns)
        start = in_rows_before(row, columns, diagonal)
    for done in range(0, count, BLOCK):
        place = done + tl.arange(0, BLOCK)
        mask = place < count
        to = out + (start + place) * stride
        tl.store(to, (row + place * 0).to(out.dtype.element_ty), mask=mask)
        tl.store(to + row_stride, (first + place).to(out.dtype.element_ty), mask=mask)


@nereid.jit
def sequence(out, start, step, numel, stride, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """out[i] = start + step * i, computed in COMPUTE."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    write(out + i * stride, start.to(COMPUTE) + step.to(COMPUTE) * i.to(COMPUTE), i < numel)


@nereid.jit
def spaced(out, start, end, step, numel, stride, BASE: tl.constexpr, base, BLOCK: tl.constexpr):
    """`numel` numbers from `start` to `end`, `step` apart, counted from the nearer end; with BASE the powers of `base` to them. Computed in fp64."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    place = i.to(tl.float64)
    value = tl.where(i < numel // 2, start + step * place, end - step * (numel - 1 - i).to(tl.float64))
    if BASE:
        value = tl.exp(value * tl.log(base))
    if out.dtype.element_ty.is_int():
        value = value.to(tl.int64)
    write(out + i * stride, value, i < numel)
