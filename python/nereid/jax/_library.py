"""The library of handlers (src/jax): what XLA calls to launch a kernel, without Python.

It belongs to a version of XLA's foreign function interface. It is taken from the package if that was built for the version of the jaxlib at hand, else it is
built once, with a C++ compiler and the headers that jaxlib ships, and kept in the cache folder.
"""

import ctypes
import hashlib
import os
import pathlib
import re
import subprocess
import tempfile
import threading

import jax

import nereid
from nereid.runtime.build import cxx_compiler, include_folder

_INTERFACE = 1  # NEREID_JAX_INTERFACE
_SOURCE = "handlers.cpp"
_FLAGS = ("-O2", "-std=c++20", "-fPIC", "-fvisibility=hidden", "-shared", "-w")

#: Names of the custom call by JAX's platform.
TARGETS = {"cpu": "nereid_jax_cpu", "cuda": "nereid_jax_cuda"}

NUMBER, OPERAND, RESULT = 0, 1, 2  # JaxSource


class _Argument(ctypes.Structure):
    _fields_ = [("source", ctypes.c_uint8), ("kind", ctypes.c_uint8), ("dtype", ctypes.c_uint8), ("aligned", ctypes.c_uint8), ("index", ctypes.c_uint32),
                ("bits", ctypes.c_uint64), ("name", ctypes.c_char_p)]


class _Call(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("name", ctypes.c_char_p), ("kernel", ctypes.c_void_p), ("grid", ctypes.c_uint32 * 3), ("threads", ctypes.c_uint32),
                ("operands", ctypes.c_uint32), ("results", ctypes.c_uint32), ("arguments", ctypes.c_uint64), ("argument", ctypes.POINTER(_Argument))]


_lock = threading.Lock()
_library = None


def _folder():
    """Where the sources are: in the package, or in the tree that it was built from."""
    inside = pathlib.Path(__file__).parent / "handlers"
    return inside if inside.exists() else pathlib.Path(__file__).resolve().parents[3] / "src" / "jax"


def interface_version(headers):
    """The version of XLA's foreign function interface that headers describe, as "0.3". headers: the folder of `jax.ffi.include_dir()`.

    Raises RuntimeError where they are missing.
    """
    path = pathlib.Path(headers) / "xla" / "ffi" / "api" / "c_api.h"
    try:
        text = path.read_text()
    except OSError as error:
        raise RuntimeError(f"nereid.jax: jaxlib ships no headers of XLA's foreign function interface ({error}): reinstall jaxlib") from error
    found = [re.search(rf"^#define XLA_FFI_API_{part} (\d+)", text, re.MULTILINE) for part in ("MAJOR", "MINOR")]
    if None in found:
        raise RuntimeError(f"nereid.jax: {path} does not tell its version")
    return ".".join(each.group(1) for each in found)


def cache_folder():
    """The folder of libraries that were built on this machine: `jax` in that of NEREID_CACHE_DIR."""
    caches = nereid.knobs.nereid.cache_dir or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "nereid"
    return pathlib.Path(caches) / "jax"


def build(folder=None):
    """Builds the library of handlers for this jaxlib; returns its path (`pathlib.Path`).

    folder: where to put it; by default that of the package is taken where there is one for this version of the interface, else it is put into the cache
    folder (NEREID_CACHE_DIR), and taken from there the next time.

    Raises RuntimeError where there is no compiler or where it fails, with what it printed.
    """
    headers = jax.ffi.include_dir()
    version = interface_version(headers)
    name = f"handlers-ffi{version}"
    packaged = pathlib.Path(nereid.__file__).parent / "jax" / f"{name}.so"
    if folder is None and packaged.exists():
        return packaged
    sources = _folder()
    include = pathlib.Path(include_folder())
    texts = [path.read_bytes() for path in (*sorted(sources.glob("*.h")), sources / _SOURCE, *sorted((include / "nereid").glob("*.h")),
                                            *sorted((pathlib.Path(headers) / "xla" / "ffi" / "api").glob("*.h")))]
    identity = hashlib.sha256(b"\0".join([repr(_FLAGS).encode(), *texts])).hexdigest()[:16]
    folder = pathlib.Path(folder or cache_folder())
    path = folder / f"{name}-{identity}.so"
    if path.exists():
        return path
    compiler = cxx_compiler()
    if compiler is None:
        raise RuntimeError(f"nereid.jax builds a library for version {version} of XLA's foreign function interface at its first use, and no C++ compiler was found "
                           "(CXX, c++, g++, clang++): install one, for example `apt-get install g++`")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = os.path.join(scratch, path.name)
        done = subprocess.run([compiler, *_FLAGS, f"-I{include}", f"-I{headers}", str(sources / _SOURCE), "-o", made, "-ldl"], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"nereid.jax: {compiler} could not build the library of handlers:\n{done.stderr[-4000:]}")
        os.replace(made, path)  # at once, also where several processes build it
    return path


def load():
    """The library (`ctypes.CDLL`), whose handlers JAX knows.

    Raises RuntimeError as `build` does, or where the library does not fit.
    """
    global _library
    with _lock:
        if _library is None:
            library = ctypes.CDLL(str(build()))
            start(library)
            for platform, target in TARGETS.items():
                jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(getattr(library, target)), platform="CUDA" if platform == "cuda" else platform)
            _library = library
        return _library


def start(library):
    """Declares the functions of the library to ctypes, and connects it with libnereid."""
    library.nereid_jax_start.restype = library.nereid_jax_add.restype = ctypes.c_char_p
    library.nereid_jax_start.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
    library.nereid_jax_add.argtypes = [ctypes.POINTER(_Call)]
    wrong = library.nereid_jax_start(_INTERFACE, b"libnereid.so.1")
    if wrong:
        raise RuntimeError(f"nereid.jax: {wrong.decode()}")


def add(library, text, name, kernel, grid, threads, operands, results, arguments):
    """Tells the library of a call; returns its id, an integer of 64 bits that follows from `text` alone.

    text: all that tells the call from others, the same in each process. name: of the kernel. kernel: the address of an nrd_kernel. grid: three sizes.
    arguments: (source, nrd_arg_kind, nrd_dtype, whether aligned, index, bits, name) of each.
    """
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    rows = (_Argument * max(1, len(arguments)))(*[_Argument(*row[:6], row[6].encode()) for row in arguments])
    call = _Call(number, name.encode(), kernel, (ctypes.c_uint32 * 3)(*grid), threads, operands, results, len(arguments), rows)
    wrong = library.nereid_jax_add(ctypes.byref(call))
    if wrong:
        raise RuntimeError(f"nereid.jax: {wrong.decode()}")
    return number
