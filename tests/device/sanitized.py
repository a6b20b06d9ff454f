"""Launches the kernels that compute-sanitizer watches (scripts/test_gpu.sh): the seed kernels, matrix products of every dtype with 1 to
4 stages and 4 or 8 warps, attention and layer norm with their gradients, and what exchanges data between threads: scans, reductions, locks.

Sizes are small, since every access is checked; results are compared as well.
"""

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "gpu"))

import nereid  # noqa: E402
import nereid.language as tl  # noqa: E402
from load import Library  # noqa: E402
from measure import poison, relative_error  # noqa: E402
from training_kernels import attention_backward_kv, attention_backward_q, layer_norm_backward, product_kernel  # noqa: E402

CUDA = {"device": "cuda"}
failures = []


def case(name, launch, outputs, want, bound):
    """Runs one launch and compares; a kernel that cannot be compiled is a failure, and the others go on."""
    try:
        poison(*outputs)
        launch()
        torch.cuda.synchronize()
        error = max(relative_error(o, w) for o, w in zip(outputs, want))
        verdict = "ok" if error <= bound else f"WRONG: error {error:.3g}, allowed {bound:.0e}"
    except nereid.TritonError as problem:
        verdict = f"FAILED: {str(problem).splitlines()[0]}"
    if verdict != "ok":
        failures.append(name)
    print(f"{name}: {verdict}", flush=True)


def seed_kernels(seed):
    x, y = torch.randn(3000, **CUDA), torch.randn(3000, **CUDA)
    out = torch.empty_like(x)
    case("add", lambda: seed.add_kernel[(3, )](x, y, out, 3000, BLOCK_SIZE=1024), [out], [x.double() + y.double()], 1e-6)
    m = torch.randn(7, 931, **CUDA)
    soft = torch.empty_like(m)
    case("softmax", lambda: seed.softmax[(7, )](soft, *soft.stride(), m, *m.stride(), 7, 931), [soft], [torch.softmax(m.double(), 1)],
         1e-5)
    case("row softmax", lambda: seed.softmax_kernel[(7, )](soft, m, 931, 931, 931, BLOCK_SIZE=1024, num_warps=8), [soft],
         [torch.softmax(m.double(), 1)], 1e-5)
    w, b = torch.rand(931, **CUDA), torch.rand(931, **CUDA)
    case("layer norm", lambda: seed.layer_norm_kernel[(7, )](m, soft, w, b, 931, 931, 1e-5, BLOCK_SIZE=1024), [soft],
         [torch.nn.functional.layer_norm(m.double(), (931, ), w.double(), b.double())], 1e-5)


def products(libraries):
    seed, kernels = libraries.seed, libraries.kernels
    m, n, k = 150, 140, 200
    for dtype, bound in ((torch.float16, 1e-3), (torch.bfloat16, 1e-2), (torch.float32, 2e-3), (torch.float8_e4m3fn, 1e-2)):
        a, b = torch.randn(m, k, **CUDA).to(dtype), torch.randn(n, k, **CUDA).to(dtype).t()
        c = torch.empty(m, n, dtype=torch.float16 if dtype == torch.float8_e4m3fn else dtype, **CUDA)
        want = [a.double() @ b.double()]
        for stages in (1, 2, 3, 4):
            for warps in (4, 8):
                case(f"matmul {dtype} stages={stages} warps={warps}",
                     lambda: seed.matmul_full_kernel[(9, )](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), BLOCK_SIZE_M=64,
                                                           BLOCK_SIZE_N=64, BLOCK_SIZE_K=32, GROUP_SIZE_M=2, ACTIVATION="",
                                                           num_stages=stages, num_warps=warps), [c], want, bound)
    a, b, c = torch.randn(m, k, **CUDA), torch.randn(k, n, **CUDA), torch.empty(m, n, **CUDA)
    case("matmul ieee", lambda: kernels.matmul_precision_kernel[(9, )](
        a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), BLOCK_SIZE_M=64, BLOCK_SIZE_N=64, BLOCK_SIZE_K=32, GROUP_SIZE_M=2,
        PRECISION="ieee"), [c], [a.double() @ b.double()], 1e-5)


    for dtype, accumulator in ((torch.int8, tl.int32), (torch.float64, tl.float64), (torch.float16, tl.float16)):
        if dtype == torch.int8:
            a, b = (torch.randint(-128, 128, (128, 128), dtype=dtype, **CUDA) for _ in range(2))
        else:
            a, b = (torch.randn(128, 128, **CUDA).to(dtype) for _ in range(2))
        c = torch.empty(128, 128, dtype={tl.int32: torch.int32, tl.float64: torch.float64}.get(accumulator, torch.float16), **CUDA)
        for stages in (1, 2, 3, 4):
            for warps in (4, 8):
                case(f"product {dtype} to {accumulator} stages={stages} warps={warps}",
                     lambda: product_kernel[(2, 2)](a, b, c, 100, *a.stride(), *b.stride(), 128, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32,
                                                    ACCUMULATOR=accumulator, num_stages=stages, num_warps=warps), [c],
                     [a[:, :100].double() @ b[:100].double()], 5e-3 if dtype == torch.float16 else 1e-12)


def gradients():
    for causal in (False, True):
        q, k, v, do = (torch.randn(1, 2, 256, 64, dtype=torch.float16, **CUDA) for _ in range(4))
        exact = [t.double().requires_grad_() for t in (q, k, v)]
        scores = exact[0] @ exact[1].transpose(-1, -2) / 8
        if causal:
            scores = scores.masked_fill(torch.ones(256, 256, dtype=torch.bool, **CUDA).triu(1), float("-inf"))
        out = torch.softmax(scores, -1) @ exact[2]
        out.backward(do.double())
        lse = (torch.logsumexp(scores.detach(), -1) * 1.4426950408889634).float()
        delta = (out.detach() * do.double()).sum(-1).float()
        dq, dk, dv = (torch.empty_like(q) for _ in range(3))
        for warps in (4, 8):
            common = dict(HEAD=64, BLOCK_M=64 if warps == 4 else 128, BLOCK_N=64, CAUSAL=causal, num_warps=warps)

            def backward():
                attention_backward_kv[(4, 2)](q, k, v, do, lse, delta, dk, dv, q.stride(1), 256, 0.125, **common)
                attention_backward_q[(256 // common["BLOCK_M"], 2)](q, k, v, do, lse, delta, dq, q.stride(1), 256, 0.125, **common)

            case(f"attention gradients causal={causal} warps={warps}", backward, [dq, dk, dv], [t.grad for t in exact], 5e-3)

    rows, n, groups = 50, 300, 4
    x, dy = torch.randn(rows, n, **CUDA), torch.randn(rows, n, **CUDA)
    exact = [t.double().requires_grad_() for t in (x, torch.rand(n, **CUDA), torch.rand(n, **CUDA))]
    torch.nn.functional.layer_norm(exact[0], (n, ), exact[1], exact[2]).backward(dy.double())
    w = exact[1].detach().float()
    mean, rstd = x.mean(1), 1 / torch.sqrt(x.var(1, unbiased=False) + 1e-5)
    dx, parts = torch.empty_like(x), torch.empty(2, groups, n, **CUDA)
    sums = torch.empty(2, n, **CUDA)

    def backward():
        locks = torch.zeros(2 * groups, dtype=torch.int32, **CUDA)
        layer_norm_backward[(rows, )](x, w, dy, mean, rstd, dx, parts[0], parts[1], locks, n, GROUPS=groups, BLOCK=512)
        torch.sum(parts, 1, out=sums)

    case("layer norm gradients", backward, [dx, sums], [exact[0].grad, torch.stack([exact[1].grad, exact[2].grad])], 1e-5)


def attention(kernels):
    for causal in (False, True):
        q, k, v = (torch.randn(1, 2, 256, 64, dtype=torch.float16, **CUDA) for _ in range(3))
        out = torch.empty_like(q)
        scores = q.double() @ k.double().transpose(-1, -2) / 8
        if causal:
            scores.masked_fill_(torch.ones(256, 256, dtype=torch.bool, **CUDA).triu(1), float("-inf"))
        want = torch.softmax(scores, -1) @ v.double()
        for warps in (4, 8):
            case(f"attention causal={causal} warps={warps}", lambda: kernels.attention_kernel[(2, 2)](
                q, k, v, out, q.stride(1), q.stride(2), 256, 1.4426950408889634 / 8, HEAD=64, BLOCK_M=128, BLOCK_N=64, CAUSAL=causal,
                num_warps=warps), [out], [want], 2e-3)


@nereid.jit
def scan_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.cumsum(tl.load(x + i), 0))


@nereid.jit
def extremes_kernel(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.max(v, 0))
    tl.store(out + 1, tl.argmin(v, 0))


@nereid.jit
def lock_kernel(lock, count, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    i = tl.arange(0, BLOCK)
    tl.store(count + i, tl.load(count + i) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def exchanges():
    x = torch.randint(0, 50, (1024, ), dtype=torch.int32, **CUDA)
    out = torch.empty_like(x)
    case("scan", lambda: scan_kernel[(1, )](x, out, N=1024), [out], [x.cumsum(0)], 0)
    y = torch.randperm(1024, **CUDA).int()
    two = torch.empty(2, dtype=torch.int32, **CUDA)
    case("extremes", lambda: extremes_kernel[(1, )](y, two, N=1024), [two], [torch.stack([y.max(), y.argmin().int()])], 0)
    count = torch.zeros(128, **CUDA)
    lock = torch.zeros(1, dtype=torch.int32, **CUDA)

    def locked():
        count.zero_()
        lock.zero_()
        lock_kernel[(64, )](lock, count, BLOCK=128)

    case("lock", locked, [count], [torch.full((128, ), 64.0, **CUDA)], 0)


def main():
    torch.manual_seed(0)
    library = Library("nereid", nereid, nereid.language)
    seed_kernels(library.seed)
    products(library)
    attention(library.kernels)
    gradients()
    exchanges()
    print(f"{len(failures)} failed" if failures else "all right")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
