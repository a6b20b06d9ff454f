"""Launches through stacked decorators: one look-up in C++ with the results of the decorators' `run` (docs/dispatch.md). On the CPU: what
the decorators add does not depend on the target."""

import copy
import sys
import threading
import types
from unittest import mock

import nereid
import nereid.language as tl
import numpy as np
import pytest
import torch
from nereid.runtime import _rules
from nereid.runtime.autotuner import Autotuner, Heuristics

GLOBAL = 3


@nereid.jit
def parts(out, n, scale, BLOCK: tl.constexpr, EVEN: tl.constexpr, MODE: tl.constexpr):
    i = tl.arange(0, 4)
    tl.store(out + i, tl.where(i == 0, BLOCK, tl.where(i == 1, EVEN, tl.where(i == 2, MODE, n))))


def tuned(sizes=(32, 64), key=("n", ), even=lambda a: a["n"] % a["BLOCK"] == 0, mode=lambda a: 7, **options):
    configs = [nereid.Config({"BLOCK": size}) for size in sizes]
    kernel = nereid.autotune(configs, key=list(key), **options)(nereid.heuristics({"EVEN": even, "MODE": mode})(parts))
    return kernel


def choose(kernel, *keys):
    """Puts the first configuration in the cache, so that nothing is measured."""
    for key in keys:
        kernel.cache[key] = kernel.configs[0]


def launch(kernel, n=128, scale=1.5, **kwargs):
    out = np.zeros(4, np.int32)
    kernel[(1, )](out, n, scale, **kwargs)
    return out.tolist()


class Calls:
    """Python functions that run in a `with` block, by name."""

    def __enter__(self):
        self.names = []
        sys.setprofile(lambda frame, event, _: self.names.append(frame.f_code.co_name) if event == "call" else None)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        self.names = [name for name in self.names if name != "__exit__"]


@pytest.fixture
def kernel():
    kernel = tuned()
    choose(kernel, (128, "int32"), (100, "int32"))
    return kernel


def test_a_warm_launch_runs_no_python(kernel):
    out = np.zeros(4, np.int32)
    for order in (lambda fn: fn, nereid.heuristics({"MODE": lambda a: a["n"] + 1})):
        stacked = order(kernel)
        stacked[(1, )](out, 128, 1.5)
        stacked[(1, )](out, n=128, scale=2.5)
        with Calls() as calls:
            stacked[(1, )](out, 128, 1.5)
            stacked[(1, )](out, n=128, scale=2.5)
        assert calls.names == []
    assert out.tolist() == [32, 1, 7, 128]


def test_results_follow_the_values(kernel):
    assert launch(kernel) == [32, 1, 7, 128]
    assert launch(kernel, 100) == [32, 0, 7, 100]
    assert launch(kernel) == [32, 1, 7, 128]


def test_heuristics_run_once_for_what_they_read():
    seen = []

    def watched(arguments):
        seen.append(arguments["n"])
        return 5

    kernel = nereid.heuristics({"BLOCK": lambda a: 2 * a["n"], "EVEN": lambda a: a["scale"] > 1, "MODE": watched})(parts)
    for _ in range(3):
        assert launch(kernel, 8) == [16, 1, 5, 8]
        assert launch(kernel, 9, 0.5) == [18, 0, 5, 9]
    assert seen == [8, 9] * 3  # what appends to a list is called each time


@pytest.mark.parametrize("rule, proven", [
    (lambda a: a["n"] % a["BLOCK"] == 0, True),
    (lambda a: a["bias"] is not None, True),
    (lambda a: 4 if a["n"] < 2048 and a["bias"] is None else 8, True),
    (lambda a: nereid.next_power_of_2(a["n"]), True),
    (lambda a: min(max(a["n"] // 256, 1), 8), True),
    (lambda a: a["name"] in ("relu", "gelu") or a["name"].startswith("tanh"), True),
    (lambda a: GLOBAL * a["n"], True),
    (lambda a: a["x"].shape[0], False),
    (lambda a: a.get("n", 3), False),
    (lambda a: len(a), False),
    (lambda a: print(a["n"]), False),
    (lambda a: [a["n"]], False),
    (lambda a: sys.argv, False),
    (lambda a: sum(i for i in range(a["n"])), False),
    (lambda **a: 3, False),
    (max, False),
])
def test_what_is_proven(rule, proven):
    assert (_rules.reads(rule) is not None) == proven


def test_what_is_read():
    values, nones, guards = _rules.reads(lambda a: (a["n"] if a["bias"] is None else a["m"]) + GLOBAL + nereid.cdiv(a["n"], 2))
    assert set(values) == {"n", "m"} and nones == ("bias", )
    assert {(name, value) for _, name, value in guards} == {("GLOBAL", 3), ("nereid", nereid), ("cdiv", nereid.cdiv)}


def test_globals_of_heuristics_are_watched(monkeypatch):
    kernel = nereid.heuristics({"BLOCK": lambda a: GLOBAL, "EVEN": lambda a: 0, "MODE": lambda a: 0})(parts)
    assert launch(kernel)[0] == 3
    monkeypatch.setitem(globals(), "GLOBAL", 5)
    assert launch(kernel)[0] == 5
    factor = 4
    kernel = nereid.heuristics({"BLOCK": lambda a: factor, "EVEN": lambda a: 0, "MODE": lambda a: 0})(parts)
    assert launch(kernel)[0] == 4
    factor = 6
    assert launch(kernel)[0] == 6


def test_values_with_operators_of_their_own():

    class Odd(int):

        def __mod__(self, other):
            return 0 if mood else 1

    mood = True
    kernel = nereid.heuristics({"BLOCK": lambda a: 8, "EVEN": lambda a: a["n"] % 2 == 0, "MODE": lambda a: 0})(parts)
    assert launch(kernel, Odd(3)) == [8, 1, 0, 3]
    mood = False
    assert launch(kernel, Odd(3)) == [8, 0, 0, 3]
    assert launch(kernel, 4) == [8, 1, 0, 4] and launch(kernel, Odd(4))[1] == 0


def test_the_cache_belongs_to_the_user(kernel):
    assert launch(kernel)[0] == 32
    kernel.cache[(128, "int32")] = kernel.configs[1]
    assert launch(kernel)[0] == 64
    kernel.cache.update({(128, "int32"): kernel.configs[0]})
    assert launch(kernel)[0] == 32
    plain = {(128, "int32"): kernel.configs[1]}
    kernel.cache = plain
    assert launch(kernel)[0] == 64
    plain[(128, "int32")] = kernel.configs[0]
    assert launch(kernel)[0] == 32
    with mock.patch.object(Autotuner, "_choose", lambda self, args, kwargs: self.configs[1]):
        assert launch(kernel)[0] == 32  # known
        plain.clear()
        assert launch(kernel)[0] == 64


def test_clearing_the_cache_tunes_again():
    kernel = tuned()
    launch(kernel)
    assert len(kernel.cache) == 1
    kernel.cache.clear()
    assert not kernel.cache
    launch(kernel)
    assert len(kernel.cache) == 1


def test_configurations_are_replaced(kernel):
    assert launch(kernel)[0] == 32
    kernel.configs = [nereid.Config({"BLOCK": 16})]
    assert launch(kernel)[0] == 16
    kernel.configs[0] = nereid.Config({"BLOCK": 8})
    assert launch(kernel)[0] == 8
    kernel.configs[0].kwargs["BLOCK"] = 4
    assert launch(kernel)[0] == 4
    kernel.configs[0].kwargs = {"BLOCK": 2}
    assert launch(kernel)[0] == 2
    kernel.configs[0].num_warps = 3
    with pytest.raises(AssertionError, match="power of 2"):
        launch(kernel)
    kernel.configs.append(nereid.Config({"BLOCK": 64}))
    assert launch(kernel)[0] == 32  # the cache counts again


def test_heuristics_are_replaced(kernel):
    assert launch(kernel)[1:3] == [1, 7]
    kernel.fn.values["MODE"] = lambda a: a["n"] + 2
    assert launch(kernel)[1:3] == [1, 130]
    kernel.fn.values = {"EVEN": lambda a: 9, "MODE": lambda a: a["EVEN"] + 1}
    assert launch(kernel)[1:3] == [9, 10]


def test_what_is_decorated_is_replaced(kernel):
    assert launch(kernel)[2] == 7
    kernel.fn = nereid.heuristics({"EVEN": lambda a: 0, "MODE": lambda a: 1})(parts)
    assert launch(kernel)[2] == 1


def test_the_key_is_changed(kernel):
    launch(kernel)
    kernel.keys.append("scale")
    choose(kernel, (128, 1.5, "int32"), (128, 2.5, "int32"))
    kernel.cache[(128, 2.5, "int32")] = kernel.configs[1]
    assert launch(kernel)[0] == 32 and launch(kernel, scale=2.5)[0] == 64 and launch(kernel)[0] == 32


def test_run_is_taken_over(kernel):
    assert launch(kernel)[0] == 32
    with mock.patch.object(Autotuner, "run", lambda self, *a, **k: "mine"):
        assert kernel[(1, )](np.zeros(4, np.int32), 128, 1.5) == "mine"
    with mock.patch.object(Heuristics, "run", lambda self, *a, **k: sorted(k)):
        assert kernel[(1, )](np.zeros(4, np.int32), 128, 1.5) == ["BLOCK", "grid", "num_ctas", "num_stages", "num_warps", "warmup"]
    with mock.patch.object(type(parts), "run", lambda self, *a, **k: k["EVEN"]):
        assert kernel[(1, )](np.zeros(4, np.int32), 128, 1.5) is True
    assert launch(kernel)[0] == 32
    kernel.fn.run = lambda *a, **k: "instance"
    assert kernel[(1, )](np.zeros(4, np.int32), 128, 1.5) == "instance"


def test_subclasses_get_every_launch():
    seen = []

    class Tuner(Autotuner):

        def run(self, *args, **kwargs):
            seen.append("tuner")
            return super().run(*args, **kwargs)

    class Rules(Heuristics):

        def run(self, *args, **kwargs):
            seen.append("rules")
            return super().run(*args, **kwargs)

    class Plain(Autotuner):
        pass

    rules = {"EVEN": lambda a: 1, "MODE": lambda a: 2}
    for outer, inner, expected in ((Tuner, Heuristics, ["tuner"]), (Autotuner, Rules, ["rules"]), (Tuner, Rules, ["tuner", "rules"]),
                                   (Plain, Heuristics, [])):
        below = inner(parts, parts.arg_names, rules)
        kernel = outer(below, below.arg_names, [nereid.Config({"BLOCK": 16})], ["n"], None, None)
        seen.clear()
        for _ in range(2):
            assert launch(kernel) == [16, 1, 2, 128]
        assert seen == 2 * expected


def test_hooks_before_runs():
    seen = []
    function = copy.copy(parts)
    kernel = nereid.heuristics({"BLOCK": lambda a: 1, "EVEN": lambda a: 1, "MODE": lambda a: 2})(function)
    launch(kernel)
    function.add_pre_run_hook(lambda *args, **kwargs: seen.append(kwargs["MODE"]))
    launch(kernel)
    assert seen == [2]


def test_launch_hooks(kernel):
    seen = []
    launch(kernel)
    hook = lambda metadata: seen.append(metadata.get()["name"])
    nereid.knobs.runtime.launch_enter_hook.add(hook)
    try:
        launch(kernel)
    finally:
        nereid.knobs.runtime.launch_enter_hook.remove(hook)
    launch(kernel)
    assert seen == ["parts"]


def test_attributes_of_the_launch():
    seen = []

    def hook(arguments):
        seen.append((sorted(arguments), dict(kernel.nargs), kernel.best_config.kwargs))

    configs = [nereid.Config({"BLOCK": 16}, pre_hook=hook)]
    rules = {"EVEN": lambda a: seen.append(("rule", dict(kernel.nargs))) or 1, "MODE": lambda a: 2}
    kernel = nereid.autotune(configs, key=[])(nereid.heuristics(rules)(parts))
    out = np.zeros(4, np.int32)
    for _ in range(2):
        kernel[lambda meta: seen.append(("grid", sorted(meta), dict(kernel.nargs))) or (1, )](out, 5, scale=0.5)
    given = {"out": out, "n": 5}
    options = ["num_ctas", "num_stages", "num_warps"]
    once = [(sorted(["BLOCK", "grid", "n", "out", "scale", "warmup", *options]), given, {"BLOCK": 16}), ("rule", given),
            ("grid", ["BLOCK", "EVEN", "MODE", "n", "out", "scale"], given)]
    assert seen == 2 * once
    assert kernel.nargs is None and kernel.best_config is configs[0] and out.tolist() == [16, 1, 2, 5]


def test_best_config_is_of_the_last_launch(kernel):
    kernel.cache[(100, "int32")] = kernel.configs[1]
    for n, config in ((128, 0), (100, 1), (128, 0)):
        launch(kernel, n)
        assert kernel.best_config is kernel.configs[config]
    kernel.best_config = None
    launch(kernel)
    assert kernel.best_config is kernel.configs[0]


def test_arguments_that_hooks_and_grids_change():

    @nereid.jit
    def copy_kernel(x, y, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(y + i, tl.load(x + i))

    x, y, other = torch.arange(8.), torch.zeros(8), torch.arange(8.) + 10

    def change(arguments):
        arguments["x"].data = other

    kernel = nereid.autotune([nereid.Config({"N": 8}, pre_hook=change)], key=[])(copy_kernel)
    kernel[(1, )](x, y)
    assert torch.equal(y, other)
    x.data = torch.zeros(8)
    kernel[(1, )](x, y)
    assert torch.equal(y, other)
    plain = nereid.autotune([nereid.Config({"N": 8})], key=[])(copy_kernel)
    x.data = torch.zeros(8)
    plain[lambda meta: change(meta) or (1, )](x, y)
    assert torch.equal(y, other)


def test_keys_tell_dtypes_apart():
    kernel = tuned(key=())
    seen = []

    def tune(self, key, configs, args, kwargs, **options):
        seen.append(key)
        self.cache[key] = configs[0]

    with mock.patch.object(Autotuner, "_tune", tune):
        for _ in range(2):
            for dtype in (np.int32, np.int64, np.float32):
                kernel[(1, )](np.zeros(4, dtype), 1, 1.0)
            kernel[(1, )](torch.zeros(4, dtype=torch.int32), 1, 1.0)
            kernel[(1, )](nereid.reinterpret(torch.zeros(4, dtype=torch.int32), tl.uint32), 1, 1.0)
    assert seen == [("int32", ), ("int64", ), ("float32", ), ("torch.int32", ), ("uint32", )]


def test_heuristics_over_tuning():
    rules = {"MODE": lambda a: a["n"] // 100, "EVEN": lambda a: a["MODE"] + 1}
    kernel = nereid.heuristics(rules)(nereid.autotune([nereid.Config({"BLOCK": 32}), nereid.Config({"BLOCK": 64})], key=["MODE"])(parts))
    kernel.fn.cache.update({(1, "int32"): kernel.fn.configs[0], (2, "int32"): kernel.fn.configs[1]})
    for _ in range(2):
        assert [launch(kernel, n)[:3] for n in (128, 199, 200)] == [[32, 2, 1], [32, 2, 1], [64, 3, 2]]
    assert len(kernel.fn.cache) == 2


def test_asked_heuristics_between_others():
    answers = iter([1, 2, 1])
    rules = {"MODE": lambda a: next(answers), "EVEN": lambda a: a["MODE"] * 10}
    kernel = nereid.heuristics(rules)(nereid.autotune([nereid.Config({"BLOCK": 32}), nereid.Config({"BLOCK": 64})], key=["EVEN"])(parts))
    kernel.fn.cache.update({(10, "int32"): kernel.fn.configs[0], (20, "int32"): kernel.fn.configs[1]})
    assert [launch(kernel)[:3] for _ in range(3)] == [[32, 10, 1], [64, 20, 2], [32, 10, 1]]


def test_options_by_heuristics():
    rules = {"debug": lambda a: a["n"] > 100, "BLOCK": lambda a: 1, "EVEN": lambda a: 1, "MODE": lambda a: 1}
    kernel = nereid.heuristics(rules)(parts)
    out = np.zeros(4, np.int32)
    for _ in range(2):
        assert [kernel[(1, )](out, n, 1.0).metadata.debug for n in (5, 500)] == [False, True]


def test_given_twice(kernel):
    launch(kernel)
    for _ in range(2):
        with pytest.raises(TypeError, match="num_warps"):
            launch(kernel, num_warps=8)
        with pytest.raises(TypeError, match="BLOCK"):
            launch(kernel, BLOCK=8)
        with pytest.raises(TypeError, match="EVEN|multiple values"):
            kernel[(1, )](np.zeros(4, np.int32), 128, 1.5, 3, 4)
        assert launch(kernel, MODE=9)[2] == 7  # a heuristic goes before a keyword
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'scale'"):
            kernel[(1, )](np.zeros(4, np.int32), 128)
        with pytest.raises(KeyError, match="num_warp "):
            launch(kernel, num_warp=8)
        assert launch(kernel, debug=True)[0] in (32, 64)  # options are in the key: measured anew


def test_exceptions_of_user_code():
    kernel = nereid.heuristics({"BLOCK": lambda a: 1 // (a["n"] - 5), "EVEN": lambda a: a["absent"], "MODE": lambda a: 1})(parts)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            launch(kernel, 5)
        with pytest.raises(KeyError, match="absent"):
            launch(kernel, 6)


def test_the_same_compiled_kernel(kernel):
    out = np.zeros(4, np.int32)
    fast = kernel[(1, )](out, 128, 1.5)
    assert kernel.run(out, 128, 1.5, grid=(1, ), warmup=False) is fast
    assert kernel.warmup(out, 128, 1.5, grid=(1, ))[0] is fast
    assert kernel[(0, )](out, 128, 1.5) is fast


def test_copies(kernel):
    assert launch(kernel)[0] == 32
    twin = copy.copy(kernel)
    assert launch(twin)[0] == 32
    twin.configs = [nereid.Config({"BLOCK": 16})]
    assert launch(twin)[0] == 16 and launch(kernel)[0] == 32


def test_many_keys():
    kernel = nereid.heuristics({"BLOCK": lambda a: a["n"] % 3, "EVEN": lambda a: 0, "MODE": lambda a: 0})(parts)
    out = np.zeros(4, np.int32)
    for n in [*range(2, 6000), *range(2, 50)]:
        kernel[(0, )](out, n, 1.0)
    assert [launch(kernel, n)[0] for n in (4000, 4001, 4002)] == [1, 2, 0]


def test_threads():
    kernel = tuned(mode=lambda a: a["n"] // 10)
    for n in range(10, 50):
        choose(kernel, (n, "int32"))
    wrong = []

    def work(first):
        for turn in range(200):
            n = 10 + (first + turn) % 40
            if launch(kernel, n) != [32, n % 32 == 0, n // 10, n]:
                wrong.append(n)
            if turn % 50 == first:
                kernel.cache[(n, "int32")] = kernel.configs[0]

    threads = [threading.Thread(target=work, args=(i, )) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# ---- functions as grids: what provably only computes is not given, and does not cost, more than it needs ----


class Given:
    """Notes how many arguments a grid function is given, without showing in its code."""

    def __init__(self):
        self.sizes = []

    def __call__(self, frame, event, arg):
        if event == "call" and frame.f_code.co_name == "grid":
            self.sizes.append(len(next(iter(frame.f_locals.values()))))


def sizes_given(call):
    given = Given()
    sys.setprofile(given)
    try:
        call()
    finally:
        sys.setprofile(None)
    return given.sizes


@nereid.jit
def ramp(out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, i + n, mask=i < n)


@pytest.mark.parametrize("decorate", [lambda fn: fn, lambda fn: nereid.autotune([nereid.Config({"BLOCK": 8})], key=[])(fn)])
def test_a_grid_function_that_only_computes(decorate):
    kernel = decorate(nereid.jit(ramp.fn))
    options = {} if kernel.__class__ is not nereid.JITFunction else {"BLOCK": 8}
    out = np.zeros(64, np.int32)

    def launch(n):

        def grid(meta):
            return (nereid.cdiv(n, meta["BLOCK"]), )

        out[:] = 0
        kernel[grid](out, n, **options)
        return [i + n for i in range(n)] + [0] * (64 - n) == out.tolist()

    for n in range(1, 30):
        assert launch(n)
    # Each launch has a closure of its own: the number in it may be any.
    assert sizes_given(lambda: launch(33)) == [1] and launch(64)


def test_a_grid_function_that_does_more():
    kernel, seen = nereid.jit(ramp.fn), []

    def grid(meta):
        seen.append(sorted(meta))
        return (1, )

    for _ in range(40):
        kernel[grid](np.zeros(8, np.int32), 8, BLOCK=8)
    assert seen == [["BLOCK", "n", "out"]] * 40


def test_a_grid_function_that_changes_what_it_reads():
    kernel, out = nereid.jit(ramp.fn), np.zeros(64, np.int32)
    module = types.ModuleType("sizes")
    module.programs = 2
    scope = {"sizes": module, "cdiv": nereid.cdiv}
    exec("def grid(meta):\n    return (cdiv(sizes.programs * 8, meta['BLOCK']), )", scope)
    for _ in range(40):
        kernel[scope["grid"]](out, 64, BLOCK=8)
    assert np.count_nonzero(out) == 16
    module.programs = 4
    kernel[scope["grid"]](out, 64, BLOCK=8)
    assert np.count_nonzero(out) == 32

    calls = []

    def cdiv(a, b):
        calls.append((a, b))
        return 8

    scope["cdiv"] = cdiv
    kernel[scope["grid"]](out, 64, BLOCK=8)
    assert np.count_nonzero(out) == 64 and calls == [(32, 8)]


def test_a_grid_function_meets_other_values():

    class Odd(int):

        def __floordiv__(self, other):
            return 3

    kernel, out = nereid.jit(ramp.fn), np.zeros(64, np.int32)

    def grid(meta):
        return (meta["n"] // meta["BLOCK"], )

    for _ in range(40):
        kernel[grid](out, 64, BLOCK=8)
    assert np.count_nonzero(out) == 64
    out[:] = 0
    assert sizes_given(lambda: kernel[grid](out, Odd(64), BLOCK=8)) == [3]
    assert np.count_nonzero(out) == 24

    def grid(meta):
        return (meta["absent"], )

    for _ in range(20):
        with pytest.raises(KeyError, match="absent"):
            kernel[grid](out, 64, BLOCK=8)
