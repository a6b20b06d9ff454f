"""Options and stages of the target for NVIDIA GPUs."""

import dataclasses
import re

from ... import __version__
from ...errors import PTXASError
from ..compiler import BaseBackend, options_hash


@dataclasses.dataclass(frozen=True)
class CUDAOptions:
    """Keywords of a launch."""
    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3
    warp_size: int = 32
    maxnreg: int | None = None
    ptx_version: int | None = None
    ptx_options: str | None = None
    ir_override: str | None = None
    enable_fp_fusion: bool = True
    enable_reflect_ftz: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    tensor_copies: bool = True
    supported_fp8_dtypes: tuple = ("fp8e4b15", "fp8e5")
    deprecated_fp8_dot_operand_dtypes: tuple = ()
    default_dot_input_precision: str = "tf32"
    allowed_dot_input_precisions: tuple = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    extern_libs: tuple | None = None
    debug: bool = False
    backend_name: str = "cuda"
    sanitize_overflow: bool = True
    arch: str | None = None
    instrumentation_mode: str = ""

    def __post_init__(self):
        libs = self.extern_libs
        if libs is not None and not isinstance(libs, tuple):
            object.__setattr__(self, "extern_libs", tuple(dict(libs).items()))
        assert self.num_warps > 0 and self.num_warps & (self.num_warps - 1) == 0, "num_warps must be a power of 2"

    def hash(self):
        return options_hash(self)


class CUDABackend(BaseBackend):
    """PTX and machine code."""

    binary_ext = "cubin"
    stage_names = ("tile", "gpu", "llir", "ptx", "cubin")

    @staticmethod
    def supports_target(target):
        return target.backend == "cuda"

    def hash(self):
        return f"nereid-{__version__}-cuda-{self.target.arch}"

    @staticmethod
    def parse_arch(arch):
        """The number in "sm80"."""
        match = re.fullmatch(r"sm_?(\d+)a?", str(arch))
        if match is None:
            raise ValueError(f"TRITON_OVERRIDE_ARCH must have the form sm(\\d+), found {arch!r}")
        return int(match.group(1))

    def parse_options(self, options):
        known = {field.name for field in dataclasses.fields(CUDAOptions)}
        given = {name: value for name, value in options.items() if name in known and value is not None}
        arch = given.setdefault("arch", f"sm{self.target.arch}")
        capability = self.parse_arch(arch)
        if capability >= 89:
            given.setdefault("supported_fp8_dtypes", ("fp8e4b15", "fp8e4nv", "fp8e5"))
        if capability == 90:
            given.setdefault("max_num_imprecise_acc_default", 2**30)
            given.setdefault("deprecated_fp8_dot_operand_dtypes", ("fp8e4b15", ))
        return CUDAOptions(**given)

    def pack_metadata(self, metadata):
        return metadata.num_warps, metadata.num_ctas, metadata.shared


__all__ = ["CUDABackend", "CUDAOptions", "PTXASError"]
