"""Expressions whose meaning the real Triton is asked for: `all_cases()` gives them as `front_end.py` wants them.

An id is `family/types/expression`. The families: operators on every pair of types, Python numbers beside every type, functions of one
argument on every type, casts, reductions, shapes, memory, products, constants, Python's own constructs.
"""

import itertools

#: Type of a pointer's elements in a signature -> name in the language.
TYPES = {"i1": "int1", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
         "u64": "uint64", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "fp8e5": "float8e5",
         "fp8e4nv": "float8e4nv"}
WIDE = [name for name in TYPES if not name.startswith("fp8")]

BINARY = ["x + y", "x - y", "x * y", "x / y", "x // y", "x % y", "x & y", "x | y", "x ^ y", "x << y", "x >> y", "x < y", "x == y", "x != y",
          "tl.maximum(x, y)", "tl.minimum(x, y)", "tl.where(x == y, x, y)", "tl.where(y, x, y)", "tl.fdiv(x, y)", "tl.div_rn(x, y)",
          "tl.fma(x, y, x)", "tl.umulhi(x, y)", "x and y", "x or y", "tl.clamp(x, y, y)", "tl.cdiv(x, y)", "tl.join(x, y)", "tl.cat(x, y, can_reorder=True)",
          "tl.interleave(x, y)", "x.to(y.dtype)", "x.to(y.dtype, bitcast=True)"]
UNARY = ["-x", "+x", "~x", "not x", "x.to(tl.int1)", "tl.abs(x)", "tl.exp(x)", "tl.exp2(x)", "tl.log(x)", "tl.log2(x)", "tl.sin(x)", "tl.cos(x)",
         "tl.sqrt(x)", "tl.sqrt_rn(x)", "tl.rsqrt(x)", "tl.erf(x)", "tl.floor(x)", "tl.ceil(x)", "tl.sigmoid(x)", "tl.softmax(x)",
         "tl.sum(x, 0)", "tl.sum(x)", "tl.sum(x, 0, dtype=tl.float32)", "tl.max(x, 0)", "tl.min(x, 0)", "tl.max(x, 0, return_indices=True)",
         "tl.argmax(x, 0)", "tl.argmin(x, 0)", "tl.xor_sum(x, 0)", "tl.reduce_or(x, 0)", "tl.cumsum(x, 0)", "tl.cumprod(x, 0)",
         "tl.cumsum(x, 0, dtype=tl.float64)", "tl.sort(x)", "tl.topk(x, 4)", "tl.flip(x, 0)", "tl.histogram(x, 8)", "tl.zeros_like(x)",
         "x.T", "x[None, :]", "x[:, None]", "tl.expand_dims(x, 0)", "tl.reshape(x, 4, 4)", "tl.ravel(x)", "x.dtype", "x.type", "x.shape", "x.numel",
         "tl.broadcast_to(x, 16)", "tl.trans(x)", "tl.device_print('p', x)", "x.is_block", "x ** 2", "tl.gather(x, tl.arange(0, 16), 0)",
         "tl.randint(0, x)", "tl.rand(0, x)", "tl.full((4, ), 3, x.dtype)", "tl.zeros((4, ), x.dtype)", "tl.sum(x, 0, keep_dims=True)",
         "tl.max(x, axis=1)", "tl.multiple_of(x, 16)", "tl.where(x > 0, x, 0)", "tl.where(True, x, 0)", "tl.split(tl.reshape(x, 8, 2))"]
NUMBERS = ["x + 7", "7 + x", "x - 300", "x * -1", "x / 2", "2 / x", "x // 3", "x % 3", "7 % x", "x & 1", "x | 256", "x ^ -1", "x << 1", "1 << x", "x >> 1",
           "x < 300", "300 > x", "x == -1", "x != 1.5", "x + 1.5", "1.5 * x", "x / 1.5", "x % 1.5", "x + 1e50", "x + 2147483648", "x + 4294967296",
           "x * 18446744073709551616", "x + True", "True + x", "x + False", "tl.maximum(x, 1)", "tl.maximum(x, 1.5)", "tl.minimum(300, x)", "tl.where(x == x, x, 300)",
           "tl.where(x == x, x, 1.5)", "tl.clamp(x, 0, 1)", "tl.clamp(x, 0.0, 1.0)", "tl.fma(x, 2.0, 1.0)", "x + s", "x * s", "s * x", "x / s", "x // i", "x + i", "x >> i",
           "x < i", "tl.maximum(x, s)", "tl.where(x == x, x, s)", "x + None", "x + 'a'", "-x + 1", "x + (1, 2)"]
CASTS = [f"x.to(tl.{name})" for name in TYPES.values()] + [f"x.to(tl.{name}, bitcast=True)" for name in TYPES.values()] + [
    "x.to(tl.float16, fp_downcast_rounding='rtz')", "x.to(tl.bfloat16, fp_downcast_rounding='rtne')",
    "x.to(tl.float32, fp_downcast_rounding='rtz')", "x.to(tl.float8e5, fp_downcast_rounding='up')", "tl.cast(x, tl.int32)",
    "x.to(tl.pointer_type(tl.float32))"]
MEMORY = ["tl.load(p + r)", "tl.load(p + r, mask=r < 3)", "tl.load(p + r, mask=r < 3, other=0)", "tl.load(p + r, mask=r < 3, other=1.5)",
          "tl.load(p + r, other=0)", "tl.load(p)", "tl.load(p, mask=True)", "tl.load(p + r, mask=False, other=2)", "tl.load(p + r, mask=r)", "tl.load(p + r, mask=1)",
          "tl.load(p + r, cache_modifier='.cg')", "tl.load(p + r, cache_modifier='.xx')", "tl.load(p + r, eviction_policy='evict_last')", "tl.load(p + r, eviction_policy='x')",
          "tl.load(p + r, volatile=True)", "tl.load(p + r, boundary_check=(0, ))", "tl.load(p + r, padding_option='zero')", "tl.load(r)", "tl.load(3)",
          "tl.store(p + r, 1)", "tl.store(p + r, r)", "tl.store(p + r, 1.5, mask=r < 3)", "tl.store(p, r)", "tl.store(p, 1)", "tl.store(p + r, 1, mask=r)",
          "tl.store(p + r, 1, cache_modifier='.wt')", "tl.store(p + r, 1, cache_modifier='.ca')", "tl.store(p + r, tl.arange(0, 32))", "tl.store(r, 1)",
          "tl.store(p + r, 1, mask=True)", "p + 1", "p - 1", "1 + p", "p + r", "r + p", "p - r", "p + 1.5", "p + p", "p - p", "p == p", "p * 2", "-p", "p + r[:, None]", "p.dtype",
          "p.dtype.element_ty", "p.type", "p is None", "p.to(tl.int64)", "p.to(tl.int32)", "p.to(tl.float32)", "p.to(tl.pointer_type(tl.int8))", "p.to(tl.int64).to(tl.pointer_type(tl.int8))",
          "tl.where(r < 3, p + r, p)", "(p + r).dtype", "p[None]", "(p + r)[:, None]"]
ATOMICS = [f"tl.atomic_{op}(p + r, {value}{more})" for op in ("add", "max", "min", "and", "or", "xor", "xchg")
           for value, more in (("x", ""), ("1", ""), ("x", ", mask=r < 3"))] + [
    "tl.atomic_add(p, 1)", "tl.atomic_add(p, 1.5)", "tl.atomic_add(p + r, x, sem='relaxed', scope='cta')", "tl.atomic_add(p + r, x, sem='weak')", "tl.atomic_add(p + r, x, scope='world')",
    "tl.atomic_cas(p, 0, 1)", "tl.atomic_cas(p + r, x, x)", "tl.atomic_cas(p + r, x, x, sem='acquire')", "tl.atomic_add(r, 1)", "tl.atomic_max(p, 1)"]
SHAPES = ["tl.reshape(a, 128)", "tl.reshape(a, (4, 32))", "tl.reshape(a, 4, 33)", "tl.reshape(a, -1)", "tl.view(a, 16, 8)", "tl.trans(a)", "tl.trans(a, 1, 0)", "tl.trans(a, (1, 0))", "tl.trans(a, 0, 0)",
          "tl.trans(a, 0)", "tl.permute(a, 1, 0)", "tl.permute(a, (0, 1))", "a.T", "a.permute(1, 0)", "a.reshape(2, 2, 32)", "tl.expand_dims(a, 0)", "tl.expand_dims(a, -1)", "tl.expand_dims(a, 3)",
          "tl.expand_dims(a, (0, 1))", "tl.expand_dims(a, (0, 0))", "a[None, :, :]", "a[:, None, :]", "a[None]", "a[:]", "a[:, :, None]", "a[0]", "a[0:4]", "a[:, :, :]", "tl.broadcast_to(a, 8, 16)",
          "tl.broadcast_to(a, (2, 8, 16))", "tl.broadcast_to(r, 8, 16)", "tl.broadcast_to(r[None, :], 8, 16)", "tl.broadcast_to(1.5, (4, ))", "tl.broadcast(a, r)", "tl.broadcast(r, a)", "a + r", "a + r[None, :]", "a + r[:, None]",
          "a + tl.arange(0, 8)[:, None]", "a + tl.arange(0, 4)", "tl.sum(a)", "tl.sum(a, 0)", "tl.sum(a, 1)", "tl.sum(a, -1)", "tl.sum(a, 2)", "tl.sum(a, axis=None, keep_dims=True)", "tl.max(a, -1, return_indices=True)",
          "tl.argmax(a, 1, keep_dims=True)", "tl.argmax(a, None)", "tl.cumsum(a, 1, reverse=True)", "tl.cumsum(a, 2)", "tl.softmax(a)", "tl.softmax(a, 1)", "tl.join(a, a)", "tl.join(1, 2)", "tl.interleave(a, a)",
          "tl.cat(a, a)", "tl.cat(a, a, can_reorder=True)", "tl.split(a)", "tl.split(tl.join(a, a))", "tl.split(tl.join(1, 2))", "tl.dot(a, tl.trans(a))", "tl.dot(a, a)", "tl.dot(r, r)", "tl.ravel(a)", "tl.flip(a, 1)", "tl.flip(a, 0)", "tl.flip(r, 0)", "tl.sort(a)",
          "tl.sort(a, 0)", "tl.sort(a, 1, descending=True)", "tl.topk(a, 4)", "tl.topk(a, 3)", "tl.gather(a, a.to(tl.int32), 0)", "tl.gather(a, a, 0)", "tl.gather(a, a.to(tl.int32), 2)", "tl.histogram(a.to(tl.int32), 8)", "tl.histogram(r, 8)", "tl.histogram(r, 7)", "tl.histogram(r, 8, mask=r < 4)",
          "tl.arange(0, 16)", "tl.arange(3, 19)", "tl.arange(0, 12)", "tl.arange(8, 0)", "tl.arange(0, 0)", "tl.arange(0, 1 << 21)", "tl.arange(0, i)", "tl.arange(-8, 8)", "tl.full((2, 3), 1, tl.int32)", "tl.full((), 1, tl.int32)", "tl.full([], 1.5, tl.float16)",
          "tl.full((4, ), i, tl.float32)", "tl.full((4, ), r, tl.float32)", "tl.full((4, ), 1, None)", "tl.zeros((2048, 1024), tl.int8)", "tl.zeros(4, tl.int32)", "tl.zeros((4, 4), tl.float16)", "tl.zeros_like(a)", "tl.program_id(0)", "tl.program_id(3)", "tl.program_id(i)", "tl.num_programs(1)",
          "tl.swizzle2d(i, i, 4, 4, 2)", "tl.swizzle2d(i, i, i, i, i)", "a.sum(0)", "a.max(1)", "a.exp()", "a.to(tl.float16).exp()", "a.logical_and(a > 0)", "(a > 0).logical_or(a < 0)", "a.store(1)", "a.item()", "r.item()", "a.nope", "a.shape[0]", "a.shape", "len(a.shape)", "a.shape[0] + 1",
          "tl.reduce(a, 0, add)", "tl.reduce(a, None, add)", "tl.reduce((a, a), 0, pair)", "tl.reduce(a, 0, pair)", "tl.associative_scan(a, 0, add)", "tl.associative_scan((a, r[None, :] + tl.zeros((8, 16), tl.int32)), 0, pair)", "tl.associative_scan(a, 5, add)",
          "a if i > 0 else a", "a if i > 0 else r", "1 if i > 0 else 2", "1 if i > 0 else 2.0", "i if i > 0 else 2", "a if a > 0 else a", "a and a", "i and i", "i or 0", "not i", "i in (1, 2)", "0 < i < 4", "tl.multiple_of(a, (8, 8))", "tl.multiple_of(a, 8)", "tl.max_contiguous(r, 16)", "tl.max_constancy(r, [4])", "tl.assume(i > 0)",
          "tl.max_contiguous(r, i)", "tl.device_assert(i > 0)", "tl.static_assert(i > 0)", "tl.static_assert(1 > 0)", "tl.static_assert(0 > 1, 'because')", "tl.debug_barrier()", "tl.inline_asm_elementwise('mov.b32 $0, $1;', '=r,r', [a], tl.float32, True, 1)",
          "tl.map_elementwise(add, a, a)", "tl.unsqueeze(a, 0)", "tl.to_tensor(3)", "tl.to_tensor(a)", "tl.cast(3, tl.int8)", "tl.cast(1.5, tl.int8)", "tl.cast(True, tl.float32)", "tl.nope(a)", "tl.exp(1.0)", "tl.exp(1)", "tl.abs(-3)", "tl.sqrt(4.0)", "tl.maximum(1, 2)", "tl.maximum(1, 2.0)", "tl.minimum(i, 2)", "tl.where(1 > 0, 2, 3)", "tl.cdiv(7, 2)", "tl.cdiv(i, 2)",
          "min(1, 2)", "max(i, 2)", "min(a, a)", "abs(a)", "len((1, 2, 3))", "float(3)", "int(3.7)", "float(i)", "int(i)", "isinstance(a, tl.tensor)", "isinstance(1, int)", "range(3)", "print(a)", "getattr(a, 'dtype')", "hasattr(a, 'nope')", "str(3)", "tl.float32.primitive_bitwidth", "tl.int8.is_int8()", "a.dtype.is_floating()", "tl.float32 == a.dtype", "a.dtype is tl.float32",
          "tl.pointer_type(tl.float32)", "tl.constexpr(3)", "tl.constexpr(3) + 1", "tl.constexpr(7) // -2", "tl.constexpr(-7) % 3", "2 ** 10", "2 ** -1", "7 // 2", "-7 // 2", "-7 % 2", "7 / 2", "1 << 40", "1 / 0", "(1, 2) + (3, )", "(1, 2) * 2", "(1, (2, a))", "(1, 2)[1]", "(1, 2, 3)[1:]", "(1, 2)[i]", "(a, 1) == (a, 1)", "[1, 2]", "f'{1 + 1}'", "f'{1:04d}'", "None", "True", "1.5", "'text'", "lambda x: x",
          "[q + 1 for q in (1, 2)]", "{1: 2}", "(z := 3)", "a @ a", "a[i]", "i[0]", "3 is None", "i is None", "a is None", "None is None", "not None", "not a", "-1", "+1", "~1", "-1.5", "1 < 2", "1 < 2 < 3", "1 == 1.0", "'a' == 'a'", "1 in (1, 2)", "True and i", "False and i", "i and True", "None or 3"]
DOTS = ["tl.dot(a, b)", "tl.dot(a, b, out_dtype=tl.float16)", "tl.dot(a, b, out_dtype=tl.float32)", "tl.dot(a, b, out_dtype=tl.bfloat16)", "tl.dot(a, b, input_precision='ieee')", "tl.dot(a, b, input_precision='tf32x3')",
        "tl.dot(a, b, input_precision='nope')", "tl.dot(a, b, allow_tf32=False)", "tl.dot(a, b, acc=tl.zeros((16, 16), tl.float32))", "tl.dot(a, b, acc=tl.zeros((16, 16), tl.float16))", "tl.dot(a, b, acc=tl.zeros((16, 8), tl.float32))",
        "tl.dot(a, b, max_num_imprecise_acc=32)", "tl.dot(a, b).dtype"]

SCALARS = {"s": "fp32", "i": "i32"}
MODULE = """@triton.jit
def add(x, y):
    return x + y


@triton.jit
def pair(x0, y0, x1, y1):
    return x0 + x1, y0 + y1
"""


def block(name, pointer, count=16):
    return f"{name} = tl.load({pointer} + tl.arange(0, {count}))"


def family(name, types, params, setup, expressions, module=""):
    for ask in expressions:
        yield {"id": f"{name}/{types}/{ask}", "params": params, "setup": setup, "ask": ask, "module": module}


def all_cases():
    cases = []
    for x, y in itertools.product(TYPES, repeat=2):
        if "fp8" in x + y and (x, y) not in (("fp8e5", "fp8e5"), ("fp8e5", "fp8e4nv"), ("fp8e5", "fp16"), ("i8", "fp8e5"), ("fp8e4nv", "fp32")):
            continue
        cases += family("binary", f"{x},{y}", {"p": f"*{x}", "q": f"*{y}"}, [block("x", "p"), block("y", "q")], BINARY)
    for x in TYPES:
        params = {"p": f"*{x}", **SCALARS}
        cases += family("unary", x, params, [block("x", "p")], UNARY)
        cases += family("number", x, params, [block("x", "p")], NUMBERS)
        cases += family("cast", x, params, [block("x", "p")], CASTS)
        cases += family("memory", x, params, ["r = tl.arange(0, 16)"], MEMORY)
        cases += family("atomic", x, params, ["r = tl.arange(0, 16)", block("x", "p")], ATOMICS)
        cases += family("scalar", x, params, ["x = tl.load(p)"], UNARY[:6] + NUMBERS + CASTS[:15])
    for a, b in [(x, x) for x in TYPES] + [("fp8e5", "fp8e4nv"), ("fp16", "bf16"), ("i8", "u8"), ("fp32", "fp16"), ("fp8e5", "fp16")]:
        setup = [f"a = tl.load(p + tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :])", f"b = tl.load(q + tl.arange(0, 32)[:, None] * 16 + tl.arange(0, 16)[None, :])"]
        cases += family("dot", f"{a},{b}", {"p": f"*{a}", "q": f"*{b}"}, setup, DOTS)
    setup = ["r = tl.arange(0, 16)", "a = tl.load(p + tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :])"]
    cases += family("shape", "fp32", {"p": "*fp32", **SCALARS}, setup, SHAPES, MODULE)
    return cases
