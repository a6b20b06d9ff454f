"""State-space models and recurrences: the chunk scans of a selective state space with their gradients, inverses of triangular blocks,
recurrences with matrix states forwards and backwards, decayed attention."""

import nereid as triton
import nereid.language as tl
import pytest
import torch
from reference import close

# ---- a selective state space by chunks --------------------------------------------------------------


@triton.jit
def softplus(x):
    return tl.where(x <= 20.0, tl.math.log(tl.math.exp(x) + 1), x)


def _configs():
    return [triton.Config({'BLOCK_SIZE_H': h}, num_warps=w) for h, w in ((1, 2), (2, 4))]


@triton.autotune(configs=_configs(), key=['chunk_size', 'nheads'])
@triton.jit
def chunk_cumsum_fwd_kernel(dt_ptr, A_ptr, dt_bias_ptr, dt_out_ptr, dA_cumsum_ptr, batch, seqlen, nheads, chunk_size, dt_min, dt_max,
                            stride_dt_batch, stride_dt_seqlen, stride_dt_head, stride_A_head, stride_bias_head, stride_out_batch,
                            stride_out_chunk, stride_out_head, stride_out_csize, stride_dA_batch, stride_dA_chunk, stride_dA_head,
                            stride_dA_csize, DT_SOFTPLUS: tl.constexpr, HAS_DT_BIAS: tl.constexpr, BLOCK_SIZE_H: tl.constexpr,
                            BLOCK_SIZE_CHUNK: tl.constexpr):
    pid_b, pid_c, pid_h = tl.program_id(axis=0), tl.program_id(axis=1).to(tl.int64), tl.program_id(axis=2)
    dt_ptr += pid_b * stride_dt_batch + pid_c * chunk_size * stride_dt_seqlen
    dt_out_ptr += pid_b * stride_out_batch + pid_c * stride_out_chunk
    dA_cumsum_ptr += pid_b * stride_dA_batch + pid_c * stride_dA_chunk
    offs_h = pid_h * BLOCK_SIZE_H + tl.arange(0, BLOCK_SIZE_H)
    offs_c = tl.arange(0, BLOCK_SIZE_CHUNK)
    A = tl.load(A_ptr + offs_h * stride_A_head, mask=offs_h < nheads, other=0.0).to(tl.float32)
    chunk_size_limit = min(chunk_size, seqlen - pid_c * chunk_size)
    inside = (offs_h[:, None] < nheads) & (offs_c[None, :] < chunk_size_limit)
    dt = tl.load(dt_ptr + (offs_h[:, None] * stride_dt_head + offs_c[None, :] * stride_dt_seqlen), mask=inside, other=0.0).to(tl.float32)
    if HAS_DT_BIAS:
        dt += tl.load(dt_bias_ptr + offs_h * stride_bias_head, mask=offs_h < nheads, other=0.0).to(tl.float32)[:, None]
    if DT_SOFTPLUS:
        dt = softplus(dt)
    dt = tl.minimum(tl.maximum(dt, dt_min), dt_max)
    dt = tl.where(inside, dt, 0.0)
    written = (offs_h[:, None] < nheads) & (offs_c[None, :] < chunk_size)
    tl.store(dt_out_ptr + (offs_h[:, None] * stride_out_head + offs_c[None, :] * stride_out_csize), dt, mask=written)
    tl.store(dA_cumsum_ptr + (offs_h[:, None] * stride_dA_head + offs_c[None, :] * stride_dA_csize), tl.cumsum(dt * A[:, None], axis=1),
             mask=written)


@triton.jit
def chunk_state_fwd_kernel(x_ptr, b_ptr, states_ptr, dt_ptr, dA_cumsum_ptr, hdim, dstate, chunk_size, seqlen, nheads_ngroups_ratio,
                           stride_x_batch, stride_x_seqlen, stride_x_head, stride_x_hdim, stride_b_batch, stride_b_seqlen, stride_b_group,
                           stride_b_dstate, stride_states_batch, stride_states_chunk, stride_states_head, stride_states_hdim,
                           stride_states_dstate, stride_dt_batch, stride_dt_chunk, stride_dt_head, stride_dt_csize, nchunks,
                           BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr):
    pid_bc = tl.program_id(1).to(tl.int64)
    pid_c, pid_b = pid_bc % nchunks, pid_bc // nchunks
    pid_h = tl.program_id(2)
    num_pid_n = tl.cdiv(dstate, BLOCK_SIZE_N)
    pid_m, pid_n = tl.program_id(0) // num_pid_n, tl.program_id(0) % num_pid_n
    b_ptr += pid_b * stride_b_batch + pid_c * chunk_size * stride_b_seqlen + (pid_h // nheads_ngroups_ratio) * stride_b_group
    x_ptr += pid_b * stride_x_batch + pid_c * chunk_size * stride_x_seqlen + pid_h * stride_x_head
    dt_ptr += pid_b * stride_dt_batch + pid_c * stride_dt_chunk + pid_h * stride_dt_head
    dA_cumsum_ptr += pid_b * stride_dt_batch + pid_c * stride_dt_chunk + pid_h * stride_dt_head
    offs_m = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_n = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    x_ptrs = x_ptr + (offs_m[:, None] * stride_x_hdim + offs_k[None, :] * stride_x_seqlen)
    b_ptrs = b_ptr + (offs_n[None, :] * stride_b_dstate + offs_k[:, None] * stride_b_seqlen)
    dt_ptrs = dt_ptr + offs_k * stride_dt_csize
    dA_cs_last = tl.load(dA_cumsum_ptr + (chunk_size - 1) * stride_dt_csize).to(tl.float32)
    dA_cumsum_ptrs = dA_cumsum_ptr + offs_k * stride_dt_csize
    chunk_size_limit = min(chunk_size, seqlen - pid_c * chunk_size)
    acc = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, chunk_size_limit, BLOCK_SIZE_K):
        x = tl.load(x_ptrs, mask=(offs_m[:, None] < hdim) & (offs_k[None, :] < chunk_size_limit - k), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_k[:, None] < chunk_size_limit - k) & (offs_n[None, :] < dstate), other=0.0).to(tl.float32)
        dA_cs_k = tl.load(dA_cumsum_ptrs, mask=offs_k < chunk_size_limit - k, other=0.0).to(tl.float32)
        dt_k = tl.load(dt_ptrs, mask=offs_k < chunk_size_limit - k, other=0.0).to(tl.float32)
        b *= (tl.exp(tl.minimum(dA_cs_last - dA_cs_k, 0.0)) * dt_k)[:, None]
        acc += tl.dot(x, b.to(x_ptr.dtype.element_ty))
        x_ptrs += BLOCK_SIZE_K * stride_x_seqlen
        b_ptrs += BLOCK_SIZE_K * stride_b_seqlen
        dt_ptrs += BLOCK_SIZE_K * stride_dt_csize
        dA_cumsum_ptrs += BLOCK_SIZE_K * stride_dt_csize
    states_ptr += pid_b * stride_states_batch + pid_c * stride_states_chunk + pid_h * stride_states_head
    tl.store(states_ptr + (offs_m[:, None] * stride_states_hdim + offs_n[None, :] * stride_states_dstate),
             acc.to(states_ptr.dtype.element_ty), mask=(offs_m[:, None] < hdim) & (offs_n[None, :] < dstate))


@triton.jit
def state_passing_fwd_kernel(states_ptr, out_ptr, final_ptr, dA_cs_ptr, init_ptr, dim, nchunks, nheads, chunk_size, HAS_INITSTATES: tl.constexpr,
                             BLOCK_SIZE: tl.constexpr):
    pid_b, pid_h, pid_m = tl.program_id(1), tl.program_id(2), tl.program_id(0)
    offs_m = pid_m * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    states_ptrs = states_ptr + (pid_b * nchunks * nheads + pid_h) * dim + offs_m
    out_ptrs = out_ptr + (pid_b * nchunks * nheads + pid_h) * dim + offs_m
    dA_cs_ptr += (pid_b * nchunks * nheads + pid_h) * chunk_size + chunk_size - 1
    if not HAS_INITSTATES:
        states = tl.zeros((BLOCK_SIZE, ), dtype=tl.float32)
    else:
        states = tl.load(init_ptr + (pid_b * nheads + pid_h) * dim + offs_m, mask=offs_m < dim, other=0.0).to(tl.float32)
    tl.store(out_ptrs, states, mask=offs_m < dim)
    out_ptrs += nheads * dim
    for c in range(nchunks):
        new_states = tl.load(states_ptrs, mask=offs_m < dim, other=0.0).to(tl.float32)
        states = tl.exp(tl.load(dA_cs_ptr).to(tl.float32)) * states + new_states
        if c < nchunks - 1:
            tl.store(out_ptrs, states, mask=offs_m < dim)
        else:
            tl.store(final_ptr + (pid_b * nheads + pid_h) * dim + offs_m, states, mask=offs_m < dim)
        states_ptrs += nheads * dim
        dA_cs_ptr += nheads * chunk_size
        out_ptrs += nheads * dim


@triton.jit
def chunk_scan_fwd_kernel(c_ptr, b_ptr, x_ptr, z_ptr, out_ptr, out_x_ptr, dt_ptr, dA_ptr, prev_ptr, D_ptr, chunk_size, hdim, dstate, seqlen,
                          nchunks, nheads, nheads_ngroups_ratio, stride_x_batch, stride_x_seqlen, stride_x_head, stride_b_batch,
                          stride_b_seqlen, stride_b_group, HAS_D: tl.constexpr, D_HAS_HDIM: tl.constexpr, HAS_Z: tl.constexpr,
                          BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, BLOCK_SIZE_DSTATE: tl.constexpr):
    pid_b, pid_c = tl.program_id(1) // nchunks, tl.program_id(1) % nchunks
    pid_h = tl.program_id(2)
    num_pid_n = tl.cdiv(hdim, BLOCK_SIZE_N)
    pid_m, pid_n = tl.program_id(0) // num_pid_n, tl.program_id(0) % num_pid_n
    limit = min(chunk_size, seqlen - pid_c * chunk_size)
    x_ptr += pid_b * stride_x_batch + pid_c * chunk_size * stride_x_seqlen + pid_h * stride_x_head
    group = pid_b * stride_b_batch + pid_c * chunk_size * stride_b_seqlen + (pid_h // nheads_ngroups_ratio) * stride_b_group
    b_ptr += group
    c_ptr += group
    dA_ptr += ((pid_b * nchunks + pid_c) * nheads + pid_h) * chunk_size
    dt_ptr += ((pid_b * nchunks + pid_c) * nheads + pid_h) * chunk_size
    prev_ptr += ((pid_b * nchunks + pid_c) * nheads + pid_h) * hdim * dstate
    offs_m = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_n = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    offs_s = tl.arange(0, BLOCK_SIZE_DSTATE)
    dA_cs_m = tl.load(dA_ptr + offs_m, mask=offs_m < limit, other=0.0).to(tl.float32)
    C = tl.load(c_ptr + (offs_m[:, None] * stride_b_seqlen + offs_s[None, :]), mask=(offs_m[:, None] < limit) & (offs_s[None, :] < dstate), other=0.0)
    prev = tl.load(prev_ptr + (offs_n[None, :] * dstate + offs_s[:, None]), mask=(offs_s[:, None] < dstate) & (offs_n[None, :] < hdim), other=0.0)
    acc = tl.dot(C, prev.to(C.dtype)) * tl.exp(dA_cs_m)[:, None]
    K_MAX = min((pid_m + 1) * BLOCK_SIZE_M, limit)
    for k in range(0, K_MAX, BLOCK_SIZE_K):
        offs_k = k + tl.arange(0, BLOCK_SIZE_K)
        B = tl.load(b_ptr + (offs_k[None, :] * stride_b_seqlen + offs_s[:, None]),
                    mask=(offs_k[None, :] < limit) & (offs_s[:, None] < dstate), other=0.0)
        cb = tl.dot(C, B)
        dA_cs_k = tl.load(dA_ptr + offs_k, mask=offs_k < limit, other=0.0).to(tl.float32)
        cb *= tl.exp(tl.minimum(dA_cs_m[:, None] - dA_cs_k[None, :], 0.0))
        cb *= tl.load(dt_ptr + offs_k, mask=offs_k < limit, other=0.0).to(tl.float32)
        cb = tl.where(offs_m[:, None] >= offs_k[None, :], cb, 0.0).to(x_ptr.dtype.element_ty)
        x = tl.load(x_ptr + (offs_k[:, None] * stride_x_seqlen + offs_n[None, :]), mask=(offs_k[:, None] < limit) & (offs_n[None, :] < hdim), other=0.0)
        acc = tl.dot(cb, x, acc)
    mask = (offs_m[:, None] < limit) & (offs_n[None, :] < hdim)
    if HAS_D:
        if D_HAS_HDIM:
            D = tl.load(D_ptr + pid_h * hdim + offs_n, mask=offs_n < hdim, other=0.0).to(tl.float32)
        else:
            D = tl.load(D_ptr + pid_h).to(tl.float32)
        acc += tl.load(x_ptr + (offs_m[:, None] * stride_x_seqlen + offs_n[None, :]), mask=mask, other=0.0).to(tl.float32) * D
    out = (pid_b * seqlen + pid_c * chunk_size) * nheads * hdim + pid_h * hdim + (offs_m[:, None] * nheads * hdim + offs_n[None, :])
    if HAS_Z:
        tl.store(out_x_ptr + out, acc, mask=mask)
        z = tl.load(z_ptr + out, mask=mask, other=0.0).to(tl.float32)
        acc *= z * tl.sigmoid(z)
    tl.store(out_ptr + out, acc, mask=mask)


def ssd_reference(x, dt, A, B, C, D, z, init, bias):
    x, dt, A, B, C, D = (t.double() for t in (x, dt, A, B, C, D))
    b, t, h, p = x.shape
    dt = torch.nn.functional.softplus(dt + bias.double()).clamp(0.01, 5.0)
    B, C = (m.repeat_interleave(h // m.shape[2], dim=2) for m in (B, C))
    state = init.double().clone() if init is not None else x.new_zeros(b, h, p, B.shape[-1])
    out = []
    for i in range(t):
        state = state * torch.exp(dt[:, i] * A)[..., None, None] + (dt[:, i, :, None] * x[:, i])[..., None] * B[:, i, :, None]
        out.append((state * C[:, i, :, None]).sum(-1) + x[:, i] * (D if D.dim() == 2 else D[:, None]))
    out = torch.stack(out, 1)
    return out * torch.nn.functional.silu(z.double()) if z is not None else out, state


def ssd_forward(x, dt, A, B, C, D, z, init, bias, chunk):
    batch, seqlen, nheads, hdim = x.shape
    ngroups, dstate = B.shape[2:]
    nchunks = triton.cdiv(seqlen, chunk)
    dt_out = torch.empty(batch, nchunks, nheads, chunk)
    dA = torch.empty_like(dt_out)
    grid = lambda META: (batch, nchunks, triton.cdiv(nheads, META['BLOCK_SIZE_H']))
    chunk_cumsum_fwd_kernel[grid](dt, A, bias, dt_out, dA, batch, seqlen, nheads, chunk, 0.01, 5.0, *dt.stride(), A.stride(0), bias.stride(0),
                                  *dt_out.stride(), *dA.stride(), True, HAS_DT_BIAS=bias is not None,
                                  BLOCK_SIZE_CHUNK=triton.next_power_of_2(chunk))
    states = torch.empty(batch, nchunks, nheads, hdim, dstate)
    chunk_state_fwd_kernel[(triton.cdiv(hdim, 16) * triton.cdiv(dstate, 16), batch * nchunks, nheads)](
        x, B, states, dt_out, dA, hdim, dstate, chunk, seqlen, nheads // ngroups, *x.stride(), *B.stride(), *states.stride(),
        *dt_out.stride(), nchunks, BLOCK_SIZE_M=16, BLOCK_SIZE_N=16, BLOCK_SIZE_K=16)
    prev, final = torch.empty_like(states), torch.empty(batch, nheads, hdim, dstate)
    state_passing_fwd_kernel[(triton.cdiv(hdim * dstate, 128), batch, nheads)](
        states, prev, final, dA, init, hdim * dstate, nchunks, nheads, chunk, HAS_INITSTATES=init is not None, BLOCK_SIZE=128)
    out, out_x = torch.empty(batch, seqlen, nheads, hdim, dtype=x.dtype), torch.empty(batch, seqlen, nheads, hdim) if z is not None else None
    chunk_scan_fwd_kernel[(triton.cdiv(chunk, 16) * triton.cdiv(hdim, 16), batch * nchunks, nheads)](
        C, B, x, z, out, out_x, dt_out, dA, prev, D, chunk, hdim, dstate, seqlen, nchunks, nheads, nheads // ngroups, *x.stride()[:3], *B.stride()[:3],
        D is not None, D_HAS_HDIM=D.dim() == 2, HAS_Z=z is not None, BLOCK_SIZE_M=16, BLOCK_SIZE_N=16, BLOCK_SIZE_K=16,
        BLOCK_SIZE_DSTATE=max(triton.next_power_of_2(dstate), 16), num_stages=2)
    return out, final, dt_out, dA


@pytest.mark.parametrize("gated,dtype", [(True, torch.float32), (False, torch.bfloat16)])
def test_state_space_by_chunks(gated, dtype, target):
    batch, seqlen, nheads, hdim, ngroups, dstate = 2, 45, 4, 20, 2, 12
    x = torch.randn(batch, seqlen, nheads, hdim + 4, dtype=dtype)[..., :hdim]
    dt, A, bias = torch.randn(batch, seqlen, nheads, dtype=dtype), -torch.rand(nheads), torch.randn(nheads)
    B, C = (torch.randn(batch, seqlen, ngroups, dstate, dtype=dtype) for _ in range(2))
    D = torch.randn(nheads, hdim) if gated else torch.randn(nheads)
    z = torch.randn(batch, seqlen, nheads, hdim) if gated else None
    init = torch.randn(batch, nheads, hdim, dstate) if gated else None
    out, final, _, _ = ssd_forward(x, dt, A, B, C, D, z, init, bias, 32)
    want, want_final = ssd_reference(x, dt, A, B, C, D, z, init, bias)
    eps = 2.0**-10 if dtype == torch.float32 else 2.0**-7
    close(out, want, 16, eps=eps)
    close(final, want_final, 16, eps=eps)


@triton.jit
def chunk_scan_bwd_dx_kernel(dout_ptr, c_ptr, b_ptr, x_ptr, dt_ptr, dA_ptr, dx_ptr, ddt_ptr, dD_ptr, D_ptr, seqlen, chunk, hdim, dstate, nheads,
                             nchunks, stride_dout_batch, stride_dout_seqlen, stride_dout_head, stride_dout_hdim, M: tl.constexpr,
                             N: tl.constexpr, S: tl.constexpr):
    """Gradients inside of a chunk; those of the step sizes are summed over tiles by atomics."""
    pid_b, pid_c = tl.program_id(1) // nchunks, tl.program_id(1) % nchunks
    pid_h, pid_n = tl.program_id(2), tl.program_id(0)
    rows = tl.arange(0, M)
    limit = min(chunk, seqlen - pid_c * chunk)
    n, s = pid_n * N + tl.arange(0, N), tl.arange(0, S)
    start = pid_b * seqlen + pid_c * chunk
    rn = (rows[:, None] < limit) & (n[None, :] < hdim)
    rs = (rows[:, None] < limit) & (s[None, :] < dstate)
    dout_ptr += pid_b * stride_dout_batch + pid_c * chunk * stride_dout_seqlen + pid_h * stride_dout_head
    dout = tl.load(dout_ptr + rows[:, None] * stride_dout_seqlen + n[None, :] * stride_dout_hdim, mask=rn, other=0.0)
    where = ((start + rows) * nheads + pid_h)
    x = tl.load(x_ptr + where[:, None] * hdim + n[None, :], mask=rn, other=0.0)
    C = tl.load(c_ptr + where[:, None] * dstate + s[None, :], mask=rs, other=0.0)
    B = tl.load(b_ptr + where[:, None] * dstate + s[None, :], mask=rs, other=0.0)
    scalars = ((pid_b * nchunks + pid_c) * nheads + pid_h) * chunk
    dA = tl.load(dA_ptr + scalars + rows, mask=rows < limit, other=0.0)
    dt = tl.load(dt_ptr + scalars + rows, mask=rows < limit, other=0.0)
    cb = tl.dot(B, tl.trans(C), input_precision="ieee")
    cb *= tl.exp(tl.minimum(dA[None, :] - dA[:, None], 0.0))
    cb = tl.where(rows[None, :] >= rows[:, None], cb, 0.0)
    dxdt = tl.dot(cb, dout, input_precision="ieee")
    D = tl.load(D_ptr + pid_h)
    dx = dxdt * dt[:, None] + dout * D
    tl.store(dx_ptr + where[:, None] * hdim + n[None, :], dx.to(dx_ptr.dtype.element_ty), mask=rn)
    tl.atomic_add(ddt_ptr + scalars + rows, tl.sum(dxdt * x, axis=1), mask=rows < limit)
    tl.atomic_add(dD_ptr + pid_h, tl.sum(dout * x))


@pytest.mark.parametrize("expanded", [False, True])
def test_gradients_inside_of_chunks(expanded, target):
    batch, seqlen, nheads, hdim, dstate, chunk = 1, 27, 2, 20, 9, 16
    nchunks = triton.cdiv(seqlen, chunk)
    x, B, C = torch.randn(batch, seqlen, nheads, hdim), torch.randn(batch, seqlen, nheads, dstate), torch.randn(batch, seqlen, nheads, dstate)
    dt, D = torch.rand(batch, nchunks, nheads, chunk), torch.randn(nheads)
    dA = -torch.rand(batch, nchunks, nheads, chunk).cumsum(-1)
    dout = torch.randn(batch, 1, nheads, 1).expand(batch, seqlen, nheads, hdim) if expanded else torch.randn(batch, seqlen, nheads, hdim)
    dx, ddt, dD = torch.empty_like(x), torch.zeros_like(dt), torch.zeros(nheads)
    chunk_scan_bwd_dx_kernel[(triton.cdiv(hdim, 16), batch * nchunks, nheads)](
        dout, C, B, x, dt, dA, dx, ddt, dD, D, seqlen, chunk, hdim, dstate, nheads, nchunks, *dout.stride(), M=16, N=16, S=16)
    leaves = [t.double().requires_grad_() for t in (x, dt, D)]
    total = 0.0
    for c in range(nchunks):
        at, n = slice(c * chunk, min((c + 1) * chunk, seqlen)), min(chunk, seqlen - c * chunk)
        decay = torch.exp(dA[:, c, :, :n, None].double() - dA[:, c, :, None, :n].double()).tril()
        scores = torch.einsum("blhs,bmhs->bhlm", C[:, at].double(), B[:, at].double()) * decay * leaves[1][:, c, :, None, :n]
        y = torch.einsum("bhlm,bmhp->blhp", scores, leaves[0][:, at]) + leaves[0][:, at] * leaves[2][:, None]
        total = total + (y * dout[:, at].double()).sum()
    total.backward()
    close(dx, leaves[0].grad, 64)
    close(ddt, leaves[1].grad, 64)
    close(dD, leaves[2].grad, 64)


# ---- inverses of triangular blocks ------------------------------------------------------------------


@triton.heuristics({'IS_VARLEN': lambda args: args['cu_seqlens'] is not None})
@triton.autotune(configs=[triton.Config({}, num_warps=w, num_stages=s) for w in (1, 2) for s in (2, )], key=['BT'])
@triton.jit(do_not_specialize=['T'])
def solve_tril_16x16_kernel(A, Ad, cu_seqlens, T, H: tl.constexpr, BT: tl.constexpr, IS_VARLEN: tl.constexpr):
    i_t, i_bh = tl.program_id(0), tl.program_id(1)
    i_b, i_h = i_bh // H, i_bh % H
    if IS_VARLEN:
        bos, eos = tl.load(cu_seqlens + i_b).to(tl.int32), tl.load(cu_seqlens + i_b + 1).to(tl.int32)
        T = eos - bos
        if i_t * 16 >= T:
            return
    else:
        bos, eos = i_b * T, i_b * T + T
    o_i = tl.arange(0, 16)
    A = A + (bos * H + i_h) * BT
    Ad = Ad + (bos * H + i_h) * 16
    offset = (i_t * 16) % BT
    p_A = tl.make_block_ptr(A, (T, BT), (H * BT, 1), (i_t * 16, offset), (16, 16), (1, 0))
    b_A = tl.load(p_A, boundary_check=(0, 1)).to(tl.float32)
    b_A = -tl.where(o_i[:, None] > o_i[None, :], b_A, 0)
    for i in range(1, min(16, T - i_t * 16)):
        b_a = -tl.load(A + (i_t * 16 + i) * H * BT + o_i + offset)
        b_a = tl.where(o_i < i, b_a, 0.)
        b_a = b_a + tl.sum(b_a[:, None] * b_A, 0)
        mask = o_i == i
        b_A = tl.where(mask[:, None], b_a, b_A)
    b_A += o_i[:, None] == o_i[None, :]
    p_Ai = tl.make_block_ptr(Ad, (T, 16), (H * 16, 1), (i_t * 16, 0), (16, 16), (1, 0))
    tl.store(p_Ai, b_A.to(p_Ai.dtype.element_ty, fp_downcast_rounding="rtne"), boundary_check=(0, 1))


@triton.jit(do_not_specialize=['T'])
def merge_32x32_inverse_kernel(A, Ad, Ai, T, H: tl.constexpr, BT: tl.constexpr):
    i_t, i_bh = tl.program_id(0), tl.program_id(1)
    i_b, i_h = i_bh // H, i_bh % H
    bos = i_b * T
    A += (bos * H + i_h) * 32
    Ad += (bos * H + i_h) * 16
    Ai += (bos * H + i_h) * 32
    p_A_21 = tl.make_block_ptr(A, (T, 32), (H * 32, 1), (i_t * 32 + 16, 0), (16, 16), (1, 0))
    p_Ad_11 = tl.make_block_ptr(Ad, (T, 16), (H * 16, 1), (i_t * 32, 0), (16, 16), (1, 0))
    p_Ad_22 = tl.make_block_ptr(Ad, (T, 16), (H * 16, 1), (i_t * 32 + 16, 0), (16, 16), (1, 0))
    p_Ai_11 = tl.make_block_ptr(Ai, (T, 32), (H * 32, 1), (i_t * 32, 0), (16, 16), (1, 0))
    p_Ai_22 = tl.make_block_ptr(Ai, (T, 32), (H * 32, 1), (i_t * 32 + 16, 16), (16, 16), (1, 0))
    p_Ai_21 = tl.make_block_ptr(Ai, (T, 32), (H * 32, 1), (i_t * 32 + 16, 0), (16, 16), (1, 0))
    A_21 = tl.load(p_A_21, boundary_check=(0, 1)).to(tl.float32)
    Ai_11 = tl.load(p_Ad_11, boundary_check=(0, 1)).to(tl.float32)
    Ai_22 = tl.load(p_Ad_22, boundary_check=(0, 1)).to(tl.float32)
    Ai_21 = -tl.dot(tl.dot(Ai_22, A_21, input_precision='ieee'), Ai_11, input_precision='ieee')
    tl.store(p_Ai_11, Ai_11.to(p_Ai_11.dtype.element_ty), boundary_check=(0, 1))
    tl.store(p_Ai_22, Ai_22.to(p_Ai_22.dtype.element_ty), boundary_check=(0, 1))
    tl.store(p_Ai_21, Ai_21.to(p_Ai_21.dtype.element_ty), boundary_check=(0, 1))


@pytest.mark.not_in_mode("checked", "it adds up masked-off elements, which its author left undefined: checked mode shows them")
@pytest.mark.parametrize("T", [64, 43])
def test_inverse_of_triangular_blocks(T, target):
    B, H, BT = 2, 2, 32
    A = torch.randn(B, T, H, BT) / 4
    Ad, Ai = torch.empty(B, T, H, 16), torch.zeros(B, T, H, BT)
    solve_tril_16x16_kernel[(triton.cdiv(T, 16), B * H)](A, Ad, None, T, H=H, BT=BT)
    merge_32x32_inverse_kernel[(triton.cdiv(T, 32), B * H)](A, Ad, Ai, T, H=H, BT=BT)
    for start in range(0, T, BT):
        n = min(BT, T - start)
        block = A[:, start:start + n, :, :n].permute(0, 2, 1, 3).double()
        want = torch.linalg.inv(torch.eye(n) + block.tril(-1))
        close(Ai[:, start:start + n, :, :n].permute(0, 2, 1, 3), want, 64)


@pytest.mark.not_in_mode("checked", "it adds up masked-off elements, which its author left undefined: checked mode shows them")
def test_inverse_of_triangular_blocks_in_a_ragged_batch(target):
    H, bounds = 2, [0, 9, 9, 36]
    A, Ad = torch.randn(1, 36, H, 16) / 4, torch.full((1, 36, H, 16), 7.0)
    solve_tril_16x16_kernel[(2, 3 * H)](A, Ad, torch.tensor(bounds), 36, H=H, BT=16)
    for low, high in zip(bounds, bounds[1:]):
        for start in range(low, high, 16):
            n = min(16, high - start)
            block = A[0, start:start + n, :, :n].transpose(0, 1).double()
            close(Ad[0, start:start + n, :, :n].transpose(0, 1), torch.linalg.inv(torch.eye(n) + block.tril(-1)), 64)


# ---- recurrences with matrix states -----------------------------------------------------------------


@triton.heuristics({
    'USE_INITIAL_STATE': lambda args: args['h0'] is not None,
    'STORE_FINAL_STATE': lambda args: args['ht'] is not None,
    'IS_VARLEN': lambda args: args['cu_seqlens'] is not None
})
@triton.jit(do_not_specialize=['B', 'T'])
def generalised_delta_kernel(r, w, k, v, a, b, h0, ht, o, cu_seqlens, scale, T, B, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
                             BK: tl.constexpr, BV: tl.constexpr, REVERSE: tl.constexpr, USE_INITIAL_STATE: tl.constexpr,
                             STORE_FINAL_STATE: tl.constexpr, IS_VARLEN: tl.constexpr):
    """The state decays by channel, is corrected by a rank-one update, then takes the key and the value."""
    i_v, i_nh = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    i_n, i_h = i_nh // H, i_nh % H
    if IS_VARLEN:
        bos, eos = tl.load(cu_seqlens + i_n).to(tl.int64), tl.load(cu_seqlens + i_n + 1).to(tl.int64)
        T = eos - bos
    else:
        bos, eos = i_n * T, i_n * T + T
    o_k, o_v = tl.arange(0, BK), i_v * BV + tl.arange(0, BV)
    first = bos + ((T - 1) if REVERSE else 0)
    p_r, p_w, p_k = r + (first * H + i_h) * K + o_k, w + (first * H + i_h) * K + o_k, k + (first * H + i_h) * K + o_k
    p_a, p_b = a + (first * H + i_h) * K + o_k, b + (first * H + i_h) * K + o_k
    p_v, p_o = v + (first * H + i_h) * V + o_v, o + (first * H + i_h) * V + o_v
    mask_k, mask_v = o_k < K, o_v < V
    mask_h = mask_v[:, None] & mask_k[None, :]
    b_h = tl.zeros([BV, BK], dtype=tl.float32)
    if USE_INITIAL_STATE:
        b_h += tl.load(h0 + i_nh * K * V + o_k[None, :] * V + o_v[:, None], mask=mask_h, other=0).to(tl.float32)
    for _ in range(0, T):
        b_r = tl.load(p_r, mask=mask_k, other=0).to(tl.float32) * scale
        b_w = tl.load(p_w, mask=mask_k, other=0).to(tl.float32)
        b_k = tl.load(p_k, mask=mask_k, other=0).to(tl.float32)
        b_v = tl.load(p_v, mask=mask_v, other=0).to(tl.float32)
        b_a = tl.load(p_a, mask=mask_k, other=0).to(tl.float32)
        b_b = tl.load(p_b, mask=mask_k, other=0).to(tl.float32)
        act = tl.sum(b_h * b_a[None, :], axis=1)
        b_h = tl.exp(-tl.exp(b_w))[None, :] * b_h + act[:, None] * b_b[None, :] + b_k[None, :] * b_v[:, None]
        tl.store(p_o, tl.sum(b_h * b_r[None, :], axis=1).to(p_o.dtype.element_ty), mask=mask_v)
        p_r += (-1 if REVERSE else 1) * H * K
        p_w += (-1 if REVERSE else 1) * H * K
        p_k += (-1 if REVERSE else 1) * H * K
        p_a += (-1 if REVERSE else 1) * H * K
        p_b += (-1 if REVERSE else 1) * H * K
        p_v += (-1 if REVERSE else 1) * H * V
        p_o += (-1 if REVERSE else 1) * H * V
    if STORE_FINAL_STATE:
        tl.store(ht + i_nh * K * V + o_k[None, :] * V + o_v[:, None], b_h.to(ht.dtype.element_ty), mask=mask_h)


@pytest.mark.parametrize("ragged,reverse", [(False, False), (True, True)])
def test_generalised_delta_rule(ragged, reverse, target):
    H, K, V, N = 2, 12, 20, 2
    bounds = [0, 5, 18] if ragged else [0, 9, 18]
    shape = (1, 18) if ragged else (2, 9)
    r, w, k, a, b = (torch.randn(*shape, H, K, dtype=torch.bfloat16) / 3 for _ in range(5))
    v, o = torch.randn(*shape, H, V, dtype=torch.bfloat16), torch.empty(*shape, H, V)
    h0, ht = torch.randn(N, H, K, V), torch.empty(N, H, K, V)
    cu = torch.tensor(bounds, dtype=torch.int64) if ragged else None
    generalised_delta_kernel[(triton.cdiv(V, 8), N * H)](r, w, k, v, a, b, h0, ht, o, cu, 0.5, T=shape[1], B=shape[0], H=H, K=K, V=V, BK=16, BV=8,
                                                         REVERSE=reverse)
    want, want_ht = torch.empty(18, H, V, dtype=torch.float64), torch.empty_like(h0, dtype=torch.float64)
    R, W, KK, A, BB, VV = (t.reshape(18, H, -1).double() for t in (r, w, k, a, b, v))
    for n, (low, high) in enumerate(zip(bounds, bounds[1:])):
        s = h0[n].double()
        for t in range(high - 1, low - 1, -1) if reverse else range(low, high):
            act = torch.einsum("hkv,hk->hv", s, A[t])
            s = torch.exp(-torch.exp(W[t]))[..., None] * s + BB[t][..., None] * act[:, None] + KK[t][..., None] * VV[t][:, None]
            want[t] = torch.einsum("hkv,hk->hv", s, R[t]) * 0.5
        want_ht[n] = s
    close(o.reshape(18, H, V), want, 64)
    close(ht, want_ht, 64)


@triton.jit
def decayed_attention_kernel(q, k, v, o, slopes, n, d: tl.constexpr, e: tl.constexpr, stride_h, stride_n, BLOCK: tl.constexpr, CBLOCK: tl.constexpr):
    """Lightning attention: sub-blocks inside of a block, the running state between blocks."""
    head = tl.program_id(0)
    slope = tl.load(slopes + head).to(tl.float32)
    kv = tl.zeros([d, e], dtype=tl.float32)
    array = tl.arange(0, CBLOCK).to(tl.float32)
    sub: tl.constexpr = BLOCK // CBLOCK
    for start in range(0, n, BLOCK):
        block_k_decay = tl.zeros([d, e], dtype=tl.float32)
        for i in tl.static_range(sub):
            rows = start + i * CBLOCK + tl.arange(0, CBLOCK)
            m = rows[:, None] < n
            qi = tl.load(q + head * stride_h + rows[:, None] * stride_n + tl.arange(0, d)[None, :], mask=m, other=0.0).to(tl.float32)
            acc = tl.dot(qi * tl.exp(-slope * (array + i * CBLOCK + 1))[:, None], kv, allow_tf32=False)
            for j in tl.static_range(i + 1):
                columns = start + j * CBLOCK + tl.arange(0, CBLOCK)
                kj = tl.load(k + head * stride_h + columns[None, :] * stride_n + tl.arange(0, d)[:, None], mask=columns[None, :] < n, other=0.0)
                vj = tl.load(v + head * stride_h + columns[:, None] * stride_n + tl.arange(0, e)[None, :], mask=columns[:, None] < n, other=0.0)
                gap = array[:, None] - array[None, :] + (i - j) * CBLOCK
                decay = tl.exp(tl.where(gap >= 0, -slope * gap, float("-inf")))
                acc += tl.dot(tl.dot(qi, kj.to(tl.float32), allow_tf32=False) * decay, vj.to(tl.float32), allow_tf32=False)
                if j == i:
                    left = tl.minimum(n - start, BLOCK) - 1 - (array + j * CBLOCK)
                    weighted = kj.to(tl.float32) * tl.exp(-slope * tl.maximum(left, 0.0))[None, :]
                    block_k_decay += tl.dot(weighted, vj.to(tl.float32), allow_tf32=False)
            tl.store(o + head * stride_h + rows[:, None] * stride_n + tl.arange(0, e)[None, :], acc.to(o.dtype.element_ty), mask=m)
        kv = tl.exp(-slope * BLOCK) * kv + block_k_decay


def test_decayed_attention(target):
    heads, n, d = 2, 75, 16
    q, k, v = (torch.randn(heads, n, d, dtype=torch.float16) for _ in range(3))
    o, slopes = torch.empty_like(q), torch.tensor([0.1, 0.02])
    decayed_attention_kernel[(heads, )](q, k, v, o, slopes, n, d, d, q.stride(0), q.stride(1), BLOCK=32, CBLOCK=16)
    gap = (torch.arange(n)[:, None] - torch.arange(n)).double()
    decay = torch.where(gap >= 0, torch.exp(-slopes.double()[:, None, None] * gap), 0.0)
    close(o, (q.double() @ k.double().mT * decay) @ v.double(), 16)
