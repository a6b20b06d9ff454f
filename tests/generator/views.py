"""Blocks of tensors in memory: the part of the generator that makes descriptors, block pointers, and what goes through them."""

from .addresses import numel
from .dtypes import BY_NAME, I32, Reject
from .memory_ops import DESCRIBED_ATOMICS
from .tree import E, Effect


class Views:
    """A part of `Generator`."""

    def size_of_view(self, value):
        """A size or stride as a number, or as an argument of the kernel."""
        return value if self.chance(0.5) else self.add_scalar(value)

    def tensor_around(self, block, dtype):
        """Sizes of a tensor about as large as a block, and strides whose rows begin at multiples of 16 bytes."""
        sizes = [max(d + self.choose((-1, 0, 3, d)), 1) for d in block]
        unit = max(16 // dtype.memory().itemsize, 1)
        strides, step = [1] * len(block), 1
        for axis in range(len(block) - 2, -1, -1):
            step = -(-step * sizes[axis + 1] // unit) * unit
            strides[axis] = step
        return sizes, strides

    def place_in_view(self, rank, ordered=True):
        """Where a block begins; known during compilation, or at run time."""
        low = -2 if ordered else 0
        return [self.choose((lambda: self.random.randint(low, 3), lambda: self.random.randint(low, 3),
                             lambda: self.make("mul", self.scalar_int(), self.choose((1, 2, 8)))))() for _ in range(rank)]

    def as_int32(self, offsets):
        return [o if not isinstance(o, E) or o.dtype is I32 else self.make("cast", o, dtype="int32") for o in offsets]

    def check_view(self, block, dtype):
        if self.inside_function or not 1 <= len(block) <= 5 or block[-1] * dtype.memory().itemsize < 16 or any(d > 256 for d in block):
            raise Reject("no such block")

    def descriptor_of(self, pointer, sizes, strides, block, **attrs):
        e = self.make("descriptor", pointer, *(self.size_of_view(s) for s in sizes), *(self.size_of_view(s) for s in strides[:-1]),
                      shape=block, **attrs)
        return self.name_it(e, self.fresh("d")) if self.chance(0.6) else e

    def described_load(self, block, dtype):
        """A block of a tensor by a descriptor, partly outside of the tensor in some programs."""
        self.check_view(block, dtype)
        sizes, strides = self.tensor_around(block, dtype)
        buffer = self.input_buffer(dtype, self.choose(("small", "full")), aligned=True)
        padding = {"padding": "nan"} if dtype.is_float and self.chance(0.3) else {}
        offsets = self.as_int32(self.place_in_view(len(block)))
        return self.make("described", self.descriptor_of(buffer, sizes, strides, block, **padding), *offsets,
                         **({"call": True} if self.chance(0.2) else {}))

    def described_gather(self, shape, dtype):
        """Rows of a matrix by a descriptor."""
        if len(shape) != 2 or shape[0] < 8 or shape[1] * dtype.bits < 256:
            raise Reject("rows of a matrix")
        self.check_view((1, shape[1]), dtype)
        sizes, strides = self.tensor_around((shape[0], shape[1]), dtype)
        buffer = self.input_buffer(dtype, self.choose(("small", "full")), aligned=True)
        rows = self.make("sub", self.make("and", self.expr((shape[0], ), 1, I32), 31), self.choose((0, 0, 1)))
        rows = self.make("cast", rows, dtype="int16") if self.chance(0.3) else rows
        column, = self.as_int32(self.place_in_view(1))
        return self.make("describe_gather", self.descriptor_of(buffer, sizes, strides, (1, shape[1])), rows, column)

    def described_part(self, block, dtype):
        """A tensor of this program alone in memory that is written: its pointer, sizes and strides."""
        self.check_view(block, dtype)
        sizes, strides = self.tensor_around(block, dtype)
        unit = max(16 // dtype.memory().itemsize, 1)
        count = -(-(sizes[0] * strides[0]) // unit) * unit
        buffer = self.output_buffer(dtype, count * len(self.machines))
        self.fill(buffer)
        return self.make("addptr", buffer, self.make("mul", self.program_index(), count)), sizes, strides

    def described_store(self, e):
        pointer, sizes, strides = self.described_part(e.shape, e.dtype)
        offsets = self.as_int32(self.place_in_view(len(e.shape)))
        self.once(self.make("describe_store", self.descriptor_of(pointer, sizes, strides, e.shape), e, *offsets,
                            **({"call": True} if self.chance(0.2) else {})))

    def described_scatter(self, e):
        if len(e.shape) != 2 or not 8 <= e.shape[0] <= 32 or e.shape[1] * e.dtype.bits < 256:
            raise Reject("rows of a matrix")
        pointer, sizes, strides = self.described_part(e.shape, e.dtype)
        height = e.shape[0]
        if height & height - 1:
            raise Reject("rows in another order")
        rows = self.make("sub", self.make("xor", self.make("arange", start=0, end=height), self.random.randrange(height)), self.choose((0, 0, 1)))
        column, = self.as_int32(self.place_in_view(1))
        descriptor = self.descriptor_of(pointer, sizes, strides, (1, e.shape[1]))
        self.once(self.make("describe_scatter", descriptor, e, rows, column))

    def described_atomic(self, name, dtype):
        shape = self.any_shape(self.choose((1, 2)))
        pointer, sizes, strides = self.described_part(shape, dtype)
        value = self.small(shape, dtype, 1) if dtype.is_float else self.expr(shape, 1, dtype)
        offsets = self.as_int32(self.place_in_view(len(shape)))
        e = self.make("describe_atomic", self.descriptor_of(pointer, sizes, strides, shape), value, *offsets, name=name)
        self.once(e)

    def once(self, e):
        """An access for its effect. Executed again in a loop, it must come behind the last round's."""
        if self.level:
            self.barrier()
        self.emit(Effect(e.node))

    def block_pointer(self, pointer, sizes, strides, offsets, block):
        e = self.make("block_pointer", pointer, *(self.size_of_view(s) for s in sizes), *(self.size_of_view(s) for s in strides), *offsets,
                      shape=block)
        for _ in range(self.choose((0, 0, 1, 2))):
            steps = self.place_in_view(len(block), False) if self.chance(0.5) else [0] * len(block)
            e = self.make("advance", e, *steps, **({"member": True} if self.chance(0.3) else {}))
        return self.name_it(e, self.fresh("b")) if self.chance(0.6) else e

    def checks(self, rank):
        """Dimensions that are checked and what is outside."""
        checked = [d for d in range(rank) if self.chance(0.7)]
        return {"checked": checked, "padding": self.choose(("zero", "zero", "nan"))}

    def windowed_load(self, block, dtype):
        """A block by a block pointer; what is not checked stays within the buffer."""
        if self.inside_function or not block or numel(block) > 2048:
            raise Reject("no such block")
        sizes = [max(d + self.choose((-1, 0, 3, d)), 1) for d in block]
        strides = self.strides(sizes)
        buffer = self.input_buffer(dtype, self.choose(("small", "full")), self.chance(0.5))
        pointer = self.block_pointer(buffer, sizes, strides, self.place_in_view(len(block)), block)
        attrs = self.checks(len(block))
        if attrs["padding"] == "nan" and not dtype.is_float:
            attrs["padding"] = "zero"
        return self.make("windowed", pointer, **attrs)

    def windowed_store(self, e):
        """Through a block pointer, to memory of this program alone with room around the tensor."""
        shape = e.shape
        if not shape:
            raise Reject("a block")
        sizes = [max(d + self.choose((-1, 0, 3)), 1) for d in shape]
        strides = self.strides([2 * d + 40 for d in shape], compact=True)
        count = 1
        for d in shape:
            count *= 2 * d + 40
        if count * len(self.machines) > 1 << 16:
            raise Reject("too large")
        buffer = self.output_buffer(e.dtype, count * len(self.machines))
        middle = sum(s * 8 for s in strides)
        start = self.make("add", self.make("mul", self.program_index(), count), middle)
        pointer = self.block_pointer(self.make("addptr", buffer, start), sizes, strides, self.place_in_view(len(shape)), shape)
        self.once(self.make("windowed_store", pointer, e, checked=self.checks(len(shape))["checked"]))

    def view_some(self):
        """What is written through a view."""
        kind = self.choose((self.described_store, self.described_scatter, self.windowed_store, None))
        if kind is None:
            name = self.choose(DESCRIBED_ATOMICS)
            return self.described_atomic(name, BY_NAME[self.choose(DESCRIBED_ATOMICS[name])])
        shape = (self.choose((8, 16, 32)), self.choose((16, 32, 64))) if kind == self.described_scatter else self.shape()
        kind(self.expr(shape, 1))
