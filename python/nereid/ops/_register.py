"""The Python route: declared operators in PyTorch's dispatcher, by `torch.library`.

Each overload gets one kernel at the keys CPU and CUDA. The kernel asks the operator; where this answers `Native`, ATen's own kernel runs,
which was saved before and is called directly, so a kernel never reaches itself. Meta tensors, fake tensors, subclasses, sparse and quantised
tensors have other keys and never come here.
"""

import collections
import contextlib
import dataclasses
import functools
import threading
import warnings

import torch

from nereid import knobs

from . import _router, _routes, _schema
from ._declare import Native, select
from ._tune import Tuner
from ._verify import Verifier

_lock = threading.RLock()
_stack = []  # of _Registration: the last one is in force
_calls = collections.Counter()  # (overload, key, route, reason): route "nereid" or "aten"


@dataclasses.dataclass
class _Registration:
    """What is in the dispatcher at a time: chosen: [(Operator, Form)]; keys: ("CPU", ...); router: whether to use it; routing: whether measured data give calls to
    ATen; kept: operators that they never give to it; verifier, tuner: what sees each call, or None; library: PyTorch's handle, or None; routed: what is
    entered in the router: {(overload, key): _router.Entry}."""
    chosen: list
    keys: tuple
    router: bool = True
    routing: bool = False
    kept: frozenset = frozenset()
    verifier: object = None
    tuner: object = None
    library: object = None
    routed: dict = dataclasses.field(default_factory=dict)


#: native: this thread's calls are ATen's, those that its kernels make too.
_thread = threading.local()
_found = {}  # {(overload, key): (calls that differed, largest error)} of verifiers
_native = {}  # {(overload, key): ATen's kernel}, taken while nothing of ours was registered there


def native_kernel(name, key="CPU"):
    """ATen's own kernel of an overload ("add.Tensor"), whatever is registered now: `kernel.call_boxed(keyset, *args, **kwargs)`."""
    with _lock:
        kernel = _native.get((name, key))
        if kernel is None:
            # Kernels are saved before the first one is replaced (`_install`), so this one is ATen's.
            kernel = _native[name, key] = torch.library.get_kernel(f"aten::{name}", key)
        return kernel


@contextlib.contextmanager
def _all_native():
    before, _thread.native = getattr(_thread, "native", False), True
    try:
        yield
    finally:
        _thread.native = before


def _with_tensors(args, tensors):
    """The arguments with tensors at the positions `tensors`. PyTorch wraps numbers as tensors and hands these on to Python as numbers, which ATen's kernels do not take. A wrapped number
    changes a dtype less than a tensor without dimensions does: the tensor here has the dtype that the result has with the number, wherever its own would decide that."""
    numbers = [i for i in tensors if i < len(args) and isinstance(args[i], (bool, int, float, complex))]
    if not numbers:
        return args
    beside = max((args[i] for i in tensors if i < len(args) and isinstance(args[i], torch.Tensor)), key=torch.Tensor.dim, default=None)
    args = list(args)
    for i in numbers:
        tensor = torch.scalar_tensor(args[i], dtype=torch.tensor(args[i]).dtype if isinstance(args[i], (bool, int)) else torch.complex128 if isinstance(args[i], complex) else torch.float64)
        if beside is not None:
            result = torch.result_type(beside, args[i])
            if torch.result_type(beside, tensor) != result:
                tensor = tensor.to(result)
        args[i] = tensor
    return args


def _kernel(operator, form, key, registration, entry=None):
    """The Python kernel of a form. entry: of the router, where that records what the kernel does."""
    native = native_kernel(form.name, key)
    ours, bind, name = (form.name, key, "nereid", ""), form.bind, form.name
    call = _routed(operator, key.lower()) if registration.routing and operator.name not in registration.kept else operator.call
    verifier, tuner = registration.verifier, registration.tuner
    tensors = [i for i, argument in enumerate(form.arguments) if argument.is_tensor]

    def kernel(keyset, *args, **kwargs):
        if getattr(_thread, "native", False):
            return atens(keyset, args, kwargs)
        if tuner is not None:
            tuner.visit(operator, form, key, functools.partial(theirs, keyset), args, kwargs)
        if verifier is not None:
            return verifier.run(form, key, functools.partial(theirs, keyset), args, kwargs, functools.partial(run, keyset, args, kwargs), _all_native)
        return run(keyset, args, kwargs)

    def run(keyset, args, kwargs):
        result = call(form, *bind(args, kwargs)) if entry is None else entry.run(call, form, args, kwargs)
        if type(result) is Native:
            _calls[name, key, "aten", result.reason] += 1
            return atens(keyset, args, kwargs)
        _calls[ours] += 1
        return result

    def atens(keyset, args, kwargs):
        return native.call_boxed(keyset, *_with_tensors(args, tensors), **kwargs)

    def theirs(keyset, args, kwargs):
        with _all_native():
            return atens(keyset, args, kwargs)

    return kernel


def _routed(operator, device):
    """`operator.call`, which answers `Native` where measured data give the call to ATen."""

    def call(form, values, outs):
        return _routes.FASTER if _routes.load(device).is_native(operator, form, values) else operator.call(form, values, outs)

    return call


def _route(registration, key):
    """Tells the router what `_routed` does."""
    with _lock:
        routes = _routes.load(key.lower()) if registration.routing else None
        for (name, its_key), entry in registration.routed.items():
            if its_key == key:
                entry.route(None if entry.operator.name in registration.kept else routes)


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
                library.impl(form.name, _kernel(operator, form, key, registration, entry), key, with_keyset=True)
    registration.library = library
    for name, entry in entries.items():
        entry.enter()
        registration.routed[name] = entry
    if "CPU" in registration.keys:
        _route(registration, "CPU")
    if any(key == "CUDA" for _, key in entries):
        # Which GPU it is, is known once CUDA is in use: enabling does not start it.
        torch.cuda._lazy_call(functools.partial(_route, registration, "CUDA"))


def _remove(registration):
    for entry in registration.routed.values():
        entry.leave()
    registration.routed.clear()
    registration.library._destroy()
    registration.library = None


def _differences():
    for verifier in [registration.verifier for registration in _stack if registration.verifier is not None]:
        _found.update(verifier.found)


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
    _differences()
    in_force = _stack[-1] is registration
    if in_force:
        _remove(registration)
    _stack.remove(registration)
    if in_force and _stack:
        _install(_stack[-1])


def _registration(only, without, device, router, routing, verify):
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
    if routing not in (None, True, False) and not (isinstance(routing, (list, tuple)) and all(isinstance(name, str) for name in routing)):
        raise ValueError(f"`routing` is {routing!r}: expected True, False, None or a list of operators that are not given to ATen")
    kept = frozenset()
    if routing not in (None, True, False):
        kept, routing = frozenset(operator.name for operator, _ in select(routing)), True
    router = knobs.nereid.ops_router if router is None else router
    return _Registration(select(only, without), keys, router and not verify, knobs.nereid.ops_routing if routing is None else routing, kept,
                         Verifier() if verify else None)


def enable(only=None, without=None, device=None, router=None, routing=None, verify=False):
    """Replaces ATen's kernels by those of this package, in the whole process, until `disable`. A second call replaces the first choice.

    only, without: names of base operators ("add") or of overloads ("add.Tensor"); None: all, none. device: "cpu", "cuda", None for both. router: False for
    the Python route alone; None: as NEREID_OPS_ROUTER says, by default the router. routing: True: calls for which ATen's kernel was measured to be faster are
    ATen's (docs/ops.md); False: ours run; a list of operators: as True, but these are ours; None: as NEREID_OPS_ROUTING says, by default True.
    verify: each call runs on ATen's kernel as well, differences are warned of once for each overload, and the report counts them. That takes the Python route.
    Raises LookupError for names that are not registered, ValueError for another device.
    """
    with _lock:
        registration = _registration(only, without, device, router, routing, verify)
        disable()
        _push(registration)


def disable():
    """Restores ATen's kernels: the dispatcher is as it was before `enable`. Also ends what `use` has switched on."""
    with _lock:
        _differences()
        if _stack:
            _remove(_stack[-1])
        _stack.clear()


@contextlib.contextmanager
def use(only=None, without=None, device=None, router=None, routing=None, verify=False):
    """`enable` for a `with` block; afterwards what was registered before is in force again. Blocks nest. It counts for all threads."""
    with _lock:
        registration = _registration(only, without, device, router, routing, verify)
        _push(registration)
    try:
        yield
    finally:
        with _lock:
            _pop(registration)


@contextlib.contextmanager
def tune(only=None, without=None, device=None, seconds=0.05):
    """A `with` block whose calls are measured, ours against ATen's kernel, each class of operator, dtype and shapes once.

        with nereid.ops.tune():
            model(batch).sum().backward()

    What was measured is kept for this machine (NEREID_OPS_CACHE) and decides from then on which calls are ATen's, before the data of the package; matrix products get
    the fastest of some tiles, too. only, without, device: as for `enable`. seconds: for each class, on each side. Calls run on the Python route in the
    block. Calls that draw random numbers and those that a CUDA graph captures are not measured.
    """
    if not seconds > 0:
        raise ValueError(f"`seconds` is {seconds!r}: expected a positive number")
    tuner = Tuner(seconds)
    try:
        with watched(tuner, only, without, device):
            yield
    finally:
        with _lock:
            for its_device, routes in tuner.found.items():
                _routes.keep(routes)
                if _stack:
                    _route(_stack[-1], _schema.KEYS[its_device])


@contextlib.contextmanager
def watched(watcher, only=None, without=None, device=None):
    """A `with` block in which `watcher.visit(operator, form, key, theirs, args, kwargs)` sees each call before it runs; `theirs(args, kwargs)` runs ATen's kernel."""
    with _lock:
        registration = _registration(only, without, device, False, False, False)
        registration.tuner = watcher
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
    """A line of the report: how often an overload went a route. route: "nereid", or "aten" with the reason. differs, error: of the overload's calls with
    `verify=True`, how many results differed from ATen's, and the largest difference over the largest magnitude; None without."""
    overload: str
    device: str
    route: str
    reason: str
    calls: int
    differs: int = None
    error: float = None


class Report(list):
    """Rows of the report, the most frequent first; as text a table."""

    def __str__(self):
        lines = [["overload", "device", "route", "reason", "calls"], *([row.overload, row.device, row.route, row.reason, str(row.calls)] for row in self)]
        if any(row.differs is not None for row in self):
            lines[0] += ["differs", "error"]
            for row, line in zip(self, lines[1:]):
                line += ["", ""] if row.differs is None else [str(row.differs), f"{row.error:.2g}"]
        widths = [max(map(len, column)) for column in zip(*lines)]
        return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in lines)


def report(clear=False):
    """What ran where since the process started, or since the last `report(clear=True)`: a `Report` of `Row`s."""
    with _lock:
        _count()
        _differences()
    devices = {key: device for device, key in _schema.KEYS.items()}
    rows = Report()
    for (name, key, route, reason), calls in _calls.copy().items():
        found = _found.get((name, key)) if route == "nereid" else None
        rows.append(Row(name, devices[key], route, reason, calls, *((found.calls, found.error) if found else ())))
    rows.sort(key=lambda row: -row.calls)
    if clear:
        _calls.clear()
        _found.clear()
    return rows
