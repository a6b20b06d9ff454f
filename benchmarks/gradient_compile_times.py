"""Compile times of gradients against those of their kernels, for the kernels of tests/differentiation/named_kernels.py.

    python benchmarks/gradient_compile_times.py                                # a Markdown table, for the CPU target
    python benchmarks/gradient_compile_times.py --target cuda:90 --rounds 5    # to PTX, without NVIDIA's assembler where there is no GPU

In each round the kernel and its gradient are compiled one after the other, without caches: all that the first `backward` of tensors like those of the tests
compiles, but for the kernel that adds partial sums, which a process compiles once. `ratio` is the median over the rounds of the gradient's time over the kernel's; times are medians,
in milliseconds. By default the clock is the processor time of the process, which other work on the machine disturbs least.
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


def milliseconds(kernel, case, now, **more):
    """The time of compiling a kernel, or the `backward` of a gradient, that is not compiled yet."""
    begin = now()
    kernel.warmup(**case.arguments, **case.options, **more, grid=case.grid)
    return 1e3 * (now() - begin)


def written(kernel):
    while not isinstance(kernel, nereid.JITFunction):
        kernel = kernel.fn
    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", choices=("processor", "wall"), default="processor")
    parser.add_argument("--target", default="cpu", help="cpu or cuda:90")
    given = parser.parse_args()
    now = time.process_time if given.clock == "processor" else time.perf_counter
    target = {} if given.target == "cpu" else {"target": given.target}
    print("| kernel | kernel, ms | gradient, ms | ratio |\n|---|---|---|---|")
    ratios = []
    for name, make in CASES.items():
        case = make()
        kernel = written(case.kernel)
        gradients = {f"d{each}": case.arguments[each] for each in (*case.wrt, *case.out)}
        times = []
        try:
            for _ in range(given.rounds + 1):
                forward = milliseconds(kernel.__copy__(), case, now, **target)
                times.append((forward, milliseconds(nereid.grad(kernel.__copy__(), case.wrt, case.out).backward, case, now, **gradients, **target)))
        except nereid.CompilationError:
            continue  # one that is refused
        forward, backward = (statistics.median(each) for each in zip(*times[1:]))  # the first round warms the process
        ratios.append(statistics.median(after / before for before, after in times[1:]))
        print(f"| {name} | {forward:.0f} | {backward:.0f} | {ratios[-1]:.1f} |", flush=True)
    print(f"| median | | | {statistics.median(ratios):.1f} |")


if __name__ == "__main__":
    main()
