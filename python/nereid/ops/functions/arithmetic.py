"""Arithmetic of two and three operands."""

import nereid
import nereid.language as tl


@nereid.jit
def add(x, y, alpha):
    if x.dtype == tl.int1:
        return x | (y & alpha)
    return x + y * alpha
