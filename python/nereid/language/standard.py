"""`tl.standard`: the functions of `tl` that are written in the language itself, and the functions that they combine elements by, which
authors hand to `tl.reduce` and `tl.associative_scan`, too."""

from . import core
from ._builtins import *  # noqa: F401, F403


def _log2(n):
    """Logarithm of a power of two, at compile time."""
    return int(getattr(n, "value", n)).bit_length() - 1


def _combiner(name):

    def function(*arguments, _semantic=None):
        return core._call("standard." + name, arguments, {}, _semantic)

    function.__name__ = function.__qualname__ = name
    function = core.extern(function)
    function.__nereid_builtin__ = "standard." + name  # what it means inside a kernel
    return function


_sum_combine, _prod_combine, _xor_combine, _or_combine = map(_combiner, ("_sum_combine", "_prod_combine", "_xor_combine", "_or_combine"))
_elementwise_max, _elementwise_min = map(_combiner, ("_elementwise_max", "_elementwise_min"))
_argmax_combine_tie_break_left, _argmax_combine_tie_break_fast, _argmin_combine_tie_break_left, _argmin_combine_tie_break_fast = map(
    _combiner, ("_argmax_combine_tie_break_left", "_argmax_combine_tie_break_fast", "_argmin_combine_tie_break_left",
                "_argmin_combine_tie_break_fast"))
