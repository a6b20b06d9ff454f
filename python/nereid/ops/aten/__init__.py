"""The declarations: importing this package fills `OPERATORS`."""

from .._declare import as_far_as_known

with as_far_as_known():
    from . import activation, attention, bags, binary, convolution, copies, creation, ctc, distances, grids, grouped, halves, indexing, interpolation, losses, margins, padding, pooling, products, random, reductions, rows, scans, sorting, ternary, unary  # noqa: F401
    from . import foreach, optimizers  # noqa: F401  after those whose functions they take
