"""What all fused operators have in common: the dispatcher's rules, torch.compile, the router's records, DTensor."""

import pytest
import torch
import torch.utils.checkpoint
from fused_checks import compare, random

import nereid.ops
from nereid.ops import fused


#: Parts of names of operators without gradient.
NO_GRADIENT = ("quantize", "cache", "scaled", "paged", "latent", "int4", "int8", "sample")


def gated(target):
    gate, up = random(4, 32, device=target), random(4, 32, device=target, seed=1)
    return {"swiglu": (gate, up), "geglu": (gate, up, "tanh")}


def norms(target):
    gate, up, weight = random(4, 32, device=target), random(4, 32, device=target, seed=1), random(32, device=target, seed=2)
    return {
        "rms_norm": (gate, weight), "add_rms_norm": (gate, up, weight), "layer_norm": (gate, weight, weight), "add_layer_norm": (gate, up, weight, weight)
    }


def quantized(target):
    """Results are int8: opcheck cannot compare 8-bit floats."""
    gate, up, weight = random(4, 32, device=target), random(4, 32, device=target, seed=1), random(32, device=target, seed=2)
    return {
        "quantize": (gate, None, 0, torch.int8), "swiglu_quantized": (gate, None, None, 16, torch.int8),
        "rms_norm_quantized": (gate, weight, 1e-6, 1.0, None, 0, torch.int8),
        "add_rms_norm_quantized": (gate, up, weight, 1e-6, 0.0, up[0, :1].abs(), 0, torch.int8),
        "layer_norm_quantized": (gate, weight, None, 1e-5, None, 0, torch.int8),
        "add_layer_norm_quantized": (gate, up, weight, weight, 1e-5, None, 16, torch.int8)
    }


def rotary(target):
    heads, table, slots = random(4, 2, 16, device=target), random(4, 8, device=target), torch.tensor([3, -1, 0, 1], device=target)
    caches = [torch.zeros(2, 4, 2, 16, device=target) for _ in range(4)]
    return {
        "rope": (heads, heads, table, table), "cache_write": (heads, heads, caches[0], caches[1], slots),
        "qk_norm_rope_cache": (heads, heads, heads, None, None, table, table, None, caches[2], caches[3], slots)
    }


def losses(target):
    logits, classes = random(4, 32, device=target), torch.tensor([3, -100, 0, 31], device=target)
    return {"cross_entropy": (logits, classes, -100, 0.1), "linear_cross_entropy": (logits, random(40, 32, device=target), classes)}


def linear(target):
    x, weight, bias, residual = random(4, 32, device=target, seed=2), random(16, 32, device=target), random(16, device=target), random(4, 16, device=target)
    gated = (x, weight, random(16, 32, device=target, seed=3))
    return {
        "linear": (x, weight, bias, "silu", residual), "linear_saving": (x, weight, bias, "gelu", residual), "linear_swiglu": gated, "linear_swiglu_saving": gated
    }


def products(target):
    # opcheck computes with the arguments what PyTorch does not have for 8-bit floats.
    x, weight = (random(4, 32, device=target, seed=2) * 40).to(torch.int8), (random(16, 32, device=target) * 40).to(torch.int8)
    groups = (x, weight.view(2, 8, 32), random(4, device=target), random(2, 8, device=target), torch.tensor([1, 3], device=target))
    packed, scale, zero = fused.quantize_int4(random(16, 64, device=target), 32)
    wide = random(4, 64, device=target)
    return {
        "scaled_mm": (x, weight, random(4, device=target), random(1, device=target), None, torch.float32), "grouped_scaled_mm": (*groups, torch.float32), "linear_int4": (wide, packed, scale, zero, None, 32),
        "linear_int8": (x.float(), weight, random(16, 1, device=target)), "dequantize_int4": (packed, scale, zero, 64, 32),
        "lora_linear": (wide, random(16, 64, device=target), random(4, 64, device=target), random(16, 4, device=target), 0.5, random(16, device=target))
    }


def experts(target):
    chosen = torch.tensor([[0, 2], [2, 1], [-1, 0], [2, 0]], device=target)
    x, weights = random(4, 32, device=target), random(4, 2, device=target)
    rows, ends, places, _ = fused.moe_align(chosen, 3)
    mixture = (x, random(3, 32, 32, device=target), random(3, 32, 16, device=target), weights, chosen)
    return {
        "grouped_mm": (x, random(3, 32, 8, device=target), torch.tensor([1, 1, 3], device=target)), "topk_softmax": (x, 3, "softmax", True), "moe_align": (chosen, 3, 4),
        "moe_combine": (random(8, 32, device=target), rows, places, weights), "moe_swiglu": mixture, "moe_swiglu_saving": mixture
    }


def optimizers(target):
    parameter, gradient = random(4, 32, device=target), random(4, 32, device=target, seed=1)
    moments = ([gradient * 0], [gradient * 0], [torch.zeros((), device=target)], [])
    return {
        "adamw_": ([parameter], [gradient], *moments, 0.1, 0.9, 0.99, 1e-8, 0.1), "gradient_norm": ([parameter, gradient], 2.0),
        "clip_gradients_": ([parameter, gradient], 1.0, torch.ones((), device=target))
    }


def attentions(target):
    q, k, v = random(2, 5, 4, 16, device=target), random(2, 7, 2, 16, device=target), random(2, 7, 2, 8, device=target, seed=1)
    starts, table, lengths = (torch.tensor(x, dtype=torch.int32, device=target) for x in ([0, 2, 7], [[3, 1], [0, 2]], [5, 3]))
    caches = [random(4, 4, 2, 16, device=target, seed=i) for i in (3, 4)]
    return {
        "attention": (q, k, v, random(2, 1, 5, 7, device=target), None, None, None, 0, 0, True, 3, -1, "end", 5.0),
        "attention ragged": (q[0], k[0, 2:], v[0, 2:], None, None, torch.tensor([0, 2, 5], device=target), None, 3, 3, True),
        "paged_attention": (q[0, :4], *caches, table, lengths), "paged_attention ragged": (q.flatten(0, 1)[:7], *caches, table, lengths, starts, 5, 5),
        "latent_attention_decode": (q[0, :2], caches[0][:, :, 0], table, lengths, 0.3, 4)
    }


def sampling(target):
    x, seed = random(4, 32, device=target), torch.tensor(5, device=target)
    return {"sample": (x, seed, 0.7, 5, 0.9), "dropout_add": (x, random(4, 32, device=target, seed=1), seed, 0.4)}


def samples(target):
    """{name: (operator, arguments)}: a sample of every operator, by family."""
    families = (gated, norms, quantized, rotary, losses, linear, products, experts, optimizers, attentions, sampling)
    return {name: (fused.FUSED[name.split()[0]].overload, arguments) for family in families for name, arguments in family(target).items()}


def test_every_operator_is_sampled_or_a_step_of_one():
    """A new family adds its sample above; operators of backward steps are reached through the gradients."""
    sampled = {operator.overloadpacket._qualified_op_name.partition("::")[2] for operator, _ in samples("cpu").values()}
    assert {name for name in fused.FUSED if not name.endswith("_backward")} == sampled


@pytest.mark.parametrize("name", samples("cpu"))
def test_opcheck(name, target):
    operator, arguments = samples(target)[name]
    differentiable = not any(part in name for part in NO_GRADIENT)
    with_gradient = tuple(x.requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() and differentiable else x for x in arguments)
    torch.library.opcheck(operator, with_gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", samples("cpu"))
def test_repeated_calls_are_recorded(name, target):
    """The first call of an operator puts the router before it; of two further ones of a signature the second runs without Python."""
    operator, arguments = samples(target)[name]
    with torch.no_grad():
        operator(*arguments)
        first = operator(*arguments)
        nereid.ops.report(clear=True)
        again = operator(*arguments)
        rows = [row for row in nereid.ops.report() if row.overload == operator._schema.name]
    compare(again, first, units=0)
    assert [row.route for row in rows] == ["nereid"]


@pytest.mark.parametrize("name", samples("cpu"))
def test_compile(name, target):
    operator, arguments = samples(target)[name]
    torch._dynamo.reset()
    wanted = operator(*arguments)
    got = torch.compile(lambda *given: operator(*given), backend="aot_eager", fullgraph=True)(*arguments)
    compare(got, wanted, units=0)


@pytest.mark.parametrize("name", [name for name in samples("cpu") if not any(part in name for part in (*NO_GRADIENT, "adamw", "clip", "gradient_norm", "align"))])
def test_checkpoint(name, target):
    """Checkpointing of activations gives each saved tensor once."""
    operator, arguments = samples(target)[name]

    def gradients(checkpointed):
        given = [x.detach().clone().requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in arguments]
        # The sums keep what is saved for the operator apart from the arguments.
        inner = [x + 0 if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in given]
        run = (lambda *its: torch.utils.checkpoint.checkpoint(operator, *its, use_reentrant=False)) if checkpointed else operator
        results = run(*inner)
        results = [x for x in (results if isinstance(results, (tuple, list)) else [results]) if x.requires_grad]
        leaves = [x for x in given if isinstance(x, torch.Tensor) and x.requires_grad]
        return torch.autograd.grad(sum(x.sum() for x in results), leaves, allow_unused=True)

    compare([x for x in gradients(True) if x is not None], [x for x in gradients(False) if x is not None], units=0)
