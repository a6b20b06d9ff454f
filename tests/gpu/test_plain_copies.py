"""Products of blocks loaded through plain pointers, whose loops have a version for the copy engine: their code assembles for sm_90a; what stays with
pointers says why. Needs no GPU. Results: tests/unit/nvidia/PlainCopiesTest.cpp, benchmarks/gpu/plain_copies.py."""

import importlib.util
import json
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


assemble_ptx = _load(ROOT / "scripts" / "assemble_ptx.py", "assemble_ptx")
PTXAS = assemble_ptx.find_ptxas()
needs_ptxas = pytest.mark.skipif(not PTXAS, reason="assembles with ptxas, which requirements-dev.txt installs")


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(nereid.knobs.nereid, "tensor_copies", "always")
    monkeypatch.setattr(nereid.knobs.nereid, "persistent_products", "asked")


@nereid.jit
def tutorial(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, BM: tl.constexpr, BN: tl.constexpr,
             BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BM)
    num_pid_n = tl.cdiv(N, BN)
    num_pid_in_group = GROUP * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP
    group_size_m = min(num_pid_m - first_pid_m, GROUP)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = (pid_m * BM + tl.arange(0, BM)) % M
    offs_bn = (pid_n * BN + tl.arange(0, BN)) % N
    offs_k = tl.arange(0, BK)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    c = accumulator.to(c_ptr.dtype.element_ty)
    offs_cm = pid_m * BM + tl.arange(0, BM)
    offs_cn = pid_n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    tl.store(c_ptrs, c, mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


def matmul(order="nn", dtype=torch.float16, size=(512, 512, 512), block=(128, 256, 64), **options):
    m, n, k = size
    a = torch.empty(m, k, dtype=dtype) if order[0] == "n" else torch.empty(k, m, dtype=dtype).t()
    b = torch.empty(k, n, dtype=dtype) if order[1] == "n" else torch.empty(n, k, dtype=dtype).t()
    c = torch.empty(m, n, dtype=dtype)
    return tutorial.run(a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), *block, 8, grid=(1, ), warmup=True,
                        **{"target": "cuda:90", **options})


def assembled(ptx, tmp_path):
    source = tmp_path / "kernel.ptx"
    source.write_text(ptx)
    return subprocess.run([PTXAS, "-v", "-arch=sm_90a", source, "-o", tmp_path / "kernel.cubin"], capture_output=True, text=True, check=True).stderr


@needs_ptxas
@pytest.mark.parametrize("order", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("block, num_warps, num_stages, specialise", [
    ((128, 256, 64), 8, 3, ""),
    ((128, 128, 64), 4, 4, ""),
    ((128, 256, 64), 8, 3, "always"),
])
def test_assembles_without_spills(order, block, num_warps, num_stages, specialise, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(nereid.knobs.nereid, "warp_specialise", specialise)
    kernel = matmul(order, block=block, num_warps=num_warps, num_stages=num_stages)
    assert capfd.readouterr().err == ""
    ptx = kernel.asm["ptx"]
    assert kernel.metadata.tensor_maps == 2
    assert "cp.async.bulk.tensor.2d.shared::cluster.global" in ptx and "cp.async.cg.shared.global" in ptx
    assert ("ngpu.warp_specialize" in kernel.asm["gpu"]) == (specialise == "always")
    # The versions share their bytes: no more than the deeper one needs, and barriers.
    bm, bn, bk = block
    assert kernel.metadata.shared < max(2 * bk * (bm + bn) * num_stages, 2 * bm * bn) + 4096
    log = assembled(ptx, tmp_path)
    assert "0 bytes spill stores" in log and not re.search("C75|Potential|warning", log), log


@pytest.mark.parametrize("size", [(1000, 776, 328), (511, 509, 503)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_sizes_that_do_not_divide(size, dtype):
    kernel = matmul(dtype=dtype, size=size, block=(64, 64, 32))
    assert kernel.asm["tile"].count("tile.desc_load") == 2 and kernel.asm["tile"].count("tile.load") == 2


def test_setting(monkeypatch):
    copies = lambda **options: "tile.desc_load" in matmul(**{"block": (64, 64, 64), **options}).asm["tile"]
    slow = [{"block": (64, 64, 32)}, {"block": (64, 64, 32), "order": "nt"}, {"block": (256, 64, 32)}, {"dtype": torch.float32}]
    assert copies() and all(copies(**each) for each in slow)
    for value in ("never", ""):
        monkeypatch.setattr(nereid.knobs.nereid, "tensor_copies", value)
        assert not copies()
    monkeypatch.setattr(nereid.knobs.nereid, "tensor_copies", "auto")
    assert copies() and not any(copies(**each) for each in slow)
    # A's rows of 64 bytes are few against the products, and 16 for each warp; with B transposed there are twice as many.
    wide = {"block": (128, 128, 32), "num_warps": 8}
    assert copies(**wide) and not copies(**wide, order="nt") and not copies(**wide | {"num_warps": 4})
    assert reasons(matmul(block=(64, 64, 32)))[0].startswith("the copy engine is slow with rows of less than 128 bytes")


def test_no_choice_of_what_was_not_measured(monkeypatch):
    for value, expected in (("auto", False), ("always", True)):
        monkeypatch.setattr(nereid.knobs.nereid, "tensor_copies", value)
        assert ("tile.desc_load" in matmul(block=(64, 64, 64), target="cuda:100").asm["tile"]) == expected


@needs_ptxas
def test_two_words_of_a_map_are_read():
    """Not all 128 bytes of it, which small kernels paid for."""
    ptx = matmul(block=(64, 64, 64)).asm["ptx"]
    assert ptx.count("prefetch.tensormap") == 2
    # To prefetch the two maps, and to choose a version.
    read = re.findall(r"ld\.param(?:\.v(\d))?\.b64 .*\[%rd\d+(?:\+\d+)?\]", ptx)
    assert 0 < sum(8 * int(width or 1) for width in read) <= 2 * 2 * 16


def test_where_there_are_no_maps():
    from nereid.backends.compiler import GPUTarget
    types = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp16", **dict.fromkeys(["M", "N", "K", "stride_am", "stride_bk", "stride_cm"], "i32")}
    constants = {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1, "BM": 64, "BN": 64, "BK": 64, "GROUP": 8}
    source = nereid.compiler.ASTSource(tutorial, {**types, **dict.fromkeys(constants, "constexpr")}, constants)
    for options, copies in (({}, False), ({"pointer_copies": True}, True)):
        assert (nereid.compile(source, GPUTarget("cuda", 90, 32), options).metadata.tensor_maps > 0) == copies
    assert "tile.desc_load" not in matmul(block=(64, 64, 64), tensor_copies=False).asm["tile"]
    c = torch.empty(64, 64)
    arguments = torch.empty(64, 64), torch.empty(64, 64), c, 64, 64, 64, 64, 1, 64, 1, 64, 1, 64, 64, 64, 8
    assert "tile.desc_load" not in tutorial.run(*arguments, grid=(1, ), warmup=True, target="cuda:80").asm["tile"]


@nereid.jit
def gathered(a, index, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns, depth = tl.load(index + tl.arange(0, BM)), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(tl.load(a + rows[:, None] * K + k + depth[None, :]), tl.load(b + (k + depth)[:, None] * BN + columns[None, :]), acc)
    tl.store(c + tl.arange(0, BM)[:, None] * BN + columns[None, :], acc)


def reasons(kernel):
    return [block["why"] for block in json.loads(kernel.asm["explain"])["blocks"]]


def test_explain():
    assert reasons(matmul(block=(64, 64, 64))) == ["", ""]
    half = torch.empty(1 << 12, dtype=torch.float16)
    kernel = gathered.run(half, torch.empty(64, dtype=torch.int32), half, torch.empty(1 << 12), 64, BM=64, BN=64, BK=64, grid=(1, ), warmup=True,
                          target="cuda:90")
    assert reasons(kernel) == ["its addresses are no sum of products with the indices"]


@nereid.jit
def two_products(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns, depth = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc, other = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, BM), tl.float32)
    for k in range(0, K, BK):
        block = tl.load(a + rows[:, None] * K + k + depth[None, :])
        acc = tl.dot(block, tl.load(b + (k + depth)[:, None] * BN + columns[None, :]), acc)
        other = tl.dot(block, block.T, other)
    tl.store(c + rows[:, None] * BN + columns[None, :], acc)
    tl.store(c + BM * BN + rows[:, None] * BM + rows[None, :], other)


def test_loops_with_two_products_are_no_choice(monkeypatch):
    half = torch.empty(1 << 12, dtype=torch.float16)
    compiled = lambda: reasons(two_products.run(half, half, torch.empty(1 << 13), 64, BM=64, BN=64, BK=64, grid=(1, ), warmup=True, target="cuda:90"))
    assert compiled() == ["", ""]
    monkeypatch.setattr(nereid.knobs.nereid, "tensor_copies", "auto")
    assert compiled()[0].startswith("only loops with one product")
