"""A process of a mesh of two that computes its shards of fused products and compares them with shards of the whole result (`test_sharding.py` starts it)."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from nereid.ops import fused

R, P, S0, S1, S2 = Replicate(), Partial(), Shard(0), Shard(1), Shard(2)


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def cases():
    """(name, operator, arguments, placements of the tensors among them, placements of the results)."""
    x, ends = random(8, 16), torch.tensor([3, 8])
    stack = random(2, 16, 12)
    yield "rows by n", fused.grouped_mm, (x, stack, ends), (R, S2, R), [S1]
    yield "rows by k", fused.grouped_mm, (x, stack, ends), (S1, S1, R), [P]
    yield "columns by m", fused.grouped_mm, (random(2, 6, 16), random(16, 8), ends), (S1, R, R), [S0]
    yield "columns by k", fused.grouped_mm, (random(2, 6, 16), random(16, 8), ends), (S2, S0, R), [P]
    yield "summed by m", fused.grouped_mm, (random(6, 8), random(8, 4), ends), (S0, R, R), [S1]
    yield "summed by n", fused.grouped_mm, (random(6, 8), random(8, 4), ends), (R, S1, R), [S2]
    yield "batch", fused.grouped_mm, (random(2, 6, 16), stack), (S0, S0), [S0]
    yield "choice", fused.topk_softmax, (random(8, 6), 2, "softmax", True, random(6)), (S0, R), [S0, S0]
    experts = torch.randint(0, 3, (8, 2), generator=torch.Generator().manual_seed(0))
    rows, _, places, _ = fused.moe_align(experts, 3)
    yield "combination", fused.moe_combine, (random(16, 12), rows, places, random(8, 2)), (S1, R, R, R), [S1]
    yield "experts", torch.ops.nereid.moe_swiglu, (x, random(3, 24, 16), random(3, 16, 12), random(8, 2), experts), (S0, R, R, S0, S0), [S0]
    yield "linear by n", torch.ops.nereid.linear, (x, random(6, 16)), (R, S0), [S1]
    eights, columns = (random(8, 16) * 40).to(torch.int8), (random(6, 16) * 40).to(torch.int8)
    yield "scaled by m", fused.scaled_mm, (eights, columns, random(8), random(1), None, torch.float32), (S0, R, S0, R), [S0]
    yield "scaled by n", fused.scaled_mm, (eights, columns, random(8), random(6), None, torch.float32), (R, S0, R, S0), [S1]
    grouped = (eights, torch.stack([columns, columns]), random(8), random(2, 6), ends, torch.float32)
    yield "scaled groups by n", fused.grouped_scaled_mm, grouped, (R, S1, R, S1, R), [S1]
    packed, scale, zero = fused.quantize_int4(random(6, 64), 32)
    wide = random(8, 64)
    yield "int4 by m", fused.linear_int4, (wide, packed, scale, zero, random(6), 32), (S0, R, R, R, R), [S0]
    yield "int4 by n", fused.linear_int4, (wide, packed, scale, zero, random(6), 32), (R, S0, S0, S0, S0), [S1]
    yield "int8 by n", fused.linear_int8, (x, columns, random(6, 1)), (R, S0, S0), [S1]
    low = (wide, random(6, 64), random(4, 64), random(6, 4), 0.5)
    yield "low rank by m", fused.lora_linear, (*low, random(6)), (S0, R, R, R, R), [S0]
    yield "low rank by n", fused.lora_linear, (*low, random(6)), (R, S0, R, S0, S0), [S1]
    yield "low rank by k", fused.lora_linear, low, (S1, S1, S1, R), [P]


def shard(x, mesh, placement):
    """What the first process holds of a tensor. (`distribute_tensor` would ask the group, which is none and moves nothing.)"""
    return DTensor.from_local(x.chunk(2, placement.dim)[0] if isinstance(placement, Shard) else x, mesh, [placement], run_check=False)


def main():
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    mesh = init_device_mesh("cpu", (2, ))
    fused.register_sharding()
    for name, operator, arguments, placements, wanted in cases():
        whole = operator(*arguments)
        placed = iter(placements)
        given = [shard(x, mesh, next(placed)) if isinstance(x, torch.Tensor) else x for x in arguments]
        results = operator(*given)
        whole, results = ([value] if isinstance(value, torch.Tensor) else value for value in (whole, results))
        assert all(isinstance(result, DTensor) for result in results), name
        assert [result.placements for result in results] == [(placement, ) for placement in wanted], (name, [result.placements for result in results])
        for result, full, placement in zip(results, whole, wanted):
            if placement == P:
                # Of two halves of k this process has the first.
                halves = [x.chunk(2, where.dim)[0] if isinstance(where, Shard) else x for x, where in zip([x for x in arguments if isinstance(x, torch.Tensor)], placements)]
                numbers = [x for x in arguments if not isinstance(x, torch.Tensor)]
                full = operator(*halves, *numbers)
            else:
                full = full.chunk(2, placement.dim)[0]
            torch.testing.assert_close(result.to_local(), full, msg=lambda text: f"{name}: {text}")
        print(name, "ok")


if __name__ == "__main__":
    main()
