"""Products of one tile a program that blocks compute one after the other, in divided warps: which kernels do, and that their code assembles for sm_90a. Needs no GPU.
Results: tests/unit/nvidia/PersistentProductsTest.cpp."""

import re

import nereid
import nereid.language as tl
import pytest
import torch

from gpu.test_warp_specialize import assembled, compiled, describe, needs_ptxas


@nereid.jit
def one_tile(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISE: tl.constexpr):
    tiles = tl.cdiv(N, BN)
    m, n = tl.program_id(0) // tiles * BM, tl.program_id(0) % tiles * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=SPECIALISE):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(c.dtype))


@nereid.jit
def through_pointers(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISE: tl.constexpr):
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=SPECIALISE):
        acc = tl.dot(a.load([m, k]), b.load([k, 0]), acc)
    tl.store(c + (m + tl.arange(0, BM))[:, None] * N + tl.arange(0, BN)[None, :], acc.to(tl.float16))


@nereid.jit
def scaled(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISE: tl.constexpr):
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=SPECIALISE):
        acc += tl.dot(a.load([m, k]), b.load([k, 0])) * (k + 1)
    c.store([m, 0], acc.to(c.dtype))


@nereid.jit
def triangle(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISE: tl.constexpr):
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, m + BM, BK, warp_specialize=SPECIALISE):
        acc = tl.dot(a.load([m, k]), b.load([k, 0]), acc)
    c.store([m, 0], acc.to(c.dtype))


@nereid.jit
def counted(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISE: tl.constexpr):
    m = tl.program_id(0) * BM
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=SPECIALISE):
        acc = tl.dot(a.load([m, k]), b.load([k, 0]), acc)
    tl.atomic_add(c + tl.program_id(0), tl.sum(acc))


@nereid.jit
def two_axes(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISE: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=SPECIALISE):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(c.dtype))


@nereid.jit
def by_author(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISE: tl.constexpr):
    for tile in tl.range(tl.program_id(0), tl.cdiv(N, BM), tl.num_programs(0), warp_specialize=SPECIALISE):
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([tile * BM, k]), b.load([k, 0]), acc)
        c.store([tile * BM, 0], acc.to(c.dtype))


def product(kernel, BM=128, BN=128, BK=64, asked=True, num_warps=8, num_stages=3, **options):
    half = torch.float16
    out = torch.empty(4096 * 4096, dtype=torch.float32 if kernel.__name__ == "counted" else half) if kernel.__name__ in ("through_pointers", "counted") else describe(half, (BM, BN))
    return compiled(nereid.jit(kernel.fn), describe(half, (BM, BK)), describe(half, (BK, BN)), out, 4096, 4096, BM=BM, BN=BN, BK=BK, SPECIALISE=asked, num_warps=num_warps,
                    num_stages=num_stages, **options)


# What was measured to be faster: 8 warps, three slots, results through the copy engine, loops that ask to be divided.
@pytest.mark.parametrize("kernel, options, expected", [
    (one_tile, {}, True),
    (one_tile, {"BN": 256}, True),
    (one_tile, {"asked": False}, False),
    (one_tile, {"num_warps": 4}, False),
    (one_tile, {"num_stages": 2}, False),
    (through_pointers, {}, False),
    (scaled, {}, False),
])
def test_default(kernel, options, expected, monkeypatch):
    monkeypatch.setattr(nereid.knobs.nereid, "persistent_products", "asked")
    assert product(kernel, **options).metadata.persistent == expected


@pytest.mark.parametrize("kernel, options, expected", [
    (one_tile, {"asked": False}, True),
    (one_tile, {"num_warps": 4}, True),
    (one_tile, {"num_stages": 2}, True),
    (through_pointers, {"asked": False}, True),
    (one_tile, {"num_stages": 1}, False),
    (one_tile, {"BN": 256, "num_stages": 4}, False),  # shared memory has no room for the store's buffer beside four slots
    (one_tile, {"launch_cooperative_grid": True}, False),
    (one_tile, {"launch_pdl": True}, False),
    (triangle, {}, False),
    (counted, {}, False),
    (two_axes, {}, False),
    (by_author, {}, False),
], ids=lambda value: value.__name__ if hasattr(value, "arg_names") else None)
def test_all_that_can(kernel, options, expected, monkeypatch):
    monkeypatch.setenv("NEREID_PERSISTENT_PRODUCTS", "always")
    code = product(kernel, **options)
    assert code.metadata.persistent == expected
    assert code.asm["gpu"].count(" = ngpu.programs") == 2 * expected  # of the producer and the consumers


def test_never(monkeypatch):
    monkeypatch.setenv("NEREID_PERSISTENT_PRODUCTS", "never")
    code = product(one_tile)
    assert not code.metadata.persistent and "ngpu.warp_specialize" in code.asm["gpu"]


def test_groups_store_under_the_next_program():
    text = product(one_tile, BN=256).asm["gpu"]
    consumers = text.split("ngpu.warp_specialize")[1].split("ngpu.part_yield")[0]
    assert "ngpu.tma_store_wait 0 each_group" in consumers and "ngpu.barrier" not in consumers


@needs_ptxas
@pytest.mark.parametrize("BM, BN", [(128, 128), (128, 256), (256, 128)])
def test_assembles_without_spills(BM, BN, tmp_path, capfd):
    ptx = product(one_tile, BM, BN).asm["ptx"]
    assert capfd.readouterr().err == ""
    log = assembled(ptx, tmp_path)
    assert "0 bytes spill stores" in log and not re.search("C75|Potential|warning", log), log
