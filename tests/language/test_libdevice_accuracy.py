"""Functions of the device library that the CPU computes on lanes: over all fp32 numbers, against fp64, and in fp64 against 160 digits."""

import numpy as np
import pytest
import torch

from targets import launches_on
from test_libdevice import run

# name: the function in fp64, largest error in units in the last place of fp32
SINGLE = {
    "acos": (np.arccos, 0.51), "acosh": (np.arccosh, 0.51), "asin": (np.arcsin, 0.58), "asinh": (np.arcsinh, 0.58),
    "atan": (np.arctan, 0.6), "atanh": (np.arctanh, 0.6), "cbrt": (np.cbrt, 0.51), "cosh": (np.cosh, 0.51), "sinh": (np.sinh, 0.58),
    "log10": (np.log10, 0.51), "exp10": (lambda x: np.power(10.0, x), 0.51), "rcbrt": (lambda x: 1 / np.cbrt(x), 0.51),
    "tan": (np.tan, 2.3), "erfc": (lambda x: torch.erfc(torch.from_numpy(x)).numpy(), 0.51),
    "erfinv": (lambda x: torch.erfinv(torch.from_numpy(x)).numpy(), 0.56),
    "erfcx": (lambda x: torch.special.erfcx(torch.from_numpy(x)).numpy(), 0.51),
    "normcdf": (lambda x: torch.erfc(torch.from_numpy(-x * np.sqrt(0.5))).numpy() / 2, 0.51),
    "normcdfinv": (lambda x: torch.special.ndtri(torch.from_numpy(x)).numpy(), 0.56),
    "lgamma": (lambda x: torch.lgamma(torch.from_numpy(x)).numpy(), 0.6),
}
SPECIAL = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1.2e-38, -1.2e-38, 1e-45, -1e-45, 10, 1000, -3],
                   dtype=np.float32)


@pytest.fixture
def cpu_only():
    """On GPUs these are the vendor's functions, with the errors that the vendor states."""
    with launches_on("cpu"):
        yield


def all_floats(count):
    """`count` fp32 numbers evenly spread over all bit patterns, special ones first."""
    bits = np.linspace(0, 2**32 - 1, count - len(SPECIAL)).astype(np.uint32)
    return np.concatenate([SPECIAL, bits.view(np.float32)])


def ulps(got, want):
    """Distances in units in the last place of fp32; infinite where only one is a number, and between zeros of two signs."""
    rounded = want.astype(np.float32)
    same = ((got == rounded) & (np.signbit(got) == np.signbit(rounded))) | (np.isnan(got) & np.isnan(rounded))
    exponent = np.frexp(np.maximum(np.abs(want), 2.0**-126))[1] - 24
    distance = np.abs(got.astype(np.float64) - want) / np.ldexp(1.0, exponent)
    distance[(got == 0) & (rounded == 0)] = np.inf
    return np.nan_to_num(np.where(same, 0, distance), nan=np.inf)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", SINGLE)
def test_over_all_floats(cpu_only, name):
    function, bound = SINGLE[name]
    x = all_floats(1 << 14)
    got = run(name, ("fp32",), "fp32", x, size=len(x)).numpy()
    error = ulps(got, function(x.astype(np.float64)))
    assert error.max() <= bound, (x[error.argmax()], got[error.argmax()])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
@pytest.mark.parametrize("name, function", [("fmod", np.fmod), ("remainder", None)])
def test_remainders(cpu_only, name, function, dtype):
    """Exact, quotients of hundreds of digits and special values among them."""
    import math
    x = all_floats(4096)
    y = np.random.default_rng(3).permutation(x)
    y[:2000] = np.float32(1) + np.abs(np.sin(x[:2000]))
    wide = np.float32 if dtype == "fp32" else np.float64
    got = run(name, (dtype, dtype), dtype, x.astype(wide), y.astype(wide), size=len(x)).numpy()

    def remainder(a, b):
        return math.nan if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0 else math.remainder(a, b)

    want = function(x.astype(wide), y.astype(wide)) if function else np.array([remainder(a, b) for a, b in zip(x.tolist(), y.tolist())], wide)
    np.testing.assert_array_equal(got, want)
    assert np.array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))


# name: the function in mpmath, the range, largest error in units in the last place of fp64
DOUBLE = {
    "acos": (-1, 1, 2), "asin": (-1, 1, 2), "atan": (-5, 5, 2), "atanh": (-1, 1, 2), "cosh": (-700, 700, 2.5), "sinh": (-700, 700, 2.5),
    "erf": (-6, 6, 2), "erfc": (-6, 26, 5), "log10": (1e-3, 1e3, 2), "tanh": (-3, 3, 3), "expm1": (-3, 700, 2.5), "sinpi": (-100, 100, 2),
    "cospi": (-100, 100, 2),
}


@pytest.mark.parametrize("name", DOUBLE)
def test_in_double_precision(cpu_only, name):
    import mpmath
    low, high, bound = DOUBLE[name]
    x = np.random.default_rng(1).uniform(low, high, 256)
    x[128:] /= 1 + np.exp(np.linspace(0, 20, 128)) if low < 0 else 1  # small ones, too
    got = run(name, ("fp64",), "fp64", x).numpy()
    with mpmath.workprec(160):
        for argument, value in zip(x.tolist(), got.tolist()):
            want = getattr(mpmath, name)(mpmath.mpf(argument))
            error = abs(value - want) / mpmath.mpf(np.spacing(abs(float(want))))
            assert error <= bound, (argument, value, want)


@pytest.mark.parametrize("name, function", [("sinh", np.sinh), ("cosh", np.cosh), ("cbrt", np.cbrt)])
def test_greatest_numbers_in_double_precision(cpu_only, name, function):
    """Results that overflow are infinite, and none of a finite argument is lost to an overflow on the way there."""
    ends = np.array([700, 709.5, 710.4, 710.47586, 710.48, 710.6, 710.9, 711, 1000, 2.0**900, 2.0**1000, 2.0**1022, 1.2e308, np.finfo(float).max, np.inf, np.nan])
    small = np.array([0, 5e-324, 1e-310, 2.0**-1022, 2.0**-1000, 2.0**-950, 2.0**-901, 2.0**-800])
    x = np.zeros(64)
    x[:48] = np.concatenate([ends, -ends, small, -small])
    got = run(name, ("fp64",), "fp64", x, size=64).numpy()
    with np.errstate(over="ignore"):
        want = function(x)
    np.testing.assert_allclose(got, want, rtol=2e-15, atol=0)
    assert np.array_equal(np.signbit(got[~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))


def test_scaled_complement_of_the_greatest_numbers(cpu_only):
    """erfcx(x) is 1 / (x sqrt(pi)) there, a subnormal number."""
    x = np.array([1e10, 1e300, 8e307, 1e308, np.finfo(float).max, np.inf])
    got = run("erfcx", ("fp64",), "fp64", np.resize(x, 256)).numpy()[:6]
    np.testing.assert_allclose(got, np.sqrt(1 / np.pi) / x, rtol=1e-14, atol=0)
