"""Sharding rules of attention: placements of results and gradients, on a process group of two that sends nothing."""

import pytest
import torch
from fused_checks import random

from nereid.ops import fused

pytestmark = pytest.mark.cpu_only("the placements are the same on every device")


@pytest.fixture
def shards():
    """A function (tensor, dimension or None): a DTensor of which this is the part of the first of two ranks."""
    dist = pytest.importorskip("torch.distributed")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    fused.register_sharding()
    mesh = init_device_mesh("cpu", (2, ))
    yield lambda x, dim: DTensor.from_local(x, mesh, [Replicate() if dim is None else Shard(dim)])
    dist.destroy_process_group()


def dims(tensors):
    return [tensor.placements[0].dim if tensor.placements[0].is_shard() else None for tensor in tensors]


@pytest.mark.parametrize("given,wanted,lse", [(2, 2, 1), (0, 0, 0), (None, None, None), (1, None, None)], ids=["heads", "batches", "replicated", "tokens"])
def test_attention(given, wanted, lse, shards, target):
    q, k = random(2, 5, 4, 16), random(2, 7, 2, 16)
    local = [x.requires_grad_() for x in (q, k, k.clone())]
    own = fused.attention(*local, causal=True)
    tensors = [shards(x.detach(), given).requires_grad_() for x in local]
    out, sums = fused.attention(*tensors, causal=True, return_lse=True)
    assert dims([out, sums]) == [wanted, lse]
    assert dims(torch.autograd.grad(out.sum(), tensors)) == [wanted] * 3
    if wanted is not None:
        assert torch.equal(out.to_local(), own)


@pytest.mark.parametrize("of_bias", [False, True])
def test_a_gradient_that_is_not_asked_for_has_no_placement(of_bias, target):
    from nereid.ops.fused.attention import _sharding_backward
    q, k, lse = random(2, 5, 4, 16), random(2, 7, 2, 16), random(2, 4, 5)
    bias = random(2, 4, 5, 7) if of_bias else None
    for outputs, _ in _sharding_backward(q, None, q, lse, q, k, k, bias, of_bias=of_bias):
        assert len(outputs) == 4 and (outputs[3] is not None) == of_bias


def test_caches(shards, target):
    q, cache = random(2, 4, 16), random(4, 4, 2, 16)
    table, lengths = torch.tensor([[3, 1], [0, 2]]), torch.tensor([5, 3])
    rest = shards(table, None), shards(lengths, None)
    out = fused.paged_attention(shards(q, 1), shards(cache, 2), shards(cache.clone(), 2), *rest)
    assert dims([out]) == [1] and torch.equal(out.to_local(), fused.paged_attention(q, cache, cache.clone(), table, lengths))
    vectors = cache[:, :, 0].contiguous()
    out = fused.latent_attention_decode(shards(q, 1), shards(vectors, None), *rest, 0.1, rope_dim=4)
    assert dims([out]) == [1] and torch.equal(out.to_local(), fused.latent_attention_decode(q, vectors, table, lengths, 0.1, rope_dim=4))
