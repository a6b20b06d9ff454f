"""Operators of two tensors, or of a tensor and a number."""

import torch

from .._declare import declare
from ..functions import arithmetic
from ..pointwise import ALL, FLOATS, INTEGERS, Pointwise, Rule

NUMBERS = (*INTEGERS, *FLOATS)
BITS = (torch.bool, *INTEGERS)
PAIR = ("self", "other")


def divides_by_zero(values):
    """ATen refuses to divide integers by zero on the CPU; on GPUs the result is undefined."""
    divisor = values["other"]
    if isinstance(divisor, torch.Tensor):
        if divisor.device.type != "cpu" or divisor.is_floating_point() or divisor.is_complex():
            return None
        dividend = values["self"]
        if isinstance(dividend, torch.Tensor) and dividend.is_floating_point():
            return None
        return "division by zero" if torch.count_nonzero(divisor) != divisor.numel() else None
    return "division by zero" if divisor == 0 and not isinstance(divisor, float) and isinstance(values["self"], torch.Tensor) and \
        values["self"].device.type == "cpu" and not values["self"].is_floating_point() else None


def _declare(name, function, promotion="default", dtypes=NUMBERS, inputs=PAIR, scalars=(), check=None, contiguous=(), **more):
    declare(Pointwise(name=name, inputs=inputs, scalars=scalars, check=check, contiguous=contiguous,
                      rules={(): Rule(function=function, promotion=promotion, dtypes=dtypes, **more)}))


_declare("add", arithmetic.add, dtypes=ALL, scalars=("alpha", ), numbers="compute")
_declare("sub", arithmetic.sub, scalars=("alpha", ), numbers="compute")
_declare("rsub", arithmetic.sub, inputs=("other", "self"), scalars=("alpha", ), numbers="compute")
_declare("mul", arithmetic.mul, dtypes=ALL, numbers="compute")
_true = Rule(function=arithmetic.div, promotion="int_to_float", dtypes=FLOATS, numbers="compute")
declare(Pointwise(name="div", inputs=PAIR, choices=("rounding_mode", ), check=lambda values: values.get("rounding_mode") and divides_by_zero(values), rules={
    (None, ): _true,
    ("trunc", ): Rule(function=arithmetic.div_trunc, dtypes=NUMBERS),
    ("floor", ): Rule(function=arithmetic.div_floor, dtypes=NUMBERS),
}))
_declare("floor_divide", arithmetic.div_floor, check=divides_by_zero)
_declare("remainder", arithmetic.remainder, check=divides_by_zero)
_declare("fmod", arithmetic.fmod, check=divides_by_zero)


def _negative_power(values):
    exponent = values["exponent"]
    return "negative power" if not isinstance(exponent, torch.Tensor) and not isinstance(exponent, (float, complex)) and exponent < 0 else None


_declare("pow", arithmetic.power, inputs=("self", "exponent"), check=_negative_power, contiguous=("pow.Scalar", ))

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
_declare("__lshift__", arithmetic.left_shift, dtypes=INTEGERS)
_declare("__rshift__", arithmetic.right_shift, dtypes=INTEGERS)

for _name in ("logical_and", "logical_or", "logical_xor", "eq", "ne", "lt", "le", "gt", "ge"):
    _declare(_name, getattr(arithmetic, _name), "always_bool", ALL)
