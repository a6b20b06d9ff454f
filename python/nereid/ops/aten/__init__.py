"""The declarations: importing this package fills `OPERATORS`."""

from . import activation, binary, ternary, unary  # noqa: F401
