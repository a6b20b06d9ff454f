"""JAX's own arrays as arguments of launches, outside of JAX's programs."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax_kernels import copy

from nereid.jax._call import DTYPES

READ_ONLY = "argument `out` is read-only, but `copy` stores through it"


@pytest.mark.parametrize("name", [name for name in DTYPES if name not in ("int64", "uint64", "float64")])
def test_read_and_never_written(name):
    x = jnp.arange(8).astype(name)
    y = np.zeros(8, x.dtype)
    copy[(1, )](x, y, 8, BLOCK=8)
    np.testing.assert_array_equal(y.astype(np.float32), np.asarray(x, np.float32))
    with pytest.raises(ValueError, match=READ_ONLY):
        copy[(1, )](y, x, 8, BLOCK=8)


def test_view_of_numpy_is_read_only_too():
    with pytest.raises(ValueError, match=READ_ONLY):
        copy[(1, )](np.zeros(8, np.float32), np.asarray(jnp.zeros(8)), 8, BLOCK=8)


def test_result_becomes_an_array_of_jax_without_a_copy():
    y = np.zeros(64, np.float32)
    copy[(1, )](jnp.arange(64.0), y, 64, BLOCK=64)
    np.testing.assert_array_equal(jnp.asarray(y), np.arange(64))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_waits_for_an_array_that_is_being_computed(dtype):
    slow = jax.jit(lambda x: (jnp.sin(x @ x @ x @ x) * 0 + 3).astype(dtype))
    x = jnp.ones((900, 900))
    slow(x).block_until_ready()
    y = np.zeros(x.size, np.float32)
    for i in range(3):
        y[:] = 0
        copy[(x.size // 4096 + 1, )](slow(x + i), y, x.size, BLOCK=4096)
        assert (y == 3).all()


def test_unsupported_types():
    with pytest.raises(TypeError, match="argument `x`: elements of type complex64 are not supported in kernels"):
        copy[(1, )](jnp.zeros(8, jnp.complex64), np.zeros(8, np.float32), 8, BLOCK=8)


def test_arrays_of_ml_dtypes():
    x = np.arange(8).astype(ml_dtypes.bfloat16)
    y = np.zeros_like(x)
    copy[(1, )](x, y, 8, BLOCK=8)
    np.testing.assert_array_equal(y, x)
    y.flags.writeable = False
    with pytest.raises(ValueError, match=READ_ONLY):
        copy[(1, )](x, y, 8, BLOCK=8)
