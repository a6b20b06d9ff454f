#!/usr/bin/env python3
"""Shared memory of a program, Nereid's against Triton's, of the same kernels in the same configurations. Needs Triton, no GPU.

    python benchmarks/shared_memory.py [--every N] [--page FILE] [--rows FILE] [TESTS ...]

Runs the tests (by default tests/kernels and the seed kernels of tests/runtime/test_seed_kernels.py) as `--ptx` does: launches are compiled
for an H100 and not run. Each kernel that was compiled is given to the installed Triton as well, with the names of Nereid in its function
replaced by Triton's, and compiled as far as LLVM IR, where Triton knows what it needs. A row is a kernel with its constants, warps and
stages; the page lists the rows where Nereid needs more, with the reason, and sums up the others. Exit code 1 when a row has no reason.
"""

import argparse
import importlib
import json
import os
import pathlib
import re
import sys
import tempfile
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 232448  #: bytes of shared memory that a block of an H100 can have

#: kernel -> why it needs more than Triton's; the first whose pattern is found in "name(configuration)" holds
REASONS = [
]


class Translator:
    """Functions of Nereid as functions of Triton."""

    def __init__(self):
        import nereid
        import triton
        self.ours, self.theirs, self.known = nereid, triton, {}

    def value(self, value):
        tl = self.theirs.language
        if isinstance(value, types.ModuleType):
            return importlib.import_module("triton" + value.__name__.removeprefix("nereid")) if self.is_ours(value.__name__) else value
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


class Comparison:
    """A plugin of pytest: compares every kernel that a test compiles."""

    def __init__(self):
        self.rows, self.refused, self.translator = {}, {}, None

    def pytest_collection_finish(self):
        # Behind compile_only, which has replaced `run` by now.
        from nereid.runtime.jit import JITFunction
        self.stop_at_llvm_ir()
        self.translator = Translator()
        compile_launch = JITFunction.run

        def run(function, *arguments, grid, warmup, **options):
            kernel = compile_launch(function, *arguments, grid=grid, warmup=warmup, **options)
            if kernel is not None:
                self.compare(function, arguments, options, kernel)
            return kernel

        JITFunction.run = run

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
            theirs, copies = theirs
            if ours > theirs:
                reason = self.reason(ours, theirs, copies, described["num_stages"], kernel.asm["ttgir"])
        self.rows[key] = (title, ours, theirs, reason)

    @staticmethod
    def reason(ours, theirs, copies, stages, text):
        """Why Nereid's takes more, where the rings of loops say it: `text` is its GPU IR."""
        if "ngpu.slot" not in text:
            return ""
        if not copies:
            return "the loop fetches ahead, Triton's waits for memory in every turn"
        # A ring of n slots needs one barrier a turn; with n - 1, as Triton has before mma.sync, it needs two.
        if stages > 1 and ours * (stages - 1) // stages <= theirs + 1024:
            return "a slot more in the ring of a loop, which saves a barrier in every turn"
        return ""

    def theirs(self, function, described, signature):
        """Bytes and whether loads are copied asynchronously, or why Triton does not compile it."""
        import triton
        from triton.backends.compiler import GPUTarget
        try:
            constants = {path: self.translator.value(value) for path, value in described["constants"].items()}
            source = triton.compiler.ASTSource(self.translator.function(function), signature, constants, described["configs"][0])
            wanted = {"num_warps": described["num_warps"], "num_stages": described["num_stages"]}
            made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=wanted)
            return made.metadata.shared, bool(re.search(r"async_copy_global|async_tma_copy_global", made.asm["ttgir"]))
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
        "Rows where Nereid needs more:", "", "| kernel | Nereid | Triton | why |", "|---|---|---|---|"]
    missing = 0
    for title, ours, theirs, reason in more:
        reason = next((why for pattern, why in REASONS if re.search(pattern, title)), reason or None)
        if reason is None and ours - theirs <= 1024:
            reason = "less than 1 KiB: mbarriers and scratch of reductions, which keep bytes of their own so that a barrier less is needed"
        missing += reason is None
        lines.append(f"| `{title.replace('|', '/')}` | {ours} | {theirs} | {reason or 'not known yet'} |")
    return "\n".join(lines) + "\n", missing


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", nargs="*", default=["tests/kernels", "tests/runtime/test_seed_kernels.py"])
    parser.add_argument("--every", type=int, default=1, help="take every Nth test only")
    parser.add_argument("--page", type=pathlib.Path, help="write the page here")
    parser.add_argument("--rows", type=pathlib.Path, help="write all rows here, as JSON")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ.update(NEREID_CACHE="0", NEREID_ADVICE="0", NEREID_ASSEMBLER_OPT="0")
    import pytest
    comparison = Comparison()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        pytest.main(["-q", "-p", "no:cacheprovider", *options.tests, "--ptx", folder + "/ptx", "--every", str(options.every)], plugins=[comparison])
    rows = sorted(set(comparison.rows.values()), key=str)
    text, missing = page(rows, options.tests, options.every)
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
