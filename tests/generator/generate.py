"""Random well-typed programs.

Every expression is evaluated while it is made, on the values of one program of the grid, so that its type is known and what would
be undefined or inexact is thrown away at once; a finished statement is then run for all programs of the grid. So nearly every
program that comes out is a test, and no analysis of ranges is needed.

`Generator(seed).program()` makes a program. A *focus* (operation, dtype, control form) is what its first statements contain; seeds
go round all of them, so that a run covers the whole table soon.
"""

import random

import numpy as np

from .addresses import Addresses, numel
from .control import Control
from .dtypes import ALL, BF16, BOOL, BY_NAME, F16, F32, F64, FP8, I16, I32, I64, U32, Reject, Value, round_float, to_memory
from .memory_ops import atomic_dtypes
from .observing import Observing
from .overflow import Overflow
from .products import Products
from .rows import APPROXIMATE, ROWS, TUPLE_ROWS
from .tiles import GRIDS, Tiles
from .transposes import Transposes
from .views import Views
from .tree import (Assign, Barrier, Buffer, E, Effect, For, If, Leave, Left, Machine, Node, Program, Scalar, Store, While, argument_value,
                   lit, outlined_names, program_ids, var)

FORMS = ("straight", "if", "for", "while", "static_range", "leave", "function", "noinline")


class Generator(Addresses, Control, Observing, Products, Tiles, Transposes, Views):

    def __init__(self, seed, focus=None, size=None, more=(), overflows=True, grids=((1, ), (1, ), (2, ), (3, ), (2, 2), (1, 3), (2, 1, 2))):
        """`overflows`: integers may wrap; else what debug mode would report is not made. `grids`: one of these is taken."""
        self.random = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.watch = random.Random(seed + 78)    # choices of `Observing`, which shift no others
        self.observes = self.watch.random() < 0.4
        self.ranks = random.Random(seed + 79)    # choices of `TensorBlocks`, which shift no others
        self.seed, self.focus, self.more = seed, focus, more
        self.statements_wanted = size if size is not None else self.random.choice((1, 2, 4, 7))
        grid = self.random.choice(grids)
        self.program = Program([], [], [], [], grid, self.options(), seed, ordered=self.chance(0.08))
        self.names = 0
        self.level = 0
        self.protected = set()
        self.loop = None           # innermost loop: "for" or "while"
        self.inside_function = self.noinline = False
        self.depth = 0             # of functions
        self.block = self.program.body
        self.largest = self.choose((256, 512, 512, 512, 1024, 2048))
        self.odd = self.chance(0.15)   # sizes that are no powers of two
        self.shapes = [self.any_shape() for _ in range(2)]
        self.kin = None            # the kind of operation whose operand is being made
        overflow = Overflow(forbidden=not overflows)
        self.machines = [Machine(self.program, pid, {}, overflow=overflow) for pid in program_ids(self.program)]
        self.shared = {}
        for machine in self.machines:
            machine.memory = self.shared
        self.rep = Machine(self.program, (0, 0, 0), {}, overflow=overflow)
        self.left = set()

    # Choices.

    def chance(self, probability):
        return self.random.random() < probability

    def choose(self, items):
        return self.random.choice(list(items))

    def any_shape(self, rank=None):
        rank = self.choose((1, 1, 2, 2, 2, 3)) if rank is None else rank
        while True:
            # From 16 times an odd number on layouts repeat; smaller ones are padded.
            sizes = (2, 3, 5, 6, 7, 12, 16, 24, 33, 48, 48, 80, 96, 100, 112, 192) if self.odd and self.chance(0.8) else (1, 2, 4, 8, 16, 32, 64, 128, 256)
            shape = tuple(self.choose(sizes) for _ in range(rank))
            if numel(shape) <= self.largest * (1 if rank > 1 else 2) and (numel(shape) >= 4 or self.chance(0.1)):
                return shape

    def shape(self):
        if self.chance(0.75):
            return self.choose(self.shapes)
        return () if self.chance(0.3) else self.any_shape()

    def options(self):
        return {"num_warps": self.choose((1, 1, 2, 4, 4, 8, 8, 16)), "num_stages": self.choose((1, 2, 3, 4, 5)), "enable_fp_fusion": False}

    def fresh(self, prefix="v"):
        self.names += 1
        return f"{prefix}{self.names}"

    # Arguments.

    def add_buffer(self, buffer):
        self.program.buffers.append(buffer)
        self.shared[buffer.name] = (buffer.dtype, buffer.base, buffer.bits)
        value = Value(buffer.dtype, np.asarray(buffer.base, np.int64), 0.0, buffer.name)
        for machine in (*self.machines, self.rep):
            machine.memory[buffer.name] = (buffer.dtype, buffer.base, buffer.bits)
            machine.scope[buffer.name] = value
        return E(var(buffer.name), value)

    def add_scalar(self, value, annotation=""):
        if self.inside_function:
            raise Reject("functions see their own arguments only")
        for scalar in self.program.scalars:
            if scalar.value is value and scalar.annotation == annotation:
                break
        else:
            scalar = Scalar(self.fresh("n"), value, annotation)
            self.program.scalars.append(scalar)
            for machine in (*self.machines, self.rep):
                machine.scope[scalar.name] = argument_value(scalar)
        value = self.rep.scope[scalar.name]
        return E(var(scalar.name), value)

    def values(self, dtype, count, kind):
        """Contents of a buffer."""
        if dtype is BOOL:
            return self.data.integers(0, 2, count).astype(bool)
        if dtype.is_int:
            if kind == "negative":   # the top bit of unsigned ones is set
                return self.data.integers(-9, 0, count).astype(dtype.array)
            if kind in ("small", "unit"):
                low = -(4 if kind == "small" else 1) if dtype.signed else 0
                return self.data.integers(low, 9 if kind == "small" else 2, count).astype(dtype.array)
            wide = self.data.integers(dtype.minimum, dtype.maximum, count, dtype=dtype.array, endpoint=True)
            edges = np.array([0, 1, dtype.maximum, dtype.minimum, dtype.maximum - 1], dtype=dtype.array)
            return np.where(self.data.random(count) < 0.15, self.data.choice(edges, count), wide)
        if kind == "unit":
            return round_float(self.data.integers(-1, 2, count) * 1.0, dtype)
        if kind == "small":
            step = 1.0 if dtype in FP8 else 0.25
            return round_float(self.data.integers(-8, 9, count) * step, dtype)
        if kind == "negative":
            return round_float(self.data.integers(-16, 0, count) * (1.0 if dtype in FP8 else 0.25), dtype)
        spread = self.data.normal(size=count) * 2.0 ** self.data.integers(-6, 8, count)
        # Few significant bits: what lies in the middle of two narrower floats, and next to it; and small ones.
        few = self.data.integers(0, 2 ** self.data.integers(1, 26, count)) * 2.0 ** self.data.integers(-24, 2, count)
        wide = np.float32 if dtype in (BF16, *FP8) or dtype is F16 else dtype.array
        near = np.nextafter(few.astype(wide), self.data.choice((-np.inf, np.inf), count).astype(wide))
        few = np.where(self.data.random(count) < 0.4, near, few) * self.data.choice((-1.0, 1.0), count)
        spread = np.where(self.data.random(count) < 0.3, few, spread)
        if kind == "wild":
            edges = np.array([np.inf, -np.inf, np.nan, np.nan, -0.0, 0.0, dtype.largest, 2.0 ** dtype.low, 1.0])
            edges = self.data.choice(edges, 3, replace=False)
            spread = np.where(self.data.random(count) < 0.2, self.data.choice(edges, count), spread)
        return round_float(np.where(spread == 0, 0.0, spread) if kind != "wild" else spread, dtype)

    def input_buffer(self, dtype, kind, aligned=False, room=1024):
        """Memory to read, with this many elements to either side of where an argument points."""
        if self.inside_function:
            raise Reject("functions see their own arguments only")
        count = 4096 if room <= 1024 else 4096 + 3 * room
        for buffer in self.program.buffers:
            if not buffer.output and buffer.dtype is dtype and buffer.kind == kind and self.chance(0.7) and not (aligned and buffer.base % 16) \
                    and buffer.bits.size >= count:
                return E(var(buffer.name), self.rep.scope[buffer.name])
        values = np.asarray(self.values(dtype, count, kind))
        base = max(1024, count // 4) + (0 if aligned else self.choose((0, 0, 0, 1, 3, 8)))
        buffer = Buffer(self.fresh("x"), dtype, np.ascontiguousarray(to_memory(values, dtype)), base, kind=kind)
        return self.add_buffer(buffer)

    def output_buffer(self, dtype, count, approximate=False):
        bits = np.full(count + 128, 77, np.uint8).astype(dtype.memory) if dtype is not BOOL else np.ones(count + 128, np.uint8)
        return self.add_buffer(Buffer(self.fresh("y"), dtype, bits, 64, True, approximate))

    # Building.

    def make(self, operation, /, *args, **attrs):
        """An operation on expressions and numbers; raises Reject where it has no meaning here."""
        nodes = [a.node if isinstance(a, E) else lit(a) for a in args]
        node = Node(operation, nodes, attrs)
        return E(node, self.rep.apply(node, [a.value if isinstance(a, E) else a for a in args]))

    def emit(self, statement):
        """Appends a statement if it runs; at the outermost level for every program of the grid."""
        first_is_watched = self.level == 0 and 0 not in self.left
        trial = self.rep.copy()
        try:
            if not first_is_watched:
                trial.run([statement])
        except Left:
            trial = self.rep
        if self.level == 0:
            after, memory = [], self.shared
            for index, machine in enumerate(self.machines):
                other = machine.copy()
                other.memory = dict(memory)
                if index not in self.left:
                    try:
                        other.run([statement])
                        if index == 0:
                            trial = other.copy()
                    except Left:
                        other.left = True
                    memory = other.memory
                after.append(other)
            for index, other in enumerate(after):
                if getattr(other, "left", False):
                    self.left.add(index)
                other.memory = memory
            self.machines, self.shared = after, memory
        self.rep = trial
        self.block.append(statement)

    def name_it(self, e, name=None):
        """Gives an expression a name; the name as an expression."""
        name = name or self.fresh()
        self.emit(Assign([name], e.node))
        return E(var(name), self.rep.scope[name])

    def variables(self, accept):
        return [E(var(n), v) for n, v in self.rep.scope.items()
                if isinstance(v, Value) and v.buffer is None and v.ulp == 0 and accept(v)]

    # Expressions of a wanted shape and dtype.

    def expr(self, shape, depth, want=ALL):
        want = (want, ) if not isinstance(want, tuple) else want
        for _ in range(5):
            try:
                return self.coerce(self.any_expr(shape, depth, want), want)
            except Reject:
                depth = max(depth - 1, 0)
        return self.constant(shape, self.choose(want))

    def constant(self, shape, dtype):
        return self.make("full", self.number(dtype, small=True), shape=shape, dtype=dtype.name)

    def any_expr(self, shape, depth, want):
        if depth <= 0 or self.chance(0.15):
            return self.leaf(shape, want)
        for _ in range(4):
            row = self.choose(KINDS[self.kin]) if self.kin and self.chance(0.4) else self.choose(ROWS_BY_WEIGHT)
            dtypes = [d for d in row.dtypes if d in want] or row.dtypes
            outer, self.kin = self.kin, row.kind
            try:
                e = row.build(self, shape, self.choose(dtypes), depth - 1 + (row.kind is not None and self.chance(0.4)))
            except Reject:
                continue
            finally:
                self.kin = outer
            if e is not None and e.shape == shape:
                return e
        return self.leaf(shape, want)

    def leaf(self, shape, want):
        found = self.variables(lambda v: v.shape == shape and v.dtype in want)
        if found and self.chance(0.7):
            return self.choose(found)
        near = self.variables(lambda v: v.shape == shape)
        if near and self.chance(0.4):
            return self.choose(near)
        if self.inside_function or self.chance(0.15):
            if len(shape) == 1 and self.chance(0.4) and shape[0] > 1:
                start = self.choose((0, 0, 1, 5, -3))
                return self.make("arange", start=start, end=start + shape[0])
            return self.constant(shape, self.choose(want))
        return self.load(shape, self.choose(want), self.choose(("small", "small", "full", "full", "unit", "wild", "negative")))

    def coerce(self, e, want):
        if e.dtype in want:
            return e
        dtype = self.choose(want)
        try:
            return self.make("cast", e, dtype=dtype.name, **({"call": True} if self.chance(0.2) else {}))
        except Reject:
            return self.make("cast", self.tame(e), dtype=dtype.name)

    def tame(self, e, limit=8):
        """Small whole numbers, whatever the operand is now or in another round of a loop."""
        if e.dtype is BOOL:
            return e
        if e.dtype.is_int:
            return self.make("and", e, limit - 1)
        wide = e if e.dtype in (F32, F64) else self.make("cast", e, dtype="float32")
        inside = self.make("and", self.make("ge", wide, 0.0 if limit > 2 else -1.0), self.make("lt", wide, float(limit)))
        whole = self.make("floor", self.make("where", inside, wide, 1.0))
        return self.make("cast", self.make("cast", whole, dtype="int32"), dtype=e.dtype.name)

    def small(self, shape, dtype, depth, limit=8):
        """Values that can be added up exactly."""
        if dtype is BOOL or self.chance(0.6) and not self.inside_function:
            return self.load(shape, dtype, "small" if limit > 2 and dtype not in FP8 else "unit") if not self.inside_function \
                else self.expr(shape, depth, dtype)
        return self.coerce(self.tame(self.expr(shape, depth, dtype), limit), (dtype, ))

    def number(self, dtype, small=False):
        if dtype is BOOL:
            return self.chance(0.5)
        if dtype.is_int:
            if small or self.chance(0.7):
                return self.random.randint(-3 if dtype.signed else 0, 9)
            return self.choose((0, 1, 2, dtype.maximum, dtype.minimum, dtype.maximum // 3))
        if self.chance(0.25):
            return self.random.randint(-3, 5)
        return self.random.randint(-16, 16) / (1.0 if dtype in FP8 else 4.0)

    def side(self, shape, depth, want):
        """An operand that broadcasts to a shape."""
        if not shape or self.chance(0.7):
            return self.expr(shape, depth, want)
        if self.chance(0.3):
            return self.expr((), depth, want)
        cut = self.random.randint(0, len(shape) - 1)
        narrow = tuple(1 if self.chance(0.4) else d for d in shape[cut:])
        return self.expr(narrow, depth, want)

    def condition(self):
        """A run-time scalar bool."""
        if self.chance(0.5):
            return self.make(self.choose(("eq", "lt", "gt", "ne", "ge")), self.scalar_int(), self.random.randint(0, 3))
        e = self.expr((), 1, (BOOL, I32, F32, I64))
        if e.dtype is BOOL:
            return e
        return self.make(self.choose(("lt", "gt", "le", "ne")), e, self.number(e.dtype, small=True))

    # Statements.

    def statements(self, count):
        for _ in range(count):
            self.statement()

    def statement(self):
        kinds = [self.assign] * 6 + [self.several] * 2
        if self.level < 2:
            kinds += [self.branch] * (4 if self.loop else 1) + [self.for_loop, self.static_loop]
            if not self.inside_function:
                kinds += [self.while_loop]
        if self.inside_function:
            kinds += [self.call]
        elif self.level < 2:
            kinds += [self.carried_tuple, self.stream]
        if not self.inside_function:
            kinds += [self.approximate, self.store_some, self.view_some, *[self.wide_access] * (3 if self.odd else 1), self.memory_roundtrip, self.in_place, self.atomic, self.atomic, self.call, self.call]
            if self.level < 2:
                kinds += [self.product_loop, *[self.both_ways] * 2]
            if self.program.ordered:
                kinds += [self.memory_roundtrip, self.in_place] * 4
        if self.level:
            kinds += [self.reassign] * 4 + [self.swap]
        elif not self.inside_function and self.chance(0.05):
            kinds = [self.early_return]
        try:
            self.choose(kinds)()
        except Reject:
            pass
        self.observe_some()

    def assign(self):
        self.name_it(self.expr(self.shape(), self.choose((1, 2, 2, 3))))

    def reassign(self):
        """A variable that lived before gets another value of its type."""
        found = [e for e in self.variables(lambda v: True) if e.node.attrs["name"] not in self.protected]
        if not found:
            raise Reject("nothing to assign")
        target = self.choose(found)
        name = target.node.attrs["name"]
        if self.chance(0.4) and not target.dtype in (BOOL, *FP8):
            sign = self.choose(("add", "sub", "mul", "xor", "and") if target.dtype.is_int else ("add", "sub"))
            e = self.make(sign, target, self.side(target.shape, 1, target.dtype))
            if e.value.type == target.value.type:
                self.emit(Assign([name], e.node, sign))
                return
        row = self.choose(ROWS_BY_WEIGHT)
        try:
            e = self.coerce(row.build(self, target.shape, self.choose(row.dtypes), 1), (target.dtype, ))
        except (Reject, AttributeError):
            e = self.expr(target.shape, 2, target.dtype)
        if e.shape != target.shape:
            raise Reject("another shape")
        self.emit(Assign([name], e.node))

    def several(self):
        """Operations that give tuples."""
        shape = self.shape()
        self.choose(TUPLE_ROWS).build(self, shape, None, 1)

    def unpack(self, e):
        names = [self.fresh() for _ in e.value]
        self.emit(Assign(names, e.node))
        return [E(var(n), self.rep.scope[n]) for n in names]

    def approximate(self):
        shape, dtype = self.shape(), self.choose((F32, F32, F64))
        row = self.choose(APPROXIMATE)
        x = self.make("abs", self.expr(shape, 1, dtype))
        x = self.make("add", self.coerce(self.tame(x), (dtype, )), 0.25)
        if row == "softmax":
            if not shape or dtype is not F32:
                raise Reject("fp32 blocks")
            e = self.make("softmax", x, axis=self.random.randrange(len(shape)))
        elif row == "div":
            e = self.make("div", self.expr(shape, 1, (F32, F16, BF16, I32)), self.choose((3.0, 7, x)))
        else:
            e = self.make(row, x)
        e = self.name_it(e)
        if e.value.ulp and e.shape:
            if self.chance(0.5):
                e = self.make("neg", e)
            if len(e.shape) == 2 and self.chance(0.5):
                e = self.make("transpose", e)
        self.store(e)

    # Stores.

    def store(self, e, mask=None):
        """To memory of its own, each program to its own part."""
        count = numel(e.shape)
        dtype, approximate = e.dtype, e.value.ulp > 0
        if not approximate and self.chance(0.15):
            other = self.choose((I16, F16, F32, I64, BF16, BOOL, BOOL))
            try:
                self.make("cast", e, dtype=other.name)
                dtype = other if self.loop is None and self.level == 0 else dtype
            except Reject:
                pass
        buffer = self.output_buffer(dtype, count * len(self.machines), approximate)
        base = self.make("mul", self.program_index(), count)
        if self.chance(0.1):
            base = self.make("cast", base, dtype="int64")
        pointer = self.address(buffer, e.shape, self.strides(e.shape, compact=True), base)
        if mask is None and e.shape and self.chance(0.3):
            mask = self.mask(e.shape)
        self.emit(Store(pointer.node, e.node, mask.node if mask else None))

    def store_some(self):
        found = self.variables(lambda v: True)
        if found:
            self.store(self.choose(found))

    def memory_roundtrip(self):
        """Written in one order, read in another, with barriers between."""
        shape = self.any_shape(self.choose((1, 2)))
        e = self.expr(shape, 1, self.choose(ALL))
        count = numel(shape)
        buffer = self.output_buffer(e.dtype, count * len(self.machines))
        base = self.name_it(self.make("mul", self.program_index(), count))
        first, second = self.strides(shape, compact=True), self.strides(shape, compact=True)
        pointer = self.make("addptr", buffer, self.offsets(shape, first, base))
        self.emit(Store(pointer.node, e.node))
        self.barrier()
        pointer = self.make("addptr", buffer, self.offsets(shape, second, base))
        again = self.name_it(self.make("load", pointer))
        self.barrier()
        if self.chance(0.4):
            self.store(again)

    def barrier(self):
        """Between accesses of one place by several threads; a program that runs in order needs none."""
        if not self.program.ordered:
            self.emit(Barrier())

    def in_place(self):
        """Read, written and read again, partly at the same places."""
        shape, dtype = self.any_shape(self.choose((1, 1, 2))), self.choose(ALL)
        count = numel(shape)
        buffer = self.output_buffer(dtype, count * len(self.machines))
        self.fill(buffer)
        base = self.name_it(self.make("mul", self.program_index(), count))
        strides = self.strides(shape, compact=True)
        pointer = self.name_it(self.address(buffer, shape, strides, base), self.fresh("p"))
        before = self.name_it(self.make("load", pointer))
        self.barrier()
        if self.chance(0.5):
            strides = self.strides(shape, compact=True)
            pointer = self.name_it(self.address(buffer, shape, strides, base), self.fresh("p"))
        mask = self.mask(shape) if self.chance(0.3) else None
        self.emit(Store(pointer.node, self.expr(shape, 1, dtype).node, mask.node if mask else None))
        self.barrier()
        if self.chance(0.7):
            if self.chance(0.5):
                pointer = self.address(buffer, shape, self.strides(shape, compact=True), base)
            after = self.name_it(self.make("load", pointer))
            if self.chance(0.5):
                self.try_some(lambda: self.name_it(self.make("eq", before, after)), 1)
            self.barrier()

    def atomic(self, name=None, dtype=None):
        name = name or self.choose(("add", "add", "max", "min", "and", "or", "xor", "xchg", "cas", "load", "store"))
        dtype = dtype or BY_NAME[self.choose(atomic_dtypes(name))]
        shape = () if self.chance(0.2) else self.any_shape(self.choose((1, 1, 2)))
        count = numel(shape)
        small = lambda: self.small(shape, dtype, 1) if dtype.is_float else self.expr(shape, 1, dtype)
        value = small()
        if not dtype.is_float and self.chance(0.4) and not self.inside_function:
            value = self.load(shape, dtype, self.choose(("negative", "full")))
        attrs = {"name": name}
        if self.chance(0.3):
            attrs["sem"] = self.choose({"load": ("relaxed", "acquire"), "store": ("relaxed", "release")}.get(name, ("relaxed", "acq_rel", "release", "acquire")))
        if self.chance(0.2):
            attrs["scope"] = self.choose(("gpu", "sys", "cta"))
        if attrs.get("scope") == "cta" and len(self.machines) > 1:
            del attrs["scope"]
        unique = name in ("xchg", "cas", "load", "store") or self.chance(0.5)
        if unique:
            buffer = self.output_buffer(dtype, count * len(self.machines))
            self.fill(buffer)
            base = self.make("mul", self.program_index(), count)
            pointer = self.address(buffer, shape, self.strides(shape, compact=True), base)
            # Executed in a loop again and again, the next round must see the last.
            if self.level:
                self.barrier()
            operands = [pointer, value] if name != "cas" else [pointer, self.choose((77, small())) if not dtype.is_float else small(), value]
            e = self.make("atomic", *(operands[:1] if name == "load" else operands), unique=True, **attrs)
            if name == "store":
                self.emit(Effect(e.node))
            else:
                self.name_it(e)
            if self.level:
                self.barrier()
            return
        bins = self.choose((1, 2, 8))
        buffer = self.output_buffer(dtype, bins)
        self.fill(buffer)
        target = self.make("and", self.expr(shape, 1, (I32, I64)), bins - 1)
        pointer = self.make("addptr", buffer, target)
        operands = [pointer, value]
        if shape and self.chance(0.5):
            mask = self.mask(shape)
            operands.append(mask)
            attrs["masked"] = True
        e = self.make("atomic", *operands, **attrs)
        self.emit(Effect(e.node))

    def fill(self, buffer):
        """Replaces the pattern of an output by numbers that sums stay exact with, of either sign."""
        for b in self.program.buffers:
            if b.name == buffer.node.attrs["name"]:
                kind = self.choose(("small", "negative", "small" if b.dtype.is_float else "full"))
                b.bits = np.ascontiguousarray(to_memory(np.asarray(self.values(b.dtype, b.bits.size, kind)), b.dtype))
                for machine in (*self.machines, self.rep):
                    machine.memory[b.name] = (b.dtype, b.base, b.bits)
                self.shared[b.name] = (b.dtype, b.base, b.bits)

    # Whole programs.

    def focused(self, focus):
        """The focus: an operation on a dtype in a control form."""
        row, dtype, form = focus

        def build():
            shape = () if form == "noinline" and row.scalar else self.shape()
            for _ in range(30):
                try:
                    e = row.build(self, shape, dtype, 0)
                    if e is not None:
                        return self.name_it(e)
                    return None
                except Reject:
                    shape = self.choose((self.shape, self.any_shape))()
            raise Reject("the focus cannot be built")

        if form == "straight":
            e = build()
            if e is not None:
                self.store_quietly(e)
            return
        if form in ("function", "noinline"):
            self.call(form == "noinline", build)
            return
        condition = self.condition()

        def body():
            e = build()
            if e is not None:
                self.store_quietly(e)

        if form == "if":
            (then, _), = self.sides(body)
            # Both values of the condition occur in some seeds.
            taken = condition.node if bool(condition.value.array) else Node("not", [condition.node])
            self.emit(If(taken, then, []))
            return
        self.ensure_variable()
        name = self.fresh("i")

        def leaves():
            """`continue` or `break` in some rounds, on either side of an `if`."""
            counter = E(var(name), self.rep.scope[name])
            condition = self.make(self.choose(("eq", "ne", "gt", "lt")), counter, self.choose((0, 1, 2))) if self.chance(0.6) else self.condition()
            word = Leave(self.choose(("continue", "continue", "break", "return")))
            other = [Assign([self.fresh()], lit(1))]
            leave = If(condition.node, [word], []) if self.chance(0.6) else If(condition.node, other, [word])
            if self.chance(0.5):     # inside of another condition, with a rest there and behind
                def rest():
                    self.block.append(leave)
                    self.try_some(self.reassign, 3)
                outer = self.condition()
                (inside, _), = self.sides(rest)
                leave = If(outer.node, inside, []) if self.chance(0.6) else If(outer.node, other, inside)
            self.block.append(leave)

        unsigned = form == "for" and self.chance(0.1)      # across the border of signed numbers
        first, end = 2 ** 31 - 1, 2 ** 31 + 1

        def loop():
            if unsigned:
                self.rep.scope[name] = Value(U32, np.asarray(first, np.uint32))
            elif form in ("for", "leave"):
                self.rep.scope[name] = Value(I32, np.asarray(0, np.int32))
            elif form == "static_range":
                self.rep.scope[name] = 0
            self.protected.add(name)
            if form == "leave" and self.chance(0.7):
                leaves()
            body()
            if form == "leave" and self.chance(0.5):
                leaves()
            self.try_some(self.reassign, 3)

        if form == "while" or form == "leave" and self.chance(0.3):
            counter = self.name_it(self.make("full", 0, shape=(), dtype="int32"), name)
            condition = self.make("lt", counter, 2 if form == "while" else 4)
            self.rep.scope[name] = Value(I32, np.asarray(1, np.int32))
            (block, _), = self.sides(loop)
            self.rep.scope[name] = Value(I32, np.asarray(0, np.int32))
            self.emit(While(name, condition.node, block))
        else:
            (block, _), = self.sides(loop)
            self.protected.discard(name)
            if unsigned:
                low, high = (self.add_scalar(n, "tl.uint32").node for n in (first, end))
            else:
                low, high = lit(0), lit(2) if form == "static_range" else self.add_scalar(self.choose((2, 3, 4))).node
            self.emit(For(name, low, high, 1, "tl.static_range" if form == "static_range" else "range", block))

    def store_quietly(self, e):
        try:
            self.store(e)
        except Reject:
            pass

    def make_program(self):
        """The program, or Reject where the focus has no place."""
        if self.focus is not None:
            self.focused(self.focus)
        for focus in self.more:
            self.try_some(lambda: self.focused(focus), 2)
        self.statements(self.statements_wanted)
        live = [e for e in self.variables(lambda v: True) if e.node.attrs["name"].startswith("v")]
        self.random.shuffle(live)
        for e in live[:10]:
            self.store_quietly(e)
        if not any(b.output for b in self.program.buffers):
            self.store(self.expr(self.shape(), 1))
        self.outline()
        return self.program

    def outline(self):
        """Some programs do everything, or what comes last, in a function that sees nothing but its arguments. Other choices are not shifted."""
        chance = random.Random(self.seed + 77)
        if chance.random() > 0.3:
            return
        keep = chance.choice((0, 0, chance.randint(0, len(self.program.body))))
        self.program.outlined = (keep, chance.choice((1, 1, 2)), False)
        arguments = {a.name for a in (*self.program.buffers, *self.program.scalars)}
        values = [self.rep.scope.get(name) for name in outlined_names(self.program) if name not in arguments]
        noinline = all(isinstance(v, Value) and v.shape == () for v in values) and chance.random() < 0.8
        self.program.outlined = (*self.program.outlined[:2], noinline)


ROWS_BY_WEIGHT = [row for row in ROWS for _ in range(row.weight)]
#: Operations that the compiler folds into each other follow each other more often than chance has it.
KINDS = {kind: [row for row in ROWS if row.kind == kind] for kind in sorted({row.kind for row in ROWS if row.kind})}


def cells():
    """Everything a run is to have seen: (row, dtype, form)."""
    return [(row, dtype, form) for row in ROWS for dtype in row.dtypes for form in FORMS
            if (form != "noinline" or row.scalar) and not (form in ("function", "noinline") and row.arguments)]


def foci(seed, count=2):
    """What the program of a seed shows first: all operations in turn, each in turn in all its cells."""
    names = list(CELLS_OF)
    places = [count * seed + i for i in range(count)]
    return [CELLS_OF[names[p % len(names)]][p // len(names) * 7919 % len(CELLS_OF[names[p % len(names)]])] for p in places]


def program_of_seed(seed, focus=None, tries=8, overflows=True, kind="any"):
    """The program of a seed: deterministic. The foci go round all cells with the seeds. Without `overflows` no integer wraps in it. kind: "any", or "tiles" (tiles.py), which has no foci."""
    if kind == "tiles":
        for attempt in range(200):
            try:
                return Generator(seed * 256 + attempt, size=1, overflows=overflows, grids=GRIDS).tile_program()
            except Reject:
                continue
        raise Reject("no program of tiles")
    focus, *more = [focus] if focus is not None else foci(seed)
    for attempt in range(tries):
        try:
            return Generator(seed * 64 + attempt, focus, more=more, overflows=overflows).make_program()
        except Reject:
            continue
    return Generator(seed * 64 + tries, overflows=overflows).make_program()


def overflows_in(seed, modes):
    """Whether integers of a seed's program may wrap: with debug mode, which reports that, not in three of four programs."""
    return "debug" not in modes or seed % 4 == 0


CELLS = cells()
CELLS_OF = {row.name: [cell for cell in CELLS if cell[0] is row] for row in ROWS}
