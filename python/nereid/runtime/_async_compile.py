"""Compiling kernels ahead of time on the threads of an executor.

    with ThreadPoolExecutor(8) as executor, nereid.AsyncCompileMode(executor):
        futures = [kernel.warmup(*arguments, grid=(1, ), BLOCK=size) for size in (64, 128, 256)]
    kernels = [future.result() for future in futures]

Within the context `warmup` returns at once with a `FutureKernel`, the same one for calls that need the same kernel; a launch waits for
its kernel, which may have been begun before. At the end of the context all compilations are waited for, and the error of the first one
that failed comes out unless `ignore_errors`. When an exception leaves the context, those that the executor has not begun are cancelled.
"""

import sys
from contextvars import ContextVar

from .. import _loaded, _native
from .specialise import compute_cache_key, create_function_from_signature, unprefixed
from .tensors import MockTensor

#: The `AsyncCompileMode` of this context, or None: other threads do not see it.
active_mode = ContextVar("async_compile_active_mode", default=None)


def key_of(function, args, kwargs):
    """The key that identifies the kernel of a warm-up among those of its function; a new object when the arguments have no key."""
    try:
        bound, specialization, options = create_function_from_signature(function.signature, function.params, None)(
            *map(MockTensor.wrap_dtype, args), **{name: MockTensor.wrap_dtype(value) for name, value in kwargs.items()})
        options = unprefixed(options)
        target = options.get("target")
        place = _native.device_of_arguments(list(bound.values()), target if isinstance(target, str) else None)
        return function, place, compute_cache_key({}, specialization, sorted(options.items()))
    except Exception:  # the compilation says what is wrong
        return function, object()


def submitted(mode, function, grid, args, kwargs):
    """What `mode.submit` gives for a warm-up of a `JITFunction`."""
    # The arguments are bound now, when they are what the caller means, and by hooks that see the compilation begin later.
    prepared = function._prepare(args, kwargs)
    compiled = prepared.compile if prepared is not None else lambda: function._launch(grid, args, kwargs, True)
    return mode.submit(key_of(function, args, kwargs) if isinstance(mode, AsyncCompileMode) else None, compiled, lambda kernel: None)


class FutureKernel:
    """A kernel that is being compiled. `finalize_compile(kernel)` is called when its result is first asked for, `cleanup_compile(self)` when its
    compilation failed. Attributes that it does not have are those of the kernel, which asking waits for.

    Triton 3.9 gives the function for failures before the future: both orders are understood.
    """

    def __init__(self, finalize_compile, future=None, cleanup_compile=None):
        if hasattr(cleanup_compile, "result"):
            future, cleanup_compile = cleanup_compile, future
        if future is None:
            raise TypeError("FutureKernel needs the future of its compilation")
        self.finalize_compile = finalize_compile
        self.cleanup_compile = cleanup_compile
        self.kernel = None
        self.future = future

    def __getattr__(self, name):
        if name.startswith("__") or name in ("kernel", "future", "finalize_compile", "cleanup_compile"):
            raise AttributeError(name)
        return getattr(self.result(), name)

    def result(self, ignore_errors: bool = False):
        """Waits for the kernel. Raises what its compilation raised, or returns None then if `ignore_errors`."""
        if self.kernel is not None:
            return self.kernel
        try:
            kernel = self.future.result()
        except Exception:
            if self.cleanup_compile is not None:
                self.cleanup_compile(self)
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

    def submit(self, key, compile_fn, finalize_fn, cleanup_fn=None):
        """The future of what `compile_fn()` gives, called by the executor once for each key. `cleanup_fn(future)` is called when it fails."""
        known = self.future_kernels.get(key)
        if known is not None:
            return known
        future = self.executor.submit(compile_fn)
        future._key = key
        self.raw_futures.append(future)
        kernel = FutureKernel(finalize_fn, future, cleanup_fn)
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
        if exc_type is not None:  # that error comes out; what the executor has not begun, and may never begin, is not waited for
            for future in [future for future in self.raw_futures if not future.cancel()]:
                self.future_kernels[future._key].result(ignore_errors=True)
            return
        for future in as_completed(self.raw_futures):
            self.future_kernels[future._key].result(self.ignore_errors)


_loaded["async_compile"] = sys.modules[__name__]
