"""A new process with everything in the disk cache: from its start to the end of its first launch, Nereid beside Triton.

    python benchmarks/cold_start.py [--repeat 9] [--kernel add|softmax|attention] [--without cpu|cuda|torch|triton]...
    python benchmarks/cold_start.py --breakdown          the CPU's row in parts: every module, loading the library, the kernel

Each row is the median of fresh processes, in milliseconds: the interpreter's own start, the imports of NumPy or torch, the import of
Nereid or Triton, `@jit`, and the first launch with its result on the device; of that the part in which the kernel is found, read and
made callable (`kernel cache`). `ours` is what Nereid adds: its import, `@jit` and the launch, without what the CUDA driver does for the
first launch of any program, which a row of its own shows. The machine's file cache is warm, and so are Python's compiled files
(PYTHONDONTWRITEBYTECODE is not passed on): without them a process compiles every module again.

A machine that does other things as well makes times longer, never shorter: the breakdown shows the least of all repetitions, and times of
the processor, not of the clock.
"""

import argparse
import ast
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HEAD = """
import os, sys, time
marks = [("start", float(os.environ["BEGUN"]))]
def mark(name):
    marks.append((name, time.clock_gettime(time.CLOCK_MONOTONIC)))
mark("interpreter")
"""
TAIL = """
import json
times = {name: (now - before) * 1e3 for (_, before), (name, now) in zip(marks, marks[1:])}
times["total"] = (marks[-1][1] - marks[0][1]) * 1e3
times["kernel cache"] = getattr(compiled, "times", {}).get("kernel cache", 0.0) if compiled is not None else 0.0
print(json.dumps(times))
"""
# Device memory without torch: the driver's own calls.
DRIVER = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
assert driver.cuMemAlloc_v2(ctypes.byref(address), 8 << 20) == 0
class Array:
    def __init__(self, offset):
        self.offset = offset
    @property
    def __cuda_array_interface__(self):
        return dict(data=(address.value + self.offset, False), shape=(1 << 18, ), typestr="<f4", version=3)
x, y = Array(0), Array(4 << 20)
mark("driver")
"""
KERNELS = {
    "add": ("""
@{jit}
def kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)
""", "kernel[(16, )](x, y, 16384, B=1024)"),
    "softmax": ("""
@{jit}
def kernel(x, y, columns, B: tl.constexpr):
    i = tl.arange(0, B)
    row = tl.load(x + tl.program_id(0) * columns + i, mask=i < columns, other=-float("inf"))
    row = tl.exp(row - tl.max(row, 0))
    tl.store(y + tl.program_id(0) * columns + i, row / tl.sum(row, 0), mask=i < columns)
""", "kernel[(64, )](x, y, 1000, B=1024)"),
    "attention": ("""
@{jit}
def kernel(x, y, n, B: tl.constexpr):
    i, j = tl.arange(0, 64), tl.arange(0, B)
    q = tl.load(x + i[:, None] * B + j[None, :]).to(tl.float16)
    acc, top, total = tl.zeros([64, B], tl.float32), tl.full([64], -float("inf"), tl.float32), tl.zeros([64], tl.float32)
    for start in range(0, n, 64):
        k = tl.load(x + (start + i)[:, None] * B + j[None, :]).to(tl.float16)
        s = tl.dot(q, tl.trans(k))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        scale = tl.exp(top - new)
        total = total * scale + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), k, acc * scale[:, None])
        top = new
    tl.store(y + i[:, None] * B + j[None, :], acc / total[:, None])
""", "kernel[(1, )](x, y, 1024, B=64)"),
}
NUMPY = """
import numpy as np
x, y = np.ones(1 << 18, dtype=np.float32), np.ones(1 << 18, dtype=np.float32)
mark("numpy")
"""
TORCH = """
import torch
mark("import torch")
x, y = torch.ones(1 << 18, device="cuda"), torch.ones(1 << 18, device="cuda")
torch.cuda.synchronize()
mark("driver")
"""
NEREID = "import nereid, nereid.language as tl\nmark('import')\n"
TRITON = "import triton, triton.language as tl\nmark('import')\n"
# What any program pays for its first kernel.
PLAIN = """
image = open(os.environ["CUBIN"], "rb").read()
library, function = ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuLibraryLoadData(ctypes.byref(library), image, None, None, 0, None, None, 0) == 0
assert driver.cuLibraryGetKernel(ctypes.byref(function), library, b"kernel") == 0
values = [ctypes.c_uint64(address.value), ctypes.c_uint64(address.value + (4 << 20)), ctypes.c_int32(int(os.environ["N"])),
          ctypes.c_uint64(0), ctypes.c_uint64(0)]
pointers = (ctypes.c_void_p * 5)(*(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values))
assert driver.cuKernelSetAttribute(8, int(os.environ["SHARED"]), function, 0) == 0
assert driver.cuLaunchKernel(function, 16, 1, 1, 128, 1, 1, int(os.environ["SHARED"]), None, pointers, None) == 0
assert driver.cuCtxSynchronize() == 0
compiled = None
mark("launch")
"""
DUMP = """
with open(os.environ["CUBIN"], "wb") as file:
    file.write(compiled.asm["cubin"])
print(json.dumps({"shared": compiled.metadata.shared}))
"""


# Times of the processor, for a machine that is shared.
PARTS = """
import os, sys, time
import numpy as np
x, y = np.ones(1 << 18, dtype=np.float32), np.ones(1 << 18, dtype=np.float32)
times, last = {}, time.process_time()
def part(name):
    global last
    now = time.process_time()
    times[name], last = (now - last) * 1e3, now
import nereid._native
part("the extension and the library")
import nereid.language as tl
part("the language")
nereid.jit
part("what @jit imports")
"""
LOADING = """
import ctypes, json, resource, sys, time
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.process_time()
ctypes.CDLL(sys.argv[1])
print(json.dumps([(time.process_time() - start) * 1e3, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before]))
"""


def breakdown(kernel, repeat, environment, folder):
    """Prints where the time of a first launch on the CPU goes."""
    text, launch = KERNELS[kernel]
    path, loading = folder / "parts.py", folder / "loading.py"
    path.write_text(PARTS + text.format(jit="nereid.jit") + f"part('the decorator')\ncompiled = {launch}\npart('the launch')\n"
                    "times['of it finding the kernel'] = compiled.times.get('kernel cache', 0.0)\n"
                    "import nereid\nprint([times, nereid.__file__])\n")
    loading.write_text(LOADING)

    def run(*command):
        done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        return done

    for _ in range(2):  # compiles the kernel, and Python's files
        package = pathlib.Path(ast.literal_eval(run(path).stdout)[1]).parent
    parts = [ast.literal_eval(run(path).stdout)[0] for _ in range(repeat)]
    print(f"{kernel} on the CPU, from disk: milliseconds of the processor, the least of {repeat} processes")
    for name in parts[0]:
        print(f"{name:34}{min(part[name] for part in parts):8.2f}")
    print(f"{'together':34}{min(sum(part.values()) - part['of it finding the kernel'] for part in parts):8.2f}")
    libraries = [library for library in (package / "libnereid.so.1", *package.parent.parent.glob("src/runtime/libnereid.so.1")) if library.exists()]
    if libraries:
        loaded = [json.loads(run(loading, libraries[0]).stdout) for _ in range(repeat)]
        print(f"\nloading {libraries[0].name} ({libraries[0].stat().st_size / 2**20:.0f} MiB) alone: {min(time for time, _ in loaded):.2f} ms, "
              f"{min(faults for _, faults in loaded)} page faults")
    modules = {}
    for _ in range(repeat):
        lines = re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", run("-X", "importtime", path).stderr)
        names, once = [name for _, name in lines], {}
        for time_of, name in lines[names.index("numpy") + 1:]:
            once[name] = once.get(name, 0) + int(time_of)  # a module that is waited for has two lines
        for name, time_of in once.items():
            modules[name] = min(modules.get(name, time_of), time_of)
    print("\nmodules, microseconds of each without those it imports:")
    for name, time_of in sorted(modules.items(), key=lambda row: -row[1]):
        print(f"{time_of:8} {name}")


def program(row, kernel):
    text, launch = KERNELS[kernel]
    ours = "nereid" in row
    definition = text.format(jit="nereid.jit" if ours else "triton.jit") + "mark('jit')\n"
    finish = {"nereid cpu": "", "nereid cuda": "assert driver.cuCtxSynchronize() == 0\n"}.get(row, "torch.cuda.synchronize()\n")
    run = f"compiled = {launch}\n{finish}mark('launch')\n"
    if row == "the driver alone":
        return HEAD + DRIVER + PLAIN + TAIL
    memory = {"nereid cpu": NUMPY, "nereid cuda": DRIVER}.get(row, TORCH)
    return HEAD + memory + (NEREID if ours else TRITON) + definition + run + TAIL


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--kernel", choices=list(KERNELS), default="add")
    parser.add_argument("--without", action="append", default=[], choices=["cpu", "cuda", "torch", "triton"])
    parser.add_argument("--breakdown", action="store_true")
    arguments = parser.parse_args()
    rows = {"cpu": ["nereid cpu"], "cuda": ["nereid cuda", "the driver alone"], "torch": ["nereid with torch"], "triton": ["triton"]}
    rows = [row for group, names in rows.items() if group not in arguments.without for row in names]
    columns = ["interpreter", "numpy", "import torch", "driver", "import", "jit", "launch", "kernel cache", "total"]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NEREID_CACHE": "1", "NEREID_CACHE_DIR": f"{folder}/nereid", "TRITON_CACHE_DIR": f"{folder}/triton",
                       "CUDA_CACHE_DISABLE": "1", "CUBIN": f"{folder}/kernel.cubin", "N": KERNELS[arguments.kernel][1].split(",")[3]}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if arguments.breakdown:
            return breakdown(arguments.kernel, arguments.repeat, environment, pathlib.Path(folder))

        def once(path, **more):
            began = time.clock_gettime(time.CLOCK_MONOTONIC)
            done = subprocess.run([sys.executable, path], env={**environment, **more, "BEGUN": str(began)}, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{path} failed:\n{done.stderr}")
            return json.loads(done.stdout.splitlines()[-1])

        found = {}
        for row in rows:
            path = pathlib.Path(folder) / f"start_{row.replace(' ', '_')}.py"  # no module's name
            path.write_text(program(row, arguments.kernel))
            cold = None
            if row == "the driver alone":
                dump = pathlib.Path(folder) / "dump.py"
                dump.write_text(program("nereid cuda", arguments.kernel) + DUMP)
                environment["SHARED"] = str(once(dump)["shared"])
            else:
                cold = once(path)["launch"]
            once(path)
            times = [once(path) for _ in range(arguments.repeat)]
            found[row] = {name: statistics.median(time.get(name, 0.0) for time in times) for name in columns}
            found[row]["cold"] = cold
        print(f"{arguments.kernel}: milliseconds, medians of {arguments.repeat} processes; `cold`: the launch with an empty cache")
        print(f"{'':20}" + "".join(f"{name:>13}" for name in [*columns, "cold", "ours"]))
        plain = found.get("the driver alone", {}).get("launch", 0.0)
        for row, values in found.items():
            ours = sum(values[name] for name in ("import", "jit", "launch")) - (0.0 if "cpu" in row else plain)
            cells = [*(values[name] for name in columns), values["cold"] or 0.0, ours if row != "the driver alone" else 0.0]
            print(f"{row:20}" + "".join(f"{cell:13.2f}" if cell else f"{'':13}" for cell in cells))


if __name__ == "__main__":
    main()
