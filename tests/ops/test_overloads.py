"""Every registered overload, called by its schema: it is served, equals ATen's kernel, and refuses what that refuses."""

import pytest
import torch
from torch.utils import _pytree as pytree

import nereid.ops
import opinfo
from table import OPINFOS

CASES = [(operator, form) for operator in nereid.ops.OPERATORS.values() if operator.family == "pointwise" for form in operator.forms]
MASKS = ("condition", "mask")
#: Arguments that are no tensors, where 2 is not a good value.
NUMBERS = {"dim": -1, "reduction": 0, "scale": 1.5, "value": 3, "decimals": 1, "eps": 0.25, "lambd": 0.5, "beta": 2.0, "min": -1, "max": 2, "min_val": -1, "max_val": 2,
           "negative_slope": 0.25, "nan": 1.0, "posinf": 2.0, "neginf": -2.0}
#: Backward steps where ATen's vectors and its scalar loop (and GPUs) disagree about a NaN in the input.
WITHOUT_NAN = {"elu_backward", "hardswish_backward", "hardtanh_backward", "softshrink_backward", "hardshrink_backward", "logit_backward"}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, float("inf"), float("-inf"), float("nan"), 3.0, -3.0, 20.0, 1e-3]


def tensor(name, dtype, shape, device, seed):
    generator = torch.Generator().manual_seed(seed)
    if name in MASKS or dtype == torch.bool:
        return (torch.rand(shape, generator=generator) > 0.5).to(device)
    if dtype.is_floating_point:
        values = torch.randn(shape, generator=generator, dtype=torch.float64) * 2
        flat = values.view(-1)
        for i, special in enumerate(SPECIAL):
            flat[(i * 5 + seed) % flat.numel()] = special
        return (values.abs() if name == "buffer" else values).to(dtype).to(device)
    values = torch.randint(1, 7, shape, generator=generator)
    if dtype.is_signed:
        values *= torch.randint(0, 2, shape, generator=generator) * 2 - 1
    return values.to(dtype).to(device)


def arguments(form, dtype, device, layout):
    """(args, kwargs) for a form: by position what may be, tensors of `layout`."""
    values = {}
    for i, argument in enumerate(form.arguments):
        if argument.is_tensor:
            shape = (5, 8) if form.base == "glu" or form.base == "glu_backward" and argument.name == "self" else (5, 4) if form.base == "glu_backward" else (5, 7)
            if form.base in ("masked_fill", "fill") and argument.name == "value":
                shape = ()
            elif layout == "broadcast" and i > 0 and not form.base.startswith("glu"):
                shape = (7, ) if i % 2 else (5, 1)
            # A number in a tensor of the host: of one on a GPU, ATen has to read the element.
            value = tensor(argument.name, dtype, shape, device if shape else "cpu", i)
            if form.base in WITHOUT_NAN and value.is_floating_point():
                value = value.nan_to_num(0.75)
            if layout == "transposed" and i > 0 and value.dim() == 2:
                value = value.t().contiguous().t()
            elif layout == "sliced" and value.dim() == 2:
                value = torch.cat([value, value], 1)[:, ::2]
        elif argument.name in ("approximate", "rounding_mode"):
            value = {"approximate": "tanh", "rounding_mode": "floor"}[argument.name]
        elif argument.name in NUMBERS:
            value = NUMBERS[argument.name]
            value = int(value) if dtype in opinfo.DTYPES[:6] and not argument.type.startswith("float") else value
        elif argument.required or argument.type.startswith("Scalar"):
            value = argument.type == "bool" or 2
        else:
            value = argument.default
        values[argument.name] = value
    names = [argument.name for argument in form.arguments]
    return [values[name] for name in names[:form.positional]], {name: values[name] for name in names[form.positional:]}


def run(form, dtype, device, layout, outs=None, widen=False):
    args, kwargs = arguments(form, dtype, device, layout)
    if outs is not None:
        kwargs.update(zip(form.outs, [out.clone() for out in outs]))
    if widen:
        args, kwargs = pytree.tree_map_only(torch.Tensor, opinfo.widened, (args, kwargs))
    return opinfo.outcome(form.overload, *args, **kwargs)


@pytest.mark.parametrize("dtype", opinfo.DTYPES, ids=str)
@pytest.mark.parametrize("operator,form", CASES, ids=[form.name for _, form in CASES])
def test_overload(operator, form, dtype, target):
    if target == "cuda" and dtype == torch.bool and form.base in ("remainder", "fmod", "floor_divide"):
        return  # the divisors contain 0: undefined on GPUs
    if target == "cuda" and form.base == "log_sigmoid_backward":
        return  # its buffer is a matter of CPUs
    more = OPINFOS.get(operator.name, ((), {}))[1]
    if target == "cuda":
        more = more | more.get("gpu", {})
    served = 0
    for layout in ("plain", "broadcast", "transposed", "sliced") if dtype in (torch.float32, torch.int64) else ("plain", ):
        outs = None
        if form.kind == "out":
            functional = next(other for other in operator.forms if other.kind == "functional" and
                              [(a.name, a.type) for a in other.arguments] == [(a.name, a.type) for a in form.arguments])
            expected, error = run(functional, dtype, target, layout)
            if error is not None:
                continue
            outs = [torch.zeros_like(result) for result in opinfo.tensors(expected)]
        native, native_error = run(form, dtype, target, layout, outs)
        with nereid.ops.use(only=[form.name]):
            ours, error = run(form, dtype, target, layout, outs)
        what = f"{form.name} {layout}"
        if error is None and isinstance(native_error, NotImplementedError) and "not implemented for" in str(native_error):
            if target == "cpu":  # this version of PyTorch does not have it
                continue
            on_cpu, error = run(form, dtype, "cpu", layout, opinfo.on_host(outs))
            if error is not None:  # this version of PyTorch has it nowhere
                continue
            opinfo.check(opinfo.on_host(ours), on_cpu, None, more.get("ulps", 4), what, more.get("zeros", True))
            continue
        if native_error is not None or error is not None:
            assert error is not None and native_error is not None and opinfo.same_error(error, native_error), f"{what}: {error!r}; ATen: {native_error!r}"
            continue
        served += 1
        wide, _ = run(form, dtype, target, layout, outs, widen=True) if dtype in opinfo.NARROW else (None, None)
        ulps = more.get("fp64", 4) if dtype == torch.float64 else more.get("ulps", 4)
        opinfo.check(ours, native, wide, ulps, what, more.get("zeros", True), more.get("absolute", 0) * opinfo.magnitude(native))
    if served and dtype in operator.served_dtypes:
        assert opinfo.served(operator.name), f"{form.name} was not served: {nereid.ops.report()}"


def test_only_leaves():
    """A kernel for an operator that autograd sees through would make gradients None (`_schema.is_leaf`)."""
    from nereid.ops import _schema
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for operator in nereid.ops.OPERATORS.values():
        assert operator.forms
        for form in operator.forms:
            keys = [key for key in _schema.KEYS.values() if _schema.is_leaf(form.name, key)]
            assert keys and all(has(form.qualified, key) or not has(form.qualified, "CompositeImplicitAutograd") for key in keys), form.name


@pytest.mark.parametrize("name", ["square", "relu6", "isfinite", "absolute"])
def test_composed_operators_are_refused(name):
    from nereid.ops.pointwise import Pointwise, Rule
    from nereid.ops.functions import unary
    with pytest.raises(ValueError, match=f"`aten::{name}` is composed of other operators .* would make its gradient None"):
        nereid.ops.declare(Pointwise(name=name, inputs=("self", ), rules={(): Rule(function=unary.identity)}))
    assert name not in nereid.ops.OPERATORS


def test_declarations_that_are_wrong():
    from nereid.ops.pointwise import Pointwise, Rule
    from nereid.ops.functions import unary
    rules = {(): Rule(function=unary.identity)}
    with pytest.raises(LookupError, match="ATen has no operator `sine`"):
        nereid.ops.declare(Pointwise(name="sine", inputs=("self", ), rules=rules))
    with pytest.raises(ValueError, match="`sin` is declared twice"):
        nereid.ops.declare(Pointwise(name="sin", inputs=("self", ), rules=rules))
    with pytest.raises(ValueError, match="`linalg_qr` serves no overload"):
        nereid.ops.declare(Pointwise(name="linalg_qr", inputs=("self", ), rules=rules))
    with pytest.raises(LookupError, match="`without` of `linalg_eig` names `linalg_eig.other`, which is not among its overloads: linalg_eig"):
        nereid.ops.declare(Pointwise(name="linalg_eig", inputs=("self", ), rules=rules, without={"linalg_eig.other": "?"}))
    with pytest.raises(ValueError, match="`promotion` is 'floats': expected one of 'default'"):
        Rule(function=unary.identity, promotion="floats")


def test_nothing_is_absent():
    """In the version of PyTorch that the project tests with; older ones may lack operators."""
    from nereid.ops import _declare
    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13):
        assert _declare.ABSENT == {}
    assert not [name for name in _declare.ABSENT if hasattr(torch.ops.aten, name)]


def test_what_pytorch_lacks_is_noted(monkeypatch):
    from nereid.ops import _declare
    from nereid.ops.pointwise import Pointwise, Rule
    monkeypatch.setattr(_declare, "ABSENT", {})
    with _declare.as_far_as_known():
        for name in ("no_such_operator", "rms_norm"):
            nereid.ops.declare(Pointwise(name=name, inputs=("input", ), rules={(): Rule(function=None)}))
    assert sorted(_declare.ABSENT) == ["no_such_operator", "rms_norm"] and not set(_declare.ABSENT) & set(nereid.ops.OPERATORS)
    with pytest.raises(LookupError):
        nereid.ops.declare(Pointwise(name="no_such_operator", inputs=("input", ), rules={(): Rule(function=None)}))
