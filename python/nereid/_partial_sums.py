"""Partial sums: gradients of what many programs read, summed without atomic additions (docs/differentiation.md)."""

import torch

from . import language as tl
from ._jit import jit

#: Most partial sums of a gradient. On a CPU; on a GPU for each of its multiprocessors. They do not depend on how many threads run, so that the
#: same bits come out.
_ROWS_ON_CPU, _ROWS_OF_MULTIPROCESSOR = 128, 4
#: Partial sums of fewer elements than this together are always made.
_FEW = 1 << 16
#: Columns of a program that adds them, and rows that it reads at once: of short rows, which few programs add, more rows.
_COLUMNS, _ROWS_AT_ONCE, _SHORT = 64, 32, 1024
_COLUMNS_OF_SHORT, _ROWS_OF_SHORT = 16, 128


def rows_for(programs, device):
    """How many partial sums a gradient has, which is how many programs are launched."""
    most = _ROWS_ON_CPU
    if device.type == "cuda":
        most = _ROWS_OF_MULTIPROCESSOR * torch.cuda.get_device_properties(device).multi_processor_count
    return min(programs, most)


def is_worth(gradient, rows, elements):
    """Whether a gradient is summed in this many partial sums rather than by atomic additions: when these have no more elements than all tensors with
    gradients together, so that clearing, writing and adding them takes about as long as what the kernel does anyhow.

    elements: of all gradients. A gradient that is not a contiguous tensor of its own gets no partial sums: what the kernel adds outside would
    land in another row."""
    return (isinstance(gradient, torch.Tensor) and gradient.is_floating_point() and gradient.is_contiguous() and gradient.numel() > 0
            and gradient.untyped_storage().nbytes() == gradient.numel() * gradient.element_size()
            and rows * gradient.numel() <= max(elements, _FEW))


def make(gradient, rows):
    """A matrix of zeros with a row for each partial sum, of fp64 or fp32. Rows begin at multiples of 64 bytes."""
    wide = torch.float64 if gradient.dtype == torch.float64 else torch.float32
    return torch.zeros(rows, -(-gradient.numel() // 16) * 16, dtype=wide, device=gradient.device)


@jit
def _add_rows(partial, total, n, length, rows, COLUMNS: tl.constexpr, AT_ONCE: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.arange(0, AT_ONCE)
    sums = tl.zeros([AT_ONCE, COLUMNS], dtype=partial.dtype.element_ty)
    for begin in range(0, rows, AT_ONCE):
        row = begin + first
        sums += tl.load(partial + row[:, None].to(tl.int64) * length + at[None, :], mask=(row[:, None] < rows) & (at[None, :] < n), other=0.0)
    tl.store(total + at, tl.sum(sums, 0), mask=at < n)


def add(partial, gradient):
    """Overwrites the gradient with the sum of the rows, always in the same order."""
    n = gradient.numel()
    columns, at_once = (_COLUMNS_OF_SHORT, _ROWS_OF_SHORT) if n <= _SHORT else (_COLUMNS, _ROWS_AT_ONCE)
    _add_rows[(-(-n // columns), )](partial, gradient, n, partial.stride(0), partial.shape[0], COLUMNS=columns, AT_ONCE=at_once)
