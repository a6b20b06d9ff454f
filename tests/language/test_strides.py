"""Elements a constant distance apart: every second to fourth, and neighbours in reverse order, of every width, loaded and stored."""

import numpy as np
import pytest
import torch

import harness
from harness import DTYPES

STEPS = [2, 3, 4, 5, -1, -2]
TYPES = ["int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def _numbers(count, dtype):
    """Small integers, exact in every type, as a tensor of it."""
    return harness.to_tensor((np.arange(count) * 7 % 113 - 56).astype(np.float64), DTYPES[dtype])


@pytest.mark.parametrize("count", [256, 200, 37, 1])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("dtype", TYPES)
def test_loads(target, dtype, step, count):
    """Masked to `count`: whole registers, and a tail that does not fill one. Nothing around the elements is read as one of them."""
    kernel = harness.make(f"""@triton.jit
def kernel(y_ptr, x_ptr, first, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + first + i * {step}, mask=i < n)
    tl.store(y_ptr + i, x, mask=i < n)
""")
    x = _numbers(2048, dtype)
    first = 0 if step > 0 else 1024
    y = torch.zeros_like(x[:256])
    kernel[(1,)](y, x, first, count, N=256)
    at = first + np.arange(count) * step
    assert torch.equal(y[:count], x[torch.from_numpy(at).to(x.device)])
    assert not y[count:].any()


@pytest.mark.parametrize("count", [256, 200, 37, 1])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("dtype", TYPES)
def test_stores(target, dtype, step, count):
    """The elements in between keep what they held."""
    kernel = harness.make(f"""@triton.jit
def kernel(y_ptr, x_ptr, first, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + first + i * {step}, tl.load(x_ptr + i) + 1, mask=i < n)
""")
    x, y = _numbers(256, dtype), _numbers(2048, dtype)
    first = 0 if step > 0 else 1024
    want = y.clone()
    want[torch.from_numpy(first + np.arange(count) * step).to(y.device)] = x[:count] + 1
    kernel[(1,)](y, x, first, count, N=256)
    assert torch.equal(y, want)


@pytest.mark.parametrize("dtype", TYPES)
def test_pairs(target, dtype):
    """Interleaved complex numbers, without masks: multiplied by i, in place."""
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    real, imaginary = tl.load(x_ptr + 2 * i), tl.load(x_ptr + 2 * i + 1)
    tl.store(x_ptr + 2 * i, -imaginary)
    tl.store(x_ptr + 2 * i + 1, real)
""")
    x = _numbers(512, dtype)
    want = torch.stack([-x[1::2], x[0::2]], dim=1).flatten()
    kernel[(1,)](x, N=256)
    assert torch.equal(x, want)


@pytest.mark.parametrize("step", [2, 3, -1])
def test_of_a_block(target, step):
    """Every `step`-th element of a block that is in memory because a scan made it."""
    kernel = harness.make(f"""@triton.jit
def kernel(y_ptr, x_ptr, N: tl.constexpr, M: tl.constexpr):
    x = tl.cumsum(tl.load(x_ptr + tl.arange(0, N)), 0)
    y = x[::{step}]
    tl.store(y_ptr + tl.arange(0, M), y)
""")
    x = _numbers(96, "int32")
    want = torch.from_numpy(np.cumsum(x.cpu().numpy())[::step].astype(np.int32).copy()).to(x.device)
    y = torch.empty_like(want)
    kernel[(1,)](y, x, N=96, M=len(want))
    assert torch.equal(y, want)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("dtype", ["int8", "float16", "int32", "float64"])
def test_masks_of_any_form(target, dtype, step):
    """Masks that come from memory: elements that are off are `other`, or keep what they held."""
    kernel = harness.make(f"""@triton.jit
def kernel(y_ptr, z_ptr, x_ptr, mask_ptr, first, N: tl.constexpr):
    i = tl.arange(0, N)
    mask = tl.load(mask_ptr + i) != 0
    tl.store(y_ptr + i, tl.load(x_ptr + first + i * {step}, mask=mask, other=3))
    tl.store(z_ptr + first + i * {step}, tl.load(x_ptr + i), mask=mask)
""")
    x, first = _numbers(2048, dtype), 0 if step > 0 else 1024
    mask = torch.from_numpy(np.random.default_rng(0).integers(0, 2, 200).astype(np.int8)).to(x.device)
    mask = torch.cat([mask, torch.zeros(56, dtype=torch.int8, device=x.device)])
    y, z = torch.zeros_like(x[:256]), torch.zeros_like(x)
    kernel[(1,)](y, z, x, mask, first, N=256)
    at = torch.from_numpy(first + np.arange(256) * step).to(x.device)
    assert torch.equal(y, torch.where(mask != 0, x[at], torch.full_like(y, 3)))
    want = torch.zeros_like(x)
    want[at[mask != 0]] = x[:256][mask != 0]
    assert torch.equal(z, want)


@pytest.mark.parametrize("distance", [1, -1, 2, 3, -3, 4, 0, 255, -511, 512])
@pytest.mark.parametrize("step", [2, 4])
def test_two_stores(target, step, distance):
    """Two rows of stores whose elements lie between each other, or meet: then the second one counts. On a GPU this holds for stores of one
    thread; where different threads store to one place without a barrier between them, either value may be left."""
    kernel = harness.make(f"""@triton.jit
def kernel(y_ptr, x_ptr, distance, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + 1024 + i * {step}, x)
    tl.store(y_ptr + 1024 + distance + i * {step}, x + 1)
""")
    x, y = _numbers(256, "int32"), _numbers(4096, "int32")
    want = y.clone()
    at = torch.from_numpy(1024 + np.arange(256) * step).to(y.device)
    want[at] = x
    want[at + distance] = x + 1
    kernel[(1,)](y, x, distance, N=256)
    if target == "cuda" and distance != 0:
        both = at[torch.isin(at, at + distance)]
        first = y.clone()
        first[at] = x
        either = (y[both] == want[both]) | (y[both] == first[both])
        assert either.all()
        y[both] = want[both]
    assert torch.equal(y, want)


@pytest.mark.parametrize("offset", [-3, -1, 0, 1, 2, 4])
def test_a_load_between_stores(target, offset):
    """All is read before anything is written, wherever both lie."""
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, offset, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x_ptr + 16 + i * 4, tl.load(x_ptr + 16 + offset + i * 4) + 1)
""")
    x = _numbers(2048, "int32")
    want, at = x.clone(), torch.from_numpy(16 + np.arange(256) * 4).to(x.device)
    want[at] = x[at + offset] + 1
    kernel[(1,)](x, offset, N=256)
    assert torch.equal(x, want)
