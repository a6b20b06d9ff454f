"""Classes of values: `@aggregate`.

An aggregate has typed fields. Its methods are functions of the language (`@jit`), constexpr functions, static functions, or plain
Python that runs during the compilation; so does its `__init__`, which may call the language with `_semantic=_semantic`. Values are
immutable once they are made. Inside kernels the compiler asks this module what a class's members are.
"""

import builtins
import itertools
import sys

from .. import _native
from . import core

# How a member is read from a value: NRD_MEMBER_* of the library.
_PLAIN, _METHOD, _PROPERTY = 0, 1, 2

_numbers = itertools.count()


class aggregate_type:
    """The type of an aggregate: its class and the types of its fields."""

    def __init__(self, base_cls, fields):
        self.base_cls = base_cls
        self.fields = fields

    def __eq__(self, other):
        return isinstance(other, aggregate_type) and self.base_cls is other.base_cls and self.fields == other.fields

    def __hash__(self):
        return hash((self.base_cls, self.mangle()))

    def mangle(self):
        fields = ", ".join(type.mangle() for _, type in self.fields)
        return f"{self.base_cls.__module__}.{self.base_cls.__qualname__}<{fields}>"

    __repr__ = mangle


def _annotations(cls):
    """The annotations of a class's own fields; a text that has no meaning yet stays a text."""
    import inspect
    found = inspect.get_annotations(cls)
    scope = {**vars(sys.modules.get(cls.__module__, builtins)), cls.__name__: cls}
    for name, annotation in found.items():
        if isinstance(annotation, str):
            try:
                found[name] = eval(annotation, scope)
            except Exception:
                pass  # a name of a function's scope: the field is not checked
    return found


def _typed(cls, name, value):
    """The value as the field holds it: constants boxed. TypeError when it is not of the field's type."""
    expected = cls.__nereid_fields__[name]
    if expected is core.constexpr and not isinstance(value, core.tensor):
        return value if isinstance(value, core.constexpr) else core.constexpr(value)
    if expected is core.tuple and isinstance(value, builtins.tuple):
        return value if hasattr(value, "_fields") else core.tuple(value)
    if expected is core.tensor and not isinstance(value, core.constexpr) and not _native.is_compiling():
        return value  # an argument of a launch, which says what it cannot take
    try:
        fits = not isinstance(expected, type) or isinstance(value, expected)
    except TypeError:  # a generic: its arguments cannot be checked
        fits = True
    if not fits:
        raise TypeError(f"Expected {expected} for attribute '{name}', got {type(value)}")
    return value


def _finish(self, cls):
    """Fills in defaults, and makes the value immutable."""
    for name in cls.__nereid_fields__:
        if name not in self.__dict__:
            if not hasattr(cls, name):
                raise AttributeError(f"constructor for {cls.__name__} did not initialize attribute '{name}'")
            self.__dict__[name] = _typed(cls, name, getattr(cls, name))
    self.__dict__["__nereid_made__"] = True


def _setattr(self, name, value):
    cls = type(self)
    if name not in cls.__nereid_fields__:
        raise AttributeError(f"{cls.__name__} has no attribute '{name}'")
    if "__nereid_made__" in self.__dict__:
        raise AttributeError(f"cannot assign to field '{name}'")
    self.__dict__[name] = _typed(cls, name, value)


def _delattr(self, name):
    raise AttributeError(f"cannot delete field '{name}'")


def _generated_init(cls):
    """The `__init__` that the fields imply: one parameter each, in their order."""
    import inspect
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    defaults = {name: getattr(cls, name) for name in cls.__nereid_fields__ if hasattr(cls, name)}
    parameters = [inspect.Parameter(name, kind, default=defaults.get(name, inspect.Parameter.empty))
                  for name in cls.__nereid_fields__]
    try:
        signature = inspect.Signature(parameters)
    except ValueError as error:
        raise TypeError(f"{cls.__name__}: {error}") from None

    def __init__(self, *args, **kwargs):
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}.__init__: {error}") from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value)

    __init__.__signature__ = signature
    return __init__


def aggregate(cls):
    """Makes a class one whose values kernels can have: `@triton.aggregate`.

    Fields are annotations, with or without defaults: `tl.tensor`, `tl.constexpr`, `tl.tuple`, another aggregate. Without an `__init__`
    of its own the class gets one with a parameter per field.
    """
    import inspect
    for base in cls.__mro__[1:-1]:
        if not base.__dict__.get("__triton_aggregate__", False):
            raise TypeError(f"{cls.__name__}: an aggregate inherits from aggregates only, found {base.__name__}")
    fields = {}
    for base in reversed(cls.__mro__[1:-1]):
        fields.update(base.__nereid_fields__)
    fields.update(_annotations(cls))
    own = cls.__dict__.get("__init__")
    if isinstance(own, _native.KernelBase):
        raise TypeError(f"{cls.__name__}.__init__ runs in Python during the compilation: it cannot be a @triton.jit function")
    cls.__nereid_fields__ = fields
    cls.__nereid_key__ = f"{cls.__module__}.{cls.__qualname__}"
    if "<locals>" in cls.__qualname__:  # several classes may have this name
        cls.__nereid_key__ += f"#{next(_numbers)}"
    init = own or _generated_init(cls)
    wants_semantic = "_semantic" in inspect.signature(init).parameters

    def __init__(self, *args, _semantic=None, **kwargs):
        if wants_semantic:
            kwargs["_semantic"] = _semantic
        init(self, *args, **kwargs)
        if type(self) is cls:
            _finish(self, cls)

    __init__.__wrapped__ = init
    cls.__init__ = __init__
    cls.__setattr__ = _setattr
    cls.__delattr__ = _delattr
    cls.__triton_aggregate__ = True
    cls.__triton_builtin__ = True
    if "__repr__" not in cls.__dict__:
        cls.__repr__ = lambda self: f"{cls.__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"
    if "type" not in fields:
        cls.type = property(lambda self: aggregate_type(
            type(self), [(name, getattr(getattr(self, name), "type", None)) for name in type(self).__nereid_fields__]))
    return cls


_aggregate, _aggregate_type = aggregate, aggregate_type  # Triton's names


def aggregate_replace(instance, _semantic=None, **changes):
    """A value of the same class with other values in some of its fields."""
    cls = type(instance)
    if not getattr(cls, "__triton_aggregate__", False):
        raise TypeError(f"aggregate_replace expects an aggregate, found {cls.__name__}")
    for name in changes:
        if name not in cls.__nereid_fields__:
            raise AttributeError(f"{cls.__name__} has no attribute '{name}'")
    return _rebuilt(cls, [_typed(cls, name, changes[name]) if name in changes else getattr(instance, name)
                          for name in cls.__nereid_fields__])


aggregate_replace.__triton_builtin__ = True
aggregate_replace.__nereid_builtin__ = "python.aggregate_replace"  # what it means inside a kernel


class library_value:
    """A value of a class of the language's own library, a block pointer, as Python code that runs during a compilation sees it."""

    _FUNCTIONS = ("load", "store", "advance")

    def __init__(self, class_name, fields):
        self.__dict__.update(fields)
        self._class_name = class_name
        self._fields = builtins.tuple(fields)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if name in library_value._FUNCTIONS:
            return lambda *args, _semantic=None, **kwargs: core._call(name, (self, *args), kwargs, _semantic)
        return core._call("getattr", (self, name), {})


# ---- what the extension asks ------------------------------------------------------------------------


def _rebuilt(cls, values):
    """A value of a class from the values of its fields; `cls` is a text for a class of the library."""
    if cls == "constexpr_type":
        return core.constexpr_type(dict(values)["value"].value)
    if isinstance(cls, str):
        return library_value(cls, dict(values))
    self = object.__new__(cls)
    self.__dict__.update(zip(cls.__nereid_fields__, values))
    self.__dict__["__nereid_made__"] = True
    return self


def _member_of(cls, name):
    """A member, no field, of a class, and how it is read from a value; None when there is none."""
    for base in cls.__mro__[:-1]:
        if name in base.__dict__:
            break
    else:
        return None
    found = base.__dict__[name]
    if isinstance(found, staticmethod):
        return _PLAIN, found.__func__
    if isinstance(found, classmethod):
        return _PLAIN, getattr(cls, name)
    if isinstance(found, property):
        return _PROPERTY, found.fget
    return (_METHOD if callable(found) and not isinstance(found, type) else _PLAIN), found


def _takes_semantic(callee):
    """Whether Python code that a kernel calls enters the compiler: then it gets `_semantic`, and constants as `constexpr`."""
    if getattr(callee, "__nereid_constexpr_function__", False):
        return False
    if getattr(callee, "__triton_aggregate__", False) and isinstance(callee, type):
        return True
    import inspect
    try:
        return "_semantic" in inspect.signature(callee).parameters
    except (TypeError, ValueError):
        return False


_native.register(takes_semantic=_takes_semantic, member_of=_member_of, rebuilt=_rebuilt, library_value=library_value)
