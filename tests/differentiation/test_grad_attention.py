"""Attention. Loops that carry a maximum and sums rescaled to it (src/differentiate/OnlineSums.h): which are differentiated as plain sums, and that others keep
their gradient. Schedules of keys and values (src/differentiate/ScheduledBlocks.cpp): each block is summed and stored by one program, from what a first launch has
saved; the tests launch both steps themselves on gradients and memory that begin as NaN, so numbers say that each element was stored and none was added to."""

import math
import pathlib
import sys

import grad_check
import jvp_check
import nereid
import nereid.language as tl
import pytest
import torch
from nereid.differentiation import _explained
from test_grad_loops import attention_in_two_loops
from test_jvp_kernels import attention

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kernels"))

from test_attention import _attn_fwd  # noqa: E402
from test_attention import attention as reference_of_attention  # noqa: E402


@nereid.jit
def online(x, w, y, extra, sink, n, ROWS: tl.constexpr, BLOCK: tl.constexpr, KIND: tl.constexpr):
    """y[i] = sum(softmax(x[i]) * w), with further outputs or another recurrence as KIND says."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    m = tl.full([ROWS], -float("inf"), tl.float64)
    l = tl.zeros([ROWS], tl.float64)
    acc = tl.zeros([ROWS], tl.float64)
    means = tl.zeros([ROWS], tl.float64)
    if KIND == "sink":
        m = tl.load(sink + row)
        l += 1.0
    if KIND == "squares of sums before" or KIND == "squares of rescaled sums" or KIND == "begins with an input":
        m = tl.zeros([ROWS], tl.float64)
        l += 1.0
        if KIND == "begins with an input":
            acc = tl.load(sink + row)
    for k in range(0, n, BLOCK):
        at = k + tl.arange(0, BLOCK)
        s = tl.load(x + row[:, None] * n + at[None, :], mask=at[None, :] < n, other=-float("inf"))
        if KIND == "masked rows":
            s = tl.where((row % 3 > 0)[:, None], s, -float("inf"))
        elif KIND == "rows of one number":
            s = tl.where((row % 3 > 0)[:, None] | (at >= n)[None, :], s, -1e30)
        elif KIND == "means of rounds before":
            means += acc / tl.where(l > 0.0, l, 1.0)
        if KIND == "maximum of another block":
            new = tl.maximum(m, tl.max(s, 1) * 0.5)
        else:
            new = tl.maximum(m, tl.max(s, 1))
        base = tl.where(new == -float("inf"), 0.0, new)
        if KIND == "natural":
            alpha = tl.exp(m - base)
            p = tl.exp(s - base[:, None])
        elif KIND == "two bases":
            alpha = tl.exp(m - base)
            p = tl.exp2(s - base[:, None])
        elif KIND == "squares":
            alpha = tl.exp2(m - base)
            p = tl.exp2((s - base[:, None]) * 2.0)
        else:
            alpha = tl.exp2(m - base)
            p = tl.exp2(s - base[:, None])
        v = tl.load(w + at, mask=at < n, other=0.0)
        before = l
        l = l * alpha + tl.sum(p, 1)
        if KIND == "not homogeneous":
            acc = acc * alpha + tl.sum(p * v[None, :] + v[None, :], 1)
        elif KIND == "squares of sums before":
            acc = acc * alpha + tl.sum(p * v[None, :], 1) + 0.01 * before * before * tl.exp2(2.0 * m - new)
        elif KIND == "squares of rescaled sums":
            acc = acc * alpha + tl.sum(p * v[None, :], 1) + 0.01 * (before * alpha) * (before * alpha) * tl.exp2(new)
        elif KIND == "quotients of a round":
            acc = acc * alpha + tl.sum(p * v[None, :] * (p / tl.sum(p, 1)[:, None]), 1)
        else:
            acc = acc * alpha + tl.sum(p * v[None, :], 1)
        m = new
    l = tl.where(l == 0.0, 1.0, l)
    if KIND == "unscaled":
        tl.store(y + row, acc)
    elif KIND == "sums behind":
        total = tl.zeros([ROWS], tl.float64)
        for i in range(n // 2):
            total += acc * i
        tl.store(y + row, total)
    elif KIND == "raw maximum":
        tl.store(y + row, acc / l + m)
    elif KIND == "wrong power":
        tl.store(y + row, acc / (l * l))
    elif KIND == "little of the maximum":
        tl.store(y + row, acc / l + 1e-7 * m)
    elif KIND == "means of rounds before":
        tl.store(y + row, acc / l + means)
    else:
        tl.store(y + row, acc / l)
    if KIND == "natural":
        tl.store(extra + row, m + tl.log(l))
    elif KIND == "masked rows":
        tl.store(extra + row, tl.where(row % 3 > 0, m + tl.log2(l), 0.0))
    else:
        tl.store(extra + row, m + tl.log2(l))


PLAIN = ("base 2", "natural", "masked rows", "rows of one number", "maximum of another block")
OTHERS = ("sink", "two bases", "squares", "not homogeneous", "unscaled", "raw maximum", "little of the maximum", "wrong power", "means of rounds before", "squares of sums before",
          "squares of rescaled sums", "quotients of a round", "begins with an input", "sums behind")
WITH_SINK = ("sink", "begins with an input")


def given(n):
    rows = 8
    return dict(x=jvp_check.random(rows, n), w=jvp_check.random(n), y=torch.zeros(rows, dtype=torch.float64), extra=torch.zeros(rows, dtype=torch.float64),
                sink=jvp_check.random(rows), n=n)


@pytest.mark.parametrize("n", [5, 29])
@pytest.mark.parametrize("kind", [*PLAIN, *OTHERS])
def test_transpose_of_the_forward_derivative(kind, n):
    """Forward mode differentiates the loop as it is written."""
    wrt = ("x", "w", "sink") if kind in WITH_SINK else ("x", "w")
    grad_check.check(online, (2, ), given(n), wrt, ("y", "extra"), begin=0.0, ROWS=4, BLOCK=8, KIND=kind)


@pytest.mark.parametrize("kind", ["means of rounds before", "quotients of a round", *PLAIN[:4]])
def test_scores_that_are_far_apart(kind):
    """What is near a round's maximum may be nothing beside the final one, and no divisor then."""
    arguments = given(29)
    arguments["x"] += 1000.0 * (torch.arange(29) // 8)
    grad_check.check(online, (2, ), arguments, ("x", "w"), ("y", "extra"), begin=0.0, ROWS=4, BLOCK=8, KIND=kind)


@pytest.mark.parametrize("masked", [-1e4, -1e6, -1e9, -3e38])
def test_rows_of_one_number_in_single_precision(masked):
    """Rows whose scores all are what a mask has written have equal weights. Beside such a maximum the logarithm of the sum is rounded."""
    heads, length, D = 2, 48, 16
    q, k, v, dout = (heads_of(heads, length, D, torch.float32) for _ in range(4))
    found = [torch.full_like(each[0], float("nan")) for each in (q, k, v)]
    nereid.grad(masked_by_numbers, ("Q", "K", "V"), "Out").backward[(3, heads)](q[0], k[0], v[0], torch.empty_like(q[0]), length, masked, dQ=found[0], dK=found[1], dV=found[2],
                                                                             dOut=dout[0], BM=16, BN=16, D=D)
    leaves = [each.double().requires_grad_() for each in (q, k, v)]
    rows, keys = torch.arange(length)[:, None], torch.arange(length)[None]
    scores = torch.where((rows >= keys) & (rows % 3 > 0), leaves[0] @ leaves[1].transpose(-1, -2) * D**-0.5, torch.tensor(masked, dtype=torch.float64))
    (scores.softmax(-1) @ leaves[2]).backward(dout.double())
    near([each[None] for each in found], [leaf.grad for leaf in leaves], torch.float32)


@nereid.jit
def masked_by_numbers(Q, K, V, Out, length, masked, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1) * length * D
    d = tl.arange(0, D)
    q = tl.load(Q + head + rows[:, None] * D + d[None, :], mask=rows[:, None] < length, other=0.0)
    m = tl.full([BM], -float("inf"), tl.float32)
    l = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for j in range(0, length, BN):
        at = j + tl.arange(0, BN)
        k = tl.load(K + head + at[:, None] * D + d[None, :], mask=at[:, None] < length, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * 0.25
        s = tl.where((rows[:, None] >= at[None, :]) & (rows % 3 > 0)[:, None], s, masked)
        s = tl.where(at[None, :] < length, s, -float("inf"))
        new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp(m - new)
        p = tl.exp(s - new[:, None])
        l = l * alpha + tl.sum(p, 1)
        v = tl.load(V + head + at[:, None] * D + d[None, :], mask=at[:, None] < length, other=0.0)
        acc = tl.dot(p, v, acc * alpha[:, None], input_precision="ieee")
        m = new
    tl.store(Out + head + rows[:, None] * D + d[None, :], acc / l[:, None], mask=rows[:, None] < length)


def loops(kind):
    arguments, wrt = given(29), ("x", "sink") if kind in WITH_SINK else ("x", )
    gradients = {f"d{name}": arguments[name] for name in (*wrt, "y", "extra")}
    compiled = nereid.grad(online, wrt, ("y", "extra")).backward.warmup(**arguments, **gradients, grid=(1, ), ROWS=4, BLOCK=8, KIND=kind)
    return compiled.asm["tile"].count("scf.for")


@pytest.mark.parametrize("kind", [*PLAIN, *OTHERS])
def test_which_repeat_no_rounds(kind):
    """One loop for the maximum and the sums, one for the gradients; with recurrences further loops that find their states."""
    assert (loops(kind) == 2) == (kind in PLAIN)


def test_against_autograd():
    arguments = given(29)
    x, w = (arguments[name].clone().requires_grad_() for name in ("x", "w"))
    scores = x * 0.6931471805599453
    dy, dextra = jvp_check.random(8), jvp_check.random(8)
    ((scores.softmax(1) @ w * dy).sum() + (scores.logsumexp(1) / 0.6931471805599453 * dextra).sum()).backward()
    found = grad_check.gradients(online, (2, ), arguments, ("x", "w"), ("y", "extra"), dict(y=dy, extra=dextra), ROWS=4, BLOCK=8, KIND="base 2")
    torch.testing.assert_close(found["x"], x.grad, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found["w"], w.grad, rtol=1e-9, atol=1e-12)


# ---- schedules of keys and values


def stored(kernel, grid, arguments, dout, wrt=("Q", "K", "V"), **options):
    """({name: gradient}, what `explain` says): from both steps of the kernel, without atomic additions to zeros."""
    gradient = nereid.grad(kernel, wrt, "Out").backward.kernel
    found = {name: like(arguments[name]) for name in wrt}
    given = dict(arguments, **options, dOut=dout, **{f"d{name}": value for name, value in found.items()})
    size = torch.zeros(2, dtype=torch.int64)
    gradient[grid](**given, saved=size.view(torch.uint8), step=-1)
    memory = torch.full((math.prod(grid) * int(size[0]) // 4 + 4, ), float("nan"))
    for step in range(2):
        gradient[grid](**given, saved=memory.view(torch.uint8), step=step)
    return found, _explained((compiled, 0) for compiled in gradient._kernels())


def like(tensor):
    """NaN, in the type in which gradients are summed."""
    dtype = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype).fill_(float("nan"))


def expected_of(tensors, dout, **rules):
    leaves = [each.double().requires_grad_() for each in tensors]
    reference_of_attention(*leaves, **rules)[0].backward(dout.double())
    return [leaf.grad for leaf in leaves]


TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-4, torch.float16: 3e-2, torch.bfloat16: 1e-1}  # constants are fp32


def near(found, expected, dtype):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * float(other.abs().max()))


def heads_of(heads, length, D, dtype, rows_first=False):
    """(1, heads, length, D), in memory by heads or by rows."""
    shape = (1, length, heads, D) if rows_first else (1, heads, length, D)
    whole = jvp_check.random(*shape).to(dtype)
    return whole.transpose(1, 2) if rows_first else whole


def of_attention(heads, length, D, dtype, causal, rows_first=False, BM=16, BN=16, grid=None):
    q, k, v, dout = (heads_of(heads, length, D, dtype, rows_first) for _ in range(4))
    arguments = dict(Q=q[0], K=k[0], V=v[0], Out=torch.zeros_like(q[0]), M=torch.zeros(heads, length, dtype=dtype), stride_h=q.stride(1), stride_n=q.stride(2), scale=D**-0.5,
                     heads=heads, length=length)
    found, text = stored(attention, grid or (nereid.cdiv(length, BM), heads), arguments, dout[0], BM=BM, BN=BN, D=D, CAUSAL=causal)
    return [found[name][None] for name in "QKV"], expected_of((q, k, v), dout, causal=causal), text


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length, BM, BN", [(40, 16, 16), (16, 16, 16), (70, 32, 16), (70, 16, 32), (5, 16, 16), (129, 32, 32)])
def test_every_block_is_stored(length, BM, BN, causal):
    found, expected, text = of_attention(2, length, 16, torch.float64, causal, BM=BM, BN=BN)
    assert text.count("has a transposed schedule") == 2 and text.count("from what a first step has saved") == 2, text
    assert "`Q` is stored by the program that owns it" in text
    near(found, expected, torch.float64)


@pytest.mark.parametrize("causal", [False, True])
def test_single_precision(causal):
    near(*of_attention(2, 70, 32, torch.float32, causal)[:2], torch.float32)


@pytest.mark.parametrize("causal", [False, True])
def test_rows_before_heads(causal):
    """The order of strides is found at run time."""
    near(*of_attention(3, 40, 16, torch.float64, causal, rows_first=True)[:2], torch.float64)


def test_more_programs_than_tiles():
    near(*of_attention(2, 40, 16, torch.float64, True, grid=(5, 2))[:2], torch.float64)


def test_the_same_bits_in_every_run():
    generator = jvp_check.GENERATOR.get_state()
    runs = []
    for _ in range(3):
        jvp_check.GENERATOR.set_state(generator)
        runs.append(of_attention(4, 150, 16, torch.float32, True)[0])
    assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(run, runs[0]))


@pytest.mark.parametrize("length, dtype", [(32, torch.float64), (70, torch.float64), (97, torch.float64), (70, torch.float16), (70, torch.bfloat16)])
def test_whole_blocks_in_a_loop_of_their_own(length, dtype):
    heads, D = 2, 16
    q, k, v, dout = (heads_of(heads, length, D, dtype) for _ in range(4))
    arguments = dict(Q=q, K=k, V=v, Out=torch.zeros_like(q), Lse=torch.zeros(heads, length, dtype=torch.float64 if dtype == torch.float64 else torch.float32), scale=D**-0.5, length=length)
    found, text = stored(attention_in_two_loops, (nereid.cdiv(length, 32), heads), arguments, dout, BM=32, BN=16, D=D)
    assert text.count("has a transposed schedule") == 2, text
    near([found[name] for name in "QKV"], expected_of((q, k, v), dout, causal=True), dtype)


RULES = {"plain": dict(), "causal": dict(causal=True), "window": dict(causal=True, window=20), "softcap": dict(causal=True, softcap=15.0),
         "alibi": dict(causal=True, slopes=torch.tensor([0.5, 0.25, 0.125, 0.0625]))}


def of_groups(rules, m, n, d, kv_heads, dtype=torch.float32, rows_first=False, k=None, v=None):
    """Arguments, grid and options of a kernel with four heads of queries in each of two batches."""
    z, h = 2, 4

    def tensor(heads, length):
        whole = torch.cat([heads_of(heads, length, d, dtype, rows_first) for _ in range(z)])
        return whole.transpose(1, 2).contiguous().transpose(1, 2) if rows_first else whole

    q, dout = tensor(h, m), tensor(h, m)
    k = tensor(kv_heads, n) if k is None else k
    v = tensor(kv_heads, n) if v is None else v
    out = torch.empty_like(q)
    strides = {f"stride_{name}{axis}": each.stride(i) for name, each in zip("qkvo", (q, k, v, out)) for i, axis in enumerate(("z", "h", "n" if name in "kv" else "m"))}
    arguments = dict(Q=q, K=k, V=v, Out=out, Lse=torch.empty(z, h, m), sm_scale=d**-0.5, softcap=rules.get("softcap", 0.0), AlibiSlopes=rules.get("slopes"), cu_seqlens_q=None,
                     cu_seqlens_k=None, **strides, H=h, H_KV=k.shape[1], seqlen_q=m, seqlen_k=n, window=rules.get("window", 0), D=d)
    options = dict(IS_CAUSAL=rules.get("causal", False), SLIDING_WINDOW="window" in rules, USE_ALIBI="slopes" in rules, USE_SOFTCAP="softcap" in rules, VARLEN=False, BLOCK_M=32,
                   BLOCK_N=16, BLOCK_D=nereid.next_power_of_2(d))
    return arguments, (nereid.cdiv(m, 32), z * h), dout, options


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("m, n, d, kv_heads", [(64, 64, 32, 4), (50, 77, 24, 2), (50, 77, 16, 1)])
def test_groups_of_heads(name, m, n, d, kv_heads):
    """Queries of a group are summed by the owner of the keys."""
    arguments, grid, dout, options = of_groups(RULES[name], m, n, d, kv_heads)
    found, text = stored(_attn_fwd.fn, grid, arguments, dout, **options)
    assert text.count("has a transposed schedule") == 2, text
    near([found[each] for each in "QKV"], expected_of([arguments[each] for each in "QKV"], dout, **RULES[name]), torch.float32)


def test_groups_of_heads_with_rows_before_heads():
    arguments, grid, dout, options = of_groups(RULES["causal"], 50, 77, 16, 2, rows_first=True)
    found, _ = stored(_attn_fwd.fn, grid, arguments, dout, **options)
    near([found[each] for each in "QKV"], expected_of([arguments[each] for each in "QKV"], dout, causal=True), torch.float32)


def test_heads_that_share_memory():
    """Keys expanded along heads have no owner: their gradient is summed by atomic additions, beside values with a schedule."""
    k = jvp_check.random(2, 1, 77, 16).float()
    arguments, grid, dout, options = of_groups({}, 50, 77, 16, 4, k=k.expand(2, 4, 77, 16))
    found, _ = stored(_attn_fwd.fn, grid, arguments, dout, wrt=("V", ), **options)
    expected = expected_of([arguments[each] for each in "QKV"], dout)
    near([found["V"]], expected[2:], torch.float32)
    total = torch.full_like(k, float("nan")).expand(2, 4, 77, 16)
    nereid.grad(_attn_fwd.fn, ("K", "V"), "Out").backward[grid](**arguments, **options, dOut=dout, dK=total, dV=torch.empty_like(arguments["V"]))
    near([total[:, :1]], [expected[1].sum(1, keepdim=True)], torch.float32)


def test_backward_makes_both_launches():
    heads, length, D = 2, 70, 16
    gradient = nereid.grad(attention, ("Q", "K", "V"), "Out")
    q, k, v, dout = (heads_of(heads, length, D, torch.float64) for _ in range(4))
    found = [torch.full_like(each[0], float("nan")) for each in (q, k, v)]
    gradient.backward[(5, heads)](q[0], k[0], v[0], torch.empty_like(q[0]), torch.empty(heads, length), length * D, D, D**-0.5, heads, length, dQ=found[0], dK=found[1], dV=found[2],
                                  dOut=dout[0], BM=16, BN=16, D=D, CAUSAL=True)
    assert gradient.explain().count("from what a first step has saved") == 2
    near([each[None] for each in found], expected_of((q, k, v), dout, causal=True), torch.float64)


@nereid.jit
def falling(x, w, y, n, N: tl.constexpr, KIND: tl.constexpr):
    """y[row] = sum of x * w[row] over blocks before a bound that differs between rows."""
    row = tl.program_id(0)
    batch = tl.program_id(1)
    at = tl.arange(0, N)
    acc = tl.zeros((N, ), tl.float64)
    if KIND == "falls":
        lower = 0
        end = n - row * N
    elif KIND == "starts between blocks":
        lower = row * (N // 2)
        end = n
    elif KIND == "rises":
        lower = row * N
        end = tl.minimum(row * 2 * N + N, n)
    elif KIND == "two coordinates":
        lower = 0
        end = tl.minimum((row + batch) * N, n)
    elif KIND == "times a negative number":
        lower = 0
        end = n + row * (0 - N)
    else:  # below zero, where there are no blocks
        lower = row * N - 2 * N
        end = n
    for k in range(lower, end, N):
        acc += tl.load(x + batch * n + k + at, mask=k + at < n) * tl.load(w + row)
    tl.store(y + (batch * tl.num_programs(0) + row) * N + at, acc)


@pytest.mark.parametrize("kind", ["rises", "falls", "starts between blocks", "two coordinates", "times a negative number", "below zero"])
def test_bounds(kind):
    """Of the kernel itself: `backward` would take partial sums."""
    N, n, rows, batches = 8, 45, 6, 3
    before = 16  # what lies before the tensor is read as well
    memory, w, dy = jvp_check.random(before + batches * n), jvp_check.random(rows), jvp_check.random(batches, rows, N)
    found, expected = torch.zeros_like(memory), torch.zeros_like(memory)
    gradient = nereid.grad(falling, "x", "y").backward.kernel
    gradient[(rows, batches)](memory[before:], w, torch.zeros_like(dy), n, dy=dy, dx=found[before:], N=N, KIND=kind)
    assert ("has a transposed schedule" in _explained((compiled, 0) for compiled in gradient._kernels())) == (kind in ("rises", "below zero"))
    for row in range(rows):
        for batch in range(batches):
            lower, end = {"starts between blocks": (row * 4, n), "rises": (row * N, min(row * 16 + 8, n)), "below zero": (row * N - before, n),
                          "two coordinates": (0, min((row + batch) * N, n))}.get(kind, (0, n - row * N))
            for k in range(lower, end, N):
                for i in range(min(N, n - k)):
                    expected[before + batch * n + k + i] += dy[batch, row, i] * w[row]
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_code_for_gpus():
    half = torch.ones(64, dtype=torch.float16)
    gradient = nereid.grad(attention_in_two_loops, ("Q", "K", "V"), "Out")
    compiled = gradient.backward.warmup(half, half, half, half, half.float(), 0.125, 4096, dQ=half, dK=half, dV=half, dOut=half, BM=128, BN=64, D=64, num_warps=8, grid=(32, 16),
                                        target="cuda:90")
    assert f"{128 * 64 * 2 + 2 * 128 * 4}" in compiled.asm["tile"]  # what a program saves: a block in the type of the products' operands, two numbers for each row
    assert compiled.asm["ptx"].count("wgmma.mma_async") >= 10
    assert compiled.asm["cubin"]


@nereid.jit
def attention_of_strides(Q, K, V, Out, stride_h, stride_kh, stride_vh, stride_n, length, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Heads of keys and of values may share memory, each on their own."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    at = tl.arange(0, D)
    q = tl.load(Q + head * stride_h + rows[:, None] * stride_n + at[None, :], mask=rows[:, None] < length, other=0.0)
    largest = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for n in range(0, length, BN):
        columns = n + tl.arange(0, BN)
        k = tl.load(K + head * stride_kh + columns[None, :] * stride_n + at[:, None], mask=columns[None, :] < length, other=0.0)
        v = tl.load(V + head * stride_vh + columns[:, None] * stride_n + at[None, :], mask=columns[:, None] < length, other=0.0)
        scores = tl.where(columns[None, :] < length, tl.dot(q, k), -1.0e6)
        new = tl.maximum(largest, tl.max(scores, 1))
        p = tl.exp(scores - new[:, None])
        alpha = tl.exp(largest - new)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        largest = new
    tl.store(Out + head * stride_h + rows[:, None] * stride_n + at[None, :], acc / total[:, None], mask=rows[:, None] < length)


@pytest.mark.parametrize("keys, values", [(3, 3), (1, 3), (3, 1), (1, 1)])
def test_keys_and_values_in_one_loop(keys, values):
    """They share a loop where both can be stored. Else neither is, and both are right."""
    length, D = 40, 16
    q, out, dout = (torch.zeros(3, length, D), torch.zeros(3, length, D), jvp_check.random(3, length, D).float())
    q.copy_(jvp_check.random(3, length, D))
    k, v = (jvp_check.random(heads, length, D).float().expand(3, length, D) for heads in (keys, values))
    arguments = dict(Q=q, K=k, V=v, Out=out, stride_h=length * D, stride_kh=k.stride(0), stride_vh=v.stride(0), stride_n=D, length=length)
    found, text = stored(attention_of_strides, (3, 3), arguments, dout, BM=16, BN=16, D=D)
    assert text.count("has a transposed schedule") == 2, text
    assert all(bool(found[name].isnan().any()) == (keys == 1 or values == 1) for name in "KV")
    found = {name: torch.zeros_like(arguments[name][:1]).expand(3, length, D) if arguments[name].stride(0) == 0 else torch.zeros_like(arguments[name]) for name in "QKV"}
    nereid.grad(attention_of_strides, ("Q", "K", "V"), "Out").backward[(3, 3)](**arguments, dOut=dout, **{f"d{name}": each for name, each in found.items()}, BM=16, BN=16, D=D)
    leaves = [each.double().requires_grad_() for each in (q, k[:keys], v[:values])]
    weights = (leaves[0] @ leaves[1].transpose(1, 2)).softmax(2)
    (weights @ leaves[2]).backward(dout.double())
    for name, leaf in zip("QKV", leaves):
        torch.testing.assert_close(found[name][:len(leaf)].double(), leaf.grad, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("BN, D, together", [(64, 64, True), (64, 128, True), (128, 128, False)])
def test_sums_of_one_loop_fit_into_registers(BN, D, together):
    half = torch.empty(64, 4096, D, dtype=torch.float16)
    kernel = nereid.grad(attention_of_strides, ("Q", "K", "V"), "Out").backward.kernel
    tile = kernel.warmup(half, half, half, half, 4096 * D, 4096 * D, 4096 * D, D, 4096, dQ=half, dK=half, dV=half, dOut=half, BM=64, BN=BN, D=D, num_warps=8, grid=(64, 64),
                         saved=torch.empty(16, dtype=torch.uint8)).asm["tile"]
    assert (f"-> (tensor<{D}x{BN}xf32>, tensor<{BN}x{D}xf32>)" in tile) == together
