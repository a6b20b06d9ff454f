"""Prints the public names of a package with their signatures as JSON: `python record_signatures.py triton > signatures-3.6.0.json`.

With `nereid` as the package the names of Triton's modules are looked up in Nereid's. A function is {"parameters": [[name, kind, default],
...]}, kind being "p" for those that may be given by position, "k" for keywords, "*" and "**"; a class is {"members": {name: function}}, a
module {"names": {...}}, anything else {}.
"""

import importlib
import inspect
import json
import sys
import types
import typing

MODULES = [
    "", ".language", ".language.core", ".language.math", ".language.random", ".language.standard", ".language.target_info",
    ".language.extra", ".language.extra.libdevice", ".language.extra.cuda", ".language.extra.cuda.gdc", ".language.extra.cuda.utils", ".language.extra.cuda.libdevice", ".testing", ".errors",
    ".runtime", ".runtime.autotuner", ".runtime.cache", ".runtime.driver", ".runtime.errors", ".runtime.jit", ".runtime.build",
    ".runtime.interpreter", ".runtime._allocation", ".runtime._async_compile", ".compiler", ".compiler.compiler", ".compiler.errors",
    ".backends", ".backends.compiler", ".backends.driver", ".knobs", ".tools", ".tools.compile", ".tools.link", ".tools.disasm",
    ".tools.mxfp", ".tools.ragged_tma", ".tools.tensor_descriptor", ".tools.build_extern", "._utils",
]
#: Arguments that only the compiler gives.
_INNER = {"_semantic", "_generator", "_builder"}
#: Names that modules have by accident: of loops, of type checkers.
_NOISE = {"TYPE_CHECKING", "k", "v"}
_KINDS = {"POSITIONAL_ONLY": "p", "POSITIONAL_OR_KEYWORD": "p", "KEYWORD_ONLY": "k", "VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}


def default_text(value):
    if value is inspect.Parameter.empty:
        return None
    if hasattr(value, "value") and type(value).__name__ in ("constexpr", ):
        value = value.value
    if isinstance(value, (bool, int, float, str, type(None), tuple, list, dict)):
        return repr(value)
    if hasattr(value, "name"):
        return str(value.name)
    return type(value).__name__


def parameters(function):
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in _INNER:
            found.append([parameter.name, _KINDS[parameter.kind.name], default_text(parameter.default)])
    return found


def unwrapped(value):
    """The Python function behind what `@jit` and the like made of it."""
    for _ in range(4):
        if inspect.isfunction(value) or inspect.isclass(value):
            break
        inner = getattr(value, "fn", None)
        if inner is None:
            break
        value = inner
    return value


def describe(value, deep=True):
    if inspect.isclass(value):
        members = {}
        for base in value.__mro__ if deep else ():
            if not base.__module__.startswith(("triton", "nereid")):
                continue
            for name, member in vars(base).items():
                if name.startswith("_") and name != "__init__" or name in members:
                    continue
                static = isinstance(member, staticmethod)
                if isinstance(member, (staticmethod, classmethod)):
                    member = member.__func__
                elif not callable(member):  # what a class finds elsewhere
                    member = getattr(value, name, member)
                members[name] = describe(unwrapped(member), deep=False)
                if "parameters" in members[name] and not static:
                    del members[name]["parameters"][:1]  # the object
        for name in dir(value) if deep else ():  # what its own class finds
            if not name.startswith("_") and not any(name in vars(base) for base in value.__mro__):
                members[name] = describe(unwrapped(getattr(value, name)), deep=False)
                if "parameters" in members[name]:
                    del members[name]["parameters"][:1]
        return {"members": members}
    value = unwrapped(value)
    if callable(value):
        try:
            return {"parameters": parameters(value)}
        except (TypeError, ValueError):
            return {}
    return {}


def public_names(module, package):
    """What a package offers, or what a module defines itself."""
    is_package = hasattr(module, "__path__")
    for name in sorted(vars(module)):
        if name.startswith("_"):
            continue
        value = getattr(module, name)
        if isinstance(value, typing.TypeVar) or name in _NOISE:
            continue
        home = getattr(value, "__module__", None) or type(value).__module__
        if isinstance(value, types.ModuleType):
            if is_package and value.__name__.startswith(package):
                yield name, value
        elif home == module.__name__ or is_package and home.startswith(package) or isinstance(value, (int, str, dict)):
            yield name, value


def record(package):
    found = {}
    language = importlib.import_module(package + ".language")
    for suffix in MODULES:
        module = importlib.import_module(package + suffix)
        found["triton" + suffix] = {name: {"module": True} if isinstance(value, types.ModuleType) else describe(value)
                                    for name, value in public_names(module, package)
                                    # What the language offers is described there.
                                    if not suffix.startswith(".language.") or getattr(language, name, None) is not value}
    return found


if __name__ == "__main__":
    json.dump(record(sys.argv[1]), sys.stdout, indent=None, separators=(",", ":"), sort_keys=True)
