"""What the host does with sizes and strides before reductions, scans and operators on rows: dimensions collapsed, tiles chosen."""

import functools

import torch

import nereid.language as tl

#: torch dtype → dtype of the language in which it is computed: fp16 and bf16 in fp32, bool in int8.
COMPUTE = {
    torch.float16: tl.float32, torch.bfloat16: tl.float32, torch.float32: tl.float32, torch.float64: tl.float64, torch.bool: tl.int8,
    torch.uint8: tl.uint8, torch.int8: tl.int8, torch.int16: tl.int16, torch.int32: tl.int32, torch.int64: tl.int64,
}
#: dtype of the language → torch dtype, for workspaces.
STORAGE = {tl.float32: torch.float32, tl.float64: torch.float64, tl.int8: torch.int8, tl.uint8: torch.uint8, tl.int16: torch.int16,
           tl.int32: torch.int32, tl.int64: torch.int64}
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

#: The largest offset within a tile that 32 bits hold.
NARROW = 2**31 - 1


def collapse(sizes, strides):
    """Dimensions in the order of memory, neighbours merged where every operand allows it.

    sizes: one per dimension; strides: one tuple per dimension, a stride per operand. Returns [(size, strides)], the outermost first, at
    least one; dimensions of size 1 are gone.
    """
    dims = [(size, stride) for size, stride in zip(sizes, strides) if size != 1]
    if not dims:
        return [(1, tuple(0 for _ in strides[0]) if strides else ())]
    dims.sort(key=lambda dim: tuple(-stride for stride in dim[1]))
    merged = [dims[0]]
    for size, stride in dims[1:]:
        outer, outer_stride = merged[-1]
        if all(a == b * size for a, b in zip(outer_stride, stride)):
            merged[-1] = (outer * size, stride)
        else:
            merged.append((size, stride))
    return merged


def innermost_long(dims, short=8):
    """The same dimensions with a long one innermost where the innermost is shorter than `short`: tiles are cut from it."""
    if dims[-1][0] >= short or len(dims) == 1:
        return dims
    longest = max(range(len(dims)), key=lambda i: dims[i][0])
    if dims[longest][0] < 4 * dims[-1][0]:
        return dims
    return dims[:longest] + dims[longest + 1:] + [dims[longest]]


def product(sizes):
    result = 1
    for size in sizes:
        result *= size
    return result


@functools.cache
def _multiprocessors(index):
    return torch.cuda.get_device_properties(index).multi_processor_count


def programs_wanted(device):
    """How many programs keep a device busy. On the CPU a fixed number, so that results do not depend on the number of threads."""
    return 32 if device.type == "cpu" else 4 * _multiprocessors(device.index or 0)


def step_up(size, steps):
    """The first of ascending `steps` that is not below `size`, or the last: few different blocks make few kernels."""
    for step in steps:
        if size <= step:
            return step
    return steps[-1]


def cdiv(a, b):
    return -(-a // b)


def units(strides):
    """Bit k: whether the k-th stride is 1."""
    return sum(1 << k for k, stride in enumerate(strides) if stride == 1)


def fixed(strides):
    """Bit k: whether the innermost stride of the k-th operand is 0. strides: a tuple for each operand."""
    return sum(1 << k for k, its in enumerate(strides) if its[-1] == 0)


def unique_dims(dim, rank):
    """Dimensions as a sorted list without negative numbers: None and [] mean all. None in place of the list if one is out of range or given twice."""
    if dim is None:
        return list(range(rank))
    dims = [dim] if isinstance(dim, int) else list(dim)
    if not dims:
        return list(range(rank))
    places = max(rank, 1)
    if any(not -places <= d < places for d in dims):
        return None
    found = sorted({d % places for d in dims})
    if len(found) != len(dims):
        return None
    return found if rank else []


def plain(*tensors):
    """Whether these are ordinary dense tensors of one device without pending conjugation or negation (None is passed over)."""
    device = None
    for tensor in tensors:
        if tensor is None:
            continue
        if tensor.layout is not torch.strided or tensor.is_neg() or tensor.is_conj() or tensor.is_quantized:
            return False
        if device is None:
            device = tensor.device
        elif tensor.device != device:
            return False
    return True
