"""Pooling, interpolation, padding and patches of lines longer than a block, with special values, memory formats and windows that PyTorch's samples lack; scans with a running maximum."""

import pytest
import torch

import nereid.ops
from nereid.ops.aten import interpolation
from nereid.ops.aten import padding as declared
from opinfo import compare_call

aten = torch.ops.aten
LAYOUTS = {
    "contiguous": lambda x: x.contiguous(), "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "turned": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
}
#: kernel, stride, padding, dilation, ceil_mode
WINDOWS = [([3, 3], [2, 2], [1, 1], [1, 1], False), ([2, 2], [2, 2], [0, 0], [1, 1], True), ([3, 2], [1, 3], [1, 0], [2, 3], True), ([2, 5], [4, 1], [1, 2], [1, 1], False)]


def special(shape, dtype, seed=0):
    """Few different numbers, so that there are ties, with not-a-numbers, infinities and zeros of both signs."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-3, 4, shape, generator=generator).to(dtype)
    if dtype.is_floating_point:
        for value, share in ((float("-inf"), 0.3), (float("nan"), 0.02), (float("inf"), 0.02), (-0.0, 0.1)):
            x[torch.rand(shape, generator=generator) < share] = value
        x[0, 0] = float("-inf")
    return x


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64], ids=str)
def test_greatest_elements(dtype, windows, layout, target):
    """Values and places are those of ATen on a CPU, among them those of windows of equal elements, of -inf and of NaN. (On GPUs ATen has no integers, and places of -inf differ by layout.)"""
    x = LAYOUTS[layout](special((2, 19, 13, 70), dtype)).to(target)
    expected = [result.to(target) for result in aten.max_pool2d_with_indices(x.cpu(), *windows)]
    with nereid.ops.use(routing=False):
        found = aten.max_pool2d_with_indices(x, *windows)
    assert [row.route for row in nereid.ops.report() if row.overload == "max_pool2d_with_indices"] == ["nereid"]
    torch.testing.assert_close(list(found), expected, rtol=0, atol=0, equal_nan=True)
    assert [result.stride() for result in found] == [result.stride() for result in expected]


@pytest.mark.parametrize("sizes", [[3, 7], [1, 1], [9, 40]], ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "channels last"])
def test_greatest_elements_of_adaptive_windows(sizes, layout, target):
    x = LAYOUTS[layout](special((2, 19, 13, 70), torch.float32)).to(target)
    expected = aten.adaptive_max_pool2d(x, sizes)
    with nereid.ops.use(routing=False):
        found = aten.adaptive_max_pool2d(x, sizes)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def test_windows_without_elements(target):
    """Places of windows that lie in the padding with all their elements are those that ATen gives."""
    x = torch.randn(1, 2, 1, 70).to(target)
    options = ([2, 2], [1, 1], [1, 1], [2, 1])
    expected = aten.max_pool2d_with_indices(x, *options)
    with nereid.ops.use(routing=False):
        found = aten.max_pool2d_with_indices(x, *options)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradient_of_greatest_elements(dtype, windows, layout, target):
    """Sums of windows that overlap are those of fp64; places that do not exist get nothing."""
    x = torch.randn(2, 19, 13, 70).to(dtype)
    values, places = aten.max_pool2d_with_indices(x, *windows)
    gradient = torch.randn(values.shape).to(dtype)
    wide = aten.max_pool2d_with_indices_backward(gradient.double(), x.double(), *windows, places)
    x, gradient, places = (LAYOUTS[layout](tensor).to(target) for tensor in (x, gradient, places))
    with nereid.ops.use(routing=False):
        found = aten.max_pool2d_with_indices_backward(gradient, x, *windows, places)
    torch.testing.assert_close(found.cpu().double(), wide, rtol=4 * torch.finfo(dtype).eps, atol=8 * torch.finfo(dtype).eps)
    assert [row.route for row in nereid.ops.report() if row.overload == "max_pool2d_with_indices_backward"] == ["nereid"]


@pytest.mark.parametrize("layouts", [("channels last", "contiguous", "channels last"), ("channels last", "channels last", "turned"), ("contiguous", "channels last", "turned")],
                         ids=str)
def test_gradient_of_greatest_elements_in_mixed_formats(layouts, target):
    """The input's format, which the result gets, is not that of the given gradient or of the places."""
    x = torch.randn(2, 19, 13, 30)
    values, places = aten.max_pool2d_with_indices(x, *WINDOWS[0])
    gradient = torch.randn(values.shape)
    wide = aten.max_pool2d_with_indices_backward(gradient.double(), x.double(), *WINDOWS[0], places)
    x, gradient, places = (LAYOUTS[layout](tensor).to(target) for layout, tensor in zip(layouts, (x, gradient, places)))
    with nereid.ops.use(routing=False):
        found = aten.max_pool2d_with_indices_backward(gradient, x, *WINDOWS[0], places)
    torch.testing.assert_close(found.cpu().double(), wide, rtol=1e-6, atol=1e-6)
    assert [row.route for row in nereid.ops.report() if row.overload == "max_pool2d_with_indices_backward"] == ["nereid"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("more", [(False, True, None), (True, False, None), (True, True, 7)], ids=str)
@pytest.mark.parametrize("windows", [([3, 3], [2, 2], [1, 1]), ([2, 5], [3, 1], [0, 2])], ids=str)
def test_means(windows, more, layout, target):
    x = LAYOUTS[layout](torch.randn(2, 5, 13, 300)).to(target)
    compare_call(lambda x: aten.avg_pool2d(x, *windows, *more), x, only="avg_pool2d")
    gradient = LAYOUTS[layout](torch.randn(aten.avg_pool2d(x, *windows, *more).shape)).to(target)
    # With channels last, ATen's gradient on GPUs (PyTorch 2.11) is another one than on CPUs where windows leave elements out.
    compare_call(lambda g, x: aten.avg_pool2d_backward(g, x, *windows, *more), gradient, x, only="avg_pool2d_backward", host=layout == "channels last")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_adaptive_means(layout, target):
    x, gradient = (LAYOUTS[layout](torch.randn(2, 5, *sizes)).to(target) for sizes in ((13, 300), (20, 7)))
    compare_call(lambda x: aten._adaptive_avg_pool2d(x, [20, 7]), x, only="_adaptive_avg_pool2d")
    compare_call(lambda g, x: aten._adaptive_avg_pool2d_backward(g, x), gradient, x, only="_adaptive_avg_pool2d_backward")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [(26, 600), (5, 299), (17, 301)], ids=str)
@pytest.mark.parametrize("name,more", [("upsample_nearest2d", ()), ("_upsample_nearest_exact2d", ()), ("upsample_bilinear2d", (False, )), ("upsample_bilinear2d", (True, )),
                                       ("upsample_bicubic2d", (False, )), ("upsample_bicubic2d", (True, ))], ids=str)
def test_interpolation(name, more, sizes, layout, target):
    x, gradient = (LAYOUTS[layout](torch.randn(2, 5, *its)).to(target) for its in ((13, 300), sizes))
    compare_call(lambda x: getattr(aten, name)(x, sizes, *more), x, only=name, absolute=512 if more else 0)
    compare_call(lambda g: getattr(aten, name + "_backward")(g, sizes, (2, 5, 13, 300), *more), gradient, only=name + "_backward", absolute=512)


@pytest.mark.parametrize("sizes", [(50, 33), (50, 40), (61, 33)], ids=str)
@pytest.mark.parametrize("name", ["upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"])
def test_factors_of_sizes_that_stay(name, sizes, target):
    """Where a factor near 1 leaves a size what it is, some of ATen's operators ignore it: `_KEPT` of aten/interpolation.py says which, on CPUs and on GPUs."""
    x, gradient = torch.randn(2, 3, 50, 33).to(target), torch.randn(2, 3, *sizes).to(target)
    more = (False, 1.01 if sizes[0] == 50 else 61 / 50, 1.02 if sizes[1] == 33 else 40 / 33)
    compare_call(lambda x: getattr(aten, name)(x, sizes, *more), x, only=name, absolute=512)
    compare_call(lambda g: getattr(aten, name + "_backward")(g, sizes, (2, 3, 50, 33), *more), gradient, only=name + "_backward", absolute=512)


@pytest.mark.parametrize("operator", interpolation._KEPT)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_kept_scales(operator, device):
    """The rule for each kind of device, without one: factors that ATen's kernels use for (5, 5), (5, 6) and (6, 6) from (5, 5)."""
    kept = {("linear", "cpu"): "each", ("linear gradient", "cpu"): "each", ("filter", "cpu"): "each", ("cubic", "cpu"): "never", ("filter gradient", "cpu"): "never", ("nearest plane", "cpu"): "never",
            ("filter", "cuda"): "never"}.get((operator, device), "all")
    for sizes in ((5, 5), (5, 6), (6, 6)):
        stay = [size == 5 for size in sizes]
        ignored = stay if kept == "each" else [kept == "all" and all(stay)] * 2
        assert interpolation._kept(operator, (0.9, 0.8), (5, 5), sizes, torch.device(device)) == tuple(1.0 if one else scale for one, scale in zip(ignored, (0.9, 0.8)))


@pytest.mark.parametrize("name", ["reflection_pad", "replication_pad"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("padding", [[3, 299, 2, 12], [0, 1, 5, 0], [-3, 2, 1, -1]], ids=str)
def test_padding(name, layout, padding, target):
    x = LAYOUTS[layout](torch.randn(2, 5, 13, 300)).to(target)
    compare_call(lambda x: getattr(aten, name + "2d")(x, padding), x, only=name + "2d", ulps=0, absolute=0)
    gradient = LAYOUTS[layout](torch.randn(getattr(aten, name + "2d")(x, padding).shape)).to(target)
    compare_call(lambda g, x: getattr(aten, name + "2d_backward")(g, x, padding), gradient, x, only=name + "2d_backward")


@pytest.mark.parametrize("name", ["reflection_pad", "replication_pad"])
@pytest.mark.parametrize("shape", [(2, 3, 150, 20), (2, 3, 4, 18, 9), (3, 1300)], ids=str)
def test_padding_of_planes(name, shape, target):
    """More rows than an item has and more columns than a block, with and without a depth; channels that are neighbours, results and inputs of other strides."""
    rank = max(1, len(shape) - 2)
    operator, padding = getattr(aten, f"{name}{rank}d"), [2, 1, 1, 3, 1, 2][:2 * rank]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).bfloat16().to(target)
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim(), torch.contiguous_format)
    for given in (x, x.contiguous(memory_format=last), x.transpose(-1, -2).contiguous().transpose(-1, -2), x.expand(x.shape)[..., ::2], x[:1].expand(x.shape)):
        compare_call(lambda x: operator(x, padding), given, only=f"{name}{rank}d", ulps=0, absolute=0)
        wanted = operator(given, padding)
        out = torch.empty(wanted.transpose(-1, -2).shape, dtype=x.dtype, device=target).transpose(-1, -2)
        with nereid.ops.use(only=[f"{name}{rank}d"], routing=False):
            assert torch.equal(operator(given, padding, out=out), wanted)


def test_sums_of_many_copies(target, monkeypatch):
    """The kernel of GPUs: a corner with 4,096 copies is no sum of 4,096 terms one after the other, whose error would be four times as large."""
    monkeypatch.setattr(declared, "by_lines", lambda device: False)
    gradient = torch.rand(64, 1, 64, 64, generator=torch.Generator().manual_seed(0)).to(target)
    with nereid.ops.use(routing=False, router=False):
        found = aten.replication_pad2d_backward(gradient, torch.zeros(64, 1, 1, 1, device=target), [0, 63, 0, 63])
    error = (found.flatten().double() - gradient.double().sum((1, 2, 3))).square().mean().sqrt()
    assert error < 4e-4, error


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("options", [([3, 3], [1, 1], [1, 1], [1, 1]), ([2, 3], [2, 1], [0, 2], [3, 1]), ([3, 2], [1, 2], [2, 3], [2, 4])], ids=str)
def test_patches(options, layout, target):
    """Patches of [kernel, dilation, padding, stride], and their sums."""
    x = LAYOUTS[layout](torch.randn(2, 3, 11, 300)).to(target)
    compare_call(lambda x: aten.im2col(x, *options), x, only="im2col", ulps=0, absolute=0)
    columns = aten.im2col(x, *options)
    compare_call(lambda columns: aten.col2im(columns, [11, 300], *options), columns, only="col2im")


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_grids(mode, padding, target):
    """Lines of places longer and shorter than a block; several places in one element, in order; places outside; more channels than programs."""
    for width in (150, 5):
        x, grid = torch.randn(2, 11, 4, 6).to(target), (torch.rand(2, 3, width, 2) * 2.4 - 1.2).to(target)
        gradient = torch.randn(2, 11, 3, width).to(target)
        compare_call(lambda x, grid: aten.grid_sampler_2d(x, grid, mode, padding, False), x, grid, only="grid_sampler_2d", ulps=16, absolute=16)
        compare_call(lambda g, x, grid: aten.grid_sampler_2d_backward(g, x, grid, mode, padding, False, [True, True]), gradient, x, grid, only="grid_sampler_2d_backward",
                     ulps=64, absolute=64)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("order", ["random", "ascending", "descending", "constant"])
def test_running_extremes(name, dtype, order, target):
    """Long rows: of equal elements the last place counts, NaN stays, and later NaNs take its place."""
    x = special((3, 1, 1000), dtype)[:, 0]
    if order == "random":
        x[2, :300] = x[2, 600:] = 1  # no NaN before the middle
    elif order == "constant":
        x.fill_(2)
    else:
        x = torch.arange(1000).repeat(3, 1).to(dtype)
        x = x if order == "ascending" else x.flip(1)
        if dtype.is_floating_point:
            x[1, 500] = x[1, 700] = float("nan")
    for its, dim in ((x.to(target), 1), (x.t().contiguous().to(target), 0), (x[:, ::3].to(target), 1)):
        expected = getattr(torch, name)(its, dim)
        with nereid.ops.use(routing=False):
            found = getattr(torch, name)(its, dim)
        torch.testing.assert_close(tuple(found), tuple(expected), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("width", [7, 40])
def test_places_of_volumes_that_are_no_numbers(width, target):
    """Nothing is there: the sample is 0, as for places outside of the volume."""
    x, grid = torch.randn(2, 3, 5, 6, 7), torch.rand(2, 3, 4, width, 3) * 2 - 1
    for i, value in enumerate((float("nan"), float("inf"), float("-inf"), 1e30)):
        grid[0, 0, i, i, i % 3] = value
    x, grid = x.to(target), grid.to(target)
    expected = aten.grid_sampler_3d(x, grid, 0, 0, True)
    with nereid.ops.use(routing=False):
        found = aten.grid_sampler_3d(x, grid, 0, 0, True)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert not found[0, :, 0, range(4), range(4)].any()
