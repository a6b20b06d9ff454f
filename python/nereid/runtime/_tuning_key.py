"""The dependencies of a tuning result, as a text that is equal in every process: the key of its file.

A result that depends on something without such a text (an object of the user's as a constant, a wrapper that is no kernel of ours) is not
stored: it is valid in this process only.
"""

import types

from ..language import core
from . import dependencies
from ._heuristics import Heuristics
from .jit import ConstexprFunction, JITCallable, JITFunction


class NotPlain(Exception):
    """Something has no text that means the same in another process."""


def text_of(tuner, key, configs, kwargs):
    """The text for a tuner's key with these configurations and keywords of a launch; None when there is none."""
    try:
        parts = [_kernel(tuner.fn), f"key={_plain(key)}", f"measured={tuner.num_warmups},{tuner.num_reps},{tuner.use_cuda_graph}"]
        parts += sorted(f"{name}={_plain(value)}" for name, value in kwargs.items()
                        if name not in tuner.arg_names and name not in ("grid", "warmup"))
        parts += [_config(config) for config in configs]
    except (NotPlain, RecursionError, OSError, ValueError, TypeError, NameError):
        return None
    return "\n".join(parts)


def _config(config):
    hook = "" if config.pre_hook is None else f" hook={_code(config.pre_hook)}"
    return ";".join(f"{name}={_plain(value)}" for name, value in config.all_kwargs().items()) + hook


def _kernel(fn):
    """The kernel with the rules between it and the tuner."""
    if type(fn).run is Heuristics.run:
        rules = ";".join(f"{name}={_code(rule)}" for name, rule in fn.values.items())
        return f"{rules}\n{_kernel(fn.fn)}"
    if not isinstance(fn, JITFunction) or type(fn).run is not JITFunction.run:
        raise NotPlain
    source, _ = dependencies.cache_key(fn, lines=False)  # a kernel that moves in its file is the same
    return (f"{fn._fn_name} {source} debug={fn.debug} noinline={fn.noinline} {_plain(tuple(fn.do_not_specialize))} "
            f"{_plain(tuple(fn.do_not_specialize_on_alignment))}")


def _plain(value):
    value = core._unwrap_if_constexpr(value)
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return f"{type(value).__name__}:{value!r}"
    if isinstance(value, core.dtype):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_plain, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_plain(name)}: {_plain(item)}' for name, item in value.items())}}}"
    if isinstance(value, JITCallable):
        return dependencies.cache_key(value, lines=False)[0]
    if isinstance(value, ConstexprFunction):
        return value.cache_key
    if type(value).__module__ == "torch" and type(value).__name__ in ("dtype", "device", "layout"):
        return str(value)
    raise NotPlain


def _code(function):
    """A Python function by what it does: its code with the constants and the variables around it."""
    if not isinstance(function, types.FunctionType):
        raise NotPlain
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(_captured(cell.cell_contents))
        except ValueError:  # not defined yet
            raise NotPlain from None
    return f"{_code_object(function.__code__)}{cells}{_captured(function.__defaults__ or ())}{_captured(function.__kwdefaults__ or {})}"


def _captured(value):
    """A variable around a function: plain values count, what is called or measured by it does not."""
    try:
        return _plain(value)
    except NotPlain:
        return type(value).__name__


def _code_object(code):
    constants = [_code_object(constant) if isinstance(constant, types.CodeType) else repr(constant) for constant in code.co_consts]
    return f"{code.co_code.hex()}{constants}{code.co_names}"
