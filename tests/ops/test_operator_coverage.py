"""The counts of overloads in docs/ops.md are those of the scripts."""

import pathlib
import re
import subprocess
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).parents[2]
PINNED = re.search(r"^torch==(\d+\.\d+)", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)[1]
pytestmark = pytest.mark.skipif(not torch.__version__.startswith(PINNED + "."), reason=f"the docs count the overloads of PyTorch {PINNED}")


def test_count_in_the_docs():
    printed = subprocess.run([sys.executable, ROOT / "scripts" / "operator_coverage.py"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert printed[0] in (ROOT / "docs" / "ops.md").read_text()


def test_table_of_what_is_left_to_aten():
    printed = subprocess.run([sys.executable, ROOT / "scripts" / "operator_leaves.py"], capture_output=True, text=True, check=True).stdout
    assert printed.strip() in (ROOT / "docs" / "ops.md").read_text(), printed
