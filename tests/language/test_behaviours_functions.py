"""Behaviours that are easily got wrong, 36 to 48 of the list that the suite follows: values and types of names, control flow, functions,
arguments, globals."""

import sys
import warnings

import numpy as np
import pytest
import torch

import harness
from nereid.errors import CompilationError


def run(body, *args, prologue="", out=None, decorator="@triton.jit", parameters=None, **options):
    """Runs a kernel body over arguments a, b, c, and returns what it stored to `out`."""
    parameters = parameters or ", ".join("abc"[:len(args)])
    out = torch.full((1,), -77, dtype=torch.int64) if out is None else out
    text = "\n".join("    " + line for line in body.strip("\n").splitlines())
    harness.make(f"{prologue}\n{decorator}\ndef kernel(out, {parameters}):\n{text}\n")[(1,)](out, *args, **options)
    return out.item() if out.numel() == 1 else out.tolist()


def refused(body, text, prologue="", args=(7,), parameters="a"):
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    kernel = harness.make(f"{prologue}\n@triton.jit\ndef kernel(out, {parameters}):\n{lines}\n", "kernel")
    with pytest.raises(CompilationError, match=text):
        kernel.warmup(torch.zeros(16, dtype=torch.int64), *args, grid=(1,))


# ---- 36 -------------------------------------------------------------------------------------------------

PLAIN = {
    "plain assignment": ("x = 3\ntl.static_assert(isinstance(x, tl.tensor))\ntl.static_assert(x.dtype == tl.int32)\n"
                         "tl.store(out, x.to(tl.int64) << 40)", 3 << 40),
    "constexpr": ("x: tl.constexpr = 3\ntl.static_assert(not isinstance(x, tl.tensor))\ntl.store(out, x ** 3)", 27),
    "walrus": ("y = (x := 3) + a\ntl.static_assert(isinstance(x, tl.tensor))\ntl.store(out, x + y)", 13),
    "tuple assignment": ("x, y = 3, 4\ntl.static_assert(isinstance(x, tl.tensor) and isinstance(y, tl.tensor))\ntl.store(out, x * 10 + y)", 34),
    "bare annotation": ("x: tl.constexpr\nif a is None:\n    x = 3\nelse:\n    x = 4\ntl.static_assert(not isinstance(x, tl.tensor))\n"
                        "tl.store(out, x)", 4),
    "truncating division": ("x = -7\ntl.store(out, x // 2)", -3),
    "flooring division": ("x: tl.constexpr = -7\ntl.store(out, x // 2)", -4),
    "a plain name as a shape": ("N = 16\ntl.store(out, tl.sum(tl.arange(0, N)))", 120),
}


@pytest.mark.parametrize("name", PLAIN)
def test_36_plain_numbers_are_tensors(name, target):
    body, want = PLAIN[name]
    assert run(body, 7) == want


def test_36_constexpr_cannot_be_assigned_again():
    refused("x: tl.constexpr = 3\nx: tl.constexpr = 4", "the constexpr `x` already has a value: use another name")
    refused("x: tl.constexpr = 3\nfor i in range(a):\n    x = x + 1", "the constexpr `x` already has a value: use another name")


def test_36_what_triton_lets_pass_as_constexpr(target):
    """A plain assignment makes a variable of the name; run-time values may be called constexpr, also as arguments of a function."""
    assert run("x: tl.constexpr = 3\nx = x + a\nfor i in range(2):\n    x += 1\ntl.store(out, x)", 7) == 12
    assert run("x: tl.constexpr = a + 1\ny: tl.constexpr = tl.arange(0, 4) * x\ntl.store(out, tl.sum(y))", 7) == 48
    out = torch.zeros(1, dtype=torch.int32)
    harness.make("""@triton.jit
def inner(acc, offs: tl.constexpr, limit: tl.constexpr, BLOCK: tl.constexpr):
    for start in range(0, limit, BLOCK):
        acc += tl.where(start + offs < limit, offs, 0)
    return acc


@triton.jit
def kernel(out, n, BLOCK: tl.constexpr):
    tl.store(out, tl.sum(inner(tl.zeros([BLOCK], tl.int32), tl.arange(0, BLOCK), n, BLOCK)))
""")[(1, )](out, 6, BLOCK=4)
    assert out.item() == 7


# ---- 37 -------------------------------------------------------------------------------------------------

LITERALS = {"3": "int32", "-1": "int32", "2**31": "uint32", "2**32 - 1": "uint32", "2**32": "int64", "2**40": "int64", "-2**31": "int32",
            "-2**31 - 1": "int64", "2**63": "uint64", "True": "int1", "1.5": "float32", "1e50": "float64", "1e-50": "float64",
            "0.0": "float32", "float('inf')": "float32", "float('nan')": "float32", "3e38": "float32"}


def test_37_types_of_literals(target):
    body = "\n".join(f"x{i} = {text}\ntl.static_assert(x{i}.dtype == tl.{dtype})" for i, (text, dtype) in enumerate(LITERALS.items()))
    assert run(body + "\ntl.store(out, a)", 7) == 7


# ---- 38 -------------------------------------------------------------------------------------------------


def test_38_bounds_beyond_32_bits(target):
    assert run("r = a * 0\nfor i in range(a, a + 3):\n    r += i\ntl.store(out, r)", 2**40) == 3 * 2**40 + 3


@pytest.mark.parametrize("a, want", [(10, 10 + 7 + 4 + 1), (0, 0), (-5, 0)])
def test_38_negative_known_step(a, want, target):
    assert run("r = 0\nfor i in range(a, 0, -3):\n    r += i\ntl.store(out, r)", a) == want


def test_38_the_body_cannot_change_the_iteration(target):
    assert run("r = 0\nfor i in range(0, a):\n    i += 100\n    r += i\ntl.store(out, r)", 3) == 303


def test_38_zero_trips(target):
    assert run("r = 5\nfor i in range(a, 3):\n    r = i\ntl.store(out, r)", 3) == 5


# ---- 39 -------------------------------------------------------------------------------------------------


def test_39_types_stay_in_loops():
    refused("x = a\nfor i in range(a):\n    x = 1.5\ntl.store(out, x)",
            "Loop-carried variable x has initial type int32 but is re-assigned to fp32 in loop! Please make sure that the type stays consistent")


def test_39_temporaries_of_bodies(target):
    assert run("r = 0\nfor i in range(a):\n    t = i * 2\n    if i > 2:\n        t2 = t + 1\n        r += t2\ntl.store(out, r)", 5) == 7 + 9


def test_39_names_of_a_body_end_with_it():
    refused("for i in range(a):\n    t = i\ntl.store(out, t)", "`t` is not defined here: it is first assigned inside the loop")


# ---- 40 -------------------------------------------------------------------------------------------------


def test_40_loaded_condition(target):
    data = torch.tensor([3, 1, 4, 1, 5, 0, 9], dtype=torch.int32)
    assert run("i = 0\nwhile tl.load(a + i) != 0:\n    i += 1\ntl.store(out, i)", data) == 5


def test_40_nested_while_and_tuples(target):
    body = "t = (0, (1, a))\nwhile t[0] < a:\n    j = 0\n    while j < 3:\n        j += 1\n        t = (t[0] + 1, (t[1][0] * 2, t[1][1] - 1))\n"
    assert run(body + "tl.store(out, t[0] * 1000 + t[1][0] * 10 + t[1][1] + 100)", 4) == 6 * 1000 + 64 * 10 - 2 + 100


# ---- 41 -------------------------------------------------------------------------------------------------

EARLY = '''
@triton.jit
def sign(x):
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0

@triton.jit
def first(x, WHICH: tl.constexpr):
    if WHICH:
        return x
    return x * 2

@triton.jit
def stored(out, x):
    if x > 5:
        tl.store(out, 1)
        return
    tl.store(out, 2)
'''


@pytest.mark.parametrize("a", [-3, 0, 9])
def test_41_early_return_of_a_callee(a, target):
    assert run("tl.store(out, sign(a))", a, prologue=EARLY) == (a > 0) - (a < 0)


@pytest.mark.parametrize("a, want", [(9, 1), (3, 2)])
def test_41_early_return_without_a_value(a, want, target):
    assert run("stored(out, a)", a, prologue=EARLY) == want


def test_41_return_under_a_known_condition(target):
    assert run("tl.store(out, first(a, True) * 100 + first(a, False))", 7, prologue=EARLY) == 714


def test_41_nothing_after_a_known_return_is_compiled(target):
    assert run("tl.store(out, a)\nif True:\n    return\nthis_name_does_not_exist()", 7) == 7


@pytest.mark.parametrize("a, want", [(9, -77), (3, 3)])
def test_41_early_return_of_a_kernel(a, want, target):
    assert run("if a > 5:\n    return\ntl.store(out, a)", a) == want


def test_41_return_in_loops_in_strict_mode(monkeypatch):
    monkeypatch.setenv("NEREID_STRICT", "1")
    refused("for i in range(a):\n    if i > 3:\n        return\ntl.store(out, a + 123)", "annot have `return` statements inside `while` or `for`")


# ---- 42 -------------------------------------------------------------------------------------------------

RETURNS = '''
@triton.jit
def mixed(x):
    if x > 3:
        return x
    return 5

@triton.jit
def known(FLAG: tl.constexpr):
    if FLAG:
        return 16
    return 32

@triton.jit
def clashing(x):
    if x > 3:
        return x
    return x.to(tl.float32)
'''


@pytest.mark.parametrize("a, want", [(2, 5), (9, 9)])
def test_42_constants_and_tensors(a, want, target):
    assert run("tl.store(out, mixed(a))", a, prologue=RETURNS) == want


def test_42_known_results_stay_known(target):
    assert run("tl.store(out, tl.sum(tl.full((known(True),), 1, tl.int32)) + known(False))", 7, prologue=RETURNS) == 48


def test_42_mismatch_names_call_and_returns():
    with pytest.raises(CompilationError, match="Inconsistent return types: int32 and fp32") as info:
        harness.make(f"{RETURNS}\n@triton.jit\ndef kernel(out, a):\n    tl.store(out, clashing(a))\n", "kernel").warmup(
            torch.zeros(1, dtype=torch.int64), 7, grid=(1,))
    text = str(info.value)
    assert "return x.to(tl.float32)" in text and "the other `return` gives int32" in text and "clashing(a)" in text


# ---- 43 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pointer, want", [(None, 0), (torch.tensor([5], dtype=torch.int32), 1)], ids=["none", "pointer"])
def test_43_known_operands_decide_first(pointer, want, target):
    assert run("r = 0\nif a is not None and tl.load(a) > 0:\n    r = 1\ntl.store(out, r)", pointer) == want


def test_43_operands_are_results(target):
    assert run("t = () or (1, a)\nu = t and (a, 3)\ntl.store(out, t[1] * 10 + u[1])", 7) == 73


def test_43_or_of_scalars(target):
    assert run("r = 0\nif a > 100 or a < 10:\n    r = 1\nif a > 3 and not a == 7:\n    r += 2\ntl.store(out, r)", 7) == 1


# ---- 44 -------------------------------------------------------------------------------------------------


def test_44_one_element_warns():
    code = """
if tl.full((1,), 1, tl.int32) > 0:
    tl.store(out, a)
"""
    lines = "\n".join("    " + line for line in code.strip().splitlines())
    kernel = harness.make(f"@triton.jit\ndef kernel(out, a):\n{lines}\n", "kernel")
    out = torch.zeros(1, dtype=torch.int64)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        kernel[(1,)](out, 7)
    assert out.item() == 7


def test_44_larger_blocks_are_refused():
    refused("if tl.arange(0, 16) > 3:\n    tl.store(out, a)", "a condition must be a scalar")


@pytest.mark.parametrize("a, want", [(9, 9), (2, 100)])
def test_44_conditional_expression_of_a_tensor_and_a_constant(a, want, target):
    assert run("tl.store(out, a if a > 5 else 100)", a) == want


@pytest.mark.parametrize("a, want", [(9, 1), (2, -77)])
def test_44_conditional_expression_of_effects(a, want, target):
    assert run("tl.store(out, 1) if a > 5 else None", a) == want


# ---- 45 -------------------------------------------------------------------------------------------------

NOINLINE = '''
@triton.jit(noinline=True)
def scaled(x, y):
    return x * y + 1

@triton.jit(noinline=True)
def block(n):
    return tl.arange(0, 16) * n
'''


def test_45_noinline_functions_of_scalars(target):
    assert run("tl.store(out, scaled(a, 3) + scaled(a, 4))", 7, prologue=NOINLINE) == 22 + 29


def test_45_noinline_functions_may_return_blocks(target):
    assert run("tl.store(out, tl.sum(block(a)))", 7, prologue=NOINLINE) == 120 * 7


def test_45_blocks_are_refused():
    refused("tl.store(out, tl.sum(scaled(tl.arange(0, 16), 3)))", "is marked noinline, but was called with non-scalar argument", NOINLINE)


# ---- 46 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value, dtype", [(2**31 - 1, "int32"), (2**31, "int64"), (-2**31 - 1, "int64"), (2**63 - 1, "int64"),
                                          (2**63, "uint64"), (2**64 - 1, "uint64"), (0, "int32"), (True, "int1"), (1.0, "float32"),
                                          (2, "int32")])
def test_46_types_of_arguments(value, dtype, target):
    assert run(f"tl.static_assert(a.dtype == tl.{dtype})\ntl.store(out, 1)", value) == 1


def test_46_one_is_known(target):
    assert run("tl.store(out, tl.sum(tl.full((a * 8,), 1, tl.int32)))", 1) == 8


def test_46_annotated_integers_are_not_folded(target):
    assert run("tl.static_assert(a.dtype == tl.int64)\ntl.store(out, a + 1)", 1, parameters="a: tl.int64") == 2


def test_46_too_large():
    with pytest.raises(OverflowError, match="too large"):
        run("tl.store(out, a)", 2**64)


# ---- 47 -------------------------------------------------------------------------------------------------


def test_47_one_buffer_passed_twice(target):
    data = torch.arange(32, dtype=torch.int32)
    kernel = harness.make("""@triton.jit
def kernel(x, y):
    i = tl.arange(0, 16)
    tl.store(y + i, tl.load(x + i) + 100)
    tl.store(y + 16 + i, tl.load(x + i))
""")
    kernel[(1,)](data, data)
    assert data.tolist() == 2 * list(range(100, 116))


def test_47_zero_strides(target):
    x, out = torch.tensor([5], dtype=torch.int32).expand(16), torch.zeros(16, dtype=torch.int32)
    kernel = harness.make("@triton.jit\ndef kernel(x, out, s):\n    i = tl.arange(0, 16)\n    tl.store(out + i, tl.load(x + i * s) + i)\n")
    kernel[(1,)](x, out, x.stride(0))
    assert out.tolist() == list(range(5, 21))


# ---- 48 -------------------------------------------------------------------------------------------------


def test_48_globals(target):
    prologue = "N = tl.constexpr(5)\nM = 3\n"
    assert run("tl.store(out, a + N)", 7, prologue=prologue) == 12
    refused("tl.store(out, a + M)", "Cannot access global variable M from within @jit'ed function", prologue)


def test_48_a_changed_global_is_noticed(target):
    kernel = harness.make("LIMIT = tl.constexpr(5)\n@triton.jit\ndef kernel(out, a):\n    tl.store(out, a + LIMIT)\n")
    out = torch.zeros(1, dtype=torch.int64)
    kernel[(1,)](out, 7)
    scope = vars(sys.modules[kernel.__module__ if hasattr(kernel, "__module__") else kernel.fn.__module__])
    from nereid.language import constexpr
    before = scope["LIMIT"]
    try:
        scope["LIMIT"] = constexpr(6)
        with pytest.raises(RuntimeError, match="Global variable LIMIT has changed since we compiled this kernel, from"):
            kernel[(1,)](out, 7)
    finally:
        scope["LIMIT"] = before


def test_48_local_names_come_first(target):
    assert run("N = a + 1\ntl.store(out, N)", 7, prologue="N = tl.constexpr(500)\n") == 8


def test_48_closures(target):
    prologue = '''
def outer(step):
    step = tl.constexpr(step)
    @triton.jit
    def inner(x):
        return x + step
    return inner

by3, by4 = outer(3), outer(4)
'''
    assert run("tl.store(out, by3(a) * 100 + by4(a))", 7, prologue=prologue) == 1011
