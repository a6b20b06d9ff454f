"""What kernels can be compiled for, by name: `backends["cpu"]`, `backends["nvidia"]`; a compiler and a driver each."""

import dataclasses

from . import cpu, nvidia
from .compiler import BaseBackend, GPUTarget
from .driver import DriverBase


@dataclasses.dataclass(frozen=True)
class Backend:
    """The classes of a backend: `compiler` makes kernels, `driver` runs them."""
    name: str
    compiler: type
    driver: type


backends = {
    "nvidia": Backend("nvidia", nvidia.compiler.CUDABackend, nvidia.driver.CudaDriver),
    "cpu": Backend("cpu", cpu.compiler.CPUBackend, cpu.driver.CPUDriver),
}

__all__ = ["Backend", "BaseBackend", "DriverBase", "GPUTarget", "backends"]
