"""Several GPUs of one machine: launches go where their tensors lie, kernels are loaded once a device, threads and streams do not get
into each other's way. Needs two GPUs; what the driver is asked for is tested without any (tests/unit/runtime/CudaTest.cpp)."""

import threading

import nereid
import nereid.language as tl
import pytest
import torch

pytestmark = [pytest.mark.usefixtures("on_gpu"),
              pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")]


@nereid.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


def tensors(device, size=4096):
    x, y = torch.randn(size, device=f"cuda:{device}"), torch.randn(size, device=f"cuda:{device}")
    return x, y, torch.full_like(x, 77.0)


def test_launches_go_to_the_tensors():
    assert torch.cuda.current_device() == 0
    kernels = set()
    for device in (0, 1, 0, 1):
        x, y, out = tensors(device)
        kernels.add(add[(4, )](x, y, out, 4096, BLOCK=1024))
        assert torch.cuda.current_device() == 0
        torch.cuda.synchronize(device)
        assert torch.equal(out, x + y)
    assert len(kernels) == 1


def test_the_current_device_of_torch():
    x, y, out = tensors(1)
    with torch.cuda.device(1):
        add[(4, )](x, y, out, 4096, BLOCK=1024)
        assert torch.cuda.current_device() == 1
        torch.cuda.synchronize()
        assert torch.equal(out, x + y)
        # From the other device, too.
        x, y, out = tensors(0)
        add[(4, )](x, y, out, 4096, BLOCK=1024)
        assert torch.cuda.current_device() == 1
    torch.cuda.synchronize(0)
    assert torch.equal(out, x + y)


def test_streams_of_each_device():
    for device in (1, 0):
        x, y, out = tensors(device)
        add[(4, )](x, y, out, 4096, BLOCK=1024)  # compiled and loaded: that may take as long as the sleep below
        out.fill_(77.0)
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)  # later work of the stream must wait for it
            add[(4, )](x, y, out, 4096, BLOCK=1024)
            done = torch.cuda.Event()
            done.record(stream)
        assert not done.query()
        done.synchronize()
        assert torch.equal(out, x + y)


def test_threads_devices_and_streams():
    failures = []

    def work(number):
        try:
            device = number % 2
            torch.cuda.set_device((number // 2) % 2)
            home = torch.cuda.current_device()
            stream = torch.cuda.Stream(device)
            for turn in range(50):
                with torch.cuda.stream(stream):
                    x, y, out = tensors(device, 1024 + turn)
                    inside = torch.cuda.current_device()
                    add[(2, )](x, y, out, 1024 + turn, BLOCK=1024)
                    assert torch.cuda.current_device() == inside
                stream.synchronize()
                assert torch.equal(out, x + y)
                assert torch.cuda.current_device() == home
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number, )) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_tensors_of_different_devices():
    """Right where the kernel's device can reach the other's memory (PyTorch opens that way when it copies), else a clear error; never a
    fault."""
    x, y, out = tensors(0)
    far = y.to("cuda:1")
    try:
        add[(4, )](x, far, out, 4096, BLOCK=1024)
    except ValueError as error:
        assert "argument `y` is on device cuda:1, but the kernel runs on cuda:0, which has no access to that memory" in str(error)
        add[(4, )](x, y, out, 4096, BLOCK=1024)  # the device goes on
    torch.cuda.synchronize(0)
    assert torch.equal(out, x + y)
    assert torch.cuda.current_device() == 0


def test_a_tuner_on_each_device():
    tuned = nereid.autotune([nereid.Config({"BLOCK": size}) for size in (256, 1024)], key=["n"], cache_results=False)(nereid.jit(add.fn))
    for device in (0, 1):
        x, y, out = tensors(device)
        tuned[lambda meta: (nereid.cdiv(4096, meta["BLOCK"]), )](x, y, out, 4096)
        torch.cuda.synchronize(device)
        assert torch.equal(out, x + y)
