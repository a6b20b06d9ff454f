"""The Python route: declared operators in PyTorch's dispatcher, by `torch.library`.

Each overload gets one kernel at the keys CPU and CUDA. The kernel asks the operator; where this answers `Native`, ATen's own kernel runs,
which was saved before and is called directly, so a kernel never reaches itself. Meta tensors, fake tensors, subclasses, sparse and quantised
tensors have other keys and never come here.
"""

import collections
import contextlib
import dataclasses
import threading
import warnings

import torch

from nereid import knobs

from . import _router, _schema
from ._declare import Native, select

_lock = threading.RLock()
_stack = []  # of _Registration: the last one is in force
_calls = collections.Counter()  # (overload, key, route, reason): route "nereid" or "aten"


@dataclasses.dataclass
class _Registration:
    """What is in the dispatcher at a time: chosen: [(Operator, Form)]; keys: ("CPU", ...); router: whether to use it; library: PyTorch's handle, or
    None; routed: what is entered in the router: {(overload, key): _router.Entry}."""
    chosen: list
    keys: tuple
    router: bool = True
    library: object = None
    routed: dict = dataclasses.field(default_factory=dict)


_native = {}  # {(overload, key): ATen's kernel}, taken while nothing of ours was registered there


def native_kernel(name, key="CPU"):
    """ATen's own kernel of an overload ("add.Tensor"), whatever is registered now: `kernel.call_boxed(keyset, *args, **kwargs)`."""
    with _lock:
        kernel = _native.get((name, key))
        if kernel is None:
            # Kernels are saved before the first one is replaced (`_install`), so this one is ATen's.
            kernel = _native[name, key] = torch.library.get_kernel(f"aten::{name}", key)
        return kernel


def _kernel(operator, form, key, entry=None):
    """The Python kernel of a form. entry: of the router, where that records what the kernel does."""
    native = native_kernel(form.name, key)
    ours, call, bind, name = (form.name, key, "nereid", ""), operator.call, form.bind, form.name
    tensors = [i for i, argument in enumerate(form.arguments) if argument.is_tensor]
    local = threading.local()

    def kernel(keyset, *args, **kwargs):
        if getattr(local, "native", False):
            local.native = False
            return native.call_boxed(keyset, *args, **kwargs)
        result = call(form, *bind(args, kwargs)) if entry is None else entry.run(call, form, args, kwargs)
        if type(result) is Native:
            _calls[name, key, "aten", result.reason] += 1
            if any(i < len(args) and isinstance(args[i], (bool, int, float, complex)) for i in tensors):
                return with_numbers(keyset, args, kwargs)
            return native.call_boxed(keyset, *args, **kwargs)
        _calls[ours] += 1
        return result

    def with_numbers(keyset, args, kwargs):
        """Numbers that PyTorch had wrapped as tensors arrive as numbers. Only a call through the dispatcher wraps them again."""
        local.native = True
        try:
            with torch._C._AutoDispatchBelowAutograd():
                return form.overload(*args, **kwargs)
        finally:
            local.native = False

    return kernel


def _install(registration):
    library = torch.library.Library("aten", "IMPL")
    # ATen's kernels are saved before the first one is replaced.
    chosen = [(operator, form, key) for operator, form in registration.chosen for key in registration.keys
              if (key != "CUDA" or torch.backends.cuda.is_built()) and (operator.keys is None or key in operator.keys) and _schema.is_leaf(form.name, key) and
              torch._C._dispatch_has_computed_kernel_for_dispatch_key(form.qualified, key)]
    for _, form, key in chosen:
        native_kernel(form.name, key)
    router = _router.load() if registration.router and chosen else None
    entries = {(form.name, key): _router.entry(router, operator, form, key) for operator, form, key in chosen} if router else {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s).*[Oo]verriding a previously registered kernel", category=UserWarning)
        for operator, form, key in chosen:
            entry = entries.get((form.name, key))
            if entry is None or not entry.plans:
                library.impl(form.name, _kernel(operator, form, key, entry), key, with_keyset=True)
    registration.library = library
    for name, entry in entries.items():
        entry.enter()
        registration.routed[name] = entry


def _remove(registration):
    for entry in registration.routed.values():
        entry.leave()
    registration.routed.clear()
    registration.library._destroy()
    registration.library = None


def _count():
    """Adds what the router has counted since the last time to `_calls`, also of entries that other threads were still in when they were taken out."""
    for (name, key), entry in _router.entries().items():
        for reason, calls in entry.counts(clear=True).items():
            _calls[name, key, "aten" if reason else "nereid", reason] += calls


def _push(registration):
    if _stack:
        _remove(_stack[-1])
    _stack.append(registration)
    try:
        _install(registration)
    except BaseException:
        _stack.pop()
        if _stack:
            _install(_stack[-1])
        raise


def _pop(registration):
    if registration not in _stack:
        return
    in_force = _stack[-1] is registration
    if in_force:
        _remove(registration)
    _stack.remove(registration)
    if in_force and _stack:
        _install(_stack[-1])


def _registration(only, without, device, router):
    if isinstance(only, str) or isinstance(without, str):
        raise TypeError("`only` and `without` are lists of names: only=[\"add\"], not a text")
    if device is None:
        keys = tuple(_schema.KEYS.values())
    elif device in _schema.KEYS:
        keys = (_schema.KEYS[device], )
    else:
        raise ValueError(f"`device` is {device!r}: expected \"cpu\", \"cuda\" or None for both")
    if router not in (None, True, False):
        raise ValueError(f"`router` is {router!r}: expected True, False or None")
    return _Registration(select(only, without), keys, knobs.nereid.ops_router if router is None else router)


def enable(only=None, without=None, device=None, router=None):
    """Replaces ATen's kernels by those of this package, in the whole process, until `disable`. A second call replaces the first choice.

    only, without: names of base operators ("add") or of overloads ("add.Tensor"); None: all, none. device: "cpu", "cuda", None for both. router: False for
    the Python route alone; None: as NEREID_OPS_ROUTER says, by default the router.
    Raises LookupError for names that are not registered, ValueError for another device.
    """
    with _lock:
        registration = _registration(only, without, device, router)
        disable()
        _push(registration)


def disable():
    """Restores ATen's kernels: the dispatcher is as it was before `enable`. Also ends what `use` has switched on."""
    with _lock:
        if _stack:
            _remove(_stack[-1])
        _stack.clear()


@contextlib.contextmanager
def use(only=None, without=None, device=None, router=None):
    """`enable` for a `with` block; afterwards what was registered before is in force again. Blocks nest. It counts for all threads."""
    with _lock:
        registration = _registration(only, without, device, router)
        _push(registration)
    try:
        yield
    finally:
        with _lock:
            _pop(registration)


@contextlib.contextmanager
def native():
    """A `with` block in which nothing of this package is registered."""
    with _lock:
        registration = _Registration([], ())
        _push(registration)
    try:
        yield
    finally:
        with _lock:
            _pop(registration)


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the report: how often an overload went a route. route: "nereid", or "aten" with the reason."""
    overload: str
    device: str
    route: str
    reason: str
    calls: int


class Report(list):
    """Rows of the report, the most frequent first; as text a table."""

    def __str__(self):
        lines = [("overload", "device", "route", "reason", "calls"), *((row.overload, row.device, row.route, row.reason, str(row.calls)) for row in self)]
        widths = [max(len(line[i]) for line in lines) for i in range(5)]
        return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in lines)


def report(clear=False):
    """What ran where since the process started, or since the last `report(clear=True)`: a `Report` of `Row`s."""
    with _lock:
        _count()
    devices = {key: device for device, key in _schema.KEYS.items()}
    rows = Report(Row(name, devices[key], route, reason, calls) for (name, key, route, reason), calls in _calls.copy().items())
    rows.sort(key=lambda row: -row.calls)
    if clear:
        _calls.clear()
    return rows
