"""Random programs of smooth operations: forward mode against central differences, reverse mode against forward mode.

NEREID_DIFFERENTIATION_PROGRAMS=N runs N of each kind, NEREID_DIFFERENTIATION_SEED=S others. A failure names its seed and shows its text.
"""

import os
import random

import grad_check
import harness
import jvp_check
import pytest
import torch

PROGRAMS = int(os.environ.get("NEREID_DIFFERENTIATION_PROGRAMS", "12"))
SEED = int(os.environ.get("NEREID_DIFFERENTIATION_SEED", "0"))
M, N = 8, 16

# Functions that are smooth and bounded where blocks are kept: around [-3, 3].
UNARY = ["tl.sin({0})", "tl.cos({0})", "libdevice.tanh({0})", "tl.exp(-{0} * {0})", "tl.sigmoid({0})", "tl.sqrt(1.0 + {0} * {0})", "tl.rsqrt(1.5 + {0} * {0})",
         "tl.log(1.25 + {0} * {0})", "tl.erf({0})", "libdevice.atan({0})", "-{0}", "0.5 * {0}", "1.0 / (2.0 + {0} * {0})", "tl.exp2(tl.sin({0}))", "libdevice.asinh({0})"]
BINARY = ["0.5 * ({0} + {1})", "0.5 * ({0} - {1})", "libdevice.tanh({0} * {1})", "{0} / (2.0 + {1} * {1})", "tl.fma(0.3 * {0}, {1}, 0.1)", "tl.maximum({0}, {1})",
          "tl.minimum({0}, {1})", "tl.where({0} > {1}, {0}, tl.sin({1}))", "libdevice.atan2({0}, 2.0 + {1} * {1})"]
SHAPED = ["0.25 * tl.sum({0}, axis=1)[:, None] + 0.0 * {0}", "0.25 * tl.sum({0}, axis=0)[None, :] + 0.0 * {0}", "tl.max({0}, axis=1)[:, None] + 0.0 * {0}",
          "tl.min({0}, axis=0)[None, :] + 0.0 * {0}", "0.25 * tl.cumsum({0}, axis=1)", "0.25 * tl.cumsum({0}, axis=0, reverse=True)",
          "tl.reshape(tl.trans({0}), (M, N))", "tl.trans(tl.reshape({0}, (N, M)))", "tl.softmax({0}, dim=1)", "0.1 * tl.dot({0}, 0.2 * tl.dot(tl.trans({0}), {0}))",
          "tl.reshape(tl.join(tl.split(tl.reshape({0}, (M, N // 2, 2)))[1], tl.split(tl.reshape({0}, (M, N // 2, 2)))[0]), (M, N))"]
FORWARD_ONLY = ["tl.associative_scan((0.5 * tl.sigmoid({0}), {0}), 1, linear)[1]", "tl.reduce(1.0 + 0.1 * tl.sin({0}), 1, times)[:, None] + 0.0 * {0}",
                "tl.gather({0}, (tl.arange(0, M)[:, None] * 5 + tl.arange(0, N)[None, :] * 3) % N, axis=1)"]
HEADER = """from nereid.language.extra import libdevice


@triton.jit
def linear(a, x, b, y):
    return b * a, b * x + y


@triton.jit
def times(a, b):
    return a * b


@triton.jit
def kernel(x_ptr, w_ptr, y_ptr, z_ptr, flag, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v0 = tl.load(x_ptr + at)
    v1 = tl.load(w_ptr + at)
    v2 = v0 * 0.0 + tl.load(w_ptr + tl.arange(0, N))[None, :]
"""


def loop(rng, values, name):
    """A `for` loop that gives `name`: with an accumulator, states, a branch, a pointer, a loop inside it, a known number of rounds."""
    rounds = rng.choice([f"flag + {rng.randint(0, 2)}", "3 * flag", f"{rng.randint(1, 3)}, 9, flag", str(rng.randint(0, 4)), str(rng.randint(17, 19)), "flag, 0, -1"])
    n = name[1:]
    lines = [f"    {name} = {rng.choice(values)}", f"    s{n} = 0.0 * v0", f"    p{n} = x_ptr + at"]
    lines.append(f"    for k{n} in range({rounds}):")
    inside = [*values, name, f"s{n}"]

    def term(of):
        return rng.choice(UNARY).format(rng.choice(of))

    for _ in range(rng.randint(1, 4)):
        kind = rng.random()
        if kind < 0.25:
            lines.append(f"        s{n} += 0.1 * ({term([*values, name])})")
        elif kind < 0.45:
            lines.append(f"        {name} = 0.5 * ({term([name])}) + 0.3 * {rng.choice(inside)}")
        elif kind < 0.55:
            lines.append(f"        {name} = libdevice.tanh({name} + 0.2 * s{n} * {rng.choice(values)} + 0.01 * k{n})")
        elif kind < 0.65:
            lines += [f"        if k{n} % 2 == {rng.randint(0, 1)}:", f"            {name} = {rng.choice(BINARY).format(name, rng.choice(inside))}", "        else:",
                      f"            s{n} += 0.2 * {name}"]
        elif kind < 0.8:
            lines += [f"        {name} = 0.5 * {name} + 0.2 * tl.sin(tl.load(p{n}))", f"        p{n} += {rng.randint(0, 2)} * N"]
        elif kind < 0.9:
            lines.append(f"        {name} = tl.maximum({name}, 0.5 * {term(inside)}) + 0.1 * tl.max({name}, axis=1)[:, None]")
        else:
            lines += [f"        for j{n} in range(k{n} % 3 + 1):", f"            {name} = 0.5 * ({term([name])}) + 0.2 * {rng.choice(inside)}",
                      f"            {name} = {name} + 0.1 * {rng.choice(SHAPED).format(*[rng.choice(inside)] * 2)}"]
    lines.append(f"    {name} = {name} + 0.5 * s{n}")
    return lines


def program(seed, is_forward):
    """The text of a kernel: a few values, some in branches and loops, of which the last ones are stored."""
    rng = random.Random(seed)
    lines, values = [], ["v0", "v1", "v2"]

    def expression():
        shaped = SHAPED + (FORWARD_ONLY if is_forward else [])
        kind = rng.random()
        template = rng.choice(UNARY if kind < 0.4 else BINARY if kind < 0.75 else shaped)
        return template.format(*(rng.choice(values) for _ in range(4)))

    for _ in range(rng.randint(4, 9)):
        name = f"v{len(values)}"
        kind = rng.random()
        if kind < 0.2:
            lines += [f"    if flag > {rng.randint(0, 2)}:", f"        {name} = {expression()}", "    else:", f"        {name} = {expression()}"]
        elif kind < 0.35 and not is_forward:
            lines += loop(rng, values, name)
        elif kind < 0.35:
            body = rng.choice(UNARY).format(name)
            lines += [f"    {name} = {rng.choice(values)}", f"    for k in range(flag + {rng.randint(0, 2)}):",
                      f"        {name} = 0.5 * ({body}) + 0.3 * {rng.choice(values)}"]
        elif kind < 0.45 and is_forward:
            lines += [f"    {name} = {rng.choice(values)}", f"    n{name} = flag", f"    while n{name} > 0:",
                      f"        {name} = libdevice.tanh({name}) + 0.1 * {rng.choice(values)}", f"        n{name} -= 1"]
        else:
            lines.append(f"    {name} = {expression()}")
        values.append(name)
    lines += [f"    tl.store(y_ptr + at, {values[-1]})", f"    tl.store(z_ptr + at, {values[-1]} * {rng.choice(values)} + {values[-2]})"]
    return HEADER + "\n".join(lines) + "\n"


def arguments(seed):
    # A pointer of a loop advances by at most 4 * 2 rows in each of at most 19 rounds.
    return dict(x_ptr=jvp_check.random(20 * M, N), w_ptr=jvp_check.random(M, N), y_ptr=torch.zeros(M, N, dtype=torch.float64),
                z_ptr=torch.zeros(M, N, dtype=torch.float64), flag=seed % 3 + 2)


@pytest.mark.parametrize("seed", range(SEED, SEED + PROGRAMS))
def test_forward_mode(seed):
    text = program(seed, is_forward=True)
    try:
        jvp_check.check(harness.make(text), (1, ), arguments(seed), ("x_ptr", "w_ptr"), ("y_ptr", "z_ptr"), rtol=1e-4, atol=1e-5, single=5e-3, M=M, N=N)
    except Exception as error:
        raise AssertionError(f"program {seed}:\n{text}") from error


@pytest.mark.parametrize("seed", range(SEED, SEED + PROGRAMS))
def test_reverse_mode(seed):
    text = program(seed, is_forward=False)
    try:
        grad_check.check(harness.make(text), (1, ), arguments(seed), ("x_ptr", "w_ptr"), ("y_ptr", "z_ptr"), M=M, N=N)
    except Exception as error:
        raise AssertionError(f"program {seed}:\n{text}") from error


BUGS = [("0.1 *", "0.11 *"), ("0.2 *", "0.21 *"), ("0.3 *", "0.29 *"), ("+= 0.", "+= 0.001 + 0.9 * 0."), (" += 0 * N", " += 1 * N"), (" += 1 * N", " += 0 * N"), ("flag +", "1 + flag +"),
        ("3 * flag", "2 * flag"), ("tl.sin(", "tl.cos("), ("libdevice.tanh(", "libdevice.atan("), ("== 0:", "== 1:"), ("tl.maximum(", "tl.minimum(")]


@pytest.mark.parametrize("right,wrong", BUGS)
def test_bugs_in_loops_are_found(right, wrong):
    """Gradients of a program in which one line of a loop is wrong do not pass."""
    found = 0
    for seed in range(40):
        rng = random.Random(seed)
        lines = loop(rng, ["v0", "v1", "v2"], "v3")
        places = [i for i, line in enumerate(lines[3:], 3) if right in line]
        if not places:
            continue
        texts = []
        for mutate in (False, True):
            changed = [line.replace(right, wrong) if mutate and i == places[0] else line for i, line in enumerate(lines)]
            texts.append(HEADER + "\n".join([*changed, "    tl.store(y_ptr + at, v3)", "    tl.store(z_ptr + at, v3 * v3 + s3)"]) + "\n")
        good, bad = (harness.make(text) for text in texts)
        grad_check.check(good, (1, ), arguments(seed), ("x_ptr", "w_ptr"), ("y_ptr", "z_ptr"), M=M, N=N)
        try:
            grad_check.check(good, (1, ), arguments(seed), ("x_ptr", "w_ptr"), ("y_ptr", "z_ptr"), reverse=bad, M=M, N=N)
        except AssertionError:
            found += 1
            break
    assert found
