"""Reductions, scans, sorts, histograms and gathers on the CPU beside PyTorch, along rows and along columns.

    NEREID_CPU_THREADS=1 python benchmarks/cpu/reductions.py [--only sum,argmax] [--rounds 40] [--markdown]

Columns are the first axis of a matrix whose rows are contiguous: `tl.sum(block, axis=0)`. Results of both are preallocated. Each case is compared
first, with float64 where numbers are added, else exactly. Calls of both are taken in turns on as many threads (`beside.py`). Status 1 when a
result is wrong.
"""

import argparse
import sys

import torch

import beside
import nereid
import nereid.language as tl

COLUMN_SHAPES = ((64, 4096), (512, 512), (1000, 777), (256, 2048))
WIDTHS = (128, 781, 1024, 4096)


@nereid.jit
def columns(o, at, x, h, w, what: tl.constexpr, H: tl.constexpr, W: tl.constexpr):
    c = tl.program_id(0) * W + tl.arange(0, W)
    r = tl.arange(0, H)
    m = (r[:, None] < h) & (c[None, :] < w)
    if what == "sum":
        tl.store(o + c, tl.sum(tl.load(x + r[:, None] * w + c[None, :], m, 0).to(tl.float32), 0), c < w)
    elif what == "max":
        tl.store(o + c, tl.max(tl.load(x + r[:, None] * w + c[None, :], m, float("-inf")), 0), c < w)
    elif what == "argmax":
        tl.store(at + c, tl.argmax(tl.load(x + r[:, None] * w + c[None, :], m, float("-inf")), 0), c < w)
    elif what == "softmax":
        v = tl.load(x + r[:, None] * w + c[None, :], m, float("-inf"))
        e = tl.exp(v - tl.max(v, 0)[None, :])
        tl.store(o + r[:, None] * w + c[None, :], e / tl.sum(e, 0)[None, :], m)
    else:
        v = tl.load(x + r[:, None] * w + c[None, :], m, 0)
        tl.store(o + r[:, None] * w + c[None, :], tl.cumsum(v, 0), m)


@nereid.jit
def looped(o, x, h, w, H: tl.constexpr, W: tl.constexpr):
    """The sums of columns, H rows at a time, as a bias' gradient is usually written."""
    c = tl.program_id(0) * W + tl.arange(0, W)
    total = tl.zeros((W,), tl.float32)
    for start in range(0, h, H):
        r = start + tl.arange(0, H)
        m = (r[:, None] < h) & (c[None, :] < w)
        total += tl.sum(tl.load(x + r[:, None] * w + c[None, :], m, 0).to(tl.float32), 0)
    tl.store(o + c, total, c < w)


@nereid.jit
def rows(o, at, x, index, n, what: tl.constexpr, B: tl.constexpr, K: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    if what == "argmax":
        tl.store(at + r, tl.argmax(tl.load(x + r * n + c, c < n, float("-inf")), 0))
    elif what == "max with index":
        v, i = tl.max(tl.load(x + r * n + c, c < n, float("-inf")), 0, return_indices=True)
        tl.store(o + r, v)
        tl.store(at + r, i)
    elif what == "sort":
        tl.store(o + r * n + c, tl.sort(tl.load(x + r * n + c, c < n, float("inf"))), c < n)
    elif what == "topk":
        tl.store(o + r * K + tl.arange(0, K), tl.topk(tl.load(x + r * n + c, c < n, float("-inf")), K))
    elif what == "cumsum":
        tl.store(o + r * n + c, tl.cumsum(tl.load(x + r * n + c, c < n, 0), 0), c < n)
    elif what == "gather of memory":
        tl.store(o + r * n + c, tl.load(x + r * n + tl.load(index + r * n + c, c < n, 0), c < n), c < n)
    else:
        v = tl.gather(tl.load(x + r * n + c, c < n), tl.load(index + r * n + c, c < n, 0).to(tl.int32), 0)
        tl.store(o + r * n + c, v, c < n)


@nereid.jit
def histogram(o, x, n, B: tl.constexpr, BINS: tl.constexpr):
    c = tl.arange(0, B)
    total = tl.zeros((BINS,), tl.int32)
    for start in range(0, n, B):
        total += tl.histogram(tl.load(x + start + c, start + c < n, 0), BINS, mask=start + c < n)
    tl.store(o + tl.arange(0, BINS), total)


def close(got, want, bound=2e-5):
    return bool((got.double() - want).abs().max() <= bound * max(1.0, float(want.abs().max())))


def column_cases(dtype, h, w, block):
    x = torch.randn(h, w).to(dtype)
    out, other = torch.empty(w, dtype=dtype), torch.empty(w, dtype=dtype)
    at, other_at = torch.empty(w, dtype=torch.int32), torch.empty(w, dtype=torch.int64)
    whole, other_whole = torch.empty_like(x), torch.empty_like(x)
    exact, grid, high = x.double(), (nereid.cdiv(w, block),), nereid.next_power_of_2(h)
    bound = 2e-5 if dtype == torch.float32 else 2e-2

    def ours(what, o):
        return lambda: columns[grid](o, at, x, h, w, what=what, H=high, W=block)
    yield "sum", ours("sum", out), lambda: torch.sum(x, 0, out=other), lambda: close(out, exact.sum(0), bound)
    if dtype == torch.float32:
        yield "sum in a loop", lambda: looped[grid](out, x, h, w, H=16, W=block), lambda: torch.sum(x, 0, out=other), lambda: close(out, exact.sum(0), bound)
    yield "max", ours("max", out), lambda: torch.amax(x, 0, out=other), lambda: torch.equal(out, x.amax(0))
    yield "argmax", ours("argmax", out), lambda: torch.argmax(x, 0, out=other_at), lambda: torch.equal(x.gather(0, at.long()[None])[0], x.amax(0))
    yield "cumsum", ours("cumsum", whole), lambda: torch.cumsum(x, 0, out=other_whole), lambda: dtype != torch.float32 or close(whole, exact.cumsum(0))
    yield "softmax", ours("softmax", whole), lambda: torch.softmax(x, 0, out=other_whole), lambda: close(whole, torch.softmax(exact, 0), bound)


def row_cases(n):
    count, block = max(8, 200000 // n), nereid.next_power_of_2(n)
    x, index = torch.randn(count, n), torch.randint(0, n, (count, n))
    out, other, places = torch.empty_like(x), torch.empty_like(x), torch.empty(count, n, dtype=torch.int64)
    value, top, best, best_at = torch.empty(count), torch.empty(count, 8), torch.empty(count, 8), torch.empty(count, 8, dtype=torch.int64)
    at, other_at, one = torch.empty(count, dtype=torch.int32), torch.empty(count, dtype=torch.int64), torch.empty(count)

    def ours(what, o):
        return lambda: rows[(count,)](o, at, x, index, n, what=what, B=block, K=8)
    right_at = lambda: torch.equal(at.long(), x.argmax(1))  # noqa: E731
    yield "argmax", ours("argmax", value), lambda: torch.argmax(x, 1, out=other_at), right_at
    yield "max with index", ours("max with index", value), lambda: torch.max(x, 1, out=(one, other_at)), lambda: right_at() and torch.equal(value, x.amax(1))
    yield "cumsum", ours("cumsum", out), lambda: torch.cumsum(x, 1, out=other), lambda: close(out, x.double().cumsum(1))
    yield "sort", ours("sort", out), lambda: torch.sort(x, 1, out=(other, places)), lambda: torch.equal(out, x.sort(1).values)
    yield "topk", ours("topk", top), lambda: torch.topk(x, 8, 1, out=(best, best_at)), lambda: torch.equal(top, x.topk(8).values)
    for what in ("gather", "gather of memory"):
        yield what, ours(what, out), lambda: torch.gather(x, 1, index, out=other), lambda: torch.equal(out, x.gather(1, index))


def histogram_cases():
    for size, bins in ((65536, 16), (65536, 256), (1000000, 256), (65536, 4096)):
        x = torch.randint(0, bins, (size,), dtype=torch.int32)
        out = torch.empty(bins, dtype=torch.int32)
        yield (f"histogram {size} into {bins}", lambda: histogram[(1,)](out, x, size, B=4096, BINS=bins), lambda: torch.bincount(x, minlength=bins),
               lambda: torch.equal(out.long(), torch.bincount(x, minlength=bins)))


def cases(only):
    def chosen(name):
        return not only or name.split()[0] in only or name in only
    for dtype in (torch.float32, torch.bfloat16):
        for h, w in COLUMN_SHAPES:
            for name, *case in column_cases(dtype, h, w, 128):
                if chosen(name):
                    yield (f"{name}, columns, {str(dtype).removeprefix('torch.')} {h}x{w}", *case)
    for n in WIDTHS:
        for name, *case in row_cases(n):
            if chosen(name):
                yield (f"{name}, rows of {n}", *case)
    for name, *case in histogram_cases():
        if chosen("histogram"):
            yield (name, *case)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="first words of cases: sum, max, argmax, cumsum, softmax, sort, topk, gather, histogram")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    beside.use_threads()
    return int(beside.table(cases(set(filter(None, options.only.split(",")))), options.rounds, options.markdown))


if __name__ == "__main__":
    sys.exit(main())
