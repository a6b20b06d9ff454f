"""The table of backends."""

import dataclasses

from .cpu.compiler import CPUBackend
from .cpu.driver import CPUDriver
from .nvidia.compiler import CUDABackend
from .nvidia.driver import CudaDriver


@dataclasses.dataclass(frozen=True)
class Backend:
    """The classes of a backend: `compiler` makes kernels, `driver` runs them."""
    name: str
    compiler: type
    driver: type


Backend.__module__ = "nereid.backends"

backends = {
    "nvidia": Backend("nvidia", CUDABackend, CudaDriver),
    "cpu": Backend("cpu", CPUBackend, CPUDriver),
}
