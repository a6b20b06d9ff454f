"""Operators on lists of tensors: PyTorch's own samples (`foreach_*_op_db`), lists that launches are cut from, fused optimizers, gradient scaling."""

import warnings

import nereid.ops
import opinfo
import pytest
import torch
from torch.testing._internal import common_methods_invocations as db

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INFOS = [info for infos in (db.foreach_unary_op_db, db.foreach_binary_op_db, db.foreach_pointwise_op_db, db.foreach_reduce_op_db, db.foreach_other_op_db) for info in infos
         if info.name in nereid.ops.OPERATORS]
SHAPES = [(33, 70), (5, ), (), (4097, ), (0, 4), (3, 4, 5), (6, 3, 4, 5)]


def tensors(dtype=torch.float32, device="cpu", seed=0, shapes=SHAPES):
    generator = torch.Generator().manual_seed(seed)
    made = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).to(device) for shape in shapes]
    return [x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in made]


def copied(value):
    if isinstance(value, (list, tuple)):
        return type(value)(copied(item) for item in value)
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def widened(value):
    if isinstance(value, (list, tuple)):
        return type(value)(widened(item) for item in value)
    return value.detach().double() if isinstance(value, torch.Tensor) and value.dtype in opinfo.NARROW else value


def calls(info, dtype, device):
    """[(what, function of no arguments that copies its own)] of the samples of an operator."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(info.sample_inputs(device, dtype, num_input_tensors=[20, 3], allow_higher_dtype_scalars=True))
    for number, sample in enumerate(samples):
        given = {name: value for name, value in sample.kwargs.items() if name not in ("values", "disable_fastpath")}
        for form, function in (("", info.method_variant), ("in place", info.inplace_variant)):
            if function is not None and (sample.input or sample.args):
                yield f"{info.name} sample {number} {form}", function, sample, given


def run(function, sample, given, change=copied):
    first, rest = change(sample.input), change(sample.args)
    result, error = opinfo.outcome(function, first, *rest, **change(given))
    return (list(result) if result is not None else list(first) if isinstance(first, (list, tuple)) else []), error


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize("info", INFOS, ids=lambda info: info.name)
def test_samples(info, dtype, target):
    if dtype not in info.supported_dtypes(target):
        return
    cases = list(calls(info, dtype, target))
    # Narrow floats are judged by the result in fp64, too: ATen composes some operators of several.
    wanted = [(run(function, sample, given), run(function, sample, given, lambda value: widened(copied(value)))[0]) for _, function, sample, given in cases]
    nereid.ops.report(clear=True)
    with nereid.ops.use():
        found = [run(function, sample, given) for _, function, sample, given in cases]
    for (what, *_), ((native, native_error), wide), (mine, error) in zip(cases, wanted, found):
        if isinstance(native_error, NotImplementedError):
            continue  # of a dtype that single tensors may have
        if native_error is not None or error is not None:
            assert native_error is not None and error is not None and type(error) is type(native_error), f"{what}: {error}; ATen: {native_error}"
            continue
        for a, b, exact in zip(mine, native, wide if len(wide) == len(native) else [None] * len(native)):
            assert a.dtype == b.dtype and a.shape == b.shape and (a.stride() == b.stride() or not a.numel()), f"{what}: {a.dtype} {a.shape}, ATen: {b.dtype} {b.shape}"
            scale = opinfo.magnitude(b)
            problem = opinfo.difference(a, b, exact if exact is not None and exact.dtype == torch.float64 else None, 8, zeros=False, absolute=8 * scale)
            assert problem is None, f"{what}: {problem}"
    if dtype in FLOATS:
        assert opinfo.served(info.name), f"no call of `{info.name}` was served: {nereid.ops.report()}"


@pytest.mark.parametrize("info", [info for info in INFOS if info.supports_autograd], ids=lambda info: info.name)
def test_gradients(info, target):
    torch.manual_seed(0)
    if info.method_variant is None or info.name in ("_foreach_zero", "_foreach_copy"):  # they are in place
        return
    sample = next(sample for sample in info.sample_inputs(target, torch.float64, requires_grad=True, num_input_tensors=[3]) if sample.input[0].numel())

    def gradients():
        leaves = [x for x in opinfo.tensors(sample.input, sample.args) if x.requires_grad]
        results = [x for x in opinfo.tensors(info.method_variant(sample.input, *sample.args, **{k: v for k, v in sample.kwargs.items() if k != "values"})) if x.requires_grad]
        return torch.autograd.grad([x.sum() for x in results], leaves, allow_unused=True) if results and leaves else []

    native, native_error = opinfo.outcome(gradients)
    with nereid.ops.use():
        mine, error = opinfo.outcome(gradients)
    assert type(error) is type(native_error)  # PyTorch 2.13 fails for `_foreach_addcdiv` of several tensors
    for a, b in zip(mine or (), native or ()):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, equal_nan=True)


def test_many_tensors_of_several_dtypes(target):
    """More than a launch takes, in groups by dtype; numbers stay with their tensors."""
    kinds = [torch.float32, torch.bfloat16, torch.float64]
    xs = [torch.full((1 + i % 5, 3), float(i), dtype=kinds[i % 3], device=target) for i in range(150)]
    numbers = [float(i) for i in range(150)]
    with nereid.ops.use():
        results = torch._foreach_sub(xs, numbers)
        norms = torch._foreach_norm(xs, 1)
        torch._foreach_addcdiv_(xs, xs, [x + 1 for x in xs], numbers)
    assert all((x == 0).all() for x in results)
    for i, (x, norm) in enumerate(zip(xs, norms)):
        expected = i + i * i / (i + 1)
        assert norm.dtype == x.dtype and abs(norm.item() - i * x.numel()) <= 0.01 * i * x.numel()
        assert ((x - expected).abs() <= 0.02 * (1 + expected)).all()


def test_lists_are_returned_by_records(target):
    """The third call of a signature runs without Python, and returns what the first one did."""
    xs, ys = tensors(device=target), tensors(device=target, seed=1)
    with nereid.ops.use():
        results = [[*torch._foreach_add(xs, ys), *torch._foreach_norm(xs), *torch._foreach_mul(xs, 2.0)] for _ in range(3)]
    for other in results[1:]:
        assert len(other) == 3 * len(SHAPES) and all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(results[0], other))
    assert all(row.route == "nereid" for row in nereid.ops.report() if row.overload.startswith("_foreach"))


@pytest.mark.parametrize("make", [lambda x: ([x[:8], x[4:12]], [x[:8] * 1, x[4:12] * 1]), lambda x: ([x[:4], x[4:8]], [x[4:8], x[:4]]), lambda x: ([x[:4], x[:4]], [x[8:], x[8:]])],
                         ids=["written twice", "crossed", "the same tensor twice"])
def test_shared_memory_is_left_to_aten(make, target):
    start = torch.arange(12.0, device=target)
    native, mine = start.clone(), start.clone()
    if target == "cpu":  # kernels of GPUs run at once
        torch._foreach_add_(*make(native))
    with nereid.ops.use():
        torch._foreach_add_(*make(mine))
    assert [row.reason for row in nereid.ops.report() if row.overload == "_foreach_add_.List"] == ["overlap"]
    assert target != "cpu" or torch.equal(mine, native)


def test_parts_of_one_buffer_are_written_without_python(target, monkeypatch):
    """As FSDP2 copies parameters into the buffer that it gathers from; parts that overlap, with the same signature, go to ATen."""
    from nereid.ops.aten import foreach
    launches = []
    monkeypatch.setattr(foreach, "launch", lambda *arguments, launch=foreach.launch, **options: (launches.append(1), launch(*arguments, **options)))
    xs = tensors(device=target, shapes=[(40, ), (8, 5), (24, )])
    buffer = torch.zeros(200, dtype=torch.bfloat16, device=target)
    with nereid.ops.use():
        for step in range(5):
            begin = 16 * step  # elsewhere each time
            parts = [buffer[begin:begin + 40], buffer[begin + 40:begin + 80].view(8, 5), buffer[begin + 80:begin + 104]]
            buffer.zero_()
            torch._foreach_copy_(parts, [x + step for x in xs])
            assert all(torch.equal(part, (x + step).bfloat16()) for part, x in zip(parts, xs)) and not buffer[begin + 104:].any()
        assert 1 <= len(launches) <= 2  # at most once more where a signature is seen a first time
        over = [buffer[:40], buffer[24:64].view(8, 5), buffer[64:88]]
        torch._foreach_copy_(over, xs)
    expected = torch.zeros_like(buffer)
    torch._foreach_copy_([expected[:40], expected[24:64].view(8, 5), expected[64:88]], xs)
    assert target != "cpu" or torch.equal(buffer[:88], expected[:88])
    assert {row.reason for row in nereid.ops.report() if row.overload == "_foreach_copy_"} == {"", "overlap"}


def test_the_same_tensor_as_input_and_output(target):
    xs = tensors(device=target)
    wanted = [x * x for x in xs]
    with nereid.ops.use():
        torch._foreach_mul_(xs, xs)
    assert all(torch.equal(a, b) for a, b in zip(xs, wanted))
    assert [row.route for row in nereid.ops.report() if row.overload == "_foreach_mul_.List"] == ["nereid"]


def test_misaligned_and_strided(target):
    flat = torch.arange(100.0, device=target)
    xs = [flat[1:9], flat[10:20].view(2, 5).t(), torch.arange(20.0, device=target)[::2]]
    wanted = [x + 1 for x in xs]
    with nereid.ops.use():
        results = torch._foreach_add(xs[:2], 1.0)
        spread = torch._foreach_add(xs, 1.0)
    assert all(torch.equal(a, b) for a, b in zip([*results, *spread], [*wanted[:2], *wanted]))
    assert {row.reason for row in nereid.ops.report() if row.overload == "_foreach_add.Scalar"} == {"", "strides"}


OPTIMIZERS = {
    "Adam": [{}, {"weight_decay": 0.1, "amsgrad": True, "maximize": True}, {"lr": "tensor", "betas": (0.5, 0.6)}],
    "AdamW": [{}, {"weight_decay": 0.1, "amsgrad": True, "maximize": True}, {"lr": "tensor", "eps": 1e-3}],
    "SGD": [{}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {"momentum": 0.9, "dampening": 0.5, "maximize": True, "lr": "tensor"}],
    "Adagrad": [{"lr_decay": 0.1}, {"weight_decay": 0.1, "maximize": True}],
}


def skip_where_refused(name, target):
    """PyTorch 2.11 refuses `fused=True` of Adagrad on GPUs before it calls an operator; later versions, and all other optimizers, have to run."""
    param = torch.ones(2, device=target, requires_grad=True)
    param.grad = torch.ones_like(param)
    try:
        getattr(torch.optim, name)([param], lr=0.1, fused=True).step()
    except RuntimeError as error:
        assert (name, target) == ("Adagrad", "cuda") and "fused=True" in str(error)
        pytest.skip("this version of PyTorch refuses fused=True of Adagrad on GPUs")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fused_optimizers(name, dtype, target):
    """Steps of PyTorch's optimizers with `fused=True` against those without, in fp64."""
    skip_where_refused(name, target)
    for settings in OPTIMIZERS[name]:
        settings = {"lr": 0.02} | settings
        wide = [x.double().requires_grad_() for x in tensors(dtype, target)]
        mine = [x.requires_grad_() for x in tensors(dtype, target)]
        rate = settings.pop("lr")
        tensor = torch.tensor(0.02, device=target)
        rates = (tensor.item(), tensor) if rate == "tensor" else (rate, rate)
        reference, fused = (getattr(torch.optim, name)(params, lr=lr, **settings, **more) for params, lr, more in ((wide, rates[0], {"foreach": False}), (mine, rates[1], {"fused": True})))
        for step in range(3):
            for a, b, grad in zip(mine, wide, tensors(dtype, target, seed=step + 1)):
                a.grad, b.grad = grad.clone(), grad.double()
            reference.step()
            with nereid.ops.use():
                fused.step()
        eps = torch.finfo(dtype).eps
        for a, b in zip(mine, wide):
            # Parameters are rounded at each step.
            torch.testing.assert_close(a.double(), b.detach(), rtol=16 * eps, atol=16 * eps)
    rows = [row for row in nereid.ops.report() if row.overload.startswith(f"_fused_{name.lower()}_")]
    assert rows and all(row.route == "nereid" for row in rows), nereid.ops.report()


@pytest.mark.parametrize("name", ["AdamW", "SGD", "Adagrad"])
def test_gradient_scaler(name, target):
    """Gradients are unscaled by the optimizer; a step with infinities changes nothing."""
    skip_where_refused(name, target)
    start, grads = tensors(device=target), tensors(device=target, seed=1)
    params, plain = ([x.clone().requires_grad_() for x in start] for _ in range(2))
    fused, reference = (getattr(torch.optim, name)(its, lr=0.1, fused=True) for its in (params, plain))
    for a, b, grad in zip(params, plain, grads):
        a.grad, b.grad = grad * 64, grad.clone()
    reference.step()
    fused.grad_scale, fused.found_inf = torch.tensor(64.0, device=target), torch.tensor(1.0, device=target)
    with nereid.ops.use():
        fused.step()
        assert all(torch.equal(a.detach(), b) for a, b in zip(params, start))
        fused.found_inf = torch.tensor(0.0, device=target)
        fused.step()
    for a, b, grad in zip(params, plain, grads):
        torch.testing.assert_close(a, b)
        assert torch.equal(a.grad, grad)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_unscale(dtype, target):
    for broken in (None, float("inf"), float("nan")):
        grads = tensors(dtype, target)
        if broken is not None:
            grads[3][4000] = broken
        wanted, found, inverse = [grad * 0.5 for grad in grads], torch.zeros(1, device=target), torch.full((1, ), 0.5, device=target)
        with nereid.ops.use():
            torch._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)
        assert found.item() == (broken is not None)
        torch.testing.assert_close(grads, wanted, rtol=0, atol=0, equal_nan=True)
    assert {row.route for row in nereid.ops.report() if row.overload.startswith("_amp_foreach")} == {"nereid"}


@pytest.mark.parametrize("found", [0.0, 1.0])
@pytest.mark.parametrize("scale,steps", [(65536.0, 0), (65536.0, 1999), (2.0**127, 1999)])
def test_update_of_the_scale(scale, steps, found, target):
    def updated():
        state = torch.full((1, ), scale, device=target), torch.full((1, ), steps, dtype=torch.int32, device=target)
        result = torch._amp_update_scale_(*state, torch.full((1, ), found, device=target), 2.0, 0.5, 2000)
        assert result is state[0]
        return [tensor.item() for tensor in state]

    expected = updated()
    with nereid.ops.use():
        assert updated() == expected
        assert [row.route for row in nereid.ops.report() if row.overload == "_amp_update_scale_"] == ["nereid"]


def test_greatest_elements(target):
    lists = tensors(device=target, shapes=[(33, 70), (5, ), (), (9000, )])
    lists += [-lists[0].abs() - 1, torch.tensor([1.0, float("nan"), 2.0], device=target), torch.full((3, ), float("-inf"), device=target)]
    expected = torch._foreach_max(lists)
    with nereid.ops.use():
        found = torch._foreach_max(lists)
        assert [row.route for row in nereid.ops.report() if row.overload == "_foreach_max"] == ["nereid"]
    assert all(torch.equal(mine.nan_to_num(7), its.nan_to_num(7)) and mine.isnan() == its.isnan() for mine, its in zip(found, expected))
