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


def make_backend(target):
    """The backend that compiles for a target."""
    found = [backend.compiler for backend in backends.values() if backend.compiler.supports_target(target)]
    if len(found) != 1:
        raise RuntimeError(f"{len(found)} compatible backends for target ({target.backend}) ({found}). There should only be one.")
    return found[0](target)


make_backend.__module__ = "nereid.compiler.compiler"
