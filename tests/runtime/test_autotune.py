"""`@autotune` and `@heuristics`."""

import pickle

import nereid
import nereid.language as tl
import numpy as np
import pytest
import torch


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
    assert text.count("Autotuning kernel kernel finished after") == 1
    assert "with key (10, 'int32'), best config selected: BLOCK: " in text
    assert text.count(" ms  BLOCK: ") == 2 and text.count("<- best") == 1


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


def test_key_must_be_a_list():
    with pytest.raises(TypeError, match="the key of a tuner is a list of argument names, found 'n'"):
        nereid.autotune(configs=configs(32), key="n")(nereid.jit(grid_like))


def grid_like(out, n):
    pass


def test_config():
    config = nereid.Config({"BLOCK": 128}, num_warps=8, num_stages=2)
    assert str(config) == "BLOCK: 128, num_warps: 8, num_ctas: 1, num_stages: 2, maxnreg: None"
    assert config.all_kwargs() == {"BLOCK": 128, "num_warps": 8, "num_ctas": 1, "num_stages": 2}
    assert nereid.Config({}, maxnreg=64).all_kwargs()["maxnreg"] == 64
    assert pickle.loads(pickle.dumps(config)) == config and len({config, nereid.Config({"BLOCK": 128}, 8, 2)}) == 1
