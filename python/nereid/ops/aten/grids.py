"""Sampling at the places of a grid (grid_sampler_2d, grid_sampler_3d) of ATen, with its gradients."""

import torch

from .._declare import Native, declare
from .._launch import launch
from .._moves import foreign
from .._strided import COMPUTE, FLOATS, STORAGE, cdiv, product, programs_wanted, step_up
from ..kernels import grids as kernels
from ._planes import OnPlanes, by_lines, five, padded

KIND = "grid"
MODES, PADDINGS = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")
BLOCK = 128
#: Programs on CPUs that add gradients to images, each to channels of its own.
_OWNERS = 8


def _unusable(x, grid, values, rank, others=()):
    if (found := foreign(x, grid, *others)) is not None:
        return found
    if x.dtype not in FLOATS or any(other.dtype != x.dtype for other in (grid, *others)):
        return Native("dtype")
    if x.dim() != rank + 2 or grid.dim() != rank + 2 or grid.shape[0] != x.shape[0] or grid.shape[-1] != rank or not x.numel() or not grid.numel():
        return Native("shapes")
    if values["interpolation_mode"] not in (range(3) if rank == 2 else range(2)) or values["padding_mode"] not in range(3):
        return Native("mode")
    return None


def _options(x, grid, values):
    arguments = {"grid": grid, "in_sizes": five(x.shape), "out_sizes": five((*x.shape[:2], *grid.shape[1:-1])),
                 "grid_strides": (grid.stride(0), *padded(grid.stride()[1:-1]), grid.stride(-1)), "numel": product(grid.shape[:-1])}
    return arguments, {"MODE": MODES[values["interpolation_mode"]], "PADDING": PADDINGS[values["padding_mode"]], "ALIGNED": bool(values["align_corners"]),
                       "COMPUTE": COMPUTE[x.dtype], **_lanes(x, grid)}


def _lanes(x, grid):
    """LANES and BLOCK of the kernels: lines of places on CPUs."""
    width = grid.shape[-2]
    return {"LANES": 4, "BLOCK": step_up(width, (16, 32, 64, BLOCK))} if by_lines(x.device) and width >= 8 else {"LANES": None, "BLOCK": BLOCK}


def _blocks(numel, grid, constants):
    """How many blocks of places there are."""
    return cdiv(numel, BLOCK) if constants["LANES"] is None else numel // grid.shape[-2] * cdiv(grid.shape[-2], constants["BLOCK"])


def _groups(blocks, channels, device):
    """How many programs share the channels of a block of places."""
    return max(1, min(channels, programs_wanted(device) // blocks))


def _sample(rank):

    def compute(values, outs):
        x, grid = values["input"], values["grid"]
        if (found := _unusable(x, grid, values, rank)) is not None:
            return found
        out = torch.empty((*x.shape[:2], *grid.shape[1:-1]), dtype=x.dtype, device=x.device)
        arguments, constants = _options(x, grid, values)
        blocks = _blocks(arguments["numel"], grid, constants)
        launch(kernels.sample, (blocks, _groups(blocks, x.shape[1], x.device)), x.device,
               arguments | {"out": out, "x": x, "x_strides": five(x.stride()), "out_strides": five(out.stride())}, constants)
        return out

    return compute


def _sample_gradient(rank):

    def compute(values, outs):
        gradient, x, grid = values["grad_output"], values["input"], values["grid"]
        if (found := _unusable(x, grid, values, rank, (gradient, ))) is not None:
            return found
        if tuple(gradient.shape) != (*x.shape[:2], *grid.shape[1:-1]):
            return Native("shapes")
        on_cpu = x.device.type == "cpu"
        if not on_cpu and torch.are_deterministic_algorithms_enabled():
            return Native("deterministic")  # ATen raises an error
        arguments, constants = _options(x, grid, values)
        arguments |= {"gradient": gradient, "gradient_strides": five(gradient.stride())}
        blocks, of_x = _blocks(arguments["numel"], grid, constants), None
        if values["output_mask"][0]:
            total = torch.zeros(x.shape, dtype=STORAGE[constants["COMPUTE"]], device=x.device)
            grid_of_programs = (1, min(x.shape[1], _OWNERS)) if by_lines(x.device) else (blocks, _groups(blocks, x.shape[1], x.device))
            launch(kernels.sample_gradient, grid_of_programs, x.device, arguments | {"result": total, "result_strides": five(total.stride())}, constants)
            of_x = total if total.dtype == x.dtype else total.to(x.dtype)
        of_grid = torch.empty(grid.shape, dtype=grid.dtype, device=grid.device)
        launch(kernels.grid_gradient, blocks, x.device, arguments | {"result": of_grid, "x": x, "x_strides": five(x.stride())}, constants)
        return of_x, of_grid

    return compute


for _rank in (2, 3):
    declare(OnPlanes(name=f"grid_sampler_{_rank}d", compute=_sample(_rank), kinds=("functional", ), kind=KIND, word=lambda values: f"mode {values['interpolation_mode']}"))
    declare(OnPlanes(name=f"grid_sampler_{_rank}d_backward", compute=_sample_gradient(_rank), kinds=("functional", ), results=2, kind=KIND, word=lambda values: f"mode {values['interpolation_mode']}"))
