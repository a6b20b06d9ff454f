"""The public generator: `nereid.ops.pointwise`."""

import random
import re
import sys
import threading

import nereid
import nereid.language as tl
import nereid.ops
import pytest
import torch
from nereid.ops import _launch, _promotion, _router, _shapes
from nereid.ops.functions import arithmetic, unary
from nereid.ops.kernels import pointwise as kernels


@nereid.jit
def _blend(x, y, weight):
    return x + weight * (y - x)


@nereid.jit
def _sum_and_difference(x, y):
    return x + y, x - y


@nereid.jit
def _masked(x, mask):
    return tl.where(mask, x, tl.zeros_like(x))


@nereid.jit
def _product(x, y):
    return x * y


@nereid.jit
def _less(x, y):
    return x < y


blend = nereid.ops.pointwise(_blend, scalars=["weight"])
sum_and_difference = nereid.ops.pointwise(_sum_and_difference, results=2)
product = nereid.ops.pointwise(_product)
less = nereid.ops.pointwise(_less, "always_bool")


def view(rng, shape, dtype, device):
    """A tensor of that shape with strides of some kind: sliced, transposed, expanded, with gaps."""
    base = [size * rng.choice([1, 1, 2]) for size in shape]
    expand = [rng.random() < 0.15 for _ in shape]
    order = list(range(len(shape)))
    if rng.random() < 0.5:
        rng.shuffle(order)
    sizes = [1 if expand[d] else base[d] + rng.choice([0, 0, 1]) for d in order]
    values = torch.arange(1, 1 + max(1, torch.Size(sizes).numel())).remainder(97)[:torch.Size(sizes).numel()].reshape(sizes).to(dtype).to(device)
    inverse = [order.index(d) for d in range(len(shape))]
    tensor = values.permute(inverse)
    for d, size in enumerate(shape):
        if expand[d]:
            tensor = tensor.expand(*[size if e == d else -1 for e in range(len(shape))])
        else:
            step = base[d] // size if size else 1
            tensor = tensor.narrow(d, 0, step * size) if size else tensor.narrow(d, 0, 0)
            tensor = tensor[(slice(None), ) * d + (slice(None, None, step), )]
    assert tuple(tensor.shape) == tuple(shape)
    return tensor


@pytest.mark.parametrize("seed", range(60))
def test_strides(target, seed):
    rng = random.Random(seed)
    shape = [rng.choice([1, 2, 3, 5, 17, 40, 70]) for _ in range(rng.randrange(0, 6))]
    while torch.Size(shape).numel() > 60000:
        shape[shape.index(max(shape))] //= 3
    shape = [max(size, 1) for size in shape]
    if rng.random() < 0.05 and shape:
        shape[rng.randrange(len(shape))] = 0
    x, y = view(rng, shape, torch.float32, target), view(rng, [size if rng.random() < 0.8 else 1 for size in shape][rng.randrange(len(shape) + 1):], torch.float32, target)
    expected = x * y
    result = product(x, y)
    assert torch.equal(result, expected) and result.dtype == expected.dtype
    if result.numel():
        assert [s for s, n in zip(result.stride(), shape) if n > 1] == [s for s, n in zip(expected.stride(), shape) if n > 1]
    out = view(rng, shape, torch.float32, target)
    if not _shapes.overlaps_itself(out):
        assert product(x, y, out=out) is out
        assert torch.equal(out, expected)


@pytest.mark.parametrize("router", [True, False], ids=["router", "python"])
@pytest.mark.parametrize("shape", [(70, 300), (64, 4096), (3, 5, 64, 64), (2, 1025, 17)])
def test_columns_and_rows_are_broadcast(shape, router, target):
    """Tiles that lie inside of the tensor and tiles at its borders; on CPUs a column is loaded once for a row."""
    x, row, column = torch.randn(shape, device=target), torch.randn(shape[-1], device=target), torch.randn(*shape[:-1], 1, device=target)
    expected = x * column, column - row, torch.where(column > 0, x, row)
    with nereid.ops.use(only=["mul", "sub", "where", "gt"], router=router, routing=False):
        found = x * column, column - row, torch.where(column > 0, x, row)
    for one, other in zip(expected, found):
        assert torch.equal(one, other)


@pytest.mark.parametrize("shape,strides", [((7, ), (-1, )), ((7, 5), (-5, 1)), ((6, 40), (40, -1)), ((3, 4, 33), (-132, 33, -1)), ((4, 40), (-40, 0)), ((9, ), (0, ))])
@pytest.mark.parametrize("kernel", ["strided", "tiled"])
def test_negative_and_zero_strides(target, kernel, shape, strides):
    """PyTorch has no negative strides; the kernels take them."""
    if kernel == "tiled" and len(shape) < 2:
        return
    source = torch.arange(1., 1000., device=target)
    first = 500
    out = torch.empty(shape, device=target)
    arguments = {"outs": (out, ), "ins": (source[first:], ), "scalars": (), "sizes": shape, "out_strides": (out.stride(), ), "in_strides": (strides, )}
    constants = {"fn": unary.neg, "COMMON": tl.float32, "COMPUTE": tl.float32, "RAW": 0, "NARROW": False, "UNIT": 1}
    for wide in (False, True):
        out.zero_()
        if kernel == "strided":
            _launch.launch(kernels.strided, 2, out.device, arguments | {"numel": out.numel()}, constants | {"BLOCK": 256, "WIDE": wide, "STEPS": ()}, "i64" if wide else "i32")
        else:
            programs = out.numel() // (shape[-1] * shape[-2]) * -(-shape[-1] // 16) * -(-shape[-2] // 4)
            _launch.launch(kernels.tiled, programs, out.device, arguments, constants | {"UNIT_ROWS": 0, "FIXED": 0, "WHOLE": False, "ROWS": 4, "COLUMNS": 16, "WIDE": wide, "EVEN": False, "STEPS": ()}, "i64" if wide else "i32")
        index = first + sum(torch.arange(size).reshape([-1 if d == e else 1 for e in range(len(shape))]) * stride for d, (size, stride) in enumerate(zip(shape, strides)))
        assert torch.equal(out.cpu(), -source.cpu()[index])


@pytest.mark.parametrize("shape,strides", [((2, 5), (2**31 + 7, 3)), ((3, 40), (2**30 + 1, 1)), ((40, 2), (1, 2**31 + 11)), ((2, 2, 33), (2**31 + 1, 2**31 - 1000, 2)), ((3, ), (2**31 - 1, ))])
def test_offsets_beyond_32_bits(target, shape, strides):
    """Memory that is reserved and, but for a few pages, never touched."""
    extent = sum((size - 1) * stride for size, stride in zip(shape, strides)) + 1
    source, destination = (torch.empty(extent, dtype=torch.int8, device=target) for _ in range(2))
    x, y = source.as_strided(shape, strides), destination.as_strided(shape, strides)
    values = torch.arange(x.numel(), device=target).remainder(100).to(torch.int8).reshape(shape)
    x.copy_(values)
    assert torch.equal(product(x, 1), values)
    product(values, 1, out=y)
    assert torch.equal(y, values)
    product(x, 1, out=x)
    assert torch.equal(x, values)


def test_more_than_2_to_31_elements(target):
    big = torch.zeros(2**31 + 5000, dtype=torch.int8, device=target)
    nereid.ops.pointwise(arithmetic.bitwise_or, numbers="common")(big, 3, out=big)
    assert big[::65537].eq(3).all() and big[-6000:].eq(3).all() and big[2**31 - 100:2**31 + 100].eq(3).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.uint8])
def test_scalars(target, dtype):
    x, y = (torch.arange(40, device=target).to(dtype), torch.arange(40, 80, device=target).to(dtype))
    assert torch.equal(blend(x, y, 2), x + 2 * (y - x))
    assert torch.equal(blend(x, y, weight=2), blend(x=x, y=y, weight=2))


def test_scalars_keep_their_digits(target):
    x = torch.zeros(3, dtype=torch.float64, device=target)
    assert blend(x, x + 1, 1 / 3).tolist() == [1 / 3] * 3
    x = torch.zeros(3, dtype=torch.int64, device=target)
    assert blend(x, x + 1, 2**62 + 1).tolist() == [2**62 + 1] * 3
    assert product(x + 1, 2**62 + 1).tolist() == [2**62 + 1] * 3


def test_several_results(target):
    x, y = torch.rand(20, 30, device=target), torch.rand(30, 20, device=target).t()
    total, difference = sum_and_difference(x, y)
    assert torch.equal(total, x + y) and torch.equal(difference, x - y)
    outs = torch.empty(0, device=target), torch.empty(30, 20, device=target).t()
    assert sum_and_difference(x, y, out=outs) == outs
    assert torch.equal(outs[0], x + y) and torch.equal(outs[1], x - y)


def test_raw_inputs(target):
    x, mask = torch.rand(100, device=target), torch.rand(100, device=target) > 0.5
    assert torch.equal(nereid.ops.pointwise(_masked, raw=["mask"])(x, mask), torch.where(mask, x, 0))


def test_empty_and_0d(target):
    x = torch.rand(0, 5, device=target)
    assert product(x, x).shape == (0, 5) and product(x, torch.rand(5, device=target)).shape == (0, 5)
    a, b = torch.tensor(3., device=target), torch.tensor(2, device=target)
    assert product(a, b).item() == 6 and product(a, b).shape == () and product(a, b).dtype == torch.float32
    assert product(a, 4.).item() == 12


def test_bools(target):
    x = torch.tensor([True, False, True], device=target)
    assert less(~x, x).tolist() == [True, False, True]
    assert product(x, 2).tolist() == [2, 0, 2] and product(x, 2).dtype == torch.int64
    out = torch.empty(3, dtype=torch.bool, device=target)
    nereid.ops.pointwise(unary.identity)(x, out=out)
    assert torch.equal(out, x)


@pytest.mark.parametrize("first", [torch.bool, torch.uint8, torch.int16, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_promotion_is_torchs(first):
    second = [torch.bool, torch.int8, torch.int64, torch.float16, torch.bfloat16, torch.float64, True, 3, 2.5]
    for other in second:
        for a_rank in (0, 1):
            for b_rank in (0, 1):
                a = torch.ones((1, ) * a_rank, dtype=first)
                b = torch.ones((1, ) * b_rank, dtype=other) if isinstance(other, torch.dtype) else other
                assert _promotion.result_type([a, b]) == torch.result_type(a, b)
                assert _promotion.result_type([b, a]) == torch.result_type(b, a)


def test_kinds_of_promotion(target):
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND, elementwise_dtypes
    for kind in KIND:
        made = nereid.ops.pointwise(_less if kind is KIND.ALWAYS_BOOL else _product, kind)
        for dtype in (torch.int32, torch.float16, torch.float32):
            x = torch.ones(3, device=target).to(dtype)
            assert made(x, x).dtype == elementwise_dtypes(x, x, type_promotion_kind=kind)[1]


def test_outputs_in_place_and_of_other_dtypes(target):
    x, y = torch.rand(50, device=target), torch.rand(50, device=target)
    expected = x * y
    wide = torch.empty(50, dtype=torch.float64, device=target)
    assert torch.equal(product(x, y, out=wide), expected.double())
    product(x, y, out=x)
    assert torch.equal(x, expected)


@pytest.mark.parametrize("call,error,text", [
    (lambda x: product(x, x[:3]), ValueError, "_product: the shapes (4, 5), (3, 5) cannot be broadcast"),
    (lambda x: product(x, x, out=x[:2]), ValueError, "_product: `out` has the shape (2, 5); expected the shape that (4, 5), (4, 5) are broadcast to, or an empty tensor"),
    (lambda x: product(x.T[:4, :4], x[:4, :4], out=x[:4, :4]), ValueError, "_product: `out` shares memory with itself or, in another order, with an input; pass a copy"),
    (lambda x: product(x[0], x[0], out=x[0, :1].expand(5)), ValueError, "_product: `out` shares memory with itself"),
    (lambda x: product(x, x, out=torch.empty(4, 5, dtype=torch.int32, device=x.device)), TypeError, "_product: not made for these arguments (dtype of the output): tensors of torch.float32, torch.float32, torch.int32"),
    (lambda x: product(x + 1j, x), TypeError, "_product: not made for these arguments (dtype): tensors of torch.complex64, torch.float32; expected torch.bool, torch.uint8"),
    (lambda x: product(2, 3), TypeError, "_product: expected a tensor among the inputs"),
    (lambda x: product(x, "y"), TypeError, "`y` of _product is str: expected a tensor or a number"),
    (lambda x: blend(x, x, x), TypeError, "`weight` of _blend is Tensor: expected a number"),
    (lambda x: blend(x, x), TypeError, "_blend(x, y, weight, out=None) does not take these arguments"),
    (lambda x: product(x, x, z=1), TypeError, "_product(x, y, out=None) does not take these arguments: `z`"),
    (lambda x: product(x, x, out=(x, x)), TypeError, "`out` of _product has to be 1 tensor"),
    (lambda x: nereid.ops.pointwise(_blend, scalars=["alpha"]), ValueError, "`alpha` is no parameter of `_blend`: expected one of x, y, weight"),
    (lambda x: nereid.ops.pointwise(_blend, scalars=["x"]), ValueError, "the scalars of `_blend` stand before an input: its inputs come first"),
    (lambda x: nereid.ops.pointwise(_blend, "floats"), ValueError, "`promotion` is 'floats': expected one of 'default', 'int_to_float'"),
])
def test_errors(call, error, text, target):
    x = torch.rand(4, 5, device=target)
    with pytest.raises(error, match=re.escape(text)):
        call(x)


def test_threads(target):
    """Kernels are compiled once, whoever comes first; results do not depend on who else runs."""
    made = nereid.ops.pointwise(_blend, scalars=["weight"])
    x, wrong = torch.rand(3, 1000, device=target), []

    def work(seed):
        for i in range(30):
            weight = seed + i / 7
            if not torch.allclose(made(x, x + 1, weight), x + weight):
                wrong.append(weight)

    threads = [threading.Thread(target=work, args=(seed, )) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_values_never_make_further_kernels(target):
    x = torch.rand(64, 64, device=target)
    blend(x, x.t(), 0.5)
    blend(x[:63, :63], x.t()[:63, :63], 0.5)  # rows of multiples of 16, and others
    known = len(_launch._compiled)
    for size, weight in ((17, 1.0), (33, 2.0), (64, 3.5)):
        blend(x[:size, :size], x.t()[:size, :size], weight)
        blend(x[:size, :size], x.t()[:size, :size], int(weight))
    assert len(_launch._compiled) == known


@pytest.mark.parametrize("seed", range(40))
def test_conflicts_are_found(seed):
    """`_shapes.conflict` against all addresses, on views of one small tensor. It may see a conflict where there is none only for different strides."""
    rng = random.Random(seed)
    base = torch.arange(400)

    def some(shape=None, strides=None):
        shape = shape or [rng.randrange(1, 4) for _ in range(rng.randrange(1, 4))]
        strides = strides or [rng.choice([1, 2, 3, 4, 6, 12, 24]) for _ in shape]
        return base.as_strided(shape, strides, rng.randrange(0, 60))

    for _ in range(50):
        x = some()
        y = some(list(x.shape), list(x.stride())) if rng.random() < 0.7 else some()
        if _shapes.overlaps_itself(x):
            continue
        shared = set(x.flatten().tolist()) & set(y.flatten().tolist())
        same = x.shape == y.shape and x.stride() == y.stride() and x.storage_offset() == y.storage_offset()
        if shared and not same:
            assert _shapes.conflict(x, y)
        if not shared and x.shape == y.shape and x.stride() == y.stride():
            assert not _shapes.conflict(x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_of_multiples_of_16(dtype, target):
    """Rows that are loaded in vectors, and their neighbours, of which a size, a stride or an address is no multiple of 16."""
    space = torch.randn(3 * 70 * 130, device=target).to(dtype)
    for rows, columns, stride in ((7, 48, 96), (7, 48, 90), (7, 40, 96), (33, 64, 128), (5, 16, 32)):
        for first in (0, 1, 16):
            x = space[first:].as_strided((3, rows, columns), (70 * 130, stride, 1))
            turned = space[first:].as_strided((3, rows, columns), (70 * 130, 1, stride))
            column = space[first:].as_strided((3, rows, columns), (16, stride, 0))
            for other in (x, turned, column, space[first:first + columns]):
                expected = x.double() + other.double()
                with nereid.ops.use(only=["add"], routing=False):
                    got = x + other
                torch.testing.assert_close(got, expected.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_powers_by_numbers_with_own_formulas(dtype, target):
    """Roots are those of `sqrt`, also of -0.0 and -inf, as in ATen; the other exponents of the kernel's branches, and one without a formula."""
    x = torch.cat([torch.randn(1000, generator=torch.Generator().manual_seed(0)) * 10, torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-30, 4.0])]).to(dtype).to(target)
    for exponent in (0.5, -0.5, 2, 3, -1, -2, 1.25):
        wanted = torch.pow(x, exponent)
        with nereid.ops.use(routing=False):
            found = torch.pow(x, exponent)
        torch.testing.assert_close(found, wanted, rtol=4 * torch.finfo(dtype).eps, atol=0, equal_nan=True)
        zero = wanted == 0
        assert torch.equal(torch.signbit(found[zero]), torch.signbit(wanted[zero]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("columns", [2, 3, 4, 5, 9, 15])
def test_short_rows(columns, dtype, target):
    """Rows beside a row, a column, a part of longer rows and columns in the order of memory."""
    for rows in (3, 40, 1500):
        wide = (torch.rand(2, rows, 2 * columns, device=target) * 100).to(dtype)
        x = wide[:, :, :columns]
        others = [wide[0, 0, :columns], wide[:, :, :1], wide[:, :, columns:], wide[:, :, ::2], x.contiguous().transpose(1, 2).contiguous().transpose(1, 2), x.flip(2)]
        for other in others:
            with nereid.ops.use(only=["add"], routing=False):
                found = x + other
            assert torch.equal(found, x + other)
        space = torch.zeros_like(wide)
        with nereid.ops.use(only=["add"], routing=False):
            torch.add(x, x, out=space[:, :, ::2])
        assert torch.equal(space[:, :, ::2], x + x) and not space[:, :, 1::2].any()


def test_the_router_chooses_the_tiles_of_the_reference(monkeypatch):
    """Kernel, tile, and the last strides that are constants: of rows that are short, reversed by a stride or taken apart, on the CPU, where no row needs a division."""
    names, chosen = ("ROWS", "COLUMNS", "STEPS", "UNIT_ROWS", "FIXED", "EVEN", "WHOLE"), []

    def noted(call, at):
        def wrapper(kernel, *arguments, **options):
            chosen.append((kernel.__name__, {name: arguments[at][name] for name in names}))
            return call(kernel, *arguments, **options)
        return wrapper

    assert _router.load() is not None
    reference = sys.modules["nereid.ops.pointwise"]
    monkeypatch.setattr(_router, "compile_kernel", noted(_router.compile_kernel, 2))
    monkeypatch.setattr(reference, "launch", noted(reference.launch, 3))
    hypot = nereid.ops.pointwise(arithmetic.hypot, dtypes=(torch.float64, ))
    x = torch.rand(300, 18, dtype=torch.float64)
    for first, second in ((x[:, :9], x[0, :9]), (x[:, :2], x[0, 2:4]), (x[:, :2], x[:, 2:4]), (x[:, ::6], x[0, ::6]), (x[:, :17], x[0, 1:]), (x[:, :16:2], x[:, 1:17:2]), (x[:3, :2], x[0, 2:4]),
                          (x[:, :16:5], x[:, 1:17:5])):
        with nereid.ops.use(only=["hypot"], routing=False):
            found = torch.hypot(first, second)
        torch.testing.assert_close(found, torch.hypot(first, second))
        torch.testing.assert_close(hypot(first, second), found)
        reference_choice = chosen.pop()
        assert reference_choice[0] == "tiled" and reference_choice in chosen  # the router asks once for each kernel


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_exponents_with_rules_of_their_own(dtype, target):
    """Squares and cubes by integers and floats, in both paths, beside the other exponents and tensors of exponents."""
    x = torch.randint(-5, 6, (1000, ), generator=torch.Generator().manual_seed(0)).to(dtype).to(target)
    exponents = [2, 3, 0, 1, 4, 2.0, 3.0, 2.5, True, torch.tensor(2), torch.full((1000, ), 2, device=target)]
    for exponent in exponents:
        wanted = torch.pow(x, exponent)
        with nereid.ops.use(only=["pow"], routing=False):
            found, again = torch.pow(x, exponent), x**exponent
            out = torch.pow(x, exponent, out=torch.empty_like(wanted))
            base = torch.pow(2, x.abs())
            calls = [row.route for row in nereid.ops.report(clear=True) if row.overload.startswith("pow")]
        for result in (found, again, out):
            torch.testing.assert_close(result, wanted, rtol=4 * torch.finfo(dtype).eps if dtype.is_floating_point else 0, atol=0, equal_nan=True)
        torch.testing.assert_close(base, torch.pow(2, x.abs()))
        assert calls and set(calls) == {"nereid"}


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_gelu_of_every_number(dtype, approximate, target):
    """GELU and its gradient of all numbers of 16 bits: one rounding from the exact result, NaN where the function has no value (-inf times 0), subnormal numbers kept."""
    x = torch.arange(-2**15, 2**15, dtype=torch.int32).to(torch.int16).view(dtype).to(target)
    ones, finite = torch.ones_like(x), x.isfinite()
    eps, tiny = torch.finfo(dtype).eps, torch.finfo(dtype).tiny
    with nereid.ops.use(only=["gelu", "gelu_backward"], routing=False):
        result = torch.nn.functional.gelu(x, approximate=approximate)
        gradient = torch.ops.aten.gelu_backward(ones, x, approximate=approximate)
    wide = x.double()
    exact = torch.nn.functional.gelu(wide, approximate=approximate)
    if approximate == "none":
        exact = 0.5 * wide * torch.special.erfc(-wide * 0.5**0.5)  # accurate also where 1 + erf(x) is not
        assert result[x == float("-inf")].isnan().all()
    # Beyond -5, fp32 cannot hold the difference that the form with tanh computes.
    bound = 0.5 * eps * 1.25 * exact.abs() + (1e-5 if approximate == "tanh" else 4 * tiny)
    checked = finite & (exact.abs() <= torch.finfo(dtype).max) & (wide > -5.5)
    assert ((result.double() - exact).abs() <= bound)[checked].all()
    assert result[x.isnan()].isnan().all() and (result[x == float("inf")] == float("inf")).all()
    slopes = torch.ops.aten.gelu_backward(torch.ones_like(wide), wide, approximate=approximate)
    small = finite & (wide.abs() < 1e3)
    assert ((gradient.double() - slopes).abs() <= 0.625 * eps * slopes.abs() + 4e-5)[small].all()
    assert gradient[x.isnan()].isnan().all()


def test_gelu_of_single_precision(target):
    """Next to the argument the error is that of ATen's formula or less; far out the result is exactly 0 or the argument."""
    x = torch.cat([torch.linspace(-7, 7, 100_001), torch.logspace(-40, 1, 2000), -torch.logspace(-40, 1, 2000)]).to(target)
    far = torch.tensor([-5.5, -6.0, -100.0, -1e30, 6.0, 100.0, 1e30], device=target)
    special = torch.tensor([float("nan"), float("inf"), 0.0, -0.0], device=target)
    with nereid.ops.use(only=["gelu", "gelu_backward"], routing=False):
        result, ends, specials = map(torch.nn.functional.gelu, (x, far, special))
        gradient = torch.ops.aten.gelu_backward(torch.ones_like(x), x)
    wide = x.double()
    error = (result.double() - torch.nn.functional.gelu(wide)).abs() / wide.abs().clamp(min=1e-3)
    assert error.max() < 2.0**-21
    assert (gradient.double() - torch.ops.aten.gelu_backward(torch.ones_like(wide), wide)).abs().max() < 2.0**-21
    assert (ends[1:4] == 0).all() and ends[0].abs() < 1e-6 and torch.equal(ends[4:], far[4:])
    assert specials[0].isnan() and specials[1] == float("inf") and specials[2:].tolist() == [0, 0]
