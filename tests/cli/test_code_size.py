"""How much code the compiler hands from stage to stage. LLVM's time goes with the number of instructions that it is given: counted, not
timed, so that a change which makes every kernel dearer to compile is seen on any machine. Whoever makes the code larger on purpose
raises the number; one that falls far is to be lowered."""

import re

import pytest
from test_cli import ROOT, SEED, nereid


KERNELS = str(ROOT / "benchmarks" / "gpu" / "kernels.py")
H, N = "*fp16:16", "i32:16"
CASES = {
    "softmax": (SEED, "softmax_kernel", ["*fp32:16", "*fp32:16", N, N, N, "4096"]),
    "matmul": (SEED, "matmul_full_kernel", [H, H, H, N, N, N, N, "i32:1", N, "i32:1", N, "i32:1", "128", "128", "64", "8", "''"]),
    "attention": (KERNELS, "attention_kernel", [H, H, H, H, N, N, N, "fp32", "64", "128", "64", "True"]),
}
#: instructions and operations that came out when this was written
SEEN = {
    ("softmax", "cpu:avx512", "tile"): 33,
    ("softmax", "cpu:avx512", "llir"): 251,
    ("softmax", "cuda:90", "llir"): 425,
    ("matmul", "cpu:avx512", "tile"): 99,
    ("matmul", "cpu:avx512", "llir"): 706,
    ("matmul", "cuda:90", "gpu"): 220,
    ("matmul", "cuda:90", "llir"): 918,
    ("attention", "cpu:avx512", "tile"): 153,
    ("attention", "cpu:avx512", "llir"): 1409,
    ("attention", "cuda:90", "gpu"): 339,
    ("attention", "cuda:90", "llir"): 1655,
}


def compiled(case, target, stage):
    file, kernel, signature = CASES[case]
    result = nereid("compile", file, "--kernel", kernel, "--signature", ", ".join(signature), "--target", target, "--num-warps", "8",
                    "--emit", stage)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("what", SEEN, ids="-".join)
def test_size(what):
    lines = [line for line in compiled(*what).splitlines() if line.startswith(" ")]
    seen = SEEN[what]
    assert 0.6 * seen < len(lines) <= 1.1 * seen, f"{len(lines)} lines, {seen} expected"


def test_products_of_one_size_share_a_function():
    """Attention computes q k from zeros and adds p v to what it has: one function, told which of both."""
    text = compiled("attention", "cpu:avx512", "llir")
    (name, ) = re.findall(r"^define .*@(dot_\w+)\(", text, re.MULTILINE)
    assert name.startswith("dot_f32_128x64x64")    # then the distances of rows
    flags = re.findall(rf"call void @{name}\(.*i1 (\w+)\)", text)
    assert len(flags) > 2 and set(flags) == {"true", "false"}


def test_transposes_of_one_size_share_a_function():
    """Both loops of attention transpose a block of keys."""
    text = compiled("attention", "cpu:avx512", "llir")
    assert re.findall(r"^define .*@(transpose_\w+)\(", text, re.MULTILINE) == ["transpose_16_64x64"]
    assert len(re.findall(r"call void @transpose_16_64x64\(", text)) == 2


def test_a_shuffle_of_a_transpose_is_one_instruction():
    """A square of 16 x 16 numbers of 16 bits: 16 registers of two rows each, interleaved three times, without blends and shifts."""
    text = compiled("attention", "cpu:avx512", "asm").partition("\ntranspose_16_64x64:")[2].partition("\n.Lfunc_end")[0]
    assert len(re.findall(r"\bvpunpck[lh]wd\b", text)) == 48 and len(re.findall(r"\bvinserti128\b", text)) == 16
    assert not re.search(r"\b(vpblend\w*|vpsll\w*|vperm\w*)\b", text)


INVARIANTS = """import triton
import triton.language as tl

@triton.jit
def invariants_kernel(out, x, n, m, BLOCK: tl.constexpr):
    i = (tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)) // m
    at = i.to(tl.float32)
    a, b, c, d = tl.exp(at), tl.exp(at * 2), tl.exp(at * 3), tl.exp(at * 4)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(n):
        y = tl.load(x + k)
        total += (a + y) * (b + y) * (c + y) * (d + y)
    tl.store(out + tl.arange(0, BLOCK), total)
"""


def test_what_a_loop_needs_is_made_together(tmp_path):
    """Four tensors from before a loop are made in one loop nest, in which their common part is computed once: here a division. And lanes of
    64-bit integers are not divided one by one."""
    file = tmp_path / "kernels.py"
    file.write_text(INVARIANTS)
    result = nereid("compile", str(file), "--kernel", "invariants_kernel", "--signature", "*fp32:16, *fp32:16, i32, i32, 128",
                    "--target", "cpu:avx512", "--emit", "llir")
    assert result.returncode == 0, result.stderr
    assert len(re.findall(r"= sitofp <", result.stdout)) == 1
    assert not re.findall(r"= sdiv <", result.stdout)
