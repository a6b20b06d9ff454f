"""The device library, under the name it has for the target `cuda`."""

from ..libdevice import *  # noqa: F401, F403
from ..libdevice import __all__  # noqa: F401
