"""Tokens drawn of logits; dropout with the addition of a residual."""

import pytest
import torch
from fused_checks import compare, layouts, random

from nereid.ops import fused

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def kept(logits, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0):
    """The probabilities of the tokens of one row that are left over, by sorting, in fp64."""
    x = logits.double() / temperature
    if top_k and top_k < x.numel():
        x = torch.where(x < x.sort(descending=True).values[top_k - 1], -torch.inf, x)
    p = x.softmax(0)
    if top_p < 1:
        ordered = p.sort(descending=True).values
        last = ordered[int((ordered.cumsum(0) < top_p).sum())]
        p = torch.where(p < last, 0.0, p)
    p = torch.where(p < min_p * p.max(), 0.0, p)
    return p / p.sum()


def frequencies(tokens, columns):
    return torch.bincount(tokens.cpu(), minlength=columns).double() / tokens.numel()


CASES = [{}, {"temperature": 0.5}, {"temperature": 3.0}, {"top_k": 1}, {"top_k": 3}, {"top_k": 100}, {"top_p": 0.05}, {"top_p": 0.7}, {"min_p": 0.3},
         {"temperature": 2.0, "top_k": 5, "top_p": 0.8, "min_p": 0.1}]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_frequencies(case, target):
    """Eight tokens, 20,000 draws: off by less than five standard deviations; what is left out is never drawn."""
    torch.manual_seed(5)
    logits = torch.tensor([0.3, -1.0, 2.0, 1.1, -4.0, 2.5, 0.0, 1.6], device=target)
    found = frequencies(fused.sample(logits.expand(20000, 8), **case), 8)
    p = kept(logits.cpu(), **case)
    assert (found[p == 0] == 0).all()
    assert ((found - p).abs() <= 5 * (p * (1 - p) / 20000).sqrt() + 1e-9).all(), (found, p)


@pytest.mark.parametrize("case", [{"top_k": 7}, {"top_p": 0.3}, {"top_k": 40, "top_p": 0.9}, {"min_p": 0.5}], ids=str)
@pytest.mark.parametrize("columns", [1, 63, 1025, 5000])
def test_long_rows(columns, case, target):
    """Several blocks: every draw is of the tokens that are left over, and all of these are drawn."""
    torch.manual_seed(1)
    logits = random(columns, device=target, scale=2)
    p = kept(logits.cpu(), **case)
    found = frequencies(fused.sample(logits.expand(400, columns), **case), columns)
    assert (found[p == 0] == 0).all() and (found[p > 0.05] > 0).all()


def test_parameters_by_row(target):
    torch.manual_seed(2)
    logits = random(6, 300, device=target)
    parameters = {"temperature": [1.0, 0.0, 2.0, 1.0, 0.5, 1.0], "top_k": [3, 0, 1, 0, 20, 0], "top_p": [1.0, 1.0, 0.5, 0.2, 0.9, 1.0], "min_p": [0.0, 0.0, 0.0, 0.1, 0.0, 0.6]}
    tensors = {name: torch.tensor(values, device=target) for name, values in parameters.items()}
    draws = torch.stack([fused.sample(logits, **tensors) for _ in range(60)])
    for row in range(6):
        case = {name: values[row] for name, values in parameters.items()}
        if case["temperature"] == 0:
            assert (draws[:, row] == logits[row].argmax()).all()
        else:
            assert (kept(logits[row].cpu(), **case)[draws[:, row].cpu()] > 0).all(), case


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_greedy_ties_and_special_values(dtype, target):
    logits = torch.tensor([[1.0, 5.0, 5.0, 2.0], [float("nan"), -1.0, float("-inf"), -2.0], [float("-inf")] * 4, [0.0, float("inf"), 3.0, -0.0]], dtype=dtype, device=target)
    assert fused.sample(logits, temperature=0).tolist() == [1, 1, 0, 1]
    torch.manual_seed(0)
    many = fused.sample(logits.expand(200, 4, 4), top_k=1)
    assert set(many[:, 0].tolist()) == {1, 2}, "tokens as probable as the last one stay"
    assert (many[:, 1] == 1).all() and (many[:, 2] == 0).all() and (many[:, 3] == 1).all()
    assert fused.sample(logits[:0]).shape == (0, ) and fused.sample(logits[0]).shape == ()


def test_generators_and_layouts(target):
    logits = random(40, 100, device=target)
    torch.manual_seed(7)
    first, second = fused.sample(logits), fused.sample(logits)
    torch.manual_seed(7)
    assert torch.equal(fused.sample(logits), first) and not torch.equal(first, second)
    generator = torch.Generator(target).manual_seed(3)
    wanted = fused.sample(logits, generator=generator)
    for name, x in layouts(logits):
        assert torch.equal(fused.sample(x, generator=generator.manual_seed(3)), wanted), name
    seed = torch.tensor(11, device=target)
    assert torch.equal(torch.ops.nereid.sample(logits[:7], seed), torch.ops.nereid.sample(logits, seed)[:7])


def test_errors_of_sample(target):
    x = torch.zeros(3, 4, device=target)
    for named, text in (({"top_p": 0.0}, "`top_p` is 0.0: expected a number above 0, up to 1"), ({"top_k": -1}, "`top_k` is -1"), ({"min_p": 2.0}, "`min_p` is 2.0"),
                        ({"temperature": -1.0}, "`temperature` is -1.0"), ({"top_p": torch.ones(2, device=target)}, r"`top_p` has shape \(2,\): expected \(3,\)")):
        with pytest.raises(ValueError, match=text):
            fused.sample(x, **named)
    with pytest.raises(TypeError, match="`top_k` has dtype torch.float32: expected int32 or int64"):
        fused.sample(x, top_k=torch.ones(3, device=target))
    with pytest.raises(TypeError, match="`logits` has dtype torch.int64"):
        fused.sample(x.long())
    with pytest.raises(ValueError, match=r"`logits` has shape \(3, 0\): expected at least one column"):
        fused.sample(x[:, :0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.99])
def test_dropout_add(p, dtype, target):
    torch.manual_seed(4)
    for shape in ((211, 97), (3, 5, 1000), (1, ), (0, 4)):
        x, residual = random(*shape, dtype=dtype, device=target).requires_grad_(), random(*shape, dtype=dtype, device=target, seed=1).requires_grad_()
        seed = torch.tensor(99 + len(shape), device=target)
        mask = torch.ops.nereid.dropout_add(torch.ones_like(x), None, seed, p) != 0
        if x.numel() > 5000:
            assert abs(mask.double().mean().item() - (1 - p)) < 5 * (p * (1 - p) / x.numel())**0.5
        result = torch.ops.nereid.dropout_add(x, residual, seed, p)
        wide = [tensor.detach().double().requires_grad_() for tensor in (x, residual)]
        wanted = wide[1] + mask * wide[0] / (1 - p)
        compare(result, wanted, units=2)
        grad = random(*shape, dtype=dtype, device=target, seed=3)
        compare(torch.autograd.grad(result, (x, residual), grad), torch.autograd.grad(wanted, wide, grad.double()), units=2)


def test_dropout_is_repeated_by_the_seed(target):
    x, residual = random(50, 40, device=target), random(50, 40, device=target, seed=1)
    torch.manual_seed(9)
    first, second = fused.dropout_add(x, residual, 0.4), fused.dropout_add(x, residual, 0.4)
    torch.manual_seed(9)
    assert torch.equal(fused.dropout_add(x, residual, 0.4), first) and not torch.equal(first, second)
    generator = torch.Generator(target).manual_seed(1)
    wanted = fused.dropout_add(x, residual, 0.4, generator=generator)
    for name, other in layouts(x):
        assert torch.equal(fused.dropout_add(other, residual, 0.4, generator=generator.manual_seed(1)), wanted), name
    assert torch.equal(fused.dropout_add(x, residual, 0.4, training=False), x + residual) and torch.equal(fused.dropout_add(x, residual, 0.0), x + residual)
    assert torch.equal(fused.dropout_add(x, residual, 1.0), residual)


def test_dropped_elements_are_independent(target):
    """Neighbours, the four words of a counter and other places of the key: no correlation beyond five standard deviations."""
    kept_ones = torch.ops.nereid.dropout_add(torch.ones(1 << 16, device=target), None, torch.tensor(3, device=target), 0.5) != 0
    signs = kept_ones.double() * 2 - 1
    for distance in (1, 2, 4, 512, 1024, 2048, 4096):
        assert abs((signs[distance:] * signs[:-distance]).mean().item()) < 5 / (1 << 16)**0.5, distance


def test_gradcheck(target):
    x, residual, seed = random(5, 7, dtype=torch.float64, device=target).requires_grad_(), random(5, 7, dtype=torch.float64, device=target).requires_grad_(), torch.tensor(5, device=target)
    assert torch.autograd.gradgradcheck(lambda x, residual: torch.ops.nereid.dropout_add(x, residual, seed, 0.3), (x, residual))


def test_errors_of_dropout(target):
    x = torch.ones(3, 4, device=target)
    with pytest.raises(ValueError, match="`p` is 1.5: expected a number from 0 to 1"):
        fused.dropout_add(x, x, 1.5)
    with pytest.raises(ValueError, match=r"`residual` has shape \(3, 3\): expected \(3, 4\)"):
        fused.dropout_add(x, x[:, :3])
    with pytest.raises(TypeError, match="`residual` has dtype torch.float64, `x` torch.float32"):
        fused.dropout_add(x, x.double())
    with pytest.raises(TypeError, match="`seed` has dtype torch.int32: expected int64"):
        torch.ops.nereid.dropout_add(x, None, torch.tensor(1, dtype=torch.int32, device=target), 0.5)
