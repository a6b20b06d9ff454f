"""Options and stages of the CPU target."""

import dataclasses
import platform

from ... import __version__
from ..compiler import BaseBackend, LaunchOptions


@dataclasses.dataclass(frozen=True)
class CPUOptions(LaunchOptions):
    """Keywords of a launch. Those of GPUs are accepted and change nothing."""
    num_threads: int = 0
    num_cpu_threads: int = 0
    cluster_dims: tuple = (1, 1, 1)
    checked: bool = False
    enable_fast_math: bool = False
    supported_fp8_dtypes: tuple = ("fp8e4b15", "fp8e4b8", "fp8e4nv", "fp8e5", "fp8e5b16")
    vec_lib: str | None = None
    ukernels: str | None = None
    assume_in_bounds: bool = False
    warp_size: int = 1
    arch: str = "native"
    backend_name: str = "cpu"


class CPUBackend(BaseBackend):
    """Vectorised native code."""

    binary_ext = "obj"
    stage_names = ("tile", "loops", "llir", "asm", "obj")
    options_class = CPUOptions

    @staticmethod
    def supports_target(target):
        return target.backend == "cpu"

    def hash(self):
        return f"nereid-{__version__}-cpu-{platform.machine()}-{self.target.arch}"
