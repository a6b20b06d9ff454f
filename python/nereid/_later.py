"""Names of a module that are imported when they are first asked for."""


def names(scope, homes=(), modules=(), fresh=()):
    """`__getattr__` and `__dir__` for the module with these globals.

    homes: {name: full name of the module where it lives}; what was found stays in `scope`, except for those in `fresh`, which
    programs may replace where they live. modules: names of submodules. Other names are an AttributeError.
    """
    module = scope["__name__"]

    def __getattr__(name):
        if name in modules:
            return _module(f"{module}.{name}")
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(_module(homes[name]), name)
        if name not in fresh:
            scope[name] = value
        return value

    def __dir__():
        return sorted({*scope, *homes, *modules})

    return __getattr__, __dir__


def _module(name):
    """A module by its full name. `importlib` would be one more to load."""
    return __import__(name, fromlist=("__name__", ))
