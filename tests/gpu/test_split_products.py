"""Products whose iterations the blocks of a cluster share: their code, what is not divided. Needs no GPU. Results:
tests/unit/nvidia/SplitProductsTest.cpp, benchmarks/gpu/split_products.py."""

import importlib.util
import pathlib
import re
import subprocess

import nereid
import nereid.language as tl
import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PTXAS = _load(ROOT / "scripts" / "assemble_ptx.py", "assemble_ptx").find_ptxas()
needs_ptxas = pytest.mark.skipif(not PTXAS, reason="assembles with ptxas, which requirements-dev.txt installs")


@nereid.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BIAS: tl.constexpr = False,
            LOCK: tl.constexpr = False):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    a_ptrs = a_ptr + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    if BIAS:
        acc += 1
    for i in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=k[None, :] < K - i * BK, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * N
    if LOCK:
        tl.atomic_add(c_ptr, 1.0)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


def compiled(block=(64, 64, 64), dtype=torch.float16, target="cuda:90", **options):
    a, b, c = torch.empty(512, 512, dtype=dtype), torch.empty(512, 512, dtype=dtype), torch.empty(512, 512, dtype=torch.float16)
    return product.run(a, b, c, 512, 512, 512, *block, grid=(8, 8), warmup=True, target=target, **options)


def assembled(ptx, tmp_path):
    source = tmp_path / "kernel.ptx"
    source.write_text(ptx)
    return subprocess.run([PTXAS, "-v", "-arch=sm_90a", source, "-o", tmp_path / "kernel.cubin"], capture_output=True, text=True, check=True).stderr


@pytest.fixture(autouse=True)
def idle(monkeypatch):
    monkeypatch.setattr(nereid.knobs.nereid, "split_products", "idle")
    monkeypatch.setattr(nereid.knobs.nereid, "tensor_copies", "never")


@needs_ptxas
@pytest.mark.parametrize("block, dtype, most, options", [
    ((64, 64, 64), torch.float16, 4, {}),
    ((128, 128, 64), torch.float16, 2, {"num_stages": 4}),
    ((128, 128, 64), torch.float16, 2, {"num_warps": 8, "num_stages": 3}),
    ((16, 64, 128), torch.bfloat16, 8, {"num_stages": 4}),  # the transposed product
    ((16, 32, 64), torch.float16, 8, {"num_stages": 4}),  # mma.sync
    ((64, 64, 32), torch.float32, 4, {}),
])
def test_code(block, dtype, most, options, tmp_path, capfd, monkeypatch):
    kernel = compiled(block, dtype, **options)
    assert capfd.readouterr().err == ""
    assert kernel.metadata.most_splits == most and kernel.metadata.num_ctas == 1
    ptx = kernel.asm["ptx"]
    assert "ld.shared::cluster.v4" in ptx and "barrier.cluster" in ptx and "reqnctapercluster" not in ptx
    # Each piece: others write, all meet, the first reads, all meet.
    pieces = -(-4 * block[0] * block[1] // 32768)
    assert ptx.count("barrier.cluster.wait") == 2 * pieces
    log = assembled(ptx, tmp_path)
    assert "0 bytes spill stores" in log and not re.search("C75|Potential|warning", log), log
    monkeypatch.setattr(nereid.knobs.nereid, "split_products", "")  # never
    other = compiled(block, dtype, **options)
    assert other.metadata.most_splits == 1 and "cluster" not in other.asm["ptx"]
    # The exchange is where the ring was.
    assert kernel.metadata.shared <= max(other.metadata.shared, 32768)


def test_what_is_not_divided(monkeypatch):
    for options in ({"target": "cuda:80"}, {"BIAS": True}, {"LOCK": True}, {"block": (128, 256, 64), "num_warps": 8}):
        kernel = compiled(**options)
        assert kernel.metadata.most_splits == 1 and "sum_blocks" not in kernel.asm["gpu"]
    monkeypatch.setattr(nereid.knobs.nereid, "tensor_copies", "always")    # the loop has two versions
    kernel = compiled()
    assert kernel.metadata.most_splits == 1 and kernel.metadata.tensor_maps == 2 and "sum_blocks" not in kernel.asm["gpu"]
