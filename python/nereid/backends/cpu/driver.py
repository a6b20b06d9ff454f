"""The processor as a device."""

import functools
import os

from ... import _provided
from ..driver import DriverBase, c_type


class CPUUtils:
    """Properties of the processor under the names of a GPU's."""

    @staticmethod
    @functools.lru_cache
    def get_device_properties(device=0):
        """A dict: name, multiprocessor_count (threads of this process), max_shared_mem (bytes of a second level cache), ..."""
        import platform
        cache = 1 << 20
        try:
            cache = os.sysconf("SC_LEVEL2_CACHE_SIZE") or cache
        except (ValueError, OSError, AttributeError):
            pass
        return {"name": platform.processor() or platform.machine(), "arch": platform.machine(),
                "multiprocessor_count": len(os.sched_getaffinity(0)), "max_shared_mem": cache, "max_num_regs": 32, "warpSize": 1,
                "sm_clock_rate": 0, "mem_clock_rate": 0, "mem_bus_width": 64}

    @staticmethod
    def set_printf_fifo_size(size):
        """Nothing to do: output is not buffered."""

    @staticmethod
    def load_binary(name, kernel, shared_mem, device):
        raise NotImplementedError("kernels of the CPU are loaded by the library: launch the CompiledKernel")

    @staticmethod
    def unload_module(module):
        """Nothing to do: the code goes with its kernel."""

    @staticmethod
    def synchronize(device=None):
        """Nothing to do: launches have ended when they return."""


class CPUDriver(DriverBase):
    """The processor."""

    name = "cpu"
    utils = CPUUtils()

    @classmethod
    def is_active(cls):
        return True

    def get_current_device(self):
        return 0

    def set_current_device(self, device):
        if device != 0:
            raise ValueError(f"the CPU is device 0, found {device}")

    def get_current_stream(self, device=None):
        return 0

    def get_current_target(self):
        from ..compiler import target_of
        return target_of("cpu")

    def get_device_capability(self, device=None):
        return 0, 0

    def get_device_interface(self):
        import torch
        return torch.cpu

    def get_active_torch_device(self):
        import torch
        return torch.device("cpu")

    def get_benchmarker(self):
        return _provided("do_bench")

    def get_empty_cache_for_benchmark(self):
        """A buffer larger than the caches: clearing it leaves nothing else there."""
        import torch
        return torch.empty(256 * 1024 * 1024 // 4, dtype=torch.int)

    def clear_cache(self, cache):
        cache.zero_()

    def map_python_to_cpp_type(self, ty):
        return c_type(ty, "void*")

    @property
    def launcher_cls(self):
        return _provided("Launcher")
