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


def _build(name: str, src: str, srcdir: str, library_dirs: list[str], include_dirs: list[str], libraries: list[str],
           ccflags: list[str]) -> str:
    """Compiles the file `src` into a module in `srcdir`; gives its path. `knobs.build.impl` does it when set."""
    if knobs.build.impl is not None:
        return knobs.build.impl(name, src, srcdir, library_dirs, include_dirs, libraries)
    compiler = knobs.build.cc or shutil.which("clang") or shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable or set "
                           "triton.knobs.build.impl.")
    path = os.path.join(srcdir, name + sysconfig.get_config_var("EXT_SUFFIX"))
    include = [sysconfig.get_paths()["include"], srcdir, *include_dirs, *knobs.build.backend_dirs]
    command = [compiler, src, "-O3", "-shared", "-fPIC", "-Wno-psabi", "-o", path, *map(_library_flag, libraries),
               *(f"-L{folder}" for folder in library_dirs), *(f"-I{folder}" for folder in include), *ccflags]
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


def compile_module_from_src(src: str, name: str, library_dirs: list[str] | None = None, include_dirs: list[str] | None = None,
                            libraries: list[str] | None = None, ccflags: list[str] | None = None) -> ModuleType:
    """The extension module `name` of this C source; compiled when it is not in the cache folder."""
    lists = [library_dirs or [], include_dirs or [], libraries or [], ccflags or []]
    key = hashlib.sha256("\0".join([src, platform_key(), sysconfig.get_config_var("EXT_SUFFIX"), str(lists)]).encode()).hexdigest()
    manager = get_cache_manager(key)
    file = name + sysconfig.get_config_var("EXT_SUFFIX")
    path = manager.get_file(file)
    if path is None:
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, name + ".c")
            with open(source, "w") as out:
                out.write(src)
            with open(_build(name, source, folder, *lists), "rb") as built:
                path = manager.put(built.read(), file, binary=True)
    return _load_module_from_path(name, path)
