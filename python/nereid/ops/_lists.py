"""Operators on lists of tensors: how lists are split into launches (kernels/optimizers.py, kernels/foreach.py)."""

from ._strided import cdiv, step_up

#: How many tensors a launch takes, by how many pointers there are of each: few different lengths make few kernels.
MANY, SOME = (1, 8, 64), (1, 4, 16, 32)


def is_dense(tensor):
    """Whether the elements fill a range of memory, in any order of dimensions."""
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def same_order(a, b):
    """Whether the strides of two tensors of one shape differ only in dimensions of size 1."""
    return all(x == y for x, y, size in zip(a.stride(), b.stride(), a.shape) if size != 1)


def groups(lists, steps):
    """Splits lists of tensors (lists[i][j]: kind i of tensor j) into launches: lists of places j whose tensors have one dtype by kind, and the same alignment. Empty
    tensors are left out."""
    found = {}
    for place, row in enumerate(zip(*lists)):
        if row[0].numel():
            key = (*(tensor.dtype for tensor in row), any(tensor.data_ptr() % 16 for tensor in row))
            found.setdefault(key, []).append(place)
    for places in found.values():
        for first in range(0, len(places), steps[-1]):
            yield places[first:first + steps[-1]]


def batches(lists, steps):
    """`groups` as tuples of tuples of tensors."""
    for places in groups(lists, steps):
        yield tuple([tuple([tensors[place] for place in places]) for tensors in lists])


def filled(items, steps):
    """Items with the last one repeated up to one of the lengths in `steps`."""
    return (*items, *items[-1:] * (step_up(len(items), steps) - len(items)))


def laid_out(batch, steps, block):
    """(kinds of tensors, whether all are aligned, firsts, sizes, programs) of a batch, filled up to one of few lengths."""
    firsts, programs = [], 0
    for tensor in batch[0]:
        firsts.append(programs)
        programs += cdiv(tensor.numel(), block)
    kinds = tuple([filled(kind, steps) for kind in batch])
    fill = len(kinds[0]) - len(batch[0])
    return (kinds, not any(tensor.data_ptr() % 16 for kind in batch for tensor in kind), (*firsts, *(programs, ) * fill),
            filled([tensor.numel() for tensor in batch[0]], steps), programs)


def overlap(written, lists):
    """Whether a tensor that is written shares memory with another one of the lists, but those of the same place. All are dense.

    written: lists that are written; lists: those that are only read.
    """
    spans = [(tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size(), place, writes) for tensors, writes in
             (*((tensors, True) for tensors in written), *((tensors, False) for tensors in lists)) for place, tensor in enumerate(tensors) if tensor.numel()]
    end, of_first, same, writers = 0, None, True, 0
    for first, last, place, writes in sorted(spans):
        if first >= end:  # nothing before reaches here
            end, of_first, same, writers = last, (first, last, place), True, int(writes)
            continue
        end, same, writers = max(end, last), same and of_first == (first, last, place), writers + writes
        if writers > 1 or writers and not same:
            return True
    return False
