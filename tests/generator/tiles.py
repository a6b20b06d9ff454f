"""Programs whose blocks the copy engine of GPUs moves: the part of the generator that makes them (`--kind tiles`).

Products of tiles over K and programs of whole rows, in the sizes from which on GPUs of architecture 90 take wgmma, tensor copies, divided warps, loops over programs and
clusters, and with settings that force these (`Program.settings`; the simulated threads obey them). Each program of the grid writes a tile or row of its own.
"""

import numpy as np

from .dtypes import BF16, E4M3, E5M2, F16, F32, FP8, I8, I32, Reject, Value
from .tree import Assign, Barrier, E, Effect, For, Store, lit, var

#: By setting of `nereid.knobs.nereid`: the values of programs of tiles, the default among them.
SETTINGS = {
    "tensor_copies": ("always", "always", "always", "never"),
    "persistent_products": ("always", "always", "asked", "never"),
    "split_products": ("never", "never", "idle", "full"),
    "warp_specialise": ("", "", "always", "never"),
    "overlap_stores": ("groups", "groups", "never"),
    "persistent_rows": ("always", "always", "wide"),
    "cluster_sends": (True, True, False),
    "multicast": (False, False, True),
    "keep_narrow": (False, True),
    "skip_scaling": ("divided", "always", "never"),
    "skip_maxima": ("divided", "always", "never"),
}


#: Most loops over programs, and pairs of programs, have one axis.
GRIDS = ((1, ), (2, ), (2, ), (3, ), (4, ), (4, ), (5, ), (2, 2), (1, 2))
#: What programs of products are made for, with the settings that it needs; the others are drawn.
AIMS = {
    "divided": {"warp_specialise": "always", "persistent_products": "never", "split_products": "never", "multicast": False},
    "asked": {"warp_specialise": "", "split_products": "never"},
    "persistent": {"warp_specialise": "always", "persistent_products": "always", "split_products": "never", "multicast": False, "tensor_copies": "always"},
    "split": {"warp_specialise": "never", "persistent_products": "never"},
    "pairs": {"warp_specialise": "always", "persistent_products": "never", "split_products": "never", "multicast": True, "tensor_copies": "always"},
    "any": {},
}


class TensorBlocks:
    """Blocks (rows, columns) of a matrix in memory, through a descriptor. Some have a tensor of three to five dimensions, whose blocks are reshaped: planes of rows, groups of eight rows, columns in chunks."""

    def __init__(self, g, pointer, sizes, distance, block):
        """sizes: (rows, columns) of the matrix; distance: of rows; block: its rows and columns."""
        self.g, self.block = g, block
        self.form, self.ones = g.ranks.choice(("", "", "", "planes", "planes", "groups", "chunks")), g.ranks.choice((0, 0, 0, 1, 2))
        high, wide = block
        self.cut = {"planes": high, "groups": 8, "chunks": wide}.get(self.form, 1)
        if sizes[self.form == "chunks"] % self.cut:    # planes of equal size are cut from whole matrices alone
            self.form = ""
        if not self.form:
            self.ones, self.within = 0, block
            sizes, distances = sizes, [distance]
        elif self.form == "chunks":
            sizes, distances, self.within = (sizes[0], sizes[1] // wide, wide), [distance, wide], (high, 1, wide)
        else:
            sizes, distances = (sizes[0] // self.cut, self.cut, sizes[1]), [self.cut * distance, distance]
            self.within = (1, high, wide) if self.form == "planes" else (high // 8, 8, wide)
        whole = sizes[0] * distances[0]
        sizes, distances = (1, ) * self.ones + tuple(sizes), [whole] * self.ones + distances
        self.within = (1, ) * self.ones + tuple(self.within)
        number = lambda value: value if g.ranks.random() < 0.5 else g.add_scalar(value)
        self.descriptor = g.name_it(g.make("descriptor", pointer, *map(number, sizes), *map(number, distances), shape=self.within), g.fresh("d"))

    def place(self, row, column):
        """Where the block at a row and column begins in the tensor."""
        part = lambda index: self.g.make("floordiv", index, self.cut) if isinstance(index, E) else index // self.cut
        of_form = {"": (row, column), "chunks": (row, part(column), 0)}.get(self.form) or (part(row), 0, column)
        return (0, ) * self.ones + of_form

    def shaped(self, e, shape):
        return e if self.within == self.block else self.g.make("reshape", e, shape=shape)

    def load(self, row, column):
        return self.shaped(self.g.make("described", self.descriptor, *self.place(row, column)), self.block)

    def store(self, e, row, column):
        return self.g.make("describe_store", self.descriptor, self.shaped(e, self.within), *self.place(row, column))

    def add(self, e, row, column):
        return self.g.make("describe_atomic", self.descriptor, self.shaped(e, self.within), *self.place(row, column), name="add")


class Operand:
    """A matrix in memory, read by tiles of `block` at (row, along); along: where the loop over K stands, which counts in tiles for pointers that move on."""

    def __init__(self, g, matrix, sizes, block, row, axis, form):
        """matrix: (pointer, distance of rows); sizes: of the matrix; row: where the tile begins in the other dimension; axis: of K."""
        self.g, self.block, self.row, self.axis, self.form = g, block, row, axis, form
        pointer, distance = matrix
        if form == "descriptor":
            self.blocks = TensorBlocks(g, pointer, sizes, distance, block)
            return
        self.bounds = [g.size_of_view(s) for s in sizes]
        self.step = block[axis] if axis else g.make("mul", distance, block[axis]) if isinstance(distance, E) else distance * block[axis]
        self.indices = []
        for d in range(2):
            index = g.make("arange", start=0, end=block[d])
            index = g.name_it(index if d == axis else g.make("add", row, index) if isinstance(row, E) or row else index)
            self.indices.append(g.make("index", index, items=[1 if d == e else None for e in range(2)]))
        places = g.make("add", g.make("mul", self.indices[0], distance), self.indices[1])
        self.pointers = g.name_it(g.make("addptr", pointer, places), g.fresh("p"))

    def read(self, along):
        g = self.g
        if self.form == "descriptor":
            return self.blocks.load(*((self.row, along) if self.axis else (along, self.row)))
        inside = [g.make("lt", index if d != self.axis else g.make("add", along, index), self.bounds[d]) for d, index in enumerate(self.indices)]
        pointers = self.pointers if self.form == "moving" else g.make("addptr", self.pointers, along if self.axis else g.make("mul", along, self.rows()))
        return g.make("load", pointers, g.make("and", *inside), 0, masked=True, other=True)

    def rows(self):
        step = self.step
        return self.g.make("floordiv", step, self.block[0]) if isinstance(step, E) else step // self.block[0]

    def move(self):
        if self.form == "moving":
            self.g.emit(Assign([self.pointers.node.attrs["name"]], self.g.make("addptr", self.pointers, self.step).node, ""))


class Tiles:
    """A part of `Generator`."""

    def tile_program(self):
        """Tiles of a product, or rows; then a few statements of any kind."""
        p = self.program
        p.ordered = False
        rows = self.chance(0.25)
        aim = "any" if rows else self.choose(("divided", "asked", "persistent", "persistent", "split", "pairs", "any"))
        p.options.update(num_warps=self.choose((4, 4, 4, 8)), num_stages=self.choose((1, 2, 3, 3, 4) if aim == "any" else (2, 3, 3, 4)))
        p.settings = {**{name: self.choose(values) for name, values in SETTINGS.items()}, **AIMS[aim]}
        if aim == "split":
            p.settings["split_products"] = self.choose(("idle", "full"))
        for _ in range(1 if self.chance(0.85) else 2):
            self.rows_of_program() if rows else self.product_of_tiles(aim)
        if self.chance(0.2):
            self.statements(1)
        if self.chance(0.3):
            self.outline()
        return p

    def matrix(self, dtype, sizes, kind="small"):
        """A matrix to read, whose rows begin at multiples of 16 bytes."""
        unit = 16 // dtype.memory().itemsize
        distance = -(-sizes[1] // unit) * unit + self.choose((0, 0, 0, unit))
        return self.input_buffer(dtype, kind, True, sizes[0] * distance), distance

    def rewritten(self, matrix, dtype, block, row, along):
        """The rows of this program, written by its threads: what is read through the copy engine comes from them."""
        pointer, distance = matrix
        buffer = self.output_buffer(dtype, block[0] * len(self.machines) * distance)
        rows = self.make("add", row, self.make("arange", start=0, end=block[0]))
        name = self.fresh("k")

        def body():
            self.rep.scope[name] = Value(I32, np.asarray(0, np.int32))
            self.protected.add(name)
            columns = self.make("add", E(var(name), self.rep.scope[name]), self.make("arange", start=0, end=block[1]))
            inside = self.make("index", self.make("lt", columns, along), items=[None, 1])
            places = self.name_it(self.make("add", self.make("index", self.make("mul", rows, distance), items=[1, None]), self.make("index", columns, items=[None, 1])))
            value = self.make("load", self.make("addptr", pointer, places), inside, 0, masked=True, other=True)
            self.emit(Store(self.make("addptr", buffer, places).node, self.make("neg", value).node if dtype not in FP8 else value.node, inside.node))

        block_of_loop = self.loop_of(body)
        self.emit(For(name, lit(0), lit(along), block[1], "range", block_of_loop, {}))
        self.emit(Barrier())
        return buffer, distance

    def product_of_tiles(self, aim):
        """aim: of AIMS. A loop over K with the sum of products of tiles, in some programs inside of a loop over tiles; the result goes through the copy engine or not."""
        dtype = self.choose((F16, F16, F16, BF16, E4M3, E5M2, F32, *[I8] * (aim != "split")))
        m, n = self.choose((64, 64, 64, 128)), self.choose((16, 32, 64, 64, 128))
        k = self.choose((32, 64) if dtype.bits == 8 else (16, 32) if dtype is F32 else (16, 32, 32, 64))
        rounds = self.choose((4, 8, 12, 16) if aim == "split" else (0, 1, 2, 3, 3, 4, 5))
        along = max(rounds * k - self.choose((0, 0, 0, 8, k // 2)), 0)
        tiles = len(self.machines) * self.choose((1, 1, 1, 2) if aim in ("any", "divided", "asked") else (1, ))
        over_tiles = tiles > len(self.machines)
        sizes = (m * tiles - self.choose((0, 0, 8)), max(along, 16))
        kind = "unit" if dtype in (*FP8, F32) else "small"
        hints = {"num_stages": self.choose((1, 2, 3, 4))} if self.chance(0.2) else {}
        hints.update({"warp_specialize": True} if aim == "asked" or aim != "split" and self.chance(0.4) else {})
        first, second = self.matrix(dtype, sizes, kind), None
        transposed = self.chance(0.35)
        second = self.matrix(dtype, (n, sizes[1]) if transposed else (sizes[1], n), kind)
        forms = self.choose((*[("descriptor", ) * 2] * 3, ("moving", ) * 2, ("placed", ) * 2, *[("descriptor", "moving")] * (aim == "any")))
        out = I32 if dtype is I8 else F32
        store = self.result_of_tiles(out, m, n, tiles, aim)
        changes = self.chance(0.2) and dtype not in FP8
        chain = dtype in (F16, BF16) and aim not in ("split", "persistent") and self.chance(0.15)

        def tile(row):
            source = self.rewritten(first, dtype, (m, k), row, along) if aim in ("any", "asked") and not over_tiles and along and sizes[0] == m * tiles and self.chance(0.25) else first
            x = Operand(self, source, sizes, (m, k), row, 1, forms[0])
            y = Operand(self, second, (n, sizes[1]) if transposed else (sizes[1], n), (n, k) if transposed else (k, n), 0, 1 if transposed else 0, forms[1])
            acc = self.name_it(self.make("zeros", shape=(m, n), dtype=out.name))
            weights = self.load((n, n), dtype, "unit") if chain and n <= 32 else None
            name = self.fresh("k")

            def body():
                self.rep.scope[name] = Value(I32, np.asarray(0, np.int32))
                self.protected.add(name)
                here = E(var(name), self.rep.scope[name])
                a, b = self.name_it(x.read(here)), self.name_it(y.read(here))
                if changes:
                    a, b = (self.make("neg", a), b) if self.chance(0.5) else (a, self.make("neg", b))
                b = self.make("transpose", b) if transposed else b
                if weights is not None:
                    score = self.make("cast", self.tame(self.name_it(self.make("dot", a, b)), 4), dtype=dtype.name)
                    new = self.make("dot", score, weights, acc)
                elif self.chance(0.2):
                    new = self.make("add", acc, self.make("dot", a, b))
                else:
                    new = self.make("dot", a, b, acc)
                self.emit(Assign([acc.node.attrs["name"]], new.node))
                x.move()
                y.move()

            block = self.loop_of(body)
            self.protected.discard(name)
            high = self.add_scalar(along) if self.chance(0.6) else E(lit(along), along)
            self.emit(For(name, lit(0), high.node, k, "tl.range" if hints else "range", block, hints))
            store(E(acc.node, self.rep.scope[acc.node.attrs["name"]]), row)

        if not over_tiles:
            return tile(self.name_it(self.make("mul", self.program_index(), m)))
        name, count = self.fresh("t"), len(self.machines)

        def body():
            self.rep.scope[name] = Value(I32, np.asarray(0, np.int32))
            self.protected.add(name)
            tile(self.name_it(self.make("mul", E(var(name), self.rep.scope[name]), m)))

        start = self.program_index()
        block = self.loop_of(body)
        self.emit(For(name, start.node, self.add_scalar(tiles).node, count, "tl.range", block, {"warp_specialize": True} if self.chance(0.4) else {}))

    def bias(self, n, dtype):
        """(1, n) numbers; some through a descriptor of one dimension."""
        if self.ranks.random() < 0.5:
            return self.load((1, n), dtype, "unit")
        view = self.make("descriptor", self.input_buffer(dtype, "unit", True, n), n, shape=(n, ))
        return self.name_it(self.make("index", self.make("described", view, 0), items=[1, None]))

    def result_of_tiles(self, out, m, n, tiles, aim):
        """A function that writes a tile of results, (m, n) of dtype `out`, to its rows."""
        form = self.choose(("descriptor", "descriptor", "pointers", *[("sum"), "twice"] * (aim != "persistent")))
        dtype = out if form == "sum" or out is I32 or self.chance(0.3) else self.choose((F16, BF16))
        sizes = (m * tiles - self.choose((0, 0, 8)), n)
        buffer = self.output_buffer(dtype, m * tiles * n)
        if form in ("sum", "twice"):
            self.fill(buffer)
        scaled = self.choose((None, "double", "bias", "positive"))
        bias = self.bias(n, out) if scaled == "bias" else None

        def store(e, row):
            if scaled == "double":
                e = self.make("mul", e, 2)
            elif scaled == "bias":
                e = self.make("add", e, bias)
            elif scaled == "positive":
                e = self.make("where", self.make("gt", e, 0), e, self.make("zeros", shape=(m, n), dtype=out.name))
            e = self.name_it(e if dtype is out else self.make("cast", e, dtype=dtype.name))
            if form == "pointers":
                rows = self.make("add", row, self.make("arange", start=0, end=m))
                places = self.make("add", self.make("index", self.make("mul", rows, n), items=[1, None]), self.make("index", self.make("arange", start=0, end=n), items=[None, 1]))
                mask = self.make("index", self.make("lt", rows, sizes[0]), items=[1, None])
                return self.emit(Store(self.make("addptr", buffer, places).node, e.node, mask.node))
            view = TensorBlocks(self, buffer, sizes, n, (m, n))
            if form == "sum":
                return self.emit(Effect(view.add(e, row, 0).node))
            if form == "twice":
                old = self.name_it(view.load(row, 0))
                e = self.name_it(self.make("cast", self.tame(self.make("add", e, old), 8), dtype=dtype.name))
            return self.emit(Effect(view.store(e, row, 0).node))

        return store

    def rows_of_program(self):
        """A row for each program: reductions over it, and what follows from it, its sums and gains that all programs share."""
        dtype = self.choose((F16, F16, BF16, F32))
        size = self.choose((1024, 2048, 4096))
        count = size - self.choose((0, 0, 8, 100))
        if self.chance(0.3):
            self.program.options["num_ctas"] = self.choose((2, 2, 4))
        x, distance = self.matrix(dtype, (len(self.machines), size))
        columns = self.name_it(self.make("arange", start=0, end=size))
        mask = self.name_it(self.make("lt", columns, self.add_scalar(count)))
        row = self.name_it(self.make("mul", self.program_index(), distance))

        def read(pointer, base=None):
            places = columns if base is None else self.make("add", base, columns)
            e = self.make("load", self.make("addptr", pointer, places), mask, 0, masked=True, other=True)
            return self.name_it(e if dtype is F32 else self.make("cast", e, dtype="float32"))

        values = read(x, row)
        if self.chance(0.3):
            values = self.name_it(self.make("add", values, read(self.matrix(dtype, (len(self.machines), size))[0], row)))
        for _ in range(self.choose((1, 1, 2, 3))):
            total = self.make(self.choose(("max", "min", "sum")), values, axis=0)
            total = self.name_it(self.make("cast", self.tame(total, 4), dtype="float32"))
            values = self.name_it(self.make(self.choose(("add", "sub", "mul")), values, total))
        if self.chance(0.6):
            values = self.name_it(self.make("add", values, read(self.input_buffer(dtype, "unit", True, size))))
        if self.chance(0.4):
            self.store_quietly(total)
        result = values if dtype is F32 else self.make("cast", values, dtype=dtype.name)
        buffer = self.output_buffer(dtype, distance * len(self.machines))
        self.emit(Store(self.make("addptr", buffer, self.make("add", row, columns)).node, result.node, mask.node))


#: What the code of a kernel shows of the ways that it takes, by what `--kind tiles` reports.
WAYS = {"tensor copies": r"ngpu\.tma_load", "stores by the copy engine": r"ngpu\.tma_store ", "wgmma": r"ngpu\.wgmma ", "divided warps": r"ngpu\.warp_specialize",
        "rows fetched ahead": r"= ngpu\.fetched ", "sums across blocks": r"ngpu\.sum_blocks", "multicast": r"ngpu\.tma_load .* shared "}
#: The same of its metadata.
FACTS = {"persistent": lambda m: m.persistent, "products split": lambda m: m.most_splits > 1, "pairs": lambda m: m.pairs, "clusters": lambda m: m.num_ctas > 1}
