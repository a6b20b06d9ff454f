"""Derivatives of derivatives: gradients of gradient kernels, and `create_graph=True`, against torch.autograd in fp64."""

import re

import jvp_check
import nereid
import nereid.language as tl
import pytest
import torch
import torch.nn.functional as F
from named_kernels import CASES
from test_autograd import given, norm_kernel, route, rows_of, swiglu, swiglu_kernel  # noqa: F401
from test_grad_loops import row_sums

F64 = torch.float64

POINTWISE_AND_ROWS = ["add, multiply, bias", "GELU", "GeGLU", "dropout", "rotary embedding", "softmax", "log-softmax", "cross entropy with label smoothing",
                      "cross entropy of long rows", "focal loss", "fused add and RMSNorm", "L2 norm", "embedding of blocks"]


def derivative(case, order):
    """The derivative of this order, of which each reads what the one below reads and random gradients of what that writes. Returns the last gradient and pairs of what it found,
    with the name, and what torch.autograd finds."""
    kernel, reads, writes = case.kernel, tuple(case.wrt), tuple(case.out)
    arguments = dict(case.arguments)
    inputs = [arguments[name].clone().requires_grad_() for name in reads]
    outputs = case.reference(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs, )
    for k in range(1, order + 1):
        names = {name: f"d{k}_{name}" for name in (*reads, *writes)}
        of_reads, of_writes = ({name: names[name] for name in each} for each in (reads, writes))
        gradient = nereid.grad(kernel, of_reads, of_writes)
        kernel = gradient.backward
        given = [jvp_check.random(*output.shape).requires_grad_() for output in outputs]
        outputs = torch.autograd.grad(outputs, inputs, given, create_graph=True, materialize_grads=True)
        inputs += given
        arguments |= {name: value.detach().view_as(arguments[of]) for (of, name), value in zip(of_writes.items(), given)}
        arguments |= {name: torch.full_like(arguments[of], float("nan")) for of, name in of_reads.items()}
        reads, writes = (*reads, *of_writes.values()), tuple(of_reads.values())
    kernel[case.grid](**arguments, **case.options)
    return gradient, [((name, arguments[name]), expected.detach()) for name, expected in zip(writes, outputs)]


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", POINTWISE_AND_ROWS)
def test_gradients_of_gradients(name, order):
    again, pairs = derivative(CASES[name](), order)
    for (each, value), expected in pairs:
        torch.testing.assert_close(value.view(expected.shape), expected, rtol=1e-5, atol=1e-6 * (1 + float(expected.abs().max())), msg=lambda text: f"{each}: {text}")
    assert again.explain().count("the gradient of") >= 1


@nereid.jit
def product(a, b):
    return a * b


@nereid.jit
def two_masks(x, y, n, m, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = x + tl.program_id(0) * n + i
    a = tl.load(at, mask=i < n, other=0.0)
    tl.store(y + tl.program_id(0) * n + i, a * a * a + tl.exp(tl.load(at, mask=i < m, other=0.0)) * a, mask=i < n)


@nereid.jit
def moved(x, y, n, m, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = x + tl.program_id(0) * n + i
    a, b = tl.load(at, mask=i < n, other=0.0), tl.load(at + m, mask=i + m < n, other=1.0)
    tl.store(y + tl.program_id(0) * n + i, a * a * b, mask=i < n)


@nereid.jit
def products_of_rows(x, y, n, m, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=1.0)
    tl.store(y + tl.program_id(0) * n + i, tl.associative_scan(a, 0, product) + a * tl.reduce(a, 0, product), mask=i < n)


@pytest.mark.parametrize("kernel,function", [
    (two_masks, lambda x: x**3 + torch.where(torch.arange(5) < 3, x, 0.0).exp() * x),
    (moved, lambda x: x**2 * torch.cat((x[:, 3:], torch.ones_like(x[:, :3])), 1)),
    (products_of_rows, lambda x: x.cumprod(1) + x * x.prod(1, keepdim=True)),
])
def test_sums_by_owners_and_combiners(kernel, function):
    """The first gradient reads, adds and writes, or gathers what a scan has found."""
    x, dy, weight = (jvp_check.random(3, 5) for _ in range(3))
    first = nereid.grad(kernel, "x", "y")
    again = nereid.grad(first.backward, {"x": "of_x", "dy": "of_dy"}, {"dx": "s_dx"})
    of_x, of_dy, unused = (torch.full_like(x, float("nan")) for _ in range(3))
    again.backward[(3, )](x, torch.zeros_like(x), 5, 3, dy=dy, dx=unused, s_dx=weight, of_x=of_x, of_dy=of_dy, BLOCK=8)
    inputs = [x.clone().requires_grad_(), dy.clone().requires_grad_()]
    dx, = torch.autograd.grad(function(inputs[0]), inputs[0], inputs[1], create_graph=True)
    for found, expected in zip((of_x, of_dy), torch.autograd.grad((dx * weight).sum(), inputs)):
        torch.testing.assert_close(found, expected)


def test_tangents_of_gradients():
    """Forward over reverse: the Hessian times a direction."""
    kernel = CASES["softmax"]()
    first = nereid.grad(kernel.kernel, kernel.wrt, kernel.out)
    x, direction, dy = kernel.arguments["X"], jvp_check.random(7, 131), jvp_check.random(7, 131)
    dx, tangent = torch.zeros_like(x), torch.zeros_like(x)
    nereid.jvp(first.backward, wrt={"X": "X_direction"}, out={"dX": "dX_tangent"})[kernel.grid](**kernel.arguments, dY=dy, dX=dx, X_direction=direction, dX_tangent=tangent)

    def gradient(x):
        return torch.autograd.functional.vjp(lambda x: x.softmax(1), x, dy, create_graph=True)[1]

    expected, wanted = torch.autograd.functional.jvp(gradient, x, direction)
    torch.testing.assert_close(dx, expected)
    torch.testing.assert_close(tangent, wanted)


@pytest.mark.parametrize("n", [1, 3])
def test_loops(n):
    """Accumulators, whose gradients are atomic additions of several programs."""
    x, w, dy, sx, sw = (jvp_check.random(*shape) for shape in ((3, 16 * n), (16 * n, ), (3, ), (3, 16 * n), (16 * n, )))
    first = nereid.grad(row_sums, ("x", "w"), "y")
    again = nereid.grad(first.backward, {"x": "ax", "w": "aw", "dy": "ay"}, {"dx": "sx", "dw": "sw"})
    found = {name: torch.full_like(like, float("nan")) for name, like in (("ax", x), ("aw", w), ("ay", dy))}
    arguments = {name: value for name, value in zip(row_sums.arg_names, (x, w, torch.zeros(3, dtype=F64), 16 * n))}
    again.backward[(3, )](**arguments, dy=dy, dx=torch.zeros_like(x), dw=torch.zeros_like(w), sx=sx, sw=sw, **found, BLOCK=16)

    def gradient(x, w, dy):
        dx, dw = torch.zeros_like(x), torch.zeros_like(w)
        first.backward[(3, )](x, w, torch.zeros(3, dtype=F64), 16 * n, dy=dy, dx=dx, dw=dw, BLOCK=16)
        return float((dx * sx).sum() + (dw * sw).sum())

    for name, of in (("ax", 0), ("aw", 1), ("ay", 2)):
        direction = jvp_check.random(*(x, w, dy)[of].shape)
        values = [gradient(*(value + sign * 1e-6 * direction if i == of else value for i, value in enumerate((x, w, dy)))) for sign in (1, -1)]
        difference = (values[0] - values[1]) / 2e-6
        assert abs(float((found[name] * direction).sum()) - difference) <= 1e-6 * (1 + abs(difference)), name


def test_names_must_be_chosen():
    first = nereid.grad(swiglu_kernel, "gate", "y")
    with pytest.raises(ValueError, match=re.escape("the tangent of `gate` cannot be called `dgate`")):
        nereid.grad(first.backward, "gate", {"dgate": "s"})
    with pytest.raises(TypeError, match="grad needs a kernel, found a gradient: give its `backward`"):
        nereid.grad(first, {"gate": "g"}, {"dgate": "s"})


# ---- operators of PyTorch ---------------------------------------------------------------------------------


def test_gradgradcheck(route):
    gate, up = given(12), given(12)
    assert torch.autograd.gradgradcheck(lambda gate, up: swiglu(gate, up, BLOCK=8), (gate, up))
    assert torch.autograd.gradgradcheck(lambda gate: swiglu(gate, up.detach(), BLOCK=8), (gate, ))


def test_two_outputs_and_numbers(route):
    norm = nereid.autograd(norm_kernel, wrt=("x", "w"), out={"y": "x", "rstd": rows_of(), "rank": lambda a: torch.empty(a["x"].shape, dtype=torch.int32)},
                           grid=lambda a: (a["x"].shape[0], ), arguments={"stride": lambda a: a["x"].stride(0), "N": lambda a: a["x"].shape[1]})
    x, w = given(3, 8), given(8)
    assert torch.autograd.gradgradcheck(lambda x, w: norm(x, w, eps=0.1)[:2], (x, w))
    assert torch.autograd.gradgradcheck(lambda x, w: norm(x, w, eps=0.1)[1], (x, w))


def test_gradient_penalty(route):
    gate, up = given(20), given(20)

    def penalty(function):
        dgate, = torch.autograd.grad(function(gate, up).sum(), gate, create_graph=True)
        return torch.autograd.grad(dgate.square().sum(), (gate, up))

    for found, expected in zip(penalty(lambda gate, up: swiglu(gate, up, BLOCK=16)), penalty(lambda gate, up: F.silu(gate) * up)):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_narrow_types(dtype):
    gate, up = given(64, dtype=dtype), given(64, dtype=dtype)
    wide = [each.detach().double().requires_grad_() for each in (gate, up)]

    def penalty(function, gate, up):
        dgate, dup = torch.autograd.grad(function(gate, up).sum(), (gate, up), create_graph=True)
        return torch.autograd.grad((dgate * dup).sum(), (gate, up))

    for found, expected in zip(penalty(lambda gate, up: swiglu(gate, up, BLOCK=16), gate, up), penalty(lambda gate, up: F.silu(gate) * up, *wide)):
        tolerance = 1e-5 if dtype == torch.float32 else 5e-2
        torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


def derivatives(output, inputs, orders):
    """The sums of the first derivative of this output, of its derivative and so on, whose squares are differentiated."""
    for _ in range(orders):
        found = torch.autograd.grad(output.square().sum(), inputs, create_graph=True)
        output = sum((each * (i + 1)).sum() for i, each in enumerate(found))
    return found


@pytest.mark.parametrize("orders", [3, 4])
def test_third_derivatives(route, orders):
    gate, up = given(12), given(12)
    for found, expected in zip(derivatives(swiglu(gate, up, BLOCK=8), (gate, up), orders), derivatives(F.silu(gate) * up, (gate, up), orders)):
        torch.testing.assert_close(found, expected)


def test_third_derivatives_by_differences(route):
    """Of two outputs and a number; of some inputs alone."""
    gate, up = given(6), given(6)

    def first(gate, up):
        return torch.autograd.grad(swiglu(gate, up, BLOCK=8), (gate, up), torch.linspace(-1, 1, 6, dtype=F64), create_graph=True)

    assert torch.autograd.gradgradcheck(first, (gate, up))
    norm = nereid.autograd(norm_kernel, wrt=("x", "w"), out={"y": "x", "rstd": rows_of(), "rank": lambda a: torch.empty(a["x"].shape, dtype=torch.int32)},
                           grid=lambda a: (a["x"].shape[0], ), arguments={"stride": lambda a: a["x"].stride(0), "N": lambda a: a["x"].shape[1]})
    x, w = given(2, 3), given(3)
    assert torch.autograd.gradgradcheck(lambda x, w: torch.autograd.grad([each.sin().sum() for each in norm(x, w, eps=0.1)[:2]], (x, w), create_graph=True), (x, w))
    assert torch.autograd.gradgradcheck(lambda x: torch.autograd.grad(norm(x, w.detach(), eps=0.1)[1].sin().sum(), x, create_graph=True), (x, ))


@nereid.jit
def repeated_kernel(x, y, n, BLOCK: tl.constexpr):
    """Sines until all are small: its rounds are counted, and depend on the input."""
    i = tl.arange(0, BLOCK)
    s = tl.load(x + i, mask=i < n, other=0.0)
    while tl.max(tl.abs(s), 0) > 0.5:
        s = tl.sin(s) - 0.01 * s
    tl.store(y + i, s, mask=i < n)


def test_while_loops():
    repeated = nereid.autograd(repeated_kernel, wrt="x", out="y", grid=(1, ), arguments={"n": lambda a: a["x"].numel(), "BLOCK": 8})

    def reference(x):
        while x.abs().max() > 0.5:
            x = x.sin() - 0.01 * x
        return x

    x = given(6)
    torch.testing.assert_close(derivatives(repeated(x), (x, ), 2), derivatives(reference(x), (x, ), 2))


@nereid.jit
def power_kernel(x, scale, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=1.0)
    tl.store(y + i, tl.exp(a * scale), mask=i < n)


def test_third_derivatives_in_a_number(route):
    power = nereid.autograd(power_kernel, wrt=("x", "scale"), out="y", numbers="scale", grid=lambda a: (nereid.cdiv(a["n"], a["BLOCK"]), ),
                            arguments={"n": lambda a: a["x"].numel(), "BLOCK": 8})
    # Not random: numbers have fp32, and with one of some hundreds of random inputs terms cancel until the rest is off by more than the bound.
    x, scale = torch.linspace(-2, 2, 12, dtype=F64, requires_grad=True), torch.tensor(0.25, dtype=F64, requires_grad=True)
    for found, expected in zip(derivatives(power(x, scale), (x, scale), 3), derivatives((x * scale).exp(), (x, scale), 3)):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_compiled_functions_are_refused_by_pytorch():
    gate, up = given(12), given(12)
    compiled = torch.compile(lambda gate, up: swiglu(gate, up, BLOCK=8), backend="aot_eager", fullgraph=True)
    first, = torch.autograd.grad(compiled(gate, up).sum(), gate, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        torch.autograd.grad(first.sum(), gate)
