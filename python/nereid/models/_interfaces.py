"""What transformers calls through its registries: attention and its masks, experts, losses. They are registered under the name `NAME`."""

import math

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.moe import ExpertsInterface, grouped_mm_experts_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from nereid.ops import fused

#: The name in the registries: `attn_implementation="nereid"`, `experts_implementation="nereid"`.
NAME = "nereid"
_LARGEST_HEAD = 256
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def register():
    """Enters attention, masks and experts into the registries of transformers, so that `attn_implementation="nereid"` and `experts_implementation="nereid"` are known. More calls change nothing."""
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, mask)
    ExpertsInterface.register(NAME, experts)


def casts(x):
    """Whether autocast is in force for the device of x: then operators of PyTorch choose the dtype, which fused ones do not."""
    return torch.is_autocast_enabled(x.device.type)


def mask(*arguments, dtype=torch.float32, **settings):
    """The mask of attention as transformers asks for it (`AttentionMaskInterface`): None where causality is all there is, or nothing is masked, otherwise a bias,
    (batch, 1, tokens of queries, tokens of keys) of `dtype`, that is 0 or -inf. Arguments: of `transformers.masking_utils.sdpa_mask`."""
    if not arguments and _plain(**settings):
        return None
    seen = sdpa_mask(*arguments, **settings)
    return None if seen is None else _bias(seen, dtype)


def _plain(q_length=None, kv_length=None, q_offset=None, kv_offset=0, attention_mask=None, local_size=None, allow_is_causal_skip=True, allow_is_bidirectional_skip=False, **settings):
    """Whether arguments of `sdpa_mask` say, without a look at a tensor, that no mask is needed. Some releases of transformers make one nevertheless while a CUDA graph is captured or a graph is traced."""
    if attention_mask is not None or local_size is not None:
        return False
    # A whole sequence: its first query is its first key. With a cache of fixed size there are more keys than tokens.
    whole = isinstance(q_offset, int) and isinstance(kv_offset, int) and q_offset == kv_offset and q_length is not None and q_length == kv_length
    return bool(allow_is_bidirectional_skip or allow_is_causal_skip and whole)


def _bias(seen, dtype):
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, -math.inf)


def _whole(bias, position_bias, dtype):
    """The bias of a mask (None, bool or float) and of positions (None or float)."""
    if bias is not None and bias.dtype == torch.bool:
        bias = _bias(bias, dtype)
    if position_bias is None:
        return bias
    return position_bias if bias is None else position_bias + bias


def _others(query, value, dropout, settings):
    """Whether PyTorch's attention has to do it: fused attention has no dropout, no weights to return, no heads of more than 256 elements."""
    return dropout > 0 or settings.get("cache") is not None or settings.get("output_attentions") or max(query.shape[-1], value.shape[-1]) > _LARGEST_HEAD or \
        query.dtype not in _FLOATS


def attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, position_bias=None, softcap=None, s_aux=None, **settings):
    """Attention as transformers calls it (`AttentionInterface`), by `fused.attention`: (result, None).

    query: (batch, heads, tokens, dim); key, value: the same with the heads of keys, which need not be repeated. attention_mask: None, a bias, or bool (True: seen), (batch, 1 or heads, tokens of
    queries, at least the tokens of keys). The result is (batch, tokens, heads, dim), contiguous. Without a mask, attention is causal from the first key on if `is_causal`, or the module's attribute,
    says so and there are several queries. With dropout, weights asked for, a paged cache of transformers, or more than 256 elements in a head, PyTorch's attention computes it.

    Raises ValueError for attention sinks (`s_aux`).
    """
    if s_aux is not None:
        raise ValueError("`s_aux` is given: fused attention has no sinks; choose attn_implementation=\"eager\"")
    if casts(query):
        query, key, value = (x.to(torch.get_autocast_dtype(x.device.type)) for x in (query, key, value))
    if _others(query, value, dropout, settings):
        if softcap is not None:
            raise ValueError("`softcap` is given together with dropout, weights of attention or heads of more than 256 elements: choose attn_implementation=\"eager\"")
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, position_bias=position_bias, **settings)
    tokens = query.shape[2]
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal) and attention_mask is None and tokens > 1
    bias = _whole(attention_mask, position_bias, query.dtype)
    if bias is not None:
        bias = bias[..., :key.shape[2]].to(query.dtype)
    out = fused.attention(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), bias, causal=causal, align="start", soft_cap=softcap or 0.0, scale=scaling)
    return out, None


def gate(module):
    """"silu", "gelu_tanh" or "gelu" for the activation of a module (`act_fn`), or None for another one."""
    act = getattr(module, "act_fn", None)
    kind = type(act).__name__
    if kind in ("SiLU", "SiLUActivation"):
        return "silu"
    if kind == "GELUTanh" or kind == "NewGELUActivation":
        return "gelu_tanh"
    return "gelu" if kind == "GELUActivation" or kind == "GELU" and act.approximate == "none" else None


def experts_reason(module):
    """Why routed experts of a module cannot be `fused.moe_swiglu`, or None."""
    from transformers.integrations.moe import _default_apply_gate
    if not getattr(module, "has_gate", False) or not module.is_concatenated or module.is_transposed or module.has_bias or getattr(module, "has_post_expert_norm", False):
        return "experts with biases, with weights in another layout, or without a gate"
    if type(module)._apply_gate is not _default_apply_gate or gate(module) != "silu":
        return "experts with another activation than silu(gate) * up"
    return None


def experts(module, hidden_states, top_k_index, top_k_weights):
    """Routed experts as transformers calls them (`ExpertsInterface`), by `fused.moe_swiglu`: hidden_states (tokens, hidden), top_k_index and top_k_weights (tokens, count) → (tokens, hidden). Experts of other
    forms (`experts_reason`), and those under autocast, are computed by transformers' grouped products."""
    if experts_reason(module) is not None or casts(hidden_states) or hidden_states.dtype != module.gate_up_proj.dtype:
        return grouped_mm_experts_forward(module, hidden_states, top_k_index, top_k_weights)
    return fused.moe_swiglu(hidden_states, module.gate_up_proj, module.down_proj, top_k_weights, top_k_index)


def _cross_entropy(logits, labels, count, ignore_index):
    """The mean over labels that are not ignored, or the sum divided by `count`, the tokens of all parts of a batch."""
    loss = fused.cross_entropy(logits, labels.to(logits.device), ignore_index=ignore_index, reduction="mean" if count is None else "sum")
    if count is None:
        return loss
    return loss / (count.to(loss.device) if isinstance(count, torch.Tensor) else count)


def causal_loss(logits, labels, vocab_size, num_items_in_batch=None, ignore_index=-100, shift_labels=None, **settings):
    """transformers' `ForCausalLMLoss` by `fused.cross_entropy`, which needs no copy of the logits in fp32. logits: (batch, tokens, vocab_size); labels: (batch, tokens), which are shifted here, or
    `shift_labels`, which are."""
    if shift_labels is None:
        shift_labels = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    return _cross_entropy(logits.view(-1, vocab_size), shift_labels.reshape(-1), num_items_in_batch, ignore_index)


def masked_loss(logits, labels, vocab_size, num_items_in_batch=None, ignore_index=-100, **settings):
    """transformers' `ForMaskedLMLoss` by `fused.cross_entropy`; shapes as for `causal_loss`, labels are not shifted."""
    return _cross_entropy(logits.view(-1, vocab_size), labels.reshape(-1), num_items_in_batch, ignore_index)


#: {name of a loss of transformers: function}
LOSSES = {"ForCausalLMLoss": causal_loss, "ForMaskedLMLoss": masked_loss}
