"""Kernels that do not fit as planned are compiled with less shared memory; options without effect, and products that wait for registers, are
told once. Needs no GPU."""

import importlib.util
import pathlib

import nereid
import nereid.language as tl
import pytest
import torch
from nereid.tools.tensor_descriptor import TensorDescriptor

LIMIT = 232448
ROOT = pathlib.Path(__file__).resolve().parents[2]

_spec = importlib.util.spec_from_file_location("assemble_ptx", ROOT / "scripts" / "assemble_ptx.py")
assemble_ptx = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(assemble_ptx)
needs_ptxas = pytest.mark.skipif(not assemble_ptx.find_ptxas(), reason="assembles with ptxas, which requirements-dev.txt installs")


def compiled(kernel, *arguments, **options):
    return kernel.run(*arguments, grid=(1, ), warmup=True, target="cuda:90", **options)


def tensor(dtype, *shape):
    return torch.empty(shape, dtype=dtype)


# ---- two products one after the other, whose first operand has a dimension of size 1 more ---------------


@nereid.jit
def two_loops(a, b, c, d, out, K, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BLOCK):
        acc = tl.dot(tl.reshape(a.load([0, 0, k]), [M, BLOCK]), b.load([k, 0]), acc=acc)
    for k in range(0, K, BLOCK):
        acc = tl.dot(tl.reshape(c.load([0, 0, k]), [M, BLOCK]), d.load([k, 0]), acc=acc)
    out.store([0, 0, 0], tl.reshape(acc, [1, M, N]).to(out.dtype))


def run_two_loops(dtype, M, N, BLOCK, **options):
    describe = lambda shape, block: TensorDescriptor.from_tensor(tensor(dtype, *shape), block)
    rows, columns = describe((1, 512, 512), [1, M, BLOCK]), describe((512, 512), [BLOCK, N])
    return compiled(two_loops, rows, columns, rows, columns, describe((1, 512, 512), [1, M, N]), 512, M=M, N=N, BLOCK=BLOCK, **options)


@pytest.mark.parametrize("M, BLOCK", [(64, 64), (64, 128), (128, 64), (128, 128)])
@pytest.mark.parametrize("num_warps", [4, 8])
@pytest.mark.parametrize("num_stages", [2, 3])
def test_fp32_blocks_of_descriptors(M, BLOCK, num_warps, num_stages):
    kernel = run_two_loops(torch.float32, M, 128, BLOCK, num_warps=num_warps, num_stages=num_stages)
    assert 0 < kernel.metadata.shared <= LIMIT
    if M == 64 and BLOCK == 64:  # rings of what is asked for, and nothing beside them: both loops use the same bytes
        assert kernel.metadata.shared <= num_stages * (M + 128) * BLOCK * 4 + 1024


def test_reshaped_blocks_are_not_copied():
    # The first operand is read where the copy engine has put it.
    kernel = run_two_loops(torch.float16, 64, 128, 64, num_warps=4, num_stages=3)
    assert kernel.metadata.shared <= 3 * (64 + 128) * 64 * 2 + 1024
    assert "st.shared" not in kernel.asm["ptx"].split("wgmma.mma_async")[1]


# ---- scaled products ------------------------------------------------------------------------------------


@nereid.jit
def scaled(a_ptr, b_ptr, a_scales, b_scales, out, K, A: tl.constexpr, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
           STAGES: tl.constexpr):
    PACK: tl.constexpr = 2 if A == "e2m1" else 1
    m, n = tl.arange(0, M), tl.arange(0, N)
    ka, kb, ks = tl.arange(0, BLOCK // PACK), tl.arange(0, BLOCK // 2), tl.arange(0, BLOCK // 32)
    acc = tl.zeros((M, N), tl.float32)
    for k in tl.range(0, K, BLOCK, num_stages=STAGES):
        a = tl.load(a_ptr + m[:, None] * (K // PACK) + k // PACK + ka[None, :])
        b = tl.load(b_ptr + n[None, :] * (K // 2) + k // 2 + kb[:, None])
        sa = tl.load(a_scales + m[:, None] * (K // 32) + k // 32 + ks[None, :])
        sb = tl.load(b_scales + n[:, None] * (K // 32) + k // 32 + ks[None, :])
        acc = tl.dot_scaled(a, sa, A, b, sb, "e2m1", acc)
    tl.store(out + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("kind, M, N", [("e4m3", 128, 256), ("e4m3", 128, 128), ("e2m1", 64, 256), ("e2m1", 128, 256)])
@pytest.mark.parametrize("stages", [1, 3])
def test_scaled_products(kind, M, N, stages):
    a = tensor(torch.uint8 if kind == "e2m1" else torch.float8_e4m3fn, 1 << 16)
    codes = tensor(torch.uint8, 1 << 16)
    kernel = compiled(scaled, a, codes, codes, codes, tensor(torch.float32, 1 << 16), 4096, A=kind, M=M, N=N, BLOCK=256, STAGES=stages, num_warps=8)
    assert 0 < kernel.metadata.shared <= LIMIT


# ---- what cannot fit, and registers ----------------------------------------------------------------------


@nereid.jit
def square(a, out, N: tl.constexpr, K: tl.constexpr):
    i, k = tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i[:, None] * K + k[None, :])
    tl.store(out + i[:, None] * N + i[None, :], tl.dot(x, tl.trans(x)))


def test_what_cannot_fit_is_an_error():
    with pytest.raises(nereid.OutOfResources, match="out of resource: shared memory, Required: [0-9]+, Hardware limit: 232448"):
        compiled(square, tensor(torch.float16, 1 << 20), tensor(torch.float32, 1 << 20), N=512, K=512, num_warps=8)
    # The nearest that fits.
    assert compiled(square, tensor(torch.float16, 1 << 20), tensor(torch.float32, 1 << 20), N=128, K=512, num_warps=8).metadata.shared <= LIMIT


def add_one():

    @nereid.jit
    def add_one(x, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

    return add_one


def test_more_registers_than_there_are(capfd):
    kernel = add_one()
    assert ".maxnreg 128" in compiled(kernel, tensor(torch.float32, 64), 64, B=64, num_warps=16, maxnreg=240).asm["ptx"]
    assert capfd.readouterr().err == (
        "warning: `add_one`: `maxnreg=240` does not fit 512 threads, which share 65536 registers: it is 128; what helps: `maxnreg=128` or "
        "fewer, or fewer warps (found with num_warps=16, num_stages=3, B=64)\n")
    assert ".maxnreg 128" in compiled(kernel, tensor(torch.float32, 64), 64, B=128, num_warps=16, maxnreg=128).asm["ptx"]
    assert capfd.readouterr().err == ""


# ---- advice ----------------------------------------------------------------------------------------------


def test_what_was_given_up_is_told(capfd, monkeypatch):
    monkeypatch.setattr(nereid.knobs.nereid, "tensor_copies", "never")
    @nereid.jit
    def wide_product(a, b, out, K, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr):
        m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BLOCK)
        acc = tl.zeros((M, N), tl.float32)
        for start in range(0, K, BLOCK):
            acc += tl.dot(tl.load(a + m[:, None] * K + start + k[None, :]), tl.load(b + n[None, :] * K + start + k[:, None]))
        tl.store(out + m[:, None] * N + n[None, :], acc)

    operands = tensor(torch.float16, 1 << 16), tensor(torch.float16, 1 << 16), tensor(torch.float32, 1 << 16)
    for num_stages in (3, 4):  # told once for a kernel
        kernel = compiled(wide_product, *operands, 4096, M=128, N=256, BLOCK=256, num_warps=8, num_stages=num_stages)
        assert kernel.metadata.shared == (128 + 256) * 256 * 2
    assert capfd.readouterr().err == (
        "warning: `wide_product`: it would take 393216 bytes of shared memory and a block has 232448, so loops do not fetch ahead; what "
        "helps: smaller blocks, or fewer `num_stages` (found with num_warps=8, num_stages=3, M=128, N=256, BLOCK=256)\n")


def test_options_without_effect(capfd, monkeypatch):
    def make():
        @nereid.jit
        def hinted(x, n, B: tl.constexpr):
            for i in tl.range(0, n, B, flatten=True, warp_specialize=True):
                tl.store(x + i + tl.arange(0, B), i)
            for i in tl.range(0, n, B, num_stages=3):
                tl.store(x + i + tl.arange(0, B), tl.load(x + i + tl.arange(0, B)) + 1)
            for i in tl.range(0, n, B, disallow_acc_multi_buffer=True, loop_unroll_factor=2, disable_licm=True):
                tl.store(x + i + tl.arange(0, B), i)

        return hinted

    monkeypatch.setattr(nereid.knobs.nereid, "advice", False)
    x = tensor(torch.float32, 4096)
    compiled(make(), x, 4096, B=64)
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(nereid.knobs.nereid, "advice", True)
    for _ in range(2):
        compiled(make(), x, 4096, B=128)
    lines = capfd.readouterr().err.splitlines()
    first = make().fn.__code__.co_firstlineno
    start, end = "warning: `hinted`: ", " (found with num_warps=4, num_stages=3, B=128)"
    assert lines == [
        start + f"line {first + 2}: `flatten=True` of this loop has no effect: iterations run one after the other; what helps: leave it out" + end,
        start + f"line {first + 2}: `warp_specialize=True` of this loop has no effect, all warps do the same work: no load of a descriptor in it "
        "feeds a product; what helps: leave it out, or load blocks through descriptors that the copy engine serves, in a loop of its own" + end,
        start + f"line {first + 4}: `num_stages=3` has no effect, the loads of this loop are not fetched ahead: it writes to global memory, "
        "and a load must not pass a store that may be to the same place; what helps: store behind the loop, or load in a loop of its own" + end]


@needs_ptxas
@pytest.mark.parametrize("policy", ["evict_first", "evict_last"])
def test_policies_of_loads_that_are_fetched_ahead(policy):
    """They are dropped: assemblers before CUDA 13.4 make illegal instructions of such copies."""

    @nereid.jit
    def with_policy(a, b, out, K, POLICY: tl.constexpr, M: tl.constexpr, BLOCK: tl.constexpr):
        m, k = tl.arange(0, M), tl.arange(0, BLOCK)
        acc = tl.zeros((M, M), tl.float32)
        for start in range(0, K, BLOCK):
            x = tl.load(a + m[:, None] * K + start + k[None, :], mask=start + k[None, :] < K, other=0.0)
            y = tl.load(b + m[None, :] * K + start + k[:, None], eviction_policy=POLICY)
            acc += tl.dot(x, y)
        tl.store(out + m[:, None] * M + m[None, :], acc)

    half = tensor(torch.float16, 1 << 16)
    kernel = compiled(with_policy, half, half, tensor(torch.float32, 1 << 16), 1024, POLICY=policy, M=64, BLOCK=64)
    copies = [line for line in kernel.asm["ptx"].splitlines() if "cp.async.cg" in line]
    assert copies and not any("cache_hint" in line for line in copies)
    assert "createpolicy" not in kernel.asm["ptx"] and kernel.asm["cubin"]


@needs_ptxas
def test_products_that_wait_for_registers(capfd):
    @nereid.jit
    def two_products(a, b, out, K, M: tl.constexpr, BLOCK: tl.constexpr):
        first, second = tl.zeros((M, M), tl.float32), tl.zeros((M, M), tl.float32)
        for k in range(0, K, BLOCK):
            x = a.load([0, k])
            first = tl.dot(x, tl.trans(b.load([0, k])), acc=first)
            second = tl.dot(x, tl.trans(b.load([M, k])), acc=second)
        out.store([0, 0], (first * second).to(out.dtype))

    def run(num_warps):
        describe = lambda block: TensorDescriptor.from_tensor(tensor(torch.float16, 512, 512), block)
        compiled(two_products, describe([128, 64]), describe([128, 64]), describe([128, 128]), 512, M=128, BLOCK=64, num_warps=num_warps).asm["cubin"]
        return capfd.readouterr().err

    assert run(8) == ""
    assert run(4) == (
        "warning: `two_products`: products on matrix units run one after the other: the values alive at the same time do not fit a thread's 255 "
        "registers; what helps: `num_warps=8` or smaller blocks (found with num_warps=4, num_stages=3, M=128, BLOCK=64)\n")
