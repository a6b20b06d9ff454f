"""`tl.target_info` and `tl.extra.cuda`: what a kernel asks about the machine it is compiled for."""

import pytest
import torch

import harness


def test_target_info_in_a_kernel(target):
    out = torch.zeros(8, dtype=torch.int32)
    harness.make("""@triton.jit
def kernel(o_ptr):
    if tl.target_info.is_cuda():
        tl.store(o_ptr, 1)
    if tl.target_info.cuda_capability_geq(8):
        tl.store(o_ptr + 1, 1)
    if tl.target_info.cuda_capability_geq(8, minor=9) or tl.target_info.is_cpu():
        tl.store(o_ptr + 2, 1)
    if tl.target_info.cuda_capability_geq(99):
        tl.store(o_ptr + 3, 1)
    if tl.target_info.is_hip() or tl.target_info.is_hip_cdna3() or tl.target_info.is_hip_cdna4() or tl.target_info.is_hip_gfx1250():
        tl.store(o_ptr + 4, 1)
    now = tl.target_info.current_target()
    if now.backend == "cuda" and now.arch >= 80 and now.warp_size == 32:
        tl.store(o_ptr + 5, 1)
""")[(1,)](out)
    gpu = int(target == "cuda")
    assert out.tolist() == [gpu, gpu, 1, 0, 0, gpu, 0, 0]


def test_target_info_on_the_host(target):
    import nereid.language as tl
    target = tl.target_info.current_target().backend  # where nothing runs, not the one that is compiled for
    assert tl.target_info.is_cuda() == (target == "cuda") and tl.target_info.is_cpu() == (target == "cpu")
    assert tl.target_info.cuda_capability_geq(7, 5) == (target == "cuda")
    assert not tl.target_info.is_hip() and not tl.target_info.is_hip_cdna3()


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_warps_and_threads_are_known(warps, target):
    out = torch.zeros(2, dtype=torch.int32)
    harness.make("""@triton.jit
def kernel(o_ptr):
    threads: tl.constexpr = tl.extra.cuda.num_threads()
    tl.static_assert(threads == 32 * tl.extra.cuda.num_warps())
    tl.store(o_ptr, tl.extra.cuda.num_warps())
    tl.store(o_ptr + 1, tl.sum(tl.full((threads,), 1, tl.int32)))
""")[(1,)](out, num_warps=warps)
    assert out.tolist() == ([4, 128] if target == "cpu" else [warps, 32 * warps])


def test_clock_and_multiprocessor(target):
    out = torch.zeros(3, dtype=torch.int64)
    harness.make("""@triton.jit
def kernel(o_ptr, x_ptr):
    before = tl.extra.cuda.globaltimer()
    total = 0.0
    for i in range(2000):
        total += tl.load(x_ptr, volatile=True)
    tl.store(x_ptr, total)
    after = tl.extra.cuda.globaltimer()
    tl.store(o_ptr, before)
    tl.store(o_ptr + 1, after)
    tl.store(o_ptr + 2, tl.extra.cuda.smid())
""")[(1,)](out, torch.zeros(1))
    before, after, place = out.tolist()
    assert 0 < before <= after < before + 10 ** 10
    assert 0 <= place < 1024


def test_dependent_launches(target):
    """What one launch writes the next one reads behind `gdc_wait`."""
    x = torch.zeros(1024)
    kernel = harness.make("""@triton.jit
def kernel(x_ptr):
    i = tl.program_id(0) * 128 + tl.arange(0, 128)
    tl.extra.cuda.gdc_wait()
    tl.store(x_ptr + i, tl.load(x_ptr + i) + 1)
    tl.extra.cuda.gdc_launch_dependents()
""")
    for _ in range(5):
        kernel[(8,)](x, launch_pdl=True)
    kernel[(8,)](x)
    assert torch.equal(x, torch.full((1024,), 6.0))


def test_all_programs_at_once(target):
    """A barrier of the whole grid: it ends only if all programs run at the same time."""
    arrived, out = torch.zeros(1, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    harness.make("""@triton.jit
def kernel(count_ptr, o_ptr):
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < tl.num_programs(0):
        pass
    tl.store(o_ptr + tl.program_id(0), tl.atomic_add(count_ptr, 0))
""")[(8,)](arrived, out, launch_cooperative_grid=True)
    assert out.tolist() == [8] * 8


def test_outside_of_kernels():
    import nereid.language as tl
    with pytest.raises(ValueError, match="Did you forget to add @triton.jit"):
        tl.extra.cuda.globaltimer()
