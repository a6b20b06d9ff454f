"""Gradients that a launch writes whole: from the third launch with the same sizes on, they are neither cleared nor summed in fp32 (nereid/_whole_gradients.py)."""

import jvp_check
import nereid
import nereid.language as tl
import pytest
import torch
from nereid._whole_gradients import memory_like
from named_kernels import CASES

DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])


@nereid.jit
def rows(x, w, y, n, stride, scale, seed, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * stride + i
    value = tl.load(x + at, mask=i < n, other=0.0)
    tl.store(y + at, value * value * scale * tl.load(w + i, mask=i < n, other=0.0), mask=i < n)


@nereid.jit
def chosen(x, index, y, BLOCK: tl.constexpr):
    """Which elements are read is in memory."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.load(index + i) > 0
    tl.store(y + i, tl.load(x + i, mask=keep, other=0.0) * 2)


class Launches:
    """Of one gradient: poisons its buffers, compares with PyTorch, and tells which gradients are known to be written whole."""

    def __init__(self, target, dtype, kernel=rows, wrt=("x", "w")):
        self.target, self.dtype, self.wrt = target, dtype, wrt
        self.gradient = nereid.grad(kernel, wrt, "y")

    def __call__(self, programs, n, stride=8, rows=4, scale=0.5, seed=1, fill=None, axes=()):
        x, w, dy = (jvp_check.random(*shape).to(self.target, self.dtype) for shape in ((rows, stride), (stride, ), (rows, stride)))
        if fill is not None:
            x.fill_(fill)
        dx, dw = torch.full_like(x, float("nan")), torch.full_like(w, float("nan"))
        self.gradient.backward[(programs, *axes)](x, w, torch.empty_like(x), n, stride, scale, seed, dy=dy, dx=dx, dw=dw, BLOCK=8)
        expected, of_w = torch.zeros(rows, stride, dtype=torch.float64), torch.zeros(stride, dtype=torch.float64)
        times = axes[0] if axes else 1
        wide = [each.double().cpu() for each in (x, w, dy)]
        expected[:programs, :n] = (2 * scale * times * wide[0] * wide[1] * wide[2])[:programs, :n]
        of_w[:n] = (times * scale * wide[0]**2 * wide[2])[:programs, :n].sum(0)
        rtol = {torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.float32: 1e-5, torch.float64: 1e-12}[self.dtype]
        torch.testing.assert_close(dx.double().cpu(), expected, rtol=rtol, atol=rtol, equal_nan=True)
        torch.testing.assert_close(dw.double().cpu(), of_w, rtol=rtol, atol=rtol, equal_nan=True)
        return dx

    @property
    def whole(self):
        return [known for known in self.gradient.backward._whole._known.values() if isinstance(known, frozenset)]


@DTYPES
def test_from_the_third_launch_on(target, dtype):
    launch = Launches(target, dtype)
    for _ in range(2):
        launch(4, 8)
    assert not launch.whole
    for _ in range(3):
        launch(4, 8)
    assert launch.whole == [frozenset({"dx"})]


def test_what_is_not_written_is_cleared(target):
    """A shorter row, or a smaller grid, is another key, also where it comes behind many launches that wrote everything."""
    for dtype in (torch.bfloat16, torch.float32):
        launch = Launches(target, dtype)
        for sizes in ((4, 8), (4, 7), (3, 8), (4, 8), (3, 5), (0, 8), (4, 8)):
            for _ in range(5):
                launch(*sizes)
        assert sorted(map(len, launch.whole)) == [0, 0, 0, 0, 1], launch.whole


def test_scalars_that_decide_no_place(target):
    """A seed and a factor change in every step: they are no part of what is remembered."""
    launch = Launches(target, torch.bfloat16)
    for seed in (3, 5, 0, 16, 1, 2, 32, 7, 6, 48):
        launch(4, 8, seed=seed, scale=1.0 / (1 + seed))
    known = launch.gradient.backward._whole._known  # a key for each class of values that kernels are compiled for: multiples of 16, 1, others
    assert len(known) == 3 and launch.whole == [frozenset({"dx"})] * 2


@nereid.jit
def flagged(x, y, flag, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """Whether it reads follows from a scalar: what is known of it at compile time may answer that."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if KIND == "sign":
        reads = flag > 0
    elif KIND == "one":
        reads = flag == 1
    elif KIND == "multiple":
        reads = flag % 16 == 0
    else:
        reads = (flag == 1) | (flag % 16 == 0)
    if reads:
        value = tl.load(x + i)
        tl.store(y + i, value * value)


@pytest.mark.parametrize("kind", ["sign", "one", "multiple", "either"])
@pytest.mark.parametrize("first", [1, 16, 5, 0, -3, 1 << 40])
def test_scalars_that_a_first_kernel_does_not_have(target, kind, first):
    """A kernel compiled for the value 1, or for multiples of 16, may not say that the scalar decides: a launch with another value is another key."""
    x, dy = jvp_check.random(16).float().to(target), jvp_check.random(16).float().to(target)
    for second in (0, 1, 5, 48, -3, 1 << 40):
        gradient = nereid.grad(flagged, "x", "y")
        for flag in (*4 * (first, ), *4 * (second, )):
            dx = torch.full_like(x, float("nan"))
            gradient.backward[(2, )](x, torch.empty_like(x), flag, dy=dy, dx=dx, KIND=kind, BLOCK=8)
            reads = {"sign": flag > 0, "one": flag == 1, "multiple": flag % 16 == 0, "either": flag == 1 or flag % 16 == 0}[kind]
            torch.testing.assert_close(dx, 2 * x * dy if reads else torch.zeros_like(x))


def test_programs_that_add_to_the_same(target):
    launch = Launches(target, torch.float32)
    for _ in range(5):
        launch(4, 8, axes=(2, ))
    assert launch.whole == [frozenset()]


def test_gradients_that_are_nan_prove_nothing(target):
    launch = Launches(target, torch.float32)
    for _ in range(3):
        launch(4, 8, fill=float("nan"))
    assert not launch.whole
    for _ in range(2):
        launch(4, 8)
    assert launch.whole == [frozenset({"dx"})]


def test_memory_of_others_is_not_written(target):
    """A gradient that is part of a larger tensor is never written in place, as what lies beside might be."""
    gradient = nereid.grad(rows, "x", "y")
    whole = torch.full((6, 8), 7.0, dtype=torch.bfloat16, device=target)
    x = jvp_check.random(4, 8).to(target, torch.bfloat16)
    for _ in range(5):
        gradient.backward[(4, )](x, x[0].clone(), torch.empty_like(x), 8, 8, 1.0, 1, dy=torch.ones_like(x), dx=whole[1:5], BLOCK=8)
    assert bool((whole[0] == 7).all()) and bool((whole[5] == 7).all())
    assert [known for known in gradient.backward._whole._known.values()] == [frozenset()]


def test_places_from_memory(target):
    gradient = nereid.grad(chosen, "x", "y")
    x = jvp_check.random(32).float().to(target)
    for step in range(6):
        keep = (torch.arange(32) < 32 - step).to(target, torch.int32)
        dx = torch.full_like(x, float("nan"))
        gradient.backward[(2, )](x, keep, torch.empty_like(x), dy=torch.ones_like(x), dx=dx, BLOCK=16)
        torch.testing.assert_close(dx, 2.0 * keep)
    assert list(gradient.backward._whole._known.values()) == [frozenset()]


@pytest.mark.parametrize("dtype", [None, torch.float16], ids=["as it is", "fp16"])
@pytest.mark.parametrize("name", ["SwiGLU", "rotary embedding", "softmax", "cross entropy of long rows", "RMSNorm", "fused add and RMSNorm", "GroupNorm", "matrix product",
                                  "matrix product with bias and activation", "batched matrix product", "causal attention of grouped queries", "embedding of blocks", "causal convolution"])
def test_later_launches_give_what_the_first_gives(name, dtype, target, monkeypatch):
    """Whatever is found to be written whole, also by schedules in two steps: with other values, after poison, and in the dtype that is summed in fp32 before."""
    monkeypatch.setenv("NEREID_F32_DEFAULT", "ieee")
    case = CASES[name]()

    def given(values):
        return {each: value.to(target, dtype) if dtype and isinstance(value, torch.Tensor) and value.is_floating_point() else value.to(target) if isinstance(value, torch.Tensor) else value
                for each, value in values.items()}

    def launch(gradient, values, cotangents):
        found = {f"d{each}": torch.full_like(values[each], float("nan")) for each in case.wrt}
        gradient.backward[case.grid](**{each: value.clone() if isinstance(value, torch.Tensor) else value for each, value in values.items()}, **cotangents, **found, **case.options)
        return found

    often = nereid.grad(case.kernel, case.wrt, case.out)
    for _ in range(5):
        values = given(case.arguments | {each: case.arguments[each] + 0.01 * jvp_check.random(*case.arguments[each].shape).to(case.arguments[each]) for each in case.wrt})
        cotangents = given({f"d{each}": jvp_check.random(*case.arguments[each].shape).to(case.arguments[each]) for each in case.out})
        found = launch(often, values, cotangents)
        for each, first in launch(nereid.grad(case.kernel, case.wrt, case.out), values, cotangents).items():
            tolerance = 4e-3 if dtype else 1e-5
            torch.testing.assert_close(found[each].double(), first.double(), rtol=tolerance, atol=tolerance * float(first.double().abs().max()))


@nereid.jit
def sums(x, limits, y, n, BLOCK: tl.constexpr, KIND: tl.constexpr):
    """A sum over a row in a loop. What the loop carries comes from memory; where it reads, or how often, only in some kinds."""
    row = tl.program_id(0)
    total = tl.zeros((), tl.float32)
    left = 1
    end = n
    if KIND == "rounds":
        end = tl.load(limits + row)
    for start in range(0, end, BLOCK):
        i = start + tl.arange(0, BLOCK)
        mask = i < n
        if KIND == "carried mask":
            mask = mask & (left > 0)
            left -= tl.load(limits + row)
        value = tl.load(x + row * n + i, mask=mask, other=0.0).to(tl.float32)
        total += tl.sum(value * value)
    tl.store(y + row, total)


@pytest.mark.parametrize("kind, places", [("sum", True), ("rounds", False), ("carried mask", False)])
def test_loops(target, kind, places):
    """A loop with sums is no reason to clear a gradient, unless places or the number of rounds follow from memory: these differ between launches."""
    gradient = nereid.grad(sums, "x", "y")
    x = jvp_check.random(4, 48).to(target, torch.bfloat16)
    for step in range(6):
        limits = {"sum": 0, "rounds": 48 - 16 * (step // 5), "carried mask": step // 5}[kind]
        limits = torch.full((4, ), limits, dtype=torch.int32, device=target)
        dx = torch.full_like(x, float("nan"))
        gradient.backward[(4, )](x, limits, torch.empty(4, device=target), 48, dy=torch.ones(4, device=target), dx=dx, BLOCK=16, KIND=kind)
        read = torch.ones(48, dtype=torch.bool)
        if step == 5:  # fewer rounds, or nothing behind the first one
            read = torch.arange(48) < {"sum": 48, "rounds": 32, "carried mask": 16}[kind]
        torch.testing.assert_close(dx.double().cpu(), 2 * x.double().cpu() * read, rtol=1e-2, atol=1e-2)
    assert list(gradient.backward._whole._known.values()) == [frozenset({"dx"}) if places else frozenset()]


def test_memory_for_a_trial_has_the_strides_of_a_view():
    """The kernel gets the strides of the gradient itself: `empty_like` packs elements that stand apart, so a trial on it wrote behind the memory."""
    view = torch.zeros(6, 10)[1:, ::2]
    other = memory_like(view)
    assert other.shape == view.shape and other.stride() == view.stride() and other.storage_offset() == view.storage_offset()
    assert other.untyped_storage().nbytes() == view.untyped_storage().nbytes() and other.data_ptr() != view.data_ptr()
