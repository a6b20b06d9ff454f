"""Settings of the process, in groups: `triton.knobs.compilation.always_compile`, `triton.knobs.nereid.cpu_threads`.

A knob has, in this order, the value that a program gave it, the value of its environment variable, its default. Giving a value also
sets the environment variable, for child processes, unless `propagate_env` is False; `del group.knob` takes the value away again, and
so does giving it the value `env`: a variable that begins with NEREID_ is then what it was before, unless the program has changed it itself. `group.scope()` is a context that puts everything back, `group.copy()` a group of its own (put it in
place with `knobs.compilation = copy`), `group.reset()` forgets given values, `group.knobs` is a dict of all values.

Each knob says in `effect` what it does here, or why it does nothing: docs/reference/knobs.md lists them. Those with a setting of the
library behind them (`setting`) reach the compiler at once; the environment is read again whenever a kernel is compiled.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import types
from dataclasses import dataclass
from typing import Any, Callable, Optional, Protocol, TypedDict

from . import _loaded, _native, _provided

#: Whether giving a knob a value sets its environment variable as well.
propagate_env: bool = True


class Env:
    """The value that stands for "whatever the environment says"."""


env = Env()

_REPLACED = "_environment_of_"  # before the name of a knob, in the group's `__dict__`: (the variable as the knob has set it, as it was before)
_TRUE = {"1", "true", "yes", "on", "y"}


def getenv(key, default=None):
    """The text of an environment variable."""
    return os.environ.get(key, default)


def getenv_bool(key, default):
    """Whether an environment variable is true ("1", "true", "yes", "on", "y")."""
    text = os.environ.get(key)
    return default if text is None else text.strip().lower() in _TRUE


def setenv(key, value: Optional[str]) -> None:
    """Sets or removes an environment variable, when values are to be propagated."""
    if not propagate_env:
        return
    if value is not None:
        os.environ[key] = value
    else:
        os.environ.pop(key, None)


def toenv(val: Any) -> tuple[Optional[str]] | None:
    """The text of a value in the environment, in a tuple; None for values that have none."""
    if val is None:
        return (None, )
    if isinstance(val, bool):
        return ("1" if val else "0", )
    if isinstance(val, (str, int, os.PathLike)):
        return (str(val), )
    return None


class env_base:
    """A knob: the descriptor of an attribute of a group.

    key: its environment variable. effect: what it does. ignored: or why it does nothing. setting: the library's variable behind it,
    which is looked up first; with `!` before it, one of the opposite meaning.
    """

    def __init__(self, key: str, *, effect="", ignored="", setting=""):
        self.key = key
        self.effect = effect
        self.ignored = ignored
        self.setting = setting.lstrip("!")
        self.opposite = setting.startswith("!")

    def __set_name__(self, objclass, name):
        self.name = name

    def __get__(self, obj, objclass):
        if obj is None:
            return self
        if self.name in obj.__dict__:
            return self.transform(obj.__dict__[self.name])
        return self.get()

    def __set__(self, obj, value):
        if isinstance(value, Env):
            self.forget(obj)
            return
        obj.__dict__[self.name] = value
        text = toenv(value)
        if text is None or not propagate_env:
            return
        if not self.key.startswith("NEREID_"):
            setenv(self.key, text[0])
            return
        former = os.environ.get(self.key)
        given, replaced = obj.__dict__.get(_REPLACED + self.name, (former, former))
        obj.__dict__[_REPLACED + self.name] = text[0], replaced if given == former else former
        setenv(self.key, text[0])

    def __delete__(self, obj):
        self.forget(obj)

    def forget(self, obj):
        """Takes a given value away. A variable of Nereid's own is again what it was before, unless the program has changed it since; Triton's stay, as Triton leaves them."""
        obj.__dict__.pop(self.name, None)
        given, replaced = obj.__dict__.pop(_REPLACED + self.name, (None, None))
        if given is not None and os.environ.get(self.key) == given:
            setenv(self.key, replaced)

    def transform(self, val):
        """The value that reading the knob gives for `val`, which was set."""
        return val

    def text(self):
        """The environment's text, or None; that of the library's own variable in the sense of this knob. ValueError where a setting has a value that it does not take."""
        if self.setting in os.environ:
            _native.check_settings()
            text = os.environ[self.setting]
            return text if not self.opposite else "0" if text.strip().lower() in _TRUE else "1"
        return os.environ.get(self.key)

    def get(self):
        """The value of the environment, or the default."""
        raise NotImplementedError

    def entry(self, value):
        """The library's setting for a given value, as NAME=value; None when there is no such setting."""
        text = toenv(value)
        if not self.setting or text is None or text[0] is None:
            return None
        if self.opposite:
            return f"{self.setting}={0 if value else 1}"
        return f"{self.setting}={text[0]}"


class env_str(env_base):
    """A text."""

    def __init__(self, key: str, default: str, **about):
        super().__init__(key, **about)
        self.default = default

    def get(self) -> str:
        text = self.text()
        return self.default if text is None else text


class env_str_callable_default(env_base):
    """A text whose default is computed when it is asked for."""

    def __init__(self, key: str, default_factory: Callable[[], str], **about):
        super().__init__(key, **about)
        self.default_factory = default_factory

    def get(self) -> str:
        text = self.text()
        return self.default_factory() if text is None else text


class env_cache_dir(env_str_callable_default):
    """A folder whose own variable is looked up before the library's: PyTorch sets it to collect the files of the kernels it compiles."""

    def text(self):
        return os.environ.get(self.key) or super().text()


class env_opt_str(env_base):
    """A text, or None."""
    default = None

    def get(self) -> Optional[str]:
        return self.text()


class env_bool(env_base):
    """True or False."""

    def __init__(self, key: str, default: bool = False, **about):
        super().__init__(key, **about)
        self.default = default

    def get(self) -> bool:
        text = self.text()
        return self.default if text is None else text.strip().lower() in _TRUE


class env_opt_bool(env_base):
    """True, False, or None."""
    default = None

    def get(self) -> Optional[bool]:
        text = self.text()
        return None if text is None else text.strip().lower() in _TRUE


class env_int(env_base):
    """A number."""

    def __init__(self, key: str, default: int = 0, **about):
        super().__init__(key, **about)
        self.default = default

    def get(self) -> int:
        text = self.text()
        if text is None:
            return self.default
        try:
            return int(text)
        except ValueError as error:
            raise RuntimeError(f"Unable to use {self.key}={text}: expected int") from error


class env_class(env_base):
    """A class, as "module:class"; it must have a base class of the name `type`."""
    default = None

    def __init__(self, key: str, type: str, **about):
        super().__init__(key, **about)
        self.type = type

    def get(self) -> Optional[type]:
        text = self.text()
        if text is None:
            return None
        module, colon, name = text.partition(":")
        if not colon or not module or not name:
            raise RuntimeError(f"Unable to read {self.key}: '{text}' isn't of the form MODULE:CLASS")
        found = getattr(importlib.import_module(module), name)
        if not isinstance(found, type_of_classes) or not any(base.__name__ == self.type for base in found.mro()):
            raise RuntimeError(f"Unable to use '{text}' from {self.key}: not of type '{self.type}'")
        return found


type_of_classes = type


@dataclass
class NvidiaTool:
    """A program of NVIDIA's: where it is, and its version ("13.0")."""
    path: str
    version: str

    @staticmethod
    @functools.lru_cache
    def from_path(path: str) -> Optional["NvidiaTool"]:
        """The tool at a path; None when there is no such program or it does not say its version."""
        try:
            output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60).stdout
        except (OSError, subprocess.SubprocessError):
            return None
        version = re.search(r"release (\d+\.\d+)", output)
        return NvidiaTool(path, version.group(1)) if version else None


def _tool_folders():
    """Folders with NVIDIA's programs, the ones that were asked for first."""
    given = os.environ.get("NEREID_CUDA_PATH", os.environ.get("CUDA_HOME", ""))
    roots = [pathlib.Path(folder) for folder in given.split(":") if folder]
    for place in sys.path:
        for package in ("nvidia/cu13", "nvidia/cuda_nvcc", "nvidia/cuda_nvdisasm", "triton/backends/nvidia"):
            roots.append(pathlib.Path(place or ".") / package)
    roots.append(pathlib.Path("/usr/local/cuda"))
    return [root / "bin" for root in roots] + [pathlib.Path(p) for p in os.environ.get("PATH", "").split(":") if p]


class env_nvidia_tool(env_base):
    """A program of NVIDIA's."""

    def __init__(self, binary: str, **about):
        self.binary = binary + sysconfig.get_config_var("EXE")
        super().__init__(f"TRITON_{binary.upper().replace('-', '_')}_PATH", **about)

    @property
    def default_path(self):
        """Where it is when nothing says; None when it is nowhere."""
        for folder in _tool_folders():
            path = folder / self.binary
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
        return None

    def transform(self, path) -> NvidiaTool:
        return path if isinstance(path, NvidiaTool) else self._first(path)

    def get(self) -> NvidiaTool:
        return self._first(self.text())

    def _first(self, wanted):
        for path in (wanted, self.default_path):
            if path and os.access(path, os.X_OK):
                tool = NvidiaTool.from_path(os.fspath(path))
                if tool:
                    return tool
        raise RuntimeError(f"Cannot find {self.binary}: install a CUDA toolkit, or set {self.key}")

    def entry(self, value):
        return super().entry(value.path if isinstance(value, NvidiaTool) else value)


# ---- groups -----------------------------------------------------------------------------------------


class base_knobs:
    """A group of knobs."""

    @property
    def knob_descriptors(self) -> dict[str, env_base]:
        """The knobs that an environment variable stands behind, by name."""
        return {name: knob for base in reversed(type(self).mro()) for name, knob in vars(base).items()
                if isinstance(knob, env_base)}

    @property
    def knobs(self) -> dict[str, Any]:
        """The values of all knobs, by name."""
        return {name: getattr(self, name) for name in self.knob_descriptors}

    def copy(self):
        """A group of its own with the same given values."""
        other = type(self)()
        other.__dict__.update((name, value) for name, value in self.__dict__.items() if not name.startswith(_REPLACED))  # the environment is the group's
        return other

    def reset(self):
        """Forgets the values that were given; the environment's count again."""
        for knob in self.knob_descriptors.values():
            knob.forget(self)
        _changed()
        return self

    @contextlib.contextmanager
    def scope(self):
        """A context at whose end the group and the environment are as they were."""
        given = dict(self.__dict__)
        environment = {knob.key: os.environ.get(knob.key) for knob in self.knob_descriptors.values()}
        try:
            yield
        finally:
            for key, text in environment.items():
                if text is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = text
            self.__dict__.clear()
            self.__dict__.update(given)
            _changed()

    def __setattr__(self, name, value):
        before = self.__dict__.get(name, env)
        super().__setattr__(name, value)
        try:
            _changed()
        except ValueError:
            super().__setattr__(name, before)
            _changed()
            raise

    def __delattr__(self, name):
        super().__delattr__(name)
        _changed()


class BuildImpl(Protocol):
    """Compiles a C extension, gives its path."""

    def __call__(self, name: str, src: str, srcdir: str, library_dirs: list[str], include_dirs: list[str],
                 libraries: list[str], /) -> str:
        ...


class build_knobs(base_knobs):
    """Compiling C code."""

    cc: env_opt_str = env_opt_str("CC", effect="the C compiler of `runtime.build` and of tests of generated C code")
    cudacrt_path: env_opt_str = env_opt_str("TRITON_CUDACRT_PATH", ignored="no C code is compiled to launch kernels")
    cudart_path: env_opt_str = env_opt_str("TRITON_CUDART_PATH", ignored="the CUDA runtime is not used, only the driver")
    impl: Optional[BuildImpl] = None

    @property
    def backend_dirs(self) -> set[str]:
        """Folders of headers and libraries of CUDA that were named."""
        return {path for path in (self.cudacrt_path, self.cudart_path) if path is not None}


class redis_knobs(base_knobs):
    """`runtime.cache.RedisRemoteCacheBackend`."""

    key_format: env_str = env_str("TRITON_REDIS_KEY_FORMAT", "triton:{key}:{filename}", effect="names of entries")
    host: env_str = env_str("TRITON_REDIS_HOST", "localhost", effect="the server")
    port: env_int = env_int("TRITON_REDIS_PORT", 6379, effect="its port")


class cache_knobs(base_knobs):
    """Where files go."""

    home_dir: env_str = env_str("TRITON_HOME", os.path.expanduser("~/"), setting="NEREID_HOME",
                                effect="the folder that holds `.triton`")
    dump_dir = env_str_callable_default("TRITON_DUMP_DIR", lambda: cache.get_triton_dir("dump"),
                                        setting="NEREID_KERNEL_DUMP_DIR",
                                        effect="where `compilation.dump_ir` writes stages, in a folder for each kernel's hash")
    override_dir = env_str_callable_default("TRITON_OVERRIDE_DIR", lambda: cache.get_triton_dir("override"),
                                            setting="NEREID_OVERRIDE_DIR",
                                            effect="where `compilation.override` looks for stages")
    dir = env_cache_dir("TRITON_CACHE_DIR", lambda: cache.get_triton_dir("cache"), setting="NEREID_CACHE_DIR",
                        effect="the folder of `runtime.cache`'s files: results of tuning among them; of both variables the first counts")
    manager_class: env_class = env_class("TRITON_CACHE_MANAGER", "CacheManager",
                                         effect="the class behind `runtime.cache.get_cache_manager`")
    remote_manager_class: env_class = env_class("TRITON_REMOTE_CACHE_BACKEND", "RemoteCacheBackend",
                                                effect="what `runtime.cache.RemoteCacheManager` asks")

    def get_triton_dir(self, dirname: str) -> str:
        """The folder of this name in `.triton` of the home folder."""
        return os.path.join(self.home_dir, ".triton", dirname)


class CompileTimes:
    """How long the steps of a compilation took, in microseconds."""

    def __init__(self, ir_initialization: int, lowering_stages: list[tuple[str, int]], store_results: int):
        self.ir_initialization = ir_initialization
        self.lowering_stages = lowering_stages
        self.store_results = store_results

    @property
    def total_lowering(self) -> int:
        return sum(time for _, time in self.lowering_stages)

    @property
    def total(self) -> int:
        return self.ir_initialization + self.total_lowering + self.store_results


class CompilationListener(Protocol):
    """Called after every compilation."""

    def __call__(self, *, src, metadata: dict[str, Any], metadata_group: dict[str, str], times: CompileTimes,
                 cache_hit: bool) -> None:
        ...


class compilation_knobs(base_knobs):
    """Compiling kernels."""

    override: env_bool = env_bool("TRITON_KERNEL_OVERRIDE", setting="NEREID_KERNEL_OVERRIDE",
                                  effect="take a stage of a kernel (tile, llir, ptx) from the override folder when a file of it is there")
    dump_ir: env_bool = env_bool("TRITON_KERNEL_DUMP", setting="NEREID_KERNEL_DUMP",
                                 effect="write all stages of every kernel to the dump folder")
    dump_ir_extract_di_local_variables: env_bool = env_bool(
        "LLVM_EXTRACT_DI_LOCAL_VARIABLES", ignored="names of variables are not carried into machine code")
    store_binary_only: env_bool = env_bool("TRITON_STORE_BINARY_ONLY", effect="of what `compile` writes to Triton's cache leave out the PTX")
    always_compile: env_bool = env_bool("TRITON_ALWAYS_COMPILE", setting="NEREID_ALWAYS_COMPILE",
                                        effect="take no kernel from the disk")
    use_ir_loc: env_opt_str = env_opt_str("USE_IR_LOC", ignored="lines are always those of the kernel's source")
    enable_asan: env_bool = env_bool("TRITON_ENABLE_ASAN", ignored="`checked=True` finds accesses out of bounds on the CPU, "
                                     "compute-sanitizer on the GPU")
    disable_line_info: env_bool = env_bool("TRITON_DISABLE_LINE_INFO", setting="!NEREID_LINE_INFO",
                                           effect="leave the lines of the source out of GPU code")
    front_end_debugging: env_bool = env_bool("TRITON_FRONT_END_DEBUGGING",
                                             ignored="the compiler has no Python frames to show; an exception of Python code "
                                             "that ran during a compilation is always the error's `__cause__`")
    allow_non_constexpr_globals: env_bool = env_bool("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS",
                                                     effect="kernels may read any global variable; its value is not checked later")
    instrumentation_mode: env_str = env_str("TRITON_INSTRUMENTATION_MODE", "",
                                            ignored="there are no such sanitizers; see `checked=True` and compute-sanitizer")
    listener: Optional[CompilationListener] = None


class AutotuneListener(Protocol):
    """Called after every choice of a tuner."""

    def __call__(self, *, fn, key, best_config, configs_timings, duration: float, cache_hit: bool) -> None:
        ...


class autotuning_knobs(base_knobs):
    """Tuning."""

    cache: env_bool = env_bool("TRITON_CACHE_AUTOTUNING", effect="keep results of tuning on disk, as `cache_results=True` does")
    print: env_bool = env_bool("TRITON_PRINT_AUTOTUNING", setting="NEREID_PRINT_AUTOTUNING",
                               effect="print what was measured and chosen")
    listener: Optional[AutotuneListener] = None


class LaunchHook(Protocol):
    """Called before or after a launch; `metadata.get()` is a dict: name, function, stream, and what `launch_metadata` of the kernel gave."""

    def __call__(self, metadata) -> None:
        ...


class InitHandleHook(Protocol):
    """Called when a kernel is loaded on a device."""

    def __call__(self, module: Optional[object], function: Optional[Callable], name: str, metadata_group: dict[str, str],
                 hash: str) -> None:
        ...


class JITHookCompileInfo(TypedDict):
    """What a `JITHook` is told about a compilation."""
    key: str
    signature: dict
    device: int
    constants: None
    num_warps: int
    num_ctas: int
    num_stages: int
    enable_fp_fusion: bool
    launch_cooperative_grid: bool
    extern_libs: tuple[tuple[str, str], ...]
    configs: list
    specialization_data: str
    is_warmup: bool


class JITHook(Protocol):
    """Called before or after a kernel is compiled; a true result before it prevents the compilation."""

    def __call__(self, *, key: str, repr: str, fn, compile: JITHookCompileInfo, is_manual_warmup: bool,
                 already_compiled: bool) -> Optional[bool]:
        ...


class PipelineStagesHook(Protocol):
    """May look at the stages of a backend's compilation."""

    def __call__(self, stages, options, language, capability):
        ...


class HookChain:
    """Functions that are called one after another with the same arguments; in reverse order of their adding if `reversed`."""

    def __init__(self, reversed: bool = False):
        self.calls: list = []
        self.reversed = reversed

    def add(self, func) -> None:
        """Adds a function, unless it is there."""
        if func not in self.calls:
            self.calls.append(func)
            _changed()

    def remove(self, func) -> None:
        """Removes a function, if it is there."""
        if func in self.calls:
            self.calls.remove(func)
            _changed()

    def __call__(self, *args, **kwargs):
        for call in self.calls if not self.reversed else reversed(self.calls):
            call(*args, **kwargs)


class runtime_knobs(base_knobs):
    """Running kernels."""

    interpret: env_bool = env_bool("TRITON_INTERPRET", setting="NEREID_INTERPRET",
                                   effect="run kernels on the CPU, one program after another, every access checked")
    debug: env_bool = env_bool("TRITON_DEBUG", setting="NEREID_DEBUG",
                               effect="compile device assertions and checks of integer overflow")
    override_arch: env_opt_str = env_opt_str("TRITON_OVERRIDE_ARCH", setting="NEREID_OVERRIDE_ARCH",
                                             effect="compile GPU kernels for this architecture")

    launch_enter_hook: HookChain = HookChain()
    launch_exit_hook: HookChain = HookChain(reversed=True)
    kernel_load_start_hook: HookChain = HookChain()
    kernel_load_end_hook: HookChain = HookChain(reversed=True)
    kernel_unload_hook: HookChain = HookChain(reversed=True)

    jit_cache_hook: Optional[JITHook] = None
    jit_post_compile_hook: Optional[JITHook] = None
    add_stages_inspection_hook: Optional[PipelineStagesHook] = None


class language_knobs(base_knobs):
    """Defaults of the language."""

    fp32_default: env_opt_str = env_opt_str("TRITON_F32_DEFAULT", setting="NEREID_F32_DEFAULT",
                                            effect="`input_precision` of a `dot` of fp32 operands that does not say")
    default_fp_fusion: env_bool = env_bool("TRITON_DEFAULT_FP_FUSION", True, setting="NEREID_FP_FUSION",
                                           effect="default of `enable_fp_fusion`")
    force_disable_fp_fusion: env_bool = env_bool("TRITON_FORCE_DISABLE_FP_FUSION", False, setting="NEREID_FORCE_DISABLE_FP_FUSION",
                                                 effect="never contract a*b+c to one rounding, whatever `enable_fp_fusion` says")

    def fp_fusion_enabled(self, requested: Optional[bool]) -> bool:
        """Whether a kernel with `enable_fp_fusion=requested` (None: not given) is compiled with contraction."""
        if self.force_disable_fp_fusion:
            return False
        return self.default_fp_fusion if requested is None else requested


class nvidia_knobs(base_knobs):
    """NVIDIA GPUs."""

    cuobjdump: env_nvidia_tool = env_nvidia_tool("cuobjdump", effect="the program of `tools.disasm`")
    nvdisasm: env_nvidia_tool = env_nvidia_tool("nvdisasm", effect="the program of `tools.disasm`")
    ptxas: env_nvidia_tool = env_nvidia_tool("ptxas", setting="NEREID_PTXAS",
                                             effect="assembles PTX, in place of the library that does it in the process")
    ptxas_blackwell: env_nvidia_tool = env_nvidia_tool("ptxas-blackwell", ignored="one assembler serves all GPUs")

    dump_nvptx: env_bool = env_bool("NVPTX_ENABLE_DUMP", setting="NEREID_PRINT_PTX", effect="print the PTX of each kernel")
    disable_ptxas_opt: env_bool = env_bool("DISABLE_PTXAS_OPT", setting="!NEREID_ASSEMBLER_OPT",
                                           effect="let the assembler not optimise")
    ptxas_options: env_opt_str = env_opt_str("PTXAS_OPTIONS", setting="NEREID_ASSEMBLER_OPTIONS",
                                             effect="further options of the assembler")
    mock_ptx_version: env_opt_str = env_opt_str("TRITON_MOCK_PTX_VERSION",
                                                ignored="the PTX version follows the assembler that was found")
    dump_ptxas_log: env_bool = env_bool("TRITON_DUMP_PTXAS_LOG", setting="NEREID_PRINT_ASSEMBLER",
                                        effect="print what the assembler says about each kernel")
    libdevice_path: env_opt_str = env_opt_str("TRITON_LIBDEVICE_PATH", setting="NEREID_LIBDEVICE",
                                              effect="the file `libdevice.10.bc`")
    libcuda_path: env_opt_str = env_opt_str("TRITON_LIBCUDA_PATH", setting="NEREID_LIBCUDA",
                                            effect="the driver's library, or its folder; counts before the driver is first used")


_NO_AMD = "there is no AMD target yet"


class amd_knobs(base_knobs):
    """AMD GPUs."""

    use_buffer_ops: env_bool = env_bool("AMDGCN_USE_BUFFER_OPS", True, ignored=_NO_AMD)
    use_buffer_atomics: env_bool = env_bool("AMDGCN_USE_BUFFER_ATOMICS", True, ignored=_NO_AMD)
    buffer_ops_analyze_small_tensor_range: env_bool = env_bool("AMDGCN_ANALYZE_SMALL_TENSOR_RANGE", False, ignored=_NO_AMD)
    dump_amdgcn: env_bool = env_bool("AMDGCN_ENABLE_DUMP", False, ignored=_NO_AMD)
    libhip_path: env_opt_str = env_opt_str("TRITON_LIBHIP_PATH", ignored=_NO_AMD)
    use_block_pingpong: env_opt_bool = env_opt_bool("TRITON_HIP_USE_BLOCK_PINGPONG", ignored=_NO_AMD)
    use_in_thread_transpose: env_opt_bool = env_opt_bool("TRITON_HIP_USE_IN_THREAD_TRANSPOSE", ignored=_NO_AMD)
    use_async_copy: env_bool = env_bool("TRITON_HIP_USE_ASYNC_COPY", False, ignored=_NO_AMD)
    scalarize_packed_fops: env_bool = env_bool("AMDGCN_SCALARIZE_PACKED_FOPS", False, ignored=_NO_AMD)


_NO_PROTON = "there is no profiler of our own: Nsight and CUPTI tools see the kernels under their names and lines"


class proton_knobs(base_knobs):
    """Triton's profiler."""

    disable: env_bool = env_bool("TRITON_PROTON_DISABLE", False, ignored=_NO_PROTON)
    cupti_lib_dir: env_str = env_str("TRITON_CUPTI_LIB_PATH", "", ignored=_NO_PROTON)
    cupti_lib_blackwell_dir: env_str = env_str("TRITON_CUPTI_LIB_BLACKWELL_PATH", "", ignored=_NO_PROTON)
    profile_buffer_size: env_int = env_int("TRITON_PROFILE_BUFFER_SIZE", 64 * 1024 * 1024, ignored=_NO_PROTON)
    profile_metric_buffer_size: env_int = env_int("TRITON_PROFILE_METRIC_BUFFER_SIZE", 64 * 1024 * 1024, ignored=_NO_PROTON)
    enable_nvtx: env_bool = env_bool("TRITON_ENABLE_NVTX", True, ignored=_NO_PROTON)
    enable_hw_trace: env_bool = env_bool("TRITON_ENABLE_HW_TRACE", False, ignored=_NO_PROTON)


def _own_group():
    """The group of the library's settings, from its table."""
    members: dict[str, Any] = {"__doc__": "The settings of Nereid."}
    for row in json.loads(_native.settings()):
        name = re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: "_" + match.group(1).lower(), row["field"])
        about = {"effect": row["help"], "setting": row["variable"]}
        if row["type"] == "Bool":
            members[name] = env_bool(row["variable"], row["default"] == "1", **about)
        elif row["type"] == "Int":
            members[name] = env_int(row["variable"], int(row["default"]), **about)
        else:
            members[name] = env_str(row["variable"], row["default"], **about)
    return type("nereid_knobs", (base_knobs, ), members)


nereid_knobs = _own_group()

build = build_knobs()
redis = redis_knobs()
cache = cache_knobs()
compilation = compilation_knobs()
autotuning = autotuning_knobs()
runtime = runtime_knobs()
language = language_knobs()
nvidia = nvidia_knobs()
amd = amd_knobs()
proton = proton_knobs()
nereid = nereid_knobs()

# ---- from here to the library -----------------------------------------------------------------------

_GROUPS = ("nereid", "compilation", "cache", "autotuning", "runtime", "language", "nvidia")
_watchers: list[Callable[[], None]] = []


def _changed():
    """Passes the given values to the library, and notifies the observers."""
    module = globals()
    if "nereid" not in module:
        return  # while this module is made
    entries = []
    for name in _GROUPS:
        group = module[name]
        for knob in group.knob_descriptors.values():
            if knob.name in group.__dict__:
                entry = knob.entry(group.__dict__[knob.name])
                if entry is not None:
                    entries.append(entry)
    problems = _native.set_settings(entries)
    for watcher in list(_watchers):
        watcher()
    if problems:
        raise ValueError(problems.removeprefix("error: ").rstrip())


def _watch(watcher):
    """`watcher()` is called now and after every change of a knob or a hook."""
    _watchers.append(watcher)
    watcher()


def refresh_knobs() -> None:
    """Reads the environment again."""
    _changed()


class _Module(types.ModuleType):

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if isinstance(value, base_knobs):
            _changed()


def _tell_listener(kernel):
    """Tells `compilation.listener` of a kernel that was compiled, or taken from disk."""
    if compilation.listener is None:
        return
    times = [(name, round(milliseconds * 1000)) for name, milliseconds in kernel.times.items()]
    first = times[:2]  # the context and the front end
    compilation.listener(src=kernel.src, metadata=kernel.metadata._asdict(), metadata_group=kernel.metadata_group,
                         times=CompileTimes(sum(time for _, time in first), times[2:], 0), cache_hit="kernel cache" in kernel.times)


#: Whether there is a hook for launches or compilations.
_hooked = False


def _tell_launches():
    """Launches come to Python (`_hooks`) exactly while there is a hook for them."""
    global _hooked
    chains = (runtime.launch_enter_hook, runtime.launch_exit_hook, runtime.kernel_load_start_hook, runtime.kernel_load_end_hook)
    _hooked = (any(hook is not None and getattr(hook, "calls", True) for hook in chains) or runtime.jit_cache_hook is not None
               or runtime.jit_post_compile_hook is not None or runtime.add_stages_inspection_hook is not None
               or compilation.listener is not None)
    _native.register(launch_hooks=_provided("launch_with_hooks") if _hooked else None)


def _tell_functions():
    """Kernels follow the release of Triton."""
    if follow := _loaded.get("follow_release"):
        follow()


sys.modules[__name__].__class__ = _Module
_loaded["knobs"] = sys.modules[__name__]
_watch(_tell_launches)
_watch(_tell_functions)
