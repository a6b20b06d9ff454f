"""Questions about the running program, and conversions of 8-bit floats that are functions of the target."""

from ... import core


def of_kernels(function):
    name = "cuda." + function.__name__
    function = core.extern(function)
    function.__nereid_builtin__ = name  # what it means inside a kernel
    return function


@of_kernels
def globaltimer(_semantic=None):
    """Nanoseconds of a clock that all programs share, int64."""
    return core._call("cuda.globaltimer", (), {}, _semantic)


@of_kernels
def smid(_semantic=None):
    """The multiprocessor that runs this program, int32."""
    return core._call("cuda.smid", (), {}, _semantic)


@of_kernels
def num_threads(_semantic=None):
    """Threads of a program, known during compilation."""
    return core._call("cuda.num_threads", (), {}, _semantic)


@of_kernels
def num_warps(_semantic=None):
    """Warps of a program, known during compilation."""
    return core._call("cuda.num_warps", (), {}, _semantic)


@of_kernels
def convert_custom_float8_sm70(arg, dst_ty, fp_downcast_rounding=None, _semantic=None):
    """`arg` to or from float8e4b15."""
    return core._call("cuda.convert_custom_float8_sm70", (arg, dst_ty, fp_downcast_rounding), {}, _semantic)


@of_kernels
def convert_custom_float8_sm80(arg, dst_ty, fp_downcast_rounding=None, _semantic=None):
    """`arg` to or from float8e4b15."""
    return core._call("cuda.convert_custom_float8_sm80", (arg, dst_ty, fp_downcast_rounding), {}, _semantic)
