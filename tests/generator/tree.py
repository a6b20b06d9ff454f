"""Programs as trees: expressions, statements, functions, memory. A tree writes itself as source text and runs in NumPy."""

import contextlib
import dataclasses

import numpy as np

from . import product_ops, random_ops  # noqa: F401  register their operations
from .dtypes import BY_NAME, I32, I64, F32, BOOL, U32, Reject, Value, as_value, from_memory, is_number, to_memory
from .fold_ops import COMBINERS
from .memory_ops import View
from .ops import MAPPED, OPS
from .overflow import Overflow


@dataclasses.dataclass
class Node:
    """`op` is a row of OPS, or "var" (attrs name), "lit" (attrs value), "call" (attrs function)."""
    op: str
    args: list = dataclasses.field(default_factory=list)
    attrs: dict = dataclasses.field(default_factory=dict)


def var(name):
    return Node("var", [], {"name": name})


def lit(value):
    return Node("lit", [], {"value": value})


class E:
    """An expression with its value in the program of the grid that generation watches."""
    __slots__ = ("node", "value")

    def __init__(self, node, value):
        self.node, self.value = node, value

    @property
    def dtype(self):
        return self.value.dtype

    @property
    def shape(self):
        return self.value.shape


@dataclasses.dataclass
class Assign:
    names: list      #: several for a tuple
    value: Node
    augmented: str = ""


@dataclasses.dataclass
class Store:
    pointer: Node
    value: Node
    mask: Node = None
    attrs: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Effect:
    """An expression for its effect: an atomic, a barrier, an assertion that holds."""
    value: Node


@dataclasses.dataclass
class Barrier:
    pass


@dataclasses.dataclass
class Print:
    """`device_print`: a line for each element of each value."""
    label: str
    values: list     #: Nodes
    hex: bool = False


@dataclasses.dataclass
class Check:
    """`device_assert`. It may fail, which debug mode reports with the message: no other of the program has it."""
    condition: Node
    message: str
    mask: Node = None


@dataclasses.dataclass
class Known:
    """`static_assert`, which holds: what is known of a name during compilation."""
    subject: Node
    about: str       #: "number", "shape", "dtype" or "rank"
    want: object
    message: str
    holds: bool = True    #: in the text: without it the compilation must fail

    def text(self):
        name = text_of(self.subject)
        shown = {"number": name, "shape": f"{name}.shape", "dtype": f"{name}.dtype", "rank": f"len({name}.shape)"}[self.about]
        if self.about == "shape":
            sizes = [f"{shown}[{d}] == {size}" for d, size in enumerate(self.want)]
            return " and ".join(sizes) if self.holds else f"not ({' and '.join(sizes)})"
        return f"{shown} {'==' if self.holds else '!='} " + (f"tl.{self.want}" if self.about == "dtype" else repr(self.want))


@dataclasses.dataclass
class If:
    condition: Node
    then: list
    orelse: list
    merged: list = dataclasses.field(default_factory=list)   #: names that both sides make


@dataclasses.dataclass
class For:
    name: str
    low: Node
    high: Node
    step: int
    kind: str        #: "range", "tl.range", "tl.static_range"
    body: list
    hints: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class While:
    """`counter` counts up to `limit`; the body sees it before the step at its beginning."""
    counter: str
    condition: Node
    body: list


@dataclasses.dataclass
class Leave:
    word: str        #: "break", "continue", "return"


@dataclasses.dataclass
class Function:
    name: str
    params: list
    body: list
    results: list    #: Nodes
    noinline: bool = False
    known: tuple = ()     #: parameters whose arguments are known during compilation
    early: Node = None    #: where this holds, `others` are returned
    others: tuple = ()


@dataclasses.dataclass
class Buffer:
    """Memory of one kernel argument. `bits` as they lie there; the argument points to element `base`."""
    name: str
    dtype: object
    bits: np.ndarray
    base: int
    output: bool = False
    approximate: bool = False
    kind: str = ""   #: what an input holds: "small", "full", ..


@dataclasses.dataclass
class Scalar:
    name: str
    value: object
    annotation: str = ""


@dataclasses.dataclass
class Program:
    buffers: list
    scalars: list
    functions: list
    body: list
    grid: tuple
    options: dict
    seed: int = 0
    ordered: bool = False    #: relies on the order of its accesses without barriers, as the CPU keeps it
    outlined: tuple = ()     #: (statements that stay in the kernel, depth of calls, noinline): the others stand in a function
    settings: dict = dataclasses.field(default_factory=dict)   #: of `nereid.knobs.nereid`, under which GPU code is compiled


# Source text.


def text_of(node):
    if node.op == "var":
        return node.attrs["name"]
    if node.op == "lit":
        value = node.attrs["value"]
        if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
            return f'float("{value}")'
        return f"({value!r})" if not isinstance(value, bool) and value < 0 else repr(value)
    texts = [text_of(arg) for arg in node.args]
    if node.op == "call":
        return f"{node.attrs['function']}({', '.join(texts)})"
    return OPS[node.op].emit(texts, node.attrs)


_AUGMENTED = {"add": "+=", "sub": "-=", "mul": "*=", "and": "&=", "or": "|=", "xor": "^="}


def lines_of(statements, depth):
    pad = "    " * depth
    lines = []
    for s in statements:
        if isinstance(s, Assign):
            if s.augmented:
                lines.append(f"{pad}{s.names[0]} {_AUGMENTED[s.augmented]} {text_of(s.value.args[1])}")
            else:
                lines.append(f"{pad}{', '.join(s.names)} = {text_of(s.value)}")
        elif isinstance(s, Store):
            parts = [text_of(s.pointer), text_of(s.value)] + ([f"mask={text_of(s.mask)}"] if s.mask else [])
            parts += [f'{key}="{value}"' for key, value in s.attrs.items()]
            lines.append(f"{pad}tl.store({', '.join(parts)})")
        elif isinstance(s, Effect):
            lines.append(pad + text_of(s.value))
        elif isinstance(s, Print):
            parts = [f'"{s.label}"', *map(text_of, s.values)] + (["hex=True"] if s.hex else [])
            lines.append(f"{pad}tl.device_print({', '.join(parts)})")
        elif isinstance(s, Check):
            parts = [text_of(s.condition), f'"{s.message}"'] + ([f"mask={text_of(s.mask)}"] if s.mask else [])
            lines.append(f"{pad}tl.device_assert({', '.join(parts)})")
        elif isinstance(s, Known):
            lines.append(f'{pad}tl.static_assert({s.text()}, "{s.message}")')
        elif isinstance(s, Barrier):
            lines.append(f"{pad}tl.debug_barrier()")
        elif isinstance(s, Leave):
            lines.append(pad + s.word)
        elif isinstance(s, If):
            lines.append(f"{pad}if {text_of(s.condition)}:")
            lines += lines_of(s.then, depth + 1) or [f"{pad}    pass"]
            if s.orelse:
                lines.append(f"{pad}else:")
                lines += lines_of(s.orelse, depth + 1)
        elif isinstance(s, For):
            parts = [text_of(s.low), text_of(s.high)] + ([str(s.step)] if s.step != 1 else [])
            parts += [f"{key}={value}" for key, value in s.hints.items()]
            lines.append(f"{pad}for {s.name} in {s.kind}({', '.join(parts)}):")
            lines += lines_of(s.body, depth + 1) or [f"{pad}    pass"]
        elif isinstance(s, While):
            lines.append(f"{pad}while {text_of(s.condition)}:")
            lines.append(f"{pad}    {s.counter} += 1")
            lines += lines_of(s.body, depth + 1)
    return lines


def nodes_of(statements):
    """All expressions of a list of statements, outermost first."""
    def walk(node):
        yield node
        for arg in node.args:
            yield from walk(arg)

    for s in statements:
        for field in dataclasses.fields(s):
            value = getattr(s, field.name)
            if isinstance(value, Node):
                yield from walk(value)
            elif field.name in ("body", "then", "orelse"):
                yield from nodes_of(value)
            elif field.name in ("results", "others", "values"):
                for result in value:
                    yield from walk(result)


def statements_of(program):
    """All statements of a program, those of its functions included."""
    def walk(statements):
        for s in statements:
            yield s
            for part in ("body", "then", "orelse"):
                yield from walk(getattr(s, part, ()))

    for body in (program.body, *(f.body for f in program.functions)):
        yield from walk(body)


def outlined_names(program):
    """The parameters of the function that holds the statements from `outlined[0]` on: what these use of the kernel's."""
    head, tail = program.body[:program.outlined[0]], program.body[program.outlined[0]:]
    known = {b.name for b in program.buffers} | {s.name for s in program.scalars}
    for s in head:
        known.update(s.names if isinstance(s, Assign) else s.merged if isinstance(s, If) else ())
    used = {n.attrs["name"]: None for n in nodes_of(tail) if n.op == "var"}
    used.update((name, None) for s in tail if isinstance(s, Assign) and s.augmented for name in s.names)
    return [name for name in used if name in known]


def _outlined(program):
    """The functions that hold the tail of the kernel, innermost first, and the call in its place."""
    keep, depth, noinline = program.outlined
    names = ", ".join(outlined_names(program))
    head = "@triton.jit(noinline=True)" if noinline else "@triton.jit"
    parts = ["\n".join([head, f"def outlined0({names}):", *lines_of(program.body[keep:], 1)]) + "\n"]
    parts += [f"{head}\ndef outlined{i}({names}):\n    outlined{i - 1}({names})\n" for i in range(1, depth)]
    return parts, f"    outlined{depth - 1}({names})"


def source_of(program, name="kernel", package="nereid as triton", language="nereid.language"):
    """The text of a module with the kernel and what it needs."""
    called, nodes = set(), list(nodes_of(program.body))
    for f in reversed(program.functions):
        called |= {n.attrs["function"] for n in nodes if n.op == "call"}
        if f.name in called:
            nodes += list(nodes_of([f]))
    used = {n.attrs["combine"] for n in nodes if "combine" in n.attrs}
    mapped = {n.attrs["function_name"] for n in nodes if "function_name" in n.attrs}
    parts = [f"import {package}\nimport {language} as tl\n"]
    for combine in sorted(used):
        parts.append("@triton.jit\n" + COMBINERS[combine][0])
    for name_of_function in sorted(mapped):
        parts.append("@triton.jit\n" + MAPPED[name_of_function][0])
    for f in program.functions:
        if f.name in called:
            head = "@triton.jit(noinline=True)" if f.noinline else "@triton.jit"
            params = ", ".join(p + (": tl.constexpr" if p in f.known else "") for p in f.params)
            lines = [head, f"def {f.name}({params}):", *lines_of(f.body, 1)]
            if f.early is not None:
                lines += [f"    if {text_of(f.early)}:", f"        return {', '.join(text_of(r) for r in f.others)}"]
            parts.append("\n".join([*lines, f"    return {', '.join(text_of(r) for r in f.results)}"]) + "\n")
    params = [b.name for b in program.buffers] + [s.name + (f": {s.annotation}" if s.annotation else "") for s in program.scalars]
    body = lines_of(program.body, 1)
    if program.outlined and lines_of(program.body[program.outlined[0]:], 1):
        functions, call = _outlined(program)
        parts += functions
        body = [*lines_of(program.body[:program.outlined[0]], 1), call]
    parts.append("\n".join(["@triton.jit", f"def {name}({', '.join(params)}):", *(body or ["    pass"])]) + "\n")
    return "\n\n".join(parts)


# Running in NumPy.


class Left(Exception):
    def __init__(self, word):
        super().__init__(word)
        self.word = word


MAX_STEPS = 20000


class Machine:
    """The state of one program: its variables, the memory shared by all programs, and what to count."""

    def __init__(self, program, pid, memory, counts=None, overflow=None, observed=None):
        self.program, self.pid, self.grid = program, pid, tuple(program.grid) + (1, ) * (3 - len(program.grid))
        self.memory = memory                     # name -> (dtype, base, bits); a write replaces the bits
        self.functions = {f.name: f for f in program.functions}
        self.counts = counts
        self.overflow = overflow or Overflow()
        self.observed, self.calls = observed, 0  # `calls`: how many functions of the text are around
        self.context = ["straight"]
        self.steps = 0
        self.scope = {}

    def bind_arguments(self):
        for b in self.program.buffers:
            self.scope[b.name] = Value(b.dtype, np.asarray(self.memory[b.name][1], np.int64), 0.0, b.name)
        for s in self.program.scalars:
            self.scope[s.name] = argument_value(s)

    def copy(self):
        other = Machine(self.program, self.pid, dict(self.memory), overflow=self.overflow)
        other.scope = dict(self.scope)
        other.functions = self.functions
        return other

    # Memory.

    def values(self, buffer):
        dtype, _, bits = self.memory[buffer]
        return from_memory(bits, dtype).copy()

    def write_values(self, buffer, values):
        dtype, base, _ = self.memory[buffer]
        self.memory[buffer] = (dtype, base, to_memory(values, dtype))

    def read(self, pointer, mask, other):
        dtype, _, bits = self.memory[pointer.buffer]
        index = np.where(mask, pointer.array, 0)
        if np.any((index < 0) | (index >= bits.size)):
            raise Reject("out of bounds")
        return np.asarray(np.where(mask, from_memory(bits[index], dtype), other)).astype(dtype.array)

    def write(self, pointer, value, mask):
        dtype, base, bits = self.memory[pointer.buffer]
        index = pointer.array[mask]
        if np.any((index < 0) | (index >= bits.size)):
            raise Reject("out of bounds")
        written = to_memory(value, dtype)[mask]
        if len(np.unique(index)) != index.size:
            raise Reject("one address is written twice")
        bits = bits.copy()
        bits[index] = written
        self.memory[pointer.buffer] = (dtype, base, bits)

    # Expressions.

    def evaluate(self, node):
        if node.op == "var":
            try:
                return self.scope[node.attrs["name"]]
            except KeyError:
                raise Reject("an unknown name") from None
        if node.op == "lit":
            return node.attrs["value"]
        with self.overflow.doubt() if node.op in ("chosen", "both", "either") else contextlib.nullcontext():
            operands = [self.evaluate(arg) for arg in node.args]
        if node.op == "call":
            return self.call(self.functions[node.attrs["function"]], operands)
        return self.apply(node, operands)

    def apply(self, node, operands):
        try:
            result = OPS[node.op].evaluate(self, operands, node.attrs)
        except (ValueError, IndexError, AttributeError, TypeError) as error:
            raise Reject(f"{node.op}: {error}") from error
        if self.counts is not None:
            kinds = {str(x.dtype) for x in operands if isinstance(x, Value) and not (node.op in ("where", "chosen") and x is operands[0])}
            views = [x for x in operands if isinstance(x, View)]
            if views:
                kinds = {str(views[0].pointer.dtype)}
            if not kinds and not isinstance(result, View):
                kinds = {str((result[0] if isinstance(result, tuple) else result).dtype)}
            for kind in kinds:
                self.counts[(row_name(node), kind, self.context[-1])] += 1
        if isinstance(result, Value) and result.array.size > 1 << 16:
            raise Reject("too large")
        return result

    def call(self, function, operands):
        inner = self.copy()
        inner.memory, inner.counts = self.memory, self.counts
        inner.observed, inner.calls = self.observed, self.calls + 1
        inner.context = ["noinline" if function.noinline else "function"]
        inner.scope = {p: v for p, v in zip(function.params, operands)}
        try:
            inner.run(function.body)
        except Left:
            raise Reject("return of a function") from None
        early = function.early is not None and inner.condition(function.early)
        results = tuple(inner.evaluate(r) for r in (function.others if early else function.results))
        return results if len(results) > 1 else results[0]

    # Statements.

    def assign(self, name, value):
        value = tuple(as_value(v) for v in value) if isinstance(value, tuple) else as_value(value)
        before = self.scope.get(name)
        if before is not None and _type_of(before) != _type_of(value):
            raise Reject("a variable changes its type")
        self.scope[name] = value

    def run(self, statements):
        for s in statements:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise Reject("too many steps")
            getattr(self, "run_" + type(s).__name__.lower())(s)

    def run_assign(self, s):
        value = self.evaluate(s.value)
        if len(s.names) == 1:
            self.assign(s.names[0], value)
        else:
            if not isinstance(value, tuple) or len(value) != len(s.names):
                raise Reject("no tuple")
            for name, item in zip(s.names, value):
                self.assign(name, item)

    def run_store(self, s):
        from .dtypes import cast
        pointer, value = self.evaluate(s.pointer), as_value(self.evaluate(s.value))
        target = next(b for b in self.program.buffers if b.name == pointer.buffer)
        if value.ulp and not (target.approximate and value.dtype is pointer.dtype):
            raise Reject("an approximate value in exact memory")
        if self.counts is not None:
            self.counts[("store", str(pointer.dtype), self.context[-1])] += 1
        value = cast(value, pointer.dtype)
        if len(value.shape) > len(pointer.shape):
            raise Reject("the value is larger than the pointers")
        try:
            array = np.broadcast_to(value.array, pointer.shape)
            if s.mask is None:
                mask = np.ones(pointer.shape, bool)
            else:
                condition = self.evaluate(s.mask)
                if condition.dtype is not BOOL or len(condition.shape) > len(pointer.shape):
                    raise Reject("a mask is a bool")
                mask = np.broadcast_to(condition.array, pointer.shape)
        except (ValueError, AttributeError) as error:
            raise Reject("shapes differ") from error
        self.write(pointer, array, mask)

    def run_effect(self, s):
        self.evaluate(s.value)

    def run_print(self, s):
        values = [as_value(self.evaluate(value)) for value in s.values]
        if any(value.ulp for value in values):
            raise Reject("the text of an approximate value")
        if self.observed is not None:
            self.observed.print(self.pid, s, values)

    def run_check(self, s):
        conditions = [as_value(self.evaluate(s.condition)), as_value(self.evaluate(s.mask) if s.mask else True)]
        if any(c.dtype is not BOOL or c.ulp for c in conditions):
            raise Reject("a condition is a bool")
        condition, mask = np.broadcast_arrays(*(c.array for c in conditions))
        if self.observed is not None and np.any(mask & ~condition):
            self.observed.fail(self.pid, s.message, self.calls)

    def run_known(self, s):
        value = self.evaluate(s.subject)
        if s.about != "number":
            value = as_value(value)
            value = {"shape": value.shape, "dtype": value.dtype.name, "rank": len(value.shape)}[s.about]
        if value != s.want:
            raise Reject("a static assertion that fails")
        if self.observed is not None:
            self.observed.known.add(s.message)

    def run_barrier(self, s):
        pass

    def run_leave(self, s):
        raise Left(s.word)

    def condition(self, node):
        value = self.evaluate(node)
        if is_number(value):
            return bool(value)
        if value.shape != ():
            raise Reject("a condition is a scalar")
        if value.ulp:
            raise Reject("an approximate condition")
        return bool(value.array)

    def run_if(self, s):
        before = set(self.scope)
        side = s.then if self.condition(s.condition) else s.orelse
        self.context.append("if")
        try:
            self.run(side)
        finally:
            self.context.pop()
        keep = before | set(s.merged)
        self.scope = {k: v for k, v in self.scope.items() if k in keep}

    def body(self, s, kind):
        self.context.append(kind)
        try:
            self.run(s.body)
        except Left as left:
            if left.word == "return":
                raise
            return left.word == "break"
        finally:
            self.context.pop()
        return False

    def run_for(self, s):
        low, high = self.evaluate(s.low), self.evaluate(s.high)
        bounds = [as_value(x) for x in (low, high)]
        if any(b.shape != () or b.dtype.is_float or b.dtype is BOOL for b in bounds):
            raise Reject("bounds are integers")
        dtype = I32
        for b in bounds:
            if b.dtype not in (I32, I64, U32) or (b.dtype is U32) != (bounds[0].dtype is U32):
                raise Reject("bounds are int32, int64, or both uint32")
            dtype = b.dtype if b.dtype in (I64, U32) else dtype
        known = s.kind == "tl.static_range"
        if known and not all(is_number(x) for x in (low, high)):
            raise Reject("static_range needs numbers")
        before = set(self.scope)
        span = range(int(bounds[0].array), int(bounds[1].array), s.step)
        if len(span) > 64:
            raise Reject("too many rounds")
        for i in span:
            self.scope[s.name] = i if known else Value(dtype, np.asarray(i, dtype.array))
            left = self.body(s, "static_range" if known else "for")
            self.scope = {k: v for k, v in self.scope.items() if k in before}
            if left:
                break
        self.scope = {k: v for k, v in self.scope.items() if k in before}

    def run_while(self, s):
        before = set(self.scope)
        for _ in range(65):
            if not self.condition(s.condition):
                return
            counter = self.scope[s.counter]
            self.scope[s.counter] = Value(counter.dtype, np.asarray(counter.array + 1, counter.dtype.array))
            left = self.body(s, "while")
            self.scope = {k: v for k, v in self.scope.items() if k in before}
            if left:
                return
        raise Reject("too many rounds")


def _type_of(value):
    return tuple(v.type for v in value) if isinstance(value, tuple) else as_value(value).type


def row_name(node):
    """The name under which an operation is counted."""
    if node.op in ("atomic", "describe_atomic"):
        return f"{node.op}_{node.attrs['name']}"
    if node.op in ("reduce", "scan"):
        return node.op + ":" + node.attrs["combine"]
    if node.op == "mapped":
        return "mapped:" + node.attrs["function_name"]
    if node.op == "asm":
        return "asm:" + node.attrs["name"]
    if node.op == "cast":
        return "bitcast" if node.attrs.get("bitcast") else "cast_rtz" if node.attrs.get("rtz") else "cast"
    return node.op


def argument_value(scalar):
    """What a scalar argument is in the kernel: 1 is a known number unless an annotation forces a type."""
    value = scalar.value
    if isinstance(value, bool):
        return Value(BOOL, np.asarray(value))
    if isinstance(value, float):
        return Value(F32, np.asarray(value, np.float32))
    if scalar.annotation:
        dtype = BY_NAME[scalar.annotation.removeprefix("tl.")]
        return Value(dtype, np.asarray(value, dtype.array))
    if value == 1:
        return 1
    dtype = I32 if -2 ** 31 <= value < 2 ** 31 else I64
    return Value(dtype, np.asarray(value, dtype.array))


def initial_memory(program):
    return {b.name: (b.dtype, b.base, b.bits) for b in program.buffers}


def program_ids(program):
    grid = tuple(program.grid) + (1, ) * (3 - len(program.grid))
    return [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]


def run(program, counts=None, overflow=None, observed=None):
    """The memory after all programs have run, by name. `overflow` hears of sums that do not fit, `observed` of what is printed and asserted."""
    memory = initial_memory(program)
    keep, depth, _ = program.outlined or (len(program.body), 0, False)
    for pid in program_ids(program):
        machine = Machine(program, pid, memory, counts, overflow, observed)
        machine.bind_arguments()
        try:
            machine.run(program.body[:keep])
            machine.calls = depth
            machine.run(program.body[keep:])
        except Left as left:
            if left.word != "return":
                raise Reject("break outside of a loop") from None
        memory = machine.memory
    return {name: bits for name, (_, _, bits) in memory.items()}
