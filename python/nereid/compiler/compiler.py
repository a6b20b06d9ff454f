"""A compiled kernel, as launches return it: its stages, its metadata, launching it again."""

import collections.abc
import functools
import json
import types

from .. import _native
from ..backends.compiler import target_of

# Triton's names of stages that mean one of ours.
_STAGE_NAMES = {"ttir": "tile", "ttgir": "gpu", "so": "obj"}
_BINARY_STAGES = {"obj", "cubin"}


class AsmDict(collections.abc.Mapping):
    """The stages of a compilation by name: text as `str`, machine code as `bytes`."""

    def __init__(self, native):
        self._native = native

    def __getitem__(self, name):
        stage = _STAGE_NAMES.get(name, name)
        try:
            data = self._native.stage(stage)
        except KeyError:
            raise KeyError(f"no stage {name!r}: there are {', '.join(self._native.stages())}") from None
        return data if stage in _BINARY_STAGES else data.decode()

    def __iter__(self):
        return iter(self._native.stages())

    def __len__(self):
        return len(self._native.stages())


class CompiledKernel:
    """A kernel specialised and compiled for one set of argument types and constants.

    `asm`: the stages of its compilation, on the CPU "tile", "loops", "llir", "asm", "obj", on NVIDIA GPUs "tile", "gpu", "llir",
    "ptx", "cubin", "sass". `metadata`: target, options and the like. `times`: milliseconds per step. `kernel[grid](*args)` launches it
    with all arguments of the function. On a GPU also `n_regs`, `n_spills` (32-bit words), `n_max_threads`, `function` and `module`
    (the driver's handles), of the current device, where asking loads the kernel.
    """

    def __init__(self, native, fn):
        self._native = native
        self.fn = fn
        self.asm = AsmDict(native)

    @functools.cached_property
    def name(self):
        return self.metadata.name

    @functools.cached_property
    def metadata(self):
        values = json.loads(self._native.metadata())
        if values["target"] != "cpu":
            values = {**values["options"], **values, "target": target_of(values["target"])}
        return types.SimpleNamespace(**values)

    @property
    def hash(self):
        return self.metadata.hash

    @property
    def times(self):
        return self._native.times()

    @property
    def kernel(self):
        """The finished code: a cubin, or an object file."""
        return self.asm["obj" if self.metadata.target == "cpu" else "cubin"]

    @functools.cached_property
    def _properties(self):
        return self._native.properties(0 if self.metadata.target == "cpu" else _native.current_device())

    def _init_handles(self):
        """Loads the kernel on the current device."""
        self._properties

    n_regs = property(lambda self: self._properties["n_regs"])
    n_spills = property(lambda self: self._properties["n_spills"])
    n_max_threads = property(lambda self: self._properties["n_max_threads"])
    function = property(lambda self: self._properties["function"])
    module = property(lambda self: self._properties["module"])

    @property
    def packed_metadata(self):
        """Warps, blocks of a cluster, bytes of shared memory."""
        return (getattr(self.metadata, "num_warps", 1), getattr(self.metadata, "num_ctas", 1), getattr(self.metadata, "shared", 0))

    def run(self, grid_0, grid_1, grid_2, stream, function, packed_metadata, launch_metadata, enter_hook, exit_hook, *args):
        """Launches with all arguments, those of constants included, as Triton's launchers are called."""
        if enter_hook is not None:
            enter_hook(launch_metadata)
        self.fn._launch_compiled(self._native, (grid_0, grid_1, grid_2), args, stream)
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def __getitem__(self, grid):

        def launch(*args, stream=None):
            return self.fn._launch_compiled(self._native, grid, args, stream)

        return launch

    def __repr__(self):
        return f"<compiled kernel {self.name}>"


_native.register(compiled_kernel=CompiledKernel)
