"""What a machine without a GPU says, and what works there all the same. The driver's absence is arranged by NEREID_LIBCUDA."""

import json
import subprocess
import textwrap

import nereid
import pytest
import torch
from fake_driver import COMPILER, LAUNCHES, fake, needs_compiler, run  # noqa: F401  (`fake` is a fixture)

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
    assert lines[0] == "cpu [] GPUTarget(backend='cpu', arch='native', warp_size=0)"
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
@pytest.mark.parametrize("user", ["us", "somebody else", "nobody"])
def test_forked_processes_know_the_devices(fake, tmp_path, user):  # CudaAfterFork
    """Where the parent has used CUDA the driver answers nothing in the child: devices are known and kernels compile, launches are refused."""
    lines = run(
        """
        import ctypes, os, sys
        if sys.argv[1] == "us":
            driver.active.get_current_target()
        if sys.argv[1] == "somebody else":
            ctypes.CDLL(os.environ["NEREID_LIBCUDA"]).cuInit(0)
        if os.fork():
            os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
        gpu = driver.active
        print(gpu.name, gpu.get_current_device(), gpu.get_current_target().arch, gpu.get_device_capability(2),
              gpu.utils.get_device_properties(2)["multiprocessor_count"])
        compiled = kernel.warmup(torch.float32, 2, BLOCK=8, grid=(1, ))
        print(".target sm_90a" in compiled.asm["ptx"])
        print(text(lambda: kernel[(1, )](torch.zeros(8), 2, BLOCK=8, target="cuda")))
        print(text(lambda: gpu.utils.synchronize(0)), flush=True)
        x = torch.ones(8)
        kernel[(1, )](x, 2, BLOCK=8)  # on the CPU
        print(x.sum().item(), flush=True)
        os._exit(0)
        """, tmp_path, arguments=[user], NEREID_LIBCUDA=fake)
    assert lines[:2] == ["cuda 0 90 (8, 0) 132", "True"]
    refused = ["forked from one that used it" in line for line in lines[2:4]]
    assert lines[4] == "16.0"
    assert refused == [user != "nobody"] * 2, lines


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


@needs_compiler
def test_launches_as_the_driver_sees_them(fake, tmp_path):
    try:
        kernel_of_the_cpu = identity.warmup(torch.float32, target="cuda:90", grid=(1, ))
        kernel_of_the_cpu.asm["cubin"]
    except (RuntimeError, nereid.TritonError) as missing:
        pytest.skip(f"no assembler is installed here: {missing}")
    lines = run(
        textwrap.dedent(LAUNCHES) + textwrap.dedent("""
        print(record(launch(Array("cuda:0"), 3)))
        print(record(launch(Array("cuda:0"), 3, num_warps=8)))
        print(record(launch(Array("cuda:1"), 5)))
        print(record(launch(Array("cuda:0"), 5, launch_cooperative_grid=True)))
        print(record(launch(Foreign(), 5)))
        print([record(launch(Odd(data), 5)) for data in (None, (), (0x20000,), ("x", False))])
        print(record(launch(Odd([0x20000, False]), 5)))
        print(record(launch(Array("cuda:0"), 5, target="cuda:80")))
        print(record(launch(Array("cpu"), 5, target="cuda")))
        print(record(launch(torch.zeros(8), 5, target="cuda")))
        print(record(launch(Array("cuda:0"), 5, target="cpu")))
        compiled = kernel[(1,)](Array("cuda:0"), 3, BLOCK=8)
        print(record(lambda: compiled[(1,)](Array("cuda:0"), 7, 8, stream=0x55)))
        print(compiled.n_regs, compiled.n_spills, compiled.n_max_threads, compiled.metadata.num_warps)
        print(kernel[(1,)](Array("cuda:2"), 3, BLOCK=8).metadata.target)

        @nereid.jit
        def large(a, c, N: tl.constexpr, K: tl.constexpr):
            i, k = tl.arange(0, N), tl.arange(0, K)
            x = tl.load(a + i[:, None] * K + k[None, :])
            tl.store(c + i[:, None] * N + i[None, :], tl.dot(x, tl.trans(x)))

        try:
            large[(1,)](Array("cuda:0", dtype="float16"), Array("cuda:0"), N=512, K=512, num_warps=8)
        except nereid.OutOfResources as error:
            print(error.name, error.required > error.limit, str(error).replace(chr(10), ' '))

        class Silent:  # says nothing about where it is: the driver is asked
            dtype = "float32"

            def data_ptr(self):
                return 0x10000

        print(record(launch(Silent(), 5, target="cuda")))
        fake.fake_reset()
        fake.fake_params(4)
        fake.fake_memory(ctypes.c_uint64(0x10000), ctypes.c_uint64(0))
        print(text(launch(Silent(), 5, target="cuda")), fake.fake_record().decode().count("launch on 0 grid 4,2,1"))
        """), tmp_path, NEREID_LIBCUDA=fake)
    launched = "launch on {} grid 4,2,1 block {},1,1 shared 0 stream (nil){} params 10000 {} 0 0"
    assert lines[0] == launched.format(0, 128, "", 3)
    assert lines[1] == launched.format(0, 256, "", 3)
    assert lines[2] == launched.format(1, 128, "", 5)
    assert lines[3] == launched.format(0, 128, " attribute 2=1", 5)
    assert lines[4] == launched.format(0, 128, "", 5).replace("10000", "20000")
    assert lines[5].count("Error") == 4, lines[5]
    assert lines[6] == lines[4]
    assert "`kernel` was compiled for sm_80, but the GPU (Fake GPU 0) is sm_90" in lines[7]
    for line in lines[8:10]:
        assert "ValueError" in line and "Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)" in line
    assert "argument `x` is on device cuda:0, but the kernel runs on the CPU (cpu tensor expected)" in lines[10]
    assert lines[11] == "launch on 0 grid 1,1,1 block 128,1,1 shared 0 stream 0x55 params 10000 7 0 0"
    assert lines[12] == "40 0 1024 4"
    assert lines[13] == "GPUTarget(backend='cuda', arch=80, warp_size=32)"
    assert lines[14].startswith("shared memory True") and "num_warps=8" in lines[14] and "N=512" in lines[14]
    assert "ValueError" in lines[15] and "Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)" in lines[15]
    assert lines[16] == "None 1"
