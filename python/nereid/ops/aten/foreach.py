"""Operators of ATen on lists of tensors (`_foreach_*`): what optimizers, gradient clipping and gradient scaling call."""

import dataclasses

import torch

from .. import _lists
from .._declare import OPERATORS, Native, Operator, declare
from .._launch import DTYPES, launch
from .._strided import COMPUTE, FLOATS, STORAGE
from ..functions import arithmetic, unary
from ..kernels import foreach as kernels, optimizers
from ..pointwise import OTHERS, Rule

FIRSTS = {"firsts": "i32"}


def unlike(lists, dtypes=FLOATS, mixed=False):
    """`Native` where lists of tensors are not what kernels take: of one length, dense, of one device and, place by place, of one shape, order of dimensions and, unless
    `mixed`, dtype; else None."""
    if not lists[0] or len({len(tensors) for tensors in lists}) > 1:
        return Native("lists")
    device = lists[0][0].device
    for row in zip(*lists):
        for tensor in row:
            if tensor.dtype not in dtypes or tensor.layout is not torch.strided or tensor.is_neg() or tensor.is_conj() or tensor._is_zerotensor():
                return Native("dtype")
            if tensor.device != device:
                return Native("devices")
            if tensor.shape != row[0].shape:
                return Native("shapes")
            if tensor.dtype != row[0].dtype and not mixed:
                return Native("dtypes differ")
            if not _lists.same_order(tensor, row[0]) or not _lists.is_dense(tensor):
                return Native("strides")
    return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Foreach(Operator):
    """Applies a function to every tensor of a list.

    rule: of the function; inputs that are numbers are rounded as by `numbers` "compute". inputs: for each input of the function the names that overloads have for it: a list of tensors or of
    numbers, a number, or a tensor with one element. absent: {position: what an input is where an overload lacks it}. mixed: dtypes may differ from those of the results.
    """
    rule: Rule
    inputs: tuple
    absent: dict = dataclasses.field(default_factory=dict)
    ignored: tuple = ()
    mixed: bool = False

    family = "foreach"
    lists = True

    def accepts(self, form):
        known = {name for names in self.inputs for name in names} | {"self", *self.ignored}
        return form.kind != "out" and {argument.name for argument in form.arguments} <= known

    def call(self, form, values, outs):
        inputs = [next((values[name] for name in names if name in values), self.absent.get(i)) for i, names in enumerate(self.inputs)]
        tensors = [x for x in inputs if isinstance(x, (list, tuple)) and x and isinstance(x[0], torch.Tensor)]
        results = values["self"] if form.kind == "inplace" else None
        lists = [*([results] if results is not None else []), *(x for x in tensors if x is not results)]
        why = unlike(lists, self.rule.dtypes, self.mixed) if lists else Native("lists")
        if why is not None:
            return why
        device = lists[0][0].device
        for x in inputs:
            if isinstance(x, torch.Tensor):
                if x.numel() != 1 or x.dim() or x.device != device or x.dtype not in FLOATS:
                    return Native("tensor of numbers")
            elif isinstance(x, (list, tuple)):
                if len(x) != len(lists[0]) or any(isinstance(item, (bool, complex)) for item in x):
                    return Native("numbers")
            elif isinstance(x, (bool, complex)):
                return Native("numbers")  # ATen refuses bools here and there
        if results is not None and _lists.overlap([results], [x for x in tensors if x is not results]):
            return Native("overlap")
        if values.get("memory_format") not in (None, torch.preserve_format):
            return Native("memory format")
        if results is None:
            results = [torch.empty_like(tensor) for tensor in lists[0]]
        self._launch(results, inputs, device)
        return None if form.kind == "inplace" else results

    def _launch(self, results, inputs, device):
        block = 4096 if device.type == "cpu" else 2048
        each = [isinstance(x, (list, tuple)) for x in inputs]
        of_tensors = [x for x, its in zip(inputs, each) if its and isinstance(x[0], torch.Tensor)]
        for places in _lists.groups([results, *of_tensors], _lists.SOME if len(of_tensors) > 1 else _lists.MANY):
            steps = _lists.SOME if len(of_tensors) > 1 else _lists.MANY
            batch = [[tensors[place] for place in places] for tensors in (results, *of_tensors)]
            kinds, aligned, firsts, sizes, programs = _lists.laid_out(batch, steps, block)
            rest = iter(kinds[1:])
            ins = tuple([(next(rest) if isinstance(x[0], torch.Tensor) else _lists.filled([float(x[place]) for place in places], steps)) if its else
                         x if isinstance(x, torch.Tensor) else float(x) for x, its in zip(inputs, each)])
            constants = self.rule.constants((of_tensors or [results])[0][places[0]].dtype)
            del constants["RAW"]
            launch(kernels.mapped, programs, device, {"outs": kinds[0], "ins": ins, "scalars": (), "firsts": firsts, "sizes": sizes}, {
                **constants, "EACH": sum(1 << i for i, its in enumerate(each) if its), "ONE": sum(1 << i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor)),
                "ALIGNED": aligned, "BLOCK": block
            }, FIRSTS, num_warps=4)


def _floats(rule):
    return dataclasses.replace(rule, dtypes=FLOATS)


def _of(name):
    """The function of an operator of single tensors."""
    rules = OPERATORS[name].rules
    return _floats(next(rules[key] for key in ((), (None, ), OTHERS) if key in rules))


SELF, OTHER = ("self", ), ("other", "scalar", "scalars")
for _name in ("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal",
              "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"):
    declare(Foreach(name=f"_foreach_{_name}", rule=_of(_name), inputs=(SELF, )))
declare(Foreach(name="_foreach_round", rule=Rule(function=unary.to_nearest, dtypes=FLOATS), inputs=(SELF, )))
for _name in ("add", "sub"):
    declare(Foreach(name=f"_foreach_{_name}", rule=_of(_name), inputs=(SELF, OTHER, ("alpha", )), absent={2: 1}))
for _name in ("mul", "div"):
    declare(Foreach(name=f"_foreach_{_name}", rule=_of(_name), inputs=(SELF, OTHER)))
for _name in ("maximum", "minimum"):
    declare(Foreach(name=f"_foreach_{_name}", rule=_of(_name), inputs=(SELF, OTHER)))
declare(Foreach(name="_foreach_clamp_min", rule=_of("maximum"), inputs=(SELF, OTHER)))
declare(Foreach(name="_foreach_clamp_max", rule=_of("minimum"), inputs=(SELF, OTHER)))
declare(Foreach(name="_foreach_pow", rule=_of("pow"), inputs=(SELF, ("exponent", ))))
declare(Foreach(name="_foreach_lerp", rule=_of("lerp"), inputs=(SELF, ("tensors1", ), ("weights", "weight"))))
for _name in ("addcmul", "addcdiv"):
    declare(Foreach(name=f"_foreach_{_name}", rule=_of(_name), inputs=(SELF, ("tensor1", ), ("tensor2", ), ("value", "scalars"))))
declare(Foreach(name="_foreach_zero", rule=Rule(function=arithmetic.zero, promotion="no_opmath"), inputs=()))
_COPY = Rule(function=unary.identity, promotion="no_opmath", casts=True)
declare(Foreach(name="_foreach_copy", rule=_COPY, inputs=(("src", ), ), ignored=("non_blocking", ), mixed=True))
declare(Foreach(name="_foreach_clone", rule=_COPY, inputs=(SELF, ), ignored=("memory_format", )))


# Norms


@dataclasses.dataclass(frozen=True, kw_only=True)
class Norms(Operator):
    """The norm of each tensor of a list, or, without `root`, the sum of the powers of its elements; with `greatest` the greatest element."""
    root: bool = True
    greatest: bool = False

    family = "foreach"
    lists = True

    def accepts(self, form):
        return form.kind == "functional"

    def call(self, form, values, outs):
        tensors = values["self"]
        why = unlike([tensors])
        if why is not None:
            return why
        if self.greatest:
            order = -1
        else:
            order = values["ord"]
            order = {1.0: 1, 2.0: 2, float("inf"): 0}.get(order if isinstance(order, complex) else float(order))
        if order is None or order <= 0 and (not self.root or any(not tensor.numel() for tensor in tensors)):
            return Native("order")
        dtype = values.get("dtype")
        if dtype is not None and (dtype not in FLOATS or any(torch.promote_types(tensor.dtype, dtype) != dtype for tensor in tensors)):
            return Native("dtype")
        device, results = tensors[0].device, [None] * len(tensors)
        block, blocks = (1024, 16) if device.type == "cpu" else (4096, 8)
        for place, tensor in enumerate(tensors):
            if not tensor.numel():
                results[place] = torch.zeros((), dtype=dtype or tensor.dtype, device=device)
        for places in _lists.groups([tensors], _lists.MANY):
            batch = [[tensors[place] for place in places]]
            its = dtype or batch[0][0].dtype
            compute = COMPUTE[its]
            kinds, aligned, firsts, sizes, programs = _lists.laid_out(batch, _lists.MANY, block * blocks)
            parts = torch.empty((programs, ), dtype=STORAGE[compute], device=device)
            launch(optimizers.power_sums, programs, device, {"out": parts, "tensors": kinds[0], "firsts": firsts, "sizes": sizes, "offset": 0},
                   {"ORD": order, "COMPUTE": compute, "ALIGNED": aligned, "BLOCK": block, "BLOCKS": blocks}, FIRSTS, num_warps=4)
            found = torch.empty((len(places), ), dtype=its, device=device)
            launch(kernels.norms_of_parts, len(places), device, {"out": found, "parts": parts, "begins": (*firsts, programs), "offset": 0},
                   {"ORD": order, "ROOT": self.root, "BLOCK": 128}, {"begins": "i32"}, num_warps=1)
            for i, place in enumerate(places):
                results[place] = found[i]
        return results


declare(Norms(name="_foreach_norm"))
declare(Norms(name="_foreach_powsum", root=False))
declare(Norms(name="_foreach_max", greatest=True))


# Gradient scaling


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unscale(Operator):
    """`_amp_foreach_non_finite_check_and_unscale_`: what `torch.amp.GradScaler` does to gradients."""
    family = "foreach"
    lists = True

    def accepts(self, form):
        return form.kind == "inplace"

    def call(self, form, values, outs):
        tensors, found_inf, inverse = values["self"], values["found_inf"], values["inv_scale"]
        why = unlike([tensors])
        if why is not None:
            return why
        device = tensors[0].device
        if any(x.numel() != 1 or x.dtype != torch.float32 or x.device != device for x in (found_inf, inverse)) or _lists.overlap([tensors], []):
            return Native("numbers")
        block = 4096 if device.type == "cpu" else 2048
        for batch in _lists.batches([tensors], _lists.MANY):
            kinds, aligned, firsts, sizes, programs = _lists.laid_out(batch, _lists.MANY, block)
            compute = COMPUTE[batch[0][0].dtype]
            launch(kernels.unscale, programs, device, {"tensors": kinds[0], "firsts": firsts, "sizes": sizes, "inverse": inverse, "found_inf": found_inf},
                   {"COMPUTE": DTYPES[STORAGE[compute]], "ALIGNED": aligned, "BLOCK": block}, FIRSTS, num_warps=4)
        return None


declare(Unscale(name="_amp_foreach_non_finite_check_and_unscale"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class UpdateScale(Operator):
    """`_amp_update_scale_`: what `torch.amp.GradScaler.update` does to the scale."""
    family = "foreach"

    def accepts(self, form):
        return form.kind == "inplace"

    def call(self, form, values, outs):
        scale, tracker, found_inf = values["self"], values["growth_tracker"], values["found_inf"]
        if any(x.numel() != 1 or x.dtype != dtype or x.device != scale.device for x, dtype in ((scale, torch.float32), (tracker, torch.int32), (found_inf, torch.float32))):
            return Native("numbers")
        launch(kernels.update_scale, 1, scale.device, {"scale": scale, "tracker": tracker, "found_inf": found_inf, "growth": float(values["scale_growth_factor"]),
                                                       "backoff": float(values["scale_backoff_factor"]), "interval": values["growth_interval"]}, {}, num_warps=1)
        return scale


declare(UpdateScale(name="_amp_update_scale"))
