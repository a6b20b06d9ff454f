"""`tl.extra.libdevice`: elementwise functions under the names of NVIDIA's device library, as far as the language has them."""

from .. import core

# Name here: name in the language.
_NAMES = {
    name: name
    for name in ("abs", "ceil", "cos", "erf", "exp", "exp2", "floor", "fma", "log", "log2", "rsqrt", "sin", "sqrt", "div_rn", "sqrt_rn")
}
_NAMES.update({"fast_expf": "exp", "fast_logf": "log", "fast_log2f": "log2", "fast_sinf": "sin", "fast_cosf": "cos",
               "mulhi": "umulhi"})
__all__ = [name for name, own in _NAMES.items() if hasattr(core._builtins, own)]
globals().update({name: getattr(core._builtins, _NAMES[name]) for name in __all__})
