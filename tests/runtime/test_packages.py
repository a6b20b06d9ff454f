"""Models with kernels, packaged: made in one process, loaded by a program in C++ and in new processes of Python (packaged/)."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch makes the packages")

FOLDER = pathlib.Path(__file__).with_name("packaged")
ROWS = (7, 20)

pytestmark = [pytest.mark.timeout(1800), pytest.mark.skipif(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="needs PyTorch 2.13, which puts kernels for the CPU into packages")]


def run(*command, **environment):
    done = subprocess.run([str(part) for part in command], env={**os.environ, **environment}, capture_output=True, text=True, timeout=1500)
    return done.returncode, done.stdout, done.stderr


def model(*arguments, **environment):
    return run(sys.executable, FOLDER / "model.py", *arguments, **environment)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder with what `model.py make` writes."""
    folder = tmp_path_factory.mktemp("package")
    code, output, errors = model("make", folder, TORCHINDUCTOR_CACHE_DIR=str(folder / "inductor"))
    assert code == 0 and output.endswith("ok\n"), errors[-3000:]
    return folder


def test_a_program_in_cpp_runs_the_package(package, tmp_path):
    """Without Python and without Nereid: the kernel is in the package."""
    code, output, errors = run("cmake", "-S", FOLDER, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}", "-DCMAKE_BUILD_TYPE=Debug")
    if "uses CUDA but I cannot find the CUDA" in errors:
        pytest.skip("this PyTorch is for CUDA, and its CMake files need CUDA's headers: install a CUDA toolkit, or PyTorch for the CPU")
    assert code == 0, output[-2000:] + errors[-2000:]
    code, output, errors = run("cmake", "--build", tmp_path)
    assert code == 0, output[-3000:] + errors[-2000:]
    for rows in ROWS:
        got = tmp_path / f"got{rows}"
        code, output, errors = run(tmp_path / "run_package", package / "model.pt2", package / f"input{rows}", 64, got, PYTHONPATH="", PATH="")
        assert (code, output) == (0, f"{rows} rows\n"), errors[-2000:]
        np.testing.assert_allclose(np.fromfile(got, np.float32), np.fromfile(package / f"wanted{rows}", np.float32), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("what", ["load", "compile"])
def test_a_new_process_loads_it(what, package, tmp_path):
    code, output, errors = model(what, package, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert code == 0 and output.endswith("ok\n"), errors[-3000:]
