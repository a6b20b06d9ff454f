"""Embedding bags: all results, not only the first, and what is wrong with indices and offsets."""

import pytest
import torch

import nereid.ops
from nereid.ops.aten import bags as declared
from opinfo import compare_call, outcome, same_error

aten = torch.ops.aten
CHOICES = [{}, {"padding_idx": 2}, {"include_last_offset": True}, {"weighted": True}, {"weighted": True, "padding_idx": 1}]


def bags(device, dtype, choice, kinds=(torch.int64, torch.int64)):
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(6, 20, generator=generator).to(dtype).to(device)
    indices = torch.tensor([0, 2, 5, 2, 1, 1, 3, 2], dtype=kinds[0], device=device)
    offsets = torch.tensor([0, 3, 3, 5, 8] if choice.get("include_last_offset") else [0, 3, 3, 5], dtype=kinds[1], device=device)
    weights = torch.randn(8, generator=generator).to(dtype).to(device) if choice.get("weighted") else None
    return table, indices, offsets, weights


def defined(results, count):
    """What ATen defines of results for `count` bags: where the offsets have an end, its GPU kernels leave the last element of the sizes as it is in memory."""
    result, owners, sizes, places = results
    return result, owners, sizes[:count], places


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("mode", range(3))
def test_results(mode, choice, dtype, target):
    if choice.get("weighted") and mode:
        return
    table, indices, offsets, weights = bags(target, dtype, choice)
    scaled, last, padding = False, choice.get("include_last_offset", False), choice.get("padding_idx", -1)
    for name in ("_embedding_bag", "_embedding_bag_forward_only"):
        compare_call(lambda *args: defined(getattr(aten, name)(*args[:3], scaled, mode, False, args[3], last, padding), 4), table, indices, offsets, weights, only=name)
    _, owners, sizes, places = aten._embedding_bag(table, indices, offsets, scaled, mode, False, weights, last, padding)
    gradient, sizes = torch.randn(4, 20).to(dtype).to(target), sizes[:4]
    compare_call(lambda g, i, o, b, s, p, w: aten._embedding_bag_backward(g, i, o, b, s, p, 6, scaled, mode, False, w, padding),
                 gradient, indices, offsets, owners, sizes, places, weights, only="_embedding_bag_backward")
    if owners.numel():
        compare_call(lambda g, i, b, s, p, w: aten._embedding_bag_dense_backward(g, i, b, s, p, 6, scaled, mode, w, padding),
                     gradient, indices, owners, sizes, places, weights, only="_embedding_bag_dense_backward")
    if not mode:
        compare_call(lambda g, t, i, o, b: aten._embedding_bag_per_sample_weights_backward(g, t, i, o, b, 0, padding), gradient, table, indices, offsets, owners,
                     only="_embedding_bag_per_sample_weights_backward")


def test_places_of_empty_bags(monkeypatch, target):
    """ATen's maxima of an empty bag are in row 0 on CPUs, and in row -1 on GPUs; no gradient goes there."""
    for nowhere in (0, -1):
        monkeypatch.setattr(declared, "_nowhere", lambda device: nowhere)
        table, indices, offsets, _ = bags(target, torch.float32, {})
        with nereid.ops.use(routing=False, router=False):
            _, owners, sizes, places = aten._embedding_bag(table, indices, offsets, False, 2)
            assert (places[1] == nowhere).all() and (places[[0, 2, 3]] >= 0).all()
            gradient = aten._embedding_bag_dense_backward(torch.ones(4, 20, device=target), indices, owners, sizes, places, 6, False, 2, None)
        assert gradient.sum() == 3 * 20
    monkeypatch.undo()
    assert [declared._nowhere(torch.device(name)) for name in ("cpu", "cuda")] == [0, -1]


@pytest.mark.parametrize("mode", range(2))
def test_gradients_by_frequency(mode, target):
    """By the definition: on CPUs, ATen divides by how often another index occurs."""
    table, indices, offsets, _ = bags(target, torch.float64, {})
    gradient, owners = torch.randn(4, 20, dtype=torch.float64).to(target), torch.tensor([0, 0, 0, 2, 2, 3, 3, 3], device=target)
    sizes = torch.bincount(owners, minlength=4)
    expected = torch.zeros_like(table)
    for index, bag in zip(indices.tolist(), owners.tolist()):
        expected[index] += gradient[bag] / (indices == index).sum() / (sizes[bag] if mode else 1)
    with nereid.ops.use():
        found = aten._embedding_bag_dense_backward(gradient, indices, owners, sizes, sizes, 6, True, mode, None)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("kinds", [(torch.int32, torch.int32), (torch.int32, torch.int64), (torch.int64, torch.int32)], ids=str)
def test_kinds_of_indices(kinds, target):
    for mode in range(3):
        compare_call(lambda *args: aten._embedding_bag(*args, False, mode), *bags(target, torch.float32, {}, kinds)[:3], only="_embedding_bag")


@pytest.mark.parametrize("indices,offsets", [([0, 6], [0]), ([-1, 2], [0]), ([0, 1], [1]), ([0, 1], [0, 3]), ([0, 1, 2], [0, 2, 1])], ids=str)
def test_what_atens_decides(indices, offsets, target):
    """What is out of range raises ATen's error, and so does what is not in order where ATen looks."""
    if target != "cpu":
        return
    table = torch.randn(6, 4)
    args = table, torch.tensor(indices), torch.tensor(offsets)
    expected, error = outcome(aten._embedding_bag, *args)
    with nereid.ops.use():
        result, ours = outcome(aten._embedding_bag, *args)
        assert all(row.route == "aten" for row in nereid.ops.report() if row.overload == "_embedding_bag")
    assert same_error(ours, error) if error is not None else torch.equal(result[0], expected[0])
