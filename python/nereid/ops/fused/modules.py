"""Modules on the fused operators. Parameters have the names and shapes of their counterparts in PyTorch and transformers, so `load_state_dict` takes theirs.

    model.norm = nereid.ops.fused.modules.RMSNorm(4096, eps=1e-5)
"""

import torch
from torch.nn import functional as F

from .gated import geglu
from .linear import linear, linear_swiglu
from .losses import cross_entropy, linear_cross_entropy
from .norms import add_layer_norm, add_rms_norm, layer_norm, rms_norm
from .rotary import rope
from .sampling import dropout_add

__all__ = ["CrossEntropyLoss", "DropoutAdd", "GeGLU", "LayerNorm", "Linear", "LinearCrossEntropyLoss", "RMSNorm", "RotaryEmbedding", "SwiGLU"]


def _flat(normalized_shape, x, residual, *parameters):
    """The tensors with the normalised dimensions as one."""
    count = len(normalized_shape)
    if tuple(x.shape[-count:]) != tuple(normalized_shape):
        raise ValueError(f"`x` has shape {tuple(x.shape)}: expected one that ends in {tuple(normalized_shape)}")
    if count == 1:
        return x, residual, parameters
    return x.flatten(-count), None if residual is None else residual.flatten(-count), tuple(None if its is None else its.flatten() for its in parameters)


def _shaped(results, x):
    return tuple(result.view(x.shape) for result in results) if isinstance(results, tuple) else results.view(x.shape)


class RMSNorm(torch.nn.RMSNorm):
    """`torch.nn.RMSNorm`, also `LlamaRMSNorm(hidden_size, eps)` of transformers.

    weight_offset: is added to the weight (1.0 for Gemma, whose weights begin at 0). forward(x, residual=None): with a residual (normalised, x + residual).
    """

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None, *, weight_offset=0.0):
        self.weight_offset = weight_offset
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)

    def reset_parameters(self):
        if self.elementwise_affine:
            torch.nn.init.constant_(self.weight, 1.0 - self.weight_offset)

    def forward(self, x, residual=None):
        eps = torch.finfo(x.dtype).eps if self.eps is None else self.eps
        flat, added, (weight, ) = _flat(self.normalized_shape, x, residual, self.weight)
        if residual is None:
            return _shaped(rms_norm(flat, weight, eps, self.weight_offset), x)
        return _shaped(add_rms_norm(flat, added, weight, eps, self.weight_offset), x)

    def extra_repr(self):
        return super().extra_repr() + (f", weight_offset={self.weight_offset}" if self.weight_offset else "")


class LayerNorm(torch.nn.LayerNorm):
    """`torch.nn.LayerNorm`. forward(x, residual=None): with a residual (normalised, x + residual)."""

    def forward(self, x, residual=None):
        flat, added, (weight, bias) = _flat(self.normalized_shape, x, residual, self.weight, self.bias)
        if residual is None:
            return _shaped(layer_norm(flat, weight, bias, self.eps), x)
        return _shaped(add_layer_norm(flat, added, weight, bias, self.eps), x)


class Linear(torch.nn.Linear):
    """`torch.nn.Linear` with an activation and a residual: forward(x, residual=None) is activation(x @ weight.T + bias) + residual. activation: as for `fused.linear`."""

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None, *, activation="none"):
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = activation

    def forward(self, x, residual=None):
        return linear(x, self.weight, self.bias, self.activation, residual)

    def extra_repr(self):
        return super().extra_repr() + (f", activation={self.activation!r}" if self.activation != "none" else "")


class SwiGLU(torch.nn.Module):
    """down_proj(silu(gate_proj(x)) * up_proj(x)): `LlamaMLP` of transformers, with its names and without biases. forward(x, residual=None): the residual is added."""

    def __init__(self, hidden_size, intermediate_size, device=None, dtype=None):
        super().__init__()
        self.gate_proj, self.up_proj = (torch.nn.Linear(hidden_size, intermediate_size, False, device, dtype) for _ in range(2))
        self.down_proj = torch.nn.Linear(intermediate_size, hidden_size, False, device, dtype)

    def forward(self, x, residual=None):
        return linear(linear_swiglu(x, self.gate_proj.weight, self.up_proj.weight), self.down_proj.weight, None, "none", residual)


class GeGLU(SwiGLU):
    """down_proj(gelu(gate_proj(x)) * up_proj(x)): `GemmaMLP` of transformers. approximate: "tanh" or "none" (with erf)."""

    def __init__(self, hidden_size, intermediate_size, device=None, dtype=None, *, approximate="tanh"):
        super().__init__(hidden_size, intermediate_size, device, dtype)
        self.approximate = approximate

    def forward(self, x, residual=None):
        gate, up = (linear(x, layer.weight) for layer in (self.gate_proj, self.up_proj))
        return linear(geglu(gate, up, self.approximate), self.down_proj.weight, None, "none", residual)


class RotaryEmbedding(torch.nn.Module):
    """Rotary position embedding (Su and others 2021, "RoFormer") of queries and keys, by `fused.rope`.

    dim: how many elements of a head are rotated, an even number. base: of the angles, base ** (-2 * i / dim) by position. scaling: positions are divided by it. interleaved: as for `fused.rope`.
    max_positions: the length of the first tables; longer sequences make longer ones, but where positions are given they must be below it.
    forward(q, k, positions=None, token_dim=-3): (q, k), rotated; shapes as for `fused.rope`.
    """

    def __init__(self, dim, max_positions=4096, base=10000.0, *, scaling=1.0, interleaved=False, device=None):
        super().__init__()
        if dim <= 0 or dim % 2:
            raise ValueError(f"`dim` is {dim}: expected an even number above 0")
        self.dim, self.base, self.scaling, self.interleaved = dim, base, scaling, interleaved
        self.register_buffer("inv_freq", base**-(torch.arange(0, dim, 2, dtype=torch.float32, device=device) / dim), persistent=False)
        self._tables = None
        self._positions = max_positions

    def tables(self, positions, dtype, device):
        """(cosines, sines) of the first `positions` positions or more, (positions, dim / 2)."""
        if self._tables is None or self._tables[0].shape[0] < positions or self._tables[0].dtype != dtype or self._tables[0].device != device:
            self._positions = max(self._positions, positions)
            angles = torch.outer(torch.arange(self._positions, dtype=torch.float32, device=device) / self.scaling, self.inv_freq.to(device, torch.float32))
            self._tables = angles.cos().to(dtype), angles.sin().to(dtype)
        return self._tables

    def forward(self, q, k, positions=None, token_dim=-3):
        cos, sin = self.tables(self._positions if positions is not None else q.shape[token_dim], torch.float64 if q.dtype == torch.float64 else torch.float32, q.device)
        return rope(q, k, cos, sin, positions, self.interleaved, token_dim)

    def extra_repr(self):
        return f"{self.dim}, base={self.base}, scaling={self.scaling}, interleaved={self.interleaved}"


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
    """`torch.nn.CrossEntropyLoss` of classes as targets, without weights of classes. z_loss, softcap, in_place: as for `fused.cross_entropy`.

    forward(logits, target): logits (rows, classes), (classes,) or (batch, classes, ...).
    """

    def __init__(self, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0, *, z_loss=0.0, softcap=0.0, in_place=False):
        if weight is not None:
            raise ValueError("`weight` is given: expected None; use torch.nn.CrossEntropyLoss for weights of classes")
        super().__init__(None, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing)
        self.z_loss, self.softcap, self.in_place = z_loss, softcap, in_place

    def forward(self, logits, target):
        rows = logits if logits.dim() == 2 else logits.movedim(1, -1).flatten(0, -2) if logits.dim() > 2 else logits.unsqueeze(0)
        if tuple(target.shape) != (*logits.shape[:1], *logits.shape[2:]) and logits.dim() > 1 or logits.dim() == 1 and target.dim():
            raise ValueError(f"`target` has shape {tuple(target.shape)}: expected {(*logits.shape[:1], *logits.shape[2:]) if logits.dim() > 1 else ()}, a class for each row of `logits`")
        loss = cross_entropy(rows, target.reshape(-1), self.ignore_index, self.label_smoothing, self.z_loss, self.softcap, self.reduction, in_place=self.in_place)
        return loss.view(target.shape) if self.reduction == "none" else loss


class LinearCrossEntropyLoss(torch.nn.Linear):
    """The cross-entropy of a linear layer's logits, which are never all in memory. Its parameters are those of the layer (`lm_head`).

    forward(x, target): x (..., in_features), target (...). The other arguments: as for `CrossEntropyLoss`. `of(layer)` shares the parameters of a `torch.nn.Linear`.
    """

    def __init__(self, in_features, out_features, bias=False, device=None, dtype=None, *, ignore_index=-100, reduction="mean", label_smoothing=0.0, z_loss=0.0, softcap=0.0):
        super().__init__(in_features, out_features, bias, device, dtype)
        self.settings = dict(ignore_index=ignore_index, label_smoothing=label_smoothing, z_loss=z_loss, softcap=softcap, reduction=reduction)

    @classmethod
    def of(cls, layer, **settings):
        """A loss that shares the parameters of a linear layer. settings: as of the constructor."""
        made = cls(layer.in_features, layer.out_features, layer.bias is not None, "meta", layer.weight.dtype, **settings)
        made.weight, made.bias = layer.weight, layer.bias
        return made

    def forward(self, x, target):
        if x.shape[:-1] != target.shape:
            raise ValueError(f"`target` has shape {tuple(target.shape)}: expected {tuple(x.shape[:-1])}, a class for each row of `x`")
        loss = linear_cross_entropy(x.flatten(0, -2) if x.dim() > 1 else x.unsqueeze(0), self.weight, target.reshape(-1), self.bias, **self.settings)
        return loss.view(target.shape) if self.settings["reduction"] == "none" else loss

    def logits(self, x):
        """The logits themselves, for inference."""
        return F.linear(x, self.weight, self.bias)


class DropoutAdd(torch.nn.Dropout):
    """forward(x, residual): dropout(x) + residual, by `fused.dropout_add`."""

    def __init__(self, p=0.5):
        super().__init__(p)

    def forward(self, x, residual):
        return dropout_add(x, residual, self.p, self.training)
