"""The tile registers of AMX, on processors that have them: Linux gives them to a process, or refuses them to one with a small alternate signal stack."""

import os
import pathlib
import subprocess
import sys

import pytest

CPUINFO = pathlib.Path("/proc/cpuinfo")
HAS_TILES = CPUINFO.exists() and {"amx_tile", "amx_bf16", "amx_int8"} <= set(CPUINFO.read_text().split())
pytestmark = pytest.mark.skipif(not HAS_TILES, reason="needs a processor with AMX")

PROGRAM = """
import ctypes
import sys

import numpy as np


class Stack(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]


if "small" in sys.argv:
    memory = ctypes.create_string_buffer(4096)
    stack = Stack(ctypes.cast(memory, ctypes.c_void_p), 0, 4096)
    assert ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0

import nereid
import nereid.language as tl


@nereid.jit
def square(a, c, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    x = tl.load(a + i)
    tl.store(c + i, tl.dot(x, x))


a = (np.arange(64 * 64) % 251 - 125).astype(np.int8).reshape(64, 64)
c = np.zeros((64, 64), np.int32)
kernel = square[(1, )](a, c, 64)
np.testing.assert_array_equal(c, a.astype(np.int32) @ a.astype(np.int32))
print("tdpbssd" in kernel.asm["asm"])
"""


def run(tmp_path, *arguments, **settings):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return subprocess.run([sys.executable, file, *arguments], capture_output=True, text=True, env={**os.environ, "NEREID_CACHE": "0", **settings})


def test_granted(tmp_path):
    done = run(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_refused(tmp_path):
    """The product is computed without tiles, and a line says why."""
    done = run(tmp_path, "small")
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
    assert done.stderr.count("products do not use AMX: Linux refuses this process the tile registers (No space left on device)") == 1
    assert "alternate signal stacks" in done.stderr


def test_refused_by_name(tmp_path):
    done = run(tmp_path, "small", NEREID_CPU_FEATURES="sapphirerapids")
    assert done.returncode != 0
    assert "this process cannot run code for the CPU features `sapphirerapids`: Linux refuses the tile registers of AMX (No space left on device)" in done.stderr
