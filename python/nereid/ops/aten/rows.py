"""Softmax and normalisations of ATen, with their gradients."""

import dataclasses

import torch

from .. import _schema
from .._declare import Native, Operator, declare
from .._launch import launch
from .._strided import COMPUTE, FLOATS, cdiv, product
from ..functions import reductions, rows as functions
from ..kernels import rows as kernels
from ..pointwise import Rule, run
from ..reduction import Reduction
from ..rows import Rows
from ._outputs import made, unusable


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnRows(Operator):
    """An operator that computes its results in `compute(values, outs)`, which returns a tensor, a tuple of them, or `Native`.

    tensors: the arguments that are read; results: how many there are. kinds: of overloads.
    """
    tensors: tuple
    compute: object
    results: int = 1
    kinds: tuple = ("functional", "out")

    family = "rows"

    def accepts(self, form):
        names = [argument.name for argument in form.arguments]
        return form.kind in self.kinds and form.returns == self.results and all(name in names for name in self.tensors)

    def call(self, form, values, outs):
        return unusable([values[name] for name in self.tensors], outs) or self.compute(values, outs)


def _matrix(x):
    """A tensor without dimensions as one of one dimension."""
    return x if x.dim() else x.view(1)


def _softmax(rows):

    def compute(values, outs):
        x, dim = values["self"], values["dim"]
        places = max(x.dim(), 1)
        if x.dtype not in FLOATS or not -places <= dim < places:
            return Native("dtype")
        dtype = x.dtype
        if values["half_to_float"]:
            if x.dtype != torch.float16 or x.device.type == "cpu":
                return Native("half_to_float")
            dtype = torch.float32
        results = made(outs, [(x.shape, dtype)], (x, ), x.device)
        if type(results) is not Native and x.numel():
            rows.launch([_matrix(x)], [dim % places], [_matrix(results[0])], [], COMPUTE[x.dtype])
        return results if type(results) is Native else results[0]

    return compute


def _softmax_gradient(rows):

    def compute(values, outs):
        gradient, output, dim = values["grad_output"], values["output"], values["dim"]
        places = max(output.dim(), 1)
        if gradient.dtype not in FLOATS or gradient.dtype != output.dtype or gradient.shape != output.shape or not -places <= dim < places:
            return Native("dtype")
        if values["input_dtype"] != gradient.dtype and (gradient.device.type == "cpu" or (values["input_dtype"], gradient.dtype) != (torch.float16, torch.float32)):
            return Native("input_dtype")
        results = made(outs, [(gradient.shape, values["input_dtype"])], (gradient, output), gradient.device)
        if type(results) is not Native and gradient.numel():
            rows.launch([_matrix(gradient), _matrix(output)], [dim % places], [_matrix(results[0])], [], COMPUTE[gradient.dtype])
        return results if type(results) is Native else results[0]

    return compute


EXPONENTIALS = {"tile": reductions.exponentials, "combine": reductions.joined_exponentials, "identity": reductions.no_exponentials, "states": 2, "row_values": 2}
MOMENTS = {"tile": reductions.moments, "combine": reductions.joined_moments, "identity": reductions.no_moments, "states": 3}
declare(OnRows(name="_softmax", tensors=("self", ), compute=_softmax(Rows(**EXPONENTIALS, finish=functions.shifted, apply=functions.softmax,
                                                                            keep=functions.kept_exponentials, of_kept=functions.softmax_of_kept))))
declare(OnRows(name="_log_softmax", tensors=("self", ), compute=_softmax(Rows(**EXPONENTIALS, finish=functions.shifted_log, apply=functions.log_softmax))))
declare(OnRows(name="_softmax_backward_data", tensors=("grad_output", "output"), compute=_softmax_gradient(
    Rows(map=reductions.product, apply=functions.softmax_gradient, reduced_inputs=2))))
declare(OnRows(name="_log_softmax_backward_data", tensors=("grad_output", "output"), compute=_softmax_gradient(Rows(apply=functions.log_softmax_gradient))))

NORMALISED = Rows(**MOMENTS, row_values=2, finish=functions.mean_and_rstd, apply=functions.normalised)
GRADIENT = Rows(map=functions.gradient_sums, combine=functions.sums_of_two, identity=functions.two_zeros, states=2, row_values=2, reduced_inputs=5,
                apply=functions.normalised_gradient)
PARAMETERS = Reduction(map=functions.parameter_gradients, combine=functions.sums_of_two, identity=functions.two_zeros, states=("compute", ) * 2, inputs=4)


def _statistics_dtype(x):
    """Of the mean and rstd that layer normalisation saves: ATen keeps them in fp32 on GPUs."""
    return torch.float32 if x.device.type != "cpu" and x.dtype in (torch.float16, torch.bfloat16) else x.dtype


def _one_dtype(x, *others):
    return x.dtype in FLOATS and all(other is None or other.dtype == x.dtype for other in others)


def _layer_norm(values, outs):
    x, weight, bias, shape = values["input"], values["weight"], values["bias"], tuple(values["normalized_shape"])
    axis = x.dim() - len(shape)
    if not _one_dtype(x, weight, bias):
        return Native("dtype")
    if axis < 0 or not shape or tuple(x.shape[axis:]) != shape or not x.numel() or any(w is not None and tuple(w.shape) != shape for w in (weight, bias)):
        return Native("shapes")
    statistics = [*x.shape[:axis], *(1, ) * len(shape)]
    dtype = _statistics_dtype(x)
    results = made(outs, [(x.shape, x.dtype), (statistics, dtype), (statistics, dtype)], (x, weight, bias), x.device)
    if type(results) is Native:
        return results
    tensors = [x, *(None if w is None else w.expand(x.shape) for w in (weight, bias))]
    means = [result[(..., *(0, ) * len(shape))] for result in results[1:]]
    NORMALISED.launch(tensors, list(range(axis, x.dim())), [results[0]], means, COMPUTE[x.dtype], (float(product(shape)), values["eps"]))
    return tuple(results)


def _like_rows(x, statistic):
    """A saved statistic, one number for each row, expanded to the shape of x."""
    return statistic.expand(x.shape)


def _layer_norm_gradient(values, outs):
    gradient, x, weight, bias, shape = values["grad_out"], values["input"], values["weight"], values["bias"], tuple(values["normalized_shape"])
    mask = values["output_mask"]
    axis = x.dim() - len(shape)
    if outs is not None:
        return Native("out")
    if not _one_dtype(x, gradient, weight, bias):
        return Native("dtype")
    if axis < 0 or not x.numel() or gradient.shape != x.shape or mask[1] and weight is None or mask[2] and bias is None:
        return Native("shapes")
    mean, rstd = _like_rows(x, values["mean"]), _like_rows(x, values["rstd"])
    rows, columns = list(range(axis)), list(range(axis, x.dim()))
    found = [None, None, None]
    compute = COMPUTE[x.dtype]
    if mask[0]:
        found[0] = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        GRADIENT.launch([gradient, x, mean, rstd, None if weight is None else weight.expand(x.shape)], columns, [found[0]], [None, None], compute,
                        (float(product(shape)), ))
    if mask[1] or mask[2]:
        results = [torch.empty(shape, dtype=x.dtype, device=x.device) for _ in range(2)]
        PARAMETERS.launch([gradient, x, mean, rstd], rows, results, compute)
        found[1], found[2] = results[0] if mask[1] else None, results[1] if mask[2] else None
    return tuple(found)


declare(OnRows(name="native_layer_norm", tensors=("input", "weight", "bias"), results=3, compute=_layer_norm))
declare(OnRows(name="native_layer_norm_backward", tensors=("grad_out", "input", "mean", "rstd", "weight", "bias"), results=3, compute=_layer_norm_gradient))


def _group_norm(values, outs):
    x, weight, bias = values["input"], values["weight"], values["bias"]
    n, channels, size, groups = values["N"], values["C"], values["HxW"], values["group"]
    if not _one_dtype(x, weight, bias):
        return Native("dtype")
    if not x.numel() or not x.is_contiguous() or x.numel() != n * channels * size or channels % groups:
        return Native("shapes")
    results = made(outs, [(x.shape, x.dtype), ((n, groups), x.dtype), ((n, groups), x.dtype)], (x, weight, bias), x.device)
    if type(results) is Native:
        return results
    if not results[0].is_contiguous():
        return Native("strides of the output")
    split = (n, groups, channels // groups, size)
    parameters = [_by_group(w, split) for w in (weight, bias)]
    NORMALISED.launch([x.view(split), *parameters], [2, 3], [results[0].view(split)], results[1:], COMPUTE[x.dtype],
                      (float(channels // groups * size), values["eps"]))
    return tuple(results)


def _by_group(w, split):
    """A parameter of each channel, expanded to (N, groups, channels of a group, positions)."""
    return None if w is None else w.reshape(1, split[1], split[2], 1).expand(split)


def _group_norm_gradient(values, outs):
    gradient, x, weight, mask = values["grad_out"], values["input"], values["weight"], values["output_mask"]
    n, channels, size, groups = values["N"], values["C"], values["HxW"], values["group"]
    if outs is not None:
        return Native("out")
    if not _one_dtype(x, gradient, weight, values["mean"], values["rstd"]):
        return Native("dtype")
    if not x.numel() or not x.is_contiguous() or not gradient.is_contiguous() or x.numel() != n * channels * size or channels % groups:
        return Native("shapes")
    split = (n, groups, channels // groups, size)
    mean, rstd = (values[name].reshape(n, groups, 1, 1).expand(split) for name in ("mean", "rstd"))
    g, y = gradient.view(split), x.view(split)
    found = [None, None, None]
    if mask[0]:
        found[0] = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        GRADIENT.launch([g, y, mean, rstd, _by_group(weight, split)], [2, 3], [found[0].view(split)], [None, None], COMPUTE[x.dtype],
                        (float(channels // groups * size), ))
    if mask[1] or mask[2]:
        results = [torch.empty(channels, dtype=x.dtype, device=x.device) for _ in range(2)]
        PARAMETERS.launch([g, y, mean, rstd], [0, 3], [result.view(split[1:3]) for result in results], COMPUTE[x.dtype])
        found[1], found[2] = results[0] if mask[1] else None, results[1] if mask[2] else None
    return tuple(found)


declare(OnRows(name="native_group_norm", tensors=("input", "weight", "bias"), results=3, compute=_group_norm))
declare(OnRows(name="native_group_norm_backward", tensors=("grad_out", "input", "mean", "rstd", "weight"), results=3, compute=_group_norm_gradient))

CHANNELS = Rows(**MOMENTS, row_values=4, finish=functions.mean_rstd_and_variances, apply=functions.normalised)
INFERENCE = Rule(function=functions.batch_inference, numbers="compute")
BATCH_GRADIENT = Rows(map=functions.channel_gradient_sums, combine=functions.sums_of_two, identity=functions.two_zeros, states=2, row_values=2,
                      reduced_inputs=4, apply=functions.batch_gradient)
FIXED_GRADIENT = dataclasses.replace(BATCH_GRADIENT, apply=functions.fixed_batch_gradient)
CHANNEL_SUMS = Reduction(map=functions.channel_gradient_sums, combine=functions.sums_of_two, identity=functions.two_zeros, states=("compute", ) * 2, inputs=4)


def _of_channel(w, x):
    """A number of each channel, expanded to the shape of x, (N, C, ...)."""
    return None if w is None else w.view(-1, *(1, ) * (x.dim() - 2)).expand(x.shape)


def _batch_dtypes(x, *others):
    """Whether all have the dtype of x; on GPUs parameters of 16-bit tensors may have fp32."""
    if x.device.type == "cpu" or x.dtype not in (torch.float16, torch.bfloat16):
        return _one_dtype(x, *others)
    return x.dtype in FLOATS and len({other.dtype for other in others if other is not None} - {x.dtype, torch.float32}) == 0


def _batch_norm(values, outs):
    x, weight, bias = values["input"], values["weight"], values["bias"]
    mean, variance = values.get("running_mean"), values.get("running_var")
    training, momentum, eps = values["training"], values["momentum"], values["eps"]
    if not _batch_dtypes(x, weight, bias, mean, variance):
        return Native("dtype")
    if x.dim() < 2 or not x.numel() or any(w is not None and (w.dim() != 1 or len(w) != x.shape[1]) for w in (weight, bias, mean, variance)):
        return Native("shapes")
    if training and x.numel() == x.shape[1] or not training and (mean is None or variance is None) or (mean is None) != (variance is None):
        return Native("statistics")
    if outs is not None:
        return Native("out")
    if not training and x.device.type != "cpu":
        return Native("saved statistics of inference")
    output = torch.empty_like(x, memory_format=torch._prims_common.suggest_memory_format(x) if x.device.type == "cpu" else torch.preserve_format)
    statistics = torch.float32 if x.device.type != "cpu" and x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    saved = [torch.empty(x.shape[1] if training else 0, dtype=statistics, device=x.device) for _ in range(2)]
    if not training:
        found = run(INFERENCE, [x, *(_of_channel(w, x) for w in (mean, variance, weight, bias))], [eps], [output])
        return found if type(found) is Native else (output, *saved)
    compute = COMPUTE[x.dtype]
    unbiased = None if variance is None else torch.empty(x.shape[1], dtype=torch.float64 if x.dtype == torch.float64 else torch.float32, device=x.device)
    CHANNELS.launch([x, _of_channel(weight, x), _of_channel(bias, x)], [d for d in range(x.dim()) if d != 1], [output],
                    [saved[0], saved[1], None, unbiased], compute, (float(x.numel() // x.shape[1]), eps))
    if mean is not None:
        launch(kernels.update_running, cdiv(x.shape[1], 256), x.device,
               {"means": mean, "variances": variance, "mean": saved[0], "variance": unbiased, "momentum": float(momentum), "size": x.shape[1],
                "mean_stride": mean.stride(0), "variance_stride": variance.stride(0)}, {"BLOCK": 256})
    return (output, *saved)


def _batch_norm_gradient(values, outs):
    gradient, x, weight, mask = values["grad_out"], values["input"], values["weight"], values["output_mask"]
    if outs is not None:
        return Native("out")
    names = ("save_mean", "save_invstd") if values["train"] else ("running_mean", "running_var")
    mean, rstd = (values[name] for name in names)
    if mean is None or rstd is None or not _batch_dtypes(x, gradient, weight, mean, rstd):
        return Native("dtype")
    if not x.numel() or x.dim() < 2 or gradient.shape != x.shape or len(mean) != x.shape[1]:
        return Native("shapes")
    if not values["train"]:
        rstd = torch.rsqrt(rstd.to(torch.promote_types(rstd.dtype, torch.float32)) + values["eps"])
    tensors = [gradient, x, _of_channel(mean, x), _of_channel(rstd, x)]
    dims = [d for d in range(x.dim()) if d != 1]
    dtype = x.dtype if weight is None else weight.dtype
    found = [torch.empty_like(x, memory_format=torch._prims_common.suggest_memory_format(x)) if mask[0] else None,
             *(torch.empty(x.shape[1], dtype=dtype, device=x.device) if wanted else None for wanted in mask[1:])]
    if mask[0]:
        rows = BATCH_GRADIENT if values["train"] else FIXED_GRADIENT
        rows.launch([*tensors, _of_channel(weight, x)], dims, [found[0]], found[1:], COMPUTE[x.dtype], (float(x.numel() // x.shape[1]), ))
    elif mask[1] or mask[2]:
        results = [torch.empty(x.shape[1], dtype=dtype, device=x.device) if result is None else result for result in found[1:]]
        CHANNEL_SUMS.launch(tensors, dims, results, COMPUTE[x.dtype])
    return tuple(found)


declare(OnRows(name="native_batch_norm", tensors=("input", "weight", "bias", "running_mean", "running_var"), results=3, compute=_batch_norm))
# Without running statistics; the overload with them writes arguments of the caller.
declare(OnRows(name="_native_batch_norm_legit", tensors=("input", "weight", "bias"), results=3, compute=_batch_norm, kinds=("functional", )))
declare(OnRows(name="native_batch_norm_backward", results=3, compute=_batch_norm_gradient,
               tensors=("grad_out", "input", "weight", "running_mean", "running_var", "save_mean", "save_invstd")))


# RMS normalisation: composed of other operators on CPUs, a kernel of its own on GPUs

RMS = Rows(map=reductions.squared, finish=functions.rstd_of_squares, apply=functions.scaled)
RMS_GRADIENT = Rows(map=functions.rms_gradient_sum, apply=functions.rms_gradient, reduced_inputs=4)
RMS_WEIGHT = Reduction(map=functions.rms_weight_gradient, inputs=3)


def _rms_norm(values, outs):
    x, weight, shape, eps = values["input"], values["weight"], tuple(values["normalized_shape"]), values["eps"]
    axis = x.dim() - len(shape)
    if not _one_dtype(x, weight):
        return Native("dtype")
    if axis < 0 or not shape or tuple(x.shape[axis:]) != shape or not x.numel() or weight is not None and tuple(weight.shape) != shape:
        return Native("shapes")
    if outs is not None:
        return Native("out")
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    accumulated = torch.float64 if x.dtype == torch.float64 else torch.float32
    rstd = torch.empty([*x.shape[:axis], *(1, ) * len(shape)], dtype=accumulated, device=x.device)
    eps = torch.finfo(accumulated).eps if eps is None else eps
    RMS.launch([x, None if weight is None else weight.expand(x.shape)], list(range(axis, x.dim())), [output], [rstd[(..., *(0, ) * len(shape))]],
               COMPUTE[x.dtype], (float(product(shape)), float(eps)))
    return output, rstd


def _rms_norm_gradient(values, outs):
    gradient, x, weight, shape, mask = values["grad_out"], values["input"], values["weight"], tuple(values["normalized_shape"]), values["output_mask"]
    axis = x.dim() - len(shape)
    if outs is not None:
        return Native("out")
    if not _one_dtype(x, gradient, weight):
        return Native("dtype")
    if axis < 0 or not x.numel() or gradient.shape != x.shape or mask[1] and weight is None:
        return Native("shapes")
    rstd = _like_rows(x, values["rstd"])
    found = [None, None]
    if mask[0]:
        found[0] = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        RMS_GRADIENT.launch([gradient, x, rstd, None if weight is None else weight.expand(x.shape)], list(range(axis, x.dim())), [found[0]], [],
                            COMPUTE[x.dtype], (float(product(shape)), ))
    if mask[1]:
        found[1] = torch.empty(shape, dtype=x.dtype, device=x.device)
        RMS_WEIGHT.launch([gradient, x, rstd], list(range(axis)), [found[1]], COMPUTE[x.dtype])
    return tuple(found)


RMS_NORM = OnRows(name="_fused_rms_norm", tensors=("input", "weight"), results=2, compute=_rms_norm)
RMS_NORM_BACKWARD = OnRows(name="_fused_rms_norm_backward", tensors=("grad_out", "input", "rstd", "weight"), results=2, compute=_rms_norm_gradient)
for operator in (RMS_NORM, RMS_NORM_BACKWARD):
    if any(_schema.is_leaf(form.name, "CUDA") and torch._C._dispatch_has_kernel_for_dispatch_key(form.qualified, "CUDA") for form in _schema.forms(operator.name)):
        declare(operator)


# Weight normalisation: a weight as direction and length

_LENGTH = Reduction(map=reductions.squared, finish=reductions.square_root)
_PRODUCT = Reduction(map=reductions.product, inputs=2)
_SCALED, _WEIGHT_GRADIENT, _LENGTH_GRADIENT = (Rule(function=function) for function in (functions.weight_scaled, functions.weight_gradient, functions.length_gradient))


def _lengths_dtype(g):
    wide = (torch.bfloat16, ) if g.device.type == "cpu" else (torch.float16, torch.bfloat16)
    return torch.float32 if g.dtype in wide else g.dtype


def _weight_norm_dims(v, g, dim):
    """The dimensions of a length, or None where ATen has to complain."""
    if v.dtype not in FLOATS or g.dtype != v.dtype or not v.numel() or dim not in (0, v.dim() - 1) or tuple(g.shape) != tuple([size if d == dim else 1 for d, size in enumerate(v.shape)]):
        return None
    return [d for d in range(v.dim()) if d != dim]


def _weight_norm(values, outs):
    v, g = values["v"], values["g"]
    dims = _weight_norm_dims(v, g, values["dim"])
    if dims is None or outs is not None:
        return Native("shapes")
    lengths = torch.empty_strided(g.shape, g.stride(), dtype=_lengths_dtype(g), device=g.device)
    _LENGTH.launch([v], dims, [lengths], COMPUTE[v.dtype])
    weight = torch.empty_like(v)
    run(_SCALED, [v, g, lengths], (), [weight])
    return weight, lengths


def _weight_norm_gradient(values, outs):
    gradient, v, g, lengths = values["grad_w"], values["saved_v"], values["saved_g"], values["saved_norms"]
    dims = _weight_norm_dims(v, g, values["dim"])
    if dims is None or outs is not None or gradient.dtype != v.dtype or gradient.shape != v.shape or lengths.shape != g.shape:
        return Native("shapes")
    products = torch.empty(g.shape, dtype=torch.float64 if v.dtype == torch.float64 else torch.float32, device=v.device)
    _PRODUCT.launch([gradient, v], dims, [products], COMPUTE[v.dtype])
    found = [torch.empty_like(v), torch.empty_like(g)]
    run(_WEIGHT_GRADIENT, [gradient, v, g, lengths, products], (), found[:1])
    run(_LENGTH_GRADIENT, [products, lengths], (), found[1:])
    return tuple(found)


declare(OnRows(name="_weight_norm_interface", tensors=("v", "g"), results=2, compute=_weight_norm))
declare(OnRows(name="_weight_norm_interface_backward", tensors=("grad_w", "saved_v", "saved_g", "saved_norms"), results=2, compute=_weight_norm_gradient))
