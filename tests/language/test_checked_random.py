"""Checked mode against lanes that are enumerated: random masks, offsets and sizes of tensors around the reach of the accesses.

The random programs of `tests/generator` access only what exists, so they find reports that are wrong, and not reports that are missing.
The expressions of a kernel are evaluated here by NumPy, with the same text.
"""

import random
import re
import types

import numpy as np
import pytest

import harness

pytestmark = pytest.mark.cpu_only("checked mode is the CPU's")

SHAPES = [(32, ), (16, 8), (1, 16), (8, 1), (4, 2, 8)]
KINDS = {
    "load": "tl.store(y + e, tl.load(x + offset, mask=mask, other=0))",
    "store": "tl.store(x + offset, (e * 0).to(x.dtype.element_ty), mask=mask)",
    "atomic": "tl.atomic_add(x + offset, (e * 0).to(x.dtype.element_ty), mask=mask)",
    "loop": """p = x + offset - 3
    for k in range(3):
        p += 1
    tl.store(y + e, tl.load(p, mask=mask, other=0))""",
    "choice": "tl.store(y + e, tl.load(tl.where({side}, x + offset, z + e), mask=mask, other=0))",
}


class Pointer:
    """A tensor in an expression that NumPy evaluates."""

    def __init__(self, memory, offset=0):
        self.memory, self.offset = memory, offset

    def __add__(self, offset):
        return Pointer(self.memory, self.offset + offset)


def _load(pointer, mask, other):
    mask, offset = np.broadcast_arrays(mask, pointer.offset)
    return np.where(mask, pointer.memory[np.where(mask, offset, 0)], other)


ORACLE = types.SimpleNamespace(where=np.where, load=_load)


class Writer:
    """Random text of one kernel."""

    def __init__(self, rng, shape):
        self.rng, self.shape = rng, shape

    def index(self):
        return f"i{self.rng.randrange(len(self.shape))}"

    def place(self):
        """An integer of each lane."""
        return self.rng.choice([self.index, self.index, lambda: "e", lambda: f"({self.index()} + {self.index()})"])()

    def atom(self):
        v, n = self.place(), self.rng.choice(("n", "m", "3", "11"))
        return "(" + self.rng.choice([
            f"{v} < {n}", f"{v} < {n}", f"{v} < {n}", f"{v} <= {n}", f"{v} > {n}", f"{n} > {v}", f"{v} != {n}", f"{v} == {n}", f"{v} % 3 == 0", f"{v} + 1 < {n}",
            f"{v} * 2 < {n}", f"({v} ^ 1) < {n}", f"{n} < m", "n < 0", f"{v} >= 0", f"-{v} > -{n}"
        ]) + ")"

    def mask(self, depth):
        if depth == 0 or self.rng.random() < 0.15:
            return self.atom()
        a, b, c = (self.mask(depth - 1) for _ in range(3))
        return "(" + self.rng.choice([
            f"{a} & {b}", f"{a} & {b}", f"{a} | {b}", f"{a} ^ {b}", f"~({a} & (e >= 0))", f"~({a} & {b})", f"tl.where(e >= 0, {a}, {b})", f"tl.where({a}, {b}, {c})", f"{a} != {b}",
            f"tl.load(f + e, mask={a}, other={self.rng.randrange(2)}) != 0"
        ]) + ")"

    def offset(self):
        r = self.rng
        if r.random() < 0.15:
            return r.choice([f"{self.index()} * {self.index()} + e * 0", "(e ^ 3)", "(e & 7)", "e % 5", "e // 3", "e % (n * n + 1)", f"tl.where({self.atom()}, e, {self.index()})"])
        terms = [f"{self.index() if r.random() < 0.2 else 'i' + str(d)} * {r.choice(('1', '1', '2', '-1', '0', 's', 't', '7'))}" for d in range(len(self.shape))]
        return " + ".join(terms + ["e * 0", r.choice(("0", "s", "-4", "n"))])


def _expressions(writer):
    """The lines that both evaluate."""
    number = "0"
    for d, size in enumerate(writer.shape):
        number = f"({number}) * {size} + i{d}"
    mask = writer.mask(writer.rng.randrange(4))
    everywhere = writer.rng.choice(("& (e >= 0)", "| (e < 0)"))  # a block also of scalar conditions
    return [f"e = {number}", f"mask = {mask} {everywhere}", f"offset = {writer.offset()}"]


def _indices(shape):
    """Source of the indices along the dimensions of a block."""
    rank = len(shape)
    for d, size in enumerate(shape):
        places = ", ".join(":" if d == k else "None" for k in range(rank))
        yield d, size, f"[{places}]"


def _program(seed):
    rng = random.Random(seed)
    shape = rng.choice(SHAPES)
    writer = Writer(rng, shape)
    lines = _expressions(writer)
    kind = rng.choice(sorted(KINDS))
    side = writer.mask(1)
    body = [f"i{d} = tl.arange(0, {size}){places}" for d, size, places in _indices(shape)] + lines + KINDS[kind].format(side=side).split("\n    ")
    source = "@triton.jit\ndef kernel(x, y, z, f, n, m, s, t):\n" + "".join(f"    {line}\n" for line in body)
    return rng, shape, lines, kind, side, source


def _lanes(shape, lines, side, kind, flags, numbers):
    """Offsets of all lanes into `x`, and which of them are accessed."""
    names = {f"i{d}": np.arange(size)[eval(f"np.s_{places}")] for d, size, places in _indices(shape)}
    names |= numbers | {"tl": ORACLE, "f": Pointer(flags), "np": np}
    for line in lines:
        exec(line, names)
    mask = names["mask"]
    if kind == "choice":
        mask = mask & eval(side, names)
    return np.broadcast_to(names["offset"], shape).ravel(), np.broadcast_to(mask, shape).ravel()


DTYPES = [np.float32, np.int32, np.int8, np.float16, np.int64]


@pytest.mark.parametrize("seed", range(30))
def test_random_accesses(seed, target):
    rng, shape, lines, kind, side, source = _program(seed)
    kernel = harness.make(source)
    for _ in range(12):
        numbers = {name: rng.choice((0, 1, 2, 3, 5, 8, 12, 17, 31, 32, 100, -1)) for name in "nm"} | {name: rng.choice((0, 1, 2, 5, 8, -1, -3)) for name in "st"}
        elements = int(np.prod(shape))
        flags = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 2, elements).astype(np.int8)
        offsets, mask = _lanes(shape, lines, side, kind, flags, numbers)
        accessed = offsets[mask] if mask.any() else np.zeros(1, np.int64)
        # The tensor ends at the last access, or just before it, and begins likewise.
        first = int(accessed.min()) + rng.choice((0, 0, 0, 1, -1, -5))
        last = max(int(accessed.max()) + rng.choice((0, 0, 0, -1, 1, 5)), first)
        step = 1
        if rng.random() < 0.5 and last >= 0:
            first = 0
        elif rng.random() < 0.3 and first <= 0:
            last, step = 0, -1
        if first > 0 or last < 0 or (step > 0 and first < 0):
            # A view has its pointer at the lowest element, or, reversed, at the highest.
            first, last = 0, max(last, 0)
        dtype = np.dtype(rng.choice(DTYPES if kind != "atomic" else DTYPES[:2]))
        memory = np.zeros(last - first + 1 + 64, dtype)[32:-32]
        x = memory[::step] if step < 0 else memory
        bad = mask & ((offsets < first) | (offsets > last))
        arguments = (x, np.zeros(elements, dtype), np.zeros(elements, dtype), flags, *numbers.values())
        described = f"{source}\n{numbers} first={first} last={last} {dtype}"
        try:
            kernel[(1, )](*arguments, checked=True)
            report = None
        except RuntimeError as error:
            report = str(error)
        if not bad.any():
            assert report is None, f"{report}\n{described}"
            continue
        assert report is not None, f"not reported: {offsets[bad][0]}\n{described}"
        found = re.search(r"index (-?\d+) is outside of `x`, whose indices go from (-?\d+) to (-?\d+)", report)
        assert found, f"{report}\n{described}"
        assert tuple(map(int, found.groups())) == (offsets[bad][0], first, last), f"{report}\n{described}"
