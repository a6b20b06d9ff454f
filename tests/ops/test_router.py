"""The router: calls that run without Python, by a plan or as recorded, and what it does where there is none."""

import os
import shutil
import subprocess
import sys
import threading
import warnings

import pytest
import torch
import torch.nn.functional as F

import nereid.ops
from nereid.ops import _record, _router

PAGE_OF_CALLS = 40


def in_router(name, target):
    """How many calls of an overload ran in the router, ours or recorded as ATen's."""
    return sum(_router._entries[name, target.upper()].counts().values())


@pytest.fixture(autouse=True)
def routed():
    """The router is there, and nothing was counted yet."""
    assert _router.load() is not None
    nereid.ops.enable()
    nereid.ops.report(clear=True)
    yield
    nereid.ops.disable()


def natively(call):
    with nereid.ops.native():
        return call()


CALLS = {
    "_softmax": lambda x: torch.softmax(x, -1),
    "sum.dim_IntList": lambda x: x.sum(1),
    "native_layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "max.dim": lambda x: x.max(0),
    "cumsum": lambda x: x.cumsum(0),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_second_call_does_not_reach_python(name, target):
    x = torch.randn(5, 7, device=target)
    expected = natively(lambda: CALLS[name](x))
    CALLS[name](x)
    before = in_router(name, target)
    for _ in range(3):
        torch.testing.assert_close(CALLS[name](x), expected)
    assert in_router(name, target) == before + 3
    assert [row.calls for row in nereid.ops.report() if row.overload == name and row.route == "nereid"] == [before + 4]


@pytest.mark.parametrize("seed", range(4))
def test_signatures(seed, target):
    """Random calls of few operators, so that signatures come back: of other dtypes, shapes, strides, alignments and dimensions."""
    generator = torch.Generator().manual_seed(seed)

    def pick(*items):
        return items[int(torch.randint(len(items), (), generator=generator))]

    for _ in range(PAGE_OF_CALLS):
        rows, columns = pick(1, 3, 8), pick(1, 5, 16)
        dtype = pick(torch.float32, torch.float64)
        space = torch.randn(4 * rows * columns + 3, generator=generator).to(dtype).to(target)
        x = space[pick(0, 1):]
        x = pick(x[:rows * columns].view(rows, columns), x[:rows * columns].view(columns, rows).t(), x[:2 * rows * columns].view(rows, 2 * columns)[:, ::2])
        dim, keep = pick(0, 1, -1), pick(True, False)
        call = pick(lambda: torch.softmax(x, dim), lambda: x.sum(dim, keepdim=keep), lambda: x.amax(dim), lambda: torch.cumsum(x, dim), lambda: x.max(dim, keepdim=keep),
                    lambda: torch.log_softmax(x, dim), lambda: torch.var_mean(x, dim, correction=0), lambda: x.mean((0, 1)))
        expected = natively(call)
        for _ in range(2):
            found = call()
            torch.testing.assert_close(found, expected)
            for mine, theirs in zip(*(item if isinstance(item, tuple) else (item, ) for item in (found, expected))):
                assert mine.numel() < 2 or [s for s, n in zip(mine.stride(), mine.shape) if n > 1] == [s for s, n in zip(theirs.stride(), theirs.shape) if n > 1]


def test_memory_that_outputs_share(target):
    """Recorded with memory of its own; then the output is the input, or something else again. Where they overlap in part, the call is ATen's."""
    space = torch.randn(64, device=target)
    x, out = space[:32].view(4, 8), torch.empty(4, 8, device=target)

    def call(out):
        return torch.ops.aten._softmax.out(x, -1, False, out=out)

    expected = natively(lambda: torch.softmax(x, -1))
    for _ in range(2):
        torch.testing.assert_close(call(out), expected)
    for which in (x, out):
        kept = space.clone()
        torch.testing.assert_close(call(which), expected)
        space.copy_(kept)
    nereid.ops.report(clear=True)
    call(space[16:48].view(4, 8))
    assert [(row.route, row.reason) for row in nereid.ops.report() if row.overload == "_softmax.out"] == [("aten", "overlap")]
    y = torch.randn(4, 8, device=target)
    for _ in range(2):
        torch.testing.assert_close(torch.cumsum(y, 0, out=torch.empty_like(y)), natively(lambda: torch.cumsum(y, 0)))


def test_one_tensor_twice_and_two_tensors(target):
    """A call with one tensor for two arguments says nothing about a call with two."""
    x, y = torch.randn(4, 8, device=target), torch.randn(4, 8, device=target)
    for a, b in ((x, x), (x, y), (y, x), (y, y), (x, y)):
        expected = natively(lambda: torch.ops.aten._softmax_backward_data(a, b, -1, torch.float32))
        for _ in range(2):
            torch.testing.assert_close(torch.ops.aten._softmax_backward_data(a, b, -1, torch.float32), expected)


def test_arguments_that_share_memory_are_recorded(target):
    """The parts of a packed tensor, and one tensor twice: the second call does not reach Python, and what was recorded serves other memory."""
    packed, x = torch.randn(2, 5, 3, 4, 16, device=target), torch.randn(4, 4, device=target)
    q, k, v = packed.unbind(2)
    other = [tensor + 1 for tensor in (q, k, v)]
    calls = {"cat": lambda: torch.cat([x, x, x[1:]]), "mm": lambda: torch.mm(x, x), "bmm": lambda: torch.bmm(q[0], k[0].mT)}
    if target == "cpu":
        calls["_scaled_dot_product_flash_attention_for_cpu"] = lambda: F.scaled_dot_product_attention(q, k, v)
    for name, call in calls.items():
        expected = natively(call)
        call()
        before = in_router(name, target)
        torch.testing.assert_close(call(), expected)
        assert in_router(name, target) == before + 1, name
    for _ in range(2):
        torch.testing.assert_close(torch.bmm(other[0][0], other[1][0].mT), natively(lambda: torch.bmm(other[0][0], other[1][0].mT)))


@pytest.mark.cpu_only("GPUs do not check indices")
def test_checks_of_indices_are_recorded(target):
    """Calls with indices that exist are repeated without Python, one that does not exist raises ATen's error each time."""
    x, table = torch.randn(5, 7), torch.randn(9, 4)
    good, bad = torch.tensor([[0, 6, 3]]), torch.tensor([[0, 7, 3]])
    calls = {"gather": lambda i: x.gather(1, i), "index_select": lambda i: x.index_select(1, i[0]), "embedding": lambda i: F.embedding(i + 2, table),
             "index.Tensor": lambda i: x[:, i], "index_add": lambda i: x.index_add(1, i[0], torch.ones(5, 3))}
    for name, call in calls.items():
        expected = natively(lambda: call(good))
        for first in (True, False, False):
            before = in_router(name, target)
            torch.testing.assert_close(call(good), expected)
            assert in_router(name, target) == before + (not first), name
            with pytest.raises((IndexError, RuntimeError)):
                call(bad)


@pytest.mark.cpu_only("GPUs do not check labels")
def test_values_are_checked_each_time(target):
    """What depends on elements is no matter of the signature."""
    x = torch.randn(3, 5)
    for labels in ([0, 1, 2], [0, 1, 5], [4, 4, 4], [0, -1, 2]):
        call = lambda labels=labels: F.nll_loss(x, torch.tensor(labels))  # noqa: E731
        try:
            expected = natively(call)
        except Exception as error:
            with pytest.raises(type(error)):
                call()
        else:
            torch.testing.assert_close(call(), expected)


def test_results_that_are_left_out(target):
    x, g = torch.randn(4, 8, device=target), torch.randn(4, 8, device=target)
    weight = torch.randn(8, device=target)
    _, mean, rstd = natively(lambda: torch.native_layer_norm(x, (8, ), weight, None, 1e-5))
    for mask in ([True, True, False], [True, False, False], [False, True, False]):
        call = lambda mask=mask: torch.ops.aten.native_layer_norm_backward(g, x, (8, ), mean, rstd, weight, None, mask)  # noqa: E731
        expected = natively(call)
        for _ in range(2):
            found = call()
            assert [item is None for item in found] == [item is None for item in expected]
            torch.testing.assert_close([item for item in found if item is not None], [item for item in expected if item is not None])


def test_modes_belong_to_the_signature(target):
    x = torch.arange(6, device=target).view(2, 3)
    try:
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            for _ in range(2):
                assert torch.logsumexp(x, 0).dtype == dtype
    finally:
        torch.set_default_dtype(torch.float32)


def test_threads(target):
    x = torch.randn(6, 9, device=target)
    expected = natively(lambda: (torch.softmax(x, 1), x.sum(1), torch.sigmoid(x)))
    failures = []

    def work(index):
        try:
            for turn in range(50):
                rows = 1 + (index + turn) % 6
                found = (torch.softmax(x[:rows], 1), x[:rows].sum(1), torch.sigmoid(x[:rows]))
                torch.testing.assert_close(found, tuple(item[:rows] for item in expected))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i, )) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


@pytest.mark.cpu_only("a GPU does not survive a fork")
def test_fork(target):
    x = torch.randn(3, 4)
    expected = torch.softmax(x, 1)
    process = os.fork()
    if not process:
        good = torch.equal(torch.softmax(x, 1), expected) and torch.softmax(torch.randn(2, 5), 1).shape == (2, 5)
        os._exit(0 if good else 1)
    assert os.waitpid(process, 0)[1] == 0


def test_inference_mode_and_autograd(target):
    x = torch.randn(3, 4, device=target)
    with torch.inference_mode():
        for _ in range(2):
            assert torch.softmax(x, 1).is_inference() and torch.sigmoid(x).is_inference()
    for _ in range(2):
        y = x.clone().requires_grad_()
        torch.log_softmax(y, 1).sum().backward()
        torch.testing.assert_close(y.grad, 1 - 4 * natively(lambda: torch.softmax(x, 1)))


def test_a_failing_launch_is_an_error_of_the_call(target, monkeypatch):
    """What Python raises while a kernel is made reaches the caller, and the next call tries again."""
    # Of strides that no other test of this process has compiled.
    x = torch.randn(4, 6, 4, 6, 4, dtype=torch.float64, device=target)[::2, ::3, ::2, ::3, ::2]

    def fails(*args, **kwargs):
        raise ValueError("no room")

    monkeypatch.setattr(_router, "compile_kernel", fails)
    with pytest.raises(RuntimeError, match="no room"):
        torch.special.erfcx(x)
    monkeypatch.undo()
    torch.testing.assert_close(torch.special.erfcx(x), natively(lambda: torch.special.erfcx(x)))


def test_what_is_recorded(target):
    """Allocations, views and launches; nothing that reads elements."""
    x = torch.randn(4, 4, device=target)
    with nereid.ops.native():
        for body, problem in ((lambda: torch.empty(3, device=target), None), (lambda: x.t().view(-1) if x.is_contiguous() and False else x.t(), None),
                              (lambda: x.sum().item(), "aten._local_scalar_dense"), (lambda: torch.linalg.inv(x), "aten.linalg_inv_ex"),
                              (lambda: torch.empty(3, device=target).zero_(), None)):
            with _record.Recorder([x], target) as recorder:
                body()
            assert (recorder.problem or "").startswith(problem or "") and bool(recorder.problem) == bool(problem), recorder.problem


RUN = "import torch, nereid.ops, warnings; warnings.simplefilter('always'); nereid.ops.enable(); x = torch.randn(3, 4); " \
      "print(torch.equal(torch.sigmoid(x).argmax(1), x.argmax(1)), nereid.ops._router._library is None)"


def run(**environment):
    return subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, env=os.environ | environment)


def test_without_compiler(tmp_path, monkeypatch):
    """The Python route, and a warning that says why."""
    monkeypatch.setattr(_router, "cxx_compiler", lambda: None)
    with pytest.raises(RuntimeError, match="no C\\+\\+ compiler"):
        _router.build(tmp_path)
    monkeypatch.setattr(_router, "_library", None)

    def none():
        raise RuntimeError("no C++ compiler was found")

    monkeypatch.setattr(_router, "build", none)
    with pytest.warns(RuntimeWarning, match="without its router.*no C\\+\\+ compiler"):
        nereid.ops.enable()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nereid.ops.enable()
    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.sigmoid(x), natively(lambda: torch.sigmoid(x)))
    assert [row.route for row in nereid.ops.report() if row.overload == "sigmoid"] == ["nereid"]
    nereid.ops.disable()


def test_a_compiler_that_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "false")
    monkeypatch.setattr(shutil, "which", lambda name: name)
    with pytest.raises(RuntimeError, match="false could not build the router"):
        _router.build(tmp_path)
    assert not list(tmp_path.iterdir())


def test_switched_off():
    result = run(NEREID_OPS_ROUTER="0")
    assert result.stdout.split() == ["True", "True"] and not result.stderr, result.stderr


def test_a_router_of_another_state(monkeypatch):
    monkeypatch.setattr(_router, "_INTERFACE", 0)
    with pytest.raises(RuntimeError, match="another state"):
        _router._start(_router.build())
