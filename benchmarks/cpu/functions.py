"""The functions of the CPU target's math library over their whole range: correctness against float64, then the time of each range.

    python benchmarks/cpu/functions.py [--functions exp,sigmoid] [--limit 3] [--markdown]

Each range is a tensor of 65,536 fp32 elements of it, in the caches; the times of all ranges and of PyTorch (its result
preallocated) are taken in turns, and the smallest of each counts. The program ends with status 1 when a result is wrong, or when a range
takes more than `--limit` times as long as the range from 0.1 to 10 (sin and cos beyond 2^16: 5 times). One thread.
"""

import argparse
import math
import sys
import time

import torch

import nereid
import nereid.language as tl

SIZE, BLOCK = 65536, 1024


def _kernel(function):
    @nereid.jit
    def run(out, x, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        tl.store(out + offsets, function(tl.load(x + offsets, mask)), mask)
    return run


def _sigmoid(x, out=None):
    """1 / (1 + exp(-x)) as the language defines it: 0 where the exponential is infinite in fp32. (The quotient is subnormal just before.)"""
    result = torch.sigmoid(x, out=out)
    return torch.where(x < -88.7228, 0.0, result) if out is None else result


# name: the function in the language, in PyTorch, largest error in units in the last place
FUNCTIONS = {
    "exp": (tl.exp, torch.exp, 2),
    "exp2": (tl.exp2, torch.exp2, 2),
    "log": (tl.log, torch.log, 2),
    "log2": (tl.log2, torch.log2, 2),
    "sin": (tl.sin, torch.sin, 2),
    "cos": (tl.cos, torch.cos, 2),
    "erf": (tl.erf, torch.erf, 2),
    "sigmoid": (tl.sigmoid, _sigmoid, 4),
    "rsqrt": (tl.rsqrt, torch.rsqrt, 2),
}

RANGES = {
    "0.1 to 10": (0.1, 10),
    "zero": (0, 0),
    "2^-126 to 2^-100": (2.0**-126, 2.0**-100),
    "2^-70 to 2^-50": (2.0**-70, 2.0**-50),
    "-10 to -0.1": (-10, -0.1),
    "-80 to -10": (-80, -10),
    "-104 to -86": (-104, -86),
    "-151 to -125": (-151, -125),
    "-1e30 to -1e4": (-1e30, -1e4),
    "-infinity": (-math.inf, -math.inf),
    "10 to 88": (10, 88),
    "1e4 to 1e30": (1e4, 1e30),
    "infinity": (math.inf, math.inf),
    "NaN": (math.nan, math.nan),
}


def numbers(low, high):
    """SIZE numbers between the two: evenly spread, or by exponent where the range is wide."""
    if not low < high:
        return torch.full((SIZE,), float(low))
    share = torch.rand(SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    if low * high > 0 and max(high / low, low / high) > 1000:
        return (low * (high / low) ** share).float()
    return (low + share * (high - low)).float()


def ulps(got, want):
    """Largest distance in units in the last place of fp32; infinite where only one is a number, or another infinity."""
    rounded = want.float()
    same = (got == rounded) | (got.isnan() & rounded.isnan())
    exponent = torch.frexp(want.abs().clamp(min=2.0**-126)).exponent - 24
    distance = torch.where(same, 0.0, (got.double() - want).abs() / torch.ldexp(torch.ones_like(want), exponent))
    return torch.nan_to_num(distance, nan=math.inf).max().item()


def smallest_times(calls, rounds):
    best = [math.inf] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--limit", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    failures = []
    if options.markdown:
        print("| function | range | ulp | ns an element | to the first range | speed to PyTorch |\n|---|---|---|---|---|---|")
    for name in options.functions.split(","):
        function, in_torch, bound = FUNCTIONS[name]
        kernel = _kernel(function)
        inputs = {label: numbers(*limits) for label, limits in RANGES.items()}
        out, reference = torch.empty(SIZE), torch.empty(SIZE)

        def ours(x, kernel=kernel):
            return lambda: kernel[(SIZE // BLOCK,)](out, x, SIZE, BLOCK=BLOCK)

        errors = {}
        for label, x in inputs.items():
            ours(x)()
            errors[label] = ulps(out, in_torch(x.double()))
            if errors[label] > bound:
                failures.append(f"{name} from {label} is wrong by {errors[label]:.1f} ulp")
        times = smallest_times([ours(x) for x in inputs.values()], options.rounds)
        theirs = smallest_times([lambda x=x: in_torch(x, out=reference) for x in inputs.values()], options.rounds)
        for (label, limits), mine, other in zip(RANGES.items(), times, theirs):
            ratio = mine / times[0]
            far = name in ("sin", "cos") and max(map(abs, limits)) > 65536
            if ratio > (max(options.limit, 5) if far else options.limit):
                failures.append(f"{name} from {label} takes {ratio:.1f} times as long as from {next(iter(RANGES))}")
            row = (name, label, f"{errors[label]:.2f}", f"{mine / SIZE * 1e9:.3f}", f"{ratio:.2f}x", f"{other / mine:.2f}x")
            print("| " + " | ".join(row) + " |" if options.markdown else "{:8} {:18} {:>6} ulp {:>7} ns {:>7} {:>7}".format(*row), flush=True)
    for failure in failures:
        print("error:", failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
