"""Blocks that are read as they are and transposed: the part of the generator that makes them.

Targets may keep a block in memory in one order and bring it into another one for a loop or an operation that needs this. So one expression
reads both, from a block that is often in memory (a loop carries it, or a branch decides it), and what follows reads the block again.
"""

import numpy as np

from .dtypes import BF16, F16, F32, F64, I8, I16, I32, I64, U8, U32, Reject, Value
from .tree import Assign, E, For, If, lit, var


class Transposes:
    """A part of `Generator`."""

    def square_shape(self):
        """Two dimensions of one size, and sometimes a third one."""
        size = self.choose((12, 16, 24, 33)) if self.odd and self.chance(0.6) else self.choose((4, 8, 8, 16, 16, 32))
        shape = [size, size]
        if self.chance(0.3) and size <= 16:
            shape.insert(self.random.randrange(3), self.choose((1, 2, 4)) if self.chance(0.7) else size if size <= 8 else 2)
        return tuple(shape)

    def turned(self, x):
        """A block with another order of dimensions and the same shape."""
        rank = len(x.shape)
        if rank == 2 and self.chance(0.7):
            return self.make("transpose", x, **({"member": True} if self.chance(0.5) else {}))
        orders = [dims for dims in np.ndindex(*[rank] * rank) if sorted(dims) == list(range(rank)) and dims != tuple(range(rank))
                  and all(x.shape[source] == x.shape[to] for to, source in enumerate(dims))]
        return self.make("permute", x, dims=list(self.choose(orders)), name=self.choose(("permute", "trans")))

    def joined(self, x, y):
        """An elementwise operation whose result has the dtype of both operands."""
        names = ("add", "sub", "mul", "xor", "and", "maximum") if x.dtype.is_int else ("add", "sub", "mul", "maximum")
        e = self.make(self.choose(names), x, y)
        return e if e.value.type == x.value.type else self.make("cast", e, dtype=x.dtype.name)

    def read_both_ways(self, x):
        form = self.choose(("block first", "transpose first", "three", "where", "multiple", "other"))
        if form == "block first":
            return self.joined(x, self.turned(x))
        if form == "transpose first":
            return self.joined(self.turned(x), x)
        if form == "three":
            return self.joined(self.turned(x), self.joined(x, self.turned(x)))
        if form == "where":
            return self.make("where", self.make(self.choose(("lt", "ge")), x, self.turned(x)), x, self.turned(x))
        if form == "multiple":
            return self.joined(x, self.joined(self.turned(x), self.constant(x.shape, x.dtype)))
        return self.joined(self.joined(x, self.turned(x)), self.expr(x.shape, 1, x.dtype))

    def in_rounds(self, change):
        """A loop whose body a function makes."""
        counter, high = self.fresh("i"), self.scalar_int(1, 3)
        dtype = I64 if high.dtype is I64 else I32

        def body():
            self.rep.scope[counter] = Value(dtype, np.asarray(0, dtype.array))
            self.protected.add(counter)
            change()

        block = self.loop_of(body)
        self.emit(For(counter, lit(0), high.node, 1, self.choose(("range", "tl.range")), block))

    def in_branch(self, change):
        (then, _), = self.sides(change)
        if then:
            self.emit(If(self.condition().node, then, []))

    def square_block(self):
        """A named block, which a loop or a branch may have changed."""
        shape = self.square_shape()
        dtype = self.choose((F32, F32, F32, F16, BF16, F64, I8, U8, I16, I32, I32, U32, I64))
        x = self.name_it(self.expr(shape, 1, dtype))
        name = x.node.attrs["name"]

        def change():
            now = E(var(name), self.rep.scope[name])
            self.emit(Assign([name], self.joined(now, self.load(shape, dtype, "small")).node))

        self.choose((self.in_rounds, self.in_rounds, self.in_branch, lambda change: None))(change)
        return name

    def use_again(self, name):
        """A later use of a block: stored in a branch or a loop, reduced, multiplied, or what a loop adds."""
        x = E(var(name), self.rep.scope[name])

        def add_up():
            now = E(var(total), self.rep.scope[total])
            self.emit(Assign([total], self.joined(now, self.choose((x, self.turned(x)))).node))

        use = self.choose(("branch", "branch", "rounds", "store", "max", "dot", "both"))
        if use == "branch":
            self.in_branch(lambda: self.store(x))
        elif use == "rounds":
            total = self.name_it(self.make("zeros", shape=x.shape, dtype=x.dtype.name)).node.attrs["name"]
            self.in_rounds(add_up)
        elif use == "store":
            self.store(x)
        elif use == "max":
            self.store(self.make("max", x, axis=self.random.randrange(len(x.shape))))
        elif use == "dot" and len(x.shape) == 2 and x.shape[0] >= 16:
            small = self.make("cast", self.tame(x, 4), dtype="float32")
            self.store(self.make("dot", small, self.choose((small, self.turned(small))), precision="ieee"))
        else:
            self.store(self.read_both_ways(x))

    def both_ways(self):
        """A block beside its transpose, and the block again behind this."""
        if self.inside_function:
            raise Reject("stores")
        name = self.square_block()
        e = self.read_both_ways(E(var(name), self.rep.scope[name]))
        sink = self.choose(("store", "store", "store", "max", "name", "branch"))
        if sink == "max":
            e = self.make("max", e, axis=self.random.randrange(len(e.shape)))
        if sink == "name":
            self.name_it(e)
        elif sink == "branch":
            self.in_branch(lambda: self.store(e))
        else:
            self.store(e)
        for _ in range(self.choose((1, 1, 2))):
            self.try_some(lambda: self.use_again(name), 2)
