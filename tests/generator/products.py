"""Loops over K, as in a product of matrices, and over a long row: the part of the generator that makes them."""

import numpy as np

from .addresses import MAX_NUMEL
from .dtypes import BF16, E4M3, E5M2, F16, F32, F64, FP8, I8, I32, I64, Value
from .tree import Assign, E, For, lit, var


class Products:
    """A part of `Generator`."""

    def product_loop(self):
        """A loop over K with pointers that move on, as in a matrix product; sometimes with a second product in it."""
        m, n = self.choose((16, 16, 32, 64, 64, 128)), self.choose((8, 16, 32, 64))
        fixed = self.chance(0.2)         # the second operand is the same in all rounds
        dtype = self.choose((F32, F32, F16, BF16, I8) if fixed else (F16, F16, F16, BF16, F32, I8, E4M3, E5M2, F64))
        k = self.choose((32, 64) if dtype.bits == 8 else (16, 16, 32, 64))
        if self.odd or self.chance(0.1):
            m, n, k = self.choose((12, 24, 33)), self.choose((8, 20, 33)), self.choose((16, 20, 33))
        rounds = self.random.randint(2 if fixed else 1, 4)
        room = (max(m, n) + 8) * rounds * k
        a, b = (self.input_buffer(dtype, "unit" if dtype in FP8 else "small", self.chance(0.6), room) for _ in range(2))
        along = rounds * k if self.chance(0.7) else rounds * k + 8
        sa = self.stride(along)
        across = self.chance(0.2) and not isinstance(sa, E)     # A lies in columns
        sb = self.stride(self.choose((n, n + 8)))
        transposed = self.chance(0.35)
        places = self.offsets((k, m), [m, 1]) if across else self.offsets((m, k), [sa, 1])
        backwards = self.chance(0.2) and not across
        pa = self.make("addptr", self.make("addptr", a, (rounds - 1) * k) if backwards else a, places)
        pa = self.name_it(pa, self.fresh("p"))
        pb = self.name_it(self.make("addptr", b, self.offsets((n, k) if transposed else (k, n), [sa if transposed else sb, 1])), self.fresh("p"))
        out = I32 if dtype is I8 else F64 if dtype is F64 else F32
        acc = self.name_it(self.make("zeros", shape=(m, n), dtype=out.name))
        second = self.name_it(self.make("load", pb)) if fixed else None
        name = self.fresh("k")
        masked = self.chance(0.3) and not across and not backwards
        bound = self.add_scalar(self.random.randint(1, rounds * k)) if masked else None
        precision = {"precision": self.choose(("ieee", "ieee", "ieee", "tf32") if fixed else ("ieee", "tf32", "tf32x3"))} if dtype is F32 else {}
        rows = mixed = None
        if m & (m - 1) == 0 and m * n <= MAX_NUMEL and self.chance(0.7 if fixed else 0.1):
            rows = self.name_it(self.make("and", self.load((m, n), I32, "full"), m - 1))
            mixed = self.name_it(self.make("zeros", shape=(m, n), dtype="int32"))
        chain = dtype in (F16, BF16) and n >= 16 and not self.odd and self.chance(0.25)
        kk = self.load((n, n), dtype, "unit") if chain and self.chance(0.5) else None

        def body():
            self.rep.scope[name] = Value(I32, np.asarray(0, np.int32))
            self.protected.add(name)
            if masked:
                left = self.make("sub", bound, self.make("mul", E(var(name), self.rep.scope[name]), k))
                mask = self.make("lt", self.index_along((m, k), 1), left)
                x = self.make("load", pa, mask, 0, masked=True, other=True)
            else:
                x = self.make("load", pa)
            x, y = self.name_it(x), second if fixed else self.name_it(self.make("load", pb))
            if across:
                x = self.make("transpose", x)
            if self.chance(0.3) and dtype not in FP8:
                x = self.make(self.choose(("neg", "abs")), x)
            if transposed:
                y = self.make("transpose", y)
            if chain:
                first = self.name_it(self.make("dot", x, y))
                weights = self.make("cast", self.tame(first, 4), dtype=dtype.name)
                new = self.make("dot", weights, kk or self.load((n, n), dtype, "unit"), acc)
            elif self.chance(0.2):
                new = self.make("add", acc, self.make("dot", x, y, **precision))
            else:
                new = self.make("dot", x, y, acc, positional=self.chance(0.5), **precision)
            self.emit(Assign([acc.node.attrs["name"]], new.node))
            if rows is not None:     # through shared memory, which what the rounds share must not lie in
                there = self.make("gather", self.load((m, n), I32, "full"), rows, axis=0)
                self.emit(Assign([mixed.node.attrs["name"]], self.make("xor", mixed, there).node))
            if self.chance(0.25):
                self.statement()
            self.emit(Assign([pa.node.attrs["name"]], self.make("addptr", pa, k * m if across else -k if backwards else k).node, ""))
            if not fixed:
                step = k if transposed else self.make("mul", sb, k) if isinstance(sb, E) else sb * k
                self.emit(Assign([pb.node.attrs["name"]], self.make("addptr", pb, step).node, ""))

        (block, _), = self.sides(body)
        kind = self.choose(("range", "tl.range"))
        hints = {"num_stages": self.choose((1, 2, 3, 4, 5))} if kind == "tl.range" and self.chance(0.5) else {}
        high = self.add_scalar(rounds) if self.chance(0.5) else E(lit(rounds), rounds)
        self.protected.discard(name)
        self.emit(For(name, lit(0), high.node, 1, kind, block, hints))
        if self.chance(0.4):
            self.store(acc)
        if mixed:
            self.store_quietly(E(mixed.node, self.rep.scope[mixed.node.attrs["name"]]))

    def stream(self):
        """A loop over blocks of a long row, as in a sum or a normalisation: its loads are fetched ahead."""
        block = (self.choose((8, 16, 32, 64, 128, 128, 256, 512)), ) if self.chance(0.7) else (self.choose((2, 4, 8, 16)), self.choose((8, 16, 32)))
        size, rounds = block[-1], self.random.randint(1, 6)
        dtype = self.choose((F16, F16, F32, F32, BF16, I32, I8, I64))
        wide = dtype if dtype.bits >= 32 else I32 if dtype.is_int else F32
        buffers = [self.input_buffer(dtype, "small", self.chance(0.7), rounds * size * block[0]) for _ in range(self.choose((1, 1, 2)))]
        row = self.stride(rounds * size + self.choose((0, 0, 8, 5)))
        count = self.random.randint(1, rounds * size)
        bound = self.add_scalar(count) if self.chance(0.7) else count
        carried = self.chance(0.4)       # the pointers move on; else they are made of the counter
        offsets = self.offsets(block, [row, 1][-len(block):])
        if carried:
            pointers = [self.name_it(self.make("addptr", b, offsets), self.fresh("p")) for b in buffers]
        total = self.name_it(self.make("zeros", shape=block, dtype=wide.name))
        best = self.name_it(self.make("full", -9, shape=block[:-1], dtype=wide.name)) if self.chance(0.4) else None
        name = self.fresh("i")
        masked = self.chance(0.6)
        stepped = not carried and self.chance(0.5)     # the counter goes from block to block, from a place that need not be one's beginning
        start = self.choose((0, 0, 1, 4, 5, 8)) if stepped else 0
        if self.chance(0.4):     # several elements for each thread
            self.program.options["num_warps"] = self.choose((1, 2))

        def body():
            self.rep.scope[name] = Value(I32, np.asarray(start, np.int32))
            self.protected.add(name)
            here = E(var(name), self.rep.scope[name])
            here = here if stepped else self.make("mul", here, size)
            loaded = []
            for index, buffer in enumerate(buffers):
                pointer = pointers[index] if carried else self.make("addptr", self.make("addptr", buffer, here), offsets) if self.chance(0.4) else \
                    self.make("addptr", buffer, self.make("add", here, offsets))
                if masked:
                    inside = self.make("lt", self.make("add", here, self.index_along(block, len(block) - 1)), bound)
                    loaded.append(self.name_it(self.make("load", pointer, inside, 0, masked=True, other=True)))
                else:
                    loaded.append(self.name_it(self.make("load", pointer)))
            value = self.make("cast", loaded[0], dtype=wide.name)
            if len(loaded) > 1:
                value = self.make("mul", value, self.make("cast", loaded[1], dtype=wide.name))
            value = self.name_it(value)
            self.emit(Assign([total.node.attrs["name"]], self.make("add", total, value).node, "add"))
            if best is not None:
                largest = self.make("cast", self.make("max", value, axis=len(block) - 1), dtype=wide.name)
                self.emit(Assign([best.node.attrs["name"]], self.make("maximum", best, largest).node))
            if self.chance(0.2):
                self.statement()
            if carried:
                for pointer in pointers:
                    self.emit(Assign([pointer.node.attrs["name"]], self.make("addptr", pointer, size).node, ""))

        block_of_loop = self.loop_of(body)
        kind = self.choose(("range", "tl.range", "tl.range"))
        hints = {"num_stages": self.choose((1, 2, 3, 4, 5))} if kind == "tl.range" and self.chance(0.8) else {}
        end = start + rounds * size - self.choose((0, 0, 3)) if stepped else rounds
        high = self.add_scalar(end) if self.chance(0.6) else E(lit(end), end)
        low = self.add_scalar(start) if stepped and self.chance(0.2) else E(lit(start), start)
        self.emit(For(name, low.node, high.node, size if stepped else 1, kind, block_of_loop, hints))
        for e in (total, best):
            if e is not None:
                self.store_quietly(E(e.node, self.rep.scope[e.node.attrs["name"]]))
