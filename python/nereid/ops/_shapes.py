"""Shapes and strides of elementwise operators: outputs like TensorIterator's, overlaps, collapsed dimensions."""

import math

import torch
import torch._prims_common


def output_strides(shape, tensors):
    """The strides that ATen gives to a new output of an elementwise operator with these inputs."""
    tensors = [tensor if tensor.shape == shape else tensor.expand(shape) for tensor in tensors]
    if all(tensor.is_contiguous() for tensor in tensors):
        return torch._prims_common.make_contiguous_strides_for(shape)
    return torch._prims_common.compute_elementwise_output_strides(*tensors)


def overlaps_itself(tensor):
    """Whether two elements may share memory. True also where strides interleave and only a search could tell."""
    reach = 1
    for stride, size in sorted((abs(stride), size) for stride, size in zip(tensor.stride(), tensor.shape) if size != 1):
        if stride < reach:
            return tensor.numel() > 0
        reach = stride * (size - 1) + reach
    return False


def _extent(tensor):
    first = last = tensor.data_ptr()
    for stride, size in zip(tensor.stride(), tensor.shape):
        move = stride * (size - 1) * tensor.element_size()
        first, last = first + min(move, 0), last + max(move, 0)
    return first, last + tensor.element_size()


def conflict(output, other):
    """Whether writing `output` element by element may change what is still to be read of `other`: shared memory, but not the same elements."""
    if output is other or not output.numel() or not other.numel():
        return False
    first, end = _extent(output)
    other_first, other_end = _extent(other)
    if end <= other_first or other_end <= first:
        return False
    if output.shape == other.shape and output.stride() == other.stride() and output.dtype == other.dtype:
        return first != other_first and _meets(output, first - other_first)
    return True


def _meets(tensor, distance):
    """Whether a tensor and itself moved by `distance` bytes share an element."""
    dims = sorted(((abs(stride) * tensor.element_size(), size) for stride, size in zip(tensor.stride(), tensor.shape) if size > 1 and stride), reverse=True)
    reach = sum(stride * (size - 1) for stride, size in dims)

    def search(distance, dims, reach):
        # The remaining distance must be covered by the smaller strides; where strides nest, at most two multiples of the largest one qualify.
        if abs(distance) > reach + tensor.element_size() - 1:
            return False
        if not dims:
            return True
        (stride, size), rest = dims[0], reach - dims[0][0] * (dims[0][1] - 1)
        low = max(-(size - 1), -((rest + tensor.element_size() - 1 - distance) // stride))
        high = min(size - 1, (rest + tensor.element_size() - 1 + distance) // stride)
        if high - low > 4:
            return True
        return any(search(distance - step * stride, dims[1:], rest) for step in range(low, high + 1))

    return search(distance, dims, reach)


def collapsed(shape, strides):
    """Dimensions in the order of the first operand's memory, neighbours merged where that is possible for all operands.

    shape: the common shape. strides: for each operand its strides, 0 where it is broadcast; outputs first. Returns (sizes, [strides]);
    without dimensions the sizes are (1,).
    """
    dims = [d for d, size in enumerate(shape) if size != 1]
    # Innermost first; a stable sort: where strides say nothing, the later dimension is the inner one.
    order = sorted(reversed(dims), key=lambda d: tuple(abs(s[d]) for s in strides[:1]) + tuple(abs(s[d]) for s in strides[1:]))
    sizes, merged = [], [[] for _ in strides]
    for d in order:
        if sizes and all(s[d] == m[-1] * sizes[-1] for s, m in zip(strides, merged)):
            sizes[-1] *= shape[d]
            continue
        sizes.append(shape[d])
        for s, m in zip(strides, merged):
            m.append(s[d])
    if not sizes:
        return (1, ), [(0, ) for _ in strides]
    return tuple(reversed(sizes)), [tuple(reversed(m)) for m in merged]


def broadcast_strides(tensor, shape):
    """The strides of a tensor that is expanded to `shape`: 0 along dimensions that it does not have, or of size 1."""
    missing = len(shape) - tensor.dim()
    return (0, ) * missing + tuple([0 if size == 1 else stride for size, stride in zip(tensor.shape, tensor.stride())])


def class_dtype(values):
    """The dtype of a call in routing data: of its first tensor with floats, else of the first one. None without tensors."""
    dtypes = [x.dtype for x in _tensors(values.values())]
    return next((dtype for dtype in dtypes if dtype.is_floating_point), dtypes[0] if dtypes else None)


def _tensors(items):
    for item in items:
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, (list, tuple)):
            yield from _tensors(item)


def shape_class(values):
    """The shape class of a call by its largest tensor: (kind, (how many rows, how long each is)).

    Rows lie along the argument `dim` (or the last dimensions of `normalized_shape`): kind "inner" where the last dimension is among them, else "outer". Without
    these arguments kind is "all", and a row is along the last dimension. None where there is no tensor with elements.
    """
    x = max(_tensors(values.values()), key=torch.Tensor.numel, default=None)
    if x is None or not x.numel():
        return None
    dims = values.get("dim")
    if isinstance(dims, int):
        dims = [dims]
    if values.get("normalized_shape") is not None:
        dims = range(-len(values["normalized_shape"]), 0)
    if not x.dim() or not dims or not all(isinstance(d, int) and -x.dim() <= d < x.dim() for d in dims):
        long = x.shape[-1] if x.dim() else 1
        return "all", (x.numel() // long, long)
    dims = {d % x.dim() for d in dims}
    long = math.prod(x.shape[d] for d in dims)
    return "inner" if x.dim() - 1 in dims else "outer", (x.numel() // long, long)
