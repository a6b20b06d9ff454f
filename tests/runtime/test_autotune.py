"""`@autotune` and `@heuristics`."""

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import nereid
import nereid.language as tl
import numpy as np
import pytest
import torch
from nereid.errors import AutotunerError
from nereid.tools.tensor_descriptor import TensorDescriptor


def configs(*sizes):
    return [nereid.Config({"BLOCK": size}) for size in sizes]


def fill(configs, key=("n", ), **options):

    @nereid.autotune(configs=configs, key=list(key), **options)
    @nereid.jit
    def kernel(out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, i + tl.load(out + i, mask=i < n), mask=i < n)

    return kernel


def grid(meta):
    return (nereid.cdiv(meta["n"], meta["BLOCK"]), )


def test_a_key_is_tuned_once(target):
    kernel = fill(configs(32, 64), reset_to_zero=["out"])
    out = np.zeros(100, np.int32)
    kernel[grid](out, 100)
    assert out.tolist() == list(range(100))
    assert kernel.best_config in kernel.configs and len(kernel.cache) == 1 and len(kernel.configs_timings) == 2
    kernel[grid](np.zeros(100, np.int32), 100)
    assert len(kernel.cache) == 1
    kernel[grid](np.zeros(50, np.int32), n=50)
    kernel[grid](np.zeros(100, np.int64), 100)
    assert len(kernel.cache) == 3


def test_restore_value(target):
    kernel = fill(configs(32, 64), restore_value=["out"])
    out = torch.ones(100, dtype=torch.int32)
    kernel[grid](out, 100)
    assert torch.equal(out, torch.arange(100) + 1)


@pytest.mark.parametrize("options", [{"reset_to_zero": ["bias", "out"]}, {"restore_value": ["bias", "out"]},
                                     {"reset_to_zero": ["out"], "restore_value": ["bias"]}], ids=lambda options: "+".join(options))
def test_optional_arguments_that_are_none(target, options):
    """An argument that is reset or restored may be None; given, it is treated as the others."""

    @nereid.autotune(configs(32, 64), key=["n"], **options)
    @nereid.jit
    def kernel(out, bias, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = i
        if bias is not None:
            value += tl.atomic_add(bias + i, 1, mask=i < n)
        tl.atomic_add(out + i, value, mask=i < n)

    for n in (100, 50):
        out, bias = np.zeros(n, np.int32), np.zeros(n, np.int32)
        kernel[grid](out, None, n)
        assert out.tolist() == list(range(n)) and len(kernel.configs_timings) == 2
        out[:] = 0
        kernel[grid](out, bias, n)
        assert out.tolist() == list(range(n)) and bias.tolist() == [1] * n
        kernel[grid](out, bias=None, n=n)
        assert out.tolist() == [2 * i for i in range(n)]


def test_single_config_is_not_timed(target):
    kernel = fill(configs(32))
    kernel[grid](np.zeros(10, np.int32), 10)
    assert kernel.cache == {} and kernel.bench_time is None and kernel.best_config.kwargs == {"BLOCK": 32}


@pytest.mark.parametrize("variable", ["TRITON_PRINT_AUTOTUNING", "NEREID_PRINT_AUTOTUNING"])
def test_report(target, monkeypatch, capsys, variable):
    monkeypatch.setenv(variable, "1")
    kernel = fill(configs(32, 64), reset_to_zero=["out"])
    for _ in range(2):
        kernel[grid](np.zeros(10, np.int32), 10)
    text = capsys.readouterr().out
    assert text.count("Triton autotuning for function kernel,\nwith key as (10, 'int32'),\nfinished after ") == 1
    assert text.count("s,\nbest config selected: BLOCK: ") == 1
    assert text.count("Autotuning kernel kernel with config BLOCK: ") == 2
    assert text.count(" ms  BLOCK: ") == 2 and text.count("<- best") == 1


def test_the_report_says_why_configs_failed(target, monkeypatch, capsys, picky):
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    picky(128, 32)[(1, )](np.zeros(16, np.int32), 16)
    text = capsys.readouterr().out
    assert "config BLOCK: 128, num_warps: 4, num_ctas: 1, num_stages: 3, maxnreg: None failed: " in text and "too large" in text


def test_no_report_unless_asked(target, monkeypatch, capsys):
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "0")
    fill(configs(32, 64), reset_to_zero=["out"])[grid](np.zeros(10, np.int32), 10)
    assert capsys.readouterr().out == ""


@pytest.fixture
def picky():
    """A kernel that refuses blocks larger than 64."""

    def make(*sizes):

        @nereid.autotune(configs=configs(*sizes), key=["n"])
        @nereid.jit
        def kernel(out, n, BLOCK: tl.constexpr):
            tl.static_assert(BLOCK <= 64, "too large")
            i = tl.arange(0, BLOCK)
            tl.store(out + i, i, mask=i < n)

        return kernel

    return make


def test_failing_configs_are_skipped(target, picky):
    kernel = picky(128, 32, 256)
    out = np.zeros(16, np.int32)
    kernel[(1, )](out, 16)
    assert kernel.best_config.kwargs == {"BLOCK": 32} and out[15] == 15
    assert [times[0] for times in kernel.configs_timings.values()].count(float("inf")) == 2


def test_the_error_shows_when_every_config_fails(target, picky):
    with pytest.raises(nereid.CompileTimeAssertionFailure, match="too large"):
        picky(128, 256)[(1, )](np.zeros(16, np.int32), 16)


def test_conflicting_keywords(target):
    with pytest.raises(ValueError, match="Conflicting meta-parameters: BLOCK. Make sure that you don't re-define"):
        fill(configs(32, 64))[grid](np.zeros(10, np.int32), 10, BLOCK=8)


def test_pruning(target):
    seen = []

    def early(configs, arguments, **kwargs):
        seen.append(arguments["n"])
        return configs[1:]

    kernel = fill(configs(16, 32, 64), reset_to_zero=["out"], prune_configs_by={"early_config_prune": early})
    kernel[grid](np.zeros(10, np.int32), 10)
    assert seen == [10] and len(kernel.configs_timings) == 2
    model = fill(configs(16, 32, 64), reset_to_zero=["out"],
                 prune_configs_by={"perf_model": lambda BLOCK, **_: -BLOCK, "top_k": 1})
    model[grid](np.zeros(10, np.int32), 10)
    assert model.best_config.kwargs == {"BLOCK": 64}
    empty = fill(configs(16, 32), prune_configs_by={"early_config_prune": lambda *a, **k: []})
    with pytest.raises(nereid.runtime.errors.AutotunerError, match="No valid autotuner configs after pruning"):
        empty[grid](np.zeros(10, np.int32), 10)


def test_hooks_of_configs(target):
    seen = []
    kernel = fill([nereid.Config({"BLOCK": 32}, pre_hook=lambda arguments: seen.append(arguments["BLOCK"]))])
    kernel[grid](np.zeros(10, np.int32), 10)
    assert seen == [32]


@pytest.mark.parametrize("order", ["tune over rules", "rules over tune"])
def test_decorators_in_any_order(target, order):
    tune = nereid.autotune(configs=configs(32, 64), key=["n"])
    rules = nereid.heuristics({"EVEN": lambda arguments: arguments["n"] % 2 == 0})

    @nereid.jit
    def kernel(out, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
        tl.store(out, EVEN)

    stacked = tune(rules(kernel)) if order == "tune over rules" else rules(tune(kernel))
    out = np.zeros(1, np.int32)
    for n in (2, 3):
        stacked[(1, )](out, n)
        assert out[0] == (n % 2 == 0)
    assert stacked.arg_names == ["out", "n", "EVEN", "BLOCK"]


def test_keys_as_a_text():
    keys = lambda key: nereid.autotune(configs=configs(32), key=key)(nereid.jit(grid_like)).keys
    assert keys("n") == ["n"] and keys("out") == ["out"] and keys("xyz") == ["x", "y", "z"] and keys(None) == [] and keys(("n", )) == ["n"]


def grid_like(out, n):
    pass


def test_config():
    config = nereid.Config({"BLOCK": 128}, num_warps=8, num_stages=2)
    assert str(config) == "BLOCK: 128, num_warps: 8, num_ctas: 1, num_stages: 2, maxnreg: None"
    assert config.all_kwargs() == {"BLOCK": 128, "num_warps": 8, "num_ctas": 1, "num_stages": 2}
    assert nereid.Config({}, maxnreg=64).all_kwargs()["maxnreg"] == 64
    assert pickle.loads(pickle.dumps(config)) == config and len({config, nereid.Config({"BLOCK": 128}, 8, 2)}) == 1


def test_positional_arguments_of_a_config_and_of_a_tuner(target):
    assert nereid.Config({}, 8, 2, 1, 64).maxnreg == 64

    class Fixed(nereid.runtime.Autotuner):

        def _bench(self, *args, config, **meta):
            return [config.kwargs["BLOCK"]] * 3

    kernel = Fixed(fill(configs(32)).fn, ["out", "n", "BLOCK"], configs(64, 32, 128), ["n"], ["out"], None)
    kernel[grid](np.zeros(10, np.int32), 10)
    assert kernel.best_config.kwargs == {"BLOCK": 32} and list(kernel.configs_timings.values()) == [[64] * 3, [32] * 3, [128] * 3]


def test_search_of_a_subclass_leaves_out_what_does_not_compile(target):

    @nereid.jit
    def at_most_32(out, n, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK <= 32)
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, i, mask=i < n)

    class Own(nereid.runtime.Autotuner):

        def run(self, *args, **kwargs):
            self.nargs = dict(zip(self.arg_names, args))
            self.times = {config.kwargs["BLOCK"]: self._bench(*args, config=config, **kwargs) for config in self.configs}
            best = min(self.times, key=self.times.get)
            return self.fn.run(*args, BLOCK=best, **kwargs)

    kernel = Own(at_most_32, ["out", "n", "BLOCK"], configs(64, 32, 128), ["n"], None, None)
    out = np.zeros(40, np.int32)
    kernel[grid](out, 40)
    assert out.tolist() == list(range(40))
    assert kernel.times[64] == kernel.times[128] == [float("inf")] * 3 and max(kernel.times[32]) < float("inf")


def test_top_k(target):
    model = lambda BLOCK, **_: -BLOCK
    seen = []

    def bench(call, quantiles):
        call()
        seen.append(quantiles)
        return 1.0

    for top, count in ((0.5, 2), (2, 2), (3, 3), (1.0, 4)):
        kernel = fill(configs(16, 32, 64, 128), reset_to_zero=["out"], do_bench=bench, prune_configs_by={"perf_model": model, "top_k": top})
        kernel[grid](np.zeros(10, np.int32), 10)
        assert len(kernel.configs_timings) == count
    assert set(seen) == {(0.5, 0.2, 0.8)}
    wrong = fill(configs(16, 32), prune_configs_by={"perf_model": model, "top_k": 1.5})
    with pytest.raises(TypeError, match="Error while pruning configs, top_k must be either 1) a float <= 1.0 or 2) an int".replace(")", "\\)")):
        wrong[grid](np.zeros(10, np.int32), 10)
    none = fill(configs(16, 32), prune_configs_by={"perf_model": model, "top_k": 0})
    with pytest.raises(AutotunerError, match="No valid autotuner configs after pruning. `top_k` should leave at least one config, found 0"):
        none[grid](np.zeros(10, np.int32), 10)


def test_hooks_of_the_user(target):
    calls = []
    kernel = fill(configs(16, 32), do_bench=lambda call, quantiles: call() or 1.0,
                  pre_hook=lambda arguments, reset_only=False: calls.append(("pre", arguments["BLOCK"], reset_only)),
                  post_hook=lambda arguments, exception: calls.append(("post", arguments["BLOCK"], exception)))
    kernel[grid](np.zeros(10, np.int32), 10)
    kernel[grid](np.zeros(10, np.int32), 10)
    assert calls == [("pre", 16, False), ("post", 16, None), ("pre", 32, False), ("post", 32, None), ("pre", 16, True)]


@pytest.mark.parametrize("options", [{"warmup": 5}, {"rep": 5}, {"use_cuda_graph": True}])
def test_old_options_are_deprecated(options):
    with pytest.warns(DeprecationWarning, match="warmup, rep, and use_cuda_graph parameters are deprecated"):
        nereid.autotune(configs=configs(32), key=["n"], **options)(nereid.jit(grid_like))


@pytest.mark.parametrize("by_variable", [False, True])
def test_results_on_disk(target, monkeypatch, tmp_path, by_variable):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    if by_variable:
        monkeypatch.setenv("TRITON_CACHE_AUTOTUNING", "1")
    measured, heard = [], []

    def bench(call, quantiles):
        call()
        measured.append(1)
        return [float(len(measured)), 1.0, 2.0]

    with nereid.knobs.autotuning.scope():
        nereid.knobs.autotuning.listener = lambda **about: heard.append((about["cache_hit"], about["best_config"].kwargs, about["key"]))
        for _ in range(2):
            out = np.zeros(10, np.int32)
            kernel = fill(configs(16, 32), reset_to_zero=["out"], do_bench=bench, cache_results=not by_variable)
            kernel[grid](out, 10)
            assert out.tolist() == list(range(10))
            assert kernel.best_config.kwargs == {"BLOCK": 16} and len(measured) == 2
    assert heard == [(False, {"BLOCK": 16}, (10, "int32")), (True, {"BLOCK": 16}, (10, "int32"))]
    (file, ) = tmp_path.glob("*/kernel.autotune.json")
    assert json.loads(file.read_text())["key"] == [10, "int32"]


def test_threads_tune_the_same_kernel(target):
    kernel = fill(configs(16, 32), reset_to_zero=["out"])

    def run(n):
        out = np.zeros(n, np.int32)
        for _ in range(5):
            out[:] = 0
            kernel[grid](out, n)
        return out.tolist() == list(range(n))

    with ThreadPoolExecutor(4) as executor:
        assert all(executor.map(run, range(20, 28)))


def test_a_hook_of_a_config_may_change_a_descriptor(target):

    def set_block(arguments):
        arguments["d"].block_shape = [arguments["BLOCK"]]

    @nereid.autotune([nereid.Config({"BLOCK": size}, pre_hook=set_block) for size in (16, 32)], key=["n"])
    @nereid.jit
    def kernel(d, n, BLOCK: tl.constexpr):
        d.store([tl.program_id(0) * BLOCK], tl.full((BLOCK, ), 1.0, tl.float32))

    x = torch.zeros(64)
    d = TensorDescriptor(x, [64], [1], [1])
    kernel[lambda meta: (64 // meta["BLOCK"], )](d, 64)
    assert (x == 1).all() and d.block_shape == [kernel.best_config.kwargs["BLOCK"]]


def test_tuners_are_pickled():
    tuner = pickle.loads(pickle.dumps(nereid.Autotuner(Bare(), ["n"], configs(1, 2), ["n"], None, ["n"])))
    assert tuner.configs == configs(1, 2) and tuner.nargs is None and tuner.restore_value == ["n"]
    assert tuner.pre_hook == tuner._default_pre_hook


def test_decorators_of_what_is_no_kernel():
    for decorator, name in ((nereid.autotune(configs(1, 2), []), "autotune"), (nereid.heuristics({"BLOCK": len}), "heuristics")):
        with pytest.raises(TypeError, match=f"@{name} expects a kernel below it, as @jit makes it of a function; found function `grid`"):
            decorator(grid)
    with pytest.raises(TypeError, match=r"takes a dict of functions by the names of arguments, found 'BLOCK' = 128"):
        nereid.heuristics({"BLOCK": 128})
    with pytest.raises(TypeError, match=r"takes a dict of functions by the names of arguments, found \['BLOCK'\]"):
        nereid.heuristics(["BLOCK"])


@nereid.autotune(configs(64, 128), ["n"], prune_configs_by={"perf_model": lambda **meta: meta["BLOCK"], "top_k": 1})
@nereid.heuristics({"TWICE": lambda arguments: 2 * arguments["BLOCK"]})
@nereid.jit
def tuned_here(x, n, BLOCK: tl.constexpr, TWICE: tl.constexpr):
    tl.store(x, TWICE + n)


@nereid.jit
def put_sum(x, n, ONE: tl.constexpr, TWO: tl.constexpr):
    tl.store(x, n + ONE + TWO)


def one(arguments):
    return 1


def two(arguments):
    return 2


class Adding(nereid.KernelInterface):
    """A decorator of a client's."""

    def __init__(self, fn):
        self.fn = fn
        self.arg_names = fn.arg_names

    def run(self, *args, **kwargs):
        return self.fn.run(*args, TWO=2, **kwargs)


def test_decorated_kernels_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(tuned_here)) is tuned_here
    for copied in (copy.copy(tuned_here), copy.deepcopy(tuned_here)):
        x = torch.zeros(1)
        copied[1, ](x, 5)
        assert copied is not tuned_here and copied.base_fn is tuned_here.base_fn and x.item() == 2 * 64 + 5


def test_other_decorated_kernels_are_pickled_with_what_they_hold():
    stacked = nereid.heuristics({"ONE": one})(nereid.heuristics({"TWO": two})(put_sum))
    tuner = nereid.autotune([nereid.Config({"ONE": 1})], [])(Adding(put_sum))
    tuner.cache[(5, )] = tuner.configs[0]
    for kernel in (stacked, tuner):
        again = pickle.loads(pickle.dumps(kernel))
        x = torch.zeros(1)
        again[1, ](x, 5)
        assert again is not kernel and x.item() == 8
    assert again.cache == tuner.cache and again.base_fn is put_sum.fn


class Bare:

    def __init__(self):
        self.fn = grid_like
