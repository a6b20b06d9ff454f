"""Programs run by clusters of two and four blocks: results on simulated blocks, what stays on one block, and what is told. Needs no GPU.

The results need the simulator (`nereid-simulate`), which NEREID_TEST_SIMULATOR names.
"""

import nereid
import nereid.language as tl
import pytest
import torch



def compiled(kernel, *arguments, target="cuda:90", **options):
    return kernel.run(*arguments, grid=(1, ), warmup=True, target=target, **options)


@nereid.jit
def row_sum(out, x, B: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, B)), axis=0))


@nereid.jit
def product(out, x, B: tl.constexpr):
    at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    a = tl.load(x + at)
    tl.store(out + at, tl.dot(a, a))


@nereid.jit
def counts(out, x, B: tl.constexpr):
    tl.store(out + tl.arange(0, 16), tl.histogram(tl.load(x + tl.arange(0, B)), 16))


@nereid.jit
def fetched(out, x, n, B: tl.constexpr):
    total = tl.zeros((B, ), tl.float32)
    for i in tl.range(0, n, B, num_stages=3):
        total += tl.load(x + i + tl.arange(0, B))
    tl.store(out + tl.arange(0, B), total)


@pytest.mark.parametrize("sends", [True, False])
@pytest.mark.parametrize("blocks", [2, 4, 8, 16])
def test_code_of_a_cluster(blocks, sends, monkeypatch):
    monkeypatch.setenv("NEREID_CLUSTER_SENDS", str(int(sends)))
    x = torch.empty(4096)
    kernel = compiled(nereid.jit(row_sum.fn), x, x, B=4096, num_ctas=blocks)
    ptx = kernel.asm["ptx"]
    assert f".reqnctapercluster {blocks}" in ptx
    assert (ptx.count("st.async"), ptx.count("st.shared::cluster")) == ((1, 0) if sends else (0, blocks))
    assert f"ngpu.num_blocks = {blocks} : i32" in kernel.asm["gpu"]


def test_one_block_has_no_cluster():
    x = torch.empty(4096)
    one = compiled(row_sum, x, x, B=4096)
    assert "reqnctapercluster" not in one.asm["ptx"]


@pytest.mark.parametrize("kernel, dtype, why, device", [
    (product, torch.float16, "a product reads its operands from the shared memory of one block", "cuda:90"),
    (counts, torch.int32, "a histogram counts in the shared memory of one block", "cuda:90"),
    (row_sum, torch.float32, "the device has no clusters", "cuda:80"),
])
def test_what_stays_on_one_block(kernel, dtype, why, device, capfd, monkeypatch):
    monkeypatch.setattr(nereid.knobs.nereid, "advice", True)
    x = torch.empty(64 * 64, dtype=dtype)
    code = compiled(nereid.jit(kernel.fn), x, x, B=64, num_ctas=2, target=device)
    assert "reqnctapercluster" not in code.asm["ptx"]
    said = capfd.readouterr().err
    assert "`num_ctas=2` has no effect, a program runs on one multiprocessor: " + why + "; what helps: leave it out" in said


def test_stages_of_a_cluster(capfd, monkeypatch):
    monkeypatch.setattr(nereid.knobs.nereid, "advice", True)
    x = torch.empty(4096)
    code = compiled(nereid.jit(fetched.fn), x, x, 4096, B=512, num_ctas=2)
    assert "cp.async" not in code.asm["ptx"]
    assert "several blocks run the program; what helps: `num_ctas=1`" in capfd.readouterr().err


@pytest.mark.parametrize("count", [0, 3, 32])
def test_sizes_that_no_cluster_has(count):
    x = torch.empty(64)
    with pytest.raises(ValueError, match=f"`num_ctas` expects 1, 2, 4, 8 or 16, found `{count}`"):
        compiled(row_sum, x, x, B=64, num_ctas=count)


_PROGRAM = '''
import nereid
import nereid.language as tl
import simulated
import torch


@nereid.jit
def everything(soft, order, sums, picked, tall, counter, x, y, N: tl.constexpr, M: tl.constexpr):
    pid = tl.program_id(0)
    at = tl.arange(0, N)
    row = pid * N + at
    values = tl.load(x + row)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(soft + row, powers / tl.sum(powers, axis=0))
    tl.store(order + row, tl.sort(values))
    tl.store(sums + row, tl.cumsum((values * 100).to(tl.int32), axis=0))
    tl.store(picked + row, tl.gather(values, (at * 37 + 11) % N, axis=0))
    square = pid * M * M + tl.arange(0, M)[:, None] * M + tl.arange(0, M)[None, :]
    block = tl.load(y + square)
    tl.store(tall + square, tl.trans(block) + tl.sum(block, axis=1)[:, None] - tl.max(block, axis=0)[None, :])
    ticket = tl.atomic_add(counter, 1)
    tl.store(counter + 1 + ticket, tl.num_programs(0) * 100 + pid)
    tl.debug_barrier()
    total = 0
    for i in range(pid + 2):
        total += tl.sum((tl.load(y + square + 0 * i) * 10).to(tl.int32))
    tl.store(counter + 16 + pid, total)


BLOCKS = int(__import__("sys").argv[1])
N, M, P = 256, 16, 3
torch.manual_seed(0)
x, y = torch.randn(P, N), torch.randn(P, M, M)
soft, order, picked, tall = (torch.zeros_like(t) for t in (x, x, x, y))
sums, counter = torch.zeros(P, N, dtype=torch.int32), torch.zeros(32, dtype=torch.int32)
code = everything[(P, )](soft, order, sums, picked, tall, counter, x, y, N=N, M=M, num_warps=2, num_ctas=BLOCKS)
assert f"ngpu.num_blocks = {BLOCKS} : i32" in code.asm["gpu"]
torch.testing.assert_close(soft, torch.softmax(x, -1))
assert torch.equal(order, x.sort(-1).values)
assert torch.equal(sums, (x * 100).int().cumsum(-1).int())
assert torch.equal(picked, x[:, (torch.arange(N) * 37 + 11) % N])
torch.testing.assert_close(tall, y.mT + y.sum(2)[:, :, None] - y.amax(1)[:, None, :])
assert counter[0] == P and sorted(counter[1:1 + P].tolist()) == [P * 100 + i for i in range(P)]
assert counter[16:16 + P].tolist() == [(i + 2) * int((y[i] * 10).int().sum()) for i in range(P)]
print("right")
'''


@pytest.mark.parametrize("blocks", [2, 4])
def test_results_of_clusters(blocks, simulated):
    simulated(_PROGRAM, blocks)
