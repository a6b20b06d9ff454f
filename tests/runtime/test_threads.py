"""Several threads launch and compile at once: the same kernels and different ones."""

import gc
import sys
import threading

import nereid
import nereid.language as tl
import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def quick_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(count, work):
    """Runs `work(number)` in each thread at once; raises what one of them raised."""
    errors, start = [], threading.Barrier(count)

    def main(number):
        try:
            start.wait()
            work(number)
        except BaseException as error:  # noqa: B902
            errors.append(error)

    threads = [threading.Thread(target=main, args=(number, )) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=100)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def new_kernel():

    @nereid.jit
    def fill(out, n, value, STEP: tl.constexpr):
        i = tl.program_id(0) * 16 + tl.arange(0, 16)
        tl.store(out + i, i * STEP + value, mask=i < n)

    return fill


def launch(kernel, step, value, n=100, **options):
    out = np.zeros(n, np.int32)
    compiled = kernel[(nereid.cdiv(n, 16), )](out, n, value, STEP=step, **options)
    assert (out == np.arange(n) * step + value).all()
    return compiled


def test_one_kernel_is_compiled_once(target):
    kernel, found = new_kernel(), []
    in_threads(8, lambda number: found.append(launch(kernel, 3, 100 + number)))
    assert len(set(map(id, found))) == 1


def test_many_kernels_of_one_function(target):
    kernel = new_kernel()
    in_threads(6, lambda number: [launch(kernel, step, number) for step in range(number % 3, 12)])
    assert len(kernel._kernels()) >= 12


def test_different_functions(target):
    in_threads(6, lambda number: [launch(new_kernel(), step, number) for step in range(3)])


def test_warm_launches(target):
    kernel = new_kernel()
    launch(kernel, 1, 5)

    def work(number):
        for value in range(2, 400):
            launch(kernel, 1, value * 16, num_threads=1 + number % 3)

    in_threads(4, work)


def test_threads_of_a_launch_take_turns(target):
    kernel = new_kernel()
    in_threads(4, lambda number: [launch(kernel, 2, turn, n=20000) for turn in range(20)])


def test_errors_stay_with_their_thread(target):

    @nereid.jit
    def picky(out, N: tl.constexpr):
        tl.static_assert(N % 2 == 0, "odd")
        tl.store(out, N)

    def work(number):
        for turn in range(6):
            out = np.zeros(1, np.int32)
            if (number + turn) % 2:
                with pytest.raises(nereid.CompileTimeAssertionFailure, match="odd"):
                    picky[(1, )](out, N=2 * turn + 1)
            else:
                picky[(1, )](out, N=2 * turn)
                assert out[0] == 2 * turn

    in_threads(6, work)


def test_the_cache_is_cleared_meanwhile(target):
    kernel = new_kernel()

    def work(number):
        for turn in range(10):
            launch(kernel, turn % 3, number)
            if number == 0:
                kernel.device_caches[0][0].clear()

    in_threads(4, work)


def test_functions_go_while_others_compile(target):

    def work(number):
        for step in range(4):
            launch(new_kernel(), step, 1)
            gc.collect()

    in_threads(4, work)


def test_tuning_in_threads(target):
    kernel = nereid.autotune([nereid.Config({"STEP": 3}), nereid.Config({"STEP": 3}, num_warps=8)], key=["n"])(new_kernel())

    def work(number):
        for n in (20, 40, 60):
            out = np.zeros(n, np.int32)
            kernel[lambda meta: (nereid.cdiv(meta["n"], 16), )](out, n, number)
            assert (out == np.arange(n) * 3 + number).all()

    in_threads(5, work)
    assert len(kernel.cache) == 3


def test_streams_and_devices(gpu):
    """Each thread has a stream of its own, on one of the devices."""
    kernels = [new_kernel() for _ in range(2)]
    torch.zeros(1, device="cuda")

    def work(number):
        device = number % torch.cuda.device_count()
        with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream(device)):
            for turn in range(60):
                out = torch.zeros(1000, dtype=torch.int32, device=f"cuda:{device}")
                step = turn % 5
                kernels[number % 2][(63, )](out, 1000, turn + 2, STEP=step)
                assert torch.equal(out.cpu(), torch.arange(1000, dtype=torch.int32) * step + turn + 2)

    in_threads(8, work)
