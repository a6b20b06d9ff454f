"""Kernels as authors of Triton libraries write them: every test runs on every target, against PyTorch in float64."""

import nereid.testing
import pytest
import torch


@pytest.fixture(autouse=True)
def reproducible():
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def tuned_quickly(monkeypatch):
    """Tuners run each configuration once: what is chosen is not tested here."""

    def once(call, warmup, rep):
        call()
        return [1.0]

    monkeypatch.setattr(nereid.testing, "_times_on_cpu", once)
