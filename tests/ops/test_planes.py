"""Operators on lines, planes and volumes where PyTorch has no samples: filters, memory formats, `out=` overloads (table_planes.py has the rest)."""

import pytest
import torch

import nereid.ops
from opinfo import compare_call

aten = torch.ops.aten
FILTERS = [("_upsample_bicubic2d_aa", torch.float32), ("_upsample_bicubic2d_aa", torch.float64), ("_upsample_lanczos2d_aa", torch.float32),
           ("_upsample_lanczos2d_aa", torch.float64)]


@pytest.mark.parametrize("name,dtype", FILTERS, ids=str)
@pytest.mark.parametrize("sizes", [(5, 9), (30, 11)])
def test_filters(name, dtype, sizes, target):
    if not hasattr(aten, name) and tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13):
        pytest.skip(f"PyTorch {torch.__version__} has no `{name}`; the version that the project tests with has it")
    x = torch.randn(2, 3, 17, 12, dtype=dtype).to(target)
    gradient = torch.randn(2, 3, *sizes, dtype=dtype).to(target)
    for aligned in (False, True):
        compare_call(lambda x: getattr(aten, name)(x, sizes, aligned), x, only=name, absolute=16)
        compare_call(lambda x: getattr(aten, name + "_backward")(x, sizes, (2, 3, 17, 12), aligned), gradient, only=name + "_backward", absolute=16)


CALLS = {
    "max_pool3d_with_indices": lambda x: aten.max_pool3d_with_indices(x, [2, 3, 2], [2, 2, 1], [1, 1, 0], 1, True),
    "avg_pool3d": lambda x: aten.avg_pool3d(x, [2, 3, 2], [2, 2, 1], [1, 1, 0], True, False),
    "_adaptive_avg_pool3d": lambda x: aten._adaptive_avg_pool3d(x, [3, 2, 4]), "adaptive_max_pool3d": lambda x: aten.adaptive_max_pool3d(x, [3, 2, 4]),
    "upsample_nearest3d": lambda x: aten.upsample_nearest3d(x, [3, 9, 8]), "upsample_trilinear3d": lambda x: aten.upsample_trilinear3d(x, [3, 9, 8], False),
}
GRADIENTS = {
    "max_pool3d_with_indices_backward": lambda x, y: aten.max_pool3d_with_indices_backward(
        aten.max_pool3d_with_indices(x, 2)[0], x, 2, [], 0, 1, False, aten.max_pool3d_with_indices(x, 2)[1]),
    "avg_pool3d_backward": lambda x, y: aten.avg_pool3d_backward(aten.avg_pool3d(x, 2), x, 2, [], 0, False, True, None),
    "_adaptive_avg_pool3d_backward": lambda x, y: aten._adaptive_avg_pool3d_backward(y, x), "adaptive_max_pool3d_backward": lambda x, y: aten.adaptive_max_pool3d_backward(
        y, x, aten.adaptive_max_pool3d(x, [3, 2, 4])[1]),
    "upsample_nearest3d_backward": lambda x, y: aten.upsample_nearest3d_backward(y, [3, 2, 4], x.shape),
    "upsample_trilinear3d_backward": lambda x, y: aten.upsample_trilinear3d_backward(y, [3, 2, 4], x.shape, False),
}


@pytest.mark.parametrize("name", [*CALLS, *GRADIENTS])
@pytest.mark.parametrize("layout", ["contiguous", "channels last", "no batch", "permuted"])
def test_volumes(name, layout, target):
    """Results have the strides of ATen's."""
    x, y = torch.randn(2, 4, 5, 6, 7).to(target), torch.randn(2, 4, 3, 2, 4).to(target)
    if layout == "channels last":
        x, y = (tensor.contiguous(memory_format=torch.channels_last_3d) for tensor in (x, y))
    elif layout == "permuted":
        x, y = (tensor.permute(0, 2, 3, 4, 1).contiguous().permute(0, 4, 1, 2, 3).transpose(3, 4) for tensor in (x, y.transpose(3, 4)))
        if "backward" in name:
            return
    elif layout == "no batch":
        if name.startswith("upsample"):
            return
        x, y = x[0], y[0]
    if name in CALLS:
        compare_call(CALLS[name], x, only=name)
    else:
        compare_call(GRADIENTS[name], x, y, only=name)


@pytest.mark.parametrize("rank", [2, 3])
def test_adaptive_means_with_out(rank, target):
    x = torch.randn(2, 3, *(7, 8, 9)[:rank]).to(target)
    sizes = [3, 4, 2][:rank]
    operator = getattr(aten, f"adaptive_avg_pool{rank}d")
    compare_call(lambda x: operator.out(x, sizes, out=torch.empty(0, device=x.device, dtype=x.dtype)), x, only=f"adaptive_avg_pool{rank}d.out")


def test_gradient_of_adaptive_means_with_out(target):
    x, y = torch.randn(2, 3, 7, 8, 9).to(target), torch.randn(2, 3, 4, 3, 2).to(target)
    compare_call(lambda y, x: aten.adaptive_avg_pool3d_backward.grad_input(y, x, grad_input=torch.empty(0, device=x.device, dtype=x.dtype)), y, x,
                 only="adaptive_avg_pool3d_backward.grad_input")


PLANES = {
    "grid_sampler_2d": lambda x, g: aten.grid_sampler_2d(x, g, 0, 0, False), "grid_sampler_2d_backward": lambda x, g: aten.grid_sampler_2d_backward(
        aten.grid_sampler_2d(x, g, 0, 0, False), x, g, 0, 0, False, [True, True]), "reflection_pad2d": lambda x, g: aten.reflection_pad2d(x, [1, 1, 1, 1]),
    "replication_pad2d": lambda x, g: aten.replication_pad2d(x, [1, 1, 1, 1]), "im2col": lambda x, g: aten.im2col(x, [2, 2], [1, 1], [0, 0], [1, 1]),
    "renorm": lambda x, g: aten.renorm(x, 2, 0, 1.0), "linalg_cross": lambda x, g: aten.linalg_cross(x[:, :3], x[:, 1:], dim=1), "upsample_bicubic2d": lambda x, g: aten.upsample_bicubic2d(
        x, [5, 5], False), "narrow_copy": lambda x, g: aten.narrow_copy(x, 1, 0, 2), "channel_shuffle": lambda x, g: aten.channel_shuffle(x.contiguous(), 2),
}


@pytest.mark.parametrize("name", PLANES)
def test_channels_last(name, target):
    x = torch.randn(2, 4, 9, 8).to(target).contiguous(memory_format=torch.channels_last)
    compare_call(PLANES[name], x, torch.rand(2, 4, 5, 2).to(target) * 2 - 1, only=name, absolute=16)


@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize("name", ["replication_pad3d", "reflection_pad3d"])
def test_padded_volumes_channels_last(name, batch, target):
    """Without a batch, too, ATen keeps on CPUs what four dimensions look like."""
    x = torch.randn(2, 4, 5, 6, 7).to(target).contiguous(memory_format=torch.channels_last_3d)
    x = x if batch else x[0].contiguous(memory_format=torch.channels_last)
    pad, gradient = getattr(aten, name), getattr(aten, name + "_backward")
    compare_call(lambda x: pad(x, [1, 2, 0, 1, 2, 1]), x, only=name)
    compare_call(lambda x: gradient(torch.ones_like(pad(x, [1, 2, 0, 1, 2, 1])), x, [1, 2, 0, 1, 2, 1]), x, only=name + "_backward")


def test_means_of_volumes_smaller_than_a_window(target):
    """ATen refuses them, although padding, or rounding up, would give a result."""
    x = torch.randn(2, 3, 1, 5, 5).to(target)
    for call in (lambda: aten.avg_pool3d(x, [2, 1, 1], [3, 1, 1], 0, True), lambda: aten.avg_pool3d(x, [2, 1, 1], [1, 1, 1], [1, 0, 0]),
                 lambda: aten.avg_pool3d_backward(x, x, [2, 1, 1], [3, 1, 1], [0, 0, 0], True, True, None)):
        with nereid.ops.use(routing=False), pytest.raises(RuntimeError, match="smaller than kernel size"):
            call()


def test_repeated_calls(target):
    """A recorded call gives other results for other elements, and asks again whether indices exist."""

    def calls(seed):
        generator = torch.Generator().manual_seed(seed)
        table, planes, grid = torch.randn(10, 40, generator=generator), torch.randn(2, 2, 9, 8, generator=generator), torch.rand(2, 4, 5, 2, generator=generator)
        indices, offsets = torch.randint(0, 10, (8, ), generator=generator), torch.tensor([0, 3, 3, 5])
        table, planes, grid, indices, offsets = (tensor.to(target) for tensor in (table, planes, grid, indices, offsets))
        sums, owners, sizes, places = aten._embedding_bag(table, indices, offsets, False, 2)
        yield sums
        yield aten._embedding_bag_backward(sums, indices, offsets, owners, sizes, places, 10, False, 1, False, None)
        pooled, places = aten.max_pool2d_with_indices(planes, [2, 2])
        yield aten.max_pool2d_with_indices_backward(pooled, planes, [2, 2], [2, 2], [0, 0], [1, 1], False, places)
        yield aten.max_unpool2d(pooled, places, [9, 8])
        yield aten._upsample_bilinear2d_aa(planes, [5, 11], False)
        yield from aten.grid_sampler_2d_backward(aten.grid_sampler_2d(planes, grid, 0, 0, False), planes, grid, 0, 0, False, [True, True])
        yield aten.renorm(table, 2, 0, 1.0)
        yield aten.multi_margin_loss(table, indices[:1].repeat(10))
        yield aten._cdist_forward(table[:5], table[5:], 1.5, 2)

    expected = [list(calls(seed)) for seed in range(3)]
    with nereid.ops.use():
        found = [list(calls(seed)) for seed in range(3)]
        rows = [row for row in nereid.ops.report() if row.reason not in ("device", "devices")]  # copies from the host to a GPU are ATen's
        assert {row.route for row in rows} == {"nereid"}, rows
        if target == "cpu":
            with pytest.raises(RuntimeError, match="17"):
                aten._embedding_bag(torch.zeros(10, 40), torch.tensor([0, 1, 2, 3, 4, 5, 6, 17]), torch.tensor([0, 3, 3, 5]), False, 2)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_factors_of_nearest_elements_whose_sizes_stay_or_double(rank, channels, target):
    """Which of ATen's CPU kernels ignore them depends on the rank, and of volumes on the order and number of channels."""
    for form in [torch.contiguous_format, *[[], [torch.channels_last], [torch.channels_last_3d]][rank - 1]]:
        x = torch.arange(channels * 3**rank, dtype=torch.float32, device=target).view(1, channels, *[3] * rank).contiguous(memory_format=form)
        for factor in (1.0, 1.3, 2.0, 2.3):
            compare_call(lambda x: torch.nn.functional.interpolate(x, scale_factor=factor, mode="nearest", recompute_scale_factor=False), x, only=f"upsample_nearest{rank}d")
