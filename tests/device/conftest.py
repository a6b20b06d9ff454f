"""Fixtures of the tests that need a GPU."""

import os

import pytest
from targets import launches_on


@pytest.fixture(params=["cuda"])
def on_gpu(request):
    """Launches as users make them, with tensors of the device; skipped where there is none unless it was asked for."""
    import torch
    from nereid.runtime import driver
    if driver.get_active_gpus() == [] or not torch.cuda.is_available():
        if "cuda" in (request.config.getoption("--target") or os.environ.get("NEREID_TEST_TARGETS", "").split(",")):
            driver.set_active_to_gpu()  # raises, and says what is missing
        pytest.skip("no GPU is usable here")
    with launches_on(""):
        yield
