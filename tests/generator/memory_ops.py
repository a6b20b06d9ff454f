"""Memory: loads, descriptors, block pointers, atomics. A pointer counts the elements from the beginning of its buffer."""

import dataclasses

import numpy as np

from .dtypes import BOOL, I8, I16, I32, I64, Reject, Value, as_value, cast, exact, is_number, round_float
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


# Tensors in memory seen in blocks of one size: by a descriptor, or by a pointer to a block.

@dataclasses.dataclass
class View:
    """A tensor of `sizes` and `strides` that begins at `pointer`. A block pointer also has the place of its block."""
    pointer: Value
    sizes: tuple
    strides: tuple
    block: tuple
    padding: str
    offsets: tuple = None

    @property
    def type(self):
        return ("view", self.pointer.dtype, self.pointer.buffer, len(self.sizes), self.block, self.padding, self.offsets is None)

    def places(self, offsets, checked=None):
        """Where the elements of the block at `offsets` lie, and which are inside along the dimensions that are checked."""
        places, inside = np.asarray(self.pointer.array), np.ones(self.block, bool)
        rank = len(self.block)
        for axis, (start, size, stride) in enumerate(zip(offsets, self.sizes, self.strides)):
            index = (start + np.arange(self.block[axis])).reshape([-1 if i == axis else 1 for i in range(rank)])
            if checked is None or axis in checked:
                inside = inside & (index >= 0) & (index < size)
            places = places + index * stride
        return np.broadcast_to(places, self.block), inside

    def read(self, machine, offsets, checked=None):
        places, inside = self.places(offsets, checked)
        dtype = self.pointer.dtype
        outside = np.full(self.block, np.nan if self.padding == "nan" else 0).astype(dtype.array)
        return Value(dtype, machine.read(Value(dtype, places, 0.0, self.pointer.buffer), inside, outside))

    def write(self, machine, offsets, value, checked=None):
        places, inside = self.places(offsets, checked)
        dtype = self.pointer.dtype
        array = np.broadcast_to(cast(as_value(value), dtype).array, self.block)
        machine.write(Value(dtype, places, 0.0, self.pointer.buffer), array, inside)


def _whole(values, dtypes=(I32, I64)):
    """Scalar integers as Python's."""
    result = []
    for value in values:
        if not is_number(value) and (value.shape != () or value.dtype not in dtypes):
            raise Reject("a scalar integer")
        result.append(int(value if is_number(value) else value.array))
    return tuple(result)


def _listed(texts):
    return f"[{', '.join(texts)}]"


def _view(args, attrs, rank, offsets=None):
    pointer = args[0]
    if pointer.shape != () or pointer.buffer is None:
        raise Reject("a scalar pointer")
    numbers = _whole(args[1:])
    strides = (*numbers[rank:2 * rank], *((1, ) if offsets is None else ()))
    strides = strides[:rank]
    return View(pointer, numbers[:rank], strides, tuple(attrs["shape"]), attrs.get("padding", ""), offsets)


def _descriptor_text(texts, attrs):
    rank = len(attrs["shape"])
    padding = f', padding_option="{attrs["padding"]}"' if attrs.get("padding") else ""
    return f"tl.make_tensor_descriptor({texts[0]}, {_listed(texts[1:rank + 1])}, {_listed([*texts[rank + 1:], '1'])}, {list(attrs['shape'])}{padding})"


@op("descriptor", _descriptor_text)
def _descriptor(machine, args, attrs):
    """Operands: the pointer, sizes, strides but for the last, which is 1."""
    rank = len(attrs["shape"])
    view = _view(args, attrs, rank)
    size = view.pointer.dtype.memory().itemsize
    if any(s * size % 16 for s in view.strides[:-1]):
        raise Reject("strides of 16 bytes")
    if any(s < 0 for s in view.sizes):
        raise Reject("a negative size")
    if attrs.get("padding") == "nan" and not view.pointer.dtype.is_float:
        raise Reject("NaN is a float")
    return view


@op("described", lambda t, a: f"{t[0]}.load({_listed(t[1:])})" if not a.get("call") else f"tl.load_tensor_descriptor({t[0]}, {_listed(t[1:])})")
def _described(machine, args, attrs):
    """A block read through a descriptor: zero or NaN outside of the tensor."""
    return args[0].read(machine, _whole(args[1:], (I32, )))


@op("describe_store", lambda t, a: f"{t[0]}.store({_listed(t[2:])}, {t[1]})" if not a.get("call") else
    f"tl.store_tensor_descriptor({t[0]}, {_listed(t[2:])}, {t[1]})")
def _describe_store(machine, args, attrs):
    exact(args[1])
    if args[1].shape != args[0].block:
        raise Reject("another block")
    args[0].write(machine, _whole(args[2:], (I32, )), args[1])
    return args[1]


#: Types that descriptors combine in memory, by operation.
DESCRIBED_ATOMICS = {"add": ("int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32"),
                     **dict.fromkeys(("min", "max", "and", "or", "xor"), ("int32", "uint32", "int64", "uint64"))}


@op("describe_atomic", lambda t, a: f"{t[0]}.atomic_{a['name']}({_listed(t[2:])}, {t[1]})")
def _describe_atomic(machine, args, attrs):
    view, value = args[:2]
    exact(value)
    dtype = view.pointer.dtype
    if dtype.name not in DESCRIBED_ATOMICS[attrs["name"]] or value.shape != view.block:
        raise Reject("no such atomic")
    places, inside = view.places(_whole(args[2:], (I32, )))
    value = np.broadcast_to(cast(value, dtype).array, places.shape)
    _accumulate(machine, view.pointer.buffer, dtype, attrs["name"], places.reshape(-1), inside.reshape(-1), [value.reshape(-1)])
    return args[1]


def _rows_of(view, rows, column):
    if len(view.block) != 2 or view.block[0] != 1 or len(rows.shape) != 1 or rows.shape[0] < 8 or rows.dtype not in (I16, I32):
        raise Reject("rows of a matrix")
    column, = _whole([column], (I32, ))
    for row in rows.array:
        yield (int(row), column)


@op("describe_gather", lambda t, a: f"{t[0]}.gather({t[1]}, {t[2]})")
def _describe_gather(machine, args, attrs):
    parts = [args[0].read(machine, place).array for place in _rows_of(*args)]
    return Value(args[0].pointer.dtype, np.concatenate(parts))


@op("describe_scatter", lambda t, a: f"{t[0]}.scatter({t[1]}, {t[2]}, {t[3]})")
def _describe_scatter(machine, args, attrs):
    view, value, rows, column = args
    exact(value)
    places = list(_rows_of(view, rows, column))
    if len(set(places)) != len(places) or value.shape != (len(places), view.block[1]) or value.dtype is not view.pointer.dtype:
        raise Reject("equal rows, or another block")
    for place, row in zip(places, value.array):
        view.write(machine, place, Value(value.dtype, row.reshape(1, -1)))
    return value


@op("block_pointer", lambda t, a: (lambda n: f"tl.make_block_ptr({t[0]}, {_listed(t[1:n + 1])}, {_listed(t[n + 1:2 * n + 1])}, "
                                   f"{_listed(t[2 * n + 1:])}, {list(a['shape'])}, {list(reversed(range(n)))})")(len(a["shape"])))
def _block_pointer(machine, args, attrs):
    """Operands: the pointer, sizes, strides, offsets."""
    rank = len(attrs["shape"])
    offsets = _whole(args[2 * rank + 1:])
    return _view(args, attrs, rank, offsets)


@op("advance", lambda t, a: f"{t[0]}.advance({_listed(t[1:])})" if a.get("member") else f"tl.advance({t[0]}, {_listed(t[1:])})")
def _advance(machine, args, attrs):
    return dataclasses.replace(args[0], offsets=tuple(o + d for o, d in zip(args[0].offsets, _whole(args[1:]))))


def _checked_text(attrs):
    return f"boundary_check={tuple(attrs['checked'])}"


@op("windowed", lambda t, a: f"tl.load({t[0]}" + (f", {_checked_text(a)}, padding_option=\"{a['padding']}\")" if a["checked"] else ")"))
def _windowed(machine, args, attrs):
    """A block read through a block pointer."""
    if attrs["checked"] and attrs["padding"] == "nan" and not args[0].pointer.dtype.is_float:
        raise Reject("NaN is a float")
    view = dataclasses.replace(args[0], padding=attrs["padding"])
    value = view.read(machine, view.offsets, attrs["checked"])
    return cast(value, I8) if value.dtype is BOOL else value     # to block pointers, bools are bytes


@op("windowed_store", lambda t, a: f"tl.store({t[0]}, {t[1]}" + (f", {_checked_text(a)})" if a["checked"] else ")"))
def _windowed_store(machine, args, attrs):
    view, value = args
    exact(value)
    if value.shape != view.block:
        raise Reject("another block")
    view.write(machine, view.offsets, value, attrs["checked"])
    return value


#: Loads without `other` whose missing elements are replaced at once.
@op("load_or", lambda t, a: f"tl.where({t[1]}, {_memory_text('load')(t[:2], a)}, {t[2]})")
def _load_or(machine, args, attrs):
    return _load(machine, [args[0], args[1], cast(args[2], args[0].dtype)], {**attrs, "masked": True, "other": True})


#: Operands besides the pointer, where it is not one.
_OPERANDS = {"cas": 2, "load": 0}


def _atomic_emit(texts, attrs):
    name = attrs["name"]
    count = 1 + _OPERANDS.get(name, 1)
    parts = texts[:count] + ([f"mask={texts[count]}"] if attrs.get("masked") else [])
    parts += [f'{key}="{attrs[key]}"' for key in ("sem", "scope") if attrs.get(key)]
    return f"tl.atomic_{name}({', '.join(parts)})"


_ATOMIC = {
    "add": lambda old, new: old + new, "max": lambda old, new: np.fmax(old, new), "min": lambda old, new: np.fmin(old, new),
    "and": lambda old, new: old & new, "or": lambda old, new: old | new, "xor": lambda old, new: old ^ new,
    "xchg": lambda old, new: new, "store": lambda old, new: new,
}


def atomic_dtypes(name):
    """The element types of an atomic operation."""
    if name in ("load", "store"):
        return ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64")
    more = {"add": ("float16", "bfloat16", "float32", "float64"), "and": (), "or": (), "xor": ()}
    return ("int32", "uint32", "int64", "uint64") + more.get(name, ("float32", "float64"))


def _exact_sum(before, value, dtype):
    """Sums that are exact with any order: multiples of 1/8 below 2^(digits - 4)."""
    total = np.asarray(before, np.float64) + np.asarray(value, np.float64)
    after = round_float(total, dtype)
    if np.any((np.asarray(after, np.float64) != total) | ~(np.abs(total) * 8 <= 2.0 ** (dtype.digits - 1)) | (total * 8 != np.floor(total * 8))):
        raise Reject("an inexact sum")
    return after


def _accumulate(machine, buffer, dtype, name, where, use, flat):
    """Combines elements with memory one after the other; the old values."""
    memory = machine.values(buffer)
    old = np.zeros(where.shape, dtype.array)
    if np.any((where[use] < 0) | (where[use] >= memory.size)):
        raise Reject("out of bounds")
    if dtype.is_float and any(np.any(np.isnan(v)) or np.any((v == 0) & np.signbit(v)) for v in flat):
        raise Reject("NaN or -0.0 in an atomic")
    lanes = np.nonzero(use)[0]
    with np.errstate(all="ignore"):
        if name == "add" and dtype.is_float and len(np.unique(where[lanes])) == len(lanes):    # at once: blocks have thousands of elements
            old[lanes] = memory[where[lanes]]
            memory[where[lanes]] = _exact_sum(old[lanes], flat[0][lanes], dtype)
            lanes = ()
        for lane in lanes:
            before = memory[where[lane]]
            old[lane] = before
            if name == "load":
                after = before
            elif name == "cas":
                after = flat[1][lane] if before == flat[0][lane] else before
            else:
                after = _ATOMIC[name](before, flat[0][lane])
            if name == "add" and dtype.is_float:
                after = _exact_sum(before, flat[0][lane], dtype)
            memory[where[lane]] = after
    machine.write_values(buffer, memory)
    return old


@op("atomic", _atomic_emit)
def _atomic(machine, args, attrs):
    """Elements are taken one after the other; the old values are given only where no address occurs twice (`unique`)."""
    pointer, name = args[0], attrs["name"]
    dtype = pointer.dtype
    if dtype.name not in atomic_dtypes(name if name != "cas" else "xchg"):
        raise Reject("no such atomic")
    values = [cast(as_value(x), dtype) for x in args[1:1 + _OPERANDS.get(name, 1)]]
    exact(*values)
    mask = _mask_of(args, len(args) - 1, attrs, pointer.shape)
    where = np.broadcast_to(pointer.array, pointer.shape).reshape(-1)
    flat = [np.broadcast_to(v.array, pointer.shape).reshape(-1) for v in values]
    use = mask.reshape(-1)
    if attrs.get("unique"):
        if len(np.unique(where[use])) != np.count_nonzero(use) or not np.all(use):
            raise Reject("an address occurs twice")
    elif name in ("xchg", "cas", "store"):
        raise Reject("an order matters")
    old = _accumulate(machine, pointer.buffer, dtype, name, where, use, flat)
    return Value(dtype, old.reshape(pointer.shape))
