"""Values of user-defined classes: fields, constructors, methods, operators, inheritance, control flow, calls, immutability."""

import pytest
import torch

import harness
import nereid as triton
import nereid.language as tl
from nereid.errors import CompilationError

COVERED = {"aggregate_replace"}

CLASSES = '''
@triton.aggregate
class Pair:
    """A generated `__init__`."""
    first: tl.tensor
    second: tl.tensor
    scale: tl.constexpr = tl.constexpr(2)

    @triton.jit
    def total(self, extra=0):
        return (self.first + self.second) * self.scale + extra

    @triton.jit
    def moved(self, by):
        return Pair(self.first + by, self.second + by, self.scale)

    @triton.jit
    def __add__(self, other):
        return Pair(self.first + other.first, self.second + other.second, self.scale)

    @triton.jit
    def __radd__(self, other):
        return Pair(self.first + other, self.second + other, self.scale)

    @triton.jit
    def __eq__(self, other):
        return (self.first == other.first) & (self.second == other.second)

    @triton.jit
    def __neg__(self):
        return Pair(-self.first, -self.second, self.scale)

    @triton.jit
    def __getitem__(self, index: tl.constexpr):
        return self.first if index == 0 else self.second

    @triton.jit
    def __len__(self):
        return 2

    @triton.jit
    def __call__(self, factor):
        return self.total() * factor

    @staticmethod
    @triton.jit
    def of(value):
        return Pair(value, value + 1)

    @triton.constexpr_function
    def doubled_scale(self):
        return self.scale.value * 2

    @property
    @triton.jit
    def larger(self):
        return tl.maximum(self.first, self.second)

    def described(self):
        return f"{self.scale.value}:{self.first.dtype}"


@tl.core._aggregate
class Window:
    """An `__init__` of its own that calls the language."""
    base: tl.tensor
    offsets: tl.tensor
    mask: tl.tensor
    size: tl.constexpr

    def __init__(self, base, start, count, size, _semantic=None):
        self.base = base
        self.size = tl.constexpr(size)
        index = tl.arange(0, size, _semantic=_semantic)
        self.offsets = index.__add__(start, _semantic=_semantic)
        self.mask = self.offsets.__lt__(count, _semantic=_semantic)

    @triton.jit
    def load(self):
        return tl.load(self.base + self.offsets, mask=self.mask, other=0)

    @triton.jit
    def store(self, value):
        tl.store(self.base + self.offsets, value, mask=self.mask)


@triton.aggregate
class Named(Pair):
    tag: tl.constexpr = tl.constexpr("none")

    @triton.jit
    def total(self, extra=0):
        return self.first * 100 + self.second + extra


@triton.aggregate
class Nest:
    pair: Pair
    items: tl.tuple
    op: tl.constexpr
    dtype: tl.constexpr


@triton.constexpr_function
def make_counter(step):
    step = tl.constexpr(step)

    @triton.aggregate
    class Counter:
        value: tl.tensor

        @triton.jit
        def next(self):
            return Counter(self.value + step)

    return Counter


@triton.jit
def halved(x):
    return x // 2


@triton.jit
def combined(pair, nest):
    return pair.total() + nest.pair.total() + nest.op(nest.items[1])

'''


def run(body, *args, count=1):
    """Runs a kernel body over int64 arguments a, b, c, and returns what it stored to `out`."""
    names = "abc"[:len(args)]
    out = torch.full((count,), -77, dtype=torch.int64)
    text = "\n".join("    " + line for line in body.strip("\n").splitlines())
    harness.make(f"{CLASSES}@triton.jit\ndef kernel(out, {', '.join(names)}):\n{text}\n")[(1,)](out, *args)
    return out.tolist() if count > 1 else out.item()


PROGRAMS = {
    "fields": ("p = Pair(a, b)\ntl.store(out, p.first * 10 + p.second)", 75),
    "keywords": ("p = Pair(second=a, first=b)\ntl.store(out, p.first * 10 + p.second)", 57),
    "default": ("tl.store(out, Pair(a, b).scale)", 2),
    "method": ("tl.store(out, Pair(a, b).total())", 24),
    "method with arguments": ("tl.store(out, Pair(a, b, 3).total(extra=a))", 43),
    "method that returns its class": ("tl.store(out, Pair(a, b).moved(10).total())", 64),
    "static method": ("tl.store(out, Pair.of(a).total())", 30),
    "static method of a value": ("tl.store(out, Pair(a, b).of(b).total())", 22),
    "constexpr function": ("N: tl.constexpr = Pair(a, b, 8).doubled_scale()\ntl.store(out, tl.sum(tl.full((N,), 1, tl.int32)))", 16),
    "property": ("tl.store(out, Pair(a, b).larger)", 7),
    "plain method": ("s: tl.constexpr = Pair(a, b).described()\ntl.store(out, 1 if s == '2:int32' else 0)", 1),
    "getitem": ("p = Pair(a, b)\ntl.store(out, p[0] * 10 + p[1])", 75),
    "len": ("tl.store(out, len(Pair(a, b)))", 2),
    "call": ("p = Pair(a, b)\ntl.store(out, p(3))", 72),
    "add": ("tl.store(out, (Pair(a, b) + Pair(b, b)).total())", 44),
    "reflected add": ("tl.store(out, (1 + Pair(a, b)).total())", 28),
    "augmented": ("p = Pair(a, b)\np += Pair(a, a)\ntl.store(out, p.total())", 52),
    "equal": ("tl.store(out, Pair(a, b) == Pair(a, b))", 1),
    "negated": ("tl.store(out, (-Pair(a, b)).total())", -24),
    "inherited constructor": ("n = Named(a, b, 5, 'x')\ntl.store(out, n.total() + n.scale)", 710),
    "inherited method": ("tl.store(out, Named(a, b).moved(1).total())", 28),
    "isinstance": ("n = Named(a, b)\np = Pair(a, b)\n"
                   "tl.store(out, (10 if isinstance(n, Pair) else 0) + (1 if isinstance(p, Named) else 0))", 10),
    "hasattr": ("p = Pair(a, b)\ntl.store(out, (10 if hasattr(p, 'total') else 0) + (1 if hasattr(p, 'tag') else 0))", 10),
    "nested": ("n = Nest(Pair(a, b), (a, b), halved, tl.int64)\ntl.store(out, combined(n.pair, n))", 24 + 24 + 2),
    "dtype field": ("n = Nest(Pair(a, b), (a, b), halved, tl.int64)\ntl.store(out, 1 if a.to(n.dtype).dtype == tl.int64 else 0)", 1),
    "class from a constexpr function": ("Counter: tl.constexpr = make_counter(3)\ntl.store(out, Counter(a).next().next().value)", 13),
    "in a tuple": ("t = (Pair(a, b), 3)\ntl.store(out, t[0].total() + t[1])", 27),
    "replace": ("p = tl.aggregate_replace(Pair(a, b), second=b * 2)\ntl.store(out, p.total())", 34),
    "replace through core": ("p = tl.core.aggregate_replace(Pair(a, b), scale=3)\ntl.store(out, p.total())", 36),
    "carried by for": ("p = Pair(a, b)\nfor i in range(4):\n    p = p.moved(i)\ntl.store(out, p.total())", 48),
    "carried by while": ("p = Pair(a, b)\nwhile p.first < 20:\n    p = p.moved(5)\ntl.store(out, p.total())", 84),
    "carried and left": ("p = Pair(a, b)\nfor i in range(100):\n    p = p.moved(i)\n    if p.first > 20:\n        break\n"
                         "tl.store(out, p.total())", 84),
    "chosen by if": ("p = Pair(a, b)\nif a > 3:\n    p = Pair(b, b)\ntl.store(out, p.total())", 20),
    "chosen by if expression": ("p = Pair(a, b) if a < 3 else Pair(b, b)\ntl.store(out, p.total())", 20),
    "made in both branches": ("if a > 3:\n    p = Pair(a, a)\nelse:\n    p = Pair(b, b)\ntl.store(out, p.total())", 28),
    "in a known branch": ("p = Pair(a, b, 4)\nif p.scale == 4:\n    tl.store(out, 1)\nelse:\n    tl.store(out, a.nothing)", 1),
    "scale stays known in a loop": ("p = Pair(a, b, 4)\nfor i in range(3):\n    p = p.moved(1)\n"
                                   "tl.store(out, tl.sum(tl.full((p.scale,), 1, tl.int32)) + p.first)", 14),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, target):
    body, want = PROGRAMS[name]
    assert run(body, 7, 5) == want


@pytest.mark.parametrize("count", [0, 5, 8])
def test_blocks_in_fields(count, target):
    x, y = torch.arange(100, 116, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    kernel = harness.make(f"""{CLASSES}
@triton.jit
def kernel(x, y, start, count):
    w = Window(x, start, count, 8)
    Window(y, start, count, 8).store(w.load() + w.size)
""")
    kernel[(1,)](x, y, 2, 2 + count)
    want = torch.zeros(16, dtype=torch.int32)
    want[2:2 + count] = x[2:2 + count] + 8
    assert torch.equal(y, want)


def test_values_of_one_class_with_other_constants_are_other_types(target):
    # Calls are specialised by the constants in a field.
    out = torch.zeros(2, dtype=torch.int64)
    kernel = harness.make(f"""{CLASSES}
@triton.jit
def kernel(out, a):
    tl.store(out, Pair(a, a, 2).total())
    tl.store(out + 1, Pair(a, a, 3).total())
""")
    kernel[(1,)](out, 7)
    assert out.tolist() == [28, 42]


def test_kernels_that_take_a_class(target):
    kernel = harness.make(f"""{CLASSES}
@triton.jit
def kernel(out, a, Cls: tl.constexpr):
    tl.store(out, Cls(a).next().value)
""")
    make_counter = harness.make(f"""{CLASSES}
@triton.jit
def kernel(out, a, Cls: tl.constexpr):
    tl.store(out, Cls(a).next().value)
""", "make_counter")
    for step in (3, 30):
        out = torch.zeros(1, dtype=torch.int64)
        kernel[(1,)](out, 7, make_counter(step))
        assert out.item() == 7 + step


REFUSALS = {
    "assigning a field": ("p = Pair(a, a)\np.first = a", "Attribute assignment is not supported in triton"),
    "a field of another type": ("p = Pair(a, 3)", r"Expected <class '.*tensor'> for attribute 'second', got <class '.*constexpr'>"),
    "a constant that is not known": ("p = Pair(a, a, a)", "Expected .*constexpr.* for attribute 'scale'"),
    "a surplus argument": ("p = Pair(a, a, 2, 3)", "too many positional arguments"),
    "a missing argument": ("p = Pair(a)", "missing a required argument: 'second'"),
    "an unknown member": ("p = Pair(a, a)\ntl.store(out, p.frist)", "has no attribute `frist`, did you mean `first`"),
    "another class": ("n = Nest((a, a), (a,), halved, 1)", "Expected <class '.*Pair'> for attribute 'pair'"),
    "a forgotten field": ("f = Forgets(a)", "constructor for Forgets did not initialize attribute 'second'"),
    "an undeclared field": ("f = Invents(a)", "Invents has no attribute 'other'"),
    "changing a value in Python": ("changes(Pair(a, a))", "cannot assign to field 'first'"),
    "replacing no field": ("tl.aggregate_replace(Pair(a, a), third=a)", "`third`"),
    "replacing a tensor by a tuple": ("tl.aggregate_replace(Pair(a, a), first=(a, a))", "for attribute 'first', got tuple"),
    "changed by a loop": ("p = Pair(a, a)\nfor i in range(a):\n    p = Pair(a, a, 3)",
                          r"Loop-carried variable p has initial type Pair<int32, int32, 2> but is re-assigned to Pair<int32, int32, 3>"),
    "different in branches": ("if a > 1:\n    p = Pair(a, a)\nelse:\n    p = Pair(a, a, 3)\ntl.store(out, p.total())",
                              "Mismatched type for p between then block"),
    "iterating": ("for x in Pair(a, a):\n    pass", "cannot iterate over `Pair` object"),
}

WRONG_CLASSES = '''
@triton.aggregate
class Forgets:
    first: tl.tensor
    second: tl.tensor

    def __init__(self, first):
        self.first = first


@triton.aggregate
class Invents:
    first: tl.tensor

    def __init__(self, first):
        self.other = first


@tl.core.builtin
def changes(pair, _semantic=None):
    pair.first = pair.second

'''


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    body, text = REFUSALS[name]
    lines = "\n".join("    " + line for line in body.splitlines())
    kernel = harness.make(f"{CLASSES}{WRONG_CLASSES}@triton.jit\ndef kernel(out, a):\n{lines}\n", "kernel")
    with pytest.raises(CompilationError, match=text):
        kernel.warmup(torch.zeros(1, dtype=torch.int64), 7, grid=(1,))


def test_python_exceptions_are_causes():
    kernel = harness.make(f"{CLASSES}{WRONG_CLASSES}@triton.jit\ndef kernel(out, a):\n    changes(Pair(a, a))\n", "kernel")
    with pytest.raises(CompilationError) as info:
        kernel.warmup(torch.zeros(1, dtype=torch.int64), 7, grid=(1,))
    assert isinstance(info.value.__cause__, AttributeError)
    assert str(info.value.__cause__) == "cannot assign to field 'first'"


def test_bases_must_be_aggregates():
    with pytest.raises(TypeError, match="an aggregate inherits from aggregates only, found dict"):
        triton.aggregate(type("Odd", (dict, ), {"__annotations__": {"a": tl.tensor}}))


def test_names():
    assert triton.aggregate is tl.core._aggregate
    assert tl.aggregate_replace is tl.core.aggregate_replace


# ---- as arguments of a launch -----------------------------------------------------------------------

ARGUMENTS = """
@triton.aggregate
class View:
    base: tl.tensor
    count: tl.tensor
    scale: tl.tensor
    block: tl.constexpr = tl.constexpr(16)

    @triton.jit
    def load(self):
        i = tl.arange(0, self.block)
        return tl.load(self.base + i, mask=i < self.count, other=0) * self.scale


@triton.aggregate
class Two:
    left: View
    right: View
    factors: tl.tuple
    op: tl.constexpr = tl.constexpr(None)

    @triton.jit
    def total(self):
        return (self.left.load() + self.right.load()) * self.factors[1]


@triton.jit
def one_kernel(out, view):
    tl.static_assert(view.count.dtype == tl.int32)
    tl.store(out + tl.arange(0, view.block), view.load())


@triton.jit
def two_kernel(out, pair):
    if pair.op is None:
        tl.store(out + tl.arange(0, pair.left.block), pair.total())


@triton.jit
def const_kernel(out, view: tl.const):
    tl.store(view.base, 1)
"""


@pytest.mark.parametrize("count", [1, 5, 16])
@pytest.mark.parametrize("block", [8, 16])
def test_a_value_as_an_argument(count, block, target):
    View = harness.make(ARGUMENTS, "View")
    kernel = harness.make(ARGUMENTS, "one_kernel")
    x, out = torch.arange(3, 19, dtype=torch.float32), torch.zeros(16)
    kernel[(1,)](out, View(x, count, 2.5, block))
    want = torch.zeros(16)
    want[:min(count, block)] = x[:min(count, block)] * 2.5
    assert torch.equal(out, want)


def test_values_in_values_as_arguments(target):
    View, Two, kernel = (harness.make(ARGUMENTS, name) for name in ("View", "Two", "two_kernel"))
    x, y, out = torch.arange(16, dtype=torch.float32), torch.ones(16), torch.zeros(16)
    kernel[(1,)](out, Two(View(x, 16, 2.0), View(y, 1, 3.0), (None, 7)))
    want = x * 14
    want[0] = 21
    assert torch.equal(out, want)


def test_one_kernel_for_other_values_of_the_fields():
    View, kernel = harness.make(ARGUMENTS, "View"), harness.make(ARGUMENTS, "one_kernel")
    x, out = torch.ones(16), torch.zeros(16)
    first = kernel.warmup(out, View(x, 1, 2.0), grid=(1, ))
    assert kernel.warmup(out, View(x, 5, 3.0), grid=(1, )) is first  # 1 is no constant in a field
    assert kernel.warmup(out, View(x, 5, 3.0, 8), grid=(1, )) is not first
    first[(1, 1, 1)](out, View(x, 3, 4.0))
    assert out.tolist() == [4.0] * 3 + [0.0] * 13


@pytest.mark.parametrize("make, text", [
    (lambda View: View("text", 1, 2.0), "failed to specialize argument of type: str"),
    (lambda View: View([1], 1, 2.0), "failed to specialize argument of type: list"),
    (lambda View: View(tl.constexpr(3), 1, 2.0), "Expected <class '.*tensor'> for attribute 'base'"),
])
def test_fields_that_no_launch_takes(make, text):
    View, kernel = harness.make(ARGUMENTS, "View"), harness.make(ARGUMENTS, "one_kernel")
    with pytest.raises(TypeError, match=text):
        kernel[(1, )](torch.zeros(16), make(View))


def test_constant_pointers_in_fields():
    View, kernel = harness.make(ARGUMENTS, "View"), harness.make(ARGUMENTS, "const_kernel")
    with pytest.raises(CompilationError, match="Cannot store to a constant pointer"):
        kernel.warmup(torch.zeros(16), View(torch.zeros(16), 1, 2.0), grid=(1, ))
