"""Kernels that apply a scalar function to tensors element by element.

All three take
  fn: the function, called with one block for each input, then with one number for each scalar; it returns one block for each output,
  outs: a tuple of pointers,
  ins: a tuple of pointers, numbers (the same for all elements) and None,
  scalars: a tuple of numbers and None, further arguments of `fn`,
  COMMON: the dtype that inputs are promoted to; None leaves all of them as they are,
  COMPUTE: the dtype that `fn` computes in: fp32 for 16-bit floats, else COMMON,
  RAW: a bit mask of inputs that `fn` gets in their own dtype (masks, conditions),
  NARROW: whether `fn` is told that results are of 16 bits: it has a parameter of this name, which becomes 8 or 11, their precision.
Numbers are fp64 or int64. A float result is rounded to COMMON, then converted to the dtype of its output by ATen's rules.
"""

import nereid
import nereid.language as tl


@nereid.jit
def convert(x, dtype: tl.constexpr):
    """`x` as `dtype` by ATen's rules: floats to narrow integers by way of a wide one, wide numbers to 16-bit floats by way of fp32."""
    if x.dtype == dtype:
        return x
    elif dtype.is_int() and dtype.primitive_bitwidth > 1 and dtype.primitive_bitwidth < 32 and x.dtype.is_floating():
        return x.to(tl.int64).to(dtype)
    elif (dtype == tl.float16 or dtype == tl.bfloat16) and (x.dtype == tl.float64 or x.dtype.is_int()):
        return x.to(tl.float32).to(dtype)
    elif dtype.is_floating() and x.dtype == tl.bfloat16:
        return x.to(tl.float32).to(dtype)
    else:
        return x.to(dtype)


@nereid.jit
def promote(x, COMMON: tl.constexpr, COMPUTE: tl.constexpr):
    """An input in the dtype that the function computes in."""
    return convert(convert(x, COMMON), COMPUTE)


@nereid.jit
def arguments(ins, loaded, scalars, COMMON: tl.constexpr, COMPUTE: tl.constexpr, RAW: tl.constexpr):
    """What `fn` is called with. loaded: the inputs, pointers replaced by what was loaded through them."""
    values = ()
    for i in tl.static_range(len(ins)):
        if ins[i] is None:
            values += (None, )
        elif COMMON is None or (RAW >> i) & 1:
            values += (loaded[i], )
        elif ins[i].dtype.is_ptr():
            values += (promote(loaded[i], COMMON, COMPUTE), )
        else:
            values += (convert(loaded[i], COMPUTE), )
    for i in tl.static_range(len(scalars)):
        if scalars[i] is None:
            values += (None, )
        elif COMMON is None:
            values += (scalars[i], )
        else:
            values += (convert(scalars[i], COMPUTE), )
    return values


@nereid.jit
def called(fn: tl.constexpr, ins, loaded, scalars, COMMON: tl.constexpr, COMPUTE: tl.constexpr, RAW: tl.constexpr, NARROW: tl.constexpr):
    """The results of `fn`."""
    if NARROW:
        return fn(*arguments(ins, loaded, scalars, COMMON, COMPUTE, RAW), NARROW=8 if COMMON == tl.bfloat16 else 11)
    else:
        return fn(*arguments(ins, loaded, scalars, COMMON, COMPUTE, RAW))


@nereid.jit
def result(x, out, COMMON: tl.constexpr):
    """A result of `fn` in the dtype of its output."""
    if COMMON is not None and x.dtype.is_floating() and COMMON.is_floating():
        return convert(convert(x, COMMON), out.dtype.element_ty)
    else:
        return convert(x, out.dtype.element_ty)


@nereid.jit
def write(outs, offsets, results, mask, COMMON: tl.constexpr):
    """Stores the results of `fn`, one or a tuple, at `offsets` (a tuple) of the outputs. mask: None for all."""
    if len(outs) == 1:
        tl.store(outs[0] + offsets[0], result(results, outs[0], COMMON), mask=mask)
    else:
        for i in tl.static_range(len(outs)):
            tl.store(outs[i] + offsets[i], result(results[i], outs[i], COMMON), mask=mask)


@nereid.jit
def flat_block(fn: tl.constexpr, outs, ins, scalars, start, mask, COMMON: tl.constexpr, COMPUTE: tl.constexpr, RAW: tl.constexpr,
               NARROW: tl.constexpr, FIXED: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    loaded = ()
    for i in tl.static_range(len(ins)):
        if ins[i] is None:
            loaded += (None, )
        elif not ins[i].dtype.is_ptr():
            loaded += (ins[i], )
        elif (FIXED >> i) & 1:
            loaded += (tl.load(ins[i]), )
        else:
            loaded += (tl.load(ins[i] + start + lane, mask=mask), )
    results = called(fn, ins, loaded, scalars, COMMON, COMPUTE, RAW, NARROW)
    offsets = ()
    for i in tl.static_range(len(outs)):
        offsets += (start + lane, )
    write(outs, offsets, results, mask, COMMON)


@nereid.jit
def flat(fn: tl.constexpr, outs, ins, scalars, numel, COMMON: tl.constexpr, COMPUTE: tl.constexpr, RAW: tl.constexpr,
         NARROW: tl.constexpr, FIXED: tl.constexpr, BLOCK: tl.constexpr):
    """One dimension: all operands are dense in the same order. numel: int64. FIXED: a bit mask of inputs that have one element."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    if start + BLOCK <= numel:
        flat_block(fn, outs, ins, scalars, start, None, COMMON, COMPUTE, RAW, NARROW, FIXED, BLOCK)
    else:
        mask = tl.arange(0, BLOCK) < (numel - start).to(tl.int32)
        flat_block(fn, outs, ins, scalars, start, mask, COMMON, COMPUTE, RAW, NARROW, FIXED, BLOCK)


@nereid.jit
def dense(fn: tl.constexpr, outs, ins, scalars, numel, COMMON: tl.constexpr, COMPUTE: tl.constexpr, RAW: tl.constexpr, NARROW: tl.constexpr,
          BLOCK: tl.constexpr):
    """As `flat`, for gradients: each input is loaded in one place, so that each element of its gradient is known to be stored once."""
    offset = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offset < numel
    loaded = ()
    for i in tl.static_range(len(ins)):
        if ins[i].dtype.is_ptr():
            loaded += (tl.load(ins[i] + offset, mask=mask), )
        else:
            loaded += (ins[i], )
    offsets = ()
    for i in tl.static_range(len(outs)):
        offsets += (offset, )
    write(outs, offsets, called(fn, ins, loaded, scalars, COMMON, COMPUTE, RAW, NARROW), mask, COMMON)


@nereid.constexpr_function
def last_step(steps, unit, k):
    """The last stride of operand `k` where it is known, else 0."""
    return steps[k] if len(steps) else (unit >> k) & 1


@nereid.jit
def stepped(index, STEP: tl.constexpr):
    """Indices times a known stride."""
    if STEP == 1:
        return index
    else:
        return index * STEP


@nereid.jit
def strided(fn: tl.constexpr, outs, ins, scalars, sizes, out_strides, in_strides, numel, COMMON: tl.constexpr, COMPUTE: tl.constexpr,
            RAW: tl.constexpr, NARROW: tl.constexpr, UNIT: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr, STEPS: tl.constexpr):
    """Any strides, also negative and zero, dimensions of any size. Each program takes BLOCK elements in row-major order.

    sizes: a tuple, innermost last; out_strides, in_strides: a tuple of strides for each operand (empty for numbers and None), in elements.
    All are int64 with WIDE, which computes offsets with 64 bits, else int32. UNIT: a bit mask of operands, outputs first, whose last
    stride is 1. STEPS: the last stride of each operand where it is known, else 0; empty: as UNIT says.
    """
    INDEX: tl.constexpr = tl.int64 if WIDE else tl.int32
    rest = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK)
    mask = rest < numel
    out_offsets = ()
    for k in tl.static_range(len(outs)):
        out_offsets += (tl.zeros([BLOCK], INDEX), )
    in_offsets = ()
    for k in tl.static_range(len(ins)):
        in_offsets += (tl.zeros([BLOCK], INDEX), )
    for reverse in tl.static_range(len(sizes)):
        d: tl.constexpr = len(sizes) - 1 - reverse
        if d > 0:
            index = rest % sizes[d]
            rest = rest // sizes[d]
        else:
            index = rest
        moved = ()
        for k in tl.static_range(len(outs)):
            if reverse == 0 and last_step(STEPS, UNIT, k) != 0:
                moved += (out_offsets[k] + stepped(index, last_step(STEPS, UNIT, k)), )
            else:
                moved += (out_offsets[k] + index * out_strides[k][d], )
        out_offsets = moved
        moved = ()
        for k in tl.static_range(len(ins)):
            if len(in_strides[k]) == 0:
                moved += (in_offsets[k], )
            elif reverse == 0 and last_step(STEPS, UNIT, len(outs) + k) != 0:
                moved += (in_offsets[k] + stepped(index, last_step(STEPS, UNIT, len(outs) + k)), )
            else:
                moved += (in_offsets[k] + index * in_strides[k][d], )
        in_offsets = moved
    loaded = ()
    for k in tl.static_range(len(ins)):
        if ins[k] is None:
            loaded += (None, )
        elif len(in_strides[k]) == 0:
            loaded += (ins[k], )
        else:
            loaded += (tl.load(ins[k] + in_offsets[k], mask=mask), )
    write(outs, out_offsets, called(fn, ins, loaded, scalars, COMMON, COMPUTE, RAW, NARROW), mask, COMMON)


@nereid.jit
def known(number, EVEN: tl.constexpr):
    """The same number; with EVEN it is said to be a multiple of 16."""
    if EVEN:
        return tl.multiple_of(number, 16)
    else:
        return number


@nereid.jit
def tile_base(strides, indices, INDEX: tl.constexpr, EVEN: tl.constexpr):
    """The offset of a tile's outer dimensions: strides: one operand's; indices: one for each outer dimension."""
    base = tl.zeros((), INDEX)
    for d in tl.static_range(len(indices)):
        base += indices[d] * known(strides[d], EVEN)
    return base


@nereid.jit
def tile_offsets(strides, base, row, column, LAST: tl.constexpr, BEFORE: tl.constexpr, EVEN: tl.constexpr):
    """Offsets of a tile. LAST: the last stride where it is known, else 0; BEFORE: whether that of the dimension before it is known to be 1."""
    if LAST != 0:
        columns = stepped(column, LAST)
    else:
        columns = column * known(strides[len(strides) - 1], EVEN)
    if BEFORE:
        rows = row
    else:
        rows = row * known(strides[len(strides) - 2], EVEN)
    return base + rows[:, None] + columns[None, :]


@nereid.jit
def tiled_block(fn: tl.constexpr, outs, ins, scalars, indices, row, column, row_mask, column_mask, out_strides, in_strides, COMMON: tl.constexpr, COMPUTE: tl.constexpr,
                RAW: tl.constexpr, NARROW: tl.constexpr, UNIT: tl.constexpr, UNIT_ROWS: tl.constexpr, FIXED: tl.constexpr, INDEX: tl.constexpr, EVEN: tl.constexpr,
                STEPS: tl.constexpr):
    """A tile: row, column: blocks of indices; row_mask, column_mask: which of them exist, None for all. The rest as for `tiled`."""
    if row_mask is None:
        mask = None
        first_mask = None
    else:
        mask = row_mask[:, None] & column_mask[None, :]
        first_mask = row_mask[:, None]
    loaded = ()
    for k in tl.static_range(len(ins)):
        if ins[k] is None:
            loaded += (None, )
        elif len(in_strides[k]) == 0:
            loaded += (ins[k], )
        else:
            base = tile_base(in_strides[k], indices, INDEX, EVEN)
            if (FIXED >> k) & 1:
                offsets = tile_offsets(in_strides[k], base, row, tl.zeros([1], INDEX), 1, (UNIT_ROWS >> (len(outs) + k)) & 1, EVEN)
                loaded += (tl.broadcast_to(tl.load(ins[k] + offsets, mask=first_mask), [row.shape[0], column.shape[0]]), )
            else:
                offsets = tile_offsets(in_strides[k], base, row, column, last_step(STEPS, UNIT, len(outs) + k), (UNIT_ROWS >> (len(outs) + k)) & 1, EVEN)
                loaded += (tl.load(ins[k] + offsets, mask=mask), )
    results = called(fn, ins, loaded, scalars, COMMON, COMPUTE, RAW, NARROW)
    out_offsets = ()
    for k in tl.static_range(len(outs)):
        base = tile_base(out_strides[k], indices, INDEX, EVEN)
        out_offsets += (tile_offsets(out_strides[k], base, row, column, last_step(STEPS, UNIT, k), (UNIT_ROWS >> k) & 1, EVEN), )
    write(outs, out_offsets, results, mask, COMMON)


@nereid.jit
def tiled(fn: tl.constexpr, outs, ins, scalars, sizes, out_strides, in_strides, COMMON: tl.constexpr, COMPUTE: tl.constexpr,
          RAW: tl.constexpr, NARROW: tl.constexpr, UNIT: tl.constexpr, UNIT_ROWS: tl.constexpr, FIXED: tl.constexpr, WHOLE: tl.constexpr, ROWS: tl.constexpr,
          COLUMNS: tl.constexpr, WIDE: tl.constexpr, EVEN: tl.constexpr, STEPS: tl.constexpr):
    """Two dimensions at a time: each program takes ROWS x COLUMNS elements of the last two dimensions.

    Arguments are as for `strided`; there are two sizes at least. UNIT_ROWS: a bit mask of operands whose stride before the last is 1. EVEN: the last size and all strides
    but these ones are multiples of 16, so rows of a tile are loaded in vectors. FIXED: a bit mask of inputs that are loaded once for a row: their last stride is 0.
    STEPS: as for `strided`. WHOLE: tiles that lie inside of the tensor are computed by code without masks.
    Numbers of programs: a tile for each ROWS x COLUMNS of the last two dimensions, times all other sizes, along one axis of the grid.
    """
    INDEX: tl.constexpr = tl.int64 if WIDE else tl.int32
    rank: tl.constexpr = len(sizes)
    number = tl.program_id(0)
    tiles = ((sizes[rank - 1] + COLUMNS - 1) // COLUMNS).to(tl.int32)
    column_start = (number % tiles).to(INDEX) * COLUMNS
    column = column_start + tl.arange(0, COLUMNS)
    width = known(sizes[rank - 1], EVEN)
    number = number // tiles
    tiles = ((sizes[rank - 2] + ROWS - 1) // ROWS).to(tl.int32)
    row_start = (number % tiles).to(INDEX) * ROWS
    row = row_start + tl.arange(0, ROWS)
    number = (number // tiles).to(INDEX)
    indices = ()
    for reverse in tl.static_range(rank - 2):
        d: tl.constexpr = rank - 3 - reverse
        if d > 0:
            indices = (number % sizes[d], ) + indices
            number = number // sizes[d]
        else:
            indices = (number, ) + indices
    inside = True if not WHOLE else (row_start + ROWS <= sizes[rank - 2]) & (column_start + COLUMNS <= width)
    if WHOLE and inside:
        tiled_block(fn, outs, ins, scalars, indices, row, column, None, None, out_strides, in_strides, COMMON, COMPUTE, RAW, NARROW, UNIT, UNIT_ROWS, FIXED, INDEX, EVEN, STEPS)
    else:
        tiled_block(fn, outs, ins, scalars, indices, row, column, row < sizes[rank - 2], column < width, out_strides, in_strides, COMMON, COMPUTE, RAW, NARROW, UNIT, UNIT_ROWS,
                    FIXED, INDEX, EVEN, STEPS)
