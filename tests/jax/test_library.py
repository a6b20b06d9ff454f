"""The library of handlers: how it is found and built, and what other processes do with compiled programs."""

import os
import pathlib
import subprocess
import sys
import textwrap

import jax
import pytest

from nereid.jax import _library

pytestmark = pytest.mark.timeout(300)
HERE = pathlib.Path(__file__).parent


def run(code, tmp_path, **environment):
    """What a program of its own prints, on the CPU."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    path = os.pathsep.join([str(HERE), *filter(None, sys.path)])
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200, env={**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu", **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_built_from_the_sources_that_the_package_carries(tmp_path):
    path = _library.build(tmp_path)
    assert path.parent == tmp_path and path.name.startswith(f"handlers-ffi{_library.interface_version(jax.ffi.include_dir())}-")
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert _library.build(tmp_path) == path  # not again
    assert run(f"""
        import ctypes
        from nereid.jax import _library
        library = ctypes.CDLL({str(path)!r})
        _library.start(library)
        print(library.nereid_jax_start(99, b"libnereid.so.1").decode(), library.nereid_jax_start(1, b"libother.so").decode(), sep=", ")
    """, tmp_path) == ["the library of handlers was built from another state of the package, libnereid is not loaded"]


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("NEREID_CACHE_DIR", str(tmp_path / "own"))
    assert _library.cache_folder() == tmp_path / "own" / "jax"
    monkeypatch.delenv("NEREID_CACHE_DIR")
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _library.cache_folder() == tmp_path / "nereid" / "jax"


def test_without_a_compiler(monkeypatch, tmp_path):
    monkeypatch.setattr(_library, "cxx_compiler", lambda: None)
    with pytest.raises(RuntimeError, match=r"nereid.jax builds a library for version [\d.]+ of XLA's foreign function interface at its first use, and no C\+\+ compiler was "
                                           r"found \(CXX, c\+\+, g\+\+, clang\+\+\): install one"):
        _library.build(tmp_path)


def test_compiler_that_fails(monkeypatch, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'no such luck' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(RuntimeError, match="broken could not build the library of handlers:\nno such luck"):
        _library.build(tmp_path / "out")


def test_headers_that_are_missing_or_tell_no_version(tmp_path):
    with pytest.raises(RuntimeError, match="jaxlib ships no headers of XLA's foreign function interface"):
        _library.interface_version(tmp_path)
    header = tmp_path / "xla" / "ffi" / "api" / "c_api.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define XLA_FFI_API_MAJOR 1\n")
    with pytest.raises(RuntimeError, match="does not tell its version"):
        _library.interface_version(tmp_path)
    header.write_text("#define XLA_FFI_API_MAJOR 1\n#define XLA_FFI_API_MINOR 4\n")
    assert _library.interface_version(tmp_path) == "1.4"


CALL = """
    import jax, jax.numpy as jnp, nereid, nereid.jax
    from jax_kernels import add

    f = jax.jit(lambda x: nereid.jax.call(add, x, x, out_shape=x, grid=(4, ), n=1000, BLOCK=256))
    x = jnp.arange(1000.0)
"""


def test_ids_of_calls_are_the_same_in_each_process(tmp_path):
    code = CALL + """
    print([line.split("id = ")[1].split(" ")[0] for line in f.lower(x).as_text().splitlines() if "id = " in line])
    """
    first, second = (run(code, tmp_path, PYTHONHASHSEED=seed) for seed in "12")
    assert first == second and first != ["[]"]


def test_programs_from_the_cache_of_jax(tmp_path):
    code = CALL + """
    import logging
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    hits = []
    jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if "cache_hits" in event else None)
    print(bool((f(x) == 2 * x).all()), bool(hits))
    """
    folder = str(tmp_path / "cache")
    first, second = (run(code, tmp_path, JAX_COMPILATION_CACHE_DIR=folder) for _ in range(2))
    assert first == ["True False"] and second == ["True True"]


def test_program_whose_kernel_is_not_there():
    """As of one that was exported by another process."""
    import jax.numpy as jnp
    import numpy as np
    _library.load()
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="NOT_FOUND: nereid.jax: the kernel `add` is not loaded in this process: trace the function that calls it here; "
                                                         "exported programs do not carry kernels"):
        jax.ffi.ffi_call("nereid_jax_cpu", jax.ShapeDtypeStruct((8, ), jnp.float32))(jnp.ones(8), id=np.int64(5), kernel="add").block_until_ready()
