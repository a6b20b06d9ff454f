"""The random functions of the language under the name that clients import them from."""

from . import core
from ._builtins import pair_uniform_to_normal, philox, philox_impl, rand, rand4x, randint, randint4x, randn, randn4x, uint_to_uniform_float

#: Rounds of Philox.
N_ROUNDS_DEFAULT = core.constexpr(10)

__all__ = [
    "N_ROUNDS_DEFAULT", "pair_uniform_to_normal", "philox", "philox_impl", "rand", "rand4x", "randint", "randint4x", "randn", "randn4x",
    "uint_to_uniform_float"
]
