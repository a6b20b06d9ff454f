"""Operators of one tensor."""

from .._declare import declare
from .._guards import Guard
from ..functions import special, unary
from ..pointwise import ALL, FLOATS, INTEGERS, Pointwise, Rule

NUMBERS = (*INTEGERS, *FLOATS)


def _declare(name, function, promotion="default", dtypes=FLOATS, **more):
    declare(Pointwise(name=name, inputs=("self", ), rules={(): Rule(function=function, promotion=promotion, dtypes=dtypes)}, **more))


def _order(values):
    """Of order 1 ATen's answers at the poles are large numbers that depend on its sine."""
    return "error due" if values["n"] < 0 else "order 1" if values["n"] == 1 else None


# Floats in, floats out; integers and bools become floats first.
for _name, _function in {
    "exp": unary.exp, "exp2": unary.exp2, "expm1": unary.expm1, "log": unary.log, "log2": unary.log2, "log10": unary.log10, "log1p": unary.log1p,
    "sin": unary.sin, "cos": unary.cos, "tan": unary.tan, "asin": unary.asin, "acos": unary.acos, "atan": unary.atan, "sinh": unary.sinh,
    "cosh": unary.cosh, "tanh": unary.tanh, "asinh": unary.asinh, "acosh": unary.acosh, "atanh": unary.atanh, "sqrt": unary.sqrt,
    "rsqrt": unary.rsqrt, "reciprocal": unary.reciprocal, "erf": unary.erf, "erfc": unary.erfc, "erfinv": unary.erfinv, "lgamma": unary.lgamma,
    "digamma": unary.digamma, "i0": unary.i0, "sinc": unary.sinc, "special_i1": unary.i1, "special_i0e": unary.i0e, "special_i1e": unary.i1e, "special_ndtri": unary.ndtri,
    "special_log_ndtr": unary.log_ndtr, "special_erfcx": unary.erfcx, "special_entr": unary.entr, "angle": unary.angle,
    "deg2rad": unary.deg2rad, "rad2deg": unary.rad2deg
}.items():
    _declare(_name, _function, "int_to_float")
declare(Pointwise(name="logit", inputs=("self", ), scalars=("eps", ),
                  rules={(): Rule(function=unary.logit, promotion="int_to_float", dtypes=FLOATS)}))

declare(Pointwise(name="polygamma", inputs=("self", ), scalars=("n", ), check=_order, rules={(): Rule(function=special.polygamma, promotion="int_to_float", dtypes=FLOATS)}))

# The dtype stays.
_declare("abs", unary.absolute, dtypes=NUMBERS)
_declare("neg", unary.neg, dtypes=NUMBERS)
_declare("floor", unary.floor, dtypes=NUMBERS)
_declare("ceil", unary.ceil, dtypes=NUMBERS)
_declare("trunc", unary.trunc, dtypes=NUMBERS)
_declare("frac", unary.frac)
_declare("sign", unary.sign, dtypes=ALL)
_declare("sgn", unary.sign, dtypes=ALL)
_declare("bitwise_not", unary.bitwise_not, dtypes=(*ALL[:1], *INTEGERS))
declare(Pointwise(name="round", inputs=("self", ), scalars=("decimals", ), check=Guard("float", "decimals"), rules={(): Rule(function=unary.round_to_even, dtypes=NUMBERS)}))
declare(Pointwise(name="nan_to_num", inputs=("self", ), scalars=("nan", "posinf", "neginf"), fills={"nan": 0, "posinf": "max", "neginf": "min"},
                  rules={(): Rule(function=unary.nan_to_num, dtypes=FLOATS)}))

# The result is a bool.
for _name, _function in {"signbit": unary.signbit, "isnan": unary.isnan, "isinf": unary.isinf, "isposinf": unary.isposinf,
                         "isneginf": unary.isneginf, "logical_not": unary.logical_not}.items():
    _declare(_name, _function, "always_bool", ALL)
