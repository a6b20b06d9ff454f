"""flash-attn: rotary embeddings, losses and norms, with gradients. (`flash_attn_triton.py` is for a Triton before 3.0: `tl.dot(..., trans_b=True)`.)"""

import torch
import torch.nn.functional as F

from host import case, gradients, randint, randn, with_gradients


def rotate(x, cos, sin, interleaved):
    if interleaved:
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def rotary(interleaved):
    def run():
        from flash_attn.ops.triton.rotary import apply_rotary
        x, angle = randn(2, 20, 4, 32), randn(20, 16)
        cos, sin = angle.cos(), angle.sin()
        return apply_rotary(x, cos, sin, interleaved=interleaved), rotate(x, cos[:, None], sin[:, None], interleaved)
    return run


case(1e-4, name="rotary")(rotary(False))
case(1e-4, name="rotary_interleaved")(rotary(True))


@case(1e-4)
def cross_entropy():
    from flash_attn.ops.triton.cross_entropy import cross_entropy_loss
    values = (randn(9, 500, grad=True), randint(0, 500, 9))
    return (with_gradients(lambda x, t: cross_entropy_loss(x, t, label_smoothing=0.1)[0], values),
            with_gradients(lambda x, t: F.cross_entropy(x, t, reduction="none", label_smoothing=0.1), values))


def norm(function):
    def run(*values):
        import flash_attn.ops.triton.layer_norm as module
        return function(module, *values)
    return run


gradients("layer_norm", norm(lambda module, x, w, b: module.layer_norm_fn(x, w, b, eps=1e-5)), lambda x, w, b: F.layer_norm(x, (96,), w, b, 1e-5),
          lambda: (randn(9, 96, grad=True), randn(96, grad=True), randn(96, grad=True)), tolerance=1e-4)
gradients("rms_norm_residual_zero_centred", norm(lambda module, x, r, w: module.rms_norm_fn(x, w, None, residual=r, eps=1e-5, prenorm=True, zero_centered_weight=True)),
          lambda x, r, w: ((x + r) * torch.rsqrt((x + r).square().mean(-1, keepdim=True) + 1e-5) * (w + 1), x + r),
          lambda: (randn(9, 96, grad=True), randn(9, 96, grad=True), randn(96, grad=True)), tolerance=1e-4)
