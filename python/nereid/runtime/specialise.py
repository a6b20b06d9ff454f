"""The types that a parameter of a kernel accepts, and the specialisation of an argument, as Python values.

Launches do not come here: the extension specialises for them (src/runtime/specialise.cpp). This is the same for programs that ask:
signatures, attributes and keys in Triton's form, from `create_function_from_signature` and `native_specialize_impl`.
"""

from .. import _names_later, _native
from ..language import core

_HEAP_TYPE = 1 << 9  # of `type.__flags__`: a class made by Python code


def native_specialize_impl(backend, arg, is_const=False, specialize_value=True, align=True):
    """An argument as (type, fact): `("i32", "D")`, `("constexpr", 1)`; a tuple as a pair of tuples. "D": divisible by 16.

    Raises TypeError and OverflowError for what cannot be an argument.
    """
    from .._utils import canonicalize_ptr_dtype, tuple_of
    if arg is None:
        return "constexpr", None
    if isinstance(arg, bool):
        return "u1", None
    if isinstance(arg, int):
        return _specialize_int(arg, specialize_value, align)
    if isinstance(arg, float):
        return "fp32", None
    if isinstance(arg, (tuple, core.tuple)):
        parts = [native_specialize_impl(backend, item) for item in arg]
        return tuple_of(type(arg), [part[0] for part in parts]), tuple_of(type(arg), [part[1] for part in parts])
    if isinstance(arg, core.constexpr):
        return "constexpr", arg
    if hasattr(arg, "cache_key") and hasattr(arg, "arg_names"):
        return "constexpr", arg.cache_key
    if all(hasattr(arg, name) for name in ("base", "block_shape", "strides")):
        dtype = canonicalize_ptr_dtype(arg.base.dtype, False)[1:]
        return f"tensordesc<{dtype}{list(arg.block_shape)}>", None
    if hasattr(arg, "data_ptr"):
        fact = None if not specialize_value else "D" if align and arg.data_ptr() % 16 == 0 else ""
        return canonicalize_ptr_dtype(arg.dtype, is_const), fact
    if type(arg).__name__ == "dtype" and type(arg).__module__ == "torch":
        return canonicalize_ptr_dtype(arg, is_const), "D" if specialize_value and align else None
    if found := _native.pointer(arg):  # arrays of NumPy and others, which Triton does not take
        return f"{'*k' if is_const else '*'}{found[0]}", None if not specialize_value else "D" if align and found[1] % 16 == 0 else ""
    raise TypeError(f"failed to specialize argument of type: {_type_name(arg)}")


def _type_name(arg):
    cls = type(arg)
    is_of_python = cls.__flags__ & _HEAP_TYPE or cls.__module__ == "builtins"
    return cls.__name__ if is_of_python else f"{cls.__module__}.{cls.__name__}"


def _specialize_int(arg, specialize_value, align):
    if arg == 1 and specialize_value:
        return "constexpr", 1
    for name, low, high in (("i32", -2**31, 2**31), ("i64", -2**63, 2**63), ("u64", 0, 2**64)):
        if low <= arg < high:
            break
    else:
        raise OverflowError("integer to be specialized too large to represent")
    return name, None if not specialize_value else "D" if align and arg % 16 == 0 else ""


def mangle_type(arg, specialize=False):
    """The type of an argument in signatures: "*fp32", "i32"; with `specialize` also "constexpr" for 1."""
    return native_specialize_impl(None, arg, False, specialize, specialize)[0]


def specialize_argument(param, backend, value):
    """An argument of a parameter as (type, fact)."""
    if param.is_constexpr:
        return "constexpr", value
    forced = param.annotation_type
    if forced and (forced[:2] in ("fp", "bf") or forced in ("u1", "i1")):
        return forced, None
    found = native_specialize_impl(backend, value, param.is_const, not param.do_not_specialize,
                                   not param.do_not_specialize_on_alignment)
    return (forced, found[1]) if forced else found


def create_function_from_signature(sig, kparams, backend):
    """A function `(*args, **kwargs) -> (arguments by name, [(type, fact), ...], keywords that are no parameters)`."""
    import inspect
    # A function of that very signature binds, and complains, as Python does.
    scope = {f"_default_{name}": param.default for name, param in sig.parameters.items()}
    parameters = [name if param.default is inspect.Parameter.empty else f"{name}=_default_{name}"
                  for name, param in sig.parameters.items()]
    exec(f"def dynamic_func({', '.join([*parameters, '**options'])}):\n"
         f"    return {{{', '.join(f'{name!r}: {name}' for name in sig.parameters)}}}, options", scope)
    bind = scope["dynamic_func"]

    def dynamic_func(*args, **kwargs):
        arguments, options = bind(*args, **kwargs)
        return arguments, [specialize_argument(param, backend, arguments[param.name]) for param in kparams], options

    return dynamic_func


def _identified(value):
    """Functions are told apart by their keys, everything else by its text."""
    if isinstance(value, (tuple, list)):
        from .._utils import tuple_of
        return tuple_of(type(value), [_identified(item) for item in value])
    return getattr(value, "cache_key", value) if callable(value) else value


def unprefixed(options):
    """Options of a launch, a dict, by their own names: `nereid_target` is `target`."""
    return {name.removeprefix("nereid_"): value for name, value in options.items()}


def compute_cache_key(kernel_key_cache, specialization, options):
    """The key of a kernel among those of its function, as text."""
    key = (tuple(specialization), str(options))
    try:
        known = kernel_key_cache.get(key)
    except TypeError:  # constants that have no hash
        key, known = None, None
    if known is None:
        known = str([_identified(item) for item in specialization]) + str(options)
        if key is not None:
            kernel_key_cache[key] = known
    return known


__getattr__, __dir__ = _names_later(globals(), {"KernelParam": "nereid._jit", "type_canonicalisation_dict": "nereid._utils"})


__all__ = [
    "KernelParam", "compute_cache_key", "create_function_from_signature", "mangle_type", "native_specialize_impl",
    "type_canonicalisation_dict"
]
