"""Gradients that also write what the kernel writes: `grad(..., outputs=True)`. Outputs are those of the kernel, gradients those without outputs."""

import nereid
import nereid.language as tl
import pytest
import torch
import torch.nn.functional as F
from named_kernels import CASES
from test_grad_picked import early, online

DEVICE = "cpu"


@pytest.fixture(autouse=True)
def products_in_full_precision(monkeypatch):
    """On GPUs products of fp32 would be of tf32, whose rounding is larger than the tolerances."""
    monkeypatch.setenv("NEREID_F32_DEFAULT", "ieee")


def cleared(case, value):
    return {name: torch.full_like(each, value) if name in case.out else each for name, each in case.arguments.items()}


#: One step; loops; two steps by schedules, with outputs of several tensors; sums over programs.
NAMES = ("softmax", "cross entropy with label smoothing", "focal loss", "LayerNorm", "fused add and RMSNorm", "matrix product with bias and activation", "causal attention",
         "chunked gated linear attention, outputs")


@pytest.mark.parametrize("name", NAMES)
def test_outputs_and_gradients(name, target):
    case = CASES[name]()
    given = {f"d{each}": torch.randn_like(case.arguments[each]) for each in case.out}
    values = cleared(case, 0.0)
    function = case.kernel
    while not isinstance(function, nereid.runtime.JITFunction):  # below `autotune`: its sizes are given
        function = function.fn
    function[case.grid](**values, **case.options)
    results = []
    for outputs in (False, True):
        gradient = nereid.grad(case.kernel, case.wrt, case.out, outputs=outputs)
        arguments = cleared(case, float("nan"))
        for _ in range(4):  # the last ones into gradients that are written whole
            found = {f"d{each}": torch.full_like(case.arguments[each], float("nan")) for each in case.wrt}
            gradient.backward[case.grid](**arguments, **given, **found, **case.options)
        results.append(found)
        for each in case.out:
            if outputs:
                torch.testing.assert_close(arguments[each], values[each], rtol=1e-6, atol=1e-6)
            else:
                assert bool(arguments[each].isnan().all())
    for each in results[0]:
        torch.testing.assert_close(results[1][each], results[0][each], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", [online, early], ids=["one", "in a branch"])
@pytest.mark.parametrize("outside", [False, True], ids=["owned", "second step"])
def test_losses(kernel, outside, target):
    """A loss and its gradient in one launch; labels that the row's blocks do not cover take a second step, which writes no output."""
    rows, n = 7, 50
    x, labels = torch.randn(rows + outside, n), torch.randint(0, n, (rows, ))
    if outside:
        labels[2] = n + 3  # of the next row
    elif kernel is early:
        labels[3] = -100
    loss, dx, dloss = torch.full((rows, ), float("nan")), torch.full_like(x, float("nan")), torch.ones(rows)
    gradient = nereid.grad(kernel, "logits", "loss", outputs=True)
    for _ in range(4):
        loss.fill_(float("nan"))
        gradient.backward[(rows, )](x, labels, loss, n, dlogits=dx, dloss=dloss, BLOCK=16)
    assert bool((dloss == 1).all())  # no tangent of what is constant was stored
    factor = 1.5 if kernel is early else 1.0
    wide = x.double().requires_grad_()
    scaled = factor * wide
    picked = scaled.view(-1)[torch.arange(rows) * n + labels.clamp(min=0)]
    expected = torch.where(labels == -100, 0.0, scaled[:rows].logsumexp(1) - picked)
    expected.sum().backward()
    torch.testing.assert_close(loss.double(), expected.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(dx.double(), wide.grad, rtol=1e-5, atol=1e-5)


@nereid.jit
def counted(x, y, total, count, BLOCK: tl.constexpr):
    """An output that programs add to, and one that is no float."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(y + i, v * v)
    tl.atomic_add(total, tl.sum(v * v))
    tl.store(count + tl.program_id(0), tl.sum((v > 0).to(tl.int32)))


def test_every_launch_writes_once(target):
    """Also where a launch is tried out: what programs add to gets each addition once a launch."""
    x = torch.arange(-16, 16, dtype=torch.float32) + 0.5
    gradient = nereid.grad(counted, "x", ("y", "total"), outputs=True)
    total = torch.zeros(1)
    for launch in range(1, 6):
        y, dx, count = torch.empty_like(x), torch.empty_like(x), torch.zeros(4, dtype=torch.int32)
        gradient.backward[(4, )](x, y, total, count, dx=dx, dy=torch.ones_like(x), dtotal=torch.ones(1), BLOCK=8)
        assert torch.equal(y, x * x) and torch.equal(dx, 4 * x)
        assert count.tolist() == [0, 0, 8, 8]
        assert float(total) == launch * float((x * x).sum())


@nereid.jit
def summed(logits, labels, loss, firsts, n, BLOCK: tl.constexpr):
    """A loss to which programs add, with two steps; and a store in a branch of its own."""
    row = tl.program_id(0)
    if tl.load(labels + row) == 5:
        tl.atomic_add(firsts, 1)
    i = tl.arange(0, BLOCK)
    x = tl.load(logits + row * n + i, mask=i < n, other=float("-inf"))
    tl.atomic_add(loss, tl.log(tl.sum(tl.exp(x))) - tl.load(logits + row * n + tl.load(labels + row)))


def test_one_of_two_steps_writes(target):
    x, labels, loss, firsts = torch.randn(5, 11), torch.tensor([3, 0, 10, 5, 5]), torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    gradient = nereid.grad(summed, "logits", "loss", outputs=True)
    expected = float(F.cross_entropy(x.double(), labels, reduction="sum"))
    for launch in range(1, 6):
        gradient.backward[(5, )](x, labels, loss, firsts, 11, dlogits=torch.empty_like(x), dloss=torch.ones(1), BLOCK=16)
        assert abs(float(loss) - launch * expected) < 1e-4 * launch and int(firsts) == 2 * launch
    assert "in a second step" in gradient.explain()


@nereid.jit
def logarithm(x, y, lse, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=float("-inf"))
    value = tl.save(tl.log(tl.sum(tl.exp(v))), lse + row)
    tl.store(y + row * n + i, v - value, mask=i < n)


def test_saved_values_are_stored_and_not_read(target):
    x = torch.randn(5, 11, dtype=torch.float64)
    y, dx, dy = torch.empty_like(x), torch.empty_like(x), torch.randn_like(x)
    lse = torch.full((5, ), float("nan"), dtype=torch.float64)
    nereid.grad(logarithm, "x", "y", outputs=True).backward[(5, )](x, y, lse, 11, dx=dx, dy=dy, BLOCK=16)
    wide = x.clone().requires_grad_()
    F.log_softmax(wide, 1).backward(dy)
    torch.testing.assert_close(lse, x.logsumexp(1))
    torch.testing.assert_close(y, x.log_softmax(1))
    torch.testing.assert_close(dx, wide.grad)


def test_places_of_outputs_are_written(monkeypatch):
    """In checked mode an output may lie in a gradient that overwrites it only if it is not written."""
    monkeypatch.setenv("NEREID_CHECKED", "1")
    x = torch.randn(32)
    memory = torch.empty(64)
    arguments = dict(x=x, y=memory[8:40], total=torch.zeros(1), count=torch.zeros(4, dtype=torch.int32), dx=memory[:32], dy=torch.ones_like(x), dtotal=None, BLOCK=8)
    nereid.grad(counted, "x", ("y", "total")).backward[(4, )](**arguments)
    with pytest.raises(ValueError, match="the gradient `dx` shares memory with `y`"):
        nereid.grad(counted, "x", ("y", "total"), outputs=True).backward[(4, )](**arguments)


def test_names_are_refused():
    with pytest.raises(TypeError, match="`outputs` is True or False, found 'y': the outputs' names are given in `out`"):
        nereid.grad(counted, "x", "y", outputs="y")
