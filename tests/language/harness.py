"""What the language tests share: dtypes with their data, kernels made from text, and comparison in higher precision.

A test writes a kernel as text, because the matrix is generated; the text goes to a file, since kernels need a source. Every
test takes the target from the fixture `target`, so that the same tests run on every one.
"""

import dataclasses
import hashlib
import importlib.util
import pathlib
import sys
import tempfile

import numpy as np
import torch

FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="nereid-language-tests-"))

HEADER = "import nereid as triton\nimport nereid.language as tl\n\n\n"


@dataclasses.dataclass(frozen=True)
class DType:
    name: str            #: attribute of `tl`
    torch: torch.dtype
    kind: str            #: "bool", "int", "uint", "float", "fp8"
    bits: int
    eps: float = 0.0     #: spacing of 1.0

    @property
    def is_float(self):
        return self.kind in ("float", "fp8")

    @property
    def is_int(self):
        return self.kind in ("int", "uint", "bool")

    @property
    def low(self):
        return 0 if self.kind in ("uint", "bool") else -(1 << (self.bits - 1))

    @property
    def high(self):
        return 1 if self.kind == "bool" else (1 << (self.bits - (self.kind == "int"))) - 1

    @property
    def numpy(self):
        return np.dtype({"bool": np.bool_, "float": f"float{self.bits}"}.get(self.kind, f"{self.kind}{self.bits}"))

    def __str__(self):
        return self.name


DTYPES = {d.name: d for d in (
    DType("int1", torch.bool, "bool", 1),
    DType("int8", torch.int8, "int", 8), DType("int16", torch.int16, "int", 16),
    DType("int32", torch.int32, "int", 32), DType("int64", torch.int64, "int", 64),
    DType("uint8", torch.uint8, "uint", 8), DType("uint16", torch.uint16, "uint", 16),
    DType("uint32", torch.uint32, "uint", 32), DType("uint64", torch.uint64, "uint", 64),
    DType("float16", torch.float16, "float", 16, 2.0 ** -10), DType("bfloat16", torch.bfloat16, "float", 16, 2.0 ** -7),
    DType("float32", torch.float32, "float", 32, 2.0 ** -23), DType("float64", torch.float64, "float", 64, 2.0 ** -52),
    DType("float8e4nv", torch.float8_e4m3fn, "fp8", 8, 2.0 ** -3), DType("float8e5", torch.float8_e5m2, "fp8", 8, 2.0 ** -2),
)}
INTS = [d for d in DTYPES.values() if d.kind in ("int", "uint")]
SIGNED = [d for d in INTS if d.kind == "int"]
FLOATS = [d for d in DTYPES.values() if d.kind == "float"]
WIDE_FLOATS = [d for d in FLOATS if d.bits >= 32]
FP8 = [d for d in DTYPES.values() if d.kind == "fp8"]
BOOL = DTYPES["int1"]


def make(source, name="kernel"):
    """The function `name` of a module with this text under the usual imports."""
    text = HEADER + source
    stem = "kernel_" + hashlib.sha1(text.encode()).hexdigest()[:16]
    if stem not in sys.modules:
        path = FOLDER / f"{stem}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[stem] = module
        spec.loader.exec_module(module)
    return getattr(sys.modules[stem], name)


def values(dtype, shape, seed=0, low=None, high=None, special=True):
    """Random data of a dtype, special values among it, as a NumPy array of a type that holds every value exactly:
    int64/uint64/bool for integers, float64 (rounded to the dtype) for floats."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape))
    if dtype.kind == "bool":
        data = rng.integers(0, 2, count).astype(bool)
    elif dtype.is_int:
        lo = dtype.low if low is None else low
        hi = dtype.high if high is None else high
        wide = np.uint64 if dtype.kind == "uint" else np.int64
        data = rng.integers(lo, hi, count, dtype=wide, endpoint=True)
        if special and low is None and high is None:
            edges = np.array([dtype.low, dtype.high, 0, 1, dtype.high - 1], dtype=wide)
            data[:len(edges)] = edges[:count]
    else:
        lo = -8.0 if low is None else low
        hi = 8.0 if high is None else high
        data = rng.uniform(lo, hi, count)
        if special and low is None and high is None:
            edges = np.array([0.0, -0.0, 1.0, -1.0, 0.5])
            data[:len(edges)] = edges[:count]
        data = torch.from_numpy(data).to(dtype.torch).double().numpy()
    return data.reshape(shape)


def to_tensor(data, dtype):
    """A torch tensor of the dtype; integers wrap into it."""
    data = np.ascontiguousarray(data)
    if dtype.kind in ("float", "fp8"):
        return torch.from_numpy(data.astype(np.float64)).to(dtype.torch)
    return torch.from_numpy(data.astype(dtype.numpy))


def empty(dtype, shape):
    """Filled with a pattern, so that an element that was not written shows."""
    if dtype.kind == "bool":
        return torch.ones(shape, dtype=torch.bool)
    if dtype.is_float:
        return torch.full(shape, 77.0, dtype=torch.float64).to(dtype.torch)
    return torch.from_numpy(np.full(shape, 77, dtype=dtype.numpy))


def exact(tensor):
    """A tensor's values as float64, int64, uint64 or bool."""
    if tensor.dtype.is_floating_point:
        return tensor.double().numpy()
    array = tensor.numpy()
    if array.dtype == np.bool_:
        return array
    return array.astype(np.uint64 if array.dtype.kind == "u" else np.int64)


def wrap(data, dtype):
    """Integers modulo 2^bits, as the dtype reads them."""
    if dtype.kind == "bool":
        return np.asarray(data) != 0
    with np.errstate(all="ignore"):
        narrow = np.asarray(data).astype(np.uint64 if np.asarray(data).dtype.kind == "u" else np.int64)
        return narrow.astype(dtype.numpy).astype(np.uint64 if dtype.kind == "uint" else np.int64)


def check(got, want, dtype, ulp=1.0, atol=0.0):
    """`got`, a tensor of `dtype`, against `want` in float64 or integers: exact for integers, `ulp` units in the last place of the
    dtype (plus `atol`) for floats; NaN and infinities must agree."""
    got = exact(got)
    if not dtype.is_float:
        np.testing.assert_array_equal(got, wrap(want, dtype) if np.asarray(want).dtype.kind != "b" or dtype.kind != "bool"
                                      else want)
        return
    want = np.array(want, dtype=np.float64)
    assert got.shape == want.shape
    got, want = np.atleast_1d(got), np.atleast_1d(want)
    rounded = torch.from_numpy(want.copy()).to(dtype.torch).double().numpy()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    infinite = np.isinf(rounded)
    np.testing.assert_array_equal(got[infinite], rounded[infinite])
    finite = np.isfinite(rounded) & np.isfinite(want)
    tiny = {16: 2.0 ** -24 if dtype.name == "float16" else 2.0 ** -133, 32: 2.0 ** -149, 64: 2.0 ** -1074, 8: 2.0 ** -16}[dtype.bits]
    bound = ulp * dtype.eps * np.abs(want[finite]) + atol + tiny
    error = np.abs(got[finite] - want[finite])
    worst = np.argmax(error - bound) if error.size else 0
    assert error.size == 0 or error[worst] <= bound[worst], (
        f"{got[finite][worst]!r} instead of {want[finite][worst]!r}: off by {error[worst]:.3g}, allowed {bound[worst]:.3g}")
