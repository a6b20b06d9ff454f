"""Compiling many kernels ahead, on threads, into the kernel cache.

    nereid.precompile([(add, "*fp32:16, *fp32:16, *fp32:16, i32, 1024"),
                       (matmul, "*fp16:16, *fp16:16, *fp32:16, i32:16, i32:16, i32:16, 128, 128, 64", {"num_warps": 8})])

    with nereid.record("kernels.jsonl"):   # while a program runs, on a machine of the same kind
        model(inputs)
    nereid.precompile("kernels.jsonl")     # when it is installed, or at the start of the next process
"""

import ast
import concurrent.futures
import contextlib
import functools
import importlib
import importlib.util
import json
import os
import sys
import threading

from .. import _signature, knobs
from .jit import JITFunction, Specialization, serialize_specialization_data


def _function(kernel):
    """The `JITFunction` under tuners and rules."""
    while not isinstance(kernel, JITFunction):
        below = getattr(kernel, "fn", None)
        if below is None:
            raise TypeError(f"a kernel made with @jit is expected, found {type(kernel).__name__}")
        kernel = below
    return kernel


def _item(param, given):
    """One argument as `KernelBase._compile` takes it."""
    if not isinstance(given, str):
        return [given]
    if param.is_constexpr or given == "None":
        try:
            return [ast.literal_eval(given)]
        except (ValueError, SyntaxError):
            raise ValueError(f"`{param.name}` is a constexpr: a value such as `1024` or `'tf32'` is expected, found `{given}`") from None
    kind, _, fact = given.partition(":")
    if fact == "1":
        return [1]
    if given.startswith("("):
        return tuple(_item(param, part) for part in _signature.split(given[1:-1]))
    return given


def _items(function, signature):
    given = _signature.split(signature) if isinstance(signature, str) else list(signature)
    if len(given) > len(function.params):
        raise ValueError(f"{function.__name__}() has {len(function.params)} parameters, the signature {len(given)}")
    items = [_item(param, value) for param, value in zip(function.params, given)]
    for param in function.params[len(items):]:
        if not param.has_default:
            raise ValueError(f"the signature of {function.__name__}() lacks `{param.name}`")
        items.append([param.default])
    return tuple(items)


def _name(function, items):
    """The name that `@jit(repr=...)` gives to the kernel, None without one."""
    if function._repr is None:
        return None
    signature = {name: "constexpr" if isinstance(item, list) else item for name, item in zip(function.arg_names, items)}
    constants = {name: item[0] for name, item in zip(function.arg_names, items) if isinstance(item, list)}
    return function.repr(Specialization(signature, constants))


def _prepare(job, target):
    kernel, signature, *more = job
    function = _function(kernel)
    options = {**(more[0] if more else {})}
    if target is not None:
        options.setdefault("target", target)
    items = _items(function, signature)
    function._build() if not function._built else None  # on this thread: the text is read once
    return lambda: function._compile(items, options, _name(function, items))


def _recorded(path):
    """The compilations of a recording: functions that compile."""
    jobs = []
    with open(path) as file:
        for number, line in enumerate(file, 1):
            try:
                entry = json.loads(line)
                module, name, location, data = entry["module"], entry["name"], entry["file"], entry["data"]
            except (ValueError, KeyError, TypeError):
                raise ValueError(f"{os.fspath(path)}:{number}: this is no recording of `nereid.record`") from None
            function = _function(functools.reduce(getattr, name.split("."), _module(module, location)))
            described = {**json.loads(data), "name": function._fn_name}  # `__main__` has another name here
            jobs.append(functools.partial(function.preload, json.dumps(described)))
    return jobs


def _module(name, location):
    """A module by its name; a program that was run as `__main__`, by its file."""
    if name != "__main__":
        return importlib.import_module(name)
    main = sys.modules["__main__"]
    if os.path.realpath(getattr(main, "__file__", "")) == os.path.realpath(location):
        return main
    known = f"_nereid_recorded_{location}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, location)
        sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]


def precompile(jobs, *, target=None, executor=None, threads=None, ignore_errors=False):
    """Compiles kernels on threads, so that launches find them: those of this process in memory, those of later ones on disk.

    jobs: the file of a recording (`nereid.record`), or a list of `(kernel, signature)` and `(kernel, signature, options)`. A signature is
    a text as `nereid compile` takes it, or a list with one entry for each parameter: the text of a type, or the value of a constexpr
    parameter; at the end, parameters with defaults may be left out. options: keywords of a launch (`num_warps`...). target: "cuda:90",
    for jobs that do not say. executor: whose threads compile, by default as many as there are processors, or `threads`.

    Returns the compiled kernels in order. The first error comes out when all compilations have ended; with `ignore_errors` None
    stands for the kernels that failed.
    """
    if isinstance(jobs, (str, os.PathLike)):
        work = _recorded(jobs)
    else:
        work = [_prepare(job, target) for job in jobs]
    with contextlib.ExitStack() as stack:
        if executor is None:
            executor = stack.enter_context(concurrent.futures.ThreadPoolExecutor(threads or len(os.sched_getaffinity(0))))
        futures = [executor.submit(job) for job in work]
        concurrent.futures.wait(futures)
    return [None if ignore_errors and future.exception() else future.result() for future in futures]


@contextlib.contextmanager
def record(path):
    """Writes down every kernel that is compiled or taken from disk within the context, for `precompile`.

    Kernels whose constants cannot be written down (objects of Python) are left out.
    """
    seen, lock = set(), threading.Lock()
    before = knobs.compilation.listener
    with open(path, "w") as file:

        def note(*, src, metadata, **about):
            if isinstance(getattr(src, "fn", None), JITFunction):
                with contextlib.suppress(TypeError):
                    entry = _entry(src, metadata["options"], metadata["target"])
                    with lock:
                        if entry not in seen:
                            seen.add(entry)
                            file.write(entry + "\n")
            if before is not None:
                before(src=src, metadata=metadata, **about)

        knobs.compilation.listener = note
        try:
            yield
        finally:
            knobs.compilation.listener = before


#: Options that say nothing, or that belong to the machine.
_UNSAID = {"target": None, "num_threads": 0, "num_cpu_threads": 0, "features": "", "maxnreg": 0, "ptx_version": 0}


def _entry(source, options, target):
    from ..backends.compiler import target_text
    from .driver import driver
    function = source.fn
    given = {name: value for name, value in options.items() if name != "target" and value != _UNSAID.get(name) and value != ""}
    if target.backend != driver.active.name:  # the arguments led elsewhere than their types alone do
        given["target"] = target_text(target)
    data = serialize_specialization_data(function._fn_name, source.signature, source.constants, source.attrs, given, "")
    return json.dumps({"module": function.module, "name": function.__qualname__, "file": function._file, "data": data})
