"""Kernels inside JAX's programs: a classifier whose softmax and loss are kernels, trained by `jax.grad` in one jitted scan, beside the same in JAX alone.

    python examples/jax/softmax.py [--steps 200] [--rows 256] [--classes 1000]

It prints the two losses as training goes on and the time of a step, and fails where the losses or the weights differ.
"""

import argparse
import functools
import time

import jax
import jax.numpy as jnp

import nereid
import nereid.jax
import nereid.language as tl


@nereid.jit
def softmax_kernel(x, out, columns, BLOCK: tl.constexpr):
    """One row a program."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    exponents = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * columns + i, exponents / tl.sum(exponents, 0), mask=i < columns)


@nereid.jit
def loss_kernel(logits, labels, losses, columns, BLOCK: tl.constexpr):
    """The cross entropy of a row: log of the sum of exponents, less the logit of the label."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(logits + row * columns + i, mask=i < columns, other=-float("inf"))
    peak = tl.max(values, 0)
    chosen = tl.sum(tl.where(i == tl.load(labels + row), values, 0.0), 0)
    tl.store(losses + row, tl.log(tl.sum(tl.exp(values - peak), 0)) + peak - chosen)


def softmax(x):
    """Rows of an array of rank 2; no derivative is asked for, so `call` is enough."""
    rows, columns = x.shape
    return nereid.jax.call(softmax_kernel, x, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(rows, ), columns=columns, BLOCK=nereid.next_power_of_2(columns))


# The backward kernel is made by the compiler.
cross_entropy = nereid.jax.autograd(
    loss_kernel, wrt="logits", out={"losses": lambda a: jax.ShapeDtypeStruct(a["logits"].shape[:1], jnp.float32)}, grid=lambda a: (a["logits"].shape[0], ),
    arguments={"columns": lambda a: a["logits"].shape[1], "BLOCK": lambda a: nereid.next_power_of_2(a["logits"].shape[1])})


def cross_entropy_by_jax(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)[:, 0]


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def train(loss_of, steps, weights, x, labels):
    """The weights after some steps of gradient descent, and the loss of each step."""

    def step(weights, _):
        loss, gradient = jax.value_and_grad(lambda w: loss_of(x @ w, labels).mean())(weights)
        return weights - 2.0 * gradient, loss

    return jax.lax.scan(step, weights, None, length=steps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--classes", type=int, default=1000)
    options = parser.parse_args()
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (options.rows, 64))
    labels = jax.random.randint(keys[1], (options.rows, ), 0, options.classes)
    start = 0.1 * jax.random.normal(keys[2], (64, options.classes))

    results = {}
    for name, loss_of in (("kernels", cross_entropy), ("JAX", cross_entropy_by_jax)):
        compiled = train.lower(loss_of, options.steps, start, x, labels).compile()
        begin = time.perf_counter()
        weights, losses = jax.block_until_ready(compiled(start + 0, x, labels))
        milliseconds = (time.perf_counter() - begin) / options.steps * 1e3
        results[name] = weights, losses
        shown = ", ".join(f"{losses[i]:.4f}" for i in range(0, options.steps, max(1, options.steps // 4)))
        print(f"{name:8}  loss {shown}, {losses[-1]:.4f}; {milliseconds:.2f} ms a step")
    (weights, losses), (expected, expected_losses) = results.values()
    probabilities = jax.jit(softmax)(x @ weights)
    right = (probabilities.argmax(1) == labels).mean()
    error = float(jnp.abs(losses - expected_losses).max())
    print(f"labels found {right:.1%}; largest difference of the losses {error:.1e}, of the weights {jnp.abs(weights - expected).max():.1e}")
    if not error < 1e-3 or not jnp.allclose(probabilities, jax.nn.softmax(x @ weights), rtol=1e-4, atol=1e-6):
        raise SystemExit("the kernels and JAX differ")


if __name__ == "__main__":
    main()
