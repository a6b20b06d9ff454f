"""Options and stages of the CPU target."""

import dataclasses
import platform

from ... import __version__
from ..compiler import BaseBackend, options_hash


@dataclasses.dataclass(frozen=True)
class CPUOptions:
    """Keywords of a launch. Those of GPUs are accepted and change nothing."""
    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3
    num_threads: int = 0
    num_cpu_threads: int = 0
    cluster_dims: tuple = (1, 1, 1)
    extern_libs: tuple | None = None
    debug: bool = False
    checked: bool = False
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    enable_fp_fusion: bool = True
    enable_fast_math: bool = False
    enable_reflect_ftz: bool = True
    sanitize_overflow: bool = True
    supported_fp8_dtypes: tuple = ("fp8e4b15", "fp8e4b8", "fp8e4nv", "fp8e5", "fp8e5b16")
    deprecated_fp8_dot_operand_dtypes: tuple = ()
    default_dot_input_precision: str = "tf32"
    allowed_dot_input_precisions: tuple = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    maxnreg: int | None = None
    ir_override: str | None = None
    vec_lib: str | None = None
    ukernels: str | None = None
    assume_in_bounds: bool = False
    warp_size: int = 1
    arch: str = "native"
    backend_name: str = "cpu"
    instrumentation_mode: str = ""

    def hash(self):
        return options_hash(self)


class CPUBackend(BaseBackend):
    """Vectorised native code."""

    binary_ext = "obj"
    stage_names = ("tile", "loops", "llir", "asm", "obj")

    @staticmethod
    def supports_target(target):
        return target.backend == "cpu"

    def hash(self):
        return f"nereid-{__version__}-cpu-{platform.machine()}-{self.target.arch}"

    def parse_options(self, options):
        known = {field.name for field in dataclasses.fields(CPUOptions)}
        return CPUOptions(**{name: value for name, value in options.items() if name in known and value is not None})

    def pack_metadata(self, metadata):
        return metadata.num_warps, metadata.num_ctas, metadata.shared
