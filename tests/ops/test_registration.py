"""`enable`, `disable`, `use`, `report`: what is in the dispatcher, and that it comes out again."""

import gc
import subprocess
import sys
import threading
import warnings

import nereid.ops
import pytest
import torch
from nereid.ops import _register


def state():
    return [torch._C._dispatch_dump(form.qualified) for operator in nereid.ops.OPERATORS.values() for form in operator.forms]


def routes(name):
    return {(row.route, row.reason): row.calls for row in nereid.ops.report() if row.overload == name}


def test_disable_leaves_the_dispatcher_as_it_was():
    before = state()
    nereid.ops.enable()
    assert state() != before
    nereid.ops.disable()
    gc.collect()
    assert state() == before
    with nereid.ops.use(only=["add"]):
        with nereid.ops.use():
            pass
    assert state() == before


def test_only_and_without(target):
    x = torch.rand(5, device=target)
    nereid.ops.enable(only=["add", "mul.Tensor"], without=["add_.Tensor"])
    x + x, x * x, x - x, x.add_(1), x.mul_(2)
    assert routes("add.Tensor") == {("nereid", ""): 1} and routes("mul.Tensor") == {("nereid", ""): 1}
    assert not routes("sub.Tensor") and not routes("add_.Tensor") and not routes("mul_.Tensor")
    nereid.ops.enable(device="cuda" if target == "cpu" else "cpu")
    x + x
    assert routes("add.Tensor") == {("nereid", ""): 1}


def test_use_nests(target):
    x = torch.rand(5, device=target)
    with nereid.ops.use(only=["add"]):
        with nereid.ops.use(only=["mul"]):
            x + x
            with nereid.ops.native():
                x * x
            x * x
        x + x
    x + x
    assert routes("add.Tensor") == {("nereid", ""): 1} and routes("mul.Tensor") == {("nereid", ""): 1}


@pytest.mark.parametrize("keywords,error,text", [
    ({"only": ["ad"]}, LookupError, "no operator or overload `ad` is registered; did you mean `add`?"),
    ({"without": ["zzz"]}, LookupError, "no operator or overload `zzz` is registered"),
    ({"only": "add"}, TypeError, "`only` and `without` are lists of names"),
    ({"device": "xpu"}, ValueError, "`device` is 'xpu': expected \"cpu\", \"cuda\" or None for both"),
])
def test_wrong_choices(keywords, error, text):
    before = state()
    with pytest.raises(error, match=text.replace("?", r"\?")):
        nereid.ops.enable(**keywords)
    with pytest.raises(error):
        with nereid.ops.use(**keywords):
            pass
    assert state() == before


def test_what_is_left_to_aten(target):
    nereid.ops.enable()
    x = torch.rand(5, device=target)
    assert torch.equal((x + 1j).real, x)
    assert routes("add.Tensor") == {("aten", "dtype"): 1}
    assert (torch.add(x, 1j) - 1j).imag.eq(0).all()  # a number that PyTorch has wrapped
    assert torch.add(2, 3).item() == 5
    with pytest.raises(RuntimeError, match="The size of tensor a"):
        x + torch.rand(4, device=target)
    with pytest.raises(RuntimeError, match="unsupported operation"):
        x[:1].expand(5).add_(1)
    base = torch.arange(6., device=target)
    with pytest.raises(RuntimeError, match="unsupported operation"):
        base[1:].add_(base[:-1])


def test_overlapping_copies(target):
    """ATen copies through a buffer where memory overlaps in another order, or refuses."""
    nereid.ops.enable()
    x = torch.arange(16., device=target).reshape(4, 4)
    expected = x.clone().t().contiguous()
    assert torch.equal(torch.add(x.t(), 0), expected)
    with pytest.raises(RuntimeError):
        x.copy_(x[0, :1].expand(4, 4)[:, :3])


def test_wrapped_numbers_do_not_promote(target):
    nereid.ops.enable()
    assert (torch.ones(2, dtype=torch.int8, device=target) + 1).dtype == torch.int8
    assert (torch.ones(2, dtype=torch.float16, device=target) * 2.5).dtype == torch.float16
    assert (torch.ones(2, dtype=torch.int8, device=target) + torch.tensor(1, device=target)).dtype == torch.int8
    assert (torch.ones((), dtype=torch.int8, device=target) + torch.tensor(1, device=target)).dtype == torch.int64
    assert (torch.ones(2, dtype=torch.int32, device=target) + 0.5).dtype == torch.float32


def test_autograd_is_pytorchs(target):
    nereid.ops.enable()
    x = torch.rand(6, device=target, requires_grad=True)
    y = torch.nn.functional.relu6(torch.nn.functional.gelu(x * 3).square() + torch.exp(x)).sum()
    y.backward()
    gradient = x.grad.clone()
    nereid.ops.disable()
    x.grad = None
    torch.nn.functional.relu6(torch.nn.functional.gelu(x * 3).square() + torch.exp(x)).sum().backward()
    torch.testing.assert_close(gradient, x.grad)


def test_other_tensors_do_not_come_here(target):
    from torch._subclasses import FakeTensorMode
    nereid.ops.enable()
    with FakeTensorMode():
        assert (torch.empty(3, device="cpu") + torch.empty(3)).shape == (3, )
    assert (torch.empty(3, device="meta") + 1).device.type == "meta"
    sparse = torch.eye(3).to_sparse()
    assert (sparse + sparse).to_dense()[0, 0] == 2
    assert torch.func.vmap(torch.add)(torch.ones(2, 3), torch.ones(2, 3)).sum() == 12


def test_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nereid.ops.enable()


def test_threads_while_switching(target):
    """Calls go one way or the other, and are right, while operators are switched on and off."""
    x, wrong, stop = torch.arange(1000., device=target), [], threading.Event()

    def work():
        while not stop.is_set():
            if not torch.equal(x + x, x * 2):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        nereid.ops.enable(only=["add", "mul"])
        nereid.ops.disable()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_report(target):
    nereid.ops.enable()
    x = torch.rand(5, device=target)
    for _ in range(3):
        x + x
    x + 1j
    report = nereid.ops.report(clear=True)
    assert [(row.overload, row.device, row.route, row.reason, row.calls) for row in report if row.overload == "add.Tensor"] == [
        ("add.Tensor", target, "nereid", "", 3), ("add.Tensor", target, "aten", "dtype", 1)]
    assert str(report).splitlines()[0].split() == ["overload", "device", "route", "reason", "calls"]
    assert not nereid.ops.report()


def test_importing_nereid_does_not_import_operators():
    subprocess.run([sys.executable, "-c", "import sys, nereid, nereid.language; assert 'torch' not in sys.modules and 'nereid.ops' not in sys.modules"], check=True)


def test_a_failed_registration_changes_nothing(monkeypatch):
    before = state()
    calls = []

    def fails(*args):
        calls.append(args)
        if len(calls) == 5:
            raise RuntimeError("stop")
        return lambda *args: None

    monkeypatch.setattr(_register, "_kernel", fails)
    with pytest.raises(RuntimeError, match="stop"):
        nereid.ops.enable()
    assert state() == before


@pytest.mark.parametrize("verify", [False, True])
def test_numbers_go_on_to_aten(verify):
    """The Python route hands on numbers where ATen's kernels expect tensors: results and errors are those without it."""
    tensors = [torch.tensor([1.5, -2.25]), torch.tensor(0.3, dtype=torch.float16), torch.tensor([[3], [-4]], dtype=torch.int32)]

    def outcome(name, *args, out):
        try:
            return getattr(torch, name)(*args, out=out).nan_to_num()
        except RuntimeError as error:
            return str(error)

    for name in ("copysign", "fmod", "remainder", "xlogy", "add", "bitwise_and"):
        for tensor, number in [(tensor, number) for tensor in tensors for number in (-3.14, 2)]:
            expected, found = torch.zeros_like(tensor, dtype=torch.float64), torch.zeros_like(tensor, dtype=torch.float64)  # of another dtype: the call is ATen's
            expected = outcome(name, tensor, number, out=expected)
            with nereid.ops.use(only=[name], router=False, verify=verify):
                found = outcome(name, tensor, number, out=found)
            assert found == expected if isinstance(expected, str) else torch.equal(found, expected), (name, tensor, number, found, expected)


@pytest.mark.parametrize("name", ["i1", "i1e"])
def test_bessel_functions_of_zero_have_atens_sign(name):
    for dtype in (torch.float16, torch.float64):
        x = torch.tensor([0.0, -0.0] * 16, dtype=dtype)
        expected = getattr(torch.special, name)(x)
        with nereid.ops.use(only=["special_" + name], routing=False):
            found = getattr(torch.special, name)(x)
        assert torch.equal(found, expected) and torch.equal(found.signbit(), expected.signbit())
