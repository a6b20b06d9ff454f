"""Attention (Vaswani et al. 2017), computed in tiles with running maxima (Dao et al. 2022, "FlashAttention"), with its gradients."""

import math

import torch

from ..attention import Ragged, Rules, attend, differentiate
from . import _arguments
from ._declare import operator
from .linear import wanted

#: The largest head that the kernels hold.
LARGEST_HEAD = 256


def scale_of(scale, dim):
    return 1 / math.sqrt(dim) if scale is None else scale


def accumulated(dtype):
    """The dtype of log-sum-exps."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def integers(**tensors):
    for name, x in tensors.items():
        if x is not None and x.dtype not in (torch.int32, torch.int64):
            raise TypeError(f"`{name}` has dtype {x.dtype}: expected int32 or int64")


def check_rules(window_left, window_right, align, soft_cap):
    """Raises ValueError for windows, alignments and caps that are none."""
    for name, window in (("window_left", window_left), ("window_right", window_right)):
        if window < -1:
            raise ValueError(f"`{name}` is {window}: expected the number of keys that are seen on this side, or -1 for all")
    if align not in ("start", "end"):
        raise ValueError(f"`align` is {align!r}: expected \"end\" (the last query is at the last key) or \"start\" (the first one is at the first key)")
    if not soft_cap >= 0 or math.isinf(soft_cap):
        raise ValueError(f"`soft_cap` is {soft_cap}: expected a positive number, or 0 for none")


def check_slopes(slopes, batches, heads):
    if slopes is not None:
        if slopes.dtype != torch.float32:
            raise TypeError(f"`slopes` has dtype {slopes.dtype}: expected float32")
        if tuple(slopes.shape) not in ((heads, ), (batches, heads)):
            raise ValueError(f"`slopes` has shape {tuple(slopes.shape)}: expected ({heads},) or ({batches}, {heads})")


def rules_of(causal, window_left, window_right, align, soft_cap, slopes, batches, heads, reach):
    """The `Rules` of a call. reach: an upper bound of the distance between a query's place and a key; windows of at least this size do not restrict anything and become None."""
    left, right = (None if window < 0 or window >= reach else window for window in (window_left, window_right))
    return Rules(left, 0 if causal else right, align == "end", soft_cap or None, slopes if slopes is None else slopes.expand(batches, heads))


def _token_dim(q, token_dim):
    return token_dim + q.ndim


def _counts(q, k, q_starts, token_dim):
    """(sequences, heads, heads of keys, tokens, tokens of keys)."""
    at, heads_at = _token_dim(q, token_dim), _token_dim(q, -5 - token_dim)
    batches = q_starts.shape[0] - 1 if q_starts is not None else q.shape[0] if q.dim() == 4 else 1
    return batches, q.shape[heads_at], k.shape[heads_at], q.shape[at], k.shape[at]


def _check_tensors(q, k, v, token_dim):
    _arguments.floats(q=q, k=k, v=v)
    _arguments.one_dtype(q=q, k=k, v=v)
    if token_dim not in (-2, -3):
        raise ValueError(f"`token_dim` is {token_dim}: expected -3 (heads beside the elements of a head) or -2 (tokens beside them)")
    if q.dim() not in (3, 4):
        raise ValueError(f"`q` has {q.dim()} dimensions: expected 3 or 4")
    if not 1 <= q.shape[-1] <= LARGEST_HEAD:
        raise ValueError(f"`q` has heads of {q.shape[-1]} elements: expected 1 to {LARGEST_HEAD}")
    at, heads_at = _token_dim(q, token_dim), _token_dim(q, -5 - token_dim)
    wanted = list(q.shape)
    if k.dim() == q.dim():
        wanted[at], wanted[heads_at] = k.shape[at], k.shape[heads_at]
    _arguments.shape(k, wanted, "k")
    if v.dim() != k.dim() or v.shape[:-1] != k.shape[:-1] or not 1 <= v.shape[-1] <= LARGEST_HEAD:
        raise ValueError(f"`v` has shape {tuple(v.shape)}: expected {(*k.shape[:-1], 'dim')} with a dim of 1 to {LARGEST_HEAD}".replace("'", ""))
    heads, key_heads = q.shape[heads_at], k.shape[heads_at]
    if not key_heads or heads % key_heads:
        raise ValueError(f"`k` has {key_heads} heads, `q` {heads}: expected a divisor of the heads of `q`")


def check_starts(name, starts):
    if starts.dim() != 1 or not starts.shape[0]:
        raise ValueError(f"`{name}` has shape {tuple(starts.shape)}: expected (sequences + 1,)")


def _check(q, k, v, bias, slopes, q_starts, k_starts, max_q, max_k, causal, window_left, window_right, align, soft_cap, scale, token_dim):
    _check_tensors(q, k, v, token_dim)
    check_rules(window_left, window_right, align, soft_cap)
    _arguments.one_device(q=q, k=k, v=v, bias=bias, slopes=slopes, q_starts=q_starts, k_starts=k_starts)
    integers(q_starts=q_starts, k_starts=k_starts)
    if q_starts is not None:
        if q.dim() != 3:
            raise ValueError(f"`q` has {q.dim()} dimensions: expected 3, the tokens of all sequences in one, with `q_starts`")
        if bias is not None:
            raise ValueError("`bias` is given with `q_starts`: expected None, ragged batches have no bias")
        check_starts("q_starts", q_starts)
        _arguments.shape(k_starts, q_starts.shape, "k_starts")
    elif k_starts is not None or max_q or max_k:
        raise ValueError("`k_starts`, `max_q` or `max_k` is given without `q_starts`: expected `q_starts`, where sequences begin")
    if max_q < 0 or max_k < 0:
        raise ValueError(f"`max_q` is {max_q}, `max_k` {max_k}: expected the tokens of the longest sequence, or 0 if they are not known")
    batches, heads, _, length, keys = _counts(q, k, q_starts, token_dim)
    if q_starts is not None and k_starts is None and keys != length:
        raise ValueError(f"`k` has {keys} tokens, `q` {length}: expected as many, or `k_starts`")
    check_slopes(slopes, batches, heads)
    _arguments.floats(bias=bias)
    if bias is not None:
        full = (batches, heads, length, keys)[4 - q.dim():]
        if bias.dim() != len(full) or any(size not in (1, target) for size, target in zip(bias.shape, full)):
            raise ValueError(f"`bias` has shape {tuple(bias.shape)}: expected {full}, or 1 in some of these dimensions")


def dense(x):
    """The tensor with the elements of a head beside each other."""
    return None if x is None else x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _standard(x, token_dim):
    """(batch, head, token, size)."""
    x = x if x.dim() == 4 else x.unsqueeze(0)
    return x.transpose(1, 2) if token_dim == -3 else x


def _prepared(q, k, bias, slopes, q_starts, k_starts, max_q, max_k, causal, window_left, window_right, align, soft_cap, token_dim):
    """(bias, rules, ragged) as `attend` takes them."""
    batches, heads, _, length, keys = _counts(q, k, q_starts, token_dim)
    ragged = None
    if q_starts is not None:
        q_starts = q_starts.contiguous()
        k_starts = q_starts if k_starts is None else k_starts.contiguous()
        ragged = Ragged(q_starts, k_starts, min(max_q or length, length), min(max_k or keys, keys))
    if bias is not None:
        bias = (bias if bias.dim() == 4 else bias.unsqueeze(0)).expand(batches, heads, length, keys)
    return bias, rules_of(causal, window_left, window_right, align, soft_cap, slopes, batches, heads, length + keys), ragged


def _lse_shape(q, token_dim):
    heads, tokens = q.shape[_token_dim(q, -5 - token_dim)], q.shape[_token_dim(q, token_dim)]
    return (*q.shape[:-3], heads, tokens)


def results(q, shape, lse_shape, ragged):
    """The tensors for the result and the log-sum-exp. Tokens of no sequence of a ragged batch have 0 and -inf."""
    out = (torch.zeros if ragged else torch.empty)(shape, dtype=q.dtype, device=q.device)
    if ragged:
        return out, torch.full(lse_shape, -math.inf, dtype=accumulated(q.dtype), device=q.device)
    return out, torch.empty(lse_shape, dtype=accumulated(q.dtype), device=q.device)


def _fake(q, k, v, bias=None, slopes=None, q_starts=None, k_starts=None, max_q=0, max_k=0, causal=False, window_left=-1, window_right=-1, align="end", soft_cap=0.0, scale=None,
          token_dim=-3):
    _check(q, k, v, bias, slopes, q_starts, k_starts, max_q, max_k, causal, window_left, window_right, align, soft_cap, scale, token_dim)
    return q.new_empty((*q.shape[:-1], v.shape[-1])), q.new_empty(_lse_shape(q, token_dim), dtype=accumulated(q.dtype))


def _save(ctx, inputs, output):
    q, k, v, bias, slopes, q_starts, k_starts, *ctx.others = inputs
    ctx.save_for_backward(q, k, v, bias, slopes, q_starts, k_starts, *output)
    ctx.set_materialize_grads(False)


def _backward(ctx, grad, lse_grad):
    q, k, v, bias, slopes, q_starts, k_starts, out, lse = ctx.saved_tensors
    nothing = [None] * (4 + len(ctx.others))
    if grad is None and lse_grad is None:
        return None, None, None, *nothing
    grad = torch.zeros_like(out) if grad is None else grad
    *grads, bias_grad = attention_backward(grad, lse_grad, out, lse, q, k, v, bias, slopes, q_starts, k_starts, *ctx.others, bias is not None and wanted(ctx, 4)[3])
    if bias_grad is not None:
        nothing[0] = bias_grad.sum_to_size(bias.shape).to(bias.dtype)
    return *grads, *nothing


def _fake_backward(grad, lse_grad, out, lse, q, k, v, bias=None, slopes=None, q_starts=None, k_starts=None, max_q=0, max_k=0, causal=False, window_left=-1, window_right=-1, align="end", soft_cap=0.0,
                   scale=None, token_dim=-3, of_bias=False):
    _check(q, k, v, bias, slopes, q_starts, k_starts, max_q, max_k, causal, window_left, window_right, align, soft_cap, scale, token_dim)
    found = [x.new_empty(x.shape) for x in (q, k, v)]
    return *found, q.new_empty(_bias_shape(q, k, token_dim), dtype=accumulated(q.dtype)) if of_bias else None


def _bias_shape(q, k, token_dim):
    return (*_lse_shape(q, token_dim), k.shape[_token_dim(k, token_dim)])


_RULES = "int max_q=0, int max_k=0, bool causal=False, int window_left=-1, int window_right=-1, str align=\"end\", float soft_cap=0.0, float? scale=None, int token_dim=-3"
_TENSORS = "Tensor q, Tensor k, Tensor v, Tensor? bias=None, Tensor? slopes=None, Tensor? q_starts=None, Tensor? k_starts=None"


def _placements(q, bias, slopes, token_dim):
    """[(placement of q, k, v and results, of log-sum-exps, of the bias, of the slopes)]: replicated, sharded by heads, and by sequences that have a dimension of their own."""
    from torch.distributed.tensor import Replicate, Shard

    def along(dim, lse_dim, slope_dim):
        # The dimensions of a bias are those of the log-sum-exp, and the keys.
        of_bias = Replicate() if bias is not None and bias.shape[lse_dim] == 1 else Shard(lse_dim)
        return Shard(dim), Shard(lse_dim), of_bias, Replicate() if slope_dim is None else Shard(slope_dim)

    found = [(Replicate(), ) * 4, along(_token_dim(q, -5 - token_dim), q.ndim - 3, None if slopes is None else slopes.ndim - 1)]
    if q.ndim == 4:
        found.append(along(0, 0, None if slopes is None or slopes.ndim == 1 else 0))
    return found


def _inputs(bias, slopes, q_starts, k_starts, of_q, of_bias, of_slopes):
    """The placements of q, k, v, bias, slopes, q_starts, k_starts."""
    from torch.distributed.tensor import Replicate
    return [of_q] * 3 + [None if bias is None else of_bias, None if slopes is None else of_slopes, None if q_starts is None else Replicate(), None if k_starts is None else Replicate()]


def _sharding(q, k, v, bias=None, slopes=None, q_starts=None, k_starts=None, max_q=0, max_k=0, causal=False, window_left=-1, window_right=-1, align="end", soft_cap=0.0, scale=None, token_dim=-3):
    return [([of_q, of_lse], _inputs(bias, slopes, q_starts, k_starts, of_q, of_bias, of_slopes) + [None] * 9)
            for of_q, of_lse, of_bias, of_slopes in _placements(q, bias, slopes, token_dim)]


def _sharding_backward(grad, lse_grad, out, lse, q, k, v, bias=None, slopes=None, q_starts=None, k_starts=None, max_q=0, max_k=0, causal=False, window_left=-1, window_right=-1, align="end",
                       soft_cap=0.0, scale=None, token_dim=-3, of_bias=False):
    found = []
    for of_q, of_lse, placed_bias, of_slopes in _placements(q, bias, slopes, token_dim):
        inputs = [of_q, None if lse_grad is None else of_lse, of_q, of_lse, *_inputs(bias, slopes, q_starts, k_starts, of_q, placed_bias, of_slopes)]
        found.append(([of_q] * 3 + [of_lse if of_bias else None], inputs + [None] * 10))
    return found


@operator(f"attention_backward(Tensor grad, Tensor? lse_grad, Tensor out, Tensor lse, {_TENSORS}, {_RULES}, bool of_bias=False) -> (Tensor, Tensor, Tensor, Tensor?)",
          fake=_fake_backward, sharding=_sharding_backward)
def attention_backward(grad, lse_grad, out, lse, q, k, v, bias, slopes, q_starts, k_starts, max_q, max_k, causal, window_left, window_right, align, soft_cap, scale, token_dim, of_bias):
    """The gradients of q, k and v from those of the results of `attention`, and with `of_bias` that of the scores before the bias is added: fp32 (fp64 for fp64), of the shape that
    the bias is expanded to. lse_grad: None, or the gradient of the log-sum-exp."""
    _check(q, k, v, bias, slopes, q_starts, k_starts, max_q, max_k, causal, window_left, window_right, align, soft_cap, scale, token_dim)
    # Tokens of no sequence get zeros.
    made = torch.zeros if q_starts is not None or not q.numel() or not k.numel() else torch.empty
    grads = [made(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v)]
    bias_grad = torch.empty(_bias_shape(q, k, token_dim), dtype=accumulated(q.dtype), device=q.device) if of_bias else None
    if q.numel() and k.numel():
        wide_bias, rules, ragged = _prepared(q, k, bias, slopes, q_starts, k_starts, max_q, max_k, causal, window_left, window_right, align, soft_cap, token_dim)
        standard = [_standard(x, token_dim) for x in (*grads, *map(dense, (grad, q, k, v)), out)]
        lse, lse_grad, of_scores = (x if x is None or x.dim() == rank else x.unsqueeze(0) for x, rank in ((lse, 3), (lse_grad, 3), (bias_grad, 4)))
        differentiate(standard[:3], *standard[3:7], wide_bias, standard[7], lse, scale_of(scale, q.shape[-1]), rules, of_scores, lse_grad, ragged)
    return *grads, bias_grad


@operator(f"attention({_TENSORS}, {_RULES}) -> (Tensor, Tensor)", fake=_fake, backward=_backward, save=_save, sharding=_sharding)
def attention_with_lse(q, k, v, bias, slopes, q_starts, k_starts, max_q, max_k, causal, window_left, window_right, align, soft_cap, scale, token_dim):
    """`attention`, with the log-sum-exp."""
    _check(q, k, v, bias, slopes, q_starts, k_starts, max_q, max_k, causal, window_left, window_right, align, soft_cap, scale, token_dim)
    out, lse = results(q, (*q.shape[:-1], v.shape[-1]), _lse_shape(q, token_dim), q_starts is not None)
    if out.numel():
        bias, rules, ragged = _prepared(q, k, bias, slopes, q_starts, k_starts, max_q, max_k, causal, window_left, window_right, align, soft_cap, token_dim)
        standard = [_standard(x, token_dim) for x in (out, *map(dense, (q, k, v)))]
        attend(standard[0], lse if lse.dim() == 3 else lse.unsqueeze(0), *standard[1:], bias, scale_of(scale, q.shape[-1]), rules, -math.inf, ragged)
    return out, lse


def attention(q, k, v, bias=None, *, causal=False, window=(-1, -1), align="end", soft_cap=0.0, slopes=None, scale=None, q_starts=None, k_starts=None, max_q=0, max_k=0, token_dim=-3,
              return_lse=False):
    """softmax(scale * q @ k.T + bias) @ v of each head, without the matrix of scores in memory; with `return_lse` (result, log-sum-exp of the scores).

    q: (batch, tokens, heads, dim) or (tokens, heads, dim), with token_dim=-2 (batch, heads, tokens, dim) or (heads, tokens, dim); of a float dtype, any strides (copied unless the elements
    of a head are neighbours). k: as q, with any number of tokens and a number of heads that divides that of q: head i of q uses head i // (heads of q / heads of k) of k. v: as k, its dim may
    differ. dims are 1 to 256. The result has the shape of q with v's dim, and is contiguous; the log-sum-exp, fp32 (fp64 for fp64), is (batch, heads, tokens) or (heads, tokens).

    causal, window, align: the place p of query i is i, with align="end" i + tokens of k - tokens of q, so that the last query is at the last key. Query i sees the keys from p - window[0] to
    p + window[1], all on a side where the number is -1; causal: none behind p. A query that sees no key has the result 0 and the log-sum-exp -inf.
    scale: None: 1 / sqrt(dim). soft_cap: unless 0, scaled scores x become soft_cap * tanh(x / soft_cap). bias: None, or a float tensor (batch, heads, tokens of q, tokens of k) that is added then;
    dimensions of 1 are expanded; without the batch where q has none. slopes: None, or fp32, (heads,) or (batch, heads): slope * |p - key| is subtracted (ALiBi, Press et al. 2022).

    Ragged batches: q (tokens, heads, dim) holds all sequences one after the other. q_starts: int32 or int64, (sequences + 1,): where they begin, and the end of the last one; k_starts: the same of
    k and v, None: as q_starts. The values are not checked. max_q, max_k: the tokens of the longest sequence, or more: what is beyond is not computed; 0: unknown, which costs the time of some
    programs without work. Tokens of no sequence have the result 0.

    Gradients: of q, k, v and bias, also from the log-sum-exp; without atomic additions, so they are the same in every run. That of a bias is first written in full,
    (batch, heads, tokens of q, tokens of k), fp32. 16-bit floats are summed in fp32; on GPUs the weights are rounded to the dtype of v for the product with it.

    Raises TypeError for other dtypes, ValueError for shapes, devices, windows or alignments that do not fit.
    """
    out, lse = attention_with_lse(q, k, v, bias, slopes, q_starts, k_starts, max_q, max_k, causal, *window, align, soft_cap, scale, token_dim)
    return (out, lse) if return_lse else out
