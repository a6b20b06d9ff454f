"""Kernels of gradients that contain only the alternatives that a launch takes: conditions as steps, evaluated for a launch, and what is compiled."""

import jvp_check
import nereid
import numpy as np
import pytest
import torch
from named_kernels import CASES
from nereid._gradient_conditions import _OPERATIONS, _parsed, evaluate
from test_grad_schedules import ORDERS, like, matrix, outer, product

NUMBERS = [0, 1, -1, 2, 3, -3, 7, -8, 100, -128, 127, 1 << 31, -(1 << 31), (1 << 31) - 1, (1 << 63) - 1, -(1 << 63)]


def by_numpy(operation, a, b):
    """The same by NumPy's integers of a width; None where that is not defined."""
    bits = a.dtype.itemsize * 8
    with np.errstate(all="ignore"):
        if operation in ("divsi", "remsi"):
            if b == 0 or (a == np.iinfo(a.dtype).min and b == -1):
                return None
            quotient = int(abs(int(a)) // abs(int(b)))
            quotient = quotient if (a < 0) == (b < 0) else -quotient
            return quotient if operation == "divsi" else int(a) - quotient * int(b)
        if operation in ("divui", "remui") and b == 0:
            return None
        unsigned = a.astype(f"u{bits // 8}"), b.astype(f"u{bits // 8}")
        if operation.startswith("cmpi"):
            kind = operation.split(".")[1]
            x, y = unsigned if kind[0] == "u" else (a, b)
            return int({"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[kind if kind in ("eq", "ne") else kind[1:]])
        if operation.endswith("ui"):
            combine = {"divui": np.floor_divide, "remui": np.remainder, "minui": np.minimum, "maxui": np.maximum}[operation]
            return int(combine(*unsigned).astype(a.dtype))
        return int({"addi": np.add, "subi": np.subtract, "muli": np.multiply, "minsi": np.minimum, "maxsi": np.maximum, "andi": np.bitwise_and, "ori": np.bitwise_or,
                    "xori": np.bitwise_xor}[operation](a, b))


CASTS = ("extsi", "extui", "trunci", "index_cast", "index_castui")


@pytest.mark.parametrize("operation", [each for each in _OPERATIONS if each not in (*CASTS, "select")])
@pytest.mark.parametrize("bits", [32, 64])
def test_arithmetic(operation, bits):
    """A difference of the result from a value: 0 steps away from it, and not 0 from another one."""
    dtype = np.dtype(f"i{bits // 8}").type
    for a in map(np.int64, NUMBERS):
        for b in map(np.int64, NUMBERS):
            a, b = a.astype(dtype), b.astype(dtype)
            expected = by_numpy(operation, a, b)
            if expected is None and b != 0:
                continue
            kind = "i1" if operation.startswith("cmpi") else f"i{bits}"
            text = f"argument:i{bits} 0; argument:i{bits} 1; {operation}:i{bits} 0 1; constant:{kind} {expected or 0}; cmpi.eq:{kind} 2 3"
            found = evaluate(_parsed(text), {0: int(a), 1: int(b)}, (1, 1, 1))
            assert found is (None if expected is None else True), (a, b, expected)


@pytest.mark.parametrize("text, expected", [
    ("argument:i32 0; extsi:i32:i64 0; constant:i64 -5; cmpi.eq:i64 1 2", True),
    ("argument:i32 0; extui:i32:i64 0; constant:i64 4294967291; cmpi.eq:i64 1 2", True),
    ("argument:i64 1; trunci:i64:i32 0; constant:i32 7; cmpi.eq:i32 1 2", True),
    ("argument:i32 0; index_cast:i32:i64 0; constant:i64 -5; cmpi.eq:i64 1 2", True),
    ("argument:i32 0; index_castui:i32:i64 0; constant:i64 0; cmpi.sgt:i64 1 2", True),
    ("constant:i1 1; extsi:i1:i32 0; constant:i32 -1; cmpi.eq:i32 1 2", True),
    ("constant:i1 1; extui:i1:i32 0; constant:i32 1; cmpi.eq:i32 1 2", True),
    ("constant:i1 0; constant:i32 3; constant:i32 4; select:i32 0 1 2; cmpi.eq:i32 3 2", True),
    ("constant:i1 1; constant:i32 3; constant:i32 4; select:i32 0 1 2; cmpi.eq:i32 3 2", False),
    ("programs:i32 0; programs:i32 2; muli:i32 0 1; constant:i32 15; cmpi.eq:i32 2 3", True),
    ("argument:i32 9; constant:i32 1; cmpi.eq:i32 0 1", None),
])
def test_conversions_and_the_grid(text, expected):
    assert evaluate(_parsed(text), {0: -5, 1: (1 << 40) + 7}, (5, 1, 3)) is expected


def arguments(M, N, K, gap=1, dtype=torch.float64):
    a, b = matrix(M, K, dtype, gap=gap), matrix(K, N, dtype)
    return dict(a_ptr=a, b_ptr=b, c_ptr=torch.zeros(M, N, dtype=dtype), M=M, N=N, K=K, stride_am=a.stride(0), stride_ak=a.stride(1), stride_bk=b.stride(0), stride_bn=b.stride(1),
                stride_cm=N, stride_cn=1)


BLOCKS = dict(BM=16, BN=16, BK=32, GROUP=3)


def launch(backward, given, grid, dc, **options):
    found = {f"d{name}": like(given[name], given[name].dtype) for name in ("a_ptr", "b_ptr")}
    backward[grid](**given, **found, dc_ptr=dc, num_threads=1, **options)
    return found


def launched(backward):
    return [compiled for compiled, _ in backward._compiled()]


@pytest.mark.parametrize("order, gap, spare", [*((order, 1, 0) for order in ORDERS), ("axes", 2, 0), ("axes", 1, 1), ("rows", 1, 1), ("columns", 1, 1)])
def test_the_same_bits_as_with_all_alternatives(order, gap, spare):
    """In launches that take the schedules, and in those that do not: more programs than tiles."""
    M, N, K = 40, 50, 70
    given = arguments(M, N, K, gap)
    tiles = nereid.cdiv(M, 16), nereid.cdiv(N, 16)
    grid = (*tiles, 1 + spare) if order == "axes" else (tiles[0] * tiles[1] + spare, )
    dc = matrix(M, N, torch.float64)
    options = dict(BLOCKS, ORDER=order, WRAP=False)
    one, all_of_them = (nereid.grad(product, ("a_ptr", "b_ptr"), "c_ptr").backward for _ in range(2))
    # With more programs along an axis that the kernel does not read, sums contain each tile more than once.
    for _ in range(4):
        found, expected = launch(one, given, grid, dc, **options), launch(all_of_them, given, grid, dc, **options, gradient_conditions="")
        for name, value in expected.items():
            assert torch.equal(found[name], value), name
    if not spare:
        torch.testing.assert_close(found["da_ptr"], dc @ given["b_ptr"].T)
        torch.testing.assert_close(found["db_ptr"], given["a_ptr"].T @ dc)
    chosen, whole = launched(one), launched(all_of_them)
    assert len(chosen) == len(whole) == 1
    texts = [chosen[0].asm["tile"], whole[0].asm["tile"]]
    assert "tile.atomic_rmw" in texts[1] and texts[1].count("tile.store") >= 2
    assert ("tile.atomic_rmw" in texts[0]) == bool(spare), texts[0]
    assert texts[0].count("\n") < texts[1].count("\n")


def test_launches_alike_have_one_kernel():
    backward = nereid.grad(product, ("a_ptr", "b_ptr"), "c_ptr").backward
    options = dict(BLOCKS, ORDER="axes", WRAP=False)

    def shape(M, N, K, spare=0):
        given, dc = arguments(M, N, K), matrix(M, N, torch.float64)
        found = launch(backward, given, (nereid.cdiv(M, 16), nereid.cdiv(N, 16), 1 + spare), dc, **options)
        if not spare:
            torch.testing.assert_close(found["da_ptr"], dc @ given["b_ptr"].T)
            torch.testing.assert_close(found["db_ptr"], given["a_ptr"].T @ dc)

    for at in range(10):
        shape(35 + 2 * at, 51, 71)
        shape(35 + 2 * at, 51, 71)
    assert len(launched(backward)) == 1
    # Scalars and grids of which others were seen before: what was known of these is not taken.
    for spare in (1, 0, 1):
        shape(35, 51, 71, spare)
    assert len(launched(backward)) == 2


def test_what_explain_says():
    gradient = nereid.grad(product, ("a_ptr", "b_ptr"), "c_ptr")
    given, dc = arguments(40, 50, 70), matrix(40, 50, torch.float64)
    for spare in range(2):
        launch(gradient.backward, given, (3, 4, 1 + spare), dc, **BLOCKS, ORDER="axes", WRAP=False)
    text = gradient.explain()
    assert text.count("programs; this kernel is for launches where that holds") == 2, text
    assert text.count("programs; this kernel is for launches where that does not hold, and sums it by atomic additions") == 2, text


def test_kernels_of_gpus():
    """As on a CPU, the alternative that the launch takes, unless it asks for all of them."""
    given = arguments(40, 50, 70, dtype=torch.float32)
    gradients = {f"d{name}": given[name] for name in ("a_ptr", "b_ptr", "c_ptr")}
    lengths = []
    for options in (dict(gradient_conditions=""), {}):
        backward = nereid.grad(product, ("a_ptr", "b_ptr"), "c_ptr").backward
        backward.warmup(**given, **gradients, **BLOCKS, ORDER="axes", WRAP=False, grid=(3, 4), target="cuda:90", **options)
        compiled, = launched(backward)
        assert bool(compiled._values["options"]["gradient_conditions"]) == (not options)
        assert ("tile.atomic_rmw" in compiled.asm["tile"]) == bool(options)
        lengths.append(len(compiled.asm["ptx"]))
    assert lengths[1] < 0.8 * lengths[0]


def test_blocks_of_other_tensors_have_other_conditions():
    """One gradient with its schedule; the other one, which has too few blocks, in partial sums."""
    x, w, dy = (jvp_check.random(*shape) for shape in ((16, ), (2400, ), (16, 2400)))
    y = torch.zeros_like(dy)
    both = {}
    for options in ({}, dict(gradient_conditions="")):
        found = dict(dx=torch.full_like(x, float("nan")), dw=torch.full_like(w, float("nan")))
        gradient = nereid.grad(outer, ("x", "w"), "y")
        gradient.backward[(2, 300)](x, w, y, N=8, **found, dy=dy, num_threads=1, **options)
        both[len(options)] = found, gradient
    for name, value in both[1][0].items():
        assert torch.equal(both[0][0][name], value), name
    chosen, = launched(both[0][1].backward)
    text = chosen._values["options"]["gradient_conditions"]
    assert text.count("=0") == text.count("=1") == 1


@pytest.mark.parametrize("name", ["causal attention of grouped queries", "gated RMSNorm of groups"])
def test_each_compilation_gives_the_same_kernel(name, monkeypatch):
    """Factors and summands once came in the order in which the compiler's values were in memory. Then a condition had another name in the compilation that
    was to know it, and three of ten kernels of attention kept all alternatives."""
    monkeypatch.setenv("NEREID_LLVM_OPT", "0")
    case = CASES[name]()
    gradients = {f"d{each}": case.arguments[each] for each in (*case.wrt, *case.out)}
    texts, kept = set(), []
    for size in range(12):
        backward = nereid.grad(case.kernel, case.wrt, case.out).backward
        backward.warmup(**case.arguments, **case.options, **gradients, grid=case.grid)
        compiled, *_ = launched(backward)
        texts.add(compiled.asm["tile"])
        kept.append(bytearray(1000 + 77 * size))  # so that other memory is free
    assert len(texts) == 1


def test_errors():
    given, dc = arguments(40, 50, 70), matrix(40, 50, torch.float64)
    gradients = dict(da_ptr=torch.empty_like(given["a_ptr"]), db_ptr=torch.empty_like(given["b_ptr"]))
    backward = nereid.grad(product, ("a_ptr", "b_ptr"), "c_ptr").backward
    for text in ("1", "0123456789abcdef", "0123456789abcdef=2", "0123456789abcdeg=1", "0123456789abcdef=1,", "0123456789abcdef=1,0123456789abcdef=1"):
        with pytest.raises(ValueError, match="option `gradient_conditions` expects `id=0` or `id=1` for conditions of the gradient, between commas, found"):
            backward[(3, 4)](**given, **gradients, dc_ptr=dc, **BLOCKS, ORDER="axes", WRAP=False, gradient_conditions=text)
    backward[(3, 4)](**given, **gradients, dc_ptr=dc, **BLOCKS, ORDER="axes", WRAP=False, gradient_conditions="0123456789abcdef=1")  # of another gradient
    assert "tile.atomic_rmw" in launched(backward)[0].asm["tile"]
    with pytest.raises(ValueError, match="option `gradient_conditions` expects a gradient, found `product`"):
        product[(3, 4)](**given, **BLOCKS, ORDER="axes", WRAP=False, gradient_conditions="0123456789abcdef=1")
