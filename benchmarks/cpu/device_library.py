"""Functions of the device library on the CPU beside PyTorch's operators of the same name: nanoseconds an element, one thread.

    python benchmarks/cpu/device_library.py [--functions atan,erfinv] [--rounds 30] [--markdown] [--mkl LIBRARY]

65,536 elements in the caches, fp32 and fp64, in a range where results are ordinary numbers. Calls of both are taken in turns, the
smallest time of each counts. PyTorch's operators call MKL (acos, asin, atan, erf, erfc, erfinv, log10, tan, ...) or SLEEF (acosh, asinh, atan2,
hypot, pow, ...). `--mkl` is the path of a `libmkl_rt.so` (package `mkl` of the package index): its vector functions are called directly, in the
mode of high accuracy. On processors of AMD MKL takes its code for AVX2. Accuracy: tests/language/test_libdevice.py, and `--accuracy N`, which compares every N-th fp32 number with
PyTorch's operator in fp64 and prints the largest error in units in the last place.
"""

import argparse
import ctypes
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
    "atan": (torch.atan, WIDE), "atanh": (torch.atanh, UNIT), "cbrt": (None, WIDE), "cos": (torch.cos, WIDE), "cosh": (torch.cosh, WIDE),
    "cospi": (None, WIDE), "exp": (torch.exp, WIDE), "exp2": (torch.exp2, WIDE), "erf": (torch.erf, WIDE), "erfc": (torch.erfc, WIDE), "erfcinv": (None, UNIT),
    "erfcx": (torch.special.erfcx, WIDE), "erfinv": (torch.erfinv, UNIT), "exp10": (None, WIDE), "expm1": (torch.expm1, WIDE),
    "lgamma": (torch.lgamma, WIDE), "log10": (torch.log10, ABOVE), "log1p": (torch.log1p, UNIT),
    "normcdf": (torch.special.ndtr, WIDE), "normcdfinv": (torch.special.ndtri, UNIT), "rcbrt": (None, ABOVE),
    "log": (torch.log, ABOVE), "log2": (torch.log2, ABOVE), "sin": (torch.sin, WIDE), "sinh": (torch.sinh, WIDE), "sinpi": (None, WIDE), "tan": (torch.tan, WIDE), "tanh": (torch.tanh, WIDE), "tgamma": (None, ABOVE),
    "j0": (torch.special.bessel_j0, WIDE), "j1": (torch.special.bessel_j1, WIDE), "y0": (torch.special.bessel_y0, ABOVE),
    "y1": (torch.special.bessel_y1, ABOVE), "cyl_bessel_i0": (torch.special.i0, WIDE), "cyl_bessel_i1": (torch.special.i1, WIDE),
}
TWO = {
    "atan2": torch.atan2, "fdim": None, "fmod": torch.fmod, "hypot": torch.hypot, "nextafter": torch.nextafter, "pow": torch.pow,
    "remainder": None, "rhypot": None,
}


# name: MKL's
MKL = {name: name.capitalize() for name in (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "cospi", "erf", "erfc", "erfcx", "exp", "exp2", "exp10", "expm1", "log10", "log1p",
    "log2", "sin", "sinh", "sinpi", "tan", "tanh", "j0", "j1", "y0", "y1", "atan2", "fdim", "fmod", "hypot", "pow", "remainder")}
MKL |= {"log": "Ln", "erfinv": "ErfInv", "erfcinv": "ErfcInv", "normcdf": "CdfNorm", "normcdfinv": "CdfNormInv", "lgamma": "LGamma", "tgamma": "TGamma",
        "rcbrt": "InvCbrt", "nextafter": "NextAfter", "cyl_bessel_i0": "I0", "cyl_bessel_i1": "I1"}
HIGH_ACCURACY, IGNORE_ERRORS = 2, 0x100


def _mkl_call(library, name, dtype, inputs, out):
    """A call of MKL's function on the same data, or None."""
    function = getattr(library, f"vm{'s' if dtype == torch.float32 else 'd'}{MKL.get(name)}", None)
    if not function:
        return None
    arguments = [ctypes.c_int(SIZE), *(ctypes.c_void_p(x.data_ptr()) for x in (*inputs, out)), ctypes.c_int64(HIGH_ACCURACY | IGNORE_ERRORS)]
    return lambda: function(*arguments)


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


def measure(name, dtype, rounds, mkl=None):
    """Nanoseconds an element: ours, PyTorch's and MKL's (NaN where there is no such function)."""
    generator = torch.Generator().manual_seed(1)
    operator, (low, high) = ONE[name] if name in ONE else (TWO[name], (0.5, 9))
    inputs = [low + (high - low) * torch.rand(SIZE, generator=generator, dtype=dtype) for _ in range(1 if name in ONE else 2)]
    out, kernel = torch.empty(SIZE, dtype=dtype), _kernel(getattr(libdevice, name), len(inputs))
    calls = [lambda: kernel[(SIZE // BLOCK,)](out, *inputs, BLOCK=BLOCK)]
    others = [operator and (lambda: operator(*inputs, out=out)), mkl and _mkl_call(mkl, name, dtype, inputs, out)]
    calls += [call for call in others if call]
    for call in calls:
        call()
    times = iter([1e9 * took / SIZE for took in smallest_times(calls, rounds)])
    return [next(times), *(next(times) if call else math.nan for call in others)]


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
    parser.add_argument("--mkl", metavar="LIBRARY", type=ctypes.CDLL)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.markdown:
        print("| function | type | ns an element | PyTorch | MKL | speed to PyTorch | to MKL |\n|---|---|---|---|---|---|---|")
    for name in options.functions.split(","):
        if options.accuracy:
            if ONE.get(name, (None,))[0]:
                print(name, "{:.3f} ulp at {!r}".format(*largest_error(name, options.accuracy)), flush=True)
            continue
        for dtype in (torch.float32, torch.float64):
            mine, theirs, mkl = measure(name, dtype, options.rounds, options.mkl)
            row = [name, str(dtype)[6:], *(f"{x:.2f}" for x in (mine, theirs, mkl, theirs / mine, mkl / mine))]
            print(f"| {' | '.join(row)} |" if options.markdown else "  ".join(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
