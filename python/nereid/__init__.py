"""Nereid: the Triton language, compiled by a C++ compiler.

    import nereid
    import nereid.language as tl

    @nereid.jit
    def kernel(...): ...

    kernel[grid](...)

Names are imported when first used, so that importing the package costs next to nothing.
"""

__version__ = "0.1.0"

# Where each name lives. One list: `__getattr__`, `__all__` and the alias read it.
_HOMES = {
    "nereid._jit": ["jit", "JITFunction", "KernelInterface"],
    "nereid.runtime.jit": ["constexpr_function", "ConstexprFunction", "MockTensor", "TensorWrapper", "reinterpret"],
    "nereid.runtime.autotuner": ["autotune", "Autotuner", "Config", "heuristics", "Heuristics"],
    "nereid.errors": ["TritonError", "CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct",
                      "InterpreterError", "OutOfResources"],
    "nereid.runtime._allocation": ["set_allocator"],
    "nereid.runtime._async_compile": ["AsyncCompileMode", "FutureKernel"],
    "nereid.runtime._precompile": ["precompile", "record"],
    "nereid.compiler": ["CompiledKernel", "compile"],
    "nereid.language._classes": ["aggregate"],
    "nereid.differentiation": ["derivative", "grad", "jvp"],
    "nereid.language": ["at_most", "detach", "recompute", "save"],
    "nereid._autograd": ["autograd"],
    "nereid._host": ["cdiv", "next_power_of_2", "must_use_result"],
    "nereid._alias": ["install_as_triton", "uninstall_as_triton"],
    "nereid._native": ["flush_cache", "language_json"],
}
_MODULES = ["language", "runtime", "compiler", "backends", "errors", "testing", "tools", "knobs"]
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_MODULES, *_HOME_OF]


# Helpers of all modules that a first launch runs. They stand here because every module is time that each new process spends.


def _names_later(scope, homes=(), modules=(), fresh=(), rest=None):
    """`__getattr__` and `__dir__` for the module with these globals.

    homes: {name: full name of the module where it lives}; what was found stays in `scope`, except for those in `fresh`, which
    programs may replace where they live. modules: names of submodules. rest: full name of a module that has further names, those in its
    `__all__`. Other names are an AttributeError.
    """
    module = scope["__name__"]

    def __getattr__(name):
        if name in modules:
            return _module(f"{module}.{name}")
        home = homes.get(name) if homes else None
        if home is None and rest is not None and not name.startswith("_") and name in _module(rest).__all__:
            home = rest
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(_module(home), name)
        if name not in fresh:
            scope[name] = value
        return value

    def __dir__():
        return sorted({*scope, *homes, *modules, *(_module(rest).__all__ if rest is not None else ())})

    return __getattr__, __dir__


def _module(name):
    """A module by its full name. `importlib` would be one more to load."""
    return __import__(name, fromlist=("__name__", ))


#: Functions that lower modules call in higher ones (order of imports: docs/README.md), with the module that defines them, which is imported
#: at the first call. No other place names a higher module.
_PROVIDERS = {
    "launch_with_hooks": "nereid._hooks",
    "InterpretedFunction": "nereid.runtime.interpreter",
    "preloaded": "nereid.runtime.jit",
    "Launcher": "nereid.compiler.compiler",
    "do_bench": "nereid.testing",
}


def _provided(name):
    """One of `_PROVIDERS`."""
    return getattr(_module(_PROVIDERS[name]), name)


#: Modules that lower ones ask only when a program has loaded them, and that enter themselves here then: "knobs", "jit" (of `runtime`) and
#: "async_compile".
_loaded = {}


class _computed_once:
    """A property whose value is computed when it is first asked for, and stays: `functools.cached_property` without its module."""

    def __init__(self, function):
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.function(instance)
        return value


__getattr__, __dir__ = _names_later(globals(), _HOME_OF, (*_MODULES, "_C"))

# A child of a process in which `import triton` means this package: so it does here.
import os as _os  # noqa: E402

if _os.environ.get("NEREID_AS_TRITON", "0") != "0":
    from ._alias import _start
    _start()
    del _start
