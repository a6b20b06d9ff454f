"""`call`: a launch as an operation of JAX.

A call is traced as one primitive, which holds everything about the launch that is known then (`_Launch`). When JAX lowers it for a platform, the kernel is compiled
for that platform, and the operation becomes a custom call of XLA whose handler launches it (`_library.py`).
"""

import functools
import operator
import struct
import threading

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from nereid._jit import JITFunction
from nereid.differentiation import Derivative
from nereid.language.core import constexpr
from nereid.runtime.tensors import MockTensor

from . import _library

#: JAX's dtype → nrd_dtype.
DTYPES = {"bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8, "uint64": 9, "float8_e5m2": 10, "float8_e5m2fnuz": 11,
          "float8_e4m3fn": 12, "float8_e4m3fnuz": 13, "float16": 15, "bfloat16": 16, "float32": 17, "float64": 18}
_INT, _UINT, _BOOL, _FLOAT, _POINTER = range(5)  # nrd_arg_kind
_VMAP_METHODS = (None, "sequential")
_GRID_LIMIT = 2**31 - 1


def is_array(value):
    """Whether it is an operand: an array of JAX or NumPy, of any rank."""
    return isinstance(value, (jax.Array, np.ndarray)) or hasattr(value, "__jax_array__")


def _typed(value):
    """The value in a form that is hashable and tells 1, 1.0 and True apart, and 0.0 and -0.0. TypeError: it is not hashable."""
    if isinstance(value, tuple):
        return type(value), tuple(map(_typed, value))
    if isinstance(value, float):
        return type(value), struct.pack("<d", value)
    hash(value)
    return type(value), value


def _names(names):
    return ", ".join(f"`{name}`" for name in names)


class _Launch:
    """What is known of a launch when it is traced: the parameter of the primitive, compared by content.

    kernel: the `@jit` function. operands, results: {parameter: number of the operand or result}, of which both hold those that are updated in place.
    constants: {parameter: number, constexpr or None}. options: of the compiler. grid: three sizes. outs: (shape, dtype) of each result.
    aliases: pairs (operand, result). is_differentiated: it is a part of a function that has a derivative.
    """

    def __init__(self, kernel, operands, results, constants, options, grid, outs, aliases, vmap_method, is_differentiated):
        self.kernel, self.operands, self.results, self.constants, self.options = kernel, operands, results, constants, options
        self.grid, self.outs, self.aliases, self.vmap_method, self.is_differentiated = grid, outs, aliases, vmap_method, is_differentiated
        self._key = (kernel, tuple(operands.items()), tuple(results.items()), tuple((name, _typed(value)) for name, value in constants.items()),
                     tuple((name, _typed(value)) for name, value in sorted(options.items())), grid, outs, aliases, vmap_method, is_differentiated)

    def __eq__(self, other):
        return isinstance(other, _Launch) and self._key == other._key

    def __hash__(self):
        return hash(self._key)

    def __repr__(self):
        return self.kernel.__name__


# ---- binding: from the arguments of `call` to a launch


def _kernel_of(kernel):
    if isinstance(kernel, JITFunction):
        if type(kernel) not in (JITFunction, Derivative):
            raise TypeError(f"nereid.jax.call cannot run `{kernel.__name__}` in interpret mode, which needs arrays with data: unset NEREID_INTERPRET")
        return kernel
    if hasattr(kernel, "fn"):
        raise TypeError(f"nereid.jax.call needs a kernel made with @jit, found {type(kernel).__name__}: nothing is measured while JAX traces; give `kernel.fn` "
                        f"with the constexprs and options of a configuration")
    raise TypeError(f"nereid.jax.call needs a kernel made with @jit, found {type(kernel).__name__}")


def _outputs_of(kernel, out_shape):
    """(names of the parameters that `out_shape` names, or None; its leaves; its structure)."""
    if isinstance(out_shape, dict):
        for name in out_shape:
            if name not in kernel.arg_names:
                raise ValueError(f"`{name}` in `out_shape` is no parameter of `{kernel.__name__}`: it has {_names(kernel.arg_names)}")
        names, leaves = tuple(out_shape), list(out_shape.values())
    else:
        names, leaves = None, list(out_shape) if isinstance(out_shape, (list, tuple)) else [out_shape]
    if not leaves:
        raise ValueError(f"`{kernel.__name__}` has no outputs: a call without results does nothing in JAX; name what it writes in `out_shape`")
    outs = []
    for i, leaf in enumerate(leaves):
        what = f"`{names[i]}` in `out_shape`" if names else "`out_shape`" if leaves[0] is out_shape else f"item {i} of `out_shape`"
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise TypeError(f"{what} is {type(leaf).__name__}: expected a shape with a dtype, as `jax.ShapeDtypeStruct((8, 16), jnp.float32)`")
        dtype = _dtype_of(leaf.dtype, what)
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise TypeError(f"{what} has dtype {dtype.name}, which JAX has only with `jax.config.update(\"jax_enable_x64\", True)`")
        shape = tuple(map(operator.index, leaf.shape))
        if any(size < 0 for size in shape):
            raise ValueError(f"{what} has the shape {shape}: sizes are not negative")
        outs.append((shape, dtype))
    return names, tuple(outs)


def _dtype_of(dtype, what):
    """The `numpy.dtype`. TypeError: kernels do not know it."""
    dtype = np.dtype(dtype) if not jnp.issubdtype(dtype, jax.dtypes.extended) else dtype
    if getattr(dtype, "name", str(dtype)) not in DTYPES:
        raise TypeError(f"{what} has dtype {getattr(dtype, 'name', dtype)}, which kernels do not support: expected one of {', '.join(DTYPES)}")
    return dtype


def _place(kernel, inputs, names):
    """{parameter: value} of the positional inputs. names: parameters for outputs only, which they pass over."""
    free = [name for name in kernel.arg_names if name not in names]
    if len(inputs) > len(free):
        raise TypeError(f"`{kernel.__name__}` takes {len(free)} arguments besides its outputs, found {len(inputs)}")
    return dict(zip(free, inputs))


def _indices_of(aliases, kernel, positional, names, count):
    """{parameter of the input: number of the output} of `input_output_aliases`."""
    found = {}
    if aliases is not None and not isinstance(aliases, dict):
        raise TypeError(f"`input_output_aliases` is {type(aliases).__name__}: expected a dict {{input: output}}")
    for given, out in (aliases or {}).items():
        for what, value in (("input", given), ("output", out)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer, str)):
                raise TypeError(f"`input_output_aliases` names {what} {value!r}: expected a position or the name of a parameter")
        if isinstance(given, str):
            if given not in kernel.arg_names:
                raise ValueError(f"`{given}` in `input_output_aliases` is no parameter of `{kernel.__name__}`: it has {_names(kernel.arg_names)}")
            name = given
        elif 0 <= given < len(positional):
            name = positional[given]
        else:
            raise ValueError(f"`input_output_aliases` names input {given}: there are {len(positional)} inputs given by position")
        if isinstance(out, str):
            if not names or out not in names:
                raise ValueError(f"`{out}` in `input_output_aliases` is not in `out_shape`")
            out = names.index(out)
        if not 0 <= out < count:
            raise ValueError(f"`input_output_aliases` names output {out}: there are {count}")
        if out in found.values():
            raise ValueError(f"`input_output_aliases` gives output {out} the memory of two inputs")
        found[name] = out
    return found


def _number(name, kernel, value):
    """A constant or number as launches take it."""
    if isinstance(value, constexpr):
        value = value.value
    if isinstance(value, np.generic):
        value = value.item()
    param = kernel.params[kernel.arg_names.index(name)]
    if param.is_constexpr:
        try:
            _typed(value)
        except TypeError:
            raise TypeError(f"{kernel.__name__}: the constexpr `{name}` is {type(value).__name__}, which is not hashable: give a tuple, a number or a text") from None
        return value
    if value is None or isinstance(value, (bool, int, float)):
        return value
    hint = "; give `jax.dlpack.from_dlpack(x)`" if hasattr(value, "__dlpack__") else "; give `jnp.asarray(x)`" if isinstance(value, list) else ""
    raise TypeError(f"{kernel.__name__}: `{name}` is {type(value).__name__}: expected an array of JAX or NumPy, a number or None{hint}")


def _is_traced(value):
    return isinstance(value, jax.core.Tracer)


def _grid_of(kernel, grid, arguments):
    """The three sizes of a grid, or of a function of the arguments that gives one."""
    if callable(grid):
        grid = grid(arguments)
    sizes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid, )
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"{kernel.__name__}: the grid has {len(sizes)} sizes: expected one to three")
    found = []
    for size in sizes:
        if _is_traced(size):
            raise TypeError(f"{kernel.__name__}: the grid is a traced value: it must be known when JAX traces; compute it from shapes, or from an argument in "
                            "`static_argnames` of `jax.jit`")
        try:
            found.append(operator.index(size))
        except TypeError:
            raise TypeError(f"{kernel.__name__}: the grid has a size of type {type(size).__name__}: expected integers") from None
        if not 0 <= found[-1] <= _GRID_LIMIT:
            raise ValueError(f"{kernel.__name__}: the grid must be 0 to {_GRID_LIMIT}, found {found[-1]}")
    return (*found, 1, 1)[:3]


def _bind(kernel, inputs, given, out_shape, grid, aliases, vmap_method, is_differentiated):
    """The operands and the `_Launch` of a call."""
    names, outs = _outputs_of(kernel, out_shape)
    # Positional inputs pass over the outputs, but for those that have the memory of the input of the same name.
    only = [name for name in names or () if name not in given and not (isinstance(aliases, dict) and aliases.get(name) == name)]
    arguments = _place(kernel, inputs, only)
    positional = list(arguments)
    options = {}
    for name, value in given.items():
        if name in arguments:
            raise TypeError(f"{kernel.__name__}: `{name}` is given twice")
        if name in kernel.arg_names:
            arguments[name] = value
        else:
            options[name] = value
            try:
                _typed(value)
            except TypeError:
                raise TypeError(f"{kernel.__name__}: the option `{name}` is {type(value).__name__}: expected a number, a text or a tuple that is known when JAX "
                                "traces") from None
    shared = _indices_of(aliases, kernel, positional, names, len(outs))
    results = _results_of(kernel, names, outs, arguments, shared)
    operands, constants, arrays = {}, {}, []
    for name in kernel.arg_names:
        if name not in arguments:
            continue
        value = arguments[name]
        param = kernel.params[kernel.arg_names.index(name)]
        if is_array(value):
            if param.is_constexpr:
                kind = "a traced value" if _is_traced(value) else "an array"
                raise TypeError(f"{kernel.__name__}: the constexpr `{name}` is {kind}: it must be known when JAX traces; name it in `static_argnames` of "
                                "`jax.jit`, or give a Python number")
            if value.shape == () and param.annotation_type and not param.annotation_type.startswith("*"):
                raise TypeError(f"{kernel.__name__}: `{name}` is a number ({param.annotation_type}), found an array of rank 0, of which kernels get the address: give a "
                                "Python number, or let the kernel load it")
            array = jnp.asarray(value)
            _dtype_of(array.dtype, f"{kernel.__name__}: `{name}`")
            operands[name] = len(arrays)
            arrays.append(array)
        else:
            constants[name] = _number(name, kernel, value)
    pairs = []
    for name, out in shared.items():
        if name not in operands:
            raise ValueError(f"{kernel.__name__}: `{name}` in `input_output_aliases` is no array among the inputs")
        array, (shape, dtype) = arrays[operands[name]], outs[out]
        if array.shape != shape or array.dtype != dtype:
            raise ValueError(f"{kernel.__name__}: `{name}` is {array.dtype.name}{list(array.shape)} and cannot share memory with output {out}, which is "
                             f"{dtype.name}{list(shape)}")
        pairs.append((operands[name], out))
    missing = [param.name for param in kernel.params if param.name not in arguments and param.name not in results and not param.has_default]
    if missing:
        raise TypeError(f"{kernel.__name__}: no value for {_names(missing)}")
    described = {**{param.name: param.default for param in kernel.params if param.has_default}, **arguments,
                 **{name: jax.ShapeDtypeStruct(*outs[out]) for name, out in results.items() if name not in arguments}}
    launch = _Launch(kernel, operands, results, constants, options, _grid_of(kernel, grid, described), outs, tuple(pairs), vmap_method, is_differentiated)
    return arrays, launch


def _results_of(kernel, names, outs, arguments, shared):
    """{parameter: number of the output that it writes}."""
    results = {name: out for name, out in shared.items() if not names or names[out] == name}
    if names:
        for out, name in enumerate(names):
            if name in arguments and name not in results:
                raise ValueError(f"{kernel.__name__}: `{name}` is an input and in `out_shape`: say `input_output_aliases={{\"{name}\": \"{name}\"}}` to update it in place")
            results[name] = out
        return results
    left = [param.name for param in kernel.params if param.name not in arguments and not param.is_constexpr and not param.has_default]
    own = [out for out in range(len(outs)) if out not in results.values()]
    if len(left) != len(own):
        raise ValueError(f"`{kernel.__name__}` has {len(left)} parameters without a value ({_names(left) or 'none'}) for {len(own)} outputs: give the "
                         "others by keyword, or name the outputs as `out_shape={name: ...}`")
    results.update(zip(left, own))
    return results


# ---- compilation


_copies = {}  # {(kernel, text): copy}
_copies_lock = threading.Lock()
_held = {}  # compiled kernels by the ids of their calls: compiled programs use them until the process ends


def _copy_of(kernel):
    """The function with the text that the kernel has now, whose compiled kernels compiled programs hold: nobody else clears its cache."""
    key = kernel, kernel.src
    with _copies_lock:
        if key not in _copies:
            _copies[key] = kernel.__copy__()
        return _copies[key]


def _compiled(launch, avals, target):
    """The compiled kernel for operands of these types."""
    kernel = _copy_of(launch.kernel)
    types = {name: avals[index].dtype.name for name, index in launch.operands.items()}
    types |= {name: launch.outs[index][1].name for name, index in launch.results.items() if name not in types}
    arguments = {**{name: MockTensor(dtype) for name, dtype in types.items()}, **launch.constants}
    options = {"target": target, **launch.options}
    if not str(options["target"]).startswith(target):
        raise ValueError(f"{launch.kernel.__name__}: the target `{options['target']}` was asked for, and JAX compiles for `{target}`: leave it out; where a program runs is "
                         "JAX's choice")
    try:
        compiled = kernel._launch((1, ), (), {**arguments, **options}, True)
    except Exception as error:
        scalars = [name for name, index in launch.operands.items() if avals[index].shape == ()]
        if scalars and hasattr(error, "add_note"):
            error.add_note(f"note: {_names(scalars)}: the kernel gets the address of an array of rank 0; a Python number is passed by value")
        raise
    for param in compiled._values["params"]:
        name = param["name"]
        if param["written"] and name in launch.operands and name not in launch.results:
            if not any(operand == launch.operands[name] for operand, _ in launch.aliases):
                raise ValueError(f"`{launch.kernel.__name__}` writes `{name}`, which is an input: arrays of JAX do not change; name it in `out_shape`, or give "
                                 f"an output its memory with `input_output_aliases`")
        if not param["written"] and name in launch.results and not any(out == launch.results[name] for _, out in launch.aliases):
            raise ValueError(f"`{launch.kernel.__name__}` never writes `{name}`, which is an output: its elements would be undefined")
    return compiled


def _argument(launch, avals, param):
    """An argument as `_library.add` takes it."""
    name = param["name"]
    aligned = param["signature"].endswith(":16")
    if name in launch.operands:
        index = launch.operands[name]
        return _library.OPERAND, _POINTER, DTYPES[avals[index].dtype.name], aligned, index, 0, name
    if name in launch.results:
        index = launch.results[name]
        return _library.RESULT, _POINTER, DTYPES[launch.outs[index][1].name], aligned, index, 0, name
    value = launch.constants[name] if name in launch.constants else launch.kernel.params[launch.kernel.arg_names.index(name)].default
    if isinstance(value, bool):
        return _library.NUMBER, _BOOL, 0, 0, 0, int(value), name
    if isinstance(value, float):
        return _library.NUMBER, _FLOAT, 0, 0, 0, struct.unpack("<Q", struct.pack("<d", value))[0], name
    return _library.NUMBER, _INT if value < 2**63 else _UINT, 0, 0, 0, value % 2**64, name


def _add(library, launch, avals, compiled):
    """Tells the library of the launch; returns the id."""
    passed = [param for param in compiled._values["params"] if not param["constant"]]
    arguments = [_argument(launch, avals, param) for param in passed]
    threads = launch.options.get("num_threads") or launch.options.get("num_cpu_threads") or 0
    values = compiled._values
    text = repr((compiled.fn.cache_key, values["target"], sorted(values["options"].items()), values["params"], launch.grid, threads, len(avals), len(launch.outs), arguments))
    number = _library.add(library, text, launch.kernel.__name__, compiled.address, launch.grid, threads, len(avals), len(launch.outs), arguments)
    _held.setdefault(number, []).append(compiled)
    return number


def _lower(platform, ctx, *operands, launch, avals):
    library = _library.load()
    compiled = _compiled(launch, ctx.avals_in, platform)
    number = _add(library, launch, ctx.avals_in, compiled)
    signed = number - 2**64 if number >= 2**63 else number
    rule = jax.ffi.ffi_lowering(_library.TARGETS[platform], operand_output_aliases=dict(launch.aliases))
    return rule(ctx, *operands, id=np.int64(signed), kernel=launch.kernel.__name__)


def _refuse_platform(ctx, *operands, launch, avals):
    platforms = getattr(ctx.module_context, "platforms", None)
    raise NotImplementedError(f"nereid.jax.call: `{launch.kernel.__name__}` cannot run on {', '.join(platforms) if platforms else 'this platform'}: kernels run on the "
                              "CPU and on NVIDIA GPUs")


# ---- the primitive

call_p = Primitive("nereid_call")
call_p.multiple_results = True


@functools.lru_cache(maxsize=4096)
def _jitted(launch, compiled):
    """The call outside of a traced function. compiled: the kernel that such a launch gets, one more after a change of its text, of globals or of settings."""
    avals = tuple(jax.core.ShapedArray(shape, dtype) for shape, dtype in launch.outs)
    return jax.jit(lambda *arrays: call_p.bind(*arrays, launch=launch, avals=avals))


def _run(launch, arrays):
    """The results of a call outside of a traced function."""
    platform = next(iter(arrays[0].devices())).platform if arrays else jax.default_backend()
    platform = "cuda" if platform == "gpu" else platform
    run = _jitted(launch, _compiled(launch, arrays, platform) if platform in _library.TARGETS else None)
    if jax.config.jax_disable_jit:  # which is about the user's functions: nothing but a compiled program runs a kernel
        with jax.disable_jit(False):
            return run(*arrays)
    return run(*arrays)


def _varying(launch, arrays):
    """Abstract values of the results that vary over the axes of a mesh as the operands do."""

    def like(*arrays):
        one = sum((jnp.sum(array.astype(jnp.float32)) for array in arrays), jnp.float32(0))
        return [jnp.broadcast_to(one, shape).astype(dtype) for shape, dtype in launch.outs]

    return tuple(jax.make_jaxpr(like)(*arrays).out_avals)


def _batch(arrays, dims, *, launch, avals):
    name = launch.kernel.__name__
    if launch.vmap_method is None:
        raise NotImplementedError(f"{name}: `vmap` cannot batch a kernel: let a dimension of its grid run over the batch, or give `vmap_method=\"sequential\"` to "
                                  "launch it once for each element")
    batched = tuple(jnp.moveaxis(array, dim, 0) for array, dim in zip(arrays, dims) if isinstance(dim, int))

    def one(rows):
        rows = iter(rows)
        return call_p.bind(*[next(rows) if isinstance(dim, int) else array for array, dim in zip(arrays, dims)], launch=launch, avals=avals)

    outs = jax.lax.map(one, batched)
    return outs, [0] * len(outs)


def _refuse_derivative(primals, tangents, *, launch, avals):
    name = launch.kernel.__name__
    if launch.is_differentiated:
        raise NotImplementedError(f"{name}: second derivatives of a kernel are not supported")
    raise NotImplementedError(f"{name}: a call of a kernel has no derivative by itself: make a differentiable function of the kernel with "
                              f"`nereid.jax.autograd({name}, wrt=..., out=..., grid=...)`, or give one with `jax.custom_vjp`")


call_p.def_impl(lambda *arrays, launch, avals: _run(launch, arrays))
call_p.def_abstract_eval(lambda *arrays, launch, avals: list(avals))
batching.primitive_batchers[call_p] = _batch
ad.primitive_jvps[call_p] = _refuse_derivative
mlir.register_lowering(call_p, _refuse_platform)
for _platform in _library.TARGETS:
    mlir.register_lowering(call_p, functools.partial(_lower, _platform), platform=_platform)


def call(kernel, *inputs, out_shape, grid, input_output_aliases=None, vmap_method=None, **arguments):
    """Launches a kernel on arrays of JAX and returns its outputs, in traced functions as well as outside.

        y = nereid.jax.call(add_kernel, x, y, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(nereid.cdiv(n, 1024), ), n=n, BLOCK=1024)

    kernel: a `@jit` function; of one with `autotune` or `heuristics` the function itself, whose constexprs are given like other arguments.
    inputs: values of the kernel's parameters in their order. An array, traced or not, of any rank, reaches the kernel as the address of its first element,
    row-major and contiguous; numbers, known when JAX traces, are specialised as in a launch.
    arguments: further parameters by name; what is no parameter is an option of the compiler (`num_warps`, `num_stages`, `num_threads`, ...).
    out_shape: shape and dtype of what the kernel writes: one `jax.ShapeDtypeStruct` (or anything with `shape` and `dtype`), a list or tuple, or a dict by the
    names of parameters. Outputs without names are the parameters that have no value, in their order. XLA allocates them; they are not cleared.
    grid: a tuple of one to three sizes, or a function of all arguments by name that returns one.
    input_output_aliases: {input: output} that share memory; inputs by position or name, outputs by position or name. The output begins as a
    copy of the input, or takes its place where nothing else needs it. Such an output has no parameter besides that of the input, unless `out_shape` names another one.
    vmap_method: None: `jax.vmap` of the call is an error; "sequential": it launches the kernel once for each element, one after the other.

    Returns an array, or list, tuple or dict of arrays, as `out_shape` is.

    Raises TypeError for values and dtypes that kernels do not take, for traced constexprs and grids, and for missing arguments; ValueError for names that are no
    parameters, outputs that do not fit, a kernel that writes its inputs or does not write an output; NotImplementedError under `vmap` and when it is differentiated
    (`nereid.jax.autograd` makes differentiable functions); CompilationError as launches do, when JAX lowers the function.
    """
    return launched(kernel, inputs, arguments, out_shape, grid, input_output_aliases, vmap_method)


def launched(kernel, inputs, arguments, out_shape, grid, aliases, vmap_method, is_differentiated=False):
    """`call`, with its keywords as a dict. is_differentiated: the call is a part of a function that has a derivative, so that one of its own is not missed."""
    kernel = _kernel_of(kernel)
    if vmap_method not in _VMAP_METHODS:
        raise ValueError(f"`vmap_method` is {vmap_method!r}: expected None or \"sequential\"")
    arrays, launch = _bind(kernel, inputs, arguments, out_shape, grid, aliases, vmap_method, is_differentiated)
    if any(map(_is_traced, arrays)):
        results = call_p.bind(*arrays, launch=launch, avals=_varying(launch, arrays))
    else:
        results = _run(launch, arrays)
    if isinstance(out_shape, dict):
        return dict(zip(out_shape, results))
    if isinstance(out_shape, tuple):
        return tuple(results)
    return list(results) if isinstance(out_shape, list) else results[0]
