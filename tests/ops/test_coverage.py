"""The count of registered overloads in docs/ops.md is that of the script."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_count_in_the_docs():
    printed = subprocess.run([sys.executable, ROOT / "scripts" / "operator_coverage.py"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert printed[0] in (ROOT / "docs" / "ops.md").read_text()
