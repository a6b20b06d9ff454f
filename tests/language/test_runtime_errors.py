"""Errors of a running kernel in called functions read like errors of its compilation: the place, the line with a caret, the calls that led
there, the program. The texts are compared as a whole."""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
import torch

import harness

pytestmark = pytest.mark.cpu_only("checked mode is the CPU's; what a GPU's assertion says is in tests/device")

FUNCTIONS = """@triton.jit{mark}
def inner(x, i):
    {body}


@triton.jit{mark}
def outer(x, i):
    return inner(x, i)


@triton.jit
def one(x, y, i):
    tl.store(y, inner(x, i + tl.program_id(0)))


@triton.jit
def two(x, y, i):
    if i > 0:
        tl.store(y, outer(x, i + tl.program_id(0)))
"""
LOAD = "return tl.load(x + i)"
ASSERTION = """v = tl.load(x)
    tl.device_assert(i < 20, "too far")
    return v"""
OVERFLOW = "return i * 2147483647"


def failing(name, body, mark, value=19, **options):
    """The text of the error of a launch, and the file of the kernel."""
    kernel = harness.make(FUNCTIONS.format(body=body, mark=mark), name)
    with pytest.raises(RuntimeError) as error:
        kernel[(4, )](torch.zeros(20, dtype=torch.int32), torch.zeros(1, dtype=torch.int32), value, **options)
    return str(error.value), kernel.fn.__code__.co_filename


def excerpt(file, line, column, message):
    text = pathlib.Path(file).read_text().splitlines()[line - 1]
    return f"{file}:{line}:{column}: {message}\n{line:4} | {text}\n     | {' ' * (column - 1)}^\n"


def chain(name, file, lines_more):
    """The notes of the calls; `lines_more`: lines of the body after its first."""
    base = 6 + lines_more
    if name == "one":
        return excerpt(file, base + 11, 17, "note: called from here")
    return excerpt(file, base + 6, 12, "note: called from here") + excerpt(file, base + 17, 21, "note: called from here")


@pytest.mark.parametrize("mark", ["", "(noinline=True)"], ids=["inlined", "noinline"])
@pytest.mark.parametrize("name", ["one", "two"])
@pytest.mark.parametrize("body,line,column,message,options", [
    (LOAD, 0, 12, "index 20 is outside of `x`, whose indices go from 0 to 19", {"checked": True}),
    (ASSERTION, 1, 5, "assertion failed: too far", {"debug": True}),
    (OVERFLOW, 0, 12, "assertion failed: int32 overflow detected for operation mul", {"debug": True}),
], ids=["load", "assertion", "overflow"])
def test_calls_are_named(body, line, column, message, options, name, mark, target):
    text, file = failing(name, body, mark, **options)
    more = body.count("\n")
    program = 0 if body is OVERFLOW else 1
    assert text == excerpt(file, 7 + line, column, "run-time error: " + message) + chain(name, file, more) + f"note: in program ({program}, 0, 0)"


def test_in_the_library(target):
    """A function of the prelude is a call like any other."""
    kernel = harness.make("""@triton.jit
def kernel(x, y):
    p = tl.make_block_ptr(x, (64, ), (1, ), (60, ), (16, ), (0, ))
    tl.store(y + tl.arange(0, 16), p.load())
""")
    with pytest.raises(RuntimeError) as error:
        kernel[(1, )](torch.zeros(64), torch.zeros(16), checked=True)
    file = kernel.fn.__code__.co_filename
    place, line, caret, rest = str(error.value).split("\n", 3)
    assert re.fullmatch(r"<prelude>/block_pointer.py:\d+:\d+: run-time error: index 64 is outside of `x`, whose indices go from 0 to 63", place)
    number, column = place.split(":")[1:3]
    assert line.startswith(f"{number:>4} | ") and line[caret.index("^"):].startswith("load(self") and caret.index("^") == 6 + int(column)
    assert rest == excerpt(file, 8, 36, "note: called from here") + "note: in program (0, 0, 0)"


def test_functions_of_another_file(tmp_path, target):
    """Also when the kernel comes from the cache of another process, and the line is not ASCII."""
    (tmp_path / "library.py").write_text(textwrap.dedent("""\
        import nereid as triton
        import nereid.language as tl

        def made():
            @triton.jit
            def get(x, i):
                größe = "é"; return tl.load(x + i)
            return get

        get = made()
        """))
    (tmp_path / "main.py").write_text(textwrap.dedent("""\
        import sys, torch, nereid as triton, nereid.language as tl
        sys.path.insert(0, sys.argv[1])
        from library import get

        @triton.jit(noinline=True)
        def middle(x, i):
            return get(x, i)

        @triton.jit
        def kernel(x):
            tl.store(x, middle(x, 9))

        try:
            kernel[(1, )](torch.zeros(9), checked=True)
        except RuntimeError as error:
            print(error)
        """))
    folder = tmp_path / "cache"
    for _ in range(2):
        done = subprocess.run([sys.executable, str(tmp_path / "main.py"), str(tmp_path)], capture_output=True, text=True, encoding="utf-8",
                              env={**os.environ, "NEREID_CACHE": "1", "NEREID_CACHE_DIR": str(folder), "PYTHONIOENCODING": "utf-8"})
        assert done.stdout == (f"""{tmp_path}/library.py:7:29: run-time error: index 9 is outside of `x`, whose indices go from 0 to 8
   7 |     größe = "é"; return tl.load(x + i)
     |                         ^
{tmp_path}/main.py:7:12: note: called from here
   7 |     return get(x, i)
     |            ^
{tmp_path}/main.py:11:17: note: called from here
  11 |     tl.store(x, middle(x, 9))
     |                 ^
note: in program (0, 0, 0)
"""), done.stderr


def test_long_chains_are_cut(target):
    kernel = harness.make("""@triton.jit
def again(x, N: tl.constexpr):
    if N == 0:
        return tl.load(x + 5)
    return again(x, N - 1)


@triton.jit
def kernel(x):
    tl.store(x, again(x, 30))
""")
    with pytest.raises(RuntimeError) as error:
        kernel[(1, )](torch.zeros(5), checked=True)
    text = str(error.value)
    assert text.count("called from here") == 12 and "tl.store(x, again(x, 30))" in text
