"""Which code an embedded launch chooses follows from what Linux says of the processor."""

import pathlib
import shutil
import subprocess

import pytest

PROGRAM = pathlib.Path(__file__).parents[2] / "build/aarch64/levels"


@pytest.mark.skipif(not PROGRAM.exists() or not shutil.which("qemu-aarch64"), reason="needs an emulator and a program for AArch64: run scripts/test_aarch64.sh, which builds it (Debian: qemu-user, g++-aarch64-linux-gnu)")
@pytest.mark.parametrize("processor, level", [("cortex-a53", "aarch64"), ("neoverse-n1", "neoverse_n1"), ("max", "neoverse_v1")])
def test_levels(processor, level):
    done = subprocess.run(["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-cpu", processor, PROGRAM], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, level + "\n"), done.stderr
