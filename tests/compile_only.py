"""Launches that only compile: `--ptx FOLDER` compiles every launch of a test for a GPU, which need not be there, and leaves the
de-duplicated PTX in the folder for `scripts/assemble_ptx.py`. A test then fails only when a kernel does not compile.

`--ptx-target cpu` compiles for the CPU and leaves object files. `codes-PID.jsonl` in the folder records the code of each launch,
one JSON object a line: `test` (its node id), `launch` (its number in the test), `code` (the SHA-1 of the PTX or object file);
`scripts/compare_code.py` compares two such folders."""

import hashlib
import json
import os
import pathlib

launches = 0    #: how many were compiled instead of run
refusal = None  #: the error of the last one that did not compile
test = ""       #: the node id of the test that runs


def install(folder, target):
    """From here on launches are compiled for `target` ("cuda:90" or "cpu") and not run."""
    from nereid.runtime.jit import JITFunction
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Lines of the source would make every text different.
    os.environ["NEREID_LINE_INFO"] = "0"
    run = JITFunction.run
    stage, suffix = ("obj", ".o") if target.startswith("cpu") else ("ptx", ".ptx")
    of_test = {}  # how many launches each test has made

    def compile_launch(self, *arguments, grid, warmup, **options):
        global launches, refusal
        if warmup:
            return run(self, *arguments, grid=grid, warmup=True, **options)
        launches += 1
        try:
            kernel = run(self, *arguments, grid=grid, warmup=True, **{**options, "target": target})
            code = kernel.asm[stage]
        except Exception as error:
            refusal = error
            raise
        code = code.encode() if isinstance(code, str) else code
        digest = hashlib.sha1(code).hexdigest()
        path = folder / (digest + suffix)
        if not path.exists():
            path.with_suffix(f".{os.getpid()}").write_bytes(code)
            path.with_suffix(f".{os.getpid()}").rename(path)
        of_test[test] = of_test.get(test, 0) + 1
        with open(folder / f"codes-{os.getpid()}.jsonl", "a") as record:
            print(json.dumps({"test": test, "launch": of_test[test], "code": digest}), file=record)
        return kernel

    JITFunction.run = compile_launch
