"""What makes a new key of a tuner: values, dtypes, options of the launch, and objects that are no plain values. On the look-up of warm launches,
which no Python of a tuner runs in, and when a tuner is asked."""

import nereid
import nereid.language as tl
import numpy as np
import pytest
import torch
from nereid.runtime.driver import cuda


def configs(*sizes, **options):
    return [nereid.Config({"BLOCK": size}, **options) for size in sizes]


def tuned(**options):
    """A kernel, and the list of the blocks that were measured."""
    measured = []

    def bench(call, quantiles):
        call()
        measured.append(call._config.kwargs["BLOCK"])
        return 1.0

    @nereid.autotune(configs(16, 32), do_bench=bench, **{"key": ["n"], **options})
    @nereid.jit
    def kernel(out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, i, mask=i < 64)

    return kernel, measured


def launch(kernel, n=64, **options):
    out = np.zeros(64, np.int32)
    for _ in range(3):  # the first is asked, the others are looked up
        kernel[lambda meta: (64 // meta["BLOCK"], )](out, n, **options)
    assert out.tolist() == list(range(64))


def test_options_of_the_launch(target):
    kernel, measured = tuned()
    launch(kernel)
    assert len(measured) == 2 and list(kernel.cache) == [(64, "int32")]  # Triton's key
    for options in ({"debug": True}, {"sanitize_overflow": True}, {"debug": True, "sanitize_overflow": True}, {"enable_fp_fusion": False}):
        del measured[:]
        launch(kernel, **options)
        launch(kernel)
        launch(kernel, **dict(reversed(options.items())))
        assert len(measured) == 2, options
    assert (64, "int32", "debug=True", "sanitize_overflow=True") in kernel.cache


def test_what_is_chosen_for_an_option_is_its_own(target):
    kernel, _ = tuned()
    launch(kernel)
    launch(kernel, debug=True)
    plain, debug = kernel.cache
    kernel.cache[plain], kernel.cache[debug] = kernel.configs
    launch(kernel)
    assert kernel.best_config is kernel.configs[0]
    launch(kernel, debug=True)
    assert kernel.best_config is kernel.configs[1]


@pytest.mark.cpu_only("names the CPU and its options")
def test_the_target_of_the_launch(target):
    kernel, measured = tuned()
    launch(kernel)
    launch(kernel, target="cpu")  # what it would be anyway
    assert len(measured) == 2 and list(kernel.cache) == [(64, "int32")]
    launch(kernel, features="baseline")
    assert len(measured) == 4 and (64, "int32", "features='baseline'") in kernel.cache


@pytest.mark.cpu_only("names the CPU")
@pytest.mark.parametrize("first", ["cpu", None])
def test_kinds_of_devices_have_keys_of_their_own(target, monkeypatch, first):
    # The launches that Python is asked about; none goes to a GPU.
    kernel, _ = tuned()
    nereid.runtime.driver.reset_active()
    monkeypatch.setattr(type(nereid.runtime.driver), "active", cuda)
    monkeypatch.setattr(type(cuda), "get_current_device", lambda self: 0)
    keys = {}
    for name in (first, "cpu" if first is None else None):
        kernel.nargs = {"n": 64}  # no array says where it is
        keys[name] = kernel._key({} if name is None else {"target": name})
    assert keys[first] == (64, ) and keys["cpu" if first is None else None] in ((64, "cpu"), (64, "cuda"))


def test_none_and_tuples(target):

    @nereid.autotune(configs(16, 32), key=["bias", "shape"], do_bench=lambda call, quantiles: call() or 1.0)
    @nereid.jit
    def kernel(out, bias, shape, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        value = shape[0] + shape[1]
        if bias is not None:
            value += bias
        tl.store(out + i, value, mask=i < 8)

    out = np.zeros(8, np.int32)
    for bias, shape, expected in ((None, (1, 2), 3), (4, (1, 2), 7), (None, (5, 6), 11), (None, (1, 2), 3)):
        for _ in range(2):
            kernel[(1, )](out, bias, shape)
            assert out[0] == expected
    assert list(kernel.cache) == [(None, (1, 2), "int32"), (4, (1, 2), "int32"), (None, (5, 6), "int32")]


def test_values_that_have_no_hash(target):

    @nereid.autotune(configs(16, 32), key=["shape"])
    @nereid.jit
    def kernel(out, shape, BLOCK: tl.constexpr):
        tl.store(out, shape[0])

    for _ in range(2):
        with pytest.raises(TypeError, match="unhashable type: 'list'"):  # Triton's words
            kernel[(1, )](np.zeros(1, np.int32), [1, 2])
    assert kernel.nargs is None


def test_one_value_that_is_several(target):
    # Equal numbers are one key, as in Triton; those that are not are not.
    kernel, measured = tuned()
    launch(kernel, n=1)
    launch(kernel, n=True)
    assert len(measured) == 2
    launch(kernel, n=-1)
    assert len(measured) == 4


def test_an_array_as_a_key(target):
    kernel, measured = tuned(key=["out"])
    out = torch.zeros(64, dtype=torch.int32)
    for _ in range(3):
        kernel[(4, )](out, 64)
    assert len(measured) == 2
    kernel[(4, )](torch.zeros(64, dtype=torch.int32), 64)
    assert len(measured) == 4


@pytest.mark.parametrize("order", ["tuner, rules, tuner, rules", "rules, tuner, rules, tuner"])
def test_decorators_between_tuners(target, order):
    bench = lambda call, quantiles: call() or 1.0
    # Only one of them may set the number of warps: the launch would get it twice, as in Triton.
    bare = {"num_warps": None, "num_stages": None, "num_ctas": None}
    tuners = iter([nereid.autotune([nereid.Config({"A": a}) for a in (1, 2)], key=["n"], do_bench=bench),
                   nereid.autotune([nereid.Config({"B": b}, **bare) for b in (1, 2)], key=["n"], do_bench=bench)])
    rules = iter([nereid.heuristics({"SUM": lambda arguments: arguments["EVEN"] + 10}),
                  nereid.heuristics({"EVEN": lambda arguments: arguments["n"] % 2 == 0})])

    @nereid.jit
    def kernel(out, n, A: tl.constexpr, B: tl.constexpr, EVEN: tl.constexpr, SUM: tl.constexpr):
        tl.store(out, A * 1000 + B * 100 + SUM)

    for name in reversed(order.split(", ")):
        kernel = next(tuners if name == "tuner" else rules)(kernel)
    out = np.zeros(1, np.int32)
    for n in (2, 3, 2, 3):
        kernel[(1, )](out, n)
        assert out[0] == 1110 + (n % 2 == 0)


def test_two_tuners_that_set_the_same_option(target):
    inner = nereid.autotune(configs(16, 32), key=["n"])(nereid.jit(bare_kernel))
    outer = nereid.autotune([nereid.Config({"A": a}) for a in (1, 2)], key=["n"], do_bench=lambda call, quantiles: 1.0)(inner)
    with pytest.raises(TypeError, match="multiple values for keyword argument 'num_"):
        outer[(1, )](np.zeros(64, np.int32), 64)


def bare_kernel(out, n, A: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(out, n)


@pytest.mark.cpu_only("names the CPU")
def test_results_in_tritons_cache_are_of_a_kind_of_device(target, monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(type(nereid.runtime.driver), "active", cuda)  # where there is one; but the launch says where it goes
    monkeypatch.setattr(type(cuda), "get_current_target", lambda self: "a GPU")
    for _ in range(2):
        kernel, measured = tuned(cache_results=True)
        launch(kernel, target="cpu")
    assert not measured and len(list(tmp_path.glob("*/kernel.autotune.json"))) == 1
    kernel._thread.kind = "cuda"  # a launch that goes to the GPU
    assert kernel.check_disk_cache((64, "int32"), kernel.configs, lambda: measured.append("again")) is False and measured == ["again"]
