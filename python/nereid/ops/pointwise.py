"""Operators made of scalar functions: `pointwise`, and the declarations of ATen's pointwise operators."""

import dataclasses
import functools

import torch

from . import _gradients, _promotion, _shapes
from ._declare import Native, Operator
from ._launch import DTYPES, OPMATH, launch
from ._strided import product, step_up
from .kernels import pointwise as kernels

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
ALL = (torch.bool, *INTEGERS, *FLOATS)

_LIMIT = 2**31 - 1
#: Last strides that kernels on CPUs have as constants: such elements are moved by whole registers.
_STEPS = (-1, 1, 2, 3, 4)
#: Among the rules of an operator: that of all values of `choices` without a rule of their own.
OTHERS = "others"
#: The kernels of `kernels/pointwise.py`, by their number in the router.
KINDS = ("flat", "strided", "tiled")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """How a scalar function is applied to tensors.

    function: a jit function of blocks: of one block for each input, then of one number for each scalar (None where it was not given). It returns a
    block, or a tuple of as many as `results`. 16-bit floats arrive as fp32.
    promotion: one of `_promotion.KINDS`.
    raw: positions of inputs that are not promoted and arrive in their own dtype.
    dtypes: the promoted dtypes that are served.
    same: inputs must all have one dtype (numbers aside).
    numbers: what a number among the inputs is rounded to: "common", the promoted dtype, or "compute", what the function computes in.
    casts: results are converted to the dtype of any output, also to one that loses values; inputs are not promoted.
    """
    function: object
    promotion: str = "default"
    raw: tuple = ()
    dtypes: tuple = ALL
    results: int = 1
    same: bool = False
    numbers: str = "common"
    casts: bool = False

    def constants(self, common):
        """The constants of a kernel (`kernels/pointwise.py`) for the promoted dtype `common`."""
        compute = common if self.promotion == "no_opmath" else OPMATH.get(common, common)
        return {"fn": self.function, "COMMON": DTYPES[common], "COMPUTE": DTYPES[compute], "RAW": sum(1 << i for i in self.raw),
                "NARROW": common in OPMATH and compute != common and "NARROW" in self.function.arg_names}

    def __post_init__(self):
        if self.promotion not in _promotion.KINDS:
            raise ValueError(f"`promotion` is {self.promotion!r}: expected one of {', '.join(map(repr, _promotion.KINDS))}")


def run(rule, inputs, scalars, outs=None, fills=(), written=False, contiguous=False, exact=False):
    """Applies a rule.

    inputs: tensors, numbers, None; where there is none, the dtype is that of the first output. scalars: numbers, None, or 0-d tensors of the host.
    fills: what to take for the scalars that are None: a number, "max" or "min" (of the promoted dtype), or None. outs: the tensors to write, which must have the result's shape or be empty; None
    for new ones. written: the outputs have the shape that inputs are broadcast to. contiguous: new outputs are contiguous.
    exact: given outputs have the result's dtype. Returns a list of the outputs, or `Native(reason)` before anything was done.
    """
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    for tensor in (*tensors, *(outs or ())):
        if tensor.dtype not in DTYPES or tensor.layout is not torch.strided:
            return Native("dtype")
    everything = [*(outs or ()), *tensors]
    if not everything:
        return Native("no tensor")
    # Where there are no dimensions, GPUs go before the host.
    device = next((t.device for t in everything if t.dim()), None) or next((t.device for t in everything if t.device.type != "cpu"), everything[0].device)
    for tensor in (*tensors, *(outs or ())):
        if tensor.device != device and (tensor.dim() or tensor.device.type != "cpu" or any(tensor is out for out in outs or ())):
            return Native("devices")

    if device.type != "cpu" and tensors and all(tensor.device.type == "cpu" for tensor in tensors):
        return Native("devices")  # only numbers of the host are read: ATen copies, or complains

    raw = rule.raw
    operands = [x for i, x in enumerate(inputs) if i not in raw and x is not None] if raw else inputs
    common, result = _promotion.promoted(operands or inputs or outs[:1], rule.promotion)
    if common not in rule.dtypes:
        return Native("dtype")
    if rule.same and len({x.dtype for x in operands if isinstance(x, torch.Tensor)}) > 1:
        return Native("dtypes differ")
    scalars = passed_scalars(scalars, fills, common)
    if type(scalars) is Native:
        return scalars

    try:
        shaped = outs + tensors if written else tensors
        shape = shaped[0].shape
        if any(tensor.shape != shape for tensor in shaped):
            shape = torch.broadcast_shapes(*[tensor.shape for tensor in shaped])
    except RuntimeError:
        return Native("shapes")
    if outs is not None:
        for out in outs:
            if out.shape != shape and (out.numel() or not _resizable(out, shape)):
                return Native("shape of the output")
            if out.dtype != result and (exact or not rule.casts and not torch.can_cast(result, out.dtype)):
                return Native("dtype of the output")
            if out.shape == shape and (_shapes.overlaps_itself(out) or any(_shapes.conflict(out, tensor) for tensor in (*tensors, *outs))):
                return Native("overlap")

    # 0-d tensors of the host become numbers, unless all are of the host and have no dimensions, or they are copied.
    passed = list(inputs)
    for i, x in enumerate(inputs):
        if isinstance(x, torch.Tensor):
            if rule.casts and x.device != device:
                return Native("devices")
            if not rule.casts and x.dim() == 0 and x.device.type == "cpu" and (device.type != "cpu" or shape) and i not in raw:
                passed[i] = _number(x.item(), common, rule.numbers)
            elif x.device != device:
                passed[i] = x.to(device)
        elif x is not None:
            if i in raw:
                return Native("number")
            passed[i] = _number(x, common, rule.numbers)
            if passed[i] is None:
                return Native("number")

    pointers = [x for x in passed if isinstance(x, torch.Tensor)]
    if outs is None:
        strides = _shapes.output_strides(shape, [] if contiguous else pointers or tensors)
        outs = [torch.empty_strided(shape, strides, dtype=result, device=device) for _ in range(rule.results)]
    else:
        for out in outs:
            if out.shape != shape:
                out.resize_(shape)
                out.as_strided_(shape, _shapes.output_strides(shape, pointers or tensors))
    if outs[0].numel():
        apply(rule, outs, passed, scalars, shape, common, device)
    return outs


def _resizable(out, shape):
    return not any(size == 0 for size in shape) and out.untyped_storage().resizable()


def _number(value, common, rounding):
    """A number among the inputs as it is passed: float for float dtypes, else int. None if it has no place there."""
    if isinstance(value, complex):
        return None
    if common.is_floating_point:
        if rounding == "common" and common is not torch.float64:
            return torch.tensor(value, dtype=torch.float64).to(common).item()
        return float(value)
    return int(value)


def passed_scalars(scalars, fills, common):
    """Scalars as they are passed, or `Native` where ATen has to decide: it refuses what `common` does not hold."""
    passed = []
    for i, value in enumerate(scalars):
        if value is None and fills:
            limits = torch.finfo(common) if common.is_floating_point else torch.iinfo(common)
            value = getattr(limits, fills[i]) if isinstance(fills[i], str) else fills[i]
        if isinstance(value, torch.Tensor):
            if value.dim() or value.device.type != "cpu":
                return Native("scalar on a device")
            value = value.item()
        if value is None:
            passed.append(None)
        elif isinstance(value, complex):
            return Native("scalar")
        elif common.is_floating_point:
            if abs(value) > torch.finfo(common).max and abs(value) != float("inf"):
                return Native("scalar")
            passed.append(float(value))
        elif isinstance(value, float):
            return Native("scalar")
        else:
            if common is not torch.bool and not torch.iinfo(common).min <= value <= torch.iinfo(common).max:
                return Native("scalar")
            passed.append(int(value))
    return tuple(passed)


def apply(rule, outs, inputs, scalars, shape, common, device, strides=None):
    """Picks the kernel and launches it, without any check. inputs: tensors on `device`, numbers, None; scalars: numbers, None. common: the promoted
    dtype. strides: a tuple of them for each tensor, outputs first, also negative ones, in place of the tensors' own; each tensor starts at the element 0, ..., 0."""
    on_cpu = device.type == "cpu"
    tensors = [*outs, *(x for x in inputs if isinstance(x, torch.Tensor))]
    block = 4096 if on_cpu else 1024
    kind, sizes, strides, tile = layout(shape, strides or [_shapes.broadcast_strides(tensor, shape) for tensor in tensors], len(outs), block)
    if on_cpu and len(sizes) > 1:
        kind, sizes, strides, tile = _rows_on_cpu(kind, sizes, strides, tile, block)
    numel = product(shape)
    arguments = {"outs": tuple(outs), "ins": tuple(inputs), "scalars": scalars}
    constants = rule.constants(common)

    if kind == "flat":
        its_strides = iter(strides[len(outs):])
        fixed = sum(1 << i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor) and not next(its_strides)[0])
        launch(kernels.flat, -(-numel // block), device, arguments | {"numel": numel}, constants | {"FIXED": fixed, "BLOCK": block})
        return

    wide = any(sum(abs(stride) * (size - 1) for stride, size in zip(operand, sizes)) > _LIMIT - 2 * block for operand in strides) or numel > _LIMIT - 2 * block
    its_strides = iter(strides)
    out_strides = tuple([next(its_strides) for _ in outs])
    in_strides = tuple([next(its_strides) if isinstance(x, torch.Tensor) else () for x in inputs])
    operands = out_strides + in_strides
    arguments |= {"sizes": sizes, "out_strides": out_strides, "in_strides": in_strides}
    constants |= {"UNIT": sum(1 << k for k, operand in enumerate(operands) if operand and operand[-1] == 1), "WIDE": wide}
    constants["STEPS"] = tuple([operand[-1] if operand and operand[-1] in _STEPS else 0 for operand in operands]) if on_cpu else ()
    integers = {name: "i64" if wide else "i32" for name in ("sizes", "out_strides", "in_strides", "numel")}
    if kind == "tiled":
        unit_rows = sum(1 << k for k, operand in enumerate(operands) if operand and operand[-2] == 1 and operand[-1] != 1)
        even = sizes[-1] % 16 == 0 and all(stride % 16 == 0 or stride == 1 and d < 2 for operand in operands for d, stride in enumerate(reversed(operand)))
        its_strides = iter(strides[len(outs):])
        fixed = sum(1 << i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor) and not next(its_strides)[-1])
        constants |= {"UNIT_ROWS": unit_rows, "FIXED": fixed if on_cpu else 0, "WHOLE": on_cpu, "ROWS": tile[0], "COLUMNS": tile[1], "EVEN": even}
        launch(kernels.tiled, _tiles(sizes, tile), device, arguments, constants, integers)
        return
    launch(kernels.strided, -(-numel // block), device, arguments | {"numel": numel}, constants | {"BLOCK": block}, integers)


def layout(shape, strides, outputs, block):
    """How operands of these strides, `outputs` of them outputs, which come first, are walked: (kind, sizes, strides, tile).

    kind: one of KINDS; sizes, strides: dimensions collapsed, those of a tile last; tile: (rows, columns) of "tiled". block: the elements of a program.
    """
    sizes, strides = _shapes.collapsed(shape, strides)
    if len(sizes) == 1 and all(stride[0] in (0, 1) for stride in strides) and (sizes[0] == 1 or all(stride[0] for stride in strides[:outputs])):
        return "flat", sizes, strides, None
    rows = _transposed(strides, len(sizes))
    if rows is not None:
        sizes, strides = _moved(sizes, strides, rows)
    if len(sizes) > 1 and (rows is not None or sizes[-1] >= 16):
        tile = _across(sizes, block) if rows is not None else _rows_and_columns(sizes, block)
        if _tiles(sizes, tile) <= _LIMIT:
            return "tiled", sizes, strides, tile
    return "strided", sizes, strides, None


def _rows_on_cpu(kind, sizes, strides, tile, block):
    """What `layout` gave for several dimensions, on CPUs, where a division takes longer than the elements of a short row.

    Where the last dimension has 2 to 4 elements, and those of the one before it are as far apart as whole registers move, the latter comes last, so that registers hold its elements: of a
    pixel shuffle, of pixels with few channels, of complex numbers. Other rows are computed one after the other, as short as they are.
    """
    if sizes[-1] > max(_STEPS) or sizes[-2] < 16 or any(operand[-2] not in (0, *_STEPS) for operand in strides):
        if kind == "strided" or _transposed(strides, len(sizes)) is None:
            tile = _rows_and_columns(sizes, block, 4)
        if _tiles(sizes, tile) <= _LIMIT:
            kind = "tiled"
        return kind, sizes, strides, tile

    def exchanged(items):
        return (*items[:-2], items[-1], items[-2])

    sizes = exchanged(sizes)
    rows, columns = _rows_and_columns(sizes, block, 4)
    return "tiled", sizes, [exchanged(operand) for operand in strides], (min(rows, step_up(sizes[-2], (2, 4))), columns)


def _across(sizes, block):
    """The tile of a program that reads or writes along both dimensions: a square; on GPUs, with blocks of 1024 elements, a longer one where one dimension has fewer than 32 elements."""
    rows, columns = (min(32, 1 << (size - 1).bit_length()) for size in sizes[-2:])
    if block != 1024 or rows == columns:
        return 32, 32
    if columns < rows:
        return min(1024 // columns, 1 << (sizes[-2] - 1).bit_length()), columns
    return rows, min(1024 // rows, 1 << (sizes[-1] - 1).bit_length())


def _rows_and_columns(sizes, block, fewest=64):
    """The tile of a program that computes rows, with so many columns at least."""
    columns = min(max(fewest, 1 << (sizes[-1] - 1).bit_length()), block)
    return block // columns, columns


def _tiles(sizes, tile):
    return -(-sizes[-1] // tile[1]) * -(-sizes[-2] // tile[0]) * product(sizes[:-2])


def _transposed(strides, rank):
    """The dimension, not the last, along which some operand is contiguous that is not so along the last one; None without such."""
    for d in reversed(range(rank - 1)):
        if any(operand[d] == 1 and operand[-1] > 1 for operand in strides):
            return d
    return None


def _moved(sizes, strides, d):
    """The same with dimension `d` just before the last."""

    def moved(items):
        return (*items[:d], *items[d + 1:-1], items[d], items[-1])

    return moved(sizes), [moved(operand) for operand in strides]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pointwise(Operator):
    """An operator of ATen that applies a scalar function.

    inputs: names of the arguments that are tensors, or numbers that take part in promotion, in the order of the function's parameters.
    scalars: names of the others. rules: {values of the arguments in `choices`, or OTHERS: Rule}, the most general one first; `choices` are arguments such as `rounding_mode`
    that choose a function. check: called with the values by name, returns why ATen has to decide, or None. ignored: arguments that change nothing.
    written: the argument that in-place overloads write and none reads: only these are served, and the functional ones in `fresh`, which write a tensor like it. fills: {scalar: what None means: a number, "max" or
    "min" of the promoted dtype}. mean_over: an input: the function
    has a further scalar, 1 divided by the input's number of elements where the argument `reduction` is 1 (the mean), else 1. contiguous: overloads whose new outputs are contiguous, whatever the inputs are.
    """
    inputs: tuple
    rules: dict
    scalars: tuple = ()
    choices: tuple = ()
    ignored: tuple = ()
    check: object = None
    written: str = None
    fills: dict = dataclasses.field(default_factory=dict)
    contiguous: tuple = ()
    mean_over: str = None
    fresh: tuple = ()

    family = "pointwise"

    def accepts(self, form):
        names = [argument.name for argument in form.arguments]
        if not set(names) <= {*self.inputs, *self.scalars, *self.choices, *self.ignored, self.written}:
            return False
        if self.written and form.kind != "inplace" and form.name not in self.fresh:
            return False
        if form.returns != next(iter(self.rules.values())).results or form.kind == "inplace" and form.returns != 1:
            return False
        kinds = {argument.name: argument for argument in form.arguments}
        return all(kinds[name].is_tensor or kinds[name].is_number for name in self.inputs if name in kinds) and \
            all(kinds[name].is_number or kinds[name].is_tensor for name in self.scalars if name in kinds) and any(argument.is_tensor for argument in form.arguments)

    @property
    def served_dtypes(self):
        """The promoted dtypes that are served by all rules."""
        return tuple(dtype for dtype in ALL if all(dtype in rule.dtypes for rule in self.rules.values()))

    def shape_class(self, form, values):
        tensors = [x for name in self.inputs if isinstance(x := values.get(name), torch.Tensor)]
        try:
            shape = torch.broadcast_shapes(*[x.shape for x in tensors])
        except RuntimeError:
            return None
        numel = product(shape)
        if not tensors or not numel:
            return None
        strides = [_shapes.broadcast_strides(x, shape) for x in tensors]
        if form.kind == "functional":
            strides = [_shapes.output_strides(shape, tensors), *strides]
        else:
            strides = [strides[0], *strides]
        return layout(shape, strides, 1, 1024)[0], (numel, )

    def routing_dtype(self, values):
        rule = next(iter(self.rules.values()))
        return _promotion.promoted([x for i, name in enumerate(self.inputs) if i not in rule.raw and (x := values.get(name)) is not None] or
                                   [values[name] for name in self.inputs if name in values], rule.promotion)[0]

    def call(self, form, values, outs):
        chosen = tuple([values.get(name) for name in self.choices])
        rule = self.rules.get(OTHERS) if any(isinstance(value, torch.Tensor) for value in chosen) else self.rules.get(chosen, self.rules.get(OTHERS))
        if rule is None:
            return Native("variant")
        if self.check is not None and (why := self.check(values)):
            return Native(why)
        inplace = form.kind == "inplace"
        if form.name in self.fresh:
            outs = [torch.empty_like(values[self.written])]
        scalars = [values.get(name) for name in self.scalars]
        if self.mean_over is not None:
            scalars.append(1 / max(1, values[self.mean_over].numel()) if values["reduction"] == 1 else 1.0)
        results = run(rule, [values[name] for name in self.inputs if name in values], scalars,
                      [values[form.arguments[0].name]] if inplace else outs, tuple([self.fills.get(name) for name in self.scalars]) if self.fills else (), bool(self.written), form.name in self.contiguous, form.kind == "out")
        if type(results) is Native:
            return results
        return results[0] if len(results) == 1 else tuple(results)


def pointwise(fn, promotion="default", *, scalars=(), results=1, raw=(), dtypes=ALL, numbers="common"):
    """Makes an operator of a scalar function in the language.

        @nereid.jit
        def smooth(x, y, beta): return tl.where(x > beta, x, y)

        smooth = nereid.ops.pointwise(smooth, scalars=["beta"])
        smooth(a, b, beta=0.5); smooth(a, b, 0.5, out=c)

    fn: a jit function with a parameter for each input, then one for each scalar. It gets blocks in the dtype to compute in, and returns one
    block for each result. A further parameter `NARROW: tl.constexpr = False` is true where results are of 16 bits, which need no more than the digits of an approximation. promotion: how the dtypes of the inputs give that of the results, one of "default", "int_to_float", "always_bool",
    "bool_to_long", "no_opmath" and "complex_to_float" (or a member of torch's ELEMENTWISE_TYPE_PROMOTION_KIND). scalars: names of the
    parameters that are numbers and do not take part in promotion. raw: names of inputs that are not promoted (masks). results: how many.
    dtypes: the promoted dtypes that are served. numbers: "compute" where a number among the inputs is not rounded to the promoted dtype first.

    The operator takes tensors of any strides and numbers, which are broadcast; `out=` (a tensor, or a tuple of them) is resized where it is
    empty. Results of floating dtypes have gradients in PyTorch's autograd, of inputs (not of scalars), where the compiler can differentiate `fn`
    (`nereid.grad`), and derivatives of these; with `out=` an input that requires a gradient is a RuntimeError. It raises TypeError for arguments that are no tensors or numbers and for dtypes that are not served, ValueError for shapes that do
    not fit and for outputs that overlap.
    """
    promotion = getattr(promotion, "name", promotion).lower()
    names = [name for name in fn.arg_names if name != "NARROW"]
    unknown = [name for name in (*scalars, *raw) if name not in names]
    if unknown:
        raise ValueError(f"`{unknown[0]}` is no parameter of `{fn.__name__}`: expected one of {', '.join(names)}")
    inputs = [name for name in names if name not in scalars]
    if names != [*inputs, *(name for name in names if name in scalars)]:
        raise ValueError(f"the scalars of `{fn.__name__}` stand before an input: its inputs come first")
    rule = Rule(function=fn, promotion=promotion, raw=tuple(inputs.index(name) for name in raw), dtypes=tuple(dtypes), results=results, numbers=numbers)
    return _Function(rule, fn.__name__, tuple(inputs), tuple(names[len(inputs):]))


class _Function:
    """What `pointwise` returns."""

    def __init__(self, rule, name, inputs, scalars):
        self.rule, self.__name__, self.inputs, self.scalars = rule, name, inputs, scalars
        functools.update_wrapper(self, rule.function, ("__doc__", "__module__"), ())

    def __call__(self, *args, out=None, **kwargs):
        names = (*self.inputs, *self.scalars)
        values = dict(zip(names, args))
        unknown = [name for name in kwargs if name not in names or name in values]
        values.update(kwargs)
        if len(args) > len(names) or unknown or len(values) < len(names):
            raise TypeError(f"{self.__name__}({', '.join(names)}, out=None) does not take these arguments" + (f": `{unknown[0]}`" if unknown else ""))
        inputs = [values[name] for name in self.inputs]
        for name, value in values.items():
            if not isinstance(value, (torch.Tensor, bool, int, float)) or name in self.scalars and isinstance(value, torch.Tensor):
                raise TypeError(f"`{name}` of {self.__name__} is {type(value).__name__}: expected a {'number' if name in self.scalars else 'tensor or a number'}")
        outs = None if out is None else list(out) if isinstance(out, (tuple, list)) else [out]
        if outs is not None and (len(outs) != self.rule.results or not all(isinstance(tensor, torch.Tensor) for tensor in outs)):
            raise TypeError(f"`out` of {self.__name__} has to be {self.rule.results} tensor{'s' if self.rule.results > 1 else ''}")
        scalars = [values[name] for name in self.scalars]

        def compute():
            found = run(self.rule, inputs, scalars, outs)
            if type(found) is Native:
                raise self._error(found.reason, inputs, outs)
            return found

        if not _gradients.is_wanted(inputs):
            found = compute()
        elif outs is not None:
            raise RuntimeError(f"{self.__name__}: a result in `out` has no gradient, and an input requires one; give inputs without (`x.detach()`)")
        else:
            found = _gradients.Pointwise.apply(compute, self.rule, self._passed(scalars, inputs), *inputs)
        return found[0] if len(found) == 1 else tuple(found)

    def _passed(self, scalars, inputs):
        """The scalars as the kernel takes them."""
        operands = [x for i, x in enumerate(inputs) if i not in self.rule.raw]
        passed = passed_scalars(scalars, (), _promotion.promoted(operands or inputs, self.rule.promotion)[0])
        if type(passed) is Native:
            raise self._error(passed.reason, inputs, None)
        return passed

    def _error(self, reason, inputs, outs):
        shapes = ", ".join(str(tuple(x.shape)) for x in inputs if isinstance(x, torch.Tensor))
        dtypes = ", ".join(str(x.dtype) for x in (*inputs, *(outs or ())) if isinstance(x, torch.Tensor))
        if reason == "shapes":
            return ValueError(f"{self.__name__}: the shapes {shapes} cannot be broadcast")
        if reason == "shape of the output":
            return ValueError(f"{self.__name__}: `out` has the shape {', '.join(str(tuple(t.shape)) for t in outs)}; expected the shape that {shapes} are broadcast to, or an empty tensor")
        if reason == "overlap":
            return ValueError(f"{self.__name__}: `out` shares memory with itself or, in another order, with an input; pass a copy")
        if reason == "devices":
            return TypeError(f"{self.__name__}: the tensors are on different devices")
        if reason == "no tensor":
            return TypeError(f"{self.__name__}: expected a tensor among the inputs")
        return TypeError(f"{self.__name__}: not made for these arguments ({reason}): tensors of {dtypes}; expected {', '.join(map(str, self.rule.dtypes))}")
