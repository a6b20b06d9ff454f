"""Convolutions: the host side of `kernels/convolution.py`, and how their launches are cut.

`convolve` computes a convolution, or with `Window.transposed` a transposed one, which is the gradient of the input of the other kind; `weigh` the gradient of the weights.
Which kernel runs and which tiles it gets follows from device, dtype, sizes and strides; nothing is measured at a call.
"""

import dataclasses
import functools
import itertools
import math
import operator

import torch

import nereid.language as tl

from . import products
from ._launch import launch
from ._moves import clear, fill, move
from ._strided import NARROW, STORAGE, cdiv, product, programs_wanted, step_up
from .kernels import convolution as kernels
from .kernels import sliding

HALVES = (torch.float16, torch.bfloat16)
#: The most phases of a strided gradient, and groups: what a grid of CUDA has in its second and third dimension.
MOST = 65535


@dataclasses.dataclass(frozen=True)
class Window:
    """How a window moves, a number for each dimension: taps (its size), stride, padding, dilation. groups: of channels. transposed: whether it is moved over the result."""
    taps: tuple
    stride: tuple
    padding: tuple
    dilation: tuple
    groups: int
    transposed: bool

    def turned(self):
        """The window of the gradient of the input."""
        return dataclasses.replace(self, transposed=not self.transposed)

    @functools.cached_property
    def is_plain(self):
        """Whether each place of the result has the one place of the input at the same position."""
        return all(tap == 1 for tap in self.taps) and all(stride == 1 for stride in self.stride) and not any(self.padding)

    def motion(self):
        """(move, tap, start) of the kernels, or None where the strides make phases."""
        if not self.transposed:
            return self.stride, self.dilation, tuple([-padding for padding in self.padding])
        if all(stride == 1 for stride in self.stride):
            return self.stride, tuple([-dilation for dilation in self.dilation]), self.padding
        return None

    def phases(self):
        """The argument `phases` of `kernels.phase_of`."""
        common = tuple(map(math.gcd, self.stride, self.dilation))
        steps = tuple([stride // divisor for stride, divisor in zip(self.stride, common)])
        inverses = tuple([pow(dilation // divisor, -1, step) if step > 1 else 0 for dilation, divisor, step in zip(self.dilation, common, steps)])
        return self.stride, self.padding, self.dilation, common, steps, inverses


def precision_of(x):
    """"tf32" where PyTorch's settings allow it for convolutions of fp32 on this device, else "ieee"."""
    return "tf32" if x.device.type == "cuda" and x.dtype == torch.float32 and torch.backends.cudnn.conv.fp32_precision == "tf32" else "ieee"


def _unit(tensor):
    """Which stride of (n, channel, ...) is 1, where that dimension is long enough to matter: "c", "p" or None."""
    if tensor.stride(1) == 1 and (tensor.shape[1] > 1 or tensor.stride(-1) != 1):
        return "c"
    return "p" if tensor.stride(-1) == 1 else None


def _reach(*views):
    """Whether offsets of (sizes, strides) take 64 bits. Those of places beside a tensor, which are not read, may wrap."""
    return max(sum((size - 1) * abs(stride) for size, stride in zip(sizes, strides)) for sizes, strides in views) > NARROW


def _acc(dtype):
    return tl.float64 if dtype == torch.float64 else tl.float32


def _by_channels(tensor, copies=True):
    """A copy of (n, channel, ...) whose channels are neighbours in memory; without `copies` nothing is in it yet."""
    order = (0, *range(2, tensor.dim()), 1)
    copy = torch.empty([tensor.shape[d] for d in order], dtype=tensor.dtype, device=tensor.device)
    copy = copy.permute(0, tensor.dim() - 1, *range(1, tensor.dim() - 1))
    if copies:
        move(copy, tensor)
    return copy


def _by_planes(tensor, copies=True):
    """A contiguous copy of (n, channel, ...); without `copies` nothing is in it yet."""
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    if copies:
        move(copy, tensor)
    return copy


def _planes_wanted(x, channels, inner, window):
    """Whether groups with a few channels are computed from contiguous copies: the few channels that each sum has are no vectors on CPUs, rows of pixels are."""
    return x.device.type == "cpu" and channels * inner > 1 and x.stride(1) == 1 and x.shape[1] > 1 and x.shape[-1] >= 16 and window.motion() is not None


def _channels_wanted(x, inner, stride):
    """Whether tiles are to be read along channels, from a copy if need be: matrix units of GPUs take 16 bytes at once, and on CPUs short rows and those of which only
    every second place is read (stride) are no vectors."""
    if x.stride(1) == 1 or inner < 16:
        return False
    if x.device.type == "cuda":
        return x.element_size() <= 4
    return x.shape[-1] < 16 or x.stride(-1) != 1 or stride > 1


def _runs(x, window):
    """Whether all taps of all pixels lie in `x`, and those of the last dimension are neighbours in memory, enough of them for 16 bytes: as in patches of images."""
    return not window.transposed and not any(window.padding) and window.dilation[-1] == 1 and x.stride(-1) == 1 and window.taps[-1] * x.element_size() % 16 == 0


def _split(w, window):
    """The weights as (g, k, c, ...): k channels of the result, c of what is convolved, of a view."""
    groups = window.groups
    first, second = w.stride(0), w.stride(1)
    own = w.shape[0] // groups
    if window.transposed:
        return w.as_strided((groups, w.shape[1], own, *w.shape[2:]), (own * first, second, first, *w.stride()[2:]))
    return w.as_strided((groups, own, w.shape[1], *w.shape[2:]), (own * first, first, second, *w.stride()[2:]))


def convolve(out, x, w, bias, window):
    """Writes the convolution of x with w into `out`, whose elements share no memory with what is read.

    out: (n, channels, ...), x: (n, channels, ...), of any strides, `out` dense. w: (channels of out, channels of x in a group, ...), with `window.transposed` (channels of
    x, channels of out in a group, ...). bias: a row of the channels of `out`, or None. All of one floating dtype and device, without sizes of 0.
    """
    groups = window.groups
    batch, channels, inner = x.shape[0], out.shape[1] // groups, x.shape[1] // groups
    if window.is_plain and groups == 1:
        _as_product(out, x, w.transpose(0, 1) if window.transposed else w, bias)
        return
    w = _split(w, window)
    if _has_phases_apart(x, channels, inner, window):
        _convolve_phases(out, x, w, bias, window)
        return
    joined = _joined(x, groups, channels, inner)
    if joined > 1:
        copy = torch.empty((groups // joined, joined * channels, joined * inner, *window.taps), dtype=w.dtype, device=w.device)
        fill(copy, 0)
        move(_diagonal(copy, joined), w.unflatten(0, (-1, joined)))
        w, window = copy, dataclasses.replace(window, groups=groups // joined)
        groups, channels, inner = groups // joined, joined * channels, joined * inner
    if is_direct(groups, channels, inner):
        if _planes_wanted(x, channels, inner, window):
            made = _by_planes(out, False)
            _direct(made, _by_planes(x), w, bias, window)
            move(out, made)
        else:
            _direct(out, x, w, bias, window)
        return
    if _is_unfolded(x, channels, inner, window):
        _convolve_unfolded(out, x, w, bias, window)
        return
    taps = product(window.taps)
    if _channels_wanted(x, inner, 1 if window.transposed else window.stride[-1]):
        x = _by_channels(x)
    x_unit = _unit(x)
    flat = inner < 16
    # Matrix units of GPUs read 16-bit factors in either order.
    if not flat and taps > 1 and not (x.device.type == "cuda" and x.dtype in HALVES and w.stride(1) == 1):
        w = _ordered(w, 1 if x.device.type == "cpu" and x_unit == "c" else 2)
    motion, runs = window.motion(), flat and _runs(x, window)
    counts = tuple(out.shape[2:])
    cut = _Cut(x.device, out, x_unit != "c" and not runs, window, motion)
    precision = precision_of(x)
    tiles = _product_tiles(x.device, x.dtype, groups * cut.phases, cut.pixels // cut.phases, channels, inner * taps if flat else inner, 1 if flat else taps, precision,
                           cut.last, cut.rows)
    bp, bc = (tiles.n, tiles.m) if cut.last else (tiles.m, tiles.n)
    if flat and not runs and x.device.type == "cuda":  # each element has a place and a mask of its own, which take registers
        bp, bc, tiles = min(bp, 128), min(bc, 128), dataclasses.replace(tiles, k=min(tiles.k, 32), warps=4, parts=1)
    steps = cdiv(inner * taps, tiles.k) if flat else cdiv(inner, tiles.k) * taps
    each = cdiv(steps, tiles.parts) if motion is not None else steps
    parts = cdiv(steps, each) if motion is not None else 1
    acc = _acc(x.dtype)
    target, part_stride = (out, 0) if parts == 1 else _workspace(out, parts, acc)
    natural = tuple([product(w.shape[d + 1:]) for d in range(2, w.dim())])
    w_unit = "flat" if flat and tuple(w.stride()[2:]) == natural else "c" if w.stride(2) == 1 else "k" if w.stride(1) == 1 else None
    arguments = {
        "out": target, "x": x, "w": w, "bias": bias if parts == 1 else None, "batch": batch, "channels": channels, "inner": inner, "counts": counts,
        "sizes": tuple(x.shape[2:]), "taps": window.taps, "motion": motion, "phases": None if motion is not None else window.phases(),
        "magics": (_magics(counts), _magics(window.taps), _magic(cdiv(inner, tiles.k))) if motion is not None else None,
        "bias_stride": 0 if bias is None else bias.stride(0), "out_strides": out.stride(), "x_strides": x.stride(), "w_strides": w.stride(), "part_stride": part_stride, "steps_of_part": each
    }
    constants = {
        "ACC": acc, "PRECISION": precision, "FLAT": flat, "WINDOW": window.taps if flat and motion is not None else None, "X_UNIT": x_unit, "W_UNIT": w_unit,
        "OUT_UNIT": _unit(out), "LAST": cut.last, "ROWS": cut.rows, "NEXT": motion is None or motion[0][-1] == 1, "RUNS": runs, "INSIDE": None, "IN_ORDER": x.device.type == "cpu",
        "BP": bp, "BC": bc, "BK": tiles.k
    }
    wide = _reach((x.shape, x.stride()), (out.shape, out.stride()), (w.shape, w.stride()), ((parts + 1, ), (part_stride, )))
    grid = (cut.tiles(bp) * cdiv(channels, bc), groups, parts if motion is not None else cut.phases)
    launch(kernels.correlate, grid, x.device, arguments, constants, _integers(wide), tuple([name for name in _DIVISIBLE if name in arguments]) + (("motion", ) if runs else ()), num_warps=tiles.warps, num_stages=tiles.stages)
    if parts > 1:
        _add_up(out, target, bias, parts, acc)


def _is_unfolded(x, channels, inner, window):
    """Whether a convolution reads a copy with margins: on CPUs, where masks of single rows take longer than the copy."""
    return x.device.type == "cpu" and min(channels, inner) >= 16 and window.motion() is not None


def _has_phases_apart(x, channels, inner, window):
    """Whether each phase of a strided gradient is a convolution of its own: on CPUs, where `_is_unfolded` holds for it, unless there are many."""
    return x.device.type == "cpu" and min(channels, inner) >= 16 and window.motion() is None and product(window.stride) <= 16


def _convolve_phases(out, x, w, bias, window):
    """`convolve` where `_has_phases_apart`, a convolution for each phase. w: (g, k, c, ...) as `_split` gives it."""
    if out.stride(1) != 1:
        made = _by_channels(out, False)
        _convolve_phases(made, x, w, bias, window)
        move(out, made)
        return
    if x.stride(1) != 1:
        x = _by_channels(x)
    stride, padding, dilation, common, steps, inverses = window.phases()
    for place in itertools.product(*map(range, stride)):
        part = out[(slice(None), slice(None), *[slice(first, None, step) for first, step in zip(place, stride)])]
        if not part.numel():
            continue
        padded = tuple(map(operator.add, place, padding))
        first = tuple([number // divisor * inverse % step for number, divisor, inverse, step in zip(padded, common, inverses, steps)])
        if any(number % divisor or tap >= taps for number, divisor, tap, taps in zip(padded, common, first, window.taps)):
            if bias is None:
                clear(part)
            else:
                move(part, bias[(None, slice(None), *[None] * len(stride))].expand(part.shape))
            continue
        its = w[(slice(None), slice(None), slice(None), *[slice(tap, None, step) for tap, step in zip(first, steps)])]
        # As a gradient of stride 1, whose places are those of the phase.
        start = tuple([(number - tap * along) // by for number, tap, along, by in zip(padded, first, dilation, stride)])
        _convolve_unfolded(part, x, its, bias, Window(tuple(its.shape[3:]), (1, ) * len(stride), start, tuple(map(operator.floordiv, dilation, common)), window.groups, True))


@dataclasses.dataclass(frozen=True)
class _Unfolded:
    """What a convolution without padding reads: `x`, a view (n, channel, ...) with stride 1 along the channels, in which all taps of all pixels lie. motion: (move, tap, start), taps: of the window.
    run: how many taps of the last dimension are channels of the view, one behind the other; it has one tap then."""
    x: torch.Tensor
    motion: tuple
    taps: tuple
    run: int


def _unfolded(x, counts, window, joins):
    """`_Unfolded` of x (n, channel, ...), or of a copy that has a margin of zeros and neighbouring channels. counts: places of the result; the window has no phases. joins: whether taps of the
    last dimension may become channels."""
    by, tap, start = window.motion()
    channels, taps = x.shape[1], window.taps
    lows = [first + min(0, (number - 1) * step) for first, number, step in zip(start, taps, tap)]
    sizes = [(count - 1) * step + (number - 1) * abs(along) + 1 for count, step, number, along in zip(counts, by, taps, tap)]
    if x.stride(1) == 1 and all(low >= 0 and low + size <= have for low, size, have in zip(lows, sizes, x.shape[2:])):
        for d, (low, size) in enumerate(zip(lows, sizes)):
            x = x.narrow(2 + d, low, size)
    else:
        # Of windows of one place, only the places that are read.
        steps = [step if number == 1 else 1 for step, number in zip(by, taps)]
        by = tuple([1 if number == 1 else step for step, number in zip(by, taps)])
        sizes = [cdiv(size, step) for size, step in zip(sizes, steps)]
        copy = torch.empty((x.shape[0], *sizes, channels), dtype=x.dtype, device=x.device)
        copy = copy.permute(0, copy.dim() - 1, *range(1, copy.dim() - 1))
        part = copy
        for d, (low, size, step) in enumerate(zip(lows, sizes, steps)):
            first = min(size, cdiv(max(0, -low), step))
            last = max(first, min(size, cdiv(x.shape[2 + d] - low, step)))
            clear(part.narrow(2 + d, 0, first))
            clear(part.narrow(2 + d, last, size - last))
            part = part.narrow(2 + d, first, last - first)
            if last > first:
                x = x.narrow(2 + d, low + first * step, (last - first - 1) * step + 1)[(slice(None), ) * (2 + d) + (slice(None, None, step), )]
        if part.numel():
            move(part, x)
        x = copy
    start = tuple([max(0, (1 - number) * step) for number, step in zip(taps, tap)])
    run = taps[-1] if joins and window.groups == 1 and tap[-1] == 1 and x.stride(-1) == channels else 1
    if run > 1:
        x = x.as_strided((x.shape[0], run * channels, *x.shape[2:-1], x.shape[-1] - run + 1), x.stride())
        taps = (*taps[:-1], 1)
    return _Unfolded(x, (by, tap, start), taps, run)


def _convolve_unfolded(out, x, w, bias, window):
    """`convolve` where `_is_unfolded`. w: (g, k, c, ...) as `_split` gives it."""
    if out.stride(1) != 1 and out.shape[1] > 1:  # a transposed copy takes less time than transposed stores
        made = _by_channels(out, False)
        _convolve_unfolded(made, x, w, bias, window)
        move(out, made)
        return
    counts, groups = tuple(out.shape[2:]), window.groups
    w = _unfolded_weights(w, window, out.shape[0] * product(counts))
    found = _unfolded(x, counts, window, w.stride(-1) == w.shape[2] * w.stride(2))
    x, batch, channels, pixels = found.x, x.shape[0], w.shape[1], out.shape[0] * product(counts)
    inner = w.shape[2] * found.run
    w = w.as_strided((groups, channels, inner, *found.taps), w.stride())
    bp, bc, bk = _unfolded_tiles(groups, pixels, channels, inner, x.element_size())
    arguments = {
        "out": out, "x": x, "w": w, "bias": bias, "batch": batch, "channels": channels, "inner": inner, "counts": counts, "sizes": tuple(x.shape[2:]), "taps": found.taps,
        "motion": found.motion, "phases": None, "magics": (_magics(counts), _magics(found.taps), _magic(cdiv(inner, bk))), "bias_stride": 0 if bias is None else bias.stride(0),
        "out_strides": out.stride(), "x_strides": x.stride(), "w_strides": w.stride(), "part_stride": 0, "steps_of_part": cdiv(inner, bk) * product(found.taps)
    }
    constants = {
        "ACC": _acc(x.dtype), "PRECISION": "ieee", "FLAT": False, "WINDOW": None, "X_UNIT": "c", "W_UNIT": "c" if w.stride(2) == 1 else "k", "OUT_UNIT": _unit(out), "LAST": False, "ROWS": False,
        "NEXT": found.motion[0][-1] == 1, "RUNS": False, "INSIDE": (channels % bc == 0) | (inner % bk == 0) << 1, "IN_ORDER": True, "BP": bp, "BC": bc, "BK": bk
    }
    wide = _reach((x.shape, x.stride()), (out.shape, out.stride()), (w.shape, w.stride()))
    launch(kernels.correlate, (cdiv(pixels, bp) * cdiv(channels, bc), groups, 1), x.device, arguments, constants, _integers(wide), ("channels", "inner", *_STRIDES[:3]))


def _unfolded_weights(w, window, pixels):
    """Weights (g, k, c, ...) with stride 1 along k or c: themselves, or copies, each of which is the transpose of a matrix. Tiles with stride 1 along c are transposed again for each tile of
    pixels."""
    joins = w.shape[2] < 128 and window.motion()[1][-1] == 1
    if 1 not in w.stride()[1:3]:
        last = max((1, 2), key=w.stride)
        w = _copied(w, [0, *_outer_first(w, last), last])
        if last == 1 and joins:  # so that taps become longer sums
            return _copied(w, (0, *range(3, w.dim()), 2, 1))
    if w.stride(2) == 1 and pixels >= 1024:
        return _copied(w, [0, *_outer_first(w, 1), 1])
    return w


def _outer_first(w, last):
    """The dimensions of weights but groups and `last` in the order of memory."""
    return sorted((d for d in range(1, w.dim()) if d != last), key=lambda d: -w.stride(d))


def _copied(tensor, order):
    """A copy whose dimensions lie in memory in this order, the outermost first."""
    copy = torch.empty([tensor.shape[d] for d in order], dtype=tensor.dtype, device=tensor.device)
    copy = copy.permute([order.index(d) for d in range(tensor.dim())])
    move(copy, tensor)
    return copy


def _unfolded_tiles(groups, pixels, channels, inner, size):
    """(pixels, channels, elements of the sum) of a tile. size: bytes of an element."""
    bp = min((14, 28, 49, 56, 98, 112), key=lambda size: cdiv(pixels, size) * (size + 6))
    bc = step_up(channels, (16, 32, 64)) if channels <= 64 else min((64, 96, 128), key=lambda size: (cdiv(channels, size) * size, -size))
    if bc > 64 and groups * cdiv(pixels, bp) * cdiv(channels, bc) < 8:
        bc = 64
    most = 768 // size  # longer sums have larger errors in fp32
    bk = inner if inner <= most else max((size for size in range(64, most + 1, 16) if inner % size == 0), default=128)
    return bp, bc, bk


def _ordered(w, dim):
    """Weights (g, k, c, ...) whose stride along a dimension is 1: themselves, or a copy."""
    if w.stride(dim) == 1:
        return w
    return _copied(w, [*(d for d in range(w.dim()) if d not in (1, 2)), 3 - dim, dim])


#: Sizes and strides on which it depends how many elements are loaded at once.
_DIVISIBLE = ("channels", "inner", "numel", "out_strides", "x_strides", "w_strides")
_STRIDES = ("out_strides", "x_strides", "w_strides", "y_strides", "bias_stride", "part_stride")


def _magic(divisor):
    """(multiplier, shift) of `kernels.divided`."""
    shift = (divisor - 1).bit_length()
    return ((1 << shift) - divisor) * 2**32 // divisor + 1, shift


def _magics(sizes):
    return tuple([_magic(size) for size in sizes])


def _integers(wide):
    """Sizes take 32 bits in kernels, strides 64 where offsets do."""
    kinds = {name: "i32" for name in ("batch", "channels", "length", "in_group", "inner", "numel", "counts", "sizes", "taps", "motion", "phases", "steps_of_part")}
    return kinds | {"magics": "u32"} | {name: "i64" if wide else "i32" for name in _STRIDES}


class _Cut:
    """How the pixels of a result, all (n, place), are cut into tiles.

    last: pixels are the last dimension of tiles. direct: these are no tiles of a product. rows: a tile lies in one row of the last dimension. phases: how many phases there are; pixels: of all phases.
    """

    def __init__(self, device, out, last, window, motion, direct=False):
        self.sizes = out.shape[0], *out.shape[2:]
        self.phases = product(window.stride) if motion is None else 1
        self.counts = (*self.sizes[:-1], ) if motion is not None else (self.sizes[0], *map(cdiv, self.sizes[1:-1], window.stride))
        self.row = self.sizes[-1] if motion is not None else cdiv(self.sizes[-1], window.stride[-1])
        self.outer = product(self.counts)
        self.pixels = self.outer * self.row * self.phases
        self.last = last
        # Blocks of pixels that are neighbours in memory are vectors only within a row.
        self.rows = (self.last or direct and device.type == "cpu") and self.row >= (16 if device.type == "cpu" else 48)

    def tiles(self, size):
        return self.outer * cdiv(self.row, size) if self.rows else cdiv(self.outer * self.row, size)


def _product_tiles(device, dtype, batches, pixels, channels, depth, times, precision, last, rows):
    """`products.Tiles` of an implicit product: m and n belong to the first and the second dimension of a tile.

    batches: how many such products there are. depth, times: a tile lies within `depth` places of the summed dimension, of which there are `times` as many.
    """
    m, n = (channels, pixels) if last else (pixels, channels)
    if device.type == "cpu":
        block_m, block_n = step_up(m, (4, 8, 16, 32, 64)), step_up(n, (16, 32, 64))
        return products.Tiles(block_m, block_n, min((16, 32, 64, 128), key=lambda size: cdiv(depth, size) * (size + 16)))
    cut = products.gpu_tiles(torch.cuda.get_device_properties(device).multi_processor_count, dtype, batches, m, n, depth * times, precision)
    sizes = [size for size in (cut.k, cut.k // 2, cut.k // 4) if size >= 16]
    # Tiles that pad the summed dimension little; each step costs as much as some places of it.
    return dataclasses.replace(cut, k=min(sizes, key=lambda size: cdiv(depth, size) * (size + 24)))


def _workspace(out, parts, acc):
    """(a workspace of `parts` tensors that are laid out as the dense `out`, how far they are apart)."""
    return torch.empty((parts, out.numel()), dtype=STORAGE[acc], device=out.device), out.numel()


def _add_up(out, workspace, bias, parts, acc):
    """Adds the parts of a dense result in their order. bias: of its channels, or None."""
    numbers, fixed = {"alpha": 1.0, "beta": 1.0}, {"ALPHA": False, "BETA": False, "ACTIVATION": None}
    numel = out.numel()
    if bias is None:
        sizes, strides, bias_strides = (1, 1, numel, parts), (0, 0, 1), (0, 0, 0)
    elif out.stride(1) == 1:
        channels = out.shape[1]
        sizes, strides, bias_strides = (1, numel // channels, channels, parts), (0, channels, 1), (0, 0, bias.stride(0))
    else:
        batch, channels = out.shape[:2]
        pixels = numel // (batch * channels)
        sizes, strides, bias_strides = (batch, channels, pixels, parts), (channels * pixels, pixels, 1), (0, bias.stride(0), 0)
    products.add_up(out, workspace, bias, None, sizes, strides, bias_strides, acc, numbers, fixed)


def _collapsed(tensor):
    """The stride of all places of (n, channel, ...) as one dimension, or None."""
    stride, size = None, 1
    for length, its in zip(reversed(tensor.shape[2:]), reversed(tensor.stride()[2:])):
        if length == 1:
            continue
        if stride is None:
            stride = its
        elif its != stride * size:
            return None
        size *= length
    return 1 if stride is None else stride


def _merged(tensor, pixels, stride):
    """Whether the batch continues the places of a tensor."""
    return tensor.shape[0] == 1 or tensor.stride(0) == pixels * stride


def _dense_places(tensor):
    """A tensor of the same values whose places are one dimension."""
    return tensor if _collapsed(tensor) is not None else _by_channels(tensor)


def _as_product(out, x, w, bias):
    """A convolution whose window is one place: a product. w: (channels of out, channels of x, 1...)."""
    x = _dense_places(x)
    batch, inner, channels, pixels = x.shape[0], x.shape[1], out.shape[1], product(out.shape[2:])
    x_p, out_p = _collapsed(x), _collapsed(out)
    precision, bias_stride = precision_of(x), 0 if bias is None else bias.stride(0)
    if out.stride(1) == 1 and _merged(x, pixels, x_p) and _merged(out, pixels, out_p):
        products.multiply(out, x, w, bias, (1, batch * pixels, channels, inner),
                          ((0, out_p, 1), (0, 0, x_p, x.stride(1)), (0, 0, w.stride(1), w.stride(0)), (0, 0, bias_stride)), precision=precision)
    else:
        products.multiply(out, w, x, bias, (batch, channels, pixels, inner),
                          ((out.stride(0), out.stride(1), out_p), (0, 0, w.stride(0), w.stride(1)), (x.stride(0), 0, x.stride(1), x_p), (0, bias_stride, 0)), precision=precision)


def is_direct(groups, channels, inner):
    """Whether groups have so few channels that tiles of a product would be mostly padding."""
    return (groups > 1 or inner == 1) and channels * inner <= 32 and min(channels, inner) <= 4


def _joins(x):
    """Whether groups with few channels are joined for the matrix units."""
    return x.device.type == "cuda" and (x.dtype in HALVES or precision_of(x) == "tf32")


def _joined(x, groups, channels, inner):
    """How many groups become one whose weights between different ones are 0, so that it has 16 to 32 channels on both sides: matrix units multiply zeros faster than vector units what is left. 1:
    none, also for depthwise convolutions."""
    if not _joins(x) or not is_direct(groups, channels, inner) or min(channels, inner) < 2:
        return 1
    joined = math.gcd(groups, 1 << (32 // max(channels, inner)).bit_length() - 1)
    return joined if joined * min(channels, inner) >= 16 else 1


def _diagonal(tensor, joined):
    """The blocks (g, number in the joined group, k, c, ...) of single groups in contiguous weights (g, k, c, ...) of joined ones."""
    g, k, c = tensor.stride()[:3]
    channels, inner = tensor.shape[1] // joined, tensor.shape[2] // joined
    return tensor.as_strided((tensor.shape[0], joined, channels, inner, *tensor.shape[3:]), (g, channels * k + inner * c, k, c, *tensor.stride()[3:]))


def _direct_tiles(device, pixels, channels, last):
    """(block of pixels, block of channels)."""
    if device.type == "cpu":
        if last:
            return step_up(pixels, (16, 32, 64, 128, 256)), step_up(channels, (1, 4))
        return step_up(pixels, (1, 4, 16)), min((16, 32, 64), key=lambda size: cdiv(channels, size) * (size + 8))
    return (step_up(pixels, (32, 64, 128, 256, 512)), step_up(channels, (1, 2, 4) if pixels > 128 else (1, 2, 4, 8))) if last else \
        (step_up(pixels, (4, 16)), step_up(channels, (16, 64)))


def _wants_slides(device):
    return device.type == "cuda"


def _slides(x, y, window, motion):
    """Whether the kernels of kernels/sliding.py serve a depthwise convolution. x, y: what is read and the result, or its gradient."""
    return (_wants_slides(x.device) and motion is not None and motion[0][-1] == 1 and abs(motion[1][-1]) == 1 and 2 <= window.taps[-1] <= 16 and x.stride(1) == 1 and
            y.stride(1) == 1)


def _slide_tiles(x, row, taps):
    """(places of a row at once, groups of these in a block, channels): a thread reads 16 bytes."""
    span = min((4, 8), key=lambda size: cdiv(row, size) * (size * taps + 2 * (size + taps - 1)))
    block = min((16, 32, 64), key=lambda size: cdiv(x.shape[1], size) * (size + 8))
    return span, 128 * max(1, 16 // x.element_size()) // block, block


def _slide(out, x, w, bias, window, motion):
    span, bg, bc = _slide_tiles(x, out.shape[-1], window.taps[-1])
    counts = (*out.shape[2:-1], cdiv(out.shape[-1], span))
    arguments = {
        "out": out, "x": x, "w": w, "bias": bias, "batch": x.shape[0], "channels": x.shape[1], "counts": counts, "length": out.shape[-1], "sizes": tuple(x.shape[2:]), "motion": motion,
        "bias_stride": 0 if bias is None else bias.stride(0), "out_strides": out.stride(), "x_strides": x.stride(), "w_strides": (w.stride(0), *w.stride()[3:])
    }
    constants = {"ACC": _acc(x.dtype), "WINDOW": window.taps, "BACK": motion[1][-1] < 0, "SPAN": span, "BG": bg, "BC": bc}
    wide = _reach((x.shape, x.stride()), (out.shape, out.stride()), (w.shape, w.stride()))
    launch(sliding.slide, cdiv(x.shape[0] * product(counts), bg) * cdiv(x.shape[1], bc), x.device, arguments, constants, _integers(wide), ("channels", "out_strides", "x_strides", "w_strides"),
           num_warps=4, maxnreg=168)


def _direct(out, x, w, bias, window):
    groups, (batch, channels) = window.groups, out.shape[:2]
    x_unit, motion = _unit(x), window.motion()
    cut = _Cut(x.device, out, x_unit != "c", window, motion, True)
    bp, bc = _direct_tiles(x.device, cut.row if cut.rows else cut.pixels // cut.phases, channels, cut.last)
    taps = product(window.taps)
    alone = groups == channels == x.shape[1]
    if alone and not cut.last and w.stride(0) != 1:
        copy = torch.empty((*w.shape[3:], groups), dtype=w.dtype, device=w.device).permute(w.dim() - 3, *range(w.dim() - 3)).unsqueeze(1).unsqueeze(1)
        move(copy, w)
        w = copy
    if alone and _slides(x, out, window, motion):
        _slide(out, x, w, bias, window, motion)
        return
    arguments = {
        "out": out, "x": x, "w": w, "bias": bias, "batch": batch, "channels": channels, "in_group": channels // groups, "inner": x.shape[1] // groups,
        "counts": tuple(out.shape[2:]), "sizes": tuple(x.shape[2:]), "taps": window.taps, "motion": motion, "phases": None if motion is not None else window.phases(),
        "bias_stride": 0 if bias is None else bias.stride(0), "out_strides": out.stride(), "x_strides": x.stride(), "w_strides": w.stride()
    }
    constants = {
        "ACC": _acc(x.dtype), "WINDOW": window.taps if motion is not None and taps <= 64 else None, "X_UNIT": x_unit, "OUT_UNIT": _unit(out), "LAST": cut.last,
        "ROWS": cut.rows, "NEXT": motion is None or motion[0][-1] == 1, "ALONE": alone, "W_UNIT": w.stride(0) == 1, "BP": bp, "BC": bc
    }
    wide = _reach((x.shape, x.stride()), (out.shape, out.stride()), (w.shape, w.stride()))
    launch(kernels.direct, (cut.tiles(bp) * cdiv(channels, bc), cut.phases), x.device, arguments, constants, _integers(wide), ("channels", "out_strides", "x_strides", "w_strides"), num_warps=4)


def weigh(out, y, x, window):
    """Writes the gradient of the weights of a convolution into `out`, which is dense and shares no memory with what is read.

    y: the gradient of the result, x: what was convolved, both (n, channels, ...). out: as `w` of `convolve` for `window`, which is not transposed; for transposed
    convolutions the caller swaps y and x. Dtypes, device and sizes as for `convolve`.
    """
    groups = window.groups
    batch, channels, inner, taps = y.shape[0], y.shape[1] // groups, x.shape[1] // groups, product(window.taps)
    if window.is_plain and groups == 1:
        _weigh_as_product(out, y, x)
        return
    if x.device.type == "cpu" and _weigh_reordered(out, y, x, window, channels, inner):
        return
    joined = _joined(x, groups, channels, inner)
    if joined > 1:
        wide = torch.empty((groups // joined, joined * channels, joined * inner, *window.taps), dtype=out.dtype, device=out.device)
        weigh(wide.flatten(0, 1), y, x, dataclasses.replace(window, groups=groups // joined))
        move(out.unflatten(0, (groups // joined, joined, channels)), _diagonal(wide, joined))
        return
    acc, device, motion = _acc(x.dtype), x.device, window.motion()
    counts = tuple(y.shape[2:])
    straight = is_direct(groups, channels, inner)
    if not straight and _channels_wanted(x, inner, window.stride[-1]):
        x = _by_channels(x)
    if not straight and (_channels_wanted(y, channels, 1) if device.type == "cuda" else _unit(x) == "c" and y.stride(1) != 1 and channels >= 16):
        y = _by_channels(y)
    x_unit, y_unit = _unit(x), _unit(y)
    rows = x_unit != "c" and counts[-1] >= (16 if device.type == "cpu" else 64)
    row, outer = counts[-1], batch * product(counts[:-1])
    arguments = {
        "y": y, "x": x, "batch": batch, "inner": inner, "counts": counts, "sizes": tuple(x.shape[2:]), "taps": window.taps, "magics": _magics(counts), "motion": motion, "y_strides": y.stride(),
        "x_strides": x.stride()
    }
    constants = {"ACC": acc, "Y_UNIT": y_unit, "X_UNIT": x_unit, "ROWS": rows, "NEXT": motion[0][-1] == 1}
    divisible = (*_DIVISIBLE, "y_strides")
    if straight and channels == inner == 1 and _slides(x, y, window, motion):
        span, bg, bc = _slide_tiles(x, row, window.taps[-1])
        counts = (*counts[:-1], cdiv(row, span))
        tiles = cdiv(batch * product(counts), bg)
        kernel, grid, options = sliding.slide_weights, (cdiv(groups, bc), taps // window.taps[-1]), {"num_warps": 4}
        parts = max(1, min(programs_wanted(device) // product(grid), tiles // 4, 64))
        constants = {"ACC": acc, "WINDOW": window.taps, "SPAN": span, "BG": bg, "BC": bc}
        arguments |= {"counts": counts, "magics": _magics(counts), "length": row, "channels": groups, "out_strides": (out.stride(0), *out.stride()[2:])}
        del arguments["inner"], arguments["taps"]
    elif straight:
        last = x_unit != "c"
        weights = y.shape[1] * inner
        bp, bc = ((step_up(row if rows else outer * row, (16, 32, 64, 128, 256)), step_up(weights, (1, 4))) if last else (step_up(outer * row, (4, 16)), step_up(weights, (16, 64))))
        tiles = outer * cdiv(row, bp) if rows else cdiv(outer * row, bp)
        programs = cdiv(weights, bc) * taps
        parts = max(1, min(programs_wanted(device) // programs, tiles // 4, 64))
        constants |= {"LAST": last, "ALONE": channels == inner == 1, "BP": bp, "BC": bc}
        arguments |= {"numel": weights, "in_group": channels, "out_strides": out.stride()}
        kernel, grid, options = kernels.direct_weights, (cdiv(weights, bc), taps), {"num_warps": 4}
    else:
        flat = inner < 16
        runs = flat and _runs(x, window)
        columns = inner * taps if flat else inner
        cut = _weight_tiles(device, x.dtype, groups * (1 if flat else taps), channels, columns, outer * row, row if rows else 0, precision_of(x))
        tiles = outer * cdiv(row, cut.k) if rows else cdiv(outer * row, cut.k)
        parts = cut.parts
        constants |= {"PRECISION": precision_of(x), "FLAT": flat, "WINDOW": window.taps if flat else None, "RUNS": runs, "IN_ORDER": device.type == "cpu", "BM": cut.m, "BN": cut.n, "BK": cut.k}
        arguments |= {"channels": channels, "out_strides": (channels * out.stride(0), *out.stride())}
        kernel, grid = kernels.correlate_weights, (cdiv(channels, cut.m) * cdiv(columns, cut.n) * (1 if flat else taps), groups)
        options = {"num_warps": cut.warps, "num_stages": cut.stages}
        divisible += ("motion", ) if runs else ()
    each = cdiv(tiles, parts)
    parts = cdiv(tiles, each)
    target, part_stride = (out, 0) if parts == 1 else _workspace(out, parts, acc)
    wide = _reach((x.shape, x.stride()), (y.shape, y.stride()), (out.shape, out.stride()), ((parts + 1, ), (part_stride, )))
    divisible = tuple([name for name in divisible if name in arguments])
    launch(kernel, (*grid, parts), device, arguments | {"out": target, "part_stride": part_stride, "steps_of_part": each}, constants, _integers(wide), divisible, **options)
    if parts > 1:
        _add_up(out, target, None, parts, acc)


def _weigh_reordered(out, y, x, window, channels, inner):
    """`weigh` on CPUs by way of a simpler gradient, or of one that lies otherwise in memory; False where there is none. channels, inner: in a group."""
    taps = product(window.taps)
    if taps == 1 and window.groups == 1 and not any(window.padding):  # only the places that are read
        _weigh_as_product(out, y, x[(slice(None), slice(None), *[slice(None, None, step) for step in window.stride])])
    elif is_direct(window.groups, channels, inner):
        if not _planes_wanted(x, channels, inner, window):
            return False
        weigh(out, _by_planes(y), _by_planes(x), window)
    elif taps > 1 and window.groups == 1 and min(channels, inner) >= 16 and all(stride == 1 for stride in window.stride) and \
            (x.element_size() == 2 or out.stride(1) == 1 or y.shape[0] * product(y.shape[2:]) >= 512):  # below, copies of wide weights into their order take longer than masks
        made = out if out.stride(1) == 1 else _by_channels(out, False)
        if not _weigh_shifted(made, y, x, window):
            return False
        if made is not out:
            move(out, made)
    elif x.element_size() == 2 and taps > 1 and inner >= 16 and out.stride(1) != 1 and (x.stride(1) == 1 or _channels_wanted(x, inner, window.stride[-1])):
        # Few pixels for each weight: rows of neighbours are rounded and stored, not single elements (fp32 loses by it).
        made = _by_channels(out, False)
        weigh(made, y, x, window)
        move(out, made)
    else:
        return False
    return True


def _weigh_shifted(out, y, x, window):
    """`weigh` for steps of one place, a product for each tap: of `y` in a frame as large as what `x` covers, with zeros between its rows, and `x` from the place of the tap on. Then all pixels of an
    image lie along one dimension of both, and no place is computed or masked. False where `x` is wider than what is read. out: stride 1 along the channels of x."""
    counts, channels, inner = y.shape[2:], y.shape[1], x.shape[1]
    _, along, _ = window.motion()
    x = _unfolded(x, tuple(counts), window, False).x
    sizes, pitches = x.shape[2:], x.stride()[2:]
    if any(pitch != size * inside for pitch, size, inside in zip(pitches, sizes[1:], pitches[1:])):
        return False
    if sizes[1:] != counts[1:] or y.stride(1) != 1 or _collapsed(y) is None:
        frame = torch.empty((y.shape[0], counts[0], *sizes[1:], channels), dtype=y.dtype, device=y.device)
        frame = frame.permute(0, frame.dim() - 1, *range(1, frame.dim() - 1))
        part = frame
        for d, (count, size) in enumerate(zip(counts, sizes)):
            if d:
                clear(part.narrow(2 + d, count, size - count))
                part = part.narrow(2 + d, 0, count)
        move(part, y)
        y = frame
    # The last place that counts: behind it are zeros.
    places = 1 + sum((count - 1) * (pitch // pitches[-1]) for count, pitch in zip(counts, pitches))
    y_place, place = _collapsed(y), pitches[-1]
    for taps in itertools.product(*map(range, window.taps[:-1])):
        its = x[(slice(None), slice(None), *[slice(tap * step, None) for tap, step in zip(taps, along)])]
        products.multiply(out[(slice(None), slice(None), *taps)], y, its, None, (window.taps[-1], channels, inner, places),
                          ((out.stride(-1), *out.stride()[:2]), (0, y.stride(0), y.stride(1), y_place), (along[-1] * place, x.stride(0), place, x.stride(1)), (0, 0, 0)),
                          outer=x.shape[0], precision=precision_of(x))
    return True


def _weight_tiles(device, dtype, batches, m, n, pixels, row, precision):
    """`products.Tiles` of the gradient of weights: the summed dimension is long, and parts of it fill the machine. row: how many pixels a tile may have, or 0."""
    if device.type == "cpu":
        block_m, block_n = step_up(m, (4, 8, 16, 32, 64)), step_up(n, (16, 32, 64))
        block_k = min((16, 32, 64), key=lambda size: cdiv(row or pixels, size) * (size + 16))
        programs = batches * cdiv(m, block_m) * cdiv(n, block_n)
        return products.Tiles(block_m, block_n, block_k, max(1, min(8 // programs, pixels // (4 * block_k))))
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    cut = products.gpu_tiles(processors, dtype, batches, m, n, pixels, precision)
    # Steps wait for memory: several small tiles run on a multiprocessor at the same time. Workspaces of up to 16 MiB cost less than what that gains.
    programs = batches * cdiv(m, cut.m) * cdiv(n, cut.n)
    several = max(1, min(3, 2**15 // (cut.m * cut.n)))
    parts = min(several * processors // programs, pixels // (16 * cut.k), 2**22 // (batches * m * n))
    return dataclasses.replace(cut, parts=max(cut.parts, parts))


def _weigh_as_product(out, y, x):
    """out[k, c] = sum over n and p of y[n, k, p] * x[n, c, p]."""
    x, y = _dense_places(x), _dense_places(y)
    batch, pixels = x.shape[0], product(x.shape[2:])
    x_p, y_p = _collapsed(x), _collapsed(y)
    outer, depth = (1, batch * pixels) if _merged(x, pixels, x_p) and _merged(y, pixels, y_p) else (batch, pixels)
    products.multiply(out, y, x, None, (1, y.shape[1], x.shape[1], depth),
                      ((0, *out.stride()[:2]), (0, y.stride(0), y.stride(1), y_p), (0, x.stride(0), x_p, x.stride(1)), (0, 0, 0)), outer=outer, precision=precision_of(x))
