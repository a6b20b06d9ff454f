"""Gradients of products with transposed schedules, against atomic additions and products written by hand.

    python benchmarks/gradient_schedules.py              # CPU: seconds
    python benchmarks/gradient_schedules.py --device cuda --options '{"num_stages": 4}'

The kernel is a product in tiles, in groups of rows, with and without an activation. `atomics` is the same gradient with program ids that the
compiler cannot take apart, so that each program adds its part of both gradients; `by hand` is the forward kernel itself, launched on transposed
views for dA = dC B^T and dB = A^T dC (with an activation: after PyTorch's elementwise derivative); `torch` is `torch.matmul`. Times are the best
of several runs, in milliseconds, with clearing and converting of gradients; on CPUs the processor time of all threads together."""

import argparse
import functools
import json
import platform
import time

import nereid
import nereid.language as tl
import torch


@nereid.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, BM: tl.constexpr, BN: tl.constexpr,
            BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATION: tl.constexpr, OPAQUE: tl.constexpr):
    pid = tl.program_id(0)
    if OPAQUE:  # the same number
        pid = pid ^ 0 * M
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    width = GROUP * num_n
    first = pid // width * GROUP
    size = min(num_m - first, GROUP)
    pid_m = first + (pid % width) % size
    pid_n = (pid % width) // size
    rows = pid_m * BM + tl.arange(0, BM)
    columns = pid_n * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + (rows % M)[:, None] * stride_am + inner[None, :] * stride_ak
    b_ptrs = b_ptr + inner[:, None] * stride_bk + (columns % N)[None, :] * stride_bn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    if ACTIVATION:
        acc = acc * tl.sigmoid(acc)
    tl.store(c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn, acc.to(c_ptr.dtype.element_ty),
             mask=(rows[:, None] < M) & (columns[None, :] < N))


def best(run, device, repeats):
    times = []
    clock = time.perf_counter if device == "cuda" else time.process_time
    for _ in range(repeats + 1):
        if device == "cuda":
            torch.cuda.synchronize()
        begin = clock()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(clock() - begin)
    return min(times[1:]) * 1e3


def multiply(a, b, c, blocks, options):
    M, K = a.shape
    N = b.shape[1]
    grid = (nereid.cdiv(M, blocks["BM"]) * nereid.cdiv(N, blocks["BN"]), )
    product[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), **blocks, ACTIVATION=False, OPAQUE=False, **options)


def rows(device, size, dtype, blocks, options, repeats):
    M, N, K = size
    a, b, dc = (torch.randn(*shape, device=device).to(dtype) / 8 for shape in ((M, K), (K, N), (M, N)))
    c, da, db = torch.empty_like(dc), torch.empty_like(a), torch.empty_like(b)
    grid = (nereid.cdiv(M, blocks["BM"]) * nereid.cdiv(N, blocks["BN"]), )
    gradient = nereid.grad(product, ("a_ptr", "b_ptr"), "c_ptr")
    for activation in (False, True):

        def backward(opaque):
            gradient.backward[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), dc_ptr=dc, da_ptr=da, db_ptr=db, **blocks, ACTIVATION=activation,
                                    OPAQUE=opaque, **options)

        def by_hand(multiply):
            cotangent = dc
            if activation:
                multiply(a, b, c)
                s = torch.sigmoid(c.float())
                cotangent = (dc * (s + c * s * (1 - s))).to(dtype)
            multiply(cotangent, b.T, da)
            multiply(a.T, cotangent, db)

        runs = dict(transposed=functools.partial(backward, False), atomics=functools.partial(backward, True),
                    by_hand=functools.partial(by_hand, lambda x, y, z: multiply(x, y, z, blocks, options)),
                    torch=functools.partial(by_hand, lambda x, y, z: torch.matmul(x, y, out=z)))
        times, results = {}, {}
        for name, run in runs.items():
            times[name] = best(run, device, repeats)
            results[name] = (da.float().clone(), db.float().clone())
        for name, found in results.items():
            for x, y in zip(found, results["torch"]):
                error = float((x - y).abs().max() / y.abs().max())
                assert error < (2e-2 if dtype != torch.float32 else 1e-3), (name, error)
        print(f"{M}x{N}x{K} {str(dtype)[6:]:9} {'silu' if activation else 'none':5}" + "".join(f"{times[name]:12.3f}" for name in runs), flush=True)
    return gradient


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--options", type=json.loads, default={}, help="compile options of all kernels, as JSON")
    parser.add_argument("--explain", action="store_true", help="print how gradients are summed")
    arguments = parser.parse_args()
    device = arguments.device
    print(torch.cuda.get_device_name() if device == "cuda" else f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads")
    print(f"{'M x N x K':24} {'act.':5}" + "".join(f"{name:>12}" for name in ("transposed", "atomics", "by hand", "torch")))
    if device == "cuda":
        for size in ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 4096, 1024), (4096, 11008, 4096)):
            gradient = rows(device, size, torch.bfloat16, dict(BM=128, BN=128, BK=64, GROUP=8), dict(num_warps=8, num_stages=3) | arguments.options, 20)
    else:
        for size in ((256, 256, 256), (512, 512, 512), (1024, 512, 256)):
            gradient = rows(device, size, torch.float32, dict(BM=64, BN=64, BK=64, GROUP=4), arguments.options, 5)
    if arguments.explain:
        print(gradient.explain())


if __name__ == "__main__":
    main()
