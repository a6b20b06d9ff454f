"""Compiled kernels of the Python route, and how they are launched: by exact types, so that values never make further kernels."""

import ctypes
import functools
import operator
import threading

import torch

import nereid
from nereid.backends.compiler import GPUTarget
from nereid.compiler import ASTSource
import nereid.language as tl

#: torch's dtype → the language's. What is not here is left to ATen.
DTYPES = {
    torch.bool: tl.int1, torch.uint8: tl.uint8, torch.int8: tl.int8, torch.int16: tl.int16, torch.int32: tl.int32, torch.int64: tl.int64,
    torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32, torch.float64: tl.float64
}
#: The dtype that functions compute in, where it is not the dtype itself.
OPMATH = {torch.float16: torch.float32, torch.bfloat16: torch.float32}

#: What pointers point to: 8-bit floats, too, which only fused operators take.
POINTERS = {dtype: f"*{kind}" for dtype, kind in {
    torch.bool: "i1", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64", torch.float8_e4m3fn: "fp8e4nv", torch.float8_e5m2: "fp8e5"
}.items()}

_compiled = {}
_lock = threading.Lock()
#: `current`: the `_record.Recorder` of this thread, or None.
recorders = threading.local()


def _target(device):
    if device.type == "cpu":
        return GPUTarget("cpu", "native", 0)
    major, minor = torch.cuda.get_device_capability(device)
    return GPUTarget("cuda", 10 * major + minor, 32)


def _type(value, integers):
    """The type of an argument, hashable: of a tensor, a number, None, or a tuple of them. integers: the type of Python integers."""
    if isinstance(value, torch.Tensor):
        return POINTERS[value.dtype]
    if isinstance(value, tuple):
        return tuple([_type(item, integers) for item in value])
    if value is None:
        return None
    return "fp64" if isinstance(value, float) else integers


def _multiples(value):
    """Whether an integer is a multiple of 16 (None is not), or a tuple of these."""
    return tuple([_multiples(item) for item in value]) if isinstance(value, tuple) else value is not None and value % 16 == 0


def _leaves(kind, path=()):
    """(path, type) of everything in a nested tuple of types."""
    if isinstance(kind, tuple):
        for i, item in enumerate(kind):
            yield from _leaves(item, (*path, i))
    else:
        yield path, kind


def _signature(kind):
    return tuple([_signature(item) for item in kind]) if isinstance(kind, tuple) else "constexpr" if kind is None else kind


def _addresses(value):
    if isinstance(value, torch.Tensor):
        return value.data_ptr()
    return functools.reduce(operator.or_, map(_addresses, value), 0) if isinstance(value, tuple) else 0


def unrepeatable(why):
    """Tells the active recorder, if any, that the signature does not determine the call, so that it cannot be repeated. why: the reason, a str."""
    recorder = getattr(recorders, "current", None)
    if recorder is not None:
        recorder.problem = why


def holds(flag):
    """Whether a condition holds, of which a launch of this call has written 1 or 0 into `flag`: one element of uint8 on the host, allocated by this call.

    A recorded call evaluates the condition each time and is repeated only if the answer is the same; otherwise Python runs the call. The call must not
    have written memory before that is visible to others.
    """
    answer = ctypes.c_uint8.from_address(flag.data_ptr()).value
    recorder = getattr(recorders, "current", None)
    if recorder is not None:
        recorder.answered(flag, answer)
    return bool(answer)


def launch(kernel, grid, device, arguments, constants, integers="i64", divisible=(), **options):
    """Launches `kernel`, a jit function, compiled for exactly these types.

    grid: the number of programs, one integer or a tuple of them. arguments: {parameter: tensor, number, None or a tuple of these}; a float is passed as fp64,
    an integer as `integers` ("i32", "i64", or {parameter: type}). Pointers are specialised on multiples of 16, all together; integers are not, but those of
    the parameters `divisible`, one by one: sizes and strides, on which it depends how many elements are loaded at once.
    constants: {parameter: constexpr}, hashable. device: the torch.device that the tensors are on. options: of the compiler.
    """
    kinds = tuple([_type(value, integers.get(name, "i64") if type(integers) is dict else integers) for name, value in arguments.items()])
    aligned = _addresses(tuple(arguments.values())) % 16 == 0
    multiples = tuple([_multiples(arguments[name]) for name in divisible])
    key = (kernel, device, kinds, aligned, multiples, tuple(constants.values()), tuple(options.items()))
    compiled = _compiled.get(key)
    if compiled is None:
        with _lock:
            compiled = _compiled.get(key)
            if compiled is None:
                compiled = _compiled[key] = compile_kernel(kernel, device, dict(zip(arguments, kinds)), constants, aligned,
                                                                     dict(zip(divisible, multiples)), **options)
    grid = grid if type(grid) is tuple else (grid, )
    recorder = getattr(recorders, "current", None)
    if recorder is not None:
        recorder.launched(compiled, grid, [arguments[name] for name in kernel.arg_names if name in arguments])
    compiled[grid](*[arguments[name] if name in arguments else constants[name] for name in kernel.arg_names])


def compile_kernel(kernel, device, kinds, constants, aligned, multiples=None, **options):
    """The compiled kernel, a `CompiledKernel`.

    kinds: {parameter: its type ("*fp32", "i64", ...), None for an absent value, or a tuple of these}; constants: {parameter: constexpr}; aligned: all
    pointers are multiples of 16 bytes. multiples: {parameter: whether it is a multiple of 16, or a tuple of these}; other integers are not specialised.
    device, options: as for `launch`.
    """
    names = kernel.arg_names
    constexprs = {(names.index(name), ): value for name, value in constants.items()}
    attrs = {}
    for name, kind in kinds.items():
        for path, leaf in _leaves(kind, (names.index(name), )):
            if leaf is None:
                constexprs[path] = None
            elif aligned and leaf.startswith("*"):
                attrs[path] = [["tt.divisibility", 16]]
    for name, kind in (multiples or {}).items():
        attrs.update({path: [["tt.divisibility", 16]] for path, is_multiple in _leaves(kind, (names.index(name), )) if is_multiple})
    signature = {name: "constexpr" if name in constants else _signature(kinds[name]) for name in names}
    source = ASTSource(kernel, signature=signature, constexprs=constexprs, attrs=attrs)
    return nereid.compile(source, target=_target(device), options=options)
