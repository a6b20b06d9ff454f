"""The declarations: importing this package fills `OPERATORS`."""

from . import activation, binary, halves, reductions, scans, ternary, unary  # noqa: F401
