"""The declarations: importing this package fills `OPERATORS`."""

from . import binary  # noqa: F401
