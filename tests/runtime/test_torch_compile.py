"""`torch.compile` on the CPU with Nereid as its Triton (`torch._inductor.config.cpu_backend = "triton"`), against eager PyTorch."""

import ast
import pathlib

import each_program
import pytest

pytest.importorskip("torch", reason="PyTorch's compiler is what is tested")

PROGRAM = pathlib.Path(__file__).with_name("inductor_cases.py")
CASES = [node.name for node in ast.parse(PROGRAM.read_text()).body if isinstance(node, ast.FunctionDef)
         and any(isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "case" for mark in node.decorator_list)]  # yapf: disable


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return each_program.said(PROGRAM, "cpu", CASES, 600, TORCHINDUCTOR_CACHE_DIR=str(tmp_path_factory.mktemp("inductor")), NEREID_TARGET="")


@pytest.mark.parametrize("name", CASES)
def test_compiled(results, name):
    if results[name] != "ok":
        pytest.fail(results[name])
