"""Products, attention, lists of tensors and sampling compiled for a GPU that need not be there: the code uses the matrix units, and vectors where alignment allows."""

import re

import pytest
import torch
from nereid.backends.compiler import GPUTarget

from nereid.ops import _launch, attention, products
from nereid.ops.aten import foreach, optimizers
from nereid.ops.fused import sampling


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
    for name in ("forward_tiles", "backward_tiles", "_width", "_common"):
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


@pytest.fixture
def with_blocks(monkeypatch):
    """As `compiled`, for operators that choose blocks by the type of device: constants to replace are the key."""
    found = []

    def replacing(**chosen):

        def launch(kernel, grid, device, arguments, constants, integers="i64", **options):
            constants = constants | {name: value for name, value in chosen.items() if name in constants}
            kinds = {name: _launch._type(value, integers if isinstance(integers, str) else integers.get(name, "i64")) for name, value in arguments.items()}
            found.append((kernel.__name__, _launch.compile_kernel(kernel, Device, kinds, constants, True, **options).asm["ptx"]))

        for module in (foreach, optimizers, sampling):
            monkeypatch.setattr(module, "launch", launch)
        return found

    monkeypatch.setattr(_launch, "_target", lambda device: GPUTarget("cuda", 90, 32))
    return replacing


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_lists_of_tensors(dtype, with_blocks):
    """Whole blocks are read by vectors; what remains are numbers and the last block."""
    found = with_blocks(BLOCK=2048)
    lists = [[torch.zeros(5000, dtype=dtype), torch.zeros(100, dtype=dtype)] for _ in range(4)]
    steps = [torch.ones(()) for _ in range(2)]
    foreach.OPERATORS["_foreach_addcdiv"]._launch(lists[0], [*lists[:3], [1.0, 2.0]], torch.device("cpu"))
    numbers = {"lr": 0.1, "lr_tensor": None, "grad_scale": None, "found_inf": None, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "decay": 0.1, "log_beta1": -0.1, "log_beta2": -0.01}
    taken = dict(zip(("params", "grads", "averages", "squares"), lists))
    foreach.OPERATORS["_fused_adamw"]._launch(taken, steps, numbers, {"DECOUPLED": True, "MAXIMIZE": False}, torch.device("cpu"))
    assert [name for name, _ in found] == ["mapped", "adam"]
    for name, ptx in found:
        assert len(re.findall(r"(?:ld|st)\.global\S*\.v[24]", ptx)) >= 4, name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_sampling(dtype, with_blocks):
    found = with_blocks(BLOCK=1024, WIDTH=4096)
    rows = torch.zeros(2, 128256, dtype=dtype)
    sampling.sample_by_seed(rows, torch.tensor(1), 1.0, 50, 0.9, 0.1)
    sampling.dropout_by_seed(rows, rows, torch.tensor(1), 0.1)
    assert [name for name, _ in found] == ["sample", "dropped"]
