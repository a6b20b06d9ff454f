"""Products and attention compiled for a GPU that need not be there: the code uses the matrix units, and vectors where alignment allows."""

import re

import pytest
import torch
from nereid.backends.compiler import GPUTarget

from nereid.ops import _launch, attention, products


class Device:
    """What the host side asks of a device."""
    type, index = "cuda", 0


@pytest.fixture
def compiled(monkeypatch):
    """What is launched is compiled for sm_90 instead: a list of (name of the kernel, PTX)."""
    found = []

    def launch(kernel, grid, device, arguments, constants, integers="i64", **options):
        kinds = {name: _launch._type(value, integers.get(name, "i64")) for name, value in arguments.items()}
        found.append((kernel.__name__, _launch.compile_kernel(kernel, device, kinds, constants, True, **options).asm["ptx"]))

    monkeypatch.setattr(_launch, "_target", lambda device: GPUTarget("cuda", 90, 32))
    for module in (products, attention):
        monkeypatch.setattr(module, "launch", launch)
    monkeypatch.setattr(products, "tiles", lambda device, *args: products.gpu_tiles(132, *args))
    for name in ("forward_tiles", "backward_tiles", "head_width", "_common"):
        original = getattr(attention, name)
        arguments = (lambda original: lambda *args: original(args[0], Device) if original.__name__ == "_common" else original(Device, *args[1:]))(original)
        monkeypatch.setattr(attention, name, arguments)
    monkeypatch.setattr(attention, "fp32_precision", lambda device: "ieee")
    return found


def multiply(m, n, k, dtype, transposed=False):
    a, out = torch.empty(m, k, dtype=dtype), torch.empty(m, n, dtype=dtype)
    b = torch.empty(n, k, dtype=dtype).t() if transposed else torch.empty(k, n, dtype=dtype)
    products.multiply(out, a, b, None, (1, m, n, k), ((0, *out.stride()), (0, 0, *a.stride()), (0, 0, *b.stride()), (0, 0, 0)))


def scalar_loads(ptx):
    return len(re.findall(r"ld\.global(?!\S*\.v\d)", ptx))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("n", [4096, 4008])
def test_large_products(n, transposed, compiled):
    multiply(4096, n, 4096, torch.float16, transposed)
    (name, ptx), = compiled
    assert name == "product" and "wgmma.mma_async" in ptx and "cp.async" in ptx and not scalar_loads(ptx)


def test_other_products(compiled):
    multiply(64, 64, 16384, torch.bfloat16)
    assert [name for name, _ in compiled] == ["product", "add_parts"] and not scalar_loads(compiled[1][1])
    multiply(100, 200, 300, torch.float64)
    assert "mma.sync" in compiled[-1][1]
    multiply(4095, 4097, 4093, torch.float16)
    assert "wgmma.mma_async" in compiled[-1][1] and scalar_loads(compiled[-1][1]) > 50
    multiply(4096, 1, 4096, torch.float16)
    assert compiled[-1][0] == "vector_product" and ".v4" in compiled[-1][1]


@pytest.mark.parametrize("dtype,size,queries", [(torch.float16, 128, 4096), (torch.bfloat16, 64, 4096), (torch.float16, 80, 1000), (torch.float16, 256, 1000),
                                                (torch.float16, 128, 1), (torch.float32, 64, 500)], ids=str)
def test_attention(dtype, size, queries, compiled):
    query, key = torch.empty(2, 8, queries, size, dtype=dtype), torch.empty(2, 2, 1000, size, dtype=dtype)
    sums = torch.empty(2, 8, queries)
    attention.attend(query, sums, query, key, key, None, 0.1, True, 0)
    attention.differentiate([query, key, key], query, query, key, key, None, query, sums, 0.1, True, 0)
    assert [name for name, _ in compiled] == ["forward", "correlation", "backward_key", "backward_query"]
    for name, ptx in compiled:
        if name != "correlation":
            assert "wgmma.mma_async" in ptx or "mma.sync" in ptx
        # Log-sum-exps and what belongs to a row are single numbers.
        assert scalar_loads(ptx) <= 16, (name, scalar_loads(ptx))
