"""Whether memory stays flat over many launches and many compilations.

    python benchmarks/leaks.py                                  1,000,000 launches and 10,000 compilations on this machine's target
    python benchmarks/leaks.py --target cpu --launches 200000 --compiles 500
    python benchmarks/leaks.py --target cuda:90 --compiles 3000         compilations only, machine code included, without a GPU

Launches take turns through all ways in: a plain kernel, keywords, options, a grid function, a tuned kernel with heuristics. A compilation is a new function
with a new constant, launched once and dropped. Three numbers are read after each part: what is allocated (`mallinfo2`: free memory between
what is in use does not count), all memory of the process's own (anonymous, from smaps_rollup, machine code included), and, on a GPU, what
of the device is taken. The first half is not counted: there the allocators find their size. Through the rest goes a straight line; memory
grows when its slope, less twice the error of the slope, is above what is allowed. The exit status is 1 then.
"""

import argparse
import copy
import ctypes
import gc
import math
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
from nereid.runtime.jit import MockTensor  # noqa: E402

#: Bytes an item that are no growth.
ALLOWED_PER_LAUNCH = 4
ALLOWED_PER_COMPILATION = 300
PARTS = 18

LIBC = ctypes.CDLL(None)


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t)
                for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


LIBC.mallinfo2.restype = Mallinfo


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
    """Bytes that are allocated, bytes of this process, and bytes of the device that are taken."""
    gc.collect()
    about = LIBC.mallinfo2()
    LIBC.malloc_trim(0)  # what is free goes back, so that it does not count
    with open("/proc/self/smaps_rollup") as file:
        own = sum(int(line.split()[1]) * 1024 for line in file if line.startswith(("Anonymous:", "Swap:")))
    device = 0
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        device = total - free
    return about.uordblks + about.hblkhd, own, device


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


def compiles(out, first, count, threads, target):

    def one(value):
        if out is None:
            copy.copy(varied).warmup(MockTensor(tl.float32), 5, 2.0, VALUE=value, grid=(1, ), target=target).asm["cubin"]
            return
        copy.copy(varied)[(1, )](out, 5, 2.0, VALUE=value)

    with ThreadPoolExecutor(threads) as pool:
        for start in range(first, first + count, 100):
            list(pool.map(one, range(start, min(start + 100, first + count))))
            gc.collect()


def slope(values):
    """Of the straight line that fits values best, and its standard error, both for each step."""
    count = len(values)
    steps = [i - (count - 1) / 2 for i in range(count)]
    square = sum(step * step for step in steps)
    mean = sum(values) / count
    rise = sum(step * value for step, value in zip(steps, values)) / square
    rest = sum((value - mean - rise * step)**2 for step, value in zip(steps, values))
    return rise, math.sqrt(rest / (count - 2) / square)


def watch(what, items, work, allowed):
    """Runs `work(part, items)` in parts; whether memory grew in the second half of them."""
    start, readings = time.perf_counter(), []
    each = max(items // PARTS, 1)
    for part in range(PARTS):
        work(part, each)
        readings.append(memory())
        used, own, device = (reading / 2**20 for reading in readings[-1])
        print(f"  {what} {(part + 1) * each:>9}: {used:8.2f} MiB allocated, {own:8.1f} MiB of the process, device {device:8.1f} MiB, "
              f"{time.perf_counter() - start:6.1f} s", flush=True)
    flat = True
    for name, values in zip(("allocated", "of the process", "device"), zip(*readings[PARTS // 2:])):
        rise, error = slope(values)
        grows = (rise - 2 * error) / each > allowed
        flat &= not grows
        print(f"{what}, {name}: {rise / each:+.1f} +- {error / each:.1f} bytes each{': GROWS' if grows else ''}", flush=True)
    return flat


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu, cuda, or cuda:90 to compile only")
    parser.add_argument("--launches", type=int, default=1_000_000)
    parser.add_argument("--compiles", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="that compile")
    options = parser.parse_args()
    out, flat = None, True
    if ":" not in options.target:
        (driver.set_active_to_gpu if options.target == "cuda" else driver.set_active_to_cpu)()
        out = torch.zeros(64, device=options.target)
        for n in range(20, 60):
            tuned[(1, )](out, n, 2.0)
        flat = watch("launches", options.launches, lambda part, count: launches(out, count), ALLOWED_PER_LAUNCH)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NEREID_CACHE_DIR"] = folder
        flat &= watch("compilations", options.compiles,
                      lambda part, count: compiles(out, part * count, count, options.threads, options.target), ALLOWED_PER_COMPILATION)
    sys.exit(not flat)


if __name__ == "__main__":
    main()
