"""Branches, loops and functions: the part of the generator that makes statements which hold others."""

import numpy as np

from .dtypes import ALL, BOOL, F32, FLOATS, FP8, I32, I64, INTS, U32, Reject, Value, is_number
from .tree import Assign, E, For, Function, If, Leave, Node, While, argument_value, lit


class Control:
    """A part of `Generator`."""

    def sides(self, *bodies):
        """Runs each body from a copy of the state one level deeper; their blocks and states."""
        saved, block = self.rep, self.block
        results = []
        self.level += 1
        for body in bodies:
            self.rep, self.block = saved.copy(), []
            try:
                body()
            except Reject:
                self.level -= 1
                self.rep, self.block = saved, block
                raise
            finally:
                for b in self.program.buffers if not self.inside_function else ():   # arguments made inside exist outside
                    saved.scope.setdefault(b.name, Value(b.dtype, np.asarray(b.base, np.int64), 0.0, b.name))
                    saved.memory.setdefault(b.name, (b.dtype, b.base, b.bits))
                for s in self.program.scalars if not self.inside_function else ():
                    saved.scope.setdefault(s.name, argument_value(s))
            results.append((self.block, self.rep))
        self.level -= 1
        self.rep, self.block = saved, block
        return results

    def branch(self):
        condition = self.condition()
        merged = []
        shape, dtype = self.shape(), self.choose(ALL)
        name = self.fresh() if self.chance(0.5) else None

        def side(leave):
            def body():
                self.statements(self.random.randint(0, 2))
                if name:
                    self.name_it(self.expr(shape, 2, dtype), name)
                if leave:
                    self.block.append(Leave(leave))
            return body

        leave = self.choose(("break", "continue", "continue", "return")) if self.loop and self.chance(0.6) else None
        behind = leave and self.chance(0.35)     # the else side leaves
        (then, _), (orelse, _) = self.sides(side(None if behind else leave), side(leave if behind else None))
        if not name and not leave and self.chance(0.3):
            orelse = []
        if name and not leave:
            merged = [name]
        if leave and not behind:
            orelse = [] if self.chance(0.7) else orelse
        if not then:
            then = [Assign([self.fresh()], lit(1))]
        self.emit(If(condition.node, then, orelse, merged))

    def early_return(self):
        (then, _), = self.sides(lambda: self.statements(1))
        self.emit(If(self.condition().node, then + [Leave("return")], []))

    def loop_body(self, kind, prepare, count=None):
        outer, self.loop = self.loop, kind
        protected = set(self.protected)

        def body():
            prepare()
            for _ in range(count or self.random.randint(1, 3)):
                self.statement()
            self.try_some(self.reassign, 3)
        try:
            (block, _), = self.sides(body)
        finally:
            self.loop, self.protected = outer, protected
        return block

    def try_some(self, action, times):
        for _ in range(times):
            try:
                return action()
            except Reject:
                pass

    def for_loop(self):
        self.ensure_variable()
        name = self.fresh("i")
        low = self.choose((0, 0, 1, -2)) if self.chance(0.7) else None
        low_e = self.scalar_int() if low is None else None
        start = int(low_e.value.array) if low_e else low
        high_e = self.scalar_int(1, 5)
        step, kind, hints = 1, self.choose(("range", "range", "tl.range")), {}
        if self.chance(0.25):
            step = self.choose((2, 3, -1))
        elif self.chance(0.35):     # blocks of a longer dimension
            step = self.choose((4, 8, 16, 32))
            low, low_e = self.choose((0, 0, 1, 4, 16, 5)), None
            start = low
            high = low + step * self.random.randint(1, 4) - self.choose((0, 0, 1, step // 2))
            high_e = self.add_scalar(high) if not self.inside_function and self.chance(0.6) else self.make("full", high, shape=(), dtype="int32")
            if is_number(high_e.value):
                high_e = self.make("full", high, shape=(), dtype="int32")
        if kind == "tl.range" and self.chance(0.7):
            hints = self.choose(({"num_stages": self.choose((1, 2, 3, 4, 5))}, {"num_stages": self.choose((2, 3, 4))}, {"loop_unroll_factor": self.choose((2, 3, 4))},
                                 {"flatten": True}, {"disallow_acc_multi_buffer": True}, {"disable_licm": True}))
        dtype = I64 if any(e and e.dtype is I64 for e in (low_e, high_e)) else I32
        if step == 1 and not self.inside_function and self.chance(0.15):   # across the border of signed numbers
            start, dtype = 2 ** 31 - self.random.randint(0, 3), U32
            low_e, high_e = (self.add_scalar(n, "tl.uint32") for n in (start, start + self.random.randint(1, 5)))
        low_node = low_e.node if low_e else lit(low)
        high_node = high_e.node
        if step < 0:
            low_node, high_node = high_node, low_node

        def prepare():
            self.rep.scope[name] = Value(dtype, np.asarray(start, dtype.array))
            self.protected.add(name)

        body = self.loop_body("for", prepare)
        self.emit(For(name, low_node, high_node, step, kind, body, hints))

    def static_loop(self):
        self.ensure_variable()
        name = self.fresh("i")

        def prepare():
            self.rep.scope[name] = 0
            self.protected.add(name)

        outer = self.loop
        body = self.loop_body(None, prepare, 1)
        self.loop = outer
        self.emit(For(name, lit(0), lit(self.random.randint(1, 3)), 1, "tl.static_range", body))

    def while_loop(self):
        self.ensure_variable()
        counter = self.name_it(self.make("full", 0, shape=(), dtype="int32"), self.fresh("w"))
        name = counter.node.attrs["name"]
        limit = self.scalar_int(0, 4) if self.chance(0.6) else self.random.randint(0, 4)
        if isinstance(limit, E) and limit.node.op != "lit" and limit.node.op != "var":
            limit = self.name_it(limit)
        if isinstance(limit, E) and limit.node.op == "var":
            self.protected.add(limit.node.attrs["name"])
        condition = self.make("lt", counter, limit)
        if self.chance(0.4):       # it may also end by what the rounds make
            watched = [e for e in self.variables(lambda v: v.dtype is not BOOL) if e.node.attrs["name"] != name]
            if watched:
                e = self.choose(watched)
                e = e if e.shape == () else self.make("max", e, axis=None) if e.dtype not in FP8 else condition
                if e is not condition:
                    other = self.make(self.choose(("lt", "ne", "gt")), e, self.number(e.dtype, small=True))
                    condition = self.make(self.choose(("and", "both", "either" if self.chance(0.2) else "both")), condition, other)

        def prepare():
            self.protected.add(name)
            self.rep.scope[name] = Value(I32, np.asarray(1, np.int32))

        body = self.loop_body("while", prepare)
        self.emit(While(name, condition.node, body))

    def ensure_variable(self):
        """A loop should carry something."""
        if self.chance(0.7) or not self.variables(lambda v: v.shape):
            self.name_it(self.expr(self.shape(), 1, self.choose((INTS, FLOATS, (F32, I32)))))

    # Variables together.

    def swap(self):
        """Two variables get each other's values."""
        found = [e for e in self.variables(lambda v: True) if e.node.attrs["name"] not in self.protected]
        pairs = [(x, y) for i, x in enumerate(found) for y in found[:i] if x.value.type == y.value.type]
        if not pairs:
            raise Reject("no two of one type")
        x, y = self.choose(pairs)
        value = Node("tuple", [y.node, x.node if self.chance(0.5) else self.expr(x.shape, 1, x.dtype).node])
        self.emit(Assign([x.node.attrs["name"], y.node.attrs["name"]], value))

    def carried_tuple(self):
        """A loop that carries a tuple, whose items change places; its items as variables behind it."""
        shape, dtype = self.shape(), self.choose((F32, I32, I64, *FLOATS))
        first, second = (self.name_it(self.expr(shape, 1, dtype)) for _ in range(2))
        third, high = self.scalar_int(), self.scalar_int(1, 4)
        name, counter = self.fresh("t"), self.fresh("i")
        of_counter = I64 if high.dtype is I64 else I32
        self.emit(Assign([name], Node("tuple", [first.node, second.node, third.node])))

        def item(index):
            return E(Node("item", [Node("var", [], {"name": name})], {"index": index}), self.rep.scope[name][index])

        def body():
            self.rep.scope[counter] = Value(of_counter, np.asarray(0, of_counter.array))
            self.protected.add(counter)
            if self.chance(0.4):
                self.statement()
            items = [item(1), item(0)]
            which = self.random.randrange(2)
            changed = self.make("xor" if dtype.is_int else "neg", items[which], *([item(2) if dtype is I32 else 5] if dtype.is_int else []))
            if changed.value.type != items[which].value.type:
                raise Reject("another type")
            items[which] = changed
            last = item(2) if self.chance(0.5) else self.make("and", self.make("add", item(2), 1), 7)
            if last.value.type != item(2).value.type:
                raise Reject("another type")
            value = Node("tuple", [*(e.node for e in items), last.node])
            self.emit(Assign([name], value))

        block = self.loop_of(body)
        self.emit(For(counter, lit(0), high.node, 1, self.choose(("range", "tl.range")), block))
        self.unpack(E(Node("var", [], {"name": name}), self.rep.scope[name]))

    def loop_of(self, body):
        """The statements of a loop that a body makes."""
        outer, self.loop, protected = self.loop, "for", set(self.protected)
        try:
            (block, _), = self.sides(body)
        finally:
            self.loop, self.protected = outer, protected
        return block

    # Functions.

    def call(self, noinline=None, build=None):
        """A function of the language, made for the types it is called with here."""
        noinline = self.chance(0.25) if noinline is None else noinline
        outer_inside = self.inside_function
        if self.depth > 1 or outer_inside and self.noinline:
            raise Reject("functions within functions")
        arguments, known = [], []
        for _ in range(self.random.randint(1, 3)):
            shape = () if noinline else self.shape()
            arguments.append(self.name_it(self.expr(shape, 1, (*INTS, *FLOATS, BOOL))))
        numbers = [self.choose((0, 1, 2, 3, 8, 0.5, True)) for _ in range(self.choose((0, 0, 1, 2)))]
        function = Function(self.fresh("f"), [self.fresh("a") for _ in (*arguments, *numbers)], [], [], noinline)
        function.known = tuple(function.params[len(arguments):])
        values = [*(a.value for a in arguments), *numbers]
        saved, block, loop, was_noinline = self.rep, self.block, self.loop, self.noinline
        inner = saved.copy()
        inner.scope = dict(zip(function.params, values))
        self.rep, self.block, self.loop, self.inside_function, self.noinline = inner, function.body, None, True, noinline
        self.level += 1
        self.depth += 1
        saved_shapes, saved_protected = self.shapes, self.protected
        self.protected = set(self.protected)
        if noinline:
            self.shapes = [()]
        try:
            made = build() if build else None
            self.statements(self.random.randint(0, 2))
            for name, number in zip(function.known, numbers):
                self.try_some(lambda: self.use_known(name, number), 2)
            results = [made] if made is not None else [self.expr(self.shape(), 2)]
            if self.chance(0.3):
                results.append(self.expr(self.shape(), 2))
            if self.chance(0.25):     # another way out
                function.early = self.condition().node
                others = [self.expr(r.shape, 1, r.dtype) for r in results]
                if any(o.value.type != r.value.type or o.value.ulp or r.value.ulp for o, r in zip(others, results)):
                    raise Reject("results of two types")
                function.others = [o.node for o in others]
                early = self.rep.condition(function.early)
                results, function.results = (others if early else results), [r.node for r in results]
            else:
                function.results = [r.node for r in results]
            values = [r.value for r in results]
        finally:
            self.rep, self.block, self.loop, self.inside_function, self.noinline = saved, block, loop, outer_inside, was_noinline
            self.level -= 1
            self.depth -= 1
            self.shapes, self.protected = saved_shapes, saved_protected
        self.program.functions.append(function)
        for machine in (*self.machines, self.rep):
            machine.functions[function.name] = function
        node = Node("call", [*(a.node for a in arguments), *(lit(n) for n in numbers)], {"function": function.name})
        self.emit(Assign([self.fresh() for _ in values], node))

    def use_known(self, name, number):
        """What is known during compilation decides, counts rounds, or is an operand."""
        parameter = E(Node("var", [], {"name": name}), number)
        target = self.choose(self.variables(lambda v: v.dtype not in (BOOL, *FP8)) or [None])
        kind = self.choose(("if", "rounds", "operand"))
        if kind == "operand" or target is None:
            scalar = self.make("full", parameter, shape=self.shape(), dtype="float32" if isinstance(number, float) else "int32")
            self.name_it(scalar)
            return
        change = [Assign([target.node.attrs["name"]], self.expr(target.shape, 1, target.dtype).node)]
        if kind == "if":
            self.emit(If(Node("compare_known", [parameter.node], {"name": self.choose(("lt", "ge", "eq")), "with": self.choose((0, 1, 2))}),
                         change, change[:0] if self.chance(0.5) else [Assign([self.fresh()], lit(1))]))
        elif isinstance(number, int) and not isinstance(number, bool):
            self.emit(For(self.fresh("i"), lit(0), parameter.node, 1, "tl.static_range", change))
