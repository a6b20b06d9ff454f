"""Elements a constant distance apart on the CPU beside PyTorch: every second to fifth element loaded, stored, and in reverse order.

    python benchmarks/cpu/strides.py [--rounds 200] [--markdown]

One thread; 65,536 elements, in the caches. Each result is compared exactly first. Calls of both are taken in turns, the smallest
time of each counts. Status 1 when a result is wrong.
"""

import argparse
import sys

import torch

import nereid
import nereid.language as tl
from functions import smallest_times

SIZE, BLOCK = 65536, 1024


@nereid.jit
def load(y, x, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i * STEP))


@nereid.jit
def store(y, x, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i * STEP, tl.load(x + i))


@nereid.jit
def rotate(y, x, c, s, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + 2 * i), tl.load(x + 2 * i + 1)
    cosine, sine = tl.load(c + i), tl.load(s + i)
    tl.store(y + 2 * i, a * cosine - b * sine)
    tl.store(y + 2 * i + 1, a * sine + b * cosine)


def cases(dtype):
    """(name, our call, PyTorch's call, our result, the right one)."""
    grid = (SIZE // BLOCK,)
    narrow = torch.arange(SIZE).remainder(97).to(dtype)
    for step in (2, 3, 4, 5):
        wide = torch.arange(SIZE * step).remainder(101).to(dtype)
        out, into = torch.empty_like(narrow), torch.zeros_like(wide)
        yield (f"load x[::{step}]", lambda step=step, wide=wide, out=out: load[grid](out, wide, STEP=step, BLOCK=BLOCK),
               lambda step=step, wide=wide, out=out: torch.add(wide[::step], 0, out=out), out, wide[::step])
        yield (f"store x[::{step}]", lambda step=step, into=into: store[grid](into, narrow, STEP=step, BLOCK=BLOCK),
               lambda step=step, into=into: into[::step].copy_(narrow), into[::step], narrow)
    out = torch.empty_like(narrow)
    yield ("load x[::-1]", lambda: load[grid](out, narrow[SIZE - 1:], STEP=-1, BLOCK=BLOCK), lambda: torch.flip(narrow, (0,)), out,
           narrow.flip(0))
    if dtype.is_floating_point:
        x, c, s = torch.rand(2 * SIZE).to(dtype), torch.rand(SIZE).to(dtype), torch.rand(SIZE).to(dtype)
        y = torch.empty_like(x)
        want = torch.stack([x[0::2] * c - x[1::2] * s, x[0::2] * s + x[1::2] * c], 1).flatten()
        yield ("rotate pairs", lambda: rotate[grid](y, x, c, s, BLOCK=BLOCK),
               (lambda: torch.mul(torch.view_as_complex(x.view(-1, 2)), torch.complex(c, s))) if dtype != torch.float16 else None, y, want)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    wrong = 0
    if options.markdown:
        print("| type | access | ns an element | PyTorch |\n|---|---|---|---|")
    for dtype in (torch.int8, torch.float16, torch.float32, torch.float64):
        for name, ours, theirs, got, want in cases(dtype):
            ours()
            tolerance = {torch.float16: 4e-3, torch.float32: 1e-6}.get(dtype, 0)
            right = torch.allclose(got, want, rtol=0, atol=tolerance) if "pairs" in name else torch.equal(got, want)
            wrong += not right
            mine, *other = (1e9 * t / SIZE for t in smallest_times([ours] + [theirs] * (theirs is not None), options.rounds))
            row = [str(dtype)[6:], name, f"{mine:.3f}", f"{other[0]:.3f}" if other else "-"] + ([] if right else ["WRONG"])
            print(f"| {' | '.join(row)} |" if options.markdown else "  ".join(row), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
