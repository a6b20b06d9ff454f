"""liger-kernel: losses, norms, activations and rotations of language models, with gradients."""

import torch
import torch.nn.functional as F

from host import case, gradients, rand, randint, randn, with_gradients

import liger_kernel.ops.mlp as liger_mlp
from liger_kernel.ops.mlp import LigerMLPFunction
from liger_kernel.transformers import functional as liger


def rms(x, w, eps=1e-6, offset=0.0):
    return x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps) * (w.float() + offset)


def rotate(q, cos, sin):
    half = q.shape[-1] // 2
    return q * cos + torch.cat([-q[..., half:], q[..., :half]], -1) * sin


def angles(length, size):
    angle = torch.arange(length)[:, None] * torch.exp(-torch.arange(0, size // 2) / size * 9)[None]
    return angle.cos().repeat(1, 2)[None].to(randn(1).device), angle.sin().repeat(1, 2)[None].to(randn(1).device)


gradients("swiglu", liger.liger_swiglu, lambda a, b: F.silu(a) * b, lambda: (randn(5, 300, grad=True), randn(5, 300, grad=True)))
gradients("geglu", liger.liger_geglu, lambda a, b: F.gelu(a, approximate="tanh") * b, lambda: (randn(5, 300, grad=True), randn(5, 300, grad=True)), tolerance=1e-4)
gradients("relu_squared", liger.liger_relu_squared, lambda x: F.relu(x).square(), lambda: (randn(5, 300, grad=True),))
gradients("rms_norm", lambda x, w: liger.liger_rms_norm(x, w, 1e-6, in_place=False), rms, lambda: (randn(7, 200, grad=True), randn(200, grad=True)))
gradients("rms_norm_gemma_bf16", lambda x, w: liger.liger_rms_norm(x, w, 1e-6, 1.0, "gemma", False), lambda x, w: rms(x, w, 1e-6, 1.0).to(x.dtype),
          lambda: (randn(64, 512, grad=True, dtype=torch.bfloat16), randn(512, grad=True, dtype=torch.bfloat16)), tolerance=2e-2)
gradients("layer_norm", lambda x, w, b: liger.liger_layer_norm(x, w, b, 1e-5), lambda x, w, b: F.layer_norm(x, (200,), w, b, 1e-5),
          lambda: (randn(9, 200, grad=True), randn(200, grad=True), randn(200, grad=True)), tolerance=1e-4)
gradients("fused_add_rms_norm", lambda x, r, w: liger.liger_fused_add_rms_norm(x, r, w, 1e-6, in_place=False), lambda x, r, w: (rms(x + r, w), x + r),
          lambda: (randn(6, 96, grad=True), randn(6, 96, grad=True), randn(96, grad=True)), tolerance=1e-4)
gradients("group_norm", lambda x, w, b: liger.liger_group_norm(x, w, b, 12, 4, 1e-5), lambda x, w, b: F.group_norm(x, 4, w, b, 1e-5),
          lambda: (randn(3, 12, 40, grad=True), randn(12, grad=True), randn(12, grad=True)), tolerance=1e-4)
gradients("softmax", liger.liger_softmax, lambda x: x.softmax(-1), lambda: (randn(6, 700, grad=True),))


def swiglu_mlp(x, gate, up, down):
    return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T


def mlp_case(name, dtype, tolerance, gpu_tolerance=None):
    """A whole block by the kernels on descriptors, tuned; the reference is computed in float32."""
    def run():
        values = [randn(2, 96, 128, dtype=dtype), *(randn(*shape, dtype=dtype, scale=0.1) for shape in ((256, 128), (256, 128), (128, 256)))]
        values = [value.requires_grad_() for value in values]
        wide = [value.detach().float().requires_grad_() for value in values]
        return with_gradients(LigerMLPFunction.apply, values), with_gradients(swiglu_mlp, wide)

    run.__name__ = name
    case(tolerance, gpu_tolerance)(run)


# Products of fp32 run in tf32. Blocks that the copy engine brings reach the matrix units as they are, which ignore their 13 low bits: of three products in a row
# 2.3e-3 is left (computed with truncated operands).
mlp_case("mlp", torch.float32, 2e-3, 4e-3)
mlp_case("mlp_bf16", torch.bfloat16, 2e-2)


@case(2e-3)
def mlp_input_gradient_in_every_configuration():
    """`_swiglu_kernel_backward_dI` in fp32: each of its configurations fits, those of 64x128x64 and 2 stages included."""
    from triton.tools.tensor_descriptor import TensorDescriptor
    kernel = liger_mlp._swiglu_kernel_backward_dI
    gate, up = randn(256, 128, scale=0.1), randn(256, 128, scale=0.1)
    both = randn(1, 192, 512)  # dG and dU beside each other
    d_gate, d_up = both[..., :256], both[..., 256:]
    expected, results = d_gate @ gate + d_up @ up, []
    for config in kernel.configs:
        m, n, k, group = (config.kwargs[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_SIZE_M"))
        result = torch.full((1, 192, 128), float("nan"), device=gate.device)
        tiles = -(-192 // m) * -(-128 // n)
        describe = lambda value, block: TensorDescriptor.from_tensor(value, block)
        kernel.fn[(tiles, 1)](describe(d_gate, [1, m, k]), describe(gate, [k, n]), describe(d_up, [1, m, k]), describe(up, [k, n]),
                              describe(result, [1, m, n]), 192, 128, 256, 0, BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, GROUP_SIZE_M=group,
                              num_warps=config.num_warps, num_stages=config.num_stages)
        results.append(result)
    assert len(results) == 32
    return results, [expected] * len(results)


@case(1e-4)
def dyt():
    values = (randn(2, 9, 128, grad=True), randn(1, grad=True), randn(128, grad=True), randn(128, grad=True))
    def reference(x, a, g, b):
        return g * torch.tanh(a * x) + b
    if values[0].device.type == "cpu":  # its gradient asks for the processors of a GPU
        return liger.liger_dyt(*values), reference(*values)
    return with_gradients(liger.liger_dyt, values), with_gradients(reference, values)


gradients("poly_norm", lambda x, w, b: liger.liger_poly_norm(x, w, b, 1e-6, False),
          lambda x, w, b: sum(w[i] * x ** (3 - i) * torch.rsqrt((x ** (3 - i)).square().mean(-1, keepdim=True) + 1e-6) for i in range(3)) + b,
          lambda: (randn(6, 96, grad=True), randn(3, grad=True), randn(1, grad=True).reshape(()).detach().requires_grad_()), tolerance=1e-4)
gradients("cross_entropy", lambda x, t: liger.liger_cross_entropy(x * 1.0, t, label_smoothing=0.1), lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
          lambda: (randn(9, 1000, grad=True), randint(0, 1000, 9)))
gradients("cross_entropy_weights_softcap", lambda x, t, w: liger.liger_cross_entropy(x * 1.0, t, w, softcap=5.0, ignore_index=3),
          lambda x, t, w: F.cross_entropy(5 * torch.tanh(x / 5), t, w, ignore_index=3), lambda: (randn(9, 70, grad=True), randint(0, 70, 9), rand(70)), tolerance=1e-4)
gradients("fused_linear_cross_entropy", lambda x, w, t: liger.liger_fused_linear_cross_entropy(x, w, t), lambda x, w, t: F.cross_entropy(x @ w.T, t),
          lambda: (randn(12, 64, grad=True), randn(300, 64, grad=True), randint(0, 300, 12)), tolerance=1e-4, gpu_tolerance=1e-2)
gradients("kl_div", lambda p, q: liger.liger_kl_div(p, q, reduction="batchmean"), lambda p, q: F.kl_div(p, q, reduction="batchmean"),
          lambda: (randn(6, 500).log_softmax(-1).requires_grad_(), randn(6, 500).softmax(-1)), tolerance=1e-4)
gradients("tvd", lambda p, q: liger.liger_tvd(p, q, reduction="batchmean"), lambda p, q: (p - q).abs().sum() / 2 / 6,
          lambda: (randn(6, 500).softmax(-1).requires_grad_(), randn(6, 500).softmax(-1)), tolerance=1e-4)


def jsd(p, q, beta=0.5):
    mean = beta * q.exp() + (1 - beta) * p.exp()
    return (beta * F.kl_div(mean.log(), q, reduction="sum", log_target=True) + (1 - beta) * F.kl_div(mean.log(), p, reduction="sum", log_target=True)) / p.shape[0]


gradients("jsd", lambda p, q: liger.liger_jsd(p, q), jsd, lambda: (randn(6, 500).log_softmax(-1).requires_grad_(), randn(6, 500).log_softmax(-1)), tolerance=1e-4)


def sparsemax(x):
    values, _ = x.sort(-1, descending=True)
    sums = values.cumsum(-1)
    count = (1 + torch.arange(1, x.shape[-1] + 1, device=x.device) * values > sums).sum(-1, keepdim=True)
    return (x - (sums.gather(-1, count - 1) - 1) / count).clamp(min=0)


gradients("sparsemax", liger.liger_sparsemax, sparsemax, lambda: (randn(7, 90, grad=True),), tolerance=1e-4)


@case(1e-5)
def rope():
    cos, sin = angles(20, 32)
    q, k = randn(2, 4, 20, 32, grad=True), randn(2, 2, 20, 32, grad=True)
    return (with_gradients(lambda q, k: liger.liger_rope(q, k, cos, sin), (q, k)),
            with_gradients(lambda q, k: (rotate(q, cos[:, None], sin[:, None]), rotate(k, cos[:, None], sin[:, None])), (q, k)))


@case(1e-4, 1e-2)
def fused_neighborhood_attention():
    q, k, v = (randn(1, 2, 32, 32, grad=True) for _ in range(3))
    def reference(q, k, v):
        i = torch.arange(32, device=q.device)
        near = (i[:, None] - i[None]).abs() <= 3
        scores = (q @ k.transpose(-1, -2)) / 32 ** 0.5
        return scores.masked_fill(~near, float("-inf")).softmax(-1) @ v
    return with_gradients(lambda q, k, v: liger.liger_fused_neighborhood_attention(q, k, v, 7), (q, k, v)), with_gradients(reference, (q, k, v))


@case(1e-4, 1e-2)
def multi_token_attention():
    scores, weight = randn(1, 2, 16, 16, grad=True), randn(2, 2, 3, 3, grad=True)
    def reference(scores, weight):
        lower = torch.ones(16, 16, device=scores.device).tril().bool()
        values = scores.masked_fill(~lower, float("-inf")).softmax(-1)
        return F.conv2d(values, weight, padding=1).masked_fill(~lower, 0.0)
    return (with_gradients(lambda s, w: liger.liger_multi_token_attention(s, w, padding=1), (scores, weight)), with_gradients(reference, (scores, weight)))


@case(1e-4)
def grpo_loss():
    from liger_kernel.ops.grpo_loss import fused_selective_log_softmax
    logits, ids = randn(2, 9, 60), randint(0, 60, 2, 8)
    actual = fused_selective_log_softmax(logits, ids, 0.9)
    return actual, (logits[:, :-1] / 0.9).log_softmax(-1).gather(-1, ids[..., None])[..., 0]


@case(1e-4)
def attn_res():
    values, query, weight = randn(4, 2, 6, 64, grad=True), randn(64, grad=True), randn(64, grad=True)
    from liger_kernel.ops.attn_res import LigerAttnResFunction
    def reference(values, query, weight):
        keys = rms(values, weight)
        return ((keys * query).sum(-1).softmax(0)[..., None] * values).sum(0)
    return (with_gradients(lambda *v: LigerAttnResFunction.apply(*v, 1e-6), (values, query, weight)), with_gradients(reference, (values, query, weight)))


@case(1e-4)
def llama4_rope():
    from liger_kernel.ops.llama4_rope import LigerLlama4RopeFunction
    q, k = randn(2, 6, 4, 32), randn(2, 6, 2, 32)
    angle = randn(6, 16)
    turn = torch.polar(torch.ones_like(angle), angle)
    def rotated(x):
        return torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * turn[None, :, None]).flatten(-2)
    return LigerLlama4RopeFunction.apply(q.clone(), k.clone(), turn), (rotated(q), rotated(k))
