"""Derivatives are kernels like others: the cache, checked mode, warmup, pickling, explanations, launches with other options."""

import os
import pickle
import subprocess
import sys

import jvp_check
import nereid
import nereid.language as tl
import pytest
import torch

F64 = torch.float64


@nereid.jit
def product(x, w, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * tl.load(w + i, mask=i < n), mask=i < n)


def test_checked_mode_checks_tangents():
    x, w, y, dy = (torch.ones(64) for _ in range(4))
    derivative = nereid.jvp(product, "x", "y")
    derivative[(2, )](x, w, y, 64, dx=torch.ones(64), dy=dy, BLOCK=32, checked=True)
    with pytest.raises(RuntimeError, match="dx"):
        derivative[(2, )](x, w, y, 64, dx=torch.ones(40), dy=dy, BLOCK=32, checked=True)
    with pytest.raises(RuntimeError, match="dx"):
        nereid.grad(product, "x", "y").backward[(2, )](x, w, y, 64, dx=torch.ones(40), dy=dy, BLOCK=32, checked=True)


def test_warmup_and_stages():
    x = torch.ones(64)
    compiled = nereid.jvp(product, "x", "y").warmup(x, x, x, 64, dx=x, dy=x, BLOCK=32, grid=(2, ))
    assert compiled.asm["tile"].count("tile.load") == 3 and compiled.asm["tile"].count("tile.store") == 2
    before = x.clone()
    compiled = nereid.grad(product, "x", "y").backward.warmup(x, x, x, 64, dx=x, dy=x, BLOCK=32, grid=(2, ))
    assert "atomic_rmw" in compiled.asm["tile"] and torch.equal(x, before)


@pytest.mark.parametrize("arch", ["cuda:80", "cuda:90"])
def test_code_for_gpus(arch):
    x = torch.ones(64)
    compiled = nereid.jvp(product, "x", "y").warmup(x, x, x, 64, dx=x, dy=x, BLOCK=32, grid=(2, ), target=arch)
    assert compiled.asm["ptx"].count("ld.global") >= 3
    compiled = nereid.grad(product, "x", "y").backward.warmup(x, x, x, 64, dx=x, dy=x, BLOCK=32, grid=(2, ), target=arch)
    assert "red" in compiled.asm["ptx"] or "atom" in compiled.asm["ptx"]


def test_pickling():
    derivative = pickle.loads(pickle.dumps(nereid.jvp(product, ("x", "w"), "y")))
    x, w, dx, dw = (jvp_check.random(64) for _ in range(4))
    y, dy = torch.zeros(64, dtype=F64), torch.zeros(64, dtype=F64)
    derivative[(2, )](x, w, y, 64, dx=dx, dw=dw, dy=dy, BLOCK=32)
    torch.testing.assert_close(dy, x * dw + w * dx)


def test_positional_tangents():
    x, w, dx = (jvp_check.random(64) for _ in range(3))
    y, dy = torch.zeros(64, dtype=F64), torch.zeros(64, dtype=F64)
    nereid.jvp(product, "x", "y")[(2, )](x, w, y, 64, 32, dx, dy)
    torch.testing.assert_close(dy, w * dx)
    found = torch.full((64, ), float("nan"), dtype=F64)
    nereid.grad(product, "x", "y").backward[(2, )](x, w, y, 64, 32, found, dy)
    torch.testing.assert_close(found, w * dy)


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import nereid, torch
from test_derivatives_as_kernels import product
x, w, y, t, dy = torch.full((64,), 2.0), torch.full((64,), 3.0), torch.zeros(64), torch.full((64,), 1.0), torch.zeros(64)
for wrt in ({{"x": "t"}}, {{"w": "t"}}):
    nereid.jvp(product, wrt, "y")[(2,)](x, w, y, 64, t=t, dy=dy, BLOCK=32)
    print(dy[0].item())
    nereid.grad(product, wrt, "y").backward[(2,)](x, w, y, 64, t=t, dy=torch.ones(64), BLOCK=32)
    print(t[0].item())
    t.fill_(1.0)
product[(2,)](x, w, y, 64, BLOCK=32)
print(y[0].item())
nereid.flush_cache()
"""


def test_the_kernel_cache_tells_derivatives_apart(tmp_path):
    """Kernels of the same text and types: what is differentiated is part of the key."""
    environment = {**os.environ, "NEREID_CACHE": "1", "NEREID_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", SCRIPT.format(folder=os.path.dirname(__file__))], capture_output=True, text=True, env=environment)
        assert done.stdout.split() == ["3.0", "3.0", "2.0", "2.0", "6.0"], done.stderr
