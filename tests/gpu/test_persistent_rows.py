"""Blocks that run several programs and fetch the rows of the next one ahead: which kernels do, and their results. Needs no GPU.

The results need the simulator (`nereid-simulate`), which NEREID_TEST_SIMULATOR names; it runs two programs of a kernel at a time.
"""

import nereid
import nereid.language as tl
import pytest
import torch


@nereid.jit
def softmax(out, x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row + columns, mask=columns < n, other=float("-inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row + columns, (powers / tl.sum(powers, axis=0)).to(out.dtype.element_ty), mask=columns < n)


@nereid.jit
def norm(out, x, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    values = tl.load(x + tl.program_id(0) * n + columns, mask=mask, other=0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / n + 1e-6)
    gain = tl.load(x + columns, mask=mask, other=0).to(tl.float32)
    tl.store(out + tl.program_id(0) * n + columns, (values * scale * gain).to(out.dtype.element_ty), mask=mask)


@nereid.jit
def added_norm(out, x, n, BLOCK: tl.constexpr):
    """Two rows of a program are fetched, and the gains, which are the same for all."""
    number = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    last = tl.num_programs(0) - 1
    mask = columns < n
    values = tl.load(x + number * n + columns, mask=mask, other=0).to(tl.float32)
    values += tl.load(x + (last - number) * n + columns, mask=mask, other=0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / n + 1e-6)
    gain = tl.load(x + columns, mask=mask, other=0).to(tl.float32)
    tl.store(out + number * n + columns, (values * scale * gain).to(out.dtype.element_ty), mask=mask)


@nereid.jit
def two_axes(out, x, n, BLOCK: tl.constexpr):
    row = (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)) * n
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row + columns).to(tl.float32)
    tl.store(out + row + columns, (values - tl.sum(values, axis=0) / n).to(out.dtype.element_ty))


@nereid.jit
def picked(out, x, places, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + tl.load(places + tl.program_id(0)) * n + columns).to(tl.float32)
    tl.store(out + tl.program_id(0) * n + columns, (values - tl.sum(values, axis=0)).to(out.dtype.element_ty))


@nereid.jit
def elementwise(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@nereid.jit
def counted(out, x, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * n + columns)
    tl.atomic_add(out, tl.sum(values, axis=0))


@nereid.jit
def in_place(out, x, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0) * n + columns, columns.to(out.dtype.element_ty))
    values = tl.load(out + tl.program_id(0) * n + columns)
    tl.store(x + tl.program_id(0) * n + columns, values - tl.sum(values, axis=0))


def compiled(kernel, columns, warps, dtype=torch.float32, **options):
    x = torch.empty(columns, dtype=dtype)
    arguments = (x, x, torch.empty(1, dtype=torch.int64), columns) if "places" in kernel.arg_names else (x, x, columns)
    options.setdefault("target", "cuda:90")
    return kernel.run(*arguments, BLOCK=nereid.next_power_of_2(columns), grid=(1, ), warmup=True, num_warps=warps, **options)


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setenv("NEREID_PERSISTENT_ROWS", "always")


@pytest.mark.parametrize("kernel, options, rows", [
    (softmax, {}, 1),
    (softmax, {"num_ctas": 2}, 1),
    (softmax, {"target": "cuda:80"}, 1),
    (norm, {}, 2),
    (norm, {"num_ctas": 2}, 2),
    (added_norm, {}, 3),
    (two_axes, {}, 1),
    (picked, {}, 0),
    (elementwise, {}, 0),
    (counted, {}, 0),
    (in_place, {}, 0),
    (softmax, {"launch_cooperative_grid": True}, 0),
    (softmax, {"launch_pdl": True}, 0),
    (softmax, {"clusters": False}, 0),
], ids=lambda value: value.__name__ if hasattr(value, "arg_names") else None)
def test_which_rows_are_fetched(kernel, options, rows, always):
    code = compiled(nereid.jit(kernel.fn), 4096, 4, **options)
    assert code.asm["gpu"].count(" = ngpu.fetched ") == rows
    assert code.metadata.persistent == (rows > 0)


def test_rows_that_do_not_fit_shared_memory(always, monkeypatch):
    monkeypatch.setenv("NEREID_CLUSTERS", "0")
    assert not compiled(nereid.jit(softmax.fn), 65536, 32).metadata.persistent
    assert compiled(nereid.jit(softmax.fn), 65536, 16, num_ctas=2).metadata.persistent


def test_gains_that_do_not_fit_beside_a_row(always):
    code = compiled(nereid.jit(norm.fn), 32768, 16)  # 128 KB each
    assert code.metadata.persistent and code.asm["gpu"].count(" = ngpu.fetched ") == 1


def test_gains_are_fetched_once(always):
    text = compiled(nereid.jit(norm.fn), 4096, 4).asm["gpu"]
    before, inside = text.split("scf.for ")
    assert before.count("ngpu.fetch ") == 2 and inside.count("ngpu.fetch ") == 1


def test_gains_are_read_by_each_program_by_default():
    text = compiled(nereid.jit(norm.fn), 32768, 16, torch.bfloat16).asm["gpu"]
    assert text.count(" = ngpu.fetched ") == 1 and " = tile.load " in text.split("scf.for ")[1]


def test_code_for_other_launchers(always):
    from nereid.backends.compiler import GPUTarget
    source = nereid.compiler.ASTSource(nereid.jit(softmax.fn), {"out": "*fp32", "x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 4096})
    assert not nereid.compile(source, target=GPUTarget("cuda", 90, 32)).metadata.persistent


# By default rows of 16 bits whose block has a multiprocessor to itself. With less than 16 warps gains are waited for. Two rows of 16 bits take as many bytes
# as their sum in fp32.
@pytest.mark.parametrize("kernel, dtype, columns, options, expected", [
    (softmax, torch.bfloat16, 32768, {"num_warps": 8}, True),
    (softmax, torch.float16, 32768, {"num_warps": 16}, True),
    (softmax, torch.float32, 32768, {"num_warps": 16}, False),
    (softmax, torch.bfloat16, 16384, {"num_warps": 8}, False),
    (softmax, torch.bfloat16, 32768, {"num_warps": 4, "num_ctas": 2}, False),
    (norm, torch.bfloat16, 32768, {"num_warps": 16}, True),
    (norm, torch.bfloat16, 32768, {"num_warps": 8}, False),
    (added_norm, torch.bfloat16, 32768, {"num_warps": 16}, False),
])
def test_default(kernel, dtype, columns, options, expected):
    assert compiled(nereid.jit(kernel.fn), columns, options["num_warps"], dtype, num_ctas=options.get("num_ctas", 1)).metadata.persistent == expected


def test_never(monkeypatch):
    monkeypatch.setenv("NEREID_PERSISTENT_ROWS", "never")
    assert not compiled(nereid.jit(softmax.fn), 32768, 16, torch.bfloat16).metadata.persistent


_PROGRAM = '''
import sys

import nereid
import simulated
import torch
from gpu import test_persistent_rows as kernels

name, dtype, columns, block, warps, blocks = sys.argv[1], getattr(torch, sys.argv[2]), *map(int, sys.argv[3:])
torch.manual_seed(0)
grid = (3, 2) if name == "two_axes" else (5, )
rows = 6 if name == "two_axes" else 5
x = torch.randn(rows, columns, dtype=dtype)
out = torch.full_like(x, float("nan"))
code = getattr(kernels, name)[grid](out, x, columns, BLOCK=block, num_warps=warps, num_ctas=blocks)
assert code.metadata.persistent and code.metadata.num_ctas == blocks
exact = x.double()
if name == "softmax":
    exact = torch.softmax(exact, -1)
elif name == "added_norm":
    exact = exact + exact.flip(0)
    exact = exact * torch.rsqrt((exact * exact).mean(-1, keepdim=True) + 1e-6) * x[0].double()
else:
    exact = exact - exact.mean(-1, keepdim=True)
torch.testing.assert_close(out, exact.to(dtype))
print("right")
'''


@pytest.mark.parametrize("name, dtype, columns, block, warps, blocks", [
    ("softmax", "float32", 1024, 1024, 4, 1),
    ("softmax", "float32", 1008, 1024, 4, 1),
    ("softmax", "bfloat16", 2000, 2048, 2, 2),
    ("softmax", "float32", 4096, 4096, 2, 4),
    ("added_norm", "float16", 1008, 1024, 2, 1),
    ("added_norm", "bfloat16", 2048, 2048, 1, 2),
    ("two_axes", "float32", 512, 512, 2, 1),
])
def test_results(name, dtype, columns, block, warps, blocks, simulated):
    simulated(_PROGRAM, name, dtype, columns, block, warps, blocks, NEREID_PERSISTENT_ROWS="always", NEREID_CLUSTER_SENDS="0")


# Each program of a norm has one reduction, so that a slot serves every second program.
@pytest.mark.parametrize("name, dtype, columns, block, warps, blocks", [
    ("softmax", "bfloat16", 2000, 2048, 2, 2),
    ("added_norm", "bfloat16", 2048, 2048, 1, 2),
])
def test_results_with_partial_results_sent(name, dtype, columns, block, warps, blocks, simulated):
    simulated(_PROGRAM, name, dtype, columns, block, warps, blocks, NEREID_PERSISTENT_ROWS="always", NEREID_CLUSTER_SENDS="1")
