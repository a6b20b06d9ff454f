#!/usr/bin/env python3
"""Shared memory of a program, Nereid's against Triton's, of the same kernels in the same configurations. Needs Triton, no GPU.

    python benchmarks/shared_memory.py [--every N] [--page FILE] [--rows FILE] [--packages NAME,...] [TESTS ...]

Runs the tests (by default tests/kernels and the seed kernels of tests/runtime/test_seed_kernels.py) as `--ptx` does: launches are compiled
for an H100 and not run. Each kernel that was compiled is given to the installed Triton as well, with the names of Nereid in its function
replaced by Triton's, and compiled as far as LLVM IR, where Triton knows what it needs. A row is a kernel with its constants, warps and
stages; the page lists the rows where Nereid needs more, with the reason, and sums up the others. `--packages` adds the kernels that the cases
of published packages run (tests/packages/run.py, which fetches them). Exit code 1 when a row has no reason.
"""

import argparse
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 232448  #: bytes of shared memory that a block of an H100 can have

#: bytes of an element by its name in either IR
BYTES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}
#: bytes that are not worth a reason of their own, and the most that small buffers take together (src/gpu/AllocateShared.cpp)
SMALL, SMALL_TOTAL = 1024, 4096
#: what a difference may consist of; the order is that in which reasons are tried and told
SLOT = "a slot more in the ring of a loop, which saves a barrier in every turn"
FURTHER = "rings of more slots: tiles are copied more turns ahead"
AHEAD = "the loop fetches ahead, Triton's waits for memory in every turn"
ONCE = "values that each warp computes a part of pass through shared memory, while Triton's warps compute all that they need, some of it several times"
WHOLE = "a conversion between layouts moves all values at once, Triton's in steps with barriers between them"
LITTLE = "mbarriers and scratch of reductions, 4 KiB at most, keep bytes of their own, so that a barrier less is needed"
REASONS = (SLOT, FURTHER, AHEAD, WHOLE, ONCE, LITTLE)


class Translator:
    """Functions of Nereid as functions of Triton."""

    def __init__(self):
        import nereid
        import triton
        self.ours, self.theirs, self.known = nereid, triton, {}

    def value(self, value):
        tl = self.theirs.language
        if isinstance(value, types.ModuleType):
            first, _, rest = value.__name__.partition(".")
            # A package's `triton` is Nereid under the alias.
            return importlib.import_module(f"triton.{rest}" if rest else "triton") if first in ("nereid", "triton") else value
        if isinstance(value, self.ours.JITFunction):
            return self.function(value)
        if isinstance(value, self.ours.language.dtype):
            return tl.dtype(value.name)
        if isinstance(value, self.ours.language.constexpr):
            return tl.constexpr(self.value(value.value))
        if type(value) in (tuple, list):
            return type(value)(map(self.value, value))
        module = getattr(value, "__module__", None)
        if isinstance(module, str) and self.is_ours(module) and hasattr(value, "__name__"):
            for place in (tl, self.theirs, tl.math, tl.extra.cuda.libdevice):
                if hasattr(place, value.__name__):
                    return getattr(place, value.__name__)
        return value

    @staticmethod
    def is_ours(module):
        return module == "nereid" or module.startswith("nereid.")

    def function(self, ours):
        if id(ours) in self.known:
            return self.known[id(ours)]
        function = ours.fn
        names, codes = set(), [function.__code__]
        while codes:
            code = codes.pop()
            names.update(code.co_names)
            codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        scope = {"__builtins__": __builtins__, "__name__": function.__module__}
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        made = types.FunctionType(function.__code__, scope, function.__name__, None, cells or None)
        made.__qualname__, made.__module__ = function.__qualname__, function.__module__
        made.__annotations__ = {name: self.value(kind) for name, kind in function.__annotations__.items()}
        if function.__defaults__:
            made.__defaults__ = tuple(map(self.value, function.__defaults__))
        made = self.theirs.JITFunction(made, noinline=ours.noinline)
        self.known[id(ours)] = made
        for name in names & function.__globals__.keys():
            scope[name] = self.value(function.__globals__[name])
        for cell, original in zip(cells, function.__closure__ or ()):
            cell.cell_contents = self.value(original.cell_contents)
        return made


def bytes_of(shape, element):
    size = 1 if element.startswith("f8") else BYTES.get(element, 8)
    for extent in shape:
        size *= extent
    return size


def our_buffers(text):
    """Of our GPU IR: rings as {place: (slots, shape of a slot, element)}, other buffers as {place: (shape, element)}, the largest of each place:
    several loops may use it."""
    rings, others = {}, {}
    for source, sizes, element, place in re.findall(r"ngpu\.local_alloc (%\S+ : tensor<[^>]*> -> )?<((?:\d+x)+)([\w!.]+)[^>]*> \{offset = (\d+)", text):
        shape = tuple(map(int, sizes.strip("x").split("x")))
        if source:
            others[int(place)] = max(others.get(int(place), ((0, ), "i8")), (shape, element), key=lambda buffer: bytes_of(*buffer))
        elif element in BYTES or element.startswith("f8"):
            rings[int(place)] = max(rings.get(int(place), (0, (), "")), (shape[0], shape[1:], element))
    return rings, others


def their_slots(text):
    """Of Triton's GPU IR: how many slots the buffers of a shape have that copies fill, {(sorted shape, element): [slots]}, the most first."""
    slots = {}
    for sizes, element in re.findall(r"ttg\.local_alloc : \(\) -> !ttg\.memdesc<((?:\d+x)+)(\w+)", text):
        shape = tuple(map(int, sizes.strip("x").split("x")))
        slots.setdefault((tuple(sorted(shape[1:])), element), []).append(shape[0])
    return {key: sorted(counts, reverse=True) for key, counts in slots.items()}


def reason_of(mine, wanted, ours, theirs):
    """Why our kernel takes `mine` bytes where Triton's takes `wanted`, by the buffers in the GPU IR of both; "" when these do not explain it."""
    rings, others = our_buffers(ours)
    ends = [place + count * bytes_of(shape, element) for place, (count, shape, element) in rings.items()]
    covered = list(zip(rings, ends))
    ends += [place + bytes_of(*buffer) for place, buffer in others.items() if bytes_of(*buffer) > 512]
    small = mine - max(ends, default=0)  # above all others, since they live as long as the kernel
    small = small if small <= SMALL_TOTAL else 0
    left = mine - wanted - max(small, SMALL)
    if left <= 0:
        return LITTLE
    found, slots = {LITTLE} if small > SMALL else set(), their_slots(theirs)
    converted = {(tuple(sorted(map(int, sizes.strip("x").split("x")))), bytes_of((), element))
                 for sizes, element in re.findall(r"ttg\.convert_layout [^\n]*: tensor<((?:\d+x)+)(\w+)", theirs)}
    top = max((end for _, end in covered), default=0)

    def explain(buffer, size):
        shape, element = buffer
        found.add(WHOLE if (tuple(sorted(shape)), bytes_of((), element)) in converted else ONCE)
        return left - size

    # A buffer behind or before the loop that reaches over the rings, whose bytes it has again.
    over = [(place + bytes_of(*buffer) - top, buffer) for place, buffer in others.items() if any(begin <= place < end for begin, end in covered)]
    if over and max(over)[0] > 0:
        left = explain(max(over)[1], max(over)[0])
    for count, shape, element in rings.values() if left > 0 else ():
        counts = slots.get((tuple(sorted(shape)), element))
        known = counts.pop(0) if counts else 0
        more = (count - known) * bytes_of(shape, element)  # what Triton's does not fetch ahead has no bytes of its own
        if more > 0:
            found.add(AHEAD if known == 0 else SLOT if count == known + 1 else FURTHER)
            left -= more
    for place, buffer in others.items():
        if left > 0 and not any(begin <= place < end for begin, end in covered):
            left = explain(buffer, bytes_of(*buffer))
    return "; ".join(each for each in REASONS if each in found) if left <= 0 else ""


class Comparison:
    """A plugin of pytest: compares every kernel that a test compiles."""

    def __init__(self, dump=None):
        self.rows, self.refused, self.translator, self.dump = {}, {}, None, dump

    def pytest_collection_finish(self):
        # Behind compile_only, which has replaced `run` by now.
        from nereid.runtime.jit import JITFunction
        self.begin()
        compile_launch = JITFunction.run

        def run(function, *arguments, grid, warmup, **options):
            kernel = compile_launch(function, *arguments, grid=grid, warmup=warmup, **options)
            if kernel is not None:
                self.compare(function, arguments, options, kernel)
            return kernel

        JITFunction.run = run

    def begin(self):
        """From here on `triton` is the real one."""
        self.stop_at_llvm_ir()
        self.translator = Translator()

    @staticmethod
    def stop_at_llvm_ir():
        from triton.backends.nvidia.compiler import CUDABackend
        whole, begin = CUDABackend.add_stages, CUDABackend.__init__

        def init(self, target):
            begin(self, target)
            self.binary_ext = "llir"

        def add_stages(self, stages, options, language):
            whole(self, stages, options, language)
            lower = stages["llir"]

            def llir(module, metadata):
                metadata["name"] = "kernel"
                return lower(module, metadata)

            stages["llir"] = llir
            del stages["ptx"], stages["cubin"]

        CUDABackend.__init__, CUDABackend.add_stages = init, add_stages

    def compare(self, function, arguments, options, kernel):
        from nereid import _hooks
        try:
            _, _, described = _hooks._compilation(function, arguments, {**options, "target": "cuda:90"}, True)
        except Exception as error:
            self.refused[function.__name__] = f"not described: {type(error).__name__}: {error}"[:150]
            return
        self.add(function, described, kernel)

    def add(self, function, described, kernel):
        """The row of a kernel that Nereid has compiled from `function`: the signature, constants, attributes, warps and stages are `described`."""
        signature = {name: kind if isinstance(kind, (str, tuple)) else str(kind) for name, kind in described["signature"].items()}
        names = list(signature)
        constants = ", ".join(f"{names[path[0]]}={value}" for path, value in sorted(described["constants"].items(), key=str)
                              if value is not None and len(path) == 1 and signature[names[path[0]]] == "constexpr" and isinstance(value, (int, str)))
        types_ = "-".join(sorted({str(kind).lstrip("*") for kind in signature.values() if str(kind).startswith(("*", "tensordesc"))}))
        title = f"{function.__name__}({constants}; {types_}; num_warps={described['num_warps']}, num_stages={described['num_stages']})"
        key = title + str(sorted(described["configs"][0].items()))
        if key in self.rows:
            return
        ours, theirs, reason = kernel.metadata.shared, self.theirs(function, described, signature), ""
        if isinstance(theirs, tuple):
            theirs, text = theirs
            if ours > theirs:
                reason = reason_of(ours, theirs, kernel.asm["gpu"], text)
            if ours > theirs and not reason and self.dump:
                name = f"{function.__name__}-{len(self.rows)}"
                (self.dump / f"{name}.nereid.mlir").write_text(kernel.asm["gpu"])
                (self.dump / f"{name}.triton.mlir").write_text(text)
        self.rows[key] = (title, ours, theirs, reason)

    def theirs(self, function, described, signature):
        """Bytes and the text of its GPU IR, or why Triton does not compile it."""
        import triton
        from triton.backends.compiler import GPUTarget
        try:
            constants = {path: self.translator.value(value) for path, value in described["constants"].items()}
            source = triton.compiler.ASTSource(self.translator.function(function), signature, constants, described["configs"][0])
            wanted = {"num_warps": described["num_warps"], "num_stages": described["num_stages"]}
            made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=wanted)
            return made.metadata.shared, made.asm["ttgir"]
        except BaseException as error:
            return f"{type(error).__name__}: {error}".strip().splitlines()[-1][:120]


def page(rows, tests, every):
    """The page as text, and how many rows lack a reason."""
    both = [row for row in rows if isinstance(row[2], int)]
    more = sorted((row for row in both if row[1] > row[2]), key=lambda row: row[2] - row[1])
    beyond = [row for row in both if row[2] > LIMIT]
    lines = [
        "# Shared memory, Nereid's and Triton's", "",
        "Made by `benchmarks/shared_memory.py`, which compiles the kernels of " + ", ".join(f"`{test}`" for test in tests) +
        " with both compilers for an H100, each in the same configuration" + (f" (every {every}th test)" if every > 1 else "") +
        ". Figures are bytes of a program.", "",
        "| | kernels |", "|---|---|",
        f"| compiled by both | {len(both)} |",
        f"| of these: Nereid needs less | {sum(row[1] < row[2] for row in both)} |",
        f"| the same | {sum(row[1] == row[2] for row in both)} |",
        f"| Nereid needs more, all listed below | {len(more)} |",
        f"| Triton's does not fit the {LIMIT} bytes of a block, Nereid's does | {len(beyond)} |",
        f"| not compiled by Triton | {len(rows) - len(both)} |",
        f"| sum over all, Nereid / Triton | {sum(row[1] for row in both)} / {sum(row[2] for row in both)} |", "",
        "Reasons, found in the GPU IR of both compilers; a row may have several:", "", "| | reason | rows |", "|---|---|---|"]
    letters = {reason: chr(ord("A") + number) for number, reason in enumerate(REASONS)}
    lines += [f"| {letter} | {reason} | {sum(reason in row[3].split('; ') for row in more)} |" for reason, letter in letters.items()]
    lines += ["", "Rows where Nereid needs more:", "", "| kernel | Nereid | Triton | why |", "|---|---|---|---|"]
    for title, ours, theirs, reason in more:
        why = ", ".join(letters[each] for each in reason.split("; ")) if reason else "not known yet"
        lines.append(f"| `{title.replace('|', '/')}` | {ours} | {theirs} | {why} |")
    missing = sum(not row[3] for row in more)
    return "\n".join(lines) + "\n", missing


def rows_of_package(name, report):
    """The rows of a package's kernels, compiled in a process of its own."""
    subprocess.run([sys.executable, "tests/packages/run.py", name, "--no-imports", "--shared", "--report", str(report)], check=False)
    (found, ) = json.loads(report.read_text())
    if "shared" not in found:
        raise SystemExit(f"{name}: {found.get('crash', 'no kernels were compared')}")
    return {tuple(row) for row in found["shared"]["rows"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", nargs="*", default=["tests/kernels", "tests/runtime/test_seed_kernels.py"])
    parser.add_argument("--every", type=int, default=1, help="take every Nth test only")
    parser.add_argument("--page", type=pathlib.Path, help="write the page here")
    parser.add_argument("--packages", default="", help="names of tests/packages/run.py, separated by commas")
    parser.add_argument("--dump", type=pathlib.Path, help="write the GPU IR of both compilers here, of rows without a reason")
    parser.add_argument("--rows", type=pathlib.Path, help="write all rows here, as JSON")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ.update(NEREID_CACHE="0", NEREID_ADVICE="0", NEREID_ASSEMBLER_OPT="0")
    import pytest
    if options.dump:
        options.dump.mkdir(parents=True, exist_ok=True)
    comparison = Comparison(options.dump)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        pytest.main(["-q", "-p", "no:cacheprovider", *options.tests, "--ptx", folder + "/ptx", "--every", str(options.every)], plugins=[comparison])
        rows = set(comparison.rows.values())
        packages = [name for name in options.packages.split(",") if name]
        for name in packages:
            rows |= rows_of_package(name, pathlib.Path(folder, "report.json"))
    rows = sorted(rows, key=str)
    text, missing = page(rows, options.tests + packages, options.every)
    if options.page:
        options.page.write_text(text)
    else:
        print(text)
    if options.rows:
        options.rows.write_text(json.dumps({"rows": rows, "refused": comparison.refused}, indent=1))
    print(f"{len(rows)} kernels compared, {missing} rows without a reason")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
