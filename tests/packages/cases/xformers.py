"""xformers: its Triton kernels (norms, rows picked and added by index, products of tiles, attention in parts) against PyTorch."""

import torch
import torch.nn.functional as F

import host
from host import case, randn, with_gradients


def rms(x, weight, eps=1e-6):
    return F.rms_norm(x.float(), x.shape[-1:], None if weight is None else weight.float(), eps).to(x.dtype)


@case()
def rms_norm():
    from xformers.ops import rmsnorm
    x, weight = randn(37, 200), randn(200)
    return (rmsnorm.rms_norm(x, weight), rmsnorm.rms_norm(x, None)), (rms(x, weight), rms(x, None))


@case()
def rms_norm_add():
    from xformers.ops import rmsnorm
    x, y, weight = randn(37, 200), randn(37, 200), randn(200)
    total = x + y
    return (rmsnorm.rms_norm_add(x, y, weight), x), (rms(total, weight), total)


@case(2e-3)
def rms_norm_half():
    from xformers.ops import rmsnorm
    x, weight = randn(5, 1000, dtype=torch.float16), randn(1000, dtype=torch.float16)
    return rmsnorm.rms_norm(x, weight), rms(x, weight)


@case()
def scaled_index_add():
    from xformers.ops import indexing
    x, source, scaling = randn(9, 5, 48), randn(4, 5, 48, grad=True), randn(48, grad=True)
    index = torch.randperm(9)[:4].to(host.DEVICE)

    def ours(source, scaling):
        return indexing.scaled_index_add(x.clone(), index, source, scaling, 0.5)

    def reference(source, scaling):
        return torch.index_add(x, 0, index, scaling * source, alpha=0.5)
    return with_gradients(ours, (source, scaling)), with_gradients(reference, (source, scaling))


@case()
def index_select_cat():
    from xformers.ops import indexing
    first, second = randn(9, 40, grad=True), randn(7, 72, grad=True)
    indices = [torch.randperm(9)[:5].to(host.DEVICE), torch.randperm(7)[:3].to(host.DEVICE)]
    return (with_gradients(lambda *sources: indexing.index_select_cat(sources, indices), (first, second)),
            with_gradients(lambda *sources: torch.cat([s[i].flatten() for s, i in zip(sources, indices)]), (first, second)))


@case(1e-5, 2e-3)
def tiled_matmul():
    from xformers.ops._triton.tiled_matmul_kernels import _launch_triton_matmul
    a = [[randn(48, 64) for _ in range(2)] for _ in range(2)]
    b = [[randn(64, 80) for _ in range(2)] for _ in range(2)]
    c = [[randn(48, 80) for _ in range(2)] for _ in range(2)]
    _launch_triton_matmul(a, b, c, [48, 48], [80, 80], [64, 64])
    return c, [[sum(a[m][k] @ b[k][n] for k in range(2)) for n in range(2)] for m in range(2)]


def attended(q, k, v, mask=None):
    """Of (batch, tokens, heads, size)."""
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)


def split_k(dtype, tokens, keys, parts, **bias):
    from xformers.ops.fmha import triton_splitk
    from xformers.ops.fmha.common import Inputs
    q, k, v = randn(2, tokens, 4, 64, dtype=dtype), randn(2, keys, 4, 64, dtype=dtype), randn(2, keys, 4, 64, dtype=dtype)
    chosen = type("FwOp_Parts", (triton_splitk.FwOp, ), {"SPLIT_K": parts})
    with torch.no_grad():
        out, context = chosen.apply(Inputs(query=q, key=k, value=v), needs_gradient=True)
    scores = torch.einsum("bqhd,bkhd->bhqk", q.float(), k.float()) / 8
    return (out.float(), context.lse), (attended(q, k, v), scores.logsumexp(-1))


@case(2e-3)
def attention_one_part():
    return split_k(torch.float16, 16, 130, 1)


@case(2e-3)
def attention_four_parts():
    return split_k(torch.float16, 1, 300, 4)


@case(1e-2)
def attention_bfloat16():
    return split_k(torch.bfloat16, 7, 257, 2)


@case(1e-3)
def rope_padded():
    import importlib
    module = importlib.import_module("xformers.ops.rope_padded")
    from xformers.ops.fmha.attn_bias import BlockDiagonalCausalWithOffsetPaddedKeysMask as Mask
    lengths, padding, heads, size = [3, 2], 16, 4, 32
    mask = Mask.from_seqlens(q_seqlen=lengths, kv_padding=padding, kv_seqlen=[5, 9])
    if host.DEVICE != "cpu":
        mask = mask.to(host.DEVICE)
    q, k, v = randn(1, 5, heads, size), randn(1, 5, 2, size), randn(1, 5, 2, size)
    keys, values = randn(1, 2 * padding, 2, size), randn(1, 2 * padding, 2, size)
    expected_keys, expected_values = keys.clone(), values.clone()
    out = module.rope_padded(q, k, v, keys, values, mask)
    positions = torch.tensor([2, 3, 4, 7, 8])
    angles = positions[:, None] * 10000.0 ** -(torch.arange(0, size, 2) / size)
    turns = torch.polar(torch.ones_like(angles), angles).to(host.DEVICE)[None, :, None, :]

    def turned(x):
        return torch.view_as_real(torch.view_as_complex(x.view(*x.shape[:-1], -1, 2)) * turns).flatten(-2)
    places = torch.tensor([2, 3, 4, padding + 7, padding + 8], device=q.device)
    expected_keys[:, places], expected_values[:, places] = turned(k), v
    return (out, keys, values), (turned(q), expected_keys, expected_values)


@case()
def merge_attentions():
    from xformers.ops.fmha import triton_splitk
    parts, lse = randn(2, 1, 4, 3, 6, 32), randn(2, 1, 4, 3, 6)
    out, total = randn(2, 6, 1, 4, 32), randn(2, 1, 4, 6)
    triton_splitk.merge_attentions(out, total, parts, lse)
    weights = torch.softmax(lse, 3)[..., None]
    return (out, total), ((parts * weights).sum(3).permute(0, 3, 1, 2, 4), lse.logsumexp(3))
