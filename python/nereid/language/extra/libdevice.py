"""`tl.extra.libdevice`: the functions of NVIDIA's device library, which the CPU target has as well. Made from the compiler's table:
docs/reference/libdevice.md lists them with the types they take."""

from ._libdevice import *  # noqa: F401, F403
from ._libdevice import __all__  # noqa: F401
