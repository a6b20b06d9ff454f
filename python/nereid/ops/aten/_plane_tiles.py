"""Launches of kernels/plane_tiles.py: interpolation and pixel shuffles on GPUs."""

import torch

from .._launch import launch
from .._strided import COMPUTE, NARROW, STORAGE, cdiv, product, programs_wanted, step_up
from ..kernels import interpolation as filters
from ..kernels import plane_tiles as kernels
from ._planes import BLOCK, channels_last, padded

_MOVES = ("nearest", "factor", "exact")


def _up(number):
    """The power of two from `number` on."""
    return 1 << max(0, number - 1).bit_length()


def _integers(*tensors):
    """The type of offsets and places: 32 bits where they hold all of them."""
    extents = [sum((size - 1) * abs(stride) for size, stride in zip(x.shape, x.stride())) for x in tensors]
    return "i32" if max(*extents, *(x.numel() for x in tensors)) < NARROW - 2**20 else "i64"


def _shares(to, of, elements):
    """(batches, planes of a batch, positions, groups, planes of a group, BP, BS) for tiles of `elements` of `to`, and whether channels are last."""
    (batches, planes), positions, last = to.shape[:2], product(to.shape[2:]), to.shape[1] > 1 and channels_last(to, of)
    if not last and (batches == 1 or all(x.stride(0) == planes * x.stride(1) for x in (to, of))):
        batches, planes = 1, batches * planes
    if last:
        block = step_up(planes, (8, 16, 32, 64, 128))
        along = max(1, min(elements // block, _up(positions)))
    else:
        along = step_up(positions, (32, 64, 128, 256, 512)[:5 if elements > 512 else 4])
        block = max(1, min(elements // along, _up(planes)))
    # What is computed once for the positions of a tile serves up to 16 tiles of planes, as long as there are programs enough.
    others = cdiv(positions, along) * batches
    tiles = cdiv(planes, block)
    share = block * max(1, min(16, tiles * others // (4 * programs_wanted(to.device))))
    return (batches, planes, positions, cdiv(planes, share), share, block, along), last


def _walk(kernel, names, to, of, scales, elements, arguments, constants):
    """Launches a kernel over the positions and planes of `to`. names: of the tensors."""
    (batches, planes, positions, groups, share, block, along), last = _shares(to, of, elements)
    dense, stride = True, 1
    for size, its in zip(to.shape[:1:-1], to.stride()[:1:-1]):
        dense, stride = dense and (its == stride or size == 1), stride * size
    for name, tensor in zip(names, (to, of)):
        strides = tensor.stride()
        arguments = arguments | {name: tensor, f"{name}_batch": strides[0], f"{name}_plane": strides[0] if tensor.shape[1] == 1 else strides[1], f"{name}_strides": padded(strides[2:])}
    launch(kernel, cdiv(positions, along) * groups * batches, to.device, arguments | {
        "positions": positions, "planes": planes, "groups": groups, "share": share, "scale": padded(scales)
    }, constants | {"LAST": last, "DENSE": dense, "BP": block, "BS": along}, _integers(to, of), ("positions", "planes", "share", *(f"{name}_{part}" for name in names for part in ("batch", "plane", "strides"))))


def upsample(out, x, mode, scales, aligned=False):
    """Interpolates `x` (n, c, 1 to 3 dimensions) into `out`, both of any strides. mode: MODE of kernels/interpolation.py; with one that only moves elements dtypes of any kind."""
    only_moves, rank = mode in _MOVES, x.dim() - 2
    elements = 2048 if only_moves else 512 if mode == "cubic" else 1024
    _walk(kernels.upsample_planes, ("out", "x"), out, x, scales, elements, {"in_sizes": padded(x.shape[2:]), "out_sizes": padded(out.shape[2:])},
          {"MODE": mode, "ALIGNED": aligned, "COMPUTE": None if only_moves else COMPUTE[x.dtype]})


def _most(scale, size, count):
    """At most how many places of the output are nearest to one of the input."""
    whole = round(1 / scale)
    if whole * scale == 1 and whole & whole - 1 == 0 and whole * size == count:
        return whole  # no place is rounded
    return int(1 / scale) + 3


def nearest_gradient(result, gradient, mode, scales):
    """The backward step of a mode that only moves elements."""
    windows = [_most(*sizes) for sizes in zip(scales, result.shape[2:], gradient.shape[2:])]
    _walk(kernels.nearest_gradient, ("result", "gradient"), result, gradient, scales, 1024, {
        "in_sizes": padded(result.shape[2:]), "out_sizes": padded(gradient.shape[2:]), "windows": padded(windows)
    }, {"MODE": mode, "COMPUTE": COMPUTE[result.dtype]})


def shuffle_pixels(out, x, factor):
    """Moves the elements of `x` (..., c * factor ** 2, h, w) to `out` (..., c, h * factor, w * factor), both contiguous and not empty; dtypes of any kind."""
    height, width = x.shape[-2:]
    to, of = out.view(1, -1, *out.shape[-2:]), x.view(1, -1, factor * factor * height, width)
    (_, planes, positions, groups, share, block, along), _ = _shares(to, of, 2048)
    launch(kernels.shuffle_pixels, cdiv(positions, along) * groups, out.device, {
        "out": out, "x": x, "positions": positions, "planes": planes, "groups": groups, "share": share, "x_plane": of.stride(1), "out_plane": to.stride(1), "height": height, "width": width
    }, {"FACTOR": factor, "BP": block, "BS": along}, _integers(to, of), ("positions", "planes", "share", "x_plane", "out_plane"))


def weight_sums(filter, size, count, scale, window, compute, device):
    """The sums of a filter's weights for each of `count` places of its output along a dimension of `size` places. window: the most that there are of them."""
    found = torch.empty(count, dtype=STORAGE[compute], device=device)
    launch(filters.filter_sums, cdiv(count, BLOCK), device, {"sums": found, "size": size, "outputs": count, "scale": scale, "windows": window},
           {"FILTER": filter, "COMPUTE": compute, "BLOCK": BLOCK})
    return found


def _along(out, x, order, dim, scale, window, sums, constants):
    """The map along one dimension. order: dimensions of both tensors in the order of memory, in which they are dense."""
    sizes, at = [x.shape[i] for i in order], order.index(dim)
    outer, size, others, rows = product(sizes[:at]), sizes[at], product(sizes[at + 1:]), out.shape[dim]
    lines = others == 1
    arguments = {"out": out, "x": x, "sums": sums, "rows": rows, "size": size, "scale": scale, "window": window}
    if lines:
        block_o = step_up(rows, (16, 32, 64, 128))
        block_r, outer, others = min(2048 // block_o, _up(outer)), 1, outer
        arguments |= {"x_outer": 0, "out_outer": 0, "x_along": 1, "out_along": 1, "x_other": size, "out_other": rows}
    else:
        block_r = step_up(others, (4, 16, 64, 256))
        block_o = min(2048 // block_r, _up(rows))
        arguments |= {"x_outer": size * others, "out_outer": rows * others, "x_along": others, "out_along": others, "x_other": 1, "out_other": 1}
    launch(kernels.resample_along, cdiv(rows, block_o) * cdiv(others, block_r) * outer, out.device, arguments | {"others": others},
           constants | {"LINES": lines, "BR": block_r, "BO": block_o}, _integers(out, x), ("rows", "others", "x_outer", "out_outer", "x_along", "out_along", "x_other", "out_other"))


def resample(kind, out, x, scales, windows, mode, aligned=False, sums=None):
    """Writes the product of a linear map for each dimension of `x` (n, c, 1 to 3 dimensions) to `out`, of any strides, one dimension after the other; between them in fp32 (fp64 for fp64).

    kind, mode, aligned: KIND, MODE, ALIGNED of `resample_along`. scales, windows, sums: the map's, by dimension; sums: tensors of `weight_sums`, or None.
    """
    rank, compute = x.dim() - 2, COMPUTE[out.dtype]
    last = rank > 1 and channels_last(out)
    form = torch.contiguous_format if not last else torch.channels_last if rank == 2 else torch.channels_last_3d
    order = [0, *range(2, rank + 2), 1] if last else list(range(rank + 2))
    whole, target = out.is_contiguous(memory_format=form), x.contiguous(memory_format=form)
    # What makes the tensor smallest comes first; a dimension that stays what it is takes no step, unless it is the only one.
    steps = sorted((i for i in range(rank) if scales[i] != 1 or out.shape[2 + i] != x.shape[2 + i]), key=lambda i: out.shape[2 + i] / x.shape[2 + i]) or [rank - 1]
    shape = list(x.shape)
    for i in steps:
        shape[2 + i], source, final = out.shape[2 + i], target, i == steps[-1]
        target = out if final and whole else torch.empty(shape, dtype=out.dtype if final else STORAGE[compute], device=out.device, memory_format=form)
        _along(target, source, order, 2 + i, scales[i], windows[i], None if sums is None else sums[i], {"KIND": kind, "MODE": mode, "ALIGNED": aligned, "COMPUTE": compute})
    if not whole:
        out.copy_(target)
