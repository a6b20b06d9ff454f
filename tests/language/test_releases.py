"""Rules that differ between releases of Triton (docs/compatibility.md), chosen by the option `triton_version`; what is new since 3.7."""

import numpy as np
import pytest
import torch

import harness
import nereid
from harness import DTYPES

OLD, NEW = "3.8", "3.9"
COVERED = set()


def stored(expression, out, *inputs, version, size=64):
    """`expression` of blocks x0, x1... written to `out`."""
    names = [f"x{i}" for i in range(len(inputs))]
    loads = "".join(f"    {name} = tl.load({name}_ptr + i)\n" for name in names)
    harness.make(f"""@triton.jit
def kernel({', '.join([name + '_ptr' for name in names] + ['o_ptr'])}):
    i = tl.arange(0, {size})
{loads}    tl.store(o_ptr + i, {expression})
""")[(1,)](*inputs, out, triton_version=version)
    return out


@pytest.mark.parametrize("expression, dtype, old, new", [
    ("tl.maximum(x, x)", "bf16", "float32", "bfloat16"), ("tl.minimum(x, 1.5)", "bf16", "float32", "bfloat16"), ("tl.minimum(x, 1.5)", "fp16", "float32", "float16"),
    ("tl.maximum(x, 1)", "i8", "int32", "int8"), ("tl.clamp(x, 0.0, 1.0)", "fp16", "float32", "float16"), ("tl.fma(x, 2.0, 1.0)", "fp16", "float32", "float16"),
    ("tl.fdiv(x, x)", "fp16", "float16", "float32"), ("x / x", "fp8e5", "float8e5", "float32"), ("x % x", "fp8e5", "float8e5", "float32"),
    ("tl.cumsum(x, 0)", "bf16", "float32", "bfloat16"), ("tl.cumprod(x, 0)", "bf16", "float32", "bfloat16"), ("tl.cumprod(x, 0)", "i8", "int8", "int32"),
    ("tl.cumprod(x, 0)", "u16", "uint16", "uint32"), ("tl.max(x, 0, return_indices=True)[0]", "bf16", "float32", "bfloat16"),
    ("tl.min(x, 0, return_indices=True)[0]", "bf16", "float32", "bfloat16"), ("tl.sum(x, 0)", "bf16", "bfloat16", "bfloat16"), ("tl.max(x, 0)", "bf16", "float32", "float32"),
])
def test_types(expression, dtype, old, new, target):
    for version, result in (("3.6", old), ("3.7.1", old), (OLD, old), (NEW, new), ("4.0", new)):
        harness.make(f"""@triton.jit
def kernel(p: "*{dtype}"):
    x = tl.load(p + tl.arange(0, 16))
    tl.static_assert(({expression}).dtype == tl.{result}, "{version}")
""").warmup(nereid.MockTensor(torch.float32), grid=(1, ), triton_version=version)


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_beside_tensors_in_comparisons(dtype, version, target):
    """0.1 is the tensor's own 0.1 since 3.9, and fp32's before."""
    x = torch.full((64, ), 0.1, dtype=getattr(torch, dtype))
    got = stored("(x0 == 0.1).to(tl.int32)", torch.zeros(64, dtype=torch.int32), x, version=version)
    assert got.tolist() == [int(version == NEW)] * 64


def test_numbers_must_fit_the_tensor_in_comparisons(target):
    x, out = torch.full((64, ), 5, dtype=torch.int8), torch.zeros(64, dtype=torch.int32)
    assert stored("(x0 < 300).to(tl.int32)", out, x, version=OLD).tolist() == [1] * 64
    with pytest.raises(nereid.CompilationError, match="300"):
        stored("(x0 < 300).to(tl.int32)", out, x, version=NEW)
    assert stored("(x0 < 100).to(tl.int32)", out, x, version=NEW).tolist() == [1] * 64


@pytest.mark.parametrize("nan", ["NONE", "ALL"])
def test_extrema_of_bf16(nan, target):
    x, y = (harness.to_tensor(harness.values(DTYPES["bfloat16"], (64, ), seed), DTYPES["bfloat16"]) for seed in (1, 2))
    x[3], y[5] = float("nan"), float("nan")
    for name, function in (("maximum", np.fmax if nan == "NONE" else np.maximum), ("minimum", np.fmin if nan == "NONE" else np.minimum)):
        got = stored(f"tl.{name}(x0, x1, propagate_nan=tl.PropagateNan.{nan})", torch.zeros(64, dtype=torch.bfloat16), x, y, version=NEW)
        np.testing.assert_array_equal(got.double().numpy(), function(x.double().numpy(), y.double().numpy()))


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16", "int64"])
def test_clamp_of_integers(dtype, target):
    x = harness.to_tensor(harness.values(DTYPES[dtype], (64, ), 1), DTYPES[dtype])
    got = stored("tl.clamp(x0, 3, 100)", harness.empty(DTYPES[dtype], (64, )), x, version=NEW)
    np.testing.assert_array_equal(harness.exact(got), np.clip(harness.exact(x), 3, 100))
    with pytest.raises(nereid.CompilationError, match="takes floats"):
        stored("tl.clamp(x0, 3, 100)", got, x, version=OLD)


@pytest.mark.parametrize("version", [OLD, NEW])
def test_products_along_an_axis_in_another_type(version, target):
    x = torch.tensor([1, 2, 3, 1] * 16, dtype=torch.int8)
    got = stored("tl.cumprod(x0, 0, dtype=tl.float64)", torch.zeros(64, dtype=torch.float64), x, version=version)
    np.testing.assert_array_equal(got.numpy(), np.cumprod(x.double().numpy()))
    got = stored("x0.cumprod(0, True, tl.int64)", torch.zeros(64, dtype=torch.int64), x % 2 + 1, version=version)
    np.testing.assert_array_equal(got.numpy(), np.cumprod((x % 2 + 1).long().numpy()[::-1])[::-1])


def test_approximate_division(target):
    """Within 2 units in the last place for denominators between 2^-126 and 2^126."""
    x, y = (harness.values(DTYPES["float32"], (64, ), seed, special=False) for seed in (1, 2))
    y[:4] = [2.0**-126, -2.0**126, 2.0**100, 3.0]
    x[:2] = [2.0**-10, 2.0**120]
    got = stored("tl.fdiv(x0, x1, approx=True)", torch.zeros(64), harness.to_tensor(x, DTYPES["float32"]), harness.to_tensor(y, DTYPES["float32"]), version=NEW)
    harness.check(got, x.astype(np.float64) / y, DTYPES["float32"], 2)


@pytest.mark.parametrize("call, match", [
    ("tl.fdiv(x0, x0, True, approx=True)", "`approx` must be False beside `ieee_rounding=True`"),
    ("tl.fdiv(x0.to(tl.float64), x0, approx=True)", "`fdiv` with `approx=True` must be fp32 operands, found fp64"),
    ("tl.atomic_load(x0)", "needs a pointer or a block of pointers"), ("tl.atomic_load(o_ptr, sem='release')", "sem"), ("tl.atomic_store(o_ptr, 1.0, sem='acquire')", "sem"),
    ("tl.atomic_poll(o_ptr, 1)", "atomic_poll needs pointers to integers of 16, 32 or 64 bits"),
])
def test_refusals(call, match, target):
    with pytest.raises(nereid.CompilationError, match=match):
        stored(call, torch.zeros(64), torch.ones(64), version=NEW)


@pytest.mark.parametrize("version, found", [("newest", "release of Triton such as `3.8`, found `'newest'`"), ((3, 9), r"release of Triton such as `3.8`, as a string, found `\(3, 9\)`"),
                                            (3.9, "release of Triton such as `3.8`, as a string, found `3.9`")])
def test_a_release_that_is_none(version, found, target):
    with pytest.raises(ValueError, match="option `triton_version` expects a " + found):
        stored("x0", torch.zeros(64), torch.ones(64), version=version)


NEW_NAMES = [
    ("tl.atomic_load(o_ptr)", "atomic_load", "3.8", "3.9", "since"), ("tl.atomic_store(o_ptr, 1.0)", "atomic_store", "3.8", "3.9", "since"), ("tl.cumprod(x0, dtype=tl.float64)", r"cumprod\(dtype=\)", "3.8", "3.9", "since"),
    ("x0.cumprod(0, False, tl.float64)", r"cumprod\(dtype=\)", "3.8", "3.9", "since"), ("tl.fdiv(x0, x0, approx=True)", r"fdiv\(approx=\)", "3.8", "3.9", "since"),
    ("tl.fdiv(x0, x0, False, True)", r"fdiv\(approx=\)", "3.8", "3.9", "since"), ("tl.topk(x0, 2, descending=False)", r"topk\(descending=\)", "3.7", "3.8", "since"),
    ("tl.expect_zero(x0, x0 == 0)", "expect_zero", "3.7", "3.8", "since"), ("tl.squeeze(x0[None, :], 0)", "squeeze", "3.6", "3.7", "since"), ("tl.to_tensor(3)", "to_tensor", "3.6", "3.7", "since"),
    ("tl.make_block_ptr(o_ptr, (64, ), (1, ), (0, ), (16, ), (0, ))", "make_block_ptr", "3.9", "3.8", "until"),
]


@pytest.mark.parametrize("call, name, without, release, since", NEW_NAMES)
def test_strict_mode_has_the_names_of_the_release(call, name, without, release, since):
    """Names and parameters of all releases are there, and in strict mode those of the release whose rules hold (NotInRelease)."""
    kernel = harness.make(f"""@triton.jit
def kernel(x_ptr, o_ptr):
    x0 = tl.load(x_ptr + tl.arange(0, 64))
    y = {call}
""")
    types = nereid.MockTensor(torch.float32), nereid.MockTensor(torch.float32)
    for options in ({"triton_version": without}, {"triton_version": release, "strict": True}):
        kernel.warmup(*types, grid=(1, ), **options)
    with pytest.raises(nereid.CompilationError, match=f"strict mode by the rules of Triton {without} has no `{name}`, which exists {since} {release}"):
        kernel.warmup(*types, grid=(1, ), triton_version=without, strict=True)


@pytest.mark.parametrize("debug", [False, True])
def test_expected_zeros_are_asserted_in_debug_mode(debug):
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, o_ptr):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, tl.expect_zero(x, i < 4))
""")
    x, out = torch.arange(16.0), torch.zeros(16)
    x[:4] = 0
    kernel[(1, )](x, out, debug=debug)
    assert torch.equal(out, x)
    x[2] = 1
    if debug:
        with pytest.raises(RuntimeError, match="expect_zero: an element under the mask is not zero"):
            kernel[(1, )](x, out, debug=debug)
    else:
        kernel[(1, )](x, out, debug=debug)
        assert torch.equal(out, x)
