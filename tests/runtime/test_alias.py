"""`import triton` meaning Nereid: in this process, in scripts, in child processes. And not otherwise."""

import json
import os
import pathlib
import shutil
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
    done = run("-m", "nereid", script, "one", "--two", NEREID_TRITON_VERSION="3.7.2")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"3.7.2 0.1.0 {[str(script), 'one', '--two']}\n"


def test_reported_version(script):
    done = run("-m", "nereid", script, NEREID_TRITON_VERSION="3.5.1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3.5.1 0.1.0")


def test_running_code_and_modules(tmp_path, script):
    code = "import triton, sys; print(triton.__version__, sys.argv)"
    assert run("-m", "nereid", "-c", code, "x", NEREID_TRITON_VERSION="3.7.2").stdout == "3.7.2 ['-c', 'x']\n"
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


ROOT = pathlib.Path(nereid.__file__).parents[1]
SHIM = str(ROOT / "nereid" / "_as_triton")
ASK = "import triton, triton.language; print('nereid' if hasattr(triton, '__nereid_alias__') else triton.__file__)"


@pytest.fixture
def other_triton(tmp_path):
    """A folder with another Triton: a package and its metadata."""
    folder = tmp_path / "other"
    (folder / "triton" / "language").mkdir(parents=True)
    (folder / "triton" / "__init__.py").write_text("__version__ = '1.2.3'\n")
    (folder / "triton" / "language" / "__init__.py").write_text("")
    (folder / "triton-1.2.3.dist-info").mkdir()
    (folder / "triton-1.2.3.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: triton\nVersion: 1.2.3\n")
    return folder


def python_path(*folders):
    return os.pathsep.join(map(str, folders))


CHILDREN = """
import concurrent.futures, multiprocessing, os, subprocess, sys
sys.path[:0] = {folders!r}
import nereid
nereid.install_as_triton()
import child

if __name__ == "__main__":
    for flags in ([], ["-S"], ["-P"]):
        print(subprocess.run([sys.executable, *flags, "-c", {ask!r}], capture_output=True, text=True).stdout.strip(), flags)
    # PyTorch's workers, and those of execnet: sys.path as PYTHONPATH, sys.path of the parent.
    environment = {{**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}}
    print(subprocess.run([sys.executable, "-c", {ask!r}], capture_output=True, text=True, env=environment).stdout.strip(), "path")
    for method in ("spawn", "forkserver", "fork"):
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
            print(pool.submit(child.triton).result(), method)
"""


@pytest.mark.parametrize("python_path_has_it", [True, False])
def test_children_inherit_the_alias_by_the_environment(tmp_path, other_triton, python_path_has_it):
    """Where no `.pth` file is read, with another Triton there; also where the parent finds the package in a way that children do not know."""
    (tmp_path / "child.py").write_text("def triton():\n    import triton, triton.language\n    return 'nereid' if hasattr(triton, '__nereid_alias__') else "
                                       "triton.__file__\n")
    program = tmp_path / "program.py"
    program.write_text(CHILDREN.format(folders=[] if python_path_has_it else [str(ROOT)], ask=ASK))
    done = run(program, PYTHONPATH=python_path(*[ROOT] * python_path_has_it, other_triton))
    assert done.stdout.splitlines() == [f"nereid {what}" for what in ([], ["-S"], ["-P"], "path", "spawn", "forkserver", "fork")], done.stderr


def test_a_spawned_child_of_an_isolated_parent(tmp_path, other_triton):
    """Python's -I hides PYTHONPATH from the child as well, but not the parent's `sys.path`."""
    (tmp_path / "program.py").write_text(CHILDREN.format(folders=[str(ROOT), str(tmp_path), str(other_triton)], ask=ASK))
    (tmp_path / "child.py").write_text("def triton():\n    import triton\n    return hasattr(triton, '__nereid_alias__')\n")
    done = run("-I", tmp_path / "program.py")
    assert done.stdout.splitlines()[-3:] == ["True spawn", "True forkserver", "True fork"], done.stderr


def test_children_of_python_m_nereid(other_triton):
    code = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-m', 'nereid.tools.children']).returncode)"
    done = run("-m", "nereid", "-c", code, PYTHONPATH=python_path(other_triton, ROOT), NEREID_TRITON_VERSION="3.9.9")
    found = json.loads(done.stdout)
    assert found["plain"] == found["with_alias"] == {"nereid": True, "path": str(ROOT / "nereid"), "version": "3.9.9"}
    found = json.loads(run("-m", "nereid.tools.children", PYTHONPATH=python_path(other_triton, ROOT), NEREID_TRITON_VERSION="3.9.9").stdout)
    assert found["plain"] == {"nereid": False, "path": str(other_triton / "triton"), "version": "1.2.3"}
    assert found["with_alias"] == {"nereid": True, "path": str(ROOT / "nereid"), "version": "3.9.9"}


def test_a_triton_in_the_folder_of_the_program_is_not_the_childs(other_triton):
    """`python -c` looks into the working folder before PYTHONPATH."""
    code = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {ASK!r}], cwd={str(other_triton)!r}).returncode)"
    assert run("-m", "nereid", "-c", code).stdout == "nereid\n"


def test_without_the_switch_the_folder_steps_aside(other_triton):
    """Somebody who takes NEREID_AS_TRITON away, or says 0, gets what is installed."""
    code = (f"import importlib.metadata, importlib.util, sys; print(importlib.util.find_spec('triton').origin, importlib.metadata.version('triton')); {ASK}; "
            f"print({SHIM!r} in sys.path)")
    expected = f"{other_triton}/triton/__init__.py 1.2.3\n{other_triton}/triton/__init__.py\nFalse\n"
    for environment in ({}, {"NEREID_AS_TRITON": "0"}, {"NEREID_AS_TRITON": ""}, {"NEREID_AS_TRITON": "off"}):
        done = run("-c", code, PYTHONPATH=python_path(SHIM, other_triton, ROOT), **environment)
        assert done.stdout == expected, done.stderr
    assert run("-S", "-c", ASK, PYTHONPATH=python_path(SHIM, other_triton, ROOT)).stdout == f"{other_triton}/triton/__init__.py\n"
    if not (ROOT / "triton").exists():  # site-packages may have the real one
        assert "No module named 'triton'" in run("-S", "-c", ASK, PYTHONPATH=python_path(SHIM, ROOT)).stderr


def test_another_sitecustomize_is_run_too(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys, triton; print('custom', hasattr(triton, '__nereid_alias__'), __file__)\n")
    code = f"import sitecustomize, sys; print(sitecustomize.__file__, sys.path.index({SHIM!r})); {ASK}"
    done = run("-c", code, PYTHONPATH=python_path(SHIM, ROOT, tmp_path), NEREID_AS_TRITON="1")
    own = tmp_path / "sitecustomize.py"
    assert done.stdout == f"custom True {own}\n{own} 1\nnereid\n", done.stderr
    own.write_text("raise ValueError('broken')\n")
    done = run("-c", ASK, PYTHONPATH=python_path(SHIM, ROOT, tmp_path), NEREID_AS_TRITON="1")
    assert done.stdout == "nereid\n" and "ValueError: broken" in done.stderr


def test_the_environment_is_put_back():
    code = """
        import os, sys
        before, path = dict(os.environ), list(sys.path)
        import nereid
        nereid.uninstall_as_triton()
        for _ in range(2):
            nereid.install_as_triton()
            import triton
            assert triton is sys.modules["triton"] and os.environ["PYTHONPATH"].split(os.pathsep).count(SHIM) == 1
            assert os.environ["NEREID_AS_TRITON"] == "1" and sys.path[1] == SHIM
            nereid.uninstall_as_triton()
            assert dict(os.environ) == before and sys.path == path, (os.environ, sys.path)
            assert not any(name.split(".")[0] == "triton" for name in sys.modules)
        # What others add meanwhile stays.
        nereid.install_as_triton()
        os.environ["PYTHONPATH"] = "/first" + os.pathsep + os.environ["PYTHONPATH"]
        nereid.uninstall_as_triton()
        print(os.environ["PYTHONPATH"])
    """
    code = f"SHIM = {SHIM!r}" + textwrap.dedent(code)
    for switch in ({}, {"NEREID_AS_TRITON": "0"}):
        done = run("-c", code, PYTHONPATH=str(ROOT), **switch)
        assert done.stdout == f"/first{os.pathsep}{ROOT}\n", done.stderr


@pytest.mark.parametrize("name", ["PYTHONPATH", "TORCH_CUSTOM_PYTHONPATH"])
def test_nested_values(name):
    """Programs under `python -m nereid` that run programs under it; a folder that comes later comes first."""
    code = f"import os, subprocess, sys; print(os.environ[{name!r}]); sys.exit(0 if sys.argv[1:] else subprocess.run([sys.executable, '-m', 'nereid', " \
           f"*sys.orig_argv[3:], '1']).returncode)"
    variables = {"PYTHONPATH": str(ROOT), name: python_path("/x", SHIM, ROOT)}
    done = run("-m", "nereid", "-c", code, **variables)
    assert done.stdout.splitlines() == [python_path(SHIM, "/x", ROOT)] * 2, done.stderr


def test_a_child_with_another_triton_says_so(other_triton):
    """PYTHONPATH was replaced, and no `.pth` is read: the package learns of it when it is imported."""
    code = "import triton, nereid; print(triton.__version__)"
    done = run("-S", "-c", code, PYTHONPATH=python_path(other_triton, ROOT), NEREID_AS_TRITON="1")
    assert done.stdout == "1.2.3\n"
    assert "RuntimeWarning: NEREID_AS_TRITON=1 says that `import triton` means Nereid, as in the process that started this one, but triton 1.2.3 is already " \
           f"imported from {other_triton}/triton/__init__.py: kernels of the two processes are not the same" in done.stderr
    assert run("-S", "-W", "error", "-c", code, PYTHONPATH=python_path(other_triton, ROOT), NEREID_AS_TRITON="1").returncode == 1
    done = run("-S", "-W", "error", "-c", "import nereid, triton; print(triton.jit is nereid.jit)", PYTHONPATH=python_path(other_triton, ROOT), NEREID_AS_TRITON="1")
    assert done.stdout == "True\n", done.stderr  # in the other order all is well


def test_a_child_with_another_copy_of_the_package_says_so(tmp_path):
    copy = tmp_path / "nereid" / "_as_triton"
    copy.parent.mkdir()
    shutil.copytree(SHIM, copy)
    done = run("-c", ASK, PYTHONPATH=python_path(copy, ROOT), NEREID_AS_TRITON="1")
    assert done.stdout == "nereid\n"
    assert f"RuntimeWarning: this process imports Nereid from {ROOT}/nereid, the process that started it from {tmp_path}/nereid: put the same" in done.stderr


def test_a_kernel_that_another_triton_has_pickled_is_refused(other_triton):
    """What Triton's workers send: their `AsmDict` is a dict."""
    (other_triton / "triton" / "compiler").mkdir()
    (other_triton / "triton" / "compiler" / "__init__.py").write_text("")
    (other_triton / "triton" / "compiler" / "compiler.py").write_text("class AsmDict(dict):\n    pass\n")
    code = "import pickle, triton.compiler.compiler as c; print(pickle.dumps(c.AsmDict(ptx='text')))"
    sent = run("-c", code, PYTHONPATH=str(other_triton)).stdout
    done = run("-m", "nereid", "-c", f"import pickle; pickle.loads({sent})")
    assert "RuntimeError: a compiled kernel was unpickled that another implementation of Triton has pickled: a child process, such as a compile worker" in done.stderr


@pytest.mark.parametrize("version, requirements, expected", [
    ("2.11.0+cu130", ["triton==3.6.0; platform_system == \"Linux\""], "3.6.0"), ("2.14.0", ["numpy", "triton~=3.8.0"], "3.8.0"),
    ("2.16.0.dev1", ["pytorch-triton==3.10.1+gitab12; x"], "3.10.1"), ("2.13.0+cpu", ["filelock"], "3.7.1"), ("2.15.0", [], "3.9.0"),
    ("2.99.0", [], "3.9.0"), ("2.4.0", [], "3.6.0")])
def test_the_version_is_the_one_that_pytorch_wants(tmp_path, version, requirements, expected):
    folder = tmp_path / f"torch-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n" + "".join(f"Requires-Dist: {text}\n" for text in requirements))
    code = "import importlib.metadata as m, triton; print(triton.__version__, m.version('triton'), m.version('Triton'), m.metadata('triton')['Name'])"
    done = run("-m", "nereid", "-c", code, PYTHONPATH=python_path(tmp_path, ROOT))
    assert done.stdout == f"{expected} {expected} {expected} triton\n", done.stderr


def test_the_distribution(other_triton):
    """One distribution `triton`, the alias; whoever asks about folders is told what is there."""
    code = f"""
        import importlib.metadata as m
        print([d.version for d in m.distributions(name="triton")][0], [d.version for d in m.distributions(path=[{str(other_triton)!r}])])
        print(m.distribution("triton").files, len(m.distribution("triton").entry_points), m.requires("triton"))
        print("triton" in [d.name for d in m.distributions()])
        try:
            m.version("triton-x")
        except m.PackageNotFoundError:
            print("none")
    """
    done = run("-m", "nereid", "-c", textwrap.dedent(code), PYTHONPATH=python_path(ROOT, other_triton), NEREID_TRITON_VERSION="3.4.5")
    assert done.stdout == "3.4.5 ['1.2.3']\nNone 0 None\nTrue\nnone\n", done.stderr


def test_a_child_pays_little():
    """Every Python program that is started reads these: nothing of the package but the alias, nothing heavy of Python."""
    code = "import sys; print(*sorted(sys.modules))"
    plain = set(run("-c", code, PYTHONPATH=str(ROOT)).stdout.split())
    child = set(run("-c", code, PYTHONPATH=python_path(SHIM, ROOT), NEREID_AS_TRITON="1").stdout.split())
    assert child - plain - {"sitecustomize"} == {"_nereid_start", "nereid", "nereid._alias"}


@pytest.mark.parametrize("version", ["2.7", "3.8", "3.10"])
def test_older_interpreters_are_left_alone(version):
    """PYTHONPATH reaches every Python, also those that the package is not for."""
    program = shutil.which(f"python{version}")
    if program is None or subprocess.run([program, "-c", ""], capture_output=True).returncode != 0:
        pytest.skip(f"about python{version}, which is not installed here")
    done = subprocess.run([program, "-c", "import sys; print(sys.path[1:2])"], capture_output=True, text=True,
                          env={"PATH": os.environ["PATH"], "PYTHONPATH": python_path(SHIM, ROOT), "NEREID_AS_TRITON": "1"})
    assert done.returncode == 0 and done.stderr == "" and done.stdout == f"[{str(ROOT)!r}]\n", done.stderr


def test_the_switch_file_is_one_cheap_line():
    text = (pathlib.Path(__file__).resolve().parents[2] / "python" / "nereid_alias.pth").read_text()
    assert text.startswith("import os;") and text.count("\n") == 1
