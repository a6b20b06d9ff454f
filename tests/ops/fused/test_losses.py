"""Cross-entropy, of logits and fused with the product before it."""

import itertools
import json

import pytest
import torch
from fused_checks import check, compare, layouts, random

from nereid.ops import fused
from nereid.ops.fused import losses

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def by_row(logits, target, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=0.0):
    z = softcap * torch.tanh(logits / softcap) if softcap else logits
    lse = torch.logsumexp(z, 1)
    valid = (target >= 0) & (target < logits.shape[1])
    chosen = z.gather(1, target.where(valid, torch.zeros_like(target))[:, None])[:, 0]
    loss = lse - (1 - label_smoothing) * chosen + z_loss * lse**2
    if label_smoothing:
        loss = loss - label_smoothing * z.mean(1)
    loss = loss.where(valid, torch.full_like(loss, float("nan")))
    ignored = target == ignore_index
    return loss.where(~ignored, torch.zeros_like(loss)), lse.where(~ignored, torch.zeros_like(lse)), ~ignored


def definition(logits, target, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=0.0, reduction="mean", return_lse=False):
    loss, lse, counted = by_row(logits, target, ignore_index, label_smoothing, z_loss, softcap)
    if reduction != "none":
        loss = loss.sum() / (counted.sum() if reduction == "mean" else 1)
    return (loss, lse) if return_lse else loss


def targets(rows, classes, device, ignored=True, seed=0):
    target = torch.randint(0, classes, (rows, ), generator=torch.Generator().manual_seed(seed))
    if ignored:
        target[1::3] = -100
    return target.to(device)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cross_entropy(dtype, target):
    for rows, classes in ((3, 5), (40, 1000), (2, 4999)):
        x, t = random(rows, classes, dtype=dtype, device=target, scale=3), targets(rows, classes, target)
        for reduction in ("mean", "sum", "none"):
            check(losses.cross_entropy, definition, [x, t], units=8, reduction=reduction)
    check(losses.cross_entropy, definition, [x, t], units=8, label_smoothing=0.1, z_loss=1e-3, softcap=4.0, return_lse=True)


def test_numbers(target):
    for rows in (40, 3):
        x, t = random(rows, 1500, device=target, scale=3), targets(rows, 1500, target)
        every = targets(rows, 1500, target, ignored=False)
        check(losses.cross_entropy, definition, [x, every], units=8, label_smoothing=0.1, ignore_index=int(every[0]))
        check(losses.cross_entropy, definition, [x, t], units=8, z_loss=0.01, return_lse=True, reduction="none")
        check(losses.cross_entropy, definition, [x, t], units=16, softcap=2.0, reduction="sum")


def test_cross_entropy_strides(target):
    x = random(6, 200, device=target)
    for _, logits in layouts(x):
        check(losses.cross_entropy, definition, [logits, targets(12, 200, target)[::2]], units=8)


def test_special_values(target):
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[0, -inf, 1.0, 2.0], [-inf, -inf, -inf, 0], [nan, 0, 0, 0], [1e30, 0, 0, -1e30], [0, 1, 2, 3], [0, 1, 2, 3]], device=target)
    t = torch.tensor([0, 3, 1, 0, 4, -1], device=target)
    loss, lse = losses.cross_entropy(x, t, reduction="none", return_lse=True)
    want = by_row(x.double(), t)
    compare(loss, want[0], units=4)
    compare(lse, want[1], units=4)
    x.requires_grad_()
    losses.cross_entropy(x, t, reduction="none").sum().backward()
    assert x.grad[4:].isnan().all() and x.grad[:2].isfinite().all() and x.grad[2].isnan().any()
    compare(x.grad[0], torch.softmax(x[0].detach().double(), 0) - torch.tensor([1.0, 0, 0, 0], device=target), units=4)
    ignored = torch.full((6, ), -100, device=target)
    assert losses.cross_entropy(x, ignored).isnan() and losses.cross_entropy(x, ignored, reduction="sum") == 0


def test_empty(target):
    x, t = torch.zeros(0, 7, device=target), torch.zeros(0, dtype=torch.int64, device=target)
    assert losses.cross_entropy(x, t).isnan() and losses.cross_entropy(x, t, reduction="sum") == 0
    assert losses.cross_entropy(x, t, reduction="none").shape == (0, )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_gradient_in_place(dtype, target):
    x, t = random(40, 300, dtype=dtype, device=target), targets(40, 300, target)
    a = x.clone().requires_grad_()
    losses.cross_entropy(a, t).backward()
    for _ in range(3):  # the first call is recorded, the others are repeated
        b = x.clone()
        inner = b.detach().requires_grad_()
        losses.cross_entropy(inner, t, in_place=True).backward()
        assert torch.equal(a.grad, inner.grad) and inner.grad.data_ptr() == b.data_ptr()


def test_errors(target):
    x, t = torch.ones(4, 5, device=target), torch.ones(4, dtype=torch.int64, device=target)
    with pytest.raises(TypeError, match="`target` has dtype torch.float32: expected int64"):
        losses.cross_entropy(x, t.float())
    with pytest.raises(ValueError, match=r"`target` has shape \(3,\): expected \(4,\)"):
        losses.cross_entropy(x, t[:3])
    with pytest.raises(ValueError, match="`logits` has 1 dimensions"):
        losses.cross_entropy(x[0], t)
    with pytest.raises(ValueError, match="`reduction` is 'max'"):
        losses.cross_entropy(x, t, reduction="max")
    with pytest.raises(ValueError, match="`label_smoothing` is 2.0"):
        losses.cross_entropy(x, t, label_smoothing=2.0)
    with pytest.raises(ValueError, match="`softcap` is -1.0"):
        losses.cross_entropy(x, t, softcap=-1.0)


def linear_definition(x, weight, target, bias=None, **named):
    logits = x @ weight.T
    return definition(logits if bias is None else logits + bias, target, **named)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_linear_cross_entropy(dtype, target):
    rows, classes, width = 45, 150, 70
    x, weight, t = random(rows, width, dtype=dtype, device=target), random(classes, width, dtype=dtype, device=target, scale=0.3), targets(rows, classes, target)
    for reduction in ("mean", "none"):
        check(losses.linear_cross_entropy, linear_definition, [x, weight, t], units=32, reduction=reduction)
    bias = random(classes, dtype=dtype, device=target)
    check(losses.linear_cross_entropy, linear_definition, [x, weight, t, bias], units=32, reduction="sum", label_smoothing=0.1, z_loss=1e-2, softcap=5.0,
          return_lse=True)


@pytest.mark.parametrize("rows", [64, 6])
def test_linear_shapes(rows, target):
    x, weight, t = random(rows, 64, device=target), random(192, 64, device=target, scale=0.3), targets(rows, 192, target)
    check(losses.linear_cross_entropy, linear_definition, [x, weight, t], units=32)
    t[:rows // 2] = -100
    check(losses.linear_cross_entropy, linear_definition, [x.T.contiguous().T, weight.T.contiguous().T, t, random(384, device=target)[::2]], units=32)


def test_linear_in_chunks(target, monkeypatch):
    for dtype in (torch.float32, torch.bfloat16):
        x, weight, t = random(300, 16, dtype=dtype, device=target), random(40, 16, dtype=dtype, device=target), targets(300, 40, target)
        bias = random(40, dtype=dtype, device=target)
        want = torch.ops.nereid.linear_cross_entropy(x, weight, t, bias)
        grad = torch.ones((), device=target)
        arguments = (grad, None, x, weight, t, bias, *want[1:], [True, True, True], -100, 0.0, 0.0, 0.0, "mean")
        whole = fused.FUSED["linear_cross_entropy_backward"].run(*arguments)
        monkeypatch.setattr("nereid.ops.fused.losses._CHUNK", 128 * 48 * x.element_size())
        compare(list(fused.FUSED["linear_cross_entropy_backward"].run(*arguments)), list(whole), units=8)
        monkeypatch.undo()


@pytest.mark.parametrize("needed", [(True, True, True), (True, False, False), (False, True, False)], ids=str)
def test_linear_in_parts_of_classes(needed, target, monkeypatch):
    """Parts of 256 of 700 classes: targets in each, ignored ones and such that are no class; smoothing counts all classes."""
    for dtype in (torch.float32, torch.bfloat16):
        x, weight, bias = random(40, 16, dtype=dtype, device=target), random(700, 16, dtype=dtype, device=target), random(700, dtype=dtype, device=target)
        t = targets(40, 700, target)
        t[:5] = torch.tensor([255, 256, 511, 512, 699])
        _, lse, count = torch.ops.nereid.linear_cross_entropy(x, weight, t, bias, -100, 0.1, 1e-2, 5.0, "none")
        arguments = (torch.linspace(-1, 1, 40, device=target), torch.linspace(0, 1, 40, device=target), x, weight, t, bias, lse, count, needed, -100, 0.1, 1e-2, 5.0, "none")
        whole = fused.FUSED["linear_cross_entropy_backward"].run(*arguments)
        monkeypatch.setattr("nereid.ops.fused.losses._CHUNK_OF_CLASSES", 256 * 40 * x.element_size())
        monkeypatch.setattr("nereid.ops.fused.losses._CHUNK", 1)
        parts = losses.gradient_parts(40, 700, needed, x.element_size())
        assert parts == ((40, 256) if needed[1] else (40, 700))
        compare(list(fused.FUSED["linear_cross_entropy_backward"].run(*arguments)), list(whole), units=8)
        outside = t.clone()
        outside[7] = 700
        of_x = fused.FUSED["linear_cross_entropy_backward"].run(*arguments[:4], outside, *arguments[5:])[0]
        assert not needed[0] or of_x.isnan().any(1).tolist() == [row == 7 for row in range(40)]
        monkeypatch.undo()


def test_linear_parts(monkeypatch):
    both = (True, True, False)
    monkeypatch.setattr("nereid.ops.fused.losses._CHUNK", 1000 * 64)
    assert [losses.gradient_parts(rows, 16, both, 4)[0] for rows in (16, 300, 896, 1000, 1024, 1800, 8192)] == [16, 300, 896, 512, 512, 640, 896]
    assert losses.gradient_parts(300, 250, (True, False, False), 10**6) == (128, 250)
    monkeypatch.setattr("nereid.ops.fused.losses._CHUNK_OF_CLASSES", 1000 * 64 * 4)
    assert [losses.gradient_parts(64, classes, both, 4)[1] for classes in (64, 1000, 1001, 1024, 8192)] == [64, 512, 512, 512, 768]
    assert losses.gradient_parts(300, 10**6, both, 10**6) == (300, 256)
    assert losses.gradient_parts(8192, 100008, both, 2) == (8192, 256)


def test_linear_memory_of_parts_of_classes(monkeypatch, tmp_path):
    """Beside the results the backward step has a part of the logits' gradients and the gradient of x in fp32."""
    rows, width, classes = 256, 64, 2048
    monkeypatch.setattr("nereid.ops.fused.losses._CHUNK_OF_CLASSES", 512 * rows * 2)
    changes, of_x, of_weight = changes_of_memory(rows, width, classes, tmp_path)
    assert sum(changes) == of_x + of_weight
    assert max(itertools.accumulate(changes)) == of_x + of_weight + 512 * rows * 2 + 2 * of_x


def test_linear_memory_of_chunks(monkeypatch, tmp_path):
    """The backward step never has the gradient of the weight in both types beside a chunk of the logits' gradients."""
    rows, width, classes = 4096, 64, 2048
    monkeypatch.setattr("nereid.ops.fused.losses._CHUNK", 256 * classes * 2)
    changes, of_x, of_weight = changes_of_memory(rows, width, classes, tmp_path)
    chunk, summed = 256 * classes * 2, 2 * of_weight
    assert sum(changes) == of_x + of_weight
    assert chunk + summed + of_x <= max(itertools.accumulate(changes)) < chunk + summed + of_x + of_weight // 2


def changes_of_memory(rows, width, classes, tmp_path):
    """(what each allocation adds in the backward step of bf16 tensors, bytes of x and of the weight)."""
    x, weight, t = random(rows, width, dtype=torch.bfloat16, device="cpu"), random(classes, width, dtype=torch.bfloat16, device="cpu"), targets(rows, classes, "cpu")
    loss, lse, count = torch.ops.nereid.linear_cross_entropy(x, weight, t)
    arguments = (torch.ones(()), None, x, weight, t, None, lse, count, [True, True, False], -100, 0.0, 0.0, 0.0, "mean")
    fused.FUSED["linear_cross_entropy_backward"].run(*arguments)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        results = fused.FUSED["linear_cross_entropy_backward"].run(*arguments)
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    changes = [event["args"]["Bytes"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if event.get("name") == "[memory]"]
    assert len(results) == 3
    return changes, x.nbytes, weight.nbytes


def test_linear_needs_some_gradients(target):
    x, weight, t = random(8, 16, device=target), random(20, 16, device=target), targets(8, 20, target)
    for which in (x, weight):
        which.requires_grad_()
        losses.linear_cross_entropy(x, weight, t).backward()
        want = which.detach().double().requires_grad_()
        linear_definition(*(want if tensor is which else tensor.detach().double() for tensor in (x, weight)), t).backward()
        compare(which.grad, want.grad, units=32)
        which.requires_grad_(False)


def test_linear_special(target):
    x, weight = random(4, 8, device=target), random(6, 8, device=target)
    loss = losses.linear_cross_entropy(x, weight, torch.tensor([0, 6, -1, -100], device=target), reduction="none")
    assert loss.isnan().tolist() == [False, True, True, False] and loss[3] == 0
    assert losses.linear_cross_entropy(x[:0], weight, torch.zeros(0, dtype=torch.int64, device=target)).isnan()
    with pytest.raises(ValueError, match=r"`weight` has shape \(6, 7\): expected \(classes, 8\)"):
        losses.linear_cross_entropy(x, weight[:, :7], torch.zeros(4, dtype=torch.int64, device=target))
    with pytest.raises(TypeError, match="`weight` has dtype torch.float64, `x` torch.float32"):
        losses.linear_cross_entropy(x, weight.double(), torch.zeros(4, dtype=torch.int64, device=target))
    with pytest.raises(ValueError, match=r"`bias` has shape \(5,\): expected \(6,\)"):
        losses.linear_cross_entropy(x, weight, torch.zeros(4, dtype=torch.int64, device=target), torch.zeros(5, device=target))
