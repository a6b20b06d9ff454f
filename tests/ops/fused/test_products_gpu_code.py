"""What grouped products, quantised products and LoRA launch on a GPU, compiled for one that need not be there: matrix units are used without waits between products,
operands come in vectors, and few numbers one by one."""

import dataclasses
import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sysconfig
import types

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from nereid.backends.compiler import GPUTarget

import nereid.ops
from nereid.ops import _launch, fused

E4M3 = torch.float8_e4m3fn


class Properties:
    """Of an H200."""
    multi_processor_count, name = 132, "NVIDIA H200"


@pytest.fixture
def compiled(monkeypatch):
    """What fused operators launch on tensors without memory is compiled for sm_90 instead: a list of (name of the kernel, PTX)."""
    found = []

    def launch(kernel, grid, device, arguments, constants, integers="i64", divisible=(), **options):
        kinds = {name: _launch._type(value, integers.get(name, "i64") if type(integers) is dict else integers) for name, value in arguments.items()}
        multiples = {name: _launch._multiples(arguments[name]) for name in divisible}
        found.append((kernel.__name__, _launch.compile_kernel(kernel, device, kinds, constants, True, multiples, **options).asm["ptx"]))

    monkeypatch.setattr(_launch, "_target", lambda device: GPUTarget("cuda", 90, 32))
    if torch.cuda.is_available():
        torch.cuda.init()  # it reads the properties of the devices that are there
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    monkeypatch.setattr(importlib.import_module("nereid.ops.grouped"), "can_copy", lambda *args: False)  # it asks for addresses
    modules = [nereid.ops.products, importlib.import_module("nereid.ops.grouped"), importlib.import_module("nereid.ops.scaled")]
    modules += [importlib.import_module(f"nereid.ops.fused.{module.name}") for module in pkgutil.iter_modules(fused.__path__)]
    for module in modules:
        if hasattr(module, "launch"):
            monkeypatch.setattr(module, "launch", launch)
    with FakeTensorMode():
        yield found


def new(*shape, dtype=torch.bfloat16):
    return torch.empty(shape, dtype=dtype, device="cuda")


def call(name, *args):
    """Runs an operator without the dispatcher, which has no GPU."""
    operator = fused.FUSED[name]
    return operator.run(**operator.form.bind(args, {})[0])


def scalar_loads(ptx):
    return len(re.findall(r"ld\.global(?!\S*\.v\d)", ptx))


def check(compiled, capfd, names, scalars):
    """The kernels in their order; those whose name ends in "product" use matrix units and copies in the background. scalars: the most loads of single numbers in each."""
    assert [name for name, _ in compiled] == names
    for name, ptx in compiled:
        if name.endswith("product"):
            assert ("wgmma.mma_async" in ptx or "mma.sync" in ptx) and "cp.async" in ptx, name
        assert scalar_loads(ptx) <= scalars, (name, scalar_loads(ptx))
    assert "one after the other" not in capfd.readouterr().err


def ends(groups):
    return new(groups, dtype=torch.int32)


@pytest.mark.parametrize("form", ["rows", "backward of rows", "summed"])
def test_grouped_mm(form, compiled, capfd):
    a, b = {"rows": (new(8192, 1024), new(8, 2048, 1024).mT), "backward of rows": (new(8192, 2048), new(8, 2048, 1024)), "summed": (new(8192, 1024).t(), new(8192, 2048))}[form]
    call("grouped_mm", a, b, ends(8))
    check(compiled, capfd, ["grouped_outer_product" if form == "summed" else "grouped_product"], 2)


@pytest.mark.parametrize("scheduled", [False, True], ids=["copied", "scheduled"])
@pytest.mark.parametrize("form", ["rows", "backward of rows"])
def test_grouped_mm_copied(form, scheduled, compiled, capfd, monkeypatch, tmp_path):
    """Warps are divided and nothing spills."""
    grouped = importlib.import_module("nereid.ops.grouped")
    monkeypatch.setattr(grouped, "is_scheduled", lambda m, groups: scheduled)
    monkeypatch.setattr(grouped, "can_copy", lambda out, a, b, cut: grouped.copies_take(out, a, b))
    a, b = {"rows": (new(8192, 1024), new(8, 2048, 1024).mT), "backward of rows": (new(8192, 2048), new(8, 2048, 1024))}[form]
    call("grouped_mm", a, b, ends(8))
    (first, _), (name, ptx) = compiled
    assert (first, name) == (("schedule_of_groups", "grouped_product_scheduled") if scheduled else ("tiles_of_groups", "grouped_product_copied"))
    assert "wgmma.mma_async" in ptx and "cp.async.bulk.tensor" in ptx and "setmaxnreg" in ptx and "cp.async.cg" not in ptx
    assert "one after the other" not in capfd.readouterr().err
    if ptxas := shutil.which("ptxas", path=f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"):
        (code := tmp_path / "kernel.ptx").write_text(ptx)
        report = subprocess.run([ptxas, "-v", "-arch=sm_90a", code, "-o", tmp_path / "kernel.cubin"], check=True, capture_output=True, text=True).stderr
        assert "0 bytes spill stores, 0 bytes spill loads" in report, report


def test_grouped_mm_falls_back(monkeypatch):
    """What the kernel through descriptors does not take."""
    grouped = importlib.import_module("nereid.ops.grouped")
    monkeypatch.setattr(grouped, "divides_warps", lambda device: device.index != 1)
    tiles = nereid.ops.products.Tiles(128, 256, 64, 1, 8, 8, 3)

    def meta(*shape):
        return torch.empty(shape, dtype=torch.bfloat16, device="meta")

    def copies(a, b, out=meta(8192, 2048), device="cuda", tiles=tiles):
        a, b = (types.SimpleNamespace(shape=x.shape, dtype=x.dtype, stride=x.stride, device=torch.device(device), data_ptr=lambda x=x: x.storage_offset() * x.element_size()) for x in (a, b))
        return grouped.can_copy(out, a, b, tiles)

    a, b = meta(8192, 1024), meta(8, 2048, 1024)
    assert copies(a, b) and copies(a, meta(8, 1024, 2048).mT) and copies(meta(8192, 1032)[:, :1024], b) and copies(a[:, :1021], b[:, :, :1021])
    assert not copies(a, b, device="cpu") and not copies(a, b, device="cuda:1") and not copies(a.float(), b.float())
    assert not copies(a, b, tiles=dataclasses.replace(tiles, m=64)) and not copies(a, b, out=meta(2048, 8192).t())
    assert not copies(meta(1024, 8192).t(), b) and not copies(a, meta(8, 2048, 2048)[:, :, ::2]) and not copies(a, b[:1].expand(8, -1, -1))
    assert not copies(meta(8192, 1021), meta(8, 2048, 1021)) and not copies(a, meta(8, 2044, 1024), out=meta(8192, 2044)) and not copies(meta(8193 * 1024)[1:8192 * 1024 + 1].view(8192, 1024), b)
    assert not copies(meta(8192, 0), meta(8, 2048, 0))


@pytest.mark.parametrize("tokens", [2, 8192])
def test_moe_swiglu(tokens, compiled, capfd):
    """Rows are gathered by asynchronous copies."""
    call("moe_swiglu", new(tokens, 1024), new(8, 4096, 1024), new(8, 1024, 2048), new(tokens, 2, dtype=torch.float32), new(tokens, 2, dtype=torch.int64))
    check(compiled, capfd, [*["count_experts"] * (tokens > 4096), "place_pairs", "grouped_product", "grouped_product", "combine_pairs"], 20)
    # Counts are made in shared memory.
    assert not re.search(r"(atom|red)\.\S*global", compiled[0][1])


def test_moe_weight_gradient(compiled, capfd):
    """Indices of gathered rows are read ahead of the products."""
    call("moe_weight_backward", new(8192, 2048), new(4096, 1024), new(8192, dtype=torch.int32), ends(8), False)
    check(compiled, capfd, ["grouped_outer_product"], 12)


@pytest.mark.parametrize("kind", ["rows", "blocks"])
def test_grouped_scaled_mm(kind, compiled, capfd):
    shapes = {"rows": ((8192, ), (8, 2048)), "blocks": ((8192, 8), (8, 16, 8))}[kind]
    call("grouped_scaled_mm", new(8192, 1024, dtype=E4M3), new(8, 2048, 1024, dtype=E4M3), *(new(*shape, dtype=torch.float32) for shape in shapes), ends(8))
    check(compiled, capfd, ["scaled_product"], 8)


@pytest.mark.parametrize("copies", [False, True])
def test_blocks_of_scales(copies, compiled, monkeypatch):
    """With descriptors warps are divided: the copy engine reads tiles for two groups of warps that multiply and scale."""
    monkeypatch.setattr(importlib.import_module("nereid.ops.scaled"), "COPIES", copies)
    monkeypatch.setattr(importlib.import_module("nereid.ops.scaled"), "can_copy", lambda a, b, rows: True)
    call("scaled_mm", new(8000, 2048, dtype=E4M3), new(4096, 2048, dtype=E4M3), new(8000, 16, dtype=torch.float32), new(32, 16, dtype=torch.float32), None, torch.bfloat16)
    (name, ptx), = compiled
    assert name == "scaled_product" and "wgmma.mma_async" in ptx
    assert ("cp.async.bulk.tensor" in ptx and "setmaxnreg" in ptx) == copies and ("cp.async.cg" in ptx) != copies


@pytest.mark.parametrize("m", [1, 128, 256])
@pytest.mark.parametrize("group", [0, 32, 128])
def test_linear_int4(group, m, compiled, capfd):
    groups = 1024 // group if group else 1
    call("linear_int4", new(m, 1024), new(4096, 512, dtype=torch.uint8), new(4096, groups), new(4096, groups, dtype=torch.uint8), None, group)
    check(compiled, capfd, ["expand_weights", "product"] if m == 256 else ["weight_product", *[name for name, _ in compiled[1:]]], 16)
    if group == 32 and m < 256:
        # Scales and zeros of the four groups of a block go from thread to thread, not through shared memory.
        assert not re.findall(r"st\.shared\.b(?:8|16)\b", compiled[0][1]) and len(re.findall(r"bar\.sync", compiled[0][1])) <= 3


@pytest.mark.parametrize("eight", [E4M3, torch.float8_e5m2], ids=str)
def test_conversion_of_a_cache(eight, compiled):
    """Two 8-bit floats become two fp16 by one instruction; fp32 is no step on the way."""
    cache = new(64, 16, 8, 128, dtype=eight)
    call("paged_attention", new(4, 32, 128), cache, cache, new(4, 16, dtype=torch.int32), new(4, dtype=torch.int32), None, 0, 256, True, -1, -1, 0.0, None, None, new(1, dtype=torch.float32), new(1, dtype=torch.float32))
    code = next(ptx for name, ptx in compiled if name == "paged_forward")
    loops = 2  # each reads 128 + 128 elements a thread: tiles of 128 keys on 4 warps
    assert len(re.findall(r"cvt\.rn\.f16x2\.e4m3x2", code)) == (loops * 128 if eight == E4M3 else 0)
    assert "cvt.f32.f16" not in code and "cvt.rn.bf16.f32" not in code


@pytest.mark.parametrize("dtype", [torch.bfloat16, E4M3], ids=str)
def test_cache_of_many_rows(dtype, compiled):
    """Caches of 16-bit floats, and rows that are more than decoding has, are multiplied in the dtype of the queries."""
    cache = new(64, 16, 8, 128, dtype=dtype)
    call("paged_attention", new(4 * (1 if dtype == torch.bfloat16 else 16), 32, 128), cache, cache, new(4, 16, dtype=torch.int32), new(4, dtype=torch.int32), None, 0, 256)
    code = next(ptx for name, ptx in compiled if name == "paged_forward")
    assert "bf16.bf16" in code and "f16.f16.f32" not in code.replace("bf16.bf16.f32", "")


@pytest.mark.parametrize("m,rank", [(16, 16), (4096, 16), (4096, 128)])
def test_lora_linear(m, rank, compiled, capfd):
    call("lora_linear", new(m, 2048), new(4096, 2048), new(rank, 2048), new(4096, rank), 0.5)
    assert compiled[-1][0] in ("lora_product", "add_parts") and ("mma.sync" if m <= 16 else "wgmma.mma_async") in dict(compiled)["lora_product"]
    assert scalar_loads(dict(compiled)["lora_product"]) <= 4
    assert "one after the other" not in capfd.readouterr().err
