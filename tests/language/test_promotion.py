"""Result types of binary operators: every pair of dtypes against the rules, written down here a second time."""

import itertools

import numpy as np
import pytest

import access
import harness
from harness import DTYPES, FLOATS, INTS

RANK = {"float64": 4, "float32": 3, "float16": 2, "bfloat16": 1}


def arithmetic(a, b):
    """Type of a + b for two blocks."""
    if a.is_float or b.is_float:
        floats = [d for d in (a, b) if d.is_float]
        if len(floats) == 2:
            return max(floats, key=lambda d: RANK[d.name])
        return DTYPES["float32"] if floats[0].name == "bfloat16" else floats[0]
    if a.kind == b.kind:
        return max(a, b, key=lambda d: d.bits)
    unsigned, signed = (a, b) if a.kind == "uint" else (b, a)
    return unsigned if unsigned.bits >= signed.bits else signed


@pytest.mark.parametrize("a,b", itertools.product(INTS + FLOATS, repeat=2), ids=str)
def test_sum_type_and_value(a, b, target):
    want_type = arithmetic(a, b)
    x, y = harness.values(a, (16,), 1, low=0, high=5), harness.values(b, (16,), 2, low=0, high=5)
    acc = access.Access("pair", (16,), (16,))
    prologue = ""
    text = "check(x0 + x1)"
    prologue = f"@triton.jit\ndef check(r):\n    tl.static_assert(r.dtype == tl.{want_type})\n    return r\n\n"
    got, = acc.run(text, [x, y], [a, b], [want_type], prologue)
    harness.check(got, x.astype(np.float64) + y.astype(np.float64) if want_type.is_float else x.astype(np.int64) + y.astype(np.int64),
                  want_type, 1)


@pytest.mark.overflows("its integers wrap on purpose")
@pytest.mark.parametrize("expression,dtype,want", [
    ("x + 7", "int8", "int8"), ("x + 1.5", "int32", "float32"), ("x + 1", "float16", "float16"), ("x * 2.5", "bfloat16", "bfloat16"),
    ("x / 2", "float16", "float32"), ("x / 2", "bfloat16", "float32"), ("x / 2", "int32", "float32"), ("x / x", "int64", "float32"),
    ("x + True", "int16", "int16"), ("x < 300", "int8", "int1"), ("x % 2.0", "float16", "float32"), ("tl.maximum(x, 1)", "int8", "int32"),
    ("x + s", "float16", "float32"), ("tl.where(x > 0, x, 0)", "float16", "float16"), ("x + 4294967295", "uint32", "uint32"),
    ("tl.sum(x, axis=0)", "int8", "int32"), ("tl.sum(x, axis=0)", "uint8", "uint32"), ("tl.sum(x, axis=0)", "float16", "float16"),
    ("tl.max(x, axis=0)", "bfloat16", "float32"), ("tl.max(x, axis=0)", "int8", "int32"), ("tl.cumsum(x, axis=0)", "bfloat16", "float32"),
    ("x.to(tl.float32)", "float16", "float32"), ("tl.arange(0, 16)", "int8", "int32"), ("tl.program_id(0)", "int8", "int32"),
])
def test_result_type(expression, dtype, want, target):
    kernel = harness.make(f"""@triton.jit
def kernel(x_ptr, s):
    x = tl.load(x_ptr + tl.arange(0, 16))
    r = {expression}
    tl.static_assert(r.dtype == tl.{want}, "unexpected type")
""")
    kernel[(1,)](harness.to_tensor(harness.values(DTYPES[dtype], (16,)), DTYPES[dtype]), 1.5)


@pytest.mark.parametrize("literal,want", [
    ("1", "int32"), ("2147483647", "int32"), ("2147483648", "uint32"), ("4294967296", "int64"), ("9223372036854775808", "uint64"),
    ("1.5", "float32"), ("1e50", "float64"), ("True", "int1"), ("-1", "int32"), ("-2147483649", "int64"), ("1e-50", "float64"),
])
def test_literal_type(literal, want, target):
    harness.make(f"""@triton.jit
def kernel():
    x = {literal}
    tl.static_assert(x.dtype == tl.{want})
""")[(1,)]()


@pytest.mark.parametrize("expression,want", [
    ("-7 // 2", -4), ("-7 % 2", 1), ("7 // 2", 3), ("2 ** 10", 1024), ("1 << 4", 16), ("~5", -6), ("7 & 3", 3), ("(1 if 3 > 2 else 0)", 1),
    ("min(3, 5)", 3), ("max(3, 5)", 5), ("len((1, 2, 3))", 3), ("int(2.9)", 2),
])
def test_known_arithmetic_is_pythons(expression, want, target):
    out = harness.empty(DTYPES["int32"], (1,))
    harness.make(f"""@triton.jit
def kernel(out):
    x: tl.constexpr = {expression}
    tl.static_assert(x == {want})
    tl.store(out, x)
""")[(1,)](out)
    assert out.item() == want


@pytest.mark.parametrize("expression,want", [("x // 2", -3), ("x % 2", -1), ("x >> 1", -4), ("(x.to(tl.uint32) >> 1).to(tl.int32)", 2147483644)])
def test_run_time_arithmetic_is_cs(expression, want, target):
    out = harness.empty(DTYPES["int32"], (1,))
    harness.make(f"""@triton.jit
def kernel(out, x):
    tl.store(out, {expression})
""")[(1,)](out, -7)
    assert out.item() == want
