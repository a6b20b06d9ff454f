"""Matrix products of the CPU target beside PyTorch's (MKL and oneDNN, results preallocated): correctness against float64, then the ratio.

    python benchmarks/cpu/products.py [--types bfloat16,int8,float32,float16] [--sizes 512,1024,4096x4096x512] [--rounds 30] [--markdown] [--all] [--blocks 256x256x256]

Each product is the tutorial's kernel with the blocks of `BLOCKS` or `--blocks`, the fastest counts; sizes are M x N x K, or one number for all. Configurations and PyTorch take turns of three
calls each, and the smallest time of each counts, so that other work on the machine disturbs little. With several threads a turn begins with a pause, in which the threads of the turn before
stop spinning (else the first one after PyTorch takes up to 8 times as long), and has ten calls. With `--peak` (GFLOP/s of one thread for fp32) the
share of it is printed, too; with `--all` the time of each configuration. Status 1 when a result is wrong.
"""

import argparse
import math
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "kernels"))

import nereid  # noqa: E402
import nereid.language as tl  # noqa: E402
import seed  # noqa: E402

BLOCKS = [(64, 64, 128), (128, 128, 64), (128, 128, 128), (128, 256, 64), (128, 256, 128), (64, 256, 256), (128, 128, 512), (256, 256, 256), (256, 256, 512), (256, 512, 256), (512, 512, 512)]


@nereid.jit
def int8_kernel(a_ptr, b_ptr, c_ptr, m, n, k, am, ak, bk, bn, cm, cn, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,
                BLOCK_SIZE_K: tl.constexpr):
    blocks = tl.cdiv(n, BLOCK_SIZE_N)
    rows = tl.program_id(0) // blocks * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    columns = tl.program_id(0) % blocks * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    inner = tl.arange(0, BLOCK_SIZE_K)
    sums = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), tl.int32)
    for start in range(0, k, BLOCK_SIZE_K):
        a = tl.load(a_ptr + rows[:, None] * am + (start + inner)[None, :] * ak, (rows[:, None] < m) & (start + inner[None, :] < k), 0)
        b = tl.load(b_ptr + (start + inner)[:, None] * bk + columns[None, :] * bn, (start + inner[:, None] < k) & (columns[None, :] < n), 0)
        sums = tl.dot(a, b, sums)
    tl.store(c_ptr + rows[:, None] * cm + columns[None, :] * cn, sums, (rows[:, None] < m) & (columns[None, :] < n))


def product(kind, m, n, k, shapes):
    """(launches by blocks, PyTorch's call, largest error of either in units of its tolerance)."""
    generator = torch.Generator().manual_seed(m)
    if kind == "int8":
        a, b = (torch.randint(-128, 128, shape, dtype=torch.int8, generator=generator) for shape in ((m, k), (k, n)))
        out, theirs = torch.empty(m, n, dtype=torch.int32), torch.empty(m, n, dtype=torch.int32)
        tolerance = 0.5
    else:
        dtype = getattr(torch, kind)
        a, b = (torch.randn(*shape, generator=generator).to(dtype) for shape in ((m, k), (k, n)))
        out, theirs = torch.empty(m, n, dtype=dtype), torch.empty(m, n, dtype=dtype)
        tolerance = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}[kind] * math.sqrt(k)
    shape = (m, n, k, *a.stride(), *b.stride(), *out.stride())

    def launch(bm, bn, bk):
        sizes = {"BLOCK_SIZE_M": bm, "BLOCK_SIZE_N": bn, "BLOCK_SIZE_K": bk}
        grid = (nereid.cdiv(m, bm) * nereid.cdiv(n, bn),)
        if kind == "int8":
            return lambda: int8_kernel[grid](a, b, out, *shape, **sizes)
        return lambda: seed.matmul_full_kernel[grid](a, b, out, *shape, **sizes, GROUP_SIZE_M=8, ACTIVATION="")

    def in_torch():
        if kind == "int8":
            torch._int_mm(a, b, out=theirs)
        else:
            torch.mm(a, b, out=theirs)
    want = a.double() @ b.double()

    def error():
        return ((out.double() - want).abs().max() / tolerance).item()
    return {blocks: launch(*blocks) for blocks in shapes if blocks[0] <= 2 * m and blocks[1] <= 2 * n and blocks[2] <= 2 * k}, in_torch, error


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--types", default="bfloat16,int8,float32")
    parser.add_argument("--sizes", default="512,1024,2048")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--peak", type=float)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--blocks", default=",".join("x".join(map(str, each)) for each in BLOCKS))
    options = parser.parse_args()
    shapes = [tuple(map(int, each.split("x"))) for each in options.blocks.split(",")]
    wrong = False
    if options.markdown:
        print("| product | correct | blocks | Nereid ms | GFLOP/s | PyTorch ms | speed to PyTorch |\n|---|---|---|---|---|---|---|")
    for kind in options.types.split(","):
        for size in options.sizes.split(","):
            m, n, k = map(int, size.split("x") if "x" in size else [size] * 3)
            launches, in_torch, error = product(kind, m, n, k, shapes)
            worst = 0.0
            for launch in launches.values():
                launch()
                worst = max(worst, error())
            wrong |= not worst < 1
            calls = [*launches.values(), in_torch]
            best = [math.inf] * len(calls)
            several = torch.get_num_threads() > 1
            for _ in range(options.rounds):
                for i, call in enumerate(calls):
                    if several:
                        time.sleep(0.02)
                    for _ in range(10 if several else 3):
                        start = time.perf_counter()
                        call()
                        best[i] = min(best[i], time.perf_counter() - start)
            mine, blocks = min(zip(best, launches))
            rate = 2 * m * n * k / mine / 1e9
            share = f" {rate / options.peak / torch.get_num_threads():.2f} of fp32 peak" if options.peak else ""
            row = (f"{kind} {size}" + "^3" * ("x" not in size), "yes" if worst < 1 else f"NO ({worst:.2g})", "x".join(map(str, blocks)), f"{mine * 1e3:.3f}", f"{rate:.0f}{share}",
                   f"{best[-1] * 1e3:.3f}", f"{best[-1] / mine:.2f}x")
            print("| " + " | ".join(row) + " |" if options.markdown else "{:16} {:>5} {:>12} {:>9} ms {:>6} GFLOP/s {:>9} ms {:>7}".format(*row), flush=True)
            if options.all:
                print("   ", ", ".join(f"{'x'.join(map(str, each))}: {time * 1e3:.3f}" for each, time in zip(launches, best)), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
