"""Softmax and losses: online and in blocks, with gradients; cross entropy that overwrites its input, as training libraries do."""

import nereid as triton
import nereid.language as tl
import pytest
import torch
from nereid.language.extra import libdevice
from reference import close

MAX_FUSED_SIZE = tl.constexpr(2048)


@triton.jit
def prev_multiple_of(a, b):
    return tl.cdiv(a, b) * b - b


@triton.heuristics({"TILE_N": lambda args: min(MAX_FUSED_SIZE.value, triton.next_power_of_2(args["N"]) // args["PARTS"]),
                    "ONE_TILE_PER_CTA": lambda args: args["TILE_N"] >= args["N"],
                    "num_warps": lambda args: 4 if args["TILE_N"] < 1024 else 8})
@triton.jit
def softmax_kernel_inner(output_ptr, input_ptr, M, N, PARTS: tl.constexpr, TILE_N: tl.constexpr, ONE_TILE_PER_CTA: tl.constexpr):
    pid_m = tl.program_id(0)
    if ONE_TILE_PER_CTA:
        n_offsets = tl.arange(0, TILE_N)
        offset = pid_m * N + n_offsets
        mask = n_offsets < N
        inp = tl.load(input_ptr + offset, mask=mask, other=-float("inf")).to(output_ptr.dtype.element_ty)
        m = tl.max(inp, 0)
        e = tl.exp((inp - m).to(tl.float32))
        z = tl.sum(e, 0)
        out = e / z
        tl.store(output_ptr + offset, out, mask=mask)
    else:
        m = tl.full([TILE_N], value=float("-inf"), dtype=tl.float32)
        z = tl.full([TILE_N], value=0.0, dtype=tl.float32)
        input_ptr += pid_m * N
        output_ptr += pid_m * N
        previous_multiple = prev_multiple_of(N, TILE_N)
        for start_n in range(0, previous_multiple, TILE_N):
            n_offsets = start_n + tl.arange(0, TILE_N)
            inp = tl.load(input_ptr + n_offsets)
            m_new = tl.maximum(m, inp)
            all_neg_inf = m_new == float("-inf")
            z = tl.where(all_neg_inf, z, z * tl.exp(m - m_new) + tl.exp(inp - m_new))
            m = m_new
        for start_n in range(previous_multiple, N, TILE_N):
            n_offsets = start_n + tl.arange(0, TILE_N)
            mask = n_offsets < N
            inp = tl.load(input_ptr + n_offsets, mask=mask, other=-float("inf"))
            m_new = tl.maximum(m, inp)
            all_neg_inf = m_new == float("-inf")
            z = tl.where(all_neg_inf, z, z * tl.exp(m - m_new) + tl.exp(inp - m_new))
            m = m_new
        m_reduced = tl.max(m, 0)
        z = tl.sum(z * tl.exp(m - m_reduced), 0)
        m = m_reduced
        previous_multiple = prev_multiple_of(N, TILE_N)
        # Backwards: what was read last may still be in the cache.
        for start_n in range(0, TILE_N, TILE_N):
            n_offsets = (previous_multiple - start_n) + tl.arange(0, TILE_N)
            mask = n_offsets < N
            inp = tl.load(input_ptr + n_offsets, mask=mask, other=-float("inf"), eviction_policy="evict_first")
            o = tl.exp(inp - m) / z
            tl.store(output_ptr + n_offsets, o, mask=mask)
        for start_n in range(TILE_N, N, TILE_N):
            n_offsets = (previous_multiple - start_n) + tl.arange(0, TILE_N)
            inp = tl.load(input_ptr + n_offsets, eviction_policy="evict_first")
            o = tl.exp(inp - m) / z
            tl.store(output_ptr + n_offsets, o)


@pytest.mark.parametrize("rows, columns, parts", [(7, 100, 1), (3, 700, 4), (2, 257, 8)])
def test_softmax(rows, columns, parts, target):
    x = torch.randn(rows, columns) * 4
    x[0, : columns // 2] = -float("inf")
    y = torch.empty_like(x)
    softmax_kernel_inner[(rows, )](y, x, rows, columns, PARTS=parts)
    close(y, torch.softmax(x.double(), 1), 32)


@triton.jit
def softmax_along_first_axis(output_ptr, input_ptr, M, N, K, TILE_N: tl.constexpr, TILE_K: tl.constexpr):
    """Of (M, N, K) over N, several columns of K a program."""
    pid_k = tl.program_id(1)
    pid_m = tl.program_id(0)
    k_offsets = pid_k * TILE_K + tl.arange(0, TILE_K)
    m = tl.full([TILE_N, TILE_K], value=float("-inf"), dtype=tl.float32)
    z = tl.full([TILE_N, TILE_K], value=0.0, dtype=tl.float32)
    for start_n in range(0, N, TILE_N):
        n_offsets = start_n + tl.arange(0, TILE_N)
        offsets = pid_m * N * K + n_offsets[:, None] * K + k_offsets
        mask = (n_offsets[:, None] < N) & (k_offsets < K)
        inp = tl.load(input_ptr + offsets, mask=mask, other=-float("inf"))
        m_new = tl.maximum(m, inp)
        alpha = tl.where(m_new == float("-inf"), 1.0, tl.exp(m - m_new))
        z = z * alpha + tl.where(m_new == float("-inf"), 0.0, tl.exp(inp - m_new))
        m = m_new
    m_reduced = tl.max(m, 0)
    z = tl.sum(z * tl.exp(m - m_reduced[None, :]), 0)
    for start_n in range(0, N, TILE_N):
        n_offsets = start_n + tl.arange(0, TILE_N)
        offsets = pid_m * N * K + n_offsets[:, None] * K + k_offsets
        mask = (n_offsets[:, None] < N) & (k_offsets[None, :] < K)
        inp = tl.load(input_ptr + offsets, mask=mask, other=-float("inf"))
        tl.store(output_ptr + offsets, tl.exp(inp - m_reduced[None, :]) / z[None, :], mask=mask)


def test_softmax_along_a_strided_axis(target):
    x = torch.randn(2, 50, 37)
    y = torch.empty_like(x)
    softmax_along_first_axis[(2, 3)](y, x, 2, 50, 37, TILE_N=64, TILE_K=16)
    close(y, torch.softmax(x.double(), 1), 32)


@triton.jit
def log_softmax_backward_kernel(out_ptr, out_grad_ptr, in_grad_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m_offset = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    scale = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float64)
    for start in range(0, N, BLOCK_N):
        n_offset = start + tl.arange(0, BLOCK_N)
        offset = m_offset[:, None] * N + n_offset[None, :]
        mask = m_offset[:, None] < M and n_offset[None, :] < N
        scale += tl.load(out_grad_ptr + offset, mask=mask, other=0.0).to(tl.float64)
    scale = tl.sum(scale, axis=1, keep_dims=True)
    for start in range(0, N, BLOCK_N):
        n_offset = start + tl.arange(0, BLOCK_N)
        offset = m_offset[:, None] * N + n_offset[None, :]
        mask = m_offset[:, None] < M and n_offset[None, :] < N
        out = tl.load(out_ptr + offset, mask=mask)
        out_grad = tl.load(out_grad_ptr + offset, mask=mask)
        in_grad = out_grad - tl.exp(out.to(tl.float32)) * scale
        tl.store(in_grad_ptr + offset, in_grad, mask=mask)


def test_log_softmax_backward(target):
    x, dy = torch.randn(9, 150), torch.randn(9, 150)
    dx = torch.empty_like(x)
    leaf = x.double().requires_grad_()
    y = torch.log_softmax(leaf, 1)
    y.backward(dy.double())
    log_softmax_backward_kernel[(3, )](y.detach().float(), dy, dx, 9, 150, BLOCK_M=4, BLOCK_N=64)
    close(dx, leaf.grad, 32)


@triton.jit
def liger_cross_entropy_kernel(X_ptr, X_stride, Y_ptr, Y_stride, weight_ptr, loss_ptr, z_loss_ptr, loss_stride, n_cols, n_non_ignore,
                               sum_non_ignore_weight, weight_sum, ignore_index, lse_square_scale: tl.constexpr,
                               label_smoothing: tl.constexpr, reduction: tl.constexpr, softcap, RETURN_Z_LOSS: tl.constexpr,
                               BLOCK_SIZE: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_SOFTCAPPING: tl.constexpr,
                               HAS_GRADIENTS: tl.constexpr):
    """Loss of a row; its gradient overwrites the row."""
    program_id = tl.program_id(0).to(tl.int64)
    Y_ptr += program_id * Y_stride
    y = tl.load(Y_ptr)
    X_ptr += program_id * X_stride
    if y == ignore_index:
        for i in range(0, n_cols, BLOCK_SIZE):
            X_offsets = i + tl.arange(0, BLOCK_SIZE)
            tl.store(X_ptr + X_offsets, 0.0, mask=X_offsets < n_cols)
        return
    loss_ptr += program_id * loss_stride
    if RETURN_Z_LOSS:
        z_loss_ptr += program_id * loss_stride
    if HAS_WEIGHT:
        weight_y = tl.load(weight_ptr + y).cast(tl.float32)
    m = float("-inf")
    d = 0.0
    ori_X_y = tl.load(X_ptr + y).cast(tl.float32)
    if HAS_SOFTCAPPING:
        ori_X_y = softcap * libdevice.tanh(ori_X_y / softcap)
    scaled_x_sum = 0.0
    eps = label_smoothing / n_cols
    for i in range(0, n_cols, BLOCK_SIZE):
        X_offsets = i + tl.arange(0, BLOCK_SIZE)
        X_block = tl.load(X_ptr + X_offsets, mask=X_offsets < n_cols, other=float("-inf")).cast(tl.float32)
        if HAS_SOFTCAPPING:
            X_block = softcap * libdevice.tanh(X_block / softcap)
        block_max = tl.max(X_block)
        if label_smoothing > 0:
            if HAS_WEIGHT:
                weight_block = tl.load(weight_ptr + X_offsets, mask=X_offsets < n_cols)
                scaled_x_sum += tl.sum(tl.where(X_offsets < n_cols, -eps * X_block * weight_block, 0.0))
            else:
                scaled_x_sum += tl.sum(tl.where(X_offsets < n_cols, -eps * X_block, 0.0))
        m_new = tl.maximum(m, block_max)
        d = d * tl.exp(m - m_new) + tl.sum(tl.where(X_offsets < n_cols, tl.exp(X_block - m_new), 0.0))
        m = m_new
    lse = m + tl.log(d)
    if HAS_GRADIENTS:
        for i in range(0, n_cols, BLOCK_SIZE):
            X_offsets = i + tl.arange(0, BLOCK_SIZE)
            X_block = tl.load(X_ptr + X_offsets, mask=X_offsets < n_cols, other=float("-inf")).cast(tl.float32)
            if HAS_SOFTCAPPING:
                intermediate = libdevice.tanh(X_block / softcap)
                X_block = softcap * intermediate
            if not HAS_WEIGHT:
                X_block = tl.exp(X_block - m) / d
                X_block += 2 * lse_square_scale * lse * X_block
                X_block += -eps
                X_block = tl.where(X_offsets != y, X_block, X_block - (1 - label_smoothing))
                if reduction == "mean":
                    X_block = X_block / n_non_ignore
            else:
                weight_block = tl.load(weight_ptr + X_offsets, mask=X_offsets < n_cols)
                softmax_X = tl.exp(X_block - m) / d
                dloss_ori = (1 - label_smoothing) * softmax_X
                dloss_ori = tl.where(X_offsets != y, dloss_ori, dloss_ori - (1 - label_smoothing))
                dloss_ori = dloss_ori * weight_y
                dloss_smooth = eps * (-weight_block + softmax_X * weight_sum)
                dz_loss = 2 * lse_square_scale * lse * softmax_X
                if reduction == "mean":
                    dloss_ori = dloss_ori / sum_non_ignore_weight
                    dloss_smooth = dloss_smooth / sum_non_ignore_weight
                    dz_loss = dz_loss / n_non_ignore
                X_block = dloss_ori + dloss_smooth + dz_loss
            if HAS_SOFTCAPPING:
                X_block = X_block * (1 - intermediate * intermediate)
            tl.store(X_ptr + X_offsets, X_block, mask=X_offsets < n_cols)
        # Nobody reads what is overwritten before everybody has read it.
        tl.debug_barrier()
    loss = lse - ori_X_y
    if HAS_WEIGHT:
        loss = weight_y * loss
    if label_smoothing > 0:
        if HAS_WEIGHT:
            smooth_loss = scaled_x_sum + eps * lse * weight_sum
        else:
            smooth_loss = scaled_x_sum + label_smoothing * lse
        loss = loss * (1 - label_smoothing) + smooth_loss
    z_loss = lse_square_scale * lse * lse
    if reduction == "mean":
        if HAS_WEIGHT:
            loss = loss / sum_non_ignore_weight
        else:
            loss = loss / n_non_ignore
        z_loss = z_loss / n_non_ignore
    loss += z_loss
    tl.store(loss_ptr, loss)
    if RETURN_Z_LOSS:
        tl.store(z_loss_ptr, z_loss)


@pytest.mark.parametrize("weighted, smoothing, z, cap, reduction",
                         [(False, 0.0, 0.0, None, "mean"), (False, 0.1, 1e-3, None, "sum"), (True, 0.1, 0.0, None, "mean"),
                          (False, 0.0, 1e-2, 30.0, "mean")])
def test_cross_entropy_in_place(weighted, smoothing, z, cap, reduction, target):
    rows, columns, ignore = 13, 300, -100
    x, y = torch.randn(rows, columns) * 3, torch.randint(0, columns, (rows, ))
    y[2] = y[7] = ignore
    w = torch.rand(columns) + 0.5 if weighted else None
    kept = y != ignore
    weight_of_all = w[y[kept]].sum().item() if weighted else 0.0
    grad, loss, z_loss = x.clone(), torch.zeros(rows), torch.zeros(rows)
    liger_cross_entropy_kernel[(rows, )](
        X_ptr=grad, X_stride=grad.stride(-2), Y_ptr=y, Y_stride=y.stride(-1), weight_ptr=w, loss_ptr=loss, z_loss_ptr=z_loss,
        loss_stride=loss.stride(-1), n_cols=columns, n_non_ignore=int(kept.sum()), sum_non_ignore_weight=weight_of_all,
        weight_sum=w.sum().item() if weighted else 0.0, ignore_index=ignore, lse_square_scale=z, label_smoothing=smoothing,
        reduction=reduction, softcap=cap, RETURN_Z_LOSS=z > 0, BLOCK_SIZE=128, HAS_WEIGHT=weighted, HAS_SOFTCAPPING=cap is not None,
        HAS_GRADIENTS=True, num_warps=4)
    leaf = x.double().requires_grad_()
    logits = cap * torch.tanh(leaf / cap) if cap else leaf
    want = torch.nn.functional.cross_entropy(logits, y, None if w is None else w.double(), ignore_index=ignore, label_smoothing=smoothing,
                                             reduction=reduction)
    zs = z * torch.logsumexp(logits, 1)[kept].square()
    want = want + (zs.mean() if reduction == "mean" else zs.sum())
    want.backward()
    close(loss.sum(), want.detach(), 32)
    close(grad, leaf.grad, 64)


@triton.jit
def kldiv_kernel_forward(y_ptr, y_stride, gt_ptr, gt_stride, loss_ptr, loss_stride, n_cols, eps, BLOCK_SIZE: tl.constexpr,
                         log_target: tl.constexpr = False, reduction: tl.constexpr = 3):
    pid = tl.program_id(0).to(tl.int64)
    y_ptr += pid * y_stride
    gt_ptr += pid * gt_stride
    loss_ptr += pid * loss_stride
    base_offsets = tl.arange(0, BLOCK_SIZE)
    loss_sum = 0.0
    for i in range(0, n_cols, BLOCK_SIZE):
        offsets = i + base_offsets
        mask = offsets < n_cols
        y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
        y_true = tl.load(gt_ptr + offsets, mask=mask, other=0.0)
        if not log_target:
            loss = y_true * (tl.log(tl.maximum(y_true, eps)) - y)
        else:
            loss = tl.exp(y_true) * (y_true - y)
        if reduction == 0:
            tl.store(loss_ptr + offsets, loss, mask=mask)
        else:
            loss_sum += tl.sum(loss, axis=0)
    if reduction != 0:
        tl.store(loss_ptr, loss_sum)


@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("reduction", [0, 3])
def test_kl_divergence(reduction, log_target, target):
    y, gt = torch.log_softmax(torch.randn(6, 130), 1), torch.softmax(torch.randn(6, 130), 1)
    gt = gt.log() if log_target else gt
    loss = torch.empty(6, 130) if reduction == 0 else torch.empty(6)
    kldiv_kernel_forward[(6, )](y, 130, gt, 130, loss, loss.stride(0), 130, 1e-10, BLOCK_SIZE=64, log_target=log_target, reduction=reduction)
    want = torch.nn.functional.kl_div(y.double(), gt.double(), reduction="none", log_target=log_target)
    close(loss, want if reduction == 0 else want.sum(1), 64)


@triton.jit
def jsd_kernel(X_ptr, X_stride, Y_ptr, Y_stride, loss_ptr, loss_stride, dX_ptr, dX_stride, label_ptr, beta: tl.constexpr,
               n_non_ignore: int, ignore_index: tl.constexpr, n_cols, BLOCK_SIZE: tl.constexpr, HAS_LABEL: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    X_ptr += pid * X_stride
    dX_ptr += pid * dX_stride
    Y_ptr += pid * Y_stride
    loss_ptr += pid * loss_stride
    label_ptr += pid
    if HAS_LABEL:
        label = tl.load(label_ptr)
        if label == ignore_index:
            for i in range(0, n_cols, BLOCK_SIZE):
                offsets = i + tl.arange(0, BLOCK_SIZE)
                tl.store(dX_ptr + offsets, 0.0, mask=offsets < n_cols)
            return
    for i in range(0, n_cols, BLOCK_SIZE):
        offsets = i + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_cols
        X = tl.load(X_ptr + offsets, mask=mask, other=float("-inf")).to(tl.float32)
        Y = tl.load(Y_ptr + offsets, mask=mask, other=float("-inf")).to(tl.float32)
        if beta == 0.0:
            Y_prob = tl.exp(Y)
            loss = Y_prob * (Y - X)
            dX = -Y_prob
        elif beta == 1.0:
            X_prob = tl.exp(X)
            loss = X_prob * (X - Y)
            dX = loss + X_prob
        else:
            max_val = tl.maximum(tl.max(X, axis=0), tl.max(Y, axis=0))
            X_shifted = X - max_val
            Y_shifted = Y - max_val
            exp_max = tl.exp(max_val)
            Q = tl.exp(X_shifted) * exp_max
            P = tl.exp(Y_shifted) * exp_max
            M = beta * P + (1 - beta) * Q
            log_M = tl.log(M)
            loss = beta * P * Y + (1 - beta) * Q * X - M * log_M
            dX = (1 - beta) * Q * (X - log_M)
        scale = 1.0 / n_non_ignore
        loss = loss * scale
        dX = dX * scale
        tl.store(loss_ptr + offsets, loss, mask=mask)
        tl.store(dX_ptr + offsets, dX, mask=mask)


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_generalised_jensen_shannon(beta, target):
    x, y = torch.log_softmax(torch.randn(7, 100), 1), torch.log_softmax(torch.randn(7, 100), 1)
    labels = torch.tensor([0, 1, -100, 3, 4, 5, 6])
    loss, dx = torch.zeros(7, 100), torch.empty(7, 100)
    jsd_kernel[(7, )](x, 100, y, 100, loss, 100, dx, 100, labels, beta, 6, -100, 100, BLOCK_SIZE=128, HAS_LABEL=True)
    leaf, t = x.double().requires_grad_(), y.double()
    kl = lambda a, b: a.exp() * (a - b)
    if beta in (0.0, 1.0):
        rows = kl(t, leaf) if beta == 0.0 else kl(leaf, t)
    else:
        m = (beta * t.exp() + (1 - beta) * leaf.exp()).log()
        rows = beta * kl(t, m) + (1 - beta) * kl(leaf, m)
    want = rows[labels != -100].sum() / 6
    want.backward()
    close(loss.sum(), want.detach(), 32)
    close(dx, leaf.grad, 256)


@triton.jit
def nll_loss2d_forward_kernel(inp_ptr, tgt_ptr, wgt_ptr, out_ptr, total_ptr, ignore_index, N, C, D, reduction: tl.constexpr,
                              BLOCK_ND: tl.constexpr):
    pid_nd = tl.program_id(0)
    offset_nd = pid_nd * BLOCK_ND + tl.arange(0, BLOCK_ND)
    offset_d = offset_nd % D
    offset_n = offset_nd // D
    mask_block_nd = offset_nd < N * D
    tgt = tl.load(tgt_ptr + offset_nd, mask=mask_block_nd, other=0)
    assert tgt >= -1 and tgt < C, "target out of range"
    ignore_mask = not (tgt == ignore_index) and mask_block_nd
    wgt_tgt = ignore_mask.to(tl.float32) if wgt_ptr is None else tl.load(wgt_ptr + tgt, mask=ignore_mask, other=0).to(tl.float32)
    inp_tgt = tl.load(inp_ptr + offset_n * C * D + tgt * D + offset_d, mask=ignore_mask, other=0).to(tl.float32)
    out = inp_tgt * wgt_tgt * -1
    if reduction == 0:
        tl.store(out_ptr + offset_nd, out, mask=mask_block_nd)
    elif reduction == 1:
        tl.atomic_add(out_ptr, tl.sum(out), sem="relaxed")
        tl.atomic_add(total_ptr, tl.sum(wgt_tgt), sem="relaxed")
        tl.atomic_add(total_ptr + 1, 1, sem="release")
        counter = tl.load(total_ptr + 1)
        if counter == tl.num_programs(0):
            total_out = tl.load(out_ptr)
            total_wgt = tl.load(total_ptr)
            tl.store(out_ptr + 1, total_out / total_wgt)
    else:
        tl.atomic_add(out_ptr, tl.sum(out), sem="relaxed")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_nll_loss(reduction, weighted, target):
    N, C, D = 4, 11, 33
    x, y = torch.log_softmax(torch.randn(N, C, D), 1), torch.randint(0, C, (N, D))
    y[1, 5:9] = -1
    w = torch.rand(C) + 0.1 if weighted else None
    out, total = torch.zeros(N * D if reduction == 0 else 2), torch.zeros(2)
    nll_loss2d_forward_kernel[(triton.cdiv(N * D, 32), )](x, y, w, out, total, -1, N, C, D, reduction=reduction, BLOCK_ND=32)
    want = torch.nn.functional.nll_loss(x.double(), y, None if w is None else w.double(), ignore_index=-1,
                                        reduction=["none", "mean", "sum"][reduction])
    if reduction == 1:
        close(total[1], torch.tensor(5.0))
        close(out[0] / total[0], want, 64)
    else:
        close(out if reduction == 0 else out[0], want.flatten() if reduction == 0 else want, 64)


@triton.jit
def sigmoid_focal_loss_kernel(x_ptr, t_ptr, loss_ptr, dx_ptr, n, gamma: tl.constexpr, alpha: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    t = tl.load(t_ptr + offs, mask=mask).to(tl.float32)
    p = tl.sigmoid(x)
    # log(sigmoid(x)) without overflow
    softplus = tl.maximum(-x, 0.0) + libdevice.log1p(tl.exp(-tl.abs(x)))
    ce = softplus + (1.0 - t) * x
    p_t = p * t + (1.0 - p) * (1.0 - t)
    alpha_t = alpha * t + (1.0 - alpha) * (1.0 - t)
    modulation = libdevice.pow(1.0 - p_t, gamma)
    loss = alpha_t * modulation * ce
    sign = 2.0 * t - 1.0
    dx = alpha_t * sign * (-gamma * libdevice.pow(1.0 - p_t, gamma) * p_t * ce - modulation * (1.0 - p_t))
    tl.store(loss_ptr + offs, loss, mask=mask)
    tl.store(dx_ptr + offs, dx, mask=mask)


def test_focal_loss(target):
    x, t = torch.randn(300) * 3, (torch.rand(300) > 0.5).float()
    loss, dx = torch.empty(300), torch.empty(300)
    sigmoid_focal_loss_kernel[(2, )](x, t, loss, dx, 300, gamma=2.0, alpha=0.25, BLOCK=256)
    leaf, td = x.double().requires_grad_(), t.double()
    p = torch.sigmoid(leaf)
    pt = p * td + (1 - p) * (1 - td)
    want = (0.25 * td + 0.75 * (1 - td)) * (1 - pt) ** 2 * torch.nn.functional.binary_cross_entropy_with_logits(leaf, td, reduction="none")
    want.sum().backward()
    close(loss, want.detach(), 64)
    close(dx, leaf.grad, 64)
