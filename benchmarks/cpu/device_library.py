"""Functions of the device library on the CPU beside PyTorch's operators of the same name: nanoseconds an element, one thread.

    python benchmarks/cpu/device_library.py [--functions atan,erfinv] [--rounds 30] [--markdown]

65,536 elements in the caches, fp32 and fp64, in a range where results are ordinary numbers. Calls of both are taken in turns, the
smallest time of each counts. Accuracy: tests/language/test_libdevice.py, and `--accuracy N`, which compares every N-th fp32 number with
PyTorch's operator in fp64 and prints the largest error in units in the last place.
"""

import argparse
import math
import sys

import torch

import nereid
import nereid.language as tl
from functions import smallest_times, ulps
from nereid.language.extra import libdevice

SIZE, BLOCK = 65536, 1024
WIDE, UNIT, ABOVE = (-8, 8), (0.01, 0.99), (1, 11)
# name: PyTorch's operator, if it has one, and the range of the arguments
ONE = {
    "acos": (torch.acos, UNIT), "acosh": (torch.acosh, ABOVE), "asin": (torch.asin, UNIT), "asinh": (torch.asinh, WIDE),
    "atan": (torch.atan, WIDE), "atanh": (torch.atanh, UNIT), "cbrt": (None, WIDE), "cosh": (torch.cosh, WIDE),
    "cospi": (None, WIDE), "erf": (torch.erf, WIDE), "erfc": (torch.erfc, WIDE), "erfcinv": (None, UNIT),
    "erfcx": (torch.special.erfcx, WIDE), "erfinv": (torch.erfinv, UNIT), "exp10": (None, WIDE), "expm1": (torch.expm1, WIDE),
    "lgamma": (torch.lgamma, WIDE), "log10": (torch.log10, ABOVE), "log1p": (torch.log1p, UNIT),
    "normcdf": (torch.special.ndtr, WIDE), "normcdfinv": (torch.special.ndtri, UNIT), "rcbrt": (None, ABOVE),
    "sinh": (torch.sinh, WIDE), "sinpi": (None, WIDE), "tan": (torch.tan, WIDE), "tanh": (torch.tanh, WIDE), "tgamma": (None, ABOVE),
    "j0": (torch.special.bessel_j0, WIDE), "j1": (torch.special.bessel_j1, WIDE), "y0": (torch.special.bessel_y0, ABOVE),
    "y1": (torch.special.bessel_y1, ABOVE), "cyl_bessel_i0": (torch.special.i0, WIDE), "cyl_bessel_i1": (torch.special.i1, WIDE),
}
TWO = {
    "atan2": torch.atan2, "fdim": None, "fmod": torch.fmod, "hypot": torch.hypot, "nextafter": torch.nextafter, "pow": torch.pow,
    "remainder": None, "rhypot": None,
}


def _kernel(function, count):
    if count == 1:

        @nereid.jit
        def run(out, x, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out + i, function(tl.load(x + i)))
    else:

        @nereid.jit
        def run(out, x, y, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out + i, function(tl.load(x + i), tl.load(y + i)))
    return run


def measure(name, dtype, rounds):
    """Nanoseconds an element: ours and PyTorch's (NaN where it has no such operator)."""
    generator = torch.Generator().manual_seed(1)
    operator, (low, high) = ONE[name] if name in ONE else (TWO[name], (0.5, 9))
    inputs = [low + (high - low) * torch.rand(SIZE, generator=generator, dtype=dtype) for _ in range(1 if name in ONE else 2)]
    out, kernel = torch.empty(SIZE, dtype=dtype), _kernel(getattr(libdevice, name), len(inputs))
    calls = [lambda: kernel[(SIZE // BLOCK,)](out, *inputs, BLOCK=BLOCK)]
    if operator:
        calls.append(lambda: operator(*inputs, out=out))
    for call in calls:
        call()
    times = [1e9 * took / SIZE for took in smallest_times(calls, rounds)]
    return times[0], times[1] if operator else math.nan


def largest_error(name, stride):
    """(units in the last place, argument) over every `stride`-th fp32 number, against PyTorch's operator in fp64."""
    operator, kernel = ONE[name][0], _kernel(getattr(libdevice, name), 1)
    worst = (0.0, 0.0)
    for first in range(0, 2**32, stride * SIZE):
        bits = torch.arange(first, first + stride * SIZE, stride).clamp(max=2**32 - 1)
        x = torch.where(bits >= 2**31, bits - 2**32, bits).int().view(torch.float32)
        out = torch.empty_like(x)
        kernel[(SIZE // BLOCK,)](out, x, BLOCK=BLOCK)
        want = operator(x.double())
        error = ulps(out, want)
        if error > worst[0]:
            worst = (error, next(v.item() for v, o, w in zip(x, out, want) if ulps(o, w) == error))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--functions", default=",".join([*ONE, *TWO]))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--accuracy", type=int, metavar="N")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.markdown:
        print("| function | type | ns an element | PyTorch | speed to PyTorch |\n|---|---|---|---|---|")
    for name in options.functions.split(","):
        if options.accuracy:
            if ONE.get(name, (None,))[0]:
                print(name, "{:.3f} ulp at {!r}".format(*largest_error(name, options.accuracy)), flush=True)
            continue
        for dtype in (torch.float32, torch.float64):
            mine, other = measure(name, dtype, options.rounds)
            row = [name, str(dtype)[6:], f"{mine:.2f}", f"{other:.2f}", f"{other / mine:.2f}"]
            print(f"| {' | '.join(row)} |" if options.markdown else "  ".join(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
