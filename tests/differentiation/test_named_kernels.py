"""The 25 kernels of named_kernels.py in forward and in reverse mode against PyTorch in fp64."""

import re

import grad_check
import jvp_check
import nereid
import pytest
import torch
from named_kernels import CASES


@pytest.fixture(autouse=True)
def products_in_full_precision(monkeypatch):
    """On GPUs products of fp32 would be of tf32, whose rounding is larger than the tolerances."""
    monkeypatch.setenv("NEREID_F32_DEFAULT", "ieee")


def _tuple(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs, )


def _near(found, expected, tolerance):
    torch.testing.assert_close(found.double().view(expected.shape), expected, rtol=tolerance, atol=tolerance * float(expected.abs().max()))


@pytest.mark.parametrize("name", CASES)
def test_forward_mode(name, target):
    case = CASES[name]()
    directions = {each: jvp_check._direction(case.arguments[each]) for each in case.wrt}
    outputs, found = jvp_check.tangents(case.kernel, case.grid, case.arguments, case.wrt, case.out, directions, **case.options)
    inputs = tuple(case.arguments[each].double() for each in case.wrt)
    primal, tangent = torch.func.jvp(lambda *given: _tuple(case.reference(*given)), inputs, tuple(directions[each].double() for each in case.wrt))
    for each, value, expected in zip(case.out, primal, tangent, strict=True):
        _near(outputs[each], value, case.tolerance)
        _near(found[each], expected, case.tolerance)


@pytest.mark.parametrize("name", CASES)
def test_reverse_mode(name, target):
    case = CASES[name]()
    given = {each: jvp_check.random(*case.arguments[each].shape).to(case.arguments[each].dtype) for each in case.out}
    if case.refused:
        with pytest.raises(nereid.CompilationError, match=re.escape(case.refused)):
            grad_check.gradients(case.kernel, case.grid, case.arguments, case.wrt, case.out, given, **case.options)
        return
    found = grad_check.gradients(case.kernel, case.grid, case.arguments, case.wrt, case.out, given, **case.options)
    inputs = [case.arguments[each].double().requires_grad_() for each in case.wrt]
    outputs = _tuple(case.reference(*inputs))
    expected = torch.autograd.grad(outputs, inputs, [given[each].double().view(output.shape) for each, output in zip(case.out, outputs)])
    for each, gradient in zip(case.wrt, expected, strict=True):
        _near(found[each], gradient, case.tolerance)
