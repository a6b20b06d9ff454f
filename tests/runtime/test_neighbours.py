"""Nereid beside an installed Triton and torch in one process, each under its own name."""

import importlib.util
import subprocess
import sys
import textwrap

import pytest

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no Triton is installed here")

KERNEL = """
    import {first}
    import {second}
    import nereid, nereid.language as tl
    import triton, triton._C.libtriton
    import torch

    @nereid.jit
    def kernel(x, y, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

    x, y = torch.randn(100), torch.zeros(100)
    kernel[(1,)](x, y, 100, BLOCK=128)
    assert torch.equal(y, x * 2)
    assert not triton.__file__.startswith(nereid.__path__[0])
    assert triton.language.__name__ == "triton.language" and triton.language is not tl

    # The real Triton still builds its own IR.
    @triton.jit
    def other(x, y):
        triton.language.store(y, triton.language.load(x))
    source = triton.compiler.ASTSource(other, signature={{"x": "*fp32", "y": "*fp32"}}, constexprs={{}})
    from triton._C.libtriton import ir
    context = ir.context()
    ir.load_dialects(context)
    print("both")
"""


@needs_triton
@pytest.mark.parametrize("first,second", [("triton", "nereid"), ("nereid", "triton"), ("torch", "nereid")])
def test_one_process(first, second, tmp_path):
    script = tmp_path / "both.py"
    script.write_text(textwrap.dedent(KERNEL.format(first=first, second=second)))
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "both"


@needs_triton
def test_an_installed_triton_is_not_shadowed(tmp_path):
    code = "import nereid, triton; print(triton.__file__.startswith(nereid.__path__[0]))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout.strip() == "False"
