"""One of two processes (gloo) that compute with DTensors what a training step does, and compare results and gradients with those of whole tensors (`test_sharding_training.py` starts them)."""

import math
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

from nereid.ops import fused

R, P, S0, S1, S2 = Replicate(), Partial(), Shard(0), Shard(1), Shard(2)


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + seed))


def cases():
    """(name, function, tensors, their placements, placement of the (first) result)."""
    x, weight, down, bias = random(2, 6, 16), random(8, 16), random(16, 8), random(8)
    for activation in ("none", "relu", "gelu", "silu"):
        yield f"linear {activation} by n", lambda x, w, b, a=activation: fused.linear(x, w, b, a), (x, weight, bias), (R, S0, S0), S2
        yield f"linear {activation} by rows", lambda x, w, b, a=activation: fused.linear(x, w, b, a), (x, weight, bias), (S1, R, R), S1
    yield "linear by k", fused.linear, (x, weight), (S2, S1), P
    yield "linear, residual, by rows", lambda x, w, r: fused.linear(x, w, None, "silu", r), (x, weight, random(2, 6, 8)), (S0, R, S0), S0
    yield "linear_swiglu by n", fused.linear_swiglu, (x, weight, random(8, 16, seed=1)), (R, S0, S0), S2
    yield "linear_swiglu by rows", fused.linear_swiglu, (x, weight, random(8, 16, seed=1)), (S1, R, R), S1
    yield "feed-forward", lambda x, g, u, d: fused.linear(fused.linear_swiglu(x, g, u), d), (x, weight, random(8, 16, seed=1), down), (R, S0, S0, S1), P
    for dim, placement in ((0, S0), (1, S1), (2, S2)):
        yield f"swiglu by dimension {dim}", fused.swiglu, (x, random(2, 6, 16, seed=1)), (placement, placement), placement
        yield f"geglu by dimension {dim}", fused.geglu, (x, random(2, 6, 16, seed=1)), (placement, placement), placement
    yield "add_rms_norm by tokens", fused.add_rms_norm, (x, random(2, 6, 16, seed=1), random(16)), (S1, S1, R), S1
    yield "attention by heads", lambda q, k, v: fused.attention(q, k, v, causal=True), (random(2, 6, 4, 16), random(2, 6, 2, 16), random(2, 6, 2, 16, seed=1)), (S2, S2, S2), S2
    cos, sin = random(6, 8).cos(), random(6, 8).sin()
    yield "rope by heads", lambda q, k: fused.rope(q, k, *(distribute_tensor(t, q.device_mesh, [R]) if hasattr(q, "placements") else t for t in (cos, sin))), (random(2, 6, 4, 16), random(2, 6, 2, 16)), (S2, S2), S2
    yield "layer_norm by tokens", fused.layer_norm, (x, random(16), random(16, seed=2)), (S1, R, R), S1
    low_rank = (random(8, 64), random(6, 64), random(4, 64), random(6, 4))
    for name, placements, wanted in (("rows", (S0, R, R, R), S0), ("n", (R, S0, R, S0), S1), ("k", (S1, S1, S1, R), P)):
        yield f"lora_linear by {name}", lambda x, w, a, b: fused.lora_linear(x, w, a, b, 0.5), low_rank, placements, wanted
    yield "grouped_mm by n", fused.grouped_mm, (random(8, 16), random(2, 16, 12), torch.tensor([3, 8])), (R, S2, R), S1
    yield "topk_softmax by rows", lambda x, b: fused.topk_softmax(x, 2, "softmax", True, b)[0], (random(8, 6), random(6)), (S0, R), S0
    experts = torch.randint(0, 3, (8, 2), generator=torch.Generator().manual_seed(0))
    ordered, _, places, _ = fused.moe_align(experts, 3)
    yield "moe_combine by columns", fused.moe_combine, (random(16, 12), ordered, places, random(8, 2)), (S1, R, R, R), S1
    rows, target = random(10, 16), torch.tensor([3, 0, -100, 7, 2, 2, 5, 1, -100, 6])
    for reduction, placement, wanted in (("sum", S0, P), ("none", S0, S0), ("mean", R, R), ("mean", S0, R)):
        named = {"reduction": reduction, "label_smoothing": 0.1, "z_loss": 0.01}
        yield f"cross_entropy {reduction} {placement}", lambda x, t, n=named: fused.cross_entropy(x, t, **n), (random(10, 8), target), (placement, placement), wanted
        yield (f"linear_cross_entropy {reduction} {placement}", lambda x, w, t, b, n=named: fused.linear_cross_entropy(x, w, t, b, **n), (rows, weight, target, bias), (placement, R, placement, R), wanted)
        yield (f"linear_cross_entropy with lse, {reduction} {placement}", lambda x, w, t, n=named: fused.linear_cross_entropy(x, w, t, return_lse=True, **n), (rows, weight, target), (placement, R, placement), wanted)


def objective(results):
    """A number that depends on all results, each element with another factor."""
    results = [results] if isinstance(results, torch.Tensor) else results
    total = 0
    for i, result in enumerate(results):
        factors = random(*result.shape, seed=7 + i)
        if hasattr(result, "device_mesh"):
            factors = distribute_tensor(factors, result.device_mesh, [R])
        total = total + (result * factors).sum()
    return results, total


def say(*words):
    if dist.get_rank() == 0:
        print(*words, flush=True)


def full(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def check_operators(mesh):
    for name, function, tensors, placements, wanted in cases():
        whole = [x.clone().requires_grad_(x.is_floating_point()) for x in tensors]
        parts = [distribute_tensor(x, mesh, [placement]).requires_grad_(x.is_floating_point()) for x, placement in zip(tensors, placements)]
        mine, total = objective(function(*parts))
        theirs, expected = objective(function(*whole))
        assert mine[0].placements == (wanted, ), (name, mine[0].placements)
        total.backward()
        expected.backward()
        for got, want in zip([*mine, *(x.grad for x in parts if x.requires_grad)], [*theirs, *(x.grad for x in whole if x.requires_grad)]):
            torch.testing.assert_close(full(got), want, rtol=1e-5, atol=1e-5, msg=lambda text: f"{name}: {text}")
        say("operator", name)


PLACED = ((33, 6), S0), ((6, 33), S1), ((7, ), R), ((5, 4), S0), ((1, 4), S0)  # the second process has less of some, nothing of the last


def check_norms(mesh):
    whole = [random(*shape) for shape, _ in PLACED] + [random(4, 4)]
    parts = [distribute_tensor(x.clone(), mesh, [placement]) for x, (_, placement) in zip(whole, PLACED)]
    # Partial sums: each process has a half of a gradient.
    parts += [torch.distributed.tensor.DTensor.from_local(whole[-1] / 2, mesh, [P])]
    for order in (1, 2, math.inf):
        torch.testing.assert_close(fused.gradient_norm(parts, order), torch.linalg.vector_norm(torch.cat([x.flatten() for x in whole]), order), msg=lambda text: f"order {order}: {text}")
    try:
        fused.gradient_norm(parts, 3)
    except ValueError as error:
        assert "expected 1, 2 or inf" in str(error)
    else:
        raise AssertionError("an order of 3 was taken")
    norm = fused.gradient_norm(parts)
    fused.clip_gradients_(parts, 1.0, norm)
    for got, want in zip(parts, whole):
        torch.testing.assert_close(full(got), want / (norm + 1e-6))
    fused.clip_gradients_(parts, 1.0, distribute_tensor(torch.tensor(2.0), mesh, [R]))
    torch.testing.assert_close(full(parts[0]), whole[0] / (norm + 1e-6) / 2, rtol=1e-5, atol=1e-7)
    say("norms")


def check_optimizer(mesh, dtype):
    """Three steps of AdamW with DTensors and with whole tensors, the state saved and loaded between them."""
    whole = [torch.nn.Parameter(random(*shape).to(dtype)) for shape, _ in PLACED]
    parts = [torch.nn.Parameter(distribute_tensor(x.detach().clone(), mesh, [placement])) for x, (_, placement) in zip(whole, PLACED)]

    def made(params):
        return fused.AdamW(params, lr=torch.tensor(0.01), weight_decay=0.1, master_weights=True)

    optimizers = [made(whole), made(parts)]
    for step in range(3):
        for i, (a, b) in enumerate(zip(whole, parts)):
            gradient = random(*a.shape, seed=step).to(dtype)
            a.grad = gradient.clone()
            # The gradient of a replicated parameter comes as partial sums where its uses were sharded.
            b.grad = torch.distributed.tensor.DTensor.from_local(gradient / 2, mesh, [P]) if i == 2 else distribute_tensor(gradient.clone(), mesh, b.placements)
        for optimizer in optimizers:
            optimizer.step()
        if step == 1:
            restored = made(parts)
            restored.load_state_dict(optimizers[1].state_dict())
            optimizers[1] = restored
    for a, b in zip(whole, parts):
        states = [optimizer.state[param] for optimizer, param in zip(optimizers, (a, b))]
        assert states[0].keys() == states[1].keys() and ("master_param" in states[1]) == (dtype == torch.bfloat16)
        assert states[1]["exp_avg"].placements == b.placements
        for name in states[0]:
            assert torch.equal(full(states[1][name]), states[0][name]), (name, dtype)
        assert torch.equal(full(b), a), dtype
    say("optimizer", dtype)


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, ))
    fused.register_sharding()
    check_operators(mesh)
    check_norms(mesh)
    for dtype in (torch.float32, torch.bfloat16):
        check_optimizer(mesh, dtype)
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # not by way of the interpreter's end, where gloo's threads may abort the process (leave() in examples/train/aquila/parallel.py)


if __name__ == "__main__":
    main()
