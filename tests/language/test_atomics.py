"""Atomics: kind x dtype, masks, collisions inside a block and between programs, locks."""

import tempfile

import numpy as np
import pytest
import torch

import harness
from harness import DTYPES

INT = [DTYPES[n] for n in ("int32", "int64", "uint32", "uint64")]
FLOAT = [DTYPES[n] for n in ("float32", "float64")]
HALF = [DTYPES[n] for n in ("float16", "bfloat16")]
KINDS = {
    "add": (INT + FLOAT + HALF, lambda m, v: m + v), "max": (INT + FLOAT, np.maximum), "min": (INT + FLOAT, np.minimum),
    "and": (INT, lambda m, v: m & v), "or": (INT, lambda m, v: m | v), "xor": (INT, lambda m, v: m ^ v), "xchg": (INT + FLOAT, lambda m, v: v),
}
COVERED = {f"atomic_{k}" for k in KINDS} | {"atomic_cas", "atomic_load", "atomic_store", "atomic_poll"}
#: What is read and written as a whole.
ACCESSED = [DTYPES[n] for n in ("int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64", "float8e5")]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind,dtype", [(k, d) for k, (dtypes, _) in KINDS.items() for d in dtypes], ids=str)
def test_every_lane_its_own_address(kind, dtype, masked, target):
    memory, value = harness.values(dtype, (64,), 1), harness.values(dtype, (64,), 2)
    if dtype.is_int:
        memory, value = (harness.values(dtype, (64,), s, low=0, high=1000) for s in (1, 2))
    store = harness.to_tensor(memory, dtype)
    old = harness.empty(dtype, (64,))
    mask = "i % 3 != 0" if masked else "i >= 0"
    harness.make(f"""@triton.jit
def kernel(m_ptr, v_ptr, o_ptr):
    i = tl.arange(0, 64)
    mask = {mask}
    old = tl.atomic_{kind}(m_ptr + i, tl.load(v_ptr + i), mask=mask)
    tl.store(o_ptr + i, old, mask=mask)
""")[(1,)](store, harness.to_tensor(value, dtype), old)
    lanes = np.arange(64) % 3 != 0 if masked else np.ones(64, bool)
    harness.check(store, np.where(lanes, KINDS[kind][1](memory, value), memory), dtype, 1)
    harness.check(old[torch.from_numpy(lanes)], memory[lanes], dtype, 0)


@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_single_halves(dtype, returned, target):
    """16-bit floats that are no neighbours, at odd and even places, several on one: what lies beside them keeps its bits, -0.0 and subnormal numbers among them."""
    memory = np.tile(np.array([-0.0, 0.0, 1e-7 if dtype.name == "float16" else 1e-39, np.inf, 3.0]), 39)[:192]
    store, value = harness.to_tensor(memory, dtype), harness.to_tensor(np.ones(64), dtype)
    before, old = store.clone(), harness.empty(dtype, (64,))
    harness.make(f"""@triton.jit
def kernel(m_ptr, v_ptr, o_ptr):
    i = tl.arange(0, 64)
    at = tl.where(i < 60, i * 3 + i % 2, 191)
    old = tl.atomic_add(m_ptr + at, tl.load(v_ptr + i), sem="relaxed")
    {"tl.store(o_ptr + i, old)" if returned else "pass"}
""")[(1,)](store, value, old)
    place = np.array([i * 3 + i % 2 for i in range(60)])
    beside = np.setdiff1d(np.arange(192), [*place, 191])
    assert torch.equal(store.view(torch.int16)[beside], before.view(torch.int16)[beside])
    harness.check(store[place], before[place].double().numpy() + 1, dtype, 1)
    harness.check(store[191:], before[191:].double().numpy() + 4, dtype, 1)
    if returned:
        assert torch.equal(old.view(torch.int16)[:60], before.view(torch.int16)[place])


@pytest.mark.parametrize("dtype", INT, ids=str)
def test_many_lanes_and_programs_on_one_address(dtype, target):
    counter = harness.to_tensor(np.zeros(3, dtype=np.int64), dtype)
    harness.make("""@triton.jit
def kernel(m_ptr):
    i = tl.arange(0, 128)
    tl.atomic_add(m_ptr + i % 2, 1, mask=i < 100)
    tl.atomic_add(m_ptr + 2, 1)
""")[(500,)](counter)
    np.testing.assert_array_equal(harness.exact(counter), [25000, 25000, 500])


@pytest.mark.parametrize("sem", ["acquire", "release", "acq_rel", "relaxed"])
@pytest.mark.parametrize("scope", ["gpu", "cta", "sys"])
def test_semantics_are_accepted(sem, scope, target):
    """With the scope "cta" only the elements of one program may meet."""
    counter = torch.zeros(1, dtype=torch.int32)
    programs = 1 if scope == "cta" else 64
    harness.make(f"""@triton.jit
def kernel(m_ptr):
    for i in range({64 // programs}):
        tl.atomic_add(m_ptr, 1, sem="{sem}", scope="{scope}")
""")[(programs,)](counter)
    assert counter.item() == 64


@pytest.mark.parametrize("dtype, kind", [(dtype, kind) for dtypes, kinds in (
    (("int32", "uint32", "int64"), ("add", "max", "min", "and", "or", "xor", "xchg")), (("float32", ), ("add", "max", "min", "xchg")), (("float16", "bfloat16"), ("add", )))
                                         for dtype in dtypes for kind in kinds])
def test_atomics_of_a_program(kind, dtype, target):
    """Old values and results are those of atomics with the scope "gpu", also where lanes meet and where they are masked off."""
    dtype = getattr(torch, dtype)
    values = torch.arange(-20, 44).to(dtype)
    found = []
    for scope in ("gpu", "cta"):
        memory, old = torch.arange(10, 15).to(dtype), torch.zeros(64, dtype=dtype)
        harness.make(f"""@triton.jit
def kernel(m_ptr, v_ptr, o_ptr):
    i = tl.arange(0, 64)
    old = tl.atomic_{kind}(m_ptr + i % 5, tl.load(v_ptr + i), mask=i < 60, scope="{scope}")
    tl.store(o_ptr + i, old, mask=i < 60)
""")[(1,)](memory, values, old)
        found.append((memory, old))
    assert not torch.equal(found[0][0], torch.arange(10, 15).to(dtype))
    if target == "cpu":  # lanes follow one another in their order there
        assert torch.equal(found[0][1], found[1][1])
    assert torch.equal(found[0][0], found[1][0]) or kind == "xchg" and target != "cpu"


@pytest.mark.parametrize("dtype", INT, ids=str)
def test_compare_and_swap(dtype, target):
    memory = np.arange(8) % 3
    store, old = harness.to_tensor(memory, dtype), harness.empty(dtype, (8,))
    harness.make("""@triton.jit
def kernel(m_ptr, o_ptr):
    i = tl.arange(0, 8)
    one = tl.full((8,), 1, m_ptr.dtype.element_ty)
    tl.store(o_ptr + i, tl.atomic_cas(m_ptr + i, one, one + 8))
""")[(1,)](store, old)
    np.testing.assert_array_equal(harness.exact(store), np.where(memory == 1, 9, memory))
    np.testing.assert_array_equal(harness.exact(old), memory)


@pytest.mark.parametrize("kind,want", [("max", 0.0), ("min", -0.0)])
def test_signed_zeros(kind, want, target):
    for first, second in ((0.0, -0.0), (-0.0, 0.0)):
        store = torch.tensor([first])
        harness.make(f"""@triton.jit
def kernel(m_ptr, v):
    tl.atomic_{kind}(m_ptr, v)
""")[(1,)](store, second)
        assert np.signbit(store.item()) == np.signbit(want)


def test_spin_lock(target):
    """2000 programs take one lock in turn; the condition has the side effect and the body is empty."""
    lock, count = torch.zeros(1, dtype=torch.int32), torch.zeros(128)
    harness.make("""@triton.jit
def kernel(lock_ptr, count_ptr):
    i = tl.arange(0, 128)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(count_ptr + i, tl.load(count_ptr + i) + 1.0)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)
""")[(2000,)](lock, count)
    assert torch.equal(count, torch.full((128,), 2000.0))
    assert lock.item() == 0


def test_waiting_for_an_earlier_program(target):
    """Decoupled look-back: each program spins on its predecessor's flag. Programs start in increasing order."""
    flags, total = torch.zeros(300, dtype=torch.int32), torch.zeros(300, dtype=torch.int32)
    harness.make("""@triton.jit
def kernel(flag_ptr, total_ptr):
    pid = tl.program_id(0)
    before = 0
    if pid > 0:
        while tl.load(flag_ptr + pid - 1, volatile=True) == 0:
            pass
        before = tl.load(total_ptr + pid - 1, volatile=True)
    tl.store(total_ptr + pid, before + pid)
    tl.debug_barrier()
    tl.atomic_xchg(flag_ptr + pid, 1)
""")[(300,)](flags, total)
    np.testing.assert_array_equal(total.numpy(), np.cumsum(np.arange(300)))


@pytest.mark.parametrize("sem", ["", ', sem="relaxed", scope="sys"'], ids=["ordered", "relaxed"])
@pytest.mark.parametrize("dtype", ACCESSED, ids=str)
def test_loads_and_stores(dtype, sem, target):
    """Every element as a whole, of every width; a scalar beside the block."""
    value = harness.values(dtype, (64,), 1)
    source, copy, one = harness.to_tensor(value, dtype), harness.empty(dtype, (64,)), harness.empty(dtype, (1,))
    before = copy.clone()
    harness.make(f"""@triton.jit
def kernel(s_ptr, c_ptr, o_ptr):
    i = tl.arange(0, 64)
    x = tl.atomic_load(s_ptr + i{sem})
    tl.atomic_store(c_ptr + i, x, mask=i % 3 != 0{sem})
    (o_ptr).atomic_store((s_ptr + 5).atomic_load({sem[2:]}){sem})
""")[(1,)](source, copy, one)
    lanes = np.arange(64) % 3 != 0
    same = lambda a, b: torch.equal(a.view(torch.uint8), b.view(torch.uint8))
    assert same(copy[torch.from_numpy(lanes)], source[torch.from_numpy(lanes)]) and same(copy[torch.from_numpy(~lanes)], before[torch.from_numpy(~lanes)])
    assert same(one, source[5:6])


def test_loads_need_no_writable_memory(target):
    """Nothing is written: neither through pointers to const, nor to memory that the process can only read."""
    if target == "cpu":
        with tempfile.NamedTemporaryFile() as file:
            np.arange(64, dtype=np.int32).tofile(file.name)
            source = np.memmap(file.name, np.int32, mode="r")
    else:
        source = torch.arange(64, dtype=torch.int32)
    out = torch.zeros(65, dtype=torch.int32)
    kernel = harness.make("""@triton.jit
def kernel(s_ptr: tl.const, o_ptr):
    i = tl.arange(0, 64)
    tl.store(o_ptr + i, tl.atomic_load(s_ptr + i))
    tl.store(o_ptr + 64, tl.atomic_load(s_ptr + 7, sem="relaxed") + tl.atomic_poll(s_ptr + 8, 8).to(tl.int32))
""")
    compiled = kernel[(1, )](source, out)
    np.testing.assert_array_equal(out.numpy(), [*range(64), 8])
    assert "atomic_cas" not in compiled.asm["tile"] and "atomic_rmw" not in compiled.asm["tile"]


@pytest.mark.cpu_only("checked mode")
def test_checked_loads_and_stores():
    for body, match in (("tl.store(o_ptr + i, tl.atomic_load(s_ptr + i))", "s_ptr"), ("tl.atomic_store(o_ptr + i, i)", "o_ptr")):
        kernel = harness.make(f"""@triton.jit
def kernel(s_ptr, o_ptr):
    i = tl.arange(0, 64)
    {body}
""")
        long, short = torch.zeros(64, dtype=torch.int32), torch.zeros(60, dtype=torch.int32)
        kernel[(1, )](long, long, checked=True)
        with pytest.raises(RuntimeError, match=match):
            kernel[(1, )](short if match == "s_ptr" else long, short if match == "o_ptr" else long, checked=True)


def test_a_load_takes_the_shape_of_its_mask(target):
    source, out = torch.arange(16, dtype=torch.int32), torch.zeros(4, 16, dtype=torch.int32)
    harness.make("""@triton.jit
def kernel(s_ptr, o_ptr):
    i, j = tl.arange(0, 4)[:, None], tl.arange(0, 16)[None, :]
    mask = (i + j) % 2 == 0
    x = tl.atomic_load(s_ptr + j, mask=mask)
    tl.store(o_ptr + i * 16 + j, x, mask=mask)
""")[(1,)](source, out)
    i, j = np.ogrid[:4, :16]
    np.testing.assert_array_equal(out.numpy(), np.where((i + j) % 2 == 0, j + 0 * i, 0))


@pytest.mark.parametrize("dtype", [DTYPES[n] for n in ("int16", "int32", "uint64")], ids=str)
def test_programs_wait_for_those_before(dtype, target):
    """A chain: every program polls the flag of the one before, and finds what that has stored."""
    flags = harness.to_tensor(np.zeros(33, dtype=np.int64), dtype)
    flags[0] = 7
    data, seen = torch.zeros(33, dtype=torch.int32), torch.zeros(32, dtype=torch.int32)
    harness.make("""@triton.jit
def kernel(f_ptr, d_ptr, s_ptr):
    pid = tl.program_id(0)
    found = tl.atomic_poll(f_ptr + pid, 7)
    tl.store(d_ptr + pid + 1, tl.load(d_ptr + pid) + found)
    tl.store(s_ptr + pid, found)
    tl.atomic_store(f_ptr + pid + 1, 7)
""")[(32,)](flags, data, seen)
    np.testing.assert_array_equal(data.numpy(), np.arange(33))
    assert seen.all()


def test_blocks_wait_for_all_elements(target):
    """One program waits for the flags of the programs before it; one flag never comes, and the time is over."""
    flags, out, late = torch.zeros(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32), torch.ones(9, dtype=torch.int32)
    harness.make("""@triton.jit
def kernel(f_ptr, o_ptr, l_ptr):
    pid = tl.program_id(0)
    if pid < 8:
        tl.atomic_store(f_ptr + pid, pid + 1)
    else:
        i = tl.arange(0, 8)
        tl.store(o_ptr + i, tl.atomic_poll(f_ptr + i, i + 1, "acquire", "gpu"))
        tl.store(l_ptr + i, (f_ptr + i).atomic_poll(tl.where(i == 3, -1, i + 1), timeout_ns=100000))
        tl.store(l_ptr + 8, tl.atomic_poll(f_ptr + 3, -1, timeout_ns=0))
""")[(9,)](flags, out, late)
    assert out.all()
    np.testing.assert_array_equal(late.numpy(), [1, 1, 1, 0, 1, 1, 1, 1, 0])
