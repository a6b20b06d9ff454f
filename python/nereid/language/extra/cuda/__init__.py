"""Functions of the target `cuda` beside the language: `libdevice`, and questions about the running program. On the CPU `globaltimer` is
the clock, `smid` is 0, and the two of dependent launches do nothing."""

from . import libdevice
from .gdc import gdc_launch_dependents, gdc_wait
from .utils import convert_custom_float8_sm70, convert_custom_float8_sm80, globaltimer, num_threads, num_warps, smid

__all__ = [
    "convert_custom_float8_sm70", "convert_custom_float8_sm80", "gdc_launch_dependents", "gdc_wait", "globaltimer", "libdevice",
    "num_threads", "num_warps", "smid"
]
