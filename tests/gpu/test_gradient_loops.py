"""Loops of gradient kernels: where threads exchange sums and wait for one another, what stays in the L2 cache; the code, and results on simulated threads. Needs no GPU."""

import nereid
import nereid.language as tl
import pytest
import torch


@nereid.jit
def norm(x, weight, y, n, BLOCK: tl.constexpr):
    """A row in blocks; its sum begins with a number that is not zero."""
    row = tl.program_id(0) * n
    total = 1.0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        value = tl.load(x + row + i, mask=i < n, other=0.0)
        total += tl.sum(value * value)
    scale = tl.rsqrt(total / n)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        tl.store(y + row + i, tl.load(x + row + i, mask=i < n) * scale * tl.load(weight + i, mask=i < n), mask=i < n)


@nereid.jit
def channels(x, weight, bias, y, count, n, BLOCK: tl.constexpr):
    """Two numbers of each channel, whose gradients each program adds to a row of its own."""
    for channel in range(count):
        w = tl.load(weight + channel)
        b = tl.load(bias + channel)
        row = (tl.program_id(0) * count + channel) * n
        for start in range(0, n, BLOCK):
            i = start + tl.arange(0, BLOCK)
            tl.store(y + row + i, tl.load(x + row + i, mask=i < n) * w + b, mask=i < n)


def channel_arguments(programs, count, n):
    torch.manual_seed(0)
    x, dy = torch.randn(programs, count, n), torch.randn(programs, count, n)
    weight, bias = torch.randn(count), torch.randn(count)
    return dict(x=x, weight=weight, bias=bias, y=torch.zeros_like(x), count=count, n=n, dy=dy, dx=torch.empty_like(x), dweight=torch.empty_like(weight), dbias=torch.empty_like(bias))


def arguments(rows, n):
    torch.manual_seed(0)
    x, weight, dy = torch.randn(rows, n), torch.randn(n), torch.randn(rows, n)
    return dict(x=x, weight=weight, y=torch.zeros_like(x), n=n, dy=dy, dx=torch.empty_like(x), dweight=torch.empty_like(weight))


def in_loops(text, operation):
    """How many of a kernel's operations of a kind stand in loops, and how many outside."""
    ends, counts = [], [0, 0]
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if "scf.for " in line:
            ends.append(indent)
        elif ends and line.strip().startswith("}") and indent == ends[-1]:
            ends.pop()
        counts[not ends] += operation in line
    return tuple(counts)


@pytest.mark.parametrize("block, expected", [(256, (0, 2)), (2048, (0, 2)), (4096, (2, 0))])
def test_where_sums_are_taken(block, expected):
    """The blocks take 2, 16 and 32 registers of a thread."""
    given = arguments(2, 10000)
    del given["dweight"]
    kernel = nereid.grad(norm, "x", "y").backward.kernel
    asking = {kernel.saved: torch.empty(16, dtype=torch.uint8), kernel.step: -1}
    compiled = kernel.warmup(**given, **asking, BLOCK=block, grid=(2, ), num_warps=4, target="cuda:90")
    assert in_loops(compiled.asm["gpu"], "tile.reduce(") == expected
    # Kernels of an author keep their order.
    del given["dy"], given["dx"]
    assert in_loops(norm.warmup(**given, BLOCK=block, grid=(2, ), num_warps=4, target="cuda:90").asm["gpu"], "tile.reduce(") == (1, 0)


def test_where_owners_wait():
    """dx is stored in one loop, and added to in another one, whose turns come to other elements each: threads wait in front of it. The old values are read with x."""
    given = arguments(2, 10000)
    del given["dweight"]
    kernel = nereid.grad(norm, "x", "y").backward.kernel
    asking = {kernel.saved: torch.empty(16, dtype=torch.uint8), kernel.step: -1}
    text = kernel.warmup(**given, **asking, BLOCK=256, grid=(2, ), num_warps=4, target="cuda:90").asm["gpu"]
    assert in_loops(text, "tile.barrier") == (0, 1)
    last = text[text.rindex("scf.for"):]
    assert last.count("tile.load") == 2 and last.rindex("tile.load") < last.index("scf.if")
    # The row is read three times, and stays in the cache until the third.
    assert text.count("evict evict_last") == 2 and last.count("evict evict_first") == 1


@nereid.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    power = tl.load(x + row + i, mask=i < n, other=-float("inf")).to(tl.float32)
    power = tl.exp(power - tl.max(power, 0))
    tl.store(y + row + i, power / tl.sum(power, 0), mask=i < n)


@nereid.jit
def log_sum(x, y, n, BLOCK: tl.constexpr):
    """The logarithm of the sum of a row's exponentials, in blocks."""
    row = tl.program_id(0) * n
    largest, total = -float("inf"), 0.0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        value = tl.load(x + row + i, mask=i < n, other=-float("inf")).to(tl.float32)
        new = tl.maximum(largest, tl.max(value, 0))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(value - new), 0)
        largest = new
    tl.store(y + tl.program_id(0), largest + tl.log(total))


def row_arguments(rows, n, loss):
    torch.manual_seed(0)
    x, y = (4 * torch.randn(rows, n)).bfloat16(), torch.empty(rows) if loss else torch.empty(rows, n, dtype=torch.bfloat16)
    return dict(x=x, y=y, n=n, dy=torch.randn(y.shape).to(y.dtype), dx=torch.empty_like(x))


@pytest.mark.parametrize("kernel, block, warps", [(softmax, 16384, 8), (softmax, 1024, 4), (log_sum, 1024, 4)])
def test_exponentials_of_rows(kernel, block, warps):
    """No operand is positive, also where a row is converted again behind its maximum, and where the logarithm of the sum has taken the maximum's place; quotients
    by a softmax's sum are products with its reciprocal, which is not scaled; the halves of words become fp32 by a shift or a mask."""
    gradient = nereid.grad(kernel, "x", "y").backward.kernel
    asking = {gradient.saved: torch.empty(16, dtype=torch.uint8), gradient.step: -1}
    ptx = gradient.warmup(**row_arguments(2, block, kernel is log_sum), **asking, BLOCK=block, grid=(2, ), num_warps=warps, target="cuda:90").asm["ptx"]
    elements = block // (32 * warps)
    loops = 2 if kernel is log_sum else 1
    assert ptx.count("mul.rm.f32") >= loops * elements
    assert ptx.count("0f3EFEFCF7") == 0 or ptx.count("fma.rn.sat.f32") <= loops * elements + 4
    assert "0f1F800000" not in ptx  # 2^-64
    assert ptx.count("cvt.f32.bf16") < 4


PROGRAM = """
import sys
import nereid
import simulated  # noqa: F401
import torch
sys.path.insert(0, sys.argv[1])
from test_gradient_loops import arguments, channel_arguments, channels, log_sum, norm, row_arguments, softmax
given = arguments(3, 100)
nereid.grad(norm, ("x", "weight"), "y").backward[(3, )](**given, BLOCK=32, num_warps=2)
x, weight = (given[name].double().requires_grad_() for name in ("x", "weight"))
y = x * torch.rsqrt(((x * x).sum(1, keepdim=True) + 1) / 100) * weight
for name, expected in zip(("dx", "dweight"), torch.autograd.grad(y, (x, weight), given["dy"].double())):
    torch.testing.assert_close(given[name].double(), expected, rtol=1e-4, atol=1e-5)
given = channel_arguments(3, 2, 100)
gradient = nereid.grad(channels, ("x", "weight", "bias"), "y")
gradient.backward[(3, )](**given, BLOCK=32, num_warps=2)
dy, x = given["dy"].double(), given["x"].double()
for name, expected in (("dx", dy * given["weight"].double()[:, None]), ("dweight", (dy * x).sum((0, 2))), ("dbias", dy.sum((0, 2)))):
    torch.testing.assert_close(given[name].double(), expected, rtol=1e-4, atol=1e-5)
assert gradient.explain().count("partial sums") >= 2
for kernel, n, block, warps in ((softmax, 16000, 16384, 8), (softmax, 200, 256, 2), (log_sum, 600, 256, 2)):
    given = row_arguments(2, n, kernel is log_sum)
    given["x"][1] -= 1e30  # a maximum beside which all others vanish
    given["x"][1, 3] = 1.0
    nereid.grad(kernel, "x", "y").backward[(2, )](**given, BLOCK=block, num_warps=warps)
    x = given["x"].double().requires_grad_()
    y = x.softmax(1) if kernel is softmax else x.logsumexp(1)
    expected, = torch.autograd.grad(y, x, given["dy"].double())
    torch.testing.assert_close(given["dx"].double(), expected, rtol=1e-2, atol=1e-6)
print("right")
"""


def test_results(simulated):
    simulated(PROGRAM, __file__.rpartition("/")[0])
