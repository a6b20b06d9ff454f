"""Python run during compilation and functions in all forms: user builtins, context managers, local functions, lambdas, comprehensions,
tuples and named tuples, varargs, functions as arguments, constexpr functions, recursion."""

import pytest
import torch

import harness
import nereid.language as tl
from nereid.errors import CompilationError

PROLOGUE = '''
import collections
import contextlib
import math as pymath

Point = collections.namedtuple("Point", ["x", "y"])


class Table:
    """Reached through a class, a dict and a module."""
    functions = None


@triton.jit
def add(x, y):
    return x + y


@triton.jit
def apply(function, x, y):
    return function(x, y)


@triton.jit
def twice(function: tl.constexpr, x):
    return function(function(x))


@triton.jit
def total(*values):
    result = 0
    for value in values:
        result += value
    return result


@triton.jit
def first_and_rest(first, *rest, scale=1):
    return first * scale + len(rest)


@triton.jit
def halving(x, N: tl.constexpr):
    if N == 1:
        return x
    return halving(x + N, N // 2)


@triton.jit
def swap(pair):
    return pair[1], pair[0]


@triton.constexpr_function
def log2(n):
    return n.bit_length() - 1


@triton.constexpr_function
def sizes(n):
    return (n, n * 2, [n * 3, "text"])


@triton.constexpr_function
def failing(n):
    raise KeyError(n)


@tl.constexpr
def host_function(n):
    return n * 3


@tl.core.builtin
def mean(x, y, _semantic=None):
    total = x.__add__(y, _semantic=_semantic)
    return tl.fdiv(total.to(tl.float32, _semantic=_semantic), 2.0, _semantic=_semantic)


@tl.core.builtin
def kinds(x, n, t, f, _semantic=None):
    assert isinstance(x, tl.tensor) and isinstance(n, tl.constexpr) and isinstance(t, tl.tuple)
    assert n.value == 4 and t[1].value == 2 and len(t) == 2
    return n


class Region:
    """A context manager that writes a mark where it is entered and left."""

    __triton_builtin__ = True

    def __init__(self, pointer, mark, _semantic=None):
        self.pointer, self.mark, self.semantic = pointer, mark, _semantic

    def __enter__(self):
        tl.store(self.pointer, self.mark, _semantic=self.semantic)
        return self.mark

    def __exit__(self, *exception):
        assert exception == (None, None, None)
        at = self.pointer.__add__(1, _semantic=self.semantic)
        tl.store(at, tl.load(self.pointer, _semantic=self.semantic), _semantic=self.semantic)

'''


def run(body, *args, out=None, **options):
    names = "abc"[:len(args)]
    out = torch.full((1,), -77, dtype=torch.int64) if out is None else out
    text = "\n".join("    " + line for line in body.strip("\n").splitlines())
    harness.make(f"{PROLOGUE}@triton.jit\ndef kernel(out, {', '.join(names)}):\n{text}\n")[(1,)](out, *args, **options)
    return out.item() if out.numel() == 1 else out.tolist()


def refused(body, text, prologue=PROLOGUE):
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    kernel = harness.make(f"{prologue}@triton.jit\ndef kernel(out, a):\n{lines}\n", "kernel")
    with pytest.raises(CompilationError, match=text) as info:
        kernel.warmup(torch.zeros(16, dtype=torch.int64), 7, grid=(1,))
    return info.value


PROGRAMS = {
    # functions
    "a function as argument": ("tl.store(out, apply(add, a, 3))", 10),
    "a builtin as argument": ("tl.store(out, apply(tl.maximum, a, 30))", 30),
    "a Python builtin as argument": ("tl.store(out, apply(min, a, 30))", 7),
    "a constexpr function argument": ("tl.store(out, twice(lambda x: x * 2, a))", 28),
    "a builtin that combines": ("tl.store(out, tl.reduce(tl.arange(0, 16) ^ 5, 0, tl.maximum))", 15),
    "varargs": ("tl.store(out, total(a, 2, 3) + total())", 12),
    "varargs of a tuple": ("t = (a, 2, 3)\ntl.store(out, total(*t, *t))", 24),
    "varargs and keywords": ("tl.store(out, first_and_rest(a, 1, 1, scale=10))", 72),
    "recursion by specialisation": ("tl.store(out, halving(a, 16))", 7 + 16 + 8 + 4 + 2),
    "constexpr function": ("N: tl.constexpr = log2(16)\ntl.store(out, N)", 4),
    "constexpr function of lists": ("s: tl.constexpr = sizes(4)\ntl.store(out, s[1] + s[2][0] + len(s[2][1]))", 24),
    "value of what is known": ("def width(dtype, call, name, nothing):\n    known = dtype.value\n    tl.static_assert(known.is_int() and name.value == 'n' and nothing.value is None)\n"
                               "    return call.value(known.primitive_bitwidth, 1)\ntl.store(out, width(a.dtype, add, 'n', None) + width(tl.int8, add, 'n', None))", 42),
    "constexpr as decorator": ("tl.store(out, host_function(4))", 12),
    # local functions
    "local function": ("def inc(x):\n    return x + 1\ntl.store(out, inc(inc(a)))", 9),
    "local function of the scope": ("m = a * 2\ndef scale(x):\n    return x * m\nm = a\ntl.store(out, scale(3))", 21),
    "local function with control flow": ("def clip(x):\n    if x > 5:\n        return 5\n    return x\ntl.store(out, clip(a) * 10 + clip(a - 4))", 53),
    "local function in a loop": ("r = 0\ndef add_to(x):\n    return r + x\nfor i in range(a):\n    r = add_to(i)\ntl.store(out, r)", 21),
    "local function as argument": ("k = a + 1\ndef mine(x, y):\n    return x * y + k\ntl.store(out, apply(mine, 2, 3))", 14),
    "local function twice deep": ("def outer(x):\n    def inner(y):\n        return x * y + a\n    return inner(2)\ntl.store(out, outer(10))", 27),
    "decorated local function": ("@triton.jit\ndef inc(x):\n    return x + 1\ntl.store(out, inc(a))", 8),
    "local function with defaults": ("def f(x, y=3, *, z=1):\n    return x * y + z\ntl.store(out, f(a) + f(a, z=100))", 143),
    "recursive local function": ("def half(N: tl.constexpr):\n    if N == 1:\n        return a\n    return half(N // 2) + 1\ntl.store(out, half(8))", 10),
    "lambda": ("f = lambda x, y=2: x * y + a\ntl.store(out, f(3) + f(1, y=1))", 21),
    "lambda that combines": ("tl.store(out, tl.reduce(tl.arange(0, 16), 0, lambda x, y: x + y))", 120),
    "lambda that scans": ("s = tl.associative_scan(tl.arange(0, 16), 0, lambda x, y: x + y)\ntl.store(out, tl.max(s, 0))", 120),
    "local function that combines": ("def both(x, y):\n    return x | y\ntl.store(out, tl.reduce(tl.arange(0, 16), 0, both))", 15),
    # tuples
    "tuple sum and product": ("t = (a, 2) + (3,) * 2\ntl.store(out, t[0] * 100 + t[-1] * 10 + len(t))", 734),
    "tuple equality": ("t = (1, (2, 3))\ntl.store(out, 1 if (1, (2, 3)) == (1, (2, 3)) else 0)", 1),
    "tuple slices": ("t = (1, a, 3, 4)\nu = t[1:3] + t[::-2]\ntl.store(out, u[0] * 1000 + u[1] * 100 + u[2] * 10 + u[3])", 7347),
    "empty tuple": ("t = ()\nfor x in t:\n    tl.store(out, 1)\ntl.store(out, len(t) + total(*t))", 0),
    "returned tuple": ("x, y = swap((a, 3))\ntl.store(out, x * 10 + y)", 37),
    "carried tuple": ("t = (0, (1, a))\nfor i in range(3):\n    t = (t[0] + t[1][0], (t[1][0] * 2, t[1][1]))\ntl.store(out, t[0] * 10 + t[1][1])", 77),
    "tuple through if": ("t = (1, 2)\nif a > 3:\n    t = (a, 3)\ntl.store(out, t[0] * 10 + t[1])", 73),
    "iteration": ("r = 0\nfor x, y in ((1, a), (2, 3)):\n    r += x * y\ntl.store(out, r)", 13),
    "tl.tuple": ("t = tl.tuple((a, 2))\ntl.store(out, t[0] + t[1])", 9),
    "list": ("t = [a, 2]\ntl.store(out, t[0] + t[1] + len(list(range(3))))", 12),
    "named tuple": ("p = Point(a, y=2)\ntl.store(out, p.x * 10 + p.y + p[0])", 79),
    "named tuple replaced": ("p = Point(a, 2)._replace(y=5)\ntl.store(out, p.x * 10 + p.y)", 75),
    "named tuple fields": ("p = Point(a, 2)\ntl.store(out, len(p._fields) * 10 + len(p))", 22),
    "named tuple in a loop": ("p = Point(0, a)\nfor i in range(3):\n    p = Point(p.x + p.y, p.y)\ntl.store(out, p.x)", 21),
    "in": ("t = (1, 2)\ntl.store(out, (10 if 2 in t else 0) + (1 if 3 not in t else 0) + (100 if 'b' in 'abc' else 0))", 111),
    "comprehension": ("tl.store(out, total(*[x * a for x in (1, 2, 3)]))", 42),
    "comprehension over a range": ("tl.store(out, total(*[x for x in range(5)]))", 10),
    "comprehension with a condition": ("tl.store(out, total(*[x for x in range(6) if x % 2]))", 9),
    "nested comprehension": ("tl.store(out, total(*[x * y for x in (1, 2) for y in (10, a)]))", 51),
    "comprehension of pairs": ("tl.store(out, total(*[x * y for x, y in ((1, 2), (3, a))]))", 23),
    "starred target": ("x, *y, z = (1, a, 3, 4)\ntl.store(out, x + z * 10 + len(y) * 100 + y[0] * 1000)", 7241),
    "starred target of nothing": ("x, *y = (a,)\ntl.store(out, x + len(y))", 7),
    "several targets": ("x = y = a + 1\ntl.store(out, x * 10 + y)", 88),
    "walrus in a comprehension": ("t = [(y := x + 1) * y for x in (1, 2)]\ntl.store(out, t[0] + t[1])", 13),
    "chained comparison": ("tl.store(out, 1 if 3 < a <= 7 != 8 else 0)", 1),
    # strings
    "f-string": ("s: tl.constexpr = f'{4:03d}|{1.5:.2f}|{\"x\":>3}|{a.dtype}|{255:#x}|{3!r}|{1234567:,}|{0.5:.1%}'\n"
                 "tl.static_assert(s == '004|1.50|  x|int32|0xff|3|1,234,567|50.0%')\ntl.store(out, 1)", 1),
    "f-string with a nested width": ("w: tl.constexpr = 5\ns: tl.constexpr = f'{42:{w}d}'\ntl.static_assert(s == '   42')\ntl.store(out, 1)", 1),
    # user builtins
    "user builtin": ("tl.store(out, mean(a, 4).to(tl.int32) * 10)", 50),
    "kinds of arguments": ("n: tl.constexpr = kinds(a, 4, (a, 2), add)\ntl.store(out, tl.sum(tl.full((n,), 1, tl.int32)))", 4),
    "functions of Python's own modules": ("n: tl.constexpr = pymath.gcd(12, 18)\ntl.store(out, n)", 6),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, target):
    body, want = PROGRAMS[name]
    assert run(body, 7) == want


def test_with(target):
    out = torch.zeros(4, dtype=torch.int64)
    assert run("with Region(out, 5) as mark:\n    tl.store(out + 2, tl.load(out) + a)\n    tl.store(out, mark + 1)\ntl.store(out + 3, 9)", 7,
               out=out) == [6, 6, 12, 9]


def test_several_with(target):
    out = torch.zeros(4, dtype=torch.int64)
    assert run("with Region(out, 5), Region(out + 2, a):\n    x = a + 1\ntl.store(out + 3, x)", 7, out=out) == [5, 5, 7, 8]


def test_functions_through_containers(target):
    kernel = harness.make(f"""{PROLOGUE}
import types
Table.functions = types.SimpleNamespace(add=add)
table = types.SimpleNamespace(inner=Table)
namespace = types.ModuleType("namespace")
namespace.add, namespace.Table, namespace.by_name = add, Table, {{"add": add}}

@triton.jit
def kernel(out, a):
    tl.store(out, namespace.add(a, 1) + namespace.Table.functions.add(a, 2) + namespace.by_name["add"](a, 3))
""")
    out = torch.zeros(1, dtype=torch.int64)
    kernel[(1,)](out, 7)
    assert out.item() == 27


# ---- every member function and operator from Python -----------------------------------------------------

#: Python code on a float32 block x, a float32 block y, an int32 block i and `s`, and the same in PyTorch.
FROM_PYTHON = {
    "x.__add__(y, _semantic=s)": "x + y", "x.__radd__(2.0, _semantic=s)": "2 + x", "x.__sub__(y, _semantic=s)": "x - y",
    "x.__rsub__(2.0, _semantic=s)": "2 - x", "x.__mul__(y, _semantic=s)": "x * y", "x.__truediv__(y, _semantic=s)": "x / y",
    "x.__rtruediv__(2.0, _semantic=s)": "2 / x", "i.__floordiv__(3, _semantic=s)": "i // 3", "i.__mod__(3, _semantic=s)": "i % 3",
    "i.__and__(3, _semantic=s)": "i & 3", "i.__or__(8, _semantic=s)": "i | 8", "i.__xor__(5, _semantic=s)": "i ^ 5",
    "i.__lshift__(2, _semantic=s)": "i << 2", "i.__rshift__(1, _semantic=s)": "i >> 1", "x.__neg__(_semantic=s)": "-x",
    "i.__invert__(_semantic=s)": "~i", "x.__lt__(y, _semantic=s)": "x < y", "x.__ge__(y, _semantic=s)": "x >= y",
    "x.__eq__(y, _semantic=s)": "x == y", "x.__ne__(y, _semantic=s)": "x != y", "x.__le__(y, _semantic=s)": "x <= y",
    "x.__gt__(y, _semantic=s)": "x > y", "x + y": "x + y", "3 - i": "3 - i",
    "x.to(tl.int32, _semantic=s)": "x.to(torch.int32)", "x.cast(tl.float16, _semantic=s)": "x.half()",
    "x.reshape((4, 4), _semantic=s).trans(_semantic=s).reshape(16, _semantic=s)": "x.reshape(4, 4).T.reshape(16)",
    "x.reshape(4, 4, _semantic=s).permute((1, 0), _semantic=s).ravel(_semantic=s)": "x.reshape(4, 4).T.reshape(16)",
    "x.view(4, 4, _semantic=s).sum(1, _semantic=s).expand_dims(1, _semantic=s).broadcast_to(4, 4, _semantic=s).ravel(_semantic=s)":
        "x.view(4, 4).sum(1, keepdim=True).broadcast_to(4, 4).reshape(16)",
    "x.exp(_semantic=s)": "x.exp()", "x.exp2(_semantic=s)": "x.exp2()", "x.abs(_semantic=s).log(_semantic=s)": "x.abs().log()",
    "x.abs(_semantic=s).log2(_semantic=s)": "x.abs().log2()", "x.cos(_semantic=s)": "x.cos()", "x.sin(_semantic=s)": "x.sin()",
    "x.abs(_semantic=s).sqrt(_semantic=s)": "x.abs().sqrt()", "x.abs(_semantic=s).sqrt_rn(_semantic=s)": "x.abs().sqrt()",
    "x.abs(_semantic=s).rsqrt(_semantic=s)": "x.abs().rsqrt()", "x.erf(_semantic=s)": "x.erf()", "x.floor(_semantic=s)": "x.floor()",
    "x.ceil(_semantic=s)": "x.ceil()", "i.cdiv(3, _semantic=s)": "(i + 2) // 3", "x.sigmoid(_semantic=s)": "x.sigmoid()",
    "x.softmax(_semantic=s)": "x.softmax(0)", "x.max(0, _semantic=s)": "x.max()", "x.min(0, _semantic=s)": "x.min()",
    "x.argmax(0, _semantic=s)": "x.argmax()", "x.argmin(0, _semantic=s)": "x.argmin()", "x.sum(0, _semantic=s)": "x.sum()",
    "i.xor_sum(0, _semantic=s)": "torch.tensor(0)", "i.reduce_or(0, _semantic=s)": "torch.tensor(15)",
    "x.cumsum(0, _semantic=s)": "x.cumsum(0)", "x.cumprod(0, _semantic=s)": "x.cumprod(0)",
    "x.reduce(0, add, _semantic=s)": "x.sum()", "x.associative_scan(0, add, _semantic=s)": "x.cumsum(0)",
    "x.__lt__(y, _semantic=s).logical_and(x.__gt__(0.0, _semantic=s), _semantic=s)": "(x < y) & (x > 0)",
    "x.__lt__(y, _semantic=s).logical_or(x.__gt__(0.0, _semantic=s), _semantic=s)": "(x < y) | (x > 0)",
    "x.sum(0, keep_dims=True, _semantic=s).item(_semantic=s)": "x.sum()",
    "x.split(_semantic=s) and x": None,
    "tl.where(x.__lt__(0.0, _semantic=s), x, y, _semantic=s)": "torch.where(x < 0, x, y)",
    "tl.zeros_like(x, _semantic=s)": "x * 0",
    "s.cast(x, tl.int32)": "x.to(torch.int32)", "s.add(x, y)": "x + y", "s.to_tensor(3)": "torch.tensor(3)",
    "s.where(s.lt(x, y), x, y)": "torch.minimum(x, y)", "s.full((16,), 2, tl.int32)": "i * 0 + 2",
    "tl.maximum(x, y, _semantic=s)": "torch.maximum(x, y)", "tl.math.fma(x, y, x, _semantic=s)": "x * y + x",
    "tl.core._promote_bfloat16_to_float32(x, _semantic=s)": "x",
    "x[None, :].reshape(16, _semantic=s)": "x", "tl.tensor(x.handle, tl.block_type(tl.float32, [16]))": "x",
    "x.T if False else x": "x",
}


@pytest.mark.parametrize("expression", [key for key, value in FROM_PYTHON.items() if value])
def test_from_python(expression, target):
    torch.manual_seed(3)
    x, y, i = torch.randn(16), torch.rand(16) + 0.5, torch.arange(16, dtype=torch.int32)
    want = eval(FROM_PYTHON[expression], {"torch": torch, "x": x, "y": y, "i": i})
    out = torch.zeros(16, dtype=torch.float64)
    kernel = harness.make(f"""
@triton.jit
def add(x, y):
    return x + y

@tl.core.builtin
def code(x, y, i, _semantic=None):
    s = _semantic
    return {expression}

@triton.jit
def kernel(out, x, y):
    i = tl.arange(0, 16)
    tl.store(out + i, code(tl.load(x + i), tl.load(y + i), i).to(tl.float64))
""")
    kernel[(1,)](out, x, y)
    torch.testing.assert_close(out, want.double().broadcast_to(16).contiguous(), atol=2e-3, rtol=2e-3)


def test_memory_from_python(target):
    out, x = torch.zeros(24, dtype=torch.int32), torch.arange(16, dtype=torch.int32)
    kernel = harness.make("""
@tl.core.builtin
def code(out, x, _semantic=None):
    s = _semantic
    i = tl.arange(0, 16, _semantic=s)
    block = tl.make_block_ptr(x, (16,), (1,), (0,), (16,), (0,), _semantic=s)
    value = tl.load(block, _semantic=s)
    assert block.base.dtype.element_ty == tl.int32 and len(block.offsets) == 1
    (out + i).store(block.advance((0,), _semantic=s).load(_semantic=s) + value, _semantic=s)
    for k, name in enumerate(("add", "max", "min", "and", "or", "xor")):
        getattr(out + (16 + k), "atomic_" + name)(5, _semantic=s)
    (out + 22).atomic_xchg(9, _semantic=s)
    (out + 23).atomic_cas(0, 4, _semantic=s)
    low, high = tl.join(i, i, _semantic=s).split(_semantic=s)
    tl.device_assert(low.shape == [16], _semantic=s)
    return x

@triton.jit
def kernel(out, x):
    code(out, x)
""")
    kernel[(1,)](out, x)
    assert out.tolist() == [2 * v for v in range(16)] + [5, 5, 0, 0, 5, 5, 9, 4]


def test_dispatch_refuses_unknown_types():
    kernel = harness.make("""
@tl.core.extern
def code(x, _semantic=None):
    return tl.core.extern_elementwise("", "", [x], {(tl.core.dtype("fp64"),): ("__nv_erf", tl.core.dtype("fp64"))},
                                      is_pure=True, _semantic=_semantic)

@triton.jit
def kernel(out, a):
    tl.store(out, code(a))
""", "kernel")
    with pytest.raises(CompilationError):
        kernel.warmup(torch.zeros(1), 7, grid=(1,))


# ---- refusals -------------------------------------------------------------------------------------------


def test_causes():
    error = refused("n: tl.constexpr = failing(3)", "KeyError: 3")
    assert isinstance(error.__cause__, KeyError) and error.__cause__.args == (3,)


def test_no_ir_builder():
    refused("code(a)", "this compiler has no IR builder for Python code",
            "@tl.core.builtin\ndef code(x, _semantic=None):\n    return _semantic.builder.create_fadd(x.handle, x.handle)\n\n")


REFUSALS = {
    "with of a number": ("with a:\n    pass", "int32 scalar has no attribute `__enter__`"),
    "return in with": ("with Region(out, 1):\n    return", "Cannot have `return` statements inside `with` statements in triton"),
    "recursion": ("def f(x):\n    return f(x)\ntl.store(out, f(a))", "calls nested too deeply"),
    "in of a tensor": ("tl.store(out, a in (1, 2))", "`in` needs values known during compilation"),
    "unpacking too few": ("x, *y, z = (1,)", "cannot unpack: expected 2 values, found 1"),
    "a capture in a combiner": ("tl.store(out, tl.reduce(tl.arange(0, 16), 0, lambda x, y: x + y * a))", "`a` is a run-time value"),
    "a run-time condition in a comprehension": ("t = [x for x in (1, 2) if a > x]", "the condition of a comprehension"),
    "double star": ("tl.store(out, add(**{'x': 1}))", "unsupported AST node type: `\\*\\*` in a call"),
    "too few arguments": ("def f(x, y):\n    return x\ntl.store(out, f(1))", "`f` needs the argument `y`"),
    "keyword-only by position": ("tl.store(out, first_and_rest())", "`first_and_rest` needs the argument `first`"),
    "unknown field": ("tl.store(out, Point(a, 2)._replace(z=5).x)", "`z`"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    refused(*REFUSALS[name])


TYPES = """@triton.jit
def kernel(x, n, u: "u16"):
    block = tl.load(x + tl.arange(0, 16))
    tl.static_assert(block.dtype.kind() == tl.dtype.KIND.FLOATING)
    tl.static_assert(n.dtype.kind() == tl.dtype.KIND.INTEGRAL)
    tl.static_assert((n > 0).dtype.kind() == n.dtype.KIND.BOOLEAN)
    tl.static_assert(tl.float8e5.kind() == 2)
    tl.static_assert(n.dtype.int_signedness == tl.dtype.SIGNEDNESS.SIGNED)
    tl.static_assert(u.dtype.int_signedness == n.dtype.SIGNEDNESS.UNSIGNED)
    tl.static_assert((n > 0).dtype.int_signedness == tl.dtype.SIGNEDNESS.SIGNED)
    tl.static_assert(n.dtype.cache_key_part == "int32")
    tl.static_assert(block.type.get_block_shapes() == (16, ))
    tl.static_assert(not isinstance(3, tl.constexpr) and isinstance(3, int))
    tl.store(x, ASKED)
"""


def test_what_types_say(target):
    x = torch.ones(16)
    harness.make(TYPES.replace("ASKED", "7.0"))[(1, )](x, 5, 3)
    assert x[0] == 7


@pytest.mark.parametrize("asked", ["x.dtype.kind", "tl.void.kind", "n.type.get_block_shapes", "x.dtype.int_signedness", "tl.dtype.KIND.OTHER"])
def test_what_types_do_not_have(asked, target):
    with pytest.raises(CompilationError, match=f"has no attribute `{asked.split('.')[-1]}`"):
        harness.make(TYPES.replace("ASKED", asked))[(1, )](torch.ones(16), 5, 3)
