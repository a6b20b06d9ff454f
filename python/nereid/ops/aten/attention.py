"""Attention of ATen: the operators behind `scaled_dot_product_attention`, and their gradients."""

import dataclasses
import math

import torch

from .._declare import Native, Operator, declare
from .._strided import FLOATS, cdiv
from ..attention import Rules, attend, differentiate

HALVES = (torch.float16, torch.bfloat16)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attention(Operator):
    """An operator of attention. compute: called with the values by name, returns the results, or `Native`. required: arguments without which an overload is another
    operator; refused: arguments that an overload does not have."""
    compute: object
    required: tuple = ("query", "key", "value")
    refused: tuple = ("q_descale", )

    family = "attention"

    def accepts(self, form):
        names = [argument.name for argument in form.arguments]
        return form.kind == "functional" and set(self.required) <= set(names) and not set(self.refused) & set(names)

    def shape_class(self, form, values):
        query, key = values["query"], values["key"]
        if query.dim() != 4 or not query.numel() or not key.numel():
            return None
        return "causal" if values.get("is_causal") else "full", (query.shape[0] * query.shape[1], query.shape[2], key.shape[2], query.shape[3])

    def call(self, form, values, outs):
        return self.compute(values)


def _unfit(tensors, dtypes, rank=4):
    """`Native` unless all tensors are dense, of `rank` dimensions, of one device and one dtype, which is one of `dtypes`; else None."""
    first = tensors[0]
    for x in tensors:
        if x.layout is not torch.strided or x.is_neg():
            return Native("layout")
        if x.dtype != first.dtype or x.device != first.device:
            return Native("dtypes differ")
        if x.dim() != rank:
            return Native("shapes")
    return None if first.dtype in dtypes else Native("dtype")


def _wrong_shapes(query, key, value):
    """Whether ATen has to judge the shapes, (batch, head, length, size)."""
    return query.shape[0] != key.shape[0] or query.shape[0] != value.shape[0] or key.shape[1] != value.shape[1] or key.shape[2] != value.shape[2] or \
        query.shape[3] != key.shape[3] or not key.shape[1] or query.shape[1] % key.shape[1] != 0


def _scale(values, query):
    return 1 / math.sqrt(query.shape[3]) if values["scale"] is None else values["scale"]


def _rules(values, end=False):
    """end: whether a causal mask ends at the lower right corner, instead of beginning at the upper left one."""
    return Rules(right=0 if values["is_causal"] else None, end=end)


def _accumulated(query):
    return torch.float64 if query.dtype == torch.float64 else torch.float32


# CPUs


def _cpu_mask(values, query, keys):
    """(bias or None, reason why ATen has to decide or None)."""
    mask = values["attn_mask"]
    if mask is None:
        return None, None
    if mask.dtype != query.dtype and mask.dtype != torch.float32 or mask.dtype == torch.float32 and query.dtype == torch.float64:
        return None, "dtype of the mask"
    if mask.dim() not in (2, 4) or mask.layout is not torch.strided or mask.is_neg() or mask.device != query.device:
        return None, "shape of the mask"
    wanted = (query.shape[0], query.shape[1], query.shape[2], keys)
    if any(size != 1 and size != target for size, target in zip(reversed(mask.shape), reversed(wanted))):
        return None, "shape of the mask"
    return mask.expand(wanted), None


def _cpu_call(values):
    """(bias, scale) of a call for CPUs, or `Native`."""
    query, key, value = values["query"], values["key"], values["value"]
    found = _unfit((query, key, value), FLOATS)
    if found is not None:
        return found
    if values["dropout_p"] > 0:
        return Native("dropout")
    if _wrong_shapes(query, key, value) or value.shape[3] != query.shape[3]:
        return Native("shapes")
    bias, reason = _cpu_mask(values, query, key.shape[2])
    if reason is not None:
        return Native(reason)
    return bias, _scale(values, query) if query.shape[3] else 0.0


def _cpu_forward(values):
    query, key, value = values["query"], values["key"], values["value"]
    found = _cpu_call(values)
    if type(found) is Native:
        return found
    bias, scale = found
    batches, heads, length, _ = query.shape
    out = torch.empty_like(query)
    logsumexp = torch.empty((batches, length, heads), dtype=_accumulated(query), device=query.device).transpose(1, 2)
    if logsumexp.numel():
        attend(out, logsumexp, query, key, value, bias, scale, _rules(values))
    return out, logsumexp


def _rows_first(x):
    """A new tensor of x's shape (batch, head, length, size) that is contiguous as (batch, length, head, size)."""
    batches, heads, length, size = x.shape
    return torch.empty((batches, length, heads, size), dtype=x.dtype, device=x.device).transpose(1, 2)


def _cpu_backward(values):
    query, key, value, gradient, out, logsumexp = (values[name] for name in ("query", "key", "value", "grad_out", "out", "logsumexp"))
    found = _unfit((query, gradient, out), FLOATS) or _cpu_call(values)
    if type(found) is Native:
        return found
    if gradient.shape != query.shape or out.shape != query.shape or tuple(logsumexp.shape) != tuple(query.shape[:3]) or not query.numel() or not key.numel():
        return Native("shapes")
    bias, scale = found
    grads = [_rows_first(x) for x in (query, key, value)]
    differentiate(grads, gradient, query, key, value, bias, out, logsumexp, scale, _rules(values))
    return tuple(grads)


declare(Attention(name="_scaled_dot_product_flash_attention_for_cpu", compute=_cpu_forward))
declare(Attention(name="_scaled_dot_product_flash_attention_for_cpu_backward", compute=_cpu_backward))


# GPUs: flash attention. Causal masks begin at the lower right corner; a query without keys has a log-sum-exp of +inf.


def _flash_call(values, query, key, value):
    """`Native`, or None. query, key, value: (batch, head, length, size)."""
    found = _unfit((query, key, value), HALVES)
    if found is not None:
        return found
    if values["dropout_p"] > 0:
        return Native("dropout")
    if values.get("return_debug_mask"):
        return Native("debug mask")
    if _wrong_shapes(query, key, value) or value.shape[3] != query.shape[3] or not query.numel() or not key.numel() or query.shape[3] > 256:
        return Native("shapes")
    if any(x.stride(3) != 1 for x in (query, key, value)):
        return Native("strides")
    return None


def _unused(query):
    """The two tensors that hold the state of the random generator where there is dropout, and the mask for debugging: unwritten, empty."""
    return (torch.empty(2, dtype=torch.uint64, device=query.device), torch.empty((), dtype=torch.uint64, device=query.device),
            torch.empty(0, dtype=query.dtype, device=query.device))


def _flash(values, query, key, value, out):
    """The log-sum-exp; the result goes to `out`. All are (batch, head, length, size)."""
    logsumexp = torch.empty(query.shape[:3], dtype=torch.float32, device=query.device)
    attend(out, logsumexp, query, key, value, None, _scale(values, query), _rules(values, True), math.inf)
    return logsumexp


def _flash_forward(values):
    query, key, value = values["query"], values["key"], values["value"]
    found = _flash_call(values, query, key, value)
    if found is not None:
        return found
    out = torch.empty_like(query)
    logsumexp = _flash(values, query, key, value, out)
    return (out, logsumexp, None, None, query.shape[2], key.shape[2], *_unused(query))


def _flash_backward(values):
    query, key, value, gradient, out, logsumexp = (values[name] for name in ("query", "key", "value", "grad_out", "out", "logsumexp"))
    found = _unfit((query, gradient, out), HALVES) or _flash_call(values, query, key, value)
    if found is not None:
        return found
    if gradient.shape != query.shape or out.shape != query.shape or tuple(logsumexp.shape) != tuple(query.shape[:3]) or values["cum_seq_q"] is not None:
        return Native("shapes")
    grads = [torch.empty_like(x) for x in (query, key, value)]
    differentiate(grads, gradient, query, key, value, None, out, logsumexp, _scale(values, query), _rules(values, True))
    return tuple(grads)


#: Arguments of `_flash_attention_forward` that change what is computed.
_VARIANTS = ("cum_seq_q", "cum_seq_k", "window_size_left", "window_size_right", "seqused_k", "alibi_slopes", "block_table", "num_splits")


def _flash_variant(values):
    """Whether the call has ragged batches, windows or the like. A window of -1 is none."""
    return any(values.get(name) is not None and not (name.startswith("window") and values[name] == -1) for name in _VARIANTS)


def _swapped(values, names):
    """The tensors (batch, length, head, size) as (batch, head, length, size); `Native` if they have another rank."""
    if any(values[name].dim() != 4 for name in names):
        return Native("shapes")
    return [values[name].transpose(1, 2) for name in names]


def _flash_rows_forward(values):
    tensors = Native("variant") if _flash_variant(values) else _swapped(values, ("query", "key", "value"))
    if type(tensors) is Native:
        return tensors
    found = _flash_call(values, *tensors)
    if found is not None:
        return found
    out = torch.empty_like(values["query"])
    logsumexp = _flash(values, *tensors, out.transpose(1, 2))
    return (out, logsumexp, *_unused(out))


def _flash_rows_backward(values):
    tensors = Native("variant") if _flash_variant(values) else _swapped(values, ("query", "key", "value", "grad_out", "out"))
    if type(tensors) is Native:
        return tensors
    query, key, value, gradient, out = tensors
    logsumexp = values["logsumexp"]
    found = _unfit((query, gradient, out), HALVES) or _flash_call(values, query, key, value)
    if found is not None:
        return found
    if gradient.shape != query.shape or out.shape != query.shape or tuple(logsumexp.shape) != tuple(query.shape[:3]):
        return Native("shapes")
    grads = [torch.empty_like(values[name]) for name in ("query", "key", "value")]
    differentiate([x.transpose(1, 2) for x in grads], gradient, query, key, value, None, out, logsumexp, _scale(values, query), _rules(values, True))
    return tuple(grads)


declare(Attention(name="_scaled_dot_product_flash_attention", compute=_flash_forward))
declare(Attention(name="_scaled_dot_product_flash_attention_backward", compute=_flash_backward))
declare(Attention(name="_flash_attention_forward", compute=_flash_rows_forward))
declare(Attention(name="_flash_attention_backward", compute=_flash_rows_backward))


# GPUs: memory-efficient attention. Causal masks begin at the upper left corner; the log-sum-exp has a multiple of 32 places.


def _efficient_call(values):
    query, key, value, bias = values["query"], values["key"], values["value"], values["attn_bias"]
    found = _unfit((query, key, value) if bias is None else (query, key, value, bias), (*HALVES, torch.float32))
    if found is not None:
        return found
    if values["dropout_p"] > 0:
        return Native("dropout")
    if _wrong_shapes(query, key, value) or query.shape[1] != key.shape[1] or not query.numel() or not key.numel() or not value.numel():
        return Native("shapes")
    if bias is not None and tuple(bias.shape) != (*query.shape[:3], key.shape[2]):
        return Native("shape of the mask")
    return None


def _efficient_forward(values):
    query, key, value = values["query"], values["key"], values["value"]
    found = _efficient_call(values)
    if found is not None:
        return found
    batches, heads, length, _ = query.shape
    out = torch.empty((batches, length, heads, value.shape[3]), dtype=query.dtype, device=query.device).transpose(1, 2)
    places = cdiv(length, 32) * 32 if values["compute_log_sumexp"] else 0
    logsumexp = torch.empty((batches, heads, places), dtype=torch.float32, device=query.device)
    attend(out, logsumexp if places else None, query, key, value, values["attn_bias"], _scale(values, query), _rules(values), math.inf)
    unused = [torch.empty((), dtype=torch.int64, device=query.device) for _ in range(2)]
    return (out, logsumexp, *unused)


def _efficient_backward(values):
    query, key, value, gradient, out, logsumexp = (values[name] for name in ("query", "key", "value", "grad_out_", "out", "logsumexp"))
    bias, mask = values["attn_bias"], values["grad_input_mask"]
    if gradient is None:
        return Native("no gradient")
    found = _unfit((query, gradient, out), (*HALVES, torch.float32)) or _efficient_call(values)
    if found is not None:
        return found
    if gradient.shape != out.shape or tuple(out.shape) != (*query.shape[:3], value.shape[3]) or logsumexp.shape[:2] != query.shape[:2] or logsumexp.shape[2] < query.shape[2]:
        return Native("shapes")
    grads = [_rows_first(x) for x in (query, key, value)]
    grad_bias = None
    if bias is not None and mask[3]:
        keys = key.shape[2]
        grad_bias = torch.empty((*query.shape[:3], cdiv(keys, 16) * 16), dtype=bias.dtype, device=bias.device)[..., :keys]
    differentiate(grads, gradient, query, key, value, bias, out, logsumexp, _scale(values, query), _rules(values), grad_bias)
    return (*grads, grad_bias)


declare(Attention(name="_scaled_dot_product_efficient_attention", compute=_efficient_forward))
declare(Attention(name="_scaled_dot_product_efficient_attention_backward", compute=_efficient_backward))
