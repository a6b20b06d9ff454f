"""What every Python test can ask for."""

import pytest


@pytest.fixture(params=["cpu"])
def target(request):
    """The target that kernels run on: a test that takes it runs once on each."""
    return request.param
