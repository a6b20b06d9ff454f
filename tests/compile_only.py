"""Launches that only compile: `--ptx FOLDER` compiles every launch of a test for a GPU, which need not be there, and leaves the
de-duplicated PTX in the folder for `scripts/assemble_ptx.py`. A test then fails only when a kernel does not compile."""

import hashlib
import os
import pathlib

launches = 0    #: how many were compiled instead of run
refusal = None  #: the error of the last one that did not compile


def install(folder, target):
    """From here on launches are compiled for `target` ("cuda:90") and not run."""
    from nereid.runtime.jit import JITFunction
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Lines of the source would make every text different.
    os.environ["NEREID_LINE_INFO"] = "0"
    run = JITFunction.run

    def compile_launch(self, *arguments, grid, warmup, **options):
        global launches, refusal
        if warmup:
            return run(self, *arguments, grid=grid, warmup=True, **options)
        launches += 1
        try:
            kernel = run(self, *arguments, grid=grid, warmup=True, **{**options, "target": target})
            text = kernel.asm["ptx"]
        except Exception as error:
            refusal = error
            raise
        path = folder / (hashlib.sha1(text.encode()).hexdigest() + ".ptx")
        if not path.exists():
            path.with_suffix(f".{os.getpid()}").write_text(text)
            path.with_suffix(f".{os.getpid()}").rename(path)
        return kernel

    JITFunction.run = compile_launch
