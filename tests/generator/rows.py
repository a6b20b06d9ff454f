"""The operations as generation sees them, one row each.

`build(generator, shape, dtype, depth)` gives an expression of that shape whose main operand has that dtype, or raises `Reject`. The
rows are also the list of what a run must have seen: each with each of its dtypes in each control form.
"""

import os

from .dtypes import (ALL, BF16, BOOL, BY_NAME, E4M3, E5M2, F16, F32, F64, FLOATS, FP8, I8, I16, I32, I64, INTS, SIGNED, U8, U16, U32, U64,
                     SOFTWARE, Reject)
from .fold_ops import COMBINERS
from .memory_ops import DESCRIBED_ATOMICS, atomic_dtypes
from .ops import ASSEMBLY, MAPPED
from .product_ops import SCALED
from .tree import Effect


#: Operations of one kind, which compilers fold into each other.
KINDS = {
    "dimensions": ("reshape", "ravel", "permute", "transpose", "broadcast_to", "expand_dims", "index", "unsqueeze", "squeeze", "full"),
    "parts": ("join", "interleave", "split", "cat", "slice", "flip", "gather"),
    "number": ("add", "sub", "mul", "and", "or", "xor", "shl", "shr", "cast", "bitcast", "neg", "invert", "abs", "where", "floordiv", "mod"),
}


class Row:

    def __init__(self, name, dtypes, build, weight=2, scalar=True, arguments=False):
        self.name, self.dtypes, self.build, self.weight = name, tuple(dtypes), build, weight
        self.scalar = scalar          #: makes scalars, so that it can stand in a `noinline` function
        self.arguments = arguments    #: needs the kernel's own arguments, which functions do not see
        self.kind = next((kind for kind, names in KINDS.items() if name in names), None)


NUMBERS = INTS + FLOATS
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne", "maximum", "minimum")
WIDE = (F32, F64)


def _needs(shape, rank=1):
    if len(shape) < rank:
        raise Reject("a block")


# Elementwise.

def _binary(name):
    def build(g, shape, dtype, depth):
        x = g.expr(shape, depth, dtype)
        if name in COMPARISONS and not g.inside_function and g.chance(0.6):  # with equal values and NaN among them
            kind = g.choose(("small", "small", "wild"))
            x, y = g.load(shape, dtype, kind), g.load(shape, dtype, kind)
        elif g.chance(0.25):
            y = g.number(dtype)
        elif g.chance(0.2):
            y = g.side(shape, depth, tuple(d for d in (INTS if dtype.is_int else FLOATS)))
        else:
            y = g.side(shape, depth, dtype)
        attrs = {"call": True} if name in ("add", "sub", "mul") and g.chance(0.1) else {}
        if name in ("maximum", "minimum") and g.chance(0.4):
            attrs = {"nan": True}
        return g.make(name, y, x, **attrs) if g.chance(0.3) else g.make(name, x, y, **attrs)
    return build


def _binary_of_same(name):
    def build(g, shape, dtype, depth):
        return g.make(name, g.expr(shape, depth, dtype), g.side(shape, depth, dtype))
    return build


def _divide(name):
    def build(g, shape, dtype, depth):
        x = g.expr(shape, depth, dtype)
        if g.chance(0.5):
            y = g.random.choice((1, 2, 3, 5, 8, 16, 7)) if dtype.is_int else g.random.choice((0.5, 1.0, 3.0, 4.0))
        elif dtype.is_int:
            y = g.make("or", g.side(shape, depth, dtype), 1)
        else:
            x = g.coerce(g.tame(x, 64), (dtype, ))
            y = g.coerce(g.make("add", g.tame(g.expr(shape, depth, dtype)), 1.0), (dtype, ))
        return g.make(name, x, y)
    return build


def _cdiv(g, shape, dtype, depth):
    return g.make("cdiv", g.make("and", g.expr(shape, depth, dtype), 63), g.random.choice((1, 2, 3, 16)))


def _shift(name):
    def build(g, shape, dtype, depth):
        x = g.load(shape, dtype, g.choose(("full", "negative"))) if not g.inside_function and g.chance(0.5) else g.expr(shape, depth, dtype)
        if g.chance(0.4):
            return g.make(name, x, g.random.randrange(dtype.bits))
        other = dtype if g.chance(0.7) else g.choose(INTS)
        return g.make(name, x, g.make("and", g.side(shape, depth, other), 7))
    return build


def _unary(name):
    def build(g, shape, dtype, depth):
        return g.make(name, g.expr(shape, depth, dtype))
    return build


def _sqrt_rn(g, shape, dtype, depth):
    return g.make("sqrt_rn", g.make("abs", g.expr(shape, depth, dtype)))


def _div_rn(name):
    def build(g, shape, dtype, depth):
        return g.make(name, g.expr(shape, depth, dtype), g.side(shape, depth, dtype))
    return build


def _clamp(g, shape, dtype, depth):
    low = g.random.randint(-8, 0) / 2
    return g.make("clamp", g.expr(shape, depth, dtype), low, low + g.random.randint(0, 12) / 2, **({"nan": True} if g.chance(0.4) else {}))


def _where(g, shape, dtype, depth):
    condition = g.side(shape, depth, BOOL)
    x = g.expr(shape, depth, dtype)
    y = g.number(dtype) if g.chance(0.2) else g.side(shape, depth, dtype)
    return g.make("where", condition, y, x) if g.chance(0.3) else g.make("where", condition, x, y)


def _fma(g, shape, dtype, depth):
    return g.make("fma", g.small(shape, dtype, depth), g.small(shape, dtype, depth), g.small(shape, dtype, depth))


def _cast(g, shape, dtype, depth):
    x = g.load(shape, dtype, "full") if dtype.is_float and not g.inside_function and g.chance(0.4) else g.expr(shape, depth, dtype)
    narrow = [d for d in (F16, BF16, F32, *FP8) if d.bits < dtype.bits]
    to = g.choose(narrow) if narrow and dtype.is_float and g.chance(0.4) else g.choose(ALL)
    try:
        return g.make("cast", x, dtype=to.name)
    except Reject:
        return g.make("cast", g.tame(x), dtype=to.name)


def _through8(g, shape, dtype, depth):
    x = g.load(shape, dtype, g.choose(("full", "small"))) if not g.inside_function and g.chance(0.6) else g.expr(shape, depth, dtype)
    return g.make("through8", x, dtype=g.choose(SOFTWARE), rtz=g.chance(0.3))


def _bitcast(g, shape, dtype, depth):
    to = [d for d in ALL if d.bits == dtype.bits and d is not dtype and d is not BOOL]
    return g.make("cast", g.expr(shape, depth, dtype), dtype=g.choose(to).name, bitcast=True)


def _cast_rtz(g, shape, dtype, depth):
    to = [d for d in (F16, BF16, F32, *FP8) if d.bits < dtype.bits]
    return g.make("cast", g.expr(shape, depth, dtype), dtype=g.choose(to).name, rtz=True)


# Shapes.

def _count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def _size(shape):
    n = _count(shape)
    if n & (n - 1):
        raise Reject("not a power of two")
    return n


def _reshape(g, shape, dtype, depth):
    inner = g.factored(_count(shape), g.random.randint(1, 4))
    return g.make("reshape", g.expr(inner, depth, dtype), shape=shape, **({"name": "view"} if g.chance(0.1) else {}))


def _ravel(g, shape, dtype, depth):
    if len(shape) != 1:
        raise Reject("rank 1")
    return g.make("ravel", g.expr(g.factored(_count(shape), 2), depth, dtype))


def _permute(g, shape, dtype, depth):
    _needs(shape, 2)
    dims = list(range(len(shape)))
    g.random.shuffle(dims)
    inner = [0] * len(shape)
    for to, source in enumerate(dims):
        inner[source] = shape[to]
    return g.make("permute", g.expr(tuple(inner), depth, dtype), dims=dims, name=g.choose(("permute", "trans")))


def _transpose(g, shape, dtype, depth):
    if len(shape) != 2:
        raise Reject("rank 2")
    return g.make("transpose", g.expr(shape[::-1], depth, dtype), **({"member": True} if g.chance(0.5) else {}))


def _broadcast_to(g, shape, dtype, depth):
    _needs(shape)
    inner = () if g.chance(0.2) else tuple(1 if g.chance(0.5) else d for d in shape)
    return g.make("broadcast_to", g.expr(inner, depth, dtype), shape=shape)


def _wide(g, shape, dtype, depth):
    """An expression, a smaller one spread out in some cases."""
    if not shape or g.chance(0.7):
        return g.expr(shape, depth, dtype)
    axis = g.random.randrange(len(shape))
    narrow = tuple(1 if i == axis else d for i, d in enumerate(shape))
    return g.make("broadcast_to", g.expr(narrow, depth, dtype), shape=shape)


def _grow(name):
    def build(g, shape, dtype, depth):
        axes = [i for i, d in enumerate(shape) if d == 1]
        if not axes:  # then broadcast what has been grown
            _needs(shape, 2)
            axis = g.random.randrange(len(shape))
            inner = shape[:axis] + shape[axis + 1:]
            e = _wide(g, inner, dtype, depth)
            items = [None if i == axis else 1 for i in range(len(shape))]
            e = g.make("index", e, items=items) if name == "index" else g.make(name, e, axis=axis)
            return g.make("broadcast_to", e, shape=shape)
        axis = g.choose(axes)
        inner = shape[:axis] + shape[axis + 1:]
        if not inner and name == "index":
            raise Reject("a scalar is not indexed")
        e = _wide(g, inner, dtype, depth)
        if name == "index":
            return g.make("index", e, items=[None if i == axis else 1 for i in range(len(shape))])
        return g.make(name, e, axis=axis)
    return build


def _squeeze(g, shape, dtype, depth):
    _needs(shape)
    axis = g.random.randint(0, len(shape))
    return g.make("squeeze", g.expr(shape[:axis] + (1, ) + shape[axis:], depth, dtype), axis=axis)


def _join(g, shape, dtype, depth):
    if shape and shape[-1] == 2:
        inner = shape[:-1]
        return g.make("join", g.expr(inner, depth, dtype), g.expr(inner, depth, dtype))
    if len(shape) == 1 and shape[0] > 1:
        inner = (shape[0] // 2, )
        return g.make("reshape", g.make("join", g.expr(inner, depth, dtype), g.expr(inner, depth, dtype)), shape=shape)
    raise Reject("the last dimension is 2")


def _interleave(g, shape, dtype, depth):
    if not shape or shape[-1] < 2:
        raise Reject("even")
    inner = shape[:-1] + (shape[-1] // 2, )
    return g.make("interleave", g.expr(inner, depth, dtype), g.expr(inner, depth, dtype))


def _split(g, shape, dtype, depth):
    return g.make("item", g.make("split", g.expr(shape + (2, ), depth, dtype)), index=g.random.randrange(2))


def _cat(g, shape, dtype, depth):
    axes = [i for i, d in enumerate(shape) if d > 1]
    if not axes:
        raise Reject("even")
    axis = g.choose(axes)
    first, second = g.cut(shape, axis)
    return g.make("cat", g.expr(first, depth, dtype), g.expr(second, depth, dtype), dim=axis)


def _arange(g, shape, dtype, depth):
    if len(shape) != 1 or shape[0] < 2:
        raise Reject("rank 1")
    start = g.random.choice((0, 0, 3, -8, 1 << 20))
    return g.make("arange", start=start, end=start + shape[0])


def _full(g, shape, dtype, depth):
    value = g.number(dtype, small=True) if g.chance(0.5) else g.expr((), depth, dtype)
    return g.make("full", value, shape=shape, dtype=dtype.name)


def _zeros(g, shape, dtype, depth):
    return g.make("zeros", shape=shape, dtype=dtype.name)


def _zeros_like(g, shape, dtype, depth):
    return g.make("zeros_like", g.expr(shape, depth, dtype))


# Reductions and scans.

def _larger(g, shape):
    """A shape with one more axis, that axis, and whether it is kept with size 1 instead."""
    room = 2048 // max(1, _count(shape))
    sizes = [d for d in ((3, 5, 7, 12, 24, 33, 50, 100, 200) if g.odd and g.chance(0.7) else (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)) if d <= room]
    if not sizes:
        raise Reject("too large")
    size = g.choose(sizes)
    kept = [i for i, d in enumerate(shape) if d == 1]
    if kept and g.chance(0.6):
        axis = g.choose(kept)
        return shape[:axis] + (size, ) + shape[axis + 1:], axis, {"keep": True}
    axis = g.random.randint(0, len(shape))
    inner = shape[:axis] + (size, ) + shape[axis:]
    if shape == () and g.chance(0.5):
        inner = (size, ) if g.chance(0.3) or 2 * size > room else (size, 2) if g.chance(0.5) else (2, size)
        return inner, None, {}
    return inner, axis - len(inner) if g.chance(0.3) else axis, {}


def _operand(g, shape, dtype, depth, exact_sums):
    if exact_sums and dtype.is_float:
        return g.small(shape, dtype, depth, 2 if dtype.bits == 16 and _count(shape) > 64 else 8)
    return g.expr(shape, depth, dtype)


def _comparable(g, shape, dtype):
    """Equal values, values of one sign, NaN among them."""
    return g.load(shape, dtype, g.choose(("small", "negative", "full", *(("wild", ) * 3 if dtype.is_float else ()))))


def _reduction(name, exact_sums=False):
    def build(g, shape, dtype, depth):
        inner, axis, attrs = _larger(g, shape)
        if axis is None and name in ("argmax", "argmin", "reduce_or"):
            axis, inner = 0, (_count(inner), )
        x = _operand(g, inner, dtype, depth, exact_sums)
        if name == "sum" and g.chance(0.2):
            to = {"int": I64, "uint": U64, "float": F32, "bool": I32}[dtype.kind]
            attrs = {**attrs, "dtype": to.name}
        if name in ("max", "min", "argmax", "argmin", "xor_sum", "reduce_or") and not g.inside_function and g.chance(0.5):
            x = _comparable(g, inner, dtype)
        if name.startswith("arg") and g.chance(0.25):
            attrs = {**attrs, "any": True}
        return g.make(name, x, axis=axis, **attrs)
    return build


def _with_index(name):
    def build(g, shape, dtype, depth):
        inner, axis, attrs = _larger(g, shape)
        x = _comparable(g, inner, dtype) if not g.inside_function and g.chance(0.5) else g.expr(inner, depth, dtype)
        e = g.make(f"{name}_with_index", x, axis=axis, **attrs)
        return g.make("item", e, index=g.random.randrange(2))
    return build


def _scan(name):
    def build(g, shape, dtype, depth):
        _needs(shape)
        attrs = {"reverse": True} if g.chance(0.4) else {}
        x = _operand(g, shape, dtype, depth, name == "cumsum")
        if name == "cumprod" and dtype.is_float:
            # Powers of two, of which few are not 1.
            x = g.make("where", g.make("eq", g.make("and", g.expr(shape, depth, I32), 31), 0), 2.0 if g.chance(0.5) else -0.5,
                       g.make("full", 1.0, shape=shape, dtype=dtype.name))
        axis = g.random.randrange(len(shape))
        return g.make(name, x, axis=axis - len(shape) if g.chance(0.3) else axis, **attrs)
    return build


def _accepts(kind, dtype):
    if kind in ("int", "int2", "int3"):
        return dtype in INTS and dtype.bits >= 32
    if kind in ("number", "number2", "best"):
        return dtype in (*INTS, F16, F32, F64) and (dtype.bits >= 16)
    if kind == "flag":
        return dtype in (I32, I64, U32)
    return dtype in (*INTS, F16, F32, F64, BOOL)


def _combined(g, shape, dtype, depth, combine):
    kind = COMBINERS[combine][3]
    if kind == "int3":
        return [g.expr(shape, depth, dtype), g.expr(shape, depth, (I32, I64, U32, U64)), g.expr(shape, depth, (I32, I64, U32, U64))]
    if kind == "best":
        x = g.load(shape, dtype, g.choose(("small", "full"))) if not g.inside_function and g.chance(0.6) else g.expr(shape, depth, dtype)
        return [x, g.expr(shape, depth, I32)]
    if kind in ("int2", "number2"):
        other = dtype if kind == "int2" else g.choose([d for d in (I32, F32, dtype) if d is dtype or d.bits >= 32])
        return [g.expr(shape, depth, dtype), g.expr(shape, depth, other)]
    if kind in ("int", "number") and not g.inside_function and g.chance(0.4):
        return [g.load(shape, dtype, g.choose(("full", "negative", "small")))]
    if kind == "flag":
        return [g.expr(shape, depth, dtype), g.make("eq", g.make("and", g.expr(shape, depth, I32), 7), 0)]
    return [g.expr(shape, depth, dtype)]


def _custom_reduce(combine):
    def build(g, shape, dtype, depth):
        inner, axis, attrs = _larger(g, shape)
        operands = _combined(g, inner, dtype, depth, combine)
        e = g.make("reduce", *operands, axis=axis, combine=combine, **attrs)
        return e if len(operands) == 1 else g.make("item", e, index=g.random.randrange(len(operands)))
    return build


def _custom_scan(combine):
    def build(g, shape, dtype, depth):
        _needs(shape)
        operands = _combined(g, shape, dtype, depth, combine)
        axis = g.random.randrange(len(shape))
        e = g.make("scan", *operands, axis=axis, combine=combine, **({"reverse": True} if g.chance(0.4) else {}))
        return e if len(operands) == 1 else g.make("item", e, index=g.random.randrange(len(operands)))
    return build


# Products.

#: Lengths of the sum where sizes are no powers of two.
INNER_ODD = (16, 20, 24, 33, 48, 100)


def _dot(g, shape, dtype, depth):
    if len(shape) not in (2, 3) or shape[-1] > 128 or shape[-2] > 128:
        raise Reject("rank 2 or 3")
    batch, (m, n) = shape[:-2], shape[-2:]
    k = g.choose(INNER_ODD if g.odd or g.chance(0.15) else (16, 32, 32, 64, 64, 128) if dtype.bits == 8 else (16, 32, 64))
    onto_itself = not batch and dtype in (F16, BF16, F32) and n >= 16 and g.chance(0.25)    # x + x @ y
    k = n if onto_itself else k
    limit = 2 if dtype in FP8 else 8
    other = g.choose(FP8) if dtype in FP8 and g.chance(0.4) else dtype
    x, y = (g.expr(s, depth, d) if d is I8 else g.small(s, d, depth, limit) for s, d in ((batch + (m, k), dtype), (batch + (k, n), other)))
    attrs = {}
    if dtype is F32:
        attrs["precision"] = g.choose(("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6", None))
    if dtype is F16 and g.chance(0.3):
        attrs["out"] = "float16"
    operands = [x, y]
    if onto_itself:
        operands[0] = x = g.name_it(x)
        operands.append(g.make("cast", x, dtype=attrs.get("out", "float32")))
    elif g.chance(0.3):
        out = I32 if dtype is I8 else F64 if dtype is F64 else BY_NAME[attrs.get("out", "float32")]
        operands.append(g.expr(shape, depth, out) if out is I32 else g.small(shape, out, depth))
    e = g.make("dot", *operands, **attrs)
    if g.chance(0.3):   # a bias, or a second product
        other = g.small(shape, e.dtype, depth)
        e = g.make("add", e, other) if g.chance(0.5) else g.make("add", other, e)
    return e


def _scaled_operand(g, kind, shape, along, packed):
    """An operand of a scaled product as it is stored, with pairs along `packed`, and its scale or None."""
    stored = list(shape)
    if kind == "e2m1":
        stored[packed] //= 2
    value = g.load(tuple(stored), SCALED[kind], "full" if kind == "e2m1" else "unit")
    if g.chance(0.25):
        return value, None
    scale = g.load((shape[1 - along], shape[along] // 32), U8, "small")
    return value, g.make("add", g.make("and", scale, 3), g.choose((125, 126, 127)))


def _dot_scaled(g, shape, dtype, depth):
    if g.inside_function or len(shape) != 2 or max(shape) > 64 or min(shape) < 16 or any(d & d - 1 for d in shape):
        raise Reject("rank 2")
    (m, n), k = shape, g.choose((32, 64, 64, 128))
    kinds = [kind for kind, stored in SCALED.items() if stored is dtype]
    left, right = kinds[0], g.choose(SCALED)
    attrs = {"left": left, "right": right}
    for kind, key in ((left, "lhs_k_pack"), (right, "rhs_k_pack")):
        if kind == "e2m1" and g.chance(0.2):
            attrs[key] = False
    x, a = _scaled_operand(g, left, (m, k), 1, 1 if attrs.get("lhs_k_pack", True) else 0)
    y, b = _scaled_operand(g, right, (k, n), 0, 0 if attrs.get("rhs_k_pack", True) else 1)
    operands = [x, y, *(s for s in (a, b) if s is not None)]
    if g.chance(0.4):
        operands.append(g.small(shape, F32, depth, 2))
        attrs["positional"] = g.chance(0.5)
    return g.make("dot_scaled", *operands, left_scale=a is not None, right_scale=b is not None, **attrs)


def _dot_of_transposed(g, shape, dtype, depth):
    if len(shape) != 2 or shape[-1] > 128 or shape[-2] > 128:
        raise Reject("rank 2")
    (m, n), k = shape, g.choose(INNER_ODD if g.odd or g.chance(0.15) else (32, 64, 128) if dtype.bits == 8 else (16, 32, 64))
    limit = 2 if dtype in FP8 else 8
    x = g.small((m, k), dtype, depth, limit)
    y = g.make("transpose", g.small((n, k), dtype, depth, limit))
    if g.chance(0.3):
        x = g.make("transpose", g.small((k, m), dtype, depth, limit))
    return g.make("dot", x, y, **({"precision": "ieee"} if dtype is F32 else {}))


# Blocks rearranged.

def _gather(g, shape, dtype, depth):
    _needs(shape)
    axis = g.random.randrange(len(shape))
    size = g.choose((1, 2, 4, 8, 16, 32))
    inner = shape[:axis] + (size, ) + shape[axis + 1:]
    index = g.make("and", g.expr(shape, depth, g.choose((I32, I32, I64, U32))), size - 1)
    return g.make("gather", g.expr(inner, depth, dtype), index, axis=axis - len(shape) if g.chance(0.25) else axis)


def _histogram(g, shape, dtype, depth):
    if len(shape) != 1 or shape[0] > 64:
        raise Reject("rank 1")
    bins = shape[0]
    inner = (g.choose((8, 32, 64, 128, 256)), )
    most = min(1 << (bins.bit_length() - 1), dtype.maximum + 1)
    values = g.make("and", g.expr(inner, depth, dtype), most - 1)
    if g.chance(0.5):
        return g.make("histogram", values, g.make("broadcast_to", g.mask(inner), shape=inner), bins=bins)
    return g.make("histogram", values, bins=bins)


def _flip(g, shape, dtype, depth):
    _needs(shape)
    return g.make("flip", g.expr(shape, depth, dtype), axis=g.random.randrange(len(shape)))


def _sortable(g, shape, dtype, depth):
    return g.load(shape, dtype, g.choose(("small", "full"))) if g.chance(0.5) and not g.inside_function else g.expr(shape, depth, dtype)


def _sort(g, shape, dtype, depth):
    _needs(shape)
    _size(shape)
    axis = len(shape) - 1 if g.chance(0.7) else g.random.randrange(len(shape))
    return g.make("sort", _sortable(g, shape, dtype, depth), axis=axis, **({"descending": True} if g.chance(0.5) else {}))


def _topk(g, shape, dtype, depth):
    _needs(shape)
    _size(shape)
    axis = len(shape) - 1
    inner = shape[:axis] + (shape[axis] * g.choose((1, 2, 4)), )
    return g.make("topk", _sortable(g, inner, dtype, depth), k=shape[axis], axis=axis, **({"least": True} if g.chance(0.3) else {}))


def _slice(g, shape, dtype, depth):
    """Some dimensions of a larger block, from a place, with a step; some lost to a number."""
    inner, items = [], []
    for size in shape:
        kind = g.random.randrange(5)
        if kind == 0 or size > 64:
            inner.append(size)
            items.append((None, None, None))
        elif kind == 1:
            inner.append(2 * size)
            items.append((size, None, None) if g.chance(0.5) else (None, size, None))
        elif kind == 2:
            inner.append(2 * size)
            items.append((g.random.randrange(2), None, 2))
        elif kind == 3:
            inner.append(size)
            items.append((None, None, -1))
        else:
            start = g.random.randint(0, size)
            inner.append(2 * size)
            items.append((start, start + size, None))
    if g.chance(0.5) or not shape:
        axis, size = g.random.randint(0, len(shape)), g.choose((2, 4, 8))
        inner.insert(axis, size)
        items.insert(axis, g.random.randint(-size, size - 1))
    return g.make("slice", g.expr(tuple(inner), depth, dtype), items=items)


# The rest.

def _broadcast(g, shape, dtype, depth):
    _needs(shape)
    inner = tuple(1 if g.chance(0.4) else d for d in shape)
    pair = [g.expr(inner, depth, dtype), g.expr(shape, depth)]
    index = g.random.randrange(2)
    return g.make("item", g.make("broadcast", *(pair if index == 0 else pair[::-1])), index=index)


def _swizzle(g, shape, dtype, depth):
    i, j = (g.make("and", g.expr(shape, depth, I32), 3) for _ in range(2))
    return g.make("item", g.make("swizzle2d", i, j, g.random.randint(4, 6), g.random.randint(4, 7), g.random.randint(1, 4)), index=g.random.randrange(2))


def _random(name):
    def build(g, shape, dtype, depth):
        attrs = {"rounds": 7} if g.chance(0.3) else {}
        e = g.make(name, g.random.randint(0, 2 ** 40), g.expr(shape, depth, dtype), **attrs)
        return g.make("item", e, index=g.random.randrange(4)) if name == "randint4x" else e
    return build


def _load(g, shape, dtype, depth):
    if g.inside_function:
        raise Reject("no pointers here")
    return g.load(shape, dtype, g.choose(("small", "full", "wild")))


def _hint(g, shape, dtype, depth):
    if shape != ():
        raise Reject("a scalar")
    count = g.choose((2, 4, 8, 16))
    return g.make("hint", g.make("mul", g.expr((), depth, dtype), count), name="multiple_of", values=count)


def _assume(g, shape, dtype, depth):
    """A promise that holds: the compiler may believe it."""
    if g.inside_function:
        raise Reject("no arguments here")
    value = g.add_scalar(g.random.choice((3, 16, 64, 100)))
    bound = g.random.choice((0, 1, 3))
    condition = g.make(g.choose(("ge", "gt")), value, bound if g.chance(0.7) else -1)
    if g.chance(0.3):
        condition = g.make("eq", g.make("mod", value, int(value.value.array)), 0)
    g.emit(Effect(g.make("assume", condition).node))
    return None


def _from_view(name):
    return lambda g, shape, dtype, depth: getattr(g, name)(shape, dtype)


def _describe_atomic(name):
    return lambda g, shape, dtype, depth: g.described_atomic(name, dtype)


def _chosen(g, shape, dtype, depth):
    return g.make("chosen", g.condition(), g.expr(shape, depth, dtype), g.expr(shape, depth, dtype))


def _scalar_logic(name):
    def build(g, shape, dtype, depth):
        if shape != ():
            raise Reject("conditions")
        return g.make(name, g.expr((), depth, BOOL), g.expr((), depth, BOOL))
    return build


def _mapped(name):
    def build(g, shape, dtype, depth):
        _needs(shape)
        if name == "m_steps":
            operands = [g.make("and", g.expr(shape, depth, dtype), 63) for _ in range(2)]
        else:
            operands = [g.load(shape, dtype, g.choose(("small", "full"))) if not g.inside_function else g.expr(shape, depth, dtype)
                        for _ in range(2)]
        e = g.make("mapped", *operands, function_name=name)
        return g.make("item", e, index=g.random.randrange(2)) if isinstance(e.value, tuple) else e
    return build


def _asm(name):
    def build(g, shape, dtype, depth):
        _needs(shape)
        e = g.make("asm", g.expr(shape, depth, I32), g.expr(shape, depth, I32), name=name)
        return g.make("item", e, index=g.random.randrange(2)) if isinstance(e.value, tuple) else e
    return build


def _atomic(name):
    def build(g, shape, dtype, depth):
        if g.inside_function:
            raise Reject("no pointers here")
        g.atomic(name, dtype)
        return None
    return build


def _pid(g, shape, dtype, depth):
    if g.inside_function:
        raise Reject("no programs here")
    return g.make("full", g.program_index(), shape=shape, dtype="int32")


#: What combiners accept.
_REDUCED = {c: tuple(d for d in ALL if _accepts(COMBINERS[c][3], d)) for c in COMBINERS}

ROWS = [
    Row("add", (BOOL, *NUMBERS), _binary("add"), 4), Row("sub", NUMBERS, _binary("sub"), 3), Row("mul", NUMBERS, _binary("mul"), 3),
    Row("floordiv", INTS, _divide("floordiv")), Row("mod", NUMBERS, _divide("mod")), Row("cdiv", INTS, _cdiv, 1),
    Row("and", (BOOL, *INTS), _binary("and")), Row("or", (BOOL, *INTS), _binary("or")), Row("xor", (BOOL, *INTS), _binary("xor")),
    Row("shl", INTS, _shift("shl")), Row("shr", INTS, _shift("shr")),
    Row("neg", NUMBERS, _unary("neg")), Row("invert", (BOOL, *INTS), _unary("invert")), Row("abs", (*NUMBERS, *FP8), _unary("abs")),
    *(Row(n, NUMBERS, _binary(n)) for n in ("lt", "le", "gt", "ge", "eq", "ne")),
    Row("maximum", NUMBERS, _binary("maximum")), Row("minimum", NUMBERS, _binary("minimum")), Row("clamp", FLOATS, _clamp),
    Row("where", ALL, _where, 4), Row("fma", (F16, F32, F64), _fma), Row("umulhi", (I32, U32, I64, U64), _binary("umulhi"), 1),
    Row("floor", WIDE, _unary("floor"), 1), Row("ceil", WIDE, _unary("ceil"), 1), Row("sqrt_rn", (F32, ), _sqrt_rn, 1),
    Row("div_rn", (F32, ), _div_rn("div_rn"), 1), Row("fdiv", WIDE, _div_rn("fdiv"), 1),
    Row("cast", ALL, _cast, 6), Row("bitcast", (*INTS, *FLOATS, *FP8), _bitcast), Row("cast_rtz", FLOATS, _cast_rtz, 1),
    Row("through8", FLOATS, _through8, 1),
    Row("reshape", ALL, _reshape, 3), Row("ravel", ALL, _ravel, 1, False), Row("permute", ALL, _permute, 3, False),
    Row("transpose", ALL, _transpose, 3, False), Row("broadcast_to", ALL, _broadcast_to, 2, False),
    Row("expand_dims", ALL, _grow("expand_dims"), 1, False), Row("index", ALL, _grow("index"), 3, False),
    Row("unsqueeze", ALL, _grow("unsqueeze"), 1, False), Row("squeeze", ALL, _squeeze, 1, False),
    Row("join", ALL, _join, 2, False), Row("interleave", ALL, _interleave, 2, False), Row("split", ALL, _split, 2),
    Row("cat", ALL, _cat, 2, False),
    Row("arange", (I32, ), _arange, 1, False), Row("full", ALL, _full, 1), Row("zeros", ALL, _zeros, 1), Row("zeros_like", ALL, _zeros_like, 1),
    Row("sum", NUMBERS, _reduction("sum", True), 4), Row("max", NUMBERS, _reduction("max"), 3), Row("min", NUMBERS, _reduction("min"), 3),
    Row("argmax", NUMBERS, _reduction("argmax"), 2), Row("argmin", NUMBERS, _reduction("argmin"), 2),
    Row("xor_sum", INTS, _reduction("xor_sum")), Row("reduce_or", INTS, _reduction("reduce_or"), 1),
    Row("max_with_index", NUMBERS, _with_index("max")), Row("min_with_index", NUMBERS, _with_index("min")),
    Row("cumsum", NUMBERS, _scan("cumsum"), 4, False), Row("cumprod", NUMBERS, _scan("cumprod"), 2, False),
    *(Row(f"reduce:{c}", _REDUCED[c], _custom_reduce(c), 1) for c in COMBINERS),
    *(Row(f"scan:{c}", _REDUCED[c], _custom_scan(c), 1, False) for c in COMBINERS),
    Row("dot", (I8, F16, BF16, F32, F64, *FP8), _dot, 4, False),
    Row("dot_of_transposed", (I8, F16, BF16, F32, F64, *FP8), _dot_of_transposed, 2, False),
    Row("gather", ALL, _gather, 2, False), Row("histogram", INTS, _histogram, 1, False), Row("flip", ALL, _flip, 1, False),
    Row("sort", NUMBERS, _sort, 1, False), Row("topk", NUMBERS, _topk, 1, False), Row("slice", ALL, _slice, 2, True),
    Row("broadcast", ALL, _broadcast, 1, False), Row("swizzle2d", (I32, ), _swizzle, 1),
    Row("logical_and", (BOOL, *INTS), _binary_of_same("logical_and"), 1), Row("logical_or", (BOOL, *INTS), _binary_of_same("logical_or"), 1),
    Row("randint", (I32, U32), _random("randint"), 1), Row("randint4x", (I32, U32), _random("randint4x"), 1),
    Row("rand", (I32, U32), _random("rand"), 1),
    Row("load", ALL, _load, 3, False, True), 
    Row("described", (*INTS, *FLOATS, *FP8), _from_view("described_load"), 1, False, True),
    Row("describe_gather", (*INTS, *FLOATS), _from_view("described_gather"), 1, False, True),
    Row("windowed", ALL[1:], _from_view("windowed_load"), 1, False, True),
    Row("assume", (BOOL, ), _assume, 0, False, True), Row("hint", (I32, I64), _hint, 1), Row("pid", (I32, ), _pid, 1, False, True),
    *(Row(f"atomic_{n}", [BY_NAME[d] for d in atomic_dtypes(n if n != "cas" else "xchg")], _atomic(n), 0, False, True)
      for n in ("add", "max", "min", "and", "or", "xor", "xchg", "cas", "load", "store")),
    *(Row(f"describe_atomic_{n}", [BY_NAME[d] for d in names], _describe_atomic(n), 0, False, True) for n, names in DESCRIBED_ATOMICS.items()),
    Row("dot_scaled", SCALED.values(), _dot_scaled, 1, False, True),
    Row("chosen", ALL, _chosen, 1), Row("both", (BOOL, ), _scalar_logic("both"), 1), Row("either", (BOOL, ), _scalar_logic("either"), 1),
    *(Row(f"mapped:{n}", (I32, I64, U32) if n == "m_steps" else (I32, U32, I64, F32, F64), _mapped(n), 1, False) for n in MAPPED),
    *(Row(f"asm:{n}", (I32, ), _asm(n), 0, False) for n in ASSEMBLY),
]


#: For builds that lack some of them, in a search for the commit that broke something: names separated by commas.
_WITHOUT = os.environ.get("NEREID_GENERATOR_WITHOUT", "").split(",")
ROWS = [row for row in ROWS if row.name not in _WITHOUT]


# Statements that give several results.

def _split_statement(g, shape, dtype, depth):
    g.unpack(g.make("split", g.expr(shape + (2, ), depth)))


def _index_statement(g, shape, dtype, depth):
    inner, axis, attrs = _larger(g, shape)
    g.unpack(g.make(g.choose(("max_with_index", "min_with_index")), g.expr(inner, depth, NUMBERS), axis=axis, **attrs))


def _reduce_statement(g, shape, dtype, depth):
    combine = g.choose([c for c in COMBINERS if COMBINERS[c][1] > 1])
    inner, axis, attrs = _larger(g, shape)
    operands = _combined(g, inner, g.choose(_REDUCED[combine]), depth, combine)
    g.unpack(g.make("reduce", *operands, axis=axis, combine=combine, **attrs))


def _scan_statement(g, shape, dtype, depth):
    _needs(shape)
    combine = g.choose([c for c in COMBINERS if COMBINERS[c][1] > 1])
    operands = _combined(g, shape, g.choose(_REDUCED[combine]), depth, combine)
    g.unpack(g.make("scan", *operands, axis=g.random.randrange(len(shape)), combine=combine, **({"reverse": True} if g.chance(0.4) else {})))


def _random_statement(g, shape, dtype, depth):
    g.unpack(g.make("randint4x", g.random.randint(0, 2 ** 40), g.expr(shape, depth, I32)))


TUPLE_ROWS = [Row(build.__name__, (), build) for build in (_split_statement, _index_statement, _reduce_statement, _scan_statement, _random_statement)]

APPROXIMATE = ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "sigmoid", "softmax", "div")
