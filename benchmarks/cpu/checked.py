"""Checked mode on the CPU: the time of a checked kernel by that of the unchecked one.

    NEREID_CPU_THREADS=1 python benchmarks/cpu/checked.py [--rounds 40] [--most 3] [--markdown]

Calls of both are taken in turns; "ratio" is that of the smallest times, beside it the median over the pairs. Status 1 when a ratio of the smallest times is above
`--most`, which is the bar for kernels bound by memory.
"""

import argparse
import sys

import torch

import beside
import nereid
import nereid.language as tl
import reductions
import rows


@nereid.jit
def add(o, x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, m) + tl.load(y + i, m), m)


@nereid.jit
def gather(o, x, index, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + tl.load(index + i, m, 0), m), m)


@nereid.jit
def scatter(o, x, index, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + tl.load(index + i, m, 0), tl.load(x + i, m), m)


def cases():
    """Name, and a function that launches with the options it is given."""
    for n in (65536, 100000, 4 << 20):
        x, y, o = torch.randn(n), torch.randn(n), torch.empty(n)
        yield f"add {n}", lambda **k: add[(nereid.cdiv(n, 1024),)](o, x, y, n, B=1024, **k)
    n = 100000
    x, o, index = torch.randn(n), torch.empty(n), torch.randperm(n)
    for kernel, name in ((gather, "gather"), (scatter, "scatter")):
        yield f"{name} {n}", lambda **k: kernel[(nereid.cdiv(n, 1024),)](o, x, index, n, B=1024, **k)
    for width in (781, 1024):
        x, w, b = torch.randn(256, width), torch.randn(width), torch.randn(width)
        o, turned = torch.empty_like(x), torch.empty(width, 256)
        yield f"softmax 256x{width}", lambda **k: rows.seed.softmax_kernel[(256,)](o, x, width, width, width, BLOCK_SIZE=1024, **k)
        yield f"layer norm 256x{width}", lambda **k: rows.layer_norm[(256,)](o, x, w, b, width, 1e-5, B=1024, **k)
        yield f"cumsum 256x{width}", lambda **k: rows.cumsum[(256,)](o, x, width, B=1024, **k)
        for way in ("load", "store", "trans"):
            yield (f"transpose by {way} 256x{width}",
                   lambda **k: rows.transpose[(4, nereid.cdiv(width, 64))](turned, x, 256, width, way=way, B=64, **k))
    x, o, at = torch.randn(500, 777), torch.empty(500, 777), torch.empty(777, dtype=torch.int32)
    for what in ("sum", "argmax", "cumsum"):
        yield f"{what} of columns 500x777", lambda **k: reductions.columns[(7,)](o, at, x, 500, 777, what=what, H=512, W=128, **k)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--most", type=float, default=3)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    beside.use_threads()
    show = (lambda cells: "| " + " | ".join(cells) + " |") if options.markdown else lambda cells: cells[0].ljust(32) + "".join(cell.rjust(16) for cell in cells[1:])
    head = ["kernel", "unchecked µs", "checked µs", "ratio", "median of pairs"]
    print(show(head) + ("\n" + "|---" * len(head) + "|" if options.markdown else ""))
    slow = False
    for name, launch in cases():
        for checked in (False, True):
            launch(checked=checked)
        # Called at once, before the next case is made: the functions of `cases` see its variables.
        plain, checked, pairs = beside.timed(lambda: launch(checked=False), lambda: launch(checked=True), options.rounds)
        slow |= checked / plain > options.most
        print(show([name, f"{plain * 1e6:.1f}", f"{checked * 1e6:.1f}", f"{checked / plain:.2f}", f"{pairs:.2f}"]), flush=True)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
