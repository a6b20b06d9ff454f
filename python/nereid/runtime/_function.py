"""The functions of a `JITFunction` (`_jit`) other than launching. This module is loaded on first use."""

import collections.abc
import functools
import sys

from .specialise import create_function_from_signature, specialize_argument
from .tensors import MockTensor


class Specialization:
    """The specialisation of a kernel, as passed to the function of `@jit(repr=...)`.

    signature: types by parameter; constants: values by parameter, also of integers that were folded because they are 1.
    """

    __module__ = "nereid.runtime.jit"

    def __init__(self, signature, constants):
        self.signature = signature
        self.constants = constants


def specialization_of(params, arguments):
    """The specialisation for these arguments, one for each parameter."""
    signature, constants = {}, {}
    for param, value in zip(params, arguments):
        kind, fact = specialize_argument(param, None, MockTensor.wrap_dtype(value))
        signature[param.name] = kind
        if kind == "constexpr":
            constants[param.name] = fact
    return Specialization(signature, constants)


def found_in_file(function):
    """The object with the function's name in its file, with all decorators: for a function that was unpickled without its Python function."""
    import hashlib
    import importlib.util
    name = f"_nereid_{hashlib.sha256(function._file.encode()).hexdigest()[:16]}"
    module = sys.modules.get(name)
    if module is None:
        spec = importlib.util.spec_from_file_location(name, function._file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return functools.reduce(getattr, function.__qualname__.split("."), module)


def binder_of(function):
    """`JITFunction.create_binder`."""
    from ..backends._table import make_backend
    from .driver import driver
    target = driver.active.get_current_target()
    backend = make_backend(target)
    return {}, {}, target, backend, create_function_from_signature(function.signature, function.params, backend)


class DeviceCaches(collections.abc.Mapping):
    """`JITFunction.device_caches`: kernels serve all devices of a kind, so every device shows the same."""

    def __init__(self, function):
        self._function = function

    def __getitem__(self, device):
        return _Kernels(self._function), *self._function.create_binder()[1:]

    def __iter__(self):
        return iter([0] if self._function._kernels() else [])

    def __len__(self):
        return 1 if self._function._kernels() else 0

    def clear(self):
        self._function._clear_cache()


class _Kernels(collections.abc.Mapping):
    """The compiled kernels of a function by hash."""

    def __init__(self, function):
        self._function = function

    def _all(self):
        return {kernel.hash: kernel for kernel in self._function._kernels()}

    def __getitem__(self, key):
        return self._all()[key]

    def __iter__(self):
        return iter(self._all())

    def __len__(self):
        return len(self._function._kernels())

    def clear(self):
        self._function._clear_cache()
