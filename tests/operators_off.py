"""What tests of operators share: `restored`. A `conftest.py` imports it, and it holds for the tests beside that."""

import pytest


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """Every test begins and ends with ATen's kernels. What was measured on some machine decides nothing."""
    import nereid.ops
    monkeypatch.setattr(nereid.knobs.nereid, "ops_routing", False)
    nereid.ops.disable()
    nereid.ops.report(clear=True)
    yield
    nereid.ops.disable()
