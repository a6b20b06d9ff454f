"""Random products of matrices, with what authors write before and behind them: reverse mode, mostly in transposed schedules, against forward mode.

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

PROGRAMS = int(os.environ.get("NEREID_DIFFERENTIATION_PROGRAMS", "12"))
SEED = int(os.environ.get("NEREID_DIFFERENTIATION_SEED", "0"))
WRT = ("a_ptr", "b_ptr", "w_ptr", "r_ptr")

HEADER = """from nereid.language.extra import libdevice


@triton.jit
def kernel(a_ptr, b_ptr, w_ptr, r_ptr, c_ptr, d_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
"""
#: Program ids of tiles, and whether the grid has two axes.
IDS = [(["pid_m = tl.program_id(0)", "pid_n = tl.program_id(1)"], True), (["pid_m = tl.program_id(0) // num_n", "pid_n = tl.program_id(0) % num_n"], False),
       (["pid_m = tl.program_id(0) % num_m", "pid_n = tl.program_id(0) // num_m"], False),
       (["width = 2 * num_n", "first = tl.program_id(0) // width * 2", "size = min(num_m - first, 2)", "pid_m = first + tl.program_id(0) % width % size",
         "pid_n = tl.program_id(0) % width // size"], False)]
ROUNDS = ["for k in range(0, K, BK):", "for k in tl.range(0, tl.cdiv(K, BK) * BK, BK):"]
#: Loads of the operands. One in three wraps around; one has dead lanes that hold another number than zero.
A = ["tl.load(a_ptr + rows[:, None] * K + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0)",
     "tl.load(a_ptr + (rows % M)[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)",
     "tl.load(a_ptr + rows[:, None] + at[None, :] * M, mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0)"]
B = ["tl.load(b_ptr + at[:, None] * N + columns[None, :], mask=(at[:, None] < K) & (columns[None, :] < N), other=0.0)",
     "tl.load(b_ptr + at[:, None] * N + (columns % N)[None, :], mask=at[:, None] < K, other=0.0)",
     "tl.load(b_ptr + at[:, None] * N + columns[None, :], mask=(at[:, None] < K) & (columns[None, :] < N), other=0.5 - 0.5 * (at[:, None] // K))"]
BEFORE = ["{0} = tl.sin({0})", "{0} = {0} * tl.sigmoid({0})", "{0} = tl.where({0} > 0.1, {0}, 0.2 * {0})", "{0} = {0} / (1.5 + {0} * {0})", "{0} = 0.5 * {0}"]
SUMS = ["acc += tl.dot(a, b)", "acc = tl.dot(a, b, acc)", "acc -= tl.dot(a, b)", "acc = tl.dot(0.5 * a, b, acc) + 0.1 * tl.sum(b, 0)[None, :]", "acc += tl.trans(tl.dot(tl.trans(b), tl.trans(a)))",
        "acc = 0.5 * acc + tl.dot(a, b)"]
#: What the loop does besides: uses of the sum, which is then none that rounds can be taken from; a second sum; further loads of the operands.
IN_LOOP = ["tl.atomic_add(d_ptr + rows[:, None] * N + columns[None, :], 0.3 * acc, mask=inside)", "tl.store(d_ptr + k * (M * N) + rows[:, None] * N + columns[None, :], tl.sin(acc), mask=inside)",
           "more = tl.dot(a, 0.2 * b, more)", "more += 0.1 * acc", "more = more - 0.3 * tl.dot(tl.cos(a), b)", "acc, more = more, acc",
           "acc += 0.1 * tl.load(r_ptr + rows[:, None] * N + columns[None, :], mask=inside, other=0.0)",
           "acc += 0.2 * tl.load(a_ptr + rows * K, mask=rows < M, other=0.0)[:, None]", "if k < K - BK:\n            acc += tl.dot(a, 0.3 * b)"]
BEGINNINGS = ["tl.zeros((BM, BN), tl.float64)"] * 3 + ["tl.load(r_ptr + rows[:, None] * N + columns[None, :], mask=inside, other=0.0)",
                                                       "tl.zeros((BM, BN), tl.float64) + tl.load(w_ptr + rows, mask=rows < M, other=0.0)[:, None]"]
BEHIND = ["acc = acc * tl.sigmoid(acc)", "acc = tl.where(acc > 0, acc, 0.01 * acc)", "acc = libdevice.tanh(acc)", "acc = acc / (1.5 + acc * acc)",
          "acc += tl.load(r_ptr + rows[:, None] * N + columns[None, :], mask=inside, other=0.0)", "acc = acc * tl.load(r_ptr + rows[:, None] * N + columns[None, :], mask=inside, other=2.0)",
          "acc += tl.load(w_ptr + columns, mask=columns < N, other=0.0)[None, :]", "acc = acc / (3.0 + tl.load(w_ptr + rows, mask=rows < M, other=-3.0))[:, None]",
          "acc = tl.maximum(acc, 0.3)"]
STORES = ["inside", "inside", "inside", "inside & (columns[None, :] % 3 != 1)", "(rows[:, None] < M - 3) & (columns[None, :] < N)"]


SEVERAL = 0.3  #: of the programs read one parameter in several places, with an adjoint that needs the loop, and mostly as it is and transposed
ADDED = "acc += 0.1 * tl.load(r_ptr + rows[:, None] * N + columns[None, :], mask=inside, other=0.0)"
READ_BEHIND = [ADDED, "acc = acc * tl.load(r_ptr + rows[:, None] * N + columns[None, :], mask=inside, other=2.0)"]


def read_in_several_places(seed, beginning, in_loop, behind):
    """The beginning of the sum, the lines of the loop and those behind it, with further reads of `r_ptr` and transposes."""
    again = random.Random(seed + 2)
    if again.random() >= SEVERAL:
        return beginning, in_loop, behind
    places = again.sample(["beginning", "loop", "behind"], again.choice([2, 3]))
    if again.random() < 0.6:
        in_loop = [SUMS[4] if line in SUMS else line for line in in_loop]
    if "beginning" in places:
        beginning = BEGINNINGS[3]
    if "loop" in places:
        in_loop = [*in_loop, ADDED]
    behind = [*behind, again.choice(BEHIND[:4])]
    if "behind" in places:
        behind.insert(again.randrange(len(behind)), again.choice(READ_BEHIND))
    if again.random() < 0.3:
        behind.insert(again.randrange(len(behind)), "acc = acc + 0.3 * tl.trans(acc)")
    return beginning, in_loop, behind


def program(seed):
    """The text of a kernel, and whether its grid has two axes."""
    choose, chance = random.Random(seed).choice, random.Random(seed + 1).random
    ids, has_axes = choose(IDS)
    beginning, rounds, a, b = choose(BEGINNINGS), choose(ROUNDS), choose(A), choose(B)
    before = [choose(BEFORE).format(name) for name in "ab" if chance() < 0.4]
    in_loop = [choose(IN_LOOP) for _ in range(choose([0, 0, 0, 1, 1, 2]))]
    if sum("d_ptr" in line for line in in_loop) > 1:
        in_loop.pop()
    in_loop.insert(choose(range(len(in_loop) + 1)), choose(SUMS))
    behind = [choose(BEHIND) for _ in range(choose([0, 0, 1, 1, 2, 3]))]
    beginning, in_loop, behind = read_in_several_places(seed, beginning, in_loop, behind)
    lines = [*ids, "rows = pid_m * BM + tl.arange(0, BM)", "columns = pid_n * BN + tl.arange(0, BN)", "inside = (rows[:, None] < M) & (columns[None, :] < N)",
             f"acc = {beginning}", "more = tl.zeros((BM, BN), tl.float64)", rounds, "    at = k + tl.arange(0, BK)", f"    a = {a}", f"    b = {b}"]
    lines += [f"    {line}" for line in before + in_loop]
    if any("more" in line for line in in_loop):
        lines.append("acc += tl.sin(more)")
    lines += behind
    lines.append(f"tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc, mask={choose(STORES)})")
    return HEADER + "".join(f"    {line}\n" for line in lines), has_axes


def arguments(seed):
    choose = random.Random(-seed - 1).choice
    M, N, K = choose([16, 21, 32, 37]), choose([16, 30, 45]), choose([8, 13, 24])
    sizes = dict(a_ptr=M * K, b_ptr=K * N, w_ptr=max(M, N), r_ptr=M * N)
    return dict({name: 0.7 * jvp_check.random(size) for name, size in sizes.items()}, c_ptr=torch.zeros(M * N, dtype=torch.float64),
                d_ptr=torch.zeros(K * M * N, dtype=torch.float64), M=M, N=N, K=K)


def check(text, has_axes, seed, reverse=None):
    """False where the kernel's own results are no numbers: a transpose brings what a row without elements is divided by, zero, to elements that are stored."""
    given = arguments(seed)
    tiles = nereid.cdiv(given["M"], 16), nereid.cdiv(given["N"], 16)
    grid = tiles if has_axes else (tiles[0] * tiles[1], )
    wrt = [name for name in WRT if f"load({name}" in text]
    out = ("c_ptr", "d_ptr") if "d_ptr +" in text else ("c_ptr", )
    may_overflow = "other=-3.0" in text and "tl.trans(acc)" in text
    return grad_check.check(harness.make(text), grid, given, wrt, out, rtol=1e-9, begin=0.0, reverse=reverse, must_be_finite=not may_overflow, BM=16, BN=16, BK=8) is not None


@pytest.mark.parametrize("seed", range(SEED, SEED + PROGRAMS))
def test_products(seed):
    text, has_axes = program(seed)
    try:
        check(text, has_axes, seed)
    except Exception as error:
        raise AssertionError(f"program {seed}:\n{text}") from error


def explained(seed):
    text, has_axes = program(seed)
    gradient = nereid.grad(harness.make(text), "a_ptr", "c_ptr")
    given = arguments(seed)
    gradient.backward.warmup(**given, da_ptr=given["a_ptr"], dc_ptr=given["c_ptr"], BM=16, BN=16, BK=8, grid=(2, 3) if has_axes else (6, ))
    return gradient.explain()


def test_programs_have_schedules():
    texts = [explained(seed) for seed in range(12)]
    assert sum("has a transposed schedule" in text for text in texts) >= 6, texts
    assert sum("from what a first step has saved" in text for text in texts) >= 3, texts


@pytest.mark.parametrize("right, wrong", [("pid_m * BM", "pid_m * 8"), ("0.5 * acc", "0.4 * acc"), ("acc -=", "acc +="), ("tl.sigmoid(", "tl.sin("), ("columns < N", "columns < N - 1"), ("inside &", "inside |"),
                                          ("(1.5 +", "(1.6 +"), ("< M - 3", "< M - 4")])
def test_bugs_in_products_are_found(right, wrong):
    """Gradients of a program of which one line is wrong do not pass."""
    for seed in range(60):
        text, has_axes = program(seed)
        if right not in text.split("rows = ", 1)[1] and right != "pid_m * BM":
            continue
        check(text, has_axes, seed)
        try:
            check(text, has_axes, seed, reverse=harness.make(text.replace(right, wrong)))
        except AssertionError:
            return
    raise AssertionError("no program found it")
