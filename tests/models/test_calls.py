"""scripts/record_model_calls.py: what models call, updates in all forms included, is registered."""

import importlib.util
import pathlib

import pytest
import torch

pytest.importorskip("transformers", reason="needs transformers (requirements-dev.txt)")

PATH = pathlib.Path(__file__).parents[2] / "scripts" / "record_model_calls.py"
_spec = importlib.util.spec_from_file_location("record_model_calls", PATH)
models = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(models)


@pytest.mark.parametrize("name", ["mixtral", "whisper"])
def test_calls_are_registered(name):
    found = models.recorded(name, torch.float32)
    assert sum(calls for calls, _ in found.values()) > 1000
    missing = [overload for overload in found if models.state(overload) == "missing"]
    assert not missing


def test_command(capsys):
    assert models.main(["llama-2", "--dtypes", "fp32", "--run"]) is None
    printed = capsys.readouterr().out
    assert "llama-2  fp32" in printed and "100.0 %" in printed and "calls of registered overloads ran in nereid.ops" in printed
    with pytest.raises(SystemExit):
        models.main(["lama"])
    assert "no model `lama`" in capsys.readouterr().err
