"""scripts/compare_code.py: which tests have other machine code than before."""

import json
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "compare_code.py"


def record(folder, *launches):
    """A folder as `pytest --ptx` leaves it, by two processes."""
    folder.mkdir()
    for process in range(2):
        lines = [json.dumps({"test": test, "launch": launch, "code": code}) for test, launch, code in launches[process::2]]
        (folder / f"codes-{process}.jsonl").write_text("".join(line + "\n" for line in lines))
    return folder


def compare(*folders):
    return subprocess.run([sys.executable, SCRIPT, *folders], capture_output=True, text=True, timeout=60)


def test_equal_code(tmp_path):
    """Launches count once a kernel: how often a tuner launches which of them depends on time."""
    launches = [("a.py::one", 1, "x"), ("a.py::one", 2, "y"), ("a.py::two", 1, "x")]
    done = compare(record(tmp_path / "before", *launches), record(tmp_path / "after", *reversed(launches), ("a.py::two", 2, "y")))
    assert done.returncode == 0
    assert done.stdout == "2 kernels of 2 tests before, 2 of 2 after: 0 differences\n"


def test_what_differs_is_named(tmp_path):
    before = record(tmp_path / "before", ("a.py::one", 1, "x"), ("a.py::one", 2, "y"), ("a.py::two", 1, "z"))
    after = record(tmp_path / "after", ("a.py::one", 1, "x"), ("a.py::one", 2, "Y"), ("a.py::three", 1, "z"))
    done = compare(before, after)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "code only before: a.py::one, launch 2: y",
        "only before: a.py::two",
        "code only after: a.py::one, launch 2: Y",
        "only after: a.py::three",
        "3 kernels of 2 tests before, 3 of 2 after: 4 differences",
    ]


def test_a_folder_without_a_record(tmp_path):
    done = compare(tmp_path, tmp_path)
    assert done.returncode == 2
    assert "no codes-*.jsonl" in done.stderr
