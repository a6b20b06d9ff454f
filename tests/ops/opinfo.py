"""PyTorch's own samples of its operators (`op_db`), run with and without `nereid.ops`, and how the results are compared.

`rows()` is what there is to test: an operator of the registry with an OpInfo that reaches it. The reference is ATen's kernel on the same input,
and the same in fp64 where the input is a narrower float. Other suites of `nereid.ops` use this module, too.
"""

import dataclasses
import functools
import sys
import types
import unittest
import warnings

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import nereid.ops

try:
    import expecttest  # noqa: F401
except ImportError:  # the samples do not need it, only the base class of PyTorch's own tests beside them
    sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.common_utils import noncontiguous_like  # noqa: E402

DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)
#: Elements of a large sample.
LARGE = 1 << 14
NARROW = (torch.float16, torch.bfloat16, torch.float32)


@dataclasses.dataclass(frozen=True)
class Row:
    """operator: the base operator under test. info: the OpInfo. ulps: how many units in the last place a float result may be off, besides
    what ATen's own kernel is off. zeros: the signs of zeros count. absolute: how much it may be off where terms cancel, in units of the dtype's
    eps times the largest magnitude among the floats of the call. fp64: the ulps of fp64, where ATen computes with constants of fp32. places: results are
    (values, places along a dimension), and among equal values any place is right; the number is the position of the argument `dim`. ties: among values that occur equally often any is right. mixed_inplace: in-place samples count whose tensors are of other dtypes than the one that is written. gpu: {field: value} that holds on GPUs instead."""
    operator: str
    info: object
    ulps: float = 4
    fp64: float = 4
    zeros: bool = True
    absolute: float = 0
    places: int = None
    ties: bool = False
    mixed_inplace: bool = True
    gpu: dict = dataclasses.field(default_factory=dict)

    def on(self, device):
        """The row for a type of device."""
        return dataclasses.replace(self, gpu={}, **self.gpu) if device != "cpu" else self

    @property
    def name(self):
        variant = self.info.variant_test_name
        return f"{self.operator}-{self.info.name}" + (f".{variant}" if variant else "")

    def dtypes(self, device):
        return [dtype for dtype in DTYPES if dtype in self.info.supported_dtypes(device)]


def find(name):
    """The OpInfos of that name, with all their variants, or one variant ("nn.functional.pad.reflect"). Raises LookupError without any."""
    found = [info for info in op_db if name in (info.name, f"{info.name}.{info.variant_test_name}")]
    if not found:
        raise LookupError(f"op_db has no `{name}`")
    return found


@functools.cache
def aten_names():
    names = {}
    for info in op_db:
        for name in {info.name, info.name.removeprefix("nn.functional."), info.aten_name} - {None}:
            names.setdefault(name, []).append(info)
    return names


def rows(table):
    """[Row] of all registered operators. table: {operator: (names of OpInfos, {keyword of Row: value})}; who is not in it has the OpInfos of
    its own name. Operators without any are not listed here: `tests/ops/test_overloads.py` calls every overload by its schema."""
    result = []
    for operator in nereid.ops.OPERATORS:
        names, more = table.get(operator, ((operator, ), {}))
        infos = [info for name in names for info in (aten_names().get(name, []) if operator not in table else find(name))]
        result += [Row(operator, info, **more) for info in infos]
    return result


def is_wrong_with_out(info, device):
    """Whether PyTorch's own tests pass over `out=` of an operator on GPUs alone: there ATen writes avg_pool2d, for one, into any `out=` as if that were contiguous."""
    return device != "cpu" and any(getattr(mark, "test_name", "") == "test_out" and mark.device_type == device for mark in info.decorators)


def samples(info, device, dtype, requires_grad=False, reference=True):
    """SampleInputs of an OpInfo, the reference inputs behind them."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(info.sample_inputs(device, dtype, requires_grad=requires_grad))
        if reference and not requires_grad:
            found += list(info.reference_inputs(device, dtype))
    # Of the large ones only the first: what they test, several programs, is the same in all.
    if device != "cpu":  # kernels of GPUs draw in an order of their own
        found = [sample for sample in found if not sample.kwargs.get("dropout_p")]
    large = [sample for sample in found if sum(tensor.numel() for tensor in tensors(sample.input, sample.args)) > LARGE]
    return [sample for sample in found if not any(sample is other for other in large[1:])]


def tensors(*values):
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def copied(sample, change=lambda tensor: tensor):
    """(args, kwargs) of a sample, its tensors cloned with their strides and then changed."""

    def copy(value):
        if not isinstance(value, torch.Tensor):
            return value
        clone = value.detach()
        if _dense(value):
            clone = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device).copy_(clone)
        return change(clone).requires_grad_(value.requires_grad)

    return pytree.tree_map(copy, (sample.input, *sample.args)), pytree.tree_map(copy, dict(sample.kwargs))


def _dense(tensor):
    return torch._prims_common.is_non_overlapping_and_dense_or_false(tensor)


def outcome(function, *args, **kwargs):
    """(result, None) or (None, the exception). Random numbers begin anew."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args, **kwargs), None
        except Exception as error:
            return None, error


def widened(value, integers=False):
    """Narrow floats as fp64; with `integers` those, too (bools stay)."""
    if value.dtype in NARROW or integers and not value.dtype.is_floating_point and not value.dtype.is_complex and value.dtype != torch.bool:
        return value.detach().to(torch.float64).requires_grad_(value.requires_grad)
    return value


def magnitude(*values):
    """The largest finite magnitude among the floats of trees of values, at least 1."""
    found = [tensor.detach().double().abs() for tensor in tensors(*values) if tensor.dtype.is_floating_point and tensor.numel()]
    return max([1.0, *(tensor[tensor.isfinite()].max().item() for tensor in found if tensor.isfinite().any())])


class Rounded(TorchDispatchMode):
    """Every float that an operator computes is off by `ulps` units in the last place, up or down at random: so far may a result be off that is made
    of several operators. (Monte Carlo arithmetic: D. S. Parker, 1997.) Views, and tensors that are written in place, stay as they are."""

    def __init__(self, ulps, seed):
        super().__init__()
        self.ulps, self.random = ulps, torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if any(returned.alias_info is not None for returned in function._schema.returns):
            return result
        return pytree.tree_map_only(torch.Tensor, lambda tensor: self.off(tensor, self.ulps), result)

    def off(self, tensor, ulps):
        if not tensor.dtype.is_floating_point:
            return tensor
        sign = torch.randint(0, 2, tensor.shape, generator=self.random).to(tensor.device, torch.float64) * 2 - 1
        return tensor + tensor * (sign * (ulps * torch.finfo(tensor.dtype).eps)).to(tensor.dtype)


#: The most that `scatter` grants results of a single operator, in units in the last place.
MOST = 128


def scatter(function, inputs, ulps, native, composed):
    """How far each float of `native`, the results of `function`, may be off: twice the largest distance in 8 runs whose arguments are off by one unit in
    the last place at random. That is what a good algorithm can promise where there is no wider reference (mixed stability: N. Higham, "Accuracy and Stability of
    Numerical Algorithms", 1.5); at most `MOST` units, since it says little about the sine of a large number. composed: the function calls several operators, each of which may be off by
    `ulps` units (`Rounded`), and nothing limits what comes of that. inputs: a function that makes (args, kwargs)."""
    most = [torch.zeros_like(tensor, dtype=torch.float64) for tensor in tensors(native)]
    for seed in range(8):
        args, kwargs = inputs()
        rounded = Rounded(ulps if composed else 0, seed)
        with torch.no_grad():
            for tensor in tensors(args, kwargs):
                for dim in [dim for dim, stride in enumerate(tensor.stride()) if stride == 0 and tensor.shape[dim]]:
                    tensor = tensor.narrow(dim, 0, 1)
                if tensor.dtype.is_floating_point:
                    tensor.copy_(rounded.off(tensor.detach(), 1))
        if composed:
            with rounded:
                found, error = outcome(function, *args, **kwargs)
        else:
            found, error = outcome(function, *args, **kwargs)
        if error is not None:
            raise error
        for bound, tensor, reference in zip(most, tensors(found), tensors(native)):
            distance = 2 * (tensor.detach().double() - reference.detach().double()).abs()
            if not composed and reference.dtype.is_floating_point:
                distance = distance.minimum(MOST * torch.finfo(reference.dtype).eps * reference.detach().double().abs())
            torch.maximum(bound, torch.where(distance.isfinite(), distance, 0), out=bound)
    return most


def check(ours, native, wide, ulps, what, zeros=True, absolute=0, spread=None):
    """Asserts that results agree. ours, native: trees of results; wide: ATen's in fp64, or None; what: a text for the message.
    zeros, absolute: see `difference`. spread: a function that gives how far each result may be off besides; it is called only when one is too far off."""
    spread = functools.cache(spread) if spread is not None else None
    ours, native = pytree.tree_leaves(ours), pytree.tree_leaves(native)
    wide = pytree.tree_leaves(wide) if wide is not None else [None] * len(native)
    assert len(ours) == len(native), what
    for index, (mine, theirs) in enumerate(zip(ours, native)):
        if not isinstance(theirs, torch.Tensor):
            assert mine == theirs or mine != mine and theirs != theirs, what
            continue
        where = f"{what}: result {index}"
        assert mine.dtype == theirs.dtype, f"{where}: dtype {mine.dtype} instead of {theirs.dtype}"
        assert mine.shape == theirs.shape, f"{where}: shape {tuple(mine.shape)} instead of {tuple(theirs.shape)}"
        assert mine.device == theirs.device, f"{where}: on {mine.device} instead of {theirs.device}"
        if theirs.numel():
            assert _strides(mine) == _strides(theirs), f"{where}: strides {mine.stride()} instead of {theirs.stride()} of shape {tuple(theirs.shape)}"
        reference = wide[index] if index < len(wide) else None
        reference = reference if isinstance(reference, torch.Tensor) else None
        problem = difference(mine, theirs, reference, ulps, zeros, absolute)
        if problem is not None and spread is not None and theirs.dtype.is_floating_point:
            problem = difference(mine, theirs, reference, ulps, zeros, absolute, spread()[index])
        assert problem is None, f"{where}: {problem}"


def with_places(row, inputs, ours, native):
    """`ours`, where its places lead to its values in the input, with the places of `native`; with its values as well, where `row.ties` and the line has both equally often."""
    if row.places is None or len(tensors(ours)) != 2 or len(tensors(native)) != 2:
        return ours
    args, kwargs = inputs
    (values, places), x = tensors(ours), args[0]
    dim = kwargs.get("dim", args[row.places] if len(args) > row.places else -1)
    line, at = (x, places) if x.dim() else (x.view(1), places.reshape(1))
    at = at if at.dim() == line.dim() else at.unsqueeze(dim)
    found = line.gather(dim, at).reshape(values.shape)
    right = (found == values) | (found != found) & (values != values)
    if not right.all():
        return ours
    if row.ties:
        theirs = tensors(native)[0]
        often = [(line == (value.reshape(1) if value.dim() == 0 else value.reshape(at.shape))).sum(dim, keepdim=True).reshape(values.shape) for value in (values, theirs)]
        values = torch.where(often[0] == often[1], theirs, values)
    return values, tensors(native)[1]


def _strides(tensor):
    """Those that matter."""
    return [stride for stride, size in zip(tensor.stride(), tensor.shape) if size > 1]


def difference(mine, theirs, wide, ulps, zeros=True, absolute=0, spread=0):
    """None, or what is wrong. A float may be as ATen's, or within `ulps` units in the last place of ATen's or of the fp64 result, or no further from that than
    twice ATen's largest error in the tensor, or off by `absolute` eps or by `spread` (a number, or one for each element). Everything else is equal. With `zeros`, equal zeros have equal signs
    where ATen's agrees with fp64's."""
    mine, theirs = mine.detach(), theirs.detach()
    if theirs.is_complex():
        return difference(torch.view_as_real(mine.resolve_conj()), torch.view_as_real(theirs.resolve_conj()), None, ulps)
    if not theirs.dtype.is_floating_point:
        if torch.equal(mine, theirs):
            return None
        return _worst(mine != theirs, mine, theirs, wide)
    eps, tiny = torch.finfo(theirs.dtype).eps, torch.finfo(theirs.dtype).tiny
    a, b = mine.double(), theirs.double()

    def near(x, y):
        return (x == y) | (x.isnan() & y.isnan()) | ((x - y).abs() <= ulps * eps * y.abs().clamp(min=tiny) + absolute * eps + spread)

    good = near(a, b)
    if wide is not None and wide.dtype == torch.float64 and wide.shape == theirs.shape:
        exact = wide.detach()
        rounded = exact.to(theirs.dtype).double()
        error = (b - rounded).abs()
        error = error[error.isfinite()]
        most = 2 * error.max().item() if error.numel() else 0
        good |= near(a, exact) | near(a, rounded) | ((a - rounded).abs() <= most)
    if good.all():
        signs = (a == 0) & (b == 0) & (a.signbit() != b.signbit()) if zeros else torch.zeros_like(good)
        if wide is not None and wide.dtype == torch.float64 and wide.shape == theirs.shape:
            signs &= b.signbit() == wide.detach().signbit()
        return None if not signs.any() else "the sign of zero: " + _worst(signs, mine, theirs, wide)
    return _worst(~good, mine, theirs, wide)


def _worst(bad, mine, theirs, wide):
    at = tuple(bad.nonzero()[0].tolist())
    text = f"{int(bad.sum())} of {bad.numel()} elements differ, for instance at {at}: {mine[at].item()!r} instead of {theirs[at].item()!r}"
    return text + (f" (fp64: {wide[at].item()!r})" if wide is not None and wide.shape == theirs.shape else "")


def misread(name, args, kwargs):
    """Whether ATen's kernel for GPUs is known to be wrong: `embedding` and `embedding_bag` with `max_norm` take the stride of the table's rows for their length (embedding_renorm_cuda_, PyTorch 2.11)."""
    return name in ("nn.functional.embedding", "nn.functional.embedding_bag") and kwargs.get("max_norm") is not None and any(
        tensor.is_cuda and tensor.is_floating_point() and not tensor.is_contiguous() for tensor in tensors(args, kwargs))


def compare_call(function, *args, only=None, ulps=4, absolute=8, zeros=False, host=False):
    """Asserts that a call gives with `nereid.ops` what it gives natively, and that its results are as near to those of fp64 (`check`).

    only: the overload that has to be served, or None. Where ATen lacks the dtype on GPUs, or with `host`, its results are those of the CPU.
    """

    def copies(change=lambda tensor: tensor):
        return pytree.tree_map_only(torch.Tensor, lambda tensor: change(copied(types.SimpleNamespace(input=tensor, args=(), kwargs={}))[0][0]), args)

    native, error = outcome(function, *copies())
    wide, host = None, host or lacks(error, args)
    if host:
        native = function(*on_host(copies()))
    elif error is not None:
        raise error
    elif any(tensor.dtype in NARROW for tensor in tensors(args)):
        wide = function(*copies(widened))
    nereid.ops.report(clear=True)
    with nereid.ops.use(routing=False):
        ours = function(*copies())
    if host:
        ours = on_host(ours)
    what = describe(args, {})
    check(ours, native, wide, ulps, what, zeros, absolute * magnitude(args, native))
    if only is not None:
        assert any(row.overload == only and row.route == "nereid" for row in nereid.ops.report()), f"{only} was not served: {nereid.ops.report()}"


def same_error(mine, theirs):
    """Whether two exceptions are the same to a user."""
    return type(mine) is type(theirs) and str(mine).splitlines()[:1] == str(theirs).splitlines()[:1]


def served(operator):
    """How many calls of an operator's overloads went to Nereid since the report was cleared."""
    names = {form.name for form in nereid.ops.OPERATORS[operator].forms}
    return sum(row.calls for row in nereid.ops.report() if row.route == "nereid" and row.overload in names)


def called(operator):
    """Whether an operator was called at all, with more than numbers of the host: not all versions of PyTorch reach it in the same way."""
    names = {form.name for form in nereid.ops.OPERATORS[operator].forms}
    return any(row.overload in names and row.reason != "scalar" for row in nereid.ops.report())


#: What ATen refuses on GPUs alone: a dtype, more dimensions than its kernels' arguments hold, orders in memory that it takes apart by `view` (channel_shuffle).
_REFUSED_ON_GPUS = ((NotImplementedError, "not implemented for"), (RuntimeError, "CUDA Tensors cannot have more than 25 dimensions"), (RuntimeError, "view size is not compatible with input tensor's size"))


def lacks(error, *values):
    """Whether ATen has refused what it computes on CPUs, where some tensor is on a GPU. Ours may serve it: `on_host` gives what is right."""
    refused = any(isinstance(error, kind) and text in str(error) for kind, text in _REFUSED_ON_GPUS)
    return refused and any(tensor.is_cuda for tensor in tensors(*values))


def on_host(value):
    """A tree of values with its tensors on the CPU."""
    return pytree.tree_map_only(torch.Tensor, torch.Tensor.cpu, value)


def describe(args, kwargs):
    """The arguments of a call in one line."""

    def one(value):
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}" + ("" if value.is_contiguous() else f"/{list(value.stride())}")
        return repr(value)

    return ", ".join([*(str(pytree.tree_map(one, value)) for value in args), *(f"{name}={pytree.tree_map(one, value)}" for name, value in kwargs.items())])


__all__ = ["DTYPES", "Row", "check", "compare_call", "copied", "describe", "difference", "find", "noncontiguous_like", "op_db", "outcome", "rows", "same_error", "samples",
           "served", "tensors", "widened"]
