"""Distributed tensors (DTensor) in functions over lists of tensors: each process works on its parts."""

import sys

import torch


def is_distributed(tensor):
    """Whether this is a DTensor. Nothing is imported: there are none before a program has imported them."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def part_of(tensor):
    """What this process has of a DTensor, sharing its memory; other tensors as they are."""
    return tensor.to_local() if is_distributed(tensor) else tensor


def placed_as(tensor, other):
    """A DTensor with the placements of another one; partial sums are added up for that. Other tensors as they are."""
    if is_distributed(tensor) and tensor.placements != other.placements:
        return tensor.redistribute(placements=other.placements)
    return tensor


def by_placement(tensors):
    """Lists of the parts that this process has, of tensors that are cut in the same way: [(mesh, placements, parts)]; None, (), and the tensors themselves for those that are no DTensors.

    Partial sums are added up. The order is the same in all processes.
    """
    groups = {}
    for tensor in tensors:
        if not is_distributed(tensor):
            groups.setdefault((None, ()), []).append(tensor)
            continue
        if any(placement.is_partial() for placement in tensor.placements):
            replicate = sys.modules["torch.distributed.tensor"].Replicate()
            tensor = tensor.redistribute(placements=[replicate if placement.is_partial() else placement for placement in tensor.placements])
        groups.setdefault((tensor.device_mesh, tuple(not placement.is_replicate() for placement in tensor.placements)), []).append(tensor.to_local())
    return [(mesh, cut, parts) for (mesh, cut), parts in groups.items()]


def combined(value, mesh, cut, operation):
    """The sum or the maximum ("sum", "max") of the numbers of all processes that have different parts. cut: for each dimension of the mesh whether its processes do."""
    for dim, parts in enumerate(cut):
        if parts:
            torch.distributed.all_reduce(value, torch.distributed.ReduceOp.SUM if operation == "sum" else torch.distributed.ReduceOp.MAX, group=mesh.get_group(dim))
    return value
