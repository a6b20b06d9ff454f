"""Functions of the device library that the CPU computes on lanes: over all fp32 numbers, against fp64, and in fp64 against 160 digits."""

import ctypes
import math

import mpmath
import numpy as np
import pytest
import scipy.special
import torch

from targets import launches_on
from test_libdevice import run

def of_half_turns(x, turns):
    """sin(pi (x + turns / 2)) as the functions define its zeros."""
    rest = x - 2 * np.rint(x / 2)
    quarter = np.rint(2 * rest)
    angle, number = (rest - quarter / 2) * np.pi, np.nan_to_num(quarter).astype(int) + turns
    y = np.where(number % 2 == 1, np.cos(angle), np.sin(angle)) * np.where(number % 4 >= 2, -1, 1)
    return np.where(y == 0, np.where((rest == 0) & (turns == 0), np.copysign(0.0, x), 0.0), y)


def of_the_c_library(name):
    function = getattr(ctypes.CDLL("libm.so.6"), name)
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]
    return np.vectorize(function, otypes=[np.float64])


# name: the function in fp64, largest error in units in the last place of fp32, which are the errors of docs/cpu-math.md, rounded up
SINGLE = {
    "acos": (np.arccos, 1.3), "acosh": (np.arccosh, 0.51), "asin": (np.arcsin, 1.3), "asinh": (np.arcsinh, 0.58),
    "atan": (np.arctan, 1.5), "atanh": (np.arctanh, 2.1), "cbrt": (np.cbrt, 0.51), "cosh": (np.cosh, 1.6), "sinh": (np.sinh, 1.7),
    "log10": (np.log10, 1.9), "exp10": (lambda x: np.power(10.0, x), 1.4), "rcbrt": (lambda x: 1 / np.cbrt(x), 0.51),
    "tan": (np.tan, 2.3), "erfc": (lambda x: torch.erfc(torch.from_numpy(x)).numpy(), 3.8),
    "erfinv": (lambda x: torch.erfinv(torch.from_numpy(x)).numpy(), 0.56),
    "erfcx": (lambda x: torch.special.erfcx(torch.from_numpy(x)).numpy(), 0.51),
    "normcdf": (lambda x: torch.erfc(torch.from_numpy(-x * np.sqrt(0.5))).numpy() / 2, 4),
    "normcdfinv": (lambda x: torch.special.ndtri(torch.from_numpy(x)).numpy(), 0.56),
    "sinpi": (lambda x: of_half_turns(x, 0), 0.9), "cospi": (lambda x: of_half_turns(x, 1), 0.9),
    "lgamma": (lambda x: torch.lgamma(torch.from_numpy(x)).numpy(), 0.6), "tgamma": (scipy.special.gamma, 0.6),
    **{name: (of_the_c_library(name), 0.6) for name in ("j0", "j1")},
    # The C library's of negative numbers are infinite.
    **{name: (lambda x, function=of_the_c_library(name): np.where(x < 0, np.nan, function(x)), 0.6) for name in ("y0", "y1")},
    # scipy's are no numbers at infinity, and lose the sign of a zero.
    "cyl_bessel_i0": (lambda x: scipy.special.i0(np.clip(x, -1e3, 1e3)), 0.51), "cyl_bessel_i1": (lambda x: np.copysign(scipy.special.i1(np.clip(x, -1e3, 1e3)), x), 0.51),
}
#: Where the functions bend: between these most results are ordinary numbers.
BENDS = ((-1, 1), (-12, 12), (-100, 100), (0.99, 1))
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
    random = np.random.default_rng(2)
    tiny = np.exp2(random.uniform(-149, -90, 1 << 12)).astype(np.float32)  # intermediate results may be subnormal
    x = np.concatenate([all_floats(1 << 14), tiny, *(random.uniform(low, high, 1 << 12).astype(np.float32) for low, high in BENDS)])
    got = run(name, ("fp32",), "fp32", x, size=len(x)).numpy()
    error = ulps(got, function(x.astype(np.float64)))
    assert error.max() <= bound, (x[error.argmax()], got[error.argmax()])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
@pytest.mark.parametrize("name, function", [("fmod", np.fmod), ("remainder", None)])
def test_remainders(cpu_only, name, function, dtype):
    """Exact, quotients of hundreds of digits and special values among them."""
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


def inverse_of_erfc(y):
    """By Newton's method on the logarithm."""
    if y > 1:
        return -inverse_of_erfc(2 - y)
    z = mpmath.mpf(scipy.special.erfcinv(float(y)))
    for _ in range(4):
        z += mpmath.log(mpmath.erfc(z) / y) * mpmath.erfc(z) * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(z * z)
    return z


# name: the function, if it is not mpmath's of that name, and ranges with the largest error in units in the last place of fp64
DOUBLE = {
    "acos": (None, (-1, 1, 2)), "asin": (None, (-1, 1, 2)), "atan": (None, (-5, 5, 2)), "atanh": (None, (-1, 1, 2)),
    "cosh": (None, (-700, 700, 2.5)), "sinh": (None, (-700, 700, 2.5)), "erf": (None, (-6, 6, 1.5), (0.9, 1.5, 1.5)),
    "erfc": (None, (-6, 26, 5)), "log10": (None, (1e-3, 1e3, 2)), "tanh": (None, (-3, 3, 3)), "expm1": (None, (-3, 700, 2.5)),
    "sinpi": (None, (-100, 100, 2)), "cospi": (None, (-100, 100, 2)),
    "sin": (None, (-30, 30, 2), (-5e5, 5e5, 2), (-1e12, 1e12, 2), (-1e17, 1e17, 2)), "cos": (None, (-30, 30, 2), (-1e12, 1e12, 2)),
    "tan": (None, (-30, 30, 2), (-5e5, 5e5, 2), (-1e12, 1e12, 2), (-1e17, 1e17, 2)),
    "asinh": (None, (-2, 2, 2), (-1e3, 1e3, 2), (2**27, 2**29, 2), (-1e300, 1e300, 2)),
    "acosh": (None, (1, 1.1, 2), (1, 1e3, 2), (2**27, 2**29, 2), (1, 1e300, 2)),
    "rcbrt": (lambda x: 1 / mpmath.cbrt(x), (0.1, 50, 1.6), (1, 1e300, 1.6)),
    "exp10": (lambda x: mpmath.mpf(10) ** x, (-3, 3, 1.5), (-307, 308, 1.5), (-323, -307, 1.5)),
    "lgamma": (lambda x: mpmath.loggamma(x).real, (0.01, 3, 3), (0.99, 1.01, 3), (1.2, 1.3, 3), (1.99, 2.01, 3), (2.4, 10, 3), (1e3, 1e10, 3),
               (-0.9, -1e-3, 3), (-50, -11, 3)),
    "tgamma": (mpmath.gamma, (0.01, 3, 5), (1.2, 1.3, 5), (2.4, 10, 5), (8, 171, 5), (-0.9, -1e-3, 5), (-8, -1, 5), (-170, -8, 5)),
    "erfinv": (lambda x: inverse_of_erfc(1 - x), (-1, 1, 4), (0.99, 1, 4), (0.9999999, 1, 4)),
    "erfcinv": (inverse_of_erfc, (0, 2, 4), (0, 0.01, 4), (0, 1e-10, 4), (0, 1e-100, 4), (0, 1e-280, 4)),
    "j0": (lambda x: mpmath.besselj(0, x), (-8, 8, 6), (8, 30, 8), (30, 1e6, 8), (1e8, 1e11, 8)),
    "j1": (lambda x: mpmath.besselj(1, x), (-8, 8, 6), (8, 30, 8), (30, 1e6, 8), (1e8, 1e11, 8)),
    "y0": (lambda x: mpmath.bessely(0, x), (0, 2, 4), (0.85, 0.95, 4), (2, 8, 12), (8, 30, 8), (30, 1e6, 8), (1e8, 1e11, 8)),
    "y1": (lambda x: mpmath.bessely(1, x), (0, 2, 6), (2, 8, 12), (8, 30, 8), (30, 1e6, 8), (1e8, 1e11, 8)),
    "cyl_bessel_i0": (lambda x: mpmath.besseli(0, x), (-8, 8, 4), (8, 60, 4), (-710, 710, 4)),
    "cyl_bessel_i1": (lambda x: mpmath.besseli(1, x), (-8, 8, 5), (8, 60, 4), (-710, 710, 5)),
    "normcdfinv": (lambda p: -mpmath.sqrt(2) * inverse_of_erfc(2 * p), (0, 1, 4), (0, 1e-3, 4), (0, 1e-10, 4), (0, 1e-200, 4)),
}
#: Functions that mostly take as long as their reference: fewer arguments.
SLOW = ("erfinv", "erfcinv", "normcdfinv", "lgamma", "tgamma", "j0", "j1", "y0", "y1", "cyl_bessel_i0", "cyl_bessel_i1")


def largest_error(got, want):
    """(units in the last place of fp64, index); `want` are numbers of mpmath."""
    def ulps_of(value, exact):
        rounded = float(exact)
        if value == rounded:
            return 0
        return float(abs(mpmath.mpf(value) - exact) / mpmath.mpf(np.spacing(abs(rounded)))) if np.isfinite(value) else np.inf
    return max((ulps_of(value, exact), i) for i, (value, exact) in enumerate(zip(got, want)))


@pytest.mark.parametrize("name, order", [("j0", 0), ("j1", 1), ("y0", 0), ("y1", 1)])
def test_beside_zeros_of_bessel_functions(cpu_only, name, order):
    """Absolute errors are far below what the wave's amplitude would allow; the first zeros of J, and that of Y0 below 2, come out to units in the last place."""
    with mpmath.workprec(240):
        exact = (lambda x: mpmath.besselj(order, x)) if name[0] == "j" else (lambda x: mpmath.bessely(order, x))
        zeros = [(mpmath.besseljzero if name[0] == "j" else mpmath.besselyzero)(order, k) for k in (1, 2, 3, 10)]
        x = np.concatenate([float(zero) + np.spacing(float(zero)) * np.array([-1000, -3, -1, 0, 1, 2, 50, 2**20, 2**40]) for zero in zeros])
        got = run(name, ("fp64",), "fp64", np.resize(x, 64), size=64).tolist()[:len(x)]
        want = [exact(mpmath.mpf(a)) for a in x.tolist()]
        sharp = {"j": 18, "y": 9 if order == 0 else 0}[name[0]]
        error, where = largest_error(got[:sharp], want[:sharp]) if sharp else (0, 0)
        assert error <= 6, (x[where], got[where], error)
        assert max(abs(mpmath.mpf(g) - w) for g, w in zip(got, want)) < 2.0**-55


@pytest.mark.parametrize("name", DOUBLE)
def test_in_double_precision(cpu_only, name):
    function, *ranges = DOUBLE[name]
    count = 64 if name in SLOW else 256
    with mpmath.workprec(240):
        for low, high, bound in ranges:
            x = np.random.default_rng(1).uniform(low, high, count)
            if low == -high:
                x[count // 2:] /= 1 + np.exp(np.linspace(0, 20, count // 2))  # small ones, too
            got = run(name, ("fp64",), "fp64", x, size=count).tolist()
            error, where = largest_error(got, [(function or getattr(mpmath, name))(mpmath.mpf(a)) for a in x.tolist()])
            assert error <= bound, (x[where], got[where], error)


POWERS = {"ordinary": (0.5, 2, -100, 100), "near 1": (0.999, 1.001, -1e5, 1e5), "all results": (0, 10, -300, 300), "great": (1e-300, 1e300, -1.02, 1.02),
          "subnormal results": (1, 2, -1074, -1000)}


@pytest.mark.parametrize("name", POWERS)
def test_powers_in_double_precision(cpu_only, name):
    low, high, least, greatest = POWERS[name]
    random = np.random.default_rng(1)
    x, y = random.uniform(low, high, 256), random.uniform(least, greatest, 256)
    got = run("pow", ("fp64",) * 2, "fp64", x, y).tolist()
    with mpmath.workprec(240):
        error, where = largest_error(got, [mpmath.mpf(a) ** mpmath.mpf(b) for a, b in zip(x.tolist(), y.tolist())])
    assert error <= 1.1, (x[where], y[where], got[where], error)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_special_powers(cpu_only, dtype):
    """Every special number to the power of every other, with odd, even and broken exponents, as in C."""
    wide = np.float32 if dtype == "fp32" else np.float64
    values = np.concatenate([SPECIAL, np.array([3, -7, 2.5, 2**23 + 1, -(2**24) - 2, 0.75, 1.25], np.float32)]).astype(wide)
    if dtype == "fp64":
        values = np.concatenate([values, [2.0**52 + 1, 2.0**53, 2.0**53 - 1, -5e-324, 1e-310, 1.7e308]])
    x, y = (np.resize(part.ravel(), 2048) for part in np.meshgrid(values, values))
    got = run("pow", (dtype,) * 2, dtype, x, y, size=2048).numpy()
    want = np.power(x.astype(np.float64), y.astype(np.float64)).astype(wide)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=3e-7 if dtype == "fp32" else 4e-16, atol=1.5e-45 if dtype == "fp32" else 5e-324)
    number = ~np.isnan(want)
    assert np.array_equal(np.signbit(got[number]), np.signbit(want[number]))


ENDS = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -2, 0.5, -0.5, 1.0000000000000002, 0.9999999999999999, -3, -2.5, 5e-324, -5e-324, 1e-310, -1e-310,
                 1e-200, -1e-200, 171.6, 171.7, -171.5, -180.5, -190.5, -1e20, 1.7e308, -1.7e308, 308.3, -323.5, -325, 7.9999999, 8, 1.25, 1.2499999999999998])


def gamma(x):
    """C's function where Python raises errors: at poles, and where the result is too large."""
    try:
        return math.gamma(x)
    except OverflowError:
        return math.copysign(math.inf, x)
    except ValueError:
        return math.copysign(math.inf, x) if x == 0 else math.nan


def log_gamma(x):
    is_pole = math.isinf(x) or x == 0 or x < -(2.0**52) or (x < 0 and x == math.floor(x))
    return math.inf if is_pole else x if math.isnan(x) else float(mpmath.loggamma(x).real)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name, function", [
    ("asinh", np.arcsinh), ("acosh", np.arccosh), ("rcbrt", lambda x: 1 / np.cbrt(x)), ("exp10", lambda x: np.power(10.0, x)), ("tan", np.tan),
    ("erf", scipy.special.erf), ("lgamma", np.vectorize(log_gamma)), ("tgamma", np.vectorize(gamma)),
    ("erfinv", lambda x: np.where(x == 0, x, scipy.special.erfinv(x))), ("erfcinv", lambda x: np.where(x == 5e-324, 27.21329321081295, scipy.special.erfcinv(x)) + 0.0),
    ("normcdfinv", lambda x: scipy.special.ndtri(x) + 0.0)])
def test_special_values_in_double_precision(cpu_only, name, function):
    got, want = run(name, ("fp64",), "fp64", np.resize(ENDS, 64), size=64).numpy()[:len(ENDS)], function(ENDS)
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=5e-324)
    number = ~np.isnan(want)
    assert np.array_equal(np.signbit(got[number]), np.signbit(want[number]))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("x_range, y_range", [((-4, 4), (-4, 4)), ((-1e-3, 1e-3), (-4, 4)), ((-1e38, 1e38), (-1e38, 1e38)), ((-1e-42, 1e-42), (-1e-42, 1e-42))])
def test_arc_tangent_of_two(cpu_only, x_range, y_range):
    random = np.random.default_rng(4)
    x, y = (random.uniform(low, high, 4096).astype(np.float32) for low, high in (x_range, y_range))
    x[:400], y[:400] = (part.ravel() for part in np.meshgrid(SPECIAL, SPECIAL))
    got = run("atan2", ("fp32",) * 2, "fp32", x, y, size=4096).numpy()
    assert ulps(got, np.arctan2(x.astype(np.float64), y.astype(np.float64))).max() <= 1.6


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
