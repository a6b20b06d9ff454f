"""The kernels that users showed, unchanged but for the import, against NumPy and PyTorch in float64."""

import importlib.util
import pathlib

import nereid
import numpy as np
import pytest
import torch

PATH = pathlib.Path(__file__).resolve().parents[2] / "examples" / "kernels" / "seed.py"


@pytest.fixture(scope="module")
def seed():
    spec = importlib.util.spec_from_file_location("seed_kernels_under_test", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def reproducible():
    torch.manual_seed(0)


def close(got, want, rtol, atol=0.0):
    torch.testing.assert_close(got.double(), want.double(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("rows, cols", [(583, 931), (1, 1), (7, 1023), (3, 1024)])
def test_softmax_as_first_announced(seed, target, rows, cols):
    x = torch.randn(rows, cols)
    y = torch.empty_like(x)
    seed.softmax[(x.shape[0], )](y, y.stride(0), y.stride(1), x, x.stride(0), x.stride(1), x.shape[0], x.shape[1])
    close(y, torch.softmax(x.double(), 1), rtol=1e-5, atol=1e-7)


def test_softmax_of_a_transposed_view(seed, target):
    x = torch.randn(300, 40).t()
    y = torch.empty(40, 300)
    seed.softmax[(40, )](y, y.stride(0), y.stride(1), x, x.stride(0), x.stride(1), 40, 300)
    close(y, torch.softmax(x.double(), 1), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("n", [1, 1023, 1024, 98432])
def test_add(seed, target, n):
    x, y = torch.rand(n), torch.rand(n)
    out = torch.empty_like(x)
    grid = lambda meta: (nereid.cdiv(n, meta["BLOCK_SIZE"]), )
    seed.add_kernel[grid](x, y, out, n, BLOCK_SIZE=1024)
    assert torch.equal(out, x + y)


def test_add_on_numpy_arrays(seed, target):
    x, y = np.arange(1000, dtype=np.float64), np.ones(1000)
    out = np.empty(1000)
    seed.add_kernel[(1, )](x, y, out, 1000, BLOCK_SIZE=1024)
    assert np.array_equal(out, x + 1)


@pytest.mark.parametrize("m, n, k", [(100, 200, 32), (128, 64, 17)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_autotuned_matmul(seed, target, m, n, k, dtype):
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    c = torch.empty(m, n)
    grid = lambda meta: (nereid.cdiv(m, meta["BLOCK_SIZE_M"]), nereid.cdiv(n, meta["BLOCK_SIZE_N"]))
    seed.matmul_kernel[grid](a, b, c, m, n, k, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0),
                             c.stride(1))
    close(c, a.double() @ b.double(), rtol=2e-3 if dtype == torch.float32 else 1e-4, atol=1e-2 if dtype == torch.float32 else 1e-4)
    assert seed.matmul_kernel.best_config in seed.matmul_kernel.configs


@pytest.mark.parametrize("cols", [1, 781, 4096])
def test_row_softmax(seed, target, cols):
    x = torch.randn(37, cols)
    y = torch.empty_like(x)
    seed.softmax_kernel[(37, )](y, x, x.stride(0), y.stride(0), cols, BLOCK_SIZE=nereid.next_power_of_2(cols), num_warps=8)
    close(y, torch.softmax(x.double(), 1), rtol=1e-5, atol=1e-7)


def test_embedding(seed, target):
    weight = torch.randn(100, 33)
    index = torch.zeros(1, dtype=torch.int64)
    out = torch.empty_like(weight)
    seed.embedding_lookup_kernel[(nereid.cdiv(3300, 256), )](out, index, weight, 100, 33, BLOCK_SIZE=256)
    close(out, weight.double() * 1.414, rtol=1e-6)


def giou(a, b):
    a, b = a.double(), b.double()
    area = lambda x: (x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1])
    inner = torch.minimum(a, b)[:, 2:] - torch.maximum(a, b)[:, :2]
    outer = torch.maximum(a, b)[:, 2:] - torch.minimum(a, b)[:, :2]
    inner, outer = inner[:, 0] * inner[:, 1], outer[:, 0] * outer[:, 1]
    union = area(a) + area(b) - inner
    value = inner / union.clamp(min=1e-5) - (outer - union) / outer.clamp(min=1e-5)
    return torch.where(b[:, 3] > 0, value, 0.0)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.float16, 4e-2), (torch.bfloat16, 2e-1)])
def test_giou(seed, target, dtype, tolerance):
    n = 1024
    corner = torch.rand(2, n, 2)
    boxes = torch.cat([corner, corner + 0.5 + torch.rand(2, n, 2)], 2).to(dtype)
    preds, targets = boxes[0].contiguous(), boxes[1].contiguous()
    targets[::7] = 0
    out, valid = torch.empty(n, dtype=dtype), torch.empty(n, dtype=torch.bool)
    seed.giou_kernel[(n // 256, )](preds, targets, out, valid, BLOCK_SIZE=256)
    close(out, giou(preds, targets), rtol=0, atol=tolerance)
    assert torch.equal(valid, targets[:, 3] > 0)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 2e-2), (torch.float16, 1e-2), (torch.bfloat16, 6e-2)])
@pytest.mark.parametrize("activation", ["", "leaky_relu"])
def test_matmul_with_the_whole_loop(seed, target, dtype, tolerance, activation):
    m, n, k = 130, 70, 100
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    c = torch.empty(m, n, dtype=dtype)
    grid = (nereid.cdiv(m, 64) * nereid.cdiv(n, 32), )
    seed.matmul_full_kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), BLOCK_SIZE_M=64, BLOCK_SIZE_N=32,
                                  BLOCK_SIZE_K=32, GROUP_SIZE_M=2, ACTIVATION=activation)
    want = a.double() @ b.double()
    close(c, torch.nn.functional.leaky_relu(want) if activation else want, rtol=tolerance, atol=tolerance)


def test_layer_norm(seed, target):
    x, weight, bias = torch.randn(50, 700), torch.rand(700), torch.rand(700)
    y = torch.empty_like(x)
    seed.layer_norm_kernel[(50, )](x, y, weight, bias, x.stride(0), 700, 1e-5, BLOCK_SIZE=1024)
    close(y, torch.nn.functional.layer_norm(x.double(), (700, ), weight.double(), bias.double()), rtol=1e-4, atol=1e-5)
