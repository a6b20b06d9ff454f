"""Fused steps of training and serving: losses over chunks of a head that never exists as a whole, preference losses, norms that quantise, gates with
gradients in place, rotations of several positions, registered operators with gradients, state updates, optimisers."""

import nereid as triton
import nereid.language as tl
import pytest
import torch
from reference import close

# ---- losses -----------------------------------------------------------------------------------------


@triton.jit
def head_forward_kernel(E_ptr, C_ptr, Bias_ptr, LSE_ptr, LA_ptr, Locks_ptr, Targets_ptr, Neg_ptr, softcap, B, V, D, num_locks, stride_eb, stride_ed, stride_cv,
                        stride_cd, BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_D: tl.constexpr, GROUP_B: tl.constexpr, HAS_BIAS: tl.constexpr,
                        HAS_SOFTCAP: tl.constexpr):
    """Tiles of logits live in registers; the logarithm of the sum of exponentials is joined under a lock."""
    pid = tl.program_id(axis=0)
    num_b, num_v = tl.cdiv(B, BLOCK_B), tl.cdiv(V, BLOCK_V)
    in_group = GROUP_B * num_v
    first = (pid // in_group) * GROUP_B
    size = min(num_b - first, GROUP_B)
    pid_b, pid_v = (first + ((pid % in_group) % size)).to(tl.int64), ((pid % in_group) // size).to(tl.int64)
    offs_b, offs_v, offs_d = (pid_b * BLOCK_B + tl.arange(0, BLOCK_B)) % B, pid_v * BLOCK_V + tl.arange(0, BLOCK_V), tl.arange(0, BLOCK_D)
    e_ptrs = E_ptr + (offs_b[:, None] * stride_eb + offs_d[None, :] * stride_ed)
    c_ptrs = C_ptr + (offs_v[None, :] * stride_cv + offs_d[:, None] * stride_cd)
    accum = tl.zeros((BLOCK_B, BLOCK_V), dtype=tl.float32)
    for d in range(0, tl.cdiv(D, BLOCK_D)):
        e = tl.load(e_ptrs, mask=offs_d[None, :] < D - d * BLOCK_D, other=0.0)
        c = tl.load(c_ptrs, mask=(offs_d[:, None] < D - d * BLOCK_D) & (offs_v[None, :] < V), other=0.0)
        accum = tl.dot(e, c, accum, input_precision="ieee")
        e_ptrs += BLOCK_D * stride_ed
        c_ptrs += BLOCK_D * stride_cd
    tl.debug_barrier()
    if HAS_BIAS:
        accum += tl.load(Bias_ptr + offs_v, mask=offs_v < V, other=0.0).to(tl.float32)[None, :]
    logits = tl.where(offs_v[None, :] < V, accum, -float("inf"))
    if HAS_SOFTCAP:
        logits = softcap * (2 * tl.sigmoid(2 * logits / softcap) - 1)
        logits = tl.where(offs_v[None, :] < V, logits, -float("inf"))
    if LA_ptr is not None:
        this = tl.sum(tl.where(offs_v[None, :] < V, logits, 0.0), 0) / B
        tl.atomic_add(LA_ptr + offs_v, this, mask=offs_v < V)
    targets = tl.load(Targets_ptr + offs_b)
    rows = pid_b * BLOCK_B + tl.arange(0, BLOCK_B)
    o_mask = rows < B
    hit = targets[:, None] == offs_v[None, :]
    found = tl.sum(tl.where(hit, logits, 0.0), 1)
    tl.store(Neg_ptr + rows, -found, mask=o_mask & (tl.max(hit.to(tl.int32), 1) > 0))
    this_max = tl.max(logits, axis=1)
    lse = this_max + tl.log(tl.sum(tl.exp(logits - this_max[:, None]), axis=1))
    lse_ptrs, lock = LSE_ptr + rows, Locks_ptr + (pid_b // tl.cdiv(num_b, num_locks))
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    old = tl.load(lse_ptrs, mask=o_mask, other=0.0, eviction_policy="evict_last")
    high, low = tl.maximum(old, lse), tl.minimum(old, lse)
    tl.store(lse_ptrs, high + tl.log(1.0 + tl.exp(low - high)), mask=o_mask, eviction_policy="evict_last")
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@pytest.mark.parametrize("cap,bias,average", [(None, False, True), (5.0, True, False)])
def test_head_that_never_exists(cap, bias, average, target):
    B, V, D = 21, 53, 40
    e, c = torch.randn(D, B).T, torch.randn(V, D) / 4
    b, targets = torch.randn(V) if bias else None, torch.randint(0, V, (B, ))
    lse, negative, locks = torch.full((B, ), -float("inf")), torch.empty(B), torch.zeros(2, dtype=torch.int32)
    average = torch.zeros(V) if average else None
    grid = lambda META: (triton.cdiv(B, META["BLOCK_B"]) * triton.cdiv(V, META["BLOCK_V"]), )
    head_forward_kernel[grid](e, c, b, lse, average, locks, targets, negative, cap, B, V, D, 2, *e.stride(), *c.stride(), BLOCK_B=16, BLOCK_V=32, BLOCK_D=16,
                              GROUP_B=2, HAS_BIAS=bias, HAS_SOFTCAP=cap is not None)
    logits = e.double() @ c.double().T + (b.double() if bias else 0)
    logits = cap * torch.tanh(logits / cap) if cap else logits
    close(lse, torch.logsumexp(logits, -1), 32)
    close(negative, -logits[torch.arange(B), targets], 64)
    if average is not None and B % 16 == 0:
        close(average, logits.mean(0), 64)


@triton.jit
def log_probabilities_kernel(logits_ptr, ids_ptr, mask_ptr, logp_ptr, lse_ptr, T, V, stride_b, stride_t, TEMPERATURE: tl.constexpr, BLOCK: tl.constexpr):
    b, t = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    if mask_ptr is not None:
        if tl.load(mask_ptr + b * T + t) == 0:
            return
    logits_ptr += b * stride_b + t * stride_t
    top, total = float("-inf"), 0.0
    for start in range(0, V, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + at, mask=at < V, other=float("-inf")).to(tl.float32) / TEMPERATURE
        new = tl.maximum(top, tl.max(x))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new))
        top = new
    lse = top + tl.log(total)
    tl.store(lse_ptr + b * T + t, lse)
    tl.store(logp_ptr + b * T + t, tl.load(logits_ptr + tl.load(ids_ptr + b * T + t)).to(tl.float32) / TEMPERATURE - lse)


@triton.jit
def policy_loss_kernel(logp_ptr, old_ptr, ref_ptr, advantage_ptr, mask_ptr, loss_ptr, kl_ptr, grad_ptr, T, BETA: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr,
                       BLOCK: tl.constexpr):
    """Clipped ratios and a divergence from the reference; the gradient of the log-probabilities at once."""
    b, t = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = t < T
    mask = tl.load(mask_ptr + b * T + t, mask=inside, other=0) != 0
    logp = tl.load(logp_ptr + b * T + t, mask=mask, other=0.0)
    old = logp if old_ptr is None else tl.load(old_ptr + b * T + t, mask=mask, other=0.0)
    advantage = tl.load(advantage_ptr + b).to(tl.float32)
    ratio = tl.exp(logp - old)
    clipped = tl.clamp(ratio, 1 - LOW, 1 + HIGH)
    a, c = ratio * advantage, clipped * advantage
    loss = -tl.minimum(a, c)
    grad = tl.where(a <= c, -a, 0.0)
    if BETA != 0.0:
        gap = tl.load(ref_ptr + b * T + t, mask=mask, other=0.0) - logp
        kl = tl.exp(gap) - gap - 1
        loss += BETA * kl
        grad += BETA * (1 - tl.exp(gap))
        tl.store(kl_ptr + b * T + t, tl.where(mask, kl, 0.0), mask=inside)
    tl.store(loss_ptr + b * T + t, tl.where(mask, loss, 0.0), mask=inside)
    tl.store(grad_ptr + b * T + t, tl.where(mask, grad, 0.0), mask=inside)


@pytest.mark.parametrize("beta,with_old", [(0.0, False), (0.04, True)])
def test_policy_loss(beta, with_old, target):
    B, T, V = 3, 9, 70
    logits = torch.randn(B, T + 1, V, dtype=torch.bfloat16)[:, :-1]
    ids, mask = torch.randint(0, V, (B, T)), torch.rand(B, T) < 0.7
    logp, lse = torch.zeros(B, T), torch.zeros(B, T)
    log_probabilities_kernel[(B, T)](logits, ids, mask, logp, lse, T, V, logits.stride(0), logits.stride(1), TEMPERATURE=0.9, BLOCK=32)
    want = torch.log_softmax(logits.double() / 0.9, -1).gather(-1, ids[..., None])[..., 0]
    close(logp[mask], want[mask], 32)
    old = (want + 0.3 * torch.randn(B, T)).float() if with_old else None
    ref, advantage = (want + 0.3 * torch.randn(B, T)).float(), torch.randn(B)
    loss, kl, grad = torch.empty(B, T), torch.zeros(B, T), torch.empty(B, T)
    policy_loss_kernel[(B, triton.cdiv(T, 8))](logp, old, ref, advantage, mask, loss, kl, grad, T, BETA=beta, LOW=0.2, HIGH=0.28, BLOCK=8)
    leaf = logp.double().requires_grad_()
    ratio = torch.exp(leaf - (old.double() if with_old else leaf.detach()))
    per = -torch.minimum(ratio * advantage.double()[:, None], ratio.clamp(0.8, 1.28) * advantage.double()[:, None])
    gap = ref.double() - leaf
    per = torch.where(mask, per + beta * (torch.exp(gap) - gap - 1), 0.0)
    per.sum().backward()
    close(loss, per.detach(), 64)
    close(grad, leaf.grad, 64)


# ---- norms that quantise, gates ---------------------------------------------------------------------


@triton.jit
def add_norm_quantise_kernel(x_ptr, residual_ptr, weight_ptr, q_ptr, scale_ptr, n, stride_x, eps, QMAX: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr,
                             ROUND: tl.constexpr):
    """Adds into the residual, normalises, quantises by row or by group of columns."""
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < n
    x = tl.load(x_ptr + row * stride_x + c, mask=m, other=0.0).to(tl.float32) + tl.load(residual_ptr + row * n + c, mask=m, other=0.0).to(tl.float32)
    tl.store(residual_ptr + row * n + c, x.to(residual_ptr.dtype.element_ty), mask=m)
    y = x * tl.rsqrt(tl.sum(x * x, 0) / n + eps) * tl.load(weight_ptr + c, mask=m, other=0.0).to(tl.float32)
    groups: tl.constexpr = BLOCK // GROUP
    y = tl.reshape(y, (groups, GROUP))
    scale = tl.maximum(tl.max(tl.abs(y), 1), 1e-10) / QMAX
    q = y / scale[:, None]
    if ROUND:
        q = tl.extra.cuda.libdevice.rint(q)
    q = tl.clamp(q, -QMAX, QMAX).to(q_ptr.dtype.element_ty)
    tl.store(q_ptr + row * n + c, tl.reshape(q, (BLOCK, )), mask=m)
    g = tl.arange(0, groups)
    tl.store(scale_ptr + row * tl.cdiv(n, GROUP) + g, scale, mask=g < tl.cdiv(n, GROUP))


@pytest.mark.parametrize("quantised,group", [(torch.int8, 128), (torch.float8_e4m3fn, 32), (torch.float8_e5m2, 32)])
def test_add_norm_quantise(quantised, group, target):
    rows, n = 5, 100
    x, residual, weight = torch.randn(rows, 2 * n, dtype=torch.bfloat16)[:, ::2].contiguous(), torch.randn(rows, n, dtype=torch.bfloat16), torch.rand(n) + 0.5
    limit = 127.0 if quantised == torch.int8 else torch.finfo(quantised).max
    q, scale = torch.empty(rows, n, dtype=quantised), torch.empty(rows, triton.cdiv(n, group))
    total = x.double() + residual.double()
    add_norm_quantise_kernel[(rows, )](x, residual, weight, q, scale, n, x.stride(0), 1e-5, QMAX=limit, GROUP=group, BLOCK=128, ROUND=quantised == torch.int8)
    close(residual, total, 1)
    y = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-5) * weight.double()
    wide = scale.double().repeat_interleave(group, 1)[:, :n]
    close(scale, torch.stack([p.abs().amax(-1) for p in y.split(group, -1)], -1) / limit, 16)
    step = {torch.int8: 1.0, torch.float8_e4m3fn: 2.0**-3, torch.float8_e5m2: 2.0**-2}[quantised]
    error = (q.double() * wide - y).abs()
    assert (error <= 0.51 * step * torch.maximum(wide if quantised == torch.int8 else y.abs(), wide * 2.0**-6) + 1e-6).all()


@triton.jit
def gate_backward_in_place_kernel(d_ptr, a_ptr, b_ptr, out_ptr, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """Gradients overwrite what they are made from."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    d, a, b = tl.load(d_ptr + i, mask=m, other=0), tl.load(a_ptr + i, mask=m, other=0).to(tl.float32), tl.load(b_ptr + i, mask=m, other=0)
    if KIND == "silu":
        s = tl.sigmoid(a)
        f, df = a * s, s * (1 + a * (1 - s))
    elif KIND == "gelu":
        cdf = 0.5 * (tl.math.erf(0.7071067811865476 * a) + 1.0)
        f, df = a * cdf, cdf + 0.3989422804014327 * a * tl.exp(-0.5 * a * a)
    else:
        tl.static_assert(KIND == "tanh", "unknown gate")
        t = tl.extra.cuda.libdevice.tanh(0.79788456 * a * (1 + 0.044715 * a * a))
        f, df = 0.5 * a * (1 + t), 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * 0.79788456 * (1 + 3 * 0.044715 * a * a)
    tl.store(out_ptr + i, (f.to(b.dtype) * b), mask=m)
    tl.store(d_ptr + i, d * f.to(d.dtype), mask=m)
    tl.store(a_ptr + i, (d.to(tl.float32) * b * df).to(a_ptr.dtype.element_ty), mask=m)


@pytest.mark.parametrize("kind", ["silu", "gelu", "tanh"])
def test_gates(kind, target):
    a, b, d = (torch.randn(7, 43, dtype=torch.float16) for _ in range(3))
    leaves = [a.double().requires_grad_(), b.double().requires_grad_()]
    act = torch.nn.functional.silu if kind == "silu" else lambda t: torch.nn.functional.gelu(t, approximate="none" if kind == "gelu" else "tanh")
    y = act(leaves[0]) * leaves[1]
    y.backward(d.double())
    out = torch.empty_like(a)
    gate_backward_in_place_kernel[(triton.cdiv(a.numel(), 128), )](d, a, b, out, a.numel(), KIND=kind, BLOCK=128)
    close(out, y.detach(), 4)
    close(d, leaves[1].grad, 4)
    close(a, leaves[0].grad, 4)


# ---- rotations --------------------------------------------------------------------------------------


@triton.jit
def sectioned_rotary_kernel(q_ptr, k_ptr, cos_ptr, sin_ptr, tokens, stride_q, stride_k, Q_HEADS: tl.constexpr, K_HEADS: tl.constexpr, PAD_Q: tl.constexpr,
                            PAD_K: tl.constexpr, HEAD: tl.constexpr, ROTARY: tl.constexpr, PAD: tl.constexpr, T_SECTION: tl.constexpr, H_SECTION: tl.constexpr,
                            INTERLEAVED: tl.constexpr):
    """Sections of the frequencies turn with the time, the height or the width of a token; the rest of a head stays."""
    token = tl.program_id(0)
    half: tl.constexpr = ROTARY // 2
    offs = tl.arange(0, PAD // 2)
    if INTERLEAVED:
        h_mask = ((offs % 3) == 1) & (offs < 3 * H_SECTION)
        w_mask = ((offs % 3) == 2) & (offs < 3 * (half - T_SECTION - H_SECTION))
        t_mask = (offs < half) & ~(h_mask | w_mask)
    else:
        t_mask = offs < T_SECTION
        h_mask = (T_SECTION <= offs) & (offs < T_SECTION + H_SECTION)
        w_mask = (T_SECTION + H_SECTION <= offs) & (offs < half)
    axis = token * half
    plane = tokens * half
    cos = tl.load(cos_ptr + axis + offs, mask=t_mask, other=0) + tl.load(cos_ptr + plane + axis + offs, mask=h_mask, other=0) + tl.load(
        cos_ptr + 2 * plane + axis + offs, mask=w_mask, other=0)
    sin = tl.load(sin_ptr + axis + offs, mask=t_mask, other=0) + tl.load(sin_ptr + plane + axis + offs, mask=h_mask, other=0) + tl.load(
        sin_ptr + 2 * plane + axis + offs, mask=w_mask, other=0)
    _turn(q_ptr + token * stride_q, cos, sin, Q_HEADS, PAD_Q, HEAD, half, offs)
    _turn(k_ptr + token * stride_k, cos, sin, K_HEADS, PAD_K, HEAD, half, offs)


@triton.jit
def _turn(x_ptr, cos, sin, HEADS: tl.constexpr, PAD_HEADS: tl.constexpr, HEAD: tl.constexpr, HALF: tl.constexpr, offs):
    heads = tl.arange(0, PAD_HEADS)
    first = heads[:, None] * HEAD + offs[None, :]
    mask = (heads[:, None] < HEADS) & (offs[None, :] < HALF)
    a, b = tl.load(x_ptr + first, mask=mask, other=0), tl.load(x_ptr + first + HALF, mask=mask, other=0)
    tl.store(x_ptr + first, a * cos - b * sin, mask=mask)
    tl.store(x_ptr + first + HALF, b * cos + a * sin, mask=mask)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotation_by_sections(interleaved, target):
    tokens, q_heads, k_heads, head, rotary, (t, h, w) = 7, 3, 2, 28, 20, (4, 3, 3)
    fused = torch.randn(tokens, (q_heads + k_heads) * head)
    q, k = fused[:, :q_heads * head], fused[:, q_heads * head:]
    angle = torch.randn(3, tokens, rotary // 2, dtype=torch.float64)
    if interleaved:
        section = torch.zeros(rotary // 2, dtype=torch.long)
        section[1:3 * h:3] = 1
        section[2:3 * w:3] = 2
    else:
        section = torch.tensor([0] * t + [1] * h + [2] * w)
    chosen = angle.gather(0, section.expand(1, tokens, -1))[0][:, None]
    x = fused.double().reshape(tokens, -1, head)
    a, b = x[..., :rotary // 2], x[..., rotary // 2:rotary]
    want = torch.cat([a * chosen.cos() - b * chosen.sin(), b * chosen.cos() + a * chosen.sin(), x[..., rotary:]], -1)
    sectioned_rotary_kernel[(tokens, )](q, k, angle.cos().float(), angle.sin().float(), tokens, q.stride(0), k.stride(0), Q_HEADS=q_heads, K_HEADS=k_heads, PAD_Q=4,
                                        PAD_K=2, HEAD=head, ROTARY=rotary, PAD=32, T_SECTION=t, H_SECTION=h, INTERLEAVED=interleaved)
    close(fused.reshape(tokens, -1, head), want, 16)


# ---- state updates, optimisers ----------------------------------------------------------------------


@triton.heuristics({"HAS_BIAS": lambda args: args["bias_ptr"] is not None, "IS_CONTINUOUS": lambda args: args["indices_ptr"] is not None})
@triton.jit()
def convolution_update_kernel(x_ptr, w_ptr, bias_ptr, state_ptr, indices_ptr, accepted_ptr, o_ptr, dim, state_len: tl.constexpr, seqlen: tl.constexpr,
                              stride_state, HAS_BIAS: tl.constexpr, IS_CONTINUOUS: tl.constexpr, WIDTH: tl.constexpr, SILU: tl.constexpr, PAD_SLOT: tl.constexpr,
                              BLOCK: tl.constexpr):
    """A window slides over kept inputs and new ones, a few tokens at a time; the window is variables, not a block."""
    b, c = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(indices_ptr + b).to(tl.int64) if IS_CONTINUOUS else b
    if IS_CONTINUOUS:
        if slot == PAD_SLOT:
            return
    shift = tl.load(accepted_ptr + b) - 1 if accepted_ptr is not None else 0
    m = c < dim
    kept = state_ptr + slot * stride_state + c * state_len
    col0 = tl.load(kept + shift, mask=m, other=0.0)
    col1 = tl.load(kept + shift + 1, mask=m, other=0.0)
    if WIDTH == 4:
        col2 = tl.load(kept + shift + 2, mask=m, other=0.0)
    at = tl.arange(0, state_len) if state_len & (state_len - 1) == 0 else tl.arange(0, 8)
    from_old = tl.load(state_ptr + slot * stride_state + (c * state_len)[:, None] + (at + shift + seqlen)[None, :],
                       mask=m[:, None] & ((at + seqlen + shift) < state_len)[None, :] & (at < state_len)[None, :], other=0.0)
    from_new = tl.load(x_ptr + (b * dim + c)[:, None] * seqlen + (at - (state_len - seqlen))[None, :],
                       mask=m[:, None] & (at >= state_len - seqlen)[None, :] & (at < state_len)[None, :], other=0.0)
    tl.debug_barrier()
    tl.store(state_ptr + slot * stride_state + (c * state_len)[:, None] + at[None, :], tl.where((at >= state_len - seqlen)[None, :], from_new, from_old),
             mask=m[:, None] & (at < state_len)[None, :])
    acc_bias = tl.load(bias_ptr + c, mask=m, other=0.0).to(tl.float32) if HAS_BIAS else tl.zeros((BLOCK, ), tl.float32)
    w0, w1, w2 = tl.load(w_ptr + c * WIDTH, m, 0.0), tl.load(w_ptr + c * WIDTH + 1, m, 0.0), tl.load(w_ptr + c * WIDTH + 2, m, 0.0)
    if WIDTH == 4:
        w3 = tl.load(w_ptr + c * WIDTH + 3, m, 0.0)
    for token in tl.static_range(seqlen):
        x = tl.load(x_ptr + (b * dim + c) * seqlen + token, mask=m, other=0.0)
        acc = acc_bias + col0 * w0 + col1 * w1
        if WIDTH == 3:
            acc += x * w2
            col0, col1 = col1, x
        else:
            acc += col2 * w2 + x * w3
            col0, col1, col2 = col1, col2, x
        if SILU:
            acc = acc / (1 + tl.exp(-acc))
        tl.store(o_ptr + (b * dim + c) * seqlen + token, acc, mask=m)


@pytest.mark.parametrize("width,seqlen", [(4, 1), (3, 2), (4, 3)])
def test_convolution_of_new_tokens(width, seqlen, target):
    batch, dim, slots = 3, 21, 5
    length = width - 1
    x, w, bias = torch.randn(batch, dim, seqlen), torch.randn(dim, width), torch.randn(dim) if width == 4 else None
    state, where = torch.randn(slots, dim, length), torch.tensor([4, -1, 0], dtype=torch.int32)
    before, o = state.double(), torch.zeros(batch, dim, seqlen)
    convolution_update_kernel[(batch, triton.cdiv(dim, 16))](x, w, bias, state, where, None, o, dim, length, seqlen, state.stride(0), WIDTH=width, SILU=True, PAD_SLOT=-1,
                                                             BLOCK=16)
    for b, slot in enumerate(where.tolist()):
        if slot < 0:
            assert (o[b] == 0).all()
            continue
        window = torch.cat([before[slot], x[b].double()], -1)
        want = torch.nn.functional.conv1d(window[None], w.double()[:, None], bias.double() if bias is not None else None, groups=dim)[0]
        close(o[b], torch.nn.functional.silu(want), 16)
        assert torch.equal(state[slot], window[:, -length:].float())
    assert torch.equal(state[1].double(), before[1])


@triton.jit
def eight_bit_adam_kernel(p_ptr, g_ptr, m_ptr, v_ptr, m_max_ptr, v_max_ptr, code_ptr, lr, beta1, beta2, eps, decay, correction1, correction2, n, BLOCK: tl.constexpr):
    """Moments as codes of 8 bits with a scale a block; the nearest code is found by bisection."""
    block = tl.program_id(0)
    i = block * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    p, g = tl.load(p_ptr + i, mask=inside, other=0.0).to(tl.float32), tl.load(g_ptr + i, mask=inside, other=0.0).to(tl.float32)
    m = tl.load(code_ptr + tl.load(m_ptr + i, mask=inside, other=0).to(tl.int32)) * tl.load(m_max_ptr + block)
    v = tl.load(v_ptr + i, mask=inside, other=0).to(tl.float32) / 255 * tl.load(v_max_ptr + block)
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    p -= lr * (m / correction1 / (tl.sqrt(v / correction2) + eps) + decay * p)
    tl.store(p_ptr + i, p.to(p_ptr.dtype.element_ty), mask=inside)
    m_max, v_max = tl.max(tl.where(inside, tl.abs(m), 0.0)), tl.max(tl.where(inside, v, 0.0))
    wanted = m / m_max
    low, high = tl.zeros([BLOCK], tl.int32), tl.full([BLOCK], 255, tl.int32)
    for _ in tl.static_range(8):
        middle = (low + high) >> 1
        below = tl.load(code_ptr + middle) < wanted
        low, high = tl.where(below, middle + 1, low), tl.where(below, high, middle)
    left = tl.maximum(low - 1, 0)
    nearer = tl.abs(tl.load(code_ptr + left) - wanted) < tl.abs(tl.load(code_ptr + low) - wanted)
    tl.store(m_ptr + i, tl.where(nearer, left, low).to(tl.uint8), mask=inside)
    tl.store(v_ptr + i, (v / v_max * 255 + 0.5).to(tl.uint8), mask=inside)
    tl.store(m_max_ptr + block, m_max)
    tl.store(v_max_ptr + block, v_max)


def test_optimiser_with_codes(target):
    n, block = 150, 64
    blocks = triton.cdiv(n, block)
    code = torch.sort(torch.tanh(torch.linspace(-2, 2, 256)) / torch.tanh(torch.tensor(2.0))).values
    p, g = torch.randn(n, dtype=torch.bfloat16), torch.randn(n, dtype=torch.bfloat16)
    m, v = torch.randint(0, 256, (n, ), dtype=torch.uint8), torch.randint(0, 256, (n, ), dtype=torch.uint8)
    m_max, v_max = torch.rand(blocks), torch.rand(blocks)
    at = torch.arange(n) // block
    M = 0.9 * code.double()[m.long()] * m_max.double()[at] + 0.1 * g.double()
    V = 0.99 * v.double() / 255 * v_max.double()[at] + 0.01 * g.double()**2
    want = p.double() - 0.1 * (M / 0.5 / ((V / 0.3).sqrt() + 1e-8) + 0.01 * p.double())
    eight_bit_adam_kernel[(blocks, )](p, g, m, v, m_max, v_max, code, 0.1, 0.9, 0.99, 1e-8, 0.01, 0.5, 0.3, n, BLOCK=block)
    close(p, want, 1)
    for b in range(blocks):
        close(m_max[b], M[at == b].abs().max(), 8)
        wanted = M[at == b] / M[at == b].abs().max()
        gap = (code.double()[None] - wanted[:, None]).abs()
        assert (gap.gather(1, m[at == b].long()[:, None])[:, 0] <= gap.min(1).values + 1e-6).all()
