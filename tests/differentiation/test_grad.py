"""Reverse mode: <v, J u> = <J^T v, u> against forward mode for every rule, whole kernels against torch.autograd, and what is refused."""

import math
import re

import grad_check
import harness
import jvp_check
import nereid
import nereid.language as tl
import pytest
import torch
import torch.nn.functional as F
from nereid.tools.tensor_descriptor import TensorDescriptor
from test_jvp_elementwise import BINARY, TERNARY, UNARY, _function, binary, ternary, unary
from test_jvp_kernels import TYPES, add, causal_conv, cross_entropy, embedding, geglu, layer_norm, rms_norm, rope, softmax
from test_jvp_language import COMBINERS, REDUCTIONS, SHAPES, _stored, branches, calling, chosen, described, dropped, indexed, mapped, masked, partly, product

F64 = torch.float64
N = 64


def zeros(*shape):
    return torch.zeros(*shape, dtype=F64)


@pytest.mark.parametrize("text", UNARY)
def test_functions_of_one_operand(text):
    low, high = UNARY[text]
    grad_check.check(unary, (1, ), dict(x=jvp_check.random(N, low=low, high=high), y=zeros(N)), ("x", ), ("y", ), f=_function(text, "x"), N=N)


@pytest.mark.parametrize("wrt", [("x", "w"), ("w", )])
@pytest.mark.parametrize("text", BINARY)
def test_functions_of_two_operands(text, wrt):
    low, high = BINARY[text]
    arguments = dict(x=jvp_check.random(N, low=low, high=high), w=jvp_check.random(N, low=low, high=high), y=zeros(N))
    grad_check.check(binary, (1, ), arguments, wrt, ("y", ), f=_function(text, "x, w"), N=N)


@pytest.mark.parametrize("text", TERNARY)
def test_functions_of_three_operands(text):
    low, high = TERNARY[text]
    arguments = {name: jvp_check.random(N, low=low, high=high) for name in "xwv"} | {"y": zeros(N)}
    grad_check.check(ternary, (1, ), arguments, ("x", "w", "v"), ("y", ), f=_function(text, "x, w, v"), N=N)


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name):
    grad_check.check(_stored(SHAPES[name]), (1, ), dict(x_ptr=jvp_check.random(8, 16), y_ptr=zeros(256)), ("x_ptr", ), ("y_ptr", ), M=8, N=16)


@pytest.mark.parametrize("text", ["x[7:0:-2, 3:9:3] * 2.0", "x[:, 5] * 2.0", "x[2:4, ::-1]"])
def test_slices(text):
    grad_check.check(_stored(text), (1, ), dict(x_ptr=jvp_check.random(8, 16), y_ptr=zeros(128)), ("x_ptr", ), ("y_ptr", ), M=8, N=16)


@pytest.mark.parametrize("kind", ["int8", "int32", "int64"])
def test_gathers(kind):
    """Indices that meet, of several types, along both axes, more of them than elements."""
    index = f"(tl.arange(0, {{}})[:, None] * 5 + tl.arange(0, {{}})[None, :] * 3).to(tl.{kind}) % {{}}"
    for text in ("tl.gather(x, %s, axis=1)" % index.format("M", "32", "N"), "tl.gather(x, %s, axis=0)" % index.format("4", "N", "M"),
                 f"tl.gather(tl.ravel(x), (tl.arange(0, 64) * 7 % 50).to(tl.{kind}), axis=0)"):
        grad_check.check(_stored(text), (1, ), dict(x_ptr=jvp_check.random(8, 16), y_ptr=zeros(256)), ("x_ptr", ), ("y_ptr", ), M=8, N=16)


def test_a_gather_whose_source_is_used_again():
    grad_check.check(_stored("tl.gather(x, (tl.arange(0, M)[:, None] * 5 + tl.arange(0, N)[None, :] * 3) % N, axis=1) * x"), (1, ),
                     dict(x_ptr=jvp_check.random(8, 16), y_ptr=zeros(128)), ("x_ptr", ), ("y_ptr", ), M=8, N=16)


def test_gathers_by_narrow_indices_from_more_elements_than_they_count():
    grad_check.check(_stored("tl.gather(tl.ravel(x), (tl.arange(0, 64) * 7 % 50).to(tl.int8), axis=0)"), (1, ), dict(x_ptr=jvp_check.random(8, 64), y_ptr=zeros(64)),
                     ("x_ptr", ), ("y_ptr", ), M=8, N=64)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_and_scans(name):
    grad_check.check(_stored(REDUCTIONS[name], COMBINERS), (1, ), dict(x_ptr=jvp_check.random(8, 16), y_ptr=zeros(128)), ("x_ptr", ), ("y_ptr", ), M=8, N=16)


def test_of_equal_elements_the_first_one_gets_the_gradient():
    x, dx, dy = zeros(4, 16), zeros(4, 16), jvp_check.random(4)
    nereid.grad(_stored("tl.max(x, axis=1)"), "x_ptr", "y_ptr").backward[(1, )](x, zeros(4), dx_ptr=dx, dy_ptr=dy, M=4, N=16)
    assert (dx[:, 0] == dy).all() and (dx[:, 1:] == 0).all()


@pytest.mark.parametrize("wrt", ["abc", "a", "b", "c"])
def test_products(wrt):
    grad_check.check(product, (1, ), dict(a=jvp_check.random(16, 32), b=jvp_check.random(32, 16), c=jvp_check.random(16, 16), d=zeros(16, 16)), tuple(wrt), ("d", ),
                     M=16, N=16, K=32, PRECISION="ieee")


# ---- memory and control flow --------------------------------------------------------------------------


def test_masks_other_values_and_numbers():
    grad_check.check(masked, (3, ), dict(x=jvp_check.random(40), y=zeros(96), n=40, alpha=1.5), ("x", "alpha"), ("y", ), BLOCK=32,
                     rtol=1e-7)  # a number's gradient is fp32


def test_branches():

    @nereid.jit
    def unrolled(x, w, y, N: tl.constexpr):
        for k in tl.static_range(N):
            v = tl.load(x + k)
            r = v
            if v > 0.5:
                t = tl.load(w + k)
                r = v * v * t
                if v > 1.0:
                    r += 3.0 * v * tl.exp(t)
            elif v < -0.5:
                r = v * 0.0 + 2.0
            tl.store(y + k, r)

    grad_check.check(unrolled, (1, ), dict(x=jvp_check.random(32), w=jvp_check.random(32), y=zeros(32)), ("x", "w"), ("y", ), N=32)


def test_branches_that_store():

    @nereid.jit
    def storing(x, y, z, n, N: tl.constexpr):
        i = tl.arange(0, N)
        v = tl.load(x + i)
        s = tl.sum(v * v)
        if n > 3:
            tl.store(y + i, v * s)
        else:
            w = tl.load(x + N + i)
            tl.store(y + i, v * w)
        if n > 4:
            tl.store(z + i, tl.sin(v) * s)

    for n in (1, 4, 5):
        grad_check.check(storing, (1, ), dict(x=jvp_check.random(32), y=zeros(16), z=zeros(16), n=n), ("x", ), ("y", "z"), N=16)


@pytest.mark.parametrize("flag", [0, 2])
def test_pointers_that_branches_and_selections_choose(flag):
    grad_check.check(chosen, (1, ), dict(x=jvp_check.random(16), w=jvp_check.random(16), y=zeros(16), flag=flag), ("x", "w"), ("y", ), N=16)


def test_indices_that_meet():
    index = torch.tensor([3, 3, 0, 1] * 4, dtype=torch.int32)
    grad_check.check(indexed, (1, ), dict(x=jvp_check.random(32), index=index, y=zeros(16)), ("x", ), ("y", ), N=16)


def test_functions_that_are_called():
    grad_check.check(calling, (1, ), dict(x=jvp_check.random(16), y=zeros(16)), ("x", ), ("y", ), N=16)


def test_random_numbers_are_drawn_again():
    grad_check.check(dropped, (1, ), dict(x=jvp_check.random(64), y=zeros(64), p=0.3, seed=7), ("x", ), ("y", ), N=64)


def test_outputs_are_not_written_and_may_have_no_gradient():
    x, y, z, dx = jvp_check.random(16), zeros(16), zeros(16), zeros(16)
    dy = jvp_check.random(16)
    nereid.grad(partly, "x", ("y", "z")).backward[(1, )](x, y, z, dx=dx, dy=dy, dz=None, N=16)
    assert (y == 0).all() and (z == 0).all()
    torch.testing.assert_close(dx, 2 * dy)


def test_atomic_additions_of_several_programs():

    @nereid.jit
    def summed(x, y, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n)
        tl.atomic_add(y + i % 8, v * v, mask=i < n)
        tl.atomic_add(y + 8, tl.sum(v))

    grad_check.check(summed, (2, ), dict(x=jvp_check.random(50), y=zeros(9), n=50), ("x", ), ("y", ), BLOCK=32, begin=0.0)


def test_loads_that_several_programs_share():
    """A row that every program reads: its gradient is summed over them."""
    arguments = dict(X=jvp_check.random(4, 50), Residual=jvp_check.random(4, 50), W=jvp_check.random(50), Y=zeros(4, 50), N=50, eps=0.125)
    grad_check.check(rms_norm, (4, ), arguments, ("X", "Residual", "W"), ("Y", ), BLOCK=64)


def test_descriptors():

    @nereid.jit
    def through(source, target, BM: tl.constexpr, BN: tl.constexpr):
        k = tl.program_id(0) * BN
        target.store([0, k], tl.sin(source.load([0, k])))

    x, y, dx, dy = jvp_check.random(13, 40), zeros(13, 40), torch.ones(13, 40, dtype=F64), jvp_check.random(13, 40)

    def of(tensor):
        return TensorDescriptor.from_tensor(tensor, [16, 16])

    nereid.grad(through, "source", "target").backward[(3, )](of(x), of(y), dsource=of(dx), dtarget=of(dy), BM=16, BN=16)
    torch.testing.assert_close(dx, torch.cos(x) * dy)


# ---- whole kernels ------------------------------------------------------------------------------------


def against(kernel, grid, arguments, wrt, out, function, rtol=1e-9, dtype=F64, **options):
    """Gradients against torch.autograd in fp64."""
    arguments = {name: value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value for name, value in arguments.items()}
    given = {out: jvp_check.random(*arguments[out].shape).to(dtype)}
    found = grad_check.gradients(kernel, grid, arguments, wrt, (out, ), given, **options)
    inputs = [arguments[name].double().requires_grad_() for name in wrt]
    expected = torch.autograd.grad(function(*inputs), inputs, given[out].double())
    for name, gradient in zip(wrt, expected):
        torch.testing.assert_close(found[name].double(), gradient, rtol=rtol, atol=rtol * float(gradient.abs().max()))


ALL_TYPES = pytest.mark.parametrize("dtype,rtol", [(F64, 1e-9), (torch.float32, 2e-4), (torch.float16, 2e-2), (torch.bfloat16, 6e-2)])


def test_vector_addition(target):
    against(add, (4, ), dict(x=jvp_check.random(100), w=jvp_check.random(100), y=torch.zeros(100), n=100), ("x", "w"), "y", torch.add, BLOCK=32)


@TYPES
def test_softmax(target, dtype, rtol):
    x = jvp_check.random(7, 131)
    against(softmax, (7, ), dict(Y=torch.zeros(7, 131), stride_ym=131, stride_yn=1, X=x, stride_xm=131, stride_xn=1, M=7, N=131), ("X", ), "Y",
            lambda x: x.softmax(1), rtol, dtype)


@TYPES
def test_rms_norm(target, dtype, rtol):
    against(rms_norm, (4, ), dict(X=jvp_check.random(4, 50), Residual=jvp_check.random(4, 50), W=jvp_check.random(50), Y=torch.zeros(4, 50), N=50, eps=0.125),
            ("X", "Residual", "W"), "Y", lambda x, r, w: (x + r) * torch.rsqrt(((x + r)**2).mean(1, keepdim=True) + 0.125) * w, rtol, dtype, BLOCK=64)


@TYPES
def test_cross_entropy(target, dtype, rtol):
    labels = torch.tensor([3, 0, 49, 7])
    against(cross_entropy, (4, ), dict(logits=jvp_check.random(4, 50), labels=labels, loss=torch.zeros(4), N=50, smoothing=0.125), ("logits", ), "loss",
            lambda x: F.cross_entropy(x, labels, reduction="none", label_smoothing=0.125), rtol, dtype, BLOCK=64)


@nereid.jit
def swiglu(gate, up, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(gate + i, mask=i < n).to(tl.float32)
    u = tl.load(up + i, mask=i < n)
    tl.store(y + i, (g * tl.sigmoid(g)).to(u.dtype) * u, mask=i < n)


@ALL_TYPES
def test_swiglu(target, dtype, rtol):
    against(swiglu, (4, ), dict(gate=jvp_check.random(100), up=jvp_check.random(100), y=torch.zeros(100), n=100), ("gate", "up"), "y",
            lambda g, u: F.silu(g) * u, max(rtol, 1e-6), dtype, BLOCK=32)


@TYPES
def test_geglu(target, dtype, rtol):
    against(geglu, (4, ), dict(gate=jvp_check.random(100), up=jvp_check.random(100), y=torch.zeros(100), n=100), ("gate", "up"), "y",
            lambda g, u: F.gelu(g, approximate="tanh") * u, rtol, dtype, BLOCK=32)


@TYPES
def test_rotary_embedding(target, dtype, rtol):
    """Two stores to one tensor that never meet."""
    cos, sin = jvp_check.random(5, 8).to(dtype), jvp_check.random(5, 8).to(dtype)

    def reference(x):
        a, b = x.chunk(2, 1)
        return torch.cat([a * cos.double() - b * sin.double(), b * cos.double() + a * sin.double()], 1)

    against(rope, (5, ), dict(x=jvp_check.random(5, 16), cos=cos, sin=sin, y=torch.zeros(5, 16)), ("x", ), "y", reference, rtol, dtype, D=16)


@ALL_TYPES
def test_embedding(target, dtype, rtol):
    index = torch.tensor([3, 1, 3, 0, 9])
    against(embedding, (5, ), dict(table=jvp_check.random(10, 16), index=index, y=torch.zeros(5, 16)), ("table", ), "y", lambda t: t[index], rtol, dtype, D=16)


@TYPES
def test_causal_convolution(target, dtype, rtol):
    against(causal_conv, (3, ), dict(x=jvp_check.random(3, 25), w=jvp_check.random(3, 4), y=torch.zeros(3, 25), length=25), ("x", "w"), "y",
            lambda x, w: F.silu(F.conv1d(x[None], w[:, None], padding=3, groups=3)[0, :, :25]), rtol, dtype, WIDTH=4, BLOCK=32)


@nereid.jit
def one_block_matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
    b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
    c = tl.dot(a, b, input_precision="ieee").to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], c, mask=(rm[:, None] < M) & (rn[None, :] < N))


@ALL_TYPES
def test_matrix_product(target, dtype, rtol):
    M, N, K = 37, 29, 25
    against(one_block_matmul, (3, 2), dict(a_ptr=jvp_check.random(M, K), b_ptr=jvp_check.random(K, N), c_ptr=torch.zeros(M, N), M=M, N=N, K=K),
            ("a_ptr", "b_ptr"), "c_ptr", torch.matmul, rtol, dtype, BM=16, BN=16, BK=32)


@nereid.jit
def one_block_attention(Q, K, V, Out, length, scale, BLOCK: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(0) * length * D
    m = tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    at = m[:, None] * D + d[None, :]
    inside = m[:, None] < length
    q = tl.load(Q + head + at, mask=inside, other=0.0)
    k = tl.load(K + head + at, mask=inside, other=0.0)
    v = tl.load(V + head + at, mask=inside, other=0.0)
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    scores = tl.where((m[:, None] >= m[None, :]) & (m[None, :] < length), scores, -1.0e6)
    p = tl.exp(scores - tl.max(scores, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]
    tl.store(Out + head + at, tl.dot(p.to(v.dtype), v, input_precision="ieee"), mask=inside)


@TYPES
def test_attention_of_one_block(target, dtype, rtol):
    heads, length, D = 2, 25, 16
    causal = ~torch.ones(length, length).tril().bool()
    against(one_block_attention, (heads, ), dict(Q=jvp_check.random(heads, length, D), K=jvp_check.random(heads, length, D), V=jvp_check.random(heads, length, D),
                                                 Out=torch.zeros(heads, length, D), length=length, scale=0.25), ("Q", "K", "V"), "Out",
            lambda q, k, v: (q @ k.transpose(1, 2) * 0.25).masked_fill(causal, -math.inf).softmax(2) @ v, rtol, dtype, BLOCK=32, D=D)


def test_gradcheck():
    """As a function of PyTorch's autograd."""
    gradient = nereid.grad(rms_norm, ("X", "W"), "Y")

    class RMSNorm(torch.autograd.Function):

        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            y, zero = torch.empty_like(x), torch.zeros_like(x)
            rms_norm[(x.shape[0], )](x, zero, w, y, x.shape[1], 0.1, BLOCK=16)
            return y

        @staticmethod
        def backward(ctx, dy):
            x, w = ctx.saved_tensors
            dx, dw = torch.empty_like(x), torch.empty_like(w)
            gradient.backward[(x.shape[0], )](x, torch.zeros_like(x), w, torch.empty_like(x), x.shape[1], 0.1, dY=dy.contiguous(), dX=dx, dW=dw, BLOCK=16)
            return dx, dw

    x, w = jvp_check.random(3, 10).requires_grad_(), jvp_check.random(10).requires_grad_()
    assert torch.autograd.gradcheck(RMSNorm.apply, (x, w), nondet_tol=1e-12)


# ---- refusals (GradientRefused, GradientInPlace, GradientStoredTwice) -----------------------------------------------------------------------------------------


def refused(kernel, arguments, wrt, out, message, **options):
    with pytest.raises(nereid.CompilationError, match=re.escape(message)):
        grad_check.gradients(kernel, (1, ), arguments, wrt, out, {name: torch.ones_like(arguments[name]) for name in out}, **options)


def of_text(body, parameters="x, y"):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return harness.make(f"@triton.jit\ndef kernel({parameters}, N: tl.constexpr):\n    i = tl.arange(0, N)\n{lines}")


def test_combiners_with_branches_are_refused():
    arguments = dict(x_ptr=jvp_check.random(8, 16), y_ptr=zeros(128))
    combiner = "@triton.jit\ndef larger(a, b):\n    r = a\n    {}\n    return r\n"
    for branch, good in (("if b > a:\n        r = b * 2.0 - b", False), ("r = tl.where(b > a, b * 2.0 - b, a)", True)):
        kernel = _stored("tl.reduce(x, 1, larger)", combiner.format(branch))
        if good:
            grad_check.check(kernel, (1, ), arguments, ("x_ptr", ), ("y_ptr", ), M=8, N=16)
        else:
            refused(kernel, arguments, ("x_ptr", ), ("y_ptr", ), "a reduction or scan with this combiner has no reverse derivative: it contains control flow", M=8, N=16)


def test_functions_mapped_over_elements_are_refused():
    arguments = {name: jvp_check.random(16) for name in "xw"} | {"y": zeros(16), "z": zeros(16)}
    refused(mapped, arguments, ("x", "w"), ("y", "z"), "`map_elementwise` has no reverse derivative: call the function on blocks", N=16)


@pytest.mark.parametrize("dtype,rtol", [(torch.float32, 1e-4), (torch.float16, 2e-2)])
def test_scans_of_narrow_types(dtype, rtol, target):
    """The recurrence of gradients of fp16 is summed in fp32."""
    kernel = _stored("tl.associative_scan((x * 0.5, x), 1, linear)[1]", COMBINERS)
    x, dy = (0.5 * jvp_check.random(8, 16)).to(dtype), jvp_check.random(8, 16).to(dtype)
    leaf = x.double().requires_grad_()
    rows = [leaf[:, 0]]
    for t in range(1, 16):
        rows.append(0.5 * leaf[:, t] * rows[-1] + leaf[:, t])
    expected, = torch.autograd.grad(torch.stack(rows, 1), leaf, dy.double())
    found = grad_check.gradients(kernel, (1, ), dict(x_ptr=x, y_ptr=torch.zeros(8, 16, dtype=dtype)), ("x_ptr", ), ("y_ptr", ), {"y_ptr": dy}, M=8, N=16)["x_ptr"]
    torch.testing.assert_close(found.double(), expected, rtol=rtol, atol=rtol * float(expected.abs().max()))


def test_tensors_that_are_read_and_written_are_refused():
    body = "v = tl.load(s + i)\ntl.store(s + i, v + 1.0)\ntl.store(y + i, v * tl.load(x + i))"
    refused(of_text(body, "x, s, y"), dict(x=jvp_check.random(16), s=zeros(16), y=zeros(16)), ("x", ), ("y", ), "`s` is read and also written", N=16)  # GradientInPlace
    with pytest.raises(ValueError, match="`x` is read and also written"):
        nereid.grad(of_text(body, "x, s, y"), "x", "x")


def test_outputs_that_are_stored_twice_are_refused():
    arguments = dict(x=jvp_check.random(16), y=zeros(64))
    body = "v = tl.load(x + i)\ntl.store(y + i, v)\ntl.store(y + {}i, v * v)"
    for other in ("", "8 + ", "15 + "):
        refused(of_text(body.format(other)), arguments, ("x", ), ("y", ), "`y` is stored to in more than one place", N=16)  # GradientStoredTwice
    for other in ("16 + ", "tl.program_id(0) * 5 + 16 + "):
        kernel = of_text(body.format(other).replace("y + i,", "y + tl.program_id(0) * 5 + i,") if "program" in other else body.format(other))
        grad_check.check(kernel, (1, ), arguments, ("x", ), ("y", ), N=16)


def test_halves_of_rows_are_stored_apart():
    """Rows of 8 whose number is known at run time, their block larger: the halves meet modulo 8 only if they overlap."""
    body = """j = tl.arange(0, 4)[None, :]
row = tl.arange(0, 4)[:, None]
at = (tl.program_id(0) * rows + row) * 8 + j
a = tl.load(x + at, mask=row < rows)
b = tl.load(x + at + 4, mask=row < rows)
tl.store(y + at, a * b, mask=row < rows)
tl.store(y + at + {}, a - b, mask=row < rows)"""
    for apart in ("4", "12 - 8", "8 * rows + 4", "-4"):
        arguments = dict(x=jvp_check.random(96), y=zeros(96), rows=3)
        grad_check.check(of_text(body.format(apart) if apart != "-4" else body.format(apart).replace("y + at", "y + at + 4"), "x, y, rows"), (2, ), arguments, ("x", ), ("y", ), N=16)
    for apart in ("3", "5", "11", "rows"):
        refused(of_text(body.format(apart), "x, y, rows"), dict(x=jvp_check.random(96), y=zeros(96), rows=3), ("x", ), ("y", ), "`y` is stored to in more than one place", N=16)


def test_lanes_that_store_to_one_element_are_refused():
    """The gradient of such an element would be counted once a lane. Diagnostic GradientStoredByLanes."""
    one, row = dict(x=jvp_check.random(16), y=zeros(1)), dict(x=jvp_check.random(16), y=zeros(16))
    total = "total = tl.sum(tl.load(x + i) * tl.load(x + i))\n"
    for address, mask in (("0 * i", "i < 20"), ("tl.zeros((N, ), tl.int32)", "total > 0"), ("tl.program_id(0) + i - i", "(total > 0) & (total < 1e9)")):
        body = f"{total}tl.store(y + {address}, total + 0.0 * i"
        message = "`y` is stored to by all 16 lanes along dimension 0 at the same address"
        refused(of_text(f"{body})"), one, ("x", ), ("y", ), message, N=16)
        if "i" not in mask:
            refused(of_text(f"{body}, mask={mask})"), one, ("x", ), ("y", ), message, N=16)
    square = "v = tl.load(x + i)\ntl.store(y + i[None, :] + 0 * i[:, None], v[None, :] * v[:, None]{})"
    refused(of_text(square.format("")), row, ("x", ), ("y", ), "along dimension 0", N=16)
    refused(of_text(square.format(", mask=(i < 5)[None, :]")), row, ("x", ), ("y", ), "along dimension 0", N=16)
    # Their nearest valid neighbours: a number, one lane, one row, a block of one element.
    grad_check.check(of_text(f"{total}tl.store(y, total)"), (1, ), one, ("x", ), ("y", ), N=16)
    grad_check.check(of_text(f"{total}tl.store(y + 0 * i, total + 0.0 * i, mask=i == 3)"), (1, ), one, ("x", ), ("y", ), N=16)
    grad_check.check(of_text(square.format(", mask=i[:, None] == 2")), (1, ), row, ("x", ), ("y", ), N=16)
    grad_check.check(of_text(f"{total}tl.store(y + tl.arange(0, 1), total + tl.zeros((1, ), tl.float64))"), (1, ), one, ("x", ), ("y", ), N=16)


def test_types_of_gradients():
    kernel = of_text("tl.store(y + i, tl.load(x + i))")
    with pytest.raises(TypeError, match="a gradient is list: expected a tensor of the shape of its parameter, or None"):
        nereid.grad(kernel, "x", "y").backward[(1, )](zeros(16), zeros(16), dx=[0.0] * 16, dy=zeros(16), N=16)
    with pytest.raises(nereid.CompilationError, match=re.escape("`dx` must be `pointer<fp64>`, since it belongs to `x`, found `pointer<fp32>`")):
        nereid.grad(kernel, "x", "y").backward[(1, )](zeros(16), zeros(16), dx=torch.zeros(16), dy=zeros(16), N=16)
