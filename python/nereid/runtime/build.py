"""C extensions compiled when they are first needed, and kept in the cache folder. Nereid's own launches need none; for clients' code."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sysconfig
import tempfile
from types import ModuleType

from .. import knobs
from .cache import get_cache_manager


def platform_key() -> str:
    """Names the machine's kind, for keys of compiled code."""
    return ",".join([platform.machine(), platform.system(), *platform.architecture()])


def cxx_compiler() -> str | None:
    """The path of a C++ compiler: CXX, or what is usual; None where there is none."""
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and shutil.which(name):
            return shutil.which(name)
    return None


def include_folder() -> str:
    """The folder of the public headers: in the package, or in the tree that it was built from."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = os.path.join(package, "include")
    return inside if os.path.exists(inside) else os.path.join(os.path.dirname(os.path.realpath(__file__)), *[os.pardir] * 3, "include")


def _library_flag(lib: str) -> str:
    """The option that links a library: "cuda", or a file "libcuda.so.1"."""
    if lib.startswith("lib") and lib.endswith((".so", ".a")) or ".so." in lib:
        return f"-l:{lib}"
    return f"-l{lib}"


def _compiler(language: str) -> str:
    """The program that compiles C or C++: that of `knobs.build.cc` (C) or CXX (C++), else the first one found."""
    given, names, variable = ((knobs.build.cc, ("clang", "gcc", "cc"), "CC") if language == "c" else
                              (os.environ.get("CXX"), ("clang++", "g++", "c++"), "CXX"))
    found = given or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise RuntimeError(f"Failed to find {language.upper()} compiler. Please specify via {variable} environment variable or set "
                           "triton.knobs.build.impl.")
    return found


def _build(name: str, src: str, srcdir: str, library_dirs: list[str], include_dirs: list[str], libraries: list[str],
           ccflags: list[str], language: str = "c") -> str:
    """Compiles the file `src` into a module in `srcdir`; gives its path. `knobs.build.impl` does it when set."""
    if knobs.build.impl is not None:
        return knobs.build.impl(name, src, srcdir, library_dirs, include_dirs, libraries)
    compiler = _compiler(language)
    path = os.path.join(srcdir, name + sysconfig.get_config_var("EXT_SUFFIX"))
    include = [sysconfig.get_paths()["include"], srcdir, *include_dirs, *knobs.build.backend_dirs]
    command = [compiler, src, "-O3", "-shared", "-fPIC", "-Wno-psabi", "-o", path, *map(_library_flag, libraries),
               *(f"-L{folder}" for folder in library_dirs), *(f"-I{folder}" for folder in include), *(["-std=c++17"] if language == "c++" else []), *ccflags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"`{compiler}` does not compile {name}: {done.stderr.strip()}")
    return path


def _load_module_from_path(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"Failed to load newly compiled {name} from {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


#: Endings of source files by language.
_SUFFIXES = {"c": (".c", ), "c++": (".cpp", ".cc", ".cxx")}


def _compiled(source: bytes, path: str, name: str, language: str, lists) -> str:
    """The library of a source file, from the cache folder if it is there."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    parts = [source, platform_key().encode(), suffix.encode(), language.encode(), str(lists).encode()]
    manager = get_cache_manager(hashlib.sha256(b"\0".join(parts)).hexdigest())
    found = manager.get_file(name + suffix)
    if found is not None:
        return found
    with tempfile.TemporaryDirectory() as folder:
        with open(_build(name, path, folder, *lists, language=language), "rb") as built:
            return manager.put(built.read(), name + suffix, binary=True)


def compile_so_from_file(src_path: str, name: str, library_dirs: list[str] | None = None, include_dirs: list[str] | None = None,
                         libraries: list[str] | None = None, ccflags: list[str] | None = None) -> str:
    """The path of the library `name` of a file of C (`.c`) or C++ (`.cpp`, `.cc`, `.cxx`); compiled when it is not in the cache folder.

    ValueError: another ending.
    """
    ending = os.path.splitext(src_path)[1]
    language = next((language for language, suffixes in _SUFFIXES.items() if ending in suffixes), None)
    if language is None:
        raise ValueError(f"Unrecognized file extension: {os.path.basename(src_path)}")
    with open(src_path, "rb") as source:
        text = source.read()
    return _compiled(text, os.path.abspath(src_path), name, language, [library_dirs or [], include_dirs or [], libraries or [], ccflags or []])


def compile_so_from_src(src: str, name: str, library_dirs: list[str] | None = None, include_dirs: list[str] | None = None,
                        libraries: list[str] | None = None, ccflags: list[str] | None = None, language="c") -> str:
    """The path of the library `name` of this text of C or C++ (`language="c++"`); compiled when it is not in the cache folder.

    ValueError: another language.
    """
    if language not in _SUFFIXES:
        raise ValueError(f"the language must be `c` or `c++`, found {language!r}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name + _SUFFIXES[language][0])
        with open(path, "w", encoding="utf-8") as out:
            out.write(src)
        return _compiled(src.encode(), path, name, language, [library_dirs or [], include_dirs or [], libraries or [], ccflags or []])


def compile_module_from_file(src_path: str, name: str, library_dirs: list[str] | None = None, include_dirs: list[str] | None = None,
                             libraries: list[str] | None = None, ccflags: list[str] | None = None) -> ModuleType:
    """The extension module `name` of a file, as `compile_so_from_file` makes it."""
    return _load_module_from_path(name, compile_so_from_file(src_path, name, library_dirs, include_dirs, libraries, ccflags))


def compile_module_from_src(src: str, name: str, library_dirs: list[str] | None = None, include_dirs: list[str] | None = None,
                            libraries: list[str] | None = None, ccflags: list[str] | None = None, language="c") -> ModuleType:
    """The extension module `name` of this text, as `compile_so_from_src` makes it."""
    return _load_module_from_path(name, compile_so_from_src(src, name, library_dirs, include_dirs, libraries, ccflags, language))
