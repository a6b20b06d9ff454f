"""Operators that copy, create, index and sort where PyTorch's samples do not reach: dtypes without arithmetic, views that stand for other values, outputs that
overlap, errors of indices, sizes at the borders of blocks."""

import math

import pytest
import torch

import nereid.ops
import opinfo

#: Dtypes that are moved, not computed with.
FOREIGN = (torch.uint16, torch.uint32, torch.uint64, torch.complex32, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2)


def both(call, *makers):
    """Runs `call` on fresh arguments with ATen's kernels and with ours: two outcomes (result, error)."""
    native = opinfo.outcome(call, *[make() for make in makers])
    with nereid.ops.use():
        ours = opinfo.outcome(call, *[make() for make in makers])
    return ours, native


def same(ours, native):
    (mine, error), (theirs, native_error) = ours, native
    if native_error is not None or error is not None:
        assert error is not None and native_error is not None and opinfo.same_error(error, native_error), f"{error!r}; ATen: {native_error!r}"
        return
    mine, theirs = opinfo.tensors(mine), opinfo.tensors(theirs)
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs):
        assert a.dtype == b.dtype and a.shape == b.shape and (not b.numel() or opinfo._strides(a) == opinfo._strides(b))
        assert torch.equal(bytes_of(a), bytes_of(b))


def bytes_of(tensor):
    return tensor.resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)


def filled(dtype, shape, device):
    """A tensor of any dtype with different bytes."""
    generator = torch.Generator().manual_seed(0)
    size = torch.empty((), dtype=dtype).element_size()
    return torch.randint(0, 100, (*shape[:-1], shape[-1] * size), generator=generator, dtype=torch.uint8).view(dtype).view(shape).to(device)


@pytest.mark.parametrize("dtype", FOREIGN, ids=str)
@pytest.mark.parametrize("name,call", {
    "clone": lambda x: x.t().clone(), "cat": lambda x: torch.cat([x, x[:1]]), "cat columns": lambda x: torch.cat([x, x], 1), "stack": lambda x: torch.stack([x, x], 1),
    "flip": lambda x: x.flip(0), "roll": lambda x: x.roll(2, 1), "repeat": lambda x: x.repeat(2, 1), "to": lambda x: x.to(x.dtype, copy=True),
    "zeros_like": lambda x: torch.zeros_like(x), "diag_embed": lambda x: torch.diag_embed(x), "select_scatter": lambda x: torch.select_scatter(x, x[0], 0, 1),
    "index_select": lambda x: x.index_select(0, torch.tensor([2, 0], device=x.device)), "gather": lambda x: x.gather(1, torch.zeros(3, 2, dtype=torch.int64, device=x.device)),
    "index": lambda x: x[torch.tensor([1, 1], device=x.device)], "masked_select": lambda x: x[torch.ones(3, 5, dtype=torch.bool, device=x.device)],
    "index_copy": lambda x: x.index_copy(0, torch.tensor([2], device=x.device), x[:1]), "pad": lambda x: torch.nn.functional.pad(x, (1, 2)),
}.items(), ids=lambda value: value if isinstance(value, str) else "")
def test_dtypes_without_arithmetic(name, call, dtype, target):
    ours, native = both(call, lambda: filled(dtype, (3, 5), target))
    if isinstance(native[1], NotImplementedError) and ours[1] is None:  # ATen's kernels of GPUs lack some dtypes
        assert target == "cuda"
        with nereid.ops.native():
            native = call(filled(dtype, (3, 5), "cpu")).to(target), None
    same(ours, native)


def test_views_of_other_values(target):
    """Tensors that stand for the negation or conjugation of others, and zeros without memory: PyTorch leaves them to `clone` and `copy_`, which have to see it."""

    def values():
        generator = torch.Generator().manual_seed(0)
        return torch.randn(4, 5, dtype=torch.complex64, generator=generator).to(target)

    for call in (lambda x: x.conj().imag.clone(), lambda x: torch.empty(4, 5, device=x.device).copy_(x.conj().imag), lambda x: x.conj().clone(),
                 lambda x: torch.cat([x.conj().imag] * 2), lambda x: x.conj().imag + 0, lambda x: torch.empty_like(x).copy_(x.conj()),
                 lambda x: x.conj().imag.copy_(x.real), lambda x: torch.empty(4, 5, device=x.device).copy_(torch._efficientzerotensor((4, 5), device=x.device)),
                 lambda x: torch._efficientzerotensor((4, 5), device=x.device).clone(), lambda x: torch.stack([torch._efficientzerotensor((4, 5), device=x.device)])):
        same(*both(call, values))


@pytest.mark.parametrize("call", [
    lambda x, i: x.index_select(0, i), lambda x, i: x[i], lambda x, i: x[:, i], lambda x, i: x.gather(0, i.view(1, -1)), lambda x, i: x.take(i), lambda x, i: x.index_add(0, i, x[:3]),
    lambda x, i: x.index_fill(0, i, 1.0), lambda x, i: x.index_copy(0, i, x[:3]), lambda x, i: x.scatter(0, i.view(1, -1), 2.0), lambda x, i: x.scatter_add(0, i.view(1, -1), x),
    lambda x, i: x.scatter_reduce(0, i.view(1, -1), x, "amax"), lambda x, i: x.put(i, x[0, :3]), lambda x, i: x.index_put((i, ), x[:3]), lambda x, i: x.index_put((i, ), x[:3], True)])
def test_errors_of_indices(call):
    """On CPUs ATen's error."""
    for values in ([0, 1, 99], [0, -99, 1], [-1, 0, 1]):
        same(*both(call, lambda: torch.arange(20.).reshape(4, 5), lambda values=values: torch.tensor(values)))


@pytest.mark.parametrize("call", [
    lambda x: torch.cat([x, x], out=x), lambda x: torch.stack([x[0], x[1]], out=x[:2]), lambda x: torch.index_select(x, 0, torch.tensor([0, 1]), out=x[1:3]),
    lambda x: torch.gather(x, 0, torch.zeros(4, 4, dtype=torch.int64), out=x), lambda x: x.index_add_(0, torch.tensor([0]), x[:1]), lambda x: torch.sort(x, out=(x, torch.empty(4, 4, dtype=torch.int64))),
    lambda x: x[:1].expand(4, 4).index_fill_(0, torch.tensor([0]), 1.0), lambda x: x.scatter_(0, torch.zeros(1, 4, dtype=torch.int64), x[1:2]), lambda x: torch.tril(x.t(), out=x),
    lambda x: x.masked_scatter_(x > 3, x), lambda x: torch.searchsorted(x, x, out=torch.empty(4, 4, dtype=torch.int64)[:, ::1])])
def test_overlaps(call):
    """What shares memory with an output is refused, or computed, as by ATen."""
    same(*both(call, lambda: torch.arange(16.).reshape(4, 4)))


@pytest.mark.parametrize("dtype", opinfo.DTYPES, ids=str)
@pytest.mark.parametrize("size", [1, 2, 63, 64, 65, 128, 129, 1000, 5000])
def test_sort(size, dtype, target):
    """Around the sizes of blocks and runs, with many equal elements, infinities, NaN, both zeros."""
    generator = torch.Generator().manual_seed(size)
    x = torch.randint(0, 2 if dtype == torch.bool else 50, (3, size), generator=generator)
    x = (x - 25).to(dtype) if dtype.is_signed else x.to(dtype)
    if dtype.is_floating_point:
        for i, value in enumerate((float("nan"), float("inf"), -float("inf"), -0.0, 0.0, float("nan"))):
            x[1, i * 7 % size] = value
    x = x.to(target)
    for call in (lambda x: x.sort(dim=1, stable=True), lambda x: x.sort(dim=1, stable=True, descending=True), lambda x: x.t().sort(dim=0, stable=True),
                 lambda x: x.topk(max(1, size // 3), 1).values, lambda x: x.topk(min(5, size), 1, largest=False).values, lambda x: x.kthvalue(1 + size // 2, 1).values,
                 lambda x: torch.unique(x[0], return_inverse=True, return_counts=True), lambda x: x[2].unique_consecutive(return_inverse=True, return_counts=True)):
        same(*both(call, lambda: x))


@pytest.mark.parametrize("seed", range(6))
def test_indices_of_many_kinds(seed, target):
    """`x[...]` and `x[...] = y` with indices, masks, gaps and Nones, against ATen."""
    generator = torch.Generator().manual_seed(seed)

    def integers(limit, *shape):
        return torch.randint(-limit, limit, shape, generator=generator).to(target)

    x = torch.randn(4, 5, 6, 7, generator=generator).to(target)
    mask = (torch.rand(4, 5, generator=generator) > 0.5).to(target)
    for index in ((integers(4, 3), ), (None, integers(5, 2, 3)), (integers(4, 3), integers(5, 3)), (integers(4, 3), None, integers(6, 2, 1)), (None, integers(5, 3), integers(6, 1)),
                  (mask, ), (mask, integers(6, 1)), (None, None, None, integers(7, 4)), (integers(4, 2).int(), None, None, integers(7, 3, 1).int()), (integers(4, 0), )):
        index = tuple(slice(None) if part is None else part for part in index)
        for change in (lambda x: x, lambda x: x.permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2), lambda x: x.expand(4, 5, 6, 7)):
            same(*both(lambda x, index=index: x[index], lambda change=change: change(x)))

        def put(x, index=index):
            x[index] = 2.0
            return x

        def accumulate(x, index=index):
            given = [None if isinstance(part, slice) else part for part in index]
            return x.index_put_(given, torch.ones((), device=x.device), accumulate=True)

        same(*both(put, lambda: x.clone()))
        same(*both(accumulate, lambda: x.clone().round()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.bfloat16], ids=str)
def test_groups_are_added(dtype, target):
    """What GPUs do for `index_put_(..., accumulate=True)`, here on any target: the same sums as one after the other."""
    from nereid.ops import _indexed
    generator = torch.Generator().manual_seed(3)
    rows, columns = torch.randint(-6, 6, (40, 3), generator=generator).to(target), torch.randint(0, 5, (3, ), generator=generator).expand(40, 3).to(target)
    x, new = torch.zeros(6, 5, 7, dtype=dtype, device=target), torch.randint(-9, 9, (40, 3, 7), generator=generator).to(dtype).to(target)
    expected = x.clone().index_put_((rows, columns), new, accumulate=True)
    parallel = [(7, (x.stride(2), new.stride(2), 0, 0))]
    turns = [(40, (new.stride(0), rows.stride(0), columns.stride(0))), (3, (new.stride(1), rows.stride(1), columns.stride(1)))]
    _indexed.add_groups(x, new, [rows, columns], parallel, turns, [6, 5], [x.stride(0), x.stride(1)])
    assert torch.equal(x, expected)


def test_everything_goes_to_kernels(target):
    """No route of the common calls leaves to ATen."""
    x, index = torch.arange(60., device=target).reshape(3, 4, 5), torch.tensor([2, 0, 1], device=target)
    planes = torch.randn(2, 3, 8, 8, device=target)
    nereid.ops.enable()
    for call in (lambda: torch.cat([x, x]), lambda: torch.stack([x, x]), lambda: x.repeat(2, 1, 1), lambda: x.flip(1), lambda: x.roll(1, 0), lambda: x.tril(), lambda: x.triu(1),
                 lambda: x.clone(), lambda: x.double(), lambda: torch.nn.functional.pad(x, (1, 1)), lambda: torch.zeros(3, device=target), lambda: torch.full((2, 2), 3.0, device=target),
                 lambda: torch.arange(7, device=target), lambda: torch.linspace(0, 1, 5, device=target), lambda: torch.eye(3, device=target), lambda: x[index], lambda: x[:, index],
                 lambda: x.index_select(0, index), lambda: x.gather(0, index.view(3, 1, 1)), lambda: x.scatter(0, index.view(3, 1, 1), 1.0), lambda: x.scatter_add(0, index.view(3, 1, 1), x),
                 lambda: x.index_add(0, index, x), lambda: x.index_copy(0, index, x), lambda: x.index_fill(0, index, 1.0), lambda: x.masked_select(x > 3), lambda: x.nonzero(),
                 lambda: x.sort(), lambda: x.topk(2), lambda: x.kthvalue(2), lambda: x.view(-1).unique(), lambda: torch.bucketize(x, x.view(-1)), lambda: torch.histc(x),
                 lambda: torch.nn.functional.max_pool2d(planes, 2), lambda: torch.nn.functional.avg_pool2d(planes, 2), lambda: torch.nn.functional.interpolate(planes, scale_factor=2)):
        call()
    left = [row for row in nereid.ops.report() if row.route == "aten"]
    assert not left, left


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dim", [0, 2])
def test_weight_norm(dim, dtype, target):
    """With its gradients, against ATen's in fp64 on the CPU: on GPUs it takes the square root of fp32."""
    generator = torch.Generator().manual_seed(1)
    v = torch.randn(5, 6, 7, dtype=torch.float64, generator=generator)
    g, gradient = torch.rand([size if d == dim else 1 for d, size in enumerate(v.shape)], dtype=torch.float64, generator=generator) + 0.5, torch.randn_like(v)

    def call(kind, device):
        inputs = [x.to(dtype).to(kind).to(device).clone().requires_grad_() for x in (v, g)]
        weight = torch._weight_norm(*inputs, dim)
        weight.backward(gradient.to(dtype).to(kind).to(device))
        return [weight.detach(), *(x.grad for x in inputs)]

    wide = call(torch.float64, "cpu")
    with nereid.ops.use():
        found = call(dtype, target)
    assert opinfo.served("_weight_norm_interface") == 1 and opinfo.served("_weight_norm_interface_backward") == 1
    eps = torch.finfo(dtype).eps
    for mine, exact in zip(found, wide):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine.double().cpu(), exact, rtol=4 * eps, atol=32 * eps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [(3, 4), (7, 9), (15, 30), (8, 13)])
@pytest.mark.parametrize("aligned", [False, True])
def test_interpolation(size, aligned, dtype, target):
    """Up and down, with gradients where there are kernels for them: at most twice as far from fp64 as ATen's, which also rounds the places."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(2, 3, 8, 13, dtype=torch.float64, generator=generator)
    calls = {"bicubic": lambda x: torch.ops.aten._upsample_bicubic2d_aa(x, size, aligned), "bilinear": lambda x: torch.ops.aten._upsample_bilinear2d_aa(x, size, aligned),
             "linear": lambda x: torch.nn.functional.interpolate(x, size=size, mode="bilinear", align_corners=aligned)}
    if dtype == torch.bfloat16 and target == "cpu":
        calls = {"linear": calls["linear"]}  # ATen has no others there

    def run(name, kind):
        given = x.to(dtype).to(kind).to(target).requires_grad_()
        result = calls[name](given)
        if name == "linear":
            result.sin().sum().backward()
            return [result.detach(), given.grad]
        return [result.detach()]

    wide, native = ({name: run(name, kind) for name in calls} for kind in (torch.float64, dtype))
    with nereid.ops.use():
        found = {name: run(name, dtype) for name in calls}
    assert opinfo.served("upsample_bilinear2d") and opinfo.served("upsample_bilinear2d_backward")
    assert len(calls) == 1 or opinfo.served("_upsample_bicubic2d_aa") and opinfo.served("_upsample_bilinear2d_aa")
    eps = torch.finfo(dtype).eps
    for name in calls:
        for mine, theirs, exact in zip(found[name], native[name], wide[name]):
            assert mine.dtype == dtype and (mine.double() - exact).abs().max() <= 2 * (theirs.double() - exact).abs().max() + 32 * eps, name


@pytest.mark.parametrize("size", [(3, 20, 30), (5, 90, 70)])
@pytest.mark.parametrize("pad", [(1, 2), (0, 3, 2, 1), (-1, 2, 3, -4), (2, 2, -1, -1, 1, 0), (-40, 50), (0, 0, -30, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64], ids=str)
def test_pads(size, pad, dtype, target):
    """In one pass and in two, also where nothing of the input is left."""
    for change in (lambda x: x, lambda x: x.transpose(0, 2)):
        same(*both(lambda x: torch.nn.functional.pad(change(x), pad, value=1), lambda: filled(dtype, size, target) if dtype != torch.bool else filled(torch.uint8, size, target) > 50))


@pytest.mark.parametrize("shape,pad,value", [((2, 3, 131, 17), (1, 2, 3, 0), -0.0), ((2, 3, 131, 17), (1, 2, 3, 0), 0.0), ((2, 2, 3, 10, 7), (1, 0, 2, 1, 1, 1), 1.5), ((3, 2100), (5, 0), float("nan")),
                                             ((1, 1, 1), (1, 1, 1, 1), 1.5), ((40, ), (3, 4), 1.5)], ids=str)
def test_pads_planes(shape, pad, value, target):
    """Planes that several items of a program pad, with more than one tile of rows and more than one block of columns, dimensions before them, other orders in memory; every value, bit for bit."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).bfloat16().to(target)
    orders = [x, x.transpose(0, -1).contiguous().transpose(0, -1), x[..., ::2], x[:1].expand(x.shape)]
    if x.dim() in (4, 5):
        orders.append(x.contiguous(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d))
    for given in orders:
        ours, native = both(lambda x: torch.nn.functional.pad(x, pad, value=value), lambda: given)
        if value != value:  # which NaN a conversion makes is the processor's matter
            ours, native = ((torch.where(result.isnan(), torch.full_like(result, math.nan), result), error) for result, error in (ours, native))
        same(ours, native)
        assert ours[0].stride() == native[0].stride()


def far(dtype, shape, strides, device):
    """A tensor whose elements are more than 2**31 apart. Its memory is never touched in between."""
    base = torch.empty(sum(stride * (size - 1) for stride, size in zip(strides, shape)) + 1, dtype=dtype, device=device)
    return base.as_strided(shape, strides).copy_(torch.arange(base.as_strided(shape, strides).numel()).reshape(shape))


@pytest.mark.parametrize("name,call", {
    "clone": lambda x: x.clone(memory_format=torch.contiguous_format), "cat": lambda x: torch.cat([x, x]), "flip": lambda x: x.flip(0, 1), "tril": lambda x: x.tril(), "pad": lambda x: torch.nn.functional.pad(x, (1, 0)),
    "repeat": lambda x: x.repeat(2, 2), "index_select": lambda x: x.index_select(0, torch.tensor([2, 0])), "gather": lambda x: x.gather(0, torch.tensor([[2, 1, 0]])),
    "index": lambda x: x[torch.tensor([2, 1]), torch.tensor([0, 2])], "index_put_": lambda x: x.index_put_((torch.tensor([2]), ), x.new_tensor([9, 8, 7])).clone(),
    "accumulate": lambda x: x.index_put_((torch.tensor([2, 2]), ), x.new_tensor([9, 8, 7]), accumulate=True).clone(), "scatter_": lambda x: x.scatter_(0, torch.tensor([[2, 1, 0]]), 5).clone(),
    "scatter_add_": lambda x: x.scatter_add_(0, torch.tensor([[2, 1, 0]]), x.new_ones(1, 3)).clone(), "masked_select": lambda x: x[x > 3], "nonzero": lambda x: x.nonzero(),
    "sort": lambda x: x.sort(dim=0, descending=True, stable=True), "topk": lambda x: x.topk(2, 0).values, "unique": lambda x: x.unique(), "bincount": lambda x: torch.bincount(x[:, 1]),
}.items(), ids=lambda value: value if isinstance(value, str) else "")
def test_far_offsets(name, call, target):
    with torch.device(target):
        same(*both(lambda x: [y.contiguous() for y in opinfo.tensors(call(x))], lambda: far(torch.uint8, (3, 3), (2**30 + 77, 2), target)))


def test_far_planes(target):
    for call in (lambda x: torch.nn.functional.max_pool2d(x, 2, 1), lambda x: torch.nn.functional.avg_pool2d(x, 2, 1), lambda x: torch.nn.functional.interpolate(x, scale_factor=2)):
        same(*both(call, lambda: far(torch.float16, (2, 1, 3, 3), (2**31 + 5, 40, 10, 3), target)))


@pytest.mark.parametrize("router", [True, False], ids=["router", "python"])
def test_numbers_are_copied(router):
    """Tensors without dimensions, expanded and converted on the CPU."""
    with nereid.ops.use(router=router):
        found = [torch.zeros(shape, dtype=dtype).copy_(torch.tensor(7.5)) for shape in ((3, ), (), (2, 3)) for dtype in (torch.float32, torch.bfloat16, torch.int32)]
    assert all(x.double().eq(7.5 if x.is_floating_point() else 7).all() for x in found)
    rows = [row for row in nereid.ops.report() if row.overload == "copy_"]
    assert rows and all(row.route == "nereid" for row in rows), nereid.ops.report()


@pytest.mark.parametrize("router", [True, False])
def test_masked_fill_and_cuts_of_other_layouts(router):
    """`masked_fill` returns a contiguous tensor whatever it is given, padding that only cuts off one with the strides of a clone."""
    x = torch.randn(2, 4, 6)
    sources = [x, x.transpose(1, 2).contiguous().transpose(1, 2), x[:, :, :1].expand(2, 4, 6), torch.randn(4, 1), torch.randn(6)]
    masks = [torch.rand(2, 4, 6) > 0.5, torch.rand(4, 6) > 0.5, torch.rand(2, 1, 1) > 0.5]
    calls = [lambda a=a, mask=mask, value=value: a.masked_fill(mask, value) for a in sources for mask in masks for value in (0, torch.tensor(2.5))]
    calls += [lambda a=a, pad=pad: torch.nn.functional.pad(a, pad) for a in sources[:3] for pad in ((0, 0), (-1, 0), (0, -2, 0, -1), (-1, -1, 0, 0, -1, 0), (-6, 0))]
    expected = [call() for call in calls]
    nereid.ops.report(clear=True)
    with nereid.ops.use(router=router):
        found = [call() for call in calls]
        with pytest.raises(RuntimeError, match="must match the size"):
            torch.randn(3, 4).masked_fill(torch.rand(5, 4) > 0.5, 0)
    for mine, theirs in zip(found, expected):
        assert torch.equal(mine, theirs) and mine.stride() == theirs.stride()
    ours = {row.overload: row.calls for row in nereid.ops.report() if row.route == "nereid"}
    with nereid.ops.use(router=router):
        labels = torch.nn.functional.pad(torch.arange(6).view(2, 3), (0, 1), value=-100)
        assert labels.tolist() == [[0, 1, 2, -100], [3, 4, 5, -100]]
    assert [row.route for row in nereid.ops.report() if row.overload == "constant_pad_nd"] == ["nereid"]
    assert ours["masked_fill.Scalar"] == ours["masked_fill.Tensor"] == 15 and ours["constant_pad_nd"] == 15


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes_refuse_bools(name, target):
    same(*both(lambda x: getattr(torch, name)(x), lambda: torch.tensor([True, False], device=target)))


@pytest.mark.parametrize("alpha", [1, -1, True, False])
def test_bools_are_added_up_as_disjunctions(alpha, target):
    """A factor of -1 counts as true."""
    x, source = torch.tensor([True, False, False], device=target), torch.tensor([True, True, True, False], device=target)
    index = torch.tensor([0, 0, 1, 2], device=target)
    same(*both(lambda index: x.index_add(0, index, source, alpha=alpha), lambda: index))


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced"])
def test_repeated_indices_on_cpus_are_taken_in_order(layout, dim):
    """fp32 sums are ATen's, bit for bit: elements beside each other are taken together, others one by one."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 6, 300, generator=generator)
    x = {"contiguous": x, "transposed": x.transpose(1, 2).contiguous().transpose(1, 2), "sliced": torch.randn(7, 6, 600, generator=generator)[:, :, ::2]}[layout]
    index, each = torch.randint(0, x.shape[dim], (x.shape[dim], ), generator=generator), torch.randint(0, x.shape[dim], x.shape, generator=generator)
    names = ["index_add", "scatter_add", "scatter_reduce", "index_copy", "index_put"]
    places = (*(slice(None), ) * dim, index)
    calls = (lambda: x.index_add(dim, index, x), lambda: x.scatter_add(dim, each, x), lambda: x.index_copy(dim, index, x), lambda: x.scatter_reduce(dim, each, x, "amax"),
             lambda: torch.ops.aten.index_put(x, [None] * dim + [index], x[places], True))
    for call in calls:
        expected = call()
        with nereid.ops.use(only=names, routing=False):
            assert torch.equal(call(), expected)


@pytest.mark.parametrize("name,call", {
    "gather": lambda x, i: x.gather(1, i), "scatter": lambda x, i: x.scatter(1, i, x), "scatter number": lambda x, i: x.scatter(1, i, 2.0), "scatter_add": lambda x, i: x.scatter_add(1, i, x),
    "scatter_reduce": lambda x, i: x.scatter_reduce(1, i, x, "prod"), "take": lambda x, i: x.take(i), "gather strided": lambda x, i: x.t().gather(1, i.t()),
    "scatter_add_": lambda x, i: x.scatter_add_(1, i, x.clone()),
}.items(), ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_an_index_that_does_not_exist_after_calls_that_were_repeated(name, call, dtype):
    """The call is recorded, and indices are checked while elements move: a bad one is ATen's error, and a later good one works."""
    x, index = torch.randn(7, 37).to(dtype), torch.randint(0, 37, (7, 37))
    bad = index.clone()
    bad[3, 5] = 7 * 37
    negative = index.clone()
    negative[6, 36] = -400
    for indices in (index, index, bad, negative, index):
        same(*both(lambda x, i: call(x, i), lambda: x.clone(), lambda: indices.clone()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_sums_of_16_bits_are_rounded_once(dtype):
    x, index, source = torch.ones(1, 3, dtype=dtype), torch.zeros(1, 4096, dtype=torch.int64), torch.full((1, 4096), 0.25, dtype=dtype)
    with nereid.ops.use():
        assert x.scatter_add(1, index, source)[0, 0] == 1025 - (dtype == torch.bfloat16)


@pytest.mark.parametrize("diagonal", [-70, -33, -1, 0, 1, 31, 32, 63, 64, 65, 300])
@pytest.mark.parametrize("shape", [(5, 3), (70, 66), (2, 3, 40, 64), (33, 300)], ids=str)
@pytest.mark.parametrize("upper", [False, True])
def test_triangles(shape, diagonal, upper):
    """Borders on both sides of the elements that are copied and cleared at once; of contiguous, transposed and sliced matrices, in place and into others."""
    for dtype in (torch.float32, torch.int8, torch.complex64):
        x = filled(dtype, shape, "cpu")
        for make in (lambda: x.clone(), lambda: x.mT.contiguous().mT, lambda: torch.cat([x, x], -1)[..., ::2]):
            same(*both(lambda x: x.triu(diagonal) if upper else x.tril(diagonal), make))
            same(*both(lambda x: x.triu_(diagonal) if upper else x.tril_(diagonal), make))
            same(*both(lambda x, out: (torch.triu if upper else torch.tril)(x, diagonal, out=out), make, lambda: torch.empty_like(x.mT).mT))


@pytest.mark.parametrize("widths", [(1, 2), (64, 1, 300), (5000, 4096), tuple(range(1, 12))], ids=str)
def test_rows_side_by_side(widths):
    for rows in (1, 3, 9, 70):
        same(*both(lambda *x: torch.cat(x, 1), *[lambda width=width: filled(torch.int16, (rows, width), "cpu") for width in widths]))


@pytest.mark.parametrize("shape", [(33, ), (1, 200), (7, 37), (3, 5, 70)], ids=str)
@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32, torch.complex64], ids=str)
def test_flips(shape, dtype):
    x = filled(dtype, shape, "cpu")
    for d in range(len(shape)):
        same(*both(lambda x: x.flip(d), lambda: x))
        same(*both(lambda x: x.flip(d, (d + 1) % len(shape)) if len(shape) > 1 else x.flip(0), lambda: torch.cat([x, x], -1)[..., ::2]))


@pytest.mark.parametrize("factor", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32], ids=str)
def test_pixels(factor, dtype):
    for height, width in ((1, 1), (3, 17), (5, 40)):
        x = filled(dtype, (2, 3 * factor * factor, height, width), "cpu")
        same(*both(lambda x: torch.pixel_shuffle(x, factor), lambda: x))
        same(*both(lambda x: torch.pixel_unshuffle(torch.pixel_shuffle(x, factor), factor), lambda: x))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64], ids=str)
@pytest.mark.parametrize("length", [2, 65, 257, 1000, 4097, 9000])
def test_rows_of_64_bits(dtype, length):
    """Keys that differ in either half only, signs, equal ones and not-a-numbers."""
    generator = torch.Generator().manual_seed(0)
    small, large = (torch.randint(-bound, bound, (3, length), generator=generator) for bound in (4, 2**62))
    x = torch.cat([small, large, small << 32, (small << 32) + large % 4, large | 2**31])
    if dtype == torch.float64:
        x = x.view(torch.float64) if length % 2 else x.to(torch.float64)
        x[0, length // 2] = float("nan")
        x[1, : length // 2] = -0.0
    for descending in (False, True):
        same(*both(lambda x: x.sort(stable=True, dim=1, descending=descending), lambda: x))
    with nereid.ops.use():
        for count in {1, 2, min(50, length)}:
            for largest in (False, True):
                values, places = x.topk(count, 1, largest)
                wanted, first = x.sort(stable=True, dim=1, descending=largest)
                assert torch.equal(values.nan_to_num(7), wanted[:, :count].nan_to_num(7)) if dtype == torch.float64 else torch.equal(values, wanted[:, :count])
                assert torch.equal(places, first[:, :count])
        for k in (1, length // 2, length):
            values, places = x.kthvalue(k, 1)
            assert torch.equal(x.gather(1, places[:, None])[:, 0].nan_to_num(7), x.sort(1)[0][:, k - 1].nan_to_num(7)) if dtype == torch.float64 else torch.equal(
                values, x.sort(1)[0][:, k - 1])
