"""Operators of ATen that copy: whole tensors, several into one, one several times, parts into others."""

import torch

from .._declare import Native, declare
from .._launch import launch
from .._moves import bits, clear, cloned, fill, flipped, foreign, movable, move, number, with_same_strides
from .._promotion import result_type
from .._shapes import conflict
from .._strided import cdiv, collapse, product, programs_wanted, step_up, units
from ..kernels import moves as kernels
from ._computed import Computed
from ._outputs import ready
from ._plane_tiles import shuffle_pixels
from ._planes import by_lines

OF_ONE = ("functional", "out")


def _memory_format(values):
    found = values.get("memory_format")
    return torch.preserve_format if found is None else found


def _clone(values, outs):
    x = values["self"]
    if (found := foreign(x)) is not None:
        return found
    result = torch.empty_like(x, memory_format=_memory_format(values))
    move(result, x)
    return result


def _to_copy(values, outs):
    x, dtype, device = values["self"], values["dtype"], values["device"]
    dtype = x.dtype if dtype is None else dtype
    if (found := foreign(x)) is not None:
        return found
    if values["layout"] not in (None, torch.strided) or values["pin_memory"] or device is not None and torch.device(device) != x.device:
        return Native("device")
    if not movable(x.dtype, dtype):
        return Native("dtype")
    result = torch.empty_like(x, dtype=dtype, memory_format=_memory_format(values))
    move(result, x)
    return result


declare(Computed(name="clone", compute=_clone, kinds=("functional", )))
declare(Computed(name="_to_copy", compute=_to_copy, kinds=("functional", )))


# Several into one

#: Tensors that one launch copies side by side.
_AT_ONCE = 8
#: Elements of a tensor, in the mean, from which on CPUs copy one by one.
_LARGE = 8192
#: Elements of rows that a program of a CPU moves.
_AT_A_TIME = 8192


def _common_format(tensors):
    """The memory format of what tensors are put together to: theirs if they agree."""
    formats = {torch._prims_common.suggest_memory_format(tensor) for tensor in tensors}
    return formats.pop() if len(formats) == 1 else torch.contiguous_format


def _joined(tensors, dim, shape, outs, dtype):
    """Tensors of any dtypes one after the other along `dim`; `shape`: of the result."""
    if (found := foreign(*tensors, *(outs or ()))) is not None:
        return found
    if not all(movable(tensor.dtype, dtype) for tensor in tensors):
        return Native("dtype")
    if outs is not None and outs[0].dtype != dtype:
        return Native("dtype of the output")
    filled = [tensor for tensor in tensors if tensor.numel()]
    if outs is None:
        result = torch.empty(shape, dtype=dtype, device=tensors[0].device, memory_format=_common_format(tensors))
    else:
        result = outs[0]
        if any(tensor.data_ptr() == result.data_ptr() for tensor in filled):
            return Native("overlap")
        new = tuple(result.shape) != tuple(shape)
        if (found := ready(outs, [(shape, dtype)], tensors)) is not None:
            return found
        if new:
            result.resize_(shape, memory_format=_common_format(tensors))
    # On CPUs one copy of many elements after the other is faster than tiles of all of them, row after row faster still.
    small = result.device.type != "cpu" or result.numel() < _LARGE * len(filled) or product(shape[:dim]) >= 8
    if small and len(filled) > 1 and result.is_contiguous() and all(tensor.dtype == dtype and tensor.is_contiguous() for tensor in filled):
        _side_by_side(result, filled, dim)
        return result
    start = 0
    for tensor in filled:
        move(result.narrow(dim, start, tensor.shape[dim]), tensor)
        start += tensor.shape[dim]
    return result


def _side_by_side(result, tensors, dim):
    """Contiguous tensors of one dtype, as matrices with as many rows as there are places before `dim`."""
    rows = product(result.shape[:dim])
    result, tensors = bits(result), [bits(tensor) for tensor in tensors]
    widths = [tensor.numel() // rows for tensor in tensors]
    total, start = result.numel() // rows, 0
    for first in range(0, len(tensors), _AT_ONCE):
        some = tuple(widths[first:first + _AT_ONCE])
        starts = []
        for width in some:
            starts.append(start)
            start += width
        most = max(some)
        if result.device.type == "cpu":
            share = max(1, _AT_A_TIME // sum(some))
            launch(kernels.cat_lines, cdiv(rows, share), result.device, {
                "out": result, "ins": tuple(tensors[first:first + _AT_ONCE]), "widths": some, "starts": tuple(starts), "rows": rows, "total": total, "share": share
            }, {"BLOCK": step_up(most, (16, 64, 256, 1024, 4096))}, divisible=("widths", "starts", "total"))
            continue
        columns = step_up(most, (4, 32, 256, 1024))
        launch(kernels.cat_rows, (cdiv(rows, 1024 // columns) * cdiv(most, columns), len(some)), result.device, {
            "out": result, "ins": tuple(tensors[first:first + _AT_ONCE]), "widths": some, "starts": tuple(starts), "rows": rows, "total": total, "most": most
        }, {"BR": 1024 // columns, "BC": columns}, divisible=("widths", "starts", "total"))


def _cat(values, outs):
    tensors, dim = values["tensors"], values["dim"]
    if not tensors:
        return Native("no tensor")
    dtype = result_type(tensors)
    counted = [tensor for tensor in tensors if tensor.shape != (0, )]  # tensors (0,) may stand among others
    if not counted or any(not tensor.dim() for tensor in counted):
        return Native("shapes")
    first = counted[0]
    if not -first.dim() <= dim < first.dim():
        return Native("dimensions")
    dim %= first.dim()
    for tensor in counted:
        if tensor.dim() != first.dim() or any(a != b for d, (a, b) in enumerate(zip(tensor.shape, first.shape)) if d != dim):
            return Native("shapes")
    shape = [*first.shape]
    shape[dim] = sum(tensor.shape[dim] for tensor in counted)
    if any(tensor.device != first.device for tensor in tensors):
        return Native("devices")
    return _joined(counted, dim, shape, outs, dtype)


def _stack(values, outs):
    tensors, dim = values["tensors"], values["dim"]
    if not tensors:
        return Native("no tensor")
    rank = tensors[0].dim() + 1
    if not -rank <= dim < rank or any(tensor.shape != tensors[0].shape for tensor in tensors):
        return Native("shapes")
    dim %= rank
    shape = [*tensors[0].shape]
    shape.insert(dim, len(tensors))
    return _joined([tensor.unsqueeze(dim) for tensor in tensors], dim, shape, outs, result_type(tensors))


declare(Computed(name="cat", compute=_cat, arguments=("tensors", "dim"), kinds=OF_ONE))
declare(Computed(name="stack", compute=_stack, kinds=OF_ONE))
declare(Computed(name="_stack", compute=_stack, kinds=OF_ONE))  # what `stack` called once


# One several times, or in another order


def _repeat(values, outs):
    x, repeats = values["self"], list(values["repeats"])
    if len(repeats) < x.dim() or any(count < 0 for count in repeats):
        return Native("shapes")
    if (found := foreign(x)) is not None:
        return found
    sizes = (1, ) * (len(repeats) - x.dim()) + tuple(x.shape)
    result = torch.empty([count * size for count, size in zip(repeats, sizes)], dtype=x.dtype, device=x.device)
    if result.numel():
        pairs = [item for pair in zip(repeats, sizes) for item in pair]
        move(result.view(pairs), x.reshape([item for size in sizes for item in (1, size)]) if x.is_contiguous() else x.as_strided(
            [item for size in sizes for item in (1, size)], [item for stride in (0, ) * (len(repeats) - x.dim()) + x.stride() for item in (0, stride)], x.storage_offset()))
    return result


def _flip(values, outs):
    """The kernel reads with negative strides."""
    x, dims = values["self"], values["dims"]
    places = max(x.dim(), 1)
    if any(not -places <= d < places for d in dims) or len({d % places for d in dims}) != len(dims) or x.element_size() > 8:
        return Native("dimensions")
    if (found := foreign(x)) is not None:
        return found
    result = torch.empty_like(x)
    if x.numel():
        flipped(result, x, {d % places for d in dims if x.dim()})
    return result


def _roll(values, outs):
    x, shifts, dims = values["self"], list(values["shifts"]), list(values["dims"])
    if (found := foreign(x)) is not None:
        return found
    if not x.numel() or not shifts or not x.dim():
        return Native("empty")
    if not dims and len(shifts) == 1:
        x, dims, shape = x.reshape(-1) if x.is_contiguous() else cloned(x, True).view(-1), [0], x.shape
    elif len(dims) != len(shifts) or any(not -x.dim() <= d < x.dim() for d in dims) or len({d % x.dim() for d in dims}) != len(dims):
        return Native("dimensions")
    else:
        shape = None
    result = torch.empty(x.shape, dtype=x.dtype, device=x.device,
                         memory_format=torch._prims_common.suggest_memory_format(x) if x.device.type == "cpu" else torch.contiguous_format)
    parts = [(result, x)]
    for shift, d in zip(shifts, dims):
        d %= x.dim()
        size = x.shape[d]
        shift %= size
        if shift:
            parts = [pair for to, source in parts for pair in ((to.narrow(d, 0, shift), source.narrow(d, size - shift, shift)),
                                                               (to.narrow(d, shift, size - shift), source.narrow(d, 0, size - shift)))]
    for to, source in parts:
        move(to, source)
    return result if shape is None else result.view(shape)


#: Rows of an item, of which programs of a CPU pad several.
_ROWS = 64
_NARROW = 2**31 - 2048


def _pad_planes(result, x, value, inner):
    """Pads on a CPU. result: dense; inner: (start in `result`, start in `x`, number of elements, at least 1) by dimension. False where the kernel does not take `x`."""
    order = sorted(range(x.dim()), key=lambda d: -result.stride(d))
    for d, (_, first, count) in enumerate(inner):
        x = x.narrow(d, first, count)
    # [size, size in `x`, stride of `x`, start], neighbours merged where the inner one is not padded.
    dims = []
    for d in order:
        size, count, stride, start = result.shape[d], x.shape[d], x.stride(d), inner[d][0]
        if dims and size == count and (dims[-1][2] == stride * size or dims[-1][0] == 1):
            size, count, start = (number * size for number in (dims[-1][0], dims[-1][1], dims[-1][3]))
            dims.pop()
        dims.append((size, count, stride, start))
    *outer, (rows, in_rows, row_stride, row_start), (width, count, stride, start) = [(1, 1, 0, 0), *dims]
    if stride != 1 and count > 1 or width > _NARROW:
        return False
    if value == 0 and str(value) != "-0.0":
        result, x, value = bits(result), bits(x), 0
    elif not isinstance(value, float):
        result, x = bits(result), bits(x)
    outer = outer if len(dims) > 2 else []
    items = product([size for size, *_ in outer]) * cdiv(in_rows, _ROWS)
    share = cdiv(items, programs_wanted(x.device))
    sizes, counts, strides, starts = zip(*outer) if outer else ((), (), (), ())
    launch(kernels.padded_planes, cdiv(items, share), x.device, {
        "out": result, "x": x, "value": value, "outer": sizes, "in_outer": counts, "in_strides": strides, "outer_starts": starts, "rows": rows, "in_rows": in_rows, "row_start": row_start,
        "row_stride": row_stride, "width": width, "count": count, "start": start, "items": items, "part": _ROWS, "share": share
    }, {"BR": 8, "BC": step_up(width, (16, 32, 64, 128, 256, 512, 1024))}, {"width": "i32", "count": "i32", "start": "i32"})
    return True


def _pad(values, outs):
    x, pad = values["self"], list(values["pad"])
    if len(pad) % 2 or len(pad) > 2 * x.dim():
        return Native("padding")
    if (found := foreign(x)) is not None:
        return found
    value = values["value"]
    if isinstance(value, float) and value.is_integer() and not x.is_floating_point() and not x.is_complex() and x.dtype is not torch.bool:
        value = int(value)  # as models pad labels: F.pad gives a float
    value = number(value, x.dtype)
    if type(value) is Native:
        return value
    starts, shape = [0] * x.dim(), [*x.shape]
    for i in range(len(pad) // 2):
        d = x.dim() - 1 - i
        starts[d] = pad[2 * i]
        if max(-pad[2 * i], 0) + max(-pad[2 * i + 1], 0) > shape[d]:
            return Native("padding")
        shape[d] += pad[2 * i] + pad[2 * i + 1]
    if any(size < 0 for size in shape):
        return Native("padding")
    if all(size <= 0 for size in pad):  # a part is copied, with the strides that a clone has
        for d, (start, size) in enumerate(zip(starts, shape)):
            x = x.narrow(d, -start, size)
        result = torch.empty_like(x)
        move(result, x)
        return result
    result = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch._prims_common.suggest_memory_format(x))
    if not result.numel():
        return result
    cpu = x.device.type == "cpu"
    if cpu or not result.is_contiguous() or x.element_size() > 8:
        inner = [(max(start, 0), max(-start, 0), min(size - max(start, 0), old - max(-start, 0))) for start, size, old in zip(starts, shape, x.shape)]
        some = all(count > 0 for _, _, count in inner)
        if cpu and some and x.dim() and x.element_size() <= 8 and _pad_planes(result, x, value, inner):
            return result
        fill(result, value)
        if some:
            to, source = result, x
            for d, (at, first, count) in enumerate(inner):
                to, source = to.narrow(d, at, count), source.narrow(d, first, count)
            move(to, source)
        return result
    to, source = (result, x) if isinstance(value, float) else (bits(result), bits(x))
    columns = step_up(shape[-1], (4, 32, 256, 1024))
    rows = result.numel() // shape[-1]
    launch(kernels.padded, cdiv(rows, 1024 // columns) * cdiv(shape[-1], columns), x.device, {
        "out": to, "x": source, "value": value, "sizes": tuple(shape), "in_sizes": tuple(x.shape), "in_strides": x.stride(), "starts": tuple(starts), "rows": rows
    }, {"UNIT": x.stride(-1) == 1, "BR": 1024 // columns, "BC": columns})
    return result


declare(Computed(name="repeat", compute=_repeat, kinds=("functional", )))
declare(Computed(name="flip", compute=_flip, kinds=("functional", )))
declare(Computed(name="roll", compute=_roll, kinds=("functional", )))
declare(Computed(name="constant_pad_nd", compute=_pad, kinds=("functional", )))


# Triangles


def _triangle(upper):

    def compute(values, outs):
        x, diagonal = values["self"], values["diagonal"]
        if (found := foreign(x, *(outs or ()))) is not None:
            return found
        if x.dim() < 2 or x.element_size() > 8:
            return Native("shapes")
        if outs is None:
            outs = [torch.empty(x.shape, dtype=x.dtype, device=x.device)]
        elif (found := ready(outs, [(x.shape, x.dtype)], (x, ))) is not None:
            return found
        result = outs[0]
        if not x.numel():
            return result
        rows, columns = x.shape[-2:]
        batch = collapse(x.shape[:-2], [(to, source) for to, source in zip(result.stride(), x.stride())][:-2]) if x.dim() > 2 else [(1, (0, 0))]
        count = product(size for size, _ in batch)
        if count > 65535 and x.device.type != "cpu":
            return Native("many matrices")
        arguments = {
            "out": bits(result), "x": bits(x), "rows": rows, "columns": columns, "outer": tuple([size for size, _ in batch]),
            "out_strides": (*(strides[0] for _, strides in batch), *result.stride()[-2:]), "in_strides": (*(strides[1] for _, strides in batch), *x.stride()[-2:]),
            "diagonal": diagonal
        }
        constants = {"UPPER": upper, "UNIT": units([result.stride(-1), x.stride(-1)])}
        if x.device.type == "cpu":
            share = max(1, _AT_A_TIME // columns)
            launch(kernels.triangle_lines, (cdiv(rows, share), count), x.device, arguments | {"share": share}, constants | {
                "BLOCK": step_up(columns, (16, 64, 256, 1024, 4096)), "MIXED": 64 // x.element_size()},
                   divisible=("columns", "out_strides", "in_strides"))
            return result
        block = (1, 1024) if rows == 1 else (4, 256) if columns >= 256 else (32, 32)
        launch(kernels.triangle, (cdiv(rows, block[0]) * cdiv(columns, block[1]), count), x.device, arguments, constants | {"BR": block[0], "BC": block[1]},
               divisible=("columns", "out_strides", "in_strides"))
        return result

    return compute


declare(Computed(name="tril", compute=_triangle(False)))
declare(Computed(name="triu", compute=_triangle(True)))


# Parts of others


def _dim(dim, x):
    """A dimension that is not negative, or None where ATen has to complain."""
    return dim % x.dim() if -x.dim() <= dim < x.dim() else None


def _selected(tensor, values):
    dim = _dim(values["dim"], tensor)
    if dim is None or not -tensor.shape[dim] <= values["index"] < tensor.shape[dim]:
        return None
    return tensor.select(dim, values["index"])


def _sliced(tensor, values):
    dim = _dim(values["dim"], tensor)
    if dim is None or values["step"] <= 0:
        return None
    return tensor[(slice(None), ) * dim + (slice(values["start"], values["end"], values["step"]), )]


def _on_diagonal(tensor, values):
    one, two = _dim(values["dim1"], tensor), _dim(values["dim2"], tensor)
    return None if one is None or two is None or one == two else tensor.diagonal(values["offset"], one, two)


def _scattered(part):
    """`self` with `src` in the part of it."""

    def compute(values, outs):
        x, source = values["self"], values["src"]
        if (found := foreign(x, source)) is not None:
            return found
        where = part(x, values)
        if where is None or where.shape != source.shape or not movable(source.dtype, x.dtype):
            return Native("shapes")
        result = with_same_strides(x)
        if type(result) is not Native:
            move(part(result, values), source)
        return result

    return compute


def _gradient(part):
    """Zeros of the shape `input_sizes`, and in a part of them the gradient."""

    def compute(values, outs):
        gradient = values["grad_output"]
        if (found := foreign(gradient)) is not None:
            return found
        result = torch.empty(list(values["input_sizes"]), dtype=gradient.dtype, device=gradient.device)
        where = part(result, values)
        if where is None or where.shape != gradient.shape:
            return Native("shapes")
        clear(result)
        move(where, gradient)
        return result

    return compute


for _name, _part in {"select": _selected, "slice": _sliced, "diagonal": _on_diagonal}.items():
    declare(Computed(name=f"{_name}_scatter", compute=_scattered(_part), kinds=("functional", )))
    declare(Computed(name=f"{_name}_backward", compute=_gradient(_part), kinds=("functional", )))


def _diagonals(values, outs):
    x, offset = values["self"], values["offset"]
    if (found := foreign(x)) is not None:
        return found
    rank = x.dim() + 1
    one, two = values["dim1"], values["dim2"]
    if not x.dim() or not -rank <= one < rank or not -rank <= two < rank or one % rank == two % rank:
        return Native("dimensions")
    one, two = one % rank, two % rank
    shape = [*x.shape[:-1]]
    for d in sorted((one, two)):
        shape.insert(d, x.shape[-1] + abs(offset))
    result = torch.empty(shape, dtype=x.dtype, device=x.device)
    clear(result)
    move(result.diagonal(offset, one, two), x)
    return result


declare(Computed(name="diag_embed", compute=_diagonals, kinds=("functional", )))


# Blocks of channels in another order


def _pixels(values, outs):
    x, factor = values["self"], values["upscale_factor"]
    if (found := foreign(x)) is not None:
        return found
    if x.dim() < 3 or factor <= 0 or x.shape[-3] % (factor * factor):
        return Native("shapes")
    *batch, channels, height, width = x.shape
    channels //= factor * factor
    result = torch.empty((*batch, channels, height * factor, width * factor), dtype=x.dtype, device=x.device,
                         memory_format=torch._prims_common.suggest_memory_format(x) if x.dim() == 4 else torch.contiguous_format)
    if not result.is_contiguous():
        return Native("strides")
    if x.numel() and x.is_contiguous() and x.element_size() <= 8 and not by_lines(x.device):
        shuffle_pixels(bits(result), bits(x), factor)
        return result
    n = len(batch)
    source = x.unflatten(n, (channels, factor, factor)).permute(*range(n), n, n + 3, n + 1, n + 4, n + 2) if x.numel() else x
    if x.numel():
        move(result.view(source.shape), source)
    return result


declare(Computed(name="pixel_shuffle", compute=_pixels, kinds=("functional", )))


def _pixels_back(values, outs):
    x, factor = values["self"], values["downscale_factor"]
    if (found := foreign(x)) is not None:
        return found
    if x.dim() < 3 or factor <= 0 or x.shape[-2] % factor or x.shape[-1] % factor:
        return Native("shapes")
    *batch, channels, height, width = x.shape
    height, width = height // factor, width // factor
    result = torch.empty((*batch, channels * factor * factor, height, width), dtype=x.dtype, device=x.device,
                         memory_format=torch._prims_common.suggest_memory_format(x) if x.dim() == 4 else torch.contiguous_format)
    if not result.is_contiguous():
        return Native("strides")
    n = len(batch)
    if x.numel():
        source = x.unflatten(n + 2, (width, factor)).unflatten(n + 1, (height, factor)).permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
        move(result.view(source.shape), source)
    return result


def _shuffled_channels(values, outs):
    x, groups = values["self"], values["groups"]
    if (found := foreign(x)) is not None:
        return found
    if x.dim() < 3 or groups <= 0 or x.shape[1] % groups or not x.numel():
        return Native("shapes")
    if x.dim() == 4 and torch._prims_common.suggest_memory_format(x) != torch.contiguous_format:
        return Native("strides")
    result = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    source = x.unflatten(1, (groups, x.shape[1] // groups)).transpose(1, 2)
    move(result.view(source.shape), source)
    return result


def _narrowed(values, outs):
    x, dim, start, length = values["self"], values["dim"], values["start"], values["length"]
    if (found := foreign(x, *(outs or ()))) is not None:
        return found
    if not -x.dim() <= dim < x.dim():
        return Native("shapes")
    dim, size = dim % x.dim(), x.shape[dim]
    if not -size <= start <= size or length < 0 or (start if start >= 0 else start + size) + length > size:
        return Native("shapes")
    source = x.narrow(dim, start, length)
    if outs is None:
        result = torch.empty(source.shape, dtype=x.dtype, device=x.device)
    elif outs[0].dtype != x.dtype or outs[0].shape != source.shape or conflict(outs[0], x) or not outs[0].is_contiguous():
        return Native("output")  # ATen writes outputs as if they were contiguous
    else:
        result = outs[0]
    move(result, source)
    return result


declare(Computed(name="pixel_unshuffle", compute=_pixels_back, kinds=("functional", )))
declare(Computed(name="channel_shuffle", compute=_shuffled_channels, kinds=("functional", )))
declare(Computed(name="narrow_copy", compute=_narrowed, kinds=("functional", "out")))
