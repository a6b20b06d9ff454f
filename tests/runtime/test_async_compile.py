"""`AsyncCompileMode`: kernels compiled by the threads of an executor."""

from concurrent.futures import Future, ThreadPoolExecutor

import nereid
import nereid.language as tl
import numpy as np
import pytest


def fill_kernel():

    @nereid.jit
    def kernel(out, VALUE: tl.constexpr):
        tl.static_assert(VALUE != 13, "no thirteen")
        tl.store(out, VALUE)

    return kernel


def test_warmups_come_back_at_once_and_are_done_at_the_end(target):
    kernel = fill_kernel()
    out = np.zeros(1, np.int32)
    with ThreadPoolExecutor(4) as executor, nereid.AsyncCompileMode(executor) as mode:
        futures = [kernel.warmup(out, VALUE=value, grid=(1, )) for value in (1, 2, 3, 4, 1)]
        assert all(isinstance(future, nereid.FutureKernel) for future in futures)
        kernel[(1, )](out, VALUE=5)  # waits
        assert out[0] == 5
    assert all(future.future.done() for future in futures) and len(mode.future_kernels) == 4 and futures[0] is futures[4]
    kernels = [future.result() for future in futures]
    assert kernels[0] is kernels[4] and len(set(map(id, kernels))) == 4
    kernels[2][(1, )](out, 3)
    assert out[0] == 3
    assert kernel.warmup(out, VALUE=2, grid=(1, )) is kernels[1]


def test_many_threads_compile_one_function(target):
    kernel = fill_kernel()
    out = np.zeros(1, np.int32)
    with ThreadPoolExecutor(8) as executor:
        made = list(executor.map(lambda value: kernel.warmup(out, VALUE=value % 4, grid=(1, )), range(24)))
    assert len(set(map(id, made))) == 4


def test_errors_come_out_at_the_end_unless_ignored(target):
    kernel = fill_kernel()
    out = np.zeros(1, np.int32)
    with ThreadPoolExecutor(2) as executor:
        with pytest.raises(nereid.CompileTimeAssertionFailure, match="no thirteen"):
            with nereid.AsyncCompileMode(executor):
                kernel.warmup(out, VALUE=13, grid=(1, ))
        with nereid.AsyncCompileMode(executor, ignore_errors=True):
            failed = kernel.warmup(out, VALUE=13, grid=(1, ))
            good = kernel.warmup(out, VALUE=14, grid=(1, ))
    assert failed.result(ignore_errors=True) is None and good.result().name == "kernel"
    with pytest.raises(nereid.CompilationError):
        failed.result()


def test_submit_by_key_and_nesting():
    finished = []
    with ThreadPoolExecutor(1) as executor, nereid.AsyncCompileMode(executor) as mode:
        first = mode.submit("key", lambda: 7, finished.append)
        assert mode.submit("key", lambda: 8, finished.append) is first and first.result() == 7
        with pytest.raises(RuntimeError, match="Another AsyncCompileMode is already active"):
            with nereid.AsyncCompileMode(executor):
                pass
    assert finished == [7]


class Queue:
    """An executor that runs what it has got when it is told to."""

    def __init__(self):
        self.work = []

    def submit(self, function, *args):
        future = Future()
        self.work.append((future, lambda: future.set_result(function(*args))))
        return future

    def run(self, count=None):
        for future, task in self.work[:count]:
            if future.set_running_or_notify_cancel():
                task()
        del self.work[:count]


def test_an_executor_of_the_callers_own(target):
    kernel, executor = fill_kernel(), Queue()
    out = np.zeros(1, np.int32)
    with nereid.AsyncCompileMode(executor):
        kernel.warmup(out, VALUE=1, grid=(1, ))
        kernel.warmup(out, VALUE=2, grid=(1, ))
        assert len(executor.work) == 2
        # What has been begun is not begun again.
        kernel.warmup(out, VALUE=1, grid=(1, ))
        kernel.warmup(np.zeros(5, np.int32), 2, grid=(1, ))
        assert len(executor.work) == 2
        kernel.warmup(np.zeros(5, np.int64), VALUE=1, grid=(1, ))
        kernel.warmup(out, VALUE=True, grid=(1, ))
        kernel.warmup(out, VALUE=1, grid=(1, ), num_warps=8)
        kernel.warmup(out, VALUE=1, grid=(1, ), enable_fp_fusion=False)
        assert len(executor.work) == 6
        executor.run(1)
        for value in (1, 2):  # the second one is not compiled yet
            kernel[(1, )](out, VALUE=value)
            assert out[0] == value
        executor.run()


def test_functions_as_constants_in_the_mode(target):
    executor = Queue()

    @nereid.jit
    def apply(out, FN: tl.constexpr):
        tl.store(out, FN(2))

    one, two, other = nereid.jit(plus_one), nereid.jit(plus_one), nereid.jit(plus_two)
    out = np.zeros(1, np.int32)
    with nereid.AsyncCompileMode(executor):
        for function in (one, other, one, other):
            apply.warmup(out, function, grid=(1, ))
        assert len(executor.work) == 2
        executor.run()
    for function, result in ((one, 3), (two, 3), (other, 4)):
        apply[(1, )](out, function)
        assert out[0] == result


def plus_one(x):
    return x + 1


def plus_two(x):
    return x + 2


def test_an_error_in_the_context_does_not_wait_for_what_nobody_runs(target):
    kernel, executor = fill_kernel(), Queue()
    with pytest.raises(ZeroDivisionError):
        with nereid.AsyncCompileMode(executor):
            future = kernel.warmup(np.zeros(1, np.int32), VALUE=1, grid=(1, ))
            raise ZeroDivisionError
    assert future.future.cancelled()
    with ThreadPoolExecutor(1) as threads, nereid.AsyncCompileMode(threads):  # the mode has ended
        pass
