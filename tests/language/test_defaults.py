"""Default values of parameters: what they were when the function was made, as in Python."""

import os
import subprocess
import sys

import numpy as np

import nereid
import nereid.language as tl

STEP = 1


@nereid.jit
def add_step(x, step: tl.constexpr = STEP):
    return x + step


@nereid.jit
def add_twice(x, twice=STEP * 2):
    return x + twice


@nereid.jit
def add_pair(x, pair=(STEP, STEP + 1)):
    return x + pair[0] + pair[1]


@nereid.jit
def apply(x, function: tl.constexpr = add_step):
    return function(x)


STEP = 50


@nereid.jit(noinline=True)
def add_step_apart(x, step: tl.constexpr = STEP):
    return x + step


first_step = add_step


@nereid.jit
def add_step(x, step: tl.constexpr = 1000):  # a later function of the name: `apply` keeps the first
    return x + step


@nereid.jit
def call_all(out):
    tl.store(out, first_step(0))
    tl.store(out + 1, add_twice(0))
    tl.store(out + 2, add_pair(0))
    tl.store(out + 3, apply(0))
    tl.store(out + 4, add_step_apart(0))
    tl.store(out + 5, add_step(0))


def test_defaults_of_the_definition(target):
    out = np.zeros(6, np.int32)
    call_all[(1,)](out)
    assert out.tolist() == [1, 2, 3, 1, 50, 1000]


def with_default(value):
    @nereid.jit
    def add(x, step: tl.constexpr = value):
        return x + step

    value = -1

    @nereid.jit
    def kernel(out):
        tl.store(out, add(0))

    return kernel


def test_defaults_of_closures(target):
    out = np.zeros(1, np.int32)
    for value in (5, 7, 5):
        with_default(value)[(1,)](out)
        assert out[0] == value


@nereid.jit
def kernel_with_defaults(out, step=STEP, wide: tl.constexpr = STEP + 1):
    tl.store(out, step + wide)


def test_defaults_of_a_kernel(target, monkeypatch):
    out = np.zeros(1, np.int32)
    monkeypatch.setitem(globals(), "STEP", 3)
    kernel_with_defaults[(1,)](out)
    assert out[0] == 101


PROGRAM = """
import os
import numpy as np
import nereid
import nereid.language as tl

STEP = int(os.environ["STEP"])


@nereid.jit
def add(x, step: tl.constexpr = STEP, twice=STEP * 2):
    return x + step + twice


STEP = 100


@nereid.jit
def kernel(out):
    tl.store(out, add(0))


out = np.zeros(1, np.int32)
kernel[(1,)](out)
print(out[0])
"""


def test_kernels_on_disk_know_the_defaults(tmp_path):
    """The text of the function is the same in each process, its default value is not."""
    (tmp_path / "program.py").write_text(PROGRAM)
    for step in (1, 2, 1, 3):
        done = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "STEP": str(step), "NEREID_CACHE_DIR": str(tmp_path / "cache"), "NEREID_CACHE": "1",
                                   "NEREID_TARGET": "cpu"})
        assert done.stdout.strip() == str(3 * step), done.stderr
