"""`torch.compile` on the CPU with Nereid as its Triton (`torch._inductor.config.cpu_backend = "triton"`), against eager PyTorch."""

import ast
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="PyTorch's compiler is what is tested")

PROGRAM = pathlib.Path(__file__).with_name("inductor_cases.py")
CASES = [node.name for node in ast.parse(PROGRAM.read_text()).body if isinstance(node, ast.FunctionDef)
         and any(isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "case" for mark in node.decorator_list)]  # yapf: disable


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What the program says about each case; one process runs all, since loading PyTorch's compiler takes longest."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path_factory.mktemp("inductor")), "NEREID_TARGET": ""}
    done = subprocess.run([sys.executable, PROGRAM, "cpu"], env=environment, capture_output=True, text=True, timeout=600)
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    return found, done.stderr


@pytest.mark.parametrize("name", CASES)
def test_compiled(results, name):
    found, errors = results
    assert found.get(name) == "ok", found.get(name, errors[-2000:])
