"""Modules on the fused operators against their counterparts in PyTorch, with the counterparts' parameters."""

import pytest
import torch
from fused_checks import compare, random

from nereid.ops.fused import modules

F64 = torch.float64


class LlamaMLP(torch.nn.Module):
    """The layer as transformers defines it."""

    def __init__(self, width, inner, act):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj, self.act = torch.nn.Linear(width, inner, False), torch.nn.Linear(width, inner, False), torch.nn.Linear(inner, width, False), act

    def forward(self, x):
        return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))


PAIRS = {
    "RMSNorm": (lambda: modules.RMSNorm(24, eps=1e-5), lambda: torch.nn.RMSNorm(24, eps=1e-5)),
    "RMSNorm of two dimensions, default eps": (lambda: modules.RMSNorm((3, 24)), lambda: torch.nn.RMSNorm((3, 24), eps=torch.finfo(torch.float32).eps)),
    "RMSNorm without weight": (lambda: modules.RMSNorm(24, 1e-5, False), lambda: torch.nn.RMSNorm(24, 1e-5, False)),
    "LayerNorm": (lambda: modules.LayerNorm(24), lambda: torch.nn.LayerNorm(24)),
    "LayerNorm of two dimensions": (lambda: modules.LayerNorm((3, 24)), lambda: torch.nn.LayerNorm((3, 24))),
    "LayerNorm without bias": (lambda: modules.LayerNorm(24, bias=False), lambda: torch.nn.LayerNorm(24, bias=False)),
    "Linear": (lambda: modules.Linear(24, 10), lambda: torch.nn.Linear(24, 10)),
    "SwiGLU": (lambda: modules.SwiGLU(24, 40), lambda: LlamaMLP(24, 40, torch.nn.SiLU())),
    "GeGLU": (lambda: modules.GeGLU(24, 40), lambda: LlamaMLP(24, 40, torch.nn.GELU("tanh"))),
}


@pytest.mark.parametrize("name", PAIRS)
def test_drop_in(name, target):
    """Parameters of the one load into the other; results and gradients agree."""
    torch.manual_seed(0)
    mine, theirs = (make() for make in PAIRS[name])
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, 0.5, 0.3)
    mine.load_state_dict(theirs.state_dict())
    mine, theirs = mine.to(target), theirs.double()
    x = random(5, 3, 24, device=target).requires_grad_()
    wide = x.detach().double().cpu().requires_grad_()
    result, wanted = mine(x), theirs(wide)
    compare(result, wanted, units=32)
    grad = random(*result.shape, device=target, seed=3)
    result.backward(grad)
    wanted.backward(grad.double().cpu())
    compare(x.grad, wide.grad, units=64)
    for a, b in zip(mine.parameters(), theirs.parameters()):
        compare(a.grad, b.grad, units=64)


@pytest.mark.parametrize("name,shape", [("RMSNorm", (24, )), ("LayerNorm", (24, )), ("RMSNorm", (3, 24)), ("LayerNorm", (3, 24))])
def test_norms_with_residual(name, shape, target):
    norm = getattr(modules, name)(shape, 1e-5, device=target)
    x, residual = random(5, 3, 24, device=target), random(5, 3, 24, device=target, seed=1)
    result, total = norm(x, residual)
    assert torch.equal(total, x + residual)
    compare(result, getattr(torch.nn, name)(shape, 1e-5, device=target, dtype=F64)((x + residual).double()), units=8)
    with pytest.raises(ValueError, match=r"`x` has shape \(5, 3, 23\): expected one that ends in"):
        norm(x[..., :23])


def test_weight_offset_of_gemma(target):
    norm = modules.RMSNorm(24, 1e-6, device=target, weight_offset=1.0)
    assert (norm.weight == 0).all()
    x = random(5, 24, device=target)
    compare(norm(x), torch.nn.functional.rms_norm(x.double(), (24, ), eps=1e-6), units=8)


def test_linear_with_activation_and_residual(target):
    layer, x, residual = modules.Linear(24, 10, device=target, activation="silu"), random(5, 24, device=target), random(5, 10, device=target)
    wanted = torch.nn.functional.silu(torch.nn.functional.linear(x.double(), layer.weight.double(), layer.bias.double())) + residual.double()
    compare(layer(x, residual), wanted, units=16)
    gated = modules.SwiGLU(24, 40, device=target)
    compare(gated(x, x), gated(x).double() + x.double(), units=16)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding(interleaved, target):
    """Against a rotation of complex numbers; partial rotation; positions; sequences beyond the first tables."""
    embedding = modules.RotaryEmbedding(8, 16, base=100.0, scaling=2.0, interleaved=interleaved, device=target)
    q, k = random(2, 20, 3, 12, device=target), random(2, 20, 1, 12, device=target, seed=1)

    def rotated(x, positions):
        x = x.double().cpu()
        head = x[..., :8].unflatten(-1, (4, 2)) if interleaved else x[..., :8].unflatten(-1, (2, 4)).transpose(-1, -2)
        angles = positions.double().cpu()[..., None] / 2 * 100.0**(-torch.arange(4, dtype=F64) / 4)
        turned = torch.view_as_real(torch.view_as_complex(head.contiguous()) * torch.polar(torch.ones_like(angles), angles)[..., None, :])
        turned = turned.flatten(-2) if interleaved else turned.transpose(-1, -2).flatten(-2)
        return torch.cat([turned, x[..., 8:]], -1)

    for positions in (None, torch.arange(20, device=target).flip(0)):
        places = torch.arange(20) if positions is None else positions
        compare(embedding(q, k, positions), (rotated(q, places), rotated(k, places)), units=32)
    heads_first = embedding(q.transpose(1, 2), k.transpose(1, 2), token_dim=-2)
    assert torch.equal(heads_first[0].transpose(1, 2), embedding(q, k)[0])
    with pytest.raises(ValueError, match="`dim` is 7: expected an even number"):
        modules.RotaryEmbedding(7)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(6, 9), (9, ), (4, 9, 5), (2, 9, 3, 2)])
def test_cross_entropy(shape, reduction, target):
    logits = random(*shape, device=target).requires_grad_()
    classes = torch.randint(0, 9, (*shape[:1], *shape[2:]) if len(shape) > 1 else (), generator=torch.Generator().manual_seed(0)).to(target)
    if classes.dim():
        classes.view(-1)[0] = -1
    settings = dict(ignore_index=-1, label_smoothing=0.1, reduction=reduction)
    loss = modules.CrossEntropyLoss(**settings)(logits, classes)
    wide = logits.detach().double().requires_grad_()
    wanted = torch.nn.CrossEntropyLoss(**settings)(wide, classes)
    compare(loss, wanted, units=16)
    compare(torch.autograd.grad(loss.sum(), logits), torch.autograd.grad(wanted.sum(), wide), units=32)


def test_linear_cross_entropy(target):
    layer = torch.nn.Linear(24, 50, device=target)
    x, classes = random(3, 7, 24, device=target), torch.arange(21, device=target).view(3, 7)
    wanted = torch.nn.functional.cross_entropy(layer(x).double().flatten(0, 1), classes.flatten(), reduction="none", label_smoothing=0.1).view(3, 7)
    for reduction in ("mean", "sum", "none"):
        loss = modules.LinearCrossEntropyLoss.of(layer, reduction=reduction, label_smoothing=0.1)
        assert loss.weight is layer.weight and loss.bias is layer.bias and list(loss.state_dict()) == list(layer.state_dict())
        compare(loss(x, classes), wanted if reduction == "none" else getattr(wanted, reduction)(), units=16)
    compare(loss.logits(x), layer(x), units=4)
    with pytest.raises(ValueError, match=r"`target` has shape \(3, 6\): expected \(3, 7\)"):
        loss(x, classes[:, :6])


def test_dropout_add(target):
    layer, x, residual = modules.DropoutAdd(0.3), random(40, 24, device=target), random(40, 24, device=target, seed=1)
    dropped = layer(x, residual) == residual
    assert 0.1 < dropped.double().mean() < 0.5
    compare(layer.eval()(x, residual), x.double() + residual.double(), units=2)


def test_errors():
    with pytest.raises(ValueError, match="`weight` is given: expected None"):
        modules.CrossEntropyLoss(weight=torch.ones(3))
    with pytest.raises(ValueError, match=r"`target` has shape \(5,\): expected \(4,\), a class for each row"):
        modules.CrossEntropyLoss()(torch.ones(4, 3), torch.zeros(5, dtype=torch.long))
