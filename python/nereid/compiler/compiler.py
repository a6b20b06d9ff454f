"""A compiled kernel, as launches return it: its stages, its metadata, launching it again."""

import collections.abc
import functools
import json
import types

from .. import _native

# Triton's names of stages that mean one of ours.
_STAGE_NAMES = {"ttir": "tile", "ttgir": "gpu", "so": "obj"}
_BINARY_STAGES = {"obj", "cubin"}


class AsmDict(collections.abc.Mapping):
    """The stages of a compilation by name: text as `str`, object code as `bytes`."""

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

    `asm["tile"]`, `asm["llir"]`, `asm["asm"]`, `asm["obj"]` (on a GPU `asm["gpu"]`, `asm["ptx"]`, `asm["cubin"]`, and `asm["sass"]` on
    demand): the stages of its compilation. `metadata`: target, options and the like.
    `times`: milliseconds per step. `kernel[grid](*args)` launches it with all arguments of the function.
    """

    n_regs = 0
    n_spills = 0

    def __init__(self, native, fn):
        self._native = native
        self.fn = fn
        self.asm = AsmDict(native)

    @functools.cached_property
    def name(self):
        return self._native.name()

    @functools.cached_property
    def metadata(self):
        return types.SimpleNamespace(**json.loads(self._native.metadata()))

    @property
    def hash(self):
        return self.metadata.hash

    @property
    def times(self):
        return self._native.times()

    def __getitem__(self, grid):

        def launch(*args, stream=None):
            return self.fn._launch_compiled(self._native, grid, args)

        return launch

    def __repr__(self):
        return f"<compiled kernel {self.name}>"


_native.register(compiled_kernel=CompiledKernel)
