"""Operators that do several steps of a model at once, without tensors in between: `torch.library` operators in the namespace `nereid`.

They work on CPUs and GPUs, have gradients where they say so, run under `torch.compile`, and shard (`register_sharding`). docs/ops-fused.md lists them.
"""

from . import modules
from ._declare import FUSED, register_sharding
from .gated import geglu, silu_and_mul, swiglu
from .linear import linear, linear_swiglu
from .losses import cross_entropy, linear_cross_entropy
from .norms import add_layer_norm, add_rms_norm, layer_norm, rms_norm
from .norms_quantized import (add_layer_norm_quantized, add_rms_norm_quantized, layer_norm_quantized, quantize, rms_norm_quantized, swiglu_quantized)
from .optimizers import AdamW, adamw_, clip_gradients_, gradient_norm
from .quantized import scaled_mm
from .rotary import cache_write, qk_norm_rope_cache, rope
from .sampling import dropout_add, sample

__all__ = [
    "AdamW", "FUSED", "adamw_", "add_layer_norm", "add_layer_norm_quantized", "add_rms_norm", "add_rms_norm_quantized", "cache_write", "clip_gradients_", "cross_entropy", "dropout_add", "geglu", "gradient_norm", "layer_norm", "layer_norm_quantized", "linear", "linear_cross_entropy", "linear_swiglu", "modules", "qk_norm_rope_cache", "quantize", "register_sharding", "rms_norm", "rms_norm_quantized", "rope", "sample", "scaled_mm", "silu_and_mul", "swiglu", "swiglu_quantized"
]
