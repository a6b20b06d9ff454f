"""The text of a function, and its parameters.

`inspect` gives both and takes longer to load than a kernel to launch. What an ordinary function in an ordinary file needs is done
here; whatever is not, goes to `inspect`, which says the same (tests/runtime/test_source.py compares).
"""

import os
import sys

from .. import _native

_VARARGS, _VARKEYWORDS = 4, 8  # of `co_flags`

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
    if hasattr(fn, "__wrapped__") or not file.endswith(".py") or linecache is not None and file in linecache.cache:
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


class Empty:
    """Stands for what a parameter lacks."""


class Param:
    """A parameter, with the attributes of `inspect.Parameter` that are used here."""

    __slots__ = ("name", "default", "annotation")

    def __init__(self, name, default, annotation):
        self.name = name
        self.default = default
        self.annotation = annotation


def is_empty(value):
    """Whether it stands for what a parameter lacks, here or in `inspect`."""
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
