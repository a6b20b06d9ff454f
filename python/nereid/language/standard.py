"""`tl.standard`: the functions of `tl` that are written in the language itself."""

from ._builtins import *  # noqa: F401, F403


def _log2(n):
    """Logarithm of a power of two, at compile time."""
    return int(getattr(n, "value", n)).bit_length() - 1
