"""Control flow and functions: every construct, run and compared with the same text run by Python."""

import numpy as np
import pytest
import torch

import harness

COVERED = {"range", "static_range", "static_assert", "static_print", "device_assert", "device_print", "condition"}


def run(body, *args, prologue="", size=1):
    """Runs `body` (indented statements on a, b, c and out) and gives back `out`."""
    names = "abc"[:len(args)]
    out = torch.full((size,), -77, dtype=torch.int64)
    kernel = harness.make(f"{prologue}@triton.jit\ndef kernel(out, {', '.join(names)}):\n{body}\n")
    kernel[(1,)](out, *args)
    return out.tolist() if size > 1 else out.item()


def lines(text):
    return "\n".join("    " + line for line in text.strip("\n").splitlines())


SCALAR_PROGRAMS = {
    "if": "r = 1\nif a > 3:\n    r = 2\n",
    "if else": "if a > 3:\n    r = 2\nelse:\n    r = 5\n",
    "elif": "if a > 5:\n    r = 2\nelif a > 3:\n    r = 5\nelse:\n    r = 9\n",
    "nested if": "r = 0\nif a > 2:\n    if a > 4:\n        r = 1\n    else:\n        r = 2\n    r += 10\n",
    "if expression": "r = 7 if a > 3 else 8\n",
    "for": "r = 0\nfor i in range(a):\n    r += i * i\n",
    "for start": "r = 0\nfor i in range(2, a):\n    r = r * 2 + i\n",
    "for step": "r = 0\nfor i in range(0, a, 3):\n    r = r * 7 + i\n",
    "for negative step": "r = 0\nfor i in range(a, 0, -2):\n    r = r * 11 + i\n",
    "for once": "r = a\nfor i in range(a, a + 3, 4):\n    r = r * 10 + i\n    if i > 4:\n        break\n    r += 1\n",
    "for zero trips": "r = 5\nfor i in range(a, a):\n    r = 6\n",
    "nested for": "r = 0\nfor i in range(a):\n    for j in range(i):\n        r += i * j\n",
    "assigning the index changes nothing": "r = 0\nfor i in range(a):\n    i = i * 100\n    r += i\n",
    "if in for": "r = 0\nfor i in range(a):\n    if i % 2 == 0:\n        r += i\n    else:\n        r -= 1\n",
    "while": "r = 1\nwhile r < a * 10:\n    r = r * 3 + 1\n",
    "nested while": "r = 0\ni = 0\nwhile i < a:\n    j = 0\n    while j < i:\n        r += 1\n        j += 1\n    i += 1\n",
    "while zero trips": "r = 3\nwhile r > 100:\n    r = 0\n",
    "augmented": "r = a\nr += 3\nr *= 2\nr -= 1\nr //= 2\nr %= 7\nr <<= 2\nr |= 1\nr ^= 8\nr &= 63\nr >>= 1\n",
    "tuple": "x, y = a, a + 1\nx, y = y, x\nr = x * 10 + y\n",
    "nested tuple": "x, (y, z) = a, (a + 1, a + 2)\nr = x * 100 + y * 10 + z\n",
    "tuple index": "t = (a, 5, 7)\nr = t[0] + t[-1] * len(t)\n",
    "walrus": "r = (y := a + 2) * y\n",
    "bool operators": "r = 0\nif a > 2 and a < 10:\n    r += 1\nif a > 100 or a == 4 or a == 6:\n    r += 2\nif not a == 3:\n    r += 4\n",
    "chained comparison": "r = 0\nif 2 < a < 10:\n    r = 1\n",
    "break": "r = 0\nfor i in range(100):\n    if i == a:\n        break\n    r += i\n",
    "continue": "r = 0\nfor i in range(a):\n    if i % 3 == 1:\n        continue\n    r += i\n",
    "break in while": "r = 0\nwhile r < 1000:\n    r += a\n    if r > 50:\n        break\n    r += 1\n",
    "min and max": "r = min(a, 4) * 10 + max(a, 4)\n",
    "abs": "r = abs(3 - a)\n",
}


@pytest.mark.parametrize("a", [0, 1, 4, 6, 13])
@pytest.mark.parametrize("name", SCALAR_PROGRAMS)
def test_as_python_does(name, a, target):
    text = SCALAR_PROGRAMS[name]
    scope = {"a": a}
    exec(text, scope)
    assert run(lines(text + "tl.store(out, r)\n"), a) == scope["r"]


HELPERS = """@triton.jit
def fused(x, y, scale: tl.constexpr = 2):
    return x * scale + y

@triton.jit
def pair(x):
    return x + 1, x * 2

@triton.jit
def early(x):
    if x > 5:
        return x * 100
    return x

@triton.jit
def many(x):
    if x > 10:
        return 1
    elif x > 5:
        return 2
    else:
        if x == 4:
            return 3
    return 4

@triton.jit
def power(x, n: tl.constexpr):
    if n == 0:
        return 1
    else:
        return x * power(x, n - 1)

@triton.jit
def apply(f, x):
    return f(x, 1)

@triton.jit
def nothing(p):
    tl.store(p, 9)

@triton.jit
def total(*xs):
    r = 0
    for i in tl.static_range(len(xs)):
        r += xs[i]
    return r

"""


@pytest.mark.parametrize("a", [0, 4, 6, 11])
@pytest.mark.parametrize("expression,reference", [
    ("fused(a, 3)", lambda a: a * 2 + 3), ("fused(a, 3, scale=5)", lambda a: a * 5 + 3), ("fused(y=a, x=1)", lambda a: 2 + a),
    ("pair(a)[0] * pair(a)[1]", lambda a: (a + 1) * a * 2), ("early(a)", lambda a: a * 100 if a > 5 else a),
    ("many(a)", lambda a: 1 if a > 10 else 2 if a > 5 else 3 if a == 4 else 4), ("power(a, 3)", lambda a: a ** 3),
    ("apply(fused, a)", lambda a: 2 * a + 1), ("total(a, 2, 3)", lambda a: a + 5), ("fused(*pair(a))", lambda a: (a + 1) * 2 + a * 2),
])
def test_calls(expression, reference, a, target):
    assert run(f"    tl.store(out, {expression})", a, prologue=HELPERS) == reference(a)


def test_a_call_for_its_effect(target):
    assert run("    nothing(out)", 1, prologue=HELPERS) == 9


@pytest.mark.parametrize("a,want", [(2, -77), (7, 1)])
def test_early_return_of_a_kernel(a, want, target):
    assert run(lines("if a < 5:\n    return\ntl.store(out, 1)\n"), a) == want


@pytest.mark.parametrize("a", [0, 3, 9])
def test_return_in_a_loop(a, target):
    prologue = """@triton.jit
def find(n):
    for i in range(100):
        if i * i >= n:
            return i
    return -1

"""
    assert run("    tl.store(out, find(a))", a, prologue=prologue) == next(i for i in range(100) if i * i >= a)


def test_blocks_through_control_flow(target):
    body = """
i = tl.arange(0, 8)
x = i * 0
for k in range(a):
    if k % 2 == 0:
        x += i
    else:
        x = x * 2
n = 0
while tl.sum(x, axis=0) < b:
    x, n = x + 1, n + 1
tl.store(out + i, x + n)
"""
    got = run(lines(body), 5, 300, size=8)
    x, n = np.zeros(8, int), 0
    for k in range(5):
        x = x + np.arange(8) if k % 2 == 0 else x * 2
    while x.sum() < 300:
        x, n = x + 1, n + 1
    assert got == (x + n).tolist()


@pytest.mark.parametrize("body,want", [
    ("r = 0\nfor i in tl.static_range(4):\n    r += i * i\n", 14),
    ("r = 0\nfor i in tl.static_range(6, 0, -2):\n    r = r * 10 + i\n", 642),
    ("r = 0\nfor i in tl.range(0, 10, 3, num_stages=2):\n    r += i\n", 18),
    ("x: tl.constexpr = 3\nr = tl.sum(tl.full((4,), x, tl.int32), axis=0)\n", 12),
    ("BLOCK = 8\nr = tl.sum(tl.arange(0, BLOCK), axis=0)\n", 28),
    ("x = 3\nr = x.to(tl.int64)\n", 3),
    ("if 1 > 2:\n    r = undefined_name\nelse:\n    r = 4\n", 4),
    ("t = [x * x for x in (1, 2, 3)]\nr = t[2]\n", 9),
    ("tl.static_assert(len(f'{3 + 4}') == 1)\nr = 1\n", 1),
    ("r = 1 if 'a' in ('a', 'b') else 2\n", 1),
    ("r = 5\nassert r == 5, 'message'\n", 5),
    ("x = None\nr = 1 if x is None else 2\n", 1),
    ("r = 0\nfor i in range(2147483646, 2147483650):\n    r += 1\n", 4),
], ids=range(13))
def test_known_values(body, want, target):
    assert run(lines(body + "tl.store(out, r)\n"), 1) == want


def test_loop_bounds_beyond_32_bits(target):
    assert run(lines("r = a * 0\nfor i in range(a, a + 3):\n    r += i - a\ntl.store(out, r + a)\n"), 2 ** 40) == 2 ** 40 + 3


@pytest.mark.parametrize("a,rounds", [(-5, 1), (0, 1), (2**31 - 10, 1), (2**31 - 8, 0), (2**31 - 1, 0)])
@pytest.mark.parametrize("step", [8, 9])
@pytest.mark.overflows("the bound wraps where `a` is large")
def test_a_loop_that_runs_once_at_most(step, a, rounds, target):
    """Numbers of 32 bits: where `a + 8` overflows, the bound is below `a`. The number after the last round, `a + step`, fits."""
    text = f"r, s = 3, a\nfor i in range(a, a + 8, {step}):\n    r = r * 10 + i - a\n    s = i - 1\ntl.store(out, r)\ntl.store(out + 1, s)\n"
    assert run(lines(text), a, size=2) == ([30, a - 1] if rounds else [3, a])


@pytest.mark.cpu_only("on GPUs, as in Triton, what such a loop does is undefined (docs/cpu-target.md)")
@pytest.mark.parametrize("step", ["1024", "c", "c + 100", "2147483647"])
@pytest.mark.parametrize("a, b", [(2**31 - 3000, 2**31 - 1), (-2**31, -2**31 + 3000), (-2000, 2**31 - 5)])
def test_a_loop_whose_index_passes_the_largest_number(a, b, step, target):
    """The last index plus the step does not fit 32 bits: the loop ends there, and does not go on from the smallest number."""
    c = 900 if b - a < 10**6 else 2**30 + 7
    rounds = range(a, b, {"1024": 1024 if b - a < 10**6 else 2**29, "c": c, "c + 100": c + 100, "2147483647": 2147483647}[step])
    step = step.replace("1024", "536870912") if b - a > 10**6 else step
    body = lines(f"sums = tl.zeros((4,), tl.int64)\ncount = 0\nfor i in range(a, b, {step}):\n    sums += i\n    count += 1\ntl.store(out + tl.arange(0, 4), sums)\ntl.store(out + 4, count)")
    assert run(body, a, b, c, size=5) == [sum(rounds)] * 4 + [len(rounds)]


@pytest.mark.parametrize("a,want", [(None, 1), (torch.ones(1, dtype=torch.int64), 2)])
def test_optional_pointers(a, want, target):
    assert run(lines("if a is not None and tl.load(a) > 0:\n    r = 2\nelse:\n    r = 1\ntl.store(out, r)\n"), a) == want


def test_device_print(target, capfd):
    harness.make("""@triton.jit
def kernel(x):
    tl.device_print("value", tl.arange(0, 4) + x)
    tl.device_print("scalar", x)
""")[(2,)](10)
    text = capfd.readouterr().out
    for pid in range(2):
        for i in range(4):
            assert f"pid ({pid}, 0, 0) idx (" in text and f"value: {10 + i}" in text
        assert f"pid ({pid}, 0, 0)" in text and "scalar: 10" in text


@pytest.mark.parametrize("call, line", [
    ("'a', x", "pid (0, 0, 0) idx () a: 10"), ("'a:', x", "pid (0, 0, 0) idx () a: 10"), ("' a: ', x", "pid (0, 0, 0) idx () a: 10"),
    ("'', x", "pid (0, 0, 0) idx (): 10"), ("'ab', x", "pid (0, 0, 0) idx () ab: 10"), ("'a'", "pid (0, 0, 0)a"),
    ("'here: '", "pid (0, 0, 0) here: "), ("'100% a\\n'", "pid (0, 0, 0) 100% a\n"), ("''", "pid (0, 0, 0)"),
    ("'a', x, 1.5", "pid (0, 0, 0) idx () a: (operand 0) 10\npid (0, 0, 0) idx () a: (operand 1) 1.500000"),
    ("'a', x.to(tl.int8), hex=True", "pid (0, 0, 0) idx () a: 0x0a"), ("'a', 1.5, hex=True", "pid (0, 0, 0) idx () a: 0x3fc00000"),
    ("'a', tl.full((1, 11), 7, tl.int64)[:, :1]", "pid (0, 0, 0) idx (0, 0) a: 7"),
])
def test_lines_of_device_print(call, line, target, capfd):
    harness.make(f"""@triton.jit
def kernel(x):
    tl.device_print({call})
""")[(1, )](10)
    assert capfd.readouterr().out == line + "\n"


def test_special_floats_are_printed_alike(target, capfd):
    """0/0 has the sign bit on x86 and not on a GPU; `-nan` says nothing to anybody."""
    harness.make("""@triton.jit
def kernel(x, bits):
    zero = tl.load(x)
    tl.device_print("quotient", zero / zero)
    tl.device_print("negative", tl.load(bits).to(tl.float32, bitcast=True))
    tl.device_print("half", (zero / zero).to(tl.float16))
    tl.device_print("double", zero.to(tl.float64) / zero.to(tl.float64))
    tl.device_print("infinite", -1.0 / zero)
    tl.device_print("zero", -zero)
    tl.static_print("static", float("nan"), -float("nan"), f"{-float('nan'):f}", f"{-float('inf'):.2f}", -0.0)
""")[(1, )](np.zeros(1, np.float32), np.array([-1], np.int32))
    text = capfd.readouterr().out
    for name, value in (("quotient", "nan"), ("negative", "nan"), ("half", "nan"), ("double", "nan"), ("infinite", "-inf"), ("zero", "-0.000000")):
        assert f"{name}: {value}\n" in text, text
    assert "static nan nan nan -inf -0.0" in text, text


def test_static_print(target, capfd):
    harness.make("""@triton.jit
def kernel(x):
    tl.static_print("known", 3 + 4, tl.arange(0, 4))
""")[(1,)](10)
    out = capfd.readouterr().out
    assert "known 7" in out and "int32[constexpr[4]]" in out


ASSERTION = """@triton.jit
def kernel(x):
    tl.device_assert(tl.arange(0, 4) < x, "too large")
"""


@pytest.mark.not_in_mode("debug", "the mode compiles assertions in where the test has them off")
@pytest.mark.cpu_only("a failed assertion ends a GPU's context: tests/device")
def test_device_assert(target):
    kernel = harness.make(ASSERTION)
    kernel[(1,)](4, debug=True)
    kernel[(1,)](3)  # asserts are off without debug
    with pytest.raises(RuntimeError, match="too large"):
        kernel[(1,)](3, debug=True)
    kernel[(1,)](4, debug=True)  # the process survives


def test_truth_of_a_pointer(target):
    """A pointer is true unless it is null, which only a launch may know; None is known when compiling."""
    kernel = harness.make("""@triton.jit
def kernel(y_ptr, x_ptr, n):
    i = tl.arange(0, 16)
    value = tl.full([16], n, tl.float32)
    if x_ptr:
        value += tl.load(x_ptr + i)
    if not x_ptr:
        value = -value
    tl.store(y_ptr + i, value)
""")
    x, y = torch.arange(16.0), torch.empty(16)
    kernel[(1,)](y, x, 3)
    assert torch.equal(y, x + 3)
    kernel[(1,)](y, torch.empty(0), 3)
    assert torch.equal(y, torch.full((16,), -3.0))
    kernel[(1,)](y, None, 3)
    assert torch.equal(y, torch.full((16,), -3.0))
