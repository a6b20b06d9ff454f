"""The reference of the C and C++ interfaces: it builds, and nothing public is without documentation."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not shutil.which("doxygen"), reason="doxygen is not installed")


def build(root, folder):
    return subprocess.run([root / "scripts" / "api_reference.sh", folder], capture_output=True, text=True)


def test_everything_public_is_documented(tmp_path):
    result = build(ROOT, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    pages = {path.name for path in (tmp_path / "html").iterdir()}
    assert {"index.html", "classnereid_1_1Module.html", "classnereid_1_1Buffer.html", "nereid_8h.html"} <= pages


def test_what_is_not_documented_is_an_error(tmp_path):
    root = tmp_path / "source"
    for folder in ("include", "docs/api", "examples/cpp", "scripts"):
        shutil.copytree(ROOT / folder, root / folder)
    shutil.copy(ROOT / "VERSION", root)
    header = root / "include" / "nereid" / "device.hpp"
    text = header.read_text()
    header.write_text(text.replace("  /// The CPU.\n  static constexpr Device cpu()", "  static constexpr Device cpu()"))
    assert header.read_text() != text
    result = build(root, tmp_path / "out")
    assert result.returncode != 0
    assert "Member cpu() (function) of class nereid::Device is not documented" in result.stdout + result.stderr
