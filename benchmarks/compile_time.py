"""What a cold compilation costs: fresh kernels, no cache, from the launch's arguments to code that can be started.

    python benchmarks/compile_time.py                      the CPU target, and a GPU or its code when there is none
    python benchmarks/compile_time.py --target cuda --triton
    python benchmarks/compile_time.py --target cuda:90     up to machine code, on any machine with an assembler
    python benchmarks/compile_time.py --threads 1,2,4,8    several threads compile different kernels

Warm figures are medians in one process whose libraries have been used before; "first" is the first compilation of a new process.
Every repetition starts with empty cache folders, and the driver's own cache is off. With a GPU, loading the code is included; Triton's
share of "the rest" is the C compiler that builds its launcher, and the loading.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("CUDA_CACHE_DISABLE", "1")
os.environ["NEREID_ALWAYS_COMPILE"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "gpu"))

#: milliseconds that a whole compilation may take
BARS = {"cpu": {"vector add": 15, "softmax": 30, "matmul": 80},
        "cuda": {"vector add": 25, "softmax": 45, "matmul": 80, "attention": 150}}
#: and without the assembler
OWN_BARS = {"vector add": 8, "softmax": 12, "matmul": 25, "attention": 40}
ASSEMBLERS = ("assemble", "cubin")


class Case:
    """One launch: a kernel and its arguments. Strings among them are types, of pointers to 16-byte boundaries."""

    def __init__(self, kernel, *arguments, cpu=True, warps=4, stages=3, **constants):
        self.kernel, self.arguments, self.constants = kernel, arguments, constants
        self.cpu, self.warps, self.stages = cpu, warps, stages

    def compile(self, library, target):
        """Compiles for `target` ("cpu", "cuda", "cuda:90"; None: the GPU of the machine)."""
        import torch
        types = {"fp16": torch.float16, "fp32": torch.float32}
        module = library.seed if hasattr(library.seed, self.kernel) else library.kernels
        arguments = [types.get(argument, argument) for argument in self.arguments]
        options = {"num_warps": self.warps, "num_stages": self.stages}
        if target is not None:
            options["target"] = target
        return getattr(module, self.kernel).warmup(*arguments, grid=(1, ), **self.constants, **options)


SIZES = (4096, 1, 4096, 1, 4096, 1)
CASES = {
    "vector add": Case("add_kernel", *["fp32"] * 3, 1 << 20, BLOCK_SIZE=1024),
    "softmax": Case("softmax_kernel", "fp32", "fp32", 4096, 4096, 4096, BLOCK_SIZE=4096, warps=8),
    "layer norm": Case("layer_norm_kernel", *["fp16"] * 4, 4096, 4096, 1e-5, BLOCK_SIZE=4096, warps=8),
    "giou": Case("giou_kernel", *["fp32"] * 3, "fp32", BLOCK_SIZE=512),
    "matmul": Case("matmul_full_kernel", *["fp16"] * 3, 4096, 4096, 4096, *SIZES, BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64,
                   GROUP_SIZE_M=8, ACTIVATION="", warps=8),
    "matmul 128x256, leaky ReLU": Case("matmul_full_kernel", *["fp16"] * 3, 4096, 4096, 4096, *SIZES, BLOCK_SIZE_M=128,
                                       BLOCK_SIZE_N=256, BLOCK_SIZE_K=64, GROUP_SIZE_M=8, ACTIVATION="leaky_relu", warps=8, cpu=False),
    "attention": Case("attention_kernel", *["fp16"] * 4, 4096 * 64, 64, 4096, 0.18, HEAD=64, BLOCK_M=128, BLOCK_N=64, CAUSAL=True,
                      warps=8),
    "attention, 4 warps": Case("attention_kernel", *["fp16"] * 4, 4096 * 64, 64, 4096, 0.18, HEAD=64, BLOCK_M=128, BLOCK_N=64,
                               CAUSAL=True, cpu=False),
}


def fresh_caches(folder):
    place = tempfile.mkdtemp(dir=folder)
    for variable in ("TRITON_CACHE_DIR", "NEREID_CACHE_DIR"):
        os.environ[variable] = place


def forget(library):
    for module in (library.seed, library.kernels):
        for value in vars(module).values():
            if hasattr(value, "_clear_cache"):
                value._clear_cache()
            elif hasattr(value, "device_caches"):
                value.device_caches.clear()


def whole(library, case, target, folder):
    """One compilation: (milliseconds, stages)."""
    fresh_caches(folder)
    forget(library)
    stages = {}
    if library.name == "triton":

        def listener(*, times, **_):
            stages["front end"] = times.ir_initialization / 1000
            stages.update((name, took / 1000) for name, took in times.lowering_stages)
            stages["files"] = times.store_results / 1000

        library.package.knobs.compilation.listener = listener
        start = time.perf_counter()
        case.compile(library, None)._init_handles()
    else:
        start = time.perf_counter()
        kernel = case.compile(library, target)
        stages.update(kernel.times)
        if target != "cpu" and not set(ASSEMBLERS) & set(stages):  # there is no GPU
            before = time.perf_counter()
            kernel.asm["cubin"]
            stages["assemble"] = (time.perf_counter() - before) * 1000
    took = (time.perf_counter() - start) * 1000
    stages["the rest"] = took - sum(stages.values())
    return took, stages


def cases_of(target):
    return {name: case for name, case in CASES.items() if case.cpu or target != "cpu"}


def measure(libraries, target, rounds, folder):
    """By case and library: (median, stages' medians); libraries take turns."""
    results = {}
    for name, case in cases_of(target).items():
        runs = {library.name: [] for library in libraries}
        for turn in range(rounds + 1):
            for library in libraries:
                if library.name == "nereid" or turn <= 3:
                    runs[library.name].append(whole(library, case, target, folder))
        results[name] = {
            library: (statistics.median(took for took, _ in of[1:]),
                      {stage: statistics.median(stages.get(stage, 0) for _, stages in of[1:]) for stage in of[-1][1]})
            for library, of in runs.items()}
    return results


def first(library, name, target):
    """The first compilation of a new process."""
    command = [sys.executable, __file__, "--only-first", library, name, "--target", target]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def prepare(target):
    """What a process that uses the target has done before it compiles anything."""
    import torch
    if target == "cuda":
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()


def show(results, target):
    kind = target.partition(":")[0]
    met = True
    for name, by_library in results.items():
        took, stages = by_library["nereid"]
        assembler = sum(stages.get(stage, 0) for stage in ASSEMBLERS)
        bar, own_bar = BARS[kind].get(name), OWN_BARS.get(name) if kind == "cuda" else None
        met &= not bar or took <= bar
        verdict = f", bar {bar} {'met' if took <= bar else 'MISSED'}" if bar else ""
        own = f"; own stages {took - assembler:.1f}" + (f", bar {own_bar} {'met' if took - assembler <= own_bar else 'MISSED'}"
                                                        if own_bar else "") if assembler else ""
        others = "".join(f"; {library} {other[0]:.1f} ({other[0] / took:.1f}x)" for library, other in by_library.items()
                         if library != "nereid")
        print(f"{target} {name}: {took:.1f} ms{verdict}{own}{others}")
        for library, (_, of) in by_library.items():
            print(f"    {library}: " + ", ".join(f"{stage} {ms:.2f}" for stage, ms in of.items()))
    return met


def threads(library, target, counts, folder):
    """Different matrix products compiled by some threads at the same time."""
    cases = [Case("matmul_full_kernel", *["fp16"] * 3, 4096, 4096, 4096, *SIZES, BLOCK_SIZE_M=m, BLOCK_SIZE_N=n, BLOCK_SIZE_K=32,
                  GROUP_SIZE_M=group, ACTIVATION="")
             for m in (64, 128) for n in (64, 128) for group in range(1, 9)]

    def one(case):
        kernel = case.compile(library, target)
        if target != "cpu":
            kernel.asm["cubin"]

    base = None
    for count in counts:
        readings = []
        for _ in range(2):
            forget(library)
            fresh_caches(folder)
            start = time.perf_counter()
            with concurrent.futures.ThreadPoolExecutor(count) as pool:
                list(pool.map(one, cases))
            readings.append(time.perf_counter() - start)
        took = min(readings)
        base = base or took * count
        print(f"{target} {count} threads: {len(cases)} kernels in {took * 1000:.0f} ms, {len(cases) / took:.1f} a second, "
              f"{base / took:.2f} times one thread")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", action="append", help="cpu, cuda or cuda:90; several times for several")
    parser.add_argument("--triton", action="store_true", help="the same kernels under an installed Triton, on the GPU")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--first", action="store_true", help="also the first compilation of new processes")
    parser.add_argument("--threads", help="thread counts: how well compilation scales, and nothing else")
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--only-first", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    import torch
    gpu = torch.cuda.is_available()
    targets = arguments.target or ["cpu", "cuda" if gpu else "cuda:90"]

    from load import libraries
    import nereid
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # entries are still being written
        if arguments.only_first:
            library, name = arguments.only_first
            chosen = [each for each in libraries(library == "triton") if each.name == library][0]
            prepare(targets[0])
            print(json.dumps(whole(chosen, CASES[name], targets[0], folder)))
            nereid.flush_cache()  # before its folder goes
            return 0
        found = libraries(arguments.triton)
        met, everything = True, {}
        for target in targets:
            prepare(target)
            if arguments.threads:
                threads(found[0], target, [int(count) for count in arguments.threads.split(",")], folder)
                continue
            results = measure(found if target == "cuda" else found[:1], target, arguments.rounds, folder)
            met &= show(results, target)
            everything[target] = results
            if arguments.first:
                for name in ("vector add", "matmul"):
                    for library in found if target == "cuda" else found[:1]:
                        took, stages = first(library.name, name, target)
                        print(f"{target} {name}, first in the process, {library.name}: {took:.1f} ms: "
                              + ", ".join(f"{stage} {ms:.1f}" for stage, ms in stages.items()))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(everything, indent=1))
    print(f"Nereid {nereid.__version__}, PyTorch {torch.__version__}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
