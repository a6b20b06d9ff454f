"""Code of the CPU target that keeps values where they are: sums of loops in registers, maxima with NaN in three states, numbers of 16 bits in 16 bits. Results on every target, the code where tests run on the CPU."""

import re

import numpy as np
import pytest
import torch

import harness
from harness import DTYPES

SUMS = """@triton.jit
def kernel(out, x, turns, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    total = tl.full((ROWS, COLUMNS), 1, x.dtype.element_ty)
    count = tl.zeros((ROWS, COLUMNS), tl.int32)
    for i in range(turns):
        v = tl.load(x + i * ROWS * n + r * n + c, mask=c < n, other=2)
        total += v
        count += tl.where(v > 0, 1, 0)
    tl.store(out + r * COLUMNS + c, total + count.to(x.dtype.element_ty))
"""


@pytest.mark.parametrize("rows, columns, n", [(1, 32, 32), (1, 128, 128), (1, 128, 77), (4, 64, 64), (4, 64, 33), (8, 8, 5), (16, 64, 50), (1, 1024, 1000), (64, 4, 4)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
def test_sums_of_a_loop(target, dtype, rows, columns, n):
    kernel = harness.make(SUMS)
    for turns in (0, 1, 5):
        values = np.random.default_rng(turns).integers(-9, 9, (max(1, turns), rows, n))
        x, out = harness.to_tensor(values, DTYPES[dtype]), torch.zeros(rows, columns, dtype=harness.to_tensor(values, DTYPES[dtype]).dtype)
        kernel[(1,)](out, x, turns, n, ROWS=rows, COLUMNS=columns)
        padded = np.full((turns, rows, columns), 2)
        padded[:, :, :n] = values[:turns]
        assert (out.double().numpy() == 1 + padded.sum(0) + (padded > 0).sum(0)).all()


@pytest.mark.cpu_only("the code of the CPU target")
@pytest.mark.parametrize("columns, stays", [(32, True), (4096, False)])
def test_sums_of_a_loop_stay_in_registers(target, columns, stays):
    """A few registers hold 32 numbers on every instruction set, and none has registers for 4096."""
    kernel = harness.make("""@triton.jit
def kernel(out, x, turns, COLUMNS: tl.constexpr):
    c = tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), tl.float32)
    for i in range(turns):
        total += tl.load(x + i * COLUMNS + c)
    tl.store(out + c, total)
""")
    code = kernel.warmup(torch.zeros(columns), torch.zeros(3 * columns), 3, COLUMNS=columns, grid=(1,)).asm["llir"]
    assert bool(re.search(r"= phi <\d+ x float>", code)) == stays


def extreme(values, largest, axis=None):
    """The maximum or minimum of IEEE 754: NaN if there is one, and -0 is below 0."""
    function = np.max if largest else np.min
    result = function(values, axis=axis, keepdims=True)
    zeros = np.where(values == 0, np.copysign(1.0, values), -2.0 if largest else 2.0)
    result = np.where(result == 0, np.copysign(0.0, function(zeros, axis=axis, keepdims=True)), result)
    return result.squeeze(axis)


@pytest.mark.parametrize("width", [1, 2, 7, 16, 64, 100, 256, 300, 1000, 1024])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_maxima_with_nan(target, dtype, width):
    """NaN of either sign at every kind of place, zeros of either sign as the largest and least element, and rows whose end is masked."""
    kernel = harness.make("""@triton.jit
def most(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)

@triton.jit
def least(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)

@triton.jit
def kernel(out, x, n, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + c, mask=c < n, other=0)
    if v.dtype == tl.bfloat16:
        v = v.to(tl.float32)
    tl.store(out + 2 * row, tl.reduce(tl.where(c < n, v, float("-inf")), 0, most))
    tl.store(out + 2 * row + 1, tl.reduce(tl.where(c < n, v, float("inf")), 0, least))
""")
    random = np.random.default_rng(width)
    values = np.round(random.normal(0, 9, (14, width)))
    for row, special in ((0, np.nan), (1, -np.nan), (2, np.inf), (3, -np.inf)):
        values[row, random.integers(width)] = special
    values[4, 0] = values[5, -1] = np.nan
    values[6], values[7] = np.nan, -np.inf
    values[8], values[9] = -abs(values[8]) - 1, abs(values[9]) + 1  # above and below these, zeros
    values[8, -1], values[9, -1], values[10], values[11], values[12], values[13] = -0.0, 0.0, 0.0, -0.0, 0.0, -0.0
    values[8, 0], values[9, 0], values[12, width // 2], values[13, width // 2] = 0.0, -0.0, -0.0, 0.0
    x = harness.to_tensor(values, DTYPES[dtype])
    out = torch.zeros(14, 2, dtype=x.dtype)
    block = 1 << (width - 1).bit_length()
    kernel[(14,)](out, x, width, BLOCK=block)
    values = x.double().numpy()
    got = out.double().numpy()
    for column, largest in enumerate((True, False)):
        want = extreme(values, largest, 1)
        np.testing.assert_array_equal(got[:, column], want)
        if target == "cpu" and dtype != "bfloat16":
            numbers = want == 0
            np.testing.assert_array_equal(np.signbit(got[numbers, column]), np.signbit(want[numbers]))


SIGNS = {"abs": "tl.abs(a)", "negated": "-a", "copysign": "tl.extra.libdevice.copysign(a, b)", "where": "tl.where(a < b, a, 0.5)", "negative": "-tl.abs(a)", "larger": "tl.maximum(a, b)",
         "relu": "tl.where(a < 0, 0.0, a)", "between": "tl.where(a > 1, 1.0, tl.where(a < -1, -1.0, a))", "inexact": "tl.where(a < b, a, 0.1)"}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", SIGNS)
def test_choices_among_numbers_of_16_bits(target, dtype, name):
    """Of all 65,536 numbers; what is chosen is converted to fp32 and back."""
    kernel = harness.make(f"""@triton.jit
def kernel(out, x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + i).to(tl.float32), tl.load(y + i).to(tl.float32)
    tl.store(out + i, ({SIGNS[name]}).to(out.dtype.element_ty))
""")
    torch_type = getattr(torch, dtype)
    x = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch_type)
    y = x[torch.randperm(65536, generator=torch.Generator().manual_seed(1))]
    out = torch.zeros_like(x)
    kernel[(64,)](out, x, y, BLOCK=1024)
    a, b = x.float(), y.float()
    want = {"abs": lambda: a.abs(), "negated": lambda: -a, "copysign": lambda: torch.copysign(a, b), "where": lambda: torch.where(a < b, a, torch.tensor(0.5)), "negative": lambda: -a.abs(),
            "larger": lambda: torch.where(a.isnan(), b, torch.where(b.isnan(), a, torch.maximum(a, b))), "relu": lambda: torch.where(a < 0, torch.tensor(0.0), a), "between": lambda: torch.where(a > 1, torch.tensor(1.0), torch.where(a < -1, torch.tensor(-1.0), a)),
            "inexact": lambda: torch.where(a < b, a, torch.tensor(0.1))}[name]().to(torch_type)
    same = out.view(torch.int16) == want.view(torch.int16)
    assert (same | out.isnan() & want.isnan() | (out == 0) & (want == 0) & (name == "larger")).all()


@pytest.mark.cpu_only("the code of the CPU target")
@pytest.mark.parametrize("expression", ["tl.abs(a)", "-a", "tl.extra.libdevice.copysign(a, a)"])
def test_signs_change_in_16_bits(target, expression):
    kernel = harness.make(f"""@triton.jit
def kernel(out, x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i).to(tl.float32)
    tl.store(out + i, ({expression}).to(out.dtype.element_ty))
""")
    code = kernel.warmup(torch.zeros(1024, dtype=torch.bfloat16), torch.zeros(1024, dtype=torch.bfloat16), BLOCK=1024, grid=(1,)).asm["llir"]
    assert "x i16>" in code and "x i32>" not in code and "x float>" not in code
