"""Random programs whose addresses and control flow are irregular: gradients against central differences in fp64.

Several programs and rounds read the same elements or not, by strides known at run time (0 among them); masks of loads and stores differ, what a mask leaves out has
a derivative; loops carry values that change places, pointers that branches advance, and values that overflow and reach no output; bounds come from memory, from other loops
and from the grid. test_random_programs.py has one program without masks, and more operations.

NEREID_DIFFERENTIATION_PROGRAMS=N runs N, NEREID_DIFFERENTIATION_SEED=S others. A failure names its seed and shows its text.
"""

import os
import random
import re

import grad_check
import harness
import jvp_check
import pytest
import torch

PROGRAMS = int(os.environ.get("NEREID_DIFFERENTIATION_PROGRAMS", "24"))
SEED = int(os.environ.get("NEREID_DIFFERENTIATION_SEED", "0"))
N = 8

HEADER = """@triton.jit
def kernel(x, w, bounds, y, z, n, m, s, t, N: tl.constexpr):
    x += 45000
    w += 45000
    pid = tl.program_id(0)
    i = tl.arange(0, N)
    row = pid * s
    a = tl.load(x + row + i, mask=i < m, other=0.3)
    b = tl.load(w + i)
    u = b
"""
MASKS = ["i < m", "i + pid < m", "(i < m) & (i % 3 != 1)", "i >= m - 4", "row + i < 40", "m > i", "i * 2 < m", "(i + row < 30) & (pid < 2)"]
#: Several loads of rows that belong to one program: in half of the programs these are the only addresses of `x`.
OWN_ROWS = ["x + row + i", "x + row + i + 3", "x + row + 8 + i", "x + row + 2 * i", "x + row + 2 * i + 1", "x + row + i * t", "x + row", "x + row + i - 3", "x + row - 8 + i",
            "x + row + i - t", "x + row - s + i", "x + row - i", "w + i", "w + 3", "w + pid"]
BASES = ["x + row + i", "x + i", "x + 30 - i", "x + pid * t + i * 2", "w + i", "w + pid", "x + row + i % 4", "w + i * t", "x + row * 2 + i * t", "x + row + tl.minimum(i, m)",
         "x + row - i", "x - row + i", "x + row + i - t * 2"]
MOVES = [" + {} * N", " - {} * N", " - {}", " - {} * s", " + {}", " + {} * s", " + ({} % 2) * N", " + {} * t"]
BOUNDS = ["n", "n, 0, -1", "1, n + 2", "0", "3", "2, 20, 3", "tl.load(bounds + pid)", "tl.load(bounds + pid), 4", "0, m, 5", "pid, n + pid", "pid, 4, tl.num_programs(0)"]
STEPS = ["N", "1", "s", "t", "0"]
EXPRESSIONS = ["tl.sin({0})", "0.5 * {0} + 0.4 * {1}", "{0} * tl.cos({1})", "tl.maximum({0}, {1})", "tl.where({mask}, {0}, {1})", "tl.where({0} > 0.1, {1}, 0.2)",
               "tl.sigmoid({0}) * {1}", "{0} + 0.1 * tl.sum({1} * {2}, 0)", "tl.exp(-{0} * {0}) + tl.max({1}, 0)", "tl.cumsum({0} * 0.2, 0)", "0.3 * {0} - tl.abs({1})",
               "tl.sum(tl.where({mask}, {0}, 0.0), 0) * 0.1 + {1}", "{0} / (1.5 + {1} * {1})", "tl.flip({0})", "0.2 * tl.sum({0}[:, None] * {1}[None, :], 1)",
               "tl.clamp({0}, -0.6, 0.7)"]
OVERFLOWING = "tl.exp(tl.exp(2.0 + u * u) + {0})"


class Writer:
    """Writes one program. `values` and `pointers` are those that the next line may use."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines, self.depth, self.names = [], 1, 0
        self.values, self.pointers = ["a", "b"], []
        self.stores_in_loop = False
        self.bases = OWN_ROWS if self.random.random() < 0.5 else BASES

    def write(self, line):
        self.lines.append("    " * self.depth + line)

    def name(self, kind):
        self.names += 1
        return f"{kind}{self.names}"

    def value(self):
        return self.random.choice(self.values)

    def expression(self):
        return self.random.choice(EXPRESSIONS).format(self.value(), self.value(), self.value(), mask=self.random.choice(MASKS))

    def load(self, rounds):
        choose = self.random.choice
        if self.pointers and self.random.random() < 0.4:
            address = choose(self.pointers)
        else:
            address = choose(self.bases) + "".join(choose(MOVES).format(k) for k in rounds if self.random.random() < 0.6)
        if re.split(r" [+-] \(?k", address)[0] in ("w + pid", "w + 3", "x + row") or self.random.random() < 0.4:  # a number has no block for a mask
            return f"tl.load({address})"
        return f"tl.load({address}, mask={choose(MASKS)}{choose(['', ', other=0.5', ', other=0.0', f', other={self.value()}'])})"

    def nested(self, head, write):
        """A region, whose values are gone behind it."""
        self.write(head)
        before, self.depth = len(self.values), self.depth + 1
        write()
        self.write("pass")
        self.depth -= 1
        del self.values[before:]

    def block(self, rounds, carried, loops):
        for _ in range(self.random.randint(1, 4)):
            kind, to = self.random.random(), self.random.choice(carried) if carried and self.random.random() < 0.75 else None
            if kind < 0.25 and to:
                self.write(f"{to} = 0.5 * {to} + 0.3 * {self.load(rounds)} * tl.sin({self.value()})")
            elif kind < 0.55 and to:
                self.write(self.random.choice(["{} = {}", "{} += 0.2 * ({})"]).format(to, self.expression()))
            elif kind < 0.55:
                name = self.name("v")
                self.write(f"{name} = {self.load(rounds)} + 0.0 * a" if kind < 0.25 else f"{name} = {self.expression()}")
                self.values.append(name)
            elif kind < 0.65 and len(carried) > 1:
                p, q = self.random.sample(carried, 2)
                self.write(f"{p}, {q} = {q}, {self.random.choice([p, f'tl.sin({p})'])}")
            elif kind < 0.75 and carried:
                condition = self.random.choice(["m > 5", "pid % 2 == 0", f"tl.sum({self.value()}, 0) > 0", *(f"{k} % 2 == 0" for k in rounds)])
                self.nested(f"if {condition}:", lambda: self.block(rounds, carried, 0))
                if self.random.random() < 0.6:
                    self.nested("else:", lambda: self.block(rounds, carried, 0))
            elif kind < 0.8 and rounds:
                self.write(f"u = {OVERFLOWING.format(self.value())}")
            elif loops:
                self.loop(rounds, carried, loops - 1)
            if self.pointers and rounds and self.random.random() < 0.3:
                self.write(f"{self.random.choice(self.pointers)} += {self.random.choice([*STEPS, rounds[-1]])}")

    def loop(self, rounds, carried, loops):
        k, pointers = self.name("k"), list(self.pointers)
        mine = list(carried) if self.random.random() < 0.7 else []
        for _ in range(self.random.randint(1, 2)):
            mine.append(self.name("h"))
            self.write(f"{mine[-1]} = {self.value()}{self.random.choice(['', ' * 0.0'])}")
            self.values.append(mine[-1])
        if self.random.random() < 0.5:
            self.pointers.append(self.name("p"))
            self.write(f"{self.pointers[-1]} = {self.random.choice(['x + row + i', 'w + i'] if self.bases is OWN_ROWS else ['x + row + i', 'x + i', 'w + i'])}")
        inner = [f"{rounds[-1]}, n", f"{rounds[-1]} + 1"] * 2 if rounds else []
        bounds = self.random.choice([*BOUNDS, *inner])

        def write():
            self.block([*rounds, k], mine, loops)
            if not rounds and not self.stores_in_loop and bounds in ("n", "3") and self.random.random() < 0.5:
                self.write(f"tl.store(z + (pid * 8 + {k}) * N + i, {self.value()}, mask={self.random.choice(MASKS)})")
                self.stores_in_loop = True

        self.nested(f"for {k} in range({bounds}):", write)
        self.pointers = pointers

    def program(self):
        for _ in range(self.random.randint(1, 2)):
            self.loop([], ["a", "b"] if self.random.random() < 0.4 else [], self.random.randint(1, 2))
        self.write(f"tl.store(y + pid * N + i, {self.values[-1]} + 0.3 * {self.value()}, mask={self.random.choice([*MASKS, 'i < m', 'i < N'])})")
        return HEADER + "\n".join(self.lines) + "\n"


def arguments(seed):
    choose = random.Random(-seed - 1).choice
    x, w = 0.7 * jvp_check.random(140000), 0.7 * jvp_check.random(100000)
    return dict(x=x, w=w, bounds=torch.tensor([2, 0, 4], dtype=torch.int32), y=torch.zeros(3, N, dtype=torch.float64), z=torch.zeros(3 * 8, N, dtype=torch.float64),
                n=choose([0, 1, 2, 3, 5]), m=choose([0, 3, 8, 11, 16]), s=choose([8, 8, 4, 0, 10, 3, 300, 1000]), t=choose([1, 0, 8, 2])), choose([1, 3])


def launched(kernel, programs, given):
    """The outputs by name."""
    outputs = {name: torch.zeros_like(given[name]) for name in ("y", "z")}
    kernel[(programs, )](**given | outputs, N=N)
    return outputs


def check(kernel, programs, given, seed):
    """Each gradient along a random direction, and for a few elements of which some have one. False where the kernel's own results are no numbers."""
    dz = {name: jvp_check.random(*given[name].shape) for name in ("y", "z")}
    found = grad_check.gradients(kernel, (programs, ), given, ("x", "w"), ("y", "z"), dz, N=N)
    choose = random.Random(seed)

    plain = launched(kernel, programs, given)
    if not all(bool(each.isfinite().all()) for each in plain.values()):
        return False  # what overflows has no gradient to compare with

    def difference(name, at, direction, step):
        """Central difference of what the gradient is of. at: a slice of the input, which is moved in place, since copies of whole inputs take most of the time."""
        place = given[name][at]
        before, values = place.clone(), []
        for sign in (1, -1):
            torch.add(before, direction, alpha=sign * step, out=place)
            found = launched(kernel, programs, given)
            values.append({each: found[each] * dz[each] for each in found})
        place.copy_(before)
        return sum(float((values[0][each] - values[1][each]).sum()) for each in values[0]) / (2 * step)

    for name in ("x", "w"):
        gradient = found[name]
        assert not gradient.isnan().any(), name
        places = [int(at) for at in gradient.nonzero().view(-1)]
        directions = [(slice(0, gradient.numel()), jvp_check.random(gradient.numel()))]
        for at in (*choose.sample(places, min(4, len(places))), choose.randrange(44980, 45040), choose.randrange(gradient.numel())):
            directions.append((slice(at, at + 1), torch.ones(1, dtype=torch.float64)))
        for at, direction in directions:
            product = gradient[at] * direction
            value, scale = float(product.sum()), 1.0 + float(product.abs().sum())
            # A step may cross a kink; of two steps one seldom does.
            errors = []
            for step, tolerance in ((1e-6, 1e-5), (1e-8, 1e-4)):
                errors.append(abs(difference(name, at, direction, step) - value))
                if errors[-1] <= tolerance * scale:
                    break
            else:
                raise AssertionError((name, at, value, errors))
    return True


@pytest.mark.parametrize("seed", range(SEED, SEED + PROGRAMS))
def test_gradients(seed):
    text = Writer(seed).program()
    given, programs = arguments(seed)
    try:
        check(harness.make(text), programs, given, seed)
    except Exception as error:
        raise AssertionError(f"program {seed}, {programs} programs, {({name: value for name, value in given.items() if isinstance(value, int)})}:\n{text}") from error
