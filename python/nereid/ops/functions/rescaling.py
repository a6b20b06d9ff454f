"""A function of elements and the norm of what they belong to."""

import nereid
import nereid.language as tl


@nereid.jit
def kept_below(x, norm, most):
    """`x` scaled to the norm `most` where its own is greater."""
    return tl.where(norm > most, x * (most / (norm + 1e-7)), x)
