"""docs/tutorial.md: every block of code runs as a reader runs it, and prints what the page shows. So does the first kernel of README.md.

A block whose first line is a comment with a file's name (and, after a colon, what it is) becomes that file. A block `sh` runs in the folder of these files, on each target, and
a block `text` that follows is what it prints; there, `...` stands for anything, also for whole lines.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import nereid
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
PACKAGE = pathlib.Path(nereid.__file__).parent
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"(?:#|//) ([\w.]+\.\w+)(?::[^\n]*)?\n")


def blocks():
    return BLOCK.findall(PAGE.read_text())


def commands():
    """Pairs of a command and the text that the page shows for it, or None."""
    found = []
    for kind, text in blocks():
        if kind == "sh":
            found.append([text, None])
        elif kind == "text":
            assert found[-1][1] is None, "two blocks `text` follow one command"
            found[-1][1] = text
    return found


def matches(shown, printed):
    """Whether `printed` is the text `shown`, where `...` stands for anything."""
    text, rest = shown.rstrip(), ""
    if text.endswith("\n..."):  # further lines, or none
        text, rest = text[:-4], r"(?:\n.*)?"
    pattern = re.escape(text).replace(re.escape("..."), ".*") + rest
    return re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The folder with `nereid`, the C++ library installed beside it: the wheel's, or what this build folder installs."""
    if (PACKAGE / "bin" / "nereid").exists():
        return PACKAGE / "bin"
    build = PACKAGE.parents[1]
    if not (build / "cmake_install.cmake").exists():
        pytest.skip(f"no command line: neither {PACKAGE}/bin nor a build folder at {build}")
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", build, "--prefix", prefix, "--component", "cpp"], check=True, capture_output=True)
    return prefix / "bin"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tutorial")
    for kind, text in blocks():
        if kind not in ("sh", "text"):
            (folder / FILE_NAME.match(text)[1]).write_text(text)
    return folder


def test_every_block_is_a_file_or_a_command():
    kinds = [kind for kind, _ in blocks()]
    assert set(kinds) == {"python", "cpp", "cmake", "sh", "text"}
    assert PAGE.read_text().count("```") == 2 * len(kinds)
    names = [FILE_NAME.match(text) for kind, text in blocks() if kind not in ("sh", "text")]
    assert all(names) and len({name[1] for name in names}) == len(names)
    everything = "".join(command for command, _ in commands())
    used = {name[1] for name in names} - {"boxes.py", "embedded.cpp", "loaded.cpp", "CMakeLists.txt"}  # these are built by one command
    assert "cmake --build" in everything and all(name in everything for name in used)


def test_what_counts_as_shown():
    assert matches("a\n...\nd\n", "a\nb\nc\nd\n") and matches("x ... z\n", "x 1 z\n")
    assert matches("a\n...\n", "a\n") and matches("a\n...\n", "a\nb\n") and not matches("a\n...\n", "ab\n")
    assert not matches("a\n...\nd\n", "a\nb\n") and not matches("a\n", "a\nb\n") and not matches("a.c", "abc")


def run(command, target, folder, programs):
    """What a command of a page prints, run in a folder as a reader runs it."""
    interpreter = folder / "bin" / "python"  # the one of this test
    interpreter.parent.mkdir(exist_ok=True)
    interpreter.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    interpreter.chmod(0o755)
    environment = {**os.environ, "PATH": f"{interpreter.parent}:{programs}:{os.environ['PATH']}"}
    environment.pop("NEREID_TARGET", None)  # a kernel runs where its tensors are
    if target == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    result = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=environment, capture_output=True, text=True,
                            timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("command, shown", commands(), ids=[command.splitlines()[0].strip()[:40] for command, _ in commands()])
def test_commands(command, shown, target, folder, programs):
    if "cmake" in command and not shutil.which("cmake"):
        pytest.skip("CMake is not installed (requirements-dev.txt has it)")
    shutil.rmtree(folder / "build", ignore_errors=True)
    printed = run(command, target, folder, programs)
    if shown is not None:
        assert matches(shown, printed), f"the page shows\n{shown}\nand this is printed:\n{printed}"


def test_first_kernel_of_the_readme(target, tmp_path, programs):
    part = (ROOT / "README.md").read_text().split("## A first kernel")[1].split("\n## ")[0]
    found = BLOCK.findall(part)
    (tmp_path / "first.py").write_text(next(text for kind, text in found if kind == "python"))
    assert run("python first.py", target, tmp_path, programs) == "True\n"
    explained, compiled = next(text for kind, text in found if kind == "").splitlines()
    assert "load 256xfp32 of `x_ptr`: 4 bytes a thread" in run(explained, target, tmp_path, programs)
    assert ".entry add_kernel(" in run(compiled, target, tmp_path, programs)
