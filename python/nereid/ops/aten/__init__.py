"""The declarations: importing this package fills `OPERATORS`."""

from . import activation, binary, halves, losses, reductions, rows, scans, ternary, unary  # noqa: F401
