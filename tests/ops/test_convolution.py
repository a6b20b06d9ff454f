"""Convolutions: sizes that no tile divides, windows of all kinds, layouts and strides, dtypes, what is left to ATen. Results and gradients against ATen's in fp64."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

import nereid.ops
import opinfo
from nereid.ops import convolution, products
from nereid.ops.aten import convolution as declared

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
NAMES = ("convolution", "convolution_backward")
CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


@pytest.fixture(autouse=True)
def full_precision():
    """Convolutions of fp32 take TF32 on GPUs by default."""
    before = torch.backends.cudnn.conv.fp32_precision
    torch.backends.cudnn.conv.fp32_precision = "ieee"
    yield
    torch.backends.cudnn.conv.fp32_precision = before


def name_of(parameter):
    """The name of a test's parameter: of a function its own, which has no address in it."""
    return getattr(parameter, "__name__", str(parameter))


def random(dtype, *shape, device="cpu"):
    return torch.randn(shape, dtype=torch.float64).to(dtype).to(device)


def check(function, x, w, bias=None, y=None, router=True, **options):
    """Compares the result and the gradients with ATen's, and in fp64. y: the gradient of the result, by default random and contiguous. Returns our result and gradients."""

    def call(change):
        tensors = [change(tensor.detach()).requires_grad_() if tensor is not None else None for tensor in (x, w, bias)]
        result = function(*tensors, **options)
        gradient = y
        if gradient is None:
            gradient = torch.arange(result.numel(), dtype=torch.float64).cos().view(result.shape).to(x.dtype).to(x.device)
        return (result.detach(), *torch.autograd.grad(result, [tensor for tensor in tensors if tensor is not None], change(gradient)))

    native, wide = call(lambda tensor: tensor), call(opinfo.widened)
    nereid.ops.report(clear=True)
    with nereid.ops.use(only=NAMES, router=router):
        ours = call(lambda tensor: tensor)
    assert {(row.overload, row.route) for row in nereid.ops.report()} == {(name, "nereid") for name in NAMES}, nereid.ops.report()
    magnitude = opinfo.magnitude((x, w, bias), native)
    opinfo.check(ours, native, wide, 4, f"{function.__name__} {opinfo.describe((x, w), options)}", False, 64 * magnitude)
    return ours


#: name: (function, shape of x, shape of w, options)
WINDOWS = {
    "3x3": (F.conv2d, (2, 3, 9, 11), (5, 3, 3, 3), {"padding": 1}),
    "channels": (F.conv2d, (2, 20, 9, 11), (24, 20, 3, 3), {"padding": 1}),
    "channels that fill no tile": (F.conv2d, (1, 200, 3, 4), (130, 200, 3, 3), {"padding": 1}),
    "many places": (F.conv2d, (1, 17, 33, 35), (18, 17, 3, 3), {"padding": 1}),
    "stride": (F.conv2d, (2, 20, 19, 21), (24, 20, 3, 3), {"padding": 1, "stride": 2}),
    "one of all": (F.conv2d, (2, 20, 19, 33), (24, 20, 3, 2), {"padding": (2, 1), "stride": (2, 3), "dilation": (1, 2)}),
    "stride and dilation": (F.conv2d, (1, 18, 23, 20), (17, 18, 3, 4), {"padding": (3, 0), "stride": (4, 2), "dilation": (2, 2)}),
    "gaps": (F.conv2d, (1, 17, 20, 21), (9, 17, 2, 1), {"stride": (5, 3)}),
    "depthwise": (F.conv2d, (2, 8, 19, 33), (8, 1, 3, 3), {"padding": 1, "groups": 8}),
    "depthwise, two each": (F.conv2d, (2, 8, 19, 33), (16, 1, 3, 3), {"padding": 1, "groups": 8, "stride": 2}),
    "groups": (F.conv2d, (2, 40, 7, 9), (48, 20, 3, 3), {"padding": 1, "groups": 2}),
    "many small groups": (F.conv2d, (2, 24, 17, 18), (24, 4, 3, 3), {"groups": 6}),
    "one place": (F.conv2d, (2, 20, 7, 9), (30, 20, 1, 1), {}),
    "one place, groups": (F.conv2d, (2, 40, 7, 9), (60, 20, 1, 1), {"groups": 2}),
    "one place, stride": (F.conv2d, (2, 20, 7, 9), (30, 20, 1, 1), {"stride": 2}),
    "whole": (F.conv2d, (3, 20, 5, 6), (30, 20, 5, 6), {}),
    "patches": (F.conv2d, (2, 3, 32, 48), (20, 3, 8, 16), {"stride": (8, 16)}),
    "large window": (F.conv2d, (1, 2, 30, 31), (3, 2, 11, 9), {"padding": 5}),
    "1d": (F.conv1d, (2, 20, 70), (30, 20, 3), {"padding": 1}),
    "1d causal": (F.conv1d, (2, 20, 70), (20, 1, 4), {"padding": 3, "groups": 20}),
    "1d one place": (F.conv1d, (2, 20, 70), (30, 20, 1), {}),
    "3d": (F.conv3d, (2, 6, 5, 7, 9), (10, 3, 3, 2, 3), {"padding": 1, "groups": 2, "stride": (1, 2, 1)}),
    "3d channels": (F.conv3d, (1, 18, 4, 7, 9), (20, 18, 3, 3, 2), {"padding": (1, 0, 1), "dilation": (1, 2, 1)}),
    "transposed": (F.conv_transpose2d, (2, 20, 9, 11), (20, 18, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    "transposed, groups": (F.conv_transpose2d, (2, 20, 9, 11), (20, 9, 3, 3),
                           {"stride": (2, 3), "padding": 1, "output_padding": (0, 2), "dilation": (2, 1), "groups": 2}),
    "transposed, far apart": (F.conv_transpose2d, (1, 17, 3, 4), (17, 5, 2, 2), {"stride": (5, 4)}),
    "transposed, depthwise": (F.conv_transpose2d, (2, 6, 9, 11), (6, 1, 3, 3), {"stride": 2, "groups": 6}),
    "transposed 1d": (F.conv_transpose1d, (2, 4, 9), (4, 2, 5), {"stride": 4, "padding": 1, "output_padding": 1, "dilation": 2, "groups": 2}),
    "transposed 3d": (F.conv_transpose3d, (1, 4, 3, 4, 5), (4, 17, 2, 2, 3), {"stride": 2}),
}


def tensors(name, dtype, device):
    function, x, w, options = WINDOWS[name]
    bias = w[1] * options.get("groups", 1) if "transpose" in function.__name__ else w[0]
    return function, *[random(dtype, *shape, device=device) for shape in (x, w, (bias, ))], options


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name, dtype, target):
    function, x, w, bias, options = tensors(name, dtype, target)
    check(function, x, w, bias, **options)


@pytest.mark.parametrize("name", [name for name, case in WINDOWS.items() if len(case[1]) > 3])
def test_channels_last(name, target):
    function, x, w, bias, options = tensors(name, torch.float32, target)
    form = CHANNELS_LAST[x.dim()]
    check(function, x.contiguous(memory_format=form), w.contiguous(memory_format=form), bias, **options)
    check(function, x.contiguous(memory_format=form), w, **options)
    check(function, x, w.contiguous(memory_format=form), **options)


def layouts(x):
    """The same shape in other places."""
    yield x.transpose(0, -1).contiguous().transpose(0, -1)
    wide = torch.zeros([2 * size for size in x.shape], dtype=x.dtype, device=x.device)
    wide[tuple([slice(None, None, 2)] * x.dim())] = x
    yield wide[tuple([slice(None, None, 2)] * x.dim())]
    yield torch.cat([x, x], 1)[:, :x.shape[1]]
    yield x[:1].expand(x.shape)
    yield x[:, :1].expand(x.shape)
    yield x[..., :1].expand(x.shape)


@pytest.mark.parametrize("name", ["3x3", "channels", "depthwise", "one place", "one place, stride", "patches", "1d", "transposed"])
def test_strides(name, target):
    function, x, w, bias, options = tensors(name, torch.float32, target)
    y = torch.ones(1, device=target).expand(function(x, w, bias, **options).shape)
    for other in layouts(x):
        check(function, other, w, bias.repeat_interleave(2)[::2], **options)
    for other in layouts(w):
        check(function, x, other, bias[:1].expand(bias.shape), y=y, **options)


@pytest.mark.parametrize("name", ["channels", "stride", "3d", "depthwise", "transposed, groups", "one place, groups"])
def test_wide_offsets(name, target, monkeypatch):
    """Offsets of 64 bits give the same."""
    function, x, w, bias, options = tensors(name, torch.float32, target)
    monkeypatch.setattr(convolution, "_reach", lambda *views: True)
    check(function, x, w, bias, router=False, **options)
    if x.dim() == 4:
        check(function, x.contiguous(memory_format=torch.channels_last), w, bias, router=False, **options)


def test_offsets_that_need_64_bits():
    """Which tensors get them, on tensors that have no memory."""
    with FakeTensorMode():
        for shape, wide in (((32, 64, 1024, 1024), False), ((33, 64, 1024, 1024), True), ((1, 3, 32, 32), False)):
            x = torch.empty(shape)
            assert convolution._reach((x.shape, x.stride())) is wide
        x = torch.empty(1, 1, 64, 64).expand(64, 64, 64, 64)
        assert not convolution._reach((x.shape, x.stride()))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("name", ["channels", "groups", "large window"])
def test_parts(name, layout, target, monkeypatch):
    """Deep sums are cut into parts, which are added in their order: the same numbers each time; the bias counts once."""
    function, x, w, bias, options = tensors(name, torch.float32, target)
    cut = products.Tiles(16, 16, 16, 5)
    launched = []
    launch = convolution.launch
    monkeypatch.setattr(convolution, "_product_tiles", lambda *args: cut)
    monkeypatch.setattr(convolution, "_weight_tiles", lambda *args: cut)
    monkeypatch.setattr(convolution, "_weigh_shifted", lambda *args: False)  # products, which are cut by themselves
    monkeypatch.setattr(convolution, "launch", lambda kernel, grid, *args, **more: (launched.append((kernel.__name__, grid[2])), launch(kernel, grid, *args, **more)))
    first = check(function, x.contiguous(memory_format=layout), w, bias, router=False, **options)
    # Not cut are on GPUs sums over few channels, whose elements all have a place of their own, and on CPUs those over many.
    whole = (target == "cuda") == (name == "large window")
    assert {kernel for kernel, parts in launched if parts > 1} == ({"correlate_weights"} if whole else {"correlate", "correlate_weights"})
    again = check(function, x.contiguous(memory_format=layout), w, bias, router=False, **options)
    assert all(torch.equal(one, other) for one, other in zip(first, again))


def test_second_gradients(target):
    for name in ("3x3", "stride", "depthwise", "transposed, groups", "1d"):
        function, x, w, bias, options = tensors(name, torch.float64, target)
        x, w, bias = (tensor[:1, ..., :7] if tensor is x else tensor for tensor in (x, w, bias))
        with nereid.ops.use(only=NAMES):
            assert torch.autograd.gradgradcheck(lambda *args: function(*args, **options), [tensor.detach().requires_grad_() for tensor in (x, w, bias)], fast_mode=True)
            assert torch.autograd.gradcheck(lambda *args: function(*args, **options), [tensor.detach().requires_grad_() for tensor in (x, w, bias)], fast_mode=True)
    assert opinfo.served("convolution") and opinfo.served("convolution_backward")


def test_masks(target):
    """Each gradient alone; those that are not asked for are None."""
    x, w, y = (random(torch.float32, *shape, device=target) for shape in ((2, 20, 9, 11), (24, 20, 3, 3), (2, 24, 9, 11)))
    rest = ([24], [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    wanted = torch.ops.aten.convolution_backward(y, x, w, *rest, [True] * 3)
    with nereid.ops.use(only=NAMES):
        for i in range(3):
            found = torch.ops.aten.convolution_backward(y, x, w, *rest, [i == j for j in range(3)])
            assert [tensor is None for tensor in found] == [i != j for j in range(3)]
            opinfo.check(found[i], wanted[i], None, 4, "gradient", False, 256 * opinfo.magnitude(x, w))


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_named_padding(padding, target):
    x, w = random(torch.float32, 2, 5, 12, 13, device=target), random(torch.float32, 6, 5, 4, 3, device=target)
    check(F.conv2d, x, w, padding=padding, dilation=(1, 2))


def test_modules_and_transforms(target):
    """Unbatched inputs, autocast, vmap and grad, torch.compile, fake tensors."""
    x, w = random(torch.float32, 4, 5, 12, 13, device=target), random(torch.float32, 6, 5, 3, 3, device=target)
    check(F.conv2d, x[0], w, padding=1)

    def loss(x, w):
        return F.conv2d(x, w, padding=1, stride=2).square().sum()

    calls = {
        "vmap": lambda: torch.func.vmap(torch.func.grad(loss), (0, None))(x[:, None], w), "jacrev": lambda: torch.func.jacrev(lambda w: F.conv2d(x[:1, :, :3, :3], w))(w),
        "forward mode": lambda: torch.func.jvp(lambda w: F.conv2d(x, w), (w, ), (w.cos(), ))[1],
        "compile": lambda: torch.compile(torch.func.grad(loss), backend="aot_eager", fullgraph=True)(x, w)
    }
    for name, call in calls.items():
        wanted = call()
        nereid.ops.report(clear=True)
        with nereid.ops.use(only=NAMES):
            found = call()
        assert opinfo.served("convolution") or opinfo.served("convolution_backward"), name
        opinfo.check(found, wanted, None, 4, name, False, 1024 * opinfo.magnitude(wanted))
    with nereid.ops.use(only=NAMES), torch.autocast(target, torch.bfloat16):
        assert F.conv2d(x, w).dtype == torch.bfloat16
    with nereid.ops.use(only=NAMES), FakeTensorMode(allow_non_fake_inputs=True):
        nereid.ops.report(clear=True)
        fake = F.conv2d(torch.empty(2, 20, 9, 9, device=target).to(memory_format=torch.channels_last), torch.empty(4, 20, 3, 3, device=target))
        assert not nereid.ops.report()
    with nereid.ops.use(only=NAMES):
        real = F.conv2d(torch.zeros(2, 20, 9, 9, device=target).to(memory_format=torch.channels_last), torch.zeros(4, 20, 3, 3, device=target))
    assert (fake.shape, fake.stride()) == (real.shape, real.stride())


def test_repeated_calls(target):
    """The router repeats calls of the same shapes, also after others; settings that count are part of what is compared."""
    x, w = random(torch.float32, 2, 20, 9, 37, device=target), random(torch.float32, 24, 20, 3, 3, device=target)
    others = [torch.randn_like(x) for _ in range(4)]
    wanted = [F.conv2d(other.double(), w.double(), padding=i % 2) for i, other in enumerate(others)]
    calls = []
    call = declared.Forward.call
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(declared.Forward, "call", lambda self, *args: (calls.append(args), call(self, *args))[1])
        with nereid.ops.use(only=NAMES, router=True):
            for i, (other, exact) in enumerate(zip(others, wanted)):
                assert (F.conv2d(other, w, padding=i % 2).double() - exact).abs().max() < 1e-4
            assert len(calls) == 2
            torch.backends.cudnn.conv.fp32_precision = "tf32"
            F.conv2d(x, w)
            assert len(calls) == 3
            torch.backends.cudnn.conv.fp32_precision = "ieee"
            F.conv2d(x, w)
            assert len(calls) == 3


def reasons():
    return {row.reason for row in nereid.ops.report()}


def test_what_is_left_to_aten(target):
    x, w = random(torch.float32, 2, 4, 6, 6, device=target), random(torch.float32, 4, 4, 3, 3, device=target)
    nereid.ops.enable(only=NAMES)
    plain = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    for call, reason in ((lambda: torch.ops.aten.convolution(x.long(), w.long(), None, *plain), "dtype"), (lambda: F.conv2d(x[:0], w), "empty")):
        nereid.ops.report(clear=True)
        opinfo.outcome(call)  # PyTorch has no integers on GPUs
        assert reason in reasons()
    errors = (lambda: F.conv2d(x, w.double()), lambda: F.conv2d(x, w[:, :3]), lambda: F.conv2d(x, w, groups=3), lambda: F.conv2d(x, w, padding=-1),
              lambda: F.conv2d(x, w, stride=0), lambda: F.conv2d(x[..., :2], w), lambda: F.conv2d(x, w, w[:3, 0, 0, 0].contiguous()), lambda: F.conv2d(x, w, dilation=3),
              lambda: F.conv_transpose2d(x, w, output_padding=2), lambda: F.conv_transpose2d(x[:, :3], w), lambda: F.conv2d(x, w[..., :0]),
              lambda: torch.ops.aten.convolution_backward(x, x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3))
    for i, call in enumerate(errors):
        ours, error = opinfo.outcome(call)
        with nereid.ops.native():
            native, native_error = opinfo.outcome(call)
        assert (error is None) == (native_error is None) and (error is None or opinfo.same_error(error, native_error)), (i, error, native_error)


def test_zero_sizes(target):
    with nereid.ops.use(only=NAMES):
        for x_shape, w_shape in (((0, 4, 6, 6), (5, 4, 3, 3)), ((2, 0, 6, 6), (5, 0, 3, 3)), ((2, 4, 6, 6), (0, 4, 3, 3))):
            x, w = (torch.zeros(shape, device=target, requires_grad=True) for shape in (x_shape, w_shape))
            ours, error = opinfo.outcome(lambda: F.conv2d(x, w))
            with nereid.ops.native():
                native, native_error = opinfo.outcome(lambda: F.conv2d(x, w))
            assert (error is None) == (native_error is None)
            assert error is not None or ours.shape == native.shape


def test_infinities(target):
    x, w = random(torch.float32, 1, 20, 9, 11, device=target), random(torch.float32, 24, 20, 3, 3, device=target)
    x[0, 3, 4, 5], x[0, 4, 0, 0] = float("inf"), float("nan")
    with nereid.ops.use(only=NAMES):
        ours = F.conv2d(x, w, padding=1)
    native = F.conv2d(x.double(), w.double(), padding=1)
    assert torch.equal(ours.isfinite(), native.isfinite()) and torch.equal(ours.isnan(), native.isnan())


def test_phases():
    """Each pair of a place and a tap that meet is in exactly one phase."""
    for stride in range(1, 7):
        for dilation in range(1, 7):
            for padding in range(4):
                window = convolution.Window((5, ), (stride, ), (padding, ), (dilation, ), 1, True)
                _, _, _, (common, ), (step, ), (inverse, ) = window.phases()
                for phase in range(stride):
                    padded = phase + padding
                    first = padded // common * inverse % step
                    taps = [] if padded % common else list(range(first, 5, step))
                    assert taps == [tap for tap in range(5) if (padded - tap * dilation) % stride == 0], (stride, dilation, padding, phase)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("function,channels,sizes,taps,options", [
    (F.conv2d, 40, (9, 13), (3, 3), {"padding": 1}), (F.conv2d, 33, (10, 17), (7, 7), {"padding": 3}),
    (F.conv2d, 5, (12, 9), (5, 4), {"padding": (2, 0), "dilation": (2, 1), "stride": (3, 1)}), (F.conv3d, 20, (5, 6, 7), (2, 3, 3), {"padding": (1, 1, 2), "stride": (1, 2, 1)}),
    (F.conv_transpose2d, 18, (9, 21), (3, 5), {"padding": (1, 2)})], ids=name_of)
def test_sliding(function, channels, sizes, taps, options, dtype, target, monkeypatch):
    """Depthwise, channels last, steps of one place in the last dimension: several places of a row at once, as on GPUs. ATen decides about the layout of the result: conv3d's is
    contiguous on CPUs, as are all of fp64 on GPUs, and then the kernel does not serve it."""
    monkeypatch.setattr(convolution, "_wants_slides", lambda device: True)
    used, launch = [], convolution.launch
    monkeypatch.setattr(convolution, "launch", lambda kernel, *args, **options: (used.append(kernel.__name__), launch(kernel, *args, **options)))
    layout = CHANNELS_LAST[2 + len(sizes)]
    x, w = random(dtype, 2, channels, *sizes, device=target).contiguous(memory_format=layout), random(dtype, channels, 1, *taps, device=target)
    shape = function(x.double(), w.double(), groups=channels, **options).shape
    y = random(dtype, *shape, device=target).contiguous(memory_format=layout)
    result, *_ = check(function, x, w, random(dtype, channels, device=target), y, router=False, groups=channels, **options)
    assert ("slide" in used or result.stride(1) != 1) and (result.stride(1) == 1 or len(sizes) == 3 or (dtype, target) == (torch.float64, "cuda")) and ("slide_weights" in used or function is F.conv_transpose2d)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("function,x,w,options", [(F.conv2d, (2, 32, 9, 11), (32, 4, 3, 3), {"padding": 1, "groups": 8}), (F.conv2d, (2, 32, 9, 11), (16, 8, 3, 2), {"groups": 4, "stride": 2}),
                                                  (F.conv_transpose2d, (2, 32, 9, 11), (32, 4, 3, 3), {"padding": 1, "groups": 8, "stride": 2}), (F.conv1d, (2, 64, 50), (64, 2, 5), {"groups": 32})], ids=name_of)
def test_joined_groups(function, x, w, options, dtype, target, monkeypatch):
    """Groups with few channels become fewer ones, as on GPUs."""
    monkeypatch.setattr(convolution, "_weigh_shifted", lambda *args: False)
    monkeypatch.setattr(convolution, "_joins", lambda x: True)
    used, launch = set(), convolution.launch
    monkeypatch.setattr(convolution, "launch", lambda kernel, *args, **options: (used.add(kernel.__name__), launch(kernel, *args, **options)))
    x, w = random(dtype, *x, device=target), random(dtype, *w, device=target)
    for layout in (torch.contiguous_format, torch.channels_last)[:x.dim() - 2]:
        bias = random(dtype, w.shape[1] * options["groups"] if function is F.conv_transpose2d else w.shape[0], device=target)
        check(function, x.contiguous(memory_format=layout), w.contiguous(memory_format=layout), bias, router=False, **options)
    assert used == {"correlate", "correlate_weights"}


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("dtype,x,w,options", [(torch.bfloat16, (1, 16, 3, 3), (16, 16, 2, 2), {"stride": 5}),
                                               (torch.float32, (2, 32, 4, 5), (32, 16, 3, 2), {"stride": (2, 3), "dilation": (2, 2), "groups": 2})], ids=["no taps", "groups and dilation"])
def test_phases_apart(dtype, x, w, options, layout):
    """Phases as convolutions of their own on CPUs; those that no tap meets have the bias alone."""
    bias = random(dtype, w[1] * options.get("groups", 1))
    check(F.conv_transpose2d, random(dtype, *x).contiguous(memory_format=layout), random(dtype, *w).contiguous(memory_format=layout), bias, **options)


@pytest.mark.cpu_only("gradients of weights by shifted products are the CPU's")
@pytest.mark.parametrize("layout", ["contiguous", "channels-last", "sliced"])
@pytest.mark.parametrize("x, w, options", [((2, 20, 9, 11), (24, 20, 3, 3), {"padding": 1}), ((3, 16, 7, 8), (17, 16, 3, 2), {}), ((2, 16, 9, 9), (16, 16, 3, 3), {"padding": 2, "dilation": 2}),
                                           ((1, 16, 4, 5), (16, 16, 3, 3), {"padding": 3}), ((2, 32, 50), (48, 32, 5), {"padding": 2}), ((2, 16, 5, 6, 7), (16, 16, 2, 3, 3), {"padding": (0, 1, 1)}),
                                           ((2, 16, 6, 1), (16, 16, 3, 1), {"padding": (1, 0)})], ids=str)
def test_weights_by_shifted_products(x, w, options, layout, target, monkeypatch):
    used = []
    shifted = convolution._weigh_shifted
    monkeypatch.setattr(convolution, "_weigh_shifted", lambda *args: (used.append(shifted(*args)), used[-1])[1])
    function = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(x)]
    for dtype in (torch.bfloat16, torch.float32):
        its_x, its_w = random(dtype, *x[:-1], x[-1] + 3)[..., 1:1 + x[-1]] if layout == "sliced" else random(dtype, *x), random(dtype, *w)
        if layout == "sliced":
            its_x = its_x.transpose(1, -1).contiguous().transpose(1, -1) if len(x) == 3 else its_x
        if layout == "channels-last" and len(x) > 3:
            its_x, its_w = its_x.contiguous(memory_format=CHANNELS_LAST[len(x)]), its_w.contiguous(memory_format=CHANNELS_LAST[len(x)])
        check(function, its_x, its_w, router=False, **options)
    assert any(used)
