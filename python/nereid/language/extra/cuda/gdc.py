"""Launches that start before the one before them has ended (`launch_pdl`)."""

from ... import core
from .utils import of_kernels


@of_kernels
def gdc_wait(_semantic=None):
    """With `launch_pdl`: waits until the launches before this one have ended and what they wrote can be seen."""
    return core._call("cuda.gdc_wait", (), {}, _semantic)


@of_kernels
def gdc_launch_dependents(_semantic=None):
    """With `launch_pdl`: the next launch may start once every program of this one has come here or ended."""
    return core._call("cuda.gdc_launch_dependents", (), {}, _semantic)
