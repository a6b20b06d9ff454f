"""TRITON_INTERPRET=1: kernels on the CPU, in order and checked."""

import nereid
import nereid.language as tl
import numpy as np
import pytest
import torch
from nereid import knobs
from nereid.runtime.interpreter import InterpretedFunction


@nereid.jit
def at_module_level(out):
    tl.store(out, 3)


@pytest.fixture(autouse=True)
def interpret():
    with knobs.runtime.scope():
        knobs.runtime.interpret = True
        yield


def add_kernel():

    @nereid.jit
    def kernel(x, y, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

    return kernel


def test_it_is_a_jit_function(target):
    kernel = add_kernel()
    assert isinstance(kernel, nereid.JITFunction) and isinstance(kernel, InterpretedFunction)
    x = np.arange(100, dtype=np.float32)
    y = np.zeros_like(x)
    compiled = kernel[lambda meta: (nereid.cdiv(meta["n"], meta["BLOCK"]), )](x, y, 100, BLOCK=32, num_warps=8, num_ctas=1)
    assert (y == x + 1).all() and compiled.metadata.checked and compiled.metadata.target.backend == "cpu"
    assert repr(kernel).startswith("InterpretedFunction(") and not isinstance(at_module_level, InterpretedFunction)


def test_accesses_are_checked(target):
    kernel = add_kernel()
    x = np.zeros(10, np.float32)
    with pytest.raises(nereid.InterpreterError, match="index 10 is outside of `x`, whose indices go from 0 to 9") as caught:
        kernel[(1, )](x, x, 12, BLOCK=16)
    assert isinstance(caught.value, nereid.TritonError) and isinstance(caught.value.__cause__, RuntimeError)


def test_errors_of_the_text_stay_what_they_are(target):

    @nereid.jit
    def kernel(x):
        tl.store(x, nothing)  # noqa: F821

    with pytest.raises(nereid.CompilationError, match="nothing"):
        kernel[(1, )](np.zeros(1, np.float32))


def test_prints_come_in_order(target, capfd):

    @nereid.jit
    def kernel(x):
        tl.device_print("at", tl.program_id(0) * 10 + tl.program_id(1))

    kernel[(20, 3)](np.zeros(1, np.float32))
    printed = [int(line.split()[-1]) for line in capfd.readouterr().out.splitlines()]
    assert printed == sorted(printed, key=lambda v: (v % 10, v // 10)) and len(printed) == 60


def test_tuner_heuristics_and_helpers(target):

    @nereid.jit
    def double(x):
        return x * 2

    @nereid.autotune([nereid.Config({"BLOCK": size}) for size in (16, 32)], key=["n"])
    @nereid.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["BLOCK"] == 0})
    @nereid.jit
    def kernel(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        if EVEN:
            tl.store(x + i, double(i))
        else:
            tl.store(x + i, double(i), mask=i < n)

    for n in (64, 50):
        x = np.zeros(n, np.int32)
        kernel[lambda meta: (nereid.cdiv(n, meta["BLOCK"]), )](x, n)
        assert (x == 2 * np.arange(n)).all()


def test_views_of_one_storage_stay_so(target):
    from nereid.runtime.interpreter import _HostCopies
    base = torch.arange(12.0)
    copies = _HostCopies()
    assert copies.of(base) is base and copies.of(3) == 3
    if target == "cuda":
        base = base.cuda()
        whole, row = copies.of((base, base[4:8:2]))
        row += 100
        assert whole.device.type == "cpu" and whole[4] == 104 and row.stride() == (2, )
        copies.copy_back()
        assert base.tolist() == [0, 1, 2, 3, 104, 5, 106, 7, 8, 9, 10, 11]


def test_tensors_of_a_gpu(target):
    if target == "cpu":
        pytest.skip("needs a GPU")
    x = torch.arange(100, device="cuda", dtype=torch.float32)
    y = torch.zeros_like(x)
    add_kernel()[(4, )](x, y, 100, BLOCK=32)
    assert torch.equal(y, x + 1)


def test_tensors_seen_as_another_type(target):
    x = torch.arange(10, dtype=torch.float32)
    y = torch.zeros_like(x)
    add_kernel()[(1, )](nereid.reinterpret(x, tl.float32), y, 10, BLOCK=16)
    assert torch.equal(y, x + 1)


def test_hooks_see_what_was_passed(target):
    kernel = add_kernel()
    seen = []
    kernel.add_pre_run_hook(lambda *args, **kwargs: seen.append((len(args), sorted(kwargs))))
    x = np.zeros(16, np.float32)
    kernel[(1, )](x, x, 16, BLOCK=16)
    assert seen == [(3, ["BLOCK"])]
