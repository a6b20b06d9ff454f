"""Behaviours of loads, stores and atomics that an implementation gets wrong easily, numbered as in the list of forty-eight."""

import numpy as np
import pytest
import torch

import harness
from harness import DTYPES


def launch(body, *arguments, grid=(1,), **options):
    names = ", ".join(f"p{i}" for i in range(len(arguments)))
    text = "".join(f"    {line}\n" for line in body.strip().splitlines())
    harness.make(f"@triton.jit\ndef kernel({names}):\n    i = tl.arange(0, 64)\n{text}")[grid](*arguments, **options)


def refused(body, match, *arguments):
    import nereid
    with pytest.raises(nereid.CompilationError, match=match):
        launch(body, *(arguments or (torch.zeros(64), torch.zeros(64))))


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.bfloat16, torch.float32, torch.int64])
def test_20_other_is_cast_to_the_element_type(dtype, target):
    x, out = torch.ones(64).to(dtype), torch.zeros(64, dtype=dtype)
    launch("tl.store(p1 + i, tl.load(p0 + i, mask=i < 32, other=3.75))", x, out)
    assert torch.equal(out[32:], torch.full((32,), 3.75).to(dtype)) and torch.equal(out[:32], x[:32])
    launch("tl.store(p1 + i, tl.load(p0 + i, mask=i < 32, other=i))", x, out)
    assert torch.equal(out[32:], torch.arange(32, 64).to(dtype))


@pytest.mark.parametrize("mask,count", [("True", 64), ("False", 0), ("tl.constexpr(True)", 64), ("i < 7", 7)])
def test_20_known_masks(mask, count, target):
    x, out = torch.ones(64), torch.zeros(64)
    launch(f"tl.store(p1 + i, tl.load(p0 + i, mask={mask}, other=5.0))", x, out)
    assert torch.equal(out, torch.where(torch.arange(64) < count, 1.0, 5.0))
    out.zero_()
    launch(f"tl.store(p1 + i, tl.load(p0 + i), mask={mask})", x, out)
    assert out.sum() == count


def test_20_masked_addresses_are_never_touched(target):
    """Addresses far outside, null among them."""
    out = torch.zeros(64)
    launch("far = (i.to(tl.int64) * 0).to(tl.pointer_type(tl.float32)) + i * 1000000\n"
           "x = tl.load(far, mask=i < 0, other=2.0)\ntl.store(far, x, mask=i < 0)\ntl.store(p0 + i, x)", out)
    assert torch.equal(out, torch.full((64,), 2.0))


def test_20_other_without_mask(target):
    refused("tl.store(p1 + i, tl.load(p0 + i, other=0.0))", "`other` cannot be provided without `mask`")
    refused("tl.load(i)", "Unsupported ptr type .* in `tl.load`")
    refused("tl.store(i, i)", "Unsupported ptr type .* in `tl.store`")


def test_21_stores_narrow_and_broadcast(target):
    out = torch.zeros(64, dtype=torch.int8)
    launch("tl.store(p0 + i, i * 1000.0)", torch.zeros(64, dtype=torch.int32))
    launch("tl.store(p0 + i, i + 250)", out)
    assert torch.equal(out, (torch.arange(64) + 250).to(torch.int8))
    half = torch.zeros(64, dtype=torch.float16)
    launch("tl.store(p0 + i, i / 3)", half)
    assert torch.equal(half, (torch.arange(64) / 3).half())
    launch("tl.store(p0 + i, 7)", half)
    assert torch.equal(half, torch.full((64,), 7.0).half())
    refused("tl.store(p0, i)", "Value argument cannot be block type if pointer argument is not a block")
    refused("tl.store(p0 + i, i[None, :] + i[:, None])", "Expected pointer argument to have shape")
    refused("tl.store(p0 + i, i, mask=i)", "Mask must have boolean scalar type")
    refused("tl.load(p0 + i, mask=i)", "Mask must have boolean scalar type")


def test_21_constant_pointers(target):
    import nereid
    kernel = harness.make("@triton.jit\ndef kernel(p0: tl.const, p1):\n    i = tl.arange(0, 64)\n    tl.store(p0 + i, tl.load(p1 + i))\n")
    with pytest.raises(nereid.CompilationError, match="Cannot store to a constant pointer"):
        kernel[(1,)](torch.zeros(64), torch.zeros(64))
    kernel = harness.make("@triton.jit\ndef kernel(p0: tl.const):\n    tl.atomic_add(p0, 1.0)\n")
    with pytest.raises(nereid.CompilationError, match="Cannot store to a constant pointer"):
        kernel[(1,)](torch.zeros(64))


def test_22_bools_in_memory(target):
    x = torch.arange(64, dtype=torch.uint8)  # any byte but zero is true
    out = torch.full((64,), 9, dtype=torch.uint8)
    launch("flags = tl.load(p0.to(tl.pointer_type(tl.int1)) + i)\ntl.static_assert(flags.dtype == tl.int1)\n"
           "tl.store(p1.to(tl.pointer_type(tl.int1)) + i, flags)", x, out)
    assert torch.equal(out, (x != 0).to(torch.uint8))
    flags = torch.zeros(64, dtype=torch.bool)
    launch("tl.store(p0 + i, i - 3)", flags)
    assert torch.equal(flags, torch.arange(64) != 3)


def test_23_offsets(target):
    """Unsigned offsets are extended with zeros, negative ones go backwards."""
    out = torch.zeros(64, dtype=torch.int64)
    launch("base = p0.to(tl.int64)\nmoved = (p0 + (i.to(tl.uint32) + 0x80000000)).to(tl.int64)\ntl.store(p0 + i, moved - base)", out)
    assert torch.equal(out, (torch.arange(64) + 2 ** 31) * 8)
    x, y = torch.arange(64, dtype=torch.float32), torch.zeros(64)
    launch("last = p0 + 63\ntl.store(p1 + i, tl.load(last - i))", x, y)
    assert torch.equal(y, x.flip(0))


@pytest.mark.parametrize("modifier", ["", ".ca", ".cg", ".cs", ".cv"])
@pytest.mark.parametrize("policy", ["", "evict_first", "evict_last"])
def test_hints_of_loads(modifier, policy, target):
    x, out = torch.randn(64), torch.zeros(64)
    launch(f"tl.store(p1 + i, tl.load(p0 + i, cache_modifier='{modifier}', eviction_policy='{policy}'))", x, out)
    assert torch.equal(out, x)


@pytest.mark.parametrize("modifier", ["", ".wb", ".cg", ".cs", ".wt"])
@pytest.mark.parametrize("policy", ["", "evict_first", "evict_last"])
def test_hints_of_stores(modifier, policy, target):
    x, out = torch.randn(64), torch.zeros(64)
    launch(f"tl.store(p1 + i, tl.load(p0 + i), cache_modifier='{modifier}', eviction_policy='{policy}')", x, out)
    assert torch.equal(out, x)


def test_unknown_hints(target):
    refused("tl.load(p0 + i, cache_modifier='.wb')", "cache_modifier")
    refused("tl.store(p0 + i, 1, cache_modifier='.ca')", "cache_modifier")
    refused("tl.load(p0 + i, eviction_policy='sometimes')", "eviction_policy")


def test_volatile_loads_are_kept(target):
    out = torch.zeros(64)
    launch("tl.store(p1 + i, tl.load(p0 + i, volatile=True) + tl.load(p0 + i, volatile=True))", torch.ones(64), out)
    assert torch.equal(out, torch.full((64,), 2.0))


RMW = {"add": lambda m, v: m + v, "max": np.maximum, "min": np.minimum, "and": lambda m, v: m & v, "or": lambda m, v: m | v,
       "xor": lambda m, v: m ^ v, "xchg": lambda m, v: v}


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64", "float32", "float64"])
@pytest.mark.parametrize("kind", RMW)
def test_24_scalar_atomics_run_once_a_program(kind, dtype, target):
    if kind in ("and", "or", "xor") and dtype.startswith("float"):
        return
    dtype = DTYPES[dtype]
    memory, old = harness.to_tensor(np.array([6]), dtype), harness.empty(dtype, (1,))
    harness.make(f"""@triton.jit
def kernel(m_ptr, o_ptr):
    value = tl.full((), 3, m_ptr.dtype.element_ty)
    old = tl.atomic_{kind}(m_ptr, value)
    tl.static_assert(old.dtype == m_ptr.dtype.element_ty)
    tl.store(o_ptr, old + old)
""")[(1,)](memory, old, num_warps=8)
    assert old.item() == 12
    assert memory.item() == RMW[kind](np.array([6]), np.array([3]))[0]


def test_24_the_old_value_can_be_used(target):
    """Compaction: a position for each element that passes, by a counter."""
    x = torch.arange(256, dtype=torch.int32)
    out, count = torch.full((256,), -1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    harness.make("""@triton.jit
def kernel(x_ptr, out_ptr, count_ptr):
    i = tl.program_id(0) * 64 + tl.arange(0, 64)
    x = tl.load(x_ptr + i)
    keep = x % 3 == 0
    at = tl.atomic_add(count_ptr + tl.zeros((64,), tl.int32), 1, mask=keep)
    tl.store(out_ptr + at, x, mask=keep)
""")[(4,)](x, out, count)
    want = x[x % 3 == 0]
    assert count.item() == len(want)
    assert torch.equal(out[:len(want)].sort().values, want) and (out[len(want):] == -1).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_25_extremes_of_floats(kind, dtype, target):
    """All pairs of special values, negative zero below zero."""
    dtype = DTYPES[dtype]
    values = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 1e-40, -1e-40])
    memory, value = (a.ravel() for a in np.meshgrid(values, values))
    store, old = harness.to_tensor(memory, dtype), harness.empty(dtype, (64,))
    launch(f"tl.store(p2 + i, tl.atomic_{kind}(p0 + i, tl.load(p1 + i)))", store, harness.to_tensor(value, dtype), old)
    keys = [(v, not np.signbit(v)) for v in harness.to_tensor(memory, dtype).double().tolist()], \
        [(v, not np.signbit(v)) for v in harness.to_tensor(value, dtype).double().tolist()]
    pick = max if kind == "max" else min
    want = np.array([pick(a, b)[0] for a, b in zip(*keys)])
    got = store.double().numpy()
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    np.testing.assert_array_equal(old.double().numpy(), harness.to_tensor(memory, dtype).double().numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_25_sums_of_16_bit_floats(dtype, target):
    """Neighbours share a word; odd counts and masks leave half of it alone."""
    dtype = DTYPES[dtype]
    memory = harness.to_tensor(np.arange(65), dtype)
    launch("tl.atomic_add(p0 + i, i.to(tl.float32) / 2, mask=i % 3 != 1)\ntl.atomic_add(p0 + 64, 1.0)", memory)
    i = np.arange(65)
    want = np.where(i == 64, 65, np.where(i % 3 != 1, i * 1.5, i))
    harness.check(memory, want, dtype, 1)


@pytest.mark.parametrize("kind,dtype,name", [("add", torch.int8, "int8"), ("add", torch.int16, "int16"), ("max", torch.bfloat16, "bf16"),
                                             ("min", torch.float16, "fp16"), ("and", torch.float32, "fp32"), ("add", torch.bool, "int1"),
                                             ("add", torch.float8_e5m2, "fp8e5"), ("xchg", torch.int8, "int8"), ("or", torch.uint8, "uint8")])
def test_25_types_that_atomics_refuse(kind, dtype, name, target):
    refused(f"tl.atomic_{kind}(p0 + i, 1)", f"atomic_{kind} does not support {name}", torch.zeros(64, dtype=dtype))


@pytest.mark.parametrize("dtype", ["int32", "uint64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("mask", ["i >= 0", "i % 2 == 0", "i == 5"])
def test_26_many_lanes_on_one_address(mask, dtype, target):
    dtype = DTYPES[dtype]
    memory = harness.to_tensor(np.zeros(2), dtype)
    launch(f"tl.atomic_add(p0 + (i // 64), 1, mask={mask})", memory, grid=(3,))
    lanes = eval(mask.replace("i", "np.arange(64)"))
    assert memory.double().tolist() == [3 * lanes.sum(), 0]


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "uint32", "float16", "bfloat16", "float32", "float64"])
def test_27_compare_and_swap_of_every_width(dtype, target):
    dtype = DTYPES[dtype]
    memory, old = harness.to_tensor(np.arange(64) % 3, dtype), harness.empty(dtype, (64,))
    launch("one = tl.full((64,), 1, p0.dtype.element_ty)\ntl.store(p1 + i, tl.atomic_cas(p0 + i, one, one + one + one))", memory, old)
    np.testing.assert_array_equal(harness.exact(memory), np.where(np.arange(64) % 3 == 1, 3, np.arange(64) % 3))
    np.testing.assert_array_equal(harness.exact(old), np.arange(64) % 3)


def test_27_compare_and_swap_once_a_program(target):
    """Each program adds one by a loop of compare-and-swap, also with a lock in the condition."""
    count, lock, total = torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    harness.make("""@triton.jit
def kernel(count_ptr, lock_ptr, total_ptr):
    old = tl.load(count_ptr, volatile=True)
    seen = tl.atomic_cas(count_ptr, old, old + 1)
    while seen != old:
        old = seen
        seen = tl.atomic_cas(count_ptr, old, old + 1)
    while tl.atomic_cas(lock_ptr, 0, 1, sem="acquire") == 1:
        pass
    tl.store(total_ptr, tl.load(total_ptr, volatile=True) + 1.0)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0, sem="release")
""")[(500,)](count, lock, total)
    assert count.item() == 500 and total.item() == 500 and lock.item() == 0


def test_27_widths_that_compare_and_swap_refuses(target):
    refused("tl.atomic_cas(p0 + i, 0, 1)", r"atomic_cas only supports elements with width \{16, 32, 64\}", torch.zeros(64, dtype=torch.int8))


@pytest.mark.parametrize("argument,match", [("sem='strong'", "sem"), ("scope='grid'", "scope")])
def test_unknown_semantics(argument, match, target):
    refused(f"tl.atomic_add(p0 + i, 1.0, {argument})", match)


def test_member_functions(target):
    memory = torch.zeros(64, dtype=torch.int32)
    launch("(p0 + i).atomic_add(i)\n(p0 + i).atomic_or(64)\n(p0 + i).atomic_max(70)\n(p0 + i).atomic_cas(70, 1)", memory)
    want = np.maximum(np.arange(64) | 64, 70)
    np.testing.assert_array_equal(memory.numpy(), np.where(want == 70, 1, want))
