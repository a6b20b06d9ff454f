"""Loops that are divided between a warp that copies and warps that compute: their code assembles for sm_90a, without spills or advice; what
cannot be divided says why. Needs no GPU. Results: tests/unit/nvidia/WarpSpecializeTest.cpp, benchmarks/gpu/warp_specialize.py."""

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
def one_tile(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISE: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=SPECIALISE):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(c.dtype))


@nereid.jit
def persistent(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISE: tl.constexpr):
    for tile in tl.range(tl.program_id(0), 16, tl.num_programs(0), warp_specialize=SPECIALISE):
        m, n = tile // 4 * BM, tile % 4 * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
        c.store([m, n], acc.to(c.dtype))


def compiled(kernel, *arguments, **options):
    return kernel.run(*arguments, grid=(1, ), warmup=True, target="cuda:90", **options)


def describe(dtype, block, shape=(4096, 4096)):
    return TensorDescriptor.from_tensor(torch.empty(shape, dtype=dtype), list(block))


def matmul(kernel, dtype, BM, BN, BK, specialise=True, out=None, **options):
    return compiled(kernel, describe(dtype, (BM, BK)), describe(dtype, (BK, BN)), describe(out or dtype, (BM, BN)), 4096, BM=BM, BN=BN, BK=BK,
                    SPECIALISE=specialise, **options)


def assembled(ptx, tmp_path):
    source = tmp_path / "kernel.ptx"
    source.write_text(ptx)
    return subprocess.run([PTXAS, "-v", "-arch=sm_90a", source, "-o", tmp_path / "kernel.cubin"], capture_output=True, text=True, check=True).stderr


@needs_ptxas
@pytest.mark.parametrize("kernel", [one_tile, persistent])
@pytest.mark.parametrize("dtype, BM, BN, BK, num_warps, num_stages", [
    (torch.float16, 128, 256, 64, 8, 3),
    (torch.bfloat16, 128, 128, 64, 4, 4),
    (torch.float16, 128, 128, 32, 8, 2),
])
def test_assembles_without_spills(kernel, dtype, BM, BN, BK, num_warps, num_stages, tmp_path, capfd):
    found = matmul(kernel, dtype, BM, BN, BK, num_warps=num_warps, num_stages=num_stages)
    assert capfd.readouterr().err == ""
    ptx = found.asm["ptx"]
    # Eight warps share registers with the producer's group of four; others keep what the assembler gives them.
    assert ptx.count("setmaxnreg.inc") == ptx.count("setmaxnreg.dec") == (num_warps == 8)
    assert f".reqntid {32 * (num_warps + (4 if num_warps == 8 else 1))}" in ptx
    assert (".maxnreg" in ptx) == (num_warps == 8)
    loop = found.asm["gpu"].split("ngpu.warp_specialize")[1].split("ngpu.part_yield")[0]
    inner = loop[loop.index("ngpu.mbarrier_wait"):loop.index("ngpu.mbarrier_arrive")]
    assert "ngpu.barrier" not in inner and "async" in inner
    log = assembled(ptx, tmp_path)
    assert "0 bytes spill stores" in log and not re.search("C75|Potential|warning", log), log


@needs_ptxas
@pytest.mark.parametrize("BM, BN, num_warps", [(128, 256, 8), (256, 128, 8), (128, 128, 4)])
@pytest.mark.parametrize("stores", ["", "groups", "never"])
def test_stores_overlap_with_the_next_tile(stores, BM, BN, num_warps, monkeypatch, tmp_path, capfd):
    monkeypatch.setattr(nereid.knobs.nereid, "overlap_stores", stores)
    found = matmul(persistent, torch.float16, BM, BN, 64, num_warps=num_warps, num_stages=3)
    assert capfd.readouterr().err == ""
    code = found.asm["gpu"].split("ngpu.warp_specialize")[1].split("ngpu.part_yield")[0]
    assert (code.index("ngpu.tma_store_wait") < code.index("ngpu.tma_store %")) == (stores != "never")
    alone = stores != "never" and num_warps > 4
    assert code.count("ngpu.group_barrier") == (2 if alone else 0)
    assert code.count("ngpu.barrier") == (0 if alone else 2)
    ptx = found.asm["ptx"]
    # Boxes of 64 columns, of each group's rows in chunks of 64.
    assert ptx.count("cp.async.bulk.tensor.2d.global") == BN // 64 * (BM // 128 if alone else 1)
    log = assembled(ptx, tmp_path)
    assert "0 bytes spill stores" in log and not re.search("C75|Potential|warning", log), log


def test_one_tile_a_program_has_nothing_to_overlap_with():
    assert "group_barrier" not in matmul(one_tile, torch.float16, 128, 256, 64, num_warps=8, num_stages=3).asm["gpu"]


def test_default_and_knob(monkeypatch):
    divided = lambda kernel: "ngpu.warp_specialize" in kernel.asm["gpu"]
    assert not divided(matmul(one_tile, torch.float16, 128, 128, 64, specialise=False))
    assert divided(matmul(one_tile, torch.float16, 128, 128, 64))
    monkeypatch.setattr(nereid.knobs.nereid, "warp_specialise", "never")
    assert not divided(matmul(one_tile, torch.float16, 128, 128, 64))
    monkeypatch.setattr(nereid.knobs.nereid, "warp_specialise", "always")
    assert divided(matmul(one_tile, torch.float16, 128, 128, 64, specialise=False))


def test_registers_of_the_author_stay():
    ptx = matmul(one_tile, torch.float16, 128, 128, 64, num_warps=8, maxnreg=128).asm["ptx"]
    assert "setmaxnreg" not in ptx and ".maxnreg 128" in ptx and f".reqntid {32 * 9}" in ptx


def test_fewer_stages_where_memory_is_short(capfd):
    kernel = matmul(one_tile, torch.float16, 128, 256, 64, num_warps=8, num_stages=6)
    assert "ngpu.warp_specialize" in kernel.asm["gpu"] and kernel.metadata.shared <= 232448
    assert "loops have 4 stages" in capfd.readouterr().err


@nereid.jit
def through_pointers(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns, depth = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        acc = tl.dot(tl.load(a + rows[:, None] * K + k + depth[None, :]), b.load([k, 0]), acc)
    tl.store(c + rows[:, None] * BN + columns[None, :], acc)


@nereid.jit
def in_place(a, b, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    for step in tl.range(0, 4, warp_specialize=True):
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc)
        a.store([0, 0], acc.to(a.dtype))


def test_why_not(capfd, monkeypatch):
    monkeypatch.setattr(nereid.knobs.nereid, "tensor_copies", "never")
    half, empty = torch.float16, torch.empty(1 << 16, dtype=torch.float16)
    compiled(through_pointers, empty, describe(half, (64, 128)), torch.empty(1 << 16), 512, BM=64, BN=128, BK=64)
    assert "a load through pointers feeds a product as well" in capfd.readouterr().err
    compiled(in_place, describe(half, (64, 64)), describe(half, (64, 64)), 64, BM=64, BN=64, BK=64)
    assert "a store before its loads may be to the same tensor" in capfd.readouterr().err
    matmul(one_tile, half, 64, 64, 64, num_warps=2)
    assert "it needs 4, 8, 12 or 16 warps that compute" in capfd.readouterr().err
    matmul(persistent, half, 64, 64, 64, num_stages=1)
    assert "it has one stage" in capfd.readouterr().err


@nereid.jit
def attention(q, k, v, o, LENGTH, scale, BM: tl.constexpr, BN: tl.constexpr, HEAD: tl.constexpr, SPLIT: tl.constexpr):
    m = tl.program_id(0) * BM
    top = tl.full((BM, ), float("-inf"), tl.float32)
    total = tl.zeros((BM, ), tl.float32)
    acc = tl.zeros((BM, HEAD), tl.float32)
    rows = q.load([m, 0])
    for masked in tl.static_range(2 if SPLIT else 1):
        low, high = (m, m + BM) if masked else (0, m if SPLIT else LENGTH)
        for n in range(low, high, BN):
            s = tl.dot(rows, k.load([n, 0]).T)
            if masked:
                s += tl.where((m + tl.arange(0, BM))[:, None] >= (n + tl.arange(0, BN))[None, :], 0, -1.0e6)
            now = tl.maximum(top, tl.max(s, 1) * scale)
            p = tl.math.exp2(s * scale - now[:, None])
            alpha = tl.math.exp2(top - now)
            total = total * alpha + tl.sum(p, 1)
            acc = tl.dot(p.to(tl.float16), v.load([n, 0]), acc * alpha[:, None])
            top = now
    o.store([m, 0], (acc / total[:, None]).to(tl.float16))


def compile_attention(head=128, bn=128, split=False, bm=128, **options):
    blocks = [describe(torch.float16, (rows, head), (8192, head)) for rows in (bm, bn, bn, bm)]
    return compiled(attention, *blocks, 4096, 0.1, BM=bm, BN=bn, HEAD=head, SPLIT=split, **{"num_warps": 8, "num_stages": 3, **options})


@needs_ptxas
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("head", [64, 128])
def test_attention_overlaps_its_products(head, split, tmp_path, capfd):
    ptx = compile_attention(head, split=split).asm["ptx"]
    assert capfd.readouterr().err == ""
    assert "setmaxnreg.inc.sync.aligned.u32 240" in ptx and "setmaxnreg.dec.sync.aligned.u32 24" in ptx
    assert ptx.count("bar.arrive") == 1 + 2 * (2 if split else 1)  # the first turn, and two branches of each loop
    assert "wgmma.wait_group.sync.aligned 1" in ptx
    # Two products of each loop, and the last one behind the last loop.
    assert ptx.count("wgmma.mma_async") == (head // 16 + 8) * (2 if split else 1) + 8
    log = assembled(ptx, tmp_path)
    assert "0 bytes spill stores" in log and not re.search("C75|Potential|warning", log), log


@needs_ptxas
@pytest.mark.parametrize("split", [False, True])
def test_scaling_is_skipped_in_divided_loops(split, monkeypatch, tmp_path):
    votes = lambda **options: compile_attention(split=split, **options).asm["ptx"].count("vote.sync.any")
    loops = 2 if split else 1
    assert votes() == loops and votes(num_stages=2) == 0
    monkeypatch.setattr(nereid.knobs.nereid, "skip_scaling", "always")
    assert votes() == votes(num_stages=2) == loops
    monkeypatch.setattr(nereid.knobs.nereid, "skip_scaling", "never")
    assert votes() == 0
    monkeypatch.setattr(nereid.knobs.nereid, "skip_scaling", "divided")
    log = assembled(compile_attention(split=split).asm["ptx"], tmp_path)
    assert "0 bytes spill stores" in log and not re.search("C75|Potential|warning", log), log


@needs_ptxas
def test_sixteen_warps_overlap_where_registers_suffice(monkeypatch, tmp_path):
    ptx = compile_attention(64, 64, bm=256, num_warps=16).asm["ptx"]
    assert "setmaxnreg.inc.sync.aligned.u32 112" in ptx and "bar.arrive" in ptx and ".maxnreg 96" in ptx
    log = assembled(ptx, tmp_path)
    assert "0 bytes spill stores" in log and not re.search("C75|Potential|warning", log), log
    monkeypatch.setattr(nereid.knobs.nereid, "warp_specialise", "always")
    assert "bar.arrive" not in compile_attention(64, 128, bm=256, num_warps=16, num_stages=2).asm["ptx"]


def test_attention_is_divided_by_default_where_it_is_faster(monkeypatch):
    divided = lambda **options: "ngpu.warp_specialize" in compile_attention(**options).asm["gpu"]
    assert divided() and divided(head=64) and divided(head=256, bn=64, num_stages=2) and divided(head=64, bm=256, bn=64, num_warps=16)
    assert not divided(bn=64) and not divided(num_stages=2) and not divided(num_warps=4)
    monkeypatch.setattr(nereid.knobs.nereid, "warp_specialise", "never")
    assert not divided()


@nereid.jit
def attention_through_pointers(q, k, v, o, LENGTH, stride, scale, BM: tl.constexpr, BN: tl.constexpr, HEAD: tl.constexpr):
    rows, columns, heads = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, HEAD)
    top = tl.full((BM, ), float("-inf"), tl.float32)
    total = tl.zeros((BM, ), tl.float32)
    acc = tl.zeros((BM, HEAD), tl.float32)
    block = tl.load(q + rows[:, None] * stride + heads[None, :])
    for n in range(0, LENGTH, BN):
        places, mask = (n + columns)[:, None] * stride + heads[None, :], (n + columns)[:, None] < LENGTH
        s = tl.dot(block, tl.load(k + places, mask, 0.0).T) * scale
        now = tl.maximum(top, tl.max(s, 1))
        p = tl.math.exp2(s - now[:, None])
        alpha = tl.math.exp2(top - now)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), tl.load(v + places, mask, 0.0), acc * alpha[:, None])
        top = now
    tl.store(o + rows[:, None] * stride + heads[None, :], (acc / total[:, None]).to(tl.float16))


@needs_ptxas
def test_attention_through_pointers_is_divided_where_they_are_copied(monkeypatch, tmp_path):
    tensors = [torch.empty(4096, 128, dtype=torch.float16)] * 4
    compile_it = lambda: compiled(attention_through_pointers, *tensors, 4096, 128, 0.1, BM=128, BN=128, HEAD=128, num_warps=8, num_stages=3)
    monkeypatch.setattr(nereid.knobs.nereid, "tensor_copies", "never")
    assert "ngpu.warp_specialize" not in compile_it().asm["gpu"]
    monkeypatch.setattr(nereid.knobs.nereid, "tensor_copies", "always")
    ptx = compile_it().asm["ptx"]
    assert "setmaxnreg.inc.sync.aligned.u32 240" in ptx and "bar.arrive" in ptx
    log = assembled(ptx, tmp_path)
    assert "0 bytes spill stores" in log and not re.search("C75|Potential|warning", log), log


@nereid.jit
def attention_of_heads(q, k, v, o, HEADS, LENGTH, sb, sh, st, scale, BM: tl.constexpr, BN: tl.constexpr, HEAD: tl.constexpr):
    b, h, m = tl.program_id(1) // HEADS, tl.program_id(1) % HEADS, tl.program_id(0) * BM
    k_desc = tl.make_tensor_descriptor(k, [4, HEADS, LENGTH, HEAD], [sb, sh, st, 1], [1, 1, BN, HEAD])
    v_desc = tl.make_tensor_descriptor(v, [4, HEADS, LENGTH, HEAD], [sb, sh, st, 1], [1, 1, BN, HEAD])
    q_desc = tl.make_tensor_descriptor(q, [4, HEADS, LENGTH, HEAD], [sb, sh, st, 1], [1, 1, BM, HEAD])
    o_desc = tl.make_tensor_descriptor(o, [4, HEADS, LENGTH, HEAD], [sb, sh, st, 1], [1, 1, BM, HEAD])
    rows = q_desc.load([b, h, m, 0]).reshape(BM, HEAD)
    top = tl.full((BM, ), float("-inf"), tl.float32)
    total = tl.zeros((BM, ), tl.float32)
    acc = tl.zeros((BM, HEAD), tl.float32)
    for n in range(0, LENGTH, BN):
        s = tl.dot(rows, k_desc.load([b, h, n, 0]).reshape(BN, HEAD).T) * scale
        now = tl.maximum(top, tl.max(s, 1))
        p = tl.math.exp2(s - now[:, None])
        alpha = tl.math.exp2(top - now)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v_desc.load([b, h, n, 0]).reshape(BN, HEAD), acc * alpha[:, None])
        top = now
    o_desc.store([b, h, m, 0], (acc / total[:, None]).to(tl.float16).reshape(1, 1, BM, HEAD))


@needs_ptxas
def test_attention_through_descriptors_of_four_dimensions_is_divided(tmp_path):
    tensor = torch.empty(4, 8, 4096, 128, dtype=torch.float16)
    found = compiled(attention_of_heads, *[tensor] * 4, 8, 4096, *tensor.stride()[:3], 0.1, BM=128, BN=128, HEAD=128, num_warps=8, num_stages=3)
    assert "ngpu.warp_specialize" in found.asm["gpu"] and "bar.arrive" in found.asm["ptx"]
    log = assembled(found.asm["ptx"], tmp_path)
    assert "0 bytes spill stores" in log and not re.search("C75|Potential|warning", log), log


def test_without_ptxas_products_do_not_overlap(monkeypatch):
    """nvJitLink ignores `setmaxnreg`: the registers would not suffice."""
    monkeypatch.setattr(nereid.knobs.nereid, "assembler", "nvjitlink")
    assert "ngpu.warp_specialize" not in compile_attention().asm["gpu"]
    monkeypatch.setattr(nereid.knobs.nereid, "warp_specialise", "always")
    ptx = compile_attention().asm["ptx"]
    assert "setmaxnreg" not in ptx and "bar.arrive" not in ptx and f".reqntid {32 * 9}" in ptx
