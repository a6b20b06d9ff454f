"""What all fused operators have in common: the dispatcher's rules, torch.compile, the router's records, DTensor."""

import pytest
import torch
from fused_checks import compare, random

import nereid.ops
from nereid.ops import fused


def gated(target):
    gate, up = random(4, 32, device=target), random(4, 32, device=target, seed=1)
    return {"swiglu": (gate, up), "geglu": (gate, up, "tanh")}


def losses(target):
    logits, classes = random(4, 32, device=target), torch.tensor([3, -100, 0, 31], device=target)
    return {"cross_entropy": (logits, classes, -100, 0.1), "linear_cross_entropy": (logits, random(40, 32, device=target), classes)}


def linear(target):
    x, weight, bias, residual = random(4, 32, device=target, seed=2), random(16, 32, device=target), random(16, device=target), random(4, 16, device=target)
    gated = (x, weight, random(16, 32, device=target, seed=3))
    return {
        "linear": (x, weight, bias, "silu", residual), "linear_saving": (x, weight, bias, "gelu", residual), "linear_swiglu": gated, "linear_swiglu_saving": gated
    }


def samples(target):
    """{name: (operator, arguments)}: a sample of every operator, by family."""
    return {name: (fused.FUSED[name].overload, arguments) for family in (gated, losses, linear) for name, arguments in family(target).items()}
    weight = random(32, device=target, seed=2)
    return {
        "swiglu": (fused.swiglu, (gate, up)), "geglu": (fused.geglu, (gate, up, "tanh")),
        "rms_norm": (fused.rms_norm, (gate, weight)), "add_rms_norm": (fused.add_rms_norm, (gate, up, weight)),
    }


def test_every_operator_is_sampled_or_a_step_of_one():
    """A new family adds its sample above; operators of backward steps are reached through the gradients."""
    sampled = {operator.overloadpacket._qualified_op_name.partition("::")[2] for operator, _ in samples("cpu").values()}
    assert {name for name in fused.FUSED if not name.endswith("_backward")} == sampled


@pytest.mark.parametrize("name", samples("cpu"))
def test_opcheck(name, target):
    operator, arguments = samples(target)[name]
    with_gradient = tuple(x.requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() and operator.overloadpacket is not None else x for x in arguments)
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
    wanted = operator(*arguments)
    got = torch.compile(lambda *given: operator(*given), backend="aot_eager", fullgraph=True)(*arguments)
    compare(got, wanted, units=0)
