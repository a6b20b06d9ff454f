"""`tl.math`: elementwise functions, the same ones as in `tl`."""

from . import _builtins

__all__ = [
    "abs", "ceil", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "log", "log2", "rsqrt", "sin", "sqrt", "sqrt_rn",
    "umulhi"
]
globals().update({name: getattr(_builtins, name) for name in __all__ if hasattr(_builtins, name)})
