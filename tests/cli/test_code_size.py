"""How much code the compiler hands from stage to stage. LLVM's time goes with the number of instructions that it is given: counted, not
timed, so that a change which makes every kernel dearer to compile is seen on any machine. Whoever makes the code larger on purpose
raises the number; one that falls far is to be lowered."""

import re

import pytest
from test_cli import PROGRAM, ROOT, SEED, nereid

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="the command line is not built")

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
    ("softmax", "cpu:avx512", "llir"): 189,
    ("softmax", "cuda:90", "llir"): 425,
    ("matmul", "cpu:avx512", "tile"): 99,
    ("matmul", "cpu:avx512", "llir"): 619,
    ("matmul", "cuda:90", "gpu"): 220,
    ("matmul", "cuda:90", "llir"): 918,
    ("attention", "cpu:avx512", "tile"): 153,
    ("attention", "cpu:avx512", "llir"): 1118,
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
    assert re.findall(r"^define .*@(dot_\w+)\(", text, re.MULTILINE) == ["dot_f32_128x64x64"]
    flags = re.findall(r"call void @dot_f32_128x64x64\(.*i1 (\w+)\)", text)
    assert len(flags) > 2 and set(flags) == {"true", "false"}
