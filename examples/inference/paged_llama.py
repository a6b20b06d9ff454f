"""A decoder of the Llama architecture over a paged cache, by the fused operators of `nereid.ops`, with the weights of a `transformers.LlamaForCausalLM`.

All sequences of a step are one list of tokens, without padding between them: prompts, parts of prompts, or the last token of each.
"""

import dataclasses

import torch
from torch.nn import functional as F

from nereid.ops import fused

#: Arguments of `transformers.LlamaConfig`.
SIZES = {
    "tiny": dict(vocab_size=256, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=128, max_position_embeddings=256),
    "1b": dict(vocab_size=32000, hidden_size=2048, num_hidden_layers=22, num_attention_heads=32, num_key_value_heads=4, intermediate_size=5632, max_position_embeddings=4096),
    "7b": dict(vocab_size=32000, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32, intermediate_size=11008, max_position_embeddings=4096),
    "8b": dict(vocab_size=128256, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, intermediate_size=14336, max_position_embeddings=8192),
}


def random_model(size, dtype, device, seed=0):
    """A `transformers.LlamaForCausalLM` of one of `SIZES` with random weights, made on the device, in evaluation mode."""
    from transformers import LlamaConfig, LlamaForCausalLM
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        torch.manual_seed(seed)
        with torch.device(device):
            model = LlamaForCausalLM(LlamaConfig(**SIZES[size], bos_token_id=1, eos_token_id=2, pad_token_id=0))
    finally:
        torch.set_default_dtype(before)
    return model.eval()


@dataclasses.dataclass
class Step:
    """The tensors of a step. tokens, positions, slots: (tokens,), int64, positions in the sequence and places in the cache (page * tokens of a page + place; -1: not written). table: (sequences, pages), int32.
    lengths: (sequences,), int32, tokens of each sequence after this step. starts: None where each sequence has one token, or (sequences + 1,), int32, where those of each begin. last: None, or
    (sequences,), int64, which tokens get logits. most: tokens of the longest sequence of the step, or more; longest: tokens of the longest sequence, or more."""
    tokens: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    table: torch.Tensor
    lengths: torch.Tensor
    starts: torch.Tensor = None
    last: torch.Tensor = None
    most: int = 1
    longest: int = 0


@dataclasses.dataclass
class _Layer:
    before: torch.Tensor  # weight of the norm before attention
    qkv: torch.Tensor
    out: torch.Tensor
    after: torch.Tensor
    gate: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor


class PagedLlama:
    """The decoder. pages: of the cache, in each layer, (pages, page, heads of keys, dim) of the weights' dtype. The model given shares all
    weights and can still be used: those of its queries, keys and values become parts of the joined ones."""

    def __init__(self, model, pages, page):
        config = model.config
        if getattr(config, "attention_bias", False) or getattr(config, "mlp_bias", False) or config.hidden_act != "silu":
            raise ValueError("the configuration has biases or another activation than silu: expected a plain Llama")
        self.config, self.page, self.pages = config, page, pages
        self.dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.heads, self.key_heads, self.eps = config.num_attention_heads, config.num_key_value_heads, config.rms_norm_eps
        self.positions = config.max_position_embeddings
        decoder = model.model
        self.embedding, self.head, self.norm = decoder.embed_tokens.weight.detach(), model.lm_head.weight.detach(), decoder.norm.weight.detach()
        self.device, self.dtype = self.embedding.device, self.embedding.dtype
        self.layers = []
        for layer in decoder.layers:
            attention, block = layer.self_attn, layer.mlp
            joined = (attention.q_proj, attention.k_proj, attention.v_proj)
            qkv = torch.cat([linear.weight.detach() for linear in joined])
            for linear, part in zip(joined, qkv.split([len(linear.weight) for linear in joined])):
                linear.weight.data = part
            weights = (layer.input_layernorm, attention.o_proj, layer.post_attention_layernorm, block.gate_proj, block.up_proj, block.down_proj)
            before, out, after, gate, up, down = (module.weight.detach() for module in weights)
            self.layers.append(_Layer(before, qkv, out, after, gate, up, down))
        places = torch.arange(self.positions, device=self.device)[None]
        cos, sin = decoder.rotary_emb(torch.empty(0, dtype=torch.float32, device=self.device), places)
        self.cos, self.sin = (table[0, :, :self.dim // 2].contiguous() for table in (cos, sin))
        self.cache = torch.zeros((len(self.layers), 2, pages, page, self.key_heads, self.dim), dtype=self.dtype, device=self.device)

    @torch.no_grad()
    def logits(self, step):
        """The logits of the last token of each sequence, (sequences, vocabulary). Keys and values of the step's tokens are written to the cache."""
        total = F.embedding(step.tokens, self.embedding)
        normalised = fused.rms_norm(total, self.layers[0].before, self.eps)
        for number, layer in enumerate(self.layers):
            keys, values = self.cache[number]
            qkv = F.linear(normalised, layer.qkv).view(len(step.tokens), self.heads + 2 * self.key_heads, self.dim)
            q, k, v = qkv.split((self.heads, self.key_heads, self.key_heads), 1)
            q, _ = fused.qk_norm_rope_cache(q, k, v, None, None, self.cos, self.sin, step.positions, keys, values, step.slots, norm=False)
            attended = fused.paged_attention(q, keys, values, step.table, step.lengths, q_starts=step.starts, max_q=0 if step.starts is None else step.most, max_length=step.longest)
            normalised, total = fused.add_rms_norm(F.linear(attended.view(len(step.tokens), -1), layer.out), total, layer.after, self.eps)
            hidden = F.linear(fused.linear_swiglu(normalised, layer.gate, layer.up), layer.down)
            after = self.layers[number + 1].before if number + 1 < len(self.layers) else self.norm
            normalised, total = fused.add_rms_norm(hidden, total, after, self.eps)
        return F.linear(normalised if step.last is None else normalised[step.last], self.head)

    def bytes(self):
        """(bytes of the weights, of the cache)"""
        tensors = [self.embedding, self.norm, *([] if self.head.data_ptr() == self.embedding.data_ptr() else [self.head])]
        tensors += [getattr(layer, field.name) for layer in self.layers for field in dataclasses.fields(layer)]
        return sum(tensor.nbytes for tensor in tensors), self.cache.nbytes
