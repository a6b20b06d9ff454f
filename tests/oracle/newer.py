"""Questions about what Triton has since 3.7: asked of every release besides those of `cases.py` and `statements.py`."""

TYPES = ["i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp16", "bf16", "fp32", "fp64", "fp8e5"]

#: Of `p` (pointers to the type), `r` (16, int32), `x` (16, the type), an int32 `i`.
ATOMICS = [
    "tl.atomic_load(p)", "tl.atomic_load(p + r)", "tl.atomic_load(p + r, mask=r < 3)", "tl.atomic_load(p + r, r < 3, 'relaxed', 'cta')", "tl.atomic_load(p, mask=r < 3)",
    "tl.atomic_load(p + r[:, None], mask=(r < 3)[None, :])", "tl.atomic_load(p, sem='release')", "tl.atomic_load(p, sem='acq_rel')", "tl.atomic_load(p, scope='world')",
    "(p + r).atomic_load()", "tl.atomic_load(x)", "tl.atomic_load(3)",
    "tl.atomic_store(p, 1)", "tl.atomic_store(p + r, x)", "tl.atomic_store(p + r, 1, r < 3)", "tl.atomic_store(p + r, 1, sem='relaxed', scope='sys')", "tl.atomic_store(p, x)",
    "tl.atomic_store(p + r, x, sem='acquire')", "(p + r).atomic_store(x)", "tl.atomic_store(p + r, x, mask=r)", "tl.atomic_store(x, x)",
    "tl.atomic_poll(p, 1)", "tl.atomic_poll(p + r, 1)", "tl.atomic_poll(p + r, x, timeout_ns=100)", "tl.atomic_poll(p, 1, 'relaxed', 'cta', i)", "tl.atomic_poll(p, 1, sem='release')",
    "tl.atomic_poll(p, x)", "tl.atomic_poll(p, 1, timeout_ns=1.5)", "(p + r).atomic_poll(1)", "tl.atomic_poll(x, 1)",
]
#: Of `x` and `y` of the type.
ARITHMETIC = [
    "tl.fdiv(x, y, approx=True)", "tl.fdiv(x, y, ieee_rounding=True)", "tl.fdiv(x, y, True, True)", "tl.fdiv(x, 2)", "tl.fdiv(1, x)", "tl.fdiv(x, 2.0, approx=True)",
    "tl.cumprod(x, 0, dtype=tl.float32)", "x.cumprod(0, dtype=tl.int64)", "tl.clamp(x, 0, 2.0)", "tl.clamp(1.0, x, y)", "tl.fma(2, x, 1.5)", "tl.fma(1.0, 2, x)",
    "tl.min(x, 0, return_indices=True)", "x > 0.1", "0.1 == x", "x <= 3", "tl.expect_zero(x, x == 0)", "tl.squeeze(x[None, :], 0)", "tl.squeeze(x[None, :], -2)", "tl.unsqueeze(x, -1)",
    "tl.softmax(x, 0, keep_dims=True)", "tl.load(p + r, cache_modifier='.cs')", "tl.topk(x, 2, descending=False)",
]


def all_cases():
    for kind in TYPES:
        params = {"p": f"*{kind}", "q": f"*{kind}", "i": "i32"}
        setup = ["r = tl.arange(0, 16)", "x = tl.load(p + r)", "y = tl.load(q + r)"]
        for ask in ATOMICS + ARITHMETIC:
            yield {"id": f"newer/{kind}/{ask}", "params": params, "setup": setup, "ask": ask, "module": ""}
