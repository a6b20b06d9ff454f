"""Dynamic shapes, exported programs, packages and tuned templates of PyTorch's compiler on Nereid, on the CPU (inductor_programs.py); on a GPU, with
everything that PyTorch has only there, by `pytest tests/runtime/test_inductor_programs.py --target cuda`."""

import ast
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="PyTorch's compiler is what is tested")

FILE = pathlib.Path(__file__).with_name("inductor_programs.py")
PROGRAMS = [node.name for node in ast.parse(FILE.read_text()).body if isinstance(node, ast.FunctionDef)
            and any(getattr(mark, "id", "") == "program" for mark in node.decorator_list)]  # yapf: disable
_results = {}


def results(target, factory):
    """What the file says about each program. One process runs all, since loading PyTorch's compiler takes longest; where one ends its process, another process
    runs those after it."""
    if target not in _results:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(factory.mktemp("inductor")), "PYTHONFAULTHANDLER": "1"}
        environment.pop("NEREID_TARGET", None)
        found = _results[target] = {}
        while left := [name for name in PROGRAMS if name not in found]:
            done = subprocess.run([sys.executable, FILE, target, *left], env=environment, capture_output=True, text=True, timeout=1800)
            lines = [line.partition(" ") for line in done.stdout.splitlines()]
            found.update((name, said) for name, _, said in lines if name in left)
            if missing := [name for name in left if name not in found]:
                found[missing[0]] = f"the process ended with status {done.returncode}: {done.stderr[-6000:]}"
    return _results[target]


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, target, tmp_path_factory):
    said = results(target, tmp_path_factory)[name]
    if said.startswith("not here: "):  # a gap of PyTorch on CPUs, which the program names
        assert target == "cpu", said
        pytest.skip(said)
    if said != "ok":
        pytest.fail(said)
