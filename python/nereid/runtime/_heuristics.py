"""`@heuristics`, and what it shares with `@autotune`: a kernel below a decorator. The `__module__` of both is `autotuner`, as in Triton."""

import copy
import functools
import importlib
import inspect
import sys

from .. import _native
from .._jit import KernelInterface
from . import _rules


def base_function(fn):
    """The Python function below all decorators; where that did not come along from another process, the kernel."""
    while not inspect.isfunction(fn) and getattr(fn, "fn", None) is not None:
        fn = fn.fn
    return fn


def arg_names_of(fn, decorator):
    names = getattr(fn, "arg_names", None)
    if names is None:
        raise TypeError(f"@{decorator} expects a kernel below it, as @jit makes it of a function; found {type(fn).__name__} "
                        f"`{getattr(fn, '__name__', fn)}`")
    return names


def _named(module, path):
    return functools.reduce(getattr, path.split("."), importlib.import_module(module))


class Decorated(KernelInterface):
    """A kernel below a decorator. Where its name leads to it, as that of a kernel that is defined in a module does, it is pickled by that
    name, as functions are, so that its rules and hooks may be lambdas; else with what it holds."""

    def __reduce_ex__(self, protocol):
        function = base_function(self.fn)
        module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
        found = sys.modules.get(module)
        for name in path.split("."):
            found = getattr(found, name, None)
        return (_named, (module, path)) if found is self else super().__reduce_ex__(protocol)

    def _made_of(self, state):
        made = type(self).__new__(type(self))
        made.__setstate__(state)
        return made

    def __copy__(self):
        return self._made_of(self.__getstate__())

    def __deepcopy__(self, memo):
        return self._made_of(copy.deepcopy(self.__getstate__(), memo))


class Heuristics(Decorated):
    """A kernel with arguments that rules compute from the others."""

    __module__ = "nereid.runtime.autotuner"

    def __init__(self, fn, arg_names, values):
        self.fn = fn
        self.values = values
        self.arg_names = arg_names

    def run(self, *args, **kwargs):
        for name, rule in self.values.items():
            kwargs[name] = rule({**dict(zip(self.arg_names, args)), **kwargs})
        return self.fn.run(*args, **kwargs)


def heuristics(values):
    """`values`: {name of an argument: function of the dict of all arguments that gives its value}."""

    expected = "heuristics() takes a dict of functions by the names of arguments, found"
    if not hasattr(values, "items"):
        raise TypeError(f"{expected} {values!r}")
    for name, rule in values.items():
        if not callable(rule):
            raise TypeError(f"{expected} {name!r} = {rule!r}")

    def decorate(fn):
        return Heuristics(fn, arg_names_of(fn, "heuristics"), values)

    return decorate


heuristics.__module__ = Heuristics.__module__
_native.register(rules_run=Heuristics.run, rule_reads=_rules.reads)
