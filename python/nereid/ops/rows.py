"""Operators that reduce rows and then map their elements (`kernels/rows.py`): the host side."""

import dataclasses

import torch

from ._launch import launch
from ._strided import NARROW, STORAGE, cdiv, collapse, fixed, innermost_long, product, programs_wanted, step_up, units
from .functions import reductions as functions, unary
from .kernels.rows import rows as kernel
from .pointwise import Rule, run
from .reduction import Reduction

DIVISIBLE = ("kept_size", "reduced_size", "in_kept_strides", "in_reduced_strides", "out_kept_strides", "out_reduced_strides")
COPY = Rule(function=unary.identity, promotion="no_opmath", casts=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
    """What is done with rows; the functions are described in `kernels/rows.py`.

    reduced_inputs: how many inputs the reduction needs, the first ones. states: how many states there are. row_values: how many values
    FINISH gives for each row.
    """
    apply: object
    finish: object = functions.as_found
    map: object = functions.itself
    tile: object = None
    keep: object = None
    of_kept: object = None
    combine: object = functions.add
    identity: object = functions.zero
    reduced_inputs: int = 1
    states: int = 1
    row_values: int = 1

    def launch(self, tensors, dims, outs, row_outs, compute, scalars=()):
        """Writes `outs` and `row_outs`.

        tensors: of one shape (expanded where they broadcast), or None. dims: the reduced dimensions, sorted, not negative. outs: of that shape.
        row_outs: of that shape without `dims`, or None; any strides. compute: dtype of the language to compute in. scalars: numbers.
        """
        shape, device = tensors[0].shape, tensors[0].device
        kept = [d for d in range(len(shape)) if d not in dims]
        if any(shape[d] == 0 for d in kept):
            return
        inside = (*tensors, *outs)

        def strides_at(d):
            return tuple(0 if x is None else x.stride(d) for x in inside)

        sizes = [shape[d] for d in kept]
        row_strides = [tuple([0 if x is None else x.stride(i) for x in row_outs]) for i in range(len(kept))]

        def kept_dimensions(given):
            strides = [(*strides_at(d), *row_strides[i], given[i]) for i, d in enumerate(kept)]
            return innermost_long(collapse(sizes, strides)) if kept else [(1, (0, ) * (len(inside) + len(row_outs) + 1))]

        kept_dims = kept_dimensions([0] * len(kept))
        reduced_dims = collapse([shape[d] for d in dims], [strides_at(d) for d in dims]) if dims else [(1, (0, ) * len(inside))]
        if any(shape[d] == 0 for d in dims):
            reduced_dims = [(0, (0, ) * len(inside))]
        reduced_dims = innermost_long(reduced_dims)
        reduced_size = reduced_dims[-1][0]
        columns = self._columns(kept_dims, reduced_dims)
        kept_block, reduced_block, warps = _blocks(device, kept_dims[-1][0], reduced_size, columns)
        reduced_outer = tuple([size for size, _ in reduced_dims[:-1]])
        # On CPUs rows are read again rather than kept in memory between the reduction and `apply`; a TILE reads what it is given more than once.
        streamed = device.type == "cpu" and self.tile is None and self.keep is None
        whole = not reduced_outer and 0 < reduced_size <= reduced_block and not streamed
        programs = cdiv(kept_dims[-1][0], kept_block) * product(size for size, _ in kept_dims[:-1])
        steps = cdiv(reduced_size, reduced_block) * product(reduced_outer)
        parts, given = 1, None
        if not whole and 2 * programs <= programs_wanted(device) and steps >= (64 if device.type == "cpu" else 16):
            given = [torch.empty(sizes, dtype=STORAGE[compute], device=device) for _ in range(self.row_values)]
            self._find(tensors, dims, given, row_outs, compute, scalars)
            kept_dims = kept_dimensions(given[0].stride())
            columns = self._columns(kept_dims, reduced_dims)
            kept_block, reduced_block, warps = _blocks(device, kept_dims[-1][0], reduced_size, columns)
            programs = cdiv(kept_dims[-1][0], kept_block) * product(size for size, _ in kept_dims[:-1])
            steps = cdiv(reduced_size, reduced_block) * product(reduced_outer)
            parts = max(1, min(programs_wanted(device) // programs, steps // 4, 1024))
        kept_size, kept_outer = kept_dims[-1][0], tuple([size for size, _ in kept_dims[:-1]])
        n = len(tensors)
        in_kept, in_reduced = self._strides(kept_dims, 0, n), self._strides(reduced_dims, 0, n)
        out_kept, out_reduced = self._strides(kept_dims, n, len(inside)), self._strides(reduced_dims, n, len(inside))
        reach = max((kept_block - 1) * a[-1] + (reduced_block - 1) * b[-1] for a, b in zip((*in_kept, *out_kept), (*in_reduced, *out_reduced)))
        arguments = {
            "outs": tuple(outs), "row_outs": tuple(row_outs), "ins": tuple(tensors), "given": None if given is None else tuple(given), "scalars": scalars, "kept_outer": kept_outer,
            "kept_size": kept_size, "reduced_outer": reduced_outer, "reduced_size": reduced_size, "in_kept_strides": in_kept,
            "in_reduced_strides": in_reduced, "out_kept_strides": out_kept, "out_reduced_strides": out_reduced,
            "row_strides": self._strides(kept_dims, len(inside), len(inside) + len(row_outs)), "given_strides": tuple([stride[-1] for _, stride in kept_dims]),
            "tiles_of_part": cdiv(steps, parts)
        }
        constants = {
            "MAP": self.map, "TILE": self.tile, "COMBINE": self.combine, "IDENTITY": self.identity, "FINISH": self.finish, "APPLY": self.apply,
            "KEEP": self.keep, "OF_KEPT": self.of_kept,
            "REDUCED_INPUTS": self.reduced_inputs, "COMPUTE": compute, "COLUMNS": columns, "WHOLE": whole,
            "UNIT": units([stride[-1] for stride in ((*out_kept, *in_kept) if columns else (*out_reduced, *in_reduced))]),
            "K_FIXED": fixed(in_kept), "R_FIXED": fixed(in_reduced), "BK": kept_block, "BR": reduced_block, "WIDE": reach > NARROW
        }
        launch(kernel, (programs, parts), device, arguments, constants, divisible=DIVISIBLE, num_warps=warps)

    @staticmethod
    def _strides(dims, first, end):
        return tuple([tuple([stride[i] for _, stride in dims]) for i in range(first, end)])

    @staticmethod
    def _columns(kept_dims, reduced_dims):
        """Whether the kept dimension lies innermost in the tiles."""
        kept_size, reduced_size = kept_dims[-1][0], reduced_dims[-1][0]
        return kept_size > 1 and (kept_dims[-1][1][0] < reduced_dims[-1][1][0] or (reduced_size < 8 and kept_size > 4 * reduced_size))

    def _find(self, tensors, dims, given, row_outs, compute, scalars):
        """The rows' values by a reduction, which cuts long rows into parts, and the rows' outputs from it."""
        reduction = Reduction(map=self.map, combine=self.combine, identity=self.identity, finish=self.finish, tile=self.tile, states=("compute", ) * self.states)
        reduction.launch(tensors[:self.reduced_inputs], dims, given, compute, scalars)
        for row_out, value in zip(row_outs, given):
            if row_out is not None:
                run(COPY, [value], [], [row_out])


def _blocks(device, kept_size, reduced_size, columns):
    """(rows, elements of a row) of a tile, warps."""
    if device.type == "cpu":
        if columns:
            return step_up(kept_size, (8, 64)), step_up(reduced_size, (8, 32)), 4
        reduced = step_up(reduced_size, (16, 64, 128, 256, 512, 1024, 2048, 4096))
        return 1 if kept_size == 1 or reduced >= 256 else 8, reduced, 4
    if columns:
        kept = step_up(kept_size, (16, 64))
        return kept, step_up(reduced_size, (16, 64, 128)), 4
    reduced = step_up(reduced_size, (32, 128, 512, 1024, 2048, 4096, 8192, 16384))
    return 1 if kept_size == 1 else max(1, 512 // reduced), reduced, 4 if reduced < 4096 else 8 if reduced < 16384 else 16
