"""What every Python test can ask for: `target`, and which targets there are.

A test that takes the fixture `target` runs once on each target of this machine, or on those that `--target NAME` (repeatable) or
NEREID_TEST_TARGETS="cpu,cuda" ask for; one that was asked for and cannot be used is an error, never a skip.
`@pytest.mark.cpu_only("why")` says that a test is about the CPU target. A test that needs a GPU and shows it by itself (streams,
processes) takes `gpu`; its launches run where their arguments are, as a user's do. Everything else, child processes included, runs on the CPU.

`--target aarch64` runs the launches of such tests in an emulator (`emulated.py`); to tests it is the target `cpu`.

`--ptx FOLDER` compiles the launches of such tests for a GPU instead of running them (`compile_only.py`). `--mode checked` and
`--mode debug` run them in checked and in debug mode (`launch_modes.py`).
"""

import os

import compile_only
import launch_modes
import pytest
from targets import launches_on, package

os.environ.setdefault("NEREID_TARGET", "cpu")
# Child processes in other folders import the package that is tested, not one that is installed.
if os.environ.get("PYTHONPATH"):
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(folder) for folder in os.environ["PYTHONPATH"].split(os.pathsep))
# Tests compile and tune: nothing is taken from the user's cache or kept there. Tests of the cache switch it on for a folder of their own.
# With NEREID_TEST_CACHE=FOLDER all of them use that one: a second run tests what kernels from disk do.
os.environ["NEREID_CACHE"] = "0"
if os.environ.get("NEREID_TEST_CACHE"):
    os.environ.update(NEREID_CACHE="1", NEREID_CACHE_DIR=os.environ["NEREID_TEST_CACHE"])
os.environ.setdefault("NEREID_TUNING_CACHE", "0")
# Where these are set, pytest prints every difference of two long lists, and with `--ptx`, where results are never right, it works on
# them for minutes.
for name in ("CI", "BUILD_NUMBER"):
    os.environ.pop(name, None)


def pytest_addoption(parser):
    parser.addoption("--target", action="append", choices=["cpu", "cuda", "aarch64"], help="a target to test, by default every one here")
    group = parser.getgroup("nereid")
    group.addoption("--ptx", metavar="FOLDER", help="compile for a GPU instead of running, and write the PTX to this folder")
    group.addoption("--ptx-target", metavar="TARGET", default="cuda:90", help="which GPU, or cpu for object files (default: cuda:90)")
    group.addoption("--mode", choices=sorted(launch_modes.MODES), help="run every launch in this mode, results compared as always")
    group.addoption("--every", metavar="N", type=int, default=1, help="take every Nth test only")
    group.addoption("--each-function", action="store_true", help="with --every: and at least one test of each function")
    group.addoption("--first", metavar="K", type=int, default=0, help="the first of them, counted from 0 (any number: modulo N)")


def pytest_configure(config):
    config.addinivalue_line("markers", "cpu_only(why): a test about the CPU target")
    config.addinivalue_line("markers", "overflows(why): its integers wrap on purpose: `--mode debug` does not check for overflow")
    config.addinivalue_line("markers", "not_emulated(why): not run with `--target aarch64`")
    config.addinivalue_line("markers", "not_in_mode(mode, why): not run with `--mode MODE`")
    if config.getoption("--ptx"):
        compile_only.install(config.getoption("--ptx"), config.getoption("--ptx-target"))
    if config.getoption("--mode"):
        launch_modes.install()


def pytest_report_header():
    return f"nereid: {package()}"


def pytest_collection_modifyitems(config, items):
    for item in items:
        if " at 0x" in item.nodeid:  # another name in every process: the processes of a run would not agree on the tests
            raise pytest.UsageError(f"{item.nodeid}: the name of a test has an address in it: give its parameters `ids`")
    if config.getoption("--ptx"):
        # What is not about a target, and checked mode, which is the CPU's, have nothing to compile.
        items[:] = [item for item in items if "target" in item.fixturenames and "test_checked" not in item.nodeid
                    and not item.get_closest_marker("cpu_only")]
    if mode := config.getoption("--mode"):
        items[:] = [item for item in items if "target" in item.fixturenames and not launch_modes.reason_against(mode, item)]
    items[:] = _sample(items, max(1, config.getoption("--every")), config.getoption("--first"), config.getoption("--each-function"))


def _sample(items, every, first, each_function):
    """Every Nth item; with `each_function` also one of each test function that has none among these, another one with another `first`."""
    taken = set(range(first % every, len(items), every))
    if each_function:
        of = {}
        for index, item in enumerate(items):
            of.setdefault(item.nodeid.partition("[")[0], []).append(index)
        taken.update(indices[first % len(indices)] for indices in of.values() if taken.isdisjoint(indices))
    return [item for index, item in enumerate(items) if index in taken]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if mode := item.config.getoption("--mode"):
        launch_modes.enter(mode, item)
    try:
        return (yield)
    finally:
        launch_modes.leave()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    if not pyfuncitem.config.getoption("--ptx"):
        return (yield)
    # For tests that expect different things of GPUs.
    pyfuncitem.funcargs["target"] = pyfuncitem.config.getoption("--ptx-target").partition(":")[0]
    compile_only.test = pyfuncitem.nodeid
    compiled = compile_only.launches
    try:
        return (yield)
    except (Exception, pytest.fail.Exception) as error:
        # Nothing ran, so results are wrong; what did not compile is the one thing that counts.
        if compile_only.launches == compiled or error is compile_only.refusal:
            raise
        return True


def _targets(config):
    """The targets to test, and whether they were asked for."""
    asked = config.getoption("--target") or [name for name in os.environ.get("NEREID_TEST_TARGETS", "").split(",") if name]
    if config.getoption("--mode") == "checked":
        if "cuda" in asked:
            raise pytest.UsageError("checked mode is the CPU's: `--mode checked` takes no `--target cuda`")
        return ["cpu"], False
    if asked:
        return list(dict.fromkeys(asked)), True
    from nereid import _native
    usable = _native.device_count() > 0
    if usable:
        import torch
        usable = torch.cuda.is_available()
    return ["cpu", "cuda"] if usable else ["cpu"], False


def pytest_generate_tests(metafunc):
    if "target" not in metafunc.fixturenames:
        return
    targets, asked = _targets(metafunc.config)
    if asked and "cuda" in targets:
        from nereid import _native
        try:
            _native.check_cuda()
        except Exception as missing:
            raise pytest.UsageError(f"the target `cuda` was asked for: {missing}") from missing
    if mark := metafunc.definition.get_closest_marker("cpu_only"):
        if len(mark.args) != 1:
            raise pytest.UsageError(f"{metafunc.definition.nodeid}: say why it is for the CPU: @pytest.mark.cpu_only(\"...\")")
        targets = [name for name in targets if name == "cpu"]
    if metafunc.definition.get_closest_marker("not_emulated"):
        targets = [name for name in targets if name != "aarch64"]
    metafunc.parametrize("target", targets, indirect=True)


@pytest.fixture
def target(request, monkeypatch):
    """The target that kernels run on: a test that takes it runs once on each."""
    if request.param == "cuda":
        import device_arrays
        device_arrays.install(monkeypatch)
    if request.param == "aarch64":
        import emulated
        emulated.install(monkeypatch)
    name = "cpu" if request.param == "aarch64" else request.param
    with launches_on(name):
        yield name


@pytest.fixture
def gpu(request):
    """For tests that choose the GPU themselves, by the tensors that they make: skipped unless `cuda` is one of the targets. NEREID_TARGET of the process,
    which is `cpu`, does not apply."""
    if "cuda" not in _targets(request.config)[0]:
        pytest.skip("needs a GPU: --target cuda")
    with launches_on(""):
        yield
