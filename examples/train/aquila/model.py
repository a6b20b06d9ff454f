"""An Aquila-like language model: the Llama architecture with Aquila's vocabulary of 100,008 tokens.

RMSNorm, rotary embedding, attention, gated feed-forward layers and the loss come from one of two sets of operators, `OPERATORS`: PyTorch's own ("aten") or `nereid.ops.fused`
("fused", "nereid"). Parameters are what an optimizer updates, in fp32; every layer computes in the dtype of its input.
"""

import dataclasses
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


@dataclasses.dataclass(frozen=True)
class Size:
    """layers, width (elements of a token), heads, inner (width of the feed-forward layers), vocabulary, sequence (tokens of a sequence, unless asked for otherwise)."""

    layers: int
    width: int
    heads: int
    inner: int
    vocabulary: int = 100_008
    sequence: int = 2048

    @property
    def head(self):
        return self.width // self.heads

    def flops(self, sequence):
        """Floating-point operations of a training step by token: three products (forward, two gradients) of 2 operations with each weight, embedding left out, and causal attention,
        of which half is computed. Recomputation is not counted."""
        weights = self.layers * (4 * self.width**2 + 3 * self.width * self.inner) + self.vocabulary * self.width
        return 6 * weights + 6 * self.layers * self.width * sequence


#: The names say how large the layers are; embedding and output layer come on top.
SIZES = {
    "tiny": Size(2, 64, 4, 128, vocabulary=1032, sequence=64),
    "125M": Size(12, 768, 12, 2048),
    "1.3B": Size(24, 2048, 16, 5632),
    "7B": Size(32, 4096, 32, 11008),
}
EPSILON = 1e-5


class Aten:
    """PyTorch's operators."""

    @staticmethod
    def norm(x, weight):
        """RMSNorm over the last dimension."""
        return F.rms_norm(x, weight.shape, weight.to(x.dtype), EPSILON)

    @classmethod
    def add_norm(cls, x, residual, weight):
        """(RMSNorm of x + residual, x + residual)."""
        total = x + residual
        return cls.norm(total, weight), total

    @staticmethod
    def rotate(q, k, cos, sin):
        """q and k, (batch, tokens, heads, dim), with rotary embedding."""

        def rotated(x):
            a, b = x.float().chunk(2, -1)
            c, s = cos[:x.shape[1], None], sin[:x.shape[1], None]
            return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)

        return rotated(q), rotated(k)

    @staticmethod
    def attend(q, k, v):
        """Causal attention; (batch, tokens, heads, dim)."""
        return F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True).transpose(1, 2)

    @staticmethod
    def gate(gate, up):
        return F.silu(gate) * up

    @staticmethod
    def loss(x, weight, targets):
        """The sum of the cross-entropies of the logits x @ weight.T; x: (tokens, width), targets: (tokens,)."""
        return F.cross_entropy(F.linear(x, weight).float(), targets, reduction="sum")


class Fused:
    """The same by `nereid.ops.fused`."""

    def __init__(self):
        from nereid.ops import fused
        self.fused = fused

    def norm(self, x, weight):
        return self.fused.rms_norm(x, weight, EPSILON)

    def add_norm(self, x, residual, weight):
        return self.fused.add_rms_norm(x, residual, weight, EPSILON)

    def norm_layers(self, x, residual, weight, matrices):
        """([normalised @ matrix.T for each matrix], x + residual) of the normalised sum, which is not kept for the backward step. residual: None counts as 0."""
        if residual is None:
            return self.fused.rms_norm_linear(x, weight, matrices, EPSILON), x
        return self.fused.add_rms_norm_linear(x, residual, weight, matrices, EPSILON)

    def gate_layer(self, gate, up, matrix):
        """gate(gate, up) @ matrix.T; the gated activation is not kept."""
        return self.fused.swiglu_linear(gate, up, matrix)

    def rotate(self, q, k, cos, sin):
        return self.fused.rope(q, k, cos, sin)

    def attend(self, q, k, v):
        return self.fused.attention(q, k, v, causal=True)

    def gate(self, gate, up):
        return self.fused.swiglu(gate, up)

    def loss(self, x, weight, targets):
        return self.fused.linear_cross_entropy(x, weight, targets, reduction="sum")


#: "nereid": the fused operators, and ATen's operators replaced by `nereid.ops.enable()`, which train.py calls.
OPERATORS = {"aten": Aten, "fused": Fused, "nereid": Fused}


class Keep:
    """In place of `fused.recompute`: what autograd saves is kept."""

    def __call__(self, function, *arguments):
        return function(*arguments)

    def known(self, tensor, function, *arguments):
        return tensor


KEEP = Keep()


class Linear(nn.Linear):
    """A linear layer without bias that computes in the dtype of its input. again: KEEP, or the `fused.recompute` of a block."""

    def __init__(self, width, outputs, again=KEEP):
        super().__init__(width, outputs, bias=False)
        self.again = again

    def matrix(self, dtype):
        return self.again(torch.Tensor.to, self.weight, dtype)

    def forward(self, x):
        return F.linear(x, self.matrix(x.dtype))


class Norm(nn.Module):
    """RMSNorm. forward(x, residual): the residual is added first; (normalised, sum)."""

    def __init__(self, width, operators, again=KEEP):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.operators, self.again = operators, again

    def forward(self, x, residual=None):
        if residual is None:
            return self.again(self.operators.norm, x, self.weight)
        normalised, total = self.operators.add_norm(x, residual, self.weight)
        return self.again.known(normalised, self.operators.norm, total, self.weight), total


class Attention(nn.Module):

    def __init__(self, size, operators, again):
        super().__init__()
        self.q, self.k, self.v, self.out = (Linear(size.width, size.width, again) for _ in range(4))
        self.head, self.operators = size.head, operators

    def forward(self, x, cos, sin):
        return self.attend(*(layer(x) for layer in (self.q, self.k, self.v)), cos, sin)

    def attend(self, q, k, v, cos, sin):
        """What follows the first three layers, from their results."""
        # With tensor parallelism a process has some of the heads.
        q, k, v = (x.unflatten(-1, (-1, self.head)) for x in (q, k, v))
        q, k = self.operators.rotate(q, k, cos, sin)
        return self.out(self.operators.attend(q, k, v).flatten(-2))


class FeedForward(nn.Module):

    def __init__(self, size, operators, again):
        super().__init__()
        self.gate, self.up = (Linear(size.width, size.inner, again) for _ in range(2))
        self.down = Linear(size.inner, size.width, again)
        self.operators, self.again = operators, again

    def forward(self, x):
        return self.down(self.again(self.operators.gate, self.gate(x), self.up(x)))


class Block(nn.Module):
    """recompute: what the backward step computes again instead of keeping it: None; "cheap": normalised rows, gated activations and weights in 16 bits (`fused.recompute`); "all": everything but
    the block's input (activation checkpointing)."""

    def __init__(self, size, operators, recompute):
        super().__init__()
        self.again = KEEP
        if recompute == "cheap":
            from nereid.ops import fused
            self.again = fused.recompute()
        self.attention_norm, self.feed_forward_norm = (Norm(size.width, operators, self.again) for _ in range(2))
        self.attention, self.feed_forward = Attention(size, operators, self.again), FeedForward(size, operators, self.again)
        self.operators, self.recompute = operators, recompute

    def forward(self, x, cos, sin):
        if self.recompute == "all" and torch.is_grad_enabled():
            return checkpoint(self.compute, x, cos, sin, use_reentrant=False, preserve_rng_state=False)
        if self.recompute == "cheap" and not torch.compiler.is_compiling():
            with self.again:
                return self.compute(x, cos, sin)
        return self.compute(x, cos, sin)

    def compute(self, x, cos, sin):
        attention, feed_forward = self.attention, self.feed_forward
        if hasattr(self.operators, "norm_layers") and not hasattr(attention.q.weight, "placements"):  # tensor parallelism needs the calls of the modules
            matrices = [layer.matrix(x.dtype) for layer in (attention.q, attention.k, attention.v, feed_forward.gate, feed_forward.up, feed_forward.down)]
            (q, k, v), _ = self.operators.norm_layers(x, None, self.attention_norm.weight, matrices[:3])
            (gate, up), total = self.operators.norm_layers(attention.attend(q, k, v, cos, sin), x, self.feed_forward_norm.weight, matrices[3:5])
            return total + self.operators.gate_layer(gate, up, matrices[5])
        attended = attention(self.attention_norm(x), cos, sin)
        normalised, total = self.feed_forward_norm(attended, x)
        return total + feed_forward(normalised)


class Head(nn.Module):
    """The output layer and the loss: forward(x, targets) is the sum of the tokens' cross-entropies.

    With tensor parallelism a process has some rows of the weight, and of x some tokens: it gathers the weight for the loss of its tokens.
    """

    def __init__(self, size, operators):
        super().__init__()
        self.projection = Linear(size.width, size.vocabulary)
        self.operators = operators

    def forward(self, x, targets):
        weight = self.projection.weight.to(x.dtype)
        if hasattr(weight, "redistribute"):
            from torch.distributed.tensor import Partial, Replicate
            weight = weight.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial()])
        return self.operators.loss(x.flatten(0, 1), weight, targets.flatten())


class Decoder(nn.Module):
    """forward(tokens, targets), both (batch, sequence): the sum of the cross-entropies of `targets`, the tokens that follow.

    size: a `Size`. operators: a name in OPERATORS. dtype: in which layers compute. recompute: see `Block`. `begin` has to be called once parameters are on their device.
    """

    def __init__(self, size, operators="aten", dtype=torch.bfloat16, recompute=None):
        super().__init__()
        if size.width % size.heads or size.head % 2:
            raise ValueError(f"a width of {size.width} and {size.heads} heads: expected heads of an even number of elements")
        made = OPERATORS[operators]()
        self.size, self.dtype = size, dtype
        self.embedding = nn.Embedding(size.vocabulary, size.width)
        self.blocks = nn.ModuleList(Block(size, made, recompute) for _ in range(size.layers))
        self.norm = Norm(size.width, made)
        self.head = Head(size, made)

    @torch.no_grad()
    def begin(self, seed, device, sequence):
        """Fills parameters with random numbers and makes the tables of the rotary embedding. The numbers of a parameter depend on the seed and the parameter alone, not on how
        it is sharded: each process draws them all and keeps its part, one parameter after the other."""
        for number, (name, parameter) in enumerate(self.named_parameters()):
            full = torch.empty(parameter.shape, device=device)
            if name.endswith("norm.weight"):
                full.fill_(1.0)
            else:
                of_residual = name.endswith(("attention.out.weight", "feed_forward.down.weight"))
                deviation = 0.02 / math.sqrt(2 * self.size.layers) if of_residual else 0.02
                full.normal_(0.0, deviation, generator=torch.Generator(device).manual_seed(seed * 1_000_003 + number))
            if hasattr(parameter, "placements"):
                from torch.distributed.tensor import distribute_tensor
                full = distribute_tensor(full, parameter.device_mesh, parameter.placements, src_data_rank=None)
            parameter.copy_(full)
        frequencies = 10000.0**-(torch.arange(0, self.size.head, 2, device=device, dtype=torch.float32) / self.size.head)
        angles = torch.outer(torch.arange(sequence, device=device, dtype=torch.float32), frequencies)
        self.cos, self.sin = angles.cos(), angles.sin()

    def forward(self, tokens, targets):
        x = self.embedding(tokens).to(self.dtype)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x), targets)
