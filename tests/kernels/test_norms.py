"""Normalisations: layer, RMS, group, batch, weight and L2 norms, with gradients by partial sums, locks and Welford's method."""

import nereid as triton
import nereid.language as tl
import pytest
import torch
from nereid.language.extra.cuda.libdevice import rsqrt as cuda_rsqrt
from nereid.language.extra.libdevice import rsqrt
from nereid.language.math import rsqrt as math_rsqrt
from reference import close

_CASTING_MODE_NONE: tl.constexpr = tl.constexpr(-1)
_CASTING_MODE_LLAMA: tl.constexpr = tl.constexpr(0)
_CASTING_MODE_GEMMA: tl.constexpr = tl.constexpr(1)


# ---- layer norm -------------------------------------------------------------------------------------


@triton.jit
def _layer_norm_fwd_fused(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    mean = 0
    _mean = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        a = tl.load(X + cols, mask=cols < N, other=0.).to(tl.float32)
        _mean += a
    mean = tl.sum(_mean, axis=0) / N
    _var = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        x = tl.load(X + cols, mask=cols < N, other=0.).to(tl.float32)
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
        x = tl.load(X + cols, mask=mask, other=0.).to(tl.float32)
        x_hat = (x - mean) * rstd
        y = x_hat * w + b
        tl.store(Y + cols, y, mask=mask)


@triton.jit
def _layer_norm_bwd_dx_fused(DX, DY, DW, DB, X, W, Mean, Rstd, Lock, stride, N, GROUP_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE_N)
    mask = cols < N
    X += row * stride
    DY += row * stride
    DX += row * stride
    lock_id = row % GROUP_SIZE_M
    Lock += lock_id
    Count = Lock + GROUP_SIZE_M
    DW = DW + lock_id * N + cols
    DB = DB + lock_id * N + cols
    x = tl.load(X + cols, mask=mask, other=0).to(tl.float32)
    dy = tl.load(DY + cols, mask=mask, other=0).to(tl.float32)
    w = tl.load(W + cols, mask=mask).to(tl.float32)
    mean = tl.load(Mean + row)
    rstd = tl.load(Rstd + row)
    xhat = (x - mean) * rstd
    wdy = w * dy
    xhat = tl.where(mask, xhat, 0.)
    wdy = tl.where(mask, wdy, 0.)
    c1 = tl.sum(xhat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    dx = (wdy - (xhat * c1 + c2)) * rstd
    tl.store(DX + cols, dx, mask=mask)
    partial_dw = (dy * xhat).to(w.dtype)
    partial_db = (dy).to(w.dtype)
    while tl.atomic_cas(Lock, 0, 1) == 1:
        pass
    count = tl.load(Count)
    if count == 0:
        tl.atomic_xchg(Count, 1)
    else:
        partial_dw += tl.load(DW, mask=mask)
        partial_db += tl.load(DB, mask=mask)
    tl.store(DW, partial_dw, mask=mask)
    tl.store(DB, partial_db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(Lock, 0)


@triton.jit
def _layer_norm_bwd_dwdb(DW, DB, FINAL_DW, FINAL_DB, M, N, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr):
    pid = tl.program_id(0)
    cols = pid * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    dw = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    db = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for i in range(0, M, BLOCK_SIZE_M):
        rows = i + tl.arange(0, BLOCK_SIZE_M)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        offs = rows[:, None] * N + cols[None, :]
        dw += tl.load(DW + offs, mask=mask, other=0.)
        db += tl.load(DB + offs, mask=mask, other=0.)
    sum_dw = tl.sum(dw, axis=0)
    sum_db = tl.sum(db, axis=0)
    tl.store(FINAL_DW + cols, sum_dw, mask=cols < N)
    tl.store(FINAL_DB + cols, sum_db, mask=cols < N)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_layer_norm_with_locks(dtype, target):
    M, N, G = 50, 150, 8
    x, w, b, dy = torch.randn(M, N).to(dtype), torch.rand(N).to(dtype), torch.rand(N).to(dtype), (torch.randn(M, N) * 0.1).to(dtype)
    y, mean, rstd = torch.empty_like(x), torch.empty(M), torch.empty(M)
    _layer_norm_fwd_fused[(M, )](x, y, w, b, mean, rstd, x.stride(0), N, 1e-5, BLOCK_SIZE=64, num_warps=2, num_ctas=1)
    leaves = [t.double().requires_grad_() for t in (x, w, b)]
    want = torch.nn.functional.layer_norm(leaves[0], (N, ), leaves[1], leaves[2], 1e-5)
    close(y, want, 8)
    want.backward(dy.double())
    locks = torch.zeros(2 * G, dtype=torch.int32)
    pw, pb, dw, db = torch.zeros(G, N).to(dtype), torch.zeros(G, N).to(dtype), torch.empty_like(w), torch.empty_like(b)
    dx = torch.empty_like(x)
    _layer_norm_bwd_dx_fused[(M, )](dx, dy, pw, pb, x, w, mean, rstd, locks, x.stride(0), N, BLOCK_SIZE_N=256, GROUP_SIZE_M=G, num_warps=4)
    grid = lambda meta: (triton.cdiv(N, meta['BLOCK_SIZE_N']), )
    _layer_norm_bwd_dwdb[grid](pw, pb, dw, db, min(G, M), N, BLOCK_SIZE_M=32, BLOCK_SIZE_N=128)
    for got, leaf in zip((dx, dw, db), leaves):
        close(got, leaf.grad, 64)


# ---- RMS norm ---------------------------------------------------------------------------------------


@triton.jit
def _rms_norm_forward_kernel(Y_ptr, Y_row_stride, X_ptr, X_row_stride, W_ptr, W_row_stride, RSTD_ptr, RSTD_row_stride, n_cols, eps,
                             offset, casting_mode: tl.constexpr, elementwise_affine: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    row_idx = tl.program_id(0).to(tl.int64)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    y_base = Y_ptr + row_idx * Y_row_stride
    x_base = X_ptr + row_idx * X_row_stride
    rstd_base = RSTD_ptr + row_idx * RSTD_row_stride
    X_row = tl.load(x_base + col_offsets, mask=mask, other=0)
    X_row_dtype = X_row.dtype
    if elementwise_affine:
        W_row = tl.load(W_ptr + col_offsets, mask=mask, other=0)
    # Llama: the inverse root in fp32. Gemma: everything.
    if casting_mode == _CASTING_MODE_LLAMA:
        X_row = X_row.to(tl.float32)
    if casting_mode == _CASTING_MODE_GEMMA:
        if elementwise_affine:
            W_row = W_row.to(tl.float32)
        X_row = X_row.to(tl.float32)
    if casting_mode == _CASTING_MODE_NONE:
        eps = eps.to(X_row_dtype)
        offset = offset.to(X_row_dtype)
    mean_square = tl.sum(X_row * X_row, axis=0) / n_cols
    rstd = rsqrt((mean_square + eps).to(tl.float32))
    tl.store(rstd_base, rstd)
    X_row = X_row * rstd
    if casting_mode == _CASTING_MODE_LLAMA:
        X_row = X_row.to(X_row_dtype)
    if elementwise_affine:
        Y_row = X_row * (offset + W_row)
    else:
        Y_row = X_row
    if casting_mode == _CASTING_MODE_GEMMA:
        Y_row = Y_row.to(X_row_dtype)
    tl.store(y_base + col_offsets, Y_row, mask=mask)


@triton.jit
def _rms_norm_backward_kernel(dY_ptr, dY_row_stride, dX_ptr, dX_row_stride, X_ptr, X_row_stride, X_dtype: tl.constexpr, W_ptr, RSTD_ptr,
                              dW_ptr, dW_row_stride, n_rows, n_cols, offset, rows_per_program, elementwise_affine: tl.constexpr,
                              BLOCK_SIZE: tl.constexpr):
    row_block_id = tl.program_id(0).to(tl.int64)
    row_start = row_block_id * rows_per_program
    row_end = min((row_block_id + 1) * rows_per_program, n_rows)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    if elementwise_affine:
        dW_row = tl.zeros((BLOCK_SIZE, ), dtype=tl.float32)
        W_row = tl.load(W_ptr + col_offsets, mask=mask, other=0.0)
        W_row = W_row + offset
    for row_idx in range(row_start, row_end):
        dY_row = tl.load(dY_ptr + row_idx * dY_row_stride + col_offsets, mask=mask, other=0.0)
        X_row = tl.load(X_ptr + row_idx * X_row_stride + col_offsets, mask=mask, other=0.0)
        rstd_row = tl.load(RSTD_ptr + row_idx)
        X_row = X_row.to(tl.float32)
        if elementwise_affine:
            m = (dY_row * W_row).to(tl.float32)
        else:
            m = dY_row.to(tl.float32)
        dX_row = rstd_row * m
        dX_row += (rstd_row) * (-(1 / n_cols) * rstd_row * rstd_row * tl.sum(m * X_row, axis=0) * X_row)
        if elementwise_affine:
            dW_row += dY_row * (X_row * rstd_row).to(X_dtype)
        tl.store(dX_ptr + row_idx * dX_row_stride + col_offsets, dX_row.to(X_dtype), mask=mask)
    if elementwise_affine:
        tl.store(dW_ptr + row_block_id * dW_row_stride + col_offsets, dW_row, mask=mask)


@pytest.mark.parametrize("mode", ["llama", "gemma", "none"])
@pytest.mark.parametrize("affine", [True, False])
def test_rms_norm(affine, mode, target):
    M, N, programs = 37, 200, 4
    dtype, tl_dtype = (torch.float32, tl.float32) if mode == "none" else (torch.bfloat16, tl.bfloat16)
    x, dy = torch.randn(M, N).to(dtype), torch.randn(M, N).to(dtype)
    w = torch.randn(N).to(dtype) if affine else None
    offset = 1.0 if mode == "gemma" else 0.0
    y, rstd, dx = torch.empty_like(x), torch.empty(M), torch.empty_like(x)
    mode_number = {"llama": _CASTING_MODE_LLAMA, "gemma": _CASTING_MODE_GEMMA, "none": _CASTING_MODE_NONE}[mode].value
    _rms_norm_forward_kernel[(M, )](y, y.stride(0), x, x.stride(0), w, w.stride(0) if affine else 0, rstd, rstd.stride(0), N, 1e-6, offset,
                                    mode_number, elementwise_affine=affine, BLOCK_SIZE=256, num_warps=4)
    leaves = [x.double().requires_grad_(), (w.double() if affine else torch.ones(N).double()).requires_grad_()]
    want = leaves[0] * (leaves[0].square().mean(1, keepdim=True) + 1e-6).rsqrt() * (leaves[1] + offset * affine)
    close(y, want, 8)
    close(rstd, (x.double().square().mean(1) + 1e-6).rsqrt(), 16)
    want.backward(dy.double())
    dw = torch.empty(programs, N) if affine else None
    _rms_norm_backward_kernel[(programs, )](dy, dy.stride(0), dx, dx.stride(0), x, x.stride(0), tl_dtype, w, rstd, dw,
                                            dw.stride(0) if affine else 0, M, N, offset, triton.cdiv(M, programs),
                                            elementwise_affine=affine, BLOCK_SIZE=256)
    close(dx, leaves[0].grad, 16)
    if affine:
        close(dw.sum(0), leaves[1].grad, 16, eps=2.0 ** -8 if mode != "none" else 2.0 ** -20)


@triton.jit(do_not_specialize=["eps"])
def fused_add_rms_norm_kernel(in_ptr, re_ptr, w_ptr, in_stride_r, in_stride_c, r_stride_r, r_stride_c, N, eps, BLOCK_SIZE: tl.constexpr):
    """input += residual; residual = that; input = its norm: in place."""
    if tl.constexpr(in_ptr.dtype.element_ty == tl.float16) or tl.constexpr(in_ptr.dtype.element_ty == tl.bfloat16):
        cdtype = tl.float32
    else:
        cdtype = in_ptr.dtype.element_ty
    pid = tl.program_id(0)
    in_ptr += pid * in_stride_r
    re_ptr += pid * r_stride_r
    mask = tl.arange(0, BLOCK_SIZE) < N
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(in_ptr + cols * in_stride_c, mask, other=0.0).to(cdtype)
    r = tl.load(re_ptr + cols * r_stride_c, mask, other=0.0).to(cdtype)
    x += r
    tl.store(re_ptr + cols * r_stride_c, x, mask=mask)
    var = tl.sum(x * x / N, axis=0)
    rrms = 1 / tl.sqrt(var + eps)
    w = tl.load(w_ptr + tl.arange(0, BLOCK_SIZE), mask=mask, other=0.0)
    y = (x * rrms).to(in_ptr.dtype.element_ty) * w
    tl.store(in_ptr + cols * in_stride_c, y, mask=mask)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_fused_add_rms_norm(dtype, target):
    x, r, w = torch.randn(9, 100).to(dtype), torch.randn(9, 100).to(dtype), torch.randn(100).to(dtype)
    y, s = x.clone(), r.clone()
    fused_add_rms_norm_kernel[(9, )](y, s, w, *y.stride(), *s.stride(), 100, 1e-5, BLOCK_SIZE=128)
    want = x.double() + r.double()
    close(s, want, 1)
    close(y, want * (want.square().mean(1, keepdim=True) + 1e-5).rsqrt() * w.double(), 4 if dtype == torch.float16 else 2.0 ** 30)


@triton.heuristics({"HAS_BIAS": lambda args: args["B"] is not None, "HAS_Z": lambda args: args["Z"] is not None})
@triton.jit
def gated_norm_kernel(X, Y, W, B, Z, Mean, Rstd, stride_x_row, stride_y_row, stride_z_row, M, N, eps, BLOCK_N: tl.constexpr,
                      HAS_BIAS: tl.constexpr, HAS_Z: tl.constexpr, NORM_BEFORE_GATE: tl.constexpr, IS_RMS_NORM: tl.constexpr):
    """Groups of columns by the second axis of the grid; a gate before or after the norm."""
    row = tl.program_id(0)
    group = tl.program_id(1)
    X += row * stride_x_row + group * N
    Y += row * stride_y_row + group * N
    if HAS_Z:
        Z += row * stride_z_row + group * N
    if not IS_RMS_NORM:
        Mean += group * M
    Rstd += group * M
    W += group * N
    if HAS_BIAS:
        B += group * N
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(X + cols, mask=cols < N, other=0.).to(tl.float32)
    if HAS_Z and not NORM_BEFORE_GATE:
        z = tl.load(Z + cols, mask=cols < N).to(tl.float32)
        x *= z * tl.sigmoid(z)
    if not IS_RMS_NORM:
        mean = tl.sum(x, axis=0) / N
        tl.store(Mean + row, mean)
        xbar = tl.where(cols < N, x - mean, 0.)
        var = tl.sum(xbar * xbar, axis=0) / N
    else:
        xbar = tl.where(cols < N, x, 0.)
        var = tl.sum(xbar * xbar, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    tl.store(Rstd + row, rstd)
    mask = cols < N
    w = tl.load(W + cols, mask=mask).to(tl.float32)
    if HAS_BIAS:
        b = tl.load(B + cols, mask=mask).to(tl.float32)
    x_hat = (x - mean) * rstd if not IS_RMS_NORM else x * rstd
    y = x_hat * w + b if HAS_BIAS else x_hat * w
    if HAS_Z and NORM_BEFORE_GATE:
        z = tl.load(Z + cols, mask=mask).to(tl.float32)
        y *= z * tl.sigmoid(z)
    tl.store(Y + cols, y, mask=mask)


@pytest.mark.parametrize("rms, gate, before", [(True, True, True), (True, True, False), (False, False, True)])
def test_gated_group_norm(rms, gate, before, target):
    M, N, G = 7, 40, 3
    x, z = torch.randn(M, G * N), torch.randn(M, G * N) if gate else None
    w, b = torch.randn(G * N), None if rms else torch.randn(G * N)
    y, mean, rstd = torch.empty_like(x), None if rms else torch.empty(G * M), torch.empty(G * M)
    gated_norm_kernel[(M, G)](x, y, w, b, z, mean, rstd, x.stride(0), y.stride(0), z.stride(0) if gate else 0, M, N, 1e-5, BLOCK_N=64,
                              NORM_BEFORE_GATE=before, IS_RMS_NORM=rms, num_warps=1)
    d = x.double()
    if gate and not before:
        d = d * torch.nn.functional.silu(z.double())
    d = d.view(M, G, N)
    want = d * (d.square().mean(2, keepdim=True) + 1e-5).rsqrt() if rms else torch.nn.functional.layer_norm(d, (N, ))
    want = want.reshape(M, -1) * w.double() + (0 if b is None else b.double())
    if gate and before:
        want = want * torch.nn.functional.silu(z.double())
    close(y, want, 32)


# ---- norms over other axes --------------------------------------------------------------------------


@triton.jit
def welford_func(mean_x, count_x, M_x, mean_y, count_y, M_y):
    count = count_x + count_y
    _count = tl.maximum(count, 1)
    mc_x = mean_x * count_x
    mc_y = mean_y * count_y
    mean = (mc_x + mc_y) / _count
    M = M_x + mc_x * mean_x + M_y + mc_y * mean_y - count * mean * mean
    return mean, count, M


@triton.jit(do_not_specialize=["correction"])
def var_mean_welford_kernel(X, Var, Mean, M, N, correction, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    pid = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    X = X + pid * N
    row_mask = pid < M
    _mean = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    _acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    _count = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for off in range(0, N, BLOCK_N):
        cols = off + tl.arange(0, BLOCK_N)[None, :]
        mask = row_mask and cols < N
        x = tl.load(X + cols, mask, other=0.0).to(tl.float32)
        count = _count + mask
        cnt = tl.maximum(count, 1)
        cur_mean = (_mean * _count + x) / cnt
        _acc += (x - cur_mean) * (x - _mean) * mask
        _mean = cur_mean
        _count = count
    mean, _, acc = tl.reduce((_mean, _count, _acc), axis=1, combine_fn=welford_func)
    var = acc / (N - correction)
    mean = mean[:, None]
    var = var[:, None]
    tl.store(Var + pid, var, row_mask)
    tl.store(Mean + pid, mean, row_mask)


@pytest.mark.parametrize("correction", [0, 1])
def test_variance_by_welford(correction, target):
    x = torch.randn(13, 333) + 5
    var, mean = torch.empty(13), torch.empty(13)
    var_mean_welford_kernel[(4, )](x, var, mean, 13, 333, correction, BLOCK_M=4, BLOCK_N=64)
    close(mean, x.double().mean(1), 16)
    close(var, x.double().var(1, correction=correction), 256)


@triton.jit
def batch_norm_forward_kernel(x, weight, bias, out, mean, inv_std, running_mean, running_var, batch_dim, spatial_dim, s_b, s_c, s_s,
                              momentum, eps, is_train: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    feat_pid = tl.program_id(axis=0)
    if is_train:
        mean_acc = 0.0
        var_acc = 0.0
        count = 0
        for m_step in range(0, tl.cdiv(batch_dim, BLOCK_M)):
            for n_step in range(0, tl.cdiv(spatial_dim, BLOCK_N)):
                spatial_offset = n_step * BLOCK_N + tl.arange(0, BLOCK_N)
                spatial_mask = spatial_offset < spatial_dim
                batch_offset = m_step * BLOCK_M + tl.arange(0, BLOCK_M)
                batch_mask = batch_offset < batch_dim
                curr = tl.load(x + s_c * feat_pid + s_b * batch_offset[:, None] + s_s * spatial_offset[None, :],
                               mask=batch_mask[:, None] & spatial_mask[None, :], other=0.).to(tl.float32)
                rows = min(BLOCK_M, batch_dim - m_step * BLOCK_M)
                cols = min(BLOCK_N, spatial_dim - n_step * BLOCK_N)
                curr_count = rows * cols
                count += curr_count
                prev_mean = mean_acc
                mean_acc += (tl.sum(curr) - curr_count * mean_acc) / count
                deltas = tl.where(batch_mask[:, None] & spatial_mask[None, :], (curr - mean_acc) * (curr - prev_mean), 0.)
                var_acc += tl.sum(deltas)
        var = var_acc / count
        inv = cuda_rsqrt(var + eps)
        tl.store(feat_pid + mean, mean_acc)
        tl.store(feat_pid + inv_std, inv)
        running_mean += feat_pid
        running_var += feat_pid
        old_mean = tl.load(running_mean)
        old_var = tl.load(running_var)
        tl.store(running_mean, (1 - momentum) * old_mean + momentum * mean_acc)
        tl.store(running_var, (1 - momentum) * old_var + momentum * var * count / (count - 1))
        the_mean = mean_acc
    else:
        the_mean = tl.load(feat_pid + running_mean)
        inv = math_rsqrt(tl.load(feat_pid + running_var) + eps)
    w = tl.load(feat_pid + weight) if weight is not None else 1.0
    b = tl.load(feat_pid + bias) if bias is not None else 0.0
    for m_step in range(0, tl.cdiv(batch_dim, BLOCK_M)):
        for n_step in range(0, tl.cdiv(spatial_dim, BLOCK_N)):
            batch_offset = m_step * BLOCK_M + tl.arange(0, BLOCK_M)
            spatial_offset = n_step * BLOCK_N + tl.arange(0, BLOCK_N)
            mask = (batch_offset < batch_dim)[:, None] & (spatial_offset < spatial_dim)[None, :]
            offs = s_c * feat_pid + s_b * batch_offset[:, None] + s_s * spatial_offset[None, :]
            curr = tl.load(x + offs, mask=mask).to(tl.float32)
            tl.store(out + offs, w * (curr - the_mean) * inv + b, mask=mask)


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm(affine, train, target):
    x = torch.randn(5, 6, 7, 3).transpose(2, 3)
    w, b = (torch.randn(6), torch.randn(6)) if affine else (None, None)
    running = [torch.randn(6), torch.rand(6) + 0.5]
    updated = [t.clone() for t in running]
    y, mean, inv = torch.empty_like(x), torch.empty(6), torch.empty(6)
    flat = x.transpose(2, 3).flatten(2)
    batch_norm_forward_kernel[(6, )](x, w, b, y, mean, inv, *updated, 5, 21, x.stride(0), x.stride(1), 1, 0.1, 1e-5, is_train=train,
                                     BLOCK_M=4, BLOCK_N=16)
    want_running = [t.double() for t in running]
    want = torch.nn.functional.batch_norm(flat.double(), *want_running, None if w is None else w.double(),
                                          None if b is None else b.double(), train, 0.1, 1e-5)
    close(y.transpose(2, 3).flatten(2), want, 64)
    for got, need in zip(updated, want_running):
        close(got, need, 32)


@triton.jit
def l2norm_bwd_kernel(X, DY, DX, stride_x_row, N, eps, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    X += row * stride_x_row
    DX += row * stride_x_row
    DY += row * stride_x_row
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
    x = tl.where(cols < N, x, 0.0)
    var = tl.sum(x * x)
    rstd = 1 / tl.sqrt(var + eps)
    mask = cols < N
    dy = tl.load(DY + cols, mask=cols < N, other=0.0).to(tl.float32)
    dy = tl.where(cols < N, dy, 0.0)
    dx = dy * rstd - tl.sum(dy * x) * (1 / (var + eps)) * rstd * x
    tl.store(DX + cols, dx, mask=mask)


def test_l2_norm_backward(target):
    x, dy = torch.randn(11, 50), torch.randn(11, 50)
    dx = torch.empty_like(x)
    l2norm_bwd_kernel[(11, )](x, dy, dx, x.stride(0), 50, 1e-6, BLOCK_N=64)
    leaf = x.double().requires_grad_()
    (leaf * (leaf.square().sum(1, keepdim=True) + 1e-6).rsqrt()).backward(dy.double())
    close(dx, leaf.grad, 64)


@triton.jit
def weight_norm_kernel_first(output, norm, v, g, M, N, eps, BLOCK_ROW_SIZE: tl.constexpr, BLOCK_COL_SIZE: tl.constexpr):
    tx = tl.arange(0, BLOCK_COL_SIZE)[None, :]
    by = tl.program_id(axis=0) * BLOCK_ROW_SIZE
    ty = by + tl.arange(0, BLOCK_ROW_SIZE)[:, None]
    row_mask = ty < M
    v_block = tl.zeros([BLOCK_ROW_SIZE, BLOCK_COL_SIZE], dtype=tl.float32)
    for base in range(0, N, BLOCK_COL_SIZE):
        col_offset = base + tx
        mask = col_offset < N and row_mask
        v_value = tl.load(v + ty * N + col_offset, mask=mask).to(tl.float32)
        v_value = tl.where(mask, v_value, 0.0)
        v_block += v_value * v_value
    normalized = tl.sqrt(tl.sum(v_block, axis=1) + eps)
    tl.store(norm + ty, normalized[:, None], mask=row_mask)
    g_value = tl.load(g + ty, mask=row_mask).to(tl.float32)
    for base in range(0, N, BLOCK_COL_SIZE):
        col_offset = base + tx
        mask = col_offset < N and row_mask
        v_value = tl.load(v + ty * N + col_offset, mask=mask).to(tl.float32)
        out = v_value / normalized[:, None] * g_value
        tl.store(output + ty * N + col_offset, out, mask=mask)


def test_weight_norm(target):
    v, g = torch.randn(21, 100), torch.randn(21, 1)
    y, norm = torch.empty_like(v), torch.empty(21, 1)
    weight_norm_kernel_first[(3, )](y, norm, v, g, 21, 100, eps=torch.finfo(torch.float32).tiny, BLOCK_ROW_SIZE=8, BLOCK_COL_SIZE=64)
    want = v.double().norm(dim=1, keepdim=True)
    close(norm, want)
    close(y, v.double() / want * g.double())
