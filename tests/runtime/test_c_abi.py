"""The C ABI from another language: ctypes knows nothing of Nereid but the shared library and its C header."""

import ctypes
import pathlib

import numpy as np
import pytest
from c_abi import Arg, Launch

import nereid

KERNELS = pathlib.Path(__file__).resolve().parents[1] / "install" / "consumer" / "kernels.py"
POINTER, INT = 4, 0  # nrd_arg_kind
FP32 = 17  # nrd_dtype
ARGUMENT = 4  # nrd_error_kind


@pytest.fixture(scope="module")
def library():
    folder = pathlib.Path(nereid.__file__).parent
    found = [*folder.glob("libnereid.so*"), *folder.parents[1].glob("src/runtime/libnereid.so*")]
    library = ctypes.CDLL(str(found[0]))
    for name in ("nrd_version", "nrd_error_name", "nrd_error_message"):
        getattr(library, name).restype = ctypes.c_char_p
    for name in ("nrd_module_load", "nrd_function_create", "nrd_dispatch"):
        getattr(library, name).restype = ctypes.c_void_p  # nrd_error *
    return library


@pytest.fixture(scope="module")
def add(library):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert not library.nrd_module_load(str(KERNELS).encode(), ctypes.byref(module))
    assert not library.nrd_function_create(module, b"add", None, None, ctypes.byref(function))
    library.nrd_module_free(module)
    yield function
    library.nrd_function_free(function)


def arguments(*values):
    args = (Arg * len(values))()
    for arg, value in zip(args, values):
        if isinstance(value, np.ndarray):
            arg.kind, arg.dtype, arg.p = POINTER, FP32, value.ctypes.data
        else:
            arg.kind, arg.i = INT, value
    return args


def test_version(library):
    assert library.nrd_version().decode() == nereid.__version__
    assert library.nrd_abi_version() == 1


def test_launch(library, add):
    x, y = np.arange(3000, dtype=np.float32), np.ones(3000, dtype=np.float32)
    out = np.zeros(3000, dtype=np.float32)
    launch = Launch(grid=(3, 1, 1))
    error = library.nrd_dispatch(add, arguments(x, y, out, 3000, 1024), ctypes.c_size_t(5), None, ctypes.byref(launch), None)
    assert not error
    assert (out == x + 1).all()


def test_error(library, add):
    x = np.zeros(10, dtype=np.float32)
    launch = Launch(grid=(1, 1, 1))
    error = ctypes.c_void_p(
        library.nrd_dispatch(add, arguments(x, x, x, 10), ctypes.c_size_t(4), None, ctypes.byref(launch), None))
    assert error
    assert library.nrd_error_get_kind(error) == ARGUMENT
    assert library.nrd_error_name(error) == b"LaunchMissingArgument"
    assert library.nrd_error_message(error) == b"error: `add` needs a value for its parameter `BLOCK`"
    library.nrd_error_free(error)


def test_memory(library):
    memory = ctypes.c_void_p()
    assert library.nrd_memory_allocate(-1, ctypes.c_size_t(100), ctypes.byref(memory)) == 0
    assert memory.value % 64 == 0
    assert library.nrd_memory_free(-1, memory) == 0
