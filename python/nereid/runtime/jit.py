"""`@jit`: functions of the language under Python.

A `JITFunction` holds the text of a function and what it needs of Python: its globals, closure, defaults and annotations. Launching it
goes straight into the extension (`_native.KernelBase`); no Python of ours runs when a kernel is warm.
"""

import collections.abc
import contextlib
import functools
import os
import sys
import types
from _thread import RLock
from _weakref import ref as weak_reference

from .. import _later, _native
from .. import language
from ..compiler.compiler import CompiledKernel  # noqa: F401  (registers the class)
from ..language import core
from . import _source
from .specialise import (CONST, NO_ALIGNMENT, NO_SPECIALIZE, KernelParam, compute_cache_key, create_function_from_signature,
                         mangle_type, native_specialize_impl, specialize_argument)
from .tensors import MockTensor, TensorWrapper, reinterpret


class _Hooks(list):
    """Hooks of a function. Its launches ask Python once there is one."""

    def __init__(self, function, hooks=()):
        super().__init__(hooks)
        self._function = weak_reference(function)
        if self:
            self._added()

    def _added(self):
        self._function()._set_indirect(True)

    def append(self, hook):
        super().append(hook)
        self._added()

    def extend(self, hooks):
        super().extend(hooks)
        self._added()

    def insert(self, index, hook):
        super().insert(index, hook)
        self._added()

    def __iadd__(self, hooks):
        self.extend(hooks)
        return self

    def __reduce__(self):
        return list, (list(self), )


class KernelInterface(_native.KernelBase):
    """What can be launched as `kernel[grid](...)`. Subclasses give `run(*args, grid, warmup, **kwargs)`."""

    def __class_getitem__(cls, item):
        return cls

    def run(self, *args, grid, warmup, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} does not say how to run")

    def warmup(self, *args, grid=None, **kwargs):
        """Compiles for these arguments without launching; a dtype may stand for a tensor."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    # Python does not pickle by itself what derives from a class of the extension.
    def __getstate__(self):
        return self.__dict__.copy()

    def __setstate__(self, state):
        self.__dict__.update(state)


class _Lock:
    """A re-entrant lock that a forked child finds open: the thread that held it is not there."""

    def __init__(self):
        self._renew()

    def _renew(self):
        self._process = os.getpid()
        self._lock = RLock()

    def __enter__(self):
        if self._process != os.getpid():
            self._renew()
        return self._lock.__enter__()

    def __exit__(self, *exception):
        return self._lock.__exit__(*exception)


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
        self.raw_src, self.starting_line_number, self._text = _source.source(fn)
        self._file = os.fspath(fn.__code__.co_filename)
        self._fn_name = get_full_name(fn)
        self._hash = None
        self._hash_lock = _Lock()
        self.used_global_vals = {}

    @functools.cached_property
    def signature(self):
        """The function's signature."""
        import inspect
        return inspect.signature(self.fn)

    @functools.cached_property
    def _src(self):
        import textwrap
        return textwrap.dedent(self._text)

    @property
    def src(self):
        """The text from `def` on."""
        return self._src

    @src.setter
    def src(self, text):
        raise AttributeError("Cannot set attribute 'src' directly. Use '_unsafe_update_src()' and manually clear `.hash` of all "
                             "callers instead.")

    @property
    def cache_key(self):
        """Identifies the text of the function, where it stands, and everything it calls or reads."""
        with self._hash_lock or contextlib.nullcontext():
            if self._hash is None:
                from . import dependencies
                self._hash, self.used_global_vals = dependencies.cache_key(self)
            return self._hash

    @property
    def hash(self):
        return self.cache_key

    def _unsafe_update_src(self, new_src):
        """Replaces the text."""
        self._src = self._text = new_src
        self._hash = None

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
        import ast
        tree = ast.parse(self._src)
        assert len(tree.body) == 1 and isinstance(tree.body[0], ast.FunctionDef)
        return tree


def get_full_name(fn):
    """The module and the qualified name of a function."""
    return f"{fn.__module__}.{fn.__qualname__}"


class JitFunctionInfo:
    """Which function a hook is told about."""

    def __init__(self, module, name, jit_function):
        self.module = module
        self.name = name
        self.jit_function = jit_function


class Specialization:
    """What a kernel is made for, as a function given to `@jit(repr=...)` sees it.

    signature: types by parameter; constants: values by parameter, also of integers that were folded because they are 1.
    """

    def __init__(self, signature, constants):
        self.signature = signature
        self.constants = constants


class JITFunction(JITCallable, KernelInterface):
    """A kernel, or a function that kernels call."""

    _is_tile = False  # whether the text is tile IR

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
            KernelParam(i, param, i in unspecialized or param.name in unspecialized, i in unaligned or param.name in unaligned,
                        fn.__globals__) for i, param in enumerate(_source.params(fn))
        ]
        self.arg_names = [param.name for param in self.params]
        self.constexprs = [param.num for param in self.params if param.is_constexpr]
        self.pre_run_hooks = _Hooks(self)
        self.kernel = None
        self._built = False

    def is_gluon(self):
        return False

    @property
    def type(self):
        """What it is to the language: a constant."""
        from ..language.core import constexpr_type
        return constexpr_type(self)

    def _build(self):
        """Gives the text to the library; called by the extension when the kernel is first needed."""
        with self._hash_lock or contextlib.nullcontext():
            if self._built:
                return
            for param in self.params:
                if param.is_constexpr and (param.do_not_specialize or param.do_not_specialize_on_alignment):
                    from .. import errors
                    raise errors.CompilationError(self._src, None,
                                                  f"`{param.name}` is a constexpr and cannot be in do_not_specialize")
            options = {} if self.debug is None else {"debug": bool(self.debug)}
            self._create(self._text, self._file, self.starting_line_number, self.__name__,
                         self.__globals__, self._closure(), tuple(_native_param(param) for param in self.params), options,
                         self._repr is not None, self._is_tile)
            self._built = True

    def repr(self, specialization=None):
        """The kernel's name; a function given to `@jit(repr=...)` may choose it."""
        return self._repr(specialization) if self._repr is not None else self._fn_name

    def _kernel_name(self, arguments):
        """The name of the kernel for these arguments, one for each parameter."""
        signature, constants = {}, {}
        for param, value in zip(self.params, arguments):
            kind, fact = specialize_argument(param, None, MockTensor.wrap_dtype(value))
            signature[param.name] = kind
            if kind == "constexpr":
                constants[param.name] = fact
        return self.repr(Specialization(signature, constants))

    def run(self, *args, grid, warmup, **kwargs):
        """Launches (`warmup=False`) or only compiles; returns the compiled kernel."""
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        compiling_ahead = sys.modules.get("nereid.runtime._async_compile") if warmup else None
        mode = compiling_ahead.active_mode.get() if compiling_ahead is not None else None
        if mode is not None:
            # One future for each call; the library compiles equal kernels once. The arguments are bound now, when they are what the
            # caller means, and by hooks that see the compilation begin later.
            prepared = self._prepare(args, kwargs)
            compiled = prepared.compile if prepared is not None else lambda: self._launch(grid, args, kwargs, True)
            return mode.submit((self, object()), compiled, lambda kernel: None)
        return self._launch(grid, args, kwargs, bool(warmup))

    def add_pre_run_hook(self, hook):
        """`hook(*args, **kwargs)` is called before every launch."""
        if not callable(hook):
            raise TypeError(f"a hook must be callable, found {type(hook).__name__}")
        self.pre_run_hooks.append(hook)

    def create_binder(self):
        """Two empty caches, the current target, its backend, and a function that binds and specialises arguments."""
        from ..compiler import make_backend
        from .driver import driver
        target = driver.active.get_current_target()
        backend = make_backend(target)
        return {}, {}, target, backend, create_function_from_signature(self.signature, self.params, backend)

    @property
    def device_caches(self):
        """By device: (kernels by key, keys, target, backend, binder). Clearing the kernels forgets them."""
        return _DeviceCaches(self)

    def preload(self, specialization_data):
        """Compiles what the `specialization_data` of a compilation hook describes; returns the compiled kernel."""
        import json

        from ..compiler import ASTSource, compile
        data = json.loads(specialization_data)
        if data["name"] != self._fn_name:
            raise RuntimeError(f"Specialization data is for {data['name']} but trying to preload for {self._fn_name}")
        constants = dict(zip(map(_path, data["constant_keys"]), map(_restored, data["constant_vals"])))
        attrs = dict(zip(map(_path, data["attrs_keys"]), data["attrs_vals"]))
        signature = {name: _restored(kind) for name, kind in data["signature"].items()}
        options = {name: _restored(value) for name, value in data["options"].items()}
        return compile(ASTSource(self, signature, constants, attrs), options=options)

    def _unsafe_update_src(self, new_src):
        """Replaces the text; kernels compiled before are forgotten."""
        super()._unsafe_update_src(new_src)
        self._clear_cache()
        self._built = False
        self._build()

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")

    def __repr__(self):
        return f"JITFunction({self.module}:{self.__qualname__})"

    def _with_python(self):
        """This function, or, when it came from another process without its Python function, the one of that name in its file."""
        if self.fn is not None:
            return self
        import hashlib
        import importlib.util
        name = f"_nereid_{hashlib.sha256(self._file.encode()).hexdigest()[:16]}"
        module = sys.modules.get(name)
        if module is None:
            spec = importlib.util.spec_from_file_location(name, self._file)
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
        found = functools.reduce(getattr, self.__qualname__.split("."), module)
        while not isinstance(found, JITFunction):
            found = found.fn
        return found

    # What cannot be pickled and is found again, or belongs to this process.
    _TRANSIENT = ("fn", "kernel", "__globals__", "used_global_vals", "_hash_lock", "_built")

    def __getstate__(self):
        if self.fn is not None:
            self.cache_key, self.signature, self._src  # the other process may not be able to make them
        return {name: value for name, value in self.__dict__.items() if name not in self._TRANSIENT}

    def __setstate__(self, state):
        hooks = _Hooks(self, state.get("pre_run_hooks", ()))
        self.__dict__.update(state, fn=None, kernel=None, used_global_vals={}, _hash_lock=_Lock(), _built=False, pre_run_hooks=hooks)
        found = sys.modules.get(self.module)
        for name in self.__qualname__.split("."):
            found = getattr(found, name, None)
        while found is not None and not isinstance(found, JITFunction):
            found = getattr(found, "fn", None)
        if found is not None and found.src == self.src:
            self.fn = found.fn
        self._find_globals()

    def _find_globals(self):
        self.__dict__["__globals__"] = getattr(self.fn, "__globals__", None)
        for param in self.params:
            param._scope = self.__globals__

    def __copy__(self):
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__, _built=False, _hash_lock=_Lock(), pre_run_hooks=_Hooks(copied, self.pre_run_hooks))
        return copied

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __reduce__(self):
        return _new_jit_function, (type(self), ), self.__getstate__()


class TileFunction(JITFunction):
    """A kernel whose text is tile IR (`triton.compile("name.ttir")`)."""

    _is_tile = True

    def _with_python(self):
        return self

    def __reduce__(self):
        from ..compiler.source import _tile_function
        return _tile_function, (self._text, self._file)


def _new_jit_function(cls):
    return cls.__new__(cls)


def _native_param(param):
    """A parameter as the extension takes it."""
    policy = (NO_SPECIALIZE * param.do_not_specialize | NO_ALIGNMENT * param.do_not_specialize_on_alignment
              | CONST * param.is_const)
    return param.name, param.default if param.has_default else _native.MISSING, policy, param.annotation_type or None


class _DeviceCaches(collections.abc.Mapping):
    """`JITFunction.device_caches`: kernels serve all devices of a kind, so every device shows the same."""

    def __init__(self, function):
        self._function = function

    def __getitem__(self, device):
        return _Kernels(self._function), *self._function.create_binder()[1:]

    def __iter__(self):
        return iter([0] if self._function._kernels() else [])

    def __len__(self):
        return 1 if self._function._kernels() else 0

    def clear(self):
        self._function._clear_cache()


class _Kernels(collections.abc.Mapping):
    """The compiled kernels of a function by hash."""

    def __init__(self, function):
        self._function = function

    def _all(self):
        return {kernel.hash: kernel for kernel in self._function._kernels()}

    def __getitem__(self, key):
        return self._all()[key]

    def __iter__(self):
        return iter(self._all())

    def __len__(self):
        return len(self._function._kernels())

    def clear(self):
        self._function._clear_cache()


# ---- what compilation hooks get, and `preload` takes -------------------------------------------------


def _path(key):
    return tuple(key) if isinstance(key, list) else (key, )


def _described(value):
    """A constant, type or option as JSON can hold it."""
    value = core._unwrap_if_constexpr(value)
    if isinstance(value, core.dtype):
        return {"constexpr": value._signature}
    if isinstance(value, JITCallable):
        return {"jit_function": f"{value.module}:{value.__qualname__}"}
    if isinstance(value, (tuple, list)):
        return [_described(item) for item in value]
    return value


def _restored(value):
    if isinstance(value, list):
        return tuple(_restored(item) for item in value)
    if isinstance(value, dict) and "constexpr" in value:
        return core._make_type(value["constexpr"], None)
    if isinstance(value, dict) and "jit_function" in value:
        module, _, path = value["jit_function"].partition(":")
        import importlib
        return functools.reduce(getattr, path.split("."), importlib.import_module(module))
    return value


def serialize_specialization_data(name, signature, constants, attrs, options, key):
    """A compilation as text, for `JITFunction.preload`."""
    data = {"name": name, "signature": {param: _described(kind) for param, kind in signature.items()},
            "constant_keys": [list(path) for path in constants], "constant_vals": [_described(value) for value in constants.values()],
            "attrs_keys": [list(path) for path in attrs], "attrs_vals": list(attrs.values()),
            "options": {option: _described(value) for option, value in options.items()}, "key": key}
    import json
    return json.dumps(data)


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
        cls = JITFunction
        if _is_interpreting():
            from .interpreter import InterpretedFunction as cls
        return cls(function, version=version, do_not_specialize=do_not_specialize,
                   do_not_specialize_on_alignment=do_not_specialize_on_alignment, debug=debug, noinline=noinline, repr=repr,
                   launch_metadata=launch_metadata)

    return decorate if fn is None else decorate(fn)


def _is_interpreting():
    """`knobs.runtime.interpret`, without loading the knobs for it."""
    knobs = sys.modules.get("nereid.knobs")
    if hasattr(knobs, "runtime"):
        return knobs.runtime.interpret
    text = os.environ.get("NEREID_INTERPRET", os.environ.get("TRITON_INTERPRET", ""))
    return text.strip().lower() in ("1", "true", "yes", "on", "y")


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
    import ast
    arguments = function.parse().body[0].args
    defaults = [default for default in (*arguments.defaults, *arguments.kw_defaults) if default is not None]
    return {node.id for default in defaults for node in ast.walk(default) if isinstance(node, ast.Name)}


# ---- functions evaluated at compile time ------------------------------------------------------------


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
        code = self.fn.__code__
        text = f"{self.fn.__module__}.{self.fn.__qualname__}:{code.co_code.hex()}:{code.co_consts!r}"
        import hashlib
        return hashlib.sha256(text.encode()).hexdigest()

    @functools.cached_property
    def src(self):
        """The text from `def` on."""
        import textwrap
        return textwrap.dedent(_source.source(self.fn)[2])

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


__getattr__, __dir__ = _later.names(globals(), {"type_canonicalisation_dict": "nereid._utils"})


os.register_at_fork(before=_native.before_fork)
_processes = sys.modules.get("multiprocessing.process")
if _processes is not None and _processes.parent_process() is not None:
    _native.write_cache_at_once()  # workers end without a word
_native.register(jit_run=JITFunction.run, constexpr_function=ConstexprFunction)
language  # the language registers its classes with the extension

__all__ = [
    "ConstexprFunction", "JITCallable", "JITFunction", "JitFunctionInfo", "KernelInterface", "KernelParam", "MockTensor",
    "TensorWrapper", "compute_cache_key", "constexpr_function", "create_function_from_signature", "get_device_key",
    "get_jit_fn_file_line", "jit", "mangle_type", "native_specialize_impl", "reinterpret", "serialize_specialization_data",
    "type_canonicalisation_dict"
]
