"""Runs the main job: every seed kernel on real data, checked against float64 and timed, on each target of this machine: on the CPU beside
NumPy and PyTorch, on the GPU beside PyTorch, when there is one that PyTorch can use.

    python benchmarks/main_job.py                the main job
    python benchmarks/main_job.py --bars         the sizes of the speed bars
    python benchmarks/main_job.py --all --markdown
    python benchmarks/main_job.py --target cpu   on one target only

Times on the CPU are medians over interleaved trials in this process, with the same number of threads for all; on the GPU they are medians
of the device's time, each run with a cold L2 cache (`nereid.testing.do_bench`). The exit status is 1 when a result is wrong, or when a
target that was asked for cannot be used; a missed bar is printed, not an error.
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


def row_on_cpu(job, seconds):
    error = job.check()
    ours, torch_, numpy_ = measure([job.nereid, job.torch, job.numpy], seconds)
    bar = "" if job.bar is None else f"{job.bar:.1f}x {'met' if torch_ / ours >= job.bar else 'MISSED'}"
    return [job.name, verdict(error), f"{ours * 1e3:.3f}", f"{numpy_ * 1e3:.3f}", f"{torch_ * 1e3:.3f}", f"{torch_ / ours:.2f}x", bar], error < 1


def row_on_gpu(job, seconds):
    error = job.check()
    ours, torch_ = (nereid.testing.do_bench(function, rep=seconds * 500, return_mode="median") for function in (job.nereid, job.torch))
    return [job.name, verdict(error), f"{ours:.4f}", f"{torch_:.4f}", f"{torch_ / ours:.2f}x"], error < 1


def verdict(error):
    return "yes" if error < 1 else f"NO ({error:.1f} x tolerance)"


#: By target: how a row is made, the columns and their widths.
TABLES = {
    "cpu": (row_on_cpu, ["job", "correct", "Nereid ms", "NumPy ms", "PyTorch ms", "speed to PyTorch", "bar"], [44, 10, 10, 10, 10, 16, 12]),
    "cuda": (row_on_gpu, ["job", "correct", "Nereid ms", "PyTorch ms", "speed to PyTorch"], [44, 10, 10, 10, 16]),
}


def report(target, args):
    """Runs the jobs on one target. Says whether all results are right."""
    make, header, widths = TABLES[target]
    show = (lambda cells: "| " + " | ".join(cells) + " |") if args.markdown else (
        lambda cells: "  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))))
    print(show(header))
    if args.markdown:
        print("|---" * len(header) + "|")
    right = True
    with jobs.on(target):
        for job in itertools.chain([] if args.bars else jobs.main_jobs(), jobs.bar_jobs() if args.bars or args.all else []):
            cells, ok = make(job, args.seconds)
            right &= ok
            print(show(cells), flush=True)
    return right


def why_no_gpu():
    """Why the jobs cannot run on a GPU with PyTorch's tensors; None when they can."""
    if not nereid.runtime.driver.get_active_gpus():
        return "no GPU was found"
    if not torch.cuda.is_available():
        return f"there is a GPU, but PyTorch {torch.__version__} cannot use it (install a build for CUDA)"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--bars", action="store_true", help="the sizes of the speed bars only")
    parser.add_argument("--all", action="store_true", help="the main job and the bars")
    parser.add_argument("--seconds", type=float, default=1.0, help="time spent measuring one job")
    parser.add_argument("--markdown", action="store_true", help="print tables for docs/performance.md")
    parser.add_argument("--target", choices=TABLES, help="one target, by default all that can be used")
    args = parser.parse_args()

    right = True
    print(f"Nereid {nereid.__version__}, PyTorch {torch.__version__}, NumPy {np.__version__}", flush=True)
    if args.target != "cuda":
        print(f"\nOn the CPU, {torch.get_num_threads()} threads", flush=True)
        right &= report("cpu", args)
    if args.target != "cpu":
        missing = why_no_gpu()
        if missing is None:
            print(f"\nOn the GPU, {torch.cuda.get_device_name()}", flush=True)
            right &= report("cuda", args)
        else:
            print(f"\nNot run on a GPU: {missing}", flush=True)
            right &= args.target is None
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
