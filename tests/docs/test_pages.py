"""The blocks of Python on the pages of docs run, one after the other as on the page, on the CPU; what a comment behind a `print` shows is printed.

What a page supposes its reader to have (a model, tensors) is in `SUPPOSED`, before the block of that number. The blocks of C++ of cpp.md compile. The tutorial and README.md have a test of their own (`test_tutorial.py`).
"""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^print\(.*\) +# ([\[(].*)$", re.MULTILINE)

LANGUAGE = "import nereid\nimport nereid.language as tl\nimport torch\nimport triton\n"
FUSED = "import torch\nfrom nereid.ops import fused\ntorch.manual_seed(0)\n"
MODEL = "import torch\nmodel, batch = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.SiLU()), torch.randn(8, 64)\n"
LLAMA = """import torch
from transformers import AutoModelForCausalLM, LlamaConfig
config = LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2)
model = AutoModelForCausalLM.from_config(config)
"""

#: Page: what stands before its blocks, by their number.
SUPPOSED = {
    "aggregates.md": {0: LANGUAGE},
    "differentiation.md": {
        2: """
@nereid.jit
def cross_entropy(logits, labels, loss, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(logits + row * n + columns, mask=columns < n, other=float("-inf"))
    top = tl.max(values, axis=0)
    tl.store(loss + row, top + tl.log(tl.sum(tl.exp(values - top), axis=0)) - tl.load(logits + row * n + tl.load(labels + row)))

rows, n = 3, 4000
logits, labels, loss = torch.randn(rows, n), torch.tensor([1, 2, 3]), torch.empty(rows)
dlogits = torch.empty_like(logits)
""", 3: "s, gx, gdy = torch.ones(1000), torch.empty(1000), torch.empty(1000)\n", 4: "gelu_kernel, x = gelu, torch.randn(1000, requires_grad=True)\n"
    },
    "howto/precompile.md": {
        0: LANGUAGE + MODEL + """
inputs = batch

@nereid.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

@nereid.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    sum = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        sum = tl.dot(tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + n[None, :]), sum)
    tl.store(c + m[:, None] * N + n[None, :], sum)
"""
    },
    "jax.md": {},
    "models.md": {0: LLAMA},
    "ops.md": {1: MODEL},
    "ops-attention.md": {
        0: FUSED + "q, k, v = torch.randn(2, 32, 4, 64), torch.randn(2, 32, 2, 64), torch.randn(2, 32, 2, 64)\n",
        1: """
q, k, v, starts = torch.randn(32, 4, 64), torch.randn(32, 2, 64), torch.randn(32, 2, 64), torch.tensor([0, 20, 32])
key_cache, value_cache = torch.zeros(2, 4, 16, 2, 64)
slots, block_table, lengths = torch.arange(32), torch.tensor([[0, 1], [2, 3]]), torch.tensor([16, 16])
"""
    },
    "ops-fused.md": {
        1: "bias, eps = torch.zeros(4096), 1e-5\n", 3: "gate = up = torch.randn(4, 64)\n",
        4: "x, weight, gate_weight, up_weight = torch.randn(4, 64), torch.randn(32, 64), torch.randn(32, 64), torch.randn(32, 64)\n",
        5: """
x, residual, weight = torch.randn(4, 64), torch.randn(4, 64), torch.ones(64)
q_weight, k_weight, v_weight, gate_weight, up_weight, down_weight = (torch.randn(*shape) for shape in (*[(64, 64)] * 3, *[(32, 64)] * 2, (64, 32)))
""",
        6: "a, b, a_scale, b_scale = torch.randn(16, 64).to(torch.float8_e4m3fn), torch.randn(32, 64).to(torch.float8_e4m3fn), torch.ones(()), torch.ones(())\n",
        7: """
q, k, v = torch.randn(6, 4, 64), torch.randn(6, 2, 64), torch.randn(6, 2, 64)
angles = torch.randn(128, 32)
cos, sin, slots, positions = angles.cos(), angles.sin(), torch.arange(6), torch.arange(6)
key_cache = value_cache = torch.zeros(4, 16, 2, 64)
q_weight = k_weight = torch.ones(64)
""", 8: "logits, target, x, weight = torch.randn(8, 100), torch.randint(100, (8,)), torch.randn(8, 64), torch.randn(100, 64)\n",
        10: "residual = torch.randn(8, 64)\n", 11: "model = torch.nn.Linear(64, 64)\nmodel(x).sum().backward()\ngrads, max_norm = [p.grad for p in model.parameters()], 1.0\n",
        12: """
import torch.nn.functional as F
x, norm_weight, gate_weight, up_weight, weight = (torch.randn(*shape, requires_grad=True) for shape in ((8, 64), (64,), (32, 64), (32, 64), (64, 32)))
""", 13: "model = torch.nn.Module()\nmodel.lm_head = torch.nn.Linear(64, 100)\n"
    },
    "ops-products.md": {0: FUSED + "x, router, gate_up, down = torch.randn(6, 64), torch.randn(4, 64), torch.randn(4, 64, 64), torch.randn(4, 64, 32)\n"},
    "python.md": {3: """
import triton

@nereid.jit
def kernel(x, pair, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), pair[0] * pair[1])
"""},
    "pytorch.md": {0: MODEL, 1: "x = batch\n"},
}
#: Blocks that are parts of something, by what stands in them.
FRAGMENTS = {
    ("dispatch.md", '"EVEN_K": lambda args'): "an entry of a table",
    ("foreign-code.md", "tl.inline_asm_elementwise("): "lines of a kernel",
    ("foreign-code.md", "tl.core.extern_elementwise("): "needs a file of LLVM's code",
    ("python.md", "i % 128"): "lines of a kernel",
    ("python.md", "def kernel(...)"): "a kernel without a body"
}
#: The same of the blocks of C++ in cpp.md, each of which is the body of a function.
SUPPOSED_IN_CPP = [
    "unsigned blocks = 1; int n = 10; std::vector<float> x(n), y(n), out(n); nereid::Stream stream = nereid::Stream::create(nereid::Device::cuda());",
    "auto module = nereid::Module::load(\"kernels.py\"); nereid::Function matmul = module.function(\"matmul\"); float *a = 0, *b = 0, *out = 0; int m = 1, n = 1, k = 1;",
    "auto module = nereid::Module::load(\"kernels.py\"); unsigned rows = 1; int columns = 10; std::vector<float> x(10), y(10), dy(10);"
]


def pages():
    folder = ROOT / "docs"
    return {path.relative_to(folder).as_posix(): BLOCK.findall(path.read_text()) for path in sorted(folder.rglob("*.md")) if path.name != "tutorial.md"}


def is_fragment(name, text):
    return any(name == page and part in text for page, part in FRAGMENTS)


def runnable():
    return [name for name, blocks in pages().items() if not all(is_fragment(name, text) for text in blocks)]


def test_all_pages_are_known():
    assert set(SUPPOSED) <= set(runnable()), "a page of SUPPOSED has no blocks any more"
    assert all(sum(part in text for text in pages()[name]) == 1 for name, part in FRAGMENTS)
    assert all(number < len(pages()[name]) for name, supposed in SUPPOSED.items() for number in supposed)


@pytest.mark.parametrize("name", runnable())
def test_page(name, tmp_path):
    for module in {"jax.md": ["jax"], "models.md": ["torch", "transformers"]}.get(name, ["torch"]):
        pytest.importorskip(module)
    supposed, parts = SUPPOSED.get(name, {}), []
    for number, text in enumerate(pages()[name]):
        if not is_fragment(name, text):
            parts += [supposed.get(number, ""), text.replace(", ...)", ")")]
    program = tmp_path / "page.py"
    program.write_text("\n".join(parts))
    done = subprocess.run([sys.executable, "-m", "nereid", str(program)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    for shown in PRINTED.findall("\n".join(pages()[name])):
        assert shown in done.stdout.splitlines(), f"the page shows `{shown}`, printed was:\n{done.stdout}"


def test_cpp_page(tmp_path):
    """Its blocks compile."""
    compiler = shutil.which("c++") or shutil.which("clang++-22")
    if not compiler:
        pytest.skip("needs a C++ compiler named c++, for instance of Debian's package g++")
    blocks = re.findall(r"^```cpp\n(.*?)^```$", (ROOT / "docs" / "cpp.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == len(SUPPOSED_IN_CPP)
    include = re.compile(r"^#include .*\n", re.MULTILINE)
    lines = ["#include <vector>\n", *(line for block in blocks for line in include.findall(block)), "int cdiv(int a, int b) { return (a + b - 1) / b; }\n"]
    lines += [f"void block{i}() {{\n{supposed}\n{include.sub('', block)}}}\n" for i, (supposed, block) in enumerate(zip(SUPPOSED_IN_CPP, blocks))]
    source = tmp_path / "page.cpp"
    source.write_text("".join(lines))
    done = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-I", str(ROOT / "include"), str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
