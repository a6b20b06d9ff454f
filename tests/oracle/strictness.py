"""More questions of `statements.py`: what Triton's own functions refuse (positions of extrema, `cat`, sizes of products, seeds, `where`), and what
may be bound to a name."""

import itertools

#: Of `r` (16, int32), `x` (16, fp32), `a` (8 x 16, fp32), an int32 `i` and an fp32 `f`.
SETUP = ["r = tl.arange(0, 16)", "x = tl.load(p + r)", "a = tl.load(p + tl.arange(0, 8)[:, None] * 16 + r[None, :])"]

EXTREMA = [f"tl.{name}({arguments}, return_indices=True{more})" for name in ("max", "min") for arguments in ("x", "x, None", "x, 0", "a", "a, None", "a, 1", "a, axis=-1") for more in (
    "", ", keep_dims=True", ", return_indices_tie_break_left=False")] + [
    f"tl.{name}({arguments})" for name in ("argmax", "argmin") for arguments in ("x, None", "x, 0", "a, None", "a, 1", "a, -1", "a, axis=None", "x, 0, False", "i, 0")] + [
    "tl.max(x)", "tl.max(a, None)", "tl.min(a)", "tl.sum(a)", "tl.sum(a, None)"]

CATS = [f"tl.cat({arguments})" for arguments in (
    "x, x", "x, x, True", "x, x, False", "x, x, can_reorder=True", "x, x, can_reorder=False", "a, a", "a, a, can_reorder=True", "x, r, can_reorder=True", "x, a, can_reorder=True",
    "x, tl.arange(0, 8).to(tl.float32), can_reorder=True", "x, 1.0, can_reorder=True", "i, i, can_reorder=True", "r > 0, r > 1, can_reorder=True")]


def zeros(rows, columns, dtype):
    return f"tl.zeros(({rows}, {columns}), tl.{dtype})"


DTYPES = ["float32", "float16", "bfloat16", "float64", "int8", "float8e5", "float8e4nv"]
DOTS = [f"tl.dot({zeros(m, k, dtype)}, {zeros(k, n, dtype)})" for dtype in DTYPES for m, n, k in ((8, 8, 8), (1, 1, 16), (8, 8, 16), (16, 16, 16), (1, 8, 32), (16, 16, 32), (16, 16, 4), (64, 1, 16))] + [
    f"tl.dot({zeros(16, k, dtype)}, {zeros(k, 16, dtype)}, max_num_imprecise_acc={most})" for dtype in ("float8e5", "float16") for k in (32, 64) for most in (0, 16, 32, 33, 64, 128)] + [
    f"tl.dot({zeros(16, 16, 'float16')}, {zeros(16, 16, 'float16')}, {more})" for more in (
        "out_dtype=tl.float16", "out_dtype=tl.bfloat16", "acc=tl.zeros((16, 16), tl.float16)", "acc=tl.zeros((16, 16), tl.float32)", "acc=tl.zeros((8, 16), tl.float32)")]

SEEDS = ["3", "i", "r", "r.to(tl.int64)", "tl.load(q)", "tl.arange(0, 4)", "r[:, None]", "1.5", "f", "x", "p", "None", "i.to(tl.uint8)", "2 ** 40"]
RANDOM = [f"tl.{name}({seed}, r)" for name in ("rand", "randn", "randint", "randint4x", "rand4x") for seed in SEEDS] + [
    f"tl.rand(3, {offset})" for offset in ("i", "r.to(tl.int64)", "a.to(tl.int32)", "r.to(tl.uint8)", "tl.program_id(0)")]

WHERES = [f"tl.where({condition}, {a}, {b})" for condition in ("i", "i > 0", "r > 3", "r", "f", "1", "True", "x > 0") for a, b in itertools.product(("1", "2.0", "i", "f", "x"), ("1", "2.0", "r", "x"))]

#: What operators refuse, and subscripts.
OPERATORS = ["p + p", "p * 2", "p + f", "f % p", "x & f", "~f", "-p", "f << f", "p // 2", "p == f", "r + tl.arange(0, 8)", "f @ f", "None + f", "i + 2**70",
             "f if x > 0 else i", "x.nope", "x[0.5]", "f[0]", "r[None, :, 0]"]

#: A statement, and what is asked behind it.
BINDINGS = [(f"g = {value}", "1") for value in (
    "tl.exp", "tl.sum", "callee", "tl", "tl.math", "'abc'", "None", "tl.float32", "p.dtype", "x.to", "range", "len", "tl.static_range(3)", "range(3)", "callee if True else None", "(1, 2)", "tl.constexpr(3)", "3",
    "tl.constexpr", "r.shape", "x.dtype.element_ty", "tl.pointer_type(tl.float32)")] + [
    ("g: tl.constexpr = tl.exp", "g(x)"), ("g: tl.constexpr = callee", "g(x)"), ("g: tl.constexpr = 'abc'", "1"),
    ("tl.advance(tl.make_block_ptr(p, (16,), (1,), (0,), (16,), (0,)), (1,))", "1"), ("b = tl.advance(tl.make_block_ptr(p, (16,), (1,), (0,), (16,), (0,)), (1,))", "1"),
    ("advance = tl.advance\n    advance(tl.make_block_ptr(p, (16,), (1,), (0,), (16,), (0,)), (1,))", "1"),
    ("moved(tl.make_block_ptr(p, (16,), (1,), (0,), (16,), (0,)), (1,))", "1")]

MODULE = "moved = getattr(tl, 'advance', None)\n\n\n@triton.jit\ndef callee(x):\n    return x\n"


def all_cases():
    params = {"p": "*fp32", "q": "*i32", "i": "i32", "f": "fp32"}
    for ask in EXTREMA + CATS + DOTS + RANDOM + WHERES + OPERATORS:
        yield {"id": ask, "params": params, "setup": SETUP, "ask": ask, "module": MODULE}
    for statement, ask in BINDINGS:
        yield {"id": statement, "params": params, "setup": SETUP + [statement], "ask": ask, "module": MODULE}
