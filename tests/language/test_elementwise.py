"""Elementwise builtins and operators: builtin x dtype x rank, mask and stride class, against float64 or exact integers."""

import dataclasses
import math
import typing

import numpy as np
import pytest

import access
import harness
from harness import BOOL, DTYPES, FLOATS, INTS, SIGNED, WIDE_FLOATS

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _c_div(a, b):
    """Division that truncates, as C's."""
    q = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -q, q) if a.dtype.kind == "i" else a // b


def _c_rem(a, b):
    return a - _c_div(a, b) * b


def _umulhi(a, b, bits):
    return np.array([(int(x) * int(y)) >> bits for x, y in zip(a.ravel(), b.ravel())], dtype=np.uint64).reshape(a.shape)


@dataclasses.dataclass
class Op:
    name: str          #: of the builtin, or of the operator
    text: str          #: expression on x0, x1, x2
    arity: int
    dtypes: list
    reference: typing.Callable
    result: typing.Callable = lambda d: d  #: dtype of the result from that of the operands
    low: float | None = None               #: domain of the operands
    high: float | None = None
    ulp: float = 1.0
    atol: float = 0.0
    nonzero_last: bool = False
    nan: bool = False                      #: NaN among the data


def to_bool(_):
    return BOOL


OPS = [
    Op("add", "x0 + x1", 2, INTS + FLOATS, lambda a, b: a + b),
    Op("add", "tl.add(x0, x1)", 2, INTS + FLOATS, lambda a, b: a + b),
    Op("sub", "x0 - x1", 2, INTS + FLOATS, lambda a, b: a - b),
    Op("sub", "tl.sub(x0, x1)", 2, INTS + FLOATS, lambda a, b: a - b),
    Op("mul", "x0 * x1", 2, INTS + FLOATS, lambda a, b: a * b),
    Op("mul", "tl.mul(x0, x1)", 2, INTS + FLOATS, lambda a, b: a * b),
    Op("truediv", "x0 / x1", 2, WIDE_FLOATS, lambda a, b: a / b, ulp=2, nonzero_last=True),
    Op("truediv", "(x0 / x1).to(x0.dtype)", 2, [d for d in FLOATS if d.bits == 16], lambda a, b: a / b, nonzero_last=True),
    Op("floordiv", "x0 // x1", 2, INTS, _c_div, nonzero_last=True),
    Op("mod", "x0 % x1", 2, INTS, _c_rem, nonzero_last=True),
    Op("mod", "x0 % x1", 2, WIDE_FLOATS, np.fmod, nonzero_last=True),
    Op("and", "x0 & x1", 2, INTS + [BOOL], lambda a, b: a & b),
    Op("or", "x0 | x1", 2, INTS + [BOOL], lambda a, b: a | b),
    Op("xor", "x0 ^ x1", 2, INTS + [BOOL], lambda a, b: a ^ b),
    Op("invert", "~x0", 1, INTS, lambda a: ~a),
    Op("neg", "-x0", 1, SIGNED + FLOATS, lambda a: -a),
    Op("shl", "x0 << 3", 1, INTS, lambda a: a << a.dtype.type(3)),
    Op("shr", "x0 >> 3", 1, INTS, lambda a: a >> a.dtype.type(3)),
    Op("lt", "x0 < x1", 2, INTS + FLOATS, lambda a, b: a < b, to_bool),
    Op("le", "x0 <= x1", 2, INTS + FLOATS, lambda a, b: a <= b, to_bool),
    Op("gt", "x0 > x1", 2, INTS + FLOATS, lambda a, b: a > b, to_bool),
    Op("ge", "x0 >= x1", 2, INTS + FLOATS, lambda a, b: a >= b, to_bool),
    Op("eq", "x0 == x1", 2, INTS + FLOATS, lambda a, b: a == b, to_bool, low=0, high=3, nan=True),
    Op("ne", "x0 != x1", 2, INTS + FLOATS, lambda a, b: a != b, to_bool, low=0, high=3, nan=True),
    Op("logical_and", "(x0 > 0).logical_and(x1 > 0)", 2, SIGNED, lambda a, b: (a > 0) & (b > 0), to_bool),
    Op("logical_or", "(x0 > 0).logical_or(x1 > 0)", 2, SIGNED, lambda a, b: (a > 0) | (b > 0), to_bool),
    Op("detach", "tl.detach(x0)", 1, INTS + FLOATS, lambda a: a),
    Op("recompute", "tl.recompute(x0)", 1, INTS + FLOATS, lambda a: a),
    Op("with_tangent", "tl.with_tangent(x0, x1)", 2, FLOATS, lambda a, b: a),
    Op("where", "tl.where(x0 > x1, x0, x2)", 3, INTS + FLOATS, lambda a, b, c: np.where(a > b, a, c)),
    Op("minimum", "tl.minimum(x0, x1).to(x0.dtype)", 2, INTS + FLOATS, np.fmin, nan=True),
    Op("maximum", "tl.maximum(x0, x1).to(x0.dtype)", 2, INTS + FLOATS, np.fmax, nan=True),
    Op("minimum", "tl.minimum(x0, x1, propagate_nan=tl.PropagateNan.ALL).to(x0.dtype)", 2, FLOATS, np.minimum, nan=True),
    Op("maximum", "tl.maximum(x0, x1, propagate_nan=tl.PropagateNan.ALL).to(x0.dtype)", 2, FLOATS, np.maximum, nan=True),
    Op("clamp", "tl.clamp(x0, -2.0, 3.0).to(x0.dtype)", 1, FLOATS, lambda a: np.clip(a, -2, 3)),
    Op("abs", "tl.abs(x0)", 1, INTS + FLOATS, np.abs),
    Op("fma", "tl.fma(x0, x1, x2)", 3, WIDE_FLOATS, lambda a, b, c: a * b + c, ulp=2, atol=1e-5),
    Op("umulhi", "tl.umulhi(x0, x1)", 2, [DTYPES["uint32"]], lambda a, b: _umulhi(a, b, 32)),
    Op("umulhi", "tl.umulhi(x0, x1)", 2, [DTYPES["uint64"]], lambda a, b: _umulhi(a, b, 64)),
    Op("fdiv", "tl.fdiv(x0, x1)", 2, WIDE_FLOATS, lambda a, b: a / b, ulp=2, nonzero_last=True),
    Op("div_rn", "tl.div_rn(x0, x1)", 2, [DTYPES["float32"]], lambda a, b: a / b, ulp=0.5001, nonzero_last=True),
    Op("sqrt_rn", "tl.sqrt_rn(x0)", 1, [DTYPES["float32"]], np.sqrt, low=0, high=100, ulp=0.5001),
    Op("cdiv", "tl.cdiv(x0, 3)", 1, [DTYPES["int32"], DTYPES["int64"]], lambda a: -(-a // 3), low=0, high=1000),
    Op("exp", "tl.exp(x0)", 1, WIDE_FLOATS, np.exp, ulp=2),
    Op("exp2", "tl.exp2(x0)", 1, WIDE_FLOATS, np.exp2, ulp=4),
    Op("log", "tl.log(x0)", 1, WIDE_FLOATS, np.log, low=1e-3, high=1e3, ulp=2),
    Op("log2", "tl.log2(x0)", 1, WIDE_FLOATS, np.log2, low=1e-3, high=1e3, ulp=4),
    Op("sin", "tl.sin(x0)", 1, WIDE_FLOATS, np.sin, low=-100, high=100, ulp=2),
    Op("cos", "tl.cos(x0)", 1, WIDE_FLOATS, np.cos, low=-100, high=100, ulp=2),
    Op("sqrt", "tl.sqrt(x0)", 1, WIDE_FLOATS, np.sqrt, low=0, high=100, ulp=2),
    Op("rsqrt", "tl.rsqrt(x0)", 1, WIDE_FLOATS, lambda a: 1 / np.sqrt(a), low=1e-3, high=100, ulp=4),
    Op("erf", "tl.erf(x0)", 1, WIDE_FLOATS, _erf, low=-5, high=5, ulp=2),
    Op("floor", "tl.floor(x0)", 1, WIDE_FLOATS, np.floor),
    Op("ceil", "tl.ceil(x0)", 1, WIDE_FLOATS, np.ceil),
    Op("sigmoid", "tl.sigmoid(x0)", 1, WIDE_FLOATS, lambda a: 1 / (1 + np.exp(-a)), ulp=6),
    Op("math", "tl.math.exp(x0)", 1, WIDE_FLOATS, np.exp, ulp=2),
    Op("method", "x0.exp()", 1, WIDE_FLOATS, np.exp, ulp=2),
    Op("method", "x0.abs()", 1, FLOATS, np.abs),
    Op("to_tensor", "x0 + tl.to_tensor(1)", 1, [DTYPES["int32"]], lambda a: a + 1),
    Op("multiple_of", "tl.multiple_of(x0, 1)", 1, SIGNED, lambda a: a),
]

SCALAR_HINTS = {"multiple_of"}  # block hints take one number per dimension
CASES = [pytest.param(op, dtype, acc, id=f"{op.name}-{i}-{dtype}-{acc}")
         for i, op in enumerate(OPS) for dtype in op.dtypes
         for acc in ([access.SCALAR] if op.name in SCALAR_HINTS else
                     access.EVERY if dtype.name in ("int32", "float32") else access.FEW)]

COVERED = {op.name for op in OPS}


@pytest.mark.overflows("its integers wrap on purpose")
@pytest.mark.parametrize("op,dtype,acc", CASES)
def test_elementwise(op, dtype, acc, target):
    data = [harness.values(dtype, acc.shape, seed=i, low=op.low, high=op.high) for i in range(op.arity)]
    if op.nonzero_last:
        data[-1] = np.where(data[-1] == 0, data[-1].dtype.type(1), data[-1])
        if dtype.kind == "int":  # the one quotient that overflows
            data[-1] = np.where(data[-1] == -1, data[-1].dtype.type(1), data[-1])
    if op.nan and dtype.is_float:
        data[0].flat[1] = np.nan
        data[-1].flat[2] = np.nan
    out = op.result(dtype)
    got, = acc.run(op.text, data, [dtype] * op.arity, [out])
    with np.errstate(all="ignore"):
        want = op.reference(*data)
    harness.check(got, want, out, op.ulp, op.atol)


SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 88.7, -103.0, 1e5, -1e5, 1e9]
SPECIAL_OPS = {"exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin, "cos": np.cos, "sqrt": np.sqrt,
               "erf": _erf, "floor": np.floor, "ceil": np.ceil, "abs": np.abs}


@pytest.mark.parametrize("name", SPECIAL_OPS)
def test_special_values(name, target):
    f32 = DTYPES["float32"]
    data = np.array(SPECIAL, dtype=np.float32).astype(np.float64)
    acc = access.Access("special", (16,), (16,))
    got, = acc.run(f"tl.{name}(x0)", [data], [f32], [f32])
    with np.errstate(all="ignore"):
        want = SPECIAL_OPS[name](data)
    harness.check(got, want, f32, 4 if name in ("exp2", "log2") else 2)


@pytest.mark.parametrize("text,want", [
    ("-x0", [np.copysign(1, -v) for v in (0.0, -0.0, 2.0, -2.0)]),
    ("0 - x0", [1, 1, -1, 1]),
])
def test_sign_of_zero(text, want, target):
    """Unary minus is a sign flip; a subtraction from zero is not."""
    f32 = DTYPES["float32"]
    got, = access.Access("zeros", (4,), (4,)).run(text, [np.array([0.0, -0.0, 2.0, -2.0])], [f32], [f32])
    np.testing.assert_array_equal(np.copysign(1, got.numpy()), want)
