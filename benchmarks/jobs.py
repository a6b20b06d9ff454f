"""What the benchmark measures: each job is one kernel on real data, beside NumPy and PyTorch.

A `Job` prepares its data once; `nereid`, `torch` and `numpy` then do the same work on it. `check` compares Nereid's result
with a reference in float64. Tensors lie where `on(target)` says; NumPy works on copies on the host.
"""

import contextlib
import dataclasses
import pathlib
import sys
import typing

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples" / "kernels"))

import nereid  # noqa: E402
import seed  # noqa: E402


@dataclasses.dataclass
class Job:
    name: str
    nereid: typing.Callable[[], object]
    torch: typing.Callable[[], object]
    numpy: typing.Callable[[], object]
    check: typing.Callable[[], float]  #: largest error in units of its tolerance; below 1 is correct
    bar: float | None = None  #: asked speed relative to torch
    work: str = ""


@contextlib.contextmanager
def on(target):
    """Where jobs that are made within the context have their tensors: on the "cpu" or on the current "cuda" device. There matrix
    products of fp32 take TF32 inputs, PyTorch's, too."""
    allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = target == "cuda"
    try:
        with torch.device(target):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allowed


def _array(tensor):
    return tensor.cpu().numpy()


def _error(got, want, rtol, atol):
    """Largest |got - want| / (atol + rtol * |want|), in float64; infinite on NaN where none is due. On a GPU, whose exponentials and
    divisions are a few units less exact, the tolerance is twice as large."""
    if isinstance(got, torch.Tensor) and got.is_cuda:
        rtol, atol = 2 * rtol, 2 * atol
    got, want = (_array(each.detach().to(torch.float64)) if isinstance(each, torch.Tensor) else np.asarray(each, dtype=np.float64)
                 for each in (got, want))
    assert got.shape == want.shape, (got.shape, want.shape)
    worst = np.max(np.abs(got - want) / (atol + rtol * np.abs(want)), initial=0.0)
    return float("inf") if np.isnan(worst) else float(worst)


def _softmax64(x):
    x = _array(x.double())
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _softmax_numpy(x):
    def run():
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)
    return run


def first_softmax(rows, cols):
    x = torch.randn(rows, cols)
    y = torch.empty_like(x)

    def run():
        seed.softmax[(rows,)](y, y.stride(0), y.stride(1), x, x.stride(0), x.stride(1), rows, cols)
        return y
    return Job(f"1 softmax, first form {rows}x{cols}", run, lambda: torch.softmax(x, 1), _softmax_numpy(_array(x)),
               lambda: _error(run(), _softmax64(x), 2e-6, 1e-9))


def vector_add(n, bar=None):
    x, y, out = torch.randn(n), torch.randn(n), torch.empty(n)
    xn, yn, tmp, ref = _array(x), _array(y), np.empty(n, np.float32), torch.empty(n)
    grid = lambda meta: (nereid.cdiv(n, meta["BLOCK_SIZE"]),)

    def run():
        seed.add_kernel[grid](x, y, out, n, BLOCK_SIZE=1024)
        return out
    return Job(f"2 vector add {n}", run, lambda: torch.add(x, y, out=ref), lambda: np.add(xn, yn, out=tmp),
               lambda: _error(run(), x.double() + y.double(), 1e-7, 1e-9), bar)


def _matmul_tolerance(a, of_cpu):
    """Relative and absolute tolerance of a product of fp32: that of the CPU, and of TF32 inputs on a GPU."""
    return (1e-3, 1e-2) if a.is_cuda else (of_cpu, of_cpu)


def matmul_one_block(m, n, k):
    a, b, c = torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)
    an, bn = _array(a), _array(b)
    grid = lambda meta: (nereid.cdiv(m, meta["BLOCK_SIZE_M"]), nereid.cdiv(n, meta["BLOCK_SIZE_N"]))

    def run():
        seed.matmul_kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride())
        return c
    return Job(f"3 matmul, one K block, tuned {m}x{n}x{k}", run, lambda: a @ b, lambda: an @ bn,
               lambda: _error(run(), a.double() @ b.double(), *_matmul_tolerance(a, 1e-5)))


def row_softmax(rows, cols, bar=None):
    x = torch.randn(rows, cols)
    y = torch.empty_like(x)
    block = nereid.next_power_of_2(cols)
    warps = 16 if block >= 4096 else 8 if block >= 2048 else 4

    def run():
        seed.softmax_kernel[(rows,)](y, x, x.stride(0), y.stride(0), cols, BLOCK_SIZE=block, num_warps=warps)
        return y
    return Job(f"4 row softmax {rows}x{cols}", run, lambda: torch.softmax(x, 1), _softmax_numpy(_array(x)),
               lambda: _error(run(), _softmax64(x), 2e-6, 1e-9), bar)


def embedding(vocabulary, dim):
    weight = torch.randn(vocabulary, dim)
    out = torch.empty_like(weight)
    index = torch.zeros(1, dtype=torch.int32)
    wn = _array(weight)
    grid = lambda meta: (nereid.cdiv(vocabulary * dim, meta["BLOCK_SIZE"]),)

    def run():
        seed.embedding_lookup_kernel[grid](out, index, weight, vocabulary, dim, BLOCK_SIZE=1024)
        return out
    return Job(f"5 embedding rows, scaled {vocabulary}x{dim}", run, lambda: weight * 1.414, lambda: wn * np.float32(1.414),
               lambda: _error(run(), weight.double() * 1.414, 2e-7, 1e-9))


def _boxes(n, dtype):
    """Pairs of boxes that overlap. Of boxes that do not, the formula divides by a difference of nearly equal areas,
    and no precision gives a comparable result."""
    corner, size = torch.rand(n, 2) * 10, torch.rand(n, 2) * 4 + 4
    moved = corner + torch.rand(n, 2) * 2
    return tuple(torch.cat([c, c + size], 1).to(dtype).contiguous() for c in (corner, moved))


def _giou(p, t, xp):
    """The kernel's formula on columns, in whatever library and precision the inputs have."""
    pl, pt, pr, pb = (p[:, i] for i in range(4))
    tl_, tt, tr, tb = (t[:, i] for i in range(4))
    area1, area2 = (pr - pl) * (pb - pt), (tr - tl_) * (tb - tt)
    inter = (xp.minimum(pr, tr) - xp.maximum(pl, tl_)) * (xp.minimum(pb, tb) - xp.maximum(pt, tt))
    union = area1 + area2 - inter
    eps = xp.full_like(union, 1e-5)
    enclose = (xp.maximum(pr, tr) - xp.minimum(pl, tl_)) * (xp.maximum(pb, tb) - xp.minimum(pt, tt))
    giou = inter / xp.maximum(union, eps) - (enclose - union) / xp.maximum(enclose, eps)
    return xp.where(tb > 0, giou, xp.zeros_like(giou)), tb > 0


def giou(n, dtype=torch.float32, bar=None):
    preds, targets = _boxes(n, dtype)
    out, valid = torch.empty(n, dtype=dtype), torch.empty(n, dtype=torch.bool)
    pn, tn = _array(preds.float()), _array(targets.float())
    block = 1024

    def run():
        seed.giou_kernel[(n // block,)](preds, targets, out, valid, BLOCK_SIZE=block)
        return out

    def check():
        want, want_valid = _giou(preds.double(), targets.double(), torch)
        # fp16 and bf16 differences of coordinates cancel: their error is that of the inputs' spacing.
        scale = {torch.float32: (1e-4, 1e-4), torch.float16: (0.1, 0.1), torch.bfloat16: (0.5, 0.5)}[dtype]
        return max(_error(run(), want, *scale), _error(valid, want_valid, 0, 1e-9))
    name = str(dtype).removeprefix("torch.")
    return Job(f"6 GIoU of {n} boxes {name}", run, lambda: _giou(preds, targets, torch), lambda: _giou(pn, tn, np), check, bar)


def matmul(m, n, k, dtype=torch.float32, activation="", blocks=(128, 128, 64), bar=None):
    a, b, c = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype), torch.empty(m, n, dtype=dtype)
    an, bn = _array(a.float()), _array(b.float())
    bm, bn_, bk = blocks
    grid = (nereid.cdiv(m, bm) * nereid.cdiv(n, bn_),)

    def run():
        seed.matmul_full_kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), BLOCK_SIZE_M=bm,
                                      BLOCK_SIZE_N=bn_, BLOCK_SIZE_K=bk, GROUP_SIZE_M=8, ACTIVATION=activation)
        return c

    def in_torch():
        product = a @ b
        return torch.nn.functional.leaky_relu(product) if activation else product

    def in_numpy():
        product = an @ bn
        return np.where(product >= 0, product, 0.01 * product) if activation else product

    def check():
        want = a.double() @ b.double()
        want = torch.nn.functional.leaky_relu(want) if activation else want
        rtol, _ = _matmul_tolerance(a, 1e-5) if dtype == torch.float32 else ({torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype], 0)
        # Rounded inputs, too, where they become TF32: an error of 2^-10 a product, of random sign.
        of_inputs = 1 if dtype == torch.float32 and a.is_cuda else 1 / 4
        return _error(run(), want, rtol, rtol * k ** 0.5 * of_inputs)
    name = str(dtype).removeprefix("torch.")
    suffix = " + leaky ReLU" if activation else ""
    return Job(f"matmul{suffix} {m}x{n}x{k} {name}", run, in_torch, in_numpy, check, bar)


def layer_norm(rows, cols, bar=None):
    x, w, b = torch.randn(rows, cols), torch.randn(cols), torch.randn(cols)
    y = torch.empty_like(x)
    xn, wn, bn = _array(x), _array(w), _array(b)
    block = nereid.next_power_of_2(cols)

    def run():
        seed.layer_norm_kernel[(rows,)](x, y, w, b, x.stride(0), cols, 1e-5, BLOCK_SIZE=block)
        return y

    def in_numpy():
        centred = xn - xn.mean(axis=1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5) * wn + bn
    return Job(f"layer norm {rows}x{cols}", run, lambda: torch.nn.functional.layer_norm(x, (cols,), w, b), in_numpy,
               lambda: _error(run(), torch.nn.functional.layer_norm(x.double(), (cols,), w.double(), b.double()), 1e-5, 1e-5),
               bar)


def main_jobs():
    """The six kernels as they were shown, and the three more, at everyday sizes."""
    torch.manual_seed(0)
    yield first_softmax(583, 931)
    yield vector_add(1 << 20)
    yield matmul_one_block(512, 512, 32)
    yield row_softmax(1823, 781)
    yield embedding(1000, 512)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        yield giou(1 << 16, dtype)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        yield matmul(512, 512, 512, dtype, "leaky_relu")
    yield layer_norm(1151, 2048)


def bar_jobs():
    """The sizes that the project's speed bars name."""
    torch.manual_seed(0)
    yield vector_add(1 << 24, bar=0.9)
    yield row_softmax(4096, 4096, bar=1.0)
    yield layer_norm(4096, 4096, bar=1.0)
    yield giou(1 << 22, bar=2.0)
    yield matmul(1024, 1024, 1024, bar=0.5)
