"""The programs of docs/jax.md, one after the other in one file, print what the page shows; the example program runs."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "jax.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the page is not beside the tests: run them in the source tree")
def test_programs_of_the_page(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    expected = re.findall(r"^print\(.*\)    # (.*)$", "\n".join(blocks), re.MULTILINE)
    assert len(blocks) == 4 and len(expected) == 4
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == expected


@pytest.mark.timeout(300)
def test_example():
    program = ROOT / "examples" / "jax" / "softmax.py"
    done = subprocess.run([sys.executable, str(program), "--steps", "8", "--rows", "32", "--classes", "50"], capture_output=True, text=True, timeout=280,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert done.returncode == 0, done.stdout + done.stderr
    kernels, jax, found = done.stdout.splitlines()
    assert re.match(r"kernels   loss [\d., ]+; [\d.]+ ms a step$", kernels) and kernels.split(";")[0][8:] == jax.split(";")[0][8:]
    assert found.startswith("labels found ")
