"""Launches inside the capture of a CUDA graph. Needs the target `cuda`."""

import gc

import nereid
import nereid.language as tl
import pytest
import torch

pytestmark = pytest.mark.usefixtures("on_gpu")


def kernels(count):
    """Kernels that have never run."""

    @nereid.jit
    def fill(out, n, VALUE: tl.constexpr):
        i = tl.program_id(0) * 256 + tl.arange(0, 256)
        tl.store(out + i, i + VALUE, mask=i < n)

    return [(fill, value) for value in range(count)]


@pytest.fixture
def out():
    out = torch.zeros(1000, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    return out


def captured(launch):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    return graph


def check(graph, out, value):
    out.zero_()
    graph.replay()
    assert torch.equal(out.cpu(), torch.arange(1000, dtype=torch.int32) + value)


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_the_first_launch_is_captured(out, mode):
    (fill, value), = kernels(1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        fill[(4, )](out, 1000, VALUE=value)
    check(graph, out, value)
    fill[(4, )](out, 1000, VALUE=value + 5)
    assert out[0] == value + 5


def test_compiled_but_never_launched(out):
    (fill, _), = kernels(1)
    compiled = fill.warmup(torch.int32, 1000, VALUE=3, grid=(4, ))
    graph = captured(lambda: compiled[(4, 1, 1)](out, 1000, 3))
    check(graph, out, 3)


def test_large_shared_memory_is_asked_for_inside(out):

    @nereid.jit
    def product(x, y, out, N: tl.constexpr):
        i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
        a, b = tl.load(x + i * N + j), tl.load(y + i * N + j)
        tl.store(out + i * N + j, tl.dot(a, b))

    x, y = torch.randn(2, 128, 128, device="cuda").half()
    result = torch.zeros(128, 128, device="cuda")
    torch.cuda.synchronize()
    graph = captured(lambda: product[(1, )](x, y, result, N=128))
    graph.replay()
    torch.testing.assert_close(result, x.float() @ y.float(), atol=0.5, rtol=1e-2)


def test_kernels_go_while_a_graph_is_captured(out):
    old = kernels(1)
    old[0][0][(4, )](out, 1000, VALUE=1)
    (fill, value), = kernels(1)

    def launch():
        old.clear()
        gc.collect()
        fill[(4, )](out, 1000, VALUE=value)

    check(captured(launch), out, value)


def tuned():
    (fill, _), = kernels(1)
    return nereid.autotune([nereid.Config({"VALUE": 7}), nereid.Config({"VALUE": 7}, num_warps=8)], key=["n"])(fill)


def test_a_tuned_kernel(out):
    kernel = tuned()
    kernel[(4, )](out, 1000)
    for grid in ((4, ), lambda meta: (nereid.cdiv(meta["n"], 256), )):
        check(captured(lambda: kernel[grid](out, 1000)), out, 7)


def test_tuning_is_refused(out):
    kernel = tuned()
    with pytest.raises(RuntimeError, match="`fill` is not tuned for these arguments, and nothing can be measured while a CUDA graph is"):
        captured(lambda: kernel[(4, )](out, 1000))
    torch.cuda.synchronize()
    kernel[(4, )](out, 1000)
    check(captured(lambda: kernel[(4, )](out, 1000)), out, 7)


def test_scratch_memory(out):
    """What a kernel reserves for itself becomes part of the graph."""

    @nereid.jit
    def sort_kernel(x, out, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out + i, tl.sort(tl.load(x + i)))

    x = torch.randn(1024, device="cuda")
    result = torch.zeros_like(x)
    torch.cuda.synchronize()
    graph = captured(lambda: sort_kernel[(1, )](x, result, N=1024))
    graph.replay()
    assert torch.equal(result, x.sort().values)
