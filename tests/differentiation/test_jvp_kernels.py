"""Forward derivatives of whole kernels, unchanged, against torch.func.jvp in fp64: the kernels that docs/differentiation.md lists."""

import math

import nereid
import nereid.language as tl
import jvp_check
import pytest
import torch
import torch.nn.functional as F
from nereid.language.extra import libdevice

F64 = torch.float64


def against(kernel, grid, arguments, wrt, out, function, rtol=1e-9, dtype=F64, **options):
    """Tangents of `out` against those of `function`, which takes the tensors of `wrt` and gives that of `out`."""
    arguments = {name: value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value for name, value in arguments.items()}
    directions = {name: jvp_check.random(*arguments[name].shape).to(dtype) for name in wrt}
    outputs, found = jvp_check.tangents(kernel, grid, arguments, wrt, (out, ), directions, **options)
    primal, tangent = torch.func.jvp(function, tuple(arguments[name].double() for name in wrt), tuple(directions[name].double() for name in wrt))
    torch.testing.assert_close(outputs[out].double(), primal, rtol=rtol, atol=rtol * float(primal.abs().max()))
    torch.testing.assert_close(found[out].double(), tangent, rtol=rtol, atol=rtol * float(tangent.abs().max()))


TYPES = pytest.mark.parametrize("dtype,rtol", [(F64, 1e-9), (torch.float32, 2e-4)])


@nereid.jit
def add(x, w, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + tl.load(w + i, mask=i < n), mask=i < n)


def test_vector_addition(target):
    against(add, (4, ), dict(x=jvp_check.random(100), w=jvp_check.random(100), y=torch.zeros(100), n=100), ("x", "w"), "y", torch.add, BLOCK=32)


@nereid.jit
def softmax(Y, stride_ym, stride_yn, X, stride_xm, stride_xn, M, N):
    m = tl.program_id(0)
    BLOCK_SIZE = 256
    n = tl.arange(0, BLOCK_SIZE)
    X = X + m * stride_xm + n * stride_xn
    x = tl.load(X, mask=n < N, other=-float('inf'))
    z = x - tl.max(x, axis=0)
    num = tl.exp(z)
    denom = tl.sum(num, axis=0)
    y = num / denom
    Y = Y + m * stride_ym + n * stride_yn
    tl.store(Y, y, mask=n < N)


@TYPES
def test_softmax(target, dtype, rtol):
    x = jvp_check.random(7, 131)
    against(softmax, (7, ), dict(Y=torch.zeros(7, 131), stride_ym=131, stride_yn=1, X=x, stride_xm=131, stride_xn=1, M=7, N=131), ("X", ), "Y",
            lambda x: x.softmax(1), rtol, dtype)


@nereid.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@nereid.autotune(configs=[nereid.Config({"BM": 16, "BN": 16, "BK": 16, "GROUP": 2})], key=["M"])
@nereid.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, BM: tl.constexpr, BN: tl.constexpr,
           BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATION: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BM)
    num_pid_n = tl.cdiv(N, BN)
    num_pid_in_group = GROUP * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP
    group_size_m = min(num_pid_m - first_pid_m, GROUP)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = (pid_m * BM + tl.arange(0, BM)) % M
    offs_bn = (pid_n * BN + tl.arange(0, BN)) % N
    offs_k = tl.arange(0, BK)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = tl.zeros((BM, BN), dtype=c_ptr.dtype.element_ty)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    if ACTIVATION == "leaky_relu":
        accumulator = leaky_relu(accumulator)
    offs_cm = pid_m * BM + tl.arange(0, BM)
    offs_cn = pid_n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, accumulator, mask=c_mask)


@TYPES
@pytest.mark.parametrize("wrt", [("a_ptr", "b_ptr"), ("b_ptr", )])
def test_matrix_product(target, wrt, dtype, rtol):
    M, N, K = 37, 29, 41
    a, b = jvp_check.random(M, K), jvp_check.random(K, N)
    reference = (lambda a, b: F.leaky_relu(a @ b)) if len(wrt) == 2 else (lambda b: F.leaky_relu(a.to(dtype).double() @ b))
    against(matmul, (6, ), dict(a_ptr=a, b_ptr=b, c_ptr=torch.zeros(M, N), M=M, N=N, K=K, stride_am=K, stride_ak=1, stride_bk=N, stride_bn=1, stride_cm=N,
                                stride_cn=1), wrt, "c_ptr", reference, rtol, dtype, BM=16, BN=16, BK=16, GROUP=2, ACTIVATION="leaky_relu")


@nereid.jit
def layer_norm(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    _mean = tl.zeros([BLOCK_SIZE], dtype=X.dtype.element_ty)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        _mean += tl.load(X + cols, mask=cols < N, other=0.)
    mean = tl.sum(_mean, axis=0) / N
    _var = tl.zeros([BLOCK_SIZE], dtype=X.dtype.element_ty)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        x = tl.load(X + cols, mask=cols < N, other=0.)
        x = tl.where(cols < N, x - mean, 0.)
        _var += x * x
    var = tl.sum(_var, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        mask = cols < N
        w = tl.load(W + cols, mask=mask)
        b = tl.load(B + cols, mask=mask)
        x = tl.load(X + cols, mask=mask, other=0.)
        x_hat = (x - mean) * rstd
        tl.store(Y + cols, x_hat * w + b, mask=mask)


@TYPES
def test_layer_norm(target, dtype, rtol):
    rows, N = 5, 77
    against(layer_norm, (rows, ), dict(X=jvp_check.random(rows, N), Y=torch.zeros(rows, N), W=jvp_check.random(N), B=jvp_check.random(N), Mean=torch.zeros(rows),
                                       Rstd=torch.zeros(rows), stride=N, N=N, eps=0.125), ("X", "W", "B"), "Y",
            lambda x, w, b: F.layer_norm(x, (N, ), w, b, 0.125), rtol, dtype, BLOCK_SIZE=32)


@nereid.jit
def rms_norm(X, Residual, W, Y, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(X + row * N + i, mask=i < N, other=0.0) + tl.load(Residual + row * N + i, mask=i < N, other=0.0)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)
    tl.store(Y + row * N + i, x * rstd * tl.load(W + i, mask=i < N), mask=i < N)


@TYPES
def test_rms_norm(target, dtype, rtol):
    against(rms_norm, (4, ), dict(X=jvp_check.random(4, 50), Residual=jvp_check.random(4, 50), W=jvp_check.random(50), Y=torch.zeros(4, 50), N=50, eps=0.125),
            ("X", "Residual", "W"), "Y", lambda x, r, w: (x + r) * torch.rsqrt(((x + r)**2).mean(1, keepdim=True) + 0.125) * w, rtol, dtype, BLOCK=64)


@nereid.jit
def attention(Q, K, V, Out, M, stride_h, stride_n, scale, heads, length, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    start = tl.program_id(0)
    head = tl.program_id(1)
    offs_m = start * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, D)
    dtype: tl.constexpr = Q.dtype.element_ty
    q = tl.load(Q + head * stride_h + offs_m[:, None] * stride_n + offs_d[None, :], mask=offs_m[:, None] < length, other=0.0)
    m_i = tl.full([BM], -float("inf"), dtype)
    l_i = tl.full([BM], 1.0, dtype)
    acc = tl.zeros([BM, D], dtype)
    qk_scale = scale * 1.44269504088896340736
    end = tl.minimum((start + 1) * BM, length) if CAUSAL else length
    for n in range(0, end, BN):
        cols = n + offs_n
        k = tl.load(K + head * stride_h + cols[None, :] * stride_n + offs_d[:, None], mask=cols[None, :] < length, other=0.0)
        qk = tl.dot(q, k, input_precision="ieee") * qk_scale
        mask = cols[None, :] < length
        if CAUSAL:
            mask = mask & (offs_m[:, None] >= cols[None, :])
        qk = tl.where(mask, qk, -1.0e6)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(V + head * stride_h + cols[:, None] * stride_n + offs_d[None, :], mask=cols[:, None] < length, other=0.0)
        acc = tl.dot(p.to(dtype), v, acc * alpha[:, None], input_precision="ieee")
        m_i = m_ij
    m_i += tl.math.log2(l_i)
    acc = acc / l_i[:, None]
    tl.store(M + head * length + offs_m, m_i, mask=offs_m < length)
    tl.store(Out + head * stride_h + offs_m[:, None] * stride_n + offs_d[None, :], acc, mask=offs_m[:, None] < length)


@TYPES
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("wrt", [("Q", "K", "V"), ("K", )])
def test_attention(target, causal, wrt, dtype, rtol):
    heads, length, D = 2, 40, 16
    tensors = {name: jvp_check.random(heads, length, D).to(dtype) for name in "QKV"}

    def reference(*given):
        q, k, v = ({**{name: value.double() for name, value in tensors.items()}, **dict(zip(wrt, given))}[name] for name in "QKV")
        scores = q @ k.transpose(1, 2) * 0.25
        if causal:
            scores = scores.masked_fill(~torch.ones(length, length).tril().bool(), -math.inf)
        return scores.softmax(2) @ v

    against(attention, (3, heads), dict(**tensors, Out=torch.zeros(heads, length, D), M=torch.zeros(heads, length), stride_h=length * D, stride_n=D, scale=0.25,
                                        heads=heads, length=length), wrt, "Out", reference, max(rtol, 1e-6), dtype, BM=16, BN=16, D=D, CAUSAL=causal)


@nereid.jit
def cross_entropy(logits, labels, loss, N, smoothing, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(logits + row * N + i, mask=i < N, other=-float("inf"))
    m = tl.max(x, 0)
    lse = m + tl.log(tl.sum(tl.exp(x - m), 0))
    label = tl.load(labels + row)
    mean = tl.sum(tl.where(i < N, x, 0.0), 0) / N
    tl.store(loss + row, lse - (1 - smoothing) * tl.load(logits + row * N + label) - smoothing * mean)


@TYPES
def test_cross_entropy(target, dtype, rtol):
    labels = torch.tensor([3, 0, 49, 7])
    against(cross_entropy, (4, ), dict(logits=jvp_check.random(4, 50), labels=labels, loss=torch.zeros(4), N=50, smoothing=0.125), ("logits", ), "loss",
            lambda x: F.cross_entropy(x, labels, reduction="none", label_smoothing=0.125), rtol, dtype, BLOCK=64)


@nereid.jit
def geglu(gate, up, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(gate + i, mask=i < n)
    inner = 0.7978845608028654 * (g + 0.044715 * g * g * g)
    tl.store(y + i, 0.5 * g * (1 + libdevice.tanh(inner)) * tl.load(up + i, mask=i < n), mask=i < n)


@TYPES
def test_geglu(target, dtype, rtol):
    against(geglu, (4, ), dict(gate=jvp_check.random(100), up=jvp_check.random(100), y=torch.zeros(100), n=100), ("gate", "up"), "y",
            lambda g, u: F.gelu(g, approximate="tanh") * u, rtol, dtype, BLOCK=32)


@nereid.jit
def rope(x, cos, sin, y, D: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, D // 2)
    a = tl.load(x + row * D + i)
    b = tl.load(x + row * D + D // 2 + i)
    c = tl.load(cos + row * (D // 2) + i)
    s = tl.load(sin + row * (D // 2) + i)
    tl.store(y + row * D + i, a * c - b * s)
    tl.store(y + row * D + D // 2 + i, b * c + a * s)


@TYPES
def test_rotary_embedding(target, dtype, rtol):
    cos, sin = jvp_check.random(5, 8).to(dtype), jvp_check.random(5, 8).to(dtype)

    def reference(x):
        a, b = x.chunk(2, 1)
        return torch.cat([a * cos.double() - b * sin.double(), b * cos.double() + a * sin.double()], 1)

    against(rope, (5, ), dict(x=jvp_check.random(5, 16), cos=cos, sin=sin, y=torch.zeros(5, 16)), ("x", ), "y", reference, rtol, dtype, D=16)


@nereid.jit
def embedding(table, index, y, D: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, D)
    tl.store(y + row * D + i, tl.load(table + tl.load(index + row) * D + i))


def test_embedding(target):
    index = torch.tensor([3, 1, 3, 0, 9])
    against(embedding, (5, ), dict(table=jvp_check.random(10, 16), index=index, y=torch.zeros(5, 16)), ("table", ), "y", lambda t: t[index], D=16)


@nereid.jit
def causal_conv(x, w, y, length, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    channel = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, ), x.dtype.element_ty)
    for k in tl.static_range(WIDTH):
        at = i - (WIDTH - 1) + k
        total += tl.load(x + channel * length + at, mask=(at >= 0) & (at < length), other=0.0) * tl.load(w + channel * WIDTH + k)
    tl.store(y + channel * length + i, total * tl.sigmoid(total), mask=i < length)


@TYPES
def test_causal_convolution(target, dtype, rtol):
    against(causal_conv, (3, ), dict(x=jvp_check.random(3, 25), w=jvp_check.random(3, 4), y=torch.zeros(3, 25), length=25), ("x", "w"), "y",
            lambda x, w: F.silu(F.conv1d(x[None], w[:, None], padding=3, groups=3)[0, :, :25]), rtol, dtype, WIDTH=4, BLOCK=32)


@nereid.jit
def _linear(a, x, b, y):
    return b * a, b * x + y


@nereid.jit
def selective_scan(x, delta, A, y, length, BLOCK: tl.constexpr):
    channel = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    d = tl.load(delta + channel * length + i, mask=i < length, other=0.0)
    u = tl.load(x + channel * length + i, mask=i < length, other=0.0)
    decay = tl.exp(d * tl.load(A + channel))
    _, state = tl.associative_scan((decay, d * u), 0, _linear)
    tl.store(y + channel * length + i, state, mask=i < length)


@TYPES
def test_selective_scan(target, dtype, rtol):

    def reference(x, delta, A):
        state, states = torch.zeros(3, dtype=F64), []
        for t in range(25):
            state = torch.exp(delta[:, t] * A) * state + delta[:, t] * x[:, t]
            states.append(state)
        return torch.stack(states, 1)

    against(selective_scan, (3, ), dict(x=jvp_check.random(3, 25), delta=jvp_check.random(3, 25, low=0.1, high=1.0), A=jvp_check.random(3, low=-1.0, high=-0.1),
                                        y=torch.zeros(3, 25), length=25), ("x", "delta", "A"), "y", reference, rtol, dtype, BLOCK=32)
