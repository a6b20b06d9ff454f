"""Convolutions compiled for a GPU that need not be there: the code uses the matrix units, loads 16 bytes at once where channels are neighbours, and spills nothing."""

import importlib.util
import pathlib
import re
import subprocess
import types

import pytest
import torch
from nereid.backends.compiler import GPUTarget
from torch._subclasses.fake_tensor import FakeTensorMode

from nereid.ops import _launch, convolution, products
from nereid.ops.convolution import Window

_spec = importlib.util.spec_from_file_location("assemble_ptx", pathlib.Path(__file__).resolve().parents[2] / "scripts" / "assemble_ptx.py")
assemble_ptx = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(assemble_ptx)


@pytest.fixture
def compiled(monkeypatch):
    """What is launched on tensors of a GPU (fake ones) is compiled for sm_90 instead: a list of (name of the kernel, constants, compiled kernel)."""
    found = []

    def launch(kernel, grid, device, arguments, constants, integers="i64", divisible=(), **options):
        assert device.type == "cuda"
        kinds = {name: _launch._type(value, integers.get(name, "i64") if type(integers) is dict else integers) for name, value in arguments.items()}
        multiples = {name: _launch._multiples(arguments[name]) for name in divisible}
        found.append((kernel.__name__, constants | {"x_strides": kinds.get("x_strides")}, _launch.compile_kernel(kernel, device, kinds, constants, True, multiples, **options)))

    monkeypatch.setattr(_launch, "_target", lambda device: GPUTarget("cuda", 90, 32))
    for module in (products, convolution):
        monkeypatch.setattr(module, "launch", launch)
    monkeypatch.setattr(convolution, "move", lambda target, source: found.append(("move", {}, None)))
    monkeypatch.setattr(convolution, "fill", lambda target, value: found.append(("fill", {}, None)))
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


def scalar_loads(text):
    return len(re.findall(r"ld\.global(?!\S*\.v\d)", text))


def kernels(found):
    """[(name, constants, PTX)] of what is compiled, without copies and without the sums of parts."""
    return [(name, constants, kernel.asm["ptx"]) for name, constants, kernel in found if kernel is not None and name != "add_parts"]


def dense(window, channels_last, dtype=torch.float16, places=56):
    stride = window.stride[0]
    everything(tensor(32, 128, places, places, dtype=dtype, channels_last=channels_last), tensor(128, 128, *window.taps, dtype=dtype, channels_last=channels_last), window,
               (32, 128, places // stride, places // stride))


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_dense(dtype, stride, channels_last, compiled):
    """Along channels, of a copy where they are no neighbours. Weights of 16 bits are read in either order."""
    dense(Window((3, 3), (stride, stride), (1, 1), (1, 1), 1, False), channels_last, dtype)
    assert [name for name, *_ in kernels(compiled)] == ["correlate", "correlate", "correlate_weights"]
    assert any(name == "move" for name, *_ in compiled) == (not channels_last or dtype == torch.float32)
    for name, constants, ptx in kernels(compiled):
        assert "wgmma.mma_async" in ptx and re.search(r"cp\.async\S*.*, 16", ptx) and not scalar_loads(ptx), name
        assert constants["X_UNIT"] == "c" and not constants["FLAT"]


def test_patches(compiled):
    """Taps of the last dimension are neighbours: 16 bytes at once, without a copy."""
    window = Window((16, 16), (16, 16), (0, 0), (1, 1), 1, False)
    x, w, y = tensor(32, 3, 224, 224), tensor(768, 3, 16, 16), tensor(32, 768, 14, 14)
    convolution.convolve(y, x, w, None, window)
    convolution.weigh(torch.empty_like(w), y, x, window)
    for name, constants, ptx in kernels(compiled):
        assert constants["RUNS"] and "wgmma.mma_async" in ptx and not scalar_loads(ptx), name


@pytest.mark.parametrize("channels_last", [False, True])
def test_depthwise(channels_last, compiled):
    window = Window((3, 3), (1, 1), (1, 1), (1, 1), 96, False)
    everything(tensor(32, 96, 56, 56, channels_last=channels_last), tensor(96, 1, 3, 3), window, (32, 96, 56, 56))
    assert [name for name, *_ in kernels(compiled)] == (["slide", "slide", "slide_weights"] if channels_last else ["direct", "direct", "direct_weights"])
    assert not channels_last or not any(scalar_loads(ptx) for *_, ptx in kernels(compiled))


def test_groups_of_few_channels(compiled):
    """They are joined for the matrix units."""
    window = Window((3, 3), (1, 1), (1, 1), (1, 1), 32, False)
    everything(tensor(32, 128, 56, 56, channels_last=True), tensor(128, 4, 3, 3), window, (32, 128, 56, 56))
    assert [(name, constants["FLAT"]) for name, constants, _ in kernels(compiled)] == [("correlate", False), ("correlate", False), ("correlate_weights", False)]
    assert all("mma" in ptx and "cp.async" in ptx and not scalar_loads(ptx) for *_, ptx in kernels(compiled))


def test_one_place(compiled):
    """A product, also its gradient of the weights, which sums over the batch."""
    window = Window((1, 1), (1, 1), (0, 0), (1, 1), 1, False)
    everything(tensor(32, 128, 56, 56), tensor(256, 128, 1, 1), window, (32, 256, 56, 56))
    assert [name for name, *_ in kernels(compiled)] == ["product"] * 3
    assert all("wgmma.mma_async" in ptx and not scalar_loads(ptx) for *_, ptx in kernels(compiled))


def test_precisions(compiled, monkeypatch):
    monkeypatch.setattr(convolution, "precision_of", lambda x: "ieee")
    dense(Window((3, 3), (1, 1), (1, 1), (1, 1), 1, False), True, torch.float32, 16)
    assert not any("mma" in ptx for *_, ptx in kernels(compiled))
    compiled.clear()
    dense(Window((3, 3), (1, 1), (1, 1), (1, 1), 1, False), True, torch.float64, 16)
    assert all("mma.sync" in ptx for *_, ptx in kernels(compiled))


def test_offsets_of_64_bits(compiled):
    """Only tensors that need them have them."""
    window = Window((3, 3), (1, 1), (1, 1), (1, 1), 1, False)
    for batch, wide in ((8, False), (64, True)):
        compiled.clear()
        x = tensor(batch, 64, 1024, 1024, channels_last=True)
        convolution.convolve(torch.empty_like(x), x, tensor(64, 64, 3, 3, channels_last=True), None, window)
        (_, constants, _), = kernels(compiled)
        assert set(constants["x_strides"]) == {"i64" if wide else "i32"}


@pytest.mark.skipif(not assemble_ptx.find_ptxas(), reason="needs ptxas, which requirements-dev.txt installs")
def test_nothing_spills(compiled, tmp_path):
    dense(Window((3, 3), (1, 1), (1, 1), (1, 1), 1, False), True)
    dense(Window((3, 3), (2, 2), (1, 1), (1, 1), 1, False), True)
    everything(tensor(32, 3, 224, 224), tensor(64, 3, 7, 7), Window((7, 7), (2, 2), (3, 3), (1, 1), 1, False), (32, 64, 112, 112))
    everything(tensor(32, 192, 28, 28, channels_last=True), tensor(192, 1, 3, 3), Window((3, 3), (1, 1), (1, 1), (1, 1), 192, False), (32, 192, 28, 28))
    for i, (name, _, ptx) in enumerate(kernels(compiled)):
        path = tmp_path / f"{i}.ptx"
        path.write_text(ptx)
        said = subprocess.run([assemble_ptx.find_ptxas(), "-arch=sm_90a", "-v", path, "-o", tmp_path / "out"], capture_output=True, text=True, check=True).stderr
        assert " 0 bytes spill stores" in said, f"{name}: {said}"
