"""NVIDIA GPUs as devices."""

import sys

from ... import _native, _provided
from ..driver import GPUDriver, c_type


def _torch():
    """torch, when the program has loaded it."""
    return sys.modules.get("torch")


class CudaUtils:
    """Questions to the CUDA driver."""

    @staticmethod
    def get_device_properties(device):
        """A dict: name, arch, max_shared_mem, max_num_regs, multiprocessor_count, warpSize, sm_clock_rate, ..."""
        import json
        return json.loads(_native.device_properties(device))

    @staticmethod
    def load_binary(name, kernel, shared_mem, device):
        """Loads a cubin: (module, function, registers, spilled words, threads that a block may have)."""
        from . import loading
        CudaDriver().set_current_device(device)
        return loading.load(name, kernel, shared_mem)

    @staticmethod
    def unload_module(module):
        from . import loading
        loading.unload(module)

    @staticmethod
    def set_printf_fifo_size(size):
        from . import loading
        loading.set_printf_fifo_size(size)

    @staticmethod
    def synchronize(device=None):
        """Waits for the device. Raises what failed on it, with the names of the last kernels."""
        _native.synchronize(CudaDriver().get_current_device() if device is None else device)


class CudaDriver(GPUDriver):
    """NVIDIA GPUs."""

    name = "cuda"
    utils = CudaUtils()

    @classmethod
    def is_active(cls):
        """Whether there is a usable GPU."""
        return _native.device_count() > 0

    def get_current_device(self):
        torch = _torch()
        if torch is not None and torch.cuda.is_initialized():
            return torch.cuda.current_device()
        return _native.current_device()

    def set_current_device(self, device):
        torch = _torch()
        if torch is not None and torch.cuda.is_available():
            torch.cuda.set_device(device)
        else:
            _native.set_current_device(device)

    def get_current_stream(self, device=None):
        """The CUstream that launches on the device take, as an integer."""
        return _native.current_stream(self.get_current_device() if device is None else device)

    def get_current_target(self):
        from ..compiler import target_of
        properties = self.utils.get_device_properties(self.get_current_device())
        return target_of(f"cuda:{properties['arch']}")

    def get_device_capability(self, device=None):
        arch = self.utils.get_device_properties(self.get_current_device() if device is None else device)["arch"]
        return arch // 10, arch % 10

    def get_device_interface(self):
        import torch
        return torch.cuda

    def get_active_torch_device(self):
        import torch
        return torch.device("cuda", self.get_current_device())

    def get_benchmarker(self):
        return _provided("do_bench")

    def get_empty_cache_for_benchmark(self):
        """A buffer larger than the L2 cache: clearing it leaves nothing else there."""
        import torch
        return torch.empty(256 * 1024 * 1024 // 4, dtype=torch.int, device="cuda")

    def clear_cache(self, cache):
        cache.zero_()

    def map_python_to_cpp_type(self, ty):
        return c_type(ty, "CUdeviceptr")

    @property
    def launcher_cls(self):
        return _provided("Launcher")
