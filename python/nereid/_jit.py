"""`@jit` and the Python code that a first launch of a kernel runs: the text of a function, its parameters, `JITFunction`, `CompiledKernel`.

Every module, and every line of one, is time that each new process spends, so this one is short on purpose: `runtime._function` and
`_kernel` have the rest, which is imported when it is asked for. A `JITFunction` holds the text of a function and what it needs
of Python: its globals, closure, defaults and annotations. Launching it goes straight into the extension (`_native.KernelBase`); no Python
of ours runs when a kernel is warm.
"""

import os
import sys
from _thread import RLock
from _weakref import ref as weak_reference

from . import _computed_once, _loaded, _native, _provided
from .language import core

# ---- the text of a function, and its parameters ------------------------------------------------------
#
# `inspect` gives both and takes longer to load than a kernel to launch. Functions in ordinary files are handled here; all others
# go to `inspect`, which gives the same results (tests/runtime/test_source.py compares).

_VARARGS, _VARKEYWORDS = 4, 8  # of `co_flags`

_FUNCTION = type(lambda: None)

#: (file, its time and size, its lines) of the file that was read last: kernels of a module are decorated one after another.
_last = (None, None, None)


def _lines_of(file):
    """The lines of a file of Python; None for one that is not there or not plainly in UTF-8."""
    global _last
    try:
        status = os.stat(file)
        identity = status.st_mtime_ns, status.st_size, status.st_ino
        known, then, lines = _last
        if known == file and then == identity:
            return lines
        with open(file, encoding="utf-8") as stream:
            lines = stream.readlines()
    except (OSError, ValueError):
        return None
    if any("coding" in line or line.startswith("\ufeff") for line in lines[:2]):
        return None
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    _last = file, identity, lines
    return lines


def _block(fn):
    """The lines of a function with its decorators, and at which of them its `def` stands; None where `inspect` has to look."""
    code = fn.__code__
    file = code.co_filename
    linecache = sys.modules.get("linecache")
    known = linecache.cache.get(file) if linecache is not None else None
    # An entry of linecache with a modification time holds the file's text (`linecache.checkcache`); torch adds entries without one.
    if hasattr(fn, "__wrapped__") or not file.endswith(".py") or known is not None and (len(known) < 2 or known[1] is None):
        return None  # another function's text, or one that is in no file
    lines = _lines_of(file)
    found = _native.function_block(lines, code.co_firstlineno - 1) if lines else None
    return found and (lines[code.co_firstlineno - 1:code.co_firstlineno - 1 + found[0]], found[1])


def source(fn):
    """Lines of the function with its decorators, number of the line of its `def`, and its text from there on."""
    found = _block(fn)
    if found is not None:
        lines, start = found
        return lines, fn.__code__.co_firstlineno + start, "".join(lines[start:])
    import inspect
    import re
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


#: Stands for what a parameter lacks.
Empty = object()


class Param:
    """A parameter, with the attributes of `inspect.Parameter` that are used here."""

    __slots__ = ("name", "default", "annotation")

    def __init__(self, name, default, annotation):
        self.name = name
        self.default = default
        self.annotation = annotation


def is_empty(value):
    """Whether it is the marker for a missing default or annotation, ours or that of `inspect`."""
    if value is Empty:
        return True
    inspect = sys.modules.get("inspect")
    return inspect is not None and value is inspect.Parameter.empty


def params(fn):
    """The parameters of a function in their order."""
    code = fn.__code__
    if code.co_flags & (_VARARGS | _VARKEYWORDS) or hasattr(fn, "__wrapped__") or hasattr(fn, "__signature__"):
        import inspect
        return list(inspect.signature(fn).parameters.values())
    positional = code.co_varnames[:code.co_argcount]
    keywords = code.co_varnames[code.co_argcount:code.co_argcount + code.co_kwonlyargcount]
    given = fn.__defaults__ or ()
    defaults = {**dict(zip(positional[len(positional) - len(given):], given)), **(fn.__kwdefaults__ or {})}
    annotations = fn.__annotations__
    return [Param(name, defaults.get(name, Empty), annotations.get(name, Empty)) for name in (*positional, *keywords)]


NO_SPECIALIZE, NO_ALIGNMENT, CONST = 1, 2, 4  # how an argument of a parameter is looked at


class KernelParam:
    """One parameter of a kernel."""

    __module__ = "nereid.runtime.jit"

    def __init__(self, num, param, do_not_specialize=False, do_not_specialize_on_alignment=False, scope=None):
        self.num = num
        self._param = param
        self._scope = scope
        self.do_not_specialize = do_not_specialize
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment

    @property
    def name(self):
        return self._param.name

    @property
    def annotation(self):
        """The annotation as text: "tl.constexpr", "i64"; "" without one."""
        annotation = self._param.annotation
        if is_empty(annotation):
            return ""
        if annotation is core.constexpr:
            return "constexpr"
        return core._signature_of(annotation) or getattr(annotation, "__name__", None) or str(annotation)

    @property
    def default(self):
        if self.has_default:
            return self._param.default
        import inspect
        return inspect.Parameter.empty

    @property
    def has_default(self):
        return not is_empty(self._param.default)

    @_computed_once
    def _meaning(self):
        """The annotation; a text (`from __future__ import annotations`) is evaluated where the function stands."""
        annotation = self._param.annotation
        if is_empty(annotation):
            return ""
        if not isinstance(annotation, str) or core._signature_of(annotation):
            return annotation
        try:
            return eval(annotation, self._scope)
        except Exception:
            return annotation

    @_computed_once
    def is_constexpr(self):
        return self._meaning is core.constexpr or (isinstance(self._meaning, str) and "constexpr" in self._meaning)

    @_computed_once
    def is_const(self):
        return self._meaning is core.const or (isinstance(self._meaning, str) and not self.is_constexpr and
                                               ("const" in self._meaning or self._meaning.startswith("*k")))

    @_computed_once
    def annotation_type(self):
        """The signature text that the annotation forces ("i64", "*fp32"), or ""."""
        return "" if self.is_constexpr else core._signature_of(self._meaning) or ""

    def __getstate__(self):
        # Annotations are evaluated here, where the function's globals are available.
        self.is_constexpr, self.is_const, self.annotation_type
        return {name: value for name, value in self.__dict__.items() if name not in ("_scope", "_meaning")}

    def __setstate__(self, state):
        self.__dict__.update(state, _scope=None)


# ---- functions ---------------------------------------------------------------------------------------


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
    """Base of everything that is launched as `kernel[grid](...)`. Subclasses define `run(*args, grid, warmup, **kwargs)`."""

    __module__ = "nereid.runtime.jit"

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

    __module__ = "nereid.runtime.jit"

    def __init__(self, fn):
        if not isinstance(fn, _FUNCTION):
            raise TypeError(f"@jit needs a Python function, found {type(fn).__name__}")
        self.fn = fn
        self.module = self.__module__ = fn.__module__
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__doc__ = fn.__doc__
        self.__globals__ = fn.__globals__
        self.raw_src, self.starting_line_number, self._text = source(fn)
        self._file = os.fspath(fn.__code__.co_filename)
        # Where programs replace it, as Triton's tests do.
        self._fn_name = getattr(_loaded.get("jit"), "get_full_name", get_full_name)(fn)
        self._hash = None
        self._hash_lock = _Lock()
        self.used_global_vals = {}

    @property
    def file_name(self):
        """The file of the function."""
        return self._file

    @property
    def def_file_line_number(self):
        """The line of its `def`, from 1."""
        return self.starting_line_number

    @property
    def def_file_col_number(self):
        """The column of its `def`, from 1; a tab is one column."""
        line = next((line for line in self.raw_src if line.lstrip().startswith(("def ", "def\t", "async "))), "")
        return len(line) - len(line.lstrip(" \t")) + 1

    @_computed_once
    def signature(self):
        """The function's signature."""
        import inspect
        return inspect.signature(self.fn)

    @_computed_once
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
        with self._hash_lock or _Lock():
            if self._hash is None:
                from .runtime import dependencies
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


#: Jit functions by module and qualified name: no other way leads to those that are local to a function.
_functions = {}


def _note(function):
    name = f"{function.module}:{function.__qualname__}"
    _functions[name] = [*(known for known in _functions.get(name, ()) if known() is not None), weak_reference(function)]


#: Jit functions, by `id`, that were built for the release that the alias of `triton` stands for.
_of_the_alias = {}


def _alias():
    """The module `_alias` where `import triton` means Nereid, else None."""
    module = sys.modules.get("nereid._alias")  # which makes it so; a launch without it does not load it
    return module if module is not None and module._finder() is not None else None


def _follow_release():
    """Builds functions again whose release is another one since a knob changed; kernels of both releases stay."""
    for reference in list(_of_the_alias.values()):
        function = reference()
        if function is not None and function._built and function._release() != function._built_release:
            function._built = False
            function._build()


def get_full_name(fn):
    """The module and the qualified name of a function."""
    return f"{fn.__module__}.{fn.__qualname__}"


class JITFunction(JITCallable, KernelInterface):
    """A kernel, or a function that kernels call."""

    __module__ = "nereid.runtime.jit"

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
                        fn.__globals__) for i, param in enumerate(params(fn))
        ]
        self.arg_names = [param.name for param in self.params]
        self.constexprs = [param.num for param in self.params if param.is_constexpr]
        self.pre_run_hooks = _Hooks(self)
        self.kernel = None
        self._built = False
        _note(self)

    def is_gluon(self):
        return False

    @property
    def type(self):
        """Its kind in the language: a constant."""
        return core.constexpr_type(self)

    def _build(self):
        """Gives the text to the library; called by the extension when the kernel is first needed."""
        with self._hash_lock or _Lock():
            if self._built:
                return
            for param in self.params:
                if param.is_constexpr and (param.do_not_specialize or param.do_not_specialize_on_alignment):
                    from . import errors
                    raise errors.CompilationError(self._src, None,
                                                  f"`{param.name}` is a constexpr and cannot be in do_not_specialize")
            options = {} if self.debug is None else {"debug": bool(self.debug)}
            if (release := self._release()) is not None:
                options["triton_version"] = self._built_release = release
                if _alias() is not None:
                    _loaded["follow_release"] = _follow_release
                    _of_the_alias[id(self)] = weak_reference(self, lambda _, key=id(self): _of_the_alias.pop(key, None))
            self._create(self._text, self._file, self.starting_line_number, self.__name__,
                         self.__globals__, self._closure(), tuple(_native_param(param) for param in self.params), options,
                         self._repr is not None, self._is_tile)
            self._built = True

    def _release(self):
        """The Triton by whose rules it is compiled; None for what the setting says then.

        Nereid's own kernels are written for the oldest one. Others follow `triton.__version__` where `import triton` means Nereid.
        """
        if (self.module or "").startswith("nereid."):
            return "3.6"
        return alias._version() if (alias := _alias()) is not None else None

    def repr(self, specialization=None):
        """The kernel's name; a function given to `@jit(repr=...)` may choose it."""
        return self._repr(specialization) if self._repr is not None else self._fn_name

    def _kernel_name(self, arguments):
        """The name of the kernel for these arguments, one for each parameter."""
        return self.repr(_rest().specialization_of(self.params, arguments))

    def run(self, *args, grid, warmup, **kwargs):
        """Launches (`warmup=False`) or only compiles; returns the compiled kernel."""
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        ahead = _loaded.get("async_compile") if warmup else None
        mode = ahead.active_mode.get() if ahead is not None else None
        if mode is not None:
            return ahead.submitted(mode, self, grid, args, kwargs)
        return self._launch(grid, args, kwargs, bool(warmup))

    def add_pre_run_hook(self, hook):
        """`hook(*args, **kwargs)` is called before every launch."""
        if not callable(hook):
            raise TypeError(f"a hook must be callable, found {type(hook).__name__}")
        self.pre_run_hooks.append(hook)

    def create_binder(self):
        """Two empty caches, the current target, its backend, and a function that binds and specialises arguments."""
        return _rest().binder_of(self)

    @property
    def device_caches(self):
        """By device: (kernels by key, keys, target, backend, binder). Clearing the kernels forgets them."""
        return _rest().DeviceCaches(self)

    def preload(self, specialization_data):
        """Compiles what the `specialization_data` of a compilation hook describes; returns the compiled kernel."""
        return _provided("preloaded")(self, specialization_data)

    def _unsafe_update_src(self, new_src):
        """Replaces the text; kernels compiled before are forgotten."""
        super()._unsafe_update_src(new_src)
        self._clear_cache()
        self._built = False
        self._build()

    def __call__(self, *args, **kwargs):
        raise RuntimeError(f"`{self.__name__}` was called as a Python function: launch it with a grid, `{self.__name__}[grid](...)`; only kernels call "
                           "it without one\nnote: in Triton's words: Cannot call @triton.jit'd outside of the scope of a kernel")

    def __repr__(self):
        return f"JITFunction({self.module}:{self.__qualname__})"

    def _with_python(self):
        """This function, or, when it came from another process without its Python function, the one of that name in its file."""
        if self.fn is not None:
            return self
        found = _rest().found_in_file(self)
        while not isinstance(found, JITFunction):
            found = found.fn
        return found

    # Attributes that are not pickled: they are recomputed, or belong to this process.
    _TRANSIENT = ("fn", "kernel", "__globals__", "used_global_vals", "_hash_lock", "_built", "_built_release")

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


def _rest():
    """The module of what a first launch does not need."""
    from .runtime import _function
    return _function


def _new_jit_function(cls):
    return cls.__new__(cls)


def _native_param(param):
    """A parameter as the extension takes it."""
    policy = (NO_SPECIALIZE * param.do_not_specialize | NO_ALIGNMENT * param.do_not_specialize_on_alignment
              | CONST * param.is_const)
    return param.name, param.default if param.has_default else _native.MISSING, policy, param.annotation_type or None


class _Member:
    """A member of `CompiledKernel`, which stands under the same name in `_kernel.Members`: read there, as if it stood here."""

    __slots__ = ("name", )

    def __init__(self, name):
        self.name = name

    def __get__(self, kernel, owner=None):
        from ._kernel import Members
        return Members.__dict__[self.name].__get__(kernel, owner)


class CompiledKernel(_native.CompiledBase):
    """A kernel specialised and compiled for one set of argument types and constants.

    `asm`: the stages of its compilation, on the CPU "tile", "loops", "llir", "asm", "obj", on NVIDIA GPUs "tile", "gpu", "llir",
    "ptx", "cubin", "sass". `metadata`: a named tuple of target, options and the like. `times`: milliseconds per step.
    `kernel[grid](*args)` launches it with all arguments of the function, `run(grid_0, grid_1, grid_2, stream, function,
    packed_metadata, launch_metadata, enter_hook, exit_hook, *args)` does as Triton's launchers. `n_regs`, `n_spills` (32-bit words),
    `n_max_threads`, `function` and `module` (the driver's handles) are those of the current device, where asking loads the kernel; 0
    on the CPU. It can be pickled; the copy is compiled again when it is first used. It is unloaded with its function, or when the function's
    cache is cleared; `knobs.runtime.kernel_unload_hook` is then called, if it was loaded through this object.

    Every launch returns one and few programs look at it: its members are in a module of their own, loaded with the first question.
    """

    __module__ = "nereid.compiler.compiler"

    def __init__(self, native, fn):
        self._handle = native
        self.fn = fn
        self.metadata_group = {}

    address, asm, name, metadata, hash, src, times, kernel, packed_metadata, launch_metadata = map(
        _Member, ("address", "asm", "name", "metadata", "hash", "src", "times", "kernel", "packed_metadata", "launch_metadata"))
    module, function, run, n_regs, n_spills, n_max_threads = map(_Member, ("module", "function", "run", "n_regs", "n_spills", "n_max_threads"))
    _native, _init_handles, _values, _options, _export, _launch_hooked, __getstate__, __repr__ = map(
        _Member, ("_native", "_init_handles", "_values", "_options", "_export", "_launch_hooked", "__getstate__", "__repr__"))


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
            cls = _provided("InterpretedFunction")
        return cls(function, version=version, do_not_specialize=do_not_specialize,
                   do_not_specialize_on_alignment=do_not_specialize_on_alignment, debug=debug, noinline=noinline, repr=repr,
                   launch_metadata=launch_metadata)

    return decorate if fn is None else decorate(fn)


def _is_interpreting():
    """`knobs.runtime.interpret`, without loading the knobs for it."""
    knobs = _loaded.get("knobs")
    if knobs is not None:
        return knobs.runtime.interpret
    text = os.environ.get("NEREID_INTERPRET")
    if text is None:
        text = os.environ.get("TRITON_INTERPRET", "")
    else:
        _native.check_settings()
    return text.strip().lower() in ("1", "true", "yes", "on", "y")


os.register_at_fork(before=_native.before_fork)
_processes = sys.modules.get("multiprocessing.process")
if _processes is not None and _processes.parent_process() is not None:
    _native.write_cache_at_once()  # workers end without a word
_native.register(jit_run=JITFunction.run, compiled_kernel=CompiledKernel)
