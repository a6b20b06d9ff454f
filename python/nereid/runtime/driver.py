"""The devices of this machine: which one launches go to, its properties, its current stream.

`driver.active` is what launches go to when neither their arguments nor an option says: the GPU where there is one.
"""

import json
import sys

from .. import _native
from ..backends.compiler import target_of


def _torch():
    """torch, when the program has loaded it."""
    return sys.modules.get("torch")


class _CudaUtils:
    """Questions to the CUDA driver."""

    @staticmethod
    def get_device_properties(device):
        """A dict: name, arch, max_shared_mem, max_num_regs, multiprocessor_count, warpSize, sm_clock_rate, ..."""
        return json.loads(_native.device_properties(device))

    @staticmethod
    def synchronize(device=None):
        """Waits for the device. Raises what failed on it, with the names of the last kernels."""
        _native.synchronize(cuda.get_current_device() if device is None else device)


class CudaDriver:
    """NVIDIA GPUs."""

    name = "cuda"
    utils = _CudaUtils()

    @staticmethod
    def is_active():
        """Whether there is a usable GPU."""
        return _native.device_count() > 0

    @staticmethod
    def get_current_device():
        torch = _torch()
        if torch is not None and torch.cuda.is_initialized():
            return torch.cuda.current_device()
        return _native.current_device()

    @staticmethod
    def set_current_device(device):
        torch = _torch()
        if torch is not None and torch.cuda.is_available():
            torch.cuda.set_device(device)
        else:
            _native.set_current_device(device)

    def get_current_stream(self, device=None):
        """The CUstream that launches on the device take, as an integer."""
        return _native.current_stream(self.get_current_device() if device is None else device)

    def get_current_target(self):
        properties = self.utils.get_device_properties(self.get_current_device())
        return target_of(f"cuda:{properties['arch']}")

    def get_device_capability(self, device=None):
        arch = self.utils.get_device_properties(self.get_current_device() if device is None else device)["arch"]
        return arch // 10, arch % 10

    @staticmethod
    def get_device_interface():
        import torch
        return torch.cuda

    def get_active_torch_device(self):
        import torch
        return torch.device("cuda", self.get_current_device())

    @staticmethod
    def get_benchmarker():
        from .. import testing
        return testing.do_bench

    @staticmethod
    def get_empty_cache_for_benchmark():
        """A buffer larger than the L2 cache: clearing it leaves nothing else there."""
        import torch
        return torch.empty(256 * 1024 * 1024 // 4, dtype=torch.int, device="cuda")

    @staticmethod
    def clear_cache(cache):
        cache.zero_()


class CpuDriver:
    """The processor."""

    name = "cpu"

    @staticmethod
    def is_active():
        return True

    @staticmethod
    def get_current_device():
        return 0

    @staticmethod
    def set_current_device(device):
        if device != 0:
            raise ValueError(f"the CPU is device 0, found {device}")

    @staticmethod
    def get_current_stream(device=None):
        return 0

    @staticmethod
    def get_current_target():
        return target_of("cpu")

    @staticmethod
    def get_device_interface():
        import torch
        return torch.cpu

    @staticmethod
    def get_active_torch_device():
        import torch
        return torch.device("cpu")

    @staticmethod
    def get_benchmarker():
        from .. import testing
        return testing.do_bench

    @staticmethod
    def get_empty_cache_for_benchmark():
        import torch
        return torch.empty(256 * 1024 * 1024 // 4, dtype=torch.int)

    @staticmethod
    def clear_cache(cache):
        cache.zero_()


cpu = CpuDriver()
cuda = CudaDriver()


class _Drivers:
    """`triton.runtime.driver`."""

    @property
    def active(self):
        return cuda if _native.default_target().startswith("cuda") else cpu

    default = active

    def set_active(self, driver):
        _native.set_default_target(driver.name)

    def set_active_to_cpu(self):
        """Launches whose arguments could go either way run on the CPU."""
        self.set_active(cpu)

    def set_active_to_gpu(self):
        """Launches go to the GPU. Raises, saying which part is missing, when there is none."""
        _native.check_cuda()
        self.set_active(cuda)

    def reset_active(self):
        """Launches go by their arguments again."""
        _native.set_default_target("")

    def get_active_gpus(self):
        return [cuda] if cuda.is_active() else []


driver = _Drivers()


def __getattr__(name):
    """`triton.runtime.driver` is this module or the object `driver`, depending on who imported what first: both answer alike."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(driver, name)
