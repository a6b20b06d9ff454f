"""Random programs at extreme inputs: large, tiny and subnormal numbers, zeros, infinities, and where exponentials overflow.

The oracle computes the same program, and its derivative, one element after the other in numbers of 40 digits whose exponents have no bound (mpmath). An element's gradient is
checked where the derivative is a number of the type, the result of each statement is near the true one, and the values, slopes and derivatives of which it is made are numbers of the
type: but for those of exponentials and what is computed from them, which are what the rules look after. There the gradient must be finite and near; what may be lost to cancellation is measured by the sum of the sizes of the terms.

NEREID_DIFFERENTIATION_PROGRAMS=N runs N, NEREID_DIFFERENTIATION_SEED=S others.
"""

import os
import random
import re

import harness
import mpmath
import nereid
import pytest
import torch

PROGRAMS = int(os.environ.get("NEREID_DIFFERENTIATION_PROGRAMS", "24"))
SEED = int(os.environ.get("NEREID_DIFFERENTIATION_SEED", "0"))
N = 64
CONTEXT = mpmath.mp.clone()
CONTEXT.dps = 40
INFINITY = CONTEXT.inf


class Undefined(Exception):
    """Of an element for which nothing is checked."""


class Node:
    """A value of the oracle, with the slopes in what it was computed from; of each also its size before anything cancels."""

    def __init__(self, value, *parts, may_overflow=False, has_stored_slopes=False):
        """has_stored_slopes: rules compute the slopes as numbers of the type, and then multiply by the derivative so far."""
        value = CONTEXT.mpf(value)
        if CONTEXT.isnan(value):
            raise Undefined
        self.value, self.parts, self.may_overflow, self.has_stored_slopes = value, parts, may_overflow, has_stored_slopes
        self.adjoint, self.size = CONTEXT.mpf(0), CONTEXT.mpf(0)

    @staticmethod
    def of(x):
        return x if isinstance(x, Node) else Node(x)

    def __add__(self, other):
        other = Node.of(other)
        return Node(self.value + other.value, (self, 1), (other, 1), may_overflow=self.may_overflow or other.may_overflow)

    def __sub__(self, other):
        return self + -Node.of(other)

    def __mul__(self, other):
        other = Node.of(other)
        return Node(self.value * other.value, (self, other.value), (other, self.value), may_overflow=self.may_overflow or other.may_overflow)

    def __truediv__(self, other):
        other = Node.of(other)
        if other.value == 0:
            raise Undefined
        y = self.value / other.value
        return Node(y, (self, 1 / other.value), (other, -y / other.value))

    def __neg__(self):
        return Node(-self.value, (self, -1), may_overflow=self.may_overflow)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other):
        return Node.of(other) - self

    def __rtruediv__(self, other):
        return Node.of(other) / self


def _function(value, slope, defined=lambda x: True, may_overflow=False, size=None):
    """A function of one operand by its value and its slope (of the operand and of the value); `size`: of the slope's terms."""

    def apply(x):
        x = Node.of(x)
        if not defined(x.value) or abs(x.value) > 1e300:
            raise Undefined
        y = value(x.value)
        s = slope(x.value, y)
        return Node(y, (x, s, size(x.value, y) if size else abs(s)), may_overflow=may_overflow)

    return apply


mp = CONTEXT
EXP = _function(mp.exp, lambda x, y: y, lambda x: abs(x) < 1e80, may_overflow=True)
ORACLE = {
    "exp": EXP, "sigmoid": lambda x: 1 / (1 + EXP(-x)), "log": _function(mp.log, lambda x, y: 1 / x, lambda x: x > 0),
    "sqrt": _function(mp.sqrt, lambda x, y: 0.5 / y, lambda x: x > 0), "rsqrt": _function(lambda x: 1 / mp.sqrt(x), lambda x, y: -y / (2 * x), lambda x: x > 0),
    "tanh": _function(mp.tanh, lambda x, y: 1 - y * y, size=lambda x, y: 1 + y * y), "erf": _function(mp.erf, lambda x, y: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x), lambda x: abs(x) < 1e30),
    "atan": _function(mp.atan, lambda x, y: 1 / (1 + x * x)), "asinh": _function(mp.asinh, lambda x, y: 1 / mp.sqrt(1 + x * x)),
    "log1p": _function(mp.log1p, lambda x, y: 1 / (1 + x), lambda x: x > -1), "cosh": _function(mp.cosh, lambda x, y: mp.sinh(x), lambda x: abs(x) < 1e30, may_overflow=True),
    "square": lambda x: x * x, "abs": lambda x: Node(abs(x.value), (x, (x.value > 0) - (x.value < 0))),
}


def _atan2(y, x):
    y, x = Node.of(y), Node.of(x)
    r = y.value * y.value + x.value * x.value
    if r == 0 or abs(y.value) == INFINITY or abs(x.value) == INFINITY:
        raise Undefined
    return Node(CONTEXT.atan2(y.value, x.value), (y, x.value / r), (x, -y.value / r), has_stored_slopes=True)


def _is_seen(value):
    """Whether a comparison in the kernel sees the number as it is: fp32 has neither lost it to 0 nor to infinity."""
    return value == 0 or 1e-36 < abs(value) < 1e38


def _where(condition, a, b):
    if not _is_seen(condition.value):
        raise Undefined
    return a if condition.value > 0 else b


def _larger(a, b):
    a, b = Node.of(a), Node.of(b)
    if not _is_seen(a.value) or not _is_seen(b.value) or abs(a.value - b.value) <= 1e-4 * abs(a.value):
        raise Undefined
    return Node(max(a.value, b.value), (a, int(a.value > b.value)), (b, int(a.value < b.value)), may_overflow=a.may_overflow or b.may_overflow)


ORACLE |= {"atan2": _atan2, "maximum": _larger, "where": _where}

# Statements, each written once for the kernel and the oracle. Where one of the type's largest numbers stands in an exponent, the exponential overflows.
FORMULAS = [
    "sigmoid({a})", "{a} * sigmoid({a})", "1.0 / (1.0 + exp(-{a}))", "{b} / (1.0 + exp({a}))", "log(1.0 + exp({a}))", "log1p(exp({a}))", "1.0 / cosh({a})", "{b} / cosh(0.5 * {a})",
    "1.0 / (1.0 + 3.0 * exp({a}))", "1.0 / (2.0 + ({b} * {b}) * exp({a}))", "1.0 / (exp({a}) + exp(-{a}))", "1.0 / (1.0 + exp({a}) * exp({b}))", "{a} / {b}", "{a} / (1.0 + {b} * {b})",
    "rsqrt(1.0 + exp({a}))", "1.0 / sqrt(1.0 + exp({a}))", "tanh({a})", "tanh(exp({a}))", "atan(exp({a}))", "exp(-exp({a}))", "erf({a})", "erf(exp({a}))", "atan({a})", "asinh({a}) * {b}",
    "atan2({a}, {b})", "{a} * rsqrt(square({a}) + 1.0)", "{a} * tanh(log(1.0 + exp({a})))", "log(1.0 + exp({a}) + exp({b}))", "exp(-square({a}))", "sigmoid(exp({a}))",
    "1.0 / (1.0 + where({b}, exp({a}), exp(-{a})))", "maximum({a}, {b})", "where({a}, {b}, sigmoid({a}))", "0.5 * ({a} + {b})", "{a} - 2.0 * {b}", "{a} * {b}", "exp({a})",
    "log(1.0 / (1.0 + exp({a})))", "log(cosh({a}))", "square({a})", "sqrt({a})", "log(square({a}))", "rsqrt({a})", "{a} * rsqrt({a})",
    "{a} / (1.0 + abs({a}))", "{b} / (0.5 + abs({a}))", "{a} / abs({b})", "1.0 / sqrt(2.0 + square({a}))",
]
NAMES = {"exp": "tl.exp", "sigmoid": "tl.sigmoid", "log": "tl.log", "sqrt": "tl.sqrt", "rsqrt": "tl.rsqrt", "tanh": "libdevice.tanh", "erf": "tl.erf", "atan": "libdevice.atan",
         "asinh": "libdevice.asinh", "log1p": "libdevice.log1p", "cosh": "libdevice.cosh", "atan2": "libdevice.atan2", "maximum": "tl.maximum", "abs": "tl.abs"}
HEADER = """from nereid.language.extra import libdevice


@triton.jit
def where(x, a, b):
    return tl.where(x > 0, a, b)


@triton.jit
def square(x):
    return x * x


@triton.jit
def kernel(x_ptr, w_ptr, y_ptr, steps_ptr, rounds, N: tl.constexpr):
    at = tl.arange(0, N)
    v0 = tl.load(x_ptr + at)
    v1 = tl.load(w_ptr + at)
"""


def statements(seed):
    """[(name, formula of earlier names, whether in a loop)]. The first has the inputs as operands, later ones mostly the one before."""
    rng = random.Random(seed)
    found = []
    for k in range(rng.choice((1, 1, 2, 2, 3))):
        earlier = ["v0", "v1", *(name for name, _, _ in found)]
        a = earlier[-1] if found and rng.random() < 0.8 else rng.choice(earlier[:2])
        formula = rng.choice(FORMULAS).format(a=a, b=rng.choice(earlier))
        found.append((f"v{k + 2}", formula, rng.random() < 0.15))
    return found


def text_of(lines):
    body = []
    for name, formula, loops in lines:
        formula = re.sub(r"\b(\w+)\(", lambda call: NAMES.get(call[1], call[1]) + "(", formula)
        if loops:
            body += [f"    {name} = 0.0 * v1", f"    for k{name} in range(rounds):", f"        {name} = {name} + {formula}"]
        else:
            body.append(f"    {name} = {formula}")
        body.append(f"    tl.store(steps_ptr + {int(name[1:]) - 2} * N + at, {name})")
    return HEADER + "\n".join([*body, f"    tl.store(y_ptr + at, {lines[-1][0]})"]) + "\n"


def inputs(seed, dtype):
    rng = random.Random(seed * 2 + 1)
    limits = torch.finfo(dtype)
    edge = 88.7228 if dtype == torch.float32 else 709.78
    ordinary = [lambda: rng.gauss(0, 2)]
    extreme = [lambda: 0.0, lambda: edge + rng.uniform(-2, 2), lambda: rng.uniform(0.2, 3) * edge, lambda: limits.max ** rng.uniform(0.1, 0.99), lambda: limits.tiny ** rng.uniform(0.1, 0.99),
               lambda: limits.tiny * rng.uniform(1e-4, 1), lambda: limits.max * rng.uniform(0.1, 1), lambda: INFINITY]

    def number():
        return rng.choice((1, -1)) * float(rng.choice(extreme if rng.random() < 0.7 else ordinary)())

    return [torch.tensor([number() for _ in range(N)], dtype=torch.float64).to(dtype) for _ in "xw"]


def element(lines, x, w, rounds, limits):
    """([result of each statement], [(gradient, size) of x and w]) of one element; raises Undefined where nothing is to be checked."""
    values = {"v0": Node(x), "v1": Node(w)}
    order = []
    made = Node.__init__

    def noting(self, *given, **named):
        made(self, *given, **named)
        order.append(self)

    Node.__init__ = noting
    try:
        for name, formula, loops in lines:
            result = eval(formula, ORACLE, values)
            if loops:
                result = sum((eval(formula, ORACLE, values) for _ in range(rounds)), 0.0 * values["v1"])
            values[name] = Node.of(result)
    finally:
        Node.__init__ = made
    output = values[lines[-1][0]]
    for node in order:
        size = abs(node.value)
        if size and (size < limits.tiny * 1024 or size > limits.max / 2) and not node.may_overflow and node.parts:
            raise Undefined
        for part, slope, *_ in node.parts:  # an exponential that underflowed, and would count
            if 0 < abs(part.value) < limits.tiny * 1024 <= abs(part.value * slope):
                raise Undefined
    output.adjoint = output.size = CONTEXT.mpf(1)
    for node in reversed(order):
        if node.parts and (CONTEXT.isnan(node.adjoint) or abs(node.size) > limits.max / 4):
            raise Undefined
        if node.may_overflow and 0 < abs(node.value) < limits.tiny * 1024 and abs(node.adjoint * node.value) >= limits.tiny * 1e4:
            raise Undefined  # an exponential that underflowed, whose slope a large factor brings back
        for part, slope, *size in node.parts:
            if node.size == 0 or slope == 0:
                continue
            is_amplified = node.size < limits.tiny * 1024 <= node.size * abs(slope)
            if not node.may_overflow and (abs(slope) > limits.max / 4 or is_amplified):
                raise Undefined
            if node.has_stored_slopes and abs(slope) < limits.tiny * 1024 and abs(node.adjoint * slope) >= limits.tiny * 1e4:
                raise Undefined  # the slope underflowed, and a large factor brings it back
            part.adjoint += node.adjoint * slope
            part.size += node.size * (size[0] if size else abs(slope))
    return [values[name].value for name, _, _ in lines], [(values[name].adjoint, values[name].size) for name in ("v0", "v1")]


def check(seed):
    """Checks a program's gradients; returns how many were compared."""
    lines = statements(seed)
    dtype = torch.float64 if seed % 4 == 3 else torch.float32
    limits = torch.finfo(dtype)
    kernel = harness.make(text_of(lines))
    x, w = inputs(seed, dtype)
    rounds = seed % 3 + 1
    y, steps = torch.empty_like(x), torch.empty(len(lines), N, dtype=dtype)
    kernel[(1, )](x, w, y, steps, rounds, N=N)
    reverse = [torch.full_like(x, float("nan")) for _ in "xw"]
    nereid.grad(kernel, ("x_ptr", "w_ptr"), ("y_ptr", )).backward[(1, )](x, w, y, steps, rounds, dy_ptr=torch.ones_like(x), dx_ptr=reverse[0], dw_ptr=reverse[1], N=N)
    rtol = 1e-3 if dtype == torch.float32 else 1e-8
    compared = 0
    for i in range(N):
        try:
            results, slopes = element(lines, float(x[i]), float(w[i]), rounds, limits)
        except (Undefined, OverflowError, ZeroDivisionError):
            continue
        if any(abs(float(found) - true) > 0.1 * rtol * abs(true) + limits.tiny or not found.isfinite() for found, true in zip(steps[:, i], results)):
            continue
        for name, found, (slope, size) in zip("xw", reverse, slopes):
            if size > limits.max / 4:
                continue
            compared += 1
            error = abs(CONTEXT.mpf(float(found[i])) - slope)
            assert error <= rtol * size + limits.tiny * 1e4, f"d{name}[{i}] = {float(found[i])}, not {float(slope)}, at x = {float(x[i])}, w = {float(w[i])}, {rounds} rounds"
    return compared


@pytest.mark.parametrize("seed", range(SEED, SEED + PROGRAMS))
def test_gradients(seed):
    try:
        check(seed)
    except Exception as error:
        raise AssertionError(f"program {seed}:\n{text_of(statements(seed))}") from error


def test_slopes_that_underflow_are_left_out():
    """Of an angle, where a later division brings them back (program 13000006, element 41); next to it the gradient is checked."""
    lines, limits = [("v2", "atan2(v0, v1)", True), ("v3", "v1 / (0.5 + abs(v2))", False)], torch.finfo(torch.float32)
    with pytest.raises(Undefined):
        element(lines, 5.067e37, 3.076e22, 2, limits)
    (dx, _), _ = element(lines, 5.067e25, 3.076e22, 2, limits)[1]
    assert -1e-6 < dx < -1e-8
