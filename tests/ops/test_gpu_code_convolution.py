"""Convolutions compiled for a GPU that need not be there: the code uses the matrix units, loads 16 bytes at once where channels are neighbours, and spills nothing."""

import re
import types

import pytest
import torch
from nereid.backends.compiler import GPUTarget
from torch._subclasses.fake_tensor import FakeTensorMode

from nereid.ops import _launch, convolution, products
from nereid.ops.convolution import Window


@pytest.fixture
def compiled(monkeypatch):
    """What is launched on tensors of a GPU (fake ones) is compiled for sm_90 instead: a list of (name of the kernel, constants, compiled kernel)."""
    found = []

    def launch(kernel, grid, device, arguments, constants, integers="i64", divisible=(), **options):
        assert device.type == "cuda"
        kinds = {name: _launch._type(value, integers.get(name, "i64") if type(integers) is dict else integers) for name, value in arguments.items()}
        multiples = {name: _launch._multiples(arguments[name]) for name in divisible}
        found.append((kernel.__name__, constants, _launch.compile_kernel(kernel, device, kinds, constants, True, multiples, **options)))

    monkeypatch.setattr(_launch, "_target", lambda device: GPUTarget("cuda", 90, 32))
    for module in (products, convolution):
        monkeypatch.setattr(module, "launch", launch)
    monkeypatch.setattr(convolution, "move", lambda target, source: found.append(("move", {}, None)))
    monkeypatch.setattr(convolution, "programs_wanted", lambda device: 4 * 132)
    monkeypatch.setattr(products, "programs_wanted", lambda device: 4 * 132)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *args: types.SimpleNamespace(multi_processor_count=132, name="test"))
    products.tiles.cache_clear()
    with FakeTensorMode():
        yield found
    products.tiles.cache_clear()


def tensor(*shape, dtype=torch.float16, channels_last=False):
    made = torch.empty(shape, dtype=dtype, device="cuda:0")
    return made.to(memory_format=torch.channels_last) if channels_last else made


def everything(x, w, window, out_shape, bias=None):
    """The forward pass and both gradients, of a convolution that is not transposed."""
    form = torch.channels_last if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last) and x.shape[1] > 1 else torch.contiguous_format
    y = torch.empty(out_shape, dtype=x.dtype, device=x.device, memory_format=form)
    convolution.convolve(y, x, w, bias, window)
    convolution.convolve(torch.empty_like(x), y, w, None, window.turned())
    convolution.weigh(torch.empty_like(w), y, x, window)


def ptx(kernel):
    return kernel.asm["ptx"]


def scalar_loads(text):
    return len(re.findall(r"ld\.global(?!\S*\.v\d)", text))


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
def test_dense(stride, channels_last, compiled):
    window = Window((3, 3), (stride, stride), (1, 1), (1, 1), 1, False)
    everything(tensor(32, 128, 56, 56, channels_last=channels_last), tensor(128, 128, 3, 3, channels_last=channels_last), window, (32, 128, 56 // stride, 56 // stride))
    for name, constants, kernel in compiled:
        if kernel is not None:
            print(name, {k: v for k, v in constants.items()}, kernel.n_regs, kernel.n_spills, "wgmma" in ptx(kernel), ptx(kernel).count("cp.async"), scalar_loads(ptx(kernel)))
