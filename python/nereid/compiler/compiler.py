"""`compile`, and the compiled kernel that it and launches return."""

import collections
import collections.abc
import copyreg
import functools
import sys

from .. import __version__, _names_later, _native
from .._jit import CompiledKernel

# Triton's names of stages that mean one of ours.
_STAGE_NAMES = {"ttir": "tile", "ttgir": "gpu", "so": "obj"}
_BINARY_STAGES = {"obj", "cubin"}


class LazyDict:
    """A dict some of whose entries are computed when it is read: what launch hooks get."""

    def __init__(self, data):
        self.data = data
        self.extras = []

    def get(self):
        """The dict."""
        for function, args in self.extras:
            self.data = {**self.data, **function(*args)}
        self.extras.clear()
        return self.data

    def add(self, function, args):
        """`function(*args)` gives further entries."""
        self.extras.append((function, args))


class AsmDict(collections.abc.MutableMapping):
    """The stages of a compilation by name: text as `str`, machine code as `bytes`.

    A stage may be assigned, which changes what is read here and nothing else. A pickled one carries all stages.
    """

    def __init__(self, native, source="", given=None):
        self._native = native  # None in a copy that was pickled: `given` has everything then
        self._source = source
        self._given = given or {}

    def __getitem__(self, name):
        stage = _STAGE_NAMES.get(name, name)
        if stage in self._given:
            return self._given[stage]
        if name == "source":
            return self._source
        if name == "sass" and "cubin" in self._given:
            from ..tools.disasm import get_sass
            return get_sass(self._given["cubin"])
        try:
            if self._native is None:
                raise KeyError
            data = self._native.stage(stage)
        except KeyError:
            raise KeyError(f"no stage {name!r}: there are {', '.join(self)}") from None
        return data if stage in _BINARY_STAGES else data.decode()

    def __setitem__(self, name, value):
        if "_given" not in self.__dict__:
            raise RuntimeError("a compiled kernel was unpickled that another implementation of Triton has pickled: a child process, such as a "
                               "compile worker of PyTorch, has imported another `triton` than this process (`nereid doctor` tells "
                               "which one children import)")
        self._given[_STAGE_NAMES.get(name, name)] = value

    def __delitem__(self, name):
        del self._given[_STAGE_NAMES.get(name, name)]

    def __iter__(self):
        stages = self._native.stages() if self._native is not None else ()
        return iter(dict.fromkeys((*stages, *self._given)))

    def __len__(self):
        return sum(1 for _ in self)

    def __reduce__(self):
        return AsmDict, (None, self._source, {name: self[name] for name in self if name != "sass"})  # which comes from the cubin


@functools.lru_cache
def _metadata_class(names):
    return collections.namedtuple("KernelMetadata", names)


def _launch_hooks():
    """The enter and exit hooks, None where nothing listens."""
    installed = sys.modules.get("nereid._hooks")
    if installed is None or not installed.active:  # a look that every launch of a compiled kernel can afford
        return None, None
    knobs = sys.modules["nereid.knobs"]
    hooks = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    return tuple(hook if hook is not None and getattr(hook, "calls", True) else None for hook in hooks)


class _Members:
    """The members of `CompiledKernel`."""

    _HANDLES = ("module", "function", "run", "n_regs", "n_spills", "n_max_threads")

    @property
    def _native(self):
        """The library's kernel. That of a pickled kernel's copy is compiled again."""
        if self._handle is None:
            self._handle = self.fn._with_python()._compile(self.src._items(), self._options, self.name)._handle
        return self._handle

    @functools.cached_property
    def asm(self):
        """The stages of the compilation by name."""
        return AsmDict(self._native, getattr(self.fn, "src", ""))

    def __getattr__(self, name):
        if name in CompiledKernel._HANDLES:
            self._init_handles()
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _init_handles(self):
        """Loads the kernel on the current device."""
        if self.__dict__.get("module") is not None:
            return
        knobs = sys.modules.get("nereid.knobs")
        about = (self.name, self.metadata_group, self.hash)
        if knobs is not None:
            knobs.runtime.kernel_load_start_hook(None, None, *about)
        properties = self._native.properties(0 if self.metadata.target.backend == "cpu" else _native.current_device())
        for name in ("module", "function", "n_regs", "n_spills", "n_max_threads"):
            setattr(self, name, properties[name])
        self.run = self._native.run
        if knobs is not None:
            knobs.runtime.kernel_load_end_hook(self.module, self.function, *about)

    def __del__(self):
        knobs = sys.modules.get("nereid.knobs")
        loaded = self.__dict__.get("module") is not None
        if loaded and knobs is not None and knobs.runtime is not None and knobs.runtime.kernel_unload_hook is not None:
            knobs.runtime.kernel_unload_hook(self.module, self.function, self.name, self.metadata_group, self.hash)

    @functools.cached_property
    def name(self):
        return self.metadata.name

    @functools.cached_property
    def _values(self):
        import json
        return json.loads(self._native.metadata())

    @functools.cached_property
    def _options(self):
        """What it was compiled with, as keywords of a launch."""
        defaults = {"num_threads": 0, "num_cpu_threads": 0, "features": "", "maxnreg": 0, "arch": "", "ptx_version": 0,
                    "ptx_options": ""}
        options = {name: value for name, value in self._values["options"].items() if value != defaults.get(name)}
        return {**options, "target": self._values["target"]}

    @functools.cached_property
    def metadata(self):
        import dataclasses

        from ..backends.compiler import target_of
        values = dict(self._values)
        target = target_of(values["target"])
        given = {name: value for name, value in values["options"].items() if value != ""}
        given.pop("arch", None)  # which the target says
        given["ptx_version"] = given.get("ptx_version") or None
        options = make_backend(target).parse_options(given)
        fields = {**dataclasses.asdict(options), "shared": 0, "cluster_dims": (1, 1, 1), "tmem_size": 0, "tensordesc_meta": [],
                  "global_scratch_size": 0, "global_scratch_align": 1, "profile_scratch_size": 0, "profile_scratch_align": 1,
                  **given, **values, "arch": options.arch, "target": target, "hash": self.hash, "triton_version": __version__}
        return _metadata_class(tuple(sorted(fields)))(**fields)

    @functools.cached_property
    def hash(self):
        """Identifies the kernel: of a launch among those of its function, of `compile` everywhere."""
        return self._values["hash"]

    @functools.cached_property
    def src(self):
        """The function and the types that it was compiled for."""
        from .source import ASTSource
        params = iter(enumerate(self._values["params"]))
        constants, attrs = {}, {}

        def described(kind, path):
            if kind == "(":
                return tuple(described(part, (*path, i)) for i, part in enumerate(_parts(layout)))
            index, param = next(params)
            if kind == "c":
                constants[path] = self._native.constant(index)
                return "constexpr"
            text, _, fact = param["signature"].partition(":")
            if fact:
                attrs[path] = [["tt.divisibility", int(fact)]]
            return text

        layout = iter(self._native.layout())
        signature = {self.fn.arg_names[i]: described(kind, (i, )) for i, kind in enumerate(_parts(layout))}
        return ASTSource(self.fn, signature, constants, attrs)

    @property
    def times(self):
        return self._native.times()

    @property
    def kernel(self):
        """The finished code: a cubin, or an object file."""
        return self.asm["obj" if self.metadata.target.backend == "cpu" else "cubin"]

    @functools.cached_property
    def packed_metadata(self):
        """Warps, blocks of a cluster, bytes of shared memory."""
        return self.metadata.num_warps, self.metadata.num_ctas, self.metadata.shared

    def launch_metadata(self, grid, stream, *args):
        """What launch hooks get; None when there are none."""
        if _launch_hooks() == (None, None):
            return None
        self._init_handles()
        data = LazyDict({"name": self.name, "function": self.function, "stream": stream})
        describe = getattr(self.fn, "launch_metadata", None)
        if describe is not None:
            data.add(describe, (grid, self.metadata, dict(zip(self.fn.arg_names, args))))
        return data

    def _export(self):
        """Writes the stages into Triton's cache, where PyTorch's launcher of cubins looks for them: `name.cubin`, `name.json`, ...

        What is there already stays, unless `knobs.compilation.always_compile`. Without an assembler, or without a folder that can be
        written, there is nothing for that launcher, and ours does without.
        """
        import dataclasses
        import json

        from .. import knobs
        from ..runtime.cache import get_cache_manager
        manager = get_cache_manager(self.hash)
        there = None if knobs.compilation.always_compile else manager.get_group(f"{self.name}.json")
        if there and f"{self.name}.json" in there and (self._values.get("tensor_maps") or f"{self.name}.cubin" in there):
            self.metadata_group = there
            return
        metadata = self.metadata._asdict()
        metadata["target"] = dataclasses.asdict(self.metadata.target)
        if not self._values.get("tensor_maps"):  # such a kernel has parameters that only our own launcher knows
            self.metadata_group[f"{self.name}.cubin"] = manager.put(self._native.stage("cubin"), f"{self.name}.cubin")
        if not knobs.compilation.store_binary_only:
            self.metadata_group[f"{self.name}.ptx"] = manager.put(self._native.stage("ptx").decode(), f"{self.name}.ptx", binary=False)
        text = json.dumps(metadata, default=str)
        self.metadata_group[f"{self.name}.json"] = manager.put(text, f"{self.name}.json", binary=False)
        manager.put_group(f"{self.name}.json", self.metadata_group)

    def _launch_hooked(self, grid, args, stream):
        """A launch while there are hooks of some kind; the others are the base class's."""
        enter, leave = _launch_hooks()
        if enter is None and leave is None:
            return self.fn._launch_compiled(self._native, grid, args, stream)
        sizes = (*grid, 1, 1)[:3]
        self.run(*sizes, stream, self.function, self.packed_metadata, self.launch_metadata(grid, stream, *args), enter, leave, *args)

    def __getstate__(self):
        self.src, self.hash, self._options  # made while the kernel can be asked
        state = {name: value for name, value in self.__dict__.items() if name not in (*self._HANDLES, "metadata")}
        if "asm" in state and not state["asm"]._given:  # the copy compiles it again
            del state["asm"]
        return state

    def __repr__(self):
        return f"<compiled kernel {self.name}>"


def _parts(layout):
    """The characters of a layout up to the bracket that closes it; what an inner bracket holds is for the caller to take."""
    for kind in layout:
        if kind == ")":
            return
        yield kind


def make_backend(target):
    """The backend that compiles for a target."""
    from ..backends import backends
    found = [backend.compiler for backend in backends.values() if backend.compiler.supports_target(target)]
    if len(found) != 1:
        raise RuntimeError(f"{len(found)} compatible backends for target ({target.backend}) ({found}). There should only be one.")
    return found[0](target)


def max_shared_mem(device):
    """Bytes of shared memory that a block may have."""
    from ..runtime.driver import driver
    return driver.active.utils.get_device_properties(device)["max_shared_mem"]


def compile(src, target=None, options=None, _env_vars=None):
    """Compiles an `ASTSource`, or a file of tile IR, for a target (that of the current device by default).

    options: keywords as of launches; those that the target does not know are left out. Returns the `CompiledKernel`.
    """
    import contextlib
    import dataclasses
    import hashlib

    from ..backends.compiler import GPUTarget, target_text
    from .source import ASTSource, IRSource
    chosen = target is not None
    if not chosen:
        from ..runtime.driver import driver
        target = driver.active.get_current_target()
    if not isinstance(target, GPUTarget):
        raise TypeError(f"target must be of GPUTarget type, found {type(target).__name__}")
    from ..runtime.cache import get_cache_key
    backend = make_backend(target)
    known = {field.name for field in dataclasses.fields(backend.parse_options({}))}
    given = {name: value for name, value in (options or {}).items() if name in known and value is not None}
    backend.parse_options(given)  # refuses wrong values
    if target.backend == "cuda" and "arch" in given:
        target, chosen = GPUTarget("cuda", backend.parse_arch(given["arch"]), 32), True
    if chosen:
        given["target"] = target_text(target)
    for name in ("arch", "backend_name", "warp_size"):  # what the target says
        given.pop(name, None)
    if isinstance(src, ASTSource):
        kernel = src.fn._compile(src._items(), given, src._kernel_name())
        key = get_cache_key(src, backend, backend.parse_options(given), {})
        kernel.__dict__.update(src=src, hash=hashlib.sha256(key.encode()).hexdigest())
        kernel.__dict__.pop("metadata", None)  # it names the hash
        kernel._options  # kept for copies
        if target.backend == "cuda":
            with contextlib.suppress(RuntimeError, OSError):
                kernel._export()
    else:
        if not isinstance(src, IRSource):
            src = IRSource(src)
        kernel = src.fn._compile(src._items(), given, src._kernel_name())
        kernel.src = src
    if "nereid.knobs" in sys.modules:
        from .._hooks import tell_listener
        tell_listener(kernel)
    return kernel


class Launcher:
    """Starts the kernel of a source, as `CompiledKernel.run` does."""

    def __init__(self, src, metadata):
        self.kernel = compile(src, metadata.target, metadata._asdict())

    def __call__(self, *args):
        self.kernel.run(*args)


def _no_kernel():
    """What stands for the library's kernel in a pickled one."""
    return None


copyreg.pickle(_native.Kernel, lambda kernel: (_no_kernel, ()))

# `__getattr__` last: until it is there, another thread that asks for a member waits for this module.
for _name in sorted(set(vars(_Members)) - {"__dict__", "__doc__", "__module__", "__weakref__"}, key="__getattr__".__eq__):
    setattr(CompiledKernel, _name, vars(_Members)[_name])
del CompiledKernel.__dir__, _name, _Members


# What a launch does not need is imported when it is first asked for; `triton_key` and `get_cache_key` are also imported from here.
__getattr__, __dir__ = _names_later(globals(), {
    "backends": "nereid.backends", "GPUTarget": "nereid.backends.compiler", "ASTSource": "nereid.compiler.source",
    "IRSource": "nereid.compiler.source", "triton_key": "nereid.runtime.cache", "get_cache_key": "nereid.runtime.cache"
}, fresh=("triton_key", "get_cache_key"))
