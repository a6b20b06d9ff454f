"""`AsyncCompileMode`: kernels compiled by the threads of an executor."""

from concurrent.futures import ThreadPoolExecutor

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
    assert all(future.future.done() for future in futures) and len(mode.future_kernels) == 5
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
