"""mamba-ssm: state-space scans by chunks, one step, gated norms, against the package's own references."""

import torch
import torch.nn.functional as F

from host import case, gradients, rand, randn, with_gradients


@case(1e-4)
def selective_state_update():
    from mamba_ssm.ops.triton.selective_state_update import selective_state_update, selective_state_update_ref
    state, x, dt = randn(2, 64, 16), randn(2, 64), randn(2, 64)
    A, B, C, D, z, bias = -rand(64, 16) - 1, randn(2, 16), randn(2, 16), randn(64), randn(2, 64), rand(64) - 4
    left, right = state.clone(), state.clone()
    return ((selective_state_update(left, x, dt, A, B, C, D=D, z=z, dt_bias=bias, dt_softplus=True), left),
            (selective_state_update_ref(right, x, dt, A, B, C, D=D, z=z, dt_bias=bias, dt_softplus=True), right))


@case(2e-3, 2e-2)
def chunk_scan_combined():
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined, ssd_selective_scan
    values = (randn(1, 128, 2, 32, grad=True), (F.softplus(randn(1, 128, 2) - 2)).requires_grad_(), (-rand(2) - 0.5).requires_grad_(), randn(1, 128, 1, 32, grad=True),
              randn(1, 128, 1, 32, grad=True))
    def reference(x, dt, A, B, C):
        state, out = x.new_zeros(1, 2, 32, 32), []
        for step in range(128):
            state = state * (dt[:, step] * A).exp()[..., None, None] + (dt[:, step, :, None] * x[:, step])[..., None] * B[:, step, 0][:, None, None]
            out.append((state * C[:, step, 0][:, None, None]).sum(-1))
        return torch.stack(out, 1)
    return with_gradients(lambda *v: mamba_chunk_scan_combined(*v, 64), values), with_gradients(reference, values)


def norms(module, name):
    def import_it():
        import importlib
        return importlib.import_module(module)
    gradients(f"{name}_layer_norm", lambda x, w, b: import_it().layer_norm_fn(x, w, b, eps=1e-5), lambda x, w, b: F.layer_norm(x, (96,), w, b, 1e-5),
              lambda: (randn(9, 96, grad=True), randn(96, grad=True), randn(96, grad=True)), tolerance=1e-4)
    gradients(f"{name}_rms_norm_residual", lambda x, r, w: import_it().rms_norm_fn(x, w, None, residual=r, eps=1e-5, prenorm=True),
              lambda x, r, w: ((x + r) * torch.rsqrt((x + r).square().mean(-1, keepdim=True) + 1e-5) * w, x + r),
              lambda: (randn(9, 96, grad=True), randn(9, 96, grad=True), randn(96, grad=True)), tolerance=1e-4)


norms("mamba_ssm.ops.triton.layer_norm", "plain")


@case(1e-4)
def rms_norm_gated():
    from mamba_ssm.ops.triton.layernorm_gated import rms_norm_ref, rmsnorm_fn
    values = (randn(9, 128, grad=True), randn(128, grad=True), randn(9, 128, grad=True))
    return (with_gradients(lambda x, w, z: rmsnorm_fn(x, w, None, z=z, eps=1e-5, group_size=64), values),
            with_gradients(lambda x, w, z: rms_norm_ref(x, w, None, z=z, eps=1e-5, group_size=64), values))


@case(1e-4)
def swiglu():
    from mamba_ssm.ops.triton.k_activations import swiglu
    values = (randn(9, 128, grad=True),)
    return with_gradients(swiglu, values), with_gradients(lambda xy: F.silu(xy[:, :64]) * xy[:, 64:], values)
