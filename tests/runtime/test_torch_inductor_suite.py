"""tests/torch_inductor/run.py, on a folder that looks like PyTorch's sources."""

import json
import pathlib
import runpy
import subprocess
import sys
import types

import pytest

pytest.importorskip("torch", reason="PyTorch's compiler is what is tested")

RUN = pathlib.Path(__file__).parents[1] / "torch_inductor" / "run.py"

SHARED = """
import os, unittest
import torch
from torch._inductor.compile_fx import compile_fx, a_name_of_another_release

def is_triton_cpu_backend(device):
    return torch._inductor.config.cpu_backend == "triton"

class Tests:
    def test_good(self):
        x = torch.arange(40.0)
        torch.testing.assert_close(torch.compile(lambda x: torch.sin(x) + 1)(x), torch.sin(x) + 1)

    def test_other_release(self):
        a_name_of_another_release()

    def test_bad_everywhere(self):
        self.assertEqual(1, 2)

    def test_bad_here(self):
        self.assertFalse(self.triton)

    def test_marked(self):
        if is_triton_cpu_backend("cpu"):
            raise unittest.SkipTest("Triton CPU does not support this")
        self.test_good()

    def test_crash(self):
        if self.triton:
            os.abort()

class CpuTests(Tests, unittest.TestCase):
    triton = False
"""

BACKEND = """
import unittest
import test_torchinductor
import triton
from torch._inductor import config

@config.patch(cpu_backend="triton")
class Base(unittest.TestCase):
    triton = "cpu" in triton.backends.backends

class CpuTritonTests(test_torchinductor.Tests, Base):
    pass
"""


def run(*arguments):
    return subprocess.run([sys.executable, RUN, *arguments], capture_output=True, text=True, timeout=1500)


def test_outcomes(tmp_path):
    folder = tmp_path / "test" / "inductor"
    folder.mkdir(parents=True)
    (folder / "test_torchinductor.py").write_text(SHARED)
    (folder / "test_triton_cpu_backend.py").write_text(BACKEND)
    file = tmp_path / "results.jsonl"
    done = run(tmp_path, "--results", file)
    records = [json.loads(line) for line in file.read_text().splitlines()]
    found = {(record["test"].removeprefix("CpuTritonTests.test_"), record["compiler"]): record["outcome"] for record in records}
    assert found == {("good", "nereid"): "passed", ("other_release", "nereid"): "skipped", ("bad_everywhere", "nereid"): "failed", ("bad_everywhere", "cpp"): "failed", ("bad_here", "nereid"): "failed",
                     ("bad_here", "cpp"): "passed", ("crash", "nereid"): "crash", ("crash", "cpp"): "passed", ("marked", "nereid"): "skipped"}, done.stderr  # yapf: disable
    assert done.returncode == 1 and "3 tests fail, 2 of them only here" in done.stdout and "6 tests: 1 passed, 2 failed, 1 crash" in done.stdout
    file.write_text("".join(json.dumps(record) + "\n" for record in records if record["test"] != "CpuTritonTests.test_good") + '{"te')
    done = run(tmp_path, "--results", file, "--marked")
    left = [json.loads(line) for line in file.read_text().splitlines()][len(records) - 1:]
    assert sorted((record["test"].removeprefix("CpuTritonTests.test_"), record["outcome"], record.get("marked")) for record in left) == [("good", "passed", None), ("marked", "passed", "Triton CPU does not support this")]
    assert done.returncode == 1 and "5 tests: 1 passed" in done.stdout and "1 tests that PyTorch skips with Triton on CPUs: 1 passed" in done.stdout


def test_shards(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*map(str, (RUN.parent, RUN.parents[1] / "torch_opinfo")), *sys.path])
    runner = runpy.run_path(RUN)
    tests = [str(number) for number in range(10)]
    parts = [runner["part"](list(tests), 5, number, 3) for number in (1, 2, 3)]
    assert sorted(sum(parts, [])) == tests and max(map(len, parts)) == 4 and sum(parts, []) != tests
    assert parts == [runner["part"](list(tests), 5, number, 3) for number in (1, 2, 3)]
    for text in ("3/2", "0/2", "half"):
        assert f"'{text}' is not K/N" in run(tmp_path, "--shard", text).stderr


def test_what_is_left(tmp_path, monkeypatch):
    """A failure is run with C++ if that was not done and the test is asked for; a marked test without its mark's record."""
    monkeypatch.setattr(sys, "path", [*map(str, (RUN.parent, RUN.parents[1] / "torch_opinfo")), *sys.path])
    runner = runpy.run_path(RUN)
    records = [{"test": name, "compiler": "nereid", "outcome": outcome, "reason": reason} for name, outcome, reason in
               (("bad", "failed", ""), ("elsewhere", "failed", ""), ("known", "crash", ""), ("mark", "skipped", "Triton CPU crashes"), ("gpu", "skipped", "requires gpu"))]  # yapf: disable
    records.append({"test": "known", "compiler": "cpp", "outcome": "passed"})
    for marked, left in ((False, [("bad", True), ("new", False)]), (True, [("bad", True), ("mark", False), ("new", False)])):
        run = runner["Run"](types.SimpleNamespace(minutes=1, results=tmp_path / "results.jsonl", marked=marked))
        with run.file:
            run.fill(["bad", "known", "mark", "gpu", "new"], records)
        assert list(run.queue) == left


def test_no_sources(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 2 and "give a folder with PyTorch's sources" in done.stderr
