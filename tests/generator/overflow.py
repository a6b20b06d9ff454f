"""Which programs debug mode stops: it reports sums, differences and products of integers narrower than 64 bits that do not fit their type.

All machines of a program share one `Overflow`. What the language evaluates for sure and what it may leave out, or combine in another
order, are told apart: `SURELY` programs must be stopped, `NEVER` ones must not be, `MAYBE` ones may.
"""

import contextlib

import numpy as np

from .dtypes import BOOL, Reject

NEVER, MAYBE, SURELY = range(3)


class Overflow:

    def __init__(self, forbidden=False):
        """`forbidden`: an operation that may overflow is rejected, so that programs without overflow are made."""
        self.state, self.forbidden, self.doubts = NEVER, forbidden, 0

    def note(self, surely=True):
        if self.forbidden:
            raise Reject("an overflow")
        self.state = max(self.state, SURELY if surely and not self.doubts else MAYBE)

    @contextlib.contextmanager
    def doubt(self):
        """For operands that the language may leave out."""
        self.doubts += 1
        try:
            yield
        finally:
            self.doubts -= 1

    # Operations.

    def binary(self, function, x, y):
        """`+`, `-` or `*` of two operands in their common type."""
        dtype = x.dtype
        if not is_checked(dtype):
            return
        wide = np.uint64 if function is np.multiply and not dtype.signed else np.int64
        with np.errstate(all="ignore"):
            exact = function(x.array.astype(wide), y.array.astype(wide))
        if _outside(dtype, exact):
            self.note()

    def sum(self, x, axis, running=False):
        """Of the elements along an axis, in an order that is open. `running`: every prefix, `axis` counted in its order."""
        if not is_checked(x.dtype):
            return
        wide = np.asarray(x.array).astype(np.int64)
        up, down = (np.sum(f(wide, 0), axis=axis) for f in (np.maximum, np.minimum))
        if _outside(x.dtype, up) or _outside(x.dtype, down):
            self.note(_outside(x.dtype, np.cumsum(wide, axis=axis) if running else np.sum(wide, axis=axis)))

    def product(self, x, axis, running=False):
        if not is_checked(x.dtype):
            return
        wide = np.moveaxis(np.asarray(x.array).astype(np.float64), axis, 0)
        largest, total, outside = np.ones(wide.shape[1:]), np.ones(wide.shape[1:]), False
        for row in wide:
            largest = np.clip(largest * np.maximum(np.abs(row), 1), 0, 1e30)
            total = np.clip(total * row, -1e30, 1e30)
            outside |= bool(np.any((total > 1.001 * x.dtype.maximum + 1) | (total < 1.001 * x.dtype.minimum - 1)))
        if np.any(largest > 0.999 * x.dtype.maximum):
            last = bool(np.any((total > 1.001 * x.dtype.maximum + 1) | (total < 1.001 * x.dtype.minimum - 1)))
            self.note(outside if running else last)

    def affine(self, factors, terms, axis):
        """The composition of `factor * x + term` along an axis."""
        if not is_checked(factors.dtype):
            return
        largest = np.prod(np.maximum(np.abs(np.asarray(factors.array, np.float64)), 1), axis=axis)
        bound = largest * np.maximum(np.sum(np.abs(np.asarray(terms.array, np.float64)), axis=axis), 1)
        if np.any(bound > 0.999 * factors.dtype.maximum):
            self.note(False)


def is_checked(dtype):
    return dtype.is_int and dtype is not BOOL and dtype.bits < 64


def _outside(dtype, exact):
    if exact.dtype == np.uint64:
        return bool(np.any(exact > np.uint64(dtype.maximum)))
    return bool(np.any((exact < dtype.minimum) | (exact > dtype.maximum)))
