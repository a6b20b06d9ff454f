"""Matrix products of ATen."""

import dataclasses

import torch

from .. import products
from .._declare import Native, Operator, declare
from .._shapes import overlaps_itself
from .._strided import FLOATS, INTEGERS, NARROW
from ..functions import arithmetic
from ..pointwise import ALL, Pointwise, Rule, run
from ..products import multiply

NUMBERS = (*INTEGERS, *FLOATS)
HALVES = (torch.float16, torch.bfloat16)


def _dtype_of(tensors):
    """The dtype that all tensors (None is passed over) have, or `Native` where kernels have none, or ATen has to complain."""
    first = tensors[0]
    for tensor in tensors:
        if tensor is None:
            continue
        if tensor.layout is not torch.strided or tensor.is_neg():
            return Native("layout")
        if tensor.device != first.device:
            return Native("devices")
        if tensor.dtype != first.dtype:
            return Native("dtypes differ")
    if first.dtype not in (NUMBERS if first.device.type == "cpu" else FLOATS):
        return Native("dtype")
    return first.dtype


def _factor(value, dtype):
    """A number as it multiplies, or `Native` where ATen has to decide."""
    if isinstance(value, complex) or not dtype.is_floating_point and not isinstance(value, int):
        return Native("scalar")
    return value


def _extent(tensor):
    size = tensor.element_size()
    first = tensor.data_ptr()
    return first, first + (sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride())) + 1) * size


def _meets(a, b):
    """Whether the memory between the first and the last elements of two tensors overlaps."""
    if not a.numel() or not b.numel():
        return False
    (first, end), (other_first, other_end) = _extent(a), _extent(b)
    return first < other_end and other_first < end


def output(outs, shape, dtype, device, read, added=None):
    """The output: the caller's, or a new contiguous one; `Native` before anything is changed.

    read: tensors of which all elements are read for each element of the output. added: a tensor that is read element by element, or None.
    """
    if outs is None:
        return torch.empty(shape, dtype=dtype, device=device)
    out = outs[0]
    if out.dtype != dtype or out.device != device or out.layout is not torch.strided or out.is_neg():
        return Native("dtype of the output")
    if tuple(out.shape) != tuple(shape):
        if out.numel() or not out.untyped_storage().resizable():
            return Native("shape of the output")
        out.resize_(shape)
        return out
    if overlaps_itself(out) or any(_meets(out, tensor) for tensor in read):
        return Native("overlap")
    if added is not None and _meets(out, added) and (added.data_ptr() != out.data_ptr() or added.shape != out.shape or added.stride() != out.stride()):
        return Native("overlap")
    return out


def _added_strides(added, shape):
    """The strides of the tensor that is added, expanded to `shape`; None if it cannot be."""
    missing = len(shape) - added.dim()
    if missing < 0:
        return None
    strides = [0] * missing
    for size, stride, wanted in zip(added.shape, added.stride(), shape[missing:]):
        if size != wanted and size != 1:
            return None
        strides.append(0 if size == 1 else stride)
    return strides


@dataclasses.dataclass(frozen=True, kw_only=True)
class Product(Operator):
    """A product of matrices, with or without a tensor `self` that is added.

    left, right: the arguments that are multiplied. rank: of `left`; right_rank: of `right`, one less for a vector. added: whether `self` is added. summed:
    whether the products of a batch are added up. activations: what `use_gelu` chooses, (without, with) on the CPU and on GPUs, or None.
    result: the dtype of the result where it is not that of the operands, which then are int8.
    """
    left: str
    right: str
    rank: int = 2
    right_rank: int = 2
    added: bool = False
    summed: bool = False
    activations: tuple = None
    result: object = None

    family = "product"

    def accepts(self, form):
        names = {argument.name for argument in form.arguments} - {"out_dtype"}
        known = {self.left, self.right} | ({"self", "beta", "alpha"} if self.added else set()) | ({"use_gelu"} if self.activations else set())
        return names == known and form.returns == 1

    @property
    def served_dtypes(self):
        return (torch.int8, ) if self.result else NUMBERS

    def _sizes(self, values):
        """(batches, m, n, k), or None for shapes that do not fit."""
        a, b = values[self.left], values[self.right]
        if a.dim() != self.rank or b.dim() != self.right_rank or not a.numel() or not b.numel():
            return None
        return a.shape[0] if self.rank == 3 else 1, a.shape[-2], 1 if self.right_rank < self.rank else b.shape[-1], a.shape[-1]

    def shape_class(self, form, values):
        sizes = self._sizes(values)
        if sizes is None:
            return None
        return "".join("n" if x.stride(-1) == 1 else "t" for x in (values[self.left], values[self.right])), sizes

    def configurations(self, form, values):
        a, sizes = values[self.left], self._sizes(values)
        if sizes is None or min(sizes[1:]) < 2 or a.dtype not in (*HALVES, torch.float32, torch.float64):
            return None
        batches, m, n, k = (1, *sizes[1:3], sizes[0] * sizes[3]) if self.summed else sizes
        precision = products.fp32_precision(a.device) if a.dtype == torch.float32 else "ieee"
        return products.problem(a.device, a.dtype, batches, m, n, k), products.candidates(a.device, a.dtype, batches, m, n, k, precision)

    def call(self, form, values, outs):
        a, b, added = values[self.left], values[self.right], values["self"] if self.added else None
        result = values.get("out_dtype")
        # With `out_dtype`, what is added may have this dtype, too.
        dtype = _dtype_of((a, b) if added is None or result is not None and added.dtype == result else (a, b, added))
        if type(dtype) is Native:
            return dtype
        if self.result and (dtype != torch.int8 or a.device.type != "cpu"):
            return Native("dtype")
        if result is not None and (dtype not in HALVES or result not in (dtype, torch.float32) or added is not None and added.device != a.device):
            return Native("dtype")
        result = self.result or result or dtype
        if a.dim() != self.rank or b.dim() != self.right_rank:
            return Native("shapes")
        alpha, beta = (_factor(values["alpha"], dtype), _factor(values["beta"], dtype)) if self.added else (1, 1)
        if type(alpha) is Native or type(beta) is Native:
            return Native("scalar")
        batches = a.shape[0] if self.rank == 3 else 1
        m, k = a.shape[-2:]
        vector = self.right_rank < self.rank
        n = 1 if vector else b.shape[-1]
        if b.shape[-1 if vector else -2] != k or self.rank == 3 and b.shape[0] != batches:
            return Native("shapes")
        if max(batches, m, n, k) > NARROW:
            return Native("size")
        shape = (m, ) if vector else (m, n) if self.rank == 2 or self.summed else (batches, m, n)
        added_strides = None
        if added is not None:
            added_strides = _added_strides(added, shape)
            if added_strides is None:
                return Native("shapes")
        activation = self._activation(values, dtype, a.device)
        if type(activation) is Native:
            return activation
        if form.kind == "inplace":
            outs = [values["self"]]
            if tuple(outs[0].shape) != shape:
                return Native("shapes")
        out = output(outs, shape, result, a.device, (a, b), None if beta == 0 else added)
        if type(out) is Native:
            return out
        if not out.numel():
            return out
        out_strides = out.stride()
        if vector:
            out_strides, added_strides = (*out_strides, 1), None if added is None else (*added_strides, 0)
        if len(out_strides) == 2:
            out_strides, added_strides = (0, *out_strides), None if added is None else (0, *added_strides)
        a_strides, b_strides = a.stride(), (*b.stride(), 0) if vector else b.stride()
        if self.rank == 2:
            a_strides, b_strides = (0, 0, *a_strides), (0, 0, *b_strides)
        elif self.summed:
            a_strides, b_strides = (0, *a_strides), (0, *b_strides)
        else:
            a_strides, b_strides = (a_strides[0], 0, *a_strides[1:]), (b_strides[0], 0, *b_strides[1:])
        outer = batches if self.summed else 1
        if outer == 0:
            outer, k = 1, 0
        multiply(out, a, b, added, (1 if self.summed else batches, m, n, k), (tuple(out_strides), a_strides, b_strides, tuple(added_strides) if added_strides else (0, 0, 0)),
                 alpha, beta, activation, outer)
        return out

    def _activation(self, values, dtype, device):
        if self.activations is None:
            return None
        name = self.activations[device.type][values["use_gelu"]]
        return Native("dtype") if name != "relu" and not dtype.is_floating_point else name


declare(Product(name="mm", left="self", right="mat2"))
declare(Product(name="bmm", left="self", right="mat2", rank=3, right_rank=3))
declare(Product(name="mv", left="self", right="vec", right_rank=1))
declare(Product(name="addmm", left="mat1", right="mat2", added=True))
declare(Product(name="addmv", left="mat", right="vec", right_rank=1, added=True))
declare(Product(name="baddbmm", left="batch1", right="batch2", rank=3, right_rank=3, added=True))
declare(Product(name="addbmm", left="batch1", right="batch2", rank=3, right_rank=3, added=True, summed=True))
declare(Product(name="_addmm_activation", left="mat1", right="mat2", added=True, activations={"cpu": ("relu", "gelu"), "cuda": ("relu", "gelu_tanh")}))
declare(Product(name="_int_mm", left="self", right="mat2", result=torch.int32))


@dataclasses.dataclass(frozen=True, kw_only=True)
class OuterProduct(Pointwise):
    """`addr`: beta * self + alpha * the outer product of two vectors, elementwise. Rules: with `self`, and without where beta is 0."""

    def accepts(self, form):
        return {argument.name for argument in form.arguments} == {"self", "vec1", "vec2", "beta", "alpha"}

    def call(self, form, values, outs):
        x, column, row, beta, alpha = (values[name] for name in ("self", "vec1", "vec2", "beta", "alpha"))
        if column.dim() != 1 or row.dim() != 1 or x.dim() > 2:
            return Native("shapes")
        if isinstance(beta, complex) or isinstance(alpha, complex):
            return Native("scalar")
        shape = (column.shape[0], row.shape[0])
        if form.kind == "inplace":
            outs = [x]
            if tuple(x.shape) != shape:
                # ATen's in-place form calls the one with `out=`, through the dispatcher, where a wrong `self` is no longer seen to be the output, and is resized.
                raise RuntimeError(f"2D tensor expected, got {x.dim()}D tensor for input" if x.dim() != 2 else
                                   f"size mismatch, input: {list(x.shape)}, v1: {list(column.shape)}, v2: {list(row.shape)}")
        if _added_strides(x, shape) is None:
            return Native("shapes")
        found = run(self.rules[(beta == 0, )], [x, column.unsqueeze(1), row], (beta, alpha), outs)
        return found if type(found) is Native else found[0]


declare(OuterProduct(name="addr", inputs=("self", "vec1", "vec2"), scalars=("beta", "alpha"), rules={
    (False, ): Rule(function=arithmetic.add_outer, dtypes=ALL),
    (True, ): Rule(function=arithmetic.scaled_outer, dtypes=ALL),
}))
