"""`tl.extra.libdevice`: elementwise functions under the names of NVIDIA's device library. Those that `tl.math` has too are that
function; the others are the library's own on a GPU and the C library's on the CPU, where it has them."""

from ... import _native
from .. import core
from ..math import *  # noqa: F401, F403
from ..math import __all__ as _of_math

_FUNCTIONS = """acos acosh asin asinh atan atan2 atanh cbrt copysign cosh cospi cyl_bessel_i0 cyl_bessel_i1 erfc erfcinv erfcx erfinv exp10
expm1 fast_cosf fast_exp10f fast_expf fast_log10f fast_log2f fast_logf fast_powf fast_sinf fast_tanf fdim finitef fmod hypot isfinited
isinf isnan j0 j1 lgamma log10 log1p logb nearbyint nextafter norm3d norm4d normcdf normcdfinv pow rcbrt remainder rhypot rint rnorm3d
rnorm4d round signbit sinh sinpi tan tanh tgamma trunc y0 y1""".split()

__all__ = [*_of_math, *_FUNCTIONS]


def _function(name):
    def function(*args, _semantic=None):
        return _native.call_builtin(_semantic, "libdevice." + name, args, {})
    function.__name__ = function.__qualname__ = name
    function = core.extern(function)
    function.__nereid_builtin__ = "libdevice." + name  # what it means inside a kernel
    return function


globals().update({name: _function(name) for name in _FUNCTIONS})
