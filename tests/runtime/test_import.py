"""Importing is cheap, and takes nothing along that it does not need."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_takes_neither_torch_nor_numpy_along():
    text = python("import sys, nereid, nereid.language, nereid.runtime\nprint([m for m in ('torch', 'numpy', 'triton') if m in sys.modules])")
    assert text.strip() == "[]"


def test_children_import_what_is_tested(tmp_path):
    """Also in other folders: a PYTHONPATH that is relative would lead nowhere there, and to an installed package."""
    import nereid
    done = subprocess.run([sys.executable, "-c", "import nereid; print(nereid.__file__)"], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == nereid.__file__, done.stderr


def test_names_are_found_lazily():
    text = python("import sys, nereid\nprint('nereid.language' in sys.modules)\nprint(sorted(nereid.__all__) == sorted(set(nereid.__all__)))\n"
                  "print([name for name in nereid.__all__ if getattr(nereid, name, None) is None])")
    assert text.split("\n")[:3] == ["False", "True", "[]"]


def test_unknown_names():
    text = python("import nereid\ntry:\n    nereid.jti\nexcept AttributeError as error:\n    print(error)")
    assert text == "module 'nereid' has no attribute 'jti'\n"


def test_launching_takes_little_along():
    """A new process pays for what it imports: tuning, files and threads of Python come when they are used."""
    text = python("import sys\nbefore = set(sys.modules)\nimport nereid, nereid.language as tl\nnereid.jit\n"
                  "print([m for m in ('nereid.runtime.autotuner', 'nereid.runtime.cache', 'nereid.knobs', 'concurrent.futures', 'logging', "
                  "'tempfile', 'subprocess', 'importlib.resources', 'nereid.language.extra') if m in sys.modules and m not in before])\n"
                  "import nereid.runtime\n"
                  "print(nereid.runtime.autotuner.Autotuner is nereid.runtime.Autotuner is nereid.Autotuner, nereid.runtime.cache.CacheManager.__name__,"
                  " 'autotune' in dir(nereid.runtime))")
    assert text.split("\n")[:2] == ["[]", "True CacheManager True"]


LAUNCH = """
import sys, ctypes
before = set(sys.modules)
import nereid
import nereid.language as tl

@nereid.jit
def kernel(out, n, B: tl.constexpr):
    tl.store(out + tl.arange(0, B), 1.0, mask=tl.arange(0, B) < n)

memory = (ctypes.c_float * 16)()
class Array:
    dtype = "float32"
    def data_ptr(self):
        return ctypes.addressof(memory)
kernel[(1, )](Array(), 16, B=16)
assert list(memory) == [1.0] * 16
print(sorted(name for name in set(sys.modules) - before if not name.startswith("nereid")))
print(sorted(name for name in set(sys.modules) - before if name.startswith("nereid")))
"""


def test_a_launch_loads_few_modules(tmp_path):
    """Each module is time that every new process spends."""
    program = tmp_path / "program.py"
    program.write_text(LAUNCH)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    others, ours = (eval(line) for line in done.stdout.splitlines())
    assert set(others) <= {"_operator"}, others
    assert set(ours) == {"nereid", "nereid._jit", "nereid._native", "nereid.language", "nereid.language.core"}, ours


LIBRARIES = """
print([library in open("/proc/self/maps").read() for library in ("/libnereid.so.", "/libnereid_compiler.so.")])
"""


def test_a_kernel_from_disk_needs_no_compiler(tmp_path):
    """MLIR and LLVM are a library of their own, loaded by the first compilation; one that a kernel on disk saves loads nothing."""
    program = tmp_path / "program.py"
    program.write_text(LAUNCH.replace("print(", "(") + LIBRARIES)
    found = []
    for _ in range(2):
        done = subprocess.run([sys.executable, program], capture_output=True, text=True,
                              env={**os.environ, "NEREID_CACHE": "1", "NEREID_CACHE_DIR": str(tmp_path / "cache")})
        assert done.returncode == 0, done.stderr
        found.append(eval(done.stdout))
    assert found == [[True, True], [True, False]]


NAMES = """
import sys, ctypes
import nereid
import nereid.language as tl
from nereid.language import load, store, constexpr, PropagateNan, float32
from nereid.language.extra import libdevice
exp, names = tl.exp, {"low": tl.minimum, "sum": tl.sum}

@nereid.jit
def kernel(out, B: constexpr):
    value = load(out + tl.arange(0, B)).to(float32)
    low, summed = names["low"], names["sum"]
    value = exp(low(value, 0.0, propagate_nan=PropagateNan.NONE)) + libdevice.floor(summed(value, axis=0) * 0.0)
    store(out + tl.arange(0, B), value)

memory = (ctypes.c_float * 16)()
class Array:
    dtype = "float32"
    def data_ptr(self):
        return ctypes.addressof(memory)
nereid.knobs.compilation.allow_non_constexpr_globals = True
kernel[(1, )](Array(), B=16)
assert list(memory) == [1.0] * 16, list(memory)
"""


def test_names_of_the_language_need_no_compiler_either(tmp_path):
    """A kernel that uses them by name is found on disk by the names alone; another meaning of a name is another kernel."""
    program = tmp_path / "program.py"
    text = NAMES + LIBRARIES
    for change, expected in ((("", ""), [[True, True], [True, False], [True, False]]),
                             (("exp, names = tl.exp,", "exp, names = tl.exp2,"), [[True, True], [True, False]]),
                             (("load, store, constexpr", "load as store, store as load, constexpr"), [None])):
        program.write_text(text.replace(*change))
        for want in expected:
            done = subprocess.run([sys.executable, program], capture_output=True, text=True,
                                  env={**os.environ, "NEREID_CACHE": "1", "NEREID_CACHE_DIR": str(tmp_path / "cache")})
            assert (eval(done.stdout) if done.returncode == 0 else None) == want, done.stderr
def test_every_name_of_the_language_is_one_of_the_compiler():
    """What says that it is a name of the language is taken at its word when a kernel is looked for on disk."""
    import ctypes

    import nereid._host
    import nereid.language as tl
    import nereid.language.random
    from nereid.language.extra import libdevice
    from nereid.language.extra.cuda import gdc, utils
    modules = (tl, tl.core, tl.math, tl.standard, tl.target_info, nereid.language.random, nereid._host, libdevice, gdc, utils)
    values = (getattr(module, name) for module in modules for name in dir(module))
    names = {value.__nereid_builtin__ for value in values if isinstance(getattr(value, "__nereid_builtin__", None), str)}
    library = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "/libnereid.so." in line))
    library.nrd_value_builtin.restype = ctypes.c_void_p
    library.nrd_value_free.argtypes = [ctypes.c_void_p]
    unknown = []
    for name in names:
        value = library.nrd_value_builtin(name.encode())
        if not value:
            unknown.append(name)
        library.nrd_value_free(value)
    assert len(names) > 250 and unknown == []


def test_a_missing_compiler_is_reported(tmp_path):
    """What needs it says why it cannot be had (CompilerNotLoaded); the run time alone is a library that can be used."""
    import nereid._native  # noqa: F401
    maps = pathlib.Path("/proc/self/maps").read_text()
    library, = {line.split()[-1] for line in maps.splitlines() if "/libnereid.so." in line}
    shutil.copy(library, tmp_path / "libnereid.so.1")
    text = python(f"""
import ctypes
library = ctypes.CDLL({str(tmp_path / "libnereid.so.1")!r})
library.nrd_error_message.restype, library.nrd_error_message.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
library.nrd_module_parse_tile.restype = ctypes.c_void_p
module, text = ctypes.c_void_p(), b"module {{}}"
error = library.nrd_module_parse_tile(text, ctypes.c_size_t(len(text)), b"empty.tile", ctypes.byref(module))
print(library.nrd_error_message(error).decode())
""")
    assert re.search("the compiler cannot be loaded: .*/libnereid_compiler.so.1: cannot open shared object file", text), text


def test_what_was_left_out_is_found():
    """Attributes, modules and names that were there from the start before are found when they are asked for."""
    text = python("""
import pickle, sys
import nereid, nereid.language as tl
import nereid.runtime, nereid.compiler.compiler, nereid.backends
print(tl.math.exp is tl.exp, tl.standard.sum is tl.sum, tl.target_info.is_cpu.__name__)
print(nereid.runtime.driver.active.get_current_target().backend in ("cpu", "cuda"), __import__("sys").modules["nereid.runtime.driver"].backends is nereid.backends.backends)
import nereid.runtime.driver
print(type(nereid.runtime.driver).__name__)
print(nereid.runtime.errors.OutOfResources is nereid.runtime.OutOfResources is nereid.OutOfResources)
print(nereid.compiler.ASTSource is nereid.compiler.compiler.ASTSource is nereid.compiler.source.ASTSource)
print(nereid.compiler.compiler.GPUTarget("cuda", 90, 32) == pickle.loads(pickle.dumps(nereid.backends.GPUTarget("cuda", 90, 32))))
print(nereid.compiler.compiler.backends is nereid.backends.backends, nereid.backends.nvidia.compiler.CUDABackend.__name__)
print(nereid.runtime.jit.type_canonicalisation_dict["float32"], nereid.runtime.specialise.type_canonicalisation_dict["int32"])
print(pickle.loads(pickle.dumps(nereid.backends.Backend)) is nereid.backends.Backend)
""")
    assert text.split() == ["True", "True", "is_cpu", "True", "True", "DriverConfig", "True", "True", "True", "True", "CUDABackend", "fp32", "i32", "True"]


def test_functions_of_the_language_are_made_when_asked_for():
    """Hundreds of functions that kernels only name: Python has them, and the members of tensors, from the first question on."""
    for question in ("tl.load.__name__", "tl.core.load.__name__", "tl.tensor.sum.__name__", "'sum' in dir(tl.tensor) and 'load'", "'load' in dir(tl) and 'load'",
                     "'load' in tl.__all__ and 'load'", "object.__new__(tl.tensor).sum.__name__", "'load' in dir(tl.core) and 'load'"):
        text = python(f"import sys, nereid.language as tl\nname = 'nereid.language._builtins'\nassert name not in sys.modules\nprint({question}, name in sys.modules)")
        assert text.split() in (["load", "True"], ["sum", "True"]), question
    text = python("""
import pickle
import nereid.language as tl
for asked in ("tl.nonsense", "tl.core.nonsense", "tl.tensor.nonsense", "object.__new__(tl.tensor).nonsense", "tl.float32.int_signedness"):
    try:
        eval(asked)
    except AttributeError as error:
        print(error)
scope = {}
exec("from nereid.language import *", scope)
print(scope["load"] is tl.load is tl.core.load, scope["float32"] is tl.float32, tl.tensor.sum is tl.sum is pickle.loads(pickle.dumps(tl.sum)))
print(tl.PropagateNan.ALL, int(tl.PropagateNan(0xFFFF)), pickle.loads(pickle.dumps(tl.PropagateNan.NONE)) is tl.PropagateNan.NONE)
print(tl.uint8.int_signedness.name, tl.int8.int_signedness is tl.dtype.SIGNEDNESS.SIGNED, tl.float16.kind() is pickle.loads(pickle.dumps(tl.dtype.KIND.FLOATING)))
""")
    assert text.splitlines() == [
        "module 'nereid.language' has no attribute 'nonsense'", "module 'nereid.language.core' has no attribute 'nonsense'",
        "type object 'tensor' has no attribute 'nonsense'", "'tensor' object has no attribute 'nonsense'", "fp32 is not an integer type",
        "True True True", "PropagateNan.ALL 65535 True", "UNSIGNED True True"
    ]


def test_interpreting_is_known_without_the_knobs(monkeypatch):
    for variables in ({}, {"TRITON_INTERPRET": "1"}, {"NEREID_INTERPRET": "yes"}, {"NEREID_INTERPRET": "0", "TRITON_INTERPRET": "1"},
                      {"TRITON_INTERPRET": "off"}):
        for name in ("NEREID_INTERPRET", "TRITON_INTERPRET"):
            monkeypatch.delenv(name, raising=False)
        for name, text in variables.items():
            monkeypatch.setenv(name, text)
        text = python("import sys, nereid.runtime.jit as jit\nfirst = jit._is_interpreting()\nassert 'nereid.knobs' not in sys.modules\n"
                      "import nereid.knobs\nprint(first == jit._is_interpreting() == nereid.knobs.runtime.interpret)")
        assert text == "True\n", variables


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_the_extension_exports_one_function():
    extension = python("from nereid import _native\nprint(_native.__file__)").strip()
    listing = subprocess.run(["nm", "-D", "--defined-only", extension], capture_output=True, text=True, check=True).stdout
    assert [line.split()[-1] for line in listing.splitlines()] == ["PyInit__native"]
