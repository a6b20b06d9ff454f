"""`tl.extra.libdevice`: functions beside those of `tl.math`."""

import numpy as np
import pytest
import torch

import harness
from harness import DTYPES

F32, F64 = DTYPES["float32"], DTYPES["float64"]

#: name, reference on float64, smallest and largest argument
UNARY = {
    "acos": (np.arccos, -0.99, 0.99), "acosh": (np.arccosh, 1.1, 20), "asin": (np.arcsin, -0.99, 0.99), "asinh": (np.arcsinh, -20, 20),
    "atan": (np.arctan, -20, 20), "atanh": (np.arctanh, -0.9, 0.9), "cbrt": (np.cbrt, 0.1, 50), "cosh": (np.cosh, -8, 8),
    "expm1": (np.expm1, -4, 4), "log10": (np.log10, 0.1, 100), "log1p": (np.log1p, -0.5, 50), "rint": (np.rint, -9, 9),
    "sinh": (np.sinh, -8, 8), "tan": (np.tan, -1.3, 1.3), "tanh": (np.tanh, -4, 4), "trunc": (np.trunc, -9, 9),
}
BINARY = {
    "atan2": (np.arctan2, -8, 8), "copysign": (np.copysign, -8, 8), "fmod": (np.fmod, 0.5, 9), "hypot": (np.hypot, -8, 8),
    "pow": (np.power, 0.2, 5),
}


def run(expression, count, dtype, *data, out=None):
    loads = "".join(f"    x{i} = tl.load(p{i} + i)\n" for i in range(count))
    kernel = harness.make(f"""from nereid.language.extra import libdevice


@triton.jit
def kernel({', '.join(f'p{i}' for i in range(count))}, out):
    i = tl.arange(0, 256)
{loads}    tl.store(out + i, {expression})
""")
    result = harness.empty(out or dtype, (256,))
    kernel[(1,)](*(harness.to_tensor(d, dtype) for d in data), result)
    return result


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(target, name, dtype):
    reference, low, high = UNARY[name]
    data = harness.values(dtype, (256,), 1, low, high)
    harness.check(run(f"libdevice.{name}(x0)", 1, dtype, data), reference(data), dtype, ulp=8)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(target, name, dtype):
    reference, low, high = BINARY[name]
    x, y = (harness.values(dtype, (256,), seed, low, high) for seed in (1, 2))
    harness.check(run(f"libdevice.{name}(x0, x1)", 2, dtype, x, y), reference(x, y), dtype, ulp=16)


def test_number_and_path_of_the_module(target):
    data = harness.values(F32, (256,), 1, 0.2, 5)
    harness.check(run("tl.extra.libdevice.pow(x0, 2.5)", 1, F32, data), data ** 2.5, F32, ulp=16)
    harness.check(run("tl.extra.cuda.libdevice.sqrt(x0)", 1, F32, data), np.sqrt(data), F32, ulp=2)


@pytest.mark.parametrize("name", ["isnan", "isinf"])
def test_tests(target, name):
    data = harness.values(F32, (256,), 1)
    data[3], data[5], data[7] = np.nan, np.inf, -np.inf
    got = run(f"libdevice.{name}(x0).to(tl.int32)", 1, F32, data, out=DTYPES["int32"])
    assert torch.equal(got.cpu() != 0, torch.from_numpy(getattr(np, name)(data)))


def test_wrong_types(target):
    import nereid
    with pytest.raises(nereid.CompilationError, match=r"Expected dtype \['fp32', 'fp64'\] but got int32"):  # ExpectedDtype
        run("libdevice.tanh(x0)", 1, DTYPES["int32"], np.arange(256))
