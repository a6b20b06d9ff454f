"""The current target. Inside a kernel: its own target; on the host: the one that launches use now."""

from . import core

__all__ = ["cuda_capability_geq", "current_target", "is_cpu", "is_cuda", "is_hip", "is_hip_cdna3", "is_hip_cdna4", "is_hip_gfx1250"]


def _both(function):
    """In a kernel the compiler's function of this name (which knows the target), elsewhere this one."""
    function.__triton_builtin__ = True
    function.__nereid_builtin__ = "target_info." + function.__name__
    return function


@_both
def current_target(_semantic=None):
    """The target, with `backend`, `arch` and `warp_size`; on the host None where nothing can be launched."""
    if _semantic is not None:
        return core._call("target_info.current_target", (), {}, _semantic)
    from ..runtime.driver import driver
    try:
        return driver.active.get_current_target()
    except RuntimeError:
        return None


def _backend(name):
    target = current_target()
    return target is not None and target.backend == name


@_both
def is_cuda(_semantic=None):
    """Whether the target is an NVIDIA GPU."""
    return _backend("cuda")


@_both
def is_cpu(_semantic=None):
    """Whether the target is the CPU."""
    return _backend("cpu")


@_both
def cuda_capability_geq(major, minor=0, _semantic=None):
    """Whether the target is an NVIDIA GPU of at least this compute capability."""
    major, minor = core._unwrap_if_constexpr(major), core._unwrap_if_constexpr(minor)
    return _backend("cuda") and current_target().arch >= major * 10 + minor


@_both
def is_hip(_semantic=None):
    """Never: there is no target for AMD GPUs."""
    return False


@_both
def is_hip_cdna3(_semantic=None):
    """Never: there is no target for AMD GPUs."""
    return False


@_both
def is_hip_cdna4(_semantic=None):
    """Never: there is no target for AMD GPUs."""
    return False


@_both
def is_hip_gfx1250(_semantic=None):
    """Never: there is no target for AMD GPUs."""
    return False
