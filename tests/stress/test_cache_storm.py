"""A small storm: processes that are killed at random share one cache (cache_storm.py)."""

import pathlib
import subprocess
import sys

import pytest

STORM = pathlib.Path(__file__).resolve().parent / "cache_storm.py"


@pytest.mark.parametrize("more", [[], ["--vandal"], ["--target", "cuda:90", "--no-assembler"]], ids=["killed", "damaged", "gpu"])
def test_storm(more):
    done = subprocess.run([sys.executable, STORM, "--processes", "3", "--threads", "2", "--kernels", "8", "--seconds", "5",
                           "--kill-every", "0.7", *more], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith(": ok\n"), done.stdout + done.stderr
