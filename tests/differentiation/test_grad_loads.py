"""Several loads of one tensor by one program: contributions are summed in registers, or by the program that owns the element; no atomic additions, and
the same bits in every run. Lanes that reach no output contribute zero."""

import grad_check
import jvp_check
import nereid
import nereid.language as tl
import pytest
import torch
from test_jvp_kernels import causal_conv, layer_norm, rope

F64 = torch.float64


def zeros(*shape, dtype=F64):
    return torch.zeros(*shape, dtype=dtype)


def stage(kernel, wrt, out, arguments, name, **options):
    """A stage of the compiled gradient."""
    gradient = nereid.grad(kernel, wrt, out)
    names = [each for group in (wrt, out) for each in ((group, ) if isinstance(group, str) else group)]
    compiled = gradient.backward.warmup(**arguments, **{f"d{each}": arguments[each] for each in names}, grid=(1, ), **options)
    return compiled.asm[name], gradient.explain()


def sums(kernel, wrt, out, arguments, **options):
    """For each gradient whether it is "stored", "summed" by its owner, or summed by "atomic" additions alone."""
    _, text = stage(kernel, wrt, out, arguments, "explain", target="cpu", **options)
    found = {}
    for line in text.splitlines()[1:]:
        name = line.split("`")[1]
        found[name] = "atomic" if f"`{name}` is summed by atomic" in line else line.split(f"`{name}` is ")[1].split(" ")[0]
    return found


@nereid.jit
def boxes(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left, top = tl.load(x + 0 + 4 * at), tl.load(x + 1 + 4 * at)
    right, bottom = tl.load(x + 2 + 4 * at), tl.load(x + 3 + 4 * at)
    tl.store(y + at, (right - left) * (bottom - top) + tl.sin(left * bottom))


@nereid.jit
def overlapping_boxes(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + 4 * at) * tl.load(x + 4 * at + 3) * tl.load(x + 4 * at + 4))


@nereid.jit
def halves(x, y, half, BLOCK: tl.constexpr):
    row = x + tl.program_id(0) * 2 * half
    i = tl.arange(0, BLOCK)
    a = tl.load(row + i, mask=i < half, other=0.0)
    b = tl.load(row + half + i, mask=i < half, other=0.0)
    tl.store(y + tl.program_id(0) * half + i, a * tl.cos(b), mask=i < half)


@nereid.jit
def neighbours(x, y, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    a = tl.load(x + row * stride + i, mask=i < n, other=0.0)
    b = tl.load(x + row * stride + i + 1, mask=i + 1 < n, other=0.0)
    c = tl.load(x + row * stride + i + 2, mask=i + 2 < n, other=1.0)
    tl.store(y + row * n + i, a * b + c * c * a, mask=i < n)


@nereid.jit
def two_loops(x, y, stride, n, m, BLOCK: tl.constexpr):
    """The second loop is longer than the first one, and than a row."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, ), y.dtype.element_ty)
    for k in range(n):
        total += tl.load(x + row * stride + k * BLOCK + i)
    for k in range(m):
        total += tl.sin(tl.load(x + row * stride + k * BLOCK + i))
    tl.store(y + row * BLOCK + i, total)


@nereid.jit
def beside_a_loop(x, y, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, ), y.dtype.element_ty)
    for k in range(n):
        total += tl.load(x + row * stride + k * BLOCK + i)
    total += tl.cos(tl.load(x + row * stride + i))
    tl.store(y + row * BLOCK + i, total)


@nereid.jit
def two_masks(x, y, n, m, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    a = tl.load(x + row * BLOCK + i, mask=i < n, other=0.0)
    tl.store(y + row * BLOCK + i, a + tl.exp(tl.load(x + row * BLOCK + i, mask=i < m, other=0.0)))


@nereid.jit
def repeated_lanes(x, y, BLOCK: tl.constexpr):
    """Four lanes load each element."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(tl.broadcast_to((x + i)[:, None], (BLOCK, 4)))
    tl.store(y + i, tl.sum(v * v * tl.arange(0, 4)[None, :], 1))


@nereid.jit
def both_directions(x, y, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    middle = x + BLOCK + row * stride
    tl.store(y + row * BLOCK + i, tl.load(middle - i) * tl.load(middle + i))


@nereid.jit
def first_row(x, y, stride, BLOCK: tl.constexpr):
    """A row of the program's own, times a row that all programs load."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(y + row * BLOCK + i, tl.load(x + row * stride + i) * tl.load(x + i))


@nereid.jit
def branches(x, y, flag, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    if flag > row:
        r = tl.sin(tl.load(x + row * BLOCK + i))
    else:
        r = tl.exp(tl.load(x + row * BLOCK + i))
    r = r * tl.load(x + row * BLOCK + i)
    if flag == row:
        r += tl.load(x + row * BLOCK + i, mask=i > 3, other=0.0)
    tl.store(y + row * BLOCK + i, r)


@nereid.jit
def moments(x, y, stride, n, BLOCK: tl.constexpr):
    """Three passes over a row, and one more over a part of it."""
    row = x + tl.program_id(0) * stride
    i = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(row + i, mask=i < n, other=0.0), 0)
    for k in range(0, n, BLOCK):
        total += tl.sum(tl.load(row + k + i, mask=k + i < n, other=0.0), 0)
    squares = total * 0.0
    for k in range(0, n, BLOCK):
        v = tl.load(row + k + i, mask=k + i < n, other=0.0) - total / n
        if k > 0:
            squares += tl.sum(tl.where(k + i < n, v * v, 0.0), 0)
        else:
            squares += tl.sum(tl.load(row + i, mask=i < n, other=0.0), 0)
    for k in range(0, n, BLOCK):
        v = tl.load(row + k + i, mask=k + i < n, other=0.0)
        tl.store(y + tl.program_id(0) * n + k + i, v * total + squares * v * v, mask=k + i < n)


CASES = {
    "boxes": (boxes, (3, ), dict(x=(96, ), y=(24, )), dict(BLOCK=8), "stored"),
    "boxes that share a corner": (overlapping_boxes, (3, ), dict(x=(97, ), y=(24, )), dict(BLOCK=8), "atomic"),
    "halves": (halves, (5, ), dict(x=(5, 26), y=(5, 13)), dict(half=13, BLOCK=16), "stored"),
    "halves that overlap": (halves, (1, ), dict(x=(64, ), y=(1, 13)), dict(half=5, BLOCK=8), "stored"),
    "neighbours": (neighbours, (4, ), dict(x=(4, 20), y=(4, 13)), dict(stride=20, n=13, BLOCK=16), "summed"),
    "neighbours of rows that overlap": (neighbours, (4, ), dict(x=(90, ), y=(4, 13)), dict(stride=7, n=13, BLOCK=16), "summed"),
    "loops of other lengths": (two_loops, (3, ), dict(x=(60, ), y=(3, 8)), dict(stride=9, n=1, m=3, BLOCK=8), "summed"),
    "beside a loop without rounds": (beside_a_loop, (3, ), dict(x=(30, ), y=(3, 8)), dict(stride=5, n=0, BLOCK=8), "summed"),
    "two masks": (two_masks, (3, ), dict(x=(3, 8), y=(3, 8)), dict(n=5, m=7, BLOCK=8), "summed"),
    "lanes that share": (repeated_lanes, (3, ), dict(x=(3, 8), y=(3, 8)), dict(BLOCK=8), "atomic"),
    "both directions": (both_directions, (3, ), dict(x=(40, ), y=(3, 8)), dict(stride=8, BLOCK=8), "atomic"),
    "a row of all programs": (first_row, (3, ), dict(x=(3, 8), y=(3, 8)), dict(stride=8, BLOCK=8), "atomic"),
    "branches": (branches, (3, ), dict(x=(3, 8), y=(3, 8)), dict(flag=1, BLOCK=8), "summed"),
    "moments": (moments, (3, ), dict(x=(3, 21), y=(3, 21)), dict(stride=21, n=21, BLOCK=8), "summed"),
    "moments of rows that overlap": (moments, (3, ), dict(x=(50, ), y=(3, 21)), dict(stride=9, n=21, BLOCK=8), "summed"),
}


@pytest.mark.parametrize("name", CASES)
def test_loads_of_one_tensor(name):
    kernel, grid, tensors, options, kind = CASES[name]
    arguments = {each: jvp_check.random(*shape) for each, shape in tensors.items()}
    sizes = {each: value for each, value in options.items() if each != "BLOCK"}
    grad_check.check(kernel, grid, arguments | sizes, ("x", ), ("y", ), BLOCK=options["BLOCK"])
    assert sums(kernel, "x", "y", arguments | sizes, BLOCK=options["BLOCK"]) == {"x": kind}


@pytest.mark.parametrize("arch", ["cuda:80", "cuda:90"])
def test_machine_code_of_gpus(arch):
    """Threads meet between one load's sums and the next one's: as many barriers as loads that do not store first."""
    arguments = dict(x=zeros(3, 21), y=zeros(3, 21), stride=21, n=21)
    gradient = nereid.grad(moments, "x", "y")
    compiled = gradient.backward.warmup(**arguments, dx=arguments["x"], dy=arguments["y"], BLOCK=8, grid=(1, ), target=arch)
    assert compiled.asm["cubin"] and compiled.asm["ptx"].count("bar.sync") >= 3


def test_gradients_of_several_loads_are_the_same_in_every_run():
    x, dy = torch.randn(64, 333), torch.randn(64, 333)
    gradient = nereid.grad(moments, "x", "y")
    runs = []
    for _ in range(3):
        dx = torch.full_like(x, float("nan"))
        gradient.backward[(64, )](x, torch.zeros_like(x), 333, 333, dx=dx, dy=dy, BLOCK=32)
        runs.append(dx)
    assert all(torch.equal(runs[0], run) for run in runs)


def test_kernels_that_people_write():
    row = dict(x=zeros(4, 16), cos=zeros(4, 8), sin=zeros(4, 8), y=zeros(4, 16))
    assert sums(rope, "x", "y", row, D=16) == {"x": "stored"}
    norm = dict(X=zeros(4, 77), Y=zeros(4, 77), W=zeros(77), B=zeros(77), Mean=zeros(4), Rstd=zeros(4), stride=77, N=77, eps=0.1)
    assert sums(layer_norm, ("X", ), ("Y", ), norm, BLOCK_SIZE=32) == {"X": "summed"}
    assert sums(causal_conv, ("x", "w"), ("y", ), dict(x=zeros(3, 25), w=zeros(3, 4), y=zeros(3, 25), length=25), WIDTH=4, BLOCK=32) == {"x": "summed", "w": "stored"}


# ---- loads that are merged or leave a loop


@nereid.jit
def loaded_in_each_round(x, w, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    for k in range(n):
        weight = tl.load(w + row * 2 * BLOCK + i, mask=i < 6, other=0.5)
        scale = tl.load(w + row * 2 * BLOCK + 7)
        v = tl.load(x + (row * 8 + k) * BLOCK + i)
        tl.store(y + (row * 8 + k) * BLOCK + i, v * tl.sin(weight) * scale)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_what_each_round_loads_is_summed_in_registers(n):
    arguments = dict(x=jvp_check.random(2, 8, 8), w=jvp_check.random(2, 16), y=zeros(2, 8, 8), n=n)
    grad_check.check(loaded_in_each_round, (2, ), arguments, ("x", "w"), ("y", ), begin=0.0, BLOCK=8)
    assert sums(loaded_in_each_round, ("x", "w"), "y", arguments, BLOCK=8)["w"] == "summed"  # the block and the number may meet


def test_a_loop_without_rounds_reads_nothing():
    """The load that left the loop has an address outside of every tensor."""

    @nereid.jit
    def kernel(x, w, y, far, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        total = tl.load(x + i)
        for _ in range(n):
            total += tl.load(w + far + i) * tl.load(w + far)
        tl.store(y + i, total)

    dx, dw = zeros(8), zeros(8)
    nereid.grad(kernel, ("x", "w"), "y").backward[(1, )](zeros(8), zeros(8), zeros(8), 1 << 40, 0, dx=dx, dw=dw, dy=zeros(8) + 2, BLOCK=8)
    assert dx.tolist() == [2.0] * 8 and dw.tolist() == [0.0] * 8


# ---- lanes that reach no output


def test_lanes_that_reach_no_output_contribute_zero():

    @nereid.jit
    def divided(x, y, w, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n)  # 0 behind the end
        tl.store(y + i, w / v, mask=i < n)

    x, y, dy = jvp_check.random(5, low=0.5, high=1.5), zeros(5), jvp_check.random(5)
    dw, dx = zeros(1, dtype=torch.float32), zeros(5)
    nereid.grad(divided, ("x", "w"), "y").backward[(1, )](x, y, 2.0, 5, dx=dx, dw=dw, dy=dy, BLOCK=8)
    torch.testing.assert_close(dw.double(), (dy / x).sum().reshape(1), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(dx, -2 * dy / x**2)


ROOTS = """
@triton.jit
def kernel(x, y, w, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    {}
"""


@pytest.mark.parametrize("body", [
    "tl.store(y + i, tl.sqrt(v) * w, mask=v > 0)",
    "tl.store(y + i, tl.where(v > 0, tl.sqrt(v) * w, 0.0))",
    "tl.store(y + i, tl.where(v <= 0, 0.0, tl.sqrt(v) * w))",
    "tl.store(y + i, tl.sum(tl.where(v > 0, tl.sqrt(v) * w, 0.0), 0) + i)",
    "tl.store(y + i, tl.trans(tl.reshape(tl.where(v > 0, tl.sqrt(v) * w, 0.0), (2, 4))).reshape(8))",
    "r = tl.sqrt(v)\n    for k in range(n):\n        w += 0.0 * n\n        r = r * w\n    tl.store(y + i, r + r * v, mask=v > 0)",
    "r = v\n    if n > 1:\n        r = tl.sqrt(v) * w + v / w\n    tl.store(y + i, r, mask=v > 0)",
    "r = tl.trans(tl.reshape(tl.sqrt(v) * w, (2, 4))).reshape(8)\n    tl.store(y + i, r, mask=tl.trans(tl.reshape(v, (2, 4))).reshape(8) > 0)",
    "r = tl.sum(tl.reshape(tl.sqrt(v) * w, (8, 1)), 1)\n    tl.store(y + i, r, mask=v > 0)",
    "r = tl.sqrt(v) * w\n    tl.store(y + i, tl.where(v > 0, tl.where(v > 1, r, 2 * r), 0.0))",
    "r = tl.sqrt(v) * w\n    tl.store(y + i, tl.where(v > 0, r, 0.0), mask=v > -1)\n    tl.store(y + 8 + i, r * r, mask=v > 1)",
])
def test_infinite_factors_where_nothing_is_stored(body):
    """The square root has an infinite derivative at 0, in lanes that a mask or a selection leaves out."""
    import harness
    kernel = harness.make(ROOTS.format(body))
    x = torch.tensor([0.0, 4.0, 0.0, 1.0, 0.25, 0.0, 0.0, 9.0], dtype=F64)
    dy = jvp_check.random(16)
    dx, dw = zeros(8), zeros(1, dtype=torch.float32)
    nereid.grad(kernel, ("x", "w"), "y").backward[(1, )](x, zeros(16), 0.5, 2, dx=dx, dw=dw, dy=dy, BLOCK=8)
    assert dx.isfinite().all() and dw.isfinite().all()
    assert dx[x == 0].eq(0).all() and dx[x > 0].ne(0).all() and dw.ne(0).all()


# ---- seeded bugs: what each test finds


def test_a_second_load_at_another_place_is_found():
    """Sums of contributions in the wrong place: a kernel whose second load is one element off has another gradient."""

    @nereid.jit
    def moved(x, y, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        left, top = tl.load(x + 0 + 4 * at), tl.load(x + 1 + 4 * at)
        right, bottom = tl.load(x + 2 + 4 * at), tl.load(x + 1 + 4 * at)
        tl.store(y + at, (right - left) * (bottom - top) + tl.sin(left * bottom))

    arguments = dict(x=jvp_check.random(96), y=zeros(24))
    with pytest.raises(AssertionError):
        grad_check.check(boxes, (3, ), arguments, ("x", ), ("y", ), reverse=moved, BLOCK=8)
