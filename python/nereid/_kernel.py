"""The members of `CompiledKernel`, the kernel that `compile` and launches return.

`_jit` has the class, since every launch creates an instance; this module has its other members and is loaded on first use.
"""

import collections
import collections.abc
import copyreg
import functools

from . import __version__, _loaded, _native

# Triton's names of stages that mean one of ours.
_STAGE_NAMES = {"ttir": "tile", "ttgir": "gpu"}
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

    A stage may be assigned, which changes what is read here and nothing else. A pickled one carries all stages. Of kernels for the CPU "so" and
    "launcher.so" (`compiler/_shared_objects.py`) are made when they are read, and not listed.
    """

    def __init__(self, native, source="", given=None, metadata=None):
        self._native = native  # None in a copy that was pickled: `given` and `metadata` have everything then
        self._metadata = metadata
        self._source = source
        self._given = given or {}

    def __getitem__(self, name):
        stage = _STAGE_NAMES.get(name, name)
        if stage in self._given:
            return self._given[stage]
        if name == "source":
            return self._source
        if name == "sass" and "cubin" in self._given:
            from .tools.disasm import get_sass
            return get_sass(self._given["cubin"])
        if name in ("so", "launcher.so") and "obj" in self:
            from .compiler import _shared_objects
            metadata = self._metadata or self._native.metadata()
            if name == "so":
                return _shared_objects.kernel(self["obj"], metadata)
            return _shared_objects.launcher(metadata)
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
        stages = {name: self[name] for name in self if name != "sass"}  # which comes from the cubin
        return AsmDict, (None, self._source, stages, self._metadata or self._native.metadata())


class _DescriptorForms(list):
    """`metadata.tensordesc_meta`: empty for a kernel without descriptors. PyTorch's static launcher (since 2.14) asks an item of it for the form in which
    Triton's launcher passes a descriptor; the answer, NotImplementedError, makes it take the kernel's own launcher."""

    def __init__(self, params):
        super().__init__(None for param in params if "tensordesc" in param["signature"])

    def __getitem__(self, index):
        raise NotImplementedError("tensor descriptors are passed by the kernel's own launcher")

    def __reduce__(self):
        return _DescriptorForms, ([{"signature": "tensordesc"}] * len(self), )


@functools.lru_cache
def _metadata_class(names):
    return collections.namedtuple("KernelMetadata", names)


def _launch_hooks():
    """The enter and exit hooks, None where nothing listens."""
    knobs = _loaded.get("knobs")
    if knobs is None or not knobs._hooked:  # a look that every launch of a compiled kernel can afford
        return None, None
    hooks = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    return tuple(hook if hook is not None and getattr(hook, "calls", True) else None for hook in hooks)


class _Unloading:
    """Goes with the kernel that it was loaded for, and tells `knobs.runtime.kernel_unload_hook` then. It is no `__del__` of the kernel: every
    launch makes one, and few are loaded through it."""

    def __init__(self, *about):
        self.about = about

    def __del__(self):
        knobs = _loaded.get("knobs") if _loaded is not None else None  # at the end of the process modules are empty
        if knobs is not None and knobs.runtime is not None and knobs.runtime.kernel_unload_hook is not None:
            knobs.runtime.kernel_unload_hook(*self.about)


def _handle(name):
    """A member that the driver tells of a kernel that is loaded."""

    def find(kernel):
        kernel._init_handles()
        return kernel.__dict__[name]

    return property(find)


#: Attributes that hold objects of the driver, and `_unloading`, which is set when the kernel is unloaded.
_HANDLES = ("module", "function", "run", "n_regs", "n_spills", "n_max_threads", "_unloading")


class Members:
    """The members of `CompiledKernel` (`_jit`), which finds them here by their names: `self` is a `CompiledKernel`."""

    module, function, run, n_regs, n_spills, n_max_threads = map(_handle, _HANDLES[:6])

    @property
    def _native(self):
        """The library's kernel. That of a pickled kernel's copy is compiled again."""
        if self._handle is None:
            self._handle = self.fn._with_python()._compile(self.src._items(), self._options, self.name)._handle
        return self._handle

    @property
    def address(self):
        """The `nrd_kernel` of the C ABI, an integer, for launches from C; it lives as long as this object's function."""
        return self._native.address()

    @functools.cached_property
    def asm(self):
        """The stages of the compilation by name."""
        return AsmDict(self._native, getattr(self.fn, "src", ""))

    def _init_handles(self):
        """Loads the kernel on the current device."""
        if self.__dict__.get("module") is not None:
            return
        knobs = _loaded.get("knobs")
        about = self.name, self.metadata_group, self.hash
        if knobs is not None:
            knobs.runtime.kernel_load_start_hook(None, None, *about)
        properties = self._native.properties(0 if self.metadata.target.backend == "cpu" else _native.current_device())
        for name in ("module", "function", "n_regs", "n_spills", "n_max_threads"):
            setattr(self, name, properties[name])
        self.run = self._native.run
        self._unloading = _Unloading(self.module, self.function, *about)
        if knobs is not None:
            knobs.runtime.kernel_load_end_hook(self.module, self.function, *about)

    @functools.cached_property
    def name(self):
        return self.metadata.name

    @functools.cached_property
    def _values(self):
        import json
        return json.loads(self._native.metadata())

    @functools.cached_property
    def _options(self):
        """The compile options, as keywords of a launch."""
        defaults = {"num_threads": 0, "num_cpu_threads": 0, "features": "", "maxnreg": 0, "arch": "", "ptx_version": 0,
                    "ptx_options": ""}
        options = {name: value for name, value in self._values["options"].items() if value != defaults.get(name)}
        return {**options, "target": self._values["target"]}

    @functools.cached_property
    def metadata(self):
        import dataclasses

        from .backends._table import make_backend
        from .backends.compiler import target_of
        values = dict(self._values)
        target = target_of(values["target"])
        given = {name: value for name, value in values["options"].items() if value != ""}
        given.pop("arch", None)  # which the target says
        given["ptx_version"] = given.get("ptx_version") or None
        options = make_backend(target).parse_options(given)
        fields = {**dataclasses.asdict(options), "shared": 0, "cluster_dims": (1, 1, 1), "tmem_size": 0, "tensordesc_meta": _DescriptorForms(values["params"]),
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
        from .compiler._ast_source import ASTSource
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

        Existing files are kept, unless `knobs.compilation.always_compile`. Without an assembler or a writable folder nothing is exported;
        our own launcher does not need the files.
        """
        import dataclasses
        import json

        from . import knobs
        from .runtime.cache import get_cache_manager
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
        state = {name: value for name, value in self.__dict__.items() if name not in (*_HANDLES, "metadata")}
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


def _no_kernel():
    """Replaces the library's kernel when a `CompiledKernel` is unpickled."""
    return None


copyreg.pickle(_native.Kernel, lambda kernel: (_no_kernel, ()))
for _class in (LazyDict, AsmDict):
    _class.__module__ = "nereid.compiler.compiler"
del _class
