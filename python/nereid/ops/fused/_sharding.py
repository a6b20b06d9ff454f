"""Sharding rules of fused operators for DTensor: what `torch.distributed.tensor.experimental.register_sharding` takes."""


def elementwise(*tensors, results=1):
    """The rule of an operator all of whose tensors have one shape (others are None or numbers): sharded on any dimension, or replicated.

    tensors: for each argument whether it is such a tensor; the first one is. results: how many the operator has.
    """

    def rule(first, *others):
        from torch.distributed.tensor import Replicate, Shard

        def along(placement):
            return [placement] * results, [placement if is_tensor else None for is_tensor in tensors]

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


def saving_layer(x, weight, bias=None, activation="none", residual=None):
    """The rule of `linear_saving`: that of `layer` with an activation, for both results."""
    return [(out * 2, inputs) for out, inputs in layer(x, weight, bias, "any", residual)]


def layer_x_gradient(grad, *weights):
    """The rule of sums of grad (..., n) @ weight (n, k), one for each weight, from as many gradients: sharded on the leading dimensions, on k, or on n (partial sums).

    grad and weights: the gradients first, then the weights.
    """
    from torch.distributed.tensor import Partial, Replicate, Shard
    count, last = (1 + len(weights)) // 2, grad.ndim - 1

    def placed(out, first, second):
        return [out], [first] * count + [second] * count

    rules = [placed(Replicate(), Replicate(), Replicate()), placed(Shard(last), Replicate(), Shard(1)), placed(Partial(), Shard(last), Shard(0))]
    return rules + [placed(Shard(d), Shard(d), Replicate()) for d in range(last)]


def layer_weight_gradient(grad, x):
    """The rule of grad (..., n).T @ x (..., k): sharded on n, on k, or on the leading dimensions (partial sums)."""
    from torch.distributed.tensor import Partial, Replicate, Shard
    last = grad.ndim - 1
    rules = [([Replicate()], [Replicate()] * 2), ([Shard(0)], [Shard(last), Replicate()]), ([Shard(1)], [Replicate(), Shard(last)])]
    return rules + [([Partial()], [Shard(d)] * 2) for d in range(last)]


def saving_gated_layer(x, gate_weight, up_weight):
    """The rule of `linear_swiglu_saving`: that of `gated_layer`, for three results."""
    return [(out * 3, inputs) for out, inputs in gated_layer(x, gate_weight, up_weight)]


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


def choice_gradient(grad, logits, experts, *numbers):
    """The rule of `topk_softmax_backward`: sharded on the leading dimensions."""
    from torch.distributed.tensor import Replicate, Shard
    return [([placed], [placed] * 3 + [None] * 3) for placed in (Replicate(), *(Shard(d) for d in range(logits.ndim - 1)))]


def combination_gradient(grad, x, rows, places, weights=None):
    """The rule of `moe_combine_backward`: sharded on the columns of `x`; the gradient of the weights is a partial sum then."""
    from torch.distributed.tensor import Partial, Replicate, Shard
    rest = [Replicate(), Replicate(), None if weights is None else Replicate()]
    return [([placed, sums], [placed, placed, *rest]) for placed, sums in ((Replicate(), Replicate()), (Shard(1), Partial()))]


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


def _by_rows(reduction, inputs, outputs, whole):
    """The placements of losses: replicated, and by rows unless their mean is taken, whose divisor no process knows.

    inputs, outputs: functions of (placement of what has rows, of sums over rows, of the rest). whole: as `outputs`, with the loss and the count by rows.
    """
    from torch.distributed.tensor import Partial, Replicate, Shard
    rules = [(outputs(*[Replicate()] * 3), inputs(*[Replicate()] * 3))]
    if reduction != "mean":
        rules.append(((whole if reduction == "none" else outputs)(Shard(0), Partial(), Replicate()), inputs(Shard(0), Replicate() if reduction == "none" else Partial(), Replicate())))
    return rules


def _loss(reduction, inputs):
    return _by_rows(reduction, inputs, lambda rows, sums, rest: [sums, rows, sums], lambda rows, sums, rest: [rows, rows, rest])


def loss(logits, target, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=0.0, reduction="mean", in_place=False):
    """The rule of `cross_entropy`: by rows, unless their mean is taken."""
    return _loss(reduction, lambda rows, sums, rest: [rows, rows] + [None] * 6)


def loss_gradient(grad, grad_lse, logits, target, lse, count, ignore_index, label_smoothing, z_loss, softcap, reduction):
    """The rule of `cross_entropy_backward`. The number of rows is only read where the mean was taken; partial sums of it stay as they are."""
    return _by_rows(reduction, lambda rows, sums, rest: [rows if grad.ndim else rest, None if grad_lse is None else rows, rows, rows, rows, sums] + [None] * 5,
                    lambda rows, sums, rest: [rows], lambda rows, sums, rest: [rows])


def linear_loss(x, weight, target, bias=None, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=0.0, reduction="mean"):
    """The rule of `linear_cross_entropy`: by rows, unless their mean is taken; the weight is replicated."""
    return _loss(reduction, lambda rows, sums, rest: [rows, rest, rows, None if bias is None else rest] + [None] * 5)


def linear_loss_gradient(grad, grad_lse, x, weight, target, bias, lse, count, needed, ignore_index, label_smoothing, z_loss, softcap, reduction):
    """The rule of `linear_cross_entropy_backward`: the gradients of weight and bias are partial sums. Of a gradient that is not needed the result is empty."""

    def inputs(rows, sums, rest):
        return [rows if grad.ndim else rest, None if grad_lse is None else rows, rows, rest, rows, None if bias is None else rest, rows, sums] + [None] * 6

    def outputs(rows, sums, rest):
        return [rows, sums, sums]

    return _by_rows(reduction, inputs, outputs, outputs)
