"""`import triton` meaning Nereid: in this process, in scripts, in child processes. And not otherwise."""

import os
import pathlib
import subprocess
import sys
import textwrap

import nereid
import pytest

SCRIPT = """
import sys
import triton
import triton.language as tl
import triton.language.math
import triton.language.extra.libdevice
import triton.runtime.jit
import triton.testing
import triton.compiler
import numpy as np
import nereid

@triton.jit
def kernel(out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, triton.language.math.exp(i * 0.0) + triton.cdiv(BLOCK, 4))

out = np.zeros(8, np.float32)
kernel[(1,)](out, BLOCK=8)
assert out.tolist() == [3.0] * 8
assert triton.language is nereid.language and triton.jit is nereid.jit and tl.math is nereid.language.math
assert triton.runtime.jit.JITFunction is nereid.JITFunction and triton.compiler is nereid.compiler
assert nereid.language.__name__ == "nereid.language" and nereid.language.__spec__.name == "nereid.language"
print(triton.__version__, nereid.__version__, sys.argv)
"""


def run(*arguments, script=None, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NEREID_", "TRITON_"))}
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, env={**clean, **environment})


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_running_a_script(script):
    done = run("-m", "nereid", script, "one", "--two")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"3.6.0 0.1.0 {[str(script), 'one', '--two']}\n"


def test_reported_version(script):
    done = run("-m", "nereid", script, NEREID_TRITON_VERSION="3.5.1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3.5.1 0.1.0")


def test_running_code_and_modules(tmp_path, script):
    code = "import triton, sys; print(triton.__version__, sys.argv)"
    assert run("-m", "nereid", "-c", code, "x").stdout == "3.6.0 ['-c', 'x']\n"
    here = os.pathsep.join([str(tmp_path), str(pathlib.Path(nereid.__file__).parents[1])])
    done = run("-m", "nereid", "-m", "script", "y", PYTHONPATH=here)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments, text", [(["nothing.py"], "nereid: cannot open `nothing.py`"), (["a/nothing"], "cannot open `a/nothing`"),
                                             (["--", "doctor"], "cannot open `doctor`"), (["--"], "-- needs an argument"), (["-c"], "-c needs an argument"),
                                             ([], "usage: python -m nereid script.py")])
def test_wrong_command_lines(arguments, text):
    done = run("-m", "nereid", *arguments)
    assert done.returncode == 2 and text in done.stdout + done.stderr


def test_errors_of_scripts_come_through(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("import triton\nraise SystemExit(7)\n")
    assert run("-m", "nereid", path).returncode == 7


def test_install_in_a_process():
    code = """
        import nereid
        nereid.install_as_triton()
        nereid.install_as_triton()
        import importlib.util, triton.language as tl
        assert tl is nereid.language
        assert importlib.util.find_spec("triton.testing") is not None
        assert importlib.util.find_spec("triton.nothing") is None
        triton = __import__("triton")
        triton.marker = 3
        assert nereid.marker == 3 and "cdiv" in dir(triton)
        try:
            triton.nothing
        except AttributeError as error:
            print(error)
    """
    done = run("-c", textwrap.dedent(code))
    assert done.returncode == 0, done.stderr
    assert "has no attribute 'nothing'" in done.stdout


def test_names_may_be_replaced_for_a_while():
    done = run("-m", "nereid", "-c", textwrap.dedent("""
        from unittest import mock
        import nereid, triton
        with mock.patch("triton.cdiv", lambda x, y: 42):
            assert triton.cdiv(1, 2) == 42 and nereid.cdiv(1, 2) == 42
        triton.own = 1
        assert nereid.own == 1
        del triton.own
        assert not hasattr(nereid, "own")
        print(triton.cdiv(3, 2), nereid.cdiv is triton.cdiv)
    """))
    assert done.stdout == "2 True\n", done.stderr


def test_too_late_to_install(tmp_path):
    (tmp_path / "triton.py").write_text("")
    code = "import triton, nereid; nereid.install_as_triton()"
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run("-c", code, PYTHONPATH=path)
    assert "RuntimeError: triton is already imported from" in done.stderr
    assert "call nereid.install_as_triton() before anything imports it" in done.stderr


def test_without_the_switch_triton_is_not_nereid():
    code = """
        import nereid, nereid.language
        try:
            import triton
        except ImportError:
            print("none")
        else:
            print(triton.__file__.startswith(nereid.__path__[0]))
    """
    done = run("-c", textwrap.dedent(code))
    assert done.stdout.strip() in ("none", "False"), done.stderr


def installed():
    return "site-packages" in nereid.__file__


@pytest.mark.skipif(not installed(), reason="the switch of child processes is part of the installed wheel")
def test_children_inherit_the_switch():
    code = """
        import nereid, subprocess, sys
        nereid.install_as_triton()
        print(subprocess.run([sys.executable, "-c", "import triton; print(triton.__version__, triton.__file__)"],
                             capture_output=True, text=True).stdout)
    """
    done = run("-c", textwrap.dedent(code))
    assert done.stdout.startswith("3.6.0") and "nereid" in done.stdout, done.stderr


def test_the_switch_file_is_one_cheap_line():
    text = (pathlib.Path(__file__).resolve().parents[2] / "python" / "nereid_alias.pth").read_text()
    assert text.startswith("import os;") and text.count("\n") == 1
