"""The C++ router (src/ops): operators in PyTorch's dispatcher without Python.

The router is a shared library that belongs to one version of PyTorch. It is taken from the package if this was built for the PyTorch at hand, else built once with
a C++ compiler and kept in the cache folder. Without either, operators run on the Python route (`_register.py`), which does the same with more host time.
"""

import ctypes
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import warnings

import torch

import nereid
from nereid.runtime.build import cxx_compiler, include_folder

from . import _record, _routes
from ._declare import Native
from ._guards import Guard
from ._launch import DTYPES, POINTERS, compile_kernel
from .kernels import pointwise as kernels
from .pointwise import KINDS, OTHERS, Pointwise

_INTERFACE = 7  # NEREID_OPS_INTERFACE
_OPERANDS, _OUTPUTS = 8, 4
_SOURCES = ("fork.cpp", "kernels.cpp", "pointwise.cpp", "replay.cpp", "router.cpp")

#: Why ATen's kernel ran, by OpsReason; the first means that ours did.
#: Recorded calls add theirs behind these.
REASONS = ["", "variant", "dtype", "dtypes differ", "devices", "scalar", "number", "shapes", "shape of the output", "dtype of the output", "overlap",
           "layout", "size", "error due", _routes.FASTER.reason, "shapes keep changing"]
_REASON_COUNT = 96  # OPS_REASON_COUNT
_CODES = tuple(DTYPES)
_INT, _FLOAT, _NONE = 0x40, 0x41, 0x42
_REVERSED = 15  # OPS_REVERSED


class _Rule(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("dtypes", ctypes.c_uint16), ("promotion", ctypes.c_uint8), ("raw", ctypes.c_uint8), ("same", ctypes.c_uint8),
                ("computes", ctypes.c_uint8), ("casts", ctypes.c_uint8), ("choice_kind", ctypes.c_uint8), ("choice_number", ctypes.c_int64), ("choice_text", ctypes.c_char_p)]


class _Overload(ctypes.Structure):
    _fields_ = [("rules", ctypes.POINTER(_Rule)), ("rule_count", ctypes.c_uint32), ("is_cuda", ctypes.c_uint8),
                ("kind", ctypes.c_uint8), ("argument_count", ctypes.c_uint8), ("input_count", ctypes.c_uint8), ("scalar_count", ctypes.c_uint8),
                ("output_count", ctypes.c_uint8), ("inputs", ctypes.c_int8 * _OPERANDS), ("scalars", ctypes.c_int8 * _OPERANDS),
                ("outputs", ctypes.c_int8 * _OUTPUTS), ("choice", ctypes.c_int8), ("contiguous", ctypes.c_uint8), ("guard", ctypes.c_uint8),
                ("guard_input", ctypes.c_uint8), ("fills", ctypes.c_uint8 * _OPERANDS), ("fill_numbers", ctypes.c_double * _OPERANDS)]


class _Key(ctypes.Structure):
    _fields_ = [("rule", ctypes.c_uint32), ("kernel", ctypes.c_uint8), ("rank", ctypes.c_uint8), ("flags", ctypes.c_uint8), ("device", ctypes.c_uint8),
                ("common", ctypes.c_uint8), ("input_count", ctypes.c_uint8), ("scalar_count", ctypes.c_uint8), ("output_count", ctypes.c_uint8),
                ("outputs", ctypes.c_uint8 * _OUTPUTS), ("inputs", ctypes.c_uint8 * _OPERANDS), ("scalars", ctypes.c_uint8 * _OPERANDS),
                ("mask", ctypes.c_uint16), ("row_mask", ctypes.c_uint16), ("block", ctypes.c_uint16), ("columns", ctypes.c_uint16), ("is_cuda", ctypes.c_uint32),
                ("fixed", ctypes.c_uint16), ("reserved", ctypes.c_uint16), ("steps", ctypes.c_uint64)]


_PREPARE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Key), ctypes.POINTER(ctypes.c_char), ctypes.c_uint64)

_lock = threading.Lock()
_library = None  # the loaded router, or the reason (str) why there is none
_rules = []  # of pointwise.Rule, by id
_rule_ids = {}  # {id(rule): id}
_kept = []  # compiled kernels, which the router has by address


def _folder():
    """Where the router's sources are: in the package, or in the tree that it was built from."""
    inside = pathlib.Path(__file__).parent / "router"
    return inside if inside.exists() else pathlib.Path(__file__).resolve().parents[3] / "src" / "ops"


def build(folder=None):
    """Builds the router for this PyTorch; returns its path. folder: where to put it; by default that of the package is taken where there is one for this minor
    version of PyTorch, else it is put into the cache folder (NEREID_OPS_CACHE), and taken from there the next time.

    Raises RuntimeError where there is no compiler or where it fails, with what it printed.
    """
    packaged = pathlib.Path(nereid.__file__).parent / "ops" / f"router-torch{'.'.join(torch.__version__.split('.')[:2])}.so"
    if folder is None and packaged.exists():
        return packaged
    sources = _folder()
    texts = [path.read_bytes() for path in sorted(sources.iterdir()) if path.suffix in (".h", ".cpp")]
    release = torch.__version__.split("+")[0]
    identity = hashlib.sha256(b"\0".join([release.encode(), str(torch._C._GLIBCXX_USE_CXX11_ABI).encode(), *texts])).hexdigest()[:16]
    name = f"router-torch{release}-{identity}.so"
    folder = pathlib.Path(folder or _routes.cache_folder())
    path = folder / name
    if path.exists():
        return path
    compiler = cxx_compiler()
    if compiler is None:
        raise RuntimeError("no C++ compiler was found (CXX, c++, g++, clang++)")
    folder.mkdir(parents=True, exist_ok=True)
    root = pathlib.Path(torch.__file__).parent
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        flags = ["-O2", "-std=c++20", "-fPIC", "-fvisibility=hidden", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
                 f"-I{root / 'include'}", f"-I{include_folder()}"]
        objects = [str(pathlib.Path(scratch) / source) + ".o" for source in _SOURCES]
        running = [subprocess.Popen([compiler, *flags, "-c", str(sources / source), "-o", output], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                   for source, output in zip(_SOURCES, objects)]
        said = [process.communicate()[0] for process in running]
        failed = [text for process, text in zip(running, said) if process.returncode]
        if not failed:
            made = str(pathlib.Path(scratch) / name)
            link = subprocess.run([compiler, "-shared", "-o", made, *objects, f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10", "-ldl"], capture_output=True, text=True)
            failed = [link.stderr] if link.returncode else []
        if failed:
            raise RuntimeError(f"{compiler} could not build the router:\n{failed[0][-4000:]}")
        os.replace(made, path)  # at once, also where several processes build it
    return path


@_PREPARE
def _prepare(key, error, size):
    try:
        return _make(key.contents)
    except BaseException as exception:
        text = f"{type(exception).__name__}: {exception}".encode()[:size - 1] + b"\0"
        ctypes.memmove(error, text, len(text))
        return None


def _kind(code):
    return {_INT: "i64", _FLOAT: "fp64", _NONE: None}[code] if code >= _INT else POINTERS[_CODES[code]]


def _last_strides(key):
    """The last strides of the operands that a kernel has as constants, outputs first; 0: any."""
    codes = [key.steps >> 4 * k & 15 for k in range(key.output_count + key.input_count)]
    return tuple([-1 if code == _REVERSED else code for code in codes])


def _make(key):
    """Compiles the kernel of an OpsKey and returns its address."""
    rule = _rules[key.rule]
    device = torch.device("cuda", key.device) if key.is_cuda else torch.device("cpu")
    common = _CODES[key.common]
    ins = tuple([_kind(code) for code in key.inputs[:key.input_count]])
    kinds = {"outs": tuple([_kind(code) for code in key.outputs[:key.output_count]]), "ins": ins, "scalars": tuple([_kind(code) for code in key.scalars[:key.scalar_count]])}
    constants = rule.constants(common)
    if key.kernel == 0:
        kernel = kernels.flat
        kinds["numel"] = "i64"
        constants |= {"FIXED": key.mask, "BLOCK": key.block}
    else:
        wide = bool(key.flags & 2)
        index = "i64" if wide else "i32"
        some = (index, ) * key.rank
        kinds |= {"sizes": some, "out_strides": (some, ) * key.output_count, "in_strides": tuple([some if kind and kind.startswith("*") else () for kind in ins])}
        constants |= {"UNIT": key.mask, "WIDE": wide, "STEPS": () if key.is_cuda else _last_strides(key)}
        if key.kernel == 1:
            kernel = kernels.strided
            kinds["numel"] = index
            constants["BLOCK"] = key.block
        else:
            kernel = kernels.tiled
            constants |= {"UNIT_ROWS": key.row_mask, "FIXED": key.fixed, "WHOLE": not key.is_cuda, "ROWS": key.block, "COLUMNS": key.columns, "EVEN": bool(key.flags & 4)}
    compiled = compile_kernel(kernel, device, kinds, constants, bool(key.flags & 1))
    _kept.append(compiled)
    return compiled.address


def load():
    """The loaded router, a `ctypes.CDLL`, or None where there is none; then the reason has been warned of once."""
    global _library
    with _lock:
        if _library is None:
            try:
                _library = _start(build())
            except (OSError, RuntimeError) as exception:
                _library = str(exception)
                warnings.warn(f"nereid.ops runs without its router, with more host time for each call: {exception}", RuntimeWarning, stacklevel=4)
        return None if isinstance(_library, str) else _library


def _start(path):
    library = ctypes.CDLL(str(path))
    library.ops_start.restype = ctypes.c_char_p
    library.ops_start.argtypes = [ctypes.c_uint32, ctypes.c_char_p, _PREPARE]
    text = [ctypes.c_char_p, ctypes.c_uint64]
    for name, result, arguments in (("ops_save", ctypes.c_int64, [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint8, *text]),
                                    ("ops_make", ctypes.c_int32, [ctypes.c_int64, ctypes.POINTER(_Overload), *text]),
                                    ("ops_enter", ctypes.c_int32, [ctypes.c_int64, *text]), ("ops_leave", None, [ctypes.c_int64]),
                                    ("ops_route", None, [ctypes.c_int64, ctypes.POINTER(ctypes.c_uint64), ctypes.c_int32]),
                                    ("ops_wants_record", ctypes.c_int32, [ctypes.c_int64]),
                                    ("ops_record", None, [ctypes.c_int64, ctypes.POINTER(_record.Record)]),
                                    ("ops_counts", None, [ctypes.c_int64, ctypes.POINTER(ctypes.c_uint64), ctypes.c_int32])):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    wrong = library.ops_start(_INTERFACE, b"libnereid.so.1", _prepare)
    if wrong:
        raise RuntimeError(wrong.decode())
    return library


def overload(operator, form, key):
    """The data by which the router runs a form without Python (an `_Overload`), or None."""
    if getattr(type(operator), "call", None) is not Pointwise.call or operator.written or operator.mean_over is not None or len(operator.choices) > 1:
        return None
    if operator.check is not None and not isinstance(operator.check, Guard):
        return None
    schema = [argument.name for argument in form.overload._schema.arguments]
    inputs = [name for name in operator.inputs if name in schema]
    if max(len(inputs), len(operator.scalars)) > _OPERANDS or form.returns > _OUTPUTS or not inputs:
        return None
    rules = (_Rule * len(operator.rules))()
    for rule, (choice, its) in zip(rules, operator.rules.items()):
        if id(its) not in _rule_ids:
            _rule_ids[id(its)] = len(_rules)
            _rules.append(its)
        rule.id = _rule_ids[id(its)]
        rule.dtypes = sum(1 << _CODES.index(dtype) for dtype in its.dtypes)
        rule.promotion = {"default": 0, "complex_to_float": 0, "int_to_float": 1, "always_bool": 2, "bool_to_long": 3, "no_opmath": 4}[its.promotion]
        rule.raw = sum(1 << i for i in its.raw)
        rule.same, rule.computes, rule.casts = its.same, its.numbers == "compute", its.casts
        value = choice[0] if choice else None
        if choice == OTHERS:
            rule.choice_kind = 3
        elif isinstance(value, str):
            rule.choice_kind, rule.choice_text = 2, value.encode()
        elif value is not None:
            rule.choice_kind, rule.choice_number = 1, int(value)
    made = _Overload(rules=rules, rule_count=len(rules), is_cuda=key == "CUDA",
                     kind=("functional", "inplace", "out").index(form.kind), argument_count=len(schema), input_count=len(inputs),
                     scalar_count=len(operator.scalars), output_count=form.returns, choice=-1, contiguous=form.name in operator.contiguous)
    for i, argument in enumerate(inputs):
        made.inputs[i] = schema.index(argument)
    for i, argument in enumerate(operator.scalars):
        made.scalars[i] = schema.index(argument) if argument in schema else -1
        fill = operator.fills.get(argument)
        if isinstance(fill, str):
            made.fills[i] = {"max": 2, "min": 3}[fill]
        elif fill is not None:
            made.fills[i], made.fill_numbers[i] = 1, fill
    for i in range(form.returns):
        made.outputs[i] = 0 if form.kind == "inplace" else schema.index(form.outs[i]) if form.outs else 0
    if operator.choices and operator.choices[0] in schema:
        made.choice = schema.index(operator.choices[0])
    if operator.check is not None:
        made.guard = 1 + Guard.KINDS.index(operator.check.kind)
        made.guard_input = inputs.index(operator.check.argument) if operator.check.argument in inputs else 0
    return made


def _checked(function, *arguments):
    error = ctypes.create_string_buffer(4096)
    number = function(*arguments, error, len(error))
    if number < 0:
        raise RuntimeError(error.value.decode(errors="replace"))
    return number


class Entry:
    """An overload at a key in the router, for the life of the process. It is made while ATen's kernel is in force, which it saves.

    plans: the router knows by itself what to do (`Pointwise`); otherwise it records what the Python kernel does and repeats it.
    """

    def __init__(self, router, operator, form, key):
        self._router, self._device, self.operator = router, key.lower(), operator
        packet, _, name = form.qualified.partition(".")
        self.number = _checked(router.ops_save, packet.encode(), name.encode(), key == "CUDA")
        made = overload(operator, form, key)
        self.plans = made is not None
        self._routes = None
        _checked(router.ops_make, self.number, made and ctypes.byref(made))

    def enter(self):
        """Puts it into the dispatcher. The Python kernel of an entry without plans has to be there."""
        _checked(self._router.ops_enter, self.number)

    def leave(self):
        self._router.ops_leave(self.number)

    def route(self, routes):
        """Puts routing data into force. routes: `_routes.Routes`, or None for ours everywhere; what was recorded with others is forgotten."""
        if routes is not self._routes:
            self._routes = routes
            sizes = routes.pointwise_sizes(self.operator.name, KINDS, _CODES) if self.plans and routes is not None else [0] * len(KINDS) * len(_CODES)
            self._router.ops_route(self.number, (ctypes.c_uint64 * len(sizes))(*sizes), routes is not None)

    def counts(self, clear=False):
        """How often it went which way: {reason: calls}; the reason "" means that ours ran."""
        found = (ctypes.c_uint64 * _REASON_COUNT)()
        self._router.ops_counts(self.number, found, clear)
        return {reason: calls for reason, calls in zip(REASONS, found) if calls}

    def run(self, call, form, args, kwargs):
        """`call(form, values, outs)` for a call that has come to the Python kernel, recorded where the router waits for that."""
        if not self._router.ops_wants_record(self.number):
            return call(form, *form.bind(args, kwargs))
        args, kwargs = _record.apart(form, args, kwargs)
        recorder = _record.Recorder(_record.tensors_of(form, args, kwargs), self._device)
        shared = recorder.problem  # says nothing about other calls of this signature
        with recorder:
            result = call(form, *form.bind(args, kwargs))
        if shared or type(result) is Native and recorder.conditions:
            return result
        if type(result) is not Native:
            record = recorder.record(result if form.returns else ())
        elif recorder.problem:
            record = _record.Record(route=_record.PYTHON)
        else:
            record = _record.Record(route=_record.NATIVE, reason=_reason(result.reason))
        _kept.extend(step[0] for step in recorder.steps if step[0] is not None)
        self._router.ops_record(self.number, ctypes.byref(record))
        return result


def _reason(text):
    with _lock:
        if text not in REASONS and len(REASONS) < _REASON_COUNT:
            REASONS.append(text)
        return REASONS.index(text) if text in REASONS else 1


_entries = {}  # {(overload, key): Entry}


def entries():
    """All entries: {(overload, key): Entry}."""
    return dict(_entries)


def entry(router, operator, form, key):
    """The `Entry` of a form at a key. The first time for each, ATen's kernel must be in force."""
    if (form.name, key) not in _entries:
        _entries[form.name, key] = Entry(router, operator, form, key)
    return _entries[form.name, key]
