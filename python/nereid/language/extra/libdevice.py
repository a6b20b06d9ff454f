"""`tl.extra.libdevice`: elementwise functions under the names of device libraries; so far those of `tl.math`."""

from ..math import *  # noqa: F401, F403
from ..math import __all__  # noqa: F401
