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


def layer(x, weight, bias, activation, residual):
    """The rule of x (..., k) @ weight (n, k).T with bias, activation and residual: sharded on the leading dimensions, on n, or on k where nothing follows."""
    from torch.distributed.tensor import Partial, Replicate, Shard
    last = x.ndim - 1

    def placed(out, first, second, added):
        return [out], [first, second, None if bias is None else added, None, None if residual is None else out]

    rules = [placed(Replicate(), Replicate(), Replicate(), Replicate()), placed(Shard(last), Replicate(), Shard(0), Shard(0))]
    rules += [placed(Shard(d), Shard(d), Replicate(), Replicate()) for d in range(last)]
    if bias is None and residual is None and activation == "none":
        rules.append(placed(Partial(), Shard(last), Shard(1), None))
    return rules


def gated_layer(x, gate_weight, up_weight):
    """The rule of `linear_swiglu`: sharded on the leading dimensions of x (..., k), or on n."""
    from torch.distributed.tensor import Replicate, Shard
    last = x.ndim - 1
    rules = [([Replicate()], [Replicate()] * 3), ([Shard(last)], [Replicate(), Shard(0), Shard(0)])]
    return rules + [([Shard(d)], [Shard(d), Replicate(), Replicate()]) for d in range(last)]
