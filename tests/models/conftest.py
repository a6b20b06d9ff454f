"""Tests of models of `transformers` on `nereid.ops` and of `nereid.models`; the models are those of examples/models."""

import pathlib
import sys

import pytest

pytest.importorskip("transformers", reason="needs transformers (requirements-dev.txt)")

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
sys.path[:0] = [str(EXAMPLES / "models"), str(EXAMPLES / "inference")]


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """Every test begins and ends with ATen's kernels. What was measured on some machine decides nothing."""
    import nereid.ops
    monkeypatch.setattr(nereid.knobs.nereid, "ops_routing", False)
    nereid.ops.disable()
    nereid.ops.report(clear=True)
    yield
    nereid.ops.disable()
