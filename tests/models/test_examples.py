"""examples/models: a training step of each model on `nereid.ops`, with logits and gradients as good as ATen's."""

import re
import runpy
import subprocess
import sys

import compare
import pytest
import torch
import zoo
from conftest import EXAMPLES

#: Calls with floating-point tensors that ATen computes: a running sum of floats as integers; numbers that older versions of transformers draw, which on CPUs are ATen's.
LEFT = {"mixtral": 2, "whisper": 4}


@pytest.mark.parametrize("name", zoo.MODELS)
def test_step(name):
    # Six models: with two, the error of ATen in one gradient differed by half between kinds of CPUs, as its libraries add in another order; with six the worst gradient has 0.8 of what is allowed.
    result = compare.compared(lambda seed: zoo.made(name, "tiny", torch.float32, seed=seed, dropout=False), torch.float32, seeds=6)
    assert result.total > 400
    assert result.total - result.served <= LEFT.get(name, 0)
    assert result.holds, (result.worst, result.mine[result.worst], result.atens[result.worst])


def test_step_in_bf16():
    result = compare.compared(lambda seed: zoo.made("llama-3", "tiny", torch.bfloat16, seed=seed, dropout=False), torch.bfloat16, seeds=2)
    assert result.served == result.total
    assert 1e-4 < result.mine["logits"] < 0.02
    assert result.holds, (result.worst, result.mine[result.worst], result.atens[result.worst])


def test_reference_is_in_double():
    """Models convert to fp32 by themselves; the reference must not, or it has the errors of what it judges."""
    model, inputs = zoo.made("llama-2", "tiny", torch.float32, dropout=False)
    exact = compare.reference(model, inputs)
    assert exact.logits.dtype == torch.float64 and exact.loss.dtype == torch.float64
    x = torch.tensor([1.0, 2.0], dtype=torch.float64) / 3
    with compare.InDouble():
        for same in (x.float(), x.to(torch.float32), x.to(dtype=torch.float32), torch.softmax(x, 0, dtype=torch.float32)):
            assert same.dtype == torch.float64


def test_rule_refuses_a_wrong_gradient():
    make = lambda seed: zoo.made("llama-2", "tiny", torch.float32, seed=seed, dropout=False)  # noqa: E731
    exact = compare.reference(*make(0))
    theirs = compare.step(*make(0))
    wrong = compare.Step(theirs.loss, theirs.logits, dict(theirs.gradients))
    name = "model.layers.1.mlp.up_proj.weight"
    wrong.gradients[name] = wrong.gradients[name] * (1 + 1e-5)
    result = compare.Comparison(torch.float32, compare.errors(wrong, exact), compare.errors(theirs, exact), 1, 1, {})
    assert result.worst == name and not result.holds


def test_choice_of_models():
    assert zoo.chosen(["llama"]) == ["llama-2", "llama-3"]
    assert zoo.chosen(["mamba"]) == ["mamba"]
    assert zoo.chosen([]) == list(zoo.MODELS)
    with pytest.raises(ValueError, match="no model `lama`: expected a beginning of bert, llama-2"):
        zoo.chosen(["lama"])


def test_command(capsys):
    main = runpy.run_path(str(EXAMPLES / "models" / "__main__.py"))["main"]
    assert main(["--model", "mixtral", "--device", "cpu", "--size", "tiny", "--seeds", "2", "--left"]) == 0
    printed = capsys.readouterr().out
    assert (counts := re.search(r"^mixtral +(\d+)/(\d+)  99.7 %", printed, re.MULTILINE)) and int(counts[2]) - int(counts[1]) == 2 and int(counts[2]) > 600, printed
    assert "left to ATen: cumsum: dtype (2)" in printed
    with pytest.raises(SystemExit):
        main(["--model", "lama"])
    assert "no model `lama`" in capsys.readouterr().err


def test_command_by_its_folder():
    """`python examples/models` finds its modules."""
    run = subprocess.run([sys.executable, str(EXAMPLES / "models"), "--seeds", "0"], capture_output=True, text=True)
    assert run.returncode == 2 and "--seeds 0: expected 1 or more" in run.stderr
