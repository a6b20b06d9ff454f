"""The language tests without running their kernels: `--ptx FOLDER` compiles every launch for a GPU, which need not be there, and
leaves the de-duplicated PTX in the folder for `scripts/assemble_ptx.py`. A test then fails only when a kernel does not compile."""

import pytest

import harness


def pytest_addoption(parser):
    group = parser.getgroup("nereid")
    group.addoption("--ptx", metavar="FOLDER", help="compile for a GPU instead of running, and write the PTX to this folder")
    group.addoption("--ptx-target", metavar="TARGET", default="cuda:90", help="which GPU (default: cuda:90)")
    group.addoption("--ptx-every", metavar="N", type=int, default=1, help="take every Nth test only")


def pytest_configure(config):
    if config.getoption("--ptx", None):
        harness.compile_only(config.getoption("--ptx"), config.getoption("--ptx-target"))


def pytest_collection_modifyitems(config, items):
    if config.getoption("--ptx", None):
        # Checked mode is the CPU's.
        mine = [item for item in items if "test_checked" not in item.nodeid]
        items[:] = mine[::config.getoption("--ptx-every")]


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    if not pyfuncitem.config.getoption("--ptx", None):
        return (yield)
    if "target" in pyfuncitem.funcargs:
        pyfuncitem.funcargs["target"] = "cuda"  # for tests that expect different things of GPUs
    compiled = harness.compiled_launches()
    try:
        return (yield)
    except (Exception, pytest.fail.Exception) as error:
        # Nothing ran, so results are wrong; what did not compile is the one thing that counts.
        if harness.compiled_launches() == compiled or error is harness.refusal():
            raise
        return True
