"""Compiled kernels of the Python route, and how they are launched: by exact types, so that values never make further kernels."""

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

_POINTERS = {dtype: f"*{kind}" for dtype, kind in {
    torch.bool: "i1", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64"
}.items()}

_compiled = {}
_lock = threading.Lock()


def _target(device):
    if device.type == "cpu":
        return GPUTarget("cpu", "native", 0)
    major, minor = torch.cuda.get_device_capability(device)
    return GPUTarget("cuda", 10 * major + minor, 32)


def _type(value, integers):
    """The type of an argument, hashable: of a tensor, a number, None, or a tuple of them. integers: the type of Python integers."""
    if isinstance(value, torch.Tensor):
        return _POINTERS[value.dtype]
    if isinstance(value, tuple):
        return tuple([_type(item, integers) for item in value])
    if value is None:
        return None
    return "fp64" if isinstance(value, float) else integers


def _pointers(value, path):
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _pointers(item, (*path, i))


def _nones(value, path):
    if value is None:
        yield path
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _nones(item, (*path, i))


def _signature(kind):
    return tuple([_signature(item) for item in kind]) if isinstance(kind, tuple) else "constexpr" if kind is None else kind


def launch(kernel, grid, device, arguments, constants, integers="i64", **options):
    """Launches `kernel`, a jit function, compiled for exactly these types.

    grid: the number of programs, one integer or a tuple of them. arguments: {parameter: tensor, number, None or a tuple of these}; a float is passed as fp64,
    an integer as `integers` ("i32", "i64", or {parameter: type}). Integers are not specialised, pointers are on multiples of 16 for all of them together.
    constants: {parameter: constexpr}, hashable. device: the torch.device that the tensors are on. options: of the compiler.
    """
    kinds = tuple([_type(value, integers.get(name, "i64") if type(integers) is dict else integers) for name, value in arguments.items()])
    pointers = [pointer for i, value in enumerate(arguments.values()) for pointer in _pointers(value, (i, ))]
    aligned = all(tensor.data_ptr() % 16 == 0 for _, tensor in pointers)
    key = (kernel, device, kinds, aligned, tuple(constants.values()), tuple(options.items()))
    compiled = _compiled.get(key)
    if compiled is None:
        with _lock:
            compiled = _compiled.get(key)
            if compiled is None:
                compiled = _compiled[key] = _compile(kernel, device, arguments, kinds, constants, aligned, options)
    compiled[grid if type(grid) is tuple else (grid, )](*[arguments[name] if name in arguments else constants[name] for name in kernel.arg_names])


def _compile(kernel, device, arguments, kinds, constants, aligned, options):
    names = kernel.arg_names
    positions = [names.index(name) for name in arguments]
    signature = dict.fromkeys(constants, "constexpr") | {name: _signature(kind) for name, kind in zip(arguments, kinds)}
    constexprs = {(names.index(name), ): value for name, value in constants.items()}
    for position, value in zip(positions, arguments.values()):
        constexprs.update({path: None for path in _nones(value, (position, ))})
    attrs = {}
    if aligned:
        attrs = {path: [["tt.divisibility", 16]] for position, value in zip(positions, arguments.values()) for path, _ in _pointers(value, (position, ))}
    source = ASTSource(kernel, signature={name: signature[name] for name in names}, constexprs=constexprs, attrs=attrs)
    return nereid.compile(source, target=_target(device), options=options)
