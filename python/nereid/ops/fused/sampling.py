"""Tokens drawn of logits: temperature, top-k, top-p (Holtzman and others 2020, "The curious case of neural text degeneration"), min-p; and dropout with the addition of a residual."""

import torch

from .._launch import launch
from .._strided import cdiv
from ..kernels import sampling as kernels
from . import _arguments
from ._declare import operator
from .norms import as_rows, compute_dtype


def drawn_seed(device, generator=None):
    """A seed for kernels: a tensor with one random int64 of PyTorch's generator of the device, or of `generator`.

    It is drawn by ATen's kernel: `manual_seed` repeats it, and a CUDA graph draws another one at each replay.
    """
    if generator is not None and generator.device.type != torch.device(device).type:
        raise ValueError(f"`generator` is for {generator.device}: expected one for {device}")
    return torch.empty((), dtype=torch.int64, device=device).random_(generator=generator)


def _check_seed(seed, **tensors):
    _arguments.shape(seed, (), "seed")
    if seed.dtype != torch.int64:
        raise TypeError(f"`seed` has dtype {seed.dtype}: expected int64")
    _arguments.one_device(**tensors, seed=seed)


# Sampling

_RANGES = {"temperature": ("at least 0", lambda x: x >= 0), "top_k": ("at least 0", lambda x: x >= 0), "top_p": ("above 0, up to 1", lambda x: 0 < x <= 1),
           "min_p": ("from 0 to 1", lambda x: 0 <= x <= 1)}


def _check_sample(logits, seed, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, temperatures=None, top_ks=None, top_ps=None, min_ps=None):
    _arguments.floats(logits=logits)
    if logits.dim() < 1 or not logits.shape[-1]:
        raise ValueError(f"`logits` has shape {tuple(logits.shape)}: expected at least one column")
    _check_seed(seed, logits=logits)
    for name, number, tensor in (("temperature", temperature, temperatures), ("top_k", top_k, top_ks), ("top_p", top_p, top_ps), ("min_p", min_p, min_ps)):
        expected, holds = _RANGES[name]
        if tensor is None and not holds(number):
            raise ValueError(f"`{name}` is {number}: expected a number {expected}")
        if tensor is not None:
            _arguments.shape(tensor, logits.shape[:-1], name)
            _arguments.one_device(logits=logits, **{name: tensor})
            if tensor.dtype not in ((torch.int32, torch.int64) if name == "top_k" else (torch.float32, torch.float64)):
                raise TypeError(f"`{name}` has dtype {tensor.dtype}: expected {'int32 or int64' if name == 'top_k' else 'float32 or float64'}")


def _fake_sample(logits, *rest, **named):
    _check_sample(logits, *rest, **named)
    return logits.new_empty(logits.shape[:-1], dtype=torch.int64)


@operator("sample(Tensor logits, Tensor seed, float temperature=1., int top_k=0, float top_p=1., float min_p=0., Tensor? temperatures=None, Tensor? top_ks=None, Tensor? top_ps=None, "
          "Tensor? min_ps=None) -> Tensor", fake=_fake_sample)
def sample_by_seed(logits, seed, temperature, top_k, top_p, min_p, temperatures, top_ks, top_ps, min_ps):
    """The operator behind `sample`: the same seed, a tensor with one int64, draws the same tokens."""
    _check_sample(logits, seed, temperature, top_k, top_p, min_p, temperatures, top_ks, top_ps, min_ps)
    out = torch.empty(logits.shape[:-1], dtype=torch.int64, device=logits.device)
    if out.numel():
        columns = logits.shape[-1]
        rows, stride = as_rows(logits)
        on_cpu = logits.device.type == "cpu"
        given = {name: None if tensor is None else tensor.contiguous() for name, tensor in (("temperatures", temperatures), ("top_ks", top_ks), ("top_ps", top_ps), ("min_ps", min_ps))}
        width = min(1024 if on_cpu else 4096, max(64, 1 << (columns - 1).bit_length()))
        launch(kernels.sample, out.numel(), logits.device, {
            "out": out, "logits": rows, "seed": seed, "columns": columns, "row_stride": stride, "temperature": float(temperature), "top_k": top_k, "top_p": float(top_p),
            "min_p": float(min_p), **given
        }, {"USE_K": top_ks is not None or top_k > 0, "USE_P": top_ps is not None or top_p < 1, "USE_MIN": min_ps is not None or min_p > 0,
            "BLOCK": min(64 if on_cpu else 1024, width), "WIDTH": width}, {"columns": "i32", "row_stride": "i64", "top_k": "i64"}, num_warps=4 if width < 4096 else 16)
    return out


def sample(logits, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, generator=None):
    """A token for each row of logits (..., vocabulary), drawn with the probabilities softmax(logits / temperature): int64 of shape (...).

    top_k: only the so many most probable tokens; 0 for all. top_p: of these only the most probable ones whose probabilities, those of the tokens left over, sum up to
    this. min_p: only tokens whose probability is at least this part of the greatest one. Tokens as probable as the last one that stays, stay. temperature 0: the most probable token,
    of equal ones the first. Each is a number, or a tensor of shape (...): floats of 32 or 64 bits, integers for top_k. generator: of the device, or None for the default one; the token depends on its
    state alone.

    logits: floats, of any strides; computed in fp32. Those that are not-a-number count as -inf; a row without a finite one gives 0. The values of tensors are not checked:
    a temperature or top_k below 0 counts as 0.

    Raises TypeError for other dtypes; ValueError for shapes, devices or numbers that do not fit.
    """
    numbers = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    tensors = {f"{name}s": value for name, value in numbers.items() if isinstance(value, torch.Tensor)}
    numbers = {name: value for name, value in numbers.items() if not isinstance(value, torch.Tensor)}
    return sample_by_seed(logits, drawn_seed(logits.device, generator), **numbers, **tensors)


# Dropout


def _check_dropout(x, residual, seed, p):
    _arguments.floats(x=x, residual=residual)
    _arguments.one_dtype(x=x, residual=residual)
    _arguments.one_device(x=x, residual=residual)
    _arguments.shape(residual, x.shape, "residual")
    _check_seed(seed, x=x)
    if not 0 <= p <= 1:
        raise ValueError(f"`p` is {p}: expected a number from 0 to 1")


def _fake_dropout(x, residual, seed, p):
    _check_dropout(x, residual, seed, p)
    return x.new_empty(x.shape)


def _save_dropout(ctx, inputs, output):
    _, residual, seed, ctx.p = inputs
    ctx.save_for_backward(seed)
    ctx.has_residual = residual is not None


def _dropout_gradient(ctx, grad):
    return dropout_by_seed(grad, None, *ctx.saved_tensors, ctx.p), grad if ctx.has_residual else None, None, None


@operator("dropout_add(Tensor x, Tensor? residual, Tensor seed, float p) -> Tensor", fake=_fake_dropout, backward=_dropout_gradient, save=_save_dropout)
def dropout_by_seed(x, residual, seed, p):
    """The operator behind `dropout_add`: the same seed, a tensor with one int64, drops the same elements. The gradient is the operator itself, applied to the gradient."""
    _check_dropout(x, residual, seed, p)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        block = 512 if x.device.type == "cuda" else 1024
        launch(kernels.dropped, cdiv(out.numel(), 4 * block), x.device, {
            "out": out, "x": x.contiguous(), "residual": None if residual is None else residual.contiguous(), "seed": seed, "numel": out.numel(),
            "threshold": round(p * 2**32), "scale": 1 / (1 - p) if p < 1 else 0.0
        }, {"COMPUTE": compute_dtype(x.dtype), "BLOCK": block}, num_warps=4)
    return out


def dropout_add(x, residual, p=0.5, training=True, generator=None):
    """residual + dropout(x): elements of x are set to 0 with the probability p, the others multiplied by 1 / (1 - p).

    x, residual: of one shape, float dtype and device, any strides; the result is contiguous. 16-bit floats are computed in fp32 and rounded once. training: False for
    x + residual. generator: of the device, or None for the default one. No mask is kept: backward draws it again. `manual_seed` repeats it; a CUDA graph draws anew at each replay.

    Raises TypeError for other dtypes; ValueError for shapes, devices or probabilities that do not fit.
    """
    if not training or p == 0:
        return dropout_by_seed(x, residual, torch.zeros((), dtype=torch.int64, device=x.device), 0.0)
    return dropout_by_seed(x, residual, drawn_seed(x.device, generator), p)
