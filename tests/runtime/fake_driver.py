"""Programs that run with the stand-in for NVIDIA's driver (tests/unit/runtime/fake_cuda.c): what tests of the host side without a GPU share."""

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

FAKE = pathlib.Path(__file__).resolve().parents[1] / "unit" / "runtime" / "fake_cuda.c"
COMPILER = shutil.which("cc") or shutil.which("clang-22")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="the stand-in for the driver is written in C: needs a C compiler")

PRELUDE = """
    import nereid, nereid.language as tl, torch
    from nereid.runtime import driver

    @nereid.jit
    def kernel(x, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i) * n)

    def text(call):
        try:
            return repr(call())
        except Exception as error:
            return f"{type(error).__name__}: {error}".replace(chr(10), " | ")
"""


def run(code, tmp_path, arguments=(), **environment):
    """What a program prints in a process of its own."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(PRELUDE) + textwrap.dedent(code))
    environment = {**{k: v for k, v in os.environ.items() if k != "NEREID_TARGET"}, **environment}
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    """The stand-in for the driver that the unit tests use, as a library."""
    library = tmp_path_factory.mktemp("fake") / "libcuda.so.1"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", str(library), str(FAKE)], check=True)
    return str(library)


LAUNCHES = """
    import ctypes, os
    fake = ctypes.CDLL(os.environ["NEREID_LIBCUDA"])
    fake.fake_record.restype = ctypes.c_char_p

    class Array:
        def __init__(self, device, address=0x10000, dtype="float32"):
            self.device, self.address, self.dtype = device, address, dtype

        def data_ptr(self):
            return self.address

    class Foreign:
        __cuda_array_interface__ = {"data": (0x20000, False), "typestr": "<f4", "shape": (8,), "version": 3}

    class Odd:
        def __init__(self, data):
            self.data = data

        @property
        def __cuda_array_interface__(self):
            return {"data": self.data, "typestr": "<f4", "shape": (8,), "version": 3}

    def record(call, params=4):
        fake.fake_reset()
        fake.fake_params(params)
        result = text(call)
        return result if "Error" in result else [line for line in fake.fake_record().decode().splitlines() if "launch" in line][-1]

    def launch(*args, **options):
        return lambda: kernel[(4, 2)](*args, BLOCK=8, **options) and None
"""
