"""Operators of ATen that are a function of the host: what most operators that move, order, index or create elements have in common."""

import dataclasses

import torch

from .._declare import Native, Operator


@dataclasses.dataclass(frozen=True, kw_only=True)
class Computed(Operator):
    """compute: called with the values by name and the outputs (a list; for in-place overloads of the first argument alone; None for functional ones); it
    returns a tensor, a tuple of them, or `Native`.

    arguments: the names that an overload may have; None: any. kinds: of overloads. results: how many. kind: what the report and the tests call the family.
    word: called with the values, it returns what else than shapes decides the speed, as words of the shape class; None: nothing.
    """
    compute: object
    arguments: tuple = None
    kinds: tuple = ("functional", "inplace", "out")
    results: int = 1
    kind: str = "move"
    word: object = None

    @property
    def family(self):
        return self.kind

    def accepts(self, form):
        return form.kind in self.kinds and form.returns == self.results and (
            self.arguments is None or {argument.name for argument in form.arguments} <= set(self.arguments))

    def shape_class(self, form, values):
        found = super().shape_class(form, values)
        return found if found is None or self.word is None else (f"{found[0]} {self.word(values)}", found[1])

    def call(self, form, values, outs):
        for argument in form.arguments:
            if argument.is_tensor and type(values[argument.name]) in (bool, int, float, complex):
                return Native("number")  # PyTorch had wrapped it as a tensor
        if form.kind == "inplace":
            outs = [values[form.arguments[0].name]]
        return self.compute(values, outs)


def options(values, dtype=None):
    """(dtype, device) of a new tensor from the arguments `dtype`, `device`, `layout`, `pin_memory`, or `Native`. dtype: where none is given; None: the default one."""
    if values.get("layout") not in (None, torch.strided) or values.get("pin_memory"):
        return Native("layout")
    found = values.get("dtype")
    if isinstance(found, int):  # the default of a schema
        found = {4: torch.int64}[found]
    return found or dtype or torch.get_default_dtype(), values.get("device")
