"""The coverage page says what is so."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_the_page_is_up_to_date_and_nothing_is_missing():
    result = subprocess.run([sys.executable, ROOT / "scripts/coverage_page.py", "--check"], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, (result.stdout + result.stderr)[-3000:]
