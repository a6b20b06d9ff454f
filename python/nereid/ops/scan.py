"""`nereid.ops.scan`: a running combination along a dimension from a few functions of the language; its host side."""

import dataclasses

import torch

import nereid
import nereid.language as tl

from ._launch import launch
from ._strided import COMPUTE, NARROW, STORAGE, cdiv, collapse, innermost_long, plain, product, programs_wanted, step_up, units
from .functions import reductions as functions
from .kernels.reduction import keep_states
from .kernels.scan import scan as kernel
from .reduction import Reduction, _wider

DIVISIBLE = ("inner_size", "size", "part_size", "in_strides", "in_steps", "out_strides", "out_steps")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scan:
    """An operator that scans; `scan` makes it. The fields are its arguments, and selects: `combine` returns one of its two states as it is, and the last of a state's numbers says
    which one."""
    map: object = functions.itself
    combine: object = functions.add
    identity: object = functions.zero
    finish: object = functions.as_found
    states: tuple = ("compute", )
    results: tuple = ("value", )
    promotion: str = "same"
    index: bool = False
    inputs: int = 1
    commutative: bool = True
    selects: bool = False

    def __call__(self, *tensors, dim, dtype=None, scalars=()):
        """Scans tensors, which are broadcast against each other, along `dim`. Arguments, results and errors are those of `Reduction.__call__`."""
        if len(tensors) != self.inputs:
            raise TypeError(f"expected {self.inputs} tensors, but {len(tensors)} were given")
        if not plain(*tensors):
            raise ValueError("expected strided tensors on one device without pending conjugation")
        tensors = torch.broadcast_tensors(*tensors)
        rank = tensors[0].dim()
        if not -max(rank, 1) <= dim < max(rank, 1):
            raise IndexError(f"expected a dimension from {-max(rank, 1)} to {max(rank, 1) - 1}, but found {dim}")
        value = dtype or Reduction._value_dtype(self, tensors)
        for tensor in tensors:
            if tensor.dtype not in COMPUTE:
                raise TypeError(f"expected floating-point, integer or bool tensors, but found {tensor.dtype}")
        if value not in COMPUTE:
            raise TypeError(f"expected a floating-point, integer or bool `dtype`, but found {value}")
        outs = [torch.empty(tensors[0].shape, dtype=Reduction._result(mark, value), device=tensors[0].device) for mark in self.results]
        self.launch(tensors, dim % max(rank, 1), outs, COMPUTE[_wider(value, tensors)], tuple(scalars))
        return outs[0] if len(outs) == 1 else tuple(outs)

    def launch(self, tensors, dim, outs, compute, scalars=()):
        """Writes the results of a scan. tensors, outs: of one shape, any strides. dim: not negative. compute, scalars: as for `Reduction.launch`."""
        shape, device, n = tensors[0].shape, tensors[0].device, len(tensors)
        if tensors[0].numel() == 0:
            return
        operands = (*tensors, *outs)
        if shape:
            size = shape[dim]
            dims = [d for d in range(len(shape)) if d != dim]
            others = collapse([shape[d] for d in dims], [tuple(x.stride(d) for x in operands) for d in dims]) if dims else [(1, (0,) * len(operands))]
            steps = tuple(x.stride(dim) for x in operands)
        else:
            size, others, steps = 1, [(1, (0,) * len(operands))], (1,) * len(operands)
        others = innermost_long(others)
        inner_size = others[-1][0]
        columns = inner_size > 1 and others[-1][1][0] < steps[0] or size < 32 and inner_size >= 4 * size
        outer = tuple(s for s, _ in others[:-1])
        if columns:
            block, length = step_up(inner_size, (8, 64, 256)) if device.type == "cpu" else step_up(inner_size, (32, 128)), 1
        elif device.type == "cpu":
            # Most tiles that are short bring no new state; in a short row tiles that do are more frequent.
            block, length = 1, (16 if size <= 256 else 64) if self.selects else step_up(size, (16, 128, 1024))
        else:
            length = step_up(size, (32, 128, 256, 512, 1024, 2048))
            block = 1 if inner_size == 1 else max(1, 512 // length)
        programs = cdiv(inner_size, block) * product(outer)
        in_strides = tuple(tuple(stride[i] for _, stride in others) for i in range(n))
        out_strides = tuple(tuple(stride[n + i] for _, stride in others) for i in range(len(outs)))
        index = None if not self.index else tl.int32 if size <= NARROW else tl.int64
        parts = self._parts(device, programs, size, max(length, 16)) if self.commutative else 1
        reach = max((block - 1) * stride[-1] + (length - 1) * step for stride, step in zip((*in_strides, *out_strides), steps))
        part_size, ends, count = size, None, 1
        if parts > 1:
            part_size = cdiv(cdiv(size, parts), length) * length
            parts = cdiv(size, part_size)
            count = inner_size * product(outer)
            ends = self._ends(tensors, steps[:n], others, part_size, parts, count, compute, index, scalars)
        unit = units([(stride[-1] if columns else step) for stride, step in zip((*out_strides, *in_strides), (*steps[n:], *steps[:n]))])
        arguments = {
            "outs": tuple(outs), "ins": tuple(tensors), "ends": ends, "scalars": scalars, "outer": outer, "inner_size": inner_size, "size": size,
            "in_strides": in_strides, "in_steps": steps[:n], "out_strides": out_strides, "out_steps": steps[n:], "part_stride": count, "part_size": part_size
        }
        self._run(arguments, (programs, parts), compute, compute, index, columns, unit, block, length, reach > NARROW)

    def _run(self, arguments, grid, read, compute, index, columns, unit, block, length, wide):
        constants = {
            "MAP": self.map, "COMBINE": self.combine, "IDENTITY": self.identity, "FINISH": self.finish, "READ": read, "COMPUTE": compute, "INDEX": index,
            "COLUMNS": columns, "UNIT": unit, "BK": block, "BN": length, "BP": max(4, min(256, 1024 // block)), "WIDE": wide,
            "STARTS": sum(1 << i for i, state in enumerate(self.states) if state == "index"),
            "SELECTS": self.selects and block == 1 and not columns and arguments["outs"][0].device.type == "cpu"
        }
        launch(kernel, grid, arguments["outs"][0].device, arguments, constants, divisible=DIVISIBLE, num_warps=4 if length < 2048 else 8)

    @staticmethod
    def _parts(device, programs, size, length):
        least = length * (16 if device.type == "cpu" else 2)
        wanted = programs_wanted(device)
        if programs * 2 > wanted or size < 2 * least:
            return 1
        return min(wanted // programs, size // least, 1024)

    def _ends(self, tensors, steps, others, part_size, parts, count, compute, index, scalars):
        """For each state a tensor (parts - 1, count): row p holds that of part p. The last part is not needed."""
        device = tensors[0].device
        found = [torch.empty((parts - 1, count), dtype=STORAGE[Reduction._state(state, compute, index)], device=device) for state in self.states]
        # The parts are a further dimension.
        views = [x.as_strided((parts - 1, *(s for s, _ in others), part_size), (step * part_size, *(stride[i] for _, stride in others), step), x.storage_offset())
                 for i, (x, step) in enumerate(zip(tensors, steps))]
        shape = views[0].shape[:-1]
        ends = Reduction(map=self.map, combine=self.combine, identity=self.identity, finish=keep_states, states=self.states,
                         results=self.results, index=self.index)
        ends.launch(views, [len(shape)], [x.view(shape) for x in found], compute, scalars)
        return tuple(found)


def scan(map=None, combine=None, identity=None, finish=None, *, states=("compute",), results=("value",), promotion="same", index=False, inputs=1,
         commutative=True):
    """Makes an operator that scans tensors along a dimension, of any strides, in one pass or, where a long dimension has few others beside it, in parts.

    Without functions the operator is a cumulative sum. Arguments: as for `nereid.ops.reduction`. With commutative=False `combine` need
    be associative only, and there is always one pass; `index` is the place in the scanned dimension; `finish` is given the states up to each element. Returns a callable: see `Scan.__call__`.
    Raises ValueError for an unknown promotion.
    """
    if promotion not in ("same", "sum", "float"):
        raise ValueError(f"expected \"same\", \"sum\" or \"float\" as `promotion`, but found {promotion!r}")
    given = {name: function if isinstance(function, nereid.runtime.JITFunction) else nereid.jit(function)
             for name, function in (("map", map), ("combine", combine), ("identity", identity), ("finish", finish)) if function is not None}
    return Scan(**given, states=tuple(states), results=tuple(results), promotion=promotion, index=index, inputs=inputs, commutative=commutative)
