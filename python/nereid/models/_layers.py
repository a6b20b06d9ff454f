"""Modules of transformers with forwards of fused operators.

`fused_class` makes a subclass of a class of transformers, which has the same name, constructor and parameters. Its forward falls back to the class's own where the fused operator does not
fit: a module under autocast, a wrapped or quantised linear layer, hooks on a module that is not called any more.
"""

import dataclasses

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from nereid.ops import fused

from ._interfaces import attention, casts, gate


@dataclasses.dataclass(frozen=True)
class Row:
    """How a class is replaced. part: its name in `PARTS`. by: the operators. forward: given the original forward, makes the new one. reason: of a module, why its forward would always fall back, or None."""
    part: str
    by: str
    forward: object
    reason: object = lambda module: None


def _hooked(module):
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks or "forward" in vars(module))


def _plain(layer, x):
    """Whether a linear layer is only its weight and bias: no subclass, adapter, hook or tensor subclass, and of x's dtype."""
    return type(layer) is torch.nn.Linear and type(layer.weight) is torch.nn.Parameter and not _hooked(layer) and layer.weight.dtype == x.dtype and not casts(x)


# Norms.


def _norm(module):
    """(eps, offset of the weight) of a norm that `fused.rms_norm` computes, or None."""
    kind = type(module).__name__
    if kind not in ROWS or ROWS[kind].part != "norms":
        return None
    return (module.eps, 1.0) if kind == "GemmaRMSNorm" else (module.variance_epsilon, 0.0)


def _fits_norm(module, x):
    # Where the weight is wider than x, transformers' result is, too (but Gemma's).
    return type(module.weight) is torch.nn.Parameter and (module.weight.dtype == x.dtype or type(module).__name__ == "GemmaRMSNorm")


def _rms_norm(original):

    def forward(self, hidden_states, *others):
        if others or not _fits_norm(self, hidden_states):
            return original(self, hidden_states, *others)
        return fused.rms_norm(hidden_states, self.weight, *_norm(self))

    return forward


# Feed-forward blocks.


def _gated(original):

    def forward(self, x):
        kind = gate(self)
        if kind is None:
            return original(self, x)
        if kind == "silu" and self.gate_proj.bias is None and self.up_proj.bias is None and _plain(self.gate_proj, x) and _plain(self.up_proj, x):
            return self.down_proj(fused.linear_swiglu(x, self.gate_proj.weight, self.up_proj.weight))
        gates, ups = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(fused.swiglu(gates, ups) if kind == "silu" else fused.geglu(gates, ups, approximate="tanh" if kind == "gelu_tanh" else "none"))

    return forward


def _gated_reason(module):
    return None if gate(module) is not None else f"activation {type(module.act_fn).__name__}"


def _activation(module):
    """The activation of a BERT's hidden layer as `fused.linear` calls it, or None."""
    kind = type(module.intermediate_act_fn).__name__
    return {"GELUActivation": "gelu", "GELUTanh": "gelu_tanh", "NewGELUActivation": "gelu_tanh", "ReLU": "relu", "SiLU": "silu", "SiLUActivation": "silu"}.get(kind)


def _dense_activated(original):

    def forward(self, hidden_states):
        kind = _activation(self)
        if kind is None or not _plain(self.dense, hidden_states):
            return original(self, hidden_states)
        return fused.linear(hidden_states, self.dense.weight, self.dense.bias, kind)

    return forward


def _dense_added(original):

    def forward(self, hidden_states, input_tensor):
        norm = self.LayerNorm
        if type(norm) is not torch.nn.LayerNorm or _hooked(norm) or type(norm.weight) is not torch.nn.Parameter or casts(hidden_states):
            return original(self, hidden_states, input_tensor)
        return fused.add_layer_norm(self.dropout(self.dense(hidden_states)), input_tensor, norm.weight, norm.bias, norm.eps)[0]

    return forward


# Attention with rotary positions, and the layers around it.


def _rotated(query, key, cos, sin):
    """Queries and keys (batch, heads, tokens, dim), rotated. cos, sin: (1 or batch, tokens, dim), both halves of the last dimension equal."""
    half = cos.shape[-1] // 2
    if cos.shape[0] == 1:
        return fused.rope(query, key, cos[0, :, :half], sin[0, :, :half], None, False, -2)
    batch, tokens = cos.shape[:2]
    places = torch.arange(batch * tokens, device=cos.device).view(batch, tokens)
    return fused.rope(query, key, cos.flatten(0, 1)[:, :half], sin.flatten(0, 1)[:, :half], places, False, -2)


def _rotary_attention(original):

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **settings):
        if _eager(self):
            return original(self, hidden_states, position_embeddings=position_embeddings, attention_mask=attention_mask, past_key_values=past_key_values, **settings)
        heads = (*hidden_states.shape[:-1], -1, self.head_dim)
        query, key, value = (layer(hidden_states).view(heads) for layer in (self.q_proj, self.k_proj, self.v_proj))
        if hasattr(self, "q_norm"):
            query, key = self.q_norm(query), self.k_norm(key)
        query, key = _rotated(query.transpose(1, 2), key.transpose(1, 2), *position_embeddings)
        value = value.transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, attention)
        window = getattr(self, "sliding_window", getattr(self.config, "sliding_window", None))
        out, weights = attend(self, query, key, value, attention_mask, dropout=self.attention_dropout if self.training else 0.0, scaling=self.scaling, sliding_window=window, **settings)
        return self.o_proj(out.reshape(*hidden_states.shape[:-1], -1)), weights

    return forward


def _eager(module):
    """The attention of eager mode is a function of the module where the class is, which no registry has."""
    return "attn_implementation is \"eager\"" if module.config._attn_implementation in (None, "eager") else None


def _added_layer(original):

    def forward(self, hidden_states, attention_mask=None, position_ids=None, past_key_values=None, use_cache=False, position_embeddings=None, **settings):
        norm = self.post_attention_layernorm
        if _norm(norm) is None or _hooked(norm) or not _fits_norm(norm, hidden_states):
            return original(self, hidden_states, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values, use_cache=use_cache,
                            position_embeddings=position_embeddings, **settings)
        attended, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
                                     use_cache=use_cache, position_embeddings=position_embeddings, **settings)
        normalised, total = fused.add_rms_norm(attended.to(hidden_states.dtype), hidden_states, norm.weight, *_norm(norm))
        return total + self.mlp(normalised)

    return forward


_FAMILIES = ("Llama", "Mistral", "Qwen2", "Qwen3", "Gemma")
#: {name of a class of transformers: how it is replaced}
ROWS = {
    **{f"{name}RMSNorm": Row("norms", "rms_norm", _rms_norm) for name in (*_FAMILIES, "Mixtral", "Mamba", "Mamba2", "Qwen3Moe")}, "T5LayerNorm": Row("norms", "rms_norm", _rms_norm),
    **{f"{name}MLP": Row("mlp", "linear_swiglu, swiglu or geglu", _gated, _gated_reason) for name in _FAMILIES},
    **{f"{name}Attention": Row("rotary", "rope", _rotary_attention, _eager) for name in (*_FAMILIES, "Mixtral")},
    **{f"{name}DecoderLayer": Row("layers", "add_rms_norm", _added_layer) for name in (*_FAMILIES, "Mixtral")}, "BertIntermediate":
    Row("mlp", "linear with an activation", _dense_activated, lambda module: None if _activation(module) else f"activation {type(module.intermediate_act_fn).__name__}"), "BertSelfOutput":
    Row("layers", "add_layer_norm", _dense_added), "BertOutput": Row("layers", "add_layer_norm", _dense_added)
}

_made = {}


def fused_class(original):
    """The subclass of a class of `ROWS` with the fused forward; always the same one. It has the name of its base, because policies of sharding and devices go by names."""
    if original not in _made:
        forward = ROWS[original.__name__].forward(original.forward)
        forward.__qualname__ = f"{original.__name__}.forward"
        _made[original] = type(original.__name__, (original, ), {"forward": forward, "__module__": __name__, "__doc__": original.__doc__})
    return _made[original]
