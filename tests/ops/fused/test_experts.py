"""Mixtures of experts: the choice of experts, tokens in the order of their experts, routed experts, their sum."""

import pytest
import torch
import torch.nn.functional as F
from fused_checks import check, compare, layouts, random

from nereid.ops import fused

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def choice(logits, count, scores="softmax", normalise=False, bias=None, scale=1.0):
    found = logits.softmax(-1) if scores == "softmax" else logits.sigmoid()
    experts = (found if bias is None else found + bias).topk(count, -1)[1]
    weights = found.gather(-1, experts)
    return (weights / weights.sum(-1, keepdim=True) if normalise else weights) * scale, experts


@pytest.mark.parametrize("biased", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("normalise", [False, True], ids=["", "normalise"])
@pytest.mark.parametrize("scores", ["softmax", "sigmoid"])
def test_topk_softmax(scores, normalise, biased, target):
    for dtype, shape, count in ((torch.float32, (37, 60), 6), (torch.bfloat16, (5, 8), 2), (torch.float64, (2, 3, 9), 9), (torch.float32, (3, 300), 2)):
        logits = random(*shape, dtype=torch.float32, device=target, scale=2)
        # Distinct logits: among equals topk may choose any.
        logits = (logits.argsort(-1).argsort(-1) / shape[-1] * 4 - 2).to(dtype)
        bias = random(shape[-1], dtype=torch.float64, device=target, scale=1e-3).to(dtype) if biased else None
        got = fused.topk_softmax(logits, count, scores, normalise, bias, 2.5)
        assert got[0].dtype == (torch.float64 if dtype == torch.float64 else torch.float32) and got[1].dtype == torch.int64
        check(lambda x: fused.topk_softmax(x, count, scores, normalise, bias, 2.5), lambda x: choice(x, count, scores, normalise, bias, 2.5), [logits], units=16)


def test_topk_softmax_strides_and_ties(target):
    logits = random(6, 40, device=target)
    for _, x in layouts(logits)[1:]:
        check(lambda x: fused.topk_softmax(x, 3, "softmax", True), lambda x: choice(x, 3, "softmax", True), [x], units=16)
    assert fused.topk_softmax(torch.zeros(2, 8, device=target), 3)[1].tolist() == [[0, 1, 2]] * 2
    assert fused.topk_softmax(torch.tensor([[0.0, -0.0, 1.0, -1.0]], device=target), 4)[1].tolist() == [[2, 0, 1, 3]]


def test_topk_softmax_special_values(target):
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[0.0, nan, 1.0, -inf], [-inf, -inf, 3.0, -inf], [-1e4, -1e4, -2e4, -1e4]], device=target)
    weights, experts = fused.topk_softmax(x, 2, "softmax", True)
    assert experts.tolist() == [[1, 2], [2, 0], [0, 1]]
    assert weights[0].isnan().all() and weights[1:].tolist() == [[1.0, 0.0], [0.5, 0.5]]
    # All scores are 0.
    assert fused.topk_softmax(x[2:], 2, "sigmoid", True)[0].tolist() == [[0.0, 0.0]]


def test_topk_softmax_empty_and_errors(target):
    assert [tuple(x.shape) for x in fused.topk_softmax(torch.zeros(0, 8, device=target), 2)] == [(0, 2)] * 2
    x = torch.zeros(3, 8, device=target)
    for count in (0, 9):
        with pytest.raises(ValueError, match=f"`count` is {count}: expected a number from 1 to 8"):
            fused.topk_softmax(x, count)
    with pytest.raises(ValueError, match="`scores` is 'relu': expected \"softmax\" or \"sigmoid\""):
        fused.topk_softmax(x, 2, "relu")
    with pytest.raises(ValueError, match=r"`bias` has shape \(7,\): expected \(8,\)"):
        fused.topk_softmax(x, 2, bias=x[0, :7])
    with pytest.raises(ValueError, match="has 5000 columns: expected at most 4096"):
        fused.topk_softmax(torch.zeros(1, 5000, device=target), 2)
    with pytest.raises(TypeError, match="`logits` has dtype torch.int64"):
        fused.topk_softmax(x.long(), 2)


def aligned(experts, size, unit):
    """What `moe_align` returns, as lists."""
    flat = experts.flatten().tolist()
    bound = (len(flat) + min(len(flat), size) * (unit - 1)) // unit * unit
    rows, ends, blocks = [], [], []
    for expert in range(size):
        own = [i for i, e in enumerate(flat) if e == expert]
        own += [len(flat)] * (-len(own) % unit)
        rows += own
        ends.append(len(rows))
        blocks += [expert] * (len(own) // unit)
    places = {pair: place for place, pair in enumerate(rows)}
    rows += [len(flat)] * (bound - len(rows))
    return rows, ends, [places.get(i, -1) if 0 <= e < size else -1 for i, e in enumerate(flat)], blocks + [-1] * (bound // unit - len(blocks))


@pytest.mark.parametrize("tokens,count,size,unit", [(1, 1, 1, 1), (1, 2, 8, 16), (7, 2, 8, 1), (700, 3, 5, 16), (300, 8, 100, 64), (260, 2, 3, 1), (40, 1, 600, 1), (513, 1, 2, 128), (1200, 8, 40, 128)])
def test_moe_align(tokens, count, size, unit, target):
    """One launch and two, experts without pairs, pairs without experts, padding."""
    generator = torch.Generator().manual_seed(tokens)
    for low, high in ((0, size), (-1, size + 1)):
        experts = torch.randint(low, high, (tokens, count), generator=generator).to(target)
        for x in (experts, experts.to(torch.int32), torch.cat([experts, experts], 1)[:, :count]):
            got = fused.moe_align(x, size, unit)
            assert [x.dtype for x in got] == [torch.int32] * 4 and got[2].shape == experts.shape
            assert [x.flatten().tolist() for x in got] == list(aligned(experts, size, unit))


def test_moe_align_empty_and_errors(target):
    got = fused.moe_align(torch.zeros(0, 2, dtype=torch.int64, device=target), 3, 4)
    assert [x.tolist() for x in got] == [[], [0, 0, 0], [], []]
    experts = torch.zeros(3, 2, dtype=torch.int64, device=target)
    with pytest.raises(TypeError, match="`experts` has dtype torch.float32: expected int32 or int64"):
        fused.moe_align(experts.float(), 3)
    with pytest.raises(ValueError, match="`size` is 0: expected a number of experts from 1 to 4096"):
        fused.moe_align(experts, 0)
    with pytest.raises(ValueError, match="`unit` is 0"):
        fused.moe_align(experts, 3, 0)
    with pytest.raises(ValueError, match=r"rows or more: expected fewer"):
        fused.moe_align(experts, 3, 2**30)


def combination(x, rows, places, weights=None):
    found = x[places.clamp(min=0).long()] * (places >= 0).unsqueeze(-1)
    return (found if weights is None else found * weights.unsqueeze(-1)).sum(1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_moe_combine(dtype, target):
    experts = torch.randint(-1, 4, (9, 3), generator=torch.Generator().manual_seed(1)).to(target)
    for unit, n in ((1, 40), (16, 33), (1, 1030)):
        rows, _, places, _ = fused.moe_align(experts, 4, unit)
        x = random(rows.shape[0], n, dtype=dtype, device=target)
        for weights in (None, random(9, 3, device=target, seed=1), random(3, 9, dtype=dtype, device=target, seed=1).t()):
            check(fused.moe_combine, combination, [x, rows, places, weights], units=8)
    rows, _, places, _ = fused.moe_align(experts, 4)
    for _, strided in layouts(random(27, 40, dtype=dtype, device=target))[1:]:
        check(fused.moe_combine, combination, [strided, rows, places, random(9, 3, device=target)], units=8)


def test_moe_combine_drops_what_has_no_expert(target):
    """Whatever its weight is."""
    experts = torch.tensor([[0, -1], [-1, -1]], device=target)
    rows, _, places, _ = fused.moe_align(experts, 1)
    weights = torch.tensor([[2.0, float("nan")], [float("inf"), float("nan")]], device=target)
    assert fused.moe_combine(torch.ones(4, 1, device=target), rows, places, weights).tolist() == [[2.0], [0.0]]


def test_moe_combine_empty_and_errors(target):
    experts = torch.zeros(3, 2, dtype=torch.int64, device=target)
    rows, _, places, _ = fused.moe_align(experts, 1)
    x = torch.ones(6, 4, device=target)
    check(fused.moe_combine, combination, [x[:, :0], rows, places, x[:3, :2]])
    check(fused.moe_combine, combination, [x[:0], rows[:0], places[:0], x[:0, :2]])
    with pytest.raises(ValueError, match=r"`rows` has shape \(6,\): expected \(5,\)"):
        fused.moe_combine(x[:5], rows, places)
    with pytest.raises(ValueError, match=r"`places` has shape \(3, 2\): expected \(tokens, count\), together at most 5"):
        fused.moe_combine(x[:5], rows[:5], places)
    with pytest.raises(ValueError, match=r"`weights` has shape \(2, 2\): expected \(3, 2\)"):
        fused.moe_combine(x, rows, places, x[:2, :2])
    with pytest.raises(TypeError, match="`places` has dtype torch.float32"):
        fused.moe_combine(x, rows, places.float())


def mixture(x, gate_up, down, weights, experts):
    gate, up = gate_up.chunk(2, 1)
    out = torch.zeros_like(x)
    for expert in range(gate_up.shape[0]):
        hidden = F.silu(x @ gate[expert].t()) * (x @ up[expert].t())
        out = out + (hidden @ down[expert].t()) * torch.where(experts == expert, weights, 0).sum(-1, keepdim=True)
    return out


def layer(tokens, count, size, n, k, dtype, target, low=0):
    """The arguments of `moe_swiglu`; experts of a token may repeat."""
    generator = torch.Generator().manual_seed(tokens)
    return [
        random(tokens, k, dtype=dtype, device=target), random(size, 2 * n, k, dtype=dtype, device=target, scale=max(k, 1)**-0.5),
        random(size, k, n, dtype=dtype, device=target, scale=max(n, 1)**-0.5), random(tokens, count, device=target).abs(),
        torch.randint(low, size, (tokens, count), generator=generator).to(target)
    ]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_moe_swiglu(dtype, target):
    tensors = layer(19, 2, 5, 24, 40, dtype, target, low=-1)
    # The gradient of the weights is as exact as what the experts yield.
    tensors[3] = tensors[3].to(dtype)
    units = {torch.float16: 16, torch.bfloat16: 16}.get(dtype, 32)
    check(fused.moe_swiglu, mixture, tensors, units=units)
    check(torch.ops.nereid.moe_swiglu, mixture, tensors, units=units)


@pytest.mark.parametrize("tokens,count,size,n,k", [(1, 2, 8, 32, 32), (70, 1, 1, 33, 17), (300, 2, 3, 40, 24), (3, 4, 2, 1, 1), (0, 2, 3, 8, 8), (3, 2, 3, 0, 8), (3, 2, 3, 8, 0)])
def test_moe_swiglu_shapes(tokens, count, size, n, k, target):
    check(fused.moe_swiglu, mixture, layer(tokens, count, size, n, k, torch.float32, target), units=64)


def test_moe_swiglu_strides_and_dimensions(target):
    x, gate_up, down, weights, experts = layer(12, 2, 3, 16, 24, torch.float32, target)
    check(fused.moe_swiglu, mixture, [x.t().contiguous().t(), gate_up.mT.contiguous().mT, down.mT.contiguous().mT, weights.t().contiguous().t(), experts.t().contiguous().t()], units=64)
    check(fused.moe_swiglu, mixture, [x.view(3, 4, 24), gate_up, down, weights.view(3, 4, 2), experts.view(3, 4, 2).to(torch.int32)], units=64)


def test_moe_swiglu_is_the_same_each_time(target):
    tensors = layer(200, 4, 6, 32, 64, torch.bfloat16, target)
    leaves = [x.requires_grad_() for x in tensors[:4]]
    runs = []
    for _ in range(2):
        out = fused.moe_swiglu(*tensors)
        runs.append([out, *torch.autograd.grad(out, leaves, torch.ones_like(out))])
    compare(*runs, units=0)


def test_moe_swiglu_errors(target):
    x, gate_up, down, weights, experts = layer(4, 2, 3, 8, 16, torch.float32, target)
    with pytest.raises(ValueError, match=r"`gate_up` has shape \(3, 15, 16\): expected \(experts, 2 n, 16\)"):
        fused.moe_swiglu(x, gate_up[:, :15], down, weights, experts)
    with pytest.raises(ValueError, match=r"`down` has shape \(3, 16, 7\): expected \(3, 16, 8\)"):
        fused.moe_swiglu(x, gate_up, down[..., :7], weights, experts)
    with pytest.raises(ValueError, match=r"`experts` has shape \(3, 2\): expected \(4, 'count'\)"):
        fused.moe_swiglu(x, gate_up, down, weights[:3], experts[:3])
    with pytest.raises(ValueError, match=r"`weights` has shape \(4, 1\): expected \(4, 2\)"):
        fused.moe_swiglu(x, gate_up, down, weights[:, :1], experts)
    with pytest.raises(TypeError, match="`experts` has dtype torch.float32"):
        fused.moe_swiglu(x, gate_up, down, weights, experts.float())
    with pytest.raises(TypeError, match="`down` has dtype torch.float64, `x` torch.float32"):
        fused.moe_swiglu(x, gate_up, down.double(), weights, experts)
