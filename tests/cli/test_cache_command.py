"""`nereid cache`."""

import json
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from test_cli import SEED, fails, nereid  # noqa: E402


@pytest.fixture
def cached(tmp_path):
    """Runs a command with a cache of its own, which holds one kernel."""
    variables = {"NEREID_CACHE": "1", "NEREID_CACHE_DIR": str(tmp_path)}
    done = nereid("compile", SEED, "--kernel", "add_kernel", "--signature", "*fp32:16, *fp32:16, *fp32:16, i32, 1024", "--emit", "obj",
                  "-o", tmp_path / "add.o", **variables)
    assert done.returncode == 0, done.stderr
    return lambda *arguments, **more: nereid("cache", *arguments, **{**variables, **more})


def test_show(cached, tmp_path):
    lines = cached().stdout.splitlines()
    assert lines[0] == f"{tmp_path}/kernels: in use"
    assert lines[1].startswith("add_kernel ") and " cpu " in lines[1] and lines[1].endswith("*fp32:16, *fp32:16, *fp32:16, i32, 1024")
    assert lines[2].startswith("1 kernel, 0 results of tuning, ") and lines[2].endswith(" of 2048.0 MiB")
    assert cached("show").stdout.splitlines()[1].split()[:2] == ["add_kernel", "cpu"]
    assert cached("path").stdout == f"{tmp_path}/kernels\n"
    report = json.loads(cached("show", "--json").stdout)
    kernel = [row for row in report["entries"] if row["kind"] == "kernel"]
    assert [row["function"] for row in kernel] == ["add_kernel"] and report["damaged"] == []
    assert report["state"] == "usable" and report["limit"] == 2048 << 20


def test_states(cached, tmp_path):
    folder = tmp_path / "kernels"
    assert "switched off by NEREID_CACHE=0" in cached(NEREID_CACHE="0").stdout
    assert "made by the first kernel" in cached(NEREID_CACHE_DIR=str(tmp_path / "other")).stdout
    folder.chmod(0o755)
    assert "not used: it must belong to this user and have mode 0700" in cached().stdout
    folder.chmod(0o700)
    assert "in use" in cached("--folder", str(folder), NEREID_CACHE_DIR="/nowhere").stdout


def test_a_link_is_not_followed(cached, tmp_path):
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "kernels").symlink_to(tmp_path / "kernels")
    done = nereid("compile", SEED, "--kernel", "add_kernel", "--signature", "*fp32, *fp32, *fp32, i32, 512", "-o", tmp_path / "add.s",
                  NEREID_CACHE="1", NEREID_CACHE_DIR=str(tmp_path / "linked"))
    assert done.returncode == 0
    assert done.stderr == (f"warning: compiled kernels are not kept: cannot write below `{tmp_path}/linked/kernels`: it is a link, which is "
                           "not followed\n")
    assert "not used: it is no folder, or a link, or it cannot be opened" in cached(NEREID_CACHE_DIR=str(tmp_path / "linked")).stdout


def test_verify_and_clear(cached, tmp_path):
    done = cached("verify")
    assert done.returncode == 0 and "are whole, 0 are damaged, 0 being written" in done.stdout
    file = next(path for path in (tmp_path / "kernels").glob("*/*") if path.stat().st_size > 500)
    file.write_bytes(file.read_bytes()[:-1])
    done = cached("verify")
    assert done.returncode == 1 and f"damaged, and not used: {file}" in done.stdout
    assert cached("verify", "--json").returncode == 1
    assert cached().stdout.splitlines()[-1].endswith(", 1 damaged")
    assert cached("clear").stdout == "1 entry removed\n"
    assert json.loads(cached("clear", "--json").stdout) == {"removed": 0, "left": 0}
    assert cached().stdout.splitlines()[-1].startswith("0 kernels, ")


def test_clearing_what_is_not_ours(cached, tmp_path):
    (tmp_path / "kernels").chmod(0o755)
    done = cached("clear")
    assert done.returncode == 1
    assert done.stdout == f"0 entries removed\n{tmp_path}/kernels: not used: it must belong to this user and have mode 0700\n"
    assert list((tmp_path / "kernels").glob("*/*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_clearing_what_is_read_only(cached, tmp_path):
    (folder, ) = (tmp_path / "kernels").glob("??")
    folder.chmod(0o500)
    done = cached("clear")
    assert done.returncode == 1
    assert done.stdout.splitlines()[1] == (f"{tmp_path}/kernels: 1 entry is still there: the folder cannot be written, or is written by "
                                           "another process")
    assert json.loads(cached("clear", "--json").stdout) == {"removed": 0, "left": 1}
    folder.chmod(0o700)


def test_wrong_command_lines():
    fails(2, "error: `nereid cache` cannot use the argument `clean`", "cache", "clean")
    fails(2, "error: `nereid cache` cannot use the argument `more`", "cache", "clear", "more")


def test_pipe_in_place_of_an_entry(cached, tmp_path):
    """Nobody waits for a writer: the entry is damaged, and the kernel is compiled again."""
    entry, = [row["path"] for row in json.loads(cached("show", "--json").stdout)["entries"] if row["kind"] == "kernel"]
    path = pathlib.Path(entry) if entry.startswith("/") else tmp_path / "kernels" / entry
    path.unlink()
    os.mkfifo(path)
    again = nereid("compile", SEED, "--kernel", "add_kernel", "--signature", "*fp32:16, *fp32:16, *fp32:16, i32, 1024", "--emit", "obj",
                   "-o", tmp_path / "again.o", NEREID_CACHE="1", NEREID_CACHE_DIR=str(tmp_path))
    assert again.returncode == 0, again.stderr
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert cached("verify").returncode in (0, 1)


def test_entry_that_others_can_write(cached, tmp_path):
    row, = [row for row in json.loads(cached("show", "--json").stdout)["entries"] if row["kind"] == "kernel"]
    path = pathlib.Path(row["path"]) if row["path"].startswith("/") else tmp_path / "kernels" / row["path"]
    for mode in (0o620, 0o602, 0o666):
        path.chmod(mode)
        report = json.loads(cached("show", "--json").stdout)
        assert report["damaged"] == [row["path"]], oct(mode)
    path.chmod(0o644)
    assert json.loads(cached("show", "--json").stdout)["damaged"] == []
