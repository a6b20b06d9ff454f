"""Operators of two tensors, or of a tensor and a number."""

import torch

from .._declare import declare
from .._guards import Guard
from ..functions import arithmetic
from ..pointwise import ALL, FLOATS, INTEGERS, OTHERS, Pointwise, Rule

NUMBERS = (*INTEGERS, *FLOATS)
BITS = (torch.bool, *INTEGERS)
PAIR = ("self", "other")


def _declare(name, function, promotion="default", dtypes=NUMBERS, inputs=PAIR, scalars=(), check=None, contiguous=(), **more):
    declare(Pointwise(name=name, inputs=inputs, scalars=scalars, check=check, contiguous=contiguous,
                      rules={(): Rule(function=function, promotion=promotion, dtypes=dtypes, **more)}))


_declare("add", arithmetic.add, dtypes=ALL, scalars=("alpha", ), numbers="compute")
_declare("sub", arithmetic.sub, scalars=("alpha", ), numbers="compute", check=Guard("no bool", "self"))
_declare("rsub", arithmetic.sub, inputs=("other", "self"), scalars=("alpha", ), numbers="compute", check=Guard("no bool", "self"))
_declare("mul", arithmetic.mul, dtypes=ALL, numbers="compute")
_divisor = Guard("divisor", "other")
_true = Rule(function=arithmetic.div, promotion="int_to_float", dtypes=FLOATS, numbers="compute")
declare(Pointwise(name="div", inputs=PAIR, choices=("rounding_mode", ), check=_divisor, rules={
    (None, ): _true,
    ("trunc", ): Rule(function=arithmetic.div_trunc, dtypes=NUMBERS),
    ("floor", ): Rule(function=arithmetic.div_floor, dtypes=NUMBERS),
}))
_declare("floor_divide", arithmetic.div_floor, check=_divisor)
_declare("remainder", arithmetic.remainder, check=_divisor)
_declare("fmod", arithmetic.fmod, check=_divisor)
# Squares and cubes are one multiplication or two where the exponent is known before the kernel; the branches of `power` pass all elements through memory.
declare(Pointwise(name="pow", inputs=("self", "exponent"), choices=("exponent", ), check=Guard("power", "exponent"), contiguous=("pow.Scalar", ), rules={
    OTHERS: Rule(function=arithmetic.power, dtypes=NUMBERS),
    (2, ): Rule(function=arithmetic.square_of, dtypes=NUMBERS),
    (3, ): Rule(function=arithmetic.cube_of, dtypes=NUMBERS),
}))

_declare("atan2", arithmetic.atan2, "int_to_float", FLOATS)
_declare("copysign", arithmetic.copysign, "int_to_float", FLOATS)
_declare("xlogy", arithmetic.xlogy, "int_to_float", FLOATS)
_declare("special_xlog1py", arithmetic.xlog1py, "int_to_float", FLOATS)
_declare("hypot", arithmetic.hypot, dtypes=FLOATS)
_declare("logaddexp", arithmetic.logaddexp, dtypes=FLOATS)
_declare("logaddexp2", arithmetic.logaddexp2, dtypes=FLOATS)
_declare("nextafter", arithmetic.nextafter, "no_opmath", (torch.float32, torch.float64))
_declare("maximum", arithmetic.maximum, dtypes=ALL)
_declare("minimum", arithmetic.minimum, dtypes=ALL)
_declare("fmax", arithmetic.fmax, dtypes=ALL)
_declare("fmin", arithmetic.fmin, dtypes=ALL)
_declare("gcd", arithmetic.gcd, dtypes=INTEGERS)
_declare("lcm", arithmetic.lcm, dtypes=INTEGERS)
_declare("heaviside", arithmetic.heaviside, dtypes=ALL, inputs=("self", "values"), same=True)

_declare("bitwise_and", arithmetic.bitwise_and, dtypes=BITS)
_declare("bitwise_or", arithmetic.bitwise_or, dtypes=BITS)
_declare("bitwise_xor", arithmetic.bitwise_xor, dtypes=BITS)
_declare("bitwise_left_shift", arithmetic.left_shift, dtypes=INTEGERS)
_declare("bitwise_right_shift", arithmetic.right_shift, dtypes=INTEGERS)
for _name in ("__lshift__", "__ilshift__"):
    _declare(_name, arithmetic.left_shift, dtypes=INTEGERS)
for _name in ("__rshift__", "__irshift__"):
    _declare(_name, arithmetic.right_shift, dtypes=INTEGERS)

for _name in ("logical_and", "logical_or", "logical_xor", "eq", "ne", "lt", "le", "gt", "ge"):
    _declare(_name, getattr(arithmetic, _name), "always_bool", ALL)
