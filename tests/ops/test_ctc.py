"""Connectionist temporal classification: repeated labels, empty and impossible sequences, both forms of targets, gradients."""

import pytest
import torch
import torch.nn.functional as F

import nereid.ops

LENGTHS = {
    "several": ([12, 10, 9, 7], [4, 2, 3, 0]), "empty": ([12, 0, 0, 7], [0, 0, 2, 3]), "impossible": ([3, 12, 2, 4], [3, 4, 2, 4]), "one step": ([1, 1, 1, 1], [1, 1, 0, 1]),
}


def run(dtype, lengths, flat, zero, target, served):
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(12, 4, 6, generator=generator, dtype=torch.float64).to(dtype).to(target).requires_grad_()
    labels = torch.randint(1, 6, (4, 5), generator=generator)
    labels[0, :2] = labels[2, :2] = 3  # repeated: a blank has to come between them
    steps, counts = lengths
    targets = torch.cat([labels[b, :count] for b, count in enumerate(counts)]) if flat else labels
    weights = torch.tensor([1.0, -2.0, 3.0, 0.5], dtype=dtype, device=target)
    with nereid.ops.use(without=None if served else ["_ctc_loss", "_ctc_loss_backward"]):
        losses = F.ctc_loss(scores.log_softmax(-1), targets.to(target), steps, counts, reduction="none", zero_infinity=zero)
        (losses * weights).sum().backward()
        if served:
            routes = {row.overload: row.route for row in nereid.ops.report()}
            assert routes["_ctc_loss"] == routes["_ctc_loss_backward"] == "nereid"
    return losses.detach(), scores.grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("zero", [False, True], ids=["inf", "zero"])
@pytest.mark.parametrize("flat", [False, True], ids=["matrix", "list"])
@pytest.mark.parametrize("case", LENGTHS)
def test_losses_and_gradients(case, flat, zero, dtype, target):
    for mine, its in zip(run(dtype, LENGTHS[case], flat, zero, target, True), run(dtype, LENGTHS[case], flat, zero, target, False)):
        torch.testing.assert_close(mine, its, rtol=64 * torch.finfo(dtype).eps, atol=64 * torch.finfo(dtype).eps, equal_nan=True)


def test_long_sequences(target):
    """More states than threads in a warp, several labels of one class."""
    generator = torch.Generator().manual_seed(2)
    scores = torch.randn(400, 2, 20, generator=generator, dtype=torch.float64).to(target).log_softmax(-1)
    targets = torch.randint(1, 20, (2, 150), generator=generator).to(target)
    args = scores, targets, [400, 390], [150, 140]
    expected = torch.ops.aten._ctc_loss(*args)
    gradient = torch.ops.aten._ctc_loss_backward(torch.ones_like(expected[0]), *args, *expected, 0)
    with nereid.ops.use():
        losses, alphas = torch.ops.aten._ctc_loss(*args)
        found = torch.ops.aten._ctc_loss_backward(torch.ones_like(losses), *args, losses, alphas, 0)
    torch.testing.assert_close(losses, expected[0], rtol=1e-12, atol=0)
    torch.testing.assert_close(found, gradient, rtol=1e-9, atol=1e-12)
