"""`_unsafe_update_src` of a function that kernels know in any way: the next launch runs the new text. And functions of Python as constants."""

import nereid
import nereid.language as tl
import numpy as np
import pytest


@nereid.jit
def step(x):
    return x + 1


@nereid.jit
def outer_step(x):
    return step(x) * 10


@nereid.jit
def combine(a, b):
    return a + b


@tl.core._aggregate
class Counter:
    start: tl.tensor

    @nereid.jit
    def next(self):
        return self.start + 1


def kernels():
    """One kernel for each way to know a function: (kernel, its arguments behind `out`, the function, result before, new text, result after)."""
    local = nereid.jit(step.fn)

    @nereid.jit
    def as_constant(out, FN: tl.constexpr):
        tl.store(out, FN(5))

    @nereid.jit
    def in_a_tuple(out, FNS: tl.constexpr):
        tl.store(out, FNS[0](5))

    @nereid.jit
    def by_global(out):
        tl.store(out, step(5))

    @nereid.jit
    def by_global_of_a_callee(out):
        tl.store(out, outer_step(5))

    @nereid.jit
    def by_closure(out):
        tl.store(out, local(5))

    @nereid.jit
    def reduced(out):
        tl.store(out, tl.reduce(tl.arange(1, 5), 0, combine))

    @nereid.jit
    def of_a_class(out):
        tl.store(out, Counter(tl.to_tensor(5)).next())

    heuristic = nereid.heuristics({"FN": lambda args: step})(as_constant)
    tuned = nereid.autotune([nereid.Config({"FN": step})], key=[])(nereid.jit(as_constant.fn))
    several = nereid.autotune([nereid.Config({"FN": step}), nereid.Config({"FN": step}, num_warps=8)], key=[],
                              do_bench=lambda call, quantiles: [1.0] * 3)(nereid.jit(as_constant.fn))
    other = "def step(x):\n    return x + 2\n"
    return {
        "constant": (as_constant, (step, ), step, 6, other, 7),
        "tuple": (in_a_tuple, ((step, 3), ), step, 6, other, 7),
        "global": (by_global, (), step, 6, other, 7),
        "callee": (by_global_of_a_callee, (), step, 60, other, 70),
        "closure": (by_closure, (), local, 6, other, 7),
        "combine": (reduced, (), combine, 10, "def combine(a, b):\n    return a * b\n", 24),
        "method": (of_a_class, (), Counter.next, 6, "def next(self):\n    return self.start + 2\n", 7),
        "heuristic": (heuristic, (), step, 6, other, 7),
        "configuration": (tuned, (), step, 6, other, 7),
        "configurations": (several, (), step, 6, other, 7),
    }  # yapf: disable


@pytest.mark.parametrize("way", ["constant", "tuple", "global", "callee", "closure", "combine", "method", "heuristic", "configuration",
                                 "configurations"])
def test_the_next_launch_runs_the_new_text(target, way):
    kernel, arguments, function, before, text, after = kernels()[way]
    out = np.zeros(1, np.int32)
    old = function.src
    try:
        for _ in range(4):
            kernel[(1, )](out, *arguments)
            assert out[0] == before
        function._unsafe_update_src(text)
        for _ in range(4):
            kernel[(1, )](out, *arguments)
            assert out[0] == after
    finally:
        function._unsafe_update_src(old)
    for _ in range(4):
        kernel[(1, )](out, *arguments)
        assert out[0] == before


def test_keys_of_callers_change(target):
    kernel = kernels()["callee"][0]
    out, old, key = np.zeros(1, np.int32), step.src, kernel.cache_key
    kernel[(1, )](out)
    try:
        step._unsafe_update_src("def step(x):\n    return x + 2\n")
        assert kernel.cache_key != key and outer_step.cache_key
    finally:
        step._unsafe_update_src(old)
    assert kernel.cache_key == key


def test_unrelated_kernels_stay(target):
    unrelated, related = kernels()["combine"][0], kernels()["global"][0]
    out, old = np.zeros(1, np.int32), step.src
    kernel = unrelated[(1, )](out)
    used = related[(1, )](out)
    step._unsafe_update_src(old)
    assert unrelated[(1, )](out) is kernel and related[(1, )](out) is not used


def test_a_compilation_that_was_begun_before(target):
    from concurrent.futures import ThreadPoolExecutor
    kernel, arguments, function, before, text, after = kernels()["constant"]
    out, old = np.zeros(1, np.int32), function.src
    with ThreadPoolExecutor(1) as executor:
        try:
            with nereid.AsyncCompileMode(executor):
                kernel.warmup(out, *arguments, grid=(1, ))
            function._unsafe_update_src(text)
            kernel[(1, )](out, *arguments)
            assert out[0] == after
        finally:
            function._unsafe_update_src(old)


# ---- functions of Python as constants: what they do decides, not their names --------------------------


def adding(k, deep=False):
    if deep:
        inner = nereid.constexpr_function(lambda x: x + k)
        return nereid.constexpr_function(lambda x: inner(x))
    return nereid.constexpr_function(lambda x: x + k)


def with_default(k):

    @nereid.constexpr_function
    def add(x, by=k):
        return x + by

    return add


BY_GLOBAL = 1


@nereid.constexpr_function
def by_global(x):
    return x + BY_GLOBAL


@nereid.jit
def call(out, FN: tl.constexpr):
    tl.store(out, FN(5))


@pytest.mark.parametrize("make", [adding, lambda k: adding(k, deep=True), with_default], ids=["closure", "closure of a closure", "default"])
def test_constexpr_functions_with_other_values(target, make):
    out = np.zeros(1, np.int32)
    functions = [make(1), make(2), make(1)]
    for turn in range(3):
        for function, result in zip(functions, (6, 7, 6)):
            call[(1, )](out, function)
            assert out[0] == result
    assert functions[0].cache_key == functions[2].cache_key != functions[1].cache_key


def test_constexpr_functions_that_read_globals(target, monkeypatch):
    out = np.zeros(1, np.int32)
    call[(1, )](out, by_global)
    assert out[0] == 6
    monkeypatch.setitem(globals(), "BY_GLOBAL", 3)
    call[(1, )](out, by_global)
    assert out[0] == 8
