"""Models of `transformers` on `nereid.ops`: what they call is served, and losses and gradients are ATen's (scripts/record_model_calls.py)."""

import importlib.util
import pathlib

import pytest
import torch

pytest.importorskip("transformers", reason="needs transformers (requirements-dev.txt)")

PATH = pathlib.Path(__file__).parents[2] / "scripts" / "record_model_calls.py"
_spec = importlib.util.spec_from_file_location("record_model_calls", PATH)
models = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(models)


@pytest.mark.parametrize("name", models.MODELS)
def test_calls_are_registered(name):
    """All calls with floating-point tensors but convolutions and grouped products."""
    found = models.recorded(name, torch.float32)
    assert sum(calls for calls, _ in found.values()) > 1000
    missing = [overload for overload in found if models.state(overload) == "missing"]
    assert {overload.partition(".")[0] for overload in missing} <= {"convolution", "convolution_backward", "_grouped_mm"}


@pytest.mark.parametrize("name", ["llama"])
def test_losses_and_gradients(name):
    loss, gradient, rows = models.compared(name, torch.float32)
    assert loss < 1e-5 and gradient < 1e-5
    left = sum(row.calls for row in rows if row.route != "nereid")
    assert left < 0.05 * sum(row.calls for row in rows)
