"""The part of `@jit` for hooks, pickles, caches and captured names. `nereid._jit` has the part that every program runs.

Clients find all names of `@jit` here, as in Triton.
"""

import contextlib
import functools
import sys
import types

from .. import _loaded, _names_later
from .._jit import (JITCallable, JITFunction, KernelInterface, KernelParam, _functions, _is_interpreting, get_full_name, jit, source)
from ..language import core
from ._function import Specialization  # noqa: F401
from .specialise import compute_cache_key, create_function_from_signature, mangle_type, native_specialize_impl
from .tensors import MockTensor, TensorWrapper, reinterpret


class JitFunctionInfo:
    """Which function a hook is told about."""

    def __init__(self, module, name, jit_function):
        self.module = module
        self.name = name
        self.jit_function = jit_function


# ---- what compilation hooks get, and `preload` takes -------------------------------------------------


def _path(key):
    return tuple(key) if isinstance(key, list) else (key, )


def _described(value):
    """A constant, type or option as JSON can hold it."""
    value = core._unwrap_if_constexpr(value)
    if isinstance(value, core.dtype):
        return {"constexpr": value._signature}
    if isinstance(value, JITCallable):
        return {"jit_function": f"{value.module}:{value.__qualname__}", "cache_key": value.cache_key}
    if isinstance(value, (tuple, list)):
        return [_described(item) for item in value]
    return value


def _restored(value):
    if isinstance(value, list):
        return tuple(_restored(item) for item in value)
    if isinstance(value, dict) and "constexpr" in value:
        return core._make_type(value["constexpr"], None)
    if isinstance(value, dict) and "jit_function" in value:
        return _function_named(value["jit_function"], value.get("cache_key"))
    return value


def _function_named(name, key):
    """The jit function of this name ("module:qualified name"). Of local functions there may be several: the one with this key, else the
    youngest. RuntimeError when there is none."""
    module, _, path = name.partition(":")
    import importlib
    with contextlib.suppress(ImportError):  # `__main__` of another process, for instance
        found = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part, None)
        while found is not None and not isinstance(found, JITCallable):
            found = getattr(found, "fn", None)
        if found is not None:
            return found
    alive = [function for function in (known() for known in _functions.get(name, ())) if function is not None]
    if not alive:
        raise RuntimeError(f"Unable to resolve JITFunction {name} for preload: a local function must have been defined before, and still "
                           "be there")
    return next((function for function in reversed(alive) if function.cache_key == key), alive[-1])


def serialize_specialization_data(name, signature, constants, attrs, options, key, target=None):
    """A compilation as text, for `JITFunction.preload`. target: a `GPUTarget` that the options do not name."""
    if target is not None and "target" not in options:
        options = {**options, "target": f"{target.backend}:{target.arch}" if target.backend == "cuda" else target.backend}
    data = {"name": name, "signature": {param: _described(kind) for param, kind in signature.items()},
            "constant_keys": [list(path) for path in constants], "constant_vals": [_described(value) for value in constants.values()],
            "attrs_keys": [list(path) for path in attrs], "attrs_vals": list(attrs.values()),
            "options": {option: _described(value) for option, value in options.items()}, "key": key}
    import json
    return json.dumps(data)


def preloaded(function, specialization_data):
    """`JITFunction.preload`."""
    import json

    from ..backends.compiler import target_of
    from ..compiler._ast_source import ASTSource, compile_function
    data = json.loads(specialization_data)
    if data["name"] != function._fn_name:
        raise RuntimeError(f"Specialization data is for {data['name']} but trying to preload for {function._fn_name}")
    constants = dict(zip(map(_path, data["constant_keys"]), map(_restored, data["constant_vals"])))
    attrs = dict(zip(map(_path, data["attrs_keys"]), data["attrs_vals"]))
    signature = {name: _restored(kind) for name, kind in data["signature"].items()}
    options = {name: _restored(value) for name, value in data["options"].items()}
    target = options.pop("target", None)
    return compile_function(ASTSource(function, signature, constants, attrs), target and target_of(target), options, launched=True)


# ---- what kernels may capture -----------------------------------------------------------------------


def _check_capture(function, name, value):
    """Whether a kernel may read this global or closure variable: NameError if not.

    Asked by the extension for everything that is not a module, a constexpr, a dtype or a kernel.
    """
    if core.is_builtin(value) or isinstance(value, ConstexprFunction) or hasattr(value, "__nereid_builtin__"):
        return
    if isinstance(value, type) and (issubclass(value, tuple) and hasattr(value, "_fields") or
                                    issubclass(value, (core.dtype, core.constexpr, core.tuple, core.tensor))):
        return
    if (getattr(value, "__module__", None) or "").startswith("nereid.language"):
        return
    annotation = function.__globals__.get("__annotations__", {}).get(name)
    if annotation is core.constexpr or isinstance(annotation, str) and "constexpr" in annotation:
        return
    from .. import knobs
    if knobs.compilation.allow_non_constexpr_globals:
        return
    if name in _names_in_defaults(function):
        return
    raise NameError(f"Cannot access global variable {name} from within @jit'ed function. Kernels read the globals that "
                    f"cannot change under them: write `{name} = tl.constexpr(...)`, or pass the value as an argument. "
                    f"(Its type here is `{type(value).__name__}`.)")


def _names_in_defaults(function):
    """Names that default values of parameters mention: those are evaluated when the function is called."""
    import ast
    arguments = function.parse().body[0].args
    defaults = [default for default in (*arguments.defaults, *arguments.kw_defaults) if default is not None]
    return {node.id for default in defaults for node in ast.walk(default) if isinstance(node, ast.Name)}


# ---- functions evaluated at compile time ------------------------------------------------------------


def _code_key(function, _open=()):
    """Identifies what a Python function does: its code, its defaults, and what it reads of closures and globals, as they are now."""
    if function in _open:  # recursion
        return function.__qualname__
    inside = (*_open, function)

    def of_code(code):
        constants = [of_code(constant) if isinstance(constant, types.CodeType) else f"{type(constant).__name__}:{constant!r}"
                     for constant in code.co_consts]
        return f"{code.co_code.hex()}{constants}{code.co_names}"

    def of_value(value):
        value = getattr(value, "fn", value) if isinstance(value, ConstexprFunction) else value
        if isinstance(value, types.FunctionType):
            return _code_key(value, inside)
        if isinstance(value, JITCallable):
            return value.cache_key
        if isinstance(value, types.ModuleType):
            return value.__name__
        return f"{type(value).__name__}:{value!r}"

    def names_of(code):
        yield from code.co_names
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from names_of(constant)

    cells = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # not defined yet
            cells.append(of_value(cell.cell_contents))
    defaults = [of_value(value) for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())]
    scope = function.__globals__
    read = [f"{name}={of_value(scope[name])}" for name in sorted(set(names_of(function.__code__))) if name in scope]
    text = f"{function.__module__}.{function.__qualname__}:{of_code(function.__code__)}{cells}{defaults}{read}"
    import hashlib
    return hashlib.sha256(text.encode()).hexdigest()


class ConstexprFunction:
    """A Python function that kernels may call on values known at compile time."""

    __nereid_constexpr_function__ = True

    def __init__(self, fn):
        if not callable(fn):
            raise TypeError(f"{fn!r} is not a callable object")
        functools.update_wrapper(self, fn)
        self.fn = fn

    @property
    def cache_key(self):
        return _code_key(self.fn)

    @functools.cached_property
    def src(self):
        """The text from `def` on."""
        import textwrap
        return textwrap.dedent(source(self.fn)[2])

    def __call__(self, *args, _semantic=None, **kwargs):
        args = [core._unwrap_if_constexpr(value) for value in args]
        kwargs = {name: core._unwrap_if_constexpr(value) for name, value in kwargs.items()}
        result = self.fn(*args, **kwargs)
        return result if _semantic is None else core.constexpr(result)

    def __get__(self, instance, owner):
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self):
        return f"<constexpr function {self.fn.__qualname__}>"


def constexpr_function(fn):
    """Lets kernels call a Python function on values known at compile time. It can be called from host code as well."""
    return ConstexprFunction(fn)


def get_jit_fn_file_line(fn):
    """The file of a function and the line of its `def`."""
    base = fn
    while not isinstance(base, JITCallable):
        base = base.fn
    return base.fn.__code__.co_filename, base.starting_line_number


def get_device_key():
    """The current device as text: "cuda:0"."""
    from .driver import driver
    return f"{driver.active.get_current_target().backend}:{driver.active.get_current_device()}"


__getattr__, __dir__ = _names_later(globals(), {"type_canonicalisation_dict": "nereid._utils"})


__all__ = [
    "ConstexprFunction", "JITCallable", "JITFunction", "JitFunctionInfo", "KernelInterface", "KernelParam", "MockTensor",
    "TensorWrapper", "compute_cache_key", "constexpr_function", "create_function_from_signature", "get_device_key",
    "get_jit_fn_file_line", "jit", "mangle_type", "native_specialize_impl", "reinterpret", "serialize_specialization_data",
    "type_canonicalisation_dict"
]

_loaded["jit"] = sys.modules[__name__]
