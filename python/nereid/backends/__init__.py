"""What kernels can be compiled for, by name: `backends["cpu"]`, `backends["nvidia"]`; a compiler and a driver each.

The classes of options are made when they are first asked for: a launch needs none of them.
"""

_LATER = {"BaseBackend": "compiler", "GPUTarget": "compiler", "DriverBase": "driver", "Backend": "_table", "backends": "_table"}
_MODULES = {"compiler", "cpu", "driver", "nvidia"}

__all__ = ["Backend", "BaseBackend", "DriverBase", "GPUTarget", "backends"]


def __getattr__(name):
    if name not in _LATER and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    return value


def __dir__():
    return sorted({*globals(), *__all__, *_MODULES})
