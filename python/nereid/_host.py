"""Small functions for host code. Kernels may call them too: the language has them under the same names."""

import functools


def _number(value):
    """The number in a constant of the language."""
    return value if isinstance(value, int) else getattr(value, "value", value)  # PyTorch's compiler traces no getattr on sizes


def cdiv(x, y):
    """x divided by y, rounded up."""
    return _number((x + y - 1) // y)


cdiv.__nereid_builtin__ = "cdiv"


def next_power_of_2(n):
    """The smallest power of two that is not smaller than n."""
    n = _number(n)
    return 1 << max(n - 1, 0).bit_length() if n > 0 else 0


next_power_of_2.__nereid_builtin__ = "python.next_power_of_2"


def must_use_result(x, s=True):
    """Marks a function whose result should not be dropped."""
    if isinstance(x, str):
        return functools.partial(must_use_result, s=x)
    x._must_use_result = s
    return x
