"""What a launch costs the host, in instructions: the same on every run, without a GPU and on a busy machine.

    python benchmarks/launch_instructions.py                 a table: instructions a launch, by library
    python benchmarks/launch_instructions.py --functions 12  and the functions that take most, for each kind of launch
    python benchmarks/launch_instructions.py --lines         lines of code and of data that are fetched again after each launch

The driver is the stand-in of the unit tests (tests/unit/runtime/fake_cuda.c), tensors are PyTorch's own on the CPU, whose table of C
functions says that they lie on a GPU (standin.c); everything between the call in Python and the driver's cuLaunchKernel runs as on a
GPU. Counted by valgrind (callgrind), which must be installed with its headers; kernels and kinds of launches are those of launch.py.
Build with the release preset for figures that mean something, and `strip -g` libnereid.so, whose
debugging information valgrind cannot read. "rest" is mostly the C library's locks.

A real driver leaves little of its caller's in the processor's first caches, so between launches a line costs more than an instruction:
with --lines the stand-in (on x86-64) uses 128 KiB of code and of data at each launch, and what is fetched afterwards into simulated caches of 32
KiB for code and 48 for data is counted.
"""

import argparse
import collections
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LAUNCHES = 200
LIBRARIES = ("python", "face", "library", "torch", "driver", "rest")


def library_of(path):
    name = os.path.basename(path)
    if name.startswith("_native"):
        return "face"
    if name.startswith("libnereid"):
        return "library"
    if name.startswith(("libtorch", "libc10", "_C.")):
        return "torch"
    if name in ("libcuda.so.1", "???"):  # code without a file is what the stand-in evicts by
        return "driver"
    return "python" if name.startswith(("python", "libpython")) else "rest"


def shared_library(source, output):
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", str(source), "-o", str(output)], check=True)


def inside(folder):
    """Runs under valgrind: each kind of launch between two marks, without Python's garbage collector."""
    import gc

    import torch

    native = ctypes.CDLL(os.path.join(folder, "standin.so"), ctypes.RTLD_GLOBAL)
    native.standin_table.restype = ctypes.c_void_p
    native.standin_table.argtypes = [ctypes.c_void_p]
    python = ctypes.pythonapi
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    python.PyCapsule_New.restype = ctypes.py_object
    python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    real = python.PyCapsule_GetPointer(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    torch.Tensor.__dlpack_c_exchange_api__ = python.PyCapsule_New(native.standin_table(real), b"dlpack_exchange_api", None)
    ctypes.CDLL(os.environ["NEREID_LIBCUDA"]).fake_quiet(int(os.environ["LAUNCH_QUIET"]))

    import launch
    import nereid
    import nereid.language
    from nereid import _measure
    _measure.Events = lambda device: _measure.Clock()  # the stand-in has no events that a tuner could measure by
    kernels = launch._load(HERE / "launch_kernels.py", nereid, nereid.language, "launch_kernels_of_nereid")
    tensors = [torch.zeros(16) for _ in range(6)]
    kinds = [(what.removeprefix("py, ").replace("py", "tuple as grid"), call)
             for what, call in launch.python_contenders(kernels, tensors, "py")]
    kinds.append(("an empty lambda", lambda: None))

    def count(what, call, launches=LAUNCHES):
        for _ in range(20):
            call()
        turns = range(launches)
        native.standin_begin()
        for _ in turns:
            call()
        native.standin_end(what.encode())

    gc.disable()
    kinds[1][1]()  # PyTorch's current stream is known from its first tensor on
    count("-", lambda: None)  # what happens once happens here
    for what, call in kinds:
        count(what, call)
    cpp = launch.build(folder)
    if cpp:
        pointers = (ctypes.c_void_p * 6)(*[tensor.data_ptr() for tensor in tensors])
        bench = ctypes.c_void_p(cpp.bench_open(str(HERE / "launch_kernels.py").encode(), b"cuda", pointers, ctypes.c_void_p(0x77)))
        for what, function in (("C++, no arguments", cpp.bench_blank), ("C++, looked up", cpp.bench_function),
                               ("C++, compiled kernel", cpp.bench_kernel)):
            function(bench, 20)
            native.standin_begin()
            function(bench, LAUNCHES)
            native.standin_end(what.encode())


def read_dump(path, wanted):
    """(what was counted, {(library, function): events of the wanted kinds}) of one file of callgrind's."""
    names = {}
    columns = []
    costs = collections.Counter()
    what, place, function, skip = None, "", "", False

    def named(text):
        number, _, name = text.partition(" ")
        if name:
            names[kind, number] = name
        return names.get((kind, number), number)

    with open(path) as lines:
        for line in lines:
            line = line.rstrip("\n")
            if line.startswith("desc: Trigger: Client Request: "):
                what = line.removeprefix("desc: Trigger: Client Request: ")
            elif line.startswith("events: "):
                kinds = line.split()[1:]
                columns = [kinds.index(kind) + 1 for kind in wanted]
            elif match := re.match(r"(ob|fn|cob|cfn|fl|fi|fe|cfi|cfl)=(.*)", line):
                kind = match[1].removeprefix("c") if match[1] in ("cob", "cfn") else match[1]
                name = named(match[2])
                if match[1] == "ob":
                    place = name
                elif match[1] == "fn":
                    function = name
            elif line.startswith("calls="):
                skip = True
            elif line and (line[0].isdigit() or line[0] in "+-*"):
                if not skip:
                    counts = line.split()  # zeros at the end are left out
                    costs[library_of(place), function] += sum(int(counts[column]) for column in columns if column < len(counts))
                skip = False
    return what, costs


def print_table(title, found, options):
    print((f"| {title} | all | " + " | ".join(LIBRARIES) + " |\n|---" + "|---" * (len(LIBRARIES) + 1) + "|") if options.markdown else
          f"{title:44}{'all':>8}" + "".join(f"{name:>9}" for name in LIBRARIES))
    for what, costs in found.items():
        sums = collections.Counter()
        for (library, _), cost in costs.items():
            sums[library] += cost / LAUNCHES
        cells = [sum(sums.values()), *(sums[name] for name in LIBRARIES)]
        print("| " + " | ".join([what, *(f"{cell:.0f}" for cell in cells)]) + " |" if options.markdown else f"{what:44}{cells[0]:8.0f}" +
              "".join(f"{cell:9.0f}" for cell in cells[1:]))
        for (library, function), cost in costs.most_common(options.functions):
            print(f"    {cost / LAUNCHES:8.1f}  {library:8} {function[:110]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--functions", type=int, default=0, help="how many to list for each kind of launch")
    parser.add_argument("--lines", action="store_true", help="count lines of the caches instead of instructions")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return inside(options.inside)
    tables = {"lines of code": ("I1mr", ), "lines of data": ("D1mr", "D1mw")} if options.lines else {"instructions a launch": ("Ir", )}
    simulated = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=49152,12,64", "--LL=33554432,16,64"] if options.lines else []
    with tempfile.TemporaryDirectory() as folder:
        shared_library(HERE.parent / "tests" / "unit" / "runtime" / "fake_cuda.c", f"{folder}/libcuda.so.1")
        shared_library(HERE / "standin.c", f"{folder}/standin.so")
        environment = {**os.environ, "NEREID_LIBCUDA": f"{folder}/libcuda.so.1", "FAKE_CUDA_DEVICES": "1", "OMP_NUM_THREADS": "1",
                       "LAUNCH_QUIET": "2" if options.lines else "1",
                       "NEREID_CACHE_DIR": os.environ.get("NEREID_CACHE_DIR", f"{folder}/cache")}
        inner = [sys.executable, str(HERE / "launch_instructions.py"), "--inside", folder]
        # Compiled beforehand, where no valgrind slows the compiler.
        subprocess.run(inner, check=True, env=environment)
        subprocess.run(["valgrind", "--tool=callgrind", "--instr-atstart=no", "-q", *simulated, f"--callgrind-out-file={folder}/counted",
                        *inner], check=True, env=environment)
        dumps = sorted(pathlib.Path(folder).glob("counted.*"), key=lambda path: int(path.suffix[1:]))
        for title, kinds in tables.items():
            found = dict(read_dump(path, kinds) for path in dumps)
            for unnamed in (None, "-"):
                found.pop(unnamed, None)
            for costs in found.values():  # what the stand-in itself does for it
                for place in [place for place in costs if options.lines and place[0] == "driver"]:
                    del costs[place]
            print_table(title, found, options)


if __name__ == "__main__":
    main()
