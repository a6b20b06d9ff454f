"""`@jit`: functions of the language under Python.

A `JITFunction` holds the text of a function and what it needs of Python: its globals, closure, defaults and annotations. Launching it
goes straight into the extension (`_native.KernelBase`); no Python of ours runs when a kernel is warm.
"""

import ast
import functools
import hashlib
import inspect
import os
import re
import textwrap
import types

from .. import _native
from .. import errors  # noqa: F401  (registers the exceptions)
from .. import language
from ..compiler import CompiledKernel  # noqa: F401  (registers the class)
from ..language import core
from . import _async_compile

_NO_SPECIALIZE, _NO_ALIGNMENT, _CONST = 1, 2, 4


class KernelInterface(_native.KernelBase):
    """What can be launched as `kernel[grid](...)`. Subclasses give `run(*args, grid, warmup, **kwargs)`."""

    def __class_getitem__(cls, item):
        return cls

    def run(self, *args, grid, warmup, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} does not say how to run")

    def warmup(self, *args, grid=None, **kwargs):
        """Compiles for these arguments without launching; a dtype may stand for a tensor."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)


class KernelParam:
    """One parameter of a kernel."""

    def __init__(self, num, param, scope, do_not_specialize=False, do_not_specialize_on_alignment=False):
        self.num = num
        self._param = param
        self.name = param.name
        self.annotation = "" if param.annotation is inspect.Parameter.empty else param.annotation
        self._scope = scope
        self.do_not_specialize = do_not_specialize
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment

    @property
    def default(self):
        return self._param.default

    @property
    def has_default(self):
        return self._param.default is not inspect.Parameter.empty

    @functools.cached_property
    def _meaning(self):
        """The annotation; a text (`from __future__ import annotations`) is evaluated where the function stands."""
        if not isinstance(self.annotation, str) or core._signature_of(self.annotation):
            return self.annotation
        try:
            return eval(self.annotation, self._scope)
        except Exception:
            return self.annotation

    @property
    def is_constexpr(self):
        return self._meaning is core.constexpr or (isinstance(self._meaning, str) and "constexpr" in self._meaning)

    @property
    def is_const(self):
        return self._meaning is core.const or (isinstance(self._meaning, str) and not self.is_constexpr and
                                               ("const" in self._meaning or self._meaning.startswith("*k")))

    @property
    def annotation_type(self):
        """The signature text that the annotation forces ("i64", "*fp32"), or ""."""
        return "" if self.is_constexpr else core._signature_of(self._meaning) or ""

    def _native(self):
        default = self.default if self.has_default else _native.MISSING
        policy = (_NO_SPECIALIZE * self.do_not_specialize | _NO_ALIGNMENT * self.do_not_specialize_on_alignment
                  | _CONST * self.is_const)
        return self.name, default, policy, self.annotation_type or None


class JITCallable:
    """A function of the language: its text and where it stands."""

    def __init__(self, fn):
        if not isinstance(fn, types.FunctionType):
            raise TypeError(f"@jit needs a Python function, found {type(fn).__name__}")
        self.fn = fn
        self.module = self.__module__ = fn.__module__
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__doc__ = fn.__doc__
        self.__globals__ = fn.__globals__
        self.signature = inspect.signature(fn)
        self.raw_src, self.starting_line_number, self._text = _source(fn)
        self._src = textwrap.dedent(self._text)
        self._fn_name = f"{fn.__module__}.{fn.__qualname__}"

    @property
    def src(self):
        """The text from `def` on."""
        return self._src

    def get_capture_scope(self):
        """Everything that a name in the function can mean: globals, then the closure."""
        scope = dict(self.__globals__)
        for name, cell in self._closure().items():
            try:
                scope[name] = cell.cell_contents
            except ValueError:
                pass  # not defined yet
        return scope

    def _closure(self):
        return dict(zip(self.fn.__code__.co_freevars, self.fn.__closure__ or ()))

    def parse(self):
        """The function as a tree of Python's own `ast`."""
        tree = ast.parse(self._src)
        assert len(tree.body) == 1 and isinstance(tree.body[0], ast.FunctionDef)
        return tree


def _source(fn):
    """Lines of the function with its decorators, number of the line of its `def`, and its text from there on."""
    try:
        lines, first = inspect.getsourcelines(fn)
    except (OSError, TypeError) as error:
        raise ValueError(f"@jit functions should be defined in a Python file: no source was found for "
                         f"`{fn.__qualname__}`") from error
    text = "".join(lines)
    start = re.search(r"^[ \t]*(async\s+)?def\s", text, re.MULTILINE)
    if start is None:
        raise ValueError(f"@jit needs a function that is defined with `def`, found `{fn.__qualname__}` in "
                         f"{fn.__code__.co_filename}:{first}")
    return lines, first + text[:start.start()].count("\n"), text[start.start():]


class JITFunction(JITCallable, KernelInterface):
    """A kernel, or a function that kernels call."""

    def __init__(self, fn, version=None, do_not_specialize=None, do_not_specialize_on_alignment=None, debug=None,
                 noinline=None, repr=None, launch_metadata=None):
        super().__init__(fn)
        unspecialized = do_not_specialize or []
        unaligned = do_not_specialize_on_alignment or []
        self.version = version
        self.do_not_specialize = unspecialized
        self.do_not_specialize_on_alignment = unaligned
        self.debug = debug
        self.noinline = noinline
        self.launch_metadata = launch_metadata
        self._repr = repr
        self.params = [
            KernelParam(i, param, fn.__globals__, i in unspecialized or param.name in unspecialized,
                        i in unaligned or param.name in unaligned)
            for i, param in enumerate(self.signature.parameters.values())
        ]
        self.arg_names = [param.name for param in self.params]
        self.constexprs = [param.num for param in self.params if param.is_constexpr]
        self.pre_run_hooks = []
        self.kernel = None
        self._hash = None

    def _build(self):
        """Gives the text to the library; called by the extension when the kernel is first needed."""
        for param in self.params:
            if param.is_constexpr and (param.do_not_specialize or param.do_not_specialize_on_alignment):
                raise errors.CompilationError(self._src, None,
                                              f"`{param.name}` is a constexpr and cannot be in do_not_specialize")
        options = {} if self.debug is None else {"debug": bool(self.debug)}
        self._create(self._text, os.fspath(self.fn.__code__.co_filename), self.starting_line_number, self.__name__,
                     self.__globals__, self._closure(), tuple(param._native() for param in self.params), options)

    def repr(self, specialization=None):
        """The kernel's name; a function given to `@jit(repr=...)` may choose it."""
        return self._repr(specialization) if self._repr is not None else self._fn_name

    def run(self, *args, grid, warmup, **kwargs):
        """Launches (`warmup=False`) or only compiles; returns the compiled kernel."""
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        mode = _async_compile.active_mode.get()
        if warmup and mode is not None:
            # One future for each call; the library compiles equal kernels once.
            return mode.submit((self, object()), lambda: self._launch(grid, args, kwargs, True), lambda kernel: None)
        return self._launch(grid, args, kwargs, warmup)

    def add_pre_run_hook(self, hook):
        """`hook(*args, **kwargs)` is called before every launch."""
        if not callable(hook):
            raise TypeError(f"a hook must be callable, found {type(hook).__name__}")
        self.pre_run_hooks.append(hook)
        self._set_indirect(True)

    @property
    def cache_key(self):
        """Identifies the text of the function and where it stands."""
        if self._hash is None:
            text = f"{self._fn_name}:{self.starting_line_number}:{self._src}"
            self._hash = hashlib.sha256(text.encode()).hexdigest()
        return self._hash

    @property
    def hash(self):
        return self.cache_key

    def _unsafe_update_src(self, new_src):
        """Replaces the text; kernels compiled before are forgotten."""
        self._src = self._text = new_src
        self._hash = None
        self._clear_cache()
        self._build()

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")

    def __repr__(self):
        return f"JITFunction({self.module}:{self.__qualname__})"

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "kernel"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.__dict__["kernel"] = None

    def __reduce__(self):
        return _new_jit_function, (type(self), ), self.__getstate__()


def _new_jit_function(cls):
    return cls.__new__(cls)


def jit(fn=None, *, version=None, repr=None, launch_metadata=None, do_not_specialize=None,
        do_not_specialize_on_alignment=None, debug=None, noinline=None):
    """Makes a function a kernel, launched as `fn[grid](*args)`, or a function that kernels may call.

    do_not_specialize: parameters (names or positions) whose values never make another kernel.
    do_not_specialize_on_alignment: parameters whose divisibility by 16 does not matter.
    debug: compile `device_assert` and checks of integer overflow.
    repr: a function that names the kernel. launch_metadata: a function for launch hooks. version is ignored.
    """

    def decorate(function):
        if isinstance(function, JITFunction):
            raise TypeError("@jit was applied twice to the same function")
        from .. import knobs
        cls = JITFunction
        if knobs.runtime.interpret:
            from .interpreter import InterpretedFunction as cls
        return cls(function, version=version, do_not_specialize=do_not_specialize,
                   do_not_specialize_on_alignment=do_not_specialize_on_alignment, debug=debug, noinline=noinline, repr=repr,
                   launch_metadata=launch_metadata)

    return decorate if fn is None else decorate(fn)


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
                    f"(It is a {type(value).__name__} here.)")


def _names_in_defaults(function):
    """Names that default values of parameters mention: those are evaluated when the function is called."""
    arguments = function.parse().body[0].args
    defaults = [default for default in (*arguments.defaults, *arguments.kw_defaults) if default is not None]
    return {node.id for default in defaults for node in ast.walk(default) if isinstance(node, ast.Name)}


# ---- functions evaluated at compile time ------------------------------------------------------------


class ConstexprFunction:
    """A Python function that kernels may call on values known at compile time."""

    def __init__(self, fn):
        functools.update_wrapper(self, fn)
        self.fn = fn

    @property
    def cache_key(self):
        code = self.fn.__code__
        text = f"{self.fn.__module__}.{self.fn.__qualname__}:{code.co_code.hex()}:{code.co_consts!r}"
        return hashlib.sha256(text.encode()).hexdigest()

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


# ---- stand-ins for tensors --------------------------------------------------------------------------


class MockTensor:
    """A tensor without data, to compile with: `kernel.warmup(MockTensor(torch.float32), ...)`."""

    @staticmethod
    def wrap_dtype(arg):
        """A dtype becomes a stand-in for a tensor of it; everything else stays."""
        if type(arg).__name__ == "dtype" and type(arg).__module__ == "torch":
            return MockTensor(arg)
        return arg

    def __init__(self, dtype, shape=None):
        self.dtype = dtype
        self.shape = [1] if shape is None else shape

    def stride(self):
        strides = [1]
        for size in reversed(self.shape[1:]):
            strides.append(strides[-1] * size)
        return tuple(reversed(strides))

    @staticmethod
    def data_ptr():
        return 0

    @staticmethod
    def ptr_range():
        return 0


class TensorWrapper:
    """A tensor seen as another type of the language: for types that the array library lacks."""

    def __init__(self, base, dtype):
        self.base = base
        self.dtype = dtype
        self.is_cuda = getattr(base, "is_cuda", False)
        self.device = getattr(base, "device", "cpu")
        self.shape = base.shape

    def data_ptr(self):
        return self.base.data_ptr() if hasattr(self.base, "data_ptr") else self.base.ctypes.data

    def stride(self, *args):
        return self.base.stride(*args)

    def element_size(self):
        return self.base.element_size()

    def cpu(self):
        return TensorWrapper(self.base.cpu(), self.dtype)

    def clone(self):
        return TensorWrapper(self.base.clone(), self.dtype)

    def copy_(self, other):
        self.base.copy_(other.base)

    def to(self, device):
        return TensorWrapper(self.base.to(device), self.dtype)

    def new_empty(self, sizes):
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __str__(self):
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor, dtype):
    """The same memory as elements of another dtype of the same size."""
    base = tensor.base if isinstance(tensor, TensorWrapper) else tensor
    if not hasattr(base, "data_ptr") and not hasattr(base, "ctypes"):
        raise TypeError(f"Cannot reinterpret a {type(tensor).__name__}.")
    if isinstance(tensor, TensorWrapper) and dtype == base.dtype:
        return base
    return TensorWrapper(base, dtype)


_native.register(jit_run=JITFunction.run, constexpr_function=ConstexprFunction)
language  # the language registers its classes with the extension
