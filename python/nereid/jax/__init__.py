"""Kernels in the language inside JAX's programs. docs/jax.md.

    import nereid.jax

    y = nereid.jax.call(add_kernel, x, y, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(nereid.cdiv(n, 1024), ), n=n, BLOCK=1024)

    swiglu = nereid.jax.autograd(swiglu_kernel, wrt=("gate", "up"), out="y", grid=..., arguments={...})
    jax.grad(lambda gate, up: swiglu(gate, up).sum())(gate, up)

Importing it raises ImportError where JAX is missing or too old.
"""

from ._version import check as _check

_check()

from ._autograd import Function, autograd  # noqa: E402
from ._call import call  # noqa: E402
from ._library import build  # noqa: E402

__all__ = ["Function", "autograd", "build", "call"]
