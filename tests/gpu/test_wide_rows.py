"""Rows that do not fit the registers of one block: the compiler's choice of a cluster, and values that are computed again. Needs no GPU.

The results need the simulator (`nereid-simulate`), which NEREID_TEST_SIMULATOR names.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import nereid
import nereid.language as tl
import pytest
import torch

TESTS = pathlib.Path(__file__).resolve().parents[1]


@nereid.jit
def softmax(out, x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row + columns, mask=columns < n, other=float("-inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row + columns, (powers / tl.sum(powers, axis=0)).to(out.dtype.element_ty), mask=columns < n)


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
    (torch.float32, 32768, 4, (4, 16)),
    (torch.float32, 32768, 8, (1, 8)),
    (torch.float32, 65536, 8, (8, 32)),
    (torch.float32, 65536, 16, (8, 32)),
    (torch.float32, 131072, 32, (8, 32)),
    (torch.float32, 262144, 32, (8, 64)),
    (torch.bfloat16, 32768, 8, (1, 8)),
    (torch.bfloat16, 65536, 8, (8, 32)),
    (torch.bfloat16, 131072, 8, (8, 32)),
])
@pytest.mark.parametrize("device", ["cuda:90", "cuda:100"])
def test_choice(dtype, columns, warps, expected, device):
    assert blocks(compiled(softmax, columns, warps, dtype, device)) == expected


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
    assert blocks(compiled(kernel, 16384, 1, **options)) == (1, 1)


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


# The exponentials of bf16 are computed again behind their sum, those of fp32 are kept.
@pytest.mark.parametrize("dtype, columns, warps, times", [
    (torch.float32, 32768, 8, 1),
    (torch.bfloat16, 8192, 8, 1),
    (torch.bfloat16, 32768, 8, 2),
    (torch.float16, 32768, 16, 2),
])
def test_values_computed_again(dtype, columns, warps, times, monkeypatch):
    monkeypatch.setattr(nereid.knobs.nereid, "keep_narrow", True)
    code = compiled(nereid.jit(softmax.fn), columns, warps, dtype, clusters=False)
    assert code.asm["gpu"].count("math.exp") == times
    assert code.asm["ptx"].count("ex2.approx") == times * columns // (32 * warps)


def test_values_are_kept_by_default():
    assert compiled(softmax, 32768, 8, torch.bfloat16).asm["gpu"].count("math.exp") == 1


_PROGRAM = '''
import sys

import nereid
import nereid.language as tl
import simulated
import torch
from gpu.test_wide_rows import blocks, softmax


dtype, N, WARPS, BLOCKS, ROWS = getattr(torch, sys.argv[1]), *map(int, sys.argv[2:])
torch.manual_seed(0)
x = torch.randn(ROWS, N, dtype=dtype)
out = torch.empty_like(x)
code = softmax[(ROWS, )](out, x, N, BLOCK=nereid.next_power_of_2(N), num_warps=WARPS)
assert blocks(code)[0] == BLOCKS, blocks(code)
torch.testing.assert_close(out, torch.softmax(x.float(), -1).to(dtype))
print("right")
'''


@pytest.mark.skipif(not os.environ.get("NEREID_TEST_SIMULATOR"), reason="needs the simulator: set NEREID_TEST_SIMULATOR to build/release/tests/unit/nvidia/nereid-simulate, as scripts/test.sh does")
@pytest.mark.parametrize("dtype, columns, warps, blocks", [("float32", 8201, 1, 2), ("bfloat16", 4096, 1, 1), ("bfloat16", 16384, 1, 2)])
def test_results(dtype, columns, warps, blocks, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    environment = {**os.environ, "NEREID_KEEP_NARROW": "1", "SIMULATED_TARGET": "cuda:90", "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(TESTS)])}
    done = subprocess.run([sys.executable, str(program), dtype, str(columns), str(warps), str(blocks)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "right\n", done.stderr[-4000:]
