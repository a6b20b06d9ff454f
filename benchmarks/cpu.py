"""Runs the main job on the CPU: every seed kernel on real data, checked against float64, beside NumPy and PyTorch.

    python benchmarks/cpu.py            the main job
    python benchmarks/cpu.py --bars     the sizes of the speed bars
    python benchmarks/cpu.py --all --markdown

Times are medians over interleaved trials in this process, with the same number of threads for all. The exit status is 1 when
a result is wrong; a missed bar is printed, not an error.
"""

import argparse
import itertools
import statistics
import sys
import time

import numpy as np
import torch

import jobs
import nereid


def measure(functions, seconds):
    """Median seconds of a call of each function. They take turns, so that a slow moment of the machine hits all alike; a turn is a pause, in which
    the threads of the one before stop spinning, calls for 20 ms that are not timed, in which its own threads wake, and timed calls."""
    samples = [[] for _ in functions]
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline or not samples[0]:
        for fn, list_ in zip(functions, samples):
            time.sleep(0.005)
            warm = time.perf_counter() + 0.02
            fn()
            while time.perf_counter() < warm:
                fn()
            until = time.perf_counter() + 0.02
            while time.perf_counter() < until:
                start = time.perf_counter()
                fn()
                list_.append(time.perf_counter() - start)
    return [statistics.median(s) for s in samples]


def row(job, seconds):
    error = job.check()
    ours, torch_, numpy_ = measure([job.nereid, job.torch, job.numpy], seconds)
    bar = "" if job.bar is None else f"{job.bar:.1f}x {'met' if torch_ / ours >= job.bar else 'MISSED'}"
    verdict = "yes" if error < 1 else f"NO ({error:.1f} x tolerance)"
    return [job.name, verdict, f"{ours * 1e3:.3f}", f"{numpy_ * 1e3:.3f}", f"{torch_ * 1e3:.3f}", f"{torch_ / ours:.2f}x", bar], error < 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bars", action="store_true", help="the sizes of the speed bars only")
    parser.add_argument("--all", action="store_true", help="the main job and the bars")
    parser.add_argument("--seconds", type=float, default=1.0, help="time spent measuring one job")
    parser.add_argument("--markdown", action="store_true", help="print a table for docs/performance.md")
    args = parser.parse_args()

    chosen = itertools.chain([] if args.bars else jobs.main_jobs(), jobs.bar_jobs() if args.bars or args.all else [])
    header = ["job", "correct", "Nereid ms", "NumPy ms", "PyTorch ms", "speed to PyTorch", "bar"]
    print(f"Nereid {nereid.__version__}, PyTorch {torch.__version__}, NumPy {np.__version__}, {torch.get_num_threads()} threads",
          flush=True)
    right, widths = True, [44, 10, 10, 10, 10, 16, 12]
    show = (lambda cells: "| " + " | ".join(cells) + " |") if args.markdown else (
        lambda cells: "  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))))
    print(show(header))
    if args.markdown:
        print("|---" * len(header) + "|")
    for job in chosen:
        cells, ok = row(job, args.seconds)
        right &= ok
        print(show(cells), flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
