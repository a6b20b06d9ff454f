"""`attention` and its gradients: masks, heads, biases, caps, slopes, ragged batches, layouts."""

import math

import pytest
import torch
from fused_checks import check, compare, layouts, random

from nereid.ops import fused

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def scores(q, k, bias=None, *, causal=False, window=(-1, -1), align="end", soft_cap=0.0, slopes=None, scale=None):
    """Of (..., heads, tokens, dim); -inf where a key is not seen."""
    found = q @ k.repeat_interleave(q.shape[-3] // k.shape[-3], -3).mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if soft_cap:
        found = soft_cap * torch.tanh(found / soft_cap)
    if bias is not None:
        found = found + bias
    length, keys = found.shape[-2:]
    places = torch.arange(length, device=q.device)[:, None] + (keys - length if align == "end" else 0)
    columns = torch.arange(keys, device=q.device)
    if slopes is not None:
        found = found - slopes.double()[..., None, None] * (places - columns).abs()
    left, right = window[0], 0 if causal else window[1]
    seen = torch.ones(length, keys, dtype=torch.bool, device=q.device)
    if right >= 0:
        seen &= columns <= places + right
    if left >= 0:
        seen &= columns >= places - left
    return found.masked_fill(~seen, -math.inf)


def definition(q, k, v, bias=None, token_dim=-3, **rules):
    """(result, log-sum-exp)."""
    if token_dim == -3:
        q, k, v = (x.transpose(-2, -3) for x in (q, k, v))
    found = scores(q, k, bias, **rules)
    keyless = (found == -math.inf).all(-1, keepdim=True)
    weights = found.masked_fill(keyless, 0).softmax(-1).masked_fill(keyless, 0)
    out = weights @ v.repeat_interleave(q.shape[-3] // v.shape[-3], -3)
    return out.transpose(-2, -3) if token_dim == -3 else out, found.logsumexp(-1)


def inputs(batches, heads, key_heads, length, keys, dim, value_dim, dtype=torch.float32, device="cpu"):
    return (random(batches, length, heads, dim, dtype=dtype, device=device), random(batches, keys, key_heads, dim, dtype=dtype, device=device, seed=1),
            random(batches, keys, key_heads, value_dim, dtype=dtype, device=device, seed=2))


def check_attention(*tensors, units=8, **rules):
    """Result and gradients; the log-sum-exp where all queries see keys, with gradients as well."""
    both = definition(*[None if x is None else x.double() for x in tensors], **rules)[1].isfinite().all()
    pick = (lambda found: found) if both else (lambda found: found[0])
    check(lambda *given: pick(fused.attention(*given, return_lse=True, **rules)), lambda *given: pick(definition(*given, **rules)), tensors, units=units)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("heads,key_heads", [(4, 4), (4, 2), (3, 1)])
def test_heads(heads, key_heads, dtype, target):
    tensors = inputs(2, heads, key_heads, 37, 70, 32, 32, dtype, target)
    check_attention(*tensors)
    check_attention(*tensors, causal=True, scale=-0.3)


@pytest.mark.parametrize("align", ["start", "end"])
@pytest.mark.parametrize("rules", [{"causal": True}, {"window": (20, 7)}, {"window": (9, -1)}, {"window": (-1, 0)}, {"window": (33, 5), "causal": True}, {"window": (1, 0)}], ids=str)
def test_masks(rules, align, target):
    for length, keys in ((70, 70), (40, 150), (150, 40)):
        check_attention(*inputs(1, 2, 1, length, keys, 16, 16, device=target), align=align, **rules)


def test_one_query(target):
    for align in ("start", "end"):
        check_attention(*inputs(2, 2, 1, 1, 130, 16, 16, device=target), causal=True, align=align)


@pytest.mark.parametrize("dim,value_dim", [(32, 32), (40, 24), (64, 64), (80, 80), (96, 128), (1, 3), (112, 100), (192, 128), (256, 256)])
def test_sizes_of_heads(dim, value_dim, target):
    for dtype in (torch.float32, torch.bfloat16):
        check_attention(*inputs(1, 2, 1, 17, 33, dim, value_dim, dtype, target), causal=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_soft_cap(dtype, target):
    q, k, v = inputs(1, 2, 2, 37, 70, 32, 32, dtype, target)
    # Scores up to 20: most are near the cap, some not.
    check_attention(3 * q, k, v, soft_cap=2.5, scale=0.5, units=16)
    check_attention(q, k, v, soft_cap=30.0, causal=True, units=16)


def test_slopes(target):
    tensors = inputs(2, 2, 1, 37, 70, 16, 16, device=target)
    for slopes in (torch.tensor([0.1, 0.5], device=target), random(2, 2, device=target).abs()):
        for rules in ({}, {"causal": True}, {"window": (20, 3), "align": "start"}):
            check_attention(*tensors, slopes=slopes, **rules)


@pytest.mark.parametrize("shape", [(2, 2, 37, 70), (1, 2, 1, 70), (2, 1, 37, 1), (1, 1, 1, 1)])
def test_bias(shape, target):
    tensors = inputs(2, 2, 1, 37, 70, 16, 16, device=target)
    check_attention(*tensors, random(*shape, device=target, seed=5))
    check_attention(*tensors, random(*shape, device=target, seed=5), causal=True, soft_cap=3.0)


def test_bias_of_minus_infinity(target):
    q, k, v = inputs(1, 2, 1, 70, 90, 16, 16, device=target)
    bias = torch.zeros(1, 1, 70, 90, device=target)
    bias[:, :, 5:30], bias[:, :, :, 7] = -math.inf, -math.inf
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out, lse = fused.attention(*leaves, bias, return_lse=True)
    assert out[:, 5:30].eq(0).all() and lse[:, :, 5:30].eq(-math.inf).all()
    compare((out, lse), definition(*(x.double() for x in leaves), bias.double()), units=2 if target == "cpu" else 8)  # on GPUs three products of tf32
    gradients = torch.autograd.grad(out.sum(), leaves)
    assert all(x.isfinite().all() for x in gradients) and gradients[0][:, 5:30].eq(0).all() and gradients[2][:, 7].eq(0).all()


def test_layouts(target):
    q, k, v = inputs(2, 2, 1, 9, 12, 16, 16, device=target)
    want = definition(q.double(), k.double(), v.double(), causal=True)[0]
    for name, first in layouts(q):
        for x in (k, layouts(k)[2][1]):
            compare(fused.attention(first, x, v, causal=True), want, units=8, what=name)
    swapped = [x.transpose(1, 2) for x in (q, k, v)]
    check_attention(*swapped, token_dim=-2, causal=True)
    compare(fused.attention(*swapped, token_dim=-2, causal=True).transpose(1, 2), want, units=8)
    check_attention(*(x[0] for x in (q, k, v)))
    check_attention(*(x[0] for x in swapped), random(2, 9, 12, device=target), token_dim=-2)


def starts_of(lengths, device, dtype=torch.int32):
    return torch.tensor([0, *lengths]).cumsum(0).to(dtype).to(device)


def ragged_definition(q, k, v, q_lengths, k_lengths, slopes=None, **rules):
    """Of tensors whose tokens are split by the lengths; tokens behind them have 0."""
    found, q_first, k_first = [], 0, 0
    for i, (length, keys) in enumerate(zip(q_lengths, k_lengths)):
        part = None if slopes is None else slopes if slopes.dim() == 1 else slopes[i]
        found.append(definition(q[q_first:q_first + length], k[k_first:k_first + keys], v[k_first:k_first + keys], slopes=part, **rules)[0])
        q_first, k_first = q_first + length, k_first + keys
    return torch.cat([*found, q.new_zeros(q.shape[0] - q_first, q.shape[1], v.shape[-1])])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("rules", [{}, {"causal": True}, {"window": (7, 3)}, {"window": (7, -1), "align": "start"}, {"causal": True, "align": "start", "soft_cap": 2.0}], ids=str)
def test_ragged(rules, dtype, target):
    """Sequences without queries, without keys, and tokens behind the last one."""
    q_lengths, k_lengths = [5, 0, 70, 33, 1, 4], [9, 4, 60, 33, 130, 0]
    q, k, v = random(116, 4, 24, dtype=dtype, device=target), random(238, 2, 24, dtype=dtype, device=target, seed=1), random(238, 2, 40, dtype=dtype, device=target, seed=2)
    for kind, longest in ((torch.int32, (70, 130)), (torch.int64, (0, 0))):
        given = {"q_starts": starts_of(q_lengths, target, kind), "k_starts": starts_of(k_lengths, target, kind), "max_q": longest[0], "max_k": longest[1], **rules}
        check(lambda *x: fused.attention(*x, **given), lambda *x: ragged_definition(*x, q_lengths, k_lengths, **rules), [q, k, v], units=8)
    out, lse = fused.attention(q, k, v, **given, return_lse=True)
    assert lse.shape == (4, 116) and lse[:, 113:].eq(-math.inf).all() and out[109:].eq(0).all()


def test_ragged_of_one_length(target):
    """`k_starts` are those of the queries; slopes for each sequence."""
    q, k, v = (random(40, 2, 16, device=target, seed=i) for i in range(3))
    lengths, slopes = [13, 27], random(2, 2, device=target).abs()
    check(lambda *x: fused.attention(*x, causal=True, slopes=slopes, q_starts=starts_of(lengths, target), max_q=27), lambda *x: ragged_definition(*x, lengths, lengths, slopes, causal=True),
          [q, k, v], units=8)
    swapped = [x.transpose(0, 1).contiguous() for x in (q, k, v)]
    compare(fused.attention(*swapped, token_dim=-2, q_starts=starts_of(lengths, target)).transpose(0, 1), fused.attention(q, k, v, q_starts=starts_of(lengths, target)), units=0)


def test_empty(target):
    for batches, length, keys in ((0, 5, 7), (2, 0, 7), (2, 5, 0)):
        tensors = [x.requires_grad_() for x in inputs(batches, 2, 1, length, keys, 8, 8, device=target)]
        out, lse = fused.attention(*tensors, causal=True, return_lse=True)
        assert out.shape == (batches, length, 2, 8) and out.eq(0).all() and lse.eq(-math.inf).all()
        assert all(x.eq(0).all() for x in torch.autograd.grad(out.sum(), tensors))


def test_repeatable(target):
    """The gradients are the same bits in every run."""
    tensors = [x.requires_grad_() for x in inputs(2, 4, 1, 130, 150, 32, 32, torch.float16, target)]
    first, again = (torch.autograd.grad(fused.attention(*tensors, causal=True).float().sum(), tensors) for _ in range(2))
    compare(again, first, units=0)


def test_gradients_of_parts(target):
    """Of the log-sum-exp alone; of one input alone."""
    q, k, v = inputs(1, 2, 1, 9, 12, 16, 16, device=target)
    q.requires_grad_()
    wide = q.detach().double().requires_grad_()
    compare(torch.autograd.grad(fused.attention(q, k, v, return_lse=True)[1].sum(), q), torch.autograd.grad(definition(wide, k.double(), v.double())[1].sum(), wide), units=8)
    compare(torch.autograd.grad(fused.attention(q, k, v).sum(), q), torch.autograd.grad(definition(wide, k.double(), v.double())[0].sum(), wide), units=8)


def test_errors(target):
    q, k, v = inputs(2, 4, 2, 5, 7, 16, 16, device=target)
    starts = starts_of([2, 3], target)
    for error, text, call in (
        (TypeError, "`k` has dtype torch.float16, `q` torch.float32", lambda: fused.attention(q, k.half(), v)),
        (TypeError, "`q` has dtype torch.int32: expected float16", lambda: fused.attention(q.int(), k.int(), v.int())),
        (ValueError, r"`k` has shape \(2, 7, 2, 15\): expected \(2, 7, 2, 16\)", lambda: fused.attention(q, k[..., 1:], v)),
        (ValueError, r"`v` has shape \(2, 6, 2, 16\): expected \(2, 7, 2, dim\)", lambda: fused.attention(q, k, v[:, 1:])),
        (ValueError, "`k` has 3 heads, `q` 4: expected a divisor", lambda: fused.attention(q, random(2, 7, 3, 16, device=target), random(2, 7, 3, 16, device=target))),
        (ValueError, "`q` has heads of 257 elements: expected 1 to 256", lambda: fused.attention(*(random(1, 2, 1, 257, device=target), ) * 3)),
        (ValueError, "`q` has 2 dimensions: expected 3 or 4", lambda: fused.attention(q[0, 0], k[0, 0], v[0, 0])),
        (ValueError, "`token_dim` is 1", lambda: fused.attention(q, k, v, token_dim=1)),
        (ValueError, "`window_left` is -2: expected the number of keys", lambda: fused.attention(q, k, v, window=(-2, 0))),
        (ValueError, "`align` is 'left': expected \"end\"", lambda: fused.attention(q, k, v, align="left")),
        (ValueError, "`soft_cap` is -1.0: expected a positive number", lambda: fused.attention(q, k, v, soft_cap=-1.0)),
        (ValueError, r"`bias` has shape \(2, 4, 5, 6\): expected \(2, 4, 5, 7\), or 1", lambda: fused.attention(q, k, v, random(2, 4, 5, 6, device=target))),
        (TypeError, "`slopes` has dtype torch.float64: expected float32", lambda: fused.attention(q, k, v, slopes=torch.ones(4, dtype=torch.float64, device=target))),
        (ValueError, r"`slopes` has shape \(3,\): expected \(4,\) or \(2, 4\)", lambda: fused.attention(q, k, v, slopes=torch.ones(3, device=target))),
        (ValueError, "`q` has 4 dimensions: expected 3", lambda: fused.attention(q, k, v, q_starts=starts)),
        (ValueError, "`max_k` is given without `q_starts`", lambda: fused.attention(q, k, v, max_k=7)),
        (ValueError, "`bias` is given with `q_starts`", lambda: fused.attention(q[0], k[0], v[0], random(4, 5, 7, device=target), q_starts=starts, k_starts=starts)),
        (ValueError, "`k` has 7 tokens, `q` 5: expected as many, or `k_starts`", lambda: fused.attention(q[0], k[0], v[0], q_starts=starts)),
        (ValueError, r"`k_starts` has shape \(2,\): expected \(3,\)", lambda: fused.attention(q[0], k[0], v[0], q_starts=starts, k_starts=starts[1:])),
        (TypeError, "`q_starts` has dtype torch.float32: expected int32 or int64", lambda: fused.attention(q[0], k[0], v[0], q_starts=starts.float())),
        (ValueError, "`max_q` is -1, `max_k` 0: expected the tokens", lambda: fused.attention(q[0], k[0, :5], v[0, :5], q_starts=starts, max_q=-1)),
    ):
        with pytest.raises(error, match=text):
            call()
