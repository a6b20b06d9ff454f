"""The 25 kernels whose derivatives docs/differentiation.md lists by name: launches with small inputs, and the same function in PyTorch.

Most are written elsewhere, as authors of libraries write them, and imported unchanged; those that stand here have no other place. `CASES` maps the name of
a kernel to a function that gives a `Case`.
"""

import dataclasses
import math
import pathlib
import sys

import jvp_check
import nereid
import nereid.language as tl
import torch
import torch.nn.functional as F
from nereid.language.extra import libdevice

TESTS = pathlib.Path(__file__).resolve().parents[1]
for folder in (TESTS / "kernels", TESTS.parent / "examples" / "kernels"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

from seed import giou_kernel  # noqa: E402
from test_attention import _attn_fwd  # noqa: E402
from test_grad import swiglu  # noqa: E402
from test_jvp_kernels import attention, cross_entropy, embedding, geglu, rms_norm, rope, softmax  # noqa: E402
from test_linear_attention import causal_conv1d_fwd_kernel, chunk_fwd_kernel_h, chunk_fwd_kernel_o, fused_recurrent_fwd_kernel, selective_scan_kernel  # noqa: E402
from test_matmul import bmm_kernel, matmul_kernel, matmul_kernel_persistent  # noqa: E402
from test_norms import _layer_norm_fwd_fused, _rms_norm_forward_kernel, gated_norm_kernel  # noqa: E402
from test_softmax_loss import kldiv_kernel_forward, softmax_kernel_inner  # noqa: E402

EXACT, SINGLE = 1e-8, 5e-4  # tolerances of kernels that compute in the precision of their arguments, and of those that convert to fp32


@dataclasses.dataclass
class Case:
    """`reference` takes the tensors of `wrt`, in fp64, and gives those of `out`."""

    kernel: object
    grid: tuple
    arguments: dict
    wrt: tuple
    out: tuple
    reference: object
    tolerance: float = EXACT
    options: dict = dataclasses.field(default_factory=dict)
    refused: str = ""  # how reverse mode refuses it


def random(*shape, low=None, high=None):
    return jvp_check.random(*shape, low=low, high=high)


def zeros(*shape):
    return torch.zeros(*shape, dtype=torch.float64)


def _single(arguments):
    """For kernels whose accumulators are fp32."""
    return {name: value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.float64 else value for name, value in arguments.items()}


CASES = {}


def case(name):

    def add(function):
        CASES[name] = function
        return function

    return add


# ---- elementwise ---------------------------------------------------------------------------------------


@nereid.jit
def multiply_add(x, w, bias, y, rows, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    mask = (row < rows) & (column < columns)
    at = row * columns + column
    value = tl.load(x + at, mask=mask) * tl.load(w + at, mask=mask) + tl.load(bias + column, mask=column < columns)
    tl.store(y + at, value, mask=mask)


@case("add, multiply, bias")
def _():
    return Case(multiply_add, (2, 3), dict(x=random(13, 37), w=random(13, 37), bias=random(37), y=zeros(13, 37), rows=13, columns=37), ("x", "w", "bias"), ("y", ),
                lambda x, w, bias: x * w + bias, options=dict(BLOCK_M=8, BLOCK_N=16))


@nereid.jit
def gelu(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    tl.store(y + i, 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476)), mask=i < n)


@case("GELU")
def _():
    return Case(gelu, (4, ), dict(x=random(100), y=zeros(100), n=100), ("x", ), ("y", ), F.gelu, 1e-6, options=dict(BLOCK=32))


@case("SwiGLU")
def _():
    return Case(swiglu, (4, ), dict(gate=random(100), up=random(100), y=zeros(100), n=100), ("gate", "up"), ("y", ), lambda g, u: F.silu(g) * u, SINGLE,
                options=dict(BLOCK=32))


@case("GeGLU")
def _():
    return Case(geglu, (4, ), dict(gate=random(100), up=random(100), y=zeros(100), n=100), ("gate", "up"), ("y", ),
                lambda g, u: F.gelu(g, approximate="tanh") * u, 1e-6, options=dict(BLOCK=32))


@nereid.jit
def dropout(x, y, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    keep = tl.rand(seed, i) > p
    tl.store(y + i, tl.where(keep, value / (1 - p), 0.0), mask=i < n)


@case("dropout")
def _():
    kept = zeros(100)
    dropout[(4, )](torch.ones(100, dtype=torch.float64), kept, 100, 0.5, 123, BLOCK=32)
    return Case(dropout, (4, ), dict(x=random(100), y=zeros(100), n=100, p=0.5, seed=123), ("x", ), ("y", ), lambda x: x * kept, options=dict(BLOCK=32))


@case("rotary embedding")
def _():
    cos, sin = random(5, 8), random(5, 8)

    def reference(x):
        a, b = x.chunk(2, 1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], 1)

    return Case(rope, (5, ), dict(x=random(5, 16), cos=cos, sin=sin, y=zeros(5, 16)), ("x", ), ("y", ), reference, options=dict(D=16))


# ---- rows ----------------------------------------------------------------------------------------------


@case("softmax")
def _():
    return Case(softmax, (7, ), dict(Y=zeros(7, 131), stride_ym=131, stride_yn=1, X=random(7, 131), stride_xm=131, stride_xn=1, M=7, N=131), ("X", ), ("Y", ),
                lambda x: x.softmax(1))


@case("softmax of long rows")
def _():
    return Case(softmax_kernel_inner, (5, 1, 1), _single(dict(output_ptr=zeros(5, 100), input_ptr=random(5, 100), M=5, N=100)), ("input_ptr", ), ("output_ptr", ),
                lambda x: x.softmax(1), SINGLE, dict(PARTS=4, TILE_N=32, ONE_TILE_PER_CTA=False), "`output_ptr` is stored to in more than one place")


@nereid.jit
def log_softmax(x, y, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * stride
    i = tl.arange(0, BLOCK)
    value = tl.load(x + row + i, mask=i < n, other=-float("inf"))
    shifted = value - tl.max(value, 0)
    tl.store(y + row + i, shifted - tl.log(tl.sum(tl.exp(shifted), 0)), mask=i < n)


@case("log-softmax")
def _():
    return Case(log_softmax, (5, ), dict(x=random(5, 50), y=zeros(5, 50), stride=50, n=50), ("x", ), ("y", ), lambda x: x.log_softmax(1), options=dict(BLOCK=64))


@case("cross entropy with label smoothing")
def _():
    labels = torch.tensor([3, 0, 49, 7])
    return Case(cross_entropy, (4, ), dict(logits=random(4, 50), labels=labels, loss=zeros(4), N=50, smoothing=0.125), ("logits", ), ("loss", ),
                lambda x: F.cross_entropy(x, labels, reduction="none", label_smoothing=0.125), options=dict(BLOCK=64))


@nereid.jit
def cross_entropy_of_long_rows(logits, stride, labels, loss, n, ignored, smoothing, BLOCK: tl.constexpr):
    """One pass over the row, whose maximum and sum are kept up to date; rows with the label `ignored` have no loss."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    label = tl.load(labels + row)
    if label == ignored:
        tl.store(loss + row, 0.0)
        return
    wide: tl.constexpr = tl.float64 if logits.dtype.element_ty == tl.float64 else tl.float32
    largest = tl.full((), float("-inf"), wide)
    total = tl.zeros((), wide)
    sum_of_logits = tl.zeros((), wide)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(logits + i, mask=i < n, other=float("-inf")).to(wide)
        new = tl.maximum(largest, tl.max(x))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(x - new))
        sum_of_logits += tl.sum(tl.where(i < n, x, 0.0))
        largest = new
    log_sum_exp = largest + tl.log(total)
    chosen = tl.load(logits + label).to(wide)
    tl.store(loss + row, log_sum_exp - (1 - smoothing) * chosen - smoothing / n * sum_of_logits)


@case("cross entropy of long rows")
def _():
    labels = torch.tensor([3, 0, -100, 99])
    return Case(cross_entropy_of_long_rows, (4, ), dict(logits=random(4, 100), stride=100, labels=labels, loss=zeros(4), n=100, ignored=-100, smoothing=0.125), ("logits", ),
                ("loss", ), lambda x: F.cross_entropy(x, labels, reduction="none", label_smoothing=0.125), 1e-7, dict(BLOCK=32))


@case("KL divergence")
def _():
    y, gt = random(6, 130).log_softmax(1), random(6, 130).softmax(1)
    return Case(kldiv_kernel_forward, (6, ), dict(y_ptr=y, y_stride=130, gt_ptr=gt, gt_stride=130, loss_ptr=zeros(6, 130), loss_stride=130, n_cols=130, eps=1e-10),
                ("y_ptr", "gt_ptr"), ("loss_ptr", ), lambda y, gt: gt * (gt.log() - y), options=dict(BLOCK_SIZE=64, log_target=False, reduction=0))


@case("KL divergence, summed")
def _():
    y, gt = random(6, 130).log_softmax(1), random(6, 130).log_softmax(1)
    return Case(kldiv_kernel_forward, (6, ), _single(dict(y_ptr=y, y_stride=130, gt_ptr=gt, gt_stride=130, loss_ptr=zeros(6), loss_stride=1, n_cols=130, eps=1e-10)),
                ("y_ptr", "gt_ptr"), ("loss_ptr", ), lambda y, gt: (gt.exp() * (gt - y)).sum(1), SINGLE, dict(BLOCK_SIZE=64, log_target=True, reduction=3))


@nereid.jit
def focal_loss(x_ptr, target_ptr, loss_ptr, n, gamma: tl.constexpr, alpha: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    t = tl.load(target_ptr + i, mask=mask)
    p = tl.sigmoid(x)
    entropy = tl.maximum(-x, 0.0) + libdevice.log1p(tl.exp(-tl.abs(x))) + (1.0 - t) * x  # -log(sigmoid(x)) without overflow
    missed = 1.0 - (p * t + (1.0 - p) * (1.0 - t))
    tl.store(loss_ptr + i, (alpha * t + (1.0 - alpha) * (1.0 - t)) * libdevice.pow(missed, gamma) * entropy, mask=mask)


@case("focal loss")
def _():
    t = (random(300) > 0).double()

    def reference(x):
        p = x.sigmoid()
        pt = p * t + (1 - p) * (1 - t)
        return (0.25 * t + 0.75 * (1 - t)) * (1 - pt)**2 * F.binary_cross_entropy_with_logits(x, t, reduction="none")

    return Case(focal_loss, (2, ), dict(x_ptr=random(300), target_ptr=t, loss_ptr=zeros(300), n=300), ("x_ptr", ), ("loss_ptr", ), reference,
                1e-6, dict(gamma=2.0, alpha=0.25, BLOCK=256))


@case("GIoU")
def _():
    corner, size = random(64, 2, low=0.0, high=1.0), random(64, 2, low=0.5, high=1.5)
    boxes = torch.cat([corner, corner + size], 1)
    wanted = (boxes + 0.2 * random(64, 4)).float()
    wanted[::5] = 0.0

    def reference(predicted):
        left, top, right, bottom = predicted.unbind(-1)
        l, t, r, b = wanted.double().unbind(-1)
        inter = (torch.minimum(right, r) - torch.maximum(left, l)) * (torch.minimum(bottom, b) - torch.maximum(top, t))
        union = (right - left) * (bottom - top) + (r - l) * (b - t) - inter
        hull = (torch.maximum(right, r) - torch.minimum(left, l)) * (torch.maximum(bottom, b) - torch.minimum(top, t))
        return torch.where(b > 0, inter / union.clamp(min=1e-5) - (hull - union) / hull.clamp(min=1e-5), 0)

    return Case(giou_kernel, (4, ), dict(preds_ptr=boxes.float(), targets_ptr=wanted, output_ptr=torch.zeros(64), valid_ptr=torch.zeros(64, dtype=torch.bool)),
                ("preds_ptr", ), ("output_ptr", ), reference, SINGLE, dict(BLOCK_SIZE=16))


# ---- norms ---------------------------------------------------------------------------------------------


def _rms(x, eps):
    return x * torch.rsqrt((x * x).mean(1, keepdim=True) + eps)


@case("RMSNorm")
def _():
    return Case(_rms_norm_forward_kernel, (4, ),
                dict(Y_ptr=zeros(4, 50), Y_row_stride=50, X_ptr=random(4, 50), X_row_stride=50, W_ptr=random(50), W_row_stride=1, RSTD_ptr=zeros(4), RSTD_row_stride=1,
                     n_cols=50, eps=0.125, offset=1.0), ("X_ptr", "W_ptr"), ("Y_ptr", ), lambda x, w: _rms(x, 0.125) * (1 + w), SINGLE,
                dict(casting_mode=-1, elementwise_affine=True, BLOCK_SIZE=64))


@case("LayerNorm")
def _():
    return Case(_layer_norm_fwd_fused, (5, ), dict(X=random(5, 77), Y=zeros(5, 77), W=random(77), B=random(77), Mean=zeros(5), Rstd=zeros(5), stride=77, N=77, eps=0.125),
                ("X", "W", "B"), ("Y", ), lambda x, w, b: F.layer_norm(x, (77, ), w, b, 0.125), SINGLE, dict(BLOCK_SIZE=32))


@nereid.jit
def add_rms_norm(x, residual, weight, total, y, rstd, n, eps, BLOCK: tl.constexpr):
    """The sum is an output, too: the next layer's residual."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    mask = i < n
    s = tl.load(x + row * n + i, mask=mask, other=0.0) + tl.load(residual + row * n + i, mask=mask, other=0.0)
    tl.store(total + row * n + i, s, mask=mask)
    scale = tl.rsqrt(tl.sum(s * s, 0) / n + eps)
    tl.store(rstd + row, scale)
    tl.store(y + row * n + i, s * scale * tl.load(weight + i, mask=mask, other=0.0), mask=mask)


@case("fused add and RMSNorm")
def _():
    return Case(add_rms_norm, (4, ), dict(x=random(4, 50), residual=random(4, 50), weight=random(50), total=zeros(4, 50), y=zeros(4, 50), rstd=zeros(4), n=50, eps=0.125),
                ("x", "residual", "weight"), ("total", "y"), lambda x, r, w: (x + r, _rms(x + r, 0.125) * w), options=dict(BLOCK=64))


@nereid.jit
def group_norm(x, y, weight, bias, mean, rstd, channels, size, groups, eps, BLOCK: tl.constexpr):
    """One group of one image a program. A group's channels follow each other, so its mean is one of a contiguous piece."""
    image, group = tl.program_id(0), tl.program_id(1)
    of_group = channels // groups
    length = of_group * size
    first = image * channels * size + group * length
    total = 0.0
    squares = 0.0
    for start in range(0, length, BLOCK):
        i = start + tl.arange(0, BLOCK)
        value = tl.load(x + first + i, mask=i < length, other=0.0)
        total += tl.sum(value)
        squares += tl.sum(value * value)
    m = total / length
    scale = 1.0 / tl.sqrt(squares / length - m * m + eps)
    tl.store(mean + image * groups + group, m)
    tl.store(rstd + image * groups + group, scale)
    for channel in range(group * of_group, (group + 1) * of_group):
        w = tl.load(weight + channel)
        b = tl.load(bias + channel)
        row = (image * channels + channel) * size
        for start in range(0, size, BLOCK):
            i = start + tl.arange(0, BLOCK)
            value = tl.load(x + row + i, mask=i < size, other=0.0)
            tl.store(y + row + i, (value - m) * scale * w + b, mask=i < size)


@case("GroupNorm")
def _():
    return Case(group_norm, (2, 3), _single(dict(x=random(2, 6, 21), y=zeros(2, 6, 21), weight=random(6), bias=random(6), mean=zeros(2, 3), rstd=zeros(2, 3), channels=6,
                                                 size=21, groups=3, eps=0.125)), ("x", "weight", "bias"), ("y", ), lambda x, w, b: F.group_norm(x, 3, w, b, 0.125), SINGLE,
                dict(BLOCK=16))


@case("gated RMSNorm of groups")
def _():
    M, N, G = 7, 40, 3

    def reference(x, z, w):
        d = (x * F.silu(z)).view(M, G, N)
        return (d * (d.square().mean(2, keepdim=True) + 0.125).rsqrt()).reshape(M, -1) * w

    return Case(gated_norm_kernel, (M, G), dict(X=random(M, G * N), Y=zeros(M, G * N), W=random(G * N), B=None, Z=random(M, G * N), Mean=None, Rstd=zeros(G * M),
                                                stride_x_row=G * N, stride_y_row=G * N, stride_z_row=G * N, M=M, N=N, eps=0.125), ("X", "Z", "W"), ("Y", ), reference,
                SINGLE, dict(BLOCK_N=64, HAS_BIAS=False, HAS_Z=True, NORM_BEFORE_GATE=False, IS_RMS_NORM=True))


@nereid.jit
def l2_norm(x, y, rows, n, eps, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    i = tl.arange(0, BLOCK_N)[None, :]
    mask = (row < rows) & (i < n)
    value = tl.load(x + row * n + i, mask=mask, other=0.0)
    tl.store(y + row * n + i, value * tl.rsqrt(tl.sum(value * value, 1) + eps)[:, None], mask=mask)


@case("L2 norm")
def _():
    return Case(l2_norm, (2, ), dict(x=random(7, 50), y=zeros(7, 50), rows=7, n=50, eps=0.125), ("x", ), ("y", ),
                lambda x: x * torch.rsqrt((x * x).sum(1, keepdim=True) + 0.125), options=dict(BLOCK_M=4, BLOCK_N=64))


# ---- products ------------------------------------------------------------------------------------------


def _product(M, N, K, bias):
    return dict(a_ptr=random(M, K), b_ptr=random(K, N), c_ptr=zeros(M, N), bias_ptr=random(N) if bias else None, M=M, N=N, K=K, stride_am=K, stride_ak=1, stride_bk=N,
                stride_bn=1, stride_cm=N, stride_cn=1)


_TILES = dict(BLOCK_SIZE_M=16, BLOCK_SIZE_N=16, BLOCK_SIZE_K=16, GROUP_SIZE_M=2)


@case("matrix product")
def _():
    return Case(matmul_kernel, (6, ), _single(_product(37, 29, 41, False)), ("a_ptr", "b_ptr"), ("c_ptr", ), torch.matmul, SINGLE,
                _TILES | dict(EVEN_K=False, HAS_BIAS=False, ACTIVATION=""))


@case("matrix product with bias and activation")
def _():
    return Case(matmul_kernel, (6, ), _single(_product(37, 29, 41, True)), ("a_ptr", "b_ptr", "bias_ptr"), ("c_ptr", ), lambda a, b, bias: F.leaky_relu(a @ b + bias), SINGLE,
                _TILES | dict(EVEN_K=False, HAS_BIAS=True, ACTIVATION="leaky_relu"))


@case("persistent matrix product")
def _():
    arguments = _single(_product(37, 29, 41, False))
    del arguments["bias_ptr"]
    return Case(matmul_kernel_persistent, (4, ), arguments, ("a_ptr", "b_ptr"), ("c_ptr", ), torch.matmul, SINGLE, _TILES | dict(NUM_SMS=4),
                "`c_ptr` is stored to in a loop, and that its rounds store to different elements is not proven")


@case("batched matrix product")
def _():
    m, n, k = 33, 20, 40
    return Case(bmm_kernel, (2, 1, 3), _single(dict(A=random(3, m, k), B=random(3, k, n), O=zeros(3, m, n), M=m, N=n, K=k, stride_ab=m * k, stride_bb=k * n)), ("A", "B"), ("O", ),
                torch.bmm, SINGLE, dict(TILE_M=32, TILE_N=32, TILE_K=16, DIVISIBLE_M=False, DIVISIBLE_N=False, DIVISIBLE_K=False))


# ---- attention -----------------------------------------------------------------------------------------


@case("causal attention")
def _():
    heads, length, D = 2, 40, 16
    causal = ~torch.ones(length, length).tril().bool()
    return Case(attention, (3, heads), dict(**{name: random(heads, length, D) for name in "QKV"}, Out=zeros(heads, length, D), M=zeros(heads, length), stride_h=length * D,
                                            stride_n=D, scale=0.25, heads=heads, length=length), ("Q", "K", "V"), ("Out", ),
                lambda q, k, v: (q @ k.transpose(1, 2) * 0.25).masked_fill(causal, -math.inf).softmax(2) @ v, 1e-6, dict(BM=16, BN=16, D=D, CAUSAL=True))


@case("causal attention of grouped queries")
def _():
    Z, H, H_KV, length, D = 1, 4, 2, 40, 16
    causal = ~torch.ones(length, length).tril().bool()

    def reference(q, k, v):
        k, v = k.repeat_interleave(H // H_KV, 1), v.repeat_interleave(H // H_KV, 1)
        return (q @ k.transpose(2, 3) * 0.25).masked_fill(causal, -math.inf).softmax(3) @ v

    q, k, v, out = random(Z, H, length, D), random(Z, H_KV, length, D), random(Z, H_KV, length, D), zeros(Z, H, length, D)
    strides = {f"stride_{name}{axis}": tensor.stride(i) for name, tensor in (("q", q), ("k", k), ("v", v), ("o", out))
               for i, axis in enumerate(("z", "h", "n" if name in "kv" else "m"))}
    return Case(_attn_fwd, (3, Z * H), _single(dict(Q=q, K=k, V=v, Out=out, Lse=zeros(Z, H, length), sm_scale=0.25, softcap=0.0, AlibiSlopes=None, cu_seqlens_q=None,
                                                    cu_seqlens_k=None, **strides, H=H, H_KV=H_KV, seqlen_q=length, seqlen_k=length, window=0, D=D)), ("Q", "K", "V"),
                ("Out", ), reference, SINGLE,
                dict(IS_CAUSAL=True, SLIDING_WINDOW=False, USE_ALIBI=False, USE_SOFTCAP=False, VARLEN=False, BLOCK_M=16, BLOCK_N=16, BLOCK_D=16))


# ---- others --------------------------------------------------------------------------------------------


@case("embedding")
def _():
    index = torch.tensor([3, 1, 3, 0, 9])
    return Case(embedding, (5, ), dict(table=random(10, 16), index=index, y=zeros(5, 16)), ("table", ), ("y", ), lambda t: t[index], options=dict(D=16))


@nereid.jit
def embedding_of_blocks(table, index, y, tokens, width, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    token = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    row = tl.load(index + token, mask=token < tokens, other=0)
    mask = (token < tokens)[:, None] & (column < width)[None, :]
    tl.store(y + token[:, None] * width + column[None, :], tl.load(table + row[:, None] * width + column[None, :], mask=mask), mask=mask)


@case("embedding of blocks")
def _():
    index = torch.tensor([3, 1, 3, 0, 9, 9, 2])
    return Case(embedding_of_blocks, (2, 2), dict(table=random(10, 20), index=index, y=zeros(7, 20), tokens=7, width=20), ("table", ), ("y", ), lambda t: t[index],
                options=dict(BLOCK_M=4, BLOCK_N=16))


@case("causal convolution")
def _():
    B, T, D, W = 2, 37, 20, 4

    def reference(x, w, b, residual):
        return F.silu(F.conv1d(F.pad(x.transpose(1, 2), (W - 1, 0)), w[:, None], b, groups=D).transpose(1, 2)) + residual

    return Case(causal_conv1d_fwd_kernel, (2, 3, B), dict(x=random(B, T, D), y=zeros(B, T, D), weight=random(D, W), bias=random(D), residual=random(B, T, D), T=T),
                ("x", "weight", "bias", "residual"), ("y", ), reference, SINGLE,
                dict(D=D, W=W, BT=16, BW=4, BD=16, ACTIVATION="silu", HAS_WEIGHT=True, HAS_BIAS=True, HAS_RESIDUAL=True))


@case("selective scan")
def _():
    batch, L, D, N = 2, 45, 3, 8

    def reference(x, dt, A, Bt, Ct):
        s, rows = torch.zeros(batch, D, N, dtype=torch.float64), []
        delta, decay = F.softplus(dt), -A.exp()
        for t in range(L):
            s = s * (delta[:, t, :, None] * decay).exp() + (delta[:, t] * x[:, t])[..., None] * Bt[:, t, None]
            rows.append((s * Ct[:, t, None]).sum(-1))
        return torch.stack(rows, 1)

    return Case(selective_scan_kernel, (D, batch), _single(dict(x_ptr=random(batch, L, D), dt_ptr=random(batch, L, D), A_ptr=random(D, N) * 0.3, B_ptr=random(batch, L, N),
                                                                C_ptr=random(batch, L, N), y_ptr=zeros(batch, L, D), L=L)), ("x_ptr", "dt_ptr", "A_ptr", "B_ptr", "C_ptr"),
                ("y_ptr", ), reference, SINGLE, dict(D=D, N=N, BL=16))


def _gated(q, k, v, g, scale):
    """o_t = scale q_t S_t with S_t = exp(g_t) S_{t-1} + k_t v_t."""
    state, rows = torch.zeros(*k.shape[::2], k.shape[3], v.shape[3], dtype=k.dtype), []
    state = torch.zeros(k.shape[0], k.shape[2], k.shape[3], v.shape[3], dtype=k.dtype)
    for t in range(k.shape[1]):
        state = state * g[:, t, :, None, None].exp() + k[:, t, :, :, None] * v[:, t, :, None, :]
        rows.append((q[:, t, :, :, None] * state).sum(2) * scale)
    return torch.stack(rows, 1), state


@case("gated linear attention, step by step")
def _():
    B, T, H, K, V = 2, 13, 2, 8, 12
    return Case(fused_recurrent_fwd_kernel, (2, B * H), _single(dict(q=random(B, T, H, K), k=random(B, T, H, K), v=random(B, T, H, V), g=-random(B, T, H, low=0.1, high=1.0),
                                                                     o=zeros(B, T, H, V), h0=None, ht=zeros(B, H, K, V), scale=0.25, B=B, T=T)), ("q", "k", "v", "g"),
                ("o", "ht"), lambda q, k, v, g: _gated(q, k, v, g, 0.25), SINGLE,
                dict(H=H, K=K, V=V, BK=8, BV=8, REVERSE=False, USE_G=True, USE_INITIAL_STATE=False, STORE_FINAL_STATE=True))


def _chunks(T, BT):
    """Of logarithms of decay: their sums within chunks."""
    return lambda g: torch.cat([part.cumsum(1) for part in g.split(BT, 1)], 1)


@case("chunked gated linear attention, states")
def _():
    B, T, H, K, V, BT = 2, 40, 2, 16, 16, 16
    chunks = -(-T // BT)

    def reference(k, v, g):
        states = torch.zeros(B, H, K, V, dtype=torch.float64)
        rows = []
        for n in range(chunks):
            rows.append(states)
            part = slice(n * BT, min((n + 1) * BT, T))
            last = g[:, part][:, -1]
            weight = (last[:, None] - g[:, part]).exp()
            states = states * last[:, :, None, None].exp() + torch.einsum("bthk,bthv,bth->bhkv", k[:, part], v[:, part], weight)
        return torch.stack(rows, 1), states

    g = _chunks(T, BT)(-random(B, T, H, low=0.0, high=0.2))
    return Case(chunk_fwd_kernel_h, (1, 1, B * H), _single(dict(k=random(B, T, H, K), v=random(B, T, H, V), h=zeros(B, chunks, H, K, V), g=g, h0=None, ht=zeros(B, H, K, V), T=T)),
                ("k", "v", "g"), ("h", "ht"), reference, SINGLE,
                dict(H=H, K=K, V=V, BT=BT, BK=16, BV=16, USE_G=True, USE_INITIAL_STATE=False, STORE_FINAL_STATE=True))


@case("chunked gated linear attention, outputs")
def _():
    B, T, H, K, V, BT = 2, 40, 2, 16, 16, 16
    chunks = -(-T // BT)

    def reference(q, k, v, h, g):
        rows = []
        for n in range(chunks):
            part = slice(n * BT, min((n + 1) * BT, T))
            qs, ks, vs, gs = q[:, part], k[:, part], v[:, part], g[:, part]
            inner = torch.einsum("bthk,bshk->bhts", qs, ks) * (gs[:, :, None] - gs[:, None]).permute(0, 3, 1, 2).exp()
            inner = inner.masked_fill(~torch.ones(inner.shape[2:]).tril().bool(), 0.0)
            outer = torch.einsum("bthk,bhkv->bthv", qs, h[:, n]) * gs.exp()[..., None]
            rows.append((outer + torch.einsum("bhts,bshv->bthv", inner, vs)) * 0.25)
        return torch.cat(rows, 1)

    g = _chunks(T, BT)(-random(B, T, H, low=0.0, high=0.2))
    return Case(chunk_fwd_kernel_o, (1, chunks, B * H), _single(dict(q=random(B, T, H, K), k=random(B, T, H, K), v=random(B, T, H, V), h=random(B, chunks, H, K, V), g=g,
                                                                     o=zeros(B, T, H, V), scale=0.25, T=T)), ("q", "k", "v", "h", "g"), ("o", ), reference, SINGLE,
                dict(H=H, K=K, V=V, BT=BT, BK=16, BV=16, USE_G=True))
