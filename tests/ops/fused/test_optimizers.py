"""AdamW, norms of gradients, clipping."""

import copy

import pytest
import torch
from fused_checks import compare, random

from nereid.ops import fused
from nereid.ops.fused import optimizers

SHAPES = [(33, 70), (5, ), (), (1025, ), (0, 4), (3, 4, 5), (2048, )]


def reference(params, grads, steps=3, **named):
    """The parameters after some steps of AdamW in fp64."""
    wide = [param.detach().double().clone().requires_grad_() for param in params]
    optimizer = torch.optim.AdamW(wide, foreach=True, **named)
    for _ in range(steps):
        for param, grad in zip(wide, grads):
            param.grad = grad.double()
        optimizer.step()
    return wide, optimizer


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_adamw(dtype, target):
    params = [random(*shape, dtype=dtype, device=target, seed=i) for i, shape in enumerate(SHAPES)]
    grads = [random(*shape, dtype=dtype, device=target, seed=50 + i) for i, shape in enumerate(SHAPES)]
    for named in ({"lr": 0.01, "weight_decay": 0.1}, {"lr": 0.1, "betas": (0.5, 0.0), "eps": 1e-3, "maximize": True}):
        want, theirs = reference(params, grads, **named)
        mine = [param.clone().requires_grad_() for param in params]
        optimizer = optimizers.AdamW(mine, master_weights=True, **named)
        for _ in range(3):
            for param, grad in zip(mine, grads):
                param.grad = grad.clone()
            optimizer.step()
        compare(mine, want, units=8)
        for a, b in zip(mine, want):
            if not a.numel():
                continue
            assert optimizer.state[a]["step"] == 3
            compare(optimizer.state[a]["exp_avg"], theirs.state[b]["exp_avg"], units=16)
            compare(optimizer.state[a]["exp_avg_sq"], theirs.state[b]["exp_avg_sq"], units=16)
            if dtype in (torch.float16, torch.bfloat16):
                compare(optimizer.state[a]["master_param"], b, units=16)


def test_mixed_dtypes_and_many_tensors(target):
    kinds = [torch.float32, torch.bfloat16, torch.float64]
    params = [random(1 + i % 7, 5, dtype=kinds[i % 3], device=target, seed=i) for i in range(110)]
    grads = [random(*param.shape, dtype=torch.float32, device=target, seed=200 + i) for i, param in enumerate(params)]
    averages, squares = ([torch.zeros_like(param, dtype=torch.float64 if param.dtype == torch.float64 else torch.float32) for param in params] for _ in range(2))
    steps = [torch.zeros((), device=target) for _ in params]
    want, _ = reference(params, grads, steps=2, lr=0.01, weight_decay=0.1)
    for _ in range(2):
        fused.adamw_(params, grads, averages, squares, steps, 0.01, 0.9, 0.999, 1e-8, 0.1)
    for got, it in zip(params, want):
        compare(got, it, dtype=torch.bfloat16 if got.dtype == torch.bfloat16 else torch.float32, units=4)
    assert all(step == 2 for step in steps)


def test_layouts(target):
    """Dense tensors in any order of dimensions; gradients in another order are brought into it."""
    start, grad = random(6, 3, 4, 5, device=target), random(6, 3, 4, 5, device=target, seed=1)
    want, _ = reference([start], [grad], steps=1)
    for param in (start.clone(), start.to(memory_format=torch.channels_last)):
        param.requires_grad_()
        param.grad = grad.clone()
        optimizers.AdamW([param]).step()
        compare(param, want[0], units=4)
    flat = torch.zeros(40, device=target)
    odd, its = flat[1:31].view(5, 6), random(5, 6, device=target)
    odd.copy_(start[0, 0, 0, 0])
    want, _ = reference([odd], [its], steps=1, lr=0.01)
    fused.adamw_([odd], [its], [torch.zeros(5, 6, device=target)], [torch.zeros(5, 6, device=target)], [torch.zeros((), device=target)], 0.01, 0.9, 0.999, 1e-8, 0.01)
    compare(odd, want[0], units=4)
    assert flat[0] == 0 and (flat[31:] == 0).all()


def test_numbers_on_the_device(target):
    start, grad = random(50, device=target), random(50, device=target, seed=1)
    want, _ = reference([start], [grad], steps=1, lr=0.25)
    for lr in (0.25, torch.tensor(0.25, device=target)):
        param = start.clone().requires_grad_()
        optimizer = optimizers.AdamW([param], lr=lr)
        param.grad = grad * 1024
        optimizer.grad_scale, optimizer.found_inf = torch.tensor(1024.0, device=target), torch.tensor(1.0, device=target)
        optimizer.step()
        assert torch.equal(param.detach(), start) and optimizer.state[param]["step"] == 0
        optimizer.found_inf = torch.tensor(0.0, device=target)
        optimizer.step()
        compare(param, want[0], units=4)
        assert optimizer.state[param]["step"] == 1


def test_state_dict_goes_both_ways(target):
    for dtype in (torch.float32, torch.bfloat16):
        mine, theirs = ([random(9, 4, dtype=dtype, device=target).requires_grad_()] for _ in range(2))
        first, second = optimizers.AdamW(mine, lr=0.1, state_dtype=None), torch.optim.AdamW(theirs, lr=0.1, fused=True)
        for param, optimizer in ((mine[0], first), (theirs[0], second)):
            param.grad = random(9, 4, dtype=dtype, device=target, seed=3)
            optimizer.step()
        assert first.state_dict()["param_groups"] == second.state_dict()["param_groups"]
        assert list(first.state_dict()["state"][0]) == list(second.state_dict()["state"][0])
        saved = copy.deepcopy((first.state_dict(), second.state_dict()))
        first.load_state_dict(saved[1])
        second.load_state_dict(saved[0])
        first.step()
        second.step()
        compare(mine[0], theirs[0], units=8)
        kept = optimizers.AdamW(mine, master_weights=True)
        kept.load_state_dict(copy.deepcopy(second.state_dict()))
        kept.step()
        assert kept.state[mine[0]]["exp_avg"].dtype == torch.float32 and kept.state[mine[0]]["step"] == 3


def test_closure_and_parameters_without_gradient(target):
    a, b = random(4, device=target).requires_grad_(), random(4, device=target).requires_grad_()
    optimizer = optimizers.AdamW([a, b])

    def closure():
        optimizer.zero_grad()
        loss = (a * a).sum()
        loss.backward()
        return loss

    before = b.detach().clone()
    assert optimizer.step(closure) > 0 and torch.equal(b.detach(), before) and b not in optimizer.state


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_gradient_norm(dtype, target):
    tensors = [random(*shape, dtype=dtype, device=target, seed=i) for i, shape in enumerate(SHAPES)] + [random(30000, dtype=dtype, device=target)]
    tensors.append(random(6, 3, 4, 5, dtype=dtype, device=target).to(memory_format=torch.channels_last))
    flat = torch.cat([tensor.double().reshape(-1) for tensor in tensors])
    for ord in (1, 2, float("inf")):
        got = fused.gradient_norm(tensors, ord)
        compare(got, torch.linalg.vector_norm(flat, ord), units=16)
        assert torch.equal(got, fused.gradient_norm(tensors, ord)) and got.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    tensors[0][3, 3] = float("nan")
    assert all(fused.gradient_norm(tensors, ord).isnan() for ord in (1, 2, float("inf")))


def test_norm_of_mixed_dtypes(target):
    tensors = [random(100, dtype=dtype, device=target) for dtype in (torch.float16, torch.float32, torch.bfloat16)] * 30
    compare(fused.gradient_norm(tensors), torch.linalg.vector_norm(torch.cat([tensor.double() for tensor in tensors])), units=16)


def test_clip(target):
    for limit in (1.0, 1e6):
        grads = [random(*shape, dtype=dtype, device=target, seed=i) for i, shape in enumerate(SHAPES) for dtype in (torch.float32, torch.bfloat16)]
        params = [torch.zeros_like(grad, dtype=torch.float64).requires_grad_() for grad in grads]
        for param, grad in zip(params, grads):
            param.grad = grad.double()
        torch.nn.utils.clip_grad_norm_(params, limit)
        fused.clip_gradients_(grads, limit, fused.gradient_norm(grads))
        compare(grads, [param.grad for param in params], units=8)
    fused.clip_gradients_(grads, 1.0, torch.tensor(float("nan"), device=target))
    assert all(grad.isnan().all() for grad in grads)
    fused.clip_gradients_([], 1.0, torch.ones((), device=target))


def test_errors(target):
    x, step = torch.ones(4, 4, device=target), torch.zeros((), device=target)
    numbers = (0.1, 0.9, 0.999, 1e-8, 0.0)
    with pytest.raises(ValueError, match="`grads` has 2 tensors: expected 1, as `params`"):
        fused.adamw_([x], [x, x], [x], [x], [step], *numbers)
    with pytest.raises(ValueError, match=r"`exp_avgs\[0\]` has shape \(4, 3\): expected \(4, 4\)"):
        fused.adamw_([x], [x], [x[:, :3]], [x], [step], *numbers)
    with pytest.raises(ValueError, match=r"`grads\[0\]` has strides \(1, 4\): expected \(4, 1\)"):
        fused.adamw_([x], [x.T], [x], [x], [step], *numbers)
    with pytest.raises(TypeError, match=r"`params\[0\]` has dtype torch.int64"):
        fused.adamw_([x.long()], [x], [x], [x], [step], *numbers)
    with pytest.raises(ValueError, match=r"`steps\[0\]` has dtype torch.int64"):
        fused.adamw_([x], [x], [x], [x], [step.long()], *numbers)
    with pytest.raises(ValueError, match="`beta1`, `beta2` are 1.0"):
        fused.adamw_([x], [x], [x], [x], [step], 0.1, 1.0, 0.9, 1e-8, 0.0)
    with pytest.raises(ValueError, match=r"`tensors\[0\]` has strides \(4, 1\) for the shape \(4, 3\): expected a dense tensor"):
        fused.gradient_norm([x[:, :3]])
    with pytest.raises(ValueError, match="`ord` is 3"):
        fused.gradient_norm([x], 3)
    with pytest.raises(ValueError, match="`tensors` is empty"):
        fused.gradient_norm([])
