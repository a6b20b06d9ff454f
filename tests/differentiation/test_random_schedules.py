"""Random programs without products whose gradients mostly have transposed schedules: reverse mode against forward mode.

Several parameters are read at positions that wrap around or not, behind masks of the same or of other positions; some programs of a grid read the same elements. So one kernel has
schedules that can be written, some that cannot, and some that are written together, and the remainders that the addresses of one leave out are in the masks of others.

NEREID_DIFFERENTIATION_PROGRAMS=N runs N, NEREID_DIFFERENTIATION_SEED=S others. A failure names its seed and shows its text.
"""

import os
import random

import grad_check
import harness
import jvp_check
import nereid
import pytest
import torch
from test_grad_schedules import explained_kernels

PROGRAMS = int(os.environ.get("NEREID_DIFFERENTIATION_PROGRAMS", "12"))
SEED = int(os.environ.get("NEREID_DIFFERENTIATION_SEED", "0"))
N, ROUNDS = 8, 3
SHARED = 0.4  #: of the programs have a remainder that the addresses of one parameter leave out, and the mask of another one keeps
TENSORS = ("x", "v", "w", "u")

HEADER = """@triton.jit
def kernel(x, v, w, u, y, z, M, L, S, rounds, N: tl.constexpr):
    q = tl.program_id(1)
    i = tl.program_id(0) * N + tl.arange(0, N)
    j = tl.arange(0, N)
    flat = i[:, None] * N + j[None, :]
"""
#: Positions with a name, so that addresses and masks share a remainder. Those of two dimensions have no transposed schedule where they wrap around; those of one do, where what wraps reaches no output.
POSITIONS = {"p": ["flat % M", "flat % M", "(flat + 0) % S", "flat"], "r": ["i % L", "i % L", "i", "(i + 1) % S"]}
ADDRESSES = ["p", "p", "flat", "flat", "r[:, None] * N + j[None, :]", "i[:, None] * N + j[None, :]", "r[:, None]", "i[:, None]", "j[None, :]", "q * N + j[None, :]"]
MASKS = ["p < S", "p < S", "r[:, None] < L - 2", "r[:, None] < 5", "flat < M", "i[:, None] < L", "p + j[None, :] < M", "j[None, :] < 6", "flat % M < S", "(i % L)[:, None] < 6"]
FACTORS = ["(1 + q)", "(1 + q)", "tl.sin(0.1 * flat)", "2.0", "0.5"]
FUNCTIONS = ["{0}", "tl.sin({0})", "{0} * {0}", "{0} / (1.5 + {0} * {0})", "tl.where({0} > 0.1, {0}, 0.2 * {0})"]
STORES = ["", ", mask=flat < M", ", mask=i[:, None] < L", ", mask=(i[:, None] < L) & (flat < M)", ", mask=i[:, None] < S"]


def program(seed):
    """The text of a kernel."""
    choose, chance = random.Random(seed).choice, random.Random(seed + 1).random
    lines = [f"{name} = {choose(of)}" for name, of in POSITIONS.items()]
    in_loop = chance() < 0.3
    names = list(TENSORS)[:choose([2, 3, 3, 4])]
    has_second = chance() < 0.5
    store, masks_of_others = choose(STORES), {}
    if chance() < SHARED:  # addresses of one wrap around, those of a later one do not, but its mask has the remainder
        other = choose(names[1:])
        if chance() < 0.6:
            lines[0] = f"p = {choose(POSITIONS['p'][:3])}"
            masks_of_others = {names[0]: ("p", None), other: (choose(["flat", "i[:, None] * N + j[None, :]"]), choose(MASKS[:2] + ["p + j[None, :] < M"]))}
        else:  # both have a schedule, and the other one an output of its own
            lines[1], store, has_second = "r = i % L", ", mask=i[:, None] < L", True
            masks_of_others = {names[0]: (ADDRESSES[4], ""), other: (ADDRESSES[5], choose(MASKS[2:4]))}
            names = [names[0], *(name for name in names[1:] if name != other), other]

    def load(name):
        address, mask = masks_of_others.get(name, (choose(ADDRESSES), None))
        if mask is None:
            mask = choose(MASKS)
        if mask and chance() < 0.3:
            mask = f"({mask}) & ({choose(MASKS)})"
        is_block = address in ADDRESSES[:6]  # of a row or a column the mask has another shape
        if in_loop and chance() < 0.5:
            address += " + k * (N * N * 3)"
        masked = f", mask={mask}, other={choose(['0.0', '0.0', '0.5'])}" if mask and is_block and (chance() < 0.7 or name in masks_of_others) else ""
        return f"tl.load({name} + {address}{masked})"

    has_second = has_second and not in_loop
    terms = []
    for name in names:
        factor = f"{choose(FACTORS)} * " if chance() < 0.5 else ""
        value = load(name)
        if has_second and name == names[-1]:
            lines.append(f"last = {value}")
            value = "last"
        terms.append(factor + choose(FUNCTIONS).format(value))
    expression = terms[0]
    for term in terms[1:]:
        expression = f"({expression}) {choose(['+', '+', '*', '-'])} {term}"
    if in_loop:
        lines += ["value = tl.zeros((N, N), tl.float64)", "for k in range(rounds):", f"    value += {expression}"]
        if chance() < 0.4:
            lines.append("value = tl.sin(value)")
    else:
        lines.append(f"value = {expression} + 0.0 * flat")
    lines.append(f"tl.store(y + q * (N * N * tl.num_programs(0)) + flat, value{store})")
    if has_second:
        lines.append("tl.store(z + q * (N * N * tl.num_programs(0)) + flat, last * (2 + q) + 0.0 * flat)")
    return HEADER + "".join(f"    {line}\n" for line in lines)


def arguments(seed):
    choose = random.Random(-seed - 1).choice
    tiles = choose([1, 2, 3])
    given = {name: jvp_check.random(N * N * 3 * (ROUNDS + 1)) for name in TENSORS}
    programs = choose([1, 3, 4])
    outputs = {name: torch.zeros(programs * tiles * N * N, dtype=torch.float64) for name in "yz"}
    return given | outputs | dict(M=choose([50, 64, 100, 128]), L=choose([8, 13, 16, 24]), S=choose([5, 9, 20, 70]), rounds=choose([1, 3])), (tiles, programs)


def names_of(text):
    return [name for name in TENSORS if f"load({name} " in text], tuple(name for name in "yz" if f"store({name} " in text)


def check(text, seed, reverse=None):
    given, grid = arguments(seed)
    wrt, out = names_of(text)
    grad_check.check(harness.make(text), grid, given, wrt, out, rtol=1e-9, begin=0.0, reverse=reverse, N=N)


@pytest.mark.parametrize("seed", range(SEED, SEED + PROGRAMS))
def test_schedules(seed):
    text = program(seed)
    try:
        check(text, seed)
    except Exception as error:
        raise AssertionError(f"program {seed}, {arguments(seed)[1]} programs:\n{text}") from error


def explained(seed):
    text = program(seed)
    given, grid = arguments(seed)
    wrt, out = names_of(text)
    gradient = nereid.grad(harness.make(text), wrt, out)
    gradient.backward.kernel.warmup(**given, **{f"d{name}": given[name] for name in (*wrt, *out)}, grid=grid, N=N)
    return explained_kernels(gradient)


def test_programs_have_schedules_of_all_kinds():
    texts = [explained(seed) for seed in range(8)]
    assert sum("has a transposed schedule" in text for text in texts) >= 5, texts
    assert sum("has a transposed schedule" in text and "positions wrap around in a way that is not known" in text for text in texts) >= 2, texts


@pytest.mark.parametrize("right, wrong", [("% M", "% S"), ("% L", "% M"), ("p < S", "flat < S"), ("1 + q", "2 + q"), ("i[:, None] < L", "i[:, None] < S"), ("< 5", "< 4"), ("(1.5 +", "(1.6 +")])
def test_bugs_in_schedules_are_found(right, wrong):
    """Gradients of a program of which one line is wrong do not pass."""
    for seed in range(120):
        text = program(seed)
        if right not in text.split("flat = ", 1)[1]:
            continue
        try:
            check(text, seed, reverse=harness.make(text.replace(right, wrong)))
        except AssertionError:
            return
    raise AssertionError("no program found it")
