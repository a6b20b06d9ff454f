"""Random programs that read rows in blocks and single elements at positions from memory (test_grad_picked.py): gradients against central differences in fp64.

Rows are read in one block or in a loop, once or twice, whole, in parts by several programs, or with gaps; positions may lie in the row, in another one, behind a mask, or be
left out. Every program is launched four times with other positions: later launches write the gradient directly, whatever was picked before.

NEREID_DIFFERENTIATION_PROGRAMS=N runs N, NEREID_DIFFERENTIATION_SEED=S others. A failure names its seed and shows its text.
"""

import os
import random

import harness
import jvp_check
import nereid
import pytest
import torch

PROGRAMS = int(os.environ.get("NEREID_DIFFERENTIATION_PROGRAMS", "24"))
SEED = int(os.environ.get("NEREID_DIFFERENTIATION_SEED", "0"))
ROWS, MARGIN = 3, 64


def program(seed):
    """(text, whether each row has two programs)"""
    choose = random.Random(seed).choice
    has_parts = choose([False, False, False, True])
    lines = ["@triton.jit", "def kernel(x, labels, y, n, stride, BLOCK: tl.constexpr):", f"    x += {MARGIN}", "    row = tl.program_id(0)", "    part = tl.program_id(1)",
             "    i = tl.arange(0, BLOCK)", "    total = tl.full((), 0.3, tl.float64)", "    base = x + row * stride" + (" + part * BLOCK" if has_parts else "")]
    distance = choose(["label", "label", "label", "label + 1", "label - BLOCK", "label - part * BLOCK"])
    mask = choose(["", "", ", mask=label >= 0, other=0.5", ", mask=label < n - 2", ", mask=part == 0, other=0.0"])
    picks = [f"label = tl.load(labels + row{choose(['', ' + 1'])})", f"picked = tl.load(base + {distance}{mask})"]
    around = choose(["", "", "label != 2", "part == 0", "label > 0"])
    use = choose(["0.7 * picked", "tl.sin(picked)", "picked * total", "tl.exp(picked - 0.2 * total)"])

    def pick(indent="    "):
        if not around:
            return [indent + line for line in picks]
        first = picks if "label" not in around else picks[1:]
        return [indent + "picked = tl.full((), 0.1, tl.float64)", *([indent + picks[0]] if first is not picks else []), f"{indent}if {around}:", *(indent + "    " + line for line in first)]

    def row(k):
        where = choose(["i < n", "i < n", "(i < n) & (i > 1)", "i * 2 < n", "i >= 0"])
        what = choose(["v * v", "tl.sin(v)", "tl.exp(0.3 * v)", "v * tl.cos(0.5 * total)", "tl.where(v > 0.1, v * 0.5, v)"])
        kind = choose(["block", "loop", "loop", "online", "counted", "gaps", "last"])
        if kind == "block" or has_parts:
            return [f"    v = tl.load(base + i, mask={where}, other=0.2)", f"    total += tl.sum({what})"]
        inside = where.replace("i", "j")
        if kind == "online":
            return ["    largest = tl.full((), float('-inf'), tl.float64)", "    sums = tl.full((), 0.0, tl.float64)", "    for start in range(0, n, BLOCK):", "        j = start + i", f"        v = tl.load(base + j, mask={inside}, other=float('-inf'))",
                    "        new = tl.maximum(largest, tl.max(v))", "        sums = sums * tl.exp(largest - new) + tl.sum(tl.exp(v - new))", "        largest = new",
                    "    total += largest + tl.log(sums)"]
        if kind == "counted":
            return ["    for k in range((n + BLOCK - 1) // BLOCK):", "        j = k * BLOCK + i", f"        v = tl.load(base + j, mask={inside}, other=0.2)", f"        total += tl.sum({what.replace('total', '0.4')})"]
        if kind == "gaps":
            return ["    for start in range(0, n, 2 * BLOCK):", "        j = start + i", f"        v = tl.load(base + j, mask={inside}, other=0.2)", f"        total += tl.sum({what.replace('total', '0.4')})"]
        if kind == "last":
            return ["    for start in range(2, n - 3, BLOCK):", "        j = start + i", f"        v = tl.load(base + j, mask={inside}, other=0.2)", f"        total += tl.sum({what.replace('total', '0.4')})"]
        return ["    for start in range(0, n, BLOCK):", "        j = start + i", f"        v = tl.load(base + j, mask={inside}, other=0.2)", f"        total += tl.sum({what.replace('total', '0.4')})"]

    order = choose(["first", "last", "last", "between"])
    rows = [row(k) for k in range(2 if order == "between" else choose([1, 1, 1, 2]))]
    body = {"first": [pick(), *rows], "last": [*rows, pick()], "between": [rows[0], pick(), *rows[1:]]}[order]
    lines += [line for each in body for line in each]
    lines.append(f"    tl.store(y + row * tl.num_programs(1) + part, total + {use})")
    return "\n".join(lines) + "\n", has_parts


def check(text, has_parts, seed):
    choose = random.Random(-seed - 1).choice
    block, n = choose([4, 8, 16]), choose([5, 8, 13, 16])
    if "i >= 0" not in text and "base + i" in text:
        block = choose([8, 16])
    stride = choose([n, n, n + 3, 40])
    kernel, grid = harness.make(text), (ROWS, 2 if has_parts else 1)
    x = jvp_check.random(ROWS * stride + 2 * MARGIN) * 0.8
    dy = jvp_check.random(ROWS, grid[1])
    gradient = nereid.grad(kernel, "x", "y")

    def value(x, labels):
        y = torch.zeros_like(dy)
        kernel[grid](x, labels, y, n, stride, BLOCK=block)
        return float((y * dy).sum())

    for launch in range(4):
        least, most = choose([(0, n - 1), (0, n - 1), (0, block - 1), (-5, n + 4)]) if launch else (0, min(n, block) - 1)
        labels = torch.randint(least, most + 1, (ROWS + 1, ), generator=jvp_check.GENERATOR)
        if launch == 3:
            labels[1] = 2
        found = torch.full_like(x, float("nan"))
        gradient.backward[grid](x, labels, torch.zeros_like(dy), n, stride, dy=dy, dx=found, BLOCK=block)
        assert not found.isnan().any(), (launch, labels)
        for at in range(x.numel()):
            if found[at] == 0 and not MARGIN - 24 <= at < MARGIN + ROWS * stride + 24:
                continue
            moved = [x.clone() for _ in range(2)]
            moved[0][at] += 1e-6
            moved[1][at] -= 1e-6
            expected = (value(moved[0], labels) - value(moved[1], labels)) / 2e-6
            assert abs(float(found[at]) - expected) <= 1e-5 * (1 + abs(expected)), (launch, labels, at - MARGIN, float(found[at]), expected, n, stride, block)
    return gradient


@pytest.mark.parametrize("seed", range(SEED, SEED + PROGRAMS))
def test_gradients(seed):
    text, has_parts = program(seed)
    jvp_check.GENERATOR.manual_seed(seed)
    try:
        check(text, has_parts, seed)
    except Exception as error:
        raise AssertionError(f"program {seed}:\n{text}") from error


def test_the_programs_have_picked_elements():
    """The programs above are of the kind that they are meant to be."""
    texts = [check(*program(seed), seed).explain() for seed in range(1000, 1012)]
    assert sum("read at positions from memory" in text for text in texts) >= 4, texts
