"""Tuning as only a GPU shows it: times between events, resources that run out, graphs, descriptors, several devices, C++."""

import ctypes
import os
import pathlib
import subprocess

import nereid
import nereid.language as tl
import pytest
import torch
from nereid.tools.tensor_descriptor import TensorDescriptor

HERE = pathlib.Path(__file__).resolve().parent

pytestmark = pytest.mark.usefixtures("on_gpu")


@nereid.jit
def work(x, out, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, ), tl.float32)
    for step in range(STEPS):
        total += tl.load(x + (i + step) % n)
    tl.store(out + i, tl.load(out + i) + total)


def steps(*counts, **options):
    return [nereid.Config({"STEPS": count, "BLOCK": 128}, **options) for count in counts]


def launch(kernel, x, out):
    kernel[lambda meta: (x.numel() // meta["BLOCK"], )](x, out, x.numel())


def tensors(size=4096, device="cuda"):
    return torch.ones(size, device=device), torch.zeros(size, device=device)


def test_the_fastest_is_chosen():
    x, out = tensors()
    kernel = nereid.autotune(steps(4000, 1, 2000, 500), key=["n"], restore_value=["out"])(work)
    launch(kernel, x, out)
    assert kernel.best_config.kwargs["STEPS"] == 1 and (out == 1).all()
    slow, fast, middle, quick = (kernel.configs_timings[config][0] for config in kernel.configs)
    assert fast < quick < middle < slow


def test_hooks_are_not_part_of_the_time():
    x, out = tensors()

    def slow(arguments):
        torch.cuda._sleep(2_000_000)  # about a millisecond of the GPU

    kernel = nereid.autotune(steps(1, 2, pre_hook=slow), key=["n"], restore_value=["out"])(work)
    launch(kernel, x, out)
    assert max(times[0] for times in kernel.configs_timings.values()) < 0.5


def test_what_needs_too_much_is_skipped():

    @nereid.autotune([nereid.Config({"BLOCK": 512}, num_stages=12, num_warps=8), nereid.Config({"BLOCK": 64})], key=["n"])
    @nereid.jit
    def product(a, b, c, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        total = tl.zeros((BLOCK, BLOCK), tl.float32)
        for k in range(0, n, 128):
            j = k + tl.arange(0, 128)
            total += tl.dot(tl.load(a + i[:, None] * n + j[None, :]), tl.load(b + j[:, None] * n + i[None, :]))
        tl.store(c + i[:, None] * n + i[None, :], total)

    n = 512
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty(n, n, device="cuda")
    product[(1, )](a, b, c, n)
    error, = product.failures.values()
    assert isinstance(error, nereid.OutOfResources) and product.best_config.kwargs == {"BLOCK": 64}
    assert torch.allclose(c[:64, :64], (a.float() @ b.float())[:64, :64], atol=1.0)


def test_graphs():
    x, out = tensors()
    kernel = nereid.autotune(steps(1, 3), key=["n"])(work)
    with pytest.raises(RuntimeError, match="nothing can be measured while a CUDA graph is captured: launch it once before"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            launch(kernel, x, out)
    torch.cuda.synchronize()
    launch(kernel, x, out)
    out.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(kernel, x, out)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert (out == 3 * kernel.best_config.kwargs["STEPS"]).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_measuring_by_graphs():
    x, out = tensors()
    kernel = nereid.autotune(steps(1, 1000), key=["n"], use_cuda_graph=True, rep=5)(work)
    launch(kernel, x, out)
    assert kernel.best_config.kwargs["STEPS"] == 1


def test_hooks_that_set_the_block_of_a_descriptor():

    def set_block(arguments):
        arguments["source"].block_shape = [arguments["BLOCK"], arguments["BLOCK"]]

    @nereid.autotune([nereid.Config({"BLOCK": size}, pre_hook=set_block) for size in (16, 32, 64)], key=[])
    @nereid.jit
    def copy(source, out, n, BLOCK: tl.constexpr):
        row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
        i, j = row + tl.arange(0, BLOCK), column + tl.arange(0, BLOCK)
        tl.store(out + i[:, None] * n + j[None, :], source.load([row, column]))

    x = torch.randn(256, 256, device="cuda")
    out = torch.empty_like(x)
    copy[lambda meta: (256 // meta["BLOCK"], 256 // meta["BLOCK"])](TensorDescriptor.from_tensor(x, [1, 1]), out, 256)
    assert torch.equal(out, x) and len(copy.configs_timings) == 3 and not copy.failures


def test_another_stream():
    x, out = tensors()
    kernel = nereid.autotune(steps(1, 2), key=["n"], restore_value=["out"])(work)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        launch(kernel, x, out)
    stream.synchronize()
    assert (out == kernel.best_config.kwargs["STEPS"]).all()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_tensors_of_another_device():
    kernel = nereid.autotune(steps(1, 2), key=["n"], restore_value=["out"])(work)
    x, out = tensors(device="cuda:1")
    launch(kernel, x, out)
    torch.cuda.synchronize(1)
    assert (out == kernel.best_config.kwargs["STEPS"]).all() and torch.cuda.current_device() == 0


def test_from_cpp(tmp_path):
    with open("/proc/self/maps") as maps:
        library = next(line.split()[-1] for line in maps if "/libnereid.so" in line)
    output = tmp_path / "tuner.so"
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-shared", "-fPIC", f"-I{HERE.parents[1] / 'include'}",
               str(HERE / "tuner.cpp"), "-o", str(output), library, f"-Wl,-rpath,{pathlib.Path(library).parent}"]
    subprocess.run(command, check=True)
    tune = ctypes.CDLL(str(output)).tuneOnGpu
    tune.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    x, out = tensors()
    torch.cuda.synchronize()
    for stream in (0, torch.cuda.Stream().cuda_stream):
        text = ctypes.create_string_buffer(4096)
        out.zero_()
        torch.cuda.synchronize()
        chosen = tune(x.data_ptr(), out.data_ptr(), x.numel(), stream, text, len(text))
        torch.cuda.synchronize()
        assert chosen == 1, text.value.decode()
        assert (out == 2).all(), text.value.decode()  # two launches, whatever was measured between
