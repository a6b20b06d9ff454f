"""Conditions of calls that ATen has to decide, mostly because it is to raise its own error. Data, so that the router can check them, too."""

import dataclasses

import torch


@dataclasses.dataclass(frozen=True)
class Guard:
    """A condition on an argument, checked before a call.

    kind: "bool", it is a bool tensor; "divisor", it has no zero where integers are divided on the CPU (on GPUs the result is undefined); "limit", it or one
    of the inputs behind it is given; "power", it is no negative integer; "no bool", neither it nor another input is bool; "float", `self` is of a float dtype where it, a scalar, is an argument of the overload. argument: the name of an input,
    for "float" of the first scalar.
    """
    kind: str
    argument: str

    KINDS = ("bool", "divisor", "limit", "power", "no bool", "float")

    def __call__(self, values):
        """Why ATen has to decide, or None. values: the arguments by name."""
        if self.kind == "float":
            return "dtype" if self.argument in values and not values["self"].is_floating_point() else None
        value = values[self.argument]
        if self.kind == "bool":
            return None if value.dtype == torch.bool else "dtype of the mask"
        if self.kind == "no bool":
            return "bool" if any(isinstance(x, bool) or isinstance(x, torch.Tensor) and x.dtype == torch.bool for x in (values["self"], values["other"])) else None
        if self.kind == "limit":
            names = list(values)
            return None if any(values[name] is not None for name in names[names.index(self.argument):]) else "no limit"
        if self.kind == "power":
            return "negative power" if isinstance(value, int) and value < 0 else None
        return _zero(values, value)


def _zero(values, divisor):
    if "rounding_mode" in values and values["rounding_mode"] is None:
        return None
    operands = [value for value in (values["self"], divisor) if isinstance(value, torch.Tensor)]
    if any(operand.is_floating_point() or operand.is_complex() for operand in operands) or all(operand.device.type != "cpu" for operand in operands):
        return None
    if isinstance(divisor, torch.Tensor):
        return "division by zero" if divisor.device.type == "cpu" and torch.count_nonzero(divisor) != divisor.numel() else None
    return "division by zero" if divisor == 0 and not isinstance(divisor, float) else None
