"""Kernels of attention whose blocks compute several programs, one after the other, in divided warps: which kernels do, and that their code assembles for sm_90a. Needs no GPU.
Results: tests/unit/nvidia/PersistentAttentionTest.cpp, tests/ops/test_attention_copied.py."""

import re

import nereid
import nereid.language as tl
import pytest
import torch

from gpu.test_warp_specialize import assembled, compiled, describe, needs_ptxas


@nereid.jit
def scores_of(q, k, high, MASKED: tl.constexpr):
    s = tl.dot(q, k.T)
    if MASKED:
        s = tl.where(tl.arange(0, s.shape[0])[:, None] >= high - tl.arange(0, s.shape[1])[None, :], s, float("-inf"))
    return s


@nereid.jit
def attention(q_desc, k_desc, v_desc, o_desc, lse, N, HEAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr, ASKED: tl.constexpr, FORM: tl.constexpr):
    """FORM: 0; 1: a grid of two axes; 2: results through pointers; 3: another product behind the loop; 4: an atomic addition."""
    start = tl.program_id(0) * BM
    if FORM == 1:
        start += tl.program_id(1) * N
    q = q_desc.load([start, 0])
    acc = tl.zeros((BM, HEAD), tl.float32)
    top = tl.full((BM, ), float("-inf"), tl.float32)
    total = tl.zeros((BM, ), tl.float32)
    for j in tl.range(0, start + BM if CAUSAL else N, BN, warp_specialize=ASKED):
        s = scores_of(q, k_desc.load([j, 0]), j, CAUSAL)
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        factor = tl.exp2(top - new)
        total = total * factor + tl.sum(p, 1)
        acc = tl.dot(p.to(q.dtype), v_desc.load([j, 0]), acc * factor[:, None])
        top = new
    out = (acc / total[:, None]).to(q.dtype)
    if FORM == 3:
        out = tl.dot(out, v_desc.load([start, 0]).T).to(q.dtype)
    if FORM == 2:
        tl.store(o_desc + (start + tl.arange(0, BM))[:, None] * HEAD + tl.arange(0, HEAD)[None, :], out)
    else:
        o_desc.store([start, 0], out)
    if FORM == 4:
        tl.atomic_add(lse, 1.0)
    else:
        tl.store(lse + start + tl.arange(0, BM), top + tl.log2(total))


def kernel(head=128, BM=128, BN=128, causal=False, asked=True, form=0, dtype=torch.float16, num_warps=8, num_stages=3, **options):
    block = lambda rows: describe(dtype, (rows, head), (4096, head))
    out = torch.empty(4096 * head, dtype=dtype) if form == 2 else block(BM)
    return compiled(nereid.jit(attention.fn), block(BM), block(BN), block(BN), out, torch.empty(4096), 4096, HEAD=head, BM=BM, BN=BN, CAUSAL=causal, ASKED=asked, FORM=form, num_warps=num_warps,
                    num_stages=num_stages, **options)


@pytest.fixture(autouse=True)
def setting(monkeypatch):
    monkeypatch.setattr(nereid.knobs.nereid, "persistent_attention", "always")


@pytest.mark.parametrize("options, expected", [
    ({}, True),
    ({"causal": True, "asked": False}, True),
    ({"head": 64}, False),
    ({"head": 256, "BN": 64, "num_stages": 2}, True),
    ({"num_stages": 2}, False),
    ({"head": 64, "num_stages": 4}, True),
    ({"head": 64, "BM": 256, "BN": 64, "num_warps": 16}, True),
    ({"head": 64, "BM": 256, "BN": 64, "num_warps": 16, "num_stages": 2}, False),
], ids=str)
def test_default(options, expected, monkeypatch):
    """What was measured to be faster."""
    monkeypatch.setattr(nereid.knobs.nereid, "persistent_attention", "")
    assert kernel(**options).metadata.persistent == expected


def test_never(monkeypatch):
    monkeypatch.setattr(nereid.knobs.nereid, "persistent_attention", "never")
    code = kernel()
    assert not code.metadata.persistent and "ngpu.warp_specialize" in code.asm["gpu"]


@pytest.mark.parametrize("options, expected", [
    ({}, True),
    ({"causal": True}, True),
    ({"asked": False}, True),  # divided by default
    ({"asked": False, "BN": 64}, False),  # not divided
    ({"BM": 64, "BN": 64, "num_warps": 4}, True),
    ({"num_stages": 1}, False),
    ({"launch_cooperative_grid": True}, False),
    ({"launch_pdl": True}, False),
    ({"maxnreg": 128}, False),  # products do not overlap
    ({"form": 1}, False),
    ({"form": 2}, False),
    ({"form": 3}, False),
    ({"form": 4}, False),
], ids=str)
def test_which(options, expected):
    code = kernel(**options)
    assert code.metadata.persistent == expected
    assert code.asm["gpu"].count(" = ngpu.programs") == 2 * expected  # of the producer and the consumers


def test_groups_of_warps_do_not_meet():
    text = kernel().asm["gpu"]
    consumers = text.split("ngpu.warp_specialize")[1].split("ngpu.part_yield")[0]
    assert "ngpu.wgmma" in consumers and not re.search(r"ngpu\.(group_)?barrier|tma_store|local_alloc", consumers)


@needs_ptxas
@pytest.mark.parametrize("head, BM, BN, num_warps, num_stages", [(64, 256, 64, 16, 3), (128, 128, 128, 8, 3), (256, 128, 64, 8, 2)])
def test_assembles_without_spills(head, BM, BN, num_warps, num_stages, tmp_path, capfd):
    """Four neighbours of a row are written at once, in as many instructions as a thread has such."""
    ptx = kernel(head, BM, BN, num_warps=num_warps, num_stages=num_stages, dtype=torch.bfloat16).asm["ptx"]
    assert capfd.readouterr().err == ""
    assert ptx.count("st.global.v2.b32") == BM * head // (32 * num_warps) // 4
    log = assembled(ptx, tmp_path)
    assert "0 bytes spill stores" in log and not re.search("C75|Potential|warning", log), log
