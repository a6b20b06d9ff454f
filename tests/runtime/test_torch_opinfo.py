"""tests/torch_opinfo/run.py: a sample of each operator, results that a later run goes on with, what fails here and not elsewhere."""

import argparse
import importlib
import json
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="PyTorch's compiler is what is tested")

RUN = pathlib.Path(__file__).parents[1] / "torch_opinfo" / "run.py"


def run(file, *options):
    done = subprocess.run([sys.executable, RUN, "--results", file, *options], capture_output=True, text=True, timeout=1500)
    return done.returncode, done.stdout, done.stderr


def records(file):
    return [json.loads(line) for line in file.read_text().splitlines()[1:]]


def test_goes_on_where_it_ended(tmp_path):
    file = tmp_path / "results.jsonl"
    options = ("--operators", "^(sub|fmax)$", "--jobs", "2", "--seed", "3", "--samples", "2", "--timeout", "500")
    status, out, _ = run(file, *options, "--samples", "1")
    first = records(file)
    assert status == 0 and "2 operators, 4 with dtypes, 4 samples: 4 passed" in out and "no sample fails" in out
    assert all(record["round"] == 0 for record in first)
    file.write_text(file.read_text() + '{"operator": "ad')  # a run that was killed
    assert run(file, *options)[0] == 0
    both = records(file)
    assert both[:4] == first and len(both) == 8 and all(record["round"] == 1 for record in both[4:])
    assert len({(record["operator"], record["dtype"], record["sample"]) for record in both}) == len(both), "each sample once"
    status, _, errors = run(file, *options, "--seed", "4")
    assert status == 2 and "take another file" in errors
    assert records(file) == both


def test_order(monkeypatch):
    """A sample of each operator, with each of its dtypes, before a second sample."""
    monkeypatch.syspath_prepend(RUN.parent)
    tasks = importlib.import_module("run").tasks_of
    options = argparse.Namespace(operators="", shard="1/1", seed=None, dtypes="float32,int64", samples=2)
    known = {"a": ["float32", "int64"], "b": ["int64"], "c": ["bool"]}
    once = [("a", "float32"), ("b", "int64"), ("a", "int64")]
    assert tasks(known, options) == [(*pair, round_) for round_ in (0, 1) for pair in once]
    options.seed, options.shard = 1, "2/2"
    assert tasks(known, options) == [("b", "int64", 0), ("b", "int64", 1)]
    del sys.modules["run"]


def test_failures_run_with_the_reference(tmp_path):
    """Atomic additions of bytes are refused in the language; PyTorch's C++ has them."""
    file = tmp_path / "results.jsonl"
    options = ("--operators", "^(index_add|neg)$", "--dtypes", "uint8", "--samples", "1", "--timeout", "500")
    status, out, _ = run(file, *options, "--reference", "none")
    found = {(record["operator"], "reference" in record): record["outcome"] for record in records(file)}
    assert found == {("index_add", False): "error", ("index_add", True): "passed", ("neg", False): "passed"}
    assert status == 1 and "1 samples fail: 0 with none, too, 1 only here, 0 not compared" in out
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if '"reference": "none", "sample"' not in line))  # a run that ended before the reference's turn
    assert len(records(file)) == 2
    assert run(file, *options, "--reference", "none")[0] == 1
    assert len(records(file)) == 3


def test_a_run_ends_in_time(tmp_path):
    status, _, errors = run(tmp_path / "results.jsonl", "--operators", "^neg$", "--minutes", "0.001")
    assert status == 2 and "nothing ran in 0.001 minutes" in errors


def test_options_that_do_not_fit(tmp_path):
    status, _, errors = run(tmp_path / "results.jsonl", "--reference", "triton")
    assert status == 2 and "Triton is for --device cuda" in errors


def test_roundings_between_operators(monkeypatch):
    """PyTorch's compiler does not round the bf16 sums that their minimum is compared with, so that its gradient is 0 / 0; other wrong results remain wrong."""
    import torch
    monkeypatch.syspath_prepend(RUN.parent)
    is_rounding = importlib.import_module("samples")._is_rounding
    values = {"exact": [[1.0, 2.0], [4.0, 8.0]], "rounded": [[1.0, 1 / 256], [4.0, 8.0]]}  # bf16 has 8 bits: the sum 1 + 1/256 is rounded

    def smallest(x):
        return torch.linalg.matrix_norm(x, float("-inf"))

    def run_on(rows):

        def run(called):
            x = torch.tensor(values[rows], dtype=torch.bfloat16, requires_grad=True)
            result = called(x)
            return result, [result.detach(), *torch.autograd.grad(result, x)]

        return run

    undefined = torch.full((2, 2), float("nan"), dtype=torch.bfloat16)
    for rows in values:
        run = run_on(rows)
        result, gradient = run(smallest)[1]
        assert gradient.tolist() == [[1, 1], [0, 0]]
        assert is_rounding(run, smallest, [result, undefined], "bfloat16") == (rows == "rounded")
        assert is_rounding(run, smallest, [result, gradient], "bfloat16") == (rows == "exact")
        assert not is_rounding(run, smallest, [result, 0 * gradient], "bfloat16")
        assert not is_rounding(run, smallest, [result], "bfloat16")
