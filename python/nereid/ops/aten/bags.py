"""Embedding bags of ATen, with their gradients."""

import torch

from .._declare import Native, declare
from .._indexed import INDICES, exist, within
from .._launch import launch
from .._moves import clear, foreign
from .._strided import COMPUTE, FLOATS, STORAGE, cdiv, programs_wanted
from ..kernels import bags as kernels
from ._computed import Computed

KIND = "embedding bag"
#: Numbers on which it depends how many elements are loaded at once.
_DIVISIBLE = ("width", "row_stride")
SUM, MEAN, MAX = range(3)


def _block(width):
    return min(1024, max(16, 1 << (width - 1).bit_length()))


def _warps(block):
    """Of a program that reads rows of `block` elements: a bag is a sum of few rows, which take one warp unless they are long."""
    return 1 if block <= 256 else 4


def _rows_at_once(device):
    """How many rows of a table are on their way at once in a program."""
    return 1 if device.type == "cpu" else 8


def _bags(count, offsets, last):
    """Where bags begin, without the end that `last` says is there, or None where ATen has to complain."""
    if offsets.dim() != 1 or not offsets.numel():
        return None
    if offsets.device.type == "cpu":
        right = within(offsets[:1], 0, 0) and within(offsets[-1:], count if last else 0, count)
        if not right or len(offsets) > 1 and not within(offsets[1:] - offsets[:-1], 0, count):
            return None
    return offsets[:-1] if last else offsets


def _sum_is_fast(weight, weights, padding):
    """Whether ATen sums up without noting the bag of each index, on CPUs."""
    return weight.dtype != torch.float64 and weight.stride(1) == 1 and padding < 0 and (weights is None or weights.stride(0) == 1)


def _nowhere(device):
    """What ATen's maxima of an empty bag have in place of a row: on GPUs none."""
    return 0 if device.type == "cpu" else -1


def _forward(training):

    def compute(values, outs):
        table, indices, offsets, weights, mode = (values[name] for name in ("weight", "indices", "offsets", "per_sample_weights", "mode"))
        if (found := foreign(table, indices, offsets, weights)) is not None:
            return found
        if table.dtype not in FLOATS or indices.dtype not in INDICES or offsets.dtype not in INDICES or weights is not None and weights.dtype != table.dtype:
            return Native("dtype")
        count = indices.numel()
        if table.dim() != 2 or indices.dim() != 1 or not table.numel() or not count or mode not in (SUM, MEAN, MAX):
            return Native("shapes")
        if weights is not None and (mode != SUM or weights.shape != indices.shape):
            return Native("weights")
        (rows, width), device, last, padding = table.shape, table.device, values["include_last_offset"], values["padding_idx"]
        if not -rows <= padding < rows or not exist(indices, rows):
            return Native("index")
        begins = _bags(count, offsets, last)
        if begins is None or not len(begins):
            return Native("offsets")
        kind = torch.int64 if torch.int64 in (indices.dtype, offsets.dtype) else torch.int32
        bags, on_cpu = len(begins), device.type == "cpu"
        result = torch.empty((bags, width), dtype=table.dtype, device=device)
        noted = not on_cpu or mode != SUM or not _sum_is_fast(table, weights, padding)
        owners = torch.empty((count if noted else 0, ), dtype=kind, device=device)
        sizes = torch.empty((len(offsets) if not on_cpu or not training and mode == SUM else bags, ), dtype=kind, device=device)
        counted = sizes if not on_cpu or mode != SUM else None
        arguments = {"result": result, "sizes": counted, "owners": owners if noted else None, "table": table, "indices": indices.contiguous(), "offsets": begins.contiguous(),
                     "bags": bags, "count": count, "rows": rows, "width": width, "row_stride": table.stride(0), "column_stride": table.stride(1), "padding": padding}
        block = _block(width)
        constants, grid = {"UNIT": table.stride(1) == 1, "COMPUTE": COMPUTE[table.dtype], "BW": block, "AHEAD": _rows_at_once(device)}, (bags, cdiv(width, block))
        if mode == MAX:
            places = torch.empty((bags, width), dtype=kind, device=device)
            launch(kernels.bag_maxima, grid, device, arguments | {"places": places}, constants | {"NOWHERE": _nowhere(device)}, divisible=_DIVISIBLE, num_warps=_warps(block))
            return result, owners, sizes, places
        if counted is None:
            clear(sizes)
        launch(kernels.bag_sums, grid, device, arguments | {
            "padding": None if padding < 0 else padding, "weights": weights, "weight_stride": 0 if weights is None else weights.stride(0)
        }, constants | {"MEAN": mode == MEAN, "EXIST": on_cpu, "WHOLE": width % block == 0}, divisible=_DIVISIBLE, num_warps=_warps(block))
        if not on_cpu:
            return result, owners, sizes, torch.empty((0, ), dtype=kind, device=device)
        places = torch.empty_like(sizes)
        places.copy_(sizes)
        return result, owners, sizes, places

    return compute


def most_of_few(device):
    """How many indices a program looks through, so that they need not be sorted (`gradient_of_few`); 0: none."""
    return 0 if device.type == "cpu" else 1024


def launch_few(result, gradient, indices, padding, by_count, owners=None, sizes=None, weights=None):
    """Adds the rows of `gradient` (bags, width) to those of `result`, which is full of zeros, that `indices` say. owners, sizes, weights: as for the kernel."""
    count, width = indices.numel(), gradient.shape[1]
    block = min(256, _block(width))
    launch(kernels.gradient_of_few, (count, cdiv(width, block)), gradient.device, {
        "result": result, "gradient": gradient, "indices": indices, "owners": owners, "sizes": sizes, "weights": weights, "count": count, "width": width, "gradient_stride": gradient.stride(0),
        "gradient_step": gradient.stride(1), "weight_stride": 0 if weights is None else weights.stride(0), "padding": padding
    }, {"BY_COUNT": by_count, "COMPUTE": COMPUTE[gradient.dtype], "BR": 4, "BN": max(32, 1 << (count - 1).bit_length()), "BW": block}, num_warps=1)


def _owners(owners, indices, offsets, bags):
    """The bag of each index: what the forward step has noted, or found again."""
    if owners.numel():
        return owners.contiguous()
    found = torch.empty((indices.numel(), ), dtype=torch.int64, device=indices.device)
    launch(kernels.bags_of, bags, indices.device, {"result": found, "offsets": offsets.contiguous(), "bags": bags, "count": indices.numel()}, {})
    return found


def _gradient(values, outs):
    gradient, indices, owners, sizes, places = (values[name] for name in ("grad", "indices", "offset2bag", "bag_size", "maximum_indices"))
    weights, mode, rows, padding, offsets = values["per_sample_weights"], values["mode"], values["num_weights"], values["padding_idx"], values.get("offsets")
    if (found := foreign(gradient, indices, owners, sizes, places, weights)) is not None:
        return found
    if gradient.dtype not in FLOATS or any(x.dtype not in INDICES for x in (indices, owners, sizes, places)) or weights is not None and weights.dtype != gradient.dtype:
        return Native("dtype")
    if gradient.dim() != 2 or indices.dim() != 1 or not indices.numel() or not gradient.numel() or values.get("sparse") or mode not in (SUM, MEAN, MAX):
        return Native("shapes")
    if rows <= 0 or weights is not None and (mode != SUM or weights.shape != indices.shape):
        return Native("weights")
    (bags, width), device, count = gradient.shape, gradient.device, indices.numel()
    if owners.numel() != count and (owners.numel() or offsets is None or bags not in (len(offsets), len(offsets) - 1)) or mode == MEAN and len(sizes) < bags:
        return Native("shapes")
    if not exist(indices, rows) or owners.numel() and not exist(owners, bags):
        return Native("index")
    block = _block(width)
    arguments = {"width": width, "gradient_stride": gradient.stride(0), "gradient_step": gradient.stride(1)}
    if mode == MAX:
        if tuple(places.shape) != (bags, width) or len(sizes) < bags:
            return Native("shapes")
        return _gradient_of_maxima(gradient, places, sizes, rows, arguments, block)
    result = torch.zeros((rows, width), dtype=gradient.dtype, device=device)
    if count <= most_of_few(device):
        launch_few(result, gradient, indices.contiguous(), padding, bool(values["scale_grad_by_freq"]), _owners(owners, indices, offsets, bags), sizes.contiguous() if mode == MEAN else None, weights)
        return result
    ordered, order = torch.sort(indices, stable=True)
    launch(kernels.bag_gradient, (count, cdiv(width, block)), device, arguments | {
        "result": result, "gradient": gradient, "indices": ordered, "order": order, "owners": _owners(owners, indices, offsets, bags),
        "sizes": sizes.contiguous() if mode == MEAN else None, "weights": weights, "count": count, "weight_stride": 0 if weights is None else weights.stride(0), "padding": padding
    }, {"BY_COUNT": bool(values["scale_grad_by_freq"]), "COMPUTE": COMPUTE[gradient.dtype], "BW": block})
    return result


def _gradient_of_maxima(gradient, places, sizes, rows, arguments, block):
    bags, width = gradient.shape
    device, dtype = gradient.device, STORAGE[COMPUTE[gradient.dtype]]
    total = torch.zeros((rows, width), dtype=dtype, device=device)
    columns = cdiv(width, block)
    in_order = device.type == "cpu" or torch.are_deterministic_algorithms_enabled()
    launch(kernels.bag_maxima_gradient, (1 if in_order else min(bags, cdiv(programs_wanted(device), columns)), columns), device, arguments | {
        "result": total, "gradient": gradient, "places": places.contiguous(), "sizes": sizes.contiguous(), "bags": bags, "rows": rows
    }, {"SCOPE": "cta" if device.type == "cpu" else "gpu", "BW": block})
    return total if gradient.dtype == dtype else total.to(gradient.dtype)


def _weight_gradient(values, outs):
    gradient, table, indices, offsets, owners = (values[name] for name in ("grad", "weight", "indices", "offsets", "offset2bag"))
    if (found := foreign(gradient, table, indices, offsets, owners)) is not None:
        return found
    if table.dtype not in FLOATS or gradient.dtype != table.dtype or any(x.dtype not in INDICES for x in (indices, offsets, owners)):
        return Native("dtype")
    if gradient.dim() != 2 or table.dim() != 2 or indices.dim() != 1 or not indices.numel() or not gradient.numel() or values["mode"] != SUM or gradient.shape[1] != table.shape[1]:
        return Native("shapes")
    (bags, width), rows, count = gradient.shape, len(table), indices.numel()
    if owners.numel() != count and (owners.numel() or bags not in (len(offsets), len(offsets) - 1)):
        return Native("shapes")
    if not exist(indices, rows) or owners.numel() and not exist(owners, bags):
        return Native("index")
    result = torch.empty((count, ), dtype=table.dtype, device=table.device)
    block = min(_block(width), 256)
    at_once = 1 if _rows_at_once(table.device) == 1 else 1024 // block
    launch(kernels.bag_weight_gradient, cdiv(count, at_once), table.device, {
        "result": result, "gradient": gradient, "table": table, "indices": indices.contiguous(), "owners": _owners(owners, indices, offsets, bags), "count": count, "width": width,
        "rows": rows, "gradient_stride": gradient.stride(0), "gradient_step": gradient.stride(1), "row_stride": table.stride(0), "column_stride": table.stride(1),
        "padding": values["padding_idx"]
    }, {"UNIT": gradient.stride(1) == table.stride(1) == 1, "COMPUTE": COMPUTE[table.dtype], "BP": at_once, "BW": block}, divisible=(*_DIVISIBLE, "gradient_stride"))
    return result


ONE = ("functional", )


def _word(values):
    """The mode, and whether indices have weights, as words of shape classes."""
    return f"mode {values.get('mode', SUM)}{'' if values.get('per_sample_weights') is None else ' weighted'}"


declare(Computed(name="_embedding_bag", compute=_forward(True), kinds=ONE, results=4, kind=KIND, word=_word))
declare(Computed(name="_embedding_bag_forward_only", compute=_forward(False), kinds=ONE, results=4, kind=KIND, word=_word))
declare(Computed(name="_embedding_bag_backward", compute=_gradient, kinds=ONE, kind=KIND, word=_word))
declare(Computed(name="_embedding_bag_dense_backward", compute=_gradient, kinds=ONE, kind=KIND, word=_word))
declare(Computed(name="_embedding_bag_per_sample_weights_backward", compute=_weight_gradient, kinds=ONE, kind=KIND, word=_word))
