"""Functions of the target `cuda` beside the language: `libdevice`, and questions about the running program. On the CPU `globaltimer` is
the clock, `smid` is 0, and the two of dependent launches do nothing."""

from . import libdevice
from ... import core

__all__ = [
    "convert_custom_float8_sm70", "convert_custom_float8_sm80", "gdc_launch_dependents", "gdc_wait", "globaltimer", "libdevice",
    "num_threads", "num_warps", "smid"
]


def _of_kernels(function):
    name = "cuda." + function.__name__
    function = core.extern(function)
    function.__nereid_builtin__ = name  # what it means inside a kernel
    return function


@_of_kernels
def globaltimer(_semantic=None):
    """Nanoseconds of a clock that all programs share, int64."""
    return core._call("cuda.globaltimer", (), {}, _semantic)


@_of_kernels
def smid(_semantic=None):
    """The multiprocessor that runs this program, int32."""
    return core._call("cuda.smid", (), {}, _semantic)


@_of_kernels
def num_threads(_semantic=None):
    """Threads of a program, known during compilation."""
    return core._call("cuda.num_threads", (), {}, _semantic)


@_of_kernels
def num_warps(_semantic=None):
    """Warps of a program, known during compilation."""
    return core._call("cuda.num_warps", (), {}, _semantic)


@_of_kernels
def gdc_wait(_semantic=None):
    """With `launch_pdl`: waits until the launches before this one have ended and what they wrote can be seen."""
    return core._call("cuda.gdc_wait", (), {}, _semantic)


@_of_kernels
def gdc_launch_dependents(_semantic=None):
    """With `launch_pdl`: the next launch may start once every program of this one has come here or ended."""
    return core._call("cuda.gdc_launch_dependents", (), {}, _semantic)


@_of_kernels
def convert_custom_float8_sm70(arg, dst_ty, fp_downcast_rounding=None, _semantic=None):
    """`arg` to or from float8e4b15."""
    return core._call("cuda.convert_custom_float8_sm70", (arg, dst_ty, fp_downcast_rounding), {}, _semantic)


@_of_kernels
def convert_custom_float8_sm80(arg, dst_ty, fp_downcast_rounding=None, _semantic=None):
    """`arg` to or from float8e4b15."""
    return core._call("cuda.convert_custom_float8_sm80", (arg, dst_ty, fp_downcast_rounding), {}, _semantic)
