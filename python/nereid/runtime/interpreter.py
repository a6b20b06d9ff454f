"""`TRITON_INTERPRET=1`: kernels run on the CPU, one program after another, with every access checked.

`@jit` then makes an `InterpretedFunction`. It is a `JITFunction` in all respects, but each launch runs compiled for the CPU in checked
mode on the calling thread, in the order of the programs' ids, so that prints come in order; a Python debugger may stop in host code, and
in Python code that runs while a kernel is compiled. Tensors of a GPU are copied to the host before the launch and back after it: whole
storages, so that views of the same memory stay views of the same memory.
"""

import dataclasses
import sys

from ..errors import InterpreterError, TritonError
from .jit import JITFunction, TensorWrapper

__all__ = ["InterpretedFunction", "InterpreterError"]


class _HostCopies:
    """Stand-ins on the host for the GPU's tensors among the arguments of a launch."""

    def __init__(self):
        self._storages = {}  # address of a storage of the GPU: (a tensor in it, its copy on the host)

    def of(self, value):
        """The value with tensors of the host in it."""
        if isinstance(value, tuple):
            items = [self.of(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if isinstance(value, TensorWrapper):
            return TensorWrapper(self.of(value.base), value.dtype)
        if dataclasses.is_dataclass(value) and not isinstance(value, type) and hasattr(value, "base"):
            base = self.of(value.base)
            return value if base is value.base else dataclasses.replace(value, base=base)
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(value, torch.Tensor) or value.device.type in ("cpu", "meta"):
            return value
        storage = value.untyped_storage()
        if storage.data_ptr() not in self._storages:
            self._storages[storage.data_ptr()] = storage, storage.cpu()
        host = torch.empty(0, dtype=value.dtype)
        return host.set_(self._storages[storage.data_ptr()][1], value.storage_offset(), value.size(), value.stride())

    def copy_back(self):
        """Copies the written memory back to the original tensors."""
        for original, host in self._storages.values():
            original.copy_(host)


class InterpretedFunction(JITFunction):
    """What `@jit` makes when TRITON_INTERPRET is set."""

    def run(self, *args, grid, warmup, **kwargs):
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        copies = _HostCopies()
        args = tuple(copies.of(value) for value in args)
        kwargs = {name: copies.of(value) for name, value in kwargs.items()}
        for name in ("target", "checked", "num_threads", "num_cpu_threads"):
            kwargs.pop(f"nereid_{name}", None)
            if name not in self.arg_names:
                kwargs.pop(name, None)
        kwargs.update(nereid_target="cpu", nereid_checked=True, nereid_num_threads=1)
        try:
            compiled = self._launch(grid, args, kwargs, warmup)
        except TritonError:
            raise
        except RuntimeError as error:
            raise InterpreterError(str(error)) from error
        finally:
            copies.copy_back()
        return compiled

    def __repr__(self):
        return f"InterpretedFunction({self.module}:{self.__qualname__})"
