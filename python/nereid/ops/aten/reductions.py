"""Reductions of ATen."""

import dataclasses

import torch

from .._declare import Native, Operator, declare
from .._strided import COMPUTE, FLOATS, product, unique_dims
from ..functions import reductions as functions
from ..reduction import Reduction
from ._outputs import made, returned, unusable


@dataclasses.dataclass(frozen=True)
class Call:
    """One reduction to run. tensors: of one shape. dims: sorted, not negative. dtypes: of the results. scalars, compute, read: as for `Reduction.launch`."""
    reduction: Reduction
    tensors: tuple
    dims: list
    keepdim: bool
    dtypes: tuple
    compute: object
    scalars: tuple = ()
    read: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reducing(Operator):
    """An operator of ATen that reduces.

    arguments: the names that an overload may have. plan: called with the values by name and the outputs, returns a `Call`, or `Native`.
    tensors: the arguments that are read.
    """
    arguments: tuple
    plan: object
    tensors: tuple = ("self", )
    results: int = 1

    family = "reduction"

    def accepts(self, form):
        names = {argument.name: argument for argument in form.arguments}
        return form.kind != "inplace" and form.returns == self.results and set(names) <= set(self.arguments) and \
            all(name in names and names[name].is_tensor for name in self.tensors) and \
            ("dim" not in names or names["dim"].type.startswith(("int", "SymInt")))

    def call(self, form, values, outs):
        found = unusable([values[name] for name in self.tensors], outs) or self.plan(values, outs)
        if type(found) is Native:
            return found
        shape = found.tensors[0].shape
        if found.keepdim:
            sizes = [1 if d in found.dims else size for d, size in enumerate(shape)]
        else:
            sizes = [size for d, size in enumerate(shape) if d not in found.dims]
        results = made(outs, [(sizes, dtype) for dtype in found.dtypes], found.tensors, found.tensors[0].device)
        if type(results) is Native:
            return results
        found.reduction.launch(found.tensors, found.dims, results, found.compute, found.scalars, found.read)
        return returned(results)


def _dims(values, x):
    """The reduced dimensions: all of them where the overload has no `dim`. None where ATen has to complain."""
    return unique_dims(values.get("dim"), x.dim())


def _count(x, dims):
    return product(x.shape[d] for d in dims)


def _dtype(values, outs, x, integers):
    """The dtype of the result where `dtype` and an output may say it. integers: what integers become without."""
    if values.get("dtype") is not None:
        return values["dtype"]
    if outs:
        return outs[0].dtype
    return x.dtype if x.dtype in FLOATS else integers or x.dtype


def _widening(x, dtype):
    return dtype in COMPUTE and torch.promote_types(x.dtype, dtype) == dtype


def _total(reduction, integers=torch.int64, mean=False):
    """The plan of operators that convert to `dtype` and add or multiply."""

    def plan(values, outs):
        x = values["self"]
        dims, dtype = _dims(values, x), _dtype(values, outs, x, integers)
        if dims is None:
            return Native("dimensions")
        if not _widening(x, dtype) or mean and (dtype not in FLOATS):
            return Native("dtype")
        scalars = (_count(x, dims), ) if mean else ()
        return Call(reduction, (x, ), dims, bool(values.get("keepdim")), (dtype, ), COMPUTE[dtype], scalars)

    return plan


SUM = Reduction()
declare(Reducing(name="sum", arguments=("self", "dim", "keepdim", "dtype"), plan=_total(SUM)))
declare(Reducing(name="nansum", arguments=("self", "dim", "keepdim", "dtype"), plan=_total(Reduction(map=functions.without_nan))))
declare(Reducing(name="mean", arguments=("self", "dim", "keepdim", "dtype"), plan=_total(Reduction(finish=functions.divided_by_count), None, mean=True)))
declare(Reducing(name="prod", arguments=("self", "dim", "keepdim", "dtype"), plan=_total(Reduction(combine=functions.multiply, identity=functions.one))))


def _extremum(reduction, results, single=False, bools=True):
    """The plan of operators that choose elements. results: dtypes, None for that of the tensor. single: `dim` is one dimension. bools: whether ATen takes bools."""

    def plan(values, outs):
        x = values["self"]
        dims = _dims(values, x)
        if dims is None or single and values.get("dim", 0) is None:
            return Native("dimensions")
        if any(x.shape[d] == 0 for d in dims):
            return Native("empty")
        if x.dtype is torch.bool and not bools:
            return Native("dtype")
        dtypes = tuple([dtype or x.dtype for dtype in results])
        return Call(reduction, (x, ), dims, bool(values.get("keepdim")), dtypes, COMPUTE[x.dtype])

    return plan


MAXIMUM = Reduction(combine=functions.maximum, identity=functions.least)
MINIMUM = Reduction(combine=functions.minimum, identity=functions.greatest)
LARGEST = Reduction(tile=functions.maximum_and_place, combine=functions.first_maximum, identity=functions.least_nowhere, states=("compute", "index"), index=True)
SMALLEST = dataclasses.replace(LARGEST, tile=functions.minimum_and_place, combine=functions.first_minimum, identity=functions.greatest_nowhere)
declare(Reducing(name="amax", arguments=("self", "dim", "keepdim"), plan=_extremum(MAXIMUM, (None, ))))
declare(Reducing(name="amin", arguments=("self", "dim", "keepdim"), plan=_extremum(MINIMUM, (None, ))))
declare(Reducing(name="argmax", arguments=("self", "dim", "keepdim"), plan=_extremum(dataclasses.replace(LARGEST, finish=functions.second), (torch.int64, ), bools=False)))
declare(Reducing(name="argmin", arguments=("self", "dim", "keepdim"), plan=_extremum(dataclasses.replace(SMALLEST, finish=functions.second), (torch.int64, ), bools=False)))
BOUNDS = Reduction(map=functions.twice, combine=functions.minimum_and_maximum, identity=functions.greatest_and_least, states=("compute", "compute"))
#: On CPUs two reductions of a tile are vectors, one of pairs is not.
BOUNDS_OF_TILES = dataclasses.replace(BOUNDS, map=functions.itself, tile=functions.bounds)


def _bounds(values, outs):
    return _extremum(BOUNDS_OF_TILES if values["self"].device.type == "cpu" else BOUNDS, (None, None))(values, outs)


declare(Reducing(name="aminmax", arguments=("self", "dim", "keepdim"), results=2, plan=_bounds))
declare(Reducing(name="_aminmax", arguments=("self", "dim", "keepdim"), results=2, plan=_bounds))  # what quantisation calls


@dataclasses.dataclass(frozen=True, kw_only=True)
class Extremum(Reducing):
    """`max`, `min`: of a dimension with indices, of everything without."""
    whole: object

    def accepts(self, form):
        names = [argument.name for argument in form.arguments]
        return form.kind != "inplace" and names in (["self"], ["self", "dim", "keepdim"]) and form.arguments[-1].type != "str"

    def call(self, form, values, outs):
        if "dim" in values:
            return super().call(form, values, outs)
        return Reducing.call(self.whole, form, values, outs)


declare(Extremum(name="max", arguments=("self", "dim", "keepdim"), results=2, plan=_extremum(LARGEST, (None, torch.int64)),
                 whole=Reducing(name="max", arguments=("self", ), plan=_extremum(MAXIMUM, (None, )))))
declare(Extremum(name="min", arguments=("self", "dim", "keepdim"), results=2, plan=_extremum(SMALLEST, (None, torch.int64)),
                 whole=Reducing(name="min", arguments=("self", ), plan=_extremum(MINIMUM, (None, )))))


def _truth(reduction):

    def plan(values, outs):
        x = values["self"]
        if values.get("dim") == []:
            return Native("no dimensions")
        dims = _dims(values, x)
        if dims is None:
            return Native("dimensions")
        dtype = torch.uint8 if x.dtype == torch.uint8 else torch.bool
        return Call(reduction, (x, ), dims, bool(values.get("keepdim")), (dtype, ), COMPUTE[torch.int8], read=False)

    return plan


declare(Reducing(name="all", arguments=("self", "dim", "keepdim"),
                 plan=_truth(Reduction(map=functions.not_zero, combine=functions.both, identity=functions.true))))
declare(Reducing(name="any", arguments=("self", "dim", "keepdim"),
                 plan=_truth(Reduction(map=functions.not_zero, combine=functions.either, identity=functions.false))))


def _counted(values, outs):
    x = values["self"]
    dims = _dims(values, x)
    if dims is None:
        return Native("dimensions")
    reduction = Reduction(map=functions.counted, identity=functions.no_count)
    return Call(reduction, (x, ), dims, False, (torch.int64, ), COMPUTE[torch.int64], read=False)


declare(Reducing(name="count_nonzero", arguments=("self", "dim"), plan=_counted))


def _moments(finish, results):
    reduction = Reduction(tile=functions.moments, combine=functions.joined_moments, identity=functions.no_moments, finish=finish, states=("compute", ) * 3)

    def plan(values, outs):
        x = values["self"]
        dims = _dims(values, x)
        if dims is None:
            return Native("dimensions")
        if x.dtype not in FLOATS:
            return Native("dtype")
        correction = values["correction"]
        freedom = _count(x, dims) - (1 if correction is None else correction)
        if isinstance(freedom, complex) or freedom <= 0:
            return Native("degrees of freedom")  # ATen warns
        return Call(reduction, (x, ), dims, bool(values.get("keepdim")), (x.dtype, ) * results, COMPUTE[x.dtype], (float(freedom), ))

    return plan


MOMENTS = ("self", "dim", "correction", "keepdim")


def _declare_moments(name, finish, results):
    declare(_Moments(name=name, arguments=MOMENTS, results=results, plan=_moments(finish, results)))


class _Moments(Reducing):

    def accepts(self, form):
        return super().accepts(form) and any(argument.name == "correction" for argument in form.arguments)


_declare_moments("var", functions.variance, 1)
_declare_moments("std", functions.deviation, 1)
_declare_moments("var_mean", functions.variance_and_mean, 2)
_declare_moments("std_mean", functions.deviation_and_mean, 2)

NORMS = {
    0.0: Reduction(map=functions.one_if_not_zero),
    1.0: Reduction(map=functions.absolute),
    2.0: Reduction(map=functions.squared, finish=functions.square_root),
    float("inf"): Reduction(map=functions.absolute, combine=functions.maximum, identity=functions.least),
    float("-inf"): Reduction(map=functions.absolute, combine=functions.minimum, identity=functions.greatest),
}
POWERS = Reduction(map=functions.power, finish=functions.root)


def _norm(values, outs):
    x = values["self"]
    order = values.get("ord", values.get("p"))
    order = 2.0 if order is None else order
    dims, dtype = _dims(values, x), _dtype(values, None, x, None)
    if dims is None:
        return Native("dimensions")
    if x.dtype not in FLOATS or not _widening(x, dtype) or isinstance(order, complex) or order != order:
        return Native("dtype")
    if (order < 0 or order == float("inf")) and any(x.shape[d] == 0 for d in dims):
        return Native("empty")
    order = float(order)
    scalars = () if order in NORMS else (order, 1 / order)
    return Call(NORMS.get(order, POWERS), (x, ), dims, bool(values.get("keepdim")), (dtype, ), COMPUTE[dtype], scalars)


declare(Reducing(name="linalg_vector_norm", arguments=("self", "ord", "dim", "keepdim", "dtype"), plan=_norm))
declare(Reducing(name="norm", arguments=("self", "p", "dim", "keepdim", "dtype"), plan=_norm))


def _exponentials(values, outs):
    x = values["self"]
    dims = _dims(values, x)
    if dims is None:
        return Native("dimensions")
    if x.dtype not in FLOATS:
        return Native("dtype")
    reduction = Reduction(tile=functions.exponentials, combine=functions.joined_exponentials, identity=functions.no_exponentials,
                          finish=functions.log_of_sum, states=("compute", ) * 2)
    return Call(reduction, (x, ), dims, bool(values.get("keepdim")), (x.dtype, ), COMPUTE[x.dtype])


declare(Reducing(name="logsumexp", arguments=("self", "dim", "keepdim"), plan=_exponentials))


def _trace(values, outs):
    x = values["self"]
    if x.dim() != 2:
        return Native("dimensions")
    dtype = x.dtype if x.dtype in FLOATS else torch.int64
    return Call(SUM, (x.diagonal(), ), [0], False, (dtype, ), COMPUTE[dtype])


declare(Reducing(name="trace", arguments=("self", ), plan=_trace))


def _dot(second):

    def plan(values, outs):
        x, y = values["self"], values[second]
        if x.dim() != 1 or y.shape != x.shape:
            return Native("shapes")
        if x.dtype != y.dtype or x.dtype == torch.bool:
            return Native("dtype")
        return Call(Reduction(map=functions.product, inputs=2), (x, y), [0], False, (x.dtype, ), COMPUTE[x.dtype])

    return plan


declare(Reducing(name="dot", arguments=("self", "tensor"), tensors=("self", "tensor"), plan=_dot("tensor")))
declare(Reducing(name="vdot", arguments=("self", "other"), tensors=("self", "other"), plan=_dot("other")))
