"""What a call of a kernel costs inside a jitted function of JAX, beside an operation of JAX on arrays of the same size.

    python benchmarks/jax_calls.py [--platform cpu|cuda] [--sizes 256 65536 4194304]

For each size, microseconds, the fastest of several rounds:
- "one": a jitted function that does one addition in place, called from Python and waited for;
- "further": what one more turn of a loop in that function takes (`jax.lax.fori_loop`), which does one addition.
"call" is `nereid.jax.call`, "JAX" `x + y`, "callback" `jax.pure_callback` with NumPy, "launch" `kernel[grid](...)` from Python without JAX.
On a GPU the times include the device's.
"""

import argparse
import os
import platform
import time

import jax
import jax.numpy as jnp
import numpy as np

import nereid
import nereid.jax
import nereid.language as tl

TURNS = 50


@nereid.jit
def add(x, y, n, BLOCK: tl.constexpr):
    """x += y."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


def block_of(n):
    return min(nereid.next_power_of_2(n), 4096)


def called(x, y):
    n = x.size
    return nereid.jax.call(add, x, y, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), input_output_aliases={0: 0}, grid=(nereid.cdiv(n, block_of(n)), ), n=n,
                           BLOCK=block_of(n))


def by_callback(x, y):
    return jax.pure_callback(np.add, jax.ShapeDtypeStruct(x.shape, x.dtype), x, y)


def looped(f):
    """As many turns as the last argument says, which XLA does not know."""
    return jax.jit(lambda x, y, turns: jax.lax.fori_loop(0, turns, lambda _, x: f(x, y), x))


def microseconds(f, *args):
    """The fastest of several rounds, in microseconds for one call."""
    jax.block_until_ready(f(*args))
    begin = time.perf_counter()
    jax.block_until_ready(f(*args))
    times = max(3, min(2000, int(0.02 / max(1e-7, time.perf_counter() - begin))))
    best = float("inf")
    for _ in range(25):
        begin = time.perf_counter()
        for _ in range(times):
            jax.block_until_ready(f(*args))
        best = min(best, (time.perf_counter() - begin) / times)
    return best * 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--platform", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 65536, 4194304])
    options = parser.parse_args()
    device = jax.devices(options.platform)[0]
    name = device.device_kind if options.platform == "cuda" else next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), platform.machine())
    print(f"{name}, {os.cpu_count()} cores, JAX {jax.__version__}, Python {platform.python_version()}; load {os.getloadavg()[0]:.1f}")
    print("| elements of fp32 | call: one | further | JAX: one | further | callback: one | further | launch |")
    print("|---|---|---|---|---|---|---|---|")
    with jax.default_device(device):
        for n in options.sizes:
            x, y = jnp.arange(n, dtype=jnp.float32), jnp.ones(n)
            row = []
            for f in (called, lambda x, y: x + y, by_callback):
                row.append(microseconds(jax.jit(f), x, y))
                loop = looped(f)
                few, many = (microseconds(loop, x, y, jnp.int32(turns)) for turns in (1, 1 + TURNS))
                row.append((many - few) / TURNS)
            launch = ""
            if options.platform == "cpu":
                given, out = np.ones(n, np.float32), np.zeros(n, np.float32)
                kernel = add[(nereid.cdiv(n, block_of(n)), )]
                launch = f"{microseconds(lambda: kernel(out, given, n, BLOCK=block_of(n)) and None):.2f}"
            print(f"| {n} | " + " | ".join(f"{each:.2f}" for each in row) + f" | {launch} |", flush=True)


if __name__ == "__main__":
    main()
