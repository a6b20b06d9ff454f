"""Arrays of rows that belong to several batches, read and written by tensor descriptors that end where a batch ends.

A descriptor checks only the ends of the whole array; a batch ends in its middle. So the dimension of the rows is described as three:

    address = base + a * (2^34 bytes - row) + b * row + c * row,      sizes of a, b, c: 2^30 + 1, 2^30, 2^30

With a = 2^30 the first term is -2^30 rows, as addresses have 64 bits and wrap. Row r of a batch of n rows that begins at row s is then
b = s + n, c = 2^30 - n + r: the address comes out right, and c is outside of its dimension exactly when r >= n. Such rows read as
zero, and writes to them do nothing. The array may have up to three dimensions besides; a batch may begin anywhere.
"""

from .. import language as tl
from ..runtime.jit import jit
from .tensor_descriptor import TensorDescriptor

_BILLION = 0x40000000


def create_ragged_descriptor(T, block_shape, ragged_dim=0):
    """The descriptor of a torch tensor whose dimension `ragged_dim` is divided into batches; blocks have `block_shape`.

    The tensor's last dimension must be contiguous, the others' strides multiples of 16 bytes. Use `load_ragged`, `store_ragged` and
    `atomic_add_ragged` with it.
    """
    block_shape, shape = list(block_shape), list(T.shape)
    rank = len(shape)
    assert rank <= 3, "read-write ragged descriptors must have at most 3 dimensions"
    assert len(block_shape) == rank, "block shape must have same length as tensor shape"
    ragged_dim += rank if ragged_dim < 0 else 0
    assert 0 <= ragged_dim < rank - 1, "last dimension cannot be ragged"
    itemsize = T.element_size()
    row = T.stride(ragged_dim)
    shape[ragged_dim] = _BILLION
    return TensorDescriptor(T, [_BILLION + 1, _BILLION] + shape, [2**34 // itemsize - row, row] + list(T.stride()), [1, 1] + block_shape)


@jit
def to_ragged_indices(batch_offset, batch_size, row):
    """The three coordinates of row `row` of the batch of `batch_size` rows that begins at row `batch_offset`."""
    billion = 0x40000000
    return billion, batch_offset + batch_size, billion - batch_size + row


@jit
def load_ragged(TMA, batch_offset, batch_size, coords, ragged_dim: tl.constexpr = 0):
    """The block at `coords`, counted from the batch's first row in the ragged dimension; rows after its last are zero."""
    tl.static_assert(len(TMA.shape) == len(coords) + 2, "TMA must be a read-write ragged descriptor")
    a, b, c = to_ragged_indices(batch_offset, batch_size, coords[ragged_dim])
    block = TMA.load([a, b] + coords[:ragged_dim] + [c] + coords[ragged_dim + 1:])
    return tl.reshape(block, block.shape[2:])


@jit
def store_ragged(TMA, batch_offset, batch_size, coords, data, ragged_dim: tl.constexpr = 0):
    """Stores a block at `coords`; rows after the batch's last are left out."""
    a, b, c = to_ragged_indices(batch_offset, batch_size, coords[ragged_dim])
    TMA.store([a, b] + coords[:ragged_dim] + [c] + coords[ragged_dim + 1:], tl.reshape(data, [1, 1] + data.shape))


@jit
def atomic_add_ragged(TMA, batch_offset, batch_size, coords, data, ragged_dim: tl.constexpr = 0):
    """Adds a block at `coords` atomically; rows after the batch's last are left out."""
    a, b, c = to_ragged_indices(batch_offset, batch_size, coords[ragged_dim])
    TMA.atomic_add([a, b] + coords[:ragged_dim] + [c] + coords[ragged_dim + 1:], tl.reshape(data, [1, 1] + data.shape))
