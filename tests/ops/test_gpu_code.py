"""Products, attention, lists of tensors and sampling compiled for a GPU that need not be there: the code uses the matrix units, and vectors where alignment allows."""

import re
import sys

import pytest
import torch
from nereid.backends.compiler import GPUTarget

from nereid.ops import _launch, _sorted, attention, fused, products
from nereid.ops.aten import foreach, optimizers
from nereid.ops.fused import sampling


class Device:
    """What the host side asks of a device."""
    type, index = "cuda", 0


@pytest.fixture
def compiled(monkeypatch):
    """What is launched is compiled for sm_90 instead: a list of (name of the kernel, PTX)."""
    found = []

    def launch(kernel, grid, device, arguments, constants, integers="i64", divisible=(), **options):
        kinds = {name: _launch._type(value, integers.get(name, "i64")) for name, value in arguments.items()}
        multiples = {name: _launch._multiples(arguments[name]) for name in divisible}
        found.append((kernel.__name__, _launch.compile_kernel(kernel, device, kinds, constants, True, multiples, **options).asm["ptx"]))

    monkeypatch.setattr(_launch, "_target", lambda device: GPUTarget("cuda", 90, 32))
    paged = sys.modules["nereid.ops.fused.paged_attention"]
    for module in (products, attention, paged):
        monkeypatch.setattr(module, "launch", launch)
    monkeypatch.setattr(products, "tiles", lambda device, *args, wide: products.gpu_tiles(132, *args))
    for name in ("forward_tiles", "backward_tiles", "head_width", "computation"):
        original = getattr(attention, name)
        arguments = (lambda original: lambda *args: original(args[0], Device) if original.__name__ == "computation" else original(Device, *args[1:]))(original)
        monkeypatch.setattr(attention, name, arguments)
    for name in ("row_tiles", "latent_tiles", "head_width"):
        monkeypatch.setattr(paged, name, lambda device, *args, original=getattr(paged, name): original(Device, *args))
    monkeypatch.setattr(paged, "computation", attention.computation)
    monkeypatch.setattr(paged, "programs_wanted", lambda device: 528)
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
    # Results are written in rows, not in the fragments of the matrix units, which fill half sectors.
    assert not re.search(r"st\.global(?!\S*\.v4)", ptx)


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
    sums, rules = torch.empty(2, 8, queries), attention.Rules(right=0)
    attention.attend(query, sums, query, key, key, None, 0.1, rules)
    attention.differentiate([query, key, key], query, query, key, key, None, query, sums, 0.1, rules)
    assert [name for name, _ in compiled] == ["forward", "correlation", "backward_key", "backward_query"]
    for name, ptx in compiled:
        if name != "correlation":
            assert "wgmma.mma_async" in ptx or "mma.sync" in ptx
        # Log-sum-exps and what belongs to a row are single numbers.
        assert scalar_loads(ptx) <= 16, (name, scalar_loads(ptx))


def called(name, *given, **named):
    """Runs a fused operator without PyTorch's dispatcher."""
    operator = fused.FUSED[name]
    operator.run(**operator.form.bind(given, named)[0])


@pytest.mark.parametrize("size", [64, 96, 128])
def test_rules_of_attention(size, compiled):
    """No function is called between products, which would make them run one after the other."""
    q, k, starts = torch.empty(512, 8, size, dtype=torch.bfloat16), torch.empty(512, 2, size, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.int32)
    rules = {"q_starts": starts, "max_q": 512, "max_k": 512, "causal": True, "window_left": 100, "soft_cap": 50.0, "slopes": torch.ones(8)}
    called("attention", q, k, k, **rules)
    called("attention_backward", q, None, q, torch.empty(8, 512), q, k, k, **rules)
    assert [name for name, _ in compiled] == ["forward", "correlation", "backward_key", "backward_query"]
    for name, ptx in compiled:
        if name != "correlation":
            assert "wgmma.mma_async" in ptx and "cp.async" in ptx and "call.uni" not in ptx and "div.rn" not in ptx, name
        assert scalar_loads(ptx) <= 16, (name, scalar_loads(ptx))


@pytest.mark.parametrize("page", [16, 64])
@pytest.mark.parametrize("cache", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_decoding(cache, page, compiled, monkeypatch):
    paged = sys.modules["nereid.ops.fused.paged_attention"]
    monkeypatch.setattr(paged, "way_of", lambda device, *args, original=paged.way_of: original(torch.device("cuda"), *args))
    table, lengths = torch.empty(4, 1024 // page, dtype=torch.int32), torch.empty(4, dtype=torch.int32)
    for queries in (1, 128):
        q, keys = torch.empty(4 * queries, 16, 128, dtype=torch.bfloat16), torch.empty(8, page, 4, 128, dtype=cache)
        called("paged_attention", q, keys, keys, table, lengths, k_scale=torch.ones(1))
    assert [name for name, _ in compiled] == ["paged_forward", "combine", "paged_forward", "combine"]
    assert "mma.sync" in compiled[0][1] and "wgmma.mma_async" in compiled[2][1]
    for _, ptx in compiled:
        # Numbers of pages are read where the copies need them: up to eight a thread, in front of two loops, for each of two tiles ahead, and in them.
        assert scalar_loads(ptx) <= 80, scalar_loads(ptx)
    assert all("cp.async" in ptx for name, ptx in compiled if name == "paged_forward")
    if cache.itemsize == 1:  # decoding reads pairs of elements as matrices, which one permutation divides
        assert "ldmatrix" in compiled[0][1] and "ld.shared.b8" not in compiled[0][1] and "ld.shared.u8" not in compiled[0][1]
        assert compiled[0][1].count("cvt.rn.f16x2.e4m3x2") == 2 * compiled[0][1].count("prmt.b32") > 0


@pytest.mark.parametrize("heads", [16, 128])
def test_latent_decoding(heads, compiled):
    q, cache = torch.empty(4, heads, 576, dtype=torch.bfloat16), torch.empty(8, 64, 576, dtype=torch.bfloat16)
    called("latent_attention_decode", q, cache, torch.empty(4, 128, dtype=torch.int32), torch.empty(4, dtype=torch.int32), 0.1)
    assert [name for name, _ in compiled] == ["latent_forward", "combine"]
    assert "wgmma.mma_async" in compiled[0][1] and "cp.async" in compiled[0][1]
    assert all(scalar_loads(ptx) <= 16 for _, ptx in compiled)


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
    foreach.OPERATORS["_fused_adamw"]._launch(taken, steps, numbers, {"DECOUPLED": True, "MAXIMIZE": False, "COUNTED": True}, torch.device("cpu"))
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


def test_long_rows(monkeypatch):
    """Elements are read 16 bytes at once, several programs share a row without atomics in global memory."""
    found = []

    def launch(kernel, grid, device, arguments, constants, integers="i64", divisible=(), **options):
        kinds = {name: _launch._type(value, integers.get(name, "i64") if type(integers) is dict else integers) for name, value in arguments.items()}
        multiples = {name: _launch._multiples(arguments[name]) for name in divisible}
        found.append((kernel.__name__, grid, _launch.compile_kernel(kernel, Device, kinds, constants, True, multiples, **options).asm["ptx"]))

    monkeypatch.setattr(_launch, "_target", lambda device: GPUTarget("cuda", 90, 32))
    monkeypatch.setattr(_sorted, "launch", launch)
    monkeypatch.setattr(_sorted, "programs_wanted", lambda device: 4 * 132)
    monkeypatch.setattr(_sorted, "_radix_from", lambda x: 32768)
    monkeypatch.setattr(_sorted, "_on_cpu", lambda x: False)
    x, values, places = torch.empty(1, 1 << 18), torch.empty(1, 50), torch.empty(1, 50, dtype=torch.int64)
    _sorted.sort(x, 1, values, places, True, 0, 50)
    assert [(name, grid) for name, grid, _ in found] == [("choose", 128), ("choose", 4), ("sort_chosen", 1)]
    _sorted.nth(x[:, :10000], 1, values[:, :1], places[:, :1], "median")
    _sorted.sort(x.bfloat16(), 1, torch.empty(1, 1 << 18, dtype=torch.bfloat16), torch.empty(1, 1 << 18, dtype=torch.int64))
    assert [name for name, *_ in found[3:]] == ["nth", *["digit_counts", "digit_starts", "move_by_digit"] * 2]
    for name, _, ptx in found:
        assert not re.search(r"(atom|red)\.\S*global", ptx), name
        assert name == "sort_chosen" or re.search(r"ld\.global\S*\.v[24]", ptx), name
