"""What a launch of a gradient costs on the host, for the kernels of tests/differentiation/named_kernels.py on the CPU target.

    python benchmarks/gradient_launches.py                       # a Markdown table, in microseconds
    python benchmarks/gradient_launches.py BEFORE AFTER          # two build folders in turns: medians, and the median of the ratios

The inputs are those of the tests, which are small. `kernel`: a launch of the kernel, `backward`: one of its gradient, whose own computation is in it. A time is the
least of several rounds of launches, since other work on the machine only adds to it. The last row is a pass of an operator of `nereid.autograd`, forward and backward.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from compile_pairs import python_path

TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
_LAUNCHES, _ROUNDS = 20, 7


def microseconds(launch):
    """The least time of a launch over the rounds, in microseconds, once nothing is new."""
    for _ in range(6):
        launch()
    times = []
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        for _ in range(_LAUNCHES):
            launch()
        times.append(1e6 * (time.perf_counter() - begin) / _LAUNCHES)
    return min(times)


def pass_of_softmax():
    """A function that runs a differentiable softmax forward and backward."""
    import nereid
    import torch
    from test_jvp_kernels import softmax
    operator = nereid.autograd(softmax, wrt="X", out="Y", grid=lambda a: (len(a["X"]), ),
                               arguments=dict(stride_ym=24, stride_yn=1, stride_xm=24, stride_xn=1, M=8, N=24))
    x = torch.randn(8, 24, requires_grad=True)
    gradient = torch.randn(8, 24)

    def run():
        x.grad = None
        operator(x).backward(gradient)

    return run


def measure():
    """{kernel: (time of a launch, that of its gradient)}, in microseconds; of the operator (0, time)."""
    os.environ.setdefault("NEREID_CPU_THREADS", "1")
    sys.path[:0] = [str(TESTS / "differentiation"), str(TESTS / "language")]
    import nereid
    import torch
    from gradient_compile_times import written
    from named_kernels import CASES
    torch.set_num_threads(1)
    found = {}
    for name, make in CASES.items():
        case = make()
        kernel = written(case.kernel)
        gradients = {f"d{each}": torch.zeros_like(case.arguments[each]) for each in (*case.wrt, *case.out)}
        backward = nereid.grad(kernel, case.wrt, case.out).backward
        try:
            backward[case.grid](**case.arguments, **gradients, **case.options)
        except nereid.CompilationError:
            continue  # one that is refused
        forward = microseconds(lambda: kernel[case.grid](**case.arguments, **case.options))
        found[name] = forward, microseconds(lambda: backward[case.grid](**case.arguments, **gradients, **case.options))
    found["softmax by nereid.autograd, both passes"] = 0, microseconds(pass_of_softmax())
    return found


def measured_by(build):
    environment = {**os.environ, "PYTHONPATH": python_path(build), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, __file__, "--json"], env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("builds", nargs="*", help="none, or two build folders")
    parser.add_argument("--turns", type=int, default=3, help="of two builds")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    given = parser.parse_args()
    if given.json:
        return print(json.dumps(measure()))
    if not given.builds:
        print("| kernel | kernel, us | backward, us |\n|---|---|---|")
        for name, (forward, backward) in measure().items():
            print(f"| {name} | {forward:.1f} | {backward:.1f} |")
        return None
    if len(given.builds) != 2:
        parser.error("expected two build folders")
    turns = []
    for turn in range(given.turns):
        order = given.builds if turn % 2 else given.builds[::-1]
        took = {build: measured_by(build) for build in order}
        turns.append([took[build] for build in given.builds])
    print("| kernel | before, us | after, us | after / before |\n|---|---|---|---|")
    ratios = []
    for name in turns[0][0]:
        before, after = ([turn[side][name][1] for turn in turns] for side in (0, 1))
        ratios.append(statistics.median(b / a for a, b in zip(before, after)))
        print(f"| {name} | {statistics.median(before):.1f} | {statistics.median(after):.1f} | {ratios[-1]:.2f} |")
    print(f"| median | | | {statistics.median(ratios):.2f} |")
    return None


if __name__ == "__main__":
    main()
