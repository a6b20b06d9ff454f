"""Compile times of gradients against those of their kernels, for the kernels of tests/differentiation/named_kernels.py.

    python benchmarks/gradient_compile_times.py   # a Markdown table, for the CPU target

Times are the least of `--repeat` compilations without caches, in milliseconds. `ratio`: the gradient's time over the kernel's.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time

os.environ["NEREID_CACHE"] = "0"
TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS / "differentiation"), str(TESTS / "language")]

import nereid  # noqa: E402
from named_kernels import CASES  # noqa: E402


def milliseconds(make, launch, repeat):
    """The least time of `launch` on a new kernel: `make` gives one that is not compiled yet."""
    times = []
    for _ in range(repeat):
        kernel = make()
        begin = time.perf_counter()
        launch(kernel)
        times.append(1e3 * (time.perf_counter() - begin))
    return min(times)


def written(kernel):
    while not isinstance(kernel, nereid.JITFunction):
        kernel = kernel.fn
    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    print("| kernel | kernel, ms | gradient, ms | ratio |\n|---|---|---|---|")
    ratios = []
    for name, make in CASES.items():
        case = make()
        kernel = written(case.kernel)
        forward = milliseconds(kernel.__copy__, lambda each: each.warmup(**case.arguments, **case.options, grid=case.grid), given.repeat)
        gradients = {f"d{each}": case.arguments[each] for each in (*case.wrt, *case.out)}
        try:
            backward = milliseconds(lambda: nereid.grad(kernel.__copy__(), case.wrt, case.out).backward,
                                    lambda each: each.warmup(**case.arguments, **gradients, **case.options, grid=case.grid), given.repeat)
        except nereid.CompilationError:
            continue  # one that is refused
        ratios.append(backward / forward)
        print(f"| {name} | {forward:.0f} | {backward:.0f} | {ratios[-1]:.1f} |")
    print(f"| median | | | {statistics.median(ratios):.1f} |")


if __name__ == "__main__":
    main()
