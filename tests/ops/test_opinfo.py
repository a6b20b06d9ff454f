"""PyTorch's samples of every registered operator: values, dtypes, strides, errors, `out=`, in-place, gradients (opinfo.py)."""

import dataclasses
import functools

import pytest
import torch

import nereid.ops
import opinfo

#: Strides and layouts that `noncontiguous_like` does not make.
LAYOUTS = {
    "plain": lambda tensor: tensor,
    "noncontiguous": opinfo.noncontiguous_like,
    "transposed": lambda tensor: tensor.transpose(0, -1).contiguous().transpose(0, -1) if tensor.dim() > 1 else tensor,
}


@pytest.fixture(autouse=True)
def full_precision(monkeypatch):
    """Convolutions of fp32 are not computed in tf32, which ATen uses for some of them only."""
    monkeypatch.setattr(torch.backends.cudnn.conv, "fp32_precision", "ieee")


def compare(row, cases, composed=False):
    """Runs cases natively, natively in fp64, then with `nereid.ops`, and compares. cases: [(text, function, sample, change of its tensors)]. composed: the
    functions call several operators, whose rounding errors may grow (`opinfo.scatter`). Returns how many had results, 0 if ATen lacks the dtype."""
    samples = [sample for *_, sample, _ in cases]
    devices = [tensor.device.type for sample in samples for tensor in opinfo.tensors(sample.input, sample.args, sample.kwargs)] + [sample.kwargs["device"] for sample in samples if "device" in sample.kwargs]
    prepared, row = [], row.on(torch.device(devices[0]).type if devices else "cpu")
    for what, function, sample, change in cases:
        args, kwargs = opinfo.copied(sample, change)
        if opinfo.misread(row.info.name, args, kwargs):
            continue
        what = f"{what} {row.info.name}({opinfo.describe(args, kwargs)})"
        native, error = opinfo.outcome(getattr(function, "reference", function), *args, **kwargs)
        wide = None
        # A wider output of narrow operands holds what was computed in the narrow dtype.
        narrow = any(tensor.dtype in opinfo.NARROW for tensor in opinfo.tensors(native, args, kwargs))
        if narrow and any(result.dtype.is_floating_point for result in opinfo.tensors(native)):
            integers = not any(tensor.dtype.is_floating_point for tensor in opinfo.tensors(args, kwargs))
            args, kwargs = opinfo.copied(sample, lambda tensor: opinfo.widened(change(tensor), integers))
            wide, _ = opinfo.outcome(getattr(function, "plain", function), *args, **kwargs)
        prepared.append((what, function, opinfo.copied(sample, change), opinfo.copied(sample, change), native, error, wide, sample, change))
    with nereid.ops.use():
        results = [opinfo.outcome(function, *args, **kwargs) for _, function, (args, kwargs), *_ in prepared]
    compared, lacking = 0, False
    for (what, function, inputs, originals, native, native_error, wide, sample, change), (ours, error) in zip(prepared, results):
        lacking |= opinfo.lacks(native_error, inputs)
        if error is None and opinfo.lacks(native_error, inputs):
            on_cpu, error = opinfo.outcome(function, *opinfo.on_host(originals[0]), **opinfo.on_host(originals[1]))
            assert error is None or isinstance(native_error, NotImplementedError), f"{what}: no error; ATen, on CPUs as well: {error}"
            if error is None:
                opinfo.check(opinfo.on_host(ours), on_cpu, None, row.ulps, what, row.zeros)
            continue
        if native_error is not None or error is not None:
            assert native_error is not None and error is not None and opinfo.same_error(error, native_error), \
                f"{what}: {type(error).__name__}: {error}; ATen: {type(native_error).__name__}: {native_error}"
            continue
        absolute = row.absolute * opinfo.magnitude(inputs, native) if row.absolute else 0
        ulps = row.fp64 if any(result.dtype == torch.float64 for result in opinfo.tensors(native)) else row.ulps
        spread = functools.partial(opinfo.scatter, function, functools.partial(opinfo.copied, sample, change), ulps, native, composed) if composed or wide is None else None
        opinfo.check(opinfo.with_places(row, inputs, ours, native), native, wide, ulps, what, row.zeros, absolute, spread)
        compared += 1
    return 0 if lacking else compared


def test_samples(row, dtype, target):
    found = opinfo.samples(row.info, target, dtype)
    compared = compare(row, [(name, row.info.op, sample, change) for name, change in LAYOUTS.items() for sample in (found if name == "plain" else found[:20])])
    if compared and dtype in getattr(nereid.ops.OPERATORS[row.operator], "served_dtypes", ()):
        assert opinfo.served(row.operator) or not opinfo.called(row.operator), f"no call of `{row.operator}` was served: {nereid.ops.report()}"


def test_inplace(row, dtype, target):
    if row.info.inplace_variant is None:
        return

    def inplace(x, *args, **kwargs):
        result = row.info.inplace_variant(x, *args, **kwargs)
        assert result is x
        return x

    found = [sample for sample in opinfo.samples(row.info, target, dtype, reference=False) if isinstance(sample.input, torch.Tensor)]
    if not row.on(target).mixed_inplace:
        found = [sample for sample in found if all(x.dtype == dtype for x in opinfo.tensors(sample.args, sample.kwargs))]
    compare(row, [("in place", inplace, sample, LAYOUTS[name]) for sample in found for name in ("plain", "noncontiguous")])


def test_out(row, dtype, target):
    if not row.info.supports_out:
        return
    cases = []
    for sample in opinfo.samples(row.info, target, dtype, reference=False)[:12]:
        args, kwargs = opinfo.copied(sample)
        expected, error = opinfo.outcome(row.info.op, *args, **kwargs)
        if error is not None or not isinstance(expected, torch.Tensor):
            continue
        makers = {
            "right": lambda expected=expected: torch.zeros_like(expected),
            "noncontiguous": lambda expected=expected: opinfo.noncontiguous_like(torch.zeros_like(expected)) if expected.dim() else torch.zeros_like(expected),
            "empty": lambda expected=expected: torch.empty(0, dtype=expected.dtype, device=expected.device),
            "of another dtype": lambda expected=expected: torch.zeros_like(expected, dtype=torch.float64 if expected.dtype.is_floating_point else torch.int32),
            "of a forbidden dtype": lambda expected=expected: torch.zeros_like(expected, dtype=torch.int32),
            "of another shape": lambda expected=expected: torch.zeros((*expected.shape, 2), dtype=expected.dtype, device=expected.device),
        }
        wrong = opinfo.is_wrong_with_out(row.info, target)
        cases += [(f"out= {name}", into(row.info.op, make, expected.dtype, wrong and name == "noncontiguous"), sample, LAYOUTS["plain"]) for name, make in makers.items()]
    compare(row, cases)


def into(function, make, dtype, wrong=False):
    """`function` with an `out=` made by `make`. What it has written counts as `dtype`, in which it was computed. wrong: ATen's result is that without `out=`, copied to what ATen makes of `out=`."""

    def called(*args, **kwargs):
        out = make()
        result = function(*args, out=out, **kwargs)
        assert result is out
        return out.to(dtype) if out.is_floating_point() == dtype.is_floating_point else out

    called.plain = function
    if wrong:
        called.reference = lambda *args, **kwargs: function(*args, out=make(), **kwargs).copy_(function(*args, **kwargs))
    return called


@pytest.mark.floats("float32", "float64")
def test_gradients(row, dtype, target):
    def gradients(*args, **kwargs):
        result = row.info.op(*args, **kwargs)
        inputs = [tensor for tensor in opinfo.tensors(args, kwargs) if tensor.requires_grad]
        outputs = [tensor for tensor in opinfo.tensors(result) if tensor.requires_grad]
        if not inputs or not outputs:
            return [tensor.detach() for tensor in opinfo.tensors(result)]
        again = row.info.supports_gradgrad
        found = torch.autograd.grad([output.sum() if again else output.mean() for output in outputs], inputs, create_graph=again, allow_unused=True)
        first = [gradient for gradient in found if gradient is not None]
        second = [gradient for gradient in first if gradient.requires_grad]
        if second:
            weighted = [(gradient * torch.arange(gradient.numel(), dtype=dtype).cos().view(gradient.shape).to(target)).sum() for gradient in second]
            found = torch.autograd.grad(weighted, inputs, allow_unused=True)
            first += [gradient for gradient in found if gradient is not None]
        return [gradient.detach() for gradient in first]

    # Gradients of broadcast inputs are sums.
    row = dataclasses.replace(row, absolute=max(row.absolute, 4))
    compare(row, [("gradients", gradients, sample, LAYOUTS["plain"]) for sample in opinfo.samples(row.info, target, dtype, requires_grad=True)], composed=True)


def test_errors(row, target):
    if row.info.error_inputs_func is None:
        return
    compare(row, [("error", row.info.op, case.sample_input, LAYOUTS["plain"]) for case in row.info.error_inputs(target)])
