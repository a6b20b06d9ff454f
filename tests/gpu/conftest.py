"""Programs whose launches run on a simulated GPU; settings end with each test."""

import os
import pathlib
import subprocess
import sys

import nereid
import pytest
import simulator

TESTS = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def settings():
    """After a test the environment decides again: undoing `monkeypatch.setattr` assigns the value of before, and an assigned value comes before the environment."""
    with nereid.knobs.nereid.scope():
        yield


@pytest.fixture
def simulated(tmp_path):
    """A function that runs the text of a program, which imports `simulated` and prints "right" in the end, with arguments and variables of its environment; launches run as on sm_90. Skips without the simulator."""
    if simulator.MISSING:
        pytest.skip(simulator.MISSING)

    def run(text, *arguments, **variables):
        program = tmp_path / "program.py"
        program.write_text(text)
        environment = {**os.environ, **variables, "SIMULATED_TARGET": "cuda:90", "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(TESTS)])}
        done = subprocess.run([sys.executable, str(program), *map(str, arguments)], env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout == "right\n", done.stderr[-4000:]

    return run
