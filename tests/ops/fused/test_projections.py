"""Products of normalised rows and gated activations: values, gradients, and what autograd keeps of them."""

import pytest
import torch
from torch.nn import functional as F

from nereid.ops import fused


def norm_definition(x, residual, weight, matrices, eps=1e-6, weight_offset=0.0):
    total = x if residual is None else x + residual
    normalised = total * (total.square().mean(-1, keepdim=True) + eps).rsqrt() * (weight + weight_offset)
    return [normalised @ matrix.T for matrix in matrices], total


def random(*shape, dtype=torch.float64, device="cpu"):
    return torch.randn(shape, dtype=dtype, device=device).requires_grad_()


def gradients(results, inputs, device):
    """Of a sum with weights that differ by element."""
    total = sum((result.double() * torch.linspace(-1, 1, result.numel(), dtype=torch.float64, device=device).view(result.shape)).sum() for result in results)
    return torch.autograd.grad(total, inputs)


def close(got, want, tolerance):
    for mine, theirs in zip(got, want, strict=True):
        assert mine.shape == theirs.shape
        assert (mine.double() - theirs).norm() <= tolerance * theirs.norm(), (mine.dtype, mine.shape)


TOLERANCES = [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)]


@pytest.mark.parametrize("dtype,tolerance", TOLERANCES, ids=str)
@pytest.mark.parametrize("added", [False, True], ids=["alone", "added"])
def test_norms(dtype, tolerance, added, target):
    torch.manual_seed(1)
    x, residual, weight = random(3, 5, 48, dtype=dtype, device=target), random(3, 5, 48, dtype=dtype, device=target) if added else None, random(48, dtype=torch.float64 if dtype == torch.float64 else torch.float32, device=target)
    matrices = [random(n, 48, dtype=dtype, device=target) for n in (16, 32, 24)]
    inputs = [tensor for tensor in (x, residual, weight, *matrices) if tensor is not None]
    results = [*fused.add_rms_norm_linear(x, residual, weight, matrices, 1e-3, 0.5)[0], fused.add_rms_norm_linear(x, residual, weight, matrices, 1e-3, 0.5)[1]] if added else \
        fused.rms_norm_linear(x, weight, matrices, 1e-3, 0.5)
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    rest = iter(wide)
    products, total = norm_definition(next(rest), next(rest) if added else None, next(rest), list(rest), 1e-3, 0.5)
    expected = [*products, total] if added else products
    assert all(result.dtype == dtype for result in results)
    close(results, expected, tolerance)
    close(gradients(results, inputs, target), gradients(expected, wide, target), tolerance)


@pytest.mark.parametrize("dtype,tolerance", TOLERANCES, ids=str)
def test_gate(dtype, tolerance, target):
    torch.manual_seed(2)
    inputs = [random(3, 5, 48, dtype=dtype, device=target), random(3, 5, 48, dtype=dtype, device=target), random(20, 48, dtype=dtype, device=target)]
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    result, expected = fused.swiglu_linear(*inputs), F.linear(F.silu(wide[0]) * wide[1], wide[2])
    close([result], [expected], tolerance)
    close(gradients([result], inputs, target), gradients([expected], wide, target), tolerance)


def test_gradcheck():
    torch.manual_seed(3)
    x, residual, weight, a, b = random(4, 6), random(4, 6), random(6), random(3, 6), random(5, 6)
    assert torch.autograd.gradcheck(lambda x, weight, a, b: tuple(fused.rms_norm_linear(x, weight, [a, b])), (x, weight, a, b))
    assert torch.autograd.gradcheck(lambda x, residual, weight, a, b: (lambda products, total: (*products, total))(*fused.add_rms_norm_linear(x, residual, weight, [a, b])), (x, residual, weight, a, b))
    assert torch.autograd.gradcheck(fused.swiglu_linear, (random(4, 6), random(4, 6), a))


def test_some_gradients():
    """Inputs that need none, results that are not used."""
    torch.manual_seed(4)
    x, weight, a, b = random(4, 6), random(6), random(3, 6), random(5, 6)
    first, second = fused.rms_norm_linear(x, weight, [a, b])
    want = torch.autograd.grad(fused.rms_norm_linear(x, weight, [b])[0].sum(), (x, weight, b))
    got = torch.autograd.grad(second.sum(), (x, weight, b, a), allow_unused=True)
    assert got[3] is None and all(torch.equal(mine, theirs) for mine, theirs in zip(got, want))
    fixed = x.detach(), weight.detach()
    (of_a, ) = torch.autograd.grad(fused.rms_norm_linear(*fixed, [a])[0].sum(), a)
    assert torch.allclose(of_a, torch.autograd.grad((fused.rms_norm(*fixed) @ a.T).sum(), a)[0])
    _, total = fused.add_rms_norm_linear(x, x * 2, weight, [a])
    assert torch.equal(torch.autograd.grad(total.sum(), x)[0], torch.full_like(x, 3))
    assert torch.equal(torch.autograd.grad(fused.swiglu_linear(x, x.detach(), a.detach()).sum(), x)[0], torch.autograd.grad((fused.swiglu(x, x.detach()) @ a.detach().T).sum(), x)[0])


def kept(function):
    """Bytes of the storages that autograd saves."""
    found = {}

    def pack(tensor):
        found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        results = function()
    return sum(found.values()), results


def test_what_is_kept():
    """Of 100 rows: the sum and the weights, and the operands of the gate; no normalised rows and no gated activations."""
    torch.manual_seed(5)
    x, residual, weight = (random(*shape, dtype=torch.bfloat16) for shape in ((100, 64), (100, 64), (64, )))
    a, b, down = (random(*shape, dtype=torch.bfloat16) for shape in ((160, 64), (160, 64), (64, 160)))
    of_norm = 2 * (100 * 64 + 64 + 2 * 160 * 64)
    assert kept(lambda: fused.rms_norm_linear(x, weight, [a, b]))[0] == of_norm
    assert kept(lambda: fused.add_rms_norm_linear(x, residual, weight, [a, b]))[0] == of_norm
    gate, up = (random(100, 160, dtype=torch.bfloat16) for _ in range(2))
    assert kept(lambda: fused.swiglu_linear(gate, up, down))[0] == 2 * (2 * 100 * 160 + 64 * 160)
    assert kept(lambda: F.linear(fused.swiglu(gate, up), down))[0] == 2 * (3 * 100 * 160 + 64 * 160)


def test_under_autocast():
    x, weight, a = random(4, 16, dtype=torch.float32), random(16, dtype=torch.float32), random(8, 16, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (product, ) = fused.rms_norm_linear(x, weight, [a])
        gated = fused.swiglu_linear(x, x, a)
    assert product.dtype == gated.dtype == torch.bfloat16
    (product.sum() + gated.sum()).backward()
    assert a.grad.dtype == x.grad.dtype == torch.float32


def test_errors():
    x, weight, a = torch.ones(4, 6), torch.ones(6), torch.ones(3, 6)
    with pytest.raises(ValueError, match="`matrices` is empty: expected at least one matrix"):
        fused.rms_norm_linear(x, weight, [])
    with pytest.raises(ValueError, match=r"`matrices\[1\]` has shape \(3, 5\): expected \(n, 6\)"):
        fused.add_rms_norm_linear(x, x, weight, [a, a[:, :5]])
    with pytest.raises(TypeError, match=r"`matrices\[0\]`"):
        fused.rms_norm_linear(x, weight, [a.double()])
    with pytest.raises(ValueError, match="`up` has shape"):
        fused.swiglu_linear(x, x[:3], a)
