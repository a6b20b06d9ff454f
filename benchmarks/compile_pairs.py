"""Compile times of two builds of the library, in interleaved pairs: is the second one slower?

    python benchmarks/compile_pairs.py BEFORE AFTER                    build folders, or folders of PYTHONPATH
    python benchmarks/compile_pairs.py BEFORE AFTER --most 1.02        exit status 1 when the mean ratio is above
    python benchmarks/compile_pairs.py BEFORE AFTER --target cuda:90 --rounds 40

The kernels are those of compile_time.py. Each build has a process of its own, which compiles a kernel on request with empty caches; a round
asks both builds one after the other, and which one begins alternates. By default the clock is the processor time of the process (all of
its threads), which other work on the machine disturbs least; `--clock wall` takes the time that passes. GPUs are hidden
from the processes, so that a target `cuda:90` is compiled to PTX, without NVIDIA's assembler. The ratio of a kernel is the median over the rounds of AFTER's time by BEFORE's, with the quartiles; the mean over
kernels is the geometric one.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import compile_time


def python_path(build):
    """The folder with the package, of a build folder or that folder itself. Raises SystemExit when there is no package."""
    for folder in (pathlib.Path(build) / "python", pathlib.Path(build)):
        if (folder / "nereid").is_dir():
            return str(folder.resolve())
    raise SystemExit(f"{build} holds no package: expected a build folder or a folder of PYTHONPATH")


class Build:
    """A process that compiles with one build."""

    def __init__(self, build, clock):
        environment = {**os.environ, "PYTHONPATH": python_path(build), "CUDA_VISIBLE_DEVICES": ""}
        self._process = subprocess.Popen([sys.executable, __file__, "--serve", clock], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True, env=environment)

    def milliseconds(self, name, target):
        """The time of one compilation. Raises SystemExit when the process has ended."""
        try:
            self._process.stdin.write(json.dumps([name, target]) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise SystemExit("the process of a build has ended, see above") from None
        for line in self._process.stdout:  # what compilations print is skipped
            if line.startswith("took "):
                return float(line.split()[1])
        raise SystemExit("the process of a build has ended, see above")

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def serve(clock):
    """Compiles the kernel of each line of standard input, `[name, target]`, and prints its time."""
    now = time.process_time if clock == "processor" else time.perf_counter
    from load import libraries
    import nereid
    library = libraries(False)[0]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for line in sys.stdin:
            name, target = json.loads(line)
            compile_time.fresh_caches(folder)
            compile_time.forget(library)
            begin = now()
            compile_time.CASES[name].compile(library, target)
            took = (now() - begin) * 1000
            nereid.flush_cache()  # a later measurement must not pay for it
            print(f"took {took}", flush=True)


def ratios_of(builds, name, target, rounds):
    """AFTER's time by BEFORE's, and BEFORE's, one of each round. The first round warms the processes."""
    ratios, times = [], []
    for turn in range(rounds + 1):
        order = (0, 1) if turn % 2 else (1, 0)
        took = {which: builds[which].milliseconds(name, target) for which in order}
        if turn:
            ratios.append(took[1] / took[0])
            times.append(took[0])
    return ratios, times


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--target", action="append", help="cpu or cuda:90; several times for several (default: both)")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--clock", choices=("processor", "wall"), default="processor")
    parser.add_argument("--most", type=float, help="the largest mean ratio that is accepted")
    arguments = parser.parse_args()
    builds = [Build(build, arguments.clock) for build in (arguments.before, arguments.after)]
    medians = []
    for target in arguments.target or ["cpu", "cuda:90"]:
        for name in compile_time.cases_of(target):
            ratios, times = ratios_of(builds, name, target, arguments.rounds)
            low, median, high = statistics.quantiles(ratios, n=4)
            medians.append(median)
            print(f"{target} {name}: {statistics.median(times):.1f} ms, ratio {median:.3f} ({low:.3f} to {high:.3f})", flush=True)
    for build in builds:
        build.close()
    mean = statistics.geometric_mean(medians)
    print(f"mean ratio {mean:.3f} over {len(medians)} kernels, {arguments.rounds} rounds, {arguments.clock} time")
    return 1 if arguments.most and mean > arguments.most else 0


if __name__ == "__main__":
    sys.exit(main())
