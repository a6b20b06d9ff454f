"""Operators on planes, bags, sequences and rows, and attention, on simulated threads of sm_90 (`nereid-simulate`, tests/unit/nvidia/Simulate.cpp): the code of GPUs gives ATen's numbers."""

import math
import struct
import subprocess
import sys
import types

import nereid
import nereid.language as tl
import pytest
import torch
from nereid.backends.compiler import GPUTarget
from simulator import TOOL, launch_options, needs_simulator

import nereid.ops
import nereid.ops.fused
from nereid.ops import _launch, _moves, _sorted, attention, products
from nereid.ops.aten import _plane_tiles, _planes, bags, copies, ctc, distances, grids, interpolation, losses, margins, padding, pooling

aten, nn = torch.ops.aten, torch.nn.functional


def words_of(name, value, memory, folder):
    """The arguments of the tool for one of a kernel. memory: {start of a storage: (file, its bytes)}."""
    if isinstance(value, tuple):
        return [word for i, item in enumerate(value) for word in words_of(f"{name}[{i}]", item, memory, folder)]
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        start = storage.data_ptr()
        if start not in memory:
            data = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(), ), (1, ))
            path = folder / f"memory{len(memory)}"
            path.write_bytes(bytes(start % 256) + data.numpy().tobytes() + bytes(256))
            memory[start] = path, data
        return [f"{name}={memory[start][0]}:{start % 256 + value.data_ptr() - start}"]
    if value is None:
        return []
    return [f"{name}={struct.unpack('<Q', struct.pack('<d', value))[0] if isinstance(value, float) else int(value) & (1 << 64) - 1}"]


@pytest.fixture
def simulated(monkeypatch, tmp_path):
    """What is launched runs on simulated threads."""
    monkeypatch.setattr(nereid.knobs.nereid, "dump_dir", str(tmp_path))

    def launch(kernel, grid, device, arguments, constants, integers="i64", divisible=(), **options):
        kinds = {name: _launch._type(value, integers if isinstance(integers, str) else integers.get(name, "i64")) for name, value in arguments.items()}
        multiples = {name: _launch._multiples(arguments[name]) for name in divisible}
        compiled = _launch.compile_kernel(kernel, device, kinds, constants, _launch._addresses(tuple(arguments.values())) % 16 == 0, multiples, **options)
        (code := tmp_path / "kernel.mlir").write_text(compiled.asm["gpu"])
        memory = {}
        words = [word for name, value in arguments.items() for word in words_of(name, value, memory, tmp_path)]
        programs = ",".join(map(str, grid if isinstance(grid, tuple) else (grid, )))
        subprocess.run([TOOL, code, *launch_options(compiled, tmp_path), "--grid", programs, *words], check=True, capture_output=True, text=True)
        for start, (path, data) in memory.items():
            data.numpy()[:] = memoryview(path.read_bytes())[start % 256:start % 256 + data.numel()]

    monkeypatch.setattr(_launch, "_target", lambda device: GPUTarget("cuda", 90, 32))
    monkeypatch.setattr(_sorted, "launch", launch)
    monkeypatch.setattr(_sorted, "_on_cpu", lambda x: False)
    for module in (_plane_tiles, _planes, attention, bags, ctc, distances, grids, losses, margins, padding, products, sys.modules["nereid.ops.pointwise"], sys.modules["nereid.ops.reduction"],
                   sys.modules["nereid.ops.fused.paged_attention"], sys.modules["nereid.ops.grouped"]):
        monkeypatch.setattr(module, "launch", launch)
    for module in (_planes, copies, grids, interpolation, padding, pooling):
        monkeypatch.setattr(module, "by_lines", lambda device: False)
    for module in (bags, losses):
        monkeypatch.setattr(module, "_rows_at_once", lambda device: 8)
    monkeypatch.setattr(products, "tiles", lambda device, *args, wide: products.gpu_tiles(132, *args))
    for module, name in ((bags, "exist"), (losses, "exist"), (pooling, "exist"), (bags, "within"), (margins, "within")):
        monkeypatch.setattr(module, name, lambda *args: True)  # they ask on the host
    monkeypatch.setattr(bags, "clear", torch.Tensor.zero_)


def calls():
    generator = torch.Generator().manual_seed(0)

    def random(*shape):
        return torch.randn(shape, generator=generator)

    planes, volumes, table, rows = random(2, 2, 9, 8), random(1, 2, 5, 6, 7), random(10, 40), random(2, 5, 7)
    indices, offsets = torch.tensor([0, 2, 5, 2, 1, 1, 3, 9]), torch.tensor([0, 3, 3, 5])
    last = random(2, 5, 9, 8).contiguous(memory_format=torch.channels_last)
    pooled, places = aten.max_pool2d_with_indices(planes, [3, 3], [2, 2], [1, 1])
    others = random(2, 4, 7)
    between = aten._cdist_forward(rows, others, math.inf, 2)
    sequences = random(12, 3, 6).log_softmax(-1), torch.tensor([[1, 1, 2, 5], [3, 3, 1, 1], [4, 2, 4, 1]]), [12, 10, 9], [4, 2, 3]
    losses, alphas = aten._ctc_loss(*sequences)
    return {
        "max_pool3d_with_indices": (volumes, [2, 3, 2], [2, 2, 1], [1, 1, 0], [1], True),
        "max_pool2d_with_indices": (last, [3, 3], [2, 2], [1, 1]), "avg_pool2d": (last, [3, 2], [2, 2], [1, 1]), "avg_pool2d_backward": (aten.avg_pool2d(last, [2, 5], [3, 1], [0, 2]), last, [2, 5], [3, 1], [0, 2], False, True, None),
        "upsample_bilinear2d": (last, [5, 17], False), "upsample_nearest2d": (last, [18, 13]), "upsample_nearest2d_backward": (random(2, 5, 18, 11), [18, 11], [2, 5, 9, 8]), "replication_pad2d_backward": (nn.pad(last, (1, 2, 0, 3)).contiguous(memory_format=torch.channels_last), last, [1, 2, 0, 3]),
        "_adaptive_avg_pool3d": (volumes, [1, 1, 1]), "max_pool2d_with_indices_backward": (pooled, planes, [3, 3], [2, 2], [1, 1], [1, 1], False, places),
        "_adaptive_avg_pool2d_backward": (random(2, 2, 4, 3), planes), "upsample_trilinear3d": (volumes, [7, 4, 9], False),
        "upsample_bicubic2d_backward": (random(2, 2, 5, 11), [5, 11], [2, 2, 9, 8], False), "_upsample_bilinear2d_aa_backward": (random(2, 2, 5, 11), [5, 11], [2, 2, 9, 8], False),
        "reflection_pad2d_backward": (random(2, 2, 12, 11), planes, [1, 2, 3, 0]), "col2im": (aten.im2col(planes, [3, 2], [1, 2], [1, 0], [2, 1]), [9, 8], [3, 2], [1, 2], [1, 0], [2, 1]),
        "grid_sampler_2d": (planes, random(2, 4, 5, 2).clamp(-1.2, 1.2), 2, 2, False),
        "grid_sampler_3d_backward": (random(1, 2, 2, 4, 3), volumes, random(1, 2, 4, 3, 3).clamp(-1.2, 1.2), 0, 1, False, [True, True]),
        "pixel_shuffle": (random(2, 18, 5, 7).to(torch.float16), 3), "_embedding_bag": (table, indices, offsets, False, 0, False, random(8)), "_embedding_bag_forward_only": (table, indices.repeat(3), torch.tensor([0, 11, 11]), False, 2, False, None, False, 5),
        "_embedding_bag_per_sample_weights_backward": (random(4, 40), table, indices.repeat(9), offsets, torch.arange(72) % 4, 0, 3), "_cdist_backward": (random(2, 5, 4), rows, others, math.inf, between),
        "_ctc_loss_backward": (torch.ones(3), *sequences, losses, alphas, 0), "multilabel_margin_loss_forward": (random(3, 40), torch.tensor([[3, 1, -1] + 37 * [0]] * 3), 0),
    }


def interpolations():
    """Calls by what they have in common: (name, sizes of the input, of the output, more arguments, dtype, form)."""
    last, fp16 = torch.channels_last, torch.float16
    return [
        ("upsample_nearest1d", (3, 2, 40), (97, ), (), fp16, None), ("upsample_nearest2d", (2, 3, 5, 7), (10, 14), (), torch.float32, None),
        ("_upsample_nearest_exact2d", (2, 20, 6, 5), (9, 11), (), torch.uint8, last), ("_upsample_nearest_exact3d", (1, 2, 3, 4, 5), (7, 5, 9), (), torch.float32, None),
        ("upsample_nearest3d", (2, 3, 4, 5, 6), (2, 9, 6), (), torch.float32, torch.channels_last_3d), ("upsample_linear1d", (2, 5, 30), (71, ), (False, ), torch.float32, None),
        ("upsample_bilinear2d", (2, 3, 9, 33), (20, 7), (True, ), torch.float64, None), ("upsample_bilinear2d", (1, 9, 9, 8), (9, 16), (False, ), torch.float32, last),
        ("upsample_bicubic2d", (2, 2, 9, 8), (14, 14), (True, ), torch.float32, None), ("upsample_bicubic2d", (2, 5, 9, 8), (5, 12), (False, ), torch.float32, last),
        ("_upsample_bilinear2d_aa", (2, 3, 19, 40), (7, 9), (False, ), torch.float32, None), ("_upsample_bicubic2d_aa", (1, 3, 19, 8), (30, 3), (False, ), torch.float32, None),
        ("_upsample_lanczos2d_aa", (1, 5, 12, 9), (5, 9), (True, ), torch.float32, last)
    ]


@needs_simulator
def test_errors_of_attention(simulated, monkeypatch):
    """Attention of fp32, in three tf32 products, and its gradients are as exact as in multiply-adds; with operands split by truncation, errors were three times as large."""
    computation = attention.computation
    monkeypatch.setattr(attention, "computation", lambda *args: computation(*args) | {"PRECISION": "tf32x3", "OPERAND": tl.float32})
    generator = torch.Generator().manual_seed(0)
    *inputs, cotangent = (torch.randn(1, 2, 32, 16, generator=generator) for _ in range(4))

    def results(dtype):
        given = [tensor.to(dtype).requires_grad_() for tensor in inputs]
        out = torch.nn.functional.scaled_dot_product_attention(*given)
        return out.detach(), *torch.autograd.grad(out, given, cotangent.to(dtype))

    wide, native = results(torch.float64), results(torch.float32)
    with nereid.ops.use(routing=False, router=False):
        ours = results(torch.float32)
    for exact, its, mine in zip(wide, native, ours):
        error, allowed = ((found.double() - exact).norm() / exact.norm() for found in (mine, its))
        assert error < 1.5 * allowed, (error, allowed)


def decode(monkeypatch, q, k, v, length, scale, k_scale=1.0, v_scale=1.0):
    """(result, log-sum-exp, both exactly) of one query for each head, on simulated threads, with the keys and values of one head in pages in another order. q: (heads, d), k, v: (tokens, d)."""
    paged, gpu = sys.modules["nereid.ops.fused.paged_attention"], torch.device("cuda")
    way_of = paged.way_of
    monkeypatch.setattr(paged, "row_tiles", lambda *args: (16, 64, 4, 3))
    monkeypatch.setattr(paged, "way_of", lambda device, *args: way_of(gpu, *args))
    monkeypatch.setattr(paged, "head_width", lambda device, size: attention.head_width(gpu, size))
    monkeypatch.setattr(paged, "computation", lambda *args: attention.computation(*args) | {"OPERAND": tl.bfloat16 if q.dtype == torch.bfloat16 else tl.float16})
    pages = -(-k.shape[0] // 16)
    table = torch.randperm(pages, generator=torch.Generator().manual_seed(0))[None].int()
    caches = [torch.zeros(pages, 16, 1, x.shape[1]).to(x.dtype) for x in (k, v)]
    for cache, x in zip(caches, (k, v)):
        padded = torch.nn.functional.pad(x.view(torch.uint8), (0, 0, 0, pages * 16 - x.shape[0]), value=0x7f)  # NaN behind the end
        cache.view(torch.uint8)[table[0].long(), :, 0] = padded.view(pages, 16, -1)
    operator = nereid.ops.fused.FUSED["paged_attention"]
    given = {"scale": scale, "k_scale": torch.tensor([k_scale]), "v_scale": torch.tensor([v_scale])}
    out, lse = operator.run(**operator.form.bind((q[None], *caches, table, torch.tensor([length])), given)[0])
    scores = q.double() @ k[:length].double().t() * (k_scale * scale)
    return out[0], lse[:, 0], scores.softmax(-1) @ v[:length].double() * v_scale, scores.logsumexp(-1)


@needs_simulator
@pytest.mark.parametrize("eight,dim,dtype,size,k_scale", [(torch.float8_e4m3fn, 128, torch.bfloat16, 1.0, 0.5), (torch.float8_e5m2, 24, torch.float16, 1.0, 2.0), (torch.float8_e5m2, 128, torch.float16, 1.0, 0.5), (torch.float8_e4m3fn, 64, torch.bfloat16, 1e20, 1.0),
                                                          (torch.float8_e4m3fn, 64, torch.bfloat16, 1e-25, 0.5), (torch.float8_e5m2, 64, torch.bfloat16, 3e37, 1e-30), (torch.float8_e5m2, 64, torch.bfloat16, 1e-38, 1e30)])
def test_decoding_of_8_bits(eight, dim, dtype, size, k_scale, simulated, monkeypatch):
    """Products are in fp16, whatever the size of the queries: rows of the largest and the smallest bf16 are as exact as others."""
    generator = torch.Generator().manual_seed(0)
    k, v = (torch.randn(150, dim, generator=generator).to(eight) for _ in range(2))
    q = (torch.randn(4, dim, generator=generator) * size).to(dtype)
    out, lse, expected, expected_lse = decode(monkeypatch, q, k, v, 150, dim**-0.5 / size / k_scale, k_scale, 2.0)
    assert error_of(out, expected) < 3e-3
    assert (lse - expected_lse).abs().max() < 1e-3


@needs_simulator
@pytest.mark.parametrize("eight", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_codes_of_8_bits(eight, simulated, monkeypatch):
    """All finite codes, as keys and as values; the greatest values with the greatest weights; NaN and infinity where they are seen, and only there."""
    codes = torch.arange(256, dtype=torch.uint8).view(eight)
    finite = codes.float().isfinite()
    q = torch.zeros(2, 16, dtype=torch.bfloat16)
    q[1, 0] = 1.0
    wide = codes.view(torch.uint8)[:, None].expand(256, 16).contiguous()
    for numbers in (torch.where(finite[:, None], wide, 0), torch.where(finite[:, None] & (wide < 128), wide, 0)):
        numbers = numbers.view(eight)
        largest = numbers.double().max().item()
        out, lse, expected, expected_lse = decode(monkeypatch, q, numbers, numbers, 250, 30 / largest)
        assert (out.double() - expected).abs().max() <= largest * 2**-8 and (lse - expected_lse).abs().max() < 1e-3
        assert (out.double() - expected).abs()[1].max() <= expected[1].abs().max() * 2**-7
    same = torch.full((64, 16), largest).to(eight)
    assert torch.equal(decode(monkeypatch, q, same, same, 64, 1.0)[0], torch.full((2, 16), largest, dtype=torch.bfloat16))
    one = torch.zeros(64, 16).to(eight)
    one.view(torch.uint8)[5, 3] = 0x7f
    zero = torch.zeros(64, 16).to(eight)
    out = decode(monkeypatch, q, zero, one, 64, 1.0)[0]
    assert out[:, 3].isnan().all() and (out[:, [i for i in range(16) if i != 3]] == 0).all()
    assert decode(monkeypatch, q, zero, one, 5, 1.0)[0].isfinite().all()
    if eight == torch.float8_e5m2:
        one.view(torch.uint8)[5, 3] = 0x7c
        assert (decode(monkeypatch, q, zero, one, 64, 1.0)[0][:, 3] == float("inf")).all()
    for number in (float("nan"), float("inf")):
        q[1, 1] = number
        out = decode(monkeypatch, q, same, same, 64, 1.0)[0]
        assert out[1].isnan().all() and (out[0] == largest).all()


def error_of(found, exact):
    return ((found.double() - exact).norm() / exact.norm()).item()


@needs_simulator
def test_errors_of_products(simulated, monkeypatch):
    """fp32 in full precision is not added up in one long sum, whose error is about twice as large."""
    launch, decide = products.launch, products.by_tile
    monkeypatch.setattr(products, "by_tile", lambda device, *args: decide(types.SimpleNamespace(type="cuda"), *args))
    monkeypatch.setattr(products, "launch", lambda kernel, grid, device, arguments, constants, *more, **options: launch(
        kernel, grid, device, arguments, constants | {"IN_ORDER": False}, *more, **options))
    generator = torch.Generator().manual_seed(0)
    a, b, out, one_sum = torch.randn(16, 250, generator=generator), torch.randn(250, 16, generator=generator), torch.empty(16, 16), torch.zeros(16, 16)
    products.multiply(out, a, b, None, (1, 16, 16, 250), ((0, *out.stride()), (0, 0, *a.stride()), (0, 0, *b.stride()), (0, 0, 0)))
    for k in range(250):
        one_sum += a[:, k, None] * b[k]
    exact = a.double() @ b.double()
    assert error_of(out, exact) < 0.6 * error_of(one_sum, exact), (error_of(out, exact), error_of(one_sum, exact))


@needs_simulator
@pytest.mark.parametrize("most_of_few", [0, 1024], ids=["sorted", "few"])
@pytest.mark.parametrize("by_count", [False, True])
def test_gradient_of_an_embedding(by_count, most_of_few, simulated, monkeypatch):
    """Rows of the gradient are added up by eights, few by fours, which makes errors smaller than those of one long sum."""
    monkeypatch.setattr(bags, "most_of_few", lambda device: most_of_few)
    generator = torch.Generator().manual_seed(0)
    indices = torch.randint(0, 7, (600, ), generator=generator)
    indices[indices == 5] = 3
    indices[indices == 6] = 0
    indices[17] = 6
    gradient = torch.randn(600, 20, generator=generator)
    operator = nereid.ops.OPERATORS["embedding_dense_backward"]
    found = operator.call(operator.forms[0], *operator.forms[0].bind((gradient, indices, 8, 1, by_count), {}))
    exact, native = (torch.ops.aten.embedding_dense_backward(gradient.to(dtype), indices, 8, 1, by_count) for dtype in (torch.float64, torch.float32))
    torch.testing.assert_close(found, exact.float(), rtol=1e-5, atol=1e-5)
    assert error_of(found, exact) < 0.7 * error_of(native, exact), (error_of(found, exact), error_of(native, exact))


@needs_simulator
@pytest.mark.parametrize("mode,weighted,by_count,padding", [(0, False, False, -1), (0, True, False, 2), (1, False, False, 1), (1, False, True, -1)])
def test_gradient_of_few_bags(mode, weighted, by_count, padding, simulated, monkeypatch):
    """Indices that are not sorted, of two types: as sorted ones."""
    generator = torch.Generator().manual_seed(0)
    indices, sizes = torch.randint(0, 5, (70, ), generator=generator), torch.tensor([9, 0, 40, 21])
    owners, gradient = torch.arange(4).repeat_interleave(sizes), torch.randn(4, 300, generator=generator)
    weights = torch.randn(70, generator=generator) if weighted else None
    operator, found = nereid.ops.OPERATORS["_embedding_bag_dense_backward"], []
    for most, kind in ((0, torch.int64), (1024, torch.int64), (1024, torch.int32)):
        monkeypatch.setattr(bags, "most_of_few", lambda device: most)
        found.append(operator.call(operator.forms[0], *operator.forms[0].bind((gradient, indices.to(kind), owners.to(kind), sizes.to(kind), sizes.to(kind), 6, by_count, mode, weights, padding), {})))
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-5)
    assert torch.equal(found[1], found[2]) and found[0].abs().sum() > 0


@needs_simulator
@pytest.mark.parametrize("shape,order", [((3, 37, 2, 40), (0, 3, 1, 2)), ((40, 3, 50), (0, 2, 1)), ((2, 70), (1, 0)), ((5, 3), (1, 0)), ((300, 4), (1, 0))], ids=str)
def test_copies_along_both_dimensions(shape, order, simulated):
    """Also with fewer than 32 elements along one of them, where tiles are longer along the other one."""
    pointwise = sys.modules["nereid.ops.pointwise"]
    source = torch.arange(math.prod(shape), dtype=torch.int32).view(shape).permute(order)
    target = torch.zeros(source.shape, dtype=torch.int32)
    pointwise.apply(_moves.COPY, [target], [source], (), target.shape, torch.int32, types.SimpleNamespace(type="cuda", index=0))
    assert torch.equal(target, source)
    kind, sizes, _, tile = pointwise.layout(target.shape, [target.stride(), source.stride()], 1, 1024)
    assert kind == "tiled" and math.prod(tile) <= 1024 and all(length < 2 * max(size, 16) for length, size in zip(tile, sizes[-2:]))


@needs_simulator
@pytest.mark.parametrize("name", calls())
def test_numbers(name, simulated):
    operator, args = nereid.ops.OPERATORS[name], calls()[name]
    form = operator.forms[0]
    expected, found = form.overload(*args), operator.call(form, *form.bind(args, {}))
    assert type(found) is not nereid.ops.Native, found
    if isinstance(found, tuple) and "bag" in name:  # the others count bags, which differs by device
        expected, found = expected[0], found[0]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@needs_simulator
@pytest.mark.parametrize("backward", [False, True], ids=["", "backward"])
@pytest.mark.parametrize("case", interpolations(), ids=lambda case: "-".join(map(str, case[:3])))
def test_interpolation(case, backward, simulated):
    """All ranks and forms: lines, planes, volumes, channels last; results in 64-bit floats are the measure."""
    name, sizes, output, more, dtype, form = case
    if not hasattr(aten, name):
        pytest.skip(f"PyTorch {torch.__version__} has no operator aten::{name}: newer releases do")
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 200, (*sizes[:2], *(output if backward else sizes[2:])), generator=generator).to(dtype)
    x = x if form is None else x.contiguous(memory_format=form)
    args = (x, output, sizes, *more) if backward else (x, output, *more)
    if backward and dtype is torch.uint8:
        args = (x.float(), *args[1:])
    operator = nereid.ops.OPERATORS[name + "_backward" if backward else name]
    wide = dtype is not torch.uint8 or backward
    expected = operator.forms[0].overload(args[0].double() if wide else args[0], *args[1:]).to(args[0].dtype)
    found = operator.call(operator.forms[0], *operator.forms[0].bind(args, {}))
    assert type(found) is not nereid.ops.Native, found
    assert found.stride() == operator.forms[0].overload(*args).stride()
    torch.testing.assert_close(found, expected, rtol=2e-5 if dtype is not torch.float16 else 1e-3, atol=2e-3)
    target = torch.empty((*expected.shape, 2), dtype=found.dtype)[..., 0]
    with_target = next(form for form in operator.forms if form.kind == "out")
    operator.call(with_target, *with_target.bind(args, {with_target.outs[0]: target}))
    torch.testing.assert_close(target, found, rtol=1e-6, atol=1e-4)


@needs_simulator
@pytest.mark.parametrize("pairs", [0, 2**20], ids=["tiles", "pairs"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float64], ids=str)
def test_sorts_of_wide_elements(dtype, pairs, simulated, monkeypatch):
    """Rows of 64-bit elements by comparing all pairs, or in blocks that are merged: stable, NaN last, both zeros equal."""
    monkeypatch.setattr(_sorted, "PAIRS", pairs)
    monkeypatch.setattr(_sorted, "WIDE_BLOCK", 64)
    x = torch.randint(-9, 9, (2, 150), generator=torch.Generator().manual_seed(0)).to(dtype)
    if dtype is torch.float64:
        x[0, 5:7], x[1, 3], x[1, 7::20] = math.nan, -math.inf, -0.0
    else:
        x[:, ::3] *= 2**40 + 3
    for descending in (False, True):
        values, indices = torch.empty_like(x), torch.empty(x.shape, dtype=torch.int64)
        _sorted.sort(x, 1, values, indices, descending)
        expected = torch.sort(x, dim=1, descending=descending, stable=True)
        assert torch.equal(indices, expected.indices) and torch.equal(values.view(torch.int64), x.gather(1, indices).view(torch.int64))


@needs_simulator
@pytest.mark.parametrize("name,dtype", [(name, dtype) for dtype in (torch.bfloat16, torch.float16) for name in ("log", "log1p", "logit", "logaddexp", "special_xlog1py") if dtype == torch.bfloat16 or name != "log"])
def test_logarithms_of_16_bits(name, dtype, simulated):
    """They take the GPU's instruction, or a series, and are rounded to the nearest 16-bit float or one of its neighbours: every 29th number, the smallest, the largest and those beside 1 of both signs."""
    one = torch.ones((), dtype=dtype).view(torch.int16).item()
    near = [0, 1, 2, 3, 77, *range(one - 40, one + 40), torch.full((), torch.finfo(dtype).max, dtype=dtype).view(torch.int16).item()]
    codes = torch.tensor([*range(0, 1 << 15, 29), *near, *(torch.full((), value, dtype=dtype).view(torch.int16).item() for value in (math.inf, math.nan))])
    x = torch.cat((codes, codes - (1 << 15))).to(torch.int16).view(dtype)
    args = (x, x.roll(1009)) if name in ("logaddexp", "special_xlog1py") else (x, )
    with nereid.ops.use(only=[name], routing=False, router=False):
        found = getattr(aten, name)(*args)
    exact = getattr(aten, name)(*(tensor.double() for tensor in args))
    expected = exact.to(dtype)
    assert torch.equal(found.isnan(), expected.isnan()) and torch.equal(found.isinf(), expected.isinf())
    # Where a sum of fp32 cancels, the parts' size counts, not that of the result.
    size = torch.maximum(*(tensor.double().abs() for tensor in args)).clamp(max=1) * 2**-20 if name.startswith("logaddexp") else 0
    error = (found.double() - exact).abs().nan_to_num(0, 0, 0) - size
    assert (error <= exact.abs() * torch.finfo(dtype).eps * 0.55 + torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps * 0.55)[expected.isfinite()].all()


@needs_simulator
@pytest.mark.parametrize("name", ["softplus", "softplus_backward", "mish", "log_sigmoid_forward", "elu_backward", "logaddexp2", "exp2"])
def test_results_below_the_normal_range(name, simulated):
    """bf16 has the exponents of fp32: results below 2^-126, which the GPU's exponential takes for 0, are rounded like others."""
    x = torch.cat([torch.linspace(-100, -70, 301), torch.linspace(-140, -100, 401), torch.tensor([-1.0, 0.0, 1.0, 30.0])]).to(torch.bfloat16)
    one = torch.ones_like(x)
    args = {"softplus": (x, 1, 20), "softplus_backward": (one, x, 1, 20), "log_sigmoid_forward": (-x, ), "elu_backward": (one, 1, 1, 1, False, x), "logaddexp2": (x, one * 0)}.get(name, (x, ))
    with nereid.ops.use(only=[name], routing=False, router=False):
        found = getattr(aten, name)(*args)
    exact = getattr(aten, name)(*(arg.double() if isinstance(arg, torch.Tensor) else arg for arg in args))
    found, exact = (result[0] if isinstance(result, tuple) else result for result in (found, exact))
    assert ((found.double() - exact).abs() <= exact.abs() * 2**-8 * 1.1 + 2**-134 * 1.1).all()


@needs_simulator
@pytest.mark.parametrize("unit", ["k", "n"])
def test_grouped_products_scheduled(unit, simulated, monkeypatch, tmp_path):
    """Tiles at the ends of groups are clipped, and groups of warps without rows multiply nothing; rows behind the last group are 0."""
    grouped = sys.modules["nereid.ops.grouped"]
    monkeypatch.setattr(grouped, "is_scheduled", lambda m, groups: True)
    monkeypatch.setattr(grouped, "can_copy", lambda *args: True)
    monkeypatch.setattr(grouped, "whole_tiles", lambda *args: products.Tiles(128, 64, 32, 1, 8, 8, 3))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: types.SimpleNamespace(multi_processor_count=3))
    a, b = torch.randn(420, 96).to(torch.bfloat16), (torch.randn(4, 96, 80) / 8).to(torch.bfloat16)
    ends = torch.tensor([40, 204, 204, 390], dtype=torch.int32)
    out = grouped.grouped_into(torch.full((420, 80), math.nan, dtype=torch.bfloat16), a, b if unit == "n" else b.mT.contiguous().mT, ends)
    code = (tmp_path / "kernel.mlir").read_text()
    assert "ngpu.any_in_warp" in code and "chunk 64" in code and "complete" not in code
    bounds = zip([0, *ends.tolist()], ends.tolist())
    expected = torch.cat([*(a[first:end].double() @ b[group].double() for group, (first, end) in enumerate(bounds)), torch.zeros(30, 80, dtype=torch.float64)])
    assert (out.double() - expected).abs().max() <= 2**-8 * expected.abs().max()
