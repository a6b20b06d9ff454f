"""Lets a machine without a GPU see the code that the tests' kernels become on one.

Every kernel that a test launches is also compiled for NVIDIA GPUs, and its PTX goes to a folder under a name made of its text, so that
each text is there once; then the launch runs on the CPU, and the test goes on. scripts/check_ptx.py assembles what was collected.
"""

import hashlib
import os
import pathlib


def folder():
    """Where the PTX goes: NEREID_TEST_PTX_DIR."""
    path = pathlib.Path(os.environ.get("NEREID_TEST_PTX_DIR", "build/ptx"))
    path.mkdir(parents=True, exist_ok=True)
    return path


def architectures():
    """For which architectures: NEREID_TEST_PTX_ARCHS."""
    return os.environ.get("NEREID_TEST_PTX_ARCHS", "90").split(",")


def _without_entry(ptx):
    """The text that decides whether two are the same: not where the kernel stands."""
    return "\n".join(line for line in ptx.splitlines() if not line.lstrip().startswith((".loc", ".file", "//")))


def install(monkeypatch):
    """Launches of this test leave their PTX behind."""
    from nereid.runtime.jit import JITFunction
    run = JITFunction.run

    def collecting_run(self, *args, grid, warmup, **kwargs):
        for arch in () if kwargs.get("checked") else architectures():
            compiled = run(self, *args, grid=grid, warmup=True, **{**kwargs, "target": f"cuda:{arch}"})
            ptx = compiled.asm["ptx"]
            name = hashlib.sha1(_without_entry(ptx).encode()).hexdigest()[:20]
            path = folder() / f"sm{arch}-{name}.ptx"
            if not path.exists():
                path.write_text(ptx)
        return run(self, *args, grid=grid, warmup=warmup, **kwargs)

    monkeypatch.setattr(JITFunction, "run", collecting_run)
