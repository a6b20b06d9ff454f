"""Programs that share copies in pairs (NEREID_MULTICAST): their code assembles for sm_90a, without spills or advice. Needs no GPU. Results:
tests/unit/nvidia/SharedCopiesTest.cpp, benchmarks/gpu/multicast.py."""

import importlib.util
import pathlib
import re
import subprocess

import nereid
import nereid.language as tl
import pytest
import torch
from nereid.tools.tensor_descriptor import TensorDescriptor

ROOT = pathlib.Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("assemble_ptx", ROOT / "scripts" / "assemble_ptx.py")
assemble_ptx = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(assemble_ptx)
PTXAS = assemble_ptx.find_ptxas()
needs_ptxas = pytest.mark.skipif(not PTXAS, reason="assembles with ptxas, which requirements-dev.txt installs")


@nereid.jit
def place(tile, num_m, num_n):
    width = 8 * num_n
    first = tile // width * 8
    rows = min(num_m - first, 8)
    return first + tile % width % rows, tile % width // rows


@nereid.jit
def persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    num_m, num_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), num_m * num_n, tl.num_programs(0), warp_specialize=True):
        m, n = place(tile, num_m, num_n)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            acc = tl.dot(a.load([m * BM, k * BK]), b.load([k * BK, n * BN]), acc)
        c.store([m * BM, n * BN], acc.to(tl.float16))


@nereid.jit
def pointers(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = place(tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN))
    offs_m, offs_n, offs_k = (m * BM + tl.arange(0, BM)) % M, (n * BN + tl.arange(0, BN)) % N, tl.arange(0, BK)
    a_ptrs = a_ptr + (offs_m[:, None] * K + offs_k[None, :])
    b_ptrs = b_ptr + (offs_k[:, None] * N + offs_n[None, :])
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=True):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * N
    offs_m, offs_n = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + N * offs_m[:, None] + offs_n[None, :]
    tl.store(c_ptrs, acc.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


def compiled(monkeypatch, kernel, multicast=True, size=4096, **options):
    monkeypatch.setattr(nereid.knobs.nereid, "multicast", multicast)
    monkeypatch.setattr(nereid.knobs.nereid, "tensor_copies", "always")
    blocks = options["BM"], options["BN"], options["BK"]
    tensors = [torch.empty((size, size), dtype=torch.float16) for _ in range(3)]
    if kernel is persistent:
        shapes = (blocks[0], blocks[2]), (blocks[2], blocks[1]), (blocks[0], blocks[1])
        tensors = [TensorDescriptor.from_tensor(tensor, list(shape)) for tensor, shape in zip(tensors, shapes)]
    return kernel.run(*tensors, size, size, size, grid=(2, ), warmup=True, target="cuda:90", **options)


@needs_ptxas
@pytest.mark.parametrize("kernel", [persistent, pointers])
@pytest.mark.parametrize("BM, BN, num_warps, num_stages", [(128, 256, 8, 3), (128, 128, 4, 4)])
def test_assembles_without_spills(monkeypatch, tmp_path, capfd, kernel, BM, BN, num_warps, num_stages):
    found = compiled(monkeypatch, kernel, BM=BM, BN=BN, BK=64, num_warps=num_warps, num_stages=num_stages)
    assert found.metadata.pairs and found.metadata.num_ctas == 1
    ptx = found.asm["ptx"]
    # Of A two boxes of 64 columns would be one, of B there is one for each 64 columns; each box is brought to one block or to both.
    copies = re.findall(r"cp\.async\.bulk\.tensor\.2d\.shared::cluster\S*", ptx)
    shared = [copy for copy in copies if copy.endswith("multicast::cluster")]
    assert len(shared) == 1 + BN // 64 and len(copies) == 2 * len(shared)
    # Both parts, and warps that idle where groups of four have registers of their own, begin and end together.
    assert ptx.count("barrier.cluster.wait") == 4 + ("setmaxnreg" in ptx)
    assert "fence.mbarrier_init.release.cluster" in ptx and "mbarrier.arrive.shared::cluster" in ptx
    source = tmp_path / "kernel.ptx"
    source.write_text(ptx)
    log = subprocess.run([PTXAS, "-v", "-arch=sm_90a", source, "-o", tmp_path / "kernel.cubin"], capture_output=True, text=True, check=True).stderr
    assert "0 bytes spill stores" in log and not re.search("C75|Potential|warning", log), log
    assert capfd.readouterr().err == ""


def test_is_off_by_default(monkeypatch):
    found = compiled(monkeypatch, persistent, multicast=False, BM=128, BN=128, BK=64, num_warps=4, num_stages=3)
    assert not found.metadata.pairs and "cluster.wait" not in found.asm["ptx"] and "multicast::cluster" not in found.asm["ptx"]
