"""Attention: the host side of `kernels/attention.py`, and the sizes of its tiles."""

import dataclasses

import torch

import nereid.language as tl

from ._launch import DTYPES, launch
from ._strided import NARROW, cdiv, step_up
from .kernels.attention import backward_key, backward_query, correlation, forward
from .products import fp32_precision


@dataclasses.dataclass(frozen=True)
class Tiles:
    """Queries and keys of a tile."""
    queries: int
    keys: int
    warps: int = 4
    stages: int = 2


def forward_tiles(device, dtype, queries, keys, width):
    """The tiles of the forward kernel. width: the larger of the two head sizes."""
    if device.type == "cpu":
        return Tiles(step_up(queries, (4, 16, 64)), step_up(keys, (16, 64, 128)))
    if dtype in (torch.float16, torch.bfloat16):
        if width <= 128:
            return Tiles(step_up(queries, (16, 64, 128)), 128 if width <= 64 and keys > 64 else 64, 4 if queries <= 64 else 8, 3 if width <= 64 else 2)
        return Tiles(step_up(queries, (16, 64)), 32 if queries <= 64 else 64, 4, 2)
    return Tiles(step_up(queries, (16, 64)) if width <= 64 else 32, 32, 4, 2)


def backward_tiles(device, dtype, queries, keys, width):
    """The tiles of the backward kernels."""
    if device.type == "cpu":
        return Tiles(step_up(queries, (16, 64)), step_up(keys, (16, 64)))
    if dtype in (torch.float16, torch.bfloat16):
        return Tiles(64, 64, 4 if width <= 64 else 8, 2) if width <= 128 else Tiles(32, 32, 4, 1)
    return Tiles(32, 32, 4, 1)


def _width(device, size):
    """The size of a block that holds a head's elements."""
    if device.type == "cpu":
        return cdiv(max(size, 1), 8) * 8
    return max(16, 1 << (size - 1).bit_length())


def _accesses(*tensors):
    """Constants that say how the tensors of a call lie in memory."""
    multiple = 16 // tensors[0].element_size()
    aligned = all(stride % multiple == 0 for x in tensors for stride in (*x.stride()[:3], x.shape[3]))
    # Rows are counted from the first of a head. A tile has at most 256 of them, and as many columns.
    wide = any((x.shape[2] + 256) * x.stride(2) + 256 * x.stride(3) > NARROW for x in tensors)
    return {"UNIT": all(x.stride(3) == 1 for x in tensors), "HINT": multiple if aligned else 1, "WIDE": wide}


_SIZES = {name: "i32" for name in ("l_size", "s_size", "d_size", "dv_size", "heads", "shift", "lse_size")}


def _common(query, device):
    """Constants of all kernels."""
    double = query.dtype == torch.float64
    acc = tl.float64 if double else tl.float32
    precision = "ieee"
    if device.type == "cuda" and query.dtype == torch.float32:
        precision = "tf32" if fp32_precision(device) == "tf32" else "tf32x3"
    return {"ACC": acc, "OPERAND": acc if device.type == "cpu" else DTYPES[query.dtype], "PRECISION": precision}


def attend(out, logsumexp, query, key, value, bias, scale, causal=False, shift=0, empty=0.0):
    """Writes the result and, unless it is None, the log-sum-exp of attention.

    query (batch, head, l, d), key (batch, head of keys, s, d), value (batch, head of keys, s, dv), out (batch, head, l, dv): of one dtype and any strides;
    heads of queries are a multiple of those of keys. bias: (batch, head, l, s), expanded, or None. logsumexp: (batch, head, l or more), fp32 (fp64 for fp64);
    places from l on get +inf. causal: query i sees the keys up to i + shift. empty: the log-sum-exp of a query without keys. out has elements.
    """
    device = query.device
    batches, heads, length, size = query.shape
    key_heads, keys, value_size = key.shape[1], key.shape[2], value.shape[3]
    width, value_width = _width(device, size), _width(device, value_size)
    cut = forward_tiles(device, query.dtype, length, keys, max(width, value_width))
    lse_size = 0 if logsumexp is None else logsumexp.shape[2]
    arguments = {
        "out": out, "logsumexp": logsumexp, "query": query, "key": key, "value": value, "bias": bias, "scale": float(scale), "empty": float(empty), "l_size": length,
        "s_size": keys, "d_size": size, "dv_size": value_size, "heads": heads, "shift": shift, "lse_size": lse_size, "out_strides": out.stride(),
        "lse_strides": (0, 0, 0) if logsumexp is None else logsumexp.stride(), "q_strides": query.stride(), "k_strides": key.stride(), "v_strides": value.stride(),
        "bias_strides": (0, 0, 0, 0) if bias is None else bias.stride()
    }
    constants = {
        "HEADS": heads // key_heads, **_common(query, device), "CAUSAL": causal, "D_EVEN": size == width and value_size == value_width,
        **_accesses(query, key, value, out), "BM": cut.queries, "BN": cut.keys, "BD": width, "BV": value_width
    }
    launch(forward, cdiv(max(length, lse_size), cut.queries) * batches * heads, device, arguments, constants, _SIZES, num_warps=cut.warps, num_stages=cut.stages)


def differentiate(grads, gradient, query, key, value, bias, out, logsumexp, scale, causal=False, shift=0, grad_bias=None):
    """Writes the gradients of `attend`.

    grads: of query, key and value, like these. gradient: of out. grad_bias: (batch, head, l, s) for that of the bias, or None. Other arguments: as for `attend`;
    all tensors have elements.
    """
    device = query.device
    batches, heads, length, size = query.shape
    key_heads, keys, value_size = key.shape[1], key.shape[2], value.shape[3]
    width, value_width = _width(device, size), _width(device, value_size)
    cut = backward_tiles(device, query.dtype, length, keys, max(width, value_width))
    common = _common(query, device)
    access = {"D_EVEN": size == width and value_size == value_width, **_accesses(query, key, value, gradient, out, *grads)}
    delta = torch.empty((batches, heads, length), dtype=torch.float64 if query.dtype == torch.float64 else torch.float32, device=device)
    sizes = {"l_size": length, "dv_size": value_size, "heads": heads}
    launch(correlation, cdiv(length, cut.queries) * batches * heads, device,
           {"delta": delta, "gradient": gradient, "out": out, **sizes, "g_strides": gradient.stride(), "out_strides": out.stride()},
           {"ACC": common["ACC"], **access, "BM": cut.queries, "BV": value_width}, _SIZES, num_warps=4)
    shared = {
        "gradient": gradient, "query": query, "key": key, "value": value, "bias": bias, "logsumexp": logsumexp, "delta": delta, "scale": float(scale), "l_size": length,
        "s_size": keys, "d_size": size, "dv_size": value_size, "heads": heads, "shift": shift, "g_strides": gradient.stride(), "q_strides": query.stride(),
        "k_strides": key.stride(), "v_strides": value.stride(), "bias_strides": (0, 0, 0, 0) if bias is None else bias.stride(), "lse_strides": logsumexp.stride()
    }
    constants = {"HEADS": heads // key_heads, **common, "CAUSAL": causal, **access, "BM": cut.queries, "BN": cut.keys, "BD": width, "BV": value_width}
    options = {"num_warps": cut.warps, "num_stages": cut.stages}
    own = {"grad_key": grads[1], "grad_value": grads[2], "dk_strides": grads[1].stride(), "dv_strides": grads[2].stride()}
    launch(backward_key, cdiv(keys, cut.keys) * batches * key_heads, device, shared | own, constants, _SIZES, **options)
    own = {"grad_query": grads[0], "grad_bias": grad_bias, "dq_strides": grads[0].stride(), "db_strides": (0, 0, 0, 0) if grad_bias is None else grad_bias.stride()}
    launch(backward_query, cdiv(length, cut.queries) * batches * heads, device, shared | own, constants, _SIZES, **options)
