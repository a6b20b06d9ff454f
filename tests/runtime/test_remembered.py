"""Launches through decorators that look like the last one: what was decided for it is used again without a key. Here each kind of
launch follows each other one, and everything that decides is changed in between. On the CPU: what is decided does not depend on the
target."""

import sys
import threading

import nereid
import nereid.language as tl
import pytest
import torch

OFFSET = 5


@nereid.jit
def tell(out, n, scale, flag, extra, other, BLOCK: tl.constexpr, EVEN: tl.constexpr, MODE: tl.constexpr, HAS: tl.constexpr):
    i = tl.arange(0, 4)
    tl.store(out + i, tl.where(i == 0, BLOCK, tl.where(i == 1, EVEN, tl.where(i == 2, MODE, n))))
    tl.store(out + 4 + i, tl.where(i == 0, HAS, tl.where(i == 1, flag, tl.where(i == 2, (scale * 2).to(tl.int32), other))))


SIZES = {5: 16, 32: 32, 33: 64}


def decorated():
    rules = {
        "EVEN": lambda a: a["n"] % a["BLOCK"] == 0,
        "MODE": lambda a: (a["other"] if a["flag"] else -1) + OFFSET,
        "HAS": lambda a: a["extra"] is not None
    }
    configs = [nereid.Config({"BLOCK": size}) for size in SIZES.values()]
    kernel = nereid.autotune(configs, key=["n"])(nereid.heuristics(rules)(tell))
    for config, n in zip(configs, SIZES):
        for dtypes in ("int32", "int64"):
            kernel.cache[(n, f"torch.{dtypes}")] = config
            kernel.cache[(n, f"torch.{dtypes}", "torch.float32")] = config
    return kernel


def wanted(n=32, scale=1.5, flag=True, extra=None, other=3):
    return [SIZES[n], n % SIZES[n] == 0, (other if flag else -1) + OFFSET, n, extra is not None, flag, int(scale * 2), other]


def launch(kernel, dtype=torch.int32, grid=(1, ), times=1, **values):
    values = {"n": 32, "scale": 1.5, "flag": True, "extra": None, "other": 3, **values}
    for _ in range(times):
        out = torch.zeros(8, dtype=dtype)
        kernel[grid](out, *values.values())
        found = out.tolist()
    return found


VARIANTS = [{}, {"n": 5}, {"n": 33}, {"scale": 2.5}, {"flag": False}, {"extra": torch.zeros(3)}, {"other": 4}, {"other": 16},
            {"dtype": torch.int64}, {"dtype": torch.int64, "other": -7}, {"scale": 3}, {"flag": 1}, {"grid": lambda meta: (1, )},
            {"extra": torch.nn.Parameter(torch.zeros(3))}]


def expected(dtype=None, grid=None, **values):
    return [int(value) for value in wanted(**values)]


def test_each_launch_after_each_other():
    kernel = decorated()
    for first in VARIANTS:
        for second in VARIANTS:
            assert launch(kernel, times=3, **first) == expected(**first), first
            assert launch(kernel, **second) == expected(**second), (first, second)
            assert launch(kernel, **first) == expected(**first), (second, first)


def replaced_cache(kernel):
    kernel.cache[(32, "torch.int32")] = kernel.configs[2]


def plain_cache(kernel):
    kernel.cache = {(32, "torch.int32"): kernel.configs[2]}


def changed_config(kernel):
    kernel.cache[(32, "torch.int32")].kwargs["BLOCK"] = 64


def single_config(kernel):
    kernel.configs[:] = kernel.configs[2:]


def replaced_decorated(kernel):
    kernel.fn = nereid.heuristics({"EVEN": lambda a: 0, "MODE": lambda a: 0, "HAS": lambda a: 0})(tell)


@pytest.mark.parametrize("change, position, value", [(replaced_cache, 0, 64), (plain_cache, 0, 64), (changed_config, 0, 64),
                                                     (single_config, 0, 64), (replaced_decorated, 2, 0)])
def test_decisions_that_change(change, position, value):
    kernel = decorated()
    before = launch(kernel, times=4)
    change(kernel)
    after = launch(kernel)
    assert before[position] != value and after[position] == value
    assert launch(kernel, times=4) == after


def test_globals_and_rules_that_change(monkeypatch):
    kernel = decorated()
    assert launch(kernel, times=4)[2] == 8
    monkeypatch.setitem(globals(), "OFFSET", 100)
    assert launch(kernel)[2] == 103
    assert launch(kernel, times=4)[2] == 103
    kernel.fn.values["MODE"] = lambda a: 9
    assert launch(kernel)[2] == 9
    kernel.fn.values["MODE"] = lambda a: a["other"] * 2
    assert launch(kernel)[2] == 6


def test_run_that_is_taken_over(monkeypatch):
    kernel, seen = decorated(), []
    assert launch(kernel, times=4) == expected()
    for cls in (type(kernel), type(kernel.fn), type(kernel.fn.fn)):
        real = cls.run
        with monkeypatch.context() as patch:
            patch.setattr(cls, "run", lambda self, *args, **kwargs: seen.append(cls) or real(self, *args, **kwargs))
            assert launch(kernel) == expected() and seen.pop() is cls and not seen
        assert launch(kernel, times=3) == expected() and not seen
    kernel.fn.fn.run = lambda *args, **kwargs: seen.append(args)
    assert launch(kernel) == [0] * 8 and len(seen) == 1
    del kernel.fn.fn.run


class Mixin:
    """Not a class of kernels: nothing tells when it changes."""


class Mixed(Mixin, nereid.JITFunction):
    pass


def test_run_of_a_class_in_between(monkeypatch):
    seen = []
    kernel = Mixed(tell.fn)
    arguments = (1, 1.0, True, None, 2, 16, 1, 1, 1)
    for _ in range(3):
        kernel[(1, )](torch.zeros(8, dtype=torch.int32), *arguments)
    monkeypatch.setattr(Mixin, "run", lambda self, *args, **kwargs: seen.append(kwargs["grid"]), raising=False)
    kernel[(1, )](torch.zeros(8, dtype=torch.int32), *arguments)
    assert seen == [(1, )]
    monkeypatch.undo()
    kernel[(1, )](torch.zeros(8, dtype=torch.int32), *arguments)
    assert len(seen) == 1
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "__class__", type("Other", (nereid.JITFunction, ), {"run": lambda self, *a, **k: seen.append(a)}))
        kernel[(1, )](torch.zeros(8, dtype=torch.int32), *arguments)
    assert len(seen) == 2


def test_hooks_that_come_later():
    kernel, seen = decorated(), []
    assert launch(kernel, times=4) == expected()
    nereid.knobs.runtime.launch_enter_hook.add(seen.append)
    try:
        assert launch(kernel) == expected() and len(seen) == 1
    finally:
        nereid.knobs.runtime.launch_enter_hook.remove(seen.append)
    assert launch(kernel) == expected() and len(seen) == 1


def test_caches_that_are_cleared():
    kernel = decorated()
    before = kernel[(1, )](torch.zeros(8, dtype=torch.int32), 32, 1.5, True, None, 3)
    assert launch(kernel, times=4) == expected()
    tell._clear_cache()
    after = kernel[(1, )](torch.zeros(8, dtype=torch.int32), 32, 1.5, True, None, 3)
    assert after is not before and launch(kernel, times=4) == expected()


def test_tables_that_are_full():
    """More keys than are kept: what was remembered may be forgotten at any launch."""
    rules = {"EVEN": lambda a: 0, "MODE": lambda a: a["n"] + a["other"], "HAS": lambda a: 0}
    kernel = nereid.autotune([nereid.Config({"BLOCK": 16})], key=[])(nereid.heuristics(rules)(put))
    for n in range(4200):
        out = torch.zeros(1, dtype=torch.int64)
        for _ in range(3 if n % 100 == 0 else 1):
            kernel[(1, )](out, n, 1)
            assert kernel.nargs is None
    assert out.item() == 16


@nereid.jit(do_not_specialize=["n", "other", "MODE"])
def put(out, n, other, MODE, BLOCK: tl.constexpr, EVEN: tl.constexpr, HAS: tl.constexpr):
    tl.store(out, BLOCK)


def test_threads_that_change_everything():
    """Launches in many threads while configurations, hooks, globals and knobs change: each result is one of those that were right."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    kernel, stop, errors = decorated(), threading.Event(), []
    grid = lambda meta: (meta["BLOCK"] // meta["BLOCK"], )

    def work(number):
        try:
            while not stop.is_set():
                for variant in VARIANTS[:8]:
                    found = launch(kernel, grid=grid if number % 2 else (1, ), times=3, **variant)
                    mode = variant.get("other", 3) if variant.get("flag", True) else -1
                    assert found[3:] == expected(**variant)[3:] and found[0] in SIZES.values() and found[2] - mode in (5, 6), (variant, found)
        except BaseException as error:  # noqa: B902
            errors.append(error)

    def change():
        global OFFSET
        quiet = lambda metadata: None
        for round in range(40):
            for n in SIZES:
                kernel.cache[(n, "torch.int32")] = kernel.configs[round % 3]
                kernel.cache[(n, "torch.int32", "torch.float32")] = kernel.configs[round % 3]
            OFFSET = 5 + round % 2
            kernel.fn.values["HAS"] = lambda a: a["extra"] is not None
            nereid.knobs.runtime.launch_enter_hook.add(quiet)
            nereid.knobs.runtime.debug = bool(round % 2)
            nereid.knobs.runtime.launch_enter_hook.remove(quiet)
            if round % 10 == 9:
                tell._clear_cache()

    threads = [threading.Thread(target=work, args=(number, )) for number in range(6)]
    for thread in threads:
        thread.start()
    try:
        change()
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=100)
        sys.setswitchinterval(before)
        nereid.knobs.runtime.debug = False
        globals()["OFFSET"] = 5
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]
