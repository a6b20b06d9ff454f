"""Attention and its gradients: the operators of CPUs against ATen's; those of GPUs, whose kernels ATen has there only, against the same in fp64.

What an operator of GPUs does is called directly here (`Operator.call`), on tensors of the target: results, log-sum-exps, layouts.
"""

import math

import pytest
import torch

import nereid.ops
import opinfo
from nereid.ops import Native, _schema

FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
NAMES = ("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward")
CPU_ONLY = pytest.mark.cpu_only("ATen has `_scaled_dot_product_flash_attention_for_cpu` on CPUs only")
#: batch, heads of queries, heads of keys, queries, keys, size of a head
SIZES = [(2, 4, 4, 5, 7, 8), (1, 4, 2, 100, 130, 40), (2, 2, 2, 64, 128, 64), (1, 3, 1, 1, 300, 33), (1, 1, 1, 200, 17, 16)]


def random(dtype, *shape, device="cpu"):
    return torch.randn(shape, dtype=torch.float64).to(dtype).to(device)


def inputs(sizes, dtype, device):
    """Queries with the heads inside, keys contiguous, values with a gap behind each row."""
    batches, heads, key_heads, queries, keys, size = sizes
    return (random(dtype, batches, queries, heads, size, device=device).transpose(1, 2), random(dtype, batches, key_heads, keys, size, device=device),
            random(dtype, batches, key_heads, keys, size + 3, device=device)[..., :size])


def reference(query, key, value, causal=False, shift=0, scale=None, bias=None, empty=0.0):
    """(result, log-sum-exp) in fp64, by the definition."""
    query, key, value = (x.detach().double() for x in (query, key, value))
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = query @ key.mT * (1 / math.sqrt(query.shape[3]) if scale is None else scale)
    if bias is not None:
        scores = scores + bias.double()
    if causal:
        l, s = (torch.arange(n, device=query.device) for n in scores.shape[2:])
        scores = scores.masked_fill(s > l[:, None] + shift, -math.inf)
    sums = scores.logsumexp(3)
    out = scores.softmax(3).nan_to_num(0) @ value
    return out, torch.where(sums == -math.inf, empty, sums)


def gradients(gradient, query, key, value, bias=None, **more):
    """Of query, key, value and, if there is one, the bias, in fp64."""
    tensors = [x.detach().double().requires_grad_() for x in (query, key, value, bias) if x is not None]
    groups = query.shape[1] // key.shape[1]
    q, k, v = tensors[0], tensors[1].repeat_interleave(groups, 1), tensors[2].repeat_interleave(groups, 1)
    scores = q @ k.mT * (1 / math.sqrt(query.shape[3]) if more.get("scale") is None else more["scale"])
    if bias is not None:
        scores = scores + tensors[3]
    if more.get("causal"):
        l, s = (torch.arange(n, device=query.device) for n in scores.shape[2:])
        scores = scores.masked_fill(s > l[:, None] + more.get("shift", 0), -math.inf)
    keyless = (scores == -math.inf).all(3, keepdim=True)  # the result is 0, without a gradient
    out = torch.where(keyless, 0, scores).softmax(3).masked_fill(keyless, 0)
    return torch.autograd.grad(out @ v, tensors, gradient.double())


def close(ours, exact, dtype, what, factor=1):
    error, bound = (ours.double() - exact).abs(), factor * {torch.float64: 1e-13, torch.float32: 4e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]
    worst = error / exact.abs().clamp(min=1)
    assert ours.shape == exact.shape and worst.max() <= bound, f"{what}: off by {worst.max().item()}"


def served(function, *args, **kwargs):
    """A call with `nereid.ops`, which has to serve it."""
    nereid.ops.report(clear=True)
    with nereid.ops.use(only=NAMES):
        result = function(*args, **kwargs)
    assert [row.route for row in nereid.ops.report()] == ["nereid"], nereid.ops.report()
    return result


def same_layout(ours, native):
    for mine, theirs in zip(ours, native):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape and mine.stride() == theirs.stride()


@CPU_ONLY
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_cpu(sizes, dtype, causal, target):
    query, key, value = inputs(sizes, dtype, target)
    for bias in (None, random(dtype, sizes[0], 1, sizes[3], sizes[4]), torch.where(torch.rand(1, sizes[4]) < 0.3, -math.inf, 0.0)):
        bias = bias if bias is None or bias.dim() == 4 or dtype != torch.float64 else bias.double()
        for scale in (None, 0.3):
            given = {"attn_mask": bias, "scale": scale}
            native = FORWARD(query, key, value, 0.0, causal, **given)
            ours = served(FORWARD, query, key, value, 0.0, causal, **given)
            same_layout(ours, native)
            out, sums = reference(query, key, value, causal, 0, scale, bias)
            close(ours[0], out, dtype, "result")
            close(ours[1], sums, torch.float64 if dtype == torch.float64 else torch.float32, "log-sum-exp")
            gradient = random(dtype, *out.shape)
            arguments = (gradient, query, key, value, *native, 0.0, causal)
            found = served(BACKWARD, *arguments, **given)
            same_layout(found, BACKWARD(*arguments, **given))
            for name, mine, exact in zip("qkv", found, gradients(gradient, query, key, value, None if bias is None else bias.expand(*sizes[:2], *sizes[3:5]),
                                                                 causal=causal, scale=scale)):
                close(mine, exact, dtype, f"gradient of {name}", 8)


@CPU_ONLY
def test_rows_without_keys(target):
    query, key, value = inputs((1, 2, 2, 70, 90, 16), torch.float32, target)
    bias = torch.zeros(70, 90)
    bias[5:30] = -math.inf
    native = FORWARD(query, key, value, 0.0, False, attn_mask=bias)
    ours = served(FORWARD, query, key, value, 0.0, False, attn_mask=bias)
    assert ours[0][:, :, 5:30].eq(0).all() and ours[1][:, :, 5:30].eq(native[1][:, :, 5:30]).all()
    found = served(BACKWARD, torch.ones_like(query), query, key, value, *ours, 0.0, False, attn_mask=bias)
    assert all(x.isfinite().all() for x in found) and found[0][:, :, 5:30].eq(0).all()
    key[0, 0, 3, 2] = math.nan
    assert served(FORWARD, query, key, value, 0.0, False)[0][0, 0].isnan().all()


@CPU_ONLY
def test_empty(target):
    query, key, value = inputs((2, 4, 4, 5, 7, 8), torch.float32, target)
    out, sums = served(FORWARD, query[:0], key[:0], value[:0])
    assert out.shape == (0, 4, 5, 8) and sums.shape == (0, 4, 5)
    out, sums = served(FORWARD, query, key[:, :, :0], value[:, :, :0])
    assert out.eq(0).all() and sums.eq(0).all()
    assert served(FORWARD, query[:, :, :0], key, value)[0].shape == (2, 4, 0, 8)


@CPU_ONLY
def test_what_is_left_to_aten(target):
    query, key, value = inputs((2, 4, 4, 5, 7, 8), torch.float32, target)
    with nereid.ops.use(only=NAMES):
        for call, text in ((lambda: FORWARD(query, key, value, 0.5), "dropout"), (lambda: FORWARD(query, key, value[..., :6]), "same head size"),
                           (lambda: FORWARD(query, key, value, attn_mask=torch.zeros(4, 5, 7)), "mask dim"), (lambda: FORWARD(query[0], key[0], value[0]), "4 dims"),
                           (lambda: FORWARD(query, key, value, attn_mask=torch.ones(5, 7, dtype=torch.bool)), "same data type"),
                           (lambda: FORWARD(query, key, value, attn_mask=torch.zeros(5, 3)), "must match"), (lambda: FORWARD(query.int(), key.int(), value.int()), "data type")):
            with pytest.raises(RuntimeError, match=text):
                call()


def called(name, *args, **kwargs):
    """The operator's results for these arguments, without PyTorch's dispatcher."""
    operator = nereid.ops.OPERATORS[name]
    form = next(form for form in operator.forms if "." not in form.name)
    return operator.call(form, *form.bind(args, kwargs))


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_flash(sizes, dtype, causal, target):
    """Both forms of flash attention: causal masks end at the lower right corner; queries without keys have a log-sum-exp of infinity."""
    query, key, value = inputs(sizes, dtype, target)
    shift = sizes[4] - sizes[3]
    ours = called("_scaled_dot_product_flash_attention", query, key, value, 0.0, causal, scale=0.25)
    out, sums = reference(query, key, value, causal, shift, 0.25, empty=math.inf)
    assert len(ours) == 9 and ours[2:4] == (None, None) and ours[4:6] == (sizes[3], sizes[4])
    assert ours[0].stride() == torch.empty_like(query).stride() and ours[1].is_contiguous()
    assert ours[6].shape == (2, ) and ours[6].dtype == ours[7].dtype == torch.uint64 and ours[7].shape == () and ours[8].shape == (0, ) and ours[8].dtype == dtype
    close(ours[0], out, dtype, "result")
    keyless = sums == math.inf
    assert torch.equal(ours[1] == math.inf, keyless)
    close(ours[1].masked_fill(keyless, 0), sums.masked_fill(keyless, 0), torch.float32, "log-sum-exp")
    gradient = random(dtype, *out.shape, device=target)
    found = called("_scaled_dot_product_flash_attention_backward", gradient, query, key, value, *ours[:6], 0.0, causal, *ours[6:8], scale=0.25)
    exact = gradients(gradient, query, key, value, causal=causal, shift=shift, scale=0.25)
    for name, mine, wanted, like in zip("qkv", found, exact, (query, key, value)):
        assert mine.stride() == torch.empty_like(like).stride()
        close(mine, wanted, dtype, f"gradient of {name}", 8)

    rows = [x.transpose(1, 2) for x in (query, key, value)]
    again = called("_flash_attention_forward", *rows, None, None, sizes[3], sizes[4], 0.0, causal, False, scale=0.25)
    assert len(again) == 5 and torch.equal(again[0].transpose(1, 2), ours[0]) and torch.equal(again[1], ours[1])
    again = called("_flash_attention_backward", gradient.transpose(1, 2), *rows, *again[:2], None, None, sizes[3], sizes[4], 0.0, causal, *again[2:4], scale=0.25)
    assert all(torch.equal(x.transpose(1, 2), y) for x, y in zip(again, found))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("sizes", [(2, 4, 5, 7, 8, 8), (1, 3, 100, 130, 40, 24), (1, 2, 70, 40, 16, 32)], ids=str)
def test_efficient(sizes, causal, dtype, target):
    """Memory-efficient attention: causal masks begin at the upper left corner; a bias with a gradient; the log-sum-exp has a multiple of 32 places."""
    batches, heads, queries, keys, size, value_size = sizes
    query, key, value = (random(dtype, batches, n, heads, d, device=target).transpose(1, 2) for n, d in ((queries, size), (keys, size), (keys, value_size)))
    for bias in (None, random(dtype, 1, heads, queries, keys, device=target).expand(batches, -1, -1, -1)):
        ours = called("_scaled_dot_product_efficient_attention", query, key, value, bias, True, 0.0, causal)
        out, sums = reference(query, key, value, causal, 0, None, bias)
        assert ours[0].transpose(1, 2).is_contiguous() and ours[1].shape == (batches, heads, -(-queries // 32) * 32) and ours[1].dtype == torch.float32
        assert all(x.shape == () and x.dtype == torch.int64 for x in ours[2:])
        close(ours[0], out, dtype, "result")
        close(ours[1][..., :queries], sums, torch.float32, "log-sum-exp")
        assert ours[1][..., queries:].eq(math.inf).all()
        without = called("_scaled_dot_product_efficient_attention", query, key, value, bias, False, 0.0, causal)
        assert torch.equal(without[0], ours[0]) and without[1].shape == (batches, heads, 0)
        gradient = random(dtype, *out.shape, device=target)
        found = called("_scaled_dot_product_efficient_attention_backward", gradient, query, key, value, bias, *ours, 0.0, [True] * 4, causal)
        exact = gradients(gradient, query, key, value, bias, causal=causal)
        assert len(found) == 4 and (found[3] is None) == (bias is None) and all(x.transpose(1, 2).is_contiguous() for x in found[:3])
        for name, mine, wanted in zip(("query", "key", "value", "bias"), found, exact):
            close(mine, wanted, dtype, f"gradient of {name}", 8)
        if bias is not None:
            assert found[3].stride(2) % 16 == 0
            assert called("_scaled_dot_product_efficient_attention_backward", gradient, query, key, value, bias, *ours, 0.0, [True] * 3 + [False], causal)[3] is None


def test_gpu_variants_are_left_to_aten(target):
    query, key, value = inputs((2, 4, 2, 5, 7, 8), torch.float16, target)
    rows = [x.transpose(1, 2) for x in (query, key, value)]
    flash, efficient, inner = "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention", "_flash_attention_forward"
    lengths = torch.tensor([0, 5], dtype=torch.int32, device=target)
    for reason, name, args, more in (
        ("dropout", flash, (query, key, value, 0.5), {}), ("debug mask", flash, (query, key, value, 0.0, False, True), {}),
        ("dtype", flash, (query.float(), key.float(), value.float()), {}), ("shapes", flash, (query[:, :3], key, value), {}),
        ("strides", flash, (query.mT.contiguous().mT, key, value), {}), ("dropout", efficient, (query, key, value, None, True, 0.5), {}),
        ("shapes", efficient, (query, key, value, None, True), {}), ("shape of the mask", efficient, (query, query, query, query[..., :3], True), {}),
        ("variant", inner, (*rows, lengths, lengths, 5, 7, 0.0, False, False), {}), ("variant", inner, (*rows, None, None, 5, 7, 0.0, False, False), {"window_size_left": 3}),
    ):
        found = called(name, *args, **more)
        assert type(found) is Native and found.reason == reason, (reason, found)
    assert type(called(inner, *rows, None, None, 5, 7, 0.0, False, False, window_size_left=-1, window_size_right=-1)) is tuple


def test_calls_can_be_recorded(target):
    """What these operators do is allocations, views and launches, so the router can repeat it; integers among the results too."""
    from nereid.ops import _record
    query, key, value = inputs((2, 4, 2, 50, 70, 16), torch.float16, target)
    name = "_scaled_dot_product_flash_attention"
    for name, args in ((name, (query, key, value, 0.0, True)), (name + "_for_cpu", (query, key, value))):
        recorder = _record.Recorder([query, key, value], target)
        with recorder:
            results = called(name, *args)
        record = recorder.record(results)
        assert record.route == _record.RECORDED and record.step_count == 1 and recorder.problem is None
        kinds = [record.results[i].kind for i in range(record.result_count)]
        wanted = [_record._MADE, _record._VIEW] if name.endswith("cpu") else [
            _record._MADE, _record._MADE, _record._NOTHING, _record._NOTHING, _record._NUMBER, _record._NUMBER, *[_record._MADE] * 3]
        assert kinds == wanted and (name.endswith("cpu") or [record.results[i].offset for i in (4, 5)] == [50, 70])
    gradient = torch.ones_like(query)
    recorder = _record.Recorder([gradient, query, key, value, *results], target)
    with recorder:
        found = called("_scaled_dot_product_flash_attention_for_cpu_backward", gradient, query, key, value, *results, 0.0, False)
    assert recorder.record(found).step_count == 3


def test_forms():
    """Results that are integers belong to an overload; one with scales for 8-bit inputs is another operator."""
    names = {form.name for name in nereid.ops.OPERATORS if "attention" in name for form in nereid.ops.OPERATORS[name].forms}
    assert "_scaled_dot_product_flash_attention" in names and "_scaled_dot_product_flash_attention.quantized" not in names
    form = next(form for form in _schema.forms("_flash_attention_forward") if "." not in form.name)
    assert form.returns == 5 and form.kind == "functional"


def test_sdpa(target):
    """`scaled_dot_product_attention` and its gradients arrive here."""
    function = torch.nn.functional.scaled_dot_product_attention
    query, key, value = (random(torch.float32, 2, 4, n, 32, device=target).requires_grad_() for n in (20, 30, 30))
    with nereid.ops.use():
        out = function(query, key, value)
        found = torch.autograd.grad(out.sum(), (query, key, value))
    report = {row.overload for row in nereid.ops.report() if row.route == "nereid"}
    assert any("attention" in name and "backward" in name for name in report)
    close(out, reference(query, key, value)[0], torch.float32, "result")
    for mine, exact in zip(found, gradients(torch.ones_like(out), query, key, value)):
        close(mine, exact, torch.float32, "gradient", 8)
    assert opinfo.magnitude(out) < 10
