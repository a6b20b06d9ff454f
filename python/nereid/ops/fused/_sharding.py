"""Sharding rules of fused operators for DTensor: what `torch.distributed.tensor.experimental.register_sharding` takes."""


def elementwise(*tensors):
    """The rule of an operator all of whose tensors have one shape (others are None or numbers): sharded on any dimension, or replicated.

    tensors: for each argument whether it is such a tensor; the first one is. Returns the rule of operators with one result.
    """

    def rule(first, *others):
        from torch.distributed.tensor import Replicate, Shard

        def along(placement):
            return [placement], [placement if is_tensor else None for is_tensor in tensors]

        return [along(Replicate()), *(along(Shard(d)) for d in range(first.ndim))]

    return rule
