"""Lets tests that are written with arrays of the host run on a GPU.

Around each launch, the memory behind every array among the arguments goes to the device and comes back: also of arrays inside tuples,
descriptors and aggregates. Whole allocations are moved, so views keep their offsets, strides and overlaps; tensors that are on the
device already stay what they are. What only says an address (`data_ptr`, `__dlpack__`) or is a buffer of the host stays as it is.
"""

from copy import copy as copy_of

import numpy as np
import torch


class _DeviceArray:
    """An array's counterpart on the device, as kernels take it."""

    def __init__(self, pointer, dtype, device):
        self.pointer = pointer
        self.dtype = dtype
        self.device = device

    def data_ptr(self):
        return self.pointer


def _owner(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _bytes_of(value):
    """The allocation behind an array, as a flat tensor of bytes that shares its memory, and whether it may be written."""
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        return torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(), )), True
    owner = _owner(value)
    low, high = np.lib.array_utils.byte_bounds(owner) if hasattr(np.lib, "array_utils") else np.byte_bounds(owner)
    interface = {"data": (low, False), "shape": (high - low, ), "typestr": "|u1", "version": 3}
    holder = type("Memory", (), {"__array_interface__": interface, "keep": owner})()
    return torch.from_numpy(np.asarray(holder)), owner.flags.writeable


def _is_host_array(value):
    return isinstance(value, np.ndarray) or isinstance(value, torch.Tensor) and value.device.type == "cpu"


class Moved:
    """The arguments of one launch, on the device; `back()` brings what the kernel wrote to the host.

    With the device "cpu" the arrays move to other memory of the host: that is how the moving itself is tested.
    """

    def __init__(self, device="cuda:0"):
        self.memory = {}
        self.device = device

    def __call__(self, value):
        if type(value).__name__ == "TensorWrapper" and _is_host_array(value.base):
            inner = self(value.base)
            return _DeviceArray(inner.pointer, value.dtype, self.device)
        if type(value).__name__ == "TensorDescriptor":
            moved = copy_of(value)  # not made anew: a test may have spoilt it
            moved.base = self(value.base)
            return moved
        if isinstance(value, tuple):
            moved = [self(item) for item in value]
            return type(value)(*moved) if hasattr(value, "_fields") else tuple(moved)
        if type(value).__name__ == "tuple" and type(value).__module__.endswith("language.core"):
            return type(value)([self(item) for item in value])
        if hasattr(type(value), "__nereid_fields__"):  # an aggregate: its fields cannot be assigned
            moved = copy_of(value)
            moved.__dict__.update({name: self(getattr(value, name)) for name in type(value).__nereid_fields__})
            return moved
        if not _is_host_array(value) or len(value.shape) and 0 in value.shape:
            return value
        data, writeable = _bytes_of(value)
        if data.data_ptr() not in self.memory:
            # As aligned as it is on the host, and no better.
            shift = data.data_ptr() % 256
            copy = torch.empty(data.numel() + 256, dtype=torch.uint8, device=self.device)[shift:shift + data.numel()]
            copy.copy_(data)
            self.memory[data.data_ptr()] = (data, copy, writeable)
        _, copy, _ = self.memory[data.data_ptr()]
        address = value.data_ptr() if isinstance(value, torch.Tensor) else value.ctypes.data
        return _DeviceArray(copy.data_ptr() + address - data.data_ptr(), value.dtype, self.device)

    def back(self):
        if self.device != "cpu":
            torch.cuda.synchronize()
        for data, copy, writeable in self.memory.values():
            if writeable:
                data.copy_(copy)


def install(monkeypatch, device="cuda:0"):
    """Launches of this test move their arrays."""
    from nereid.compiler.compiler import CompiledKernel
    from nereid.runtime.jit import JITFunction
    run, launch_of = JITFunction.run, CompiledKernel.__getitem__

    def moving_run(self, *args, grid, warmup, **kwargs):
        moved = Moved(device)
        if callable(grid):
            meta = grid
            originals = dict(zip(self.arg_names, args)) | kwargs
            grid = lambda bound: meta({**bound, **{k: v for k, v in originals.items() if k in bound}})
        result = run(self, *map(moved, args), grid=grid, warmup=warmup, **{k: moved(v) for k, v in kwargs.items()})
        moved.back()
        return result

    def moving_launch_of(self, grid):

        def launch(*args, stream=None):
            moved = Moved(device)
            launch_of(self, grid)(*map(moved, args), stream=stream)
            moved.back()

        return launch

    monkeypatch.setattr(JITFunction, "run", moving_run)
    monkeypatch.setattr(CompiledKernel, "__getitem__", moving_launch_of)
