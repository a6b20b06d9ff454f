"""What only a GPU shows: tensors of the device, streams, devices, graphs, errors that come later. Needs the target `cuda`."""

import os
import subprocess
import sys
import textwrap

import nereid
import nereid.language as tl
import pytest
import torch
from nereid import testing
from nereid.runtime import driver

CUDA = {"device": "cuda"}


pytestmark = pytest.mark.usefixtures("on_gpu")


@nereid.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@pytest.fixture
def data():
    x, y = torch.randn(5000, **CUDA), torch.randn(5000, **CUDA)
    return x, y, torch.full_like(x, 77.0)


def test_tensors_of_the_device(data):
    x, y, out = data
    compiled = add[(5, )](x, y, out, 5000, BLOCK=1024)
    assert torch.equal(out, x + y)
    target = compiled.metadata.target
    assert target.backend == "cuda" and target.warp_size == 32 and target == driver.active.get_current_target()


def test_compiled_kernel(data):
    x, y, out = data
    compiled = add[(5, )](x, y, out, 5000, BLOCK=1024, num_warps=8)
    assert list(compiled.asm)[:5] == ["tile", "gpu", "llir", "ptx", "cubin"]
    assert ".entry add" in compiled.asm["ptx"] and compiled.asm["ttgir"] == compiled.asm["gpu"]
    assert compiled.asm["cubin"][:4] == b"\x7fELF" and compiled.kernel == compiled.asm["cubin"]
    assert compiled.metadata.num_warps == 8 and compiled.metadata.num_ctas == 1 and compiled.metadata.shared >= 0
    assert 0 < compiled.n_regs <= 255 and compiled.n_spills == 0 and compiled.n_max_threads >= 256
    assert compiled.function and compiled.module
    out.zero_()
    compiled[(5, )](x, y, out, 5000, 1024)
    assert torch.equal(out, x + y)
    out.zero_()
    compiled.run(5, 1, 1, torch.cuda.current_stream().cuda_stream, compiled.function, compiled.packed_metadata, None, None, None, x, y,
                 out, 5000, 1024)
    assert torch.equal(out, x + y)


def test_the_current_stream_is_torchs(data):
    x, y, out = data
    assert driver.active.get_current_stream() == torch.cuda.current_stream().cuda_stream
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        assert driver.active.get_current_stream() == stream.cuda_stream
        torch.cuda._sleep(20_000_000)  # what comes later on another stream would overtake
        add[(5, )](x, y, out, 5000, BLOCK=1024)
        done = torch.cuda.Event()
        done.record()
    assert not done.query()
    done.synchronize()
    assert torch.equal(out, x + y)


def test_an_explicit_stream(data):
    x, y, out = data
    compiled = add[(5, )](x, y, out, 5000, BLOCK=1024)
    out.zero_()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    compiled[(5, )](x, y, out, 5000, 1024, stream=stream.cuda_stream)
    stream.synchronize()
    assert torch.equal(out, x + y)


def test_graphs(data):
    x, y, out = data
    add[(5, )](x, y, out, 5000, BLOCK=1024)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add[(5, )](x, y, out, 5000, BLOCK=1024)
    x.mul_(3)
    graph.replay()
    assert torch.equal(out, x + y)


def test_views_are_specialised_by_their_address(data):
    x, y, out = data
    aligned = add[(5, )](x[4:], y[4:], out[4:], 4096, BLOCK=1024)
    odd = add[(5, )](x[1:], y[1:], out[1:], 4096, BLOCK=1024)
    assert aligned is not odd
    assert torch.equal(out[1:4097], (x + y)[1:4097])


def test_tensors_of_the_cpu_are_refused(data):
    x, y, out = data
    with pytest.raises(ValueError, match=r"argument `y` is on the CPU and argument `x` on cuda:0(.|\n)*\(at 1\) .* \(cpu tensor\?\)"):
        add[(1, )](x, y.cpu(), out, 100, BLOCK=128)
    with pytest.raises(ValueError, match=r"argument `x` is in memory of the CPU, and the kernel runs on the GPU(.|\n)*\(at 0\) .* \(cpu tensor\?\)"):
        add[(1, )](x.cpu(), y.cpu(), out.cpu(), 100, BLOCK=128, target="cuda")
    with pytest.raises(ValueError, match="argument `x` is on device cuda:0, but the kernel runs on the CPU"):
        add[(1, )](x, y, out, 100, BLOCK=128, target="cpu")


def test_pinned_memory_is_reached(data):
    x, y, _ = data
    out = torch.zeros(5000).pin_memory()
    add[(5, )](x, y, out, 5000, BLOCK=1024)
    torch.cuda.synchronize()
    assert torch.equal(out, (x + y).cpu())


def test_both_targets_in_one_process(data):
    x, y, out = data
    host = torch.zeros(5000)
    add[(5, )](x.cpu(), y.cpu(), host, 5000, BLOCK=1024, target="cpu")
    add[(5, )](x, y, out, 5000, BLOCK=1024)
    assert torch.equal(out.cpu(), host)


class Interface:
    """An array of another library, which offers only the CUDA array interface."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.dtype = "float32"

    @property
    def __cuda_array_interface__(self):
        return self.tensor.__cuda_array_interface__


def test_cuda_array_interface(data):
    x, y, out = data
    add[(5, )](Interface(x), Interface(y), Interface(out), 5000, BLOCK=1024)
    assert torch.equal(out, x + y)


def test_out_of_resources(data):

    @nereid.jit
    def product(a, b, c, N: tl.constexpr, K: tl.constexpr):
        i, k = tl.arange(0, N), tl.arange(0, K)
        x = tl.load(a + i[:, None] * K + k[None, :])
        y = tl.load(b + k[:, None] * N + i[None, :])
        tl.store(c + i[:, None] * N + i[None, :], tl.dot(x, y))

    a = torch.zeros(512 * 512, dtype=torch.float16, **CUDA)
    c = torch.zeros(512 * 512, **CUDA)
    with pytest.raises(nereid.OutOfResources, match="out of resource: shared memory, Required: [0-9]+, Hardware limit: [0-9]+") as info:
        product[(1, )](a, a, c, N=512, K=512, num_warps=8)
    assert info.value.required > info.value.limit and info.value.name == "shared memory"


def test_grids_beyond_the_limit(data):
    x, y, out = data
    with pytest.raises(ValueError, match="the grid's dimension 1 is 65536: the GPU accepts at most 65535"):
        add[(1, 65536)](x, y, out, 1, BLOCK=128)


def test_other_architectures(data):
    x, y, out = data
    if torch.cuda.get_device_capability()[0] == 8:
        pytest.skip("code for sm_80 runs here")
    with pytest.raises(ValueError, match=r"`add` was compiled for sm_80, but the GPU \(.*\) is sm_"):
        add[(1, )](x, y, out, 1, BLOCK=128, target="cuda:80")


def test_do_bench_measures_the_device(data):
    x = torch.randn(1 << 26, **CUDA)
    out = torch.empty_like(x)
    call = lambda: add[(1 << 16, )](x, x, out, 1 << 26, BLOCK=1024)
    for measure in (testing.do_bench, testing.do_bench_cudagraph):
        ms = measure(call, rep=20)
        assert 0.05 < ms < 5, "12 bytes an element at the speed of the memory"
    assert len(testing.do_bench(call, rep=5, quantiles=[0.5, 0.2, 0.8])) == 3


def test_launches_from_many_threads(data):
    import threading
    outs = [torch.zeros(5000, **CUDA) for _ in range(4)]
    x, y, _ = data

    def work(out):
        for _ in range(50):
            add[(5, )](x, y, out, 5000, BLOCK=1024)

    threads = [threading.Thread(target=work, args=(out, )) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert all(torch.equal(out, x + y) for out in outs)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_tensors_of_another_device(data):
    x, y, out = (t.to("cuda:1") for t in data)
    compiled = add[(5, )](x, y, out, 5000, BLOCK=1024)
    assert torch.cuda.current_device() == 0 and torch.equal(out, x + y)
    here = data[2]
    assert add[(5, )](data[0], data[1], here, 5000, BLOCK=1024) is compiled, "one kernel serves devices of one architecture"
    assert torch.equal(here, data[0] + data[1])
    with torch.cuda.device(1), torch.cuda.stream(torch.cuda.Stream(1)) as _:
        out.zero_()
        add[(5, )](x, y, out, 5000, BLOCK=1024)
        assert torch.equal(out, x + y)


FAULT = """
    import nereid, nereid.language as tl, torch
    from nereid.runtime import driver

    @nereid.jit
    def innocent(x):
        tl.store(x, 1.0)

    @nereid.jit
    def wild(x):
        tl.store(x + 1_000_000_000_000, 1.0)

    x = torch.zeros(8, device="cuda")
    innocent[(1,)](x)
    wild[(1,)](x)
    try:
        driver.active.utils.synchronize()
    except RuntimeError as error:
        print(error)
"""


def test_faults_name_the_kernel(tmp_path):
    script = tmp_path / "fault.py"
    script.write_text(textwrap.dedent(FAULT))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, env=_automatic())
    assert "a kernel failed on the GPU: CUDA_ERROR_ILLEGAL_ADDRESS" in done.stdout, done.stdout + done.stderr
    assert "launched last: `wild`, before it `innocent`" in done.stdout


ASSERTION = """
    import nereid, nereid.language as tl, torch
    from nereid.runtime import driver

    @nereid.jit
    def small(x):
        tl.device_assert(tl.load(x + tl.arange(0, 4)) < 3, "must be small")

    x = torch.arange(4, device="cuda")
    small[(1,)](x)  # asserts are off without debug
    driver.active.utils.synchronize()
    print("quiet")
    small[(1,)](x, debug=True)
    try:
        driver.active.utils.synchronize()
    except RuntimeError as error:
        print(error)
"""


def test_device_assert(tmp_path):
    script = tmp_path / "assertion.py"
    script.write_text(textwrap.dedent(ASSERTION))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, env=_automatic())
    text = done.stdout + done.stderr
    assert "quiet" in done.stdout and "CUDA_ERROR_ASSERT" in done.stdout, text
    assert text.count("Assertion `must be small` failed") == 1 and "assertion.py:7:5: small: block: [0,0,0]" in text


AUTOMATIC = """
    import nereid, nereid.language as tl, numpy as np, torch

    @nereid.jit
    def where(x):
        tl.store(x, 1.0)

    print(where[(1,)](torch.zeros(1, device="cuda")).metadata.target)
    print(where[(1,)](np.zeros(1, np.float32)).metadata.target)
    print(where[(1,)](torch.zeros(1)).metadata.target)
    print(where.warmup(torch.float32, grid=(1,)).metadata.target)
"""


def _automatic():
    """An environment without the target that the other tests are given."""
    return {name: value for name, value in os.environ.items() if name != "NEREID_TARGET"}


def test_arguments_choose_the_target(tmp_path):
    script = tmp_path / "where.py"
    script.write_text(textwrap.dedent(AUTOMATIC))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, env=_automatic())
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done.stderr
    assert "backend='cuda'" in lines[0] and "backend='cpu'" in lines[1] and "backend='cpu'" in lines[2] and "backend='cuda'" in lines[3]
