"""Rows from which a program also reads one element, at a position from memory, as the logit of a label: the row's owner stores its gradient with that of the
element. Elements that the program's blocks do not cover are added in a second step."""

import nereid
import nereid.language as tl
import pytest
import torch
import torch.nn.functional as F

DEVICE = "cpu"


@nereid.jit
def online(logits, labels, loss, n, BLOCK: tl.constexpr):
    """A long row in one pass, the label's logit behind it."""
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
    tl.store(loss + row, largest + tl.log(total) - tl.load(logits + tl.load(labels + row)).to(tl.float32))


@nereid.jit
def early(logits, labels, loss, n, BLOCK: tl.constexpr):
    """The label's logit first; other labels than -100."""
    row = tl.program_id(0)
    label = tl.load(labels + row)
    if label == -100:
        tl.store(loss + row, 0.0)
        return
    picked = tl.load(logits + row * n + label).to(tl.float32) * 1.5
    largest = float("-inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(logits + row * n + i, mask=i < n, other=float("-inf")).to(tl.float32) * 1.5
        new = tl.maximum(largest, tl.max(x))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(x - new))
        largest = new
    tl.store(loss + row, largest + tl.log(total) - picked)


@nereid.jit
def in_branch(logits, labels, loss, n, BLOCK: tl.constexpr):
    """One block; the label's logit in a branch that the row is not in."""
    row = tl.program_id(0)
    label = tl.load(labels + row)
    i = tl.arange(0, BLOCK)
    x = tl.load(logits + row * n + i, mask=i < n, other=float("-inf")).to(tl.float32)
    largest = tl.max(x)
    lse = largest + tl.log(tl.sum(tl.exp(x - largest)))
    if label == -100:
        value = 0.0
    else:
        value = lse - tl.load(logits + row * n + label).to(tl.float32)
    tl.store(loss + row, value)


@nereid.jit
def smoothed(logits, labels, loss, z, n, smoothing, factor, BLOCK: tl.constexpr):
    """Label smoothing and the square of the logarithm, two passes over the row; the label's probability has a weight, as in a focal loss."""
    row = tl.program_id(0)
    logits += row * n
    label = tl.load(labels + row)
    picked = tl.load(logits + label, mask=label != -100, other=0.0).to(tl.float32)
    largest = float("-inf")
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        largest = tl.maximum(largest, tl.max(tl.load(logits + i, mask=i < n, other=float("-inf")).to(tl.float32)))
    total, sum_x = 0.0, 0.0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(logits + i, mask=i < n, other=float("-inf")).to(tl.float32)
        total += tl.sum(tl.exp(x - largest))
        sum_x += tl.sum(tl.where(i < n, x, 0.0))
    lse = largest + tl.log(total)
    value = lse - (1 - smoothing) * picked - smoothing * sum_x / n
    value *= 1 + tl.exp(picked - lse)
    tl.store(loss + row, tl.where(label == -100, 0.0, value))
    tl.store(z + row, tl.where(label == -100, 0.0, factor * lse * lse))


@nereid.jit
def in_parts(logits, labels, sums, picked, n, BLOCK: tl.constexpr):
    """Each program a part of the row. The label's logit is read by the first, whose part need not contain it."""
    row, part = tl.program_id(0), tl.program_id(1)
    i = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(logits + row * n + i, mask=i < n, other=0.0)
    tl.store(sums + row * tl.num_programs(1) + part, tl.sum(tl.sin(x.to(tl.float32))))
    if part == 0:
        tl.store(picked + row, tl.cos(tl.load(logits + row * n + tl.load(labels + row)).to(tl.float32)))


def reference(x, labels):
    return F.cross_entropy(x, labels, reduction="none")


def reference_smoothed(x, labels, smoothing):
    lse = x.logsumexp(1)
    picked = x.gather(1, labels.clamp(min=0)[:, None])[:, 0]
    value = (lse - (1 - smoothing) * picked - smoothing * x.mean(1)) * (1 + torch.exp(picked - lse))
    return torch.where(labels == -100, torch.zeros_like(lse), value), torch.where(labels == -100, torch.zeros_like(lse), 0.25 * lse * lse)


def labels_of(rows, n, ignored):
    labels = torch.randint(0, n, (rows, ))
    labels[:4] = torch.tensor([0, n - 1, n // 2, n // 2])
    if ignored:
        labels[4::3] = -100
    return labels


def launch(kernel, out, x, labels, given, *scalars, launches=1, grid=None, **constants):
    """The gradient of `x` of several launches with other labels each, and what explain says."""
    gradient = nereid.grad(kernel, "logits", out)
    out = (out, ) if isinstance(out, str) else out
    x, *given = (each.to(DEVICE) for each in (x, *given))
    found = []
    for each in labels if isinstance(labels, list) else [labels] * launches:
        dx = torch.full_like(x, float("nan"))
        gradient.backward[grid or (len(x), )](x, each.to(DEVICE), *given, *scalars, **{f"d{name}": d for name, d in zip(out, given)}, dlogits=dx, **constants)
        found.append(dx.cpu())
    return found, gradient.explain()


def is_picked(text):
    return "is stored by the program that owns it" in text and "with it what is read at positions from memory" in text


@pytest.mark.parametrize("n", [7, 128, 130, 517])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kernel,factor,ignored", [(online, 1.0, False), (early, 1.5, True), (in_branch, 1.0, True)])
def test_cross_entropy(kernel, factor, ignored, dtype, n):
    if kernel is online or kernel is early:
        block = 128
    else:
        block = 1024
    torch.manual_seed(n)
    x = torch.randn(40, n).to(dtype)
    exact = x.double().requires_grad_()
    for_launches = [labels_of(40, n, ignored) for _ in range(5)]
    dloss = torch.randn(40)
    found, text = launch(kernel, "loss", x, for_launches, (dloss, ), n, BLOCK=block)
    assert is_picked(text), text
    for labels, dx in zip(for_launches, found):
        expected, = torch.autograd.grad(reference(exact * factor, labels), exact, dloss.double())
        tolerance = {torch.float64: 1e-5, torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}[dtype]
        torch.testing.assert_close(dx.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_label_smoothing_in_two_passes(dtype):
    n = 300
    x, dloss, dz = torch.randn(20, n).to(dtype), torch.randn(20), torch.randn(20)
    labels = [labels_of(20, n, True) for _ in range(5)]
    found, text = launch(smoothed, ("loss", "z"), x, labels, (dloss, dz), n, 0.1, 0.25, BLOCK=64)
    assert "with it what is read at positions from memory" in text, text
    exact = x.double().requires_grad_()
    for each, dx in zip(labels, found):
        expected, = torch.autograd.grad(reference_smoothed(exact, each, 0.1), exact, (dloss.double(), dz.double()))
        tolerance = 1e-4 if dtype == torch.float32 else 2e-2
        torch.testing.assert_close(dx.double(), expected, rtol=tolerance, atol=tolerance)


def test_a_gradient_has_the_same_bits_in_every_launch():
    x, labels, dloss = torch.randn(64, 200).bfloat16(), torch.randint(0, 200, (64, )), torch.randn(64)
    found, _ = launch(online, "loss", x, labels, (dloss, ), 200, launches=6, BLOCK=64)
    assert all(torch.equal(each, found[0]) for each in found)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_elements_that_other_programs_store(dtype):
    """Most labels lie in another program's part. Launches with the same sizes write the gradient directly; what the second step adds is not lost there."""
    rows, n, block = 30, 200, 64
    parts = -(-n // block)
    x = torch.randn(rows, n).to(dtype)
    dsums, dpicked = torch.randn(rows, parts).to(torch.float64), torch.randn(rows).to(torch.float64)
    inside = torch.randint(0, block, (rows, ))  # the launches that are tried have no element for the second step
    labels = [inside, inside, inside, torch.randint(0, n, (rows, )), torch.arange(rows) + n - rows, torch.full((rows, ), n - 1)]
    found, text = launch(in_parts, ("sums", "picked"), x, labels, (dsums, dpicked), n, grid=(rows, parts), BLOCK=block)
    assert is_picked(text), text
    exact = x.double().requires_grad_()
    for each, dx in zip(labels, found):
        sums = torch.stack([torch.sin(part).sum(1) for part in exact.split(block, 1)], 1)
        expected, = torch.autograd.grad((sums, torch.cos(exact.gather(1, each[:, None])[:, 0])), exact, (dsums, dpicked))
        tolerance = 1e-5 if dtype == torch.float64 else 3e-2
        torch.testing.assert_close(dx.double(), expected, rtol=tolerance, atol=tolerance)


@nereid.jit
def neighbours(logits, labels, loss, n, stride, BLOCK: tl.constexpr):
    """Labels may lead into another program's row, or behind the part of the row that is read."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(logits + row * stride + i, mask=(i < n) & (i >= 2), other=0.0)
    tl.store(loss + row, tl.sum(x * x) * tl.load(logits + row * stride + tl.load(labels + row)))


@pytest.mark.parametrize("stride", [48, 40])
def test_elements_of_other_rows_and_of_none(stride):
    rows, n = 20, 40
    x = torch.randn(rows, stride, dtype=torch.float64)
    dloss = torch.randn(rows, dtype=torch.float64)
    labels = [torch.randint(2, n, (rows, ))] * 3 + [torch.randint(-2 * stride, 3 * stride, (rows, )) for _ in range(4)]
    labels = [torch.where((torch.arange(rows) * stride + each >= 0) & (torch.arange(rows) * stride + each < rows * stride), each, 0) for each in labels]
    found, text = launch(neighbours, "loss", x, labels, (dloss, ), n, stride, BLOCK=64)
    assert "with it what is read at positions from memory" in text, text
    exact = x.clone().requires_grad_()
    for each, dx in zip(labels, found):
        picked = exact.reshape(-1)[torch.arange(rows) * stride + each]
        expected, = torch.autograd.grad(exact[:, 2:n].square().sum(1) * picked, exact, dloss)
        torch.testing.assert_close(dx.cpu(), expected)


@nereid.jit
def alone_in_row(logits, labels, loss, n, BLOCK: tl.constexpr):
    """Of the row only the largest position counts, which has no gradient."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(logits + row * n + i, mask=i < n, other=-10.0)
    tl.store(loss + row, tl.load(logits + row * n + tl.load(labels + row)) * (tl.argmax(x, 0) + 1))


def test_a_row_without_a_gradient_of_its_own():
    x, labels, dloss = torch.randn(20, 30, dtype=torch.float64), torch.randint(0, 30, (20, )), torch.randn(20, dtype=torch.float64)
    found, _ = launch(alone_in_row, "loss", x, labels, (dloss, ), 30, launches=4, BLOCK=32)
    expected = torch.zeros_like(x).scatter(1, labels[:, None], (dloss * (x.argmax(1) + 1))[:, None])
    for each in found:
        torch.testing.assert_close(each, expected)


@nereid.jit
def rows_in_a_loop(logits, labels, loss, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for k in range(ROWS):
        row = tl.program_id(0) * ROWS + k
        x = tl.load(logits + row * n + i, mask=i < n, other=float("-inf"))
        picked = tl.load(logits + row * n + tl.load(labels + row))
        tl.store(loss + row, tl.log(tl.sum(tl.exp(x))) - picked)


def test_several_rows_of_a_program():
    n, rows = 50, 24
    x, dloss = torch.randn(rows, n, dtype=torch.float64), torch.randn(rows, dtype=torch.float64)
    labels = [labels_of(rows, n, False) for _ in range(4)]
    found, text = launch(rows_in_a_loop, "loss", x, labels, (dloss, ), n, grid=(rows // 4, ), ROWS=4, BLOCK=64)
    assert is_picked(text), text
    exact = x.clone().requires_grad_()
    for each, dx in zip(labels, found):
        expected, = torch.autograd.grad(reference(exact, each), exact, dloss)
        torch.testing.assert_close(dx.cpu(), expected)


@nereid.jit
def two_picked(logits, labels, others, loss, n, BLOCK: tl.constexpr):
    """Two elements of a row, in which each element is read twice."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(logits + row * n + i, mask=i < n, other=0.0)
    reverse = tl.load(logits + row * n + n - 1 - i, mask=i < n, other=0.0)
    a, b = tl.load(logits + row * n + tl.load(labels + row)), tl.load(logits + row * n + tl.load(others + row))
    tl.store(loss + row, tl.sum(x * x * reverse) + a * tl.sin(b))


def test_two_elements_of_a_row():
    n, rows = 37, 20
    x, dloss = torch.randn(rows, n, dtype=torch.float64), torch.randn(rows, dtype=torch.float64)
    exact = x.clone().requires_grad_()
    gradient = nereid.grad(two_picked, "logits", "loss")
    for _ in range(4):
        labels, others = labels_of(rows, n, False), labels_of(rows, n, False)
        others[5:8] += n  # in the next row: the second step adds this one alone
        dx = torch.full_like(x, float("nan"), device=DEVICE)
        gradient.backward[(rows, )](*(each.to(DEVICE) for each in (x, labels, others, dloss)), n, dloss=dloss.to(DEVICE), dlogits=dx, BLOCK=64)
        a, b = (exact.reshape(-1)[torch.arange(rows) * n + each] for each in (labels, others))
        expected, = torch.autograd.grad((exact * exact * exact.flip(1)).sum(1) + a * torch.sin(b), exact, dloss)
        torch.testing.assert_close(dx.cpu(), expected)


@nereid.jit
def saved(logits, labels, loss, lse, n, BLOCK: tl.constexpr, BASE2: tl.constexpr):
    """The logarithm of the sum is kept, with the base e or, of a loop with powers of 2, a multiple of that with the base 2."""
    row = tl.program_id(0)
    logits += row * n
    largest = float("-inf")
    total, squares = 0.0, 0.0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(logits + i, mask=i < n, other=float("-inf")).to(tl.float32)
        if BASE2:
            x *= 1.4426950408889634
        new = tl.maximum(largest, tl.max(x))
        scale = tl.exp2(largest - new) if BASE2 else tl.exp(largest - new)
        p = tl.exp2(x - new) if BASE2 else tl.exp(x - new)
        total = total * scale + tl.sum(p)
        squares = squares * scale + tl.sum(p * tl.where(i < n, x, 0.0))
        largest = new
    value = (largest + tl.log2(total)) * 0.6931471805599453 if BASE2 else largest + tl.log(total)
    value = tl.save(value, lse + row)
    tl.store(loss + row, value - tl.load(logits + tl.load(labels + row)).to(tl.float32) + squares / total)


@pytest.mark.parametrize("base2", [False, True])
def test_saved_logarithm_of_the_sum(base2):
    """The gradient reads the row for no maximum and sum; the other sum is read from it once more."""
    rows, n = 20, 300
    x, dloss = torch.randn(rows, n), torch.randn(rows)
    labels, lse = labels_of(rows, n, False), torch.empty(rows, device=DEVICE)
    loss = torch.empty(rows, device=DEVICE)
    saved[(rows, )](x.to(DEVICE), labels.to(DEVICE), loss, lse, n, BLOCK=64, BASE2=base2)
    exact = x.double().requires_grad_()
    torch.testing.assert_close(lse.cpu().double(), exact.logsumexp(1), rtol=1e-6, atol=1e-6)
    expected_loss = reference(exact, labels) + (exact.softmax(1) * exact).sum(1) * (1.4426950408889634 if base2 else 1)
    torch.testing.assert_close(loss.cpu().double(), expected_loss.detach(), rtol=1e-5, atol=1e-5)
    expected, = torch.autograd.grad(expected_loss, exact, dloss.double())
    gradient = nereid.grad(saved, "logits", "loss")
    for _ in range(4):
        dx = torch.full_like(x, float("nan"), device=DEVICE)
        compiled = gradient.backward[(rows, )](x.to(DEVICE), labels.to(DEVICE), loss, lse, n, dloss=dloss.to(DEVICE), dlogits=dx, BLOCK=64, BASE2=base2)
        torch.testing.assert_close(dx.cpu().double(), expected, rtol=1e-4, atol=1e-5)
    assert "maxnumf" not in compiled.asm["tile"]


def test_what_is_saved_in_16_bits_is_no_normaliser():
    """A sum relative to a rounded logarithm would not be 1."""
    rows, n = 20, 300
    x, dloss, labels = torch.randn(rows, n) * 4, torch.randn(rows), labels_of(rows, n, False)
    lse = x.logsumexp(1).bfloat16().to(DEVICE)
    gradient, dx = nereid.grad(saved, "logits", "loss"), torch.empty_like(x, device=DEVICE)
    compiled = gradient.backward[(rows, )](x.to(DEVICE), labels.to(DEVICE), dloss.to(DEVICE), lse, n, dloss=dloss.to(DEVICE), dlogits=dx, BLOCK=64, BASE2=False)
    assert "maxnumf" in compiled.asm["tile"]
    exact = x.double().requires_grad_()
    expected, = torch.autograd.grad(reference(exact, labels) + (exact.softmax(1) * exact).sum(1), exact, dloss.double())
    torch.testing.assert_close(dx.cpu().double(), expected, rtol=1e-4, atol=1e-4)


@nereid.jit
def with_gaps(logits, labels, loss, n, BLOCK: tl.constexpr):
    """Every other block of the row is read."""
    row = tl.program_id(0)
    total = tl.zeros((), tl.float64)
    for start in range(0, n, 2 * BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(logits + row * n + i, mask=i < n, other=0.0)
        total += tl.sum(x * x)
    tl.store(loss + row, total * tl.load(logits + row * n + tl.load(labels + row)))


def test_rows_with_gaps():
    """Blocks that are not one behind the other."""
    n, rows = 60, 20
    x, dloss = torch.randn(rows, n, dtype=torch.float64), torch.randn(rows, dtype=torch.float64)
    labels = [labels_of(rows, n, False) for _ in range(4)]
    found, _ = launch(with_gaps, "loss", x, labels, (dloss, ), n, BLOCK=8)
    exact = x.clone().requires_grad_()
    for each, dx in zip(labels, found):
        read = torch.arange(n) // 8 % 2 == 0
        expected, = torch.autograd.grad((exact.square() * read).sum(1) * exact.gather(1, each[:, None])[:, 0], exact, dloss)
        torch.testing.assert_close(dx, expected)
