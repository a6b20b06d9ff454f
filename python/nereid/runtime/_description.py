"""Describes, as a text, what Python code that enters the compiler depends on: for the cache on disk.

A builtin of the user's, or a class of values, runs while a kernel is compiled and may do anything. Its text is that of its code and of
all that the code names: functions, classes, constants, members of modules, what closures and defaults hold. A name whose value cannot
be told apart this way (the environment, files, objects made in C) makes `described` return None, and such kernels are not kept.
"""

import dis
import enum
import functools
import hashlib
import os
import sys
import types

from ..language import core

#: Modules of Python's own whose functions depend on their arguments alone.
_PURE = {"_abc", "_collections", "_functools", "_operator", "_typing", "abc", "builtins", "collections", "collections.abc", "copy",
         "dataclasses", "enum", "functools", "itertools", "math", "numbers", "operator", "re", "string", "textwrap", "types", "typing"}
#: Builtins of Python whose results depend on more than their arguments.
_IMPURE = {"__import__", "breakpoint", "compile", "eval", "exec", "globals", "hash", "id", "input", "locals", "open"}
_LEFT_OUT = {"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__", "__abstractmethods__",
             "_abc_impl"}
#: Modules of this package that are more than their text.
_STATEFUL = {"_C", "_native", "backends", "compiler", "knobs", "runtime", "testing", "tools"}
_MOST = 5000


class _Opaque(Exception):
    """An object whose dependencies cannot be determined."""


@functools.lru_cache
def _package():
    """This package as it is now: its functions are not walked."""
    from .. import __file__ as start
    found = []
    for folder, _, names in os.walk(os.path.dirname(start)):
        for name in names:
            if name.endswith(".py"):
                status = os.stat(os.path.join(folder, name))
                found.append((os.path.relpath(os.path.join(folder, name), os.path.dirname(start)), status.st_size, status.st_mtime_ns))
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()


def _is_ours(module):
    return module == "nereid" or str(module).startswith("nereid.")


class _Walk:

    def __init__(self):
        self.seen = {}
        self.kept = []  # an address must not come again
        self.lines = []

    def value(self, value):
        """A word for the value; what it consists of goes to `lines` once."""
        if value is None or value is Ellipsis or isinstance(value, (bool, int, float, complex, str, bytes)) and type(value).__module__ == "builtins":
            return f"{type(value).__name__} {value!r}"
        known = self.seen.get(id(value))
        if known is not None:
            return known
        if len(self.seen) > _MOST:
            raise _Opaque
        word = self.seen[id(value)] = f"#{len(self.seen)}"
        self.kept.append(value)
        self.lines.append(f"{word} = {self.parts(value)}")
        return word

    def all(self, values):
        return " ".join(map(self.value, values))

    def parts(self, value):
        if isinstance(value, core.dtype):
            return f"type {value!r} {value._signature} {value._shape}"
        if isinstance(value, core.constexpr):
            return f"constexpr {self.value(value.value)}"
        if type(value) in (tuple, list):
            return f"{type(value).__name__} {self.all(value)}"
        if type(value) in (set, frozenset):
            return f"set {sorted(map(self.value, value))}"
        if type(value) in (dict, types.MappingProxyType):
            return "dict " + " ".join(f"{self.value(key)}:{self.value(item)}" for key, item in value.items())
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"  # its members are described where they are named
        if isinstance(value, types.FunctionType):
            return self.function(value)
        if isinstance(value, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
                              types.GetSetDescriptorType, types.MemberDescriptorType, types.ClassMethodDescriptorType)):
            return self.of_c(value)
        if isinstance(value, types.MethodType):
            return f"method {self.all((value.__func__, value.__self__))}"
        if isinstance(value, functools.partial):
            return f"partial {self.all((value.func, value.args, value.keywords))}"
        if isinstance(value, (staticmethod, classmethod)):
            return f"{type(value).__name__} {self.value(value.__func__)}"
        if isinstance(value, property):
            return f"property {self.all((value.fget, value.fset, value.fdel))}"
        if isinstance(value, types.CodeType):
            return self.code(value)
        if isinstance(value, type):
            return self.cls(value)
        if isinstance(value, enum.Enum):
            return f"member {value.name} {self.all((type(value), value.value))}"
        if type(value).__module__ == "nereid.runtime.jit":
            if type(value).__name__ == "ConstexprFunction":
                return f"constexpr function {self.value(value.fn)}"
            raise _Opaque  # a function of the language: the compiler asks what it needs
        return self.instance(value)

    def of_c(self, value):
        module = getattr(value, "__module__", None) or getattr(getattr(value, "__objclass__", None), "__module__", None)
        owner = getattr(value, "__self__", None)
        if module is None and isinstance(owner, type):
            module = owner.__module__
        if module not in _PURE or owner is not None and not isinstance(owner, (type, types.ModuleType)):
            raise _Opaque
        return f"{module}.{value.__qualname__} {sys.version}"

    def code(self, code):
        for instruction in dis.get_instructions(code):
            if instruction.opname == "IMPORT_NAME" and not _is_ours(instruction.argval) and instruction.argval not in _PURE:
                raise _Opaque
        return (f"code {code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars} {code.co_argcount} "
                f"{code.co_kwonlyargcount} {code.co_flags} {getattr(code, 'co_exceptiontable', b'').hex()} {self.all(code.co_consts)}")

    def function(self, function):
        if _is_ours(function.__module__):
            return f"ours {function.__module__}.{function.__qualname__} {_package()}"
        if function.__module__ in sys.stdlib_module_names or str(function.__module__).partition(".")[0] in sys.stdlib_module_names:
            if function.__module__ in _PURE and not function.__closure__:
                return f"{function.__module__}.{function.__qualname__} {sys.version}"
            if function.__module__ not in _PURE:
                raise _Opaque
        words = [self.value(function.__code__), self.value(function.__defaults__), self.value(function.__kwdefaults__)]
        for cell in function.__closure__ or ():
            try:
                words.append(self.value(cell.cell_contents))
            except ValueError:
                words.append("empty")
        names = _names(function.__code__)
        reached = []
        for name in names:
            if name in function.__globals__:
                value = function.__globals__[name]
                words.append(f"{name}={self.value(value)}")
                reached.append(value)
            elif name in _IMPURE:
                raise _Opaque
        # Members of modules, by every name that the code reads of anything.
        for value in reached:
            if isinstance(value, types.ModuleType):
                words.extend(self.members(value, names))
        for name, value in sorted(function.__dict__.items()):
            if name not in ("__signature__", "signature"):  # says what the code says
                words.append(f".{name}={self.value(value)}")
        return "function " + " ".join(words)

    def members(self, module, names):
        if _is_ours(module.__name__):
            # The language is what it is; knobs, drivers and devices have a state.
            if not module.__name__.startswith("nereid.language") and _STATEFUL.intersection(names):
                raise _Opaque
            return [f"ours {_package()}"]
        words = []
        for name in names:
            if name in vars(module):
                value = vars(module)[name]
                words.append(f"{module.__name__}.{name}={self.value(value)}")
                if isinstance(value, types.ModuleType):
                    words.extend(self.members(value, [other for other in names if other != name]))
        return words

    def cls(self, cls):
        if cls.__module__ in _PURE:
            return f"class {cls.__module__}.{cls.__qualname__} {sys.version}"
        if _is_ours(cls.__module__):
            return f"ours {cls.__module__}.{cls.__qualname__} {_package()}"
        if cls.__module__.partition(".")[0] in sys.stdlib_module_names:
            raise _Opaque
        words = [self.value(base) for base in cls.__bases__ if base is not object]
        if type(cls) is not type:
            words.append(self.value(type(cls)))
        if issubclass(cls, enum.Enum):
            return f"enum {cls.__qualname__} {' '.join(words)} " + " ".join(f"{name}:{self.value(m.value)}"
                                                                         for name, m in cls.__members__.items())
        if not all(base is object or base.__flags__ & 1 << 9 for base in cls.__mro__):  # made in C
            raise _Opaque
        for name, value in sorted(vars(cls).items()):
            if name not in _LEFT_OUT:
                words.append(f"{name}={self.value(value)}")
        return f"class {cls.__qualname__} " + " ".join(words)

    def instance(self, value):
        cls = type(value)
        if _is_ours(cls.__module__) or not hasattr(value, "__dict__") or not cls.__flags__ & 1 << 9:
            raise _Opaque
        return f"instance {self.value(cls)} " + " ".join(f"{name}={self.value(item)}" for name, item in sorted(vars(value).items()))


def _names(code):
    """Every name that the code and the code in it read, of globals or of objects."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(dict.fromkeys(_names(constant)))
    return list(names)


def described(value):
    """A text that is equal for what behaves alike; None where there is no such text."""
    walk = _Walk()
    try:
        word = walk.value(value)
    except (_Opaque, RecursionError, AttributeError, TypeError):
        return None
    return hashlib.sha256("\n".join([*walk.lines, word]).encode(errors="backslashreplace")).hexdigest()
