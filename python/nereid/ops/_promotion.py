"""Dtypes of elementwise operators, by PyTorch's rules (`torch.result_type` for any number of operands).

Numbers are Python's: those that PyTorch wraps as tensors reach a kernel in Python as numbers.
"""

import torch

#: How the promoted dtype is used. "default": the operator computes in it, and the result has it. "int_to_float": integers and bools become the default
#: float. "always_bool": the result is bool. "bool_to_long": bools become int64. "no_opmath": as "default", for functions that only move or
#: compare elements: 16-bit floats are not widened. "complex_to_float" is "default" for all dtypes that this package serves.
KINDS = ("default", "int_to_float", "always_bool", "bool_to_long", "no_opmath", "complex_to_float")

_OF_NUMBER = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


def _combined(higher, lower):
    """Two classes of operands, of which the first decides unless the second is of a higher kind."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.is_complex:
        return higher
    if higher.is_floating_point:
        return torch.promote_types(higher, lower) if lower.is_complex else higher
    if higher == torch.bool or lower.is_floating_point or lower.is_complex:
        return torch.promote_types(higher, lower)
    return higher


def result_type(operands):
    """The dtype that tensors and numbers (None is left out) have in common: dimensions, then 0-d tensors, then numbers decide."""
    found = [None, None, None]
    for operand in operands:
        if operand is None:
            continue
        if isinstance(operand, torch.Tensor):
            dtype = operand.dtype
            rank = 0 if operand.dim() else 1
        else:
            dtype, rank = _OF_NUMBER[type(operand)], 2
        if rank == 2 and dtype.is_floating_point:
            dtype = torch.get_default_dtype()
        elif rank == 2 and dtype.is_complex:
            dtype = torch.promote_types(torch.get_default_dtype(), torch.complex32)
        found[rank] = dtype if found[rank] is None else torch.promote_types(found[rank], dtype)
    return _combined(_combined(found[0], found[1]), found[2])


def promoted(operands, kind):
    """(COMMON, dtype of the results): COMMON is what operands are promoted to."""
    common = result_type(operands)
    if kind == "int_to_float" and not common.is_floating_point and not common.is_complex:
        common = torch.get_default_dtype()
    elif kind == "bool_to_long" and common == torch.bool:
        common = torch.int64
    return common, torch.bool if kind == "always_bool" else common
