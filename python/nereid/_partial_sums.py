"""Partial sums: gradients of what many programs read, summed without atomic additions (docs/differentiation.md)."""

import torch

from . import language as tl
from ._jit import jit

#: Most partial sums of a gradient. On a CPU; on a GPU for each of its multiprocessors, before the kernel is compiled. They do not depend on how many
#: threads run, so that the same bits come out.
_ROWS_ON_CPU, _ROWS_OF_MULTIPROCESSOR = 128, 4
#: Partial sums of fewer elements than this together are always made.
_FEW = 1 << 16
#: Columns of a program that adds them, and rows that it reads at once: of short rows, which few programs add, more rows. On a GPU always many rows, since the
#: loop waits for each of its loads: 26 us for 528 rows of 4,096 columns on an H200 with 64 and 32. All rows at once if there are no more than this: 683 rows of two
#: gradients of 256 columns 5 us less than in three turns.
_COLUMNS, _ROWS_AT_ONCE, _SHORT = 64, 32, 1024
_COLUMNS_OF_SHORT, _ROWS_OF_SHORT = 16, 128
_COLUMNS_ON_GPU, _ROWS_ON_GPU, _MOST_ROWS_ON_GPU, _WARPS_ON_GPU = 16, 256, 1024, 8


def rows_for(programs, device):
    """How many partial sums a gradient has, which is how many programs are launched. On a GPU, with as many programs on a multiprocessor as most kernels
    have; `rows_of` says it for a compiled kernel."""
    most = _ROWS_ON_CPU
    if device.type == "cuda":
        most = _ROWS_OF_MULTIPROCESSOR * torch.cuda.get_device_properties(device).multi_processor_count
    return min(programs, most)


def rows_of(compiled, programs, device, most):
    """The same for a compiled kernel on a GPU: one for each program that runs at the same time, but at most `most`; of these as few as take as many rounds. None
    where it is not known how many run."""
    blocks = compiled._values.get("resident_blocks", 0) // compiled._values.get("num_ctas", 1)
    if not blocks:
        return None
    places = min(most, blocks * torch.cuda.get_device_properties(device).multi_processor_count)
    return balanced(programs, places)


def balanced(programs, places):
    """The fewest programs to launch for as few rounds as `places` programs take."""
    rounds = -(-programs // max(1, places))
    return -(-programs // rounds)


def most_rows(gradients, elements):
    """How many partial sums of these gradients are worth while: `is_worth`."""
    return max(elements, _FEW) // max(gradient.numel() for gradient in gradients)


def is_worth(gradient, rows, elements):
    """Whether a gradient is summed in this many partial sums rather than by atomic additions: when these have no more elements than all tensors with
    gradients together, so that clearing, writing and adding them takes about as long as what the kernel does anyhow.

    elements: of all gradients. A gradient that is not a contiguous tensor of its own gets no partial sums: what the kernel adds outside would
    land in another row."""
    return (isinstance(gradient, torch.Tensor) and gradient.is_floating_point() and gradient.is_contiguous() and gradient.numel() > 0
            and gradient.untyped_storage().nbytes() == gradient.numel() * gradient.element_size()
            and rows <= most_rows([gradient], elements))


def make(gradients, rows):
    """For each gradient a matrix of zeros with a row for each partial sum, of fp64 or fp32. Rows begin at multiples of 64 bytes. All of one dtype are cleared together."""
    wide = [torch.float64 if each.dtype == torch.float64 else torch.float32 for each in gradients]
    lengths = [-(-each.numel() // 16) * 16 for each in gradients]
    memory = {dtype: torch.zeros(rows * sum(length for other, length in zip(wide, lengths) if other == dtype), dtype=dtype, device=gradients[0].device) for dtype in dict.fromkeys(wide)}
    sums = []
    for dtype, length in zip(wide, lengths):
        sums.append(memory[dtype][:rows * length].view(rows, length))
        memory[dtype] = memory[dtype][rows * length:]
    return sums


@jit
def _sum_of_rows(partial, total, n, length, rows, program, COLUMNS: tl.constexpr, AT_ONCE: tl.constexpr):
    at = program * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.arange(0, AT_ONCE)
    sums = tl.zeros([AT_ONCE, COLUMNS], dtype=partial.dtype.element_ty)
    for begin in range(0, rows, AT_ONCE):
        row = begin + first
        sums += tl.load(partial + row[:, None].to(tl.int64) * length + at[None, :], mask=(row[:, None] < rows) & (at[None, :] < n), other=0.0)
    tl.store(total + at, tl.sum(sums, 0), mask=at < n)


@jit
def _add_rows(partial, total, n, length, rows, COLUMNS: tl.constexpr, AT_ONCE: tl.constexpr):
    _sum_of_rows(partial, total, n, length, rows, tl.program_id(0), COLUMNS, AT_ONCE)


@jit
def _add_rows_of_two(partial, total, n, length, partial_2, total_2, n_2, length_2, rows, COLUMNS: tl.constexpr, AT_ONCE: tl.constexpr):
    program, programs = tl.program_id(0), tl.cdiv(n, COLUMNS)
    if program < programs:
        _sum_of_rows(partial, total, n, length, rows, program, COLUMNS, AT_ONCE)
    else:
        _sum_of_rows(partial_2, total_2, n_2, length_2, rows, program - programs, COLUMNS, AT_ONCE)


def add(partial, gradients):
    """Overwrites each gradient with the sum of its rows, always in the same order. On a GPU two gradients in a launch, whose programs are few."""
    sums = list(zip(partial, gradients))
    if not gradients[0].is_cuda:
        for rows, gradient in sums:
            n = gradient.numel()
            columns, at_once = (_COLUMNS_OF_SHORT, _ROWS_OF_SHORT) if n <= _SHORT else (_COLUMNS, _ROWS_AT_ONCE)
            _add_rows[(-(-n // columns), )](rows, gradient, n, rows.stride(0), rows.shape[0], COLUMNS=columns, AT_ONCE=at_once)
        return
    at_once = min(_MOST_ROWS_ON_GPU, max(_ROWS_ON_GPU, 1 << (partial[0].shape[0] - 1).bit_length()))
    options = dict(COLUMNS=_COLUMNS_ON_GPU, AT_ONCE=at_once, num_warps=_WARPS_ON_GPU)
    for at in range(0, len(sums), 2):
        arguments, programs = [], 0
        for rows, gradient in sums[at:at + 2]:
            arguments += [rows, gradient, gradient.numel(), rows.stride(0)]
            programs += -(-gradient.numel() // _COLUMNS_ON_GPU)
        kernel = _add_rows if len(arguments) == 4 else _add_rows_of_two
        kernel[(programs, )](*arguments, partial[0].shape[0], **options)
