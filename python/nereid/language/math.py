"""`tl.math`: elementwise functions, the same ones as in `tl`."""

from . import core

__all__ = [
    "abs", "ceil", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "log", "log2", "rsqrt", "sin", "sqrt", "sqrt_rn",
    "umulhi"
]
globals().update({name: getattr(core._builtins, name) for name in __all__ if hasattr(core._builtins, name)})
