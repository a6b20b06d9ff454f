"""Memory: loads, descriptors, atomics. A pointer counts the elements from the beginning of its buffer."""

import numpy as np

from .dtypes import BOOL, I32, Reject, Value, as_value, cast, exact, is_number, round_float
from .ops import op


@op("addptr", lambda t, a: f"({t[0]} - {t[1]})" if a.get("minus") else f"({t[0]} + {t[1]})")
def _addptr(machine, args, attrs):
    pointer, offset = args
    if is_number(offset):
        delta = np.asarray(offset, np.int64)
    else:
        if offset.dtype.is_float or offset.dtype is BOOL:
            raise Reject("an integer offset")
        delta = offset.array.astype(np.int64)
        if attrs.get("minus") and not offset.dtype.signed:
            raise Reject("the negative of an unsigned offset")
        if attrs.get("minus") and np.any(offset.array == offset.dtype.minimum):
            raise Reject("no such negative")
    return Value(pointer.dtype, np.asarray(pointer.array + (-delta if attrs.get("minus") else delta)), 0.0, pointer.buffer)


def _memory_text(name):
    def emit(texts, attrs):
        count = {"load": 1, "store": 2}[name]
        parts = texts[:count]
        rest = texts[count:]
        if attrs.get("masked"):
            parts.append(f"mask={rest.pop(0)}")
        if attrs.get("other"):
            parts.append(f"other={rest.pop(0)}")
        parts += [f'{key}="{attrs[key]}"' for key in ("cache_modifier", "eviction_policy") if attrs.get(key)]
        if attrs.get("volatile"):
            parts.append("volatile=True")
        return f"tl.{name}({', '.join(parts)})"
    return emit


def _mask_of(args, index, attrs, shape):
    if not attrs.get("masked"):
        return np.ones(shape, bool)
    mask = args[index]
    if isinstance(mask, bool):
        return np.full(shape, mask)
    if mask.dtype is not BOOL:
        raise Reject("a mask is a bool")
    return np.broadcast_to(mask.array, shape)


@op("load", _memory_text("load"))
def _load(machine, args, attrs):
    pointer = args[0]
    if attrs.get("masked") and not isinstance(args[1], bool) and len(args[1].shape) > len(pointer.shape):
        raise Reject("the mask is larger than the pointers")
    try:
        mask = _mask_of(args, 1, attrs, pointer.shape)
    except ValueError as error:
        raise Reject("shapes differ") from error
    if attrs.get("other"):
        other = cast(as_value(args[2]), pointer.dtype)
        other = np.broadcast_to(other.array, pointer.shape)
    elif not np.all(mask):
        raise Reject("elements without a value")
    else:
        other = np.zeros(pointer.shape, pointer.dtype.array)
    return Value(pointer.dtype, machine.read(pointer, mask, other))


def _described_text(texts, attrs):
    shape, strides, block = (list(attrs[key]) for key in ("sizes", "strides", "shape"))
    return f"tl.make_tensor_descriptor({texts[0]}, {shape}, {strides}, {block}).load([{', '.join(texts[1:])}])"


@op("described", _described_text)
def _described(machine, args, attrs):
    """A block read through a descriptor: zero outside of the tensor."""
    pointer, offsets = args[0], args[1:]
    shape = attrs["shape"]
    places, inside = np.asarray(pointer.array), np.ones(shape, bool)
    for axis, (offset, size, stride) in enumerate(zip(offsets, attrs["sizes"], attrs["strides"])):
        start = offset if is_number(offset) else int(offset.array)
        if not is_number(offset) and (offset.shape != () or offset.dtype is not I32):
            raise Reject("an int32 offset")
        index = (start + np.arange(shape[axis])).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        inside = inside & (index >= 0) & (index < size)
        places = places + index * stride
    places = np.broadcast_to(places, shape)
    block = Value(pointer.dtype, places, 0.0, pointer.buffer)
    return Value(pointer.dtype, machine.read(block, inside, np.zeros(shape, pointer.dtype.array)))


#: Loads without `other` whose missing elements are replaced at once.
@op("load_or", lambda t, a: f"tl.where({t[1]}, {_memory_text('load')(t[:2], a)}, {t[2]})")
def _load_or(machine, args, attrs):
    return _load(machine, [args[0], args[1], cast(args[2], args[0].dtype)], {**attrs, "masked": True, "other": True})


def _atomic_emit(texts, attrs):
    name = attrs["name"]
    count = 3 if name == "cas" else 2
    parts = texts[:count] + ([f"mask={texts[count]}"] if attrs.get("masked") else [])
    parts += [f'{key}="{attrs[key]}"' for key in ("sem", "scope") if attrs.get(key)]
    return f"tl.atomic_{name}({', '.join(parts)})"


_ATOMIC = {
    "add": lambda old, new: old + new, "max": lambda old, new: np.fmax(old, new), "min": lambda old, new: np.fmin(old, new),
    "and": lambda old, new: old & new, "or": lambda old, new: old | new, "xor": lambda old, new: old ^ new,
    "xchg": lambda old, new: new,
}


def atomic_dtypes(name):
    """The element types of an atomic operation."""
    more = {"add": ("float16", "bfloat16", "float32", "float64"), "and": (), "or": (), "xor": ()}
    return ("int32", "uint32", "int64", "uint64") + more.get(name, ("float32", "float64"))


@op("atomic", _atomic_emit)
def _atomic(machine, args, attrs):
    """Elements are taken one after the other; the old values are given only where no address occurs twice (`unique`)."""
    pointer, name = args[0], attrs["name"]
    dtype = pointer.dtype
    if dtype.name not in atomic_dtypes(name if name != "cas" else "xchg"):
        raise Reject("no such atomic")
    values = [cast(as_value(x), dtype) for x in args[1:(3 if name == "cas" else 2)]]
    exact(*values)
    mask = _mask_of(args, len(args) - 1, attrs, pointer.shape)
    where = np.broadcast_to(pointer.array, pointer.shape).reshape(-1)
    flat = [np.broadcast_to(v.array, pointer.shape).reshape(-1) for v in values]
    use = mask.reshape(-1)
    if attrs.get("unique"):
        if len(np.unique(where[use])) != np.count_nonzero(use) or not np.all(use):
            raise Reject("an address occurs twice")
    elif name in ("xchg", "cas"):
        raise Reject("an order matters")
    memory = machine.values(pointer.buffer)
    old = np.zeros(where.shape, dtype.array)
    if np.any((where[use] < 0) | (where[use] >= memory.size)):
        raise Reject("out of bounds")
    if dtype.is_float and any(np.any(np.isnan(v)) or np.any((v == 0) & np.signbit(v)) for v in flat):
        raise Reject("NaN or -0.0 in an atomic")
    with np.errstate(all="ignore"):
        for lane in np.nonzero(use)[0]:
            before = memory[where[lane]]
            old[lane] = before
            if name == "cas":
                after = flat[1][lane] if before == flat[0][lane] else before
            else:
                after = _ATOMIC[name](before, flat[0][lane])
            if name == "add" and dtype.is_float:
                total = float(before) + float(flat[0][lane])
                after = round_float(total, dtype)
                # Exact with any order: multiples of 1/8 below 2^(digits - 4).
                if float(after) != total or abs(total) * 8 > 2.0 ** (dtype.digits - 1) or total * 8 != int(total * 8):
                    raise Reject("an inexact sum")
            memory[where[lane]] = after
    machine.write_values(pointer.buffer, memory)
    return Value(dtype, old.reshape(pointer.shape))
