"""What a machine without a GPU says, and what works there all the same. The driver's absence is arranged by NEREID_LIBCUDA."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import nereid
import pytest
import torch

FAKE = pathlib.Path(__file__).resolve().parents[1] / "unit" / "runtime" / "fake_cuda.c"
COMPILER = shutil.which("cc") or shutil.which("clang-22")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler is installed here")

PRELUDE = """
    import nereid, nereid.language as tl, torch
    from nereid.runtime import driver

    @nereid.jit
    def kernel(x, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i) * n)

    def text(call):
        try:
            return repr(call())
        except Exception as error:
            return f"{type(error).__name__}: {error}"
"""


def run(code, tmp_path, **environment):
    """What a program prints in a process of its own."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(PRELUDE) + textwrap.dedent(code))
    environment = {**{k: v for k, v in os.environ.items() if k != "NEREID_TARGET"}, **environment}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    """The stand-in for the driver that the unit tests use, as a library."""
    library = tmp_path_factory.mktemp("fake") / "libcuda.so.1"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", str(library), str(FAKE)], check=True)
    return str(library)


def test_no_driver(tmp_path):  # NoCudaDriver
    lines = run(
        """
        print(driver.active.name, driver.get_active_gpus(), driver.active.get_current_target())
        print(text(driver.set_active_to_gpu))
        print(text(lambda: kernel[(1,)](torch.zeros(8), 2, BLOCK=8, target="cuda")))
        x = torch.ones(8)
        kernel[(1,)](x, 2, BLOCK=8)
        print(x.sum().item())
        """, tmp_path, NEREID_LIBCUDA="/nowhere/libcuda.so.1")
    assert lines[0] == "cpu [] GPUTarget(backend='cpu', arch='native', warp_size=1)"
    for line in lines[1:3]:
        assert line.startswith("RuntimeError: run-time error: no NVIDIA driver was found, `libcuda.so.1` cannot be opened: /nowhere/")
    assert lines[3] == "16.0"


@needs_compiler
@pytest.mark.parametrize("environment, reason", [
    ({"FAKE_CUDA_INIT": "100"}, "CUDA_ERROR_NO_DEVICE: words of the driver"),
    ({"FAKE_CUDA_DEVICES": "0"}, "it reports 0 devices"),
])
def test_driver_without_a_device(fake, tmp_path, environment, reason):  # NoCudaDevice
    lines = run(
        """
        print(driver.active.name)
        print(text(lambda: kernel[(1,)](torch.zeros(8), 2, BLOCK=8, target="cuda")))
        """, tmp_path, NEREID_LIBCUDA=fake, **environment)
    assert lines[0] == "cpu"
    assert lines[1] == f"RuntimeError: run-time error: the NVIDIA driver was found, but no GPU is usable: {reason}"


def test_a_driver_that_is_too_old(tmp_path):  # CudaDriverTooOld
    if COMPILER is None:
        pytest.skip("no C compiler is installed here")
    library = tmp_path / "libcuda.so.1"
    source = tmp_path / "old.c"
    source.write_text("int cuInit(unsigned flags) { return 0; }\n")
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    lines = run("print(text(driver.set_active_to_gpu))", tmp_path, NEREID_LIBCUDA=str(library))
    assert lines == ["RuntimeError: run-time error: the NVIDIA driver is too old: it lacks `cuDriverGetVersion`, expected CUDA 12.0 or "
                     "newer"]


@needs_compiler
def test_devices_as_python_sees_them(fake, tmp_path):
    lines = run(
        """
        import json
        gpu = driver.active
        print(gpu.name, gpu.get_current_device(), gpu.get_current_target(), gpu.get_device_capability(2))
        print(gpu.get_current_stream(0), len(driver.get_active_gpus()))
        print(json.dumps(gpu.utils.get_device_properties(2)))
        gpu.utils.synchronize()
        driver.set_active_to_cpu()
        print(driver.active.name)
        driver.reset_active()
        print(driver.active.name)
        """, tmp_path, NEREID_LIBCUDA=fake)
    assert lines[:2] == ["cuda 0 GPUTarget(backend='cuda', arch=90, warp_size=32) (8, 0)", "0 1"]
    properties = json.loads(lines[2])
    assert properties["name"] == "Fake GPU 2" and properties["arch"] == 80
    assert properties["max_shared_mem"] == 232448 and properties["multiprocessor_count"] == 132
    assert lines[3:] == ["cpu", "cuda"]


@needs_compiler
def test_doctor_reports_devices(fake, tmp_path):
    lines = run("from nereid import _native; print(_native.doctor())", tmp_path, NEREID_LIBCUDA=fake)
    cuda = json.loads(lines[0])["cuda"]
    assert cuda["driver"] and cuda["devices"] == 3 and cuda["version"] == "13.0"
    assert [gpu["arch"] for gpu in cuda["properties"]] == [90, 90, 80]


@pytest.mark.parametrize("name", ["hip", "cuda:", "sm_9", ""])
def test_unknown_targets(name):  # UnknownTarget
    with pytest.raises(ValueError, match=f"unknown target `{name}`: expected `cpu`, `cuda` or an architecture such as `cuda:90`"):
        identity[(1, )](torch.zeros(1), target=name)


def test_checked_mode_is_of_the_cpu():  # CheckedOnGpu
    with pytest.raises(ValueError, match="checked mode runs kernels on the CPU: it cannot be combined with the target `cuda`"):
        identity[(1, )](torch.zeros(1), target="cuda:90", checked=True)


@nereid.jit
def identity(x):
    pass
