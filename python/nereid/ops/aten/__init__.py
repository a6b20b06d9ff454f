"""The declarations: importing this package fills `OPERATORS`."""

from . import activation, binary, halves, ternary, unary  # noqa: F401
