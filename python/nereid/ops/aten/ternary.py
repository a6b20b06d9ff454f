"""Operators of three tensors, limits, masks, and what fills and copies."""

import torch

from .._declare import declare
from .._guards import Guard
from ..functions import arithmetic, unary
from ..pointwise import ALL, FLOATS, INTEGERS, Pointwise, Rule

NUMBERS = (*INTEGERS, *FLOATS)

declare(Pointwise(name="lerp", inputs=("self", "end", "weight"), rules={(): Rule(function=arithmetic.lerp, dtypes=FLOATS, same=True, numbers="compute")}))
declare(Pointwise(name="where", inputs=("condition", "self", "other"), check=Guard("bool", "condition"),
                  rules={(): Rule(function=arithmetic.where, promotion="no_opmath", raw=(0, ))}))
declare(Pointwise(name="clamp", inputs=("self", "min", "max"), rules={(): Rule(function=arithmetic.clamp, dtypes=NUMBERS)},
                  check=Guard("limit", "min")))
declare(Pointwise(name="clamp_min", inputs=("self", "min"), rules={(): Rule(function=arithmetic.clamp_min, dtypes=NUMBERS)}))
declare(Pointwise(name="clamp_max", inputs=("self", "max"), rules={(): Rule(function=arithmetic.clamp_max, dtypes=NUMBERS)}))
declare(Pointwise(name="addcmul", inputs=("self", "tensor1", "tensor2"), scalars=("value", ), rules={(): Rule(function=arithmetic.addcmul, dtypes=NUMBERS)}))
declare(Pointwise(name="addcdiv", inputs=("self", "tensor1", "tensor2"), scalars=("value", ), rules={(): Rule(function=arithmetic.addcdiv, dtypes=FLOATS)}))
declare(Pointwise(name="masked_fill", inputs=("self", "mask"), scalars=("value", ), check=Guard("bool", "mask"), contiguous=("masked_fill.Scalar", "masked_fill.Tensor"),
                  rules={(): Rule(function=arithmetic.masked_fill, promotion="no_opmath", raw=(1, ))}))

def _views_of_others(values):
    """PyTorch leaves tensors that stand for the negation or conjugation of others, and those without memory, to `copy_` itself."""
    return next(("layout" for tensor in (values["self"], values["src"])
                 if isinstance(tensor, torch.Tensor) and (tensor.is_neg() or tensor.is_conj() or tensor._is_zerotensor())), None)


# These only write.
declare(Pointwise(name="fill", inputs=(), scalars=("value", ), written="self", fresh=("fill.Scalar", "fill.Tensor"), rules={(): Rule(function=arithmetic.constant, promotion="no_opmath")}))
declare(Pointwise(name="zero", inputs=(), written="self", rules={(): Rule(function=arithmetic.zero, promotion="no_opmath")}))
declare(Pointwise(name="copy", inputs=("src", ), written="self", ignored=("non_blocking", ), check=_views_of_others,
                  rules={(): Rule(function=unary.identity, promotion="no_opmath", casts=True)}))
