"""Who adds to a gradient: stores by owners where that is proven or found at run time, atomic additions elsewhere, and what `explain` says of it."""

import collections
import random

import explain_texts
import grad_check
import harness
import jvp_check
import nereid
import nereid.language as tl
import pytest
import torch
from nereid.differentiation import _meet
from test_grad import one_block_matmul, swiglu
from test_jvp_kernels import causal_conv, embedding, rms_norm

F64 = torch.float64


def zeros(*shape):
    return torch.zeros(*shape, dtype=F64)


@nereid.jit
def windows(x, y, stride, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i, mask=i < width, other=0.0)
    tl.store(y + row * BLOCK + i, v * v, mask=i < width)


@pytest.mark.parametrize("stride,width", [(16, 16), (12, 12), (12, 9), (4, 16), (3, 9), (8, 9), (0, 5), (1, 1), (1, 2)])
def test_rows_that_overlap_or_not(stride, width):
    """Strides known at run time: rows of their own are stored, rows that overlap are summed."""
    x = jvp_check.random(7 * stride + 16)
    dy = jvp_check.random(7, 16)
    dx = torch.empty_like(x)
    nereid.grad(windows, "x", "y").backward[(7, )](x, zeros(7, 16), stride, width, dx=dx, dy=dy, BLOCK=16)
    expected = torch.zeros_like(x)
    for row in range(7):
        at = slice(row * stride, row * stride + width)
        expected[at] += 2 * x[at] * dy[row, :width]
    torch.testing.assert_close(dx, expected)


@nereid.jit
def steps_of_two_and_three(x, y, stride, n):
    lane = tl.arange(0, 2)
    for r in range(8):
        mask = lane + r < n
        value = tl.load(x + tl.program_id(0) * stride + 2 * lane + 3 * r, mask=mask, other=0.0)
        tl.store(y + tl.program_id(0) * 16 + r * 2 + lane, value * value)


@pytest.mark.parametrize("stride", [8, 10, 25])
def test_masks_of_positions_with_strides_that_do_not_divide(stride):
    """The mask bounds lane + round, the address moves by 2 and by 3: it reaches further than the bound times 2, so programs 8 apart meet."""
    grad_check.check(steps_of_two_and_three, (3, ), dict(x=jvp_check.random(2 * stride + 26), y=zeros(3, 16), stride=stride, n=4), ("x", ), ("y", ))


@nereid.jit
def rows_from_the_end(x, y, stride, n):
    i = tl.arange(0, 4)[None, :]
    j = tl.arange(0, 4)[:, None]
    mask = i + 4 * j < n
    value = tl.load(x + tl.program_id(0) * stride + i + (3 - j) * 4, mask=mask, other=0.0)
    tl.store(y + tl.program_id(0) * 16 + i + 4 * j, value * value)


@pytest.mark.parametrize("stride", [6, 8, 16])
def test_masks_of_positions_that_are_counted_from_the_other_end(stride):
    """The first six positions are the four of the last row and two of the row before: they span eight elements, so programs 6 apart meet."""
    grad_check.check(rows_from_the_end, (3, ), dict(x=jvp_check.random(2 * stride + 16), y=zeros(3, 16), stride=stride, n=6), ("x", ), ("y", ))


@nereid.jit
def taps(x, y, stride, distance, begin, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = x + begin + tl.program_id(0) * stride + i
    tl.store(y + tl.program_id(0) * BLOCK + i, tl.load(at) * tl.load(at + 1) * tl.load(at + distance))


@nereid.jit
def steps(x, y, stride, step, rounds, begin, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float64)
    for k in range(rounds):
        at = x + begin + tl.program_id(0) * stride + k * step + i
        total += tl.load(at) * tl.load(at + 1)
    tl.store(y + tl.program_id(0) * BLOCK + i, total)


@pytest.mark.parametrize("stride,distance", [(8, -5), (9, -12), (9, 3), (20, 3), (9, 0)])
def test_negative_distances_of_loads_that_one_program_repeats(stride, distance):
    """A distance backwards reaches into other programs' elements: it must not make what a program reaches look smaller."""
    grad_check.check(taps, (4, ), dict(x=jvp_check.random(100), y=zeros(32), stride=stride, distance=distance, begin=16), ("x", ), ("y", ), BLOCK=8)


@pytest.mark.parametrize("stride,step,rounds", [(8, -3, 4), (5, -20, 3), (30, 5, 3), (9, 0, 3)])
def test_negative_steps_of_loads_that_one_program_repeats(stride, step, rounds):
    grad_check.check(steps, (3, ), dict(x=jvp_check.random(180), y=zeros(24), stride=stride, step=step, rounds=rounds, begin=60), ("x", ), ("y", ), BLOCK=8)


@nereid.jit
def first_and_rest(x, y, stride, length, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = x + tl.program_id(0) * stride + i
    first = tl.load(at)
    total = first * first
    for k in range(0, length, BLOCK):
        total += tl.load(at + k) * first
    tl.store(y + tl.program_id(0) * BLOCK + i, total)


@pytest.mark.parametrize("stride,length", [(3, -8), (7, -100), (7, 0), (8, 0), (16, 16), (15, 16)])
def test_a_loop_without_rounds_beside_another_load(stride, length):
    """What the loop would reach is less than nothing then, and the load before it still overlaps that of the next program."""
    grad_check.check(first_and_rest, (3, ), dict(x=jvp_check.random(80), y=zeros(24), stride=stride, length=length), ("x", ), ("y", ), BLOCK=8)


@nereid.jit
def shared(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    other = tl.program_id(1)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + other * n + i, v * (other + 1), mask=i < n)


@pytest.mark.parametrize("programs", [1, 3])
def test_axes_of_the_grid_that_an_address_does_not_depend_on(programs):
    x, dx, dy = jvp_check.random(40), zeros(40), jvp_check.random(programs, 40)
    nereid.grad(shared, "x", "y").backward[(3, programs)](x, zeros(programs, 40), 40, dx=dx, dy=dy, BLOCK=16)
    torch.testing.assert_close(dx, (dy * torch.arange(1, programs + 1)[:, None]).sum(0))


@nereid.jit
def transposed(x, y, sm, sn, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.arange(0, BLOCK)
    v = tl.load(x + m[:, None] * sm + n[None, :] * sn)
    tl.store(y + m[:, None] * BLOCK + n[None, :], tl.exp(v))


@pytest.mark.parametrize("sm,sn", [(16, 1), (1, 64), (1, 1), (0, 1), (5, 3), (-16, 1)])
def test_two_strides(sm, sn):
    x, dy = jvp_check.random(3000), jvp_check.random(64, 16)
    dx = torch.zeros_like(x)
    begin = 1100 if sm < 0 else 0  # the launch clears what lies behind it
    nereid.grad(transposed, "x", "y").backward[(4, )](x[begin:], zeros(64, 16), sm, sn, dx=dx[begin:], dy=dy, BLOCK=16)
    at = begin + torch.arange(64)[:, None] * sm + torch.arange(16)[None, :] * sn
    expected = torch.zeros_like(x).index_put_((at.reshape(-1), ), (torch.exp(x[at]) * dy).reshape(-1), accumulate=True)
    torch.testing.assert_close(dx, expected)


def enumerated(seed):
    """(a kernel with several loads of `x`, the addresses of each: program → [[lanes of one execution]])"""
    choose = random.Random(seed).choice
    programs, own = 3, choose([8, 12, 16, 24, 32, 64])
    lines, addresses = ["@triton.jit", "def kernel(x, y):", "    pid = tl.program_id(0)", "    total = 0.0 * pid.to(tl.float64)"], []
    for _ in range(choose([1, 2, 2, 3, 3])):
        lanes, stride, offset, rounds, step = choose([2, 4, 8]), choose([1, 1, 2, 4]), choose([0, 0, 1, 2, 3, 4, 8, 16]), choose([1, 1, 2, 3]), choose([0, 4, 8, 16])
        lines.append(f"    for k in range({rounds}):" if rounds > 1 else "    k = 0")
        lines.append(f"    {'    ' if rounds > 1 else ''}total += tl.sum(tl.sin(tl.load(x + pid * {own} + k * {step} + tl.arange(0, {lanes}) * {stride} + {offset})), 0)")
        addresses.append([[[pid * own + k * step + lane * stride + offset for lane in range(lanes)] for k in range(rounds)] for pid in range(programs)])
    return "\n".join([*lines, "    tl.store(y + pid, total)"]) + "\n", addresses


def test_claims_against_enumerated_addresses():
    """Of random kernels: what is stored by owners has no element twice, what is summed by owners none in two programs; and most of what has owners is found."""
    found = collections.Counter()
    for seed in range(40):
        text, addresses = enumerated(seed)
        gradient = nereid.grad(harness.make(text), "x", "y")
        x = jvp_check.random(400)
        dx, dy = torch.empty_like(x), jvp_check.random(3)
        gradient.backward[(3, )](x, zeros(3), dx=dx, dy=dy)
        expected = torch.zeros_like(x)
        for load in addresses:
            for pid, executions in enumerate(load):
                for lanes in executions:
                    for at in lanes:
                        expected[at] += torch.cos(x[at]) * dy[pid]
        torch.testing.assert_close(dx, expected, msg=text)
        sets = [{at for load in addresses for lanes in load[pid] for at in lanes} for pid in range(3)]
        together = len(set().union(*sets)) == sum(map(len, sets))
        # Loads that are merged, or leave a loop, have the same elements.
        once = {(tuple(map(tuple, dict.fromkeys(map(tuple, load[0]))))) for load in addresses}
        total = sum(len(lanes) for load in once for lanes in load)
        apart = together and len({at for load in once for lanes in load for at in lanes}) == total
        said = gradient.explain()
        claim = "stored" if "is stored by" in said else "summed" if "is summed by the program" in said else "none"
        truth = "stored" if apart else "summed" if together else "none"
        assert (claim, truth) not in (("stored", "summed"), ("stored", "none"), ("summed", "none")), (text, said)
        found[claim, truth] += 1
    assert found["stored", "stored"] >= 5 and found["summed", "summed"] >= 5 and found["none", "none"] >= 5, found
    assert found["none", "stored"] + found["none", "summed"] <= 8, found


def explained(kernel, grid, arguments, wrt, out, **options):
    gradient = nereid.grad(kernel, wrt, out)
    given = {f"d{name}": torch.zeros_like(arguments[name]) for name in (*wrt, *out)}
    assert gradient.explain() == "nothing is compiled yet: launch `backward`, or call `backward.warmup`"
    gradient.backward[grid](**arguments, **given, **options)
    return gradient.explain().splitlines()[1:]


ONE_AXIS = "the grid has one program along axis 1 and the grid has one program along axis 2"


def owned(name, more=""):
    return f"  the gradient of `{name}` is stored by the program that owns it where {ONE_AXIS}{more}, and summed by atomic additions elsewhere"


def test_explain():
    assert explained(swiglu, (4, ), dict(gate=torch.ones(100), up=torch.ones(100), y=torch.ones(100), n=100), ("gate", "up"), ("y", ),
                     BLOCK=32) == [owned("gate"), owned("up")]
    arguments = dict(X=torch.ones(4, 50), Residual=torch.ones(4, 50), W=torch.ones(50), Y=torch.ones(4, 50), N=50, eps=0.1)
    found = explained(rms_norm, (4, ), arguments, ("X", "W"), ("Y", ), BLOCK=64)
    assert sorted(found) == sorted([
        owned("X"), "  the gradient of `W` is summed in partial sums, one of each launched program, which a second launch adds", "  last launched with 4 partial sums"])
    found = explained(rms_norm, (1, ), arguments, ("X", "W"), ("Y", ), BLOCK=64)
    assert "  the gradient of `W` is stored by the program that owns it where the grid has one program along axis 0 and " + ONE_AXIS + (
        ", and summed by atomic additions elsewhere; its schedule is not transposed: all programs read the same block") in found
    arguments = dict(table=torch.ones(10, 16), index=torch.zeros(1, dtype=torch.int64), y=torch.ones(1, 16))
    assert explained(embedding, (1, ), arguments, ("table", ), ("y", ), D=16) == [
        "  the gradient of `table` is summed by atomic additions: its addresses come from values that are computed or loaded"]
    arguments = dict(x=torch.ones(3, 25), w=torch.ones(3, 4), y=torch.ones(3, 25), length=25)
    assert explained(causal_conv, (3, ), arguments, ("x", "w"), ("y", ), WIDTH=4, BLOCK=32) == [
        owned("x", " and `length` is at least 35").replace("stored", "summed"), owned("w")]
    arguments = dict(a_ptr=torch.ones(37, 25), b_ptr=torch.ones(25, 29), c_ptr=torch.ones(37, 29), M=37, N=29, K=25)
    found = explained(one_block_matmul, (3, 2), arguments, ("a_ptr", "b_ptr"), ("c_ptr", ), BM=16, BN=16, BK=32)
    assert sorted(found) == [f"  the gradient of `{name}` has a transposed schedule: programs share out its blocks, and for each sum in a loop over program_id({other}); "
                             "where the grid has one program along axis 2 and there are at least 128 blocks or one for every 8 programs; this kernel is for "
                             "launches where that holds" for name, other in (("a_ptr", 1), ("b_ptr", 0))]


def test_owned_gradients_are_the_same_in_every_run():
    x, w, dy = torch.randn(64, 50), torch.randn(50), torch.randn(64, 50)
    gradient = nereid.grad(rms_norm, "X", "Y")
    runs = []
    for _ in range(3):
        dx = torch.empty_like(x)
        gradient.backward[(64, )](x, torch.zeros_like(x), w, torch.zeros_like(x), 50, 0.1, dX=dx, dY=dy, BLOCK=64)
        runs.append(dx)
    assert all(torch.equal(runs[0], run) for run in runs)


@nereid.jit
def multiply(a, b, y):
    i = tl.arange(0, 16)
    tl.store(y + i, tl.load(a + i) * tl.load(b + i))


def test_gradients_in_one_place_are_refused():
    a, dy, dx = torch.ones(16), torch.ones(16), torch.empty(16)
    backward = nereid.grad(multiply, ("a", "b"), "y").backward
    for names in (dict(da=dx, db=dx, dy=dy), dict(da=dx, db=dy, dy=dy), dict(da=dx, db=dx[:], dy=None)):
        with pytest.raises(ValueError, match="gradients `d[ab]` and `d[by]` are in one place in memory: give each a tensor of its own"):
            backward[(1, )](a, a, torch.empty(16), **names)
    backward[(1, )](a, a, torch.empty(16), da=dx, db=None, dy=dy)
    assert torch.equal(dx, dy)


@pytest.mark.parametrize("places, message", [
    ((slice(0, 16), slice(15, 31)), "gradient `db` shares memory with `da`"),
    ((slice(0, 32, 2), slice(15, 31)), "gradient `db` shares memory with `da`"),
    ((slice(0, 16), slice(16, 32)), None),
    ((slice(40, 56), slice(0, 16)), "gradient `da` shares memory with `a`"),
    ((slice(0, 16), slice(63, 79)), "gradient `db` shares memory with `b`"),
    ((slice(0, 16), slice(90, 106)), "gradient `db` shares memory with `dy`"),
    ((slice(100, 116), slice(116, 132)), None),
])
def test_gradients_that_share_memory_are_found_in_checked_mode(places, message):
    """Also where they begin at different addresses. The kernel's output, which is not read, may be in the place of a gradient."""
    memory = torch.ones(140, dtype=torch.float64)
    a, b, dy, y = memory[32:48], memory[48:64], memory[80:96], memory[110:126]
    if message is None:
        dy = dy.clone()
    backward = nereid.grad(multiply, ("a", "b"), "y").backward
    da, db = (memory[place] for place in places)
    given = dict(a=a.clone() if message is None else a, b=b.clone() if message is None else b, y=y, dy=dy, da=da, db=db)
    if message:
        with pytest.raises(ValueError, match=f"the {message}: its elements need places of their own"):
            backward[(1, )](**given, checked=True)
        return
    backward[(1, )](**given, checked=True)
    assert torch.equal(da, given["b"] * dy) and torch.equal(db, given["a"] * dy)


def test_tensors_that_interleave_do_not_meet():
    memory = torch.zeros(64)
    left, right = memory[0::4], memory[1::4]
    assert not _meet(left, right) and not _meet(right, left) and _meet(left, memory[8:9])
    bytes_ = memory.view(torch.uint8)
    assert _meet(memory[1:2], bytes_[7:8]) and not _meet(memory[1:2], bytes_[8:9])
    square = memory.view(8, 8)
    assert not _meet(square[:, :4], square[:, 4:]) and _meet(square[:, :4], square.T[3:]) and _meet(square[:1].expand(8, 8), square[0, 7:])


def test_checked_mode_of_a_process_finds_gradients_that_share_memory(monkeypatch):
    monkeypatch.setenv("NEREID_CHECKED", "1")
    memory = torch.ones(40)
    with pytest.raises(ValueError, match="the gradient `db` shares memory with `da`"):
        nereid.grad(multiply, ("a", "b"), "y").backward[(1, )](torch.ones(16), torch.ones(16), torch.empty(16), da=memory[:16], db=memory[8:24], dy=torch.ones(16))


def test_narrow_gradients_are_summed_in_fp32():
    """4096 programs add 2**-12 to one element: in fp16 the sum would stop at 0.5."""

    @nereid.jit
    def spread(x, y):
        tl.store(y + tl.program_id(0), tl.load(x))

    x, dx = torch.ones(1, dtype=torch.float16), torch.zeros(1, dtype=torch.float16)
    y = torch.zeros(4096, dtype=torch.float16)
    nereid.grad(spread, "x", "y").backward[(4096, )](x, y, dx=dx, dy=torch.full_like(y, 2.0**-12))
    assert dx.item() == 1.0


def test_what_explain_says_of_known_kernels():
    assert explain_texts.texts() == explain_texts.FILE.read_text(), "python tests/differentiation/explain_texts.py rewrites the file"


@nereid.jit
def twice(x, y, width, s0, s1, t0, t1, OFFSET: tl.constexpr, BLOCK: tl.constexpr, SWAPPED: tl.constexpr):
    """A piece of a tensor is read in two loops of other blocks, at strides of two axes of the grid."""
    a, b = tl.program_id(0), tl.program_id(1)
    total = tl.zeros((), tl.float64)
    for start in range(0, width, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.sin(tl.load(x + a * s0 + b * s1 + i, mask=i < width, other=0.0)))
    for start in range(0, width, 2 * BLOCK):
        i = start + tl.arange(0, 2 * BLOCK)
        if SWAPPED:
            v = tl.load(x + a * t0 + b * t1 + i, mask=i < width, other=0.0)
        else:
            v = tl.load(x + a * s0 + b * s1 + OFFSET + i, mask=i < width, other=0.0)
        total += tl.sum(tl.exp(v))
    tl.store(y + a * tl.num_programs(1) + b, total)


@pytest.mark.parametrize("s0,s1,t0,t1,offset,swapped,owned", [
    (30, 10, 0, 0, 0, False, True),
    (10, 20, 0, 0, 0, False, True),  # the strides in the other order
    (9, 20, 0, 0, 0, False, False),  # pieces overlap
    (30, 9, 0, 0, 0, False, False),
    (20, 10, 0, 0, 0, False, False),  # planes overlap
    (10, 19, 0, 0, 0, False, False),
    (30, 10, 0, 0, 10, False, False),  # the next program's piece
    (30, 10, 10, 20, 0, True, False),  # of other programs
    (30, 10, 36, 12, 0, True, False),
])
def test_loads_by_themselves(s0, s1, t0, t1, offset, swapped, owned):
    """Where the order of strides is known at run time alone: owned where all loads stay in their program's piece."""
    a, b, width = 2, 2 if s1 > s0 else 3, 10
    arguments = dict(x=jvp_check.random(130), y=zeros(a, b), width=width, s0=s0, s1=s1, t0=t0, t1=t1)
    grad_check.check(twice, (a, b), arguments, ("x", ), ("y", ), OFFSET=offset, BLOCK=4, SWAPPED=swapped)
    if not owned:
        return
    # Nothing lies between the pieces, so an owned gradient is written whole.
    gradient = nereid.grad(twice, "x", "y")
    x, dy = jvp_check.random(a * b * width), torch.ones(a, b, dtype=torch.float64)
    for _ in range(5):
        dx = torch.empty_like(x)
        gradient.backward[(a, b)](**arguments | dict(x=x), dx=dx, dy=dy, OFFSET=offset, BLOCK=4, SWAPPED=swapped)
    assert frozenset({"dx"}) in gradient.backward._whole._known.values(), gradient.explain()
    torch.testing.assert_close(dx, torch.cos(x) + torch.exp(x))
