"""Compiles many kernels and prints what came out, for `test_determinism.py`; run in processes that differ in all but the kernels.

    python determinism_kernels.py THREADS ORDER      ORDER: forwards, backwards, or explicit: only code for processors that are named
"""

import concurrent.futures
import hashlib
import json
import sys

import nereid
import nereid.language as tl
import torch

H, F, I = torch.float16, torch.float32, torch.int32


@nereid.jit
def sums(x, y, N: tl.constexpr, M: tl.constexpr):
    i, j = tl.arange(0, N), tl.arange(0, M)
    v = tl.load(x + i[:, None] * M + j[None, :])
    tl.store(y + i, tl.sum(v, 1) + tl.max(v, 1))
    tl.store(y + N + j, tl.sum(v * v, 0))


@nereid.jit
def scans(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(y + i, tl.cumsum(v, 0) + tl.sort(v) + tl.flip(v))


@nereid.jit
def counts(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.atomic_add(y + v, 1, mask=v < 64)
    tl.store(y + 64 + tl.arange(0, 32), tl.histogram(v, 32))


@nereid.jit
def product(a, b, c, sa, sb, sc, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, ACTIVATION: tl.constexpr):
    i, j, l = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        x = tl.load(a + i[:, None] * sa + (start + l)[None, :], mask=(start + l)[None, :] < k, other=0.0)
        y = tl.load(b + (start + l)[:, None] * sb + j[None, :], mask=(start + l)[:, None] < k, other=0.0)
        acc = tl.dot(x, y, acc)
    if ACTIVATION:
        acc = tl.where(acc > 0, acc, 0.01 * acc)
    tl.store(c + i[:, None] * sc + j[None, :], acc.to(c.dtype.element_ty))


@nereid.jit
def attention(q, k, v, o, n, D: tl.constexpr, B: tl.constexpr):
    i, d = tl.arange(0, B), tl.arange(0, D)
    x = tl.load(q + i[:, None] * D + d[None, :])
    m = tl.full((B, ), float("-inf"), tl.float32)
    s = tl.zeros((B, ), tl.float32)
    acc = tl.zeros((B, D), tl.float32)
    for start in range(0, n, B):
        w = tl.dot(x, tl.load(k + (start + i)[None, :] * D + d[:, None]))
        new = tl.maximum(m, tl.max(w, 1))
        p = tl.exp(w - new[:, None])
        s = s * tl.exp(m - new) + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype.element_ty), tl.load(v + (start + i)[:, None] * D + d[None, :]), acc * tl.exp(m - new)[:, None])
        m = new
    tl.store(o + i[:, None] * D + d[None, :], (acc / s[:, None]).to(o.dtype.element_ty))


@nereid.jit
def branches(x, y, n, flag):
    i = tl.arange(0, 256)
    v = tl.load(x + i, mask=i < n, other=0.0)
    w = v
    while flag > 0:
        if flag % 3 == 0:
            v, w = w + tl.sin(v), v
        else:
            w = tl.erf(w) * tl.load(x + i + flag)
        flag -= 1
    tl.store(y + i, v + w, mask=i < n)


@nereid.jit
def descriptors(x, y, n, B: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [n, n], [n, 1], [B, B])
    target = tl.make_tensor_descriptor(y, [n, n], [n, 1], [B, B])
    for i in range(0, n, B):
        target.store([0, i], source.load([i, 0]).T)


DOT = {"M": 64, "N": 64, "K": 32}
CASES = [
    (sums, (F, F), {"N": 32, "M": 64}, {}),
    (sums, (H, F), {"N": 8, "M": 256}, {"num_warps": 8}),
    (scans, (F, F), {"N": 256}, {}),
    (scans, (I, I), {"N": 128}, {}),
    (counts, (I, I), {"N": 512}, {}),
    (product, (H, H, H, 64, 64, 64, 256), {**DOT, "ACTIVATION": ""}, {}),
    (product, (H, H, H, 64, 64, 64, 256), {**DOT, "ACTIVATION": "leaky"}, {"num_warps": 8, "num_stages": 4}),
    (product, (F, F, F, 64, 64, 64, 250), {**DOT, "ACTIVATION": ""}, {}),
    (product, (torch.bfloat16, torch.bfloat16, F, 64, 64, 64, 256), {"M": 128, "N": 128, "K": 64, "ACTIVATION": ""}, {"num_warps": 8}),
    (product, (torch.float8_e4m3fn, torch.float8_e4m3fn, F, 64, 64, 64, 256), {**DOT, "ACTIVATION": ""}, {}),
    (attention, (H, H, H, H, 512), {"D": 64, "B": 64}, {}),
    (attention, (H, H, H, H, 512), {"D": 32, "B": 64}, {"num_warps": 8}),
    (branches, (F, F, 200, 7), {}, {}),
    (branches, (F, F, 256, 16), {}, {"num_warps": 1}),
    (descriptors, (H, H, 512), {"B": 64}, {}),
    (descriptors, (F, F, 512), {"B": 32}, {}),
]


def compiled(number, target):
    """The digests of one kernel's stages."""
    kernel, arguments, constants, options = CASES[number]
    backend, _, features = target.partition(":")
    if backend == "cpu" and features:
        options = {**options, "features": features}
    result = kernel.warmup(*arguments, grid=(1, ), target="cpu" if backend == "cpu" else target, **constants, **options)
    stages = ("tile", "llir", "obj") if backend == "cpu" else ("tile", "gpu", "llir", "ptx", "cubin")
    digests = {}
    for stage in stages:
        try:
            text = result.asm[stage]
        except Exception as error:  # no assembler
            if stage != "cubin":
                raise
            text = type(error).__name__
        digests[stage] = hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()
    return f"{target} {number} {kernel.__name__}", digests


def main():
    count, order = int(sys.argv[1]), sys.argv[2]
    work = [(number, target) for target in ("cpu", "cpu:baseline", "cpu:avx2", "cpu:avx512", "cpu:aarch64", "cpu:neoverse-v1", "cuda:90", "cuda:80")
            for number in range(len(CASES)) if target in ("cpu", "cuda:90") or number in (0, 2, 5, 10, 12)]
    if order == "explicit":
        work = [item for item in work if item[1].startswith("cpu:")]
    if order == "backwards":
        work.reverse()
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        print(json.dumps(dict(pool.map(lambda item: compiled(*item), work)), sort_keys=True))


if __name__ == "__main__":
    main()
