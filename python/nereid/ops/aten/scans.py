"""Scans of ATen."""

import dataclasses

import torch

from .._declare import Native, Operator, declare
from .._strided import COMPUTE, FLOATS
from ..functions import reductions as functions
from ..scan import Scan
from ._outputs import made, returned, unusable
from .reductions import _dtype, _widening


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scanning(Operator):
    """An operator of ATen that scans along `dim`. results: dtypes, None for that of the tensor, or of `dtype` where the operator has that."""
    scan: Scan
    results: tuple = (None, )
    floats: bool = False

    family = "scan"

    def accepts(self, form):
        names = [argument.name for argument in form.arguments]
        return names in (["self", "dim"], ["self", "dim", "dtype"]) and form.arguments[1].type == "int" and form.returns == len(self.results)

    def call(self, form, values, outs):
        x, dim = values["self"], values["dim"]
        inplace = form.kind == "inplace"
        if (found := unusable((x, ), outs)) is not None:
            return found
        if "dtype" in values:
            dtype = _dtype(values, [x] if inplace else outs, x, torch.int64)
        else:
            dtype = x.dtype
        if not _widening(x, dtype) or self.floats and dtype not in FLOATS or inplace and dtype != x.dtype:
            return Native("dtype")
        places = max(x.dim(), 1)
        if not -places <= dim < places:
            return Native("dimensions")
        wanted = [(x.shape, result or dtype) for result in self.results]
        if inplace:
            results = [torch.empty_like(x)]
        else:
            results = made(outs, wanted, (x, ), x.device)
            if type(results) is Native:
                return results
            if outs is not None and any(out.data_ptr() == x.data_ptr() for out in results):
                return Native("overlap")
        self.scan.launch((x, ), dim % places, results, COMPUTE[dtype])
        if inplace:
            return x.copy_(results[0])
        return returned(results)


SUM = Scan()
declare(Scanning(name="cumsum", scan=SUM))
declare(Scanning(name="cumprod", scan=Scan(combine=functions.multiply, identity=functions.one)))
LOG_SUM = Scan(combine=functions.log_add_exp, identity=functions.least)
declare(Scanning(name="logcumsumexp", scan=LOG_SUM, floats=True))
declare(Scanning(name="_logcumsumexp", scan=LOG_SUM, floats=True))  # what ATen's `logcumsumexp` calls
declare(Scanning(name="cummax", results=(None, torch.int64), scan=Scan(
    map=functions.with_index, combine=functions.last_maximum, identity=functions.least_before, states=("compute", "index"), index=True, selects=True)))
declare(Scanning(name="cummin", results=(None, torch.int64), scan=Scan(
    map=functions.with_index, combine=functions.last_minimum, identity=functions.greatest_before, states=("compute", "index"), index=True, selects=True)))
