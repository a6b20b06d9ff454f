"""Operators of two tensors."""

from .._declare import declare
from ..functions import arithmetic
from ..pointwise import Pointwise, Rule

declare(Pointwise(name="add", inputs=("self", "other"), scalars=("alpha", ), rules={(): Rule(function=arithmetic.add, numbers="compute")}))
