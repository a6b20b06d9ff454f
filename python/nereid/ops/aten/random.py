"""Random numbers of ATen, on GPUs. On CPUs ATen draws from a Mersenne twister one number after the other, which kernels do not follow: there they are ATen's."""

import torch

from .. import _random
from .._declare import Native, declare
from .._indexed import bounds
from .._moves import cloned, foreign, move
from .._random import draw
from .._sorted import sort
from .._strided import FLOATS, INTEGERS, NARROW
from ..functions import arithmetic
from ..kernels import random as kernels
from ..pointwise import Rule, run
from ._computed import Computed, options

KIND = "random"
NUMBERS = (torch.bool, *INTEGERS, *FLOATS)


def _write(x, generator, kind, make, scalars, wide=None):
    """Writes random numbers into `x`; `Native` before anything is drawn."""
    if foreign(x) is not None or not _random.ready(generator, x.device):
        return Native("generator")
    if not x.numel():
        return x
    wide = x.dtype == torch.float64 if wide is None else wide
    dense = torch._prims_common.is_non_overlapping_and_dense_or_false(x)
    flat = x.as_strided((x.numel(), ), (1, ), x.storage_offset()) if dense else torch.empty(x.numel(), dtype=x.dtype, device=x.device)
    its_order = _random.order_on(x.device, x.numel(), 2 if wide else 4)
    seed, offset = _random.advanced(generator, x.device, its_order.increment)
    draw(flat, seed, offset, kind, make, scalars, wide, its_order)
    if not dense:
        move(x, flat.view(x.shape))
    return x


def _uniform_of(dtype):
    return {torch.float16: kernels.half_between, torch.bfloat16: kernels.bfloat_between}.get(dtype, kernels.between)


def _target(values, outs):
    return outs[0] if outs is not None else torch.empty_like(values["self"])


def _uniform(values, outs):
    x, low, high = values["self"], values["from"], values["to"]
    if x.dtype not in FLOATS or not low <= high or high - low > torch.finfo(x.dtype).max:
        return Native("range")
    return _write(_target(values, outs), values["generator"], "uniform", _uniform_of(x.dtype), (float(low), float(high)))


def _normal(values, outs):
    if "self" not in values:
        return _normal_of_tensors(values, outs)
    x, mean, std = values["self"], values["mean"], values["std"]
    if x.dtype not in FLOATS or std < 0:
        return Native("range")
    return _write(_target(values, outs), values["generator"], "normal", kernels.shifted, (float(mean), float(std)))


def _normal_of_tensors(values, outs):
    """ATen draws standard normal numbers, then scales and shifts them."""
    mean, std = values["mean"], values["std"]
    tensors = [value for value in (mean, std) if isinstance(value, torch.Tensor)]
    if foreign(*tensors) is not None or any(tensor.dtype != tensors[0].dtype or tensor.dtype not in FLOATS for tensor in tensors) or outs is not None:
        return Native("dtype")
    if isinstance(std, torch.Tensor):
        if std.numel() and bounds(std)[0] < 0:
            return Native("range")
    elif std < 0:
        return Native("range")
    try:
        shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))
    except RuntimeError:
        return Native("shapes")
    result = _write(torch.empty(shape, dtype=tensors[0].dtype, device=tensors[0].device), values["generator"], "normal", kernels.shifted, (0.0, 1.0))
    if type(result) is Native:
        return result
    for function, value in ((arithmetic.mul, std), (arithmetic.plus, mean)):
        found = run(Rule(function=function, numbers="compute"), [result, value], (), [result])
        if type(found) is Native:
            return found
    return result


def _exponential(values, outs):
    x, rate = values["self"], values["lambd"]
    if x.dtype not in FLOATS or not rate > 0 or rate == float("inf"):
        return Native("range")
    return _write(_target(values, outs), values["generator"], "uniform", kernels.waiting, (float(rate), ))


def _geometric(values, outs):
    x, p = values["self"], values["p"]
    if x.dtype not in FLOATS or not 0 < p < 1:
        return Native("range")
    return _write(_target(values, outs), values["generator"], "uniform", kernels.trials, (float(p), ))


def _log_normal(values, outs):
    x, mean, std = values["self"], values["mean"], values["std"]
    if x.dtype not in FLOATS or std <= 0:
        return Native("range")
    return _write(_target(values, outs), values["generator"], "normal", kernels.exponential_of_normal, (float(mean), float(std)))


def _bernoulli(values, outs):
    x, p = values["self"], values["p"]
    if isinstance(p, torch.Tensor) or x.dtype not in NUMBERS or not 0 <= p <= 1:
        return Native("probability")
    return _write(_target(values, outs), values["generator"], "uniform", kernels.chance, (float(p), ))


def _integers(values, outs):
    x, low, high = values["self"], values.get("from"), values.get("to")
    if x.dtype not in INTEGERS or low is None or high is None or not low < high or low < torch.iinfo(x.dtype).min or high - 1 > torch.iinfo(x.dtype).max:
        return Native("range")
    size = high - low
    if size >= 2**63:
        return Native("range")
    return _write(_target(values, outs), values["generator"], "bits", kernels.whole, (low, size), size >= 2**28)


class _OnGpu(Computed):
    """An operator that is registered for GPUs only."""
    keys = ("CUDA", )


class _WithNumbers(_OnGpu):
    """Overloads whose parameters are numbers."""

    def accepts(self, form):
        return super().accepts(form) and all(not argument.is_tensor for argument in form.arguments if argument.name != "self") and form.arguments[0].name == "self"


class _Normal(_OnGpu):
    """In place with numbers, or a new tensor of means and deviations."""

    def accepts(self, form):
        return form.kind == "inplace" or form.kind == "functional" and {argument.name for argument in form.arguments} == {"mean", "std", "generator"}


declare(_Normal(name="normal", compute=_normal, kind=KIND))
for _name, _compute in {"uniform": _uniform, "exponential": _exponential, "geometric": _geometric, "log_normal": _log_normal,
                        "bernoulli": _bernoulli}.items():
    declare(_WithNumbers(name=_name, compute=_compute, kinds=("functional", "inplace"), kind=KIND, without={
        "bernoulli": {"bernoulli": "probabilities of a tensor"}}.get(_name, {})))
declare(_WithNumbers(name="random", compute=_integers, arguments=("self", "from", "to", "generator"), kinds=("inplace", ), kind=KIND,
                     without={"random_": "the range of the dtype", "random_.to": "starts at 0"}))


# New tensors


def _new(kind, make_of, scalars):

    def compute(values, outs):
        if outs is not None:
            return Native("out")
        found = options(values)
        if type(found) is Native:
            return found
        dtype, device = found
        if dtype not in FLOATS or device is None or torch.device(device).type != "cuda":
            return Native("dtype")
        if not _random.ready(values.get("generator"), torch.device(device)) or any(size < 0 for size in values["size"]):
            return Native("generator")
        return _write(torch.empty(list(values["size"]), dtype=dtype, device=device), values.get("generator"), kind, make_of(dtype), scalars)

    return compute


def _like(kind, make_of, scalars):

    def compute(values, outs):
        x, device, form = values["self"], values["device"], values["memory_format"]
        dtype = values["dtype"] or x.dtype
        if foreign(x) is not None or dtype not in FLOATS or device is not None and torch.device(device) != x.device or values["layout"] not in (None, torch.strided):
            return Native("dtype")
        if not _random.ready(values.get("generator"), x.device):
            return Native("generator")
        result = torch.empty_like(x, dtype=dtype, memory_format=torch.preserve_format if form is None else form)
        return _write(result, values.get("generator"), kind, make_of(dtype), scalars)

    return compute


_OPTIONS = ("size", "generator", "dtype", "layout", "device", "pin_memory", "self", "memory_format")
for _name, _kind, _make, _scalars in (("rand", "uniform", _uniform_of, (0.0, 1.0)), ("randn", "normal", lambda dtype: kernels.shifted, (0.0, 1.0))):
    declare(_OnGpu(name=_name, compute=_new(_kind, _make, _scalars), arguments=_OPTIONS, kinds=("functional", ), kind=KIND))
    declare(_OnGpu(name=f"{_name}_like", compute=_like(_kind, _make, _scalars), arguments=_OPTIONS, kinds=("functional", ), kind=KIND))


def _permutation(values, outs):
    n = values["n"]
    found = options(values, torch.int64)
    if type(found) is Native or outs is not None or not 0 < n <= NARROW:
        return Native("options")
    dtype, device = found
    device = None if device is None else torch.device(device)
    if device is None or device.type != "cuda" or dtype not in (torch.int32, torch.int64) or not _random.ready(values.get("generator"), device):
        return Native("dtype")
    keys = torch.empty(n, dtype=torch.int64, device=device)
    _write(keys, values.get("generator"), "bits", kernels.whole, (0, 2**63 - 1), True)
    result = torch.empty(n, dtype=dtype, device=device)
    sort(keys, 0, None, result)
    return result


declare(_OnGpu(name="randperm", compute=_permutation, arguments=("n", "generator", "dtype", "layout", "device", "pin_memory"), kinds=("functional", ), kind=KIND))


# Dropout


def _dropout(values, outs):
    x, p, train = values["input"], values["p"], values["train"]
    if foreign(x) is not None or x.dtype not in FLOATS or not 0 <= p < 1 or train is not None and not train or not x.numel() or not _random.ready(None, x.device):
        return Native("evaluation")
    source = x if x.is_contiguous() else cloned(x, True)
    result, kept = torch.empty_like(source), torch.empty(source.shape, dtype=torch.bool, device=x.device)
    its_order = _random.order_on(x.device, x.numel(), 4)
    seed, offset = _random.advanced(None, x.device, its_order.increment)
    _random.drop(result, kept, source, seed, offset, p, its_order)
    return result, kept


declare(_OnGpu(name="native_dropout", compute=_dropout, kinds=("functional", ), results=2, kind=KIND))


# Drawn places


def _multinomial(values, outs):
    """Without replacement, as ATen: the largest quotients of weights and exponential numbers."""
    weights, count = values["self"], values["num_samples"]
    if foreign(weights) is not None or weights.dtype not in FLOATS or weights.dim() not in (1, 2) or not weights.numel() or outs is not None:
        return Native("dtype")
    if values["replacement"] and count != 1 or not 0 < count <= weights.shape[-1] or not _random.ready(values["generator"], weights.device):
        return Native("replacement")
    return _largest_quotients(weights, count, values["generator"])


def _largest_quotients(weights, count, generator):
    least, greatest = bounds(weights)
    sums = weights.sum(-1)
    if not (least >= 0 and greatest < float("inf")) or bounds(sums)[0] <= 0:
        return Native("weights")
    waiting = torch.empty_like(weights)
    _write(waiting, generator, "uniform", kernels.waiting, (1.0, ))
    run(Rule(function=arithmetic.div), [weights, waiting], (), [waiting])
    result = torch.empty((*weights.shape[:-1], count), dtype=torch.int64, device=weights.device)
    sort(waiting, waiting.dim() - 1, None, result, True, 0, count)
    return result


declare(_OnGpu(name="multinomial", compute=_multinomial, kinds=("functional", ), kind=KIND))
