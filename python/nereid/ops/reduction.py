"""`nereid.ops.reduction`: a reduction over any dimensions from a few functions of the language; its host side."""

import dataclasses

import torch

import nereid
import nereid.language as tl

from ._launch import launch
from ._strided import (COMPUTE, FLOATS, NARROW, STORAGE, cdiv, collapse, fixed, innermost_long, plain, product, programs_wanted, step_up, unique_dims, units)
from .functions import reductions as functions
from .kernels.reduction import keep_states, reduce, stored_states


DIVISIBLE = ("kept_size", "reduced_size", "in_kept_strides", "in_reduced_strides", "out_strides")


@dataclasses.dataclass(frozen=True)
class _Tiles:
    """How a launch is cut. columns: the kept dimension lies innermost in the tile (the kernel's COLUMNS)."""
    columns: bool
    kept: int
    reduced: int
    lanes: bool
    warps: int


def _tiles(device, kept_size, reduced_size, columns):
    if device.type == "cpu":
        if columns:
            kept = step_up(kept_size, (8, 64, 256))
            return _Tiles(True, kept, step_up(reduced_size, (8, 32)), False, 4)
        reduced = step_up(reduced_size, (16, 64, 128, 256, 512, 1024, 2048))
        return _Tiles(False, 1 if reduced >= 1024 or kept_size == 1 else step_up(kept_size, (8, 64)), reduced, False, 4)
    if columns:
        if reduced_size <= 4 and kept_size >= 1024:
            return _Tiles(True, 1024, step_up(reduced_size, (1, 4)), False, 4)
        kept = step_up(kept_size, (16, 128))
        return _Tiles(True, kept, step_up(reduced_size, (4, 32)) if kept == 128 else 128, True, 4)
    reduced = step_up(reduced_size, (32, 128, 256, 512, 1024, 2048, 4096))
    return _Tiles(False, 1 if kept_size == 1 else max(1, 1024 // reduced), reduced, reduced_size > reduced, 4 if reduced < 4096 else 8)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reduction:
    """An operator that reduces; `reduction` makes it. The fields are its arguments."""
    map: object = functions.itself
    combine: object = functions.add
    identity: object = functions.zero
    finish: object = functions.as_found
    tile: object = None
    states: tuple = ("compute", )
    results: tuple = ("value", )
    promotion: str = "same"
    index: bool = False
    inputs: int = 1

    def __call__(self, *tensors, dim=None, keepdim=False, dtype=None, scalars=()):
        """Reduces tensors, which are broadcast against each other, along `dim`.

        tensors: as many as `inputs` says; floating point, integer or bool, on one device. dim: an int, a list of ints, None or [] for all
        dimensions. keepdim: reduced dimensions stay with size 1. dtype: that of results marked "value", in place of the promoted one.
        scalars: numbers for `map` and `finish`, where they arrive as int64 or fp64.
        Returns a tensor, or a tuple of them if there are several results.
        Raises TypeError for other dtypes or a wrong number of tensors, IndexError for dimensions that do not exist or are named twice,
        ValueError for tensors on several devices or not strided.
        """
        if len(tensors) != self.inputs:
            raise TypeError(f"expected {self.inputs} tensors, but {len(tensors)} were given")
        if not plain(*tensors):
            raise ValueError("expected strided tensors on one device without pending conjugation")
        tensors = torch.broadcast_tensors(*tensors)
        dims = unique_dims(dim, tensors[0].dim())
        if dims is None:
            raise IndexError(f"expected different dimensions from {-tensors[0].dim()} to {tensors[0].dim() - 1}, but found {dim}")
        value = dtype or self._value_dtype(tensors)
        for tensor in tensors:
            if tensor.dtype not in COMPUTE:
                raise TypeError(f"expected floating-point, integer or bool tensors, but found {tensor.dtype}")
        if value not in COMPUTE:
            raise TypeError(f"expected a floating-point, integer or bool `dtype`, but found {value}")
        outs = self.empty(tensors[0], dims, keepdim, value)
        self.launch(tensors, dims, outs, COMPUTE[_wider(value, tensors)], tuple(scalars))
        return outs[0] if len(outs) == 1 else tuple(outs)

    def _value_dtype(self, tensors):
        dtype = tensors[0].dtype
        for tensor in tensors[1:]:
            dtype = torch.promote_types(dtype, tensor.dtype)
        if self.promotion == "sum" and dtype not in FLOATS:
            return torch.int64
        if self.promotion == "float" and dtype not in FLOATS:
            return torch.get_default_dtype()
        return dtype

    def empty(self, tensor, dims, keepdim, value):
        """Unwritten results: contiguous, those marked "value" of dtype `value`."""
        if keepdim:
            shape = [1 if d in dims else size for d, size in enumerate(tensor.shape)]
        else:
            shape = [size for d, size in enumerate(tensor.shape) if d not in dims]
        return [torch.empty(shape, dtype=self._result(mark, value), device=tensor.device) for mark in self.results]

    @staticmethod
    def _result(mark, value):
        return value if mark == "value" else torch.int64 if mark == "index" else mark

    def launch(self, tensors, dims, outs, compute, scalars=(), read=True):
        """Writes the results of a reduction.

        tensors: of one shape, which may have zero sizes, if the identity has a result. dims: the reduced dimensions, sorted, none
        negative. outs: tensors of any strides, with or without the reduced dimensions (of size 1). compute: dtype of the language for
        the states. read: whether elements reach `map` in this dtype, too, or in their own. scalars: numbers.
        """
        shape, device = tensors[0].shape, tensors[0].device
        kept = [d for d in range(len(shape)) if d not in dims]
        if any(shape[d] == 0 for d in kept):
            return
        strides = [tensor.stride() for tensor in tensors]
        n = len(tensors)
        out_strides = [[out.stride(d if out.dim() == len(shape) else i) for i, d in enumerate(kept)] for out in outs]
        kept_dims = collapse([shape[d] for d in kept],
                             [(*(stride[d] for stride in strides), *(stride[i] for stride in out_strides)) for i, d in enumerate(kept)]
                             ) if kept else [(1, (0,) * (n + len(outs)))]
        linear = {}
        step = 1
        for d in reversed(dims):
            linear[d] = step
            step *= max(shape[d], 1)
        elements = product(shape[d] for d in dims)
        reduced_dims = collapse([shape[d] for d in dims], [(*(stride[d] for stride in strides), linear[d]) for d in dims]) if dims else [(1, (0,) * n + (1,))]
        if elements == 0:
            reduced_dims = [(0, (0,) * n + (1,))]
        kept_dims, reduced_dims = innermost_long(kept_dims), innermost_long(reduced_dims)
        kept_size, reduced_size = kept_dims[-1][0], reduced_dims[-1][0]
        columns = kept_size > 1 and (kept_dims[-1][1][0] < reduced_dims[-1][1][0] or (reduced_size < 8 and kept_size > 4 * reduced_size))
        tiles = _tiles(device, kept_size, reduced_size, columns)
        index = None if not self.index else tl.int32 if elements <= NARROW else tl.int64

        kept_outer, reduced_outer = tuple(size for size, _ in kept_dims[:-1]), tuple(size for size, _ in reduced_dims[:-1])
        programs = cdiv(kept_size, tiles.kept) * product(kept_outer)
        steps = cdiv(reduced_size, tiles.reduced) * product(reduced_outer)
        parts = self._parts(device, programs, steps, tiles)
        in_kept = tuple(tuple(stride[i] for _, stride in kept_dims) for i in range(n))
        out_kept = tuple(tuple(stride[n + i] for _, stride in kept_dims) for i in range(len(outs)))
        in_reduced = tuple(tuple(stride[i] for _, stride in reduced_dims) for i in range(n))
        index_strides = tuple(stride[n] for _, stride in reduced_dims)
        if parts == 1:
            self._run(tuple(outs), tuple(tensors), scalars, kept_outer, kept_size, reduced_outer, reduced_size, in_kept, in_reduced, out_kept, index_strides,
                      1, programs, 0, steps, self.map, self.finish, self.tile, compute if read else None, compute, index, tiles)
            return
        each = cdiv(steps, parts)
        parts = cdiv(steps, each)
        count = kept_size * product(kept_outer)
        spaces = tuple(torch.empty((parts, count), dtype=STORAGE[self._state(state, compute, index)], device=device) for state in self.states)
        space_strides = ()
        step = 1
        for size, _ in reversed(kept_dims):
            space_strides = (step, *space_strides)
            step *= size
        self._run(spaces, tuple(tensors), scalars, kept_outer, kept_size, reduced_outer, reduced_size, in_kept, in_reduced, (space_strides,) * len(spaces),
                  index_strides, parts, programs, count, each, self.map, keep_states, self.tile, compute if read else None, compute,
                  index, tiles)
        tiles = _tiles(device, kept_size, parts, kept_size > 1)
        programs = cdiv(kept_size, tiles.kept) * product(kept_outer)
        self._run(tuple(outs), spaces, scalars, kept_outer, kept_size, (), parts, (space_strides,) * len(spaces), ((count,),) * len(spaces), out_kept,
                  (1,), 1, programs, 0, cdiv(parts, tiles.reduced), stored_states, self.finish, None, None, compute, index, tiles)

    @staticmethod
    def _state(state, compute, index):
        return compute if state == "compute" else index if state == "index" else state

    @staticmethod
    def _parts(device, programs, steps, tiles):
        """Into how many parts the reduced dimensions are split: 1 unless there is too little to do at once, and much in each."""
        on_cpu = device.type == "cpu"
        least = max(1, 32768 // (tiles.kept * tiles.reduced)) if on_cpu else 4
        wanted = programs_wanted(device)
        if programs * 2 > wanted or steps < 2 * least:
            return 1
        return min(wanted // programs, steps // (least if on_cpu else 1), 1024)

    def _run(self, outs, ins, scalars, kept_outer, kept_size, reduced_outer, reduced_size, in_kept, in_reduced, out_kept, index_strides, parts, programs,
             part_stride, each, map, finish, tile, read, compute, index, tiles):
        reach = max((tiles.kept - 1) * a[-1] + (tiles.reduced - 1) * b[-1] for a, b in zip(in_kept, in_reduced))
        wide = max(reach, *((tiles.kept - 1) * stride[-1] for stride in out_kept)) > NARROW
        arguments = {
            "outs": outs, "ins": ins, "scalars": scalars, "kept_outer": kept_outer, "kept_size": kept_size, "reduced_outer": reduced_outer,
            "reduced_size": reduced_size, "in_kept_strides": in_kept, "in_reduced_strides": in_reduced, "out_strides": out_kept,
            "index_strides": index_strides, "part_stride": part_stride, "tiles_of_part": each
        }
        unit = units([stride[-1] for stride in (*out_kept, *(in_kept if tiles.columns else in_reduced))])
        constants = {
            "MAP": map, "COMBINE": self.combine, "IDENTITY": self.identity, "FINISH": finish, "TILE": tile, "READ": read, "COMPUTE": compute, "INDEX": index,
            "COLUMNS": tiles.columns, "LANES": tiles.lanes and tile is None, "UNIT": unit, "K_FIXED": fixed(in_kept), "R_FIXED": fixed(in_reduced), "BK": tiles.kept, "BR": tiles.reduced, "WIDE": wide
        }
        launch(reduce, (programs, parts), outs[0].device, arguments, constants, divisible=DIVISIBLE, num_warps=tiles.warps)


def _wider(value, tensors):
    """The dtype to compute in: that of the result, or of the tensors where the result is narrower or of another kind."""
    for tensor in tensors:
        value = torch.promote_types(value, tensor.dtype)
    return value


def reduction(map=None, combine=None, identity=None, finish=None, *, tile=None, states=("compute",), results=("value",), promotion="same", index=False,
              inputs=1):
    """Makes an operator that reduces tensors along any set of dimensions, of any strides, in one or two passes, without atomics.

    The functions are functions of the language (`@nereid.jit`, or plain ones, which are made so) on blocks; fp16 and bf16 arrive as fp32.
    Without any of them the operator is a sum.

    map(values, index, scalars)        a tuple of input blocks → a tuple of states. Default: the first value. index: the place in the reduced
                                       dimensions, in the order of the tensor's dimensions, if `index` is true
    combine(*states, *states)          associative and commutative; returns a block, or a tuple for several states. Default: addition
    identity(COMPUTE, INDEX)           a tuple of typed scalars, one per state. Default: 0
    finish(states, scalars, COMPUTE)   the last states → a tuple of results. Default: the states
    tile(values, mask, count, scalars, AXIS)   the states of a whole tile, in place of `map`; places beyond `count` along AXIS hold 0. If `index` is true
                                       it gets the block of indices in place of `count`
    states      of each state the dtype that the two-pass form keeps: "compute", "index" or a dtype of the language
    results     of each result its dtype: "value" (by `promotion`), "index" (int64) or a torch dtype
    promotion   "same": the tensors' dtype; "sum": integers and bool become int64; "float": they become torch's default dtype
    index       whether `map` takes the index
    inputs      number of tensors

    Returns a callable: see `Reduction.__call__`. Raises ValueError for an unknown promotion.

        @nereid.jit
        def larger(a, b):
            return tl.maximum(a, b)

        @nereid.jit
        def nothing(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
            return (tl.full((), float("-inf"), COMPUTE),)

        largest = nereid.ops.reduction(combine=larger, identity=nothing)
        largest(x, dim=(0, 2))
    """
    if promotion not in ("same", "sum", "float"):
        raise ValueError(f"expected \"same\", \"sum\" or \"float\" as `promotion`, but found {promotion!r}")
    given = {name: function if function is None or isinstance(function, nereid.runtime.JITFunction) else nereid.jit(function)
             for name, function in (("map", map), ("combine", combine), ("identity", identity), ("finish", finish), ("tile", tile))}
    given = {name: function for name, function in given.items() if function is not None}
    return Reduction(**given, states=tuple(states), results=tuple(results), promotion=promotion, index=index, inputs=inputs)
