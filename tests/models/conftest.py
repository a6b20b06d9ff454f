"""Tests of models of `transformers` on `nereid.ops` and of `nereid.models`; the models are those of examples/models."""

import pathlib
import sys

import pytest
from operators_off import restored

pytest.importorskip("transformers", reason="needs transformers (requirements-dev.txt)")

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
sys.path[:0] = [str(EXAMPLES / "models"), str(EXAMPLES / "inference")]
