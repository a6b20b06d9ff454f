"""Places in memory: the part of the generator that makes offsets, pointers, masks and what is loaded through them.

Real kernels write `base + index * stride`; here each of the parts takes many forms (ranges that begin elsewhere, remainders, narrow
integers, blocks of offsets that are transposed, reshaped or put together), since the compiler derives widths, alignments and
directions of accesses from them. An *exact* block of offsets, for what is written, has no element twice.
"""

import numpy as np

from .dtypes import BF16, BOOL, E4M3, F16, I8, I32, I64, U8, Reject, is_number
from .tree import Store

MAX_NUMEL = 2048


def numel(shape):
    return int(np.prod(shape, dtype=np.int64))


class Addresses:
    """A part of `Generator`."""

    # Scalars.

    def program_index(self):
        grid = self.program.grid
        index = self.make("pid", axis=0)
        if len(grid) > 1:
            index = self.make("add", index, self.make("mul", self.make("pid", axis=1), self.make("num_programs", axis=0)))
        if len(grid) > 2:
            index = self.make("add", index, self.make("mul", self.make("pid", axis=2), grid[0] * grid[1]))
        return index

    def scalar_int(self, low=0, high=5):
        """A small run-time integer."""
        choices = [lambda: self.make("and", self.program_index(), 3)] if not self.inside_function else []
        if not self.inside_function:
            choices.append(lambda: self.add_scalar(self.random.randint(low, high), self.choose(("", "tl.int64", "tl.int32"))))
        known = self.variables(lambda v: v.shape == () and v.dtype in (I32, I64))
        if known:
            choices.append(lambda: self.make("and", self.choose(known), 3))
        choices.append(lambda: self.make("full", self.random.randint(low, high), shape=(), dtype="int32"))
        e = self.choose(choices)()
        if is_number(e.value):
            e = self.make("full", e, shape=(), dtype="int32")
        return e

    def scalar_term(self, depth=2):
        """A scalar of a few hundred at most, as bases of blocks are made of: products, sums, bits put together."""
        counters = self.variables(lambda v: v.shape == () and v.dtype in (I32, I64) and -64 <= int(v.array) <= 512)
        if depth == 0 or self.chance(0.3):
            e = self.choose(counters) if counters and self.chance(0.6) else self.scalar_int(0, 9)
            return self.make("mul", e, self.choose((1, 1, 2, 3, 4, 8, 16, 32)))
        x = self.scalar_term(depth - 1)
        kind = self.choose(("add", "add", "or", "xor", "and", "sub", "shl", "shr", "floordiv", "mod", "maximum", "hint"))
        if kind in ("shl", "shr"):
            return self.make(kind, self.make("and", x, 63), self.choose((1, 2, 3)))
        if kind in ("floordiv", "mod"):
            return self.make(kind, x, self.choose((2, 3, 4, 8, 16)))
        if kind == "hint":
            count = self.choose((2, 4, 8, 16))
            return self.make("hint", self.make("mul", x, count), name="multiple_of", values=count)
        y = self.scalar_term(depth - 1) if self.chance(0.5) else self.choose((1, 2, 3, 4, 7, 8, 16, 32, 63))
        return self.make(kind, x, y)

    def base(self):
        """Where a block begins, relative to the buffer; or None."""
        counters = self.variables(lambda v: v.shape == () and v.dtype in (I32, I64))
        counters = [e for e in counters if e.node.attrs["name"][0] in "iw"]
        if counters and self.chance(0.35):     # the counter of a loop, as it is
            return self.make("mul", self.choose(counters), self.choose((1, 1, 1, 2, 3)))
        kind = self.random.random()
        if kind < 0.35:
            return None
        if kind < 0.7:
            base = self.program_index() if self.level == 0 or self.chance(0.5) else self.scalar_int()
            return self.make("mul", base, self.choose((1, 3, 16, 64)))
        return self.scalar_term()

    # Blocks of offsets.

    def index_along(self, shape, axis, exact=True):
        size = shape[axis]
        start = self.choose((1, 2, 3, 4, 8, 16, 5)) if self.chance(0.12) else 0
        e = self.make("arange", start=start, end=start + size)
        if start and (exact or self.chance(0.5)):
            e = self.make("sub", e, start)
        if self.chance(0.04):
            e = self.make("sub", size - 1, e)
        if not exact and self.chance(0.1):
            e = self.twisted(e, size)
        elif self.chance(0.04):
            count = self.choose([c for c in (1, 2, 4, 8, 16) if size % c == 0])
            try:
                e = self.make("hint", e, name=self.choose(("max_contiguous", "max_contiguous+multiple_of", "multiple_of+max_contiguous")), values=count)
            except Reject:
                pass
        if len(shape) > 1:
            if self.chance(0.1):
                for i in range(len(shape)):
                    e = e if i == axis else self.make("expand_dims", e, axis=i)
            else:
                e = self.make("index", e, items=[1 if i == axis else None for i in range(len(shape))])
        return e

    def twisted(self, e, size):
        """An index that turns back, wraps in a narrow type, or is rounded."""
        kind = self.choose(("mod", "mod", "mod of a sum", "narrow", "narrow", "div", "bits", "where"))
        if kind == "mod":
            return self.make("mod", e, self.choose([n for n in (2, 3, 4, 7, 8, 16, 24, size) if n <= max(size, 2)]))
        if kind == "mod of a sum":
            modulus = self.choose((size, 16, 24, 32, 33))
            if not self.inside_function and self.chance(0.5):
                modulus = self.add_scalar(modulus)
            moved = self.make("add", e, self.scalar_term(1))
            # GPU code supposes that what is divided in an address is not negative (src/gpu/layouts/AccessWidth.h).
            return moved if np.any(np.asarray(moved.value.array) < 0) else self.make("mod", moved, modulus)
        if kind == "narrow":
            narrow = self.make("cast", e, dtype=self.choose(("int8", "uint8", "uint8", "int16", "uint16")))
            return self.make("mul", narrow, self.choose((1, 2, 3, 4, 5, 8)))
        if kind == "div":
            count = self.choose((2, 3, 4, 8))
            e = self.make("floordiv", e, count)
            if count != 3 and size % count == 0 and self.chance(0.4):
                try:
                    return self.make("hint", e, name="max_constancy", values=count)
                except Reject:
                    pass
            return e
        if kind == "bits":
            return self.make(self.choose(("xor", "or", "and", "shr")), e, self.choose((1, 2, 3, 4, 7)))
        return self.make("where", self.make("lt", e, self.random.randint(0, size)), e, self.random.randint(0, 9))

    def scaled(self, index, stride):
        """index * stride."""
        if isinstance(stride, int) and stride == 1:
            return index
        if isinstance(stride, int) and stride < 0 and not index.dtype.signed:
            return self.make("mul", self.make("cast", index, dtype="int64"), stride)
        if isinstance(stride, int) and stride in (2, 4, 8, 16, 32, 64) and index.dtype.bits >= 32 and self.chance(0.1):
            return self.make("shl", index, stride.bit_length() - 1)
        return self.make("mul", index, stride)

    def turning_index(self, shape, axis):
        """An index that begins anew at every multiple of a power of two; such groups need not fill the dimension."""
        e = self.make("mod", self.make("arange", start=0, end=shape[axis]), self.choose([n for n in (2, 4, 8) if n < shape[axis]]))
        return self.make("index", e, items=[1 if i == axis else None for i in range(len(shape))]) if len(shape) > 1 else e

    def plain_offsets(self, shape, strides, base=None, exact=True, turning=None):
        """`turning`: the dimension along which offsets begin anew in the middle."""
        total = base
        for axis, stride in enumerate(strides):
            if shape[axis] == 1 and len(shape) > 1 and total is not None and self.chance(0.7):
                continue
            index = self.turning_index(shape, axis) if axis == turning else self.index_along(shape, axis, exact)
            if self.chance(0.15):
                index = self.make("cast", index, dtype=self.choose(("int64", "int64", "uint32")))
            term = self.scaled(index, stride)
            if not exact and self.chance(0.08):   # terms of the whole block before and behind
                term = self.make("add", term, self.scalar_term(1))
            total = term if total is None else self.make("add", total, term) if self.chance(0.8) else self.make("add", term, total)
        if total is None:
            return self.make("full", 0, shape=(), dtype="int32")
        if not exact and self.chance(0.05):
            total = self.make("add", total, self.scalar_term(1))
        if total.shape != shape:
            total = self.make("broadcast_to", total, shape=shape)
        return total

    def offsets(self, shape, strides, base=None, exact=True):
        """A block of offsets: base + sum of index * stride, in one of many forms."""
        kind = self.random.random()
        known = all(isinstance(s, int) for s in strides)
        if kind < 0.08 and len(shape) > 1:     # in another order, then transposed
            dims = list(range(len(shape)))
            self.random.shuffle(dims)
            inner, steps = [0] * len(shape), [0] * len(shape)
            for to, source in enumerate(dims):
                inner[source], steps[source] = shape[to], strides[to]
            return self.make("permute", self.plain_offsets(tuple(inner), steps, base, exact), dims=dims, name=self.choose(("permute", "trans")))
        axes = [i for i, d in enumerate(shape) if d > 1]
        if kind < (0.2 if self.odd and not exact else 0.12) and axes and known:     # two halves put together
            return self.parts(shape, strides, base, exact, axes[-1] if self.chance(0.6) else self.choose(axes), self.chance(0.4))
        if kind < 0.16 and shape and shape[-1] % 2 == 0 and known and strides[-1] > 0:   # evens and odds
            half = shape[:-1] + (shape[-1] // 2, )
            first = self.plain_offsets(half, (*strides[:-1], 2 * strides[-1]), base, exact)
            return self.make("interleave", first, self.make("add", first, strides[-1] if exact else self.choose((1, 2, 5))))
        if kind < 0.2 and shape and known and not exact:   # of another shape
            inner = self.factored(numel(shape), self.random.randint(1, 3))
            return self.make("reshape", self.plain_offsets(inner, self.strides(inner), base, False), shape=shape)
        if kind < 0.26 and not exact:          # told by data
            e = self.expr(shape, 1, (*(d for d in self.index_types()), ))
            e = self.make("and", e, self.choose((3, 15, 63, 255, 511)) if e.dtype.bits > 8 else self.choose((15, 63, 127)))
            return e if base is None else self.make("add", base, e) if e.dtype.bits >= 32 else self.make("add", base, self.make("cast", e, dtype="int32"))
        if kind < 0.3 and shape and not exact:
            e = self.load(shape, U8, "full") if not self.inside_function else self.expr(shape, 1, U8)
            return e if base is None else self.make("add", base, self.make("cast", e, dtype="int32"))
        if kind < 0.33 and shape and not exact:
            condition = self.expr(shape, 1, BOOL)
            x = self.plain_offsets(shape, strides, base, False)
            return self.make("where", condition, x, self.make("add", x, self.choose((0, 1, 4, 16))))
        return self.plain_offsets(shape, strides, base, exact)

    def parts(self, shape, strides, base, exact, axis, again):
        """A block of offsets as two blocks one behind the other, each perhaps made the same way."""
        half, rest = self.cut(shape, axis)
        size = half[axis]
        if again and size % 2 == 0:
            first = self.parts(half, strides, base, exact, axis, False)
        else:
            turns = not exact and size > 2 and size & (size - 1) and self.chance(0.6)
            first = self.plain_offsets(half, strides, base, exact, axis if turns else None)
        step = strides[axis] * size if exact or self.chance(0.6) else 0
        step += 0 if exact else self.choose((0, 1, 3, 16, 32))
        if step < 0 and not first.dtype.signed:
            raise Reject("an unsigned distance")
        second = first if rest == half else self.plain_offsets(rest, strides, base, exact)
        return self.make("cat", first, self.make("add", second, step), dim=axis)

    def cut(self, shape, axis):
        """The shapes of two parts along an axis: halves, or in some cases another share."""
        size = shape[axis]
        unequal = [n for n in (size // 4, size // 8, size // 3, size - size // 4, size // 2 + 16) if 0 < n < size]
        first = size // 2 if size % 2 == 0 and (not unequal or self.chance(0.8)) else self.choose(unequal or [1])
        return tuple(first if i == axis else d for i, d in enumerate(shape)), tuple(size - first if i == axis else d for i, d in enumerate(shape))

    def index_types(self):
        return self.choose(((I32, ), (I64, ), (I32, I64), (U8, I32)))

    def factored(self, count, rank):
        shape = [1] * rank
        for factor in (2, 3, 5, 7, 11, 13):
            while count % factor == 0:
                shape[self.random.randrange(rank)] *= factor
                count //= factor
        shape[self.random.randrange(rank)] *= count
        return tuple(shape)

    def stride(self, value):
        """A stride as a number, or as an argument of the kernel."""
        if self.inside_function or self.chance(0.6):
            return value
        return self.add_scalar(value, self.choose(("", "", "tl.int64"))) if value != 0 else value

    def strides(self, shape, compact=False):
        """Strides of a block in memory; a compact one has no gaps."""
        order = list(range(len(shape)))
        if self.chance(0.4):
            self.random.shuffle(order)
        result, step = [0] * len(shape), 1
        if not compact and self.chance(0.15):
            step = self.choose((2, 3))
        for axis in reversed(order):
            result[axis] = step
            step *= shape[axis]
            if not compact and self.chance(0.15):
                step += self.choose((1, 4))
        if not compact:
            for axis in range(len(shape)):
                if self.chance(0.08):
                    result[axis] = -result[axis]
                elif self.chance(0.05):
                    result[axis] = 0
        return result

    def address(self, buffer, shape, strides, base, room=False):
        """A block of pointers, written in one of several ways; with `room` some elements to either side."""
        for _ in range(self.choose((0, 0, 0, 0, 0, 1, 2)) if room else 0):   # constants on the way
            buffer = self.make("addptr", buffer, self.random.randint(-5, 40), **({"minus": True} if self.chance(0.2) else {}))
        if room and self.chance(0.04):     # far away and back: distances of more than 32 bits
            far = self.choose((1, -1)) * self.choose((2 ** 31, 2 ** 32, 2 ** 33 + 16, 3 * 2 ** 30))
            buffer = self.make("addptr", buffer, far)
            offsets = self.make("cast", self.offsets(shape, strides, base, False), dtype="int64")
            return self.make("addptr", buffer, self.make("sub", offsets, far))
        if len(shape) > 1 and self.chance(0.06):     # the pointers themselves are moved
            dims = list(range(len(shape)))
            self.random.shuffle(dims)
            inner, steps = [0] * len(shape), [0] * len(shape)
            for to, source in enumerate(dims):
                inner[source], steps[source] = shape[to], strides[to]
            pointer = self.make("addptr", buffer, self.offsets(tuple(inner), steps, base, not room))
            return self.make("permute", pointer, dims=dims, name="permute")
        if self.chance(0.5) or base is None:
            return self.make("addptr", buffer, self.offsets(shape, strides, base, not room))
        if self.chance(0.15) and len(shape) > 1 and not room:   # rows first, then columns
            pointer = self.make("addptr", buffer, base)
            for axis, stride in enumerate(strides):
                pointer = self.make("addptr", pointer, self.scaled(self.index_along(shape, axis), stride))
            return pointer if pointer.shape == shape else self.make("broadcast_to", pointer, shape=shape)
        pointer = self.make("addptr", buffer, base)
        return self.make("addptr", pointer, self.offsets(shape, strides, None, not room))

    # Loads.

    def load(self, shape, dtype, kind):
        if numel(shape) > MAX_NUMEL:
            raise Reject("too large")
        buffer = self.input_buffer(dtype, kind)
        strides = [self.stride(s) for s in self.strides(shape)]
        pointer = self.address(buffer, shape, strides, self.base(), True)
        if shape and self.chance(0.25):
            pointer = self.name_it(pointer, self.fresh("p"))
        hints = {}
        if self.chance(0.1):
            hints = self.choose(({"cache_modifier": ".cg"}, {"cache_modifier": ".ca"}, {"eviction_policy": "evict_last"}, {"volatile": True}))
        if self.chance(0.35):
            mask = self.mask(shape)
            if self.chance(0.7):
                other = self.number(dtype, small=True) if self.chance(0.7) else self.side(shape, 0, dtype)
                e = self.make("load", pointer, mask, other, masked=True, other=True, **hints)
            else:
                e = self.make("load_or", pointer, mask, self.constant((), dtype), masked=True, **hints)
        else:
            e = self.make("load", pointer, **hints)
        if self.chance(0.7):
            e = self.name_it(e)
        return e

    def wide_access(self):
        """Loads or stores as wide as a thread can make them, along any dimension, so that a mask alone decides how wide they may be: narrow
        elements without gaps, and a condition of runs, laid out flat in some cases."""
        dtype = self.choose((I8, U8, I8, U8, BOOL, E4M3, F16, BF16))
        long = self.choose((48, 48, 80, 80, 96, 112, 144) if self.chance(0.7) else (16, 32, 64, 128))
        if self.chance(0.6):     # so few threads that each has 16 bytes in a row
            self.program.options["num_warps"] = self.choose((1, 1, 2))
            rest = 32 * self.program.options["num_warps"]
        else:
            rest = self.choose((1, 2, 4, 8, 16))
        axis = 0 if self.chance(0.6) else 1
        shape = (long, rest) if axis == 0 else (rest, long)
        row = long + self.choose((0, 0, 0, 16, 32))
        strides = (1, row) if axis == 0 else (row, 1)
        step = numel(shape[1:])     # of the flat index from row to row
        mask = self.wide_runs(numel(shape), step) if self.chance(0.7) else self.mask_of_runs(numel(shape), step)
        mask = self.make("reshape", mask, shape=shape)
        base = self.make("mul", self.scalar_int(), 16) if self.chance(0.4) else None
        if self.chance(0.6):
            buffer = self.input_buffer(dtype, self.choose(("small", "full")), aligned=True, room=4 * MAX_NUMEL)
            e = self.make("load", self.make("addptr", buffer, self.straight(shape, strides, base)), mask, self.number(dtype, small=True),
                          masked=True, other=True)
            self.store_quietly(self.name_it(e))
            return
        count = row * rest
        buffer = self.output_buffer(dtype, count * len(self.machines))
        value = self.name_it(self.expr(shape, 1, dtype))
        pointer = self.make("addptr", buffer, self.straight(shape, strides, self.make("mul", self.program_index(), count)))
        self.emit(Store(pointer.node, value.node, mask.node))

    def straight(self, shape, strides, base):
        """Offsets without any turn."""
        total = base
        for axis, stride in enumerate(strides):
            index = self.make("index", self.make("arange", start=0, end=shape[axis]), items=[1 if i == axis else None for i in range(2)])
            term = self.scaled(index, stride)
            total = term if total is None else self.make("add", total, term)
        return total

    def wide_runs(self, count, row):
        """A condition of `count` elements in a line, of two parts with long runs: whole parts, or 8 to 32 rows."""
        parts = []
        for size in (part[0] for part in self.cut((count, ), 0)):
            index = self.make("arange", start=0, end=size)
            limit = self.add_scalar(self.random.randint(0, 2))
            length = min(self.choose((8, 16, 16, 16, 32, size)) * row, size)
            parts.append(self.make(self.choose(("lt", "ge", "eq", "ne")), self.make("floordiv", index, length), limit))
        return self.make("cat", *parts, dim=0)

    # Masks.

    def bound(self, shape, axis):
        """index < bound along an axis, as in real kernels, in one of several forms."""
        size = shape[axis]
        bound = self.random.randint(0, size) if self.chance(0.8) else self.choose((-1, 2 ** 31 - 1))
        index = self.index_along(shape, axis)
        if self.chance(0.2):
            offset = self.random.choice((1, 4, 16, 100, -3))
            index, bound = self.make("add", index, self.scalar_int() if self.chance(0.4) else offset), min(bound + offset, 2 ** 31 - 1)
        elif self.chance(0.05):
            index = self.twisted(index, size)
        limit = bound if self.inside_function or self.chance(0.4) else self.add_scalar(bound)
        name = self.choose(("lt", "lt", "lt", "le", "ge", "gt", "ne", "eq"))
        if self.chance(0.2):
            return self.make({"lt": "gt", "le": "ge", "ge": "le", "gt": "lt"}.get(name, name), limit, index)
        return self.make(name, index, limit)

    def mask_of_runs(self, count, row):
        """A condition of `count` elements in a line, the same for groups of them: what rows of `row` elements, laid out flat, have in common;
        in some cases of two lines one behind the other."""
        if count > 3 and self.chance(0.6):
            first, second = self.cut((count, ), 0)
            return self.make("cat", self.mask_of_runs(first[0], row), self.mask_of_runs(second[0], row), dim=0)
        length = row * self.choose([n for n in (1, 2, 4, 8, 16, 32) if row * n < count] or [1])
        group = self.make("floordiv", self.make("arange", start=0, end=count), length) if count > 1 else self.make("arange", start=0, end=1)
        last = max(count - 1, 0) // length
        limit = self.random.randint(0, last + 1)
        if not self.inside_function and self.chance(0.6):
            limit = self.add_scalar(limit)
        return self.make(self.choose(("lt", "ge", "eq", "ne", "gt")), group, limit)

    def mask(self, shape):
        """A condition of a shape; most often a bound on an index."""
        if len(shape) > 1 and self.chance(0.08):
            dims = list(range(len(shape)))
            self.random.shuffle(dims)
            inner = [0] * len(shape)
            for to, source in enumerate(dims):
                inner[source] = shape[to]
            mask = self.mask(tuple(inner))
            if mask.shape != tuple(inner):
                mask = self.make("broadcast_to", mask, shape=tuple(inner))
            return self.make("permute", mask, dims=dims, name="trans")
        if len(shape) > 1 and self.chance(0.3 if self.odd else 0.08):
            mask = self.make("reshape", self.mask_of_runs(numel(shape), numel(shape[1:])), shape=shape)
        elif shape and self.chance(0.75):
            axis = self.random.randrange(len(shape))
            mask = self.bound(shape, axis)
            if len(shape) > 1 and self.chance(0.4):
                mask = self.make(self.choose(("and", "and", "and", "or", "xor")), mask, self.bound(shape, (axis + 1) % len(shape)))
            if self.chance(0.1):
                mask = self.make(self.choose(("and", "or")), mask, self.condition())
            if self.chance(0.05):
                mask = self.make("invert", mask)
        else:
            mask = self.expr(shape, 1, BOOL)
        if mask.shape != shape:
            if shape and self.chance(0.5):
                return mask
            mask = self.make("broadcast_to", mask, shape=shape)
        return mask
