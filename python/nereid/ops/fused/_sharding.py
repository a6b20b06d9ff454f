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


def layer(x, weight, bias=None, activation="none", residual=None):
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


def grouped(a, b, ends=None):
    """The rule of `grouped_mm`: sharded on dimensions that are not in groups, on the summed one (partial sums) unless that is in groups, and on the batch."""
    from torch.distributed.tensor import Partial, Replicate, Shard
    first, second, added = a.ndim - 2, b.ndim - 2, None if ends is None else Replicate()
    last = 2 if a.ndim == b.ndim else 1
    rules = [([Replicate()], [Replicate(), Replicate(), added])]
    if (a.ndim, b.ndim) != (2, 3):
        rules.append(([Shard(last - 1)], [Shard(first), Replicate(), added]))
    if (a.ndim, b.ndim) != (3, 2):
        rules.append(([Shard(last)], [Replicate(), Shard(second + 1), added]))
    if (a.ndim, b.ndim) != (2, 2):
        rules.append(([Partial()], [Shard(first + 1), Shard(second), added]))
    if (a.ndim, b.ndim) == (3, 3):
        rules.append(([Shard(0)], [Shard(0), Shard(0), added]))
    return rules


def choice(logits, *others):
    """The rule of `topk_softmax`: sharded on the leading dimensions."""
    from torch.distributed.tensor import Replicate, Shard
    bias = others[3] if len(others) > 3 else None
    rest = [None, None, None, None if bias is None else Replicate(), None]
    return [([placed, placed], [placed, *rest]) for placed in (Replicate(), *(Shard(d) for d in range(logits.ndim - 1)))]


def combination(x, rows, places, weights=None):
    """The rule of `moe_combine`: sharded on the columns of `x`."""
    from torch.distributed.tensor import Replicate, Shard
    rest = [Replicate(), Replicate(), None if weights is None else Replicate()]
    return [([placed], [placed, *rest]) for placed in (Replicate(), Shard(1))]


def experts(x, gate_up, down, weights, chosen):
    """The rule of `moe_swiglu`: sharded on the leading dimensions of `x`. Within an expert the gate's rows stand before those of `up`, so n cannot be sharded."""
    from torch.distributed.tensor import Replicate, Shard
    return [([placed], [placed, Replicate(), Replicate(), placed, placed]) for placed in (Replicate(), *(Shard(d) for d in range(x.ndim - 1)))]


def quantized_layer(zeros):
    """The rule of x (..., k) with quantised weights: sharded on the leading dimensions, or on n. zeros: whether there is an argument for them, before the bias."""

    def rule(x, weight, scale, *others):
        from torch.distributed.tensor import Replicate, Shard
        zero, bias = (*others, None, None)[:2] if zeros else (None, *others, None)[:2]
        last = x.ndim - 1

        def placed(out, first, second):
            middle = [None if zero is None else second] if zeros else []
            return [out], [first, second, second, *middle, None if bias is None else second, None]

        rules = [placed(Replicate(), Replicate(), Replicate()), placed(Shard(last), Replicate(), Shard(0))]
        return rules + [placed(Shard(d), Shard(d), Replicate()) for d in range(last)]

    return rule


def scaled(a, b, a_scale, b_scale, bias=None, out_dtype=None):
    """The rule of `scaled_mm`: sharded on the rows of `a` or on those of `b`, and scales with them where there is one for each row. Blocks of 128 rows of `b` are not cut."""
    from torch.distributed.tensor import Replicate, Shard

    def scale(placement, tensor, rows):
        return placement if tensor.ndim and tensor.shape[0] == rows and tensor.shape.numel() > 1 else Replicate()

    def placed(out, first, second):
        return [out], [first, second, scale(first, a_scale, a.shape[0]), scale(second, b_scale, b.shape[0]), None if bias is None else second, None]

    rules = [placed(Replicate(), Replicate(), Replicate()), placed(Shard(0), Shard(0), Replicate())]
    if b_scale.shape.numel() == 1 or b_scale.shape[0] == b.shape[0]:
        rules.append(placed(Shard(1), Replicate(), Shard(0)))
    return rules


def low_rank(x, weight, a, b, scale=1.0, bias=None):
    """The rule of `lora_linear`: sharded on the leading dimensions of x (..., k), on n, or on k without a bias."""
    from torch.distributed.tensor import Partial, Replicate, Shard
    last = x.ndim - 1

    def placed(out, first, second, down, up):
        return [out], [first, second, down, up, None, None if bias is None else up]

    same = Replicate()
    rules = [placed(same, same, same, same, same), placed(Shard(last), same, Shard(0), same, Shard(0))]
    rules += [placed(Shard(d), Shard(d), same, same, same) for d in range(last)]
    if bias is None:
        rules.append(placed(Partial(), Shard(last), Shard(1), Shard(1), same))
    return rules


def grouped_scaled(a, b, a_scale, b_scale, ends, out_dtype=None):
    """The rule of `grouped_scaled_mm`: sharded on the rows of all matrices `b`, and their scales with them. Blocks of 128 rows are not cut."""
    from torch.distributed.tensor import Replicate, Shard
    same = Replicate()
    rules = [([same], [same] * 5 + [None])]
    if b_scale.ndim == 1 or b_scale.shape[1] == b.shape[1]:
        rules.append(([Shard(1)], [same, Shard(1), same, same if b_scale.ndim == 1 else Shard(1), same, None]))
    return rules
