"""Random attention: loops that carry a maximum and sums rescaled to it, in the forms in which authors write them and in some that look alike but are no plain sums.
Reverse mode, in transposed schedules where there are any, against forward mode, which differentiates the loop as it is written.

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

PROGRAMS = int(os.environ.get("NEREID_DIFFERENTIATION_PROGRAMS", "10"))
SEED = int(os.environ.get("NEREID_DIFFERENTIATION_SEED", "0"))
TENSORS = ("q_ptr", "k_ptr", "v_ptr", "b_ptr", "s_ptr", "w_ptr")

HEADER = """@triton.jit
def kernel(q_ptr, k_ptr, v_ptr, b_ptr, s_ptr, w_ptr, o_ptr, e_ptr, f_ptr, n_ptr, M, N, H, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    infinity: tl.constexpr = float("inf")
    num_m = tl.cdiv(M, BM)
"""
#: In the lists below, what leaves a plain sum stands first.
#: Tile and head of a program, and whether the grid has two axes.
IDS = [(["pid = tl.program_id(0)", "h = tl.program_id(1)"], True), (["pid = tl.program_id(0)", "h = tl.program_id(1)"], True), (["pid = tl.program_id(0) % num_m", "h = tl.program_id(0) // num_m"], False),
       (["pid = tl.program_id(0) // H", "h = tl.program_id(0) % H"], False), (["pid = num_m - 1 - tl.program_id(0)", "h = tl.program_id(1)"], True)]
HEADS = ["g = h"] * 3 + ["g = h // 2"] * 2 + ["g = h * 0", "g = h % 2"]
#: Addresses of row `i` and element `d` of head `g` of a tensor with `L` rows.
LAYOUTS = ["({g} * {L} + {i}) * D + {d}"] * 3 + ["({i} * H + {g}) * D + {d}", "{g} * {L} * D + {d} * {L} + {i}", "({g} * {L} + {L} - 1 - {i}) * D + {d}"]
#: Bounds of the loops over keys, one after the other.
BOUNDS = [["range(0, N, BN)"]] * 3 + [["range(0, tl.minimum(N, (pid + 1) * BM), BN)"]] * 2 + [
    ["range(0, pid * BM // BN * BN, BN)", "range(pid * BM // BN * BN, tl.minimum(N, (pid + 1) * BM), BN)"], ["range(0, tl.minimum(N, pid * BM), BN)", "range(pid * BM, N, BN)"],
    ["range(tl.maximum(0, pid * BM - 16) // BN * BN, N, BN)"], ["range(0, tl.load(n_ptr + h), BN)"], ["range(0, tl.load(n_ptr + 2), BN)"], ["range(0, N // BN * BN, BN)", "range(N // BN * BN, N, BN)"],
    ["range(0, N - pid * BM, BN)"], ["tl.range(0, N, BN, num_stages=2)"], ["range(BN, N, BN)"], ["range(0, N, 2 * BN)"]]
SCORES = ["s = s + tl.load(b_ptr + (h * M + rows[:, None]) * N + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < N), other=0.0)", "s = s + tl.load(s_ptr + h) * (at[None, :] - rows[:, None])",
          "s = 3.0 * tl.sin(0.4 * s)", "s = s * tl.load(w_ptr + rows, mask=rows < M, other=1.0)[:, None]", "s = s + tl.load(b_ptr + at, mask=at < N, other=0.0)[None, :]",
          "s = s - 0.1 * s * s", "s = tl.maximum(s, -0.7)"]
MASKS = ["rows[:, None] >= at[None, :]", "(rows[:, None] >= at[None, :]) & (rows[:, None] - at[None, :] < 11)", "(rows[:, None] + at[None, :]) % 3 != 0", "(rows % 4 != 1)[:, None] & (at < N)[None, :]",
         "(rows[:, None] < M) & (at[None, :] < N - 2)", "(at < tl.load(n_ptr + h))[None, :]"]
#: What a masked score is: with numbers, rows of which all are masked have equal weights.
MASKED = ["-infinity"] * 4 + ["-1e30", "-1e5", "-3e38", "-20.0"]
STATISTICS = ["tl.maximum(m, tl.max(s, 1))"] * 6 + ["tl.maximum(m, 0.5 * tl.max(s, 1))", "tl.maximum(m, tl.sum(tl.where(s > -1e4, s, 0.0), 1))", "tl.maximum(tl.max(s, 1), m)", "tl.maximum(m, 1.0)",
                                                    "tl.maximum(m, tl.max(s, 1) + 0.0 * l)", "tl.max(s, 1)", "tl.minimum(tl.maximum(m, -40.0), tl.max(s, 1))"]
BEGINNINGS = [("-infinity", "0.0")] * 4 + [("-infinity", "1.0"), ("0.0", "1.0"), ("-1e30", "0.0"), ("0.0", "0.0"), ("-2.0", "0.7"), ("tl.load(w_ptr + rows, mask=rows < M, other=0.0)", "1.0")]
#: What the products take in place of the weights, and what the loop does besides.
WEIGHTS = ["tl.where((rows[:, None] * 7 + at[None, :] * 3) % 5 == 0, 0.0, 1.25 * p)", "p * tl.load(b_ptr + at, mask=at < N, other=0.0)[None, :]", "p * s0", "p * p", "p + 0.01"]
SUMS = [["acc = acc * alpha[:, None] + tl.dot(p, v)"], ["acc = tl.dot(p, v, acc * alpha[:, None])"], ["acc = acc * alpha[:, None]", "acc = tl.dot(p, v, acc)"], ["acc = acc * alpha[:, None]", "acc += tl.dot(p, v)"],
        ["acc = alpha[:, None] * acc + tl.trans(tl.dot(tl.trans(v), tl.trans(p)))"]]
NORMALISERS = ["l = l * alpha + tl.sum(p, 1)"] * 4 + ["l = tl.sum(p, 1) + alpha * l", "l = l * alpha + tl.sum(p, 1) * 0.5", "l = l + tl.sum(p, 1)", "l = l * alpha + tl.max(p, 1)"]
IN_LOOP = ["more = more * alpha + tl.sum(p * s0, 1)", "more = more + tl.sum(s0 * 0.01, 1)", "more = tl.maximum(more, tl.max(s0, 1))", "more = more + 0.1 * new", "more = more + 0.1 * l / (l + 1.0)", "more = more * alpha + 0.3 * l * alpha",
           "tl.store(f_ptr + j * (H * M) + h * M + rows, l, mask=rows < M)", "more = more * alpha + tl.sum(p / (0.5 + tl.sum(p, 1))[:, None], 1)",
           "more = more * alpha + tl.sum(p * p * 0.5, 1)", "more = more * tl.exp(0.01 * (m0 - base)) + tl.sum(p, 1)", "more = more + tl.where(l > 0.0, acc_sum(acc) / tl.where(l > 0.0, l, 1.0), 0.0)"]
OUTPUTS = ["acc / l[:, None]"] * 3 + ["acc * (1.0 / l)[:, None]", "tl.sin(acc / l[:, None])", "acc / (l + EXP(sink - where_finite(m)))[:, None]",
                                      "acc / l[:, None] * tl.sigmoid(tl.load(w_ptr + rows, mask=rows < M, other=0.0))[:, None]", "acc / (l + 0.1)[:, None]", "acc / (l * l)[:, None]", "acc",
                                      "acc * EXP(where_finite(m) * 0.3)[:, None]", "acc / l[:, None] + 1e-8 * where_finite(m)[:, None]", "acc / tl.sqrt(l * l)[:, None]", "acc / tl.maximum(l, 0.4)[:, None]"]
STATISTIC_OUTPUTS = ["where_finite(m) + LOG(l)"] * 2 + ["LOG(l) * LOGBASE + where_finite(m) * LOGBASE", "where_finite(m) + LOG(l + EXP(sink - where_finite(m)))", "LOG(l)", "where_finite(m)", "l", "more", "more / l",
                                                        "1e-7 * where_finite(m)", "tl.where(where_finite(m) > 0.0, 0.3, 0.1) * more"]


def body_of_loop(choose, chance, power, is_plain):
    """One round, in lines: a block of keys and of values, scores, the new maximum, sums. power: "exp" or "exp2"."""
    lines = ["at = j + tl.arange(0, BN)", "inside = (at < N)[:, None]"]
    layout = choose(LAYOUTS)
    lines.append(f"k = tl.load(k_ptr + {layout.format(g='g', L='N', i='at[:, None]', d='d[None, :]')}, mask=inside, other=0.0)")
    lines.append("s = tl.dot(q, tl.trans(k)) * scale")
    lines += [choose(SCORES) for _ in range(choose([0, 0, 0, 1, 1, 2]))]
    masked = choose(MASKED)
    lines += ["s0 = tl.where((at < N)[None, :], s, 0.0)", f"s = tl.where((at < N)[None, :], s, {choose(['-infinity', masked])})"]
    if chance() < 0.6:
        lines.append(f"s = tl.where({choose(MASKS)}, s, {masked})")
    lines += [f"new = {choose(STATISTICS[:9] if is_plain else STATISTICS)}", "base = tl.where(new == -infinity, 0.0, new)", "m0 = m", f"alpha = tl.{power}(m - base)", f"p = tl.{power if is_plain else choose([power] * 6 + ['exp', 'exp2'])}(s - base[:, None])"]
    more = list(dict.fromkeys(choose(IN_LOOP[:3] if is_plain else IN_LOOP) for _ in range(choose([0, 0, 0, 1, 1, 2]))))
    sums = [choose(NORMALISERS[:6] if is_plain else NORMALISERS)]
    layout = choose([layout, choose(LAYOUTS)])
    values = [f"v = tl.load({choose(['v_ptr'] * 5 + ['k_ptr'])} + {layout.format(g='g', L='N', i='at[:, None]', d='d[None, :]')}, mask=inside, other=0.0)"]
    product = choose(SUMS)
    if chance() < 0.25:
        product = [f"p = {choose(WEIGHTS[:3] if is_plain else WEIGHTS)}", *product]
    parts = [more, sums, values + product] if chance() < 0.5 else [sums, more, values + product]
    return lines + [line for part in parts for line in part] + ["m = new"]


def program(seed):
    """The text of a kernel, and whether its grid has two axes."""
    choose, chance = random.Random(seed).choice, random.Random(seed + 1).random
    ids, has_axes = choose(IDS)
    power = choose(["exp", "exp2"])
    is_plain = chance() < 0.6
    m, l = choose(BEGINNINGS[:6] if is_plain else BEGINNINGS)
    lines = [*ids, choose(HEADS), "rows = pid * BM + tl.arange(0, BM)", "d = tl.arange(0, D)",
             f"q = tl.load(q_ptr + {choose(LAYOUTS).format(g='h', L='M', i='rows[:, None]', d='d[None, :]')}, mask=(rows < M)[:, None], other=0.0)",
             f"m = tl.zeros([BM], tl.float64) + {m}", f"l = tl.zeros([BM], tl.float64) + {l}", "acc = tl.zeros([BM, D], tl.float64)", "more = tl.zeros([BM], tl.float64)"]
    body = body_of_loop(choose, chance, power, is_plain)
    bounds = choose(BOUNDS)
    for each in bounds:  # what one loop stores, another must not
        lines += [f"for j in {each}:", *(f"    {line}" for line in body if len(bounds) == 1 or "f_ptr" not in line)]
    lines += [choose(["l = tl.where(l == 0.0, 1.0, l)"] * 3 + ["l = tl.where(l != 0.0, l, 2.0)"]), "sink = tl.load(s_ptr + h)", f"e = {choose(STATISTIC_OUTPUTS[:4] if is_plain else STATISTIC_OUTPUTS)}",
              f"tl.store(o_ptr + (h * M + rows[:, None]) * D + d[None, :], {choose(OUTPUTS[:7] if is_plain else OUTPUTS)}, mask=(rows < M)[:, None])"]
    if chance() < 0.6:
        lines.append("tl.store(e_ptr + h * M + rows, e, mask=rows < M)")
    text = "".join(f"    {line}\n" for line in lines)
    text = text.replace("EXP(", f"tl.{power}(").replace("LOG(", "tl.log(" if power == "exp" else "tl.log2(").replace("LOGBASE", "1.0" if power == "exp" else "0.6931471805599453")
    text = text.replace("where_finite(m)", "tl.where(m == -infinity, 0.0, m)").replace("acc_sum(acc)", "tl.sum(acc, 1)")
    return HEADER + text, has_axes


def arguments(seed):
    choose = random.Random(-seed - 1).choice
    H, M, N, D = choose([2, 4]), choose([5, 16, 33, 48]), choose([3, 16, 24, 37, 48]), 8
    sizes = dict(q_ptr=H * M * D, k_ptr=H * N * D, v_ptr=H * N * D, b_ptr=H * M * N, s_ptr=H, w_ptr=M)
    return dict({name: jvp_check.random(size) for name, size in sizes.items()}, o_ptr=torch.zeros(H * M * D, dtype=torch.float64), e_ptr=torch.zeros(H * M, dtype=torch.float64),
                f_ptr=torch.zeros(H * M * (N + M + 16), dtype=torch.float64), n_ptr=torch.tensor([N, N // 2, N, 0], dtype=torch.int32), M=M, N=N, H=H, scale=choose([0.35, 1.0, 3.0]))


def names(text):
    return [name for name in TENSORS if f"load({name}" in text], tuple(name for name in ("o_ptr", "e_ptr", "f_ptr") if f"store({name}" in text)


def check(text, has_axes, seed, reverse=None):
    """False where the kernel's own results are no numbers: of sums relative to what is far from a maximum."""
    given = arguments(seed)
    tiles = nereid.cdiv(given["M"], 16)
    wrt, out = names(text)
    choose = random.Random(seed + 2).choice
    if choose([False, True]):
        wrt = [name for name in wrt if choose([False, True, True])] or wrt
    kernel, grid, options = harness.make(text), (tiles, given["H"]) if has_axes else (tiles * given["H"], ), dict(BM=16, BN=8, D=8)
    return grad_check.check(kernel, grid, given, wrt, out, rtol=1e-8, begin=0.0, reverse=reverse, must_be_finite=False, **options) is not None


@pytest.mark.parametrize("seed", range(SEED, SEED + PROGRAMS))
def test_attention(seed):
    text, has_axes = program(seed)
    try:
        check(text, has_axes, seed)
    except Exception as error:
        raise AssertionError(f"program {seed}:\n{text}") from error


def explained(seed):
    text, has_axes = program(seed)
    given, (wrt, out) = arguments(seed), names(text)
    gradient = nereid.grad(harness.make(text), wrt, out)
    gradients = {f"d{name}": given[name] for name in (*wrt, *out)}
    compiled = gradient.backward.warmup(**given, **gradients, BM=16, BN=8, D=8, grid=(3, given["H"]) if has_axes else (3 * given["H"], ))
    return gradient.explain(), compiled.asm["tile"]


def test_programs_have_schedules():
    """Some are plain sums, of which keys or values have schedules from what a first step has saved, and some are recurrences, whose states are found again."""
    explanations = [explained(seed) for seed in range(8)]
    assert sum("from what a first step has saved" in text for text, _ in explanations) >= 2, [text for text, _ in explanations]
    assert sum("math.sqrt" in code for _, code in explanations) >= 2


@pytest.mark.parametrize("right, wrong", [("* scale", "* (1.001 * scale)"), ("rows[:, None] >= at[None, :]", "rows[:, None] > at[None, :]"), ("1.25 * p", "1.2 * p"), ("h // 2", "h // 3"),
                                          ("tl.minimum(N, (pid + 1) * BM)", "tl.minimum(N, pid * BM)"), ("m = new", "m = new + 0.001")])
def test_bugs_in_attention_are_found(right, wrong):
    """Gradients of a program of which one line is wrong do not pass."""
    for seed in range(100):
        text, has_axes = program(seed)
        if right not in text or not check(text, has_axes, seed):
            continue
        try:
            check(text, has_axes, seed, reverse=harness.make(text.replace(right, wrong)))
        except AssertionError:
            return
    raise AssertionError("no program found it")
