"""Variants of products of AMX tiles against each other and PyTorch, in turns: correctness against float64, then times.

    NEREID_CACHE=0 NEREID_CPU_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/cpu/tile_variants.py [--types bfloat16,int8] [--sizes 512,1024] [--seconds 60] [--features native]

A variant is a pair of environment variables, which are read while a kernel is compiled. TILES_VARIANT: steps of K that are multiplied at a time (0: all), pairs of rows of tiles that share a pair of
B's panels, tiles of B's next panels that are fetched. SUMS_FILLED: the zeros that a loop over K starts from are written to memory. Times are the smallest of several calls; the ratio is PyTorch's
time over ours, the median over the rounds. Status 1 when a result is wrong.
"""

import argparse
import math
import os
import statistics
import sys
import time

import products
import torch

import nereid

VARIANTS = ["0,1,0 filled", "0,1,0", "4,1,0", "8,1,0", "8,2,0", "0,2,0", "0,4,0", "0,1,2", "8,1,2", "8,2,2"]
BLOCKS = [(256, 256, 256), (256, 256, 512), (512, 512, 256), (256, 512, 256), (512, 256, 256), (512, 512, 512)]


def select(variant):
    tiles, _, filled = variant.partition(" ")
    os.environ["TILES_VARIANT"] = tiles
    os.environ.pop("SUMS_FILLED", None)
    if filled:
        os.environ["SUMS_FILLED"] = "1"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--types", default="bfloat16,int8")
    parser.add_argument("--sizes", default="512,1024")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--blocks", default=",".join("x".join(map(str, each)) for each in BLOCKS))
    options = parser.parse_args()
    shapes = [tuple(map(int, each.split("x"))) for each in options.blocks.split(",")]
    cases = [(kind, size) for kind in options.types.split(",") for size in options.sizes.split(",")]
    wrong = False
    original = products.seed.matmul_full_kernel, products.int8_kernel
    for kind, size in cases:
        deadline = time.monotonic() + options.seconds / len(cases)
        m, n, k = map(int, size.split("x") if "x" in size else [size] * 3)
        calls = {}
        for variant in VARIANTS:
            select(variant)
            products.seed.matmul_full_kernel, products.int8_kernel = (nereid.jit(each.fn) for each in original)
            kernels = products.seed.matmul_full_kernel, products.int8_kernel
            launches, in_torch, error = products.product(kind, m, n, k, shapes)
            worst = 0.0
            for blocks, launch in launches.items():
                launch()
                worst = max(worst, error())

                def call(launch=launch, kernels=kernels):
                    products.seed.matmul_full_kernel, products.int8_kernel = kernels
                    launch()
                calls[variant, blocks] = call
            wrong |= not worst < 1
            print(f"{kind} {size} {variant}: {'right' if worst < 1 else f'WRONG {worst:.3g}'}", flush=True)
        calls["PyTorch", None] = in_torch
        times = {each: [] for each in calls}
        while time.monotonic() < deadline or len(times["PyTorch", None]) < 5:
            for each, call in calls.items():
                best = math.inf
                for _ in range(3):
                    start = time.perf_counter()
                    call()
                    best = min(best, time.perf_counter() - start)
                times[each].append(best)
        theirs = times["PyTorch", None]
        print(f"{kind} {size}: PyTorch {min(theirs) * 1e3:.3f} ms, {len(theirs)} rounds; smallest ms (median of PyTorch's time over ours)")
        print("| variant | " + " | ".join("x".join(map(str, each)) for each in launches) + " |")
        print("|---|" + "---|" * len(launches))
        for variant in VARIANTS:
            cells = []
            for blocks in launches:
                ours = times[variant, blocks]
                cells.append(f"{min(ours) * 1e3:.3f} ({statistics.median(t / o for t, o in zip(theirs, ours)):.2f})")
            print(f"| {variant} | " + " | ".join(cells) + " |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
