"""What operators on tensors (batch, channels, 1 to 3 dimensions) share: pooling, interpolation, padding, patches (kernels/planes.py)."""

import torch

from .._declare import Native
from .._launch import launch
from .._moves import foreign
from .._strided import FLOATS, cdiv, product, programs_wanted, step_up
from ._computed import Computed
from ._outputs import ready

OF_ONE = ("functional", "out")
BLOCK = 256


class OnPlanes(Computed):
    """An operator on planes. Its shape classes tell tensors with channels last from others."""

    def shape_class(self, form, values):
        found = super().shape_class(form, values)
        last = any(isinstance(x, torch.Tensor) and x.dim() > 3 and x.shape[1] > 1 and channels_last(x) for x in values.values())
        return (f"{found[0]} channels-last", found[1]) if found is not None and last else found


def batched(x, rank):
    """A tensor without a batch as a batch of one."""
    return x if x.dim() == rank + 2 else x.unsqueeze(0)


def padded(numbers):
    """Numbers of the last dimensions as kernels take them: None for dimensions that are not there."""
    return (None, ) * (3 - len(numbers)) + tuple(numbers)


def five(numbers):
    """Sizes or strides (n, c, ...) as kernels take them."""
    return (*numbers[:2], *padded(numbers[2:]))


def several(numbers, rank, other=None):
    """Numbers for `rank` dimensions from a list of one or of all; from an empty one `other`."""
    numbers = list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]
    return tuple(numbers * rank if len(numbers) == 1 else numbers) if numbers else other


def unusable(x, rank, others=(), dtypes=FLOATS):
    """`Native` for tensors that are not (batch, channels, dimensions) or (channels, dimensions) of these dtypes, for other floats of another dtype, for empty ones."""
    if (found := foreign(x, *others)) is not None:
        return found
    if x.dim() not in (rank + 1, rank + 2) or x.dtype not in dtypes or any(other is not None and other.is_floating_point() and other.dtype != x.dtype for other in others):
        return Native("dtype")
    return Native("empty") if not x.numel() else None


def outputs(outs, shapes, x, dtypes, tensors, strided=None):
    """Outputs in the memory format of `x` (or `strided`), or `Native`."""
    form = torch._prims_common.suggest_memory_format(x) if strided is None else strided
    if outs is None:
        return [torch.empty(shape, dtype=dtype, device=x.device, memory_format=form) for shape, dtype in zip(shapes, dtypes)]
    if any(out.data_ptr() == tensor.data_ptr() for out in outs for tensor in tensors):
        return Native("overlap")
    new = [tuple(out.shape) != tuple(shape) for out, shape in zip(outs, shapes)]
    if (found := ready(outs, list(zip(shapes, dtypes)), tensors)) is not None:
        return found
    for out, shape, resized in zip(outs, shapes, new):
        if resized:
            out.resize_(shape, memory_format=form)
    return outs


def by_lines(device):
    """Whether tensors are computed line by line, as CPUs do, rather than element by element."""
    return device.type == "cpu"


def channels_last(*tensors):
    """Whether channels are neighbours in all tensors, and elements along w are not."""
    return all(tensor.stride(1) == 1 and tensor.stride(-1) != 1 for tensor in tensors)


def programs_of(items, device):
    """(programs, items of each) for lines or places of a result on a CPU: enough of them that a program's start does not count."""
    share = max(cdiv(items, programs_wanted(device)), min(16, items))
    return cdiv(items, share), share


#: Arguments of kernels that take part in places, not in offsets: of 32 bits where all of them are small.
_PLACES = ("numel", "in_sizes", "out_sizes", "sizes", "counts", "kernel", "stride", "padding", "dilation", "windows", "before", "copies", "channels", "depth", "divisor")
_SMALL, _NARROW = 2**15, 2**31 - 2 * BLOCK


def _walked(arguments):
    """(sizes, strides) of the tensor (n, c, d, h, w) whose elements a kernel computes one by one."""
    backward = "result_strides" in arguments
    return (arguments["in_sizes" if backward or "plane" in arguments else "out_sizes"],
            arguments["result_strides" if backward else "x_strides" if "plane" in arguments else "out_strides"])


def _lanes(sizes, strides):
    """Along which dimension of (n, c, d, h, w) a program has neighbours on CPUs, and how many, as `located` of kernels/planes.py takes them: along the one of stride 1, where it is
    long enough. (None, BLOCK) else."""
    lanes = 1 if strides[1] == 1 and strides[4] != 1 else 4
    return (None, BLOCK) if sizes[lanes] < 8 else (lanes, step_up(sizes[lanes], (16, 32, 64, 128, 256)))


def launch_by_element(kernel, numel, device, arguments, constants):
    """Launches a kernel that computes element by element `numel` elements, BLOCK in a program, on CPUs lines where the kernel has LANES. On GPUs neighbours are neighbours in memory
    also where channels are last, in kernels with LANES or LAST."""
    lanes, block = None, BLOCK
    if "LANES" in kernel.arg_names or "LAST" in kernel.arg_names:
        sizes, strides = _walked(arguments)
        last = not by_lines(device) and sizes[1] > 1 and strides[1] == 1 and strides[4] != 1 and "plane" not in arguments
        if "LAST" in kernel.arg_names:
            constants = constants | {"LAST": last}
        else:
            if by_lines(device):
                lanes, block = _lanes(sizes, strides)
            constants = constants | {"LANES": "last" if last else lanes}
    programs = cdiv(numel, block)
    if lanes is not None:
        programs = numel // sizes[lanes] * cdiv(sizes[lanes], block)
    arguments = arguments | {"numel": numel}
    narrow = numel < _NARROW and all(abs(number) < _SMALL for name in _PLACES[1:] for number in _all(arguments.get(name))) and all(
        product(_all(arguments.get(name))) < _NARROW for name in ("in_sizes", "out_sizes", "sizes"))
    launch(kernel, programs, device, arguments, constants | {"BLOCK": block}, {name: "i32" for name in _PLACES if name in arguments} if narrow else "i64")


def _all(value):
    return [number for number in value if number is not None] if isinstance(value, tuple) else [] if value is None else [value]
