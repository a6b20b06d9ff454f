"""SwiGLU and GeGLU."""

import pytest
import torch
import torch.nn.functional as F
from fused_checks import check, layouts, random

from nereid.ops import fused

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
CASES = {
    "swiglu": (fused.swiglu, lambda gate, up: F.silu(gate) * up, {}),
    "geglu": (fused.geglu, lambda gate, up: F.gelu(gate) * up, {}),
    "geglu-tanh": (fused.geglu, lambda gate, up, approximate: F.gelu(gate, approximate=approximate) * up, {"approximate": "tanh"}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_and_gradients(case, dtype, target):
    operator, definition, named = CASES[case]
    for shape in ((7, 33), (2, 3, 128), (5, ), (0, 4)):
        gate, up = random(*shape, dtype=dtype, device=target, scale=3), random(*shape, dtype=dtype, device=target, seed=1)
        check(operator, definition, [gate, up], units=4, **named)


@pytest.mark.parametrize("case", CASES)
def test_strides(case, target):
    operator, definition, named = CASES[case]
    gate, up = random(9, 40, device=target), random(9, 40, device=target, seed=1)
    for _, first in layouts(gate):
        for _, second in layouts(up):
            check(operator, definition, [first, second], units=4, **named)


def test_special_values(target):
    gate = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 88.0, -120.0, 1e30], device=target)
    for dtype in (torch.float32, torch.bfloat16):
        x = gate.to(dtype)
        check(fused.swiglu, CASES["swiglu"][1], [x, torch.ones_like(x)], units=4, gradients=False)


def test_packed(target):
    x = random(6, 64, device=target)
    check(fused.silu_and_mul, lambda x: F.silu(x[..., :32]) * x[..., 32:], [x], units=4)


def test_errors(target):
    x = torch.ones(4, 4, device=target)
    with pytest.raises(ValueError, match=r"`up` has shape \(4, 3\): expected \(4, 4\)"):
        fused.swiglu(x, x[:, :3])
    with pytest.raises(TypeError, match="`up` has dtype torch.float64, `gate` torch.float32"):
        fused.swiglu(x, x.double())
    with pytest.raises(TypeError, match="`gate` has dtype torch.int64"):
        fused.swiglu(x.long(), x.long())
    with pytest.raises(ValueError, match="`approximate` is 'erf'"):
        fused.geglu(x, x, "erf")
