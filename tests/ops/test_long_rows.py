"""Long rows: elements chosen by rank, and rows sorted by digits. Values and places are those of a stable sort, also among equal elements, NaN and both zeros."""

import nereid.ops
import numpy as np
import pytest
import torch
from nereid.ops import _sorted

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def rows(shape, dtype, seed, few=False):
    """Random elements, few different ones or many, with special values."""
    generator = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        low, high = (0, 5) if few else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
        return torch.randint(low, high, shape, generator=generator, dtype=torch.int64).to(dtype)
    x = torch.randn(shape, generator=generator, dtype=torch.float64) * 3
    x = (x.round() if few else x).to(dtype)
    for value in (float("nan"), float("inf"), -float("inf"), -0.0, 0.0):
        x[torch.rand(shape, generator=generator) < 0.01] = value
    return x


def order_of(x, descending):
    """Places of the elements of the last dimension in the order that is documented: NaN above all, -0.0 equals 0.0, equal ones in their order."""
    wide = x.double() if x.is_floating_point() else x.to(torch.int64)
    its = torch.where(wide == 0, torch.zeros_like(wide), wide).numpy()
    if x.is_floating_point():
        rank = np.where(np.isnan(its), np.inf, its)
        keys = (-rank, ~np.isnan(its)) if descending else (rank, np.isnan(its))
    else:
        keys = (-1 - its, ) if descending else (its, )
    return torch.from_numpy(np.stack([np.lexsort([key[row] for key in keys]) for row in range(len(its))]))


def check(found, x, wanted):
    """found: (values, places) along the last dimension; wanted: places."""
    values, places = (tensor.cpu() for tensor in found)
    assert torch.equal(places, wanted)
    same(values, x.gather(-1, wanted))


def same(found, wanted):
    """Equal bits, but for those of NaN."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[wanted.element_size()]
    assert torch.equal(torch.isnan(found), torch.isnan(wanted))
    assert torch.equal(found.contiguous().view(bits)[~torch.isnan(wanted)], wanted.contiguous().view(bits)[~torch.isnan(wanted)])


@pytest.mark.parametrize("length,k,dtype", [*[(length, k, dtype) for length, k in ((1030, 1), (40000, 64), (17000, 4096)) for dtype in FLOATS[:2]],
                                            *[(9001, 300, dtype) for dtype in FLOATS + INTS]], ids=str)
def test_chosen(length, k, dtype, target):
    """`topk`: blocks choose their first elements, more than one time in longer rows."""
    for few in (False, True):
        x = rows((2, length), dtype, length, few)
        for largest in (True, False):
            wanted = order_of(x, largest)[:, :k]
            with nereid.ops.use():
                check(x.to(target).topk(k, 1, largest=largest), x, wanted)
    turned = x.t().contiguous().to(target)
    out = torch.empty(2 * k, 2, dtype=dtype, device=target)[::2], torch.empty(2, k, dtype=torch.int64, device=target).t()
    with nereid.ops.use():
        torch.topk(turned, k, 0, largest=False, out=out)
    check([tensor.t() for tensor in out], x, wanted)
    assert all(row.route == "nereid" for row in nereid.ops.report() if row.overload.startswith("topk"))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.float32, torch.bfloat16, torch.uint8], ids=str)
@pytest.mark.parametrize("pattern", ["few groups", "equal", "ascending", "descending"])
def test_chosen_from_patterns(pattern, dtype, target):
    """`topk` of rows in which the first elements share few groups, so that more of them are below the bound of the groups than there is room for; and of equal and sorted elements."""
    length, k = 20011, 70
    i = torch.arange(length)
    x = {"few groups": torch.where(i % 256 < 40, i * 7 % 90, 100 + i % 20), "equal": i * 0 + 3, "ascending": i // 90, "descending": (length - i) // 90}[pattern]
    x = torch.stack([x, (x * 3) % 251]).clamp(max=255).to(dtype)
    for largest in (False, True):
        its = 255 - x if largest else x
        wanted = order_of(its, largest)[:, :k]
        with nereid.ops.use():
            check(its.to(target).topk(k, 1, largest=largest), its, wanted)
    assert all(row.route == "nereid" for row in nereid.ops.report() if row.overload.startswith("topk"))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.float32, torch.int16], ids=str)
@pytest.mark.parametrize("length", [4097, 12288, 30001])
def test_merged(length, dtype, target):
    """Rows that are sorted in blocks and merged, in all orders of the blocks, with other strides; the last run has no neighbour, or one of another length."""
    for few in (False, True):
        x = rows((2, length), dtype, length, few)
        x[1] = x[1, order_of(x, few)[1]]
        for descending in (False, True):
            wanted = order_of(x, descending)
            with nereid.ops.use():
                check(x.to(target).sort(dim=1, stable=True, descending=descending), x, wanted)
                values, places = x.t().contiguous().to(target).sort(dim=0, stable=True, descending=descending)
            check((values.t(), places.t()), x, wanted)
    part = torch.empty(2, 900, dtype=dtype, device=target), torch.empty(2, 900, dtype=torch.int64, device=target)
    _sorted.sort(x.to(target), 1, *part, first=3000, count=900)
    check(part, x, order_of(x, False)[:, 3000:3900])
    assert all(row.route == "nereid" for row in nereid.ops.report() if row.overload.startswith("sort"))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_medians_of_long_rows(dtype, target):
    """Along a dimension and of all elements; the last not-a-number is the result of `median`, they do not count in `nanmedian`."""
    x = rows((2, 20000), dtype, 3)
    if dtype.is_floating_point:
        x[1] = torch.where(torch.isnan(x[1]), 1, x[1])
    wanted = order_of(x, False)
    numbers = (~torch.isnan(x)).sum(1, keepdim=True) if dtype.is_floating_point else torch.full((2, 1), 20000)
    with nereid.ops.use():
        check([tensor[:, None] for tensor in x.to(target).nanmedian(1)], x, wanted.gather(1, (numbers - 1) // 2))
        middle = torch.where(numbers < 20000, 19999, 9999)
        check([tensor[:, None] for tensor in x.to(target).median(1)], x, wanted.gather(1, middle))
        same(x.to(target).median().cpu(), x.median())
        same(x.t().contiguous().to(target).nanmedian(0).values.cpu(), x.nanmedian(1).values)
    assert all(row.route == "nereid" for row in nereid.ops.report() if "median" in row.overload)


@pytest.mark.parametrize("dtype", FLOATS + INTS, ids=str)
@pytest.mark.parametrize("length", [1, 2, 100, 5000, 17001])
def test_by_rank(length, dtype, target):
    """`kthvalue`: rows that one program holds, and longer ones."""
    for few in (False, True):
        x = rows((3, length), dtype, length, few)
        wanted = order_of(x, False)
        for k in {1, (length + 1) // 2, length}:
            with nereid.ops.use():
                check(x.to(target).kthvalue(k, 1, keepdim=True), x, wanted[:, k - 1:k])
    assert all(row.route == "nereid" for row in nereid.ops.report() if row.overload.startswith("kthvalue"))


@pytest.fixture
def by_digits(monkeypatch):
    """Also short rows, and rows on the CPU, are sorted by digits."""
    monkeypatch.setattr(_sorted, "_radix_from", lambda x: 0)


@pytest.mark.parametrize("dtype", FLOATS + INTS + [torch.bool], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 300), (1, 30000)], ids=str)
def test_digits(shape, dtype, target, by_digits):
    for few in (False, True):
        x = rows(shape, torch.uint8, 1, True).bool() if dtype == torch.bool else rows(shape, dtype, 1, few)
        for descending in (False, True):
            wanted = order_of(x, descending)
            its = x.to(target)
            with nereid.ops.use():
                check(its.sort(dim=1, stable=True, descending=descending), x, wanted)
                values, places = its.t().contiguous().sort(dim=0, stable=True, descending=descending)
            check((values.t(), places.t()), x, wanted)
    assert all(row.route == "nereid" for row in nereid.ops.report() if row.overload.startswith("sort"))


def test_parts_of_digits(target, by_digits):
    """Rows in two dimensions, results of other strides, a part of the sorted row, no places."""
    x = rows((2, 3, 9000), torch.float32, 5)
    turned = x.permute(1, 2, 0).to(target)
    wanted = torch.stack([order_of(part, False) for part in x])
    values, places = torch.empty(2, 3, 500, device=target), torch.empty(2, 3, 1000, dtype=torch.int64, device=target)[..., ::2]
    _sorted.sort(turned, 1, values.permute(1, 2, 0), places.permute(1, 2, 0), first=700, count=500)
    assert torch.equal(places.cpu(), wanted[..., 700:1200])
    same(values.cpu(), x.gather(-1, wanted[..., 700:1200]))
    _sorted.sort(turned, 1, None, places.permute(1, 2, 0), first=100, count=500)
    assert torch.equal(places.cpu(), wanted[..., 100:600])
    _sorted.sort(turned, 1, values.permute(1, 2, 0), None, first=0, count=500)
    same(values.cpu(), x.gather(-1, wanted[..., :500]))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(200_001, ), (2, 140_000), (140_000, 3)], ids=str)
def test_scans_in_parts(shape, dtype, target):
    """Long rows with few others beside them are cut into parts, each of which begins with what the parts before it come to; places of extremes count from the row's beginning."""
    dim, generator = max(range(len(shape)), key=shape.__getitem__), torch.Generator().manual_seed(0)
    x = torch.randint(-3, 4, shape, generator=generator)
    signs = torch.where(torch.rand(shape, generator=generator) < 1e-3, -1, 1)
    rare = torch.where(torch.rand(shape, generator=generator) < 1e-4, torch.randint(0, 100, shape, generator=generator), 0)
    with nereid.ops.use(only=["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"], routing=False):
        if dtype is not torch.bfloat16:
            assert torch.equal(x.to(target, dtype).cumsum(dim).cpu(), x.cumsum(dim).to(dtype))
        assert torch.equal(signs.to(target, dtype).cumprod(dim).cpu(), signs.cumprod(dim).to(dtype))
        for name, given in (("cummax", rare), ("cummin", -rare)):
            for mine, its in zip(getattr(torch, name)(given.to(target, dtype), dim), getattr(torch, name)(given, dim)):
                assert torch.equal(mine.cpu(), its.to(mine.dtype))
        if dtype is torch.float64:
            torch.testing.assert_close(x.to(target, dtype).logcumsumexp(dim).cpu(), x.to(dtype).logcumsumexp(dim))
