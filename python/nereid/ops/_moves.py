"""Elements moved from one tensor to another, and memory filled: what operators do that compute nothing.

Tensors of one dtype are moved as integers of the same width, so all dtypes of PyTorch are served by a few kernels.
"""

import torch

from ._declare import Native
from ._launch import DTYPES
from ._shapes import overlaps_itself
from ._strided import plain
from .functions import arithmetic, unary
from .pointwise import Rule, apply, passed_scalars

COPY = Rule(function=unary.identity, promotion="no_opmath", casts=True)
FILL = Rule(function=arithmetic.constant, promotion="no_opmath")

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def foreign(*tensors):
    """`Native` where kernels cannot move the memory of tensors (None is passed over) as it is, else None: other layouts, pending conjugation or negation,
    several devices, tensors that have no memory."""
    if not plain(*tensors):
        return Native("layout")
    for tensor in tensors:
        if tensor is not None and tensor._is_zerotensor():
            return Native("layout")
    return None


def bits(tensor):
    """A view of the memory as integers as wide as the elements; complex128 as pairs of them in a further, last dimension."""
    if tensor.dtype in (torch.uint8, torch.int16, torch.int32, torch.int64):
        return tensor
    if tensor.element_size() == 16:
        return torch.view_as_real(tensor).view(torch.int64)
    return tensor.view(_BITS[tensor.element_size()])


def movable(source, target):
    """Whether `move` converts from a dtype to another."""
    return source == target or source in DTYPES and target in DTYPES


def move(target, source):
    """target[...] = source, which is expanded to its shape, converted where the dtypes differ. They must not share memory in another order."""
    if not target.numel():
        return
    if source.shape != target.shape:
        source = source.expand(target.shape)
    if source.dtype == target.dtype:
        source, target = bits(source), bits(target)
    apply(COPY, [target], [source], (), target.shape, source.dtype, target.device)


def flipped(target, source, dims):
    """target[...] = source with the order of elements reversed along `dims`. The same dtype and shape."""
    source, target = bits(source), bits(target)
    start = sum(source.stride(d) * (source.shape[d] - 1) for d in dims)
    strides = tuple([-stride if d in dims else stride for d, stride in enumerate(source.stride())])
    first = source.as_strided((), (), source.storage_offset() + start)
    apply(COPY, [target], [first], (), target.shape, target.dtype, target.device, [target.stride(), strides])


def number(value, dtype):
    """A number as `fill` takes it for tensors of `dtype`, or `Native` where ATen has to decide."""
    if dtype in DTYPES:
        found = passed_scalars([value], (), dtype)
        return found if type(found) is Native else found[0]
    if isinstance(value, torch.Tensor) or dtype.itemsize > 8:
        return Native("dtype")
    if value == 0 and not isinstance(value, complex):
        return 0
    return bits(torch.tensor(value, dtype=dtype)).item()


def fill(target, value):
    """target[...] = value, what `number` gave for its dtype."""
    if not target.numel():
        return
    if target.dtype not in DTYPES:
        target = bits(target)
    apply(FILL, [target], [], (value, ), target.shape, target.dtype, target.device)


def clear(target):
    """Fills with zeros."""
    fill(bits(target), 0)


def cloned(tensor, contiguous=False):
    """A copy: with the strides of a dense tensor, contiguous otherwise or on request."""
    result = torch.empty_like(tensor, memory_format=torch.contiguous_format if contiguous else torch.preserve_format)
    move(result, tensor)
    return result


def with_same_strides(tensor):
    """A copy that has the strides of a tensor even if it is not dense, or `Native` for one that overlaps itself."""
    if overlaps_itself(tensor):
        return Native("overlap")
    result = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    move(result, tensor)
    return result
