"""Gradients that `nereid.grad` makes from forward kernels, against backward kernels written by hand.

    PYTHONPATH=.../liger_kernel python benchmarks/gradient_kernels.py              needs a GPU, Triton and the package liger-kernel (tests/packages/run.py downloads it)
    python benchmarks/gradient_kernels.py --folder build/packages/liger-kernel-0.8.5 --seconds 1

By hand: Liger's backward functions on the real Triton, which read what their forward kernels have saved; for products the forward kernel on transposed operands and `torch.matmul`
(gradient_schedules.py has more of them); for attention PyTorch's flash attention. Ours: `nereid.grad(...).backward` of a forward kernel in this file, which recomputes what it
needs, with the fastest of --warps and of the case's sizes of blocks. Both results are compared with PyTorch's gradients in fp64 first; then both are timed in turns with a cold L2 cache. "ratio" is the time by hand
over ours: above 1, ours is faster. Cross entropy is timed with its forward kernel on both sides, because Liger's computes gradients there, ours in two launches, each with its fastest
configuration; "one launch" is ours with `outputs=True`, which does so, too.
"""

import argparse
import functools
import itertools
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
for folder in ("tests/differentiation", "tests/language", "tests/kernels", "benchmarks/gpu", "benchmarks"):
    sys.path.append(str(ROOT / folder))

import nereid  # noqa: E402
import nereid.language as tl  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import gradients  # noqa: E402
from measure import Bench  # noqa: E402
from nereid.language.extra import libdevice  # noqa: E402


@nereid.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * n + i
    value = tl.load(x + at, mask=i < n, other=-float("inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + at, power / tl.sum(power, 0), mask=i < n)


@nereid.jit
def swiglu(gate, up, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(gate + i, mask=i < n).to(tl.float32)
    tl.store(y + i, g * tl.sigmoid(g) * tl.load(up + i, mask=i < n), mask=i < n)


@nereid.jit
def geglu(gate, up, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(gate + i, mask=i < n).to(tl.float32)
    inner = 0.7978845608028654 * (g + 0.044715 * g * g * g)
    tl.store(y + i, 0.5 * g * (1 + libdevice.tanh(inner)) * tl.load(up + i, mask=i < n), mask=i < n)


@nereid.jit
def rms_norm(x, weight, y, n, eps, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * n + i
    value = tl.load(x + at, mask=i < n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 0) / n + eps)
    tl.store(y + at, value * scale * tl.load(weight + i, mask=i < n), mask=i < n)


@nereid.jit
def layer_norm(x, weight, bias, y, n, eps, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * n + i
    value = tl.load(x + at, mask=i < n, other=0.0).to(tl.float32)
    centred = tl.where(i < n, value - tl.sum(value, 0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / n + eps)
    tl.store(y + at, centred * scale * tl.load(weight + i, mask=i < n) + tl.load(bias + i, mask=i < n), mask=i < n)


@nereid.jit
def cross_entropy(logits, labels, loss, lse, n, BLOCK: tl.constexpr, SAVE: tl.constexpr):
    """One pass over a long row, whose maximum and sum are kept up to date. With SAVE the gradient reads their logarithm and not the row once more."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * n
    largest = tl.full((), float("-inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(logits + i, mask=i < n, other=float("-inf")).to(tl.float32)
        new = tl.maximum(largest, tl.max(x))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(x - new))
        largest = new
    value = largest + tl.log(total)
    if SAVE:
        value = tl.save(value, lse + row)
    tl.store(loss + row, value - tl.load(logits + tl.load(labels + row)).to(tl.float32))


@nereid.jit
def rope(x, cos, sin, y, heads: tl.constexpr, D: tl.constexpr, HEADS: tl.constexpr):
    """All heads of a token: x and y are (tokens, heads, D), cos and sin (tokens, D) with their halves equal."""
    token = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, D // 2)[None, :]
    head = tl.arange(0, HEADS)[:, None]
    at = (token * heads + head) * D + i
    a = tl.load(x + at, mask=head < heads).to(tl.float32)
    b = tl.load(x + at + D // 2, mask=head < heads).to(tl.float32)
    c = tl.load(cos + token * D + i).to(tl.float32)
    s = tl.load(sin + token * D + i).to(tl.float32)
    tl.store(y + at, a * c - b * s, mask=head < heads)
    tl.store(y + at + D // 2, b * c + a * s, mask=head < heads)


@nereid.jit
def kl_divergence(prediction, target, loss, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    total = tl.zeros((), tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        t = tl.load(target + row + i, mask=i < n, other=1.0).to(tl.float32)
        total += tl.sum(t * (tl.log(t) - tl.load(prediction + row + i, mask=i < n, other=0.0)))
    tl.store(loss + tl.program_id(0), total)


@nereid.jit
def group_norm(x, weight, bias, y, means, scales, channels, size, groups, eps, BLOCK: tl.constexpr, SAVE: tl.constexpr):
    """A group of an image a program, in blocks; then channel by channel. With SAVE the gradient reads the statistics and does not compute them again."""
    image, group = tl.program_id(0), tl.program_id(1)
    of_group = channels // groups
    length = of_group * size
    first = (image * channels + group * of_group).to(tl.int64) * size
    total, squares = 0.0, 0.0
    for start in range(0, length, BLOCK):
        i = start + tl.arange(0, BLOCK)
        value = tl.load(x + first + i, mask=i < length, other=0.0)
        total += tl.sum(value)
        squares += tl.sum(value * value)
    mean = total / length
    scale = 1.0 / tl.sqrt(squares / length - mean * mean + eps)
    if SAVE:
        mean = tl.save(mean, means + image * groups + group)
        scale = tl.save(scale, scales + image * groups + group)
    for channel in range(group * of_group, (group + 1) * of_group):
        w = tl.load(weight + channel)
        b = tl.load(bias + channel)
        row = (image * channels + channel).to(tl.int64) * size
        for start in range(0, size, BLOCK):
            i = start + tl.arange(0, BLOCK)
            value = tl.load(x + row + i, mask=i < size, other=0.0)
            tl.store(y + row + i, (value - mean) * scale * w + b, mask=i < size)


@nereid.jit
def attention(Q, K, V, Out, stride_h, stride_n, scale, length, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    start = tl.program_id(0)
    head = tl.program_id(1)
    offs_m = start * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, D)
    q = tl.load(Q + head * stride_h + offs_m[:, None] * stride_n + offs_d[None, :], mask=offs_m[:, None] < length, other=0.0)
    largest = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    end = tl.minimum((start + 1) * BM, length) if CAUSAL else length
    for n in range(0, end, BN):
        cols = n + offs_n
        k = tl.load(K + head * stride_h + cols[None, :] * stride_n + offs_d[:, None], mask=cols[None, :] < length, other=0.0)
        qk = tl.dot(q, k) * (scale * 1.44269504)
        mask = cols[None, :] < length
        if CAUSAL:
            mask = mask & (offs_m[:, None] >= cols[None, :])
        qk = tl.where(mask, qk, -1.0e6)
        new = tl.maximum(largest, tl.max(qk, 1))
        p = tl.math.exp2(qk - new[:, None])
        alpha = tl.math.exp2(largest - new)
        total = total * alpha + tl.sum(p, 1)
        v = tl.load(V + head * stride_h + cols[:, None] * stride_n + offs_d[None, :], mask=cols[:, None] < length, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        largest = new
    acc = acc / total[:, None]
    tl.store(Out + head * stride_h + offs_m[:, None] * stride_n + offs_d[None, :], acc.to(Out.dtype.element_ty), mask=offs_m[:, None] < length)


@nereid.jit
def embedding(table, index, y, tokens, width, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    token = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    row = tl.load(index + token, mask=token < tokens, other=0)
    mask = (token < tokens)[:, None] & (column < width)[None, :]
    tl.store(y + token[:, None] * width + column[None, :], tl.load(table + row[:, None] * width + column[None, :], mask=mask), mask=mask)


class Case:
    """wrt: parameters to differentiate; `reference` takes them in fp64. By hand: `backward()` gives their gradients, `forward` whether its time contains the forward kernel. narrow: gradients that are summed in bf16. outputs: whether
    the gradient's launch writes the outputs. constants: of each attempt."""

    def __init__(self, kernel, grid, arguments, constants, wrt, out, reference, by_hand, cotangent, forward=False, narrow=(), outputs=False):
        self.kernel, self.grid, self.arguments, self.wrt, self.out = kernel, grid, arguments, wrt, out
        self.constants = constants if isinstance(constants, list) else [constants]
        self.reference, self.by_hand, self.cotangent, self.forward, self.narrow, self.outputs = reference, by_hand, cotangent, forward, narrow, outputs


def power(n):
    return 1 << (n - 1).bit_length()


def random(*shape, dtype=torch.bfloat16, scale=1.0):
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


def cases():
    """name → function that makes the case"""
    from liger_kernel.ops import geglu as liger_geglu
    from liger_kernel.ops import group_norm as liger_group_norm
    from liger_kernel.ops import kl_div, rope as liger_rope, softmax as liger_softmax
    from liger_kernel.ops import cross_entropy as liger_cross_entropy
    from liger_kernel.ops import layer_norm as liger_layer_norm
    from liger_kernel.ops import rms_norm as liger_rms_norm
    from liger_kernel.ops import swiglu as liger_swiglu
    from liger_kernel.ops.experimental import embedding as liger_embedding

    def rows_softmax(rows, n):
        x, dy = random(rows, n), random(rows, n)
        y, *settings = liger_softmax._softmax_forward(x)
        return Case(softmax, (rows, ), dict(x=x, y=torch.empty_like(x), n=n), dict(BLOCK=power(n)), ("x", ), "y", lambda x: x.softmax(1),
                    lambda: (liger_softmax._softmax_backward(dy, y, *settings), ), dy)

    def gated(kernel, rows, n, reference, backward):
        gate, up, dy = (random(rows, n) for _ in range(3))

        def by_hand():
            # Liger writes the gradients over the inputs: in the comparison, over copies.
            return backward(gate, up, dy)

        return Case(kernel, (-(-rows * n // 2048), ), dict(gate=gate.clone(), up=up.clone(), y=torch.empty_like(gate), n=rows * n), dict(BLOCK=2048), ("gate", "up"), "y", reference,
                    by_hand, dy)

    def rows_rms(rows, n):
        x, w, dy = random(rows, n), random(n), random(rows, n)
        _, _, rstd, block, warps, casting = liger_rms_norm.rms_norm_forward(x, w, 1e-6, 0.0, "llama", False)
        return Case(rms_norm, (rows, ), dict(x=x, weight=w, y=torch.empty_like(x), n=n, eps=1e-6), dict(BLOCK=power(n)), ("x", "weight"), "y",
                    lambda x, w: F.rms_norm(x, (n, ), w, 1e-6), lambda: liger_rms_norm.rms_norm_backward(dy, x, w, rstd, 0.0, casting, block, warps, False, False), dy)

    def rows_layer(rows, n):
        x, w, b, dy = random(rows, n), random(n), random(n), random(rows, n)
        _, _, mean, rstd, *_ = liger_layer_norm.layer_norm_forward(x, w, b, 1e-6)
        return Case(layer_norm, (rows, ), dict(x=x, weight=w, bias=b, y=torch.empty_like(x), n=n, eps=1e-6), dict(BLOCK=power(n)), ("x", "weight", "bias"), "y",
                    lambda x, w, b: F.layer_norm(x, (n, ), w, b, 1e-6), lambda: liger_layer_norm.layer_norm_backward(dy, x, w, b, mean, rstd), dy)

    def loss(rows, n, save, outputs=False):
        x, labels = random(rows, n), torch.randint(0, n, (rows, ), device="cuda")
        # Liger computes the gradient where the logits require one, and writes it over them.
        again = x.clone().requires_grad_()

        def by_hand():
            with torch.no_grad():
                liger_cross_entropy.cross_entropy_forward(again, labels, None, -100, 0.0, 0.0, "sum", None, False)
            return (again.detach(), )

        return Case(cross_entropy, (rows, ), dict(logits=x, labels=labels, loss=torch.empty(rows, device="cuda"), lse=torch.empty(rows, device="cuda"), n=n),
                    [dict(BLOCK=block, SAVE=save) for block in (8192, 16384, 32768)], ("logits", ), "loss",
                    lambda x: F.cross_entropy(x, labels, reduction="none"), by_hand, torch.ones(rows, device="cuda"), forward=not outputs, outputs=outputs)

    def rotation(tokens, heads, D):
        x, dy = random(tokens, heads, D), random(tokens, heads, D)
        angle = torch.rand(tokens, D // 2, device="cuda") * 6
        cos, sin = (torch.cat((f(angle), f(angle)), 1).bfloat16() for f in (torch.cos, torch.sin))
        # Liger rotates queries and keys in one launch: half of the heads each.
        queries, keys = (part.transpose(0, 1)[None] for part in dy.clone().chunk(2, 1))

        def reference(x):
            a, b = x.chunk(2, 2)
            c, s = (each.double()[:, None, :D // 2] for each in (cos, sin))
            return torch.cat((a * c - b * s, b * c + a * s), 2)

        def by_hand():
            return tuple(liger_rope.rope_backward(queries, keys, cos[None], sin[None]))

        return Case(rope, (tokens, ), dict(x=x, cos=cos, sin=sin, y=torch.empty_like(x)), dict(heads=heads, D=D, HEADS=power(heads)), ("x", ), "y", reference, by_hand, dy)

    def divergence(rows, n):
        prediction, target = random(rows, n).float().log_softmax(1).bfloat16(), random(rows, n).float().softmax(1).bfloat16()
        gradients, one = torch.empty_like(prediction), torch.ones((), device="cuda")
        return Case(kl_divergence, (rows, ), dict(prediction=prediction, target=target, loss=torch.empty(rows, device="cuda"), n=n), dict(BLOCK=8192), ("prediction", ), "loss",
                    lambda p: F.kl_div(p, target.double(), reduction="none").sum(1), lambda: (kl_div.kldiv_backward_triton(target, one, gradients, False), ),
                    torch.ones(rows, device="cuda"))

    def groups(images, channels, size, count, save):
        x, w, b, dy = (random(*shape, dtype=torch.float32) for shape in ((images, channels, size), (channels, ), (channels, ), (images, channels, size)))
        _, _, mean, rstd, _ = liger_group_norm.group_norm_forward(x, channels, count, w, b, 1e-6)
        return Case(group_norm, (images, count), dict(x=x, weight=w, bias=b, y=torch.empty_like(x), means=mean.flatten(), scales=rstd.flatten(), channels=channels, size=size,
                                                      groups=count, eps=1e-6), [dict(BLOCK=block, SAVE=save) for block in (1024, 2048)],
                    ("x", "weight", "bias"), "y", lambda x, w, b: F.group_norm(x, count, w, b, 1e-6),
                    lambda: liger_group_norm.group_norm_backward(dy, x, w, b, mean, rstd, channels, count), dy)

    def lookup(tokens, rows, width, narrow=()):
        table, index, dy = random(rows, width), torch.randint(0, rows, (tokens, ), device="cuda"), random(tokens, width)

        class Context:
            saved_tensors = (index, table)

        return Case(embedding, (-(-tokens // 4), -(-width // 512)), dict(table=table, index=index, y=torch.empty_like(dy), tokens=tokens, width=width), dict(BLOCK_M=4, BLOCK_N=512),
                    ("table", ), "y", lambda t: t[index], lambda: liger_embedding.LigerEmbeddingFunction.backward(Context, dy)[:1], dy, narrow=narrow)

    return {
        "softmax 8192x4096": lambda: rows_softmax(8192, 4096),
        "softmax 4096x16384": lambda: rows_softmax(4096, 16384),
        "SwiGLU 8192x11008": lambda: gated(swiglu, 8192, 11008, lambda g, u: F.silu(g) * u, lambda a, b, dc: liger_swiglu.swiglu_backward(a, b, dc)),
        "GeGLU 8192x11008": lambda: gated(geglu, 8192, 11008, lambda g, u: F.gelu(g, approximate="tanh") * u, lambda a, b, dc: liger_geglu.geglu_backward(a, b, dc)),
        "RMS norm 8192x4096": lambda: rows_rms(8192, 4096),
        "RMS norm 16384x1024": lambda: rows_rms(16384, 1024),
        "layer norm 8192x4096": lambda: rows_layer(8192, 4096),
        "layer norm 16384x1024": lambda: rows_layer(16384, 1024),
        "cross entropy 4096x32000": lambda: loss(4096, 32000, False),
        "cross entropy 4096x128256": lambda: loss(4096, 128256, False),
        "cross entropy 4096x32000, logarithm saved": lambda: loss(4096, 32000, True),
        "cross entropy 4096x128256, logarithm saved": lambda: loss(4096, 128256, True),
        "cross entropy 4096x32000, one launch": lambda: loss(4096, 32000, False, True),
        "cross entropy 4096x128256, one launch": lambda: loss(4096, 128256, False, True),
        "rotary 8192x64x128": lambda: rotation(8192, 64, 128),
        "KL divergence 4096x32000": lambda: divergence(4096, 32000),
        "group norm 64x256x1024 by 32": lambda: groups(64, 256, 1024, 32, False),
        "group norm 64x256x1024 by 32, statistics saved": lambda: groups(64, 256, 1024, 32, True),
        "embedding 16384 of 32000x4096": lambda: lookup(16384, 32000, 4096),
        "embedding 16384 of 32000x4096, sums in bf16": lambda: lookup(16384, 32000, 4096, ("table", )),
    }


def error(found, exact):
    """Size of the difference over the size of the exact gradient, the largest of all gradients; infinite where one is not finite."""
    sizes = [float((f.double().reshape(e.shape) - e).norm() / e.norm()) for f, e in zip(found, exact)]
    return max(size if size == size else float("inf") for size in sizes)


def fastest_forward(name, case, bench, warps):
    """A launch of the forward kernel, in its fastest configuration."""
    calls = {}
    for count, constants in itertools.product(warps, case.constants):
        calls[f"{count} warps, {constants}"] = functools.partial(case.kernel[case.grid], **case.arguments, **constants, num_warps=count)
    for call in calls.values():
        call()
    times = dict(zip(calls, bench.medians(list(calls.values()), 0.1)))
    best = min(times, key=times.get)
    print(f"<!-- {name}, forward kernel, {best}: {1e3 * times[best]:.1f} us -->", flush=True)
    return calls[best]


def timed(name, case, bench, seconds, warps):
    exact_inputs = [case.arguments[each].double().requires_grad_() for each in case.wrt]
    exact = torch.autograd.grad(case.reference(*exact_inputs), exact_inputs, case.cotangent.double())
    del exact_inputs
    found = {f"d{each}": torch.empty_like(case.arguments[each]) for each in case.wrt}
    best = None
    forward = fastest_forward(name, case, bench, warps) if case.forward else None
    if case.outputs:
        value = case.reference(*(case.arguments[each].double() for each in case.wrt))
    for count, constants in itertools.product(warps, case.constants):
        gradient = nereid.grad(case.kernel, case.wrt, case.out, case.narrow, case.outputs)

        def ours(gradient=gradient, count=count, constants=constants):
            if forward:
                forward()
            gradient.backward[case.grid](**case.arguments, **{f"d{case.out}": case.cotangent}, **found, **constants, num_warps=count)

        for each in (*found.values(), case.arguments[case.out]):
            each.fill_(float("nan"))
        ours()
        wrong = error(found.values(), exact)
        if case.outputs:
            wrong = max(wrong, error([case.arguments[case.out]], [value]))
        if wrong > 2e-2:
            raise SystemExit(f"{name}, {count} warps: our gradient is off by {wrong:.1e}")
        ms = bench.medians([ours], 0.1)[0]
        if len(case.constants) > 1:
            print(f"<!-- {name}, {count} warps, {constants}: {1e3 * ms:.1f} us -->", flush=True)
        if best is None or ms < best[0]:
            best = (ms, count, ours, gradient, wrong)
    _, count, ours, gradient, wrong = best
    by_hand = error([each for each in case.by_hand()], exact) if name.split()[0] != "rotary" else error([torch.cat([each[0].transpose(0, 1) for each in case.by_hand()], 1)], exact)
    if not by_hand < 2e-2:
        raise SystemExit(f"{name}: the gradient by hand is off by {by_hand:.1e}")
    (mine, hand), _, _ = bench.pairs([ours, case.by_hand], seconds)
    text = gradient.explain()
    ways = ", ".join(f"{each}: {gradients.sums(text, each)}" for each in case.wrt)
    print(f"| {name} | {1e3 * mine:.1f} ({count}) | {1e3 * hand:.1f} | {hand / mine:.3f} | {wrong:.1e}, {by_hand:.1e} | {ways} |", flush=True)


#: Blocks of queries and of keys, warps, stages: as an author would tune the gradient. The fastest counts.
ATTENTION = ((64, 64, 4, 3), (64, 64, 4, 2), (128, 64, 8, 3), (128, 64, 8, 2), (64, 128, 8, 2), (128, 128, 8, 2))


def attentions(bench, seconds, compile_options):
    """dQ, dK, dV of a forward kernel, against PyTorch's flash attention."""
    heads, length, D = 64, 2048, 64
    q, k, v, dy = (random(heads, length, D, dtype=torch.float16) for _ in range(4))
    out = torch.empty_like(q)
    for causal in (False, True):
        grads = [torch.empty_like(q) for _ in range(3)]
        inputs = [each[None].clone().requires_grad_() for each in (q, k, v)]
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
            result = F.scaled_dot_product_attention(*inputs, is_causal=causal)

        def by_hand():
            return torch.autograd.grad(result, inputs, dy[None], retain_graph=True)

        best = None
        for BM, BN, warps, stages in ATTENTION:
            gradient = nereid.grad(attention, ("Q", "K", "V"), "Out")
            options = dict(num_warps=warps, num_stages=stages) | compile_options

            def ours(gradient=gradient, BM=BM, BN=BN, options=options):
                gradient.backward[(length // BM, heads)](q, k, v, out, length * D, D, D**-0.5, length, dOut=dy, dQ=grads[0], dK=grads[1], dV=grads[2], BM=BM, BN=BN, D=D, CAUSAL=causal,
                                                         **options)

            for each in grads:
                each.fill_(float("nan"))
            ours()
            wrong = error(grads, [each[0].double() for each in by_hand()])
            if wrong > 2e-2:
                raise SystemExit(f"attention: our gradient is off by {wrong:.1e}")
            ms = bench.medians([ours], 0.1)[0]
            print(f"<!-- {BM}x{BN}, {warps} warps, {stages} stages: {1e3 * ms:.1f} us -->", flush=True)
            if best is None or ms < best[0]:
                best = (ms, f"{BM}x{BN}, {warps} warps", ours, gradient, wrong)
        _, config, ours, gradient, wrong = best
        (mine, theirs), _, _ = bench.pairs([ours, by_hand], seconds)
        ways = ", ".join(f"{each}: {gradients.sums(gradient.explain(), each)}" for each in "QKV")
        print(f"| attention {heads}x{length}x{D}{' causal' if causal else ''}, flash attention by hand | {1e3 * mine:.1f} ({config}) | {1e3 * theirs:.1f} | {theirs / mine:.3f} "
              f"| {wrong:.1e} from flash attention's | {ways} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="where the package liger-kernel is")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each case")
    parser.add_argument("--warps", default="4,8,16,32")
    parser.add_argument("--options", type=json.loads, default={}, help="further compile options of attention's gradient, as JSON")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    options = parser.parse_args()
    if options.folder:
        sys.path.append(options.folder)
    torch.manual_seed(0)
    bench = Bench()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print("| case | ours, us (warps) | by hand, us | ratio | errors | how gradients are summed |\n|---|---|---|---|---|---|")
    failed = False
    runs = {name: functools.partial(lambda make, name: timed(name, make(), bench, options.seconds, [int(each) for each in options.warps.split(",")]), make, name)
            for name, make in (cases() if options.only != "attention" else {}).items()}  # the others need Liger
    runs["attention"] = lambda: attentions(bench, options.seconds, options.options)
    for name, run in runs.items():
        if options.only in name:
            try:
                run()
            except (Exception, SystemExit) as problem:  # the other cases still run
                failed = True
                print(f"| {name} | failed: {type(problem).__name__}: {str(problem).splitlines()[0][:300]} |", flush=True)
                torch.cuda.synchronize()
    return failed


if __name__ == "__main__":
    sys.exit(main())
