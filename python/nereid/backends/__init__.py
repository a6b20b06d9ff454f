"""The targets of compilations by name: `backends["cpu"]`, `backends["nvidia"]`; each has a compiler and a driver.

The classes of options are made when they are first asked for: a launch needs none of them.
"""

from .. import _names_later

__all__ = ["Backend", "BaseBackend", "DriverBase", "GPUTarget", "backends"]

_HOMES = {"compiler": ("BaseBackend", "GPUTarget"), "driver": ("DriverBase", ), "_table": ("Backend", "backends")}
__getattr__, __dir__ = _names_later(globals(), {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names},
                                   ("compiler", "cpu", "driver", "nvidia"))
