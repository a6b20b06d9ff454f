"""What a launch costs: ours, Triton's of the same kernels, torch.add, and the driver's cuLaunchKernel, all in this process.

    python benchmarks/launch.py                     on a GPU where there is one, and on the CPU
    python benchmarks/launch.py --target cpu --markdown

Microseconds a launch: the median of 20 readings of 500 launches. The contenders take turns, reading by reading, so that a slow moment
of the machine hits all alike. The kernels do nothing (launch_kernels.py); 6 tensors, 6 integers and 2 floats are passed. What
needs no Python is measured by launch.cpp, which is built with the C++ compiler of the machine (CXX, else c++) and left out
where there is none.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import nereid
import nereid.language
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "gpu"))
from load import _load  # noqa: E402  (the same file under two libraries)

NUMBERS = (3, 5, 7, 9, 11, 13, 1.5, 2.5)


def build(folder):
    """launch.cpp against the library that this process has loaded; None without a compiler."""
    with open("/proc/self/maps") as maps:
        loaded = [line.split()[-1] for line in maps if "/libnereid.so" in line]
    output = pathlib.Path(folder) / "launch.so"
    include = HERE.parent / "include"
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{include}", str(HERE / "launch.cpp"), "-o",
               str(output), loaded[0], f"-Wl,-rpath,{pathlib.Path(loaded[0]).parent}", "-ldl"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"launch.cpp is left out: {getattr(error, 'stderr', '') or error}", file=sys.stderr)
        return None
    native = ctypes.CDLL(str(output))
    native.bench_open.restype = ctypes.c_void_p
    for name in ("bench_function", "bench_kernel", "bench_blank", "bench_driver", "bench_question"):
        getattr(native, name).restype = ctypes.c_double
    return native


def python_reading(call):
    """A function that measures `call` in a loop of Python."""

    def reading(launches):
        turns = range(launches)
        start = time.perf_counter()
        for _ in turns:
            call()
        return (time.perf_counter() - start) / launches * 1e6

    return reading


def empty_loop():
    """What the loop and the call of a lambda cost by themselves."""
    return python_reading(lambda: None)


def python_contenders(kernels, tensors, name):
    plain, tuned, blank = kernels.plain_kernel, kernels.tuned_kernel, kernels.blank_kernel
    a, b, c, d, e, f = tensors
    grid = lambda meta: (1, )
    tuned_grid = lambda meta: (meta["BLOCK"] // meta["BLOCK"], )
    yield f"{name}, no arguments", lambda: blank[(1, )]()
    yield f"{name}", lambda: plain[(1, )](a, b, c, d, e, f, 3, 5, 7, 9, 11, 13, 1.5, 2.5)
    yield f"{name}, keywords", lambda: plain[(1, )](a, b, c, d, e, f, i=3, j=5, k=7, l=9, m=11, n=13, x=1.5, y=2.5)
    yield f"{name}, option", lambda: plain[(1, )](a, b, c, d, e, f, 3, 5, 7, 9, 11, 13, 1.5, 2.5, num_warps=4)
    yield f"{name}, lambda grid", lambda: plain[grid](a, b, c, d, e, f, 3, 5, 7, 9, 11, 13, 1.5, 2.5)
    yield f"{name}, autotuned + heuristics", lambda: tuned[(1, )](a, b, c, d, e, f, 3, 5, 7, 9, 11, 13, 1.5, 2.5)
    yield f"{name}, autotuned + heuristics, lambda grid", lambda: tuned[tuned_grid](a, b, c, d, e, f, 3, 5, 7, 9, 11, 13, 1.5, 2.5)


def contenders(target, native):
    """(what, function of a number of launches that gives microseconds) in the order of the table."""
    cuda = target == "cuda"
    tensors = [torch.zeros(16, device=target) for _ in range(6)]
    stream = torch.cuda.current_stream().cuda_stream if cuda else 0
    ours = _load(HERE / "launch_kernels.py", nereid, nereid.language, "launch_kernels_of_nereid")
    for what, call in python_contenders(ours, tensors, "nereid"):
        yield what, python_reading(call)
    compiled = ours.plain_kernel[(1, )](*tensors, *NUMBERS)
    launcher = compiled[(1, 1, 1)]
    a, b, c, d, e, f = tensors
    yield "nereid, compiled kernel", python_reading(lambda: launcher(a, b, c, d, e, f, 3, 5, 7, 9, 11, 13, 1.5, 2.5))
    if native:
        pointers = (ctypes.c_void_p * 6)(*[tensor.data_ptr() for tensor in tensors])
        bench = ctypes.c_void_p(
            native.bench_open(str(HERE / "launch_kernels.py").encode(), target.encode(), pointers, ctypes.c_void_p(stream)))
        contenders.kept = tensors  # as long as the bench holds their addresses
        yield "nereid C++, no arguments", lambda n: native.bench_blank(bench, n)
        yield "nereid C++, function", lambda n: native.bench_function(bench, n)
        yield "nereid C++, compiled kernel", lambda n: native.bench_kernel(bench, n)
        if cuda:
            function, threads = ctypes.c_void_p(compiled.function), compiled.metadata.num_warps * 32
            yield "driver, cuLaunchKernel", lambda n: native.bench_driver(bench, function, threads, ctypes.c_void_p(stream), n)
            for number, call in enumerate(("cuCtxGetDevice", "cuCtxGetCurrent", "cuPointerGetAttribute")):
                yield f"driver, {call}", lambda n, number=number: native.bench_question(bench, number, n)
    if cuda:
        try:
            import triton
            import triton.language
        except ImportError:
            pass
        else:
            theirs = _load(HERE / "launch_kernels.py", triton, triton.language, "launch_kernels_of_triton")
            for what, call in python_contenders(theirs, tensors, "triton"):
                yield what, python_reading(call)
    out = torch.zeros(16, device=target)
    yield "torch.add", python_reading(lambda: torch.add(out, 1.0, out=out))
    yield "(an empty lambda)", empty_loop()


def measure(target, native, readings, launches):
    wait = torch.cuda.synchronize if target == "cuda" else lambda: None
    nereid.runtime.driver.set_active_to_gpu() if target == "cuda" else nereid.runtime.driver.set_active_to_cpu()
    try:
        found = list(contenders(target, native))
        times = {what: [] for what, _ in found}
        for _, reading in found:
            reading(20)
        for _ in range(readings):
            for what, reading in found:
                wait()
                times[what].append(reading(launches))
        wait()
        return times
    finally:
        nereid.runtime.driver.reset_active()


def table(target, times, markdown):
    lines = [f"| launch on {target} | µs | least |", "|---|---|---|"] if markdown else [f"{target}: µs a launch, median (least)"]
    for what, values in times.items():
        median, least = statistics.median(values), min(values)
        lines.append(f"| {what} | {median:.3f} | {least:.3f} |" if markdown else f"  {median:8.3f} ({least:.3f})  {what}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=["cpu", "cuda"], action="append", help="default: all of this machine")
    parser.add_argument("--readings", type=int, default=20)
    parser.add_argument("--launches", type=int, default=500, help="in a reading")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", help="write all readings into this file")
    options = parser.parse_args()
    targets = options.target or (["cuda"] if torch.cuda.is_available() else []) + ["cpu"]
    everything = {}
    with tempfile.TemporaryDirectory() as folder:
        native = build(folder)
        for target in targets:
            everything[target] = measure(target, native, options.readings, options.launches)
            print(table(target, everything[target], options.markdown), flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(everything))


if __name__ == "__main__":
    main()
