"""Whether memory stays flat over many launches and many compilations.

    python benchmarks/leaks.py                                  1,000,000 launches and 10,000 compilations on this machine's target
    python benchmarks/leaks.py --target cpu --launches 200000 --compiles 500

Launches take turns through all ways in: a plain kernel, keywords, options, a grid function, a tuned kernel with heuristics. A compilation is a new function
with a new constant, launched once and dropped. Memory is the process's own (anonymous, from smaps_rollup) and, on a GPU, what the device
has left. A first part is not counted: there the allocators find their size. The exit status is 1 when memory grows.
"""

import argparse
import copy
import ctypes
import gc
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

os.environ.setdefault("NEREID_CACHE", "0")
os.environ.setdefault("NEREID_TUNING_CACHE", "0")

import nereid  # noqa: E402
import nereid.language as tl  # noqa: E402
import torch  # noqa: E402
from nereid.runtime import driver  # noqa: E402

#: Growth that is none: bytes in all, and bytes an item.
ALLOWED = 2 << 20
ALLOWED_PER_LAUNCH = 4
ALLOWED_PER_COMPILATION = 1000

LIBC = ctypes.CDLL(None)


@nereid.jit
def plain(out, n, scale, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, i * scale, mask=i < n)


@nereid.jit
def varied(out, n, scale, VALUE: tl.constexpr):
    i = tl.arange(0, 64)
    tl.store(out + i, i * scale + VALUE, mask=i < n)


@nereid.autotune([nereid.Config({"BLOCK": 32}), nereid.Config({"BLOCK": 64})], key=["n"])
@nereid.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0, "ASKED": lambda args: args["out"].dim()})
@nereid.jit
def tuned(out, n, scale, BLOCK: tl.constexpr, EVEN: tl.constexpr, ASKED: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, i * scale, mask=i < n)


def memory():
    """Bytes of this process, and bytes of the device that are taken."""
    gc.collect()
    LIBC.malloc_trim(0)  # what is free goes back, so that it does not count
    with open("/proc/self/smaps_rollup") as file:
        own = sum(int(line.split()[1]) * 1024 for line in file if line.startswith(("Anonymous:", "Swap:")))
    device = 0
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        device = total - free
    return own, device


def launches(out, count):
    for turn in range(count // 5):
        n = 20 + turn % 40
        plain[(1, )](out, n, 2.0, BLOCK=64)
        plain[(1, )](out=out, n=n, scale=2.0, BLOCK=64)
        plain[(1, )](out, n, 2.0, BLOCK=64, num_warps=8)
        plain[lambda meta: (1, )](out, n, 2.0, BLOCK=64)
        tuned[(1, )](out, n, 2.0)
        if turn % 100 == 0 and out.is_cuda:
            torch.cuda.synchronize()


def compiles(out, first, count, threads):

    def one(value):
        copy.copy(varied)[(1, )](out, 5, 2.0, VALUE=value)

    with ThreadPoolExecutor(threads) as pool:
        for start in range(first, first + count, 100):
            list(pool.map(one, range(start, min(start + 100, first + count))))
            gc.collect()


def watch(what, parts, count, work, allowed):
    """Runs `work(index, items)` in parts; the growth per item after the first third of them."""
    start, readings = time.perf_counter(), []
    for part in range(parts):
        work(part, count // parts)
        readings.append(memory())
        print(f"  {what} {(part + 1) * (count // parts):>9}: {readings[-1][0] / 2**20:8.1f} MiB, device {readings[-1][1] / 2**20:8.1f} MiB, "
              f"{time.perf_counter() - start:6.1f} s", flush=True)
    from_part = parts // 3
    items = count // parts * (parts - 1 - from_part)
    grown = [(last - first) / items for first, last in zip(readings[from_part], readings[-1])]
    verdict = all(growth * items <= max(ALLOWED, allowed * items) for growth in grown)
    print(f"{what}: {grown[0]:+.1f} bytes each, device {grown[1]:+.1f} bytes each: {'flat' if verdict else 'GROWS'}", flush=True)
    return verdict


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--launches", type=int, default=1_000_000)
    parser.add_argument("--compiles", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="that compile")
    options = parser.parse_args()
    (driver.set_active_to_gpu if options.target == "cuda" else driver.set_active_to_cpu)()
    out = torch.zeros(64, device=options.target)
    for n in range(20, 60):
        tuned[(1, )](out, n, 2.0)
    flat = watch("launches", 9, options.launches, lambda part, count: launches(out, count), ALLOWED_PER_LAUNCH)
    each = options.compiles // 9
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NEREID_CACHE_DIR"] = folder
        flat &= watch("compilations", 9, options.compiles,
                      lambda part, count: compiles(out, part * each, count, options.threads), ALLOWED_PER_COMPILATION)
    sys.exit(not flat)


if __name__ == "__main__":
    main()
