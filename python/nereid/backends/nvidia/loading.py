"""Loads machine code of other compilers into the CUDA driver."""

import ctypes
import functools

_PREFER_SHARED = 1
_LIMIT_PRINTF_FIFO_SIZE = 1
_MAX_THREADS, _LOCAL_BYTES, _REGISTERS, _MAX_DYNAMIC_SHARED = 0, 3, 4, 8


@functools.lru_cache
def _cuda():
    return ctypes.CDLL("libcuda.so.1")


def _check(result):
    if result:
        text = ctypes.c_char_p()
        _cuda().cuGetErrorString(result, ctypes.byref(text))
        raise RuntimeError(f"Triton Error [CUDA]: {(text.value or b'unknown').decode()}")


def load(name, image, shared_bytes):
    """Loads on the current device: (module, function, registers, spilled words, threads that a block may have)."""
    cuda = _cuda()
    module, function, value = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    _check(cuda.cuModuleLoadData(ctypes.byref(module), image))
    _check(cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))

    def attribute(number):
        _check(cuda.cuFuncGetAttribute(ctypes.byref(value), number, function))
        return value.value

    if shared_bytes > 48 * 1024:
        _check(cuda.cuFuncSetCacheConfig(function, _PREFER_SHARED))
        _check(cuda.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED, shared_bytes))
    return module.value, function.value, attribute(_REGISTERS), attribute(_LOCAL_BYTES) // 4, attribute(_MAX_THREADS)


def unload(module):
    """Frees what `load` gave."""
    _check(_cuda().cuModuleUnload(ctypes.c_void_p(module)))


def set_printf_fifo_size(size):
    """Bytes of the buffer for output of kernels."""
    _check(_cuda().cuCtxSetLimit(_LIMIT_PRINTF_FIFO_SIZE, ctypes.c_size_t(size)))
