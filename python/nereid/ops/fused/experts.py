"""Mixtures of experts (Shazeer et al. 2017): the choice of experts, tokens in the order of their experts, routed experts with SwiGLU, and their sum.

A *pair* is a token and one of its `count` experts: pair p belongs to token p // count. Nothing here waits for the device: groups have sizes that only it knows.
"""

import torch

from .._launch import DTYPES, OPMATH, launch
from .._strided import cdiv, step_up
from ..grouped import grouped_outer, grouped_rows
from ..kernels import experts as kernels
from . import _arguments, _sharding
from ._declare import operator
from .linear import rows_of, wanted

SCORES = ("softmax", "sigmoid")
#: Pairs that one program puts in their places, and up to how many pairs these are fewer, because each program counts all pairs then.
CHUNK, FEW_CHUNK, FEW = 512, 64, 8192
_SIZES = {name: "i32" for name in ("tokens", "size", "count", "pairs", "chunks", "bound", "blocks", "unit", "n_size")}


def _compute(dtype):
    return OPMATH.get(dtype, dtype)


def _check_indices(**tensors):
    for name, tensor in tensors.items():
        if tensor.dtype not in (torch.int32, torch.int64):
            raise TypeError(f"`{name}` has dtype {tensor.dtype}: expected int32 or int64")


# The choice of experts.


def _check_choice(logits, count, scores, bias):
    _arguments.floats(logits=logits, bias=bias)
    _arguments.one_device(logits=logits, bias=bias)
    if logits.dim() < 1:
        raise ValueError("`logits` has no dimensions: expected (..., experts)")
    if scores not in SCORES:
        raise ValueError(f"`scores` is {scores!r}: expected \"softmax\" or \"sigmoid\"")
    size = logits.shape[-1]
    if not 1 <= count <= min(size, 64):
        raise ValueError(f"`count` is {count}: expected a number from 1 to {min(size, 64)}, with {size} experts")
    if size > 4096:
        raise ValueError(f"`logits` has {size} columns: expected at most 4096 experts")
    _arguments.shape(bias, (size, ), "bias")


def _choice_tile(device, size, count):
    """(constants, warps)."""
    block = 1 << max(4, (size - 1).bit_length())
    constants = {"ROWS": 4 if device.type == "cpu" else max(1, 512 // block), "BLOCK": block, "COUNT": max(2, 1 << (count - 1).bit_length())}
    return constants, 4 if block >= 1024 else 2


def _fake_choice(logits, count, scores="softmax", normalise=False, bias=None, scale=1.0):
    _check_choice(logits, count, scores, bias)
    shape = (*logits.shape[:-1], count)
    return logits.new_empty(shape, dtype=_compute(logits.dtype)), logits.new_empty(shape, dtype=torch.int64)


def _save_choice(ctx, inputs, output):
    logits, *numbers = inputs
    ctx.numbers = (*numbers, *("softmax", False, None, 1.0)[len(numbers) - 1:])
    ctx.save_for_backward(logits, output[1])
    ctx.mark_non_differentiable(output[1])


def _choice_backward(ctx, grad, _):
    logits, experts = ctx.saved_tensors
    count, scores, normalise, bias, scale = ctx.numbers
    return topk_softmax_backward(grad, logits, experts, scores, normalise, scale), None, None, None, None, None


@operator("topk_softmax_backward(Tensor grad, Tensor logits, Tensor experts, str scores, bool normalise, float scale) -> Tensor",
          fake=lambda grad, logits, *others: logits.new_empty(logits.shape), sharding=_sharding.choice_gradient)
def topk_softmax_backward(grad, logits, experts, scores, normalise, scale):
    """The gradient of `logits` from that of the weights."""
    out = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
    if not out.numel():
        return out
    size, count = logits.shape[-1], experts.shape[-1]
    x, grad = rows_of(logits), rows_of(grad)
    constants, warps = _choice_tile(x.device, size, count)
    arguments = {
        "out": out, "grad": grad, "logits": x, "experts": experts.contiguous(), "tokens": x.shape[0], "size": size, "count": count, "scale": float(scale),
        "grad_strides": grad.stride(), "strides": x.stride()
    }
    fixed = {"SIGMOID": scores == "sigmoid", "NORMALISE": normalise, "UNIT": x.stride(1) == 1, "COMPUTE": DTYPES[_compute(x.dtype)]}
    launch(kernels.choose_experts_gradient, cdiv(x.shape[0], constants["ROWS"]), x.device, arguments, {**fixed, **constants}, _SIZES, num_warps=warps)
    return out


@operator("topk_softmax(Tensor logits, int count, str scores=\"softmax\", bool normalise=False, Tensor? bias=None, float scale=1.) -> (Tensor, Tensor)", fake=_fake_choice,
          backward=_choice_backward, save=_save_choice, sharding=_sharding.choice)
def topk_softmax(logits, count, scores, normalise, bias, scale):
    """(weights, experts) of a router: the `count` experts with the highest logits of each token, highest first, the one with the lower number among equals.

    logits: (..., experts), at most 4096 experts; count: at most 64. The weights (..., count), in fp32 (fp64 for fp64), are the scores of the chosen experts times
    `scale`: scores="softmax" over all experts, or "sigmoid" of each alone; with normalise=True they are first divided by their sum (with "softmax" that is the softmax over the
    chosen ones). experts: (..., count), int64.
    bias: (experts,) or None: added to scores for the choice alone, as in DeepSeek-V3 (arXiv 2412.19437, section 2.1.2); it has no gradient. NaN is above all.

    Raises TypeError for dtypes, ValueError for shapes, devices or numbers that do not fit.
    """
    _check_choice(logits, count, scores, bias)
    shape = (*logits.shape[:-1], count)
    weights = torch.empty(shape, dtype=_compute(logits.dtype), device=logits.device)
    experts = torch.empty(shape, dtype=torch.int64, device=logits.device)
    if not weights.numel():
        return weights, experts
    x = rows_of(logits)
    tokens, size = x.shape
    constants, warps = _choice_tile(x.device, size, count)
    arguments = {
        "weights": weights, "experts": experts, "logits": x, "bias": bias, "tokens": tokens, "size": size, "count": count, "scale": float(scale), "strides": x.stride(),
        "bias_stride": bias.stride(0) if bias is not None else 0
    }
    fixed = {"SIGMOID": scores == "sigmoid", "NORMALISE": normalise, "UNIT": x.stride(1) == 1, "COMPUTE": DTYPES[_compute(x.dtype)]}
    launch(kernels.choose_experts, cdiv(tokens, constants["ROWS"]), x.device, arguments, {**fixed, **constants}, _SIZES, num_warps=warps)
    return weights, experts


# Tokens in the order of their experts.


def _check_alignment(experts, size, unit):
    _check_indices(experts=experts)
    if not 1 <= size <= 4096:
        raise ValueError(f"`size` is {size}: expected a number of experts from 1 to 4096")
    if unit < 1:
        raise ValueError(f"`unit` is {unit}: expected 1 (no padding) or more")
    if experts.numel() + min(experts.numel(), size) * (unit - 1) >= 2**31:
        raise ValueError(f"{experts.numel()} pairs padded to blocks of {unit} are {2**31} rows or more: expected fewer")


def _places(experts, size, unit):
    """(rows, ends, places, experts of blocks), without values."""
    pairs = experts.numel()
    bound = (pairs + min(pairs, size) * (unit - 1)) // unit * unit
    new = lambda shape: torch.empty(shape, dtype=torch.int32, device=experts.device)
    return new((bound, )), new((size, )), new(experts.shape), new((bound // unit, ))


def align(experts, size, unit=1):
    """`moe_align` without checks."""
    rows, ends, places, blocks = results = _places(experts, size, unit)
    pairs = experts.numel()
    if not pairs:
        ends.zero_()
        return results
    experts = experts.contiguous()
    lanes = 1 << max(4, (size - 1).bit_length())
    chunk = FEW_CHUNK if pairs <= FEW else CHUNK
    chunks, counts = cdiv(pairs, chunk), None
    if pairs > FEW:
        counts = torch.empty((chunks, size), dtype=torch.int32, device=experts.device)
        launch(kernels.count_experts, chunks, experts.device, {"counts": counts, "experts": experts, "pairs": pairs, "size": size}, {"CHUNK": chunk, "BLOCK": lanes}, _SIZES,
               num_warps=4)
    constants = {"CHUNK": chunk, "SUB": 64 if lanes <= 128 else 16 if lanes <= 512 else 4, "COUNTED": 1024, "BLOCK": lanes}
    arguments = {
        "rows": rows, "ends": ends, "places": places, "block_experts": blocks, "experts": experts, "counts": counts, "pairs": pairs, "size": size, "chunks": chunks,
        "bound": rows.shape[0], "blocks": blocks.shape[0], "unit": unit
    }
    launch(kernels.place_pairs, chunks, experts.device, arguments, constants, _SIZES, num_warps=4)
    return results


def _fake_alignment(experts, size, unit=1):
    _check_alignment(experts, size, unit)
    return _places(experts, size, unit)


@operator("moe_align(Tensor experts, int size, int unit=1) -> (Tensor, Tensor, Tensor, Tensor)", fake=_fake_alignment)
def moe_align(experts, size, unit):
    """Puts pairs in the order of their experts, in one launch (two for more than 8192 pairs), without a look at the numbers on the host.

    experts: (tokens, count) or any other shape, int32 or int64: the expert of each pair, from 0 to size - 1; a pair with another number has no expert here (that
    of another device, say) and gets no place. size: the number of experts. unit: the groups of experts are padded to multiples of it.

    Returns int32 tensors: rows (bound,), the pair at each place, and the number of pairs where there is none, bound = pairs + min(pairs, size) * (unit - 1), rounded down
    to a multiple of `unit`; ends (size,), where the places of each expert end, with padding: what `grouped_mm` takes; places, of the shape of `experts`, the place of each pair or -1;
    block_experts (bound / unit,), the expert of each block of `unit` places, -1 behind the last one. Pairs of an expert keep their order. No gradient.

    Raises TypeError for other dtypes, ValueError for numbers that do not fit.
    """
    _check_alignment(experts, size, unit)
    return align(experts, size, unit)


# The sum of what experts yield.


def _check_combination(x, rows, places, weights):
    _arguments.floats(x=x, weights=weights)
    _check_indices(rows=rows, places=places)
    _arguments.one_device(x=x, rows=rows, places=places, weights=weights)
    if x.dim() != 2:
        raise ValueError(f"`x` has shape {tuple(x.shape)}: expected (rows, n)")
    _arguments.shape(rows, x.shape[:1], "rows")
    if places.dim() != 2 or places.numel() > x.shape[0]:
        raise ValueError(f"`places` has shape {tuple(places.shape)}: expected (tokens, count), together at most {x.shape[0]}")
    _arguments.shape(weights, places.shape, "weights")


def combine(x, places, weights):
    """`moe_combine` without checks. places: contiguous."""
    (tokens, count), n = places.shape, x.shape[1]
    out = torch.empty((tokens, n), dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    unit = 16 // x.element_size()
    block, warps = (step_up(n, (64, 512)), 4) if x.device.type == "cpu" else (step_up(n, (32 * unit, 128 * unit)), 1 if n <= 32 * unit else 4)
    arguments = {
        "out": out, "x": x, "places": places, "weights": weights, "n_size": n, "count": count, "x_strides": x.stride(), "weight_strides": weights.stride() if weights is not None else (0, 0)
    }
    constants = {
        "UNIT": x.stride(1) == 1, "ALIGNED": x.stride(0) % unit == 0 and n % unit == 0, "MULTIPLE": unit, "COMPUTE": DTYPES[_compute(x.dtype)], "BLOCK": block
    }
    launch(kernels.combine_pairs, (tokens, cdiv(n, block)), x.device, arguments, constants, _SIZES, num_warps=warps)
    return out


def _fake_combination(x, rows, places, weights=None):
    _check_combination(x, rows, places, weights)
    return x.new_empty((places.shape[0], x.shape[1]))


def _save_combination(ctx, inputs, output):
    ctx.save_for_backward(*inputs, *[None] * (4 - len(inputs)))


def _combination_backward(ctx, grad):
    x, rows, places, weights = ctx.saved_tensors
    needs = wanted(ctx, 4)
    of_x, of_weights = moe_combine_backward(grad, x, rows, places, weights)
    return of_x if needs[0] else None, None, None, of_weights if needs[3] else None


def _fake_combination_gradient(grad, x, rows, places, weights=None):
    return x.new_empty(x.shape), (x if weights is None else weights).new_empty((0, ) if weights is None else weights.shape)


@operator("moe_combine_backward(Tensor grad, Tensor x, Tensor rows, Tensor places, Tensor? weights=None) -> (Tensor, Tensor)", fake=_fake_combination_gradient,
          sharding=_sharding.combination_gradient)
def moe_combine_backward(grad, x, rows, places, weights):
    """The gradients of `x` and of the weights; the second is empty without weights."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    of_weights = torch.empty((0, ) if weights is None else weights.shape, dtype=x.dtype if weights is None else weights.dtype, device=x.device)
    if not x.shape[0]:
        return out, of_weights
    n = x.shape[1]
    arguments = {
        "out": out, "weight_grad": None if weights is None else of_weights, "grad": grad, "x": x, "rows": rows.contiguous(), "places": places.contiguous(), "weights": weights,
        "pairs": places.numel(), "n_size": n, "count": max(1, places.shape[1]), "grad_strides": grad.stride(), "x_strides": x.stride(),
        "weight_strides": weights.stride() if weights is not None else (0, 0)
    }
    launch(kernels.combine_pairs_gradient, x.shape[0], x.device, arguments, {"COMPUTE": DTYPES[_compute(x.dtype)], "BLOCK": step_up(n, (128, 1024))}, _SIZES, num_warps=4)
    return out, of_weights


@operator("moe_combine(Tensor x, Tensor rows, Tensor places, Tensor? weights=None) -> Tensor", fake=_fake_combination, backward=_combination_backward, save=_save_combination,
          sharding=_sharding.combination)
def moe_combine(x, rows, places, weights):
    """The sum over a token's pairs of weight * row of `x`: (tokens, n), contiguous, with gradients of `x` and the weights.

    x: (rows, n), a float dtype, any strides; rows, places: of `moe_align` with experts (tokens, count); pairs without a place count 0. `rows` serves the
    gradient. weights: (tokens, count) of any float dtype, or None for 1. Sums are in fp32 (fp64 for fp64), in the order of pairs, so that results are the same each time.

    Raises TypeError for dtypes, ValueError for shapes or devices that do not fit.
    """
    _check_combination(x, rows, places, weights)
    return combine(x, places.contiguous(), weights)


# Routed experts.


def _check_experts(x, gate_up, down, weights, experts):
    _arguments.floats(x=x, gate_up=gate_up, down=down, weights=weights)
    _arguments.one_dtype(x=x, gate_up=gate_up, down=down)
    _check_indices(experts=experts)
    _arguments.one_device(x=x, gate_up=gate_up, down=down, weights=weights, experts=experts)
    if x.dim() < 1:
        raise ValueError("`x` has no dimensions: expected (..., k)")
    k = x.shape[-1]
    if gate_up.dim() != 3 or gate_up.shape[2] != k or gate_up.shape[1] % 2 or not 1 <= gate_up.shape[0] <= 4096:
        raise ValueError(f"`gate_up` has shape {tuple(gate_up.shape)}: expected (experts, 2 n, {k}), 1 to 4096 experts")
    _arguments.shape(down, (gate_up.shape[0], k, gate_up.shape[1] // 2), "down")
    if experts.dim() != x.dim() or experts.shape[:-1] != x.shape[:-1] or not experts.shape[-1]:
        raise ValueError(f"`experts` has shape {tuple(experts.shape)}: expected {(*x.shape[:-1], 'count')}, `count` at least 1")
    _arguments.shape(weights, experts.shape, "weights")


def _saved(x, gate_up, experts):
    """(gate, up, rows, ends, places), without values."""
    n = gate_up.shape[1] // 2
    return *(x.new_empty((experts.numel(), n)) for _ in range(2)), *_places(experts, gate_up.shape[0], 1)[:3]


def _apply(x, gate_up, down, weights, experts, save):
    _check_experts(x, gate_up, down, weights, experts)
    (size, width, k), count = gate_up.shape, experts.shape[-1]
    n, pairs = width // 2, experts.numel()
    rows, ends, places, _ = align(experts, size)
    gate, up = (torch.empty((pairs, n), dtype=x.dtype, device=x.device) for _ in range(2)) if save else (None, None)
    yielded = torch.empty((pairs, k), dtype=x.dtype, device=x.device)
    hidden = torch.empty((pairs, n), dtype=x.dtype, device=x.device)
    if hidden.numel():
        grouped_rows(hidden, rows_of(x), gate_up.narrow(1, 0, n), ends, gate_up.narrow(1, n, n), (gate, up) if save else None, rows, count)
    if yielded.numel():
        grouped_rows(yielded, hidden, down, ends)
    out = combine(yielded, places.view(-1, count), rows_of(weights)).view(x.shape)
    return (out, gate, up, rows, ends, places) if save else out


def _fake_experts(x, gate_up, down, weights, experts):
    _check_experts(x, gate_up, down, weights, experts)
    return x.new_empty(x.shape)


def _fake_saving(x, gate_up, down, weights, experts):
    return _fake_experts(x, gate_up, down, weights, experts), *_saved(x, gate_up, experts)


@operator("moe_hidden_backward(Tensor grad, Tensor down, Tensor weights, Tensor gate, Tensor up, Tensor rows, Tensor ends, Tensor places) -> (Tensor, Tensor, Tensor)",
          fake=lambda grad, down, weights, gate, up, *_: (gate.new_empty(gate.shape), gate.new_empty((gate.shape[0], 2 * gate.shape[1])), weights.new_empty(weights.shape)))
def moe_hidden_backward(grad, down, weights, gate, up, rows, ends, places):
    """Backward pass between the two products of routed experts: (the operand of `down`, times the weights; the gradients of both halves; the gradient of the weights)."""
    (pairs, n), count = gate.shape, weights.shape[-1]
    of_hidden, hidden = torch.empty_like(gate), torch.empty_like(gate)
    halves = torch.empty((pairs, 2 * n), dtype=gate.dtype, device=gate.device)
    of_weights = torch.empty(weights.shape, dtype=weights.dtype, device=gate.device)
    if not pairs:
        return hidden, halves, of_weights
    if n:
        grouped_rows(of_hidden, rows_of(grad), down.transpose(1, 2), ends, rows=rows, row_divisor=count)
    weights = rows_of(weights)
    unit = 16 // gate.element_size()
    arguments = {
        "hidden": hidden, "halves": halves, "weight_grad": of_weights, "grad": of_hidden, "gate": gate, "up": up, "rows": rows, "places": places, "weights": weights, "pairs": pairs,
        "n_size": n, "count": count, "weight_strides": weights.stride()
    }
    constants = {"ALIGNED": n % unit == 0, "MULTIPLE": unit, "COMPUTE": DTYPES[_compute(gate.dtype)], "BLOCK": step_up(n, (128, 1024))}
    launch(kernels.routed_swiglu_gradient, pairs, gate.device, arguments, constants, _SIZES, num_warps=4)
    return hidden, halves, of_weights


@operator("moe_x_backward(Tensor halves, Tensor gate_up, Tensor ends, Tensor places) -> Tensor",
          fake=lambda halves, gate_up, ends, places: halves.new_empty((*places.shape[:-1], gate_up.shape[2])))
def moe_x_backward(halves, gate_up, ends, places):
    """The gradient of `x` from those of both halves."""
    k = gate_up.shape[2]
    each = torch.empty((halves.shape[0], k), dtype=halves.dtype, device=halves.device)
    if each.numel():
        grouped_rows(each, halves, gate_up.transpose(1, 2), ends)
    return combine(each, places.view(-1, places.shape[-1]), None).view((*places.shape[:-1], k))


@operator("moe_weight_backward(Tensor a, Tensor b, Tensor rows, Tensor ends, bool rows_of_a) -> Tensor",
          fake=lambda a, b, rows, ends, rows_of_a: a.new_empty((ends.shape[0], a.shape[-1], b.shape[-1])))
def moe_weight_backward(a, b, rows, ends, rows_of_a):
    """For each expert the sum over its pairs of a (n,) times b (k,). One is in the order of experts; the other, `a` if rows_of_a, has a row for each token."""
    out = torch.empty((ends.shape[0], a.shape[-1], b.shape[-1]), dtype=a.dtype, device=a.device)
    if not out.numel():
        return out
    tokens = rows_of(a if rows_of_a else b)
    divisor = max(1, rows.shape[0] // max(1, tokens.shape[0]))
    if rows_of_a:
        return grouped_outer(out, tokens, b, ends, a_rows=rows, a_divisor=divisor, rows=rows.shape[0])
    return grouped_outer(out, a, tokens, ends, b_rows=rows, b_divisor=divisor, rows=rows.shape[0])


def _gradients(ctx, grad, gate, up, rows, ends, places):
    x, gate_up, down, weights = ctx.saved_tensors[:4]
    needs = ctx.needs_input_grad
    hidden, halves, of_weights = moe_hidden_backward(grad, down, weights, gate, up, rows, ends, places)
    return (moe_x_backward(halves, gate_up, ends, places) if needs[0] else None, moe_weight_backward(halves, x, rows, ends, False) if needs[1] else None,
            moe_weight_backward(grad, hidden, rows, ends, True) if needs[2] else None, of_weights if needs[3] else None, None)


def _save_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad):
    return _gradients(ctx, grad, *torch.ops.nereid.moe_swiglu_saving(*ctx.saved_tensors)[1:])


def _save_all(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:4], *output[1:])
    ctx.mark_non_differentiable(*output[1:])


_ARGUMENTS = "Tensor x, Tensor gate_up, Tensor down, Tensor weights, Tensor experts"


@operator(f"moe_swiglu({_ARGUMENTS}) -> Tensor", fake=_fake_experts, backward=_backward, save=_save_inputs, sharding=_sharding.experts)
def moe_swiglu_alone(x, gate_up, down, weights, experts):
    """`moe_swiglu`; its gradient computes both products again."""
    return _apply(x, gate_up, down, weights, experts, False)


@operator(f"moe_swiglu_saving({_ARGUMENTS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)", fake=_fake_saving,
          backward=lambda ctx, grad, *_: _gradients(ctx, grad, *ctx.saved_tensors[4:]), save=_save_all)
def moe_swiglu_saving(x, gate_up, down, weights, experts):
    """The result of `moe_swiglu`, and the tensors for its gradient: the argument of silu and its factor, in the order of experts, and `moe_align`'s results."""
    return _apply(x, gate_up, down, weights, experts, True)


def moe_swiglu(x, gate_up, down, weights, experts):
    """Routed experts: the sum over a token's experts e of weight * ((silu(x @ gate[e].T) * (x @ up[e].T)) @ down[e].T).

    x: (..., k); gate_up: (size, 2 n, k), the rows of gate[e] before those of up[e]; down: (size, k, n); of one float dtype and device, any strides. weights, experts: (..., count), as
    `topk_softmax` yields them: any float dtype; int32 or int64. A pair whose expert is not from 0 to size - 1 counts 0: experts of other devices. The result (..., k) is contiguous.

    Tokens are gathered while they are multiplied; sums are in fp32 (fp64 for fp64), the values between the products and the results of the experts are rounded to the dtype of `x`, and weighted
    sums are in the order of `experts`. Nothing is atomic and nothing waits for the device. Gradients: of all but `experts`; tensors for them are saved only if a gradient is required.

    Raises TypeError for dtypes, ValueError for shapes or devices that do not fit.
    """
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (x, gate_up, down, weights)):
        return moe_swiglu_saving(x, gate_up, down, weights, experts)[0]
    return moe_swiglu_alone(x, gate_up, down, weights, experts)
