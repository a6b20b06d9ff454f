"""The detector of examples/pytorch/giou in its smallest size: four losses in three precisions, each compared with fp64 by the program itself."""

import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the example trains with PyTorch")

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "examples" / "pytorch" / "giou" / "train.py"


def test_giou(tmp_path, target):
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    environment.pop("NEREID_TARGET", None)
    done = subprocess.run([sys.executable, PROGRAM, "--device", target, "--size", "tiny", "--trace", tmp_path / "trace"], capture_output=True, text=True,
                          timeout=900, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ") and not line.startswith("| loss of boxes")]
    assert len(rows) == 12
    trace = (tmp_path / "trace.kernel.fp32.json").read_text()
    assert all(f'"{name}"' in trace for name in ("forward", "loss", "loss backward", "backward", "optimizer"))


def test_wrong_sizes_are_refused():
    done = subprocess.run([sys.executable, PROGRAM, "--size", "huge"], capture_output=True, text=True)
    assert done.returncode == 2 and "invalid choice: 'huge'" in done.stderr
