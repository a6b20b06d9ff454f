"""Rows that do not fit the registers of one block: the compiler's choice of a cluster, and values that are computed again. Needs no GPU.

The results need the simulator (`nereid-simulate`), which NEREID_TEST_SIMULATOR names.
"""

import json
import re

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
    row = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row + columns, mask=columns < n, other=0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / n + 1e-6)
    tl.store(out + row + columns, (values * scale).to(out.dtype.element_ty), mask=columns < n)


@nereid.jit
def ordered(out, x, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + columns, mask=columns < n, other=0)
    tl.store(out + columns, tl.sort(values - tl.sum(values, axis=0)), mask=columns < n)


@nereid.jit
def waiting(out, x, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + columns, mask=columns < n, other=0)
    while tl.atomic_add(out, 0) < 1:
        pass
    tl.store(out + columns, values - tl.sum(values, axis=0), mask=columns < n)


@nereid.jit
def fetched(out, x, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    for row in tl.range(0, 8, num_stages=2):
        values = tl.load(x + row * n + columns, mask=columns < n, other=0)
        tl.store(out + row * n + columns, values - tl.sum(values, axis=0), mask=columns < n)


@nereid.jit
def elementwise(out, x, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    tl.store(out + columns, tl.load(x + columns, mask=columns < n) * 2, mask=columns < n)


def compiled(kernel, columns, warps, dtype=torch.float32, target="cuda:90", **options):
    x = torch.empty(columns, dtype=dtype)
    return kernel.run(x, x, columns, BLOCK=nereid.next_power_of_2(columns), grid=(1, ), warmup=True, target=target, num_warps=warps, **options)


def blocks(code):
    found = re.search(r"ngpu.num_blocks = (\d+)", code.asm["gpu"])
    return int(found[1]) if found else 1, int(re.search(r"ngpu.num_warps = (\d+)", code.asm["gpu"])[1])


# Blocks and the warps of all of them.
@pytest.mark.parametrize("dtype, columns, warps, expected", [
    (torch.float32, 4096, 1, (1, 1)),
    (torch.float32, 16384, 1, (2, 8)),
    (torch.float32, 32768, 4, (2, 8)),
    (torch.float32, 32768, 8, (1, 8)),
    (torch.float32, 65536, 8, (4, 16)),
    (torch.float32, 65536, 16, (4, 16)),
    (torch.float32, 131072, 32, (8, 32)),
    (torch.float32, 262144, 32, (16, 64)),
    (torch.bfloat16, 32768, 8, (1, 8)),
    (torch.bfloat16, 65536, 8, (4, 16)),
    (torch.bfloat16, 131072, 8, (8, 32)),
])
@pytest.mark.parametrize("device", ["cuda:90", "cuda:100"])
def test_choice(dtype, columns, warps, expected, device):
    if expected[0] == 16 and device != "cuda:90":  # not measured there
        expected = (8, 64)
    assert blocks(compiled(softmax, columns, warps, dtype, device)) == expected


def test_sixteen_blocks_only_where_they_send(monkeypatch):
    monkeypatch.setenv("NEREID_CLUSTER_SENDS", "0")
    assert blocks(compiled(nereid.jit(softmax.fn), 262144, 32)) == (8, 64)


@pytest.mark.parametrize("kernel, options", [
    (ordered, {}),
    (waiting, {}),
    (fetched, {}),
    (elementwise, {}),
    (softmax, {"clusters": False}),
    (softmax, {"maxnreg": 128}),
    (softmax, {"launch_cooperative_grid": True}),
    (softmax, {"target": "cuda:80"}),
], ids=["sort", "waits for a program", "fetches ahead", "no reduction", "option", "maxnreg", "cooperative", "device"])
def test_what_stays_on_one_block(kernel, options):
    assert blocks(compiled(kernel, 8192, 1, **options)) == (1, 1)  # a longer row of the sort takes the assembler minutes


def test_setting(monkeypatch):
    monkeypatch.setenv("NEREID_CLUSTERS", "0")
    assert blocks(compiled(nereid.jit(softmax.fn), 16384, 1)) == (1, 1)


def test_blocks_that_the_author_asks_for():
    assert blocks(compiled(softmax, 16384, 1, num_ctas=8)) == (8, 8)


def test_code_for_other_launchers_stays_on_one_block():
    from nereid.backends.compiler import GPUTarget
    source = nereid.compiler.ASTSource(softmax, {"out": "*fp32", "x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 16384})
    code = nereid.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1})
    assert "reqnctapercluster" not in code.asm["ptx"]


def test_launches_get_the_chosen_numbers():
    code = compiled(softmax, 16384, 1)
    assert (code.metadata.num_ctas, code.metadata.num_warps) == (2, 4)
    assert ".reqnctapercluster 2" in code.asm["ptx"] and ".reqntid 128" in code.asm["ptx"]


def test_explanation():
    hints = [hint["what"] for hint in json.loads(compiled(softmax, 16384, 1).asm["explain"])["hints"]]
    assert ("a thread would have to keep about 528 registers and has 255 with 1 warps, so 2 blocks of 4 warps run a program together, "
            "as a cluster") in hints


@pytest.mark.parametrize("kernel, columns, warps, dtype", [
    (softmax, 65536, 8, torch.float32),
    (softmax, 131072, 8, torch.float32),
    (softmax, 131072, 8, torch.bfloat16),
    (softmax, 262144, 8, torch.float32),
    (softmax, 32768, 8, torch.bfloat16),
    (softmax, 65536, 16, torch.bfloat16),
])
@pytest.mark.parametrize("device", ["cuda:90", "cuda:100"])
def test_nothing_is_spilled(kernel, columns, warps, dtype, device):
    used = json.loads(compiled(kernel, columns, warps, dtype, device).asm["explain"])["resources"]
    if "registers" not in used:
        pytest.skip("needs an assembler of PTX: install nvidia-cuda-nvcc or a CUDA toolkit")
    assert used["spill_bytes"] == 0


# Rows of bf16 are kept as they were read where a cluster runs the program, and computed again; exponentials are not.
@pytest.mark.parametrize("kernel, dtype, options, times", [
    (norm, torch.bfloat16, {"num_ctas": 4}, 1),
    (norm, torch.float16, {"num_ctas": 4}, 1),
    (norm, torch.float32, {"num_ctas": 4}, 0),
    (norm, torch.bfloat16, {"num_warps": 16, "clusters": False}, 0),
    (softmax, torch.bfloat16, {"num_ctas": 4}, 1),
])
def test_values_computed_again(kernel, dtype, options, times, monkeypatch):
    monkeypatch.setenv("NEREID_KEEP_NARROW", "1")
    code = compiled(nereid.jit(kernel.fn), 65536, options.pop("num_warps", 4), dtype, **options)
    assert code.asm["gpu"].count("ngpu.renew") == times
    assert code.asm["gpu"].count("math.exp") == (kernel is softmax)
    assert code.metadata.num_ctas == options.get("num_ctas", 1)


def test_values_are_kept_by_default():
    assert "ngpu.renew" not in compiled(norm, 65536, 4, torch.bfloat16, num_ctas=4).asm["gpu"]


@pytest.mark.parametrize("sends", ["0", "1"])
def test_how_partial_results_travel(sends, monkeypatch):
    monkeypatch.setenv("NEREID_CLUSTER_SENDS", sends)
    ptx = compiled(nereid.jit(softmax.fn), 65536, 4, num_ctas=4).asm["ptx"]
    assert ptx.count("st.async") == (2 if sends == "1" else 0)
    assert ptx.count("barrier.cluster.arrive.aligned") == (0 if sends == "1" else 2)


def test_sending_needs_ptx_81():
    assert "st.async" in compiled(softmax, 65536, 4, num_ctas=4).asm["ptx"]
    code = compiled(softmax, 65536, 4, torch.bfloat16, num_ctas=4, ptx_version=80)
    assert "st.async" not in code.asm["ptx"] and not code.metadata.persistent


_PROGRAM = '''
import sys

import nereid
import nereid.language as tl
import simulated
import torch
from gpu import test_wide_rows as kernels


name, dtype, N, WARPS, BLOCKS, ROWS = sys.argv[1], getattr(torch, sys.argv[2]), *map(int, sys.argv[3:])
torch.manual_seed(0)
x = torch.randn(ROWS, N, dtype=dtype)
out = torch.empty_like(x)
code = getattr(kernels, name)[(ROWS, )](out, x, N, BLOCK=nereid.next_power_of_2(N), num_warps=WARPS)
assert kernels.blocks(code)[0] == BLOCKS, kernels.blocks(code)
exact = x.double()
exact = torch.softmax(exact, -1) if name == "softmax" else exact * torch.rsqrt((exact * exact).mean(-1, keepdim=True) + 1e-6)
torch.testing.assert_close(out, exact.to(dtype))
print("right")
'''


@pytest.mark.parametrize("name, dtype, columns, warps, blocks, rows", [
    ("softmax", "float32", 8201, 1, 2, 2),
    ("softmax", "bfloat16", 4096, 1, 1, 3),
    ("softmax", "bfloat16", 16384, 1, 2, 2),
    ("norm", "bfloat16", 16384, 1, 2, 2),
])
def test_results(name, dtype, columns, warps, blocks, rows, simulated):
    simulated(_PROGRAM, name, dtype, columns, warps, blocks, rows, NEREID_KEEP_NARROW="1")
