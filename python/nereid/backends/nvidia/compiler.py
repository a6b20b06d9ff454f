"""Options and stages of the target for NVIDIA GPUs."""

import dataclasses
import re

from ... import __version__
from ...errors import PTXASError
from ..compiler import BaseBackend, LaunchOptions


@dataclasses.dataclass(frozen=True)
class CUDAOptions(LaunchOptions):
    """Keywords of a launch."""
    warp_size: int = 32
    ptx_version: int | None = None
    ptx_options: str | None = None
    tensor_copies: bool = True
    pointer_copies: bool = True
    clusters: bool = True
    supported_fp8_dtypes: tuple = ("fp8e4b15", "fp8e5")
    backend_name: str = "cuda"
    arch: str | None = None


class CUDABackend(BaseBackend):
    """PTX and machine code."""

    binary_ext = "cubin"
    stage_names = ("tile", "gpu", "llir", "ptx", "cubin")
    options_class = CUDAOptions

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
        given = self._known(options)
        arch = given.setdefault("arch", f"sm{self.target.arch}")
        capability = self.parse_arch(arch)
        if capability >= 89:
            given.setdefault("supported_fp8_dtypes", ("fp8e4b15", "fp8e4nv", "fp8e5"))
        if capability == 90:
            given.setdefault("max_num_imprecise_acc_default", 2**30)
            given.setdefault("deprecated_fp8_dot_operand_dtypes", ("fp8e4b15", ))
        return CUDAOptions(**given)


__all__ = ["CUDABackend", "CUDAOptions", "PTXASError"]
