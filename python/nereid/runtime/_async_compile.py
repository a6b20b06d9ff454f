"""Compiling kernels ahead of time on the threads of an executor.

    with ThreadPoolExecutor(8) as executor, nereid.AsyncCompileMode(executor):
        futures = [kernel.warmup(*arguments, grid=(1, ), BLOCK=size) for size in (64, 128, 256)]
    kernels = [future.result() for future in futures]

Within the context `warmup` returns at once with a `FutureKernel`; a launch waits for its kernel, which may have been begun before. At
the end of the context all compilations are waited for, and the error of the first one that failed comes out unless `ignore_errors`.
"""

from contextvars import ContextVar

#: The `AsyncCompileMode` of this context, or None: other threads do not see it.
active_mode = ContextVar("async_compile_active_mode", default=None)


class FutureKernel:
    """A kernel that is being compiled. `finalize_compile(kernel)` is called when its result is first asked for."""

    def __init__(self, finalize_compile, future):
        self.finalize_compile = finalize_compile
        self.kernel = None
        self.future = future

    def result(self, ignore_errors: bool = False):
        """Waits for the kernel. Raises what its compilation raised, or returns None then if `ignore_errors`."""
        if self.kernel is not None:
            return self.kernel
        try:
            kernel = self.future.result()
        except Exception:
            if ignore_errors:
                return None
            raise
        self.finalize_compile(kernel)
        self.kernel = kernel
        return kernel


class AsyncCompileMode:
    """The context in which kernels are compiled by an executor."""

    def __init__(self, executor, *, ignore_errors=False):
        self.executor = executor
        self.ignore_errors = ignore_errors
        self.raw_futures = []
        self.future_kernels = {}

    def submit(self, key, compile_fn, finalize_fn):
        """The future of what `compile_fn()` gives, called by the executor once for each key."""
        known = self.future_kernels.get(key)
        if known is not None:
            return known
        future = self.executor.submit(compile_fn)
        future._key = key
        self.raw_futures.append(future)
        kernel = FutureKernel(finalize_fn, future)
        self.future_kernels[key] = kernel
        return kernel

    def __enter__(self):
        if active_mode.get() is not None:
            raise RuntimeError("Another AsyncCompileMode is already active")
        active_mode.set(self)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        active_mode.set(None)
        from concurrent.futures import as_completed
        for future in as_completed(self.raw_futures):
            self.future_kernels[future._key].result(self.ignore_errors)
