"""Quantisation to 8 bits, of a tensor as it is and of what a normalisation or SwiGLU yields, in one pass over the rows."""

import torch

from .._strided import cdiv
from . import _arguments
from .norms import check, like, run
from ._declare import operator

#: The 8-bit dtypes and the largest magnitude that is written.
LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0, torch.int8: 127.0}
_SCALING = "Tensor? scale=None, int group=0, ScalarType? dtype=None"


def _check_scaling(x, scale, group, dtype):
    if x.dtype == torch.float64:
        raise TypeError("`x` has dtype torch.float64: expected float16, bfloat16 or float32")
    if dtype is not None and dtype not in LARGEST:
        raise TypeError(f"`dtype` is {dtype}: expected float8_e4m3fn, float8_e5m2 or int8")
    if group and group not in (16, 32, 64, 128, 256, 512):
        raise ValueError(f"`group` is {group}: expected 0 or a power of 2 from 16 to 512")
    if scale is None:
        return
    if group:
        raise ValueError("`scale` and `group` are given: expected at most one of them")
    if scale.dtype != torch.float32:
        raise TypeError(f"`scale` has dtype {scale.dtype}: expected float32")
    if scale.numel() != 1:
        raise ValueError(f"`scale` has shape {tuple(scale.shape)}: expected one element")
    _arguments.one_device(x=x, scale=scale)


def _results(x, width, scale, group, dtype):
    """(quantised, scales), without values."""
    dtype = torch.float8_e4m3fn if dtype is None else dtype
    shape = (1, ) if scale is not None else (*x.shape[:-1], cdiv(width, group) if group else 1)
    return x.new_empty((*x.shape[:-1], width), dtype=dtype), x.new_empty(shape, dtype=torch.float32)


def _run(kind, total, x, residual, weight, bias, eps, offset, scale, group, dtype):
    out, scales = _results(x, x.shape[-1], scale, group, dtype)
    run(kind, out, total, x, residual, weight, bias, eps, offset, scales, scale, "given" if scale is not None else "group" if group else "row", group or 1, LARGEST[out.dtype])
    return out, scales


def _fake_norm(x, weight=None, eps=1e-6, weight_offset=0.0, scale=None, group=0, dtype=None):
    check(x, None, weight)
    _check_scaling(x, scale, group, dtype)
    return _results(x, x.shape[-1], scale, group, dtype)


def _fake_add_norm(x, residual, weight=None, eps=1e-6, weight_offset=0.0, scale=None, group=0, dtype=None):
    check(x, residual, weight)
    _check_scaling(x, scale, group, dtype)
    return *_results(x, x.shape[-1], scale, group, dtype), x.new_empty(x.shape)


def _fake_layer(x, weight=None, bias=None, eps=1e-5, scale=None, group=0, dtype=None):
    check(x, None, weight, bias)
    _check_scaling(x, scale, group, dtype)
    return _results(x, x.shape[-1], scale, group, dtype)


def _fake_add_layer(x, residual, weight=None, bias=None, eps=1e-5, scale=None, group=0, dtype=None):
    check(x, residual, weight, bias)
    _check_scaling(x, scale, group, dtype)
    return *_results(x, x.shape[-1], scale, group, dtype), x.new_empty(x.shape)


def _fake_quantize(x, scale=None, group=0, dtype=None):
    check(x)
    _check_scaling(x, scale, group, dtype)
    return _results(x, x.shape[-1], scale, group, dtype)


def _check_swiglu(gate, up, scale, group, dtype):
    _arguments.floats(gate=gate, up=up)
    _arguments.one_dtype(gate=gate, up=up)
    _arguments.one_device(gate=gate, up=up)
    if not gate.dim():
        raise ValueError("`gate` has no dimensions: expected at least one")
    _arguments.shape(up, gate.shape, "up")
    if up is None and gate.shape[-1] % 2:
        raise ValueError(f"`gate` has {gate.shape[-1]} columns: expected an even number without `up`")
    _check_scaling(gate, scale, group, dtype)


def _fake_swiglu(gate, up=None, scale=None, group=0, dtype=None):
    _check_swiglu(gate, up, scale, group, dtype)
    return _results(gate, gate.shape[-1] // (2 if up is None else 1), scale, group, dtype)


def _rows_rule(tensors):
    """The sharding rule: rows are sharded, the last dimension is replicated. tensors: how many of the first arguments have x's shape; further tensors are replicated."""

    def rule(*arguments):
        from torch.distributed.tensor import Replicate, Shard
        x = arguments[0]
        scale_given = any(hasattr(argument, "shape") and tuple(argument.shape) in ((), (1, )) for argument in arguments[tensors:])

        def along(placement):
            inputs = [None if not hasattr(argument, "shape") else placement if i < tensors else Replicate() for i, argument in enumerate(arguments)]
            return [placement, Replicate() if scale_given else placement, *[placement] * (tensors - 1)], inputs

        return [along(Replicate()), *(along(Shard(d)) for d in range(x.ndim - 1))]

    return rule


@operator(f"quantize(Tensor x, {_SCALING}) -> (Tensor, Tensor)", fake=_fake_quantize, sharding=_rows_rule(1))
def quantize(x, scale, group, dtype):
    """(quantised, scales): x in 8 bits; x is about quantised * scales.

    x: (..., n), fp16, bf16 or fp32, any strides; finite. dtype: float8_e4m3fn (None), float8_e5m2 or int8. scales: fp32. By default one for each row: the largest
    magnitude / the largest of the dtype, shape (..., 1). group: a power of 2 from 16 to 512; one scale for each `group` elements of a row, shape (..., ceil(n / group)).
    scale: fp32, one element: a given scale, which is returned with shape (1,). Quotients beyond the dtype's range become its largest magnitude. Scales are at least 2^-126, so
    that rows of zeros can be divided by them. No gradient.

    Raises TypeError for other dtypes, ValueError for shapes or devices that do not fit, and where `scale` and `group` are both given.
    """
    check(x)
    _check_scaling(x, scale, group, dtype)
    return _run("none", None, x, None, None, None, 0.0, 0.0, scale, group, dtype)


@operator(f"rms_norm_quantized(Tensor x, Tensor? weight=None, float eps=1e-6, float weight_offset=0.0, {_SCALING}) -> (Tensor, Tensor)", fake=_fake_norm,
          sharding=_rows_rule(1))
def rms_norm_quantized(x, weight, eps, weight_offset, scale, group, dtype):
    """`quantize` of `rms_norm`, which is not rounded in between."""
    check(x, None, weight)
    _check_scaling(x, scale, group, dtype)
    return _run("rms", None, x, None, weight, None, eps, weight_offset, scale, group, dtype)


@operator(f"add_rms_norm_quantized(Tensor x, Tensor residual, Tensor? weight=None, float eps=1e-6, float weight_offset=0.0, {_SCALING}) -> (Tensor, Tensor, Tensor)",
          fake=_fake_add_norm, sharding=_rows_rule(2))
def add_rms_norm_quantized(x, residual, weight, eps, weight_offset, scale, group, dtype):
    """(quantised, scales, sum): `quantize` of `add_rms_norm`, and the sum."""
    check(x, residual, weight)
    _check_scaling(x, scale, group, dtype)
    total = like(x)
    return *_run("rms", total, x, residual, weight, None, eps, weight_offset, scale, group, dtype), total


@operator(f"layer_norm_quantized(Tensor x, Tensor? weight=None, Tensor? bias=None, float eps=1e-5, {_SCALING}) -> (Tensor, Tensor)", fake=_fake_layer,
          sharding=_rows_rule(1))
def layer_norm_quantized(x, weight, bias, eps, scale, group, dtype):
    """`quantize` of `layer_norm`, which is not rounded in between."""
    check(x, None, weight, bias)
    _check_scaling(x, scale, group, dtype)
    return _run("layer", None, x, None, weight, bias, eps, 0.0, scale, group, dtype)


@operator(f"add_layer_norm_quantized(Tensor x, Tensor residual, Tensor? weight=None, Tensor? bias=None, float eps=1e-5, {_SCALING}) -> (Tensor, Tensor, Tensor)",
          fake=_fake_add_layer, sharding=_rows_rule(2))
def add_layer_norm_quantized(x, residual, weight, bias, eps, scale, group, dtype):
    """(quantised, scales, sum): `quantize` of `add_layer_norm`, and the sum."""
    check(x, residual, weight, bias)
    _check_scaling(x, scale, group, dtype)
    total = like(x)
    return *_run("layer", total, x, residual, weight, bias, eps, 0.0, scale, group, dtype), total


@operator(f"swiglu_quantized(Tensor gate, Tensor? up=None, {_SCALING}) -> (Tensor, Tensor)", fake=_fake_swiglu)
def swiglu_quantized(gate, up, scale, group, dtype):
    """`quantize` of silu(gate) * up, which is not rounded in between. up: of gate's shape and dtype, or None: the halves of the last dimension of `gate` are gate and up."""
    _check_swiglu(gate, up, scale, group, dtype)
    if up is None:
        gate, up = gate.chunk(2, -1) if gate.shape[-1] else (gate, gate)
    return _run("swiglu", None, gate, up, None, None, 0.0, 0.0, scale, group, dtype)
