"""Tests of `nereid.ops`. What PyTorch's samples (`op_db`) reach is parametrised by operator and dtype: `opinfo.py` beside it.

    pytest tests/ops                              everything
    pytest tests/ops --every 25 --first $SEED     a sample, as CI takes it (scripts/test.sh; NEREID_TEST_SEED)
    pytest tests/ops -k gelu
"""

import pytest
from operators_off import restored


def pytest_generate_tests(metafunc):
    if "row" not in metafunc.fixturenames:
        return
    import opinfo
    from table import BACKWARD, OPINFOS
    device = "cpu"
    rows = opinfo.rows(OPINFOS)
    if not metafunc.definition.get_closest_marker("floats"):
        rows = [row for row in rows if row.operator not in BACKWARD]
    if "dtype" in metafunc.fixturenames:
        floats = metafunc.definition.get_closest_marker("floats")
        cases = [(row, dtype) for row in rows for dtype in row.dtypes(device) if not floats or str(dtype)[6:] in floats.args]
        cases = [(row, dtype) for row, dtype in cases if not floats or row.info.supports_autograd]
        metafunc.parametrize("row,dtype", cases, ids=[f"{row.name}-{str(dtype)[6:]}" for row, dtype in cases])
    else:
        metafunc.parametrize("row", rows, ids=[row.name for row in rows])


def pytest_configure(config):
    config.addinivalue_line("markers", "floats(*names): only for operators with a gradient, and these dtypes")


@pytest.fixture
def target(request):
    """The type of device that tensors are on. Unlike in other tests, tensors of the host stay there: operators work on both in one call."""
    return request.param
