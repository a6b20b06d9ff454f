"""Several machine codes of one kernel, timed in turns: both compilers' code, code of other builds, edited PTX.

    python benchmarks/gpu/variants.py collect FOLDER --families matmul --only "nn 2048.*64x64x64" --edit no-fence:s/fence.proxy.async.shared::cta;//
    python benchmarks/gpu/variants.py collect FOLDER --only ... --libraries nereid --label changed       with another build: one more variant
    python benchmarks/gpu/variants.py time FOLDER --seconds 90

`collect` needs no GPU: it compiles configurations of sweep.py for sm_90 and writes cubins and cases.json into FOLDER. An edit is
NAME:s/PATTERN/REPLACEMENT/, a regular expression for the PTX of Nereid (`/` does not occur in it); NAME:ptxas assembles the PTX as it is
with ptxas, NAME:blocks=N for N blocks a multiprocessor. Edited PTX is assembled by nvJitLink. `time` needs neither compiler: it loads the
cubins, compares every result with float64, and prints the median microseconds of each variant and its ratio to Triton's code, launches in
turns with a cold L2 cache.
"""

import argparse
import ctypes
import json
import os
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))


# ---- collecting --------------------------------------------------------------------------------------------


def link(ptx, blocks=0):
    """The cubin that nvJitLink makes of PTX, optimised for `blocks` blocks a multiprocessor. Raises RuntimeError with its log."""
    import nvidia
    library = next(file for folder in nvidia.__path__ for file in pathlib.Path(folder).rglob("libnvJitLink.so.*"))
    lib = ctypes.CDLL(str(library))
    options = [b"-arch=sm_90a", b"-O3"] + ([f"-Xptxas=-minnctapersm={blocks}".encode()] if blocks else [])
    handle = ctypes.c_void_p()
    lib.nvJitLinkCreate(ctypes.byref(handle), len(options), (ctypes.c_char_p * len(options))(*options))
    text = ptx.encode() + b"\0"
    failed = lib.nvJitLinkAddData(handle, 2, text, ctypes.c_size_t(len(text)), b"kernel") or lib.nvJitLinkComplete(handle)
    size = ctypes.c_size_t()
    if failed:
        lib.nvJitLinkGetErrorLogSize(handle, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        lib.nvJitLinkGetErrorLog(handle, log)
        raise RuntimeError(log.value.decode())
    lib.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    lib.nvJitLinkGetLinkedCubin(handle, cubin)
    lib.nvJitLinkDestroy(ctypes.byref(handle))
    return cubin.raw


def assembled_by_ptxas(ptx):
    from assemble_ptx import find_ptxas
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder) / "k.ptx", pathlib.Path(folder) / "k.cubin"
        source.write_text(ptx)
        subprocess.run([find_ptxas(), "-arch=sm_90a", source, "-o", target], check=True)
        return target.read_bytes()


def edited(ptx, edit):
    if edit == "ptxas":
        return assembled_by_ptxas(ptx)
    if edit.startswith("blocks="):
        return link(ptx, int(edit.removeprefix("blocks=")))
    _, pattern, replacement, _ = edit.split("/")
    changed = re.sub(pattern, replacement, ptx)
    if changed == ptx:
        raise ValueError(f"{pattern} does not occur in the PTX")
    return link(changed)


def parameters(ptx):
    """The types of the entry's parameters: ["u64", "u32", ..]."""
    return re.findall(r"\.param \.(\w+)", ptx.split(".entry", 1)[1].split("{", 1)[0])


def collect(arguments):
    from compile_pool import _NoDriver, facts_of
    from load import libraries
    from problems import problems
    import triton
    triton.runtime.driver.set_active(_NoDriver(90))
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "cases.json"
    cases = json.loads(file.read_text()) if file.exists() else {}
    changes = {"triton": {}, "nereid": {name: int(value) for name, value in (item.split("=") for item in arguments.set)}}
    edits = [edit.split(":", 1) for edit in arguments.edit]
    for problem in problems(arguments.families.split(","), 4096):
        for config, key in zip(problem.configs, problem.keys()):
            if not re.search(arguments.only, key):
                continue
            case = cases.setdefault(key, {"grid": config.grid, "threads": 32 * config.options["num_warps"], "variants": {}})

            def add(label, cubin, facts, ptx, case=case, key=key):
                name = re.sub(r"[^\w.^-]+", "_", f"{key}.{label}.cubin")
                (folder / name).write_bytes(cubin)
                entry = re.search(r"\.entry (\w+)", ptx)[1]
                case["variants"][label] = {"file": name, "entry": entry, "parameters": parameters(ptx), **facts}

            for library in libraries():
                if library.name not in arguments.libraries.split(","):
                    continue
                where = {"target": "cuda:90"} if library.name == "nereid" else {}
                kernel = library.kernel(problem.kernel).warmup(*problem.arguments(problem.dtypes), grid=config.grid, **config.constants,
                                                               **config.options | changes[library.name], **where)
                facts, ptx = facts_of(kernel), kernel.asm["ptx"]
                add(arguments.label if library.name == "nereid" else library.name, kernel.asm["cubin"], facts, ptx)
                if library.name == "nereid":
                    for label, edit in edits:
                        try:
                            add(label, edited(ptx, edit), {"shared": facts["shared"]}, ptx)
                        except (RuntimeError, ValueError) as error:
                            print(f"{key}: no {label}: {error}"[:200], flush=True)
            print(key, {label: found.get("registers") for label, found in case["variants"].items()}, flush=True)
    file.write_text(json.dumps(cases, indent=1))


# ---- timing ------------------------------------------------------------------------------------------------


class Driver:
    """As much of CUDA's driver as a launch needs, in the context that torch has made."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")

    def check(self, result, what):
        if result:
            name = ctypes.c_char_p()
            self.cuda.cuGetErrorName(result, ctypes.byref(name))
            raise RuntimeError(f"{what}: {name.value}")

    def launcher(self, folder, variant, case, arguments):
        """A function that launches the variant with these arguments on the current stream."""
        import torch
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        image = (folder / variant["file"]).read_bytes()
        self.check(self.cuda.cuModuleLoadData(ctypes.byref(module), image), "cuModuleLoadData")
        self.check(self.cuda.cuModuleGetFunction(ctypes.byref(function), module, variant["entry"].encode()), "cuModuleGetFunction")
        if variant["shared"] > 48 * 1024:
            self.check(self.cuda.cuFuncSetAttribute(function, 8, variant["shared"]), "cuFuncSetAttribute")
        # Numbers that are 1 are constants of the code; two pointers to scratch memory come last.
        values = [value for value in arguments if isinstance(value, torch.Tensor) or value != 1]
        values += [0] * (len(variant["parameters"]) - len(values))
        packed = []
        for kind, value in zip(variant["parameters"], values):
            if isinstance(value, torch.Tensor):
                value = value.data_ptr()
            packed.append(struct.pack({"u64": "Q", "u32": "i", "f32": "f", "b64": "Q", "b32": "i"}[kind], value))
        buffers = [ctypes.create_string_buffer(data, len(data)) for data in packed]
        pointers = (ctypes.c_void_p * len(buffers))(*[ctypes.addressof(buffer) for buffer in buffers])
        grid = [*case["grid"], 1, 1][:3]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        launch = self.cuda.cuLaunchKernel

        def call(_alive=(module, buffers)):
            result = launch(function, *grid, case["threads"], 1, 1, variant["shared"], stream, pointers, None)
            if result:
                self.check(result, "cuLaunchKernel")

        return call


def time_variants(arguments):
    import torch
    from measure import Bench, poison, relative_error
    from problems import FAMILIES, problems
    end = time.time() + arguments.seconds
    cases = json.loads((arguments.folder / "cases.json").read_text())
    cases = {key: case for key, case in cases.items() if re.search(arguments.only, key)}
    known = [(problem, problem.keys()) for problem in problems(FAMILIES, 4096)]
    torch.manual_seed(0)
    bench, driver = Bench(), Driver()
    print(torch.cuda.get_device_name(), flush=True)
    kept = None
    for number, (key, case) in enumerate(cases.items()):
        problem = next(problem for problem, keys in known if key in keys)
        if kept is None or kept[0] is not problem:
            kept = None
            tensors = problem.tensors()
            kept = problem, tensors, problem.want(tensors)
        _, tensors, want = kept
        calls, lines = {}, []
        for label, variant in case["variants"].items():
            if variant["shared"] > 227 * 1024:
                continue
            call = driver.launcher(arguments.folder, variant, case, problem.arguments(tensors))
            poison(tensors[problem.output])
            call()
            torch.cuda.synchronize()
            error = max(relative_error(o, w) for o, w in zip(problem.judged(tensors[problem.output]), want))
            calls[label] = call
            lines.append("" if error <= problem.bound else f" WRONG {error:.1e}")
        share = max(0.2, (end - time.time()) / (len(cases) - number) * 0.8)
        one = sum(min(r) for r in bench.once(list(calls.values()), 3)) / 1000 + 0.00015 * len(calls)
        readings = bench.once(list(calls.values()), max(9, min(arguments.rounds, int(share / one))))
        base = readings[list(calls).index("triton")] if "triton" in calls else readings[0]
        cells = [f"{label}{note} {1000 * statistics.median(mine):.2f} ({statistics.median(a / b for a, b in zip(mine, base)):.3f}; "
                 f"{variant.get('registers', '-')})" for label, note, mine, variant in zip(calls, lines, readings, map(case["variants"].get, calls))]
        print(f"{key} [{len(base)}]: " + " | ".join(cells), flush=True)
        if time.time() > end:
            print("out of time")
            break


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("collect", "time"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--families", default="softmax,layer_norm,matmul,attention", help="of sweep.py, and one_block")
    parser.add_argument("--only", default="", help="a regular expression: cases that contain it")
    parser.add_argument("--libraries", default="nereid,triton")
    parser.add_argument("--label", default="nereid", help="the name of this build's variant")
    parser.add_argument("--edit", action="append", default=[], help="NAME:s/PATTERN/REPLACEMENT/, NAME:ptxas or NAME:blocks=N")
    parser.add_argument("--set", action="append", default=[], help="NAME=NUMBER: another option for Nereid, as num_stages=3")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--rounds", type=int, default=400, help="readings of a case at most")
    arguments = parser.parse_args()
    os.environ.setdefault("NEREID_CACHE", "0")
    return collect(arguments) if arguments.action == "collect" else time_variants(arguments)


if __name__ == "__main__":
    sys.exit(main())
