"""Kernels for the CPU as shared objects: stages "so" and "launcher.so", called as AOTInductor's packages call them."""

import ctypes
import pickle

import nereid
import nereid.language as tl
import numpy as np
import pytest


@nereid.jit
def kernel(x, y, n, k, one, factor, flag, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) + (tl.program_id(1) * tl.num_programs(0) + tl.program_id(2)) * 0
    tl.device_assert(n < 10000)
    tl.store(y + i, tl.load(x + i, mask=i < n) * factor + k + one + flag, mask=i < n)


def compiled(target, copy):
    x, y = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    found = kernel[(3, )](x, y, 300, 2**40, 1, 2.5, True, BLOCK=128)
    return pickle.loads(pickle.dumps(found.asm)) if copy else found.asm


@pytest.mark.cpu_only("kernels for GPUs are cubins")
@pytest.mark.parametrize("copy", [False, True])
def test_called_from_c(target, tmp_path, copy):
    """Numbers by address, constants and integers that are 1 not at all, three axes of the grid. The stages of a copy come from another process."""
    asm = compiled(target, copy)
    assert "so" not in list(asm) and "launcher.so" not in list(asm)
    for name in ("so", "launcher.so"):
        (tmp_path / f"kernel.{name}").write_bytes(asm[name])
    entry = ctypes.CDLL(str(tmp_path / "kernel.so")).kernel
    x, y = np.arange(300, dtype=np.float32), np.zeros(301, np.float32)
    n, k, factor, flag = ctypes.c_int64(300), ctypes.c_int64(2**40), ctypes.c_float(0.5), ctypes.c_bool(True)
    addresses = [x.ctypes.data, y.ctypes.data, ctypes.addressof(n), ctypes.addressof(k), None, ctypes.addressof(factor), ctypes.addressof(flag), None]
    arguments = (ctypes.c_void_p * 8)(*addresses)
    ctypes.CDLL(str(tmp_path / "kernel.launcher.so")).run_from_nativert(3, 1, 2, 1, arguments, ctypes.cast(entry, ctypes.c_void_p))
    np.testing.assert_array_equal(y[:300], x * np.float32(0.5) + np.float32(2**40) + 2)
    assert y[300] == 0


@nereid.jit
def doubles(y, factor: tl.float64):
    tl.store(y, factor)


@pytest.mark.cpu_only("kernels for GPUs are cubins")
def test_numbers_that_are_not_passed(target):
    found = doubles[(1, )](np.zeros(1), 0.5)
    with pytest.raises(RuntimeError, match="takes pointers, integers and fp32, but parameter `factor` of `doubles` is fp64; torch._inductor.config"):
        found.asm.get("launcher.so")


@pytest.mark.cpu_only("kernels for GPUs are cubins")
def test_no_compiler(target, monkeypatch):
    asm = compiled(target, False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(RuntimeError, match="takes a C compiler: install gcc or clang, or set CC"):
        asm["so"]
