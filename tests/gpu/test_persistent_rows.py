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
def layer_norm(out, x, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    values = tl.load(x + tl.program_id(0) * n + columns, mask=mask, other=0).to(tl.float32)
    centred = tl.where(mask, values - tl.sum(values, axis=0) / n, 0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / n + 1e-6)
    gain = tl.load(x + columns, mask=mask, other=0).to(tl.float32)
    tl.store(out + tl.program_id(0) * n + columns, (centred * scale * gain).to(out.dtype.element_ty), mask=mask)


@nereid.jit
def cross_entropy(out, x, places, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row + columns, mask=columns < n, other=float("-inf")).to(tl.float32)
    right = tl.load(places + tl.program_id(0))
    powers = tl.exp(values - tl.max(values, axis=0))
    gradient = powers / tl.sum(powers, axis=0) - tl.where(columns == right, 1.0, 0.0)
    tl.store(out + row + columns, gradient.to(out.dtype.element_ty), mask=columns < n)


@nereid.jit
def leaving(out, x, places, n, BLOCK: tl.constexpr):
    """Programs that end early, and others with 1, 2, .. reductions."""
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    times = tl.load(places + tl.program_id(0))
    values = tl.load(x + at).to(tl.float32)
    tl.store(out + at, values.to(out.dtype.element_ty))
    if times == 0:
        return
    for _ in range(times.to(tl.int32)):
        values += tl.sum(values, axis=0) / n
    tl.store(out + at, values.to(out.dtype.element_ty))


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


def test_gains_are_fetched_once_by_default():
    text = compiled(norm, 32768, 16, torch.bfloat16).asm["gpu"]
    assert text.count(" = ngpu.fetched ") == 2 and " = tile.load " not in text


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
    (norm, torch.bfloat16, 32768, {"num_warps": 16}, True),
    (norm, torch.bfloat16, 32768, {"num_warps": 8}, False),
    (added_norm, torch.bfloat16, 32768, {"num_warps": 16}, False),
    # Clusters: narrow rows, and fp32 rows whose gains are fetched once, if they fit beside the row.
    (softmax, torch.bfloat16, 32768, {"num_warps": 4, "num_ctas": 2}, True),
    (softmax, torch.bfloat16, 4096, {"num_warps": 4, "num_ctas": 2}, False),
    (softmax, torch.float32, 32768, {"num_warps": 4, "num_ctas": 2}, False),
    (cross_entropy, torch.bfloat16, 32768, {"num_warps": 4, "num_ctas": 2}, True),
    (cross_entropy, torch.float32, 32768, {"num_warps": 4, "num_ctas": 2}, False),
    (norm, torch.float32, 32768, {"num_warps": 4, "num_ctas": 2}, True),
    (layer_norm, torch.float32, 32768, {"num_warps": 4, "num_ctas": 2}, True),
    (norm, torch.float32, 65536, {"num_warps": 8, "num_ctas": 2}, False),
    (norm, torch.bfloat16, 65536, {"num_warps": 8, "num_ctas": 2}, True),
    (added_norm, torch.float32, 32768, {"num_warps": 4, "num_ctas": 2}, False),
])
def test_default(kernel, dtype, columns, options, expected):
    assert compiled(kernel, columns, options["num_warps"], dtype, num_ctas=options.get("num_ctas", 1)).metadata.persistent == expected


def test_clusters_that_meet_at_barriers_are_not_persistent(monkeypatch):
    monkeypatch.setenv("NEREID_CLUSTER_SENDS", "0")
    assert not compiled(nereid.jit(softmax.fn), 32768, 4, torch.bfloat16, num_ctas=2).metadata.persistent


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


_DEFAULTS = '''
import sys

import nereid
import simulated
import torch
from gpu import test_persistent_rows as kernels

name, dtype, columns, programs, persistent = sys.argv[1], getattr(torch, sys.argv[2]), *map(int, sys.argv[3:])
torch.manual_seed(0)
x = torch.randn(programs, columns, dtype=dtype)
out = torch.full_like(x, float("nan"))
labels = torch.randint(0, columns, (programs, ))
arguments = (x, labels, columns) if name == "cross_entropy" else (x, columns)
code = getattr(kernels, name)[(programs, )](out, *arguments, BLOCK=nereid.next_power_of_2(columns), num_warps=4)
assert code.metadata.num_ctas == 2 and code.metadata.persistent == bool(persistent), code.metadata
assert "st.async" in code.asm["ptx"] and code.asm["gpu"].count("ngpu.cluster_barrier") == 2  # of the start
exact = x.double()
if name == "softmax":
    exact = torch.softmax(exact, -1)
elif name == "cross_entropy":
    exact = torch.softmax(exact, -1) - torch.nn.functional.one_hot(labels, columns)
else:
    exact = exact - (exact.mean(-1, keepdim=True) if name == "layer_norm" else 0)
    exact = exact * torch.rsqrt((exact * exact).mean(-1, keepdim=True) + 1e-6) * x[0].double()
torch.testing.assert_close(out, exact.to(dtype))
print("right")
'''


# What the compiler does by itself. Two clusters run at a time: of three and five programs one gets a program less, of one program the second cluster
# does not start. Rows of odd widths cannot be fetched by 8 bytes.
@pytest.mark.parametrize("name, dtype, columns, programs, persistent", [
    ("softmax", "bfloat16", 20000, 5, 1),
    ("softmax", "float32", 16401, 1, 0),
    ("norm", "float32", 20000, 3, 1),
    ("norm", "bfloat16", 16401, 2, 0),
    ("layer_norm", "bfloat16", 32768, 3, 1),
    ("layer_norm", "float32", 20000, 1, 1),
    ("cross_entropy", "bfloat16", 20000, 3, 1),
    ("cross_entropy", "float32", 20000, 3, 0),
])
def test_results_by_default(name, dtype, columns, programs, persistent, simulated):
    simulated(_DEFAULTS, name, dtype, columns, programs, persistent)


_LEAVING = '''
import nereid
import simulated
import torch
from gpu import test_persistent_rows as kernels

torch.manual_seed(0)
x = torch.randn(6, 512)
out = torch.full_like(x, float("nan"))
times = torch.tensor([3, 0, 1, 2, 0, 5])
code = kernels.leaving[(6, )](out, x, times, 512, BLOCK=512, num_warps=2, num_ctas=2)
assert "st.async" in code.asm["ptx"]
exact = x.double()
for row, count in zip(exact, times):
    for _ in range(count):
        row += row.sum() / 512
torch.testing.assert_close(out, exact.float())
print("right")
'''


def test_programs_with_different_numbers_of_reductions(simulated):
    simulated(_LEAVING)
