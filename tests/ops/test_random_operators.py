"""Random numbers: kernels for GPUs, run here on the CPU, against a Philox in NumPy with PyTorch's order of numbers, and against numbers that PyTorch draws on GPUs."""

import numpy as np
import pytest
import torch

import nereid.ops
from nereid.ops import _random
from nereid.ops.kernels import random as kernels

MASK = np.uint64(0xffffffff)


def philox(counter, key):
    """Ten rounds of Philox4x32. counter: four arrays, key: two numbers (Salmon and others, 2011)."""
    c = [np.asarray(word, dtype=np.uint64) for word in counter]
    k = [np.uint64(word) for word in key]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ k[0], b & MASK, (a >> np.uint64(32)) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + np.uint64(0x9E3779B9)) & MASK, (k[1] + np.uint64(0xBB67AE85)) & MASK]
    return c


def words(numel, seed, offset, order, per_call):
    """For each element its four words and which of the numbers made of them it is."""
    i = np.arange(numel, dtype=np.uint64)
    thread, turn = i % np.uint64(order.threads), i // np.uint64(order.threads)
    counter = np.uint64(offset // 4) + turn // np.uint64(per_call)
    zero = np.zeros_like(i)
    found = philox([counter & MASK, counter >> np.uint64(32), thread, zero], [seed & 0xffffffff, seed >> 32])
    return found, (turn % np.uint64(per_call)).astype(int)


def uniform(numel, seed, offset, order, wide):
    found, which = words(numel, seed, offset, order, 2 if wide else 4)
    if not wide:
        return np.choose(which, found).astype(np.float64) * 2.0**-32 + 2.0**-33
    low, high = np.choose(which, [found[0], found[2]]), np.choose(which, [found[1], found[3]])
    return (low ^ (high << np.uint64(21))).astype(np.float64) * 2.0**-53 + 2.0**-54


def test_philox_of_the_reference():
    """Known answers of the paper's library, Random123."""
    assert [int(word) for word in philox([0] * 4, [0] * 2)] == [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]
    assert [int(word) for word in philox([0xffffffff] * 4, [0xffffffff] * 2)] == [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]


@pytest.mark.parametrize("seed,offset", [(0, 0), (12345, 8), (2**64 - 3, 4 * (2**33 + 7))])
@pytest.mark.parametrize("numel,blocks", [(1, 100), (300, 100), (5000, 2), (40000, 3)])
@pytest.mark.parametrize("wide", [False, True])
def test_uniform(numel, blocks, seed, offset, wide):
    order = _random.order(numel, 2 if wide else 4, blocks)
    found = torch.empty(numel, dtype=torch.float64 if wide else torch.float32)
    _random.draw(found, seed, offset, "uniform", kernels.between, (0.0, 1.0), wide, order)
    expected = uniform(numel, seed, offset, order, wide)
    expected[expected.astype(found.numpy().dtype) == 1] = 0
    np.testing.assert_array_max_ulp(found.numpy(), expected.astype(found.numpy().dtype), 1)
    assert order.increment == 4 * order.calls and order.calls * order.threads * (2 if wide else 4) >= numel > (order.calls - 1) * order.threads * (2 if wide else 4)


@pytest.mark.parametrize("wide", [False, True])
def test_normal(wide):
    order = _random.order(5000, 2 if wide else 4, 2)
    found = torch.empty(5000, dtype=torch.float64 if wide else torch.float32)
    _random.draw(found, 7, 4, "normal", kernels.shifted, (3.0, 0.5), wide, order)
    four, which = words(5000, 7, 4, order, 2 if wide else 4)
    if wide:
        u, v = ((a ^ (b << np.uint64(21))).astype(np.float64) * 2.0**-53 + 2.0**-54 for a, b in (four[:2], four[2:]))
    else:
        u, v = (np.where(which < 2, a, b).astype(np.float64) * 2.0**-32 + 2.0**-33 for a, b in ((four[0], four[2]), (four[1], four[3])))
    expected = np.sqrt(-2 * np.log(u)) * np.where(which % 2 == 0, np.sin(2 * np.pi * v), np.cos(2 * np.pi * v)) * 0.5 + 3
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-12 if wide else 3e-6)


def test_integers():
    order = _random.order(3000, 4, 2)
    found = torch.empty(3000, dtype=torch.int32)
    _random.draw(found, 3, 0, "bits", kernels.whole, (-10, 37), False, order)
    four, which = words(3000, 3, 0, order, 4)
    np.testing.assert_array_equal(found.numpy(), (np.choose(which, four) % np.uint64(37)).astype(np.int64) - 10)
    order = _random.order(3000, 2, 2)
    found = torch.empty(3000, dtype=torch.int64)
    _random.draw(found, 3, 0, "bits", kernels.whole, (5, 2**40 + 1), True, order)
    four, which = words(3000, 3, 0, order, 2)
    word = (np.choose(which, [four[0], four[2]]) << np.uint64(32)) | np.choose(which, [four[1], four[3]])
    np.testing.assert_array_equal(found.numpy(), (word % np.uint64(2**40 + 1)).astype(np.int64) + 5)


def test_numbers_of_pytorch():
    """The first numbers of torch.rand and torch.randn on a GPU after torch.manual_seed(0)."""
    order = _random.order(10, 4, 528)
    found = torch.empty(10)
    _random.draw(found, 0, 0, "uniform", kernels.between, (0.0, 1.0), False, order)
    assert [round(x, 4) for x in found.tolist()] == [0.3990, 0.5167, 0.0249, 0.9401, 0.9459, 0.7967, 0.4150, 0.8203, 0.2290, 0.9096]
    _random.draw(found, 0, 0, "normal", kernels.shifted, (0.0, 1.0), False, order)
    assert [round(x, 4) for x in found.tolist()] == [-0.9247, -0.4253, -2.6438, 0.1452, -0.1209, -0.5797, -0.6229, -0.3284, -1.0745, -0.3631]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_distributions(dtype):
    """Moments, bounds and dtypes of what is made of the numbers."""
    n, wide = 20000, dtype == torch.float64
    order = _random.order(n, 2 if wide else 4, 8)
    uniform_of = {torch.float16: kernels.half_between, torch.bfloat16: kernels.bfloat_between}.get(dtype, kernels.between)
    for kind, make, scalars, mean, std, low, high in (("uniform", uniform_of, (-2.0, 4.0), 1.0, 3**0.5, -2, 3.99999), ("normal", kernels.shifted, (1.0, 2.0), 1.0, 2.0, -20, 20),
                                                      ("uniform", kernels.waiting, (0.5, ), 2.0, 2.0, 1e-9, 100), ("uniform", kernels.chance, (0.25, ), 0.25, 0.433, 0, 1),
                                                      ("uniform", kernels.trials, (0.5, ), 2.0, 2**0.5, 1, 60), ("normal", kernels.exponential_of_normal, (0.0, 0.25), 1.0317, 0.262, 0, 9)):
        found = torch.empty(n, dtype=dtype)
        _random.draw(found, 11, 0, kind, make, scalars, wide, order)
        found = found.double()
        assert abs(found.mean() - mean) < 0.03 * (1 + std) and abs(found.std() - std) < 0.05 * std + 0.01, make
        assert found.min() >= low and (found.max() <= high or dtype != torch.float64 and found.max() < 4.0 and high < 4), make


def test_dropout():
    x = torch.arange(1, 9001, dtype=torch.float32)
    result, kept = torch.empty_like(x), torch.empty(9000, dtype=torch.bool)
    order = _random.order(9000, 4, 4)
    _random.drop(result, kept, x, 5, 0, 0.25, order)
    expected = uniform(9000, 5, 0, order, False) < 0.75
    assert np.array_equal(kept.numpy(), expected)
    torch.testing.assert_close(result, torch.where(kept, x / 0.75, torch.zeros(())))


def test_cpus_are_left_to_aten():
    torch.manual_seed(3)
    expected = [torch.rand(5), torch.randn(4), torch.randperm(9), torch.nn.functional.dropout(torch.ones(20)), torch.bernoulli(torch.full((6, ), 0.5))]
    with nereid.ops.use():
        torch.manual_seed(3)
        found = [torch.rand(5), torch.randn(4), torch.randperm(9), torch.nn.functional.dropout(torch.ones(20)), torch.bernoulli(torch.full((6, ), 0.5))]
    assert all(torch.equal(a, b) for a, b in zip(found, expected))
    assert all(operator.keys == ("CUDA", ) for operator in nereid.ops.OPERATORS.values() if operator.family == "random")
