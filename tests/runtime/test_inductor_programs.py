"""Dynamic shapes, exported programs, packages and tuned templates of PyTorch's compiler on Nereid, on the CPU (inductor_programs.py); on a GPU, with
everything that PyTorch has only there, by `pytest tests/runtime/test_inductor_programs.py --target cuda`."""

import ast
import pathlib

import each_program
import pytest

pytest.importorskip("torch", reason="PyTorch's compiler is what is tested")

FILE = pathlib.Path(__file__).with_name("inductor_programs.py")
PROGRAMS = [node.name for node in ast.parse(FILE.read_text()).body if isinstance(node, ast.FunctionDef)
            and any(getattr(mark, "id", "") == "program" for mark in node.decorator_list)]  # yapf: disable
_results = {}


def results(target, factory):
    if target not in _results:
        _results[target] = each_program.said(FILE, target, PROGRAMS, 1800, TORCHINDUCTOR_CACHE_DIR=str(factory.mktemp("inductor")), NEREID_TARGET=None)
    return _results[target]


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, target, tmp_path_factory):
    said = results(target, tmp_path_factory)[name]
    if said.startswith("not here: "):  # a gap of PyTorch, which the program names
        pytest.skip(said)
    if said != "ok":
        pytest.fail(said)


def test_processes_that_end(tmp_path):
    """A program that ends its process says with which status, and does not hide those after it."""
    (program := tmp_path / "programs.py").write_text("import os, sys\nfor name in sys.argv[2:]:\n    name == 'second' and os.abort()\n    print(name, sys.argv[1], flush=True)\n")
    found = each_program.said(program, "cpu", ["first", "second", "third"], 60)
    assert found["first"] == found["third"] == "cpu" and found["second"].startswith("the process ended with status -6: Fatal Python error: Aborted")
