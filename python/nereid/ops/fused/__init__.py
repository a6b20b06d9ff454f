"""Operators that do several steps of a model at once, without tensors in between: `torch.library` operators in the namespace `nereid`.

They work on CPUs and GPUs, have gradients where they say so, run under `torch.compile`, and shard (`register_sharding`). docs/ops.md lists them.
"""

from ._declare import FUSED, register_sharding
from .gated import geglu, silu_and_mul, swiglu
from .linear import linear, linear_swiglu
from .losses import cross_entropy, linear_cross_entropy

__all__ = [
    "FUSED", "cross_entropy", "geglu", "linear", "linear_cross_entropy", "linear_swiglu", "register_sharding", "silu_and_mul", "swiglu"
]
from .norms import add_rms_norm, rms_norm

__all__ = ["FUSED", "add_rms_norm", "geglu", "register_sharding", "rms_norm", "silu_and_mul", "swiglu"]
