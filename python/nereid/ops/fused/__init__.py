"""Operators that do several steps of a model at once, without tensors in between: `torch.library` operators in the namespace `nereid`.

They work on CPUs and GPUs, have gradients where they say so, run under `torch.compile`, and shard (`register_sharding`). docs/ops-fused.md lists them.
"""

from . import modules
from ._declare import FUSED, register_sharding
from .attention import attention
from .experts import moe_align, moe_combine, moe_swiglu, topk_softmax
from .gated import geglu, silu_and_mul, swiglu
from .grouped import grouped_mm
from .linear import linear, linear_swiglu
from .lora import lora_linear
from .losses import cross_entropy, linear_cross_entropy
from .norms import add_layer_norm, add_rms_norm, layer_norm, rms_norm
from .norms_quantized import (add_layer_norm_quantized, add_rms_norm_quantized, layer_norm_quantized, quantize, rms_norm_quantized, swiglu_quantized)
from .optimizers import AdamW, adamw_, clip_gradients_, gradient_norm
from .paged_attention import latent_attention_decode, paged_attention
from .projections import add_rms_norm_linear, rms_norm_linear, swiglu_linear
from .quantized import grouped_scaled_mm, scaled_mm
from .recomputed import recompute
from .rotary import cache_write, qk_norm_rope_cache, rope
from .sampling import dropout_add, sample
from .weights import dequantize_int4, linear_int4, linear_int8, quantize_int4

__all__ = [
    "AdamW", "FUSED", "adamw_", "add_layer_norm", "add_layer_norm_quantized", "add_rms_norm", "add_rms_norm_linear", "add_rms_norm_quantized", "attention", "cache_write", "clip_gradients_", "cross_entropy", "dequantize_int4", "dropout_add", "geglu", "gradient_norm", "grouped_mm", "grouped_scaled_mm", "latent_attention_decode", "layer_norm", "layer_norm_quantized", "linear", "linear_cross_entropy", "linear_int4", "linear_int8", "linear_swiglu", "lora_linear", "modules", "moe_align", "moe_combine", "moe_swiglu", "paged_attention", "qk_norm_rope_cache", "quantize", "quantize_int4", "recompute", "register_sharding", "rms_norm", "rms_norm_linear", "rms_norm_quantized", "rope", "sample", "scaled_mm", "silu_and_mul", "swiglu", "swiglu_linear", "swiglu_quantized", "topk_softmax"
]
