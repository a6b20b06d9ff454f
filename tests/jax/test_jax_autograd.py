"""`nereid.jax.autograd`: gradients of kernels compared with those of JAX's own functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from jax_kernels import activated, add, normalised, softmax, swiglu

import nereid
import nereid.jax

pytestmark = pytest.mark.timeout(300)

GRID = {"grid": lambda a: (nereid.cdiv(a["n"], a["BLOCK"]), )}
gated = nereid.jax.autograd(swiglu, wrt=("gate", "up"), out="y", arguments={"n": lambda a: a["gate"].size, "BLOCK": 256}, **GRID)
soft = nereid.jax.autograd(softmax, wrt="x", out="out", grid=lambda a: (a["x"].shape[0], ), arguments={"columns": lambda a: a["x"].shape[1], "BLOCK": 64})
norm = nereid.jax.autograd(
    normalised, wrt=("x", "weight"), grid=lambda a: (a["x"].shape[0], ), arguments={"columns": lambda a: a["x"].shape[1], "BLOCK": 64},
    out={"out": "x", "sign": lambda a: jax.ShapeDtypeStruct(a["x"].shape, jnp.int32), "scales": lambda a: jax.ShapeDtypeStruct(a["x"].shape[:1], jnp.float32)})


def normal(*shape, seed=0, dtype=jnp.float32):
    return jax.random.normal(jax.random.key(seed), shape).astype(dtype)


def gated_by_jax(gate, up):
    return (jax.nn.silu(gate.astype(jnp.float32)) * up.astype(jnp.float32)).astype(gate.dtype)


def norm_by_jax(x, weight):
    scale = 1 / jnp.sqrt((x * x).mean(1, keepdims=True) + 1e-5)
    return x * scale * weight, jnp.where(x < 0, -1, 1), scale[:, 0]


def close(got, expected, **tolerance):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(np.asarray(a, np.float32), np.asarray(b, np.float32), **(tolerance or {"rtol": 2e-5, "atol": 2e-6})), got, expected)


@pytest.mark.parametrize("wrapped", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_swiglu(device, wrapped):
    gate, up, weights = normal(777), normal(777, seed=1), normal(777, seed=2)
    loss = [wrapped(jax.value_and_grad(lambda gate, up, f=f: (f(gate, up) * weights).sum(), (0, 1))) for f in (gated, gated_by_jax)]
    close(loss[0](gate, up), loss[1](gate, up), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_narrow_gradients_are_summed_in_fp32(device, dtype):
    gate, up = normal(777, dtype=dtype), normal(777, seed=1, dtype=dtype)
    got, expected = (jax.jit(jax.grad(lambda gate, up, f=f: f(gate, up).astype(jnp.float32).sum(), (0, 1)))(gate, up) for f in (gated, gated_by_jax))
    assert got[0].dtype == got[1].dtype == dtype
    close(got, expected, rtol=1e-2, atol=1e-2)


def test_softmax_rows(device):
    x, weights = normal(9, 50), normal(9, 50, seed=1)
    close(soft(x), jax.nn.softmax(x))
    got, expected = (jax.jit(jax.grad(lambda x, f=f: (f(x) * weights).sum()))(x) for f in (soft, jax.nn.softmax))
    close(got, expected)


def test_a_product_with_an_activation(device):
    """Of which `nereid.grad` makes two launches. Here it is one, without memory for what the first would save."""
    product = nereid.jax.autograd(activated, wrt=("a", "b", "bias"), grid=lambda a: (nereid.cdiv(a["M"], 16), nereid.cdiv(a["N"], 16)),
                                  arguments={"M": lambda a: a["a"].shape[0], "N": lambda a: a["b"].shape[1], "K": lambda a: a["a"].shape[1], "BLOCK": 16},
                                  out={"c": lambda a: jax.ShapeDtypeStruct((a["a"].shape[0], a["b"].shape[1]), jnp.float32)})
    a, b, bias, weights = normal(40, 24), normal(24, 33, seed=1), normal(33, seed=2), normal(40, 33, seed=3)

    def by_jax(a, b, bias):
        return jax.nn.silu(jnp.matmul(a, b, precision="highest") + bias)  # the default on GPUs is TF32

    got, expected = (jax.jit(jax.grad(lambda *given, f=f: (f(*given) * weights).sum(), (0, 1, 2)))(a, b, bias) for f in (product, by_jax))
    close(got, expected, rtol=1e-4, atol=1e-3)
    assert "its schedule is not transposed: what a tile adds to it is computed in a loop" in product.explain()


def test_several_outputs_one_of_integers(device):
    x, weight, a, b = normal(6, 50), normal(50, seed=1), normal(6, 50, seed=2), normal(6, seed=3)

    def loss(f, used):
        def of(x, weight):
            out, sign, scales = f(x, weight)
            assert jnp.issubdtype(sign.dtype, jnp.integer)
            return (out * a).sum() * used[0] + (scales * b).sum() * used[1] + (sign * a).sum()
        return jax.jit(jax.value_and_grad(of, (0, 1)))

    for used in ((1, 1), (1, 0), (0, 1)):
        close(loss(norm, used)(x, weight), loss(norm_by_jax, used)(x, weight), rtol=1e-4, atol=1e-5)
    one = [jax.grad(lambda x, f=f: (f(x, weight)[2] * b).sum())(x) for f in (norm, norm_by_jax)]  # the other output has no cotangent
    close(*one, rtol=1e-4, atol=1e-6)


def test_only_the_gradients_that_are_needed_are_computed():
    gate, up = normal(777), normal(777, seed=1)
    texts = [str(jax.make_jaxpr(jax.grad(lambda gate, up: gated(gate, up).sum(), wrt))(gate, up)) for wrt in (0, (0, 1))]
    assert [text.count("nereid_call") for text in texts] == [2, 2]
    # A gradient is one operand of zeros and one result of the backward call.
    assert [text.count("f32[777] = broadcast_in_dim") for text in texts] == [2, 3]
    close(jax.grad(lambda gate: gated(gate, up).sum())(gate), jax.grad(lambda gate: gated_by_jax(gate, up).sum())(gate))


def test_training_loop_in_scan(device):
    x, target = normal(8, 50), jax.nn.softmax(normal(8, 50, seed=1))

    def train(f):
        def step(weights, _):
            value, gradient = jax.value_and_grad(lambda w: -(target * jnp.log(f(x * w))).sum())(weights)
            return weights - 0.05 * gradient, value
        return jax.jit(lambda w: jax.lax.scan(step, w, None, length=20))(jnp.ones((8, 50)))

    got, expected = train(soft), train(jax.nn.softmax)
    close(got, expected, rtol=1e-3, atol=1e-4)
    assert got[1][-1] < got[1][0]


def test_vmap(device):
    gate, up = normal(3, 100), normal(3, 100, seed=1)
    batched = nereid.jax.autograd(swiglu, wrt=("gate", "up"), out="y", arguments={"n": lambda a: a["gate"].size, "BLOCK": 256}, vmap_method="sequential", **GRID)
    got, expected = (jax.jit(jax.vmap(jax.grad(lambda gate, up, f=f: f(gate, up).sum(), (0, 1))))(gate, up) for f in (batched, gated_by_jax))
    close(got, expected)
    with pytest.raises(NotImplementedError, match="swiglu: `vmap` cannot batch a kernel"):
        jax.vmap(gated)(gate, up)


def test_gradients_of_all_devices():
    mesh = jax.make_mesh((4, ), ("i", ), axis_types=(AxisType.Auto, ), devices=jax.devices("cpu"))
    x, w = normal(8, 50), normal(50, seed=1)
    losses = [lambda w, x, f=f: (f(x * w) * x).sum() for f in (soft, jax.nn.softmax)]
    parts = jax.shard_map(lambda w, x: jax.lax.psum(jax.grad(losses[0])(jax.lax.pcast(w, "i", to="varying"), x), "i"), mesh=mesh, in_specs=(P(), P("i")), out_specs=P())
    close(jax.jit(parts)(w, x), jax.grad(losses[1])(w, x), rtol=1e-4, atol=1e-5)


def test_rematerialised(device):
    x = normal(9, 50)
    got, expected = (jax.jit(jax.grad(lambda x, f=f: (jax.checkpoint(f)(x)**2).sum()))(x) for f in (soft, jax.nn.softmax))
    close(got, expected)


def test_explain():
    fresh = nereid.jax.autograd(swiglu, wrt="up", out="y", arguments={"n": 8, "BLOCK": 8}, **GRID)
    assert fresh.explain() == "nothing is compiled yet: run a backward pass"
    jax.grad(lambda up: fresh(normal(8), up).sum())(normal(8, seed=1))
    assert "the gradient of `up` is" in fresh.explain()


def test_refused_calls():
    gate = normal(8)
    one = nereid.jax.autograd(swiglu, wrt="gate", out={"y": "gate"}, arguments={"n": 8, "BLOCK": 8}, **GRID)
    jax.grad(lambda gate: one(gate, gate.at[0].set(0) * 0 + jax.lax.stop_gradient(gate)).sum())
    close(jax.grad(lambda x: one(x, jax.lax.stop_gradient(gate)).sum())(gate), jax.grad(lambda x: gated_by_jax(x, gate).sum())(gate))
    for make, error, text in (
        (lambda: jax.grad(lambda x: one(gate, x).sum())(gate), ValueError, r"swiglu: `up` is differentiated and is not in `wrt`: name it there, or give `jax.lax.stop_gradient\(up\)`"),
        (lambda: one(gate), TypeError, "swiglu: the argument `up` is missing"),
        (lambda: one(gate, gate, gate), TypeError, r"swiglu\(gate, up\) takes 2 arguments, found 3"),
        (lambda: one(gate, gate, y=gate), TypeError, "swiglu: `y` is not given in a call: it is allocated, as `out` says"),
        (lambda: one(gate, gate, n=4), TypeError, "swiglu: `n` is not given in a call: it is in `arguments`"),
        (lambda: one(1.0, gate), TypeError, "swiglu: `gate` is in `wrt`: expected an array, found float"),
        (lambda: one(jnp.arange(8), gate), TypeError, "swiglu: `gate` is in `wrt` and has dtype int32: only floating-point arrays have gradients"),
        (lambda: jax.jvp(lambda x: one(x, gate), (gate, ), (gate, )), TypeError, "custom_vjp"),
        (lambda: jax.grad(lambda x: jax.grad(lambda x: one(x, jax.lax.stop_gradient(gate)).sum())(x).sum())(gate), NotImplementedError, "second derivatives of a kernel are not supported"),
    ):
        with pytest.raises(error, match=text):
            make()


@pytest.mark.parametrize("arguments, error, text", [
    ({"wrt": "z", "out": "out"}, ValueError, "`z` in `wrt` is no parameter of `add`"),
    ({"wrt": "x", "out": "z"}, ValueError, "`z` in `out` is no parameter of `add`"),
    ({"wrt": "x", "out": "out", "arguments": {"z": 1}}, ValueError, "`z` in `arguments` is no parameter of `add`"),
    ({"wrt": (), "out": "out"}, ValueError, "`add` cannot be differentiated without inputs and outputs"),
    ({"wrt": "x", "out": "x"}, ValueError, "`x` is in `wrt` and in `out`"),
    ({"wrt": "x", "out": "out", "arguments": {"out": 1}}, ValueError, "`out` is in `arguments` and in `out`"),
    ({"wrt": "x", "out": {"out": "z"}}, ValueError, "`out` says that `out` is like `z`, which is no input of `add`"),
    ({"wrt": "x", "out": {"out": 3}}, TypeError, "`out` in `out` is int: expected the name of an input"),
])  # yapf: disable
def test_refused_declarations(arguments, error, text):
    nereid.jax.autograd(add, wrt="x", out="out", grid=(1, ))
    with pytest.raises(error, match=text):
        nereid.jax.autograd(add, grid=(1, ), **arguments)
    with pytest.raises(TypeError, match="nereid.jax.autograd needs a kernel made with @jit, found function"):
        nereid.jax.autograd(lambda x: x, wrt="x", out="out", grid=(1, ))
