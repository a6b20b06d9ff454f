"""How a tuner works: configurations compiled ahead, errors in the middle, several threads, hooks that launch, a budget, a terminal."""

import io
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import nereid
import nereid.language as tl
import numpy as np
import pytest
import torch
from nereid.runtime import _tuning


def configs(*sizes, **options):
    return [nereid.Config({"BLOCK": size}, **options) for size in sizes]


def count_up(configs, **options):
    """A kernel that adds 1 to every element."""

    @nereid.autotune(configs=configs, key=["n"], **options)
    @nereid.jit
    def kernel(out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, 1 + tl.load(out + i, mask=i < n), mask=i < n)

    return kernel


def grid(meta):
    return (nereid.cdiv(meta["n"], meta["BLOCK"]), )


def test_the_faster_one_is_chosen(target):

    @nereid.autotune(configs=[nereid.Config({"STEPS": steps}) for steps in (4000, 1, 40000, 2000)], key=["n"])
    @nereid.jit
    def kernel(out, n, STEPS: tl.constexpr):
        total = 0.0
        for i in range(STEPS):
            total += tl.load(out + i % n)
        tl.store(out + n, total)

    for size in (16, 32):
        kernel[(64, )](torch.zeros(64, device=target), size)
        assert kernel.best_config.kwargs == {"STEPS": 1}
        slow, _, slowest, _ = (kernel.configs_timings[config] for config in kernel.configs)
        assert slow[0] < slowest[0]
        assert all(low <= middle <= high for middle, low, high in kernel.configs_timings.values())


def test_of_equal_ones_the_first_in_the_list_is_chosen(target, monkeypatch):
    """Also when another one was compiled, and measured, before it."""
    monkeypatch.setattr(_tuning._native, "tuning_threads", lambda: 4)

    @nereid.constexpr_function
    def slowly(value):
        time.sleep(0.3 if value == 16 else 0)
        return value

    measured = []

    @nereid.autotune(configs=configs(16, 32, 64), key=["n"], do_bench=lambda call, quantiles: measured.append(call()) or 1.0)
    @nereid.jit
    def kernel(out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, slowly(BLOCK))
        tl.store(out + i, i, mask=i < n)

    kernel[grid](np.zeros(64, np.int32), 64)
    assert kernel.best_config.kwargs == {"BLOCK": 16} and len(measured) == 3


def test_the_order_of_the_list_counts_where_it_was_promised():
    """With a budget, or somebody's own measure, a configuration that is compiled early waits for those in front of it."""

    class Search:
        events = []
        remaining = lambda self: 1.0
        ready = lambda self, index: self.events.append(index)
        fail = lambda self, index: self.events.append(-index)

    def announced(in_order, *finished):
        search = Search()
        search.events = []
        ahead = _tuning._Ahead(None, [], (), {}, search, False, in_order)
        ahead._pending.update(range(4))
        for index, error in finished:
            ahead._finished.put((index, error))
            ahead.collect({})
        return search.events

    out_of_memory = nereid.runtime.OutOfResources(1, 0, "shared memory")
    late = (2, None), (1, out_of_memory), (3, None), (0, None)
    assert announced(False, *late) == [2, -1, 3, 0]
    assert announced(True, *late) == [0, -1, 2, 3]
    assert announced(True, *late[:3]) == []


def test_configurations_are_compiled_by_several_threads(target, monkeypatch):
    # Compile-time Python runs on the thread that compiles.
    threads = set()

    @nereid.constexpr_function
    def note(value):
        threads.add(threading.current_thread().name)
        time.sleep(0.02)
        return value

    @nereid.autotune(configs=configs(16, 32, 64, 128), key=["n"])
    @nereid.jit
    def kernel(out, n, BLOCK: tl.constexpr):
        SIZE: tl.constexpr = note(BLOCK)
        i = tl.arange(0, SIZE)
        tl.store(out + i, i, mask=i < n)

    with nereid.knobs.nereid.scope():
        nereid.knobs.nereid.tuning_threads = 3
        kernel[(1, )](np.zeros(16, np.int32), 16)
    assert len(threads) >= 2 and all(name.startswith("nereid-tuner") for name in threads)


def test_rules_below_a_tuner_are_compiled_ahead(target):

    @nereid.autotune(configs=configs(16, 32), key=["n"])
    @nereid.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["BLOCK"] == 0})
    @nereid.jit
    def kernel(out, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
        tl.store(out, BLOCK * EVEN)

    assert _tuning._compiles_ahead(kernel.fn)
    out = np.zeros(1, np.int32)
    kernel[(1, )](out, 32)
    assert out[0] == kernel.best_config.kwargs["BLOCK"]


def test_what_someone_else_runs_is_not_compiled_ahead(target):
    ran = []

    class Wrapped(nereid.KernelInterface):

        def __init__(self, fn):
            self.fn = fn
            self.arg_names = fn.arg_names

        def run(self, *args, **kwargs):
            ran.append(kwargs["warmup"])
            return self.fn.run(*args, **kwargs)

    tuner = nereid.autotune(configs(16, 32), key=["n"])(Wrapped(count_up(configs(16)).fn))
    tuner[grid](np.zeros(10, np.int32), 10)
    assert ran and not any(ran)


def test_failures_keep_their_reason(target):

    @nereid.autotune(configs=configs(256, 32, 128), key=["n"])
    @nereid.jit
    def kernel(out, n, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK <= 64, "too large")
        i = tl.arange(0, BLOCK)
        tl.store(out + i, i, mask=i < n)

    kernel[(1, )](np.zeros(16, np.int32), 16)
    assert [config.kwargs["BLOCK"] for config in kernel.failures] == [256, 128]
    assert all(isinstance(error, nereid.CompileTimeAssertionFailure) for error in kernel.failures.values())


def test_when_all_fail_every_reason_is_told(target):

    @nereid.autotune(configs=configs(256, 128), key=["n"])
    @nereid.jit
    def kernel(out, n, BLOCK: tl.constexpr):
        if BLOCK == 256:
            tl.static_assert(False, "too large")
        tl.store(out, missing_name)  # noqa: F821

    with pytest.raises(nereid.CompileTimeAssertionFailure, match="too large") as caught:
        kernel[(1, )](np.zeros(16, np.int32), 16)
    note, = caught.value.__notes__
    assert note.startswith("none of the configurations works:\n  BLOCK: 256, num_warps: 4") and "too large" in note
    assert "\n  BLOCK: 128, num_warps: 4" in note and "missing_name" in note
    assert not kernel.cache
    with pytest.raises(nereid.CompileTimeAssertionFailure):  # the next launch tries again
        kernel[(1, )](np.zeros(16, np.int32), 16)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_an_exception_in_the_middle_leaves_everything_intact(target, error):
    launches = []

    def interrupt(arguments):
        launches.append(1)
        if len(launches) == 5:
            raise error("now")

    kernel = count_up([nereid.Config({"BLOCK": 16}), nereid.Config({"BLOCK": 32}, pre_hook=interrupt)], restore_value=["out"])
    out = np.zeros(10, np.int32)
    with pytest.raises(error):
        kernel[grid](out, 10)
    assert out.tolist() == [0] * 10 and not kernel.cache and kernel.nargs is None
    kernel[grid](out, 10)
    assert out.tolist() == [1] * 10


def test_an_interrupted_run_is_restored(target, monkeypatch):
    kernel = count_up(configs(16, 32), restore_value=["out"])
    run, runs = kernel.fn.run, []

    def interrupted(*args, **kwargs):
        result = run(*args, **kwargs)
        if not kwargs["warmup"]:
            runs.append(1)
            if len(runs) == 4:
                raise KeyboardInterrupt
        return result

    monkeypatch.setattr(kernel.fn, "run", interrupted)
    out = np.zeros(10, np.int32)
    with pytest.raises(KeyboardInterrupt):
        kernel[grid](out, 10)
    assert out.tolist() == [0] * 10


def test_an_exception_in_the_hook_after_a_failed_run(target):

    def bad(arguments, exception):
        raise ValueError("in the hook")

    kernel = count_up(configs(16, 32), post_hook=bad)
    with pytest.raises(ValueError, match="in the hook"):
        kernel[grid](np.zeros(10, np.int32), 10)


def test_one_of_several_threads_tunes(target):
    measured = []

    def bench(call, quantiles):
        measured.append(threading.get_ident())
        time.sleep(0.02)
        call()
        return 1.0

    kernel = count_up(configs(16, 32, 64), do_bench=bench, restore_value=["out"])
    barrier = threading.Barrier(4)

    def launch(_):
        out = np.zeros(10, np.int32)
        barrier.wait()
        kernel[grid](out, 10)
        return out.tolist() == [1] * 10

    with ThreadPoolExecutor(4) as executor:
        assert all(executor.map(launch, range(4)))
    assert len(measured) == 3 and len(set(measured)) == 1


def test_when_the_thread_that_tunes_fails_another_does_it(target):
    attempts = []

    def bench(call, quantiles):
        attempts.append(1)
        time.sleep(0.02)
        if len(attempts) == 1:
            raise RuntimeError("the first attempt")
        return 1.0

    kernel = count_up(configs(16, 32), do_bench=bench)
    barrier = threading.Barrier(3)

    def launch(_):
        barrier.wait()
        try:
            kernel[grid](np.zeros(10, np.int32), 10)
        except RuntimeError as error:
            return str(error)

    with ThreadPoolExecutor(3) as executor:
        results = list(executor.map(launch, range(3)))
    assert sorted(map(str, results)) == ["None", "None", "the first attempt"] and len(kernel.cache) == 1


def test_a_hook_may_launch_another_tuned_kernel(target):
    inner = count_up(configs(16, 32), reset_to_zero=["out"])
    other = np.zeros(7, np.int32)
    outer = count_up([nereid.Config({"BLOCK": size}, pre_hook=lambda arguments: inner[grid](other, 7)) for size in (16, 64)],
                     restore_value=["out"])
    out = np.zeros(10, np.int32)
    outer[grid](out, 10)
    assert out.tolist() == [1] * 10 and len(inner.cache) == len(outer.cache) == 1


def test_a_hook_may_compile_another_kernel(target):
    other = count_up(configs(64)).fn
    compiled = []
    hook = lambda arguments: compiled.append(other.warmup(nereid.MockTensor(tl.int32), 7, BLOCK=64, grid=(1, )))
    kernel = count_up([nereid.Config({"BLOCK": size}, pre_hook=hook) for size in (16, 32)], restore_value=["out"])
    kernel[grid](np.zeros(10, np.int32), 10)
    assert compiled and all("tile" in each.asm for each in compiled)


def test_a_hook_may_launch_the_same_kernel(target):
    # With another key, which is tuned in the middle of the first one's tuning.
    other = np.zeros(7, np.int32)
    seen = []

    def hook(arguments):
        if arguments["n"] == 10:
            kernel[grid](other, 7)
            seen.append(kernel.nargs["n"])

    kernel = count_up([nereid.Config({"BLOCK": size}, pre_hook=hook) for size in (16, 32)], restore_value=["out"])
    out = np.zeros(10, np.int32)
    kernel[grid](out, 10)
    assert out.tolist() == [1] * 10 and len(kernel.cache) == 2 and set(seen) == {10}


def test_tuners_whose_hooks_launch_each_other_in_two_threads(target):
    tuners = []
    barrier = threading.Barrier(2)

    def hook_of(other):
        met = []

        def hook(arguments):
            if threading.current_thread().name.endswith(str(1 - other)) and not met:
                met.append(1)
                barrier.wait(10)  # both are in the middle of tuning
                tuners[other][grid](np.zeros(10, np.int32), 10)

        return hook

    for other in (1, 0):
        tuners.append(count_up([nereid.Config({"BLOCK": 16}, pre_hook=hook_of(other)), nereid.Config({"BLOCK": 32})]))
    threads = [threading.Thread(target=lambda i=i: tuners[i][grid](np.zeros(10, np.int32), 10), name=f"tuning {i}", daemon=True)
               for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads) and all(len(tuner.cache) == 1 for tuner in tuners)


def test_arguments_that_overlap(target):
    # What is reset is part of what is restored: the launch that counts sees zeros, and adds once.

    @nereid.autotune(configs=configs(16, 32), key=["n"], reset_to_zero=["out"], restore_value=["x"])
    @nereid.jit
    def kernel(x, out, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, 1 + tl.load(out + i, mask=i < n), mask=i < n)

    x = torch.full((10, ), 5, dtype=torch.int32)
    kernel[(1, )](x, x[:4], 4)
    assert x.tolist() == [1, 1, 1, 1, 5, 5, 5, 5, 5, 5]


def test_a_budget(target):

    def bench(call, quantiles):
        time.sleep(0.05)
        call()
        return float(len(kernel.fn._kernels()))

    kernel = count_up(configs(*[2**i for i in range(1, 11)]), do_bench=bench, budget=0.12)
    start = time.perf_counter()
    kernel[grid](np.zeros(10, np.int32), 10)
    assert 1 <= len(kernel.configs_timings) < 10 and kernel.best_config in kernel.configs_timings
    assert time.perf_counter() - start < 5


def test_a_budget_by_setting_is_reported(target, monkeypatch, capsys):
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    monkeypatch.setenv("NEREID_TUNING_BUDGET", "1")
    kernel = count_up(configs(16, 32, 64), do_bench=lambda call, quantiles: time.sleep(0.6) or 1.0)
    kernel[grid](np.zeros(10, np.int32), 10)
    left_out = 3 - len(kernel.configs_timings)
    assert 1 <= left_out <= 2
    assert f"Autotuning kernel kernel: {left_out} of the configs were not measured in the given time\n" in capsys.readouterr().out


def test_a_budget_tries_the_promising_first(target):
    kernel = count_up(configs(16, 32, 64), do_bench=lambda call, quantiles: time.sleep(0.3) or 1.0, budget=0.5,
                      prune_configs_by={"perf_model": lambda BLOCK, **_: -BLOCK})
    kernel[grid](np.zeros(10, np.int32), 10)
    measured = [config.kwargs["BLOCK"] for config in kernel.configs_timings]
    assert measured in ([64], [64, 32])  # a busy machine takes long to compile


def test_a_budget_is_an_extension(monkeypatch):
    monkeypatch.setenv("NEREID_STRICT", "1")
    with pytest.raises(TypeError, match="unexpected keyword argument 'budget'"):
        nereid.autotune(configs=configs(16), key=["n"], budget=1)


def test_a_budget_is_a_number_of_seconds():
    with pytest.raises(ValueError, match="takes a budget in seconds, 0 for none, found -1"):
        nereid.autotune(configs=configs(16), key=["n"], budget=-1)


class Terminal(io.StringIO):

    def isatty(self):
        return True


@pytest.mark.parametrize("stream, shown", [(Terminal, True), (io.StringIO, False)])
def test_a_line_on_a_terminal(target, monkeypatch, stream, shown):
    monkeypatch.setattr(_tuning._Progress, "_AFTER", 0.0)
    monkeypatch.setattr(sys, "stderr", stream())
    count_up(configs(16, 32), do_bench=lambda call, quantiles: time.sleep(0.11) or 1.0)[grid](np.zeros(10, np.int32), 10)
    text = sys.stderr.getvalue()
    if shown:
        assert "\rtuning kernel: " in text and " of 2 measured" in text and text.endswith("\r\x1b[K")
    else:
        assert text == ""


def test_arrays_given_by_keyword(target):
    kernel = count_up(configs(16, 32), restore_value=["out"])
    out = np.zeros(10, np.int32)
    kernel[grid](out=out, n=10)
    assert out.tolist() == [1] * 10


def test_another_kind_of_device_is_another_key(target, monkeypatch):
    kernel = count_up(configs(16, 32), do_bench=lambda call, quantiles: call() or 1.0)
    out = np.zeros(10, np.int32)
    kernel[grid](out, 10)
    here = _tuning.device_of
    monkeypatch.setattr(_tuning, "_refuse_capture", lambda *_: None)
    for module in (_tuning, nereid.runtime.autotuner):
        monkeypatch.setattr(module, "device_of", lambda arguments: 0 if here(arguments) is None else None)
    kernel.cache.update()  # a launch asks again, as after driver.set_active
    kernel[grid](out, 10)
    assert [key[:2] for key in kernel.cache] == [(10, "int32")] * 2 and len(set(kernel.cache)) == 2


@pytest.mark.cpu_only("threads of the CPU")
def test_numbers_of_threads(target):
    kernel = count_up([nereid.Config({"BLOCK": 16}, num_cpu_threads=threads) for threads in (1, 2)], restore_value=["out"])
    out = np.zeros(100, np.int32)
    kernel[grid](out, 100)
    assert out.tolist() == [1] * 100 and len(kernel.configs_timings) == 2


def test_one_that_takes_very_long_runs_once(target):
    # It cannot be stopped; but it does not run again to be sure, and with a budget nothing comes after it.
    ran = []

    def hook(arguments):
        ran.append(arguments["BLOCK"])

    kernel = count_up([nereid.Config({"BLOCK": size}, pre_hook=hook) for size in (16, 32, 64)], budget=0.1)
    run = kernel.fn.run

    def slowly(*args, **kwargs):
        if not kwargs["warmup"]:
            time.sleep(0.4)
        return run(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel.fn, "run", slowly)
        start = time.perf_counter()
        kernel[grid](np.zeros(10, np.int32), 10)
    assert len(kernel.configs_timings) == 1 and kernel.best_config.kwargs == {"BLOCK": 16}
    assert time.perf_counter() - start < 0.4 * 2 + 3  # one to measure, one that counts; a busy machine compiles


def test_errors_of_the_text_end_a_tuning_in_strict_mode(target, monkeypatch):

    @nereid.autotune(configs=configs(16, 32), key=["n"])
    @nereid.jit
    def kernel(out, n, BLOCK: tl.constexpr):
        if BLOCK == 16:
            tl.store(out, missing_name)  # noqa: F821
        tl.store(out, BLOCK)

    out = np.zeros(1, np.int32)
    monkeypatch.setenv("NEREID_STRICT", "1")
    for bench in (None, lambda call, quantiles: call() or 1.0):
        kernel.do_bench = bench
        with pytest.raises(nereid.CompilationError, match="missing_name"):
            kernel[(1, )](out, 1)
    monkeypatch.setenv("NEREID_STRICT", "0")
    kernel.do_bench = None
    kernel[(1, )](out, 1)
    assert out[0] == 32


INTERRUPTED = """
import os, signal, sys, threading, time
import nereid, nereid.language as tl, numpy as np

@nereid.constexpr_function
def slow(value):
    time.sleep(0.2)
    return value

@nereid.autotune(configs=[nereid.Config({"BLOCK": 16 << (i % 3), "NUMBER": i}) for i in range(40)], key=["n"], restore_value=["out"])
@nereid.jit
def kernel(out, n, BLOCK: tl.constexpr, NUMBER: tl.constexpr):
    SIZE: tl.constexpr = slow(BLOCK)
    i = tl.arange(0, SIZE)
    tl.store(out + i, 1 + NUMBER * 0 + tl.load(out + i, mask=i < n), mask=i < n)

out = np.zeros(8, np.int32)
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background processes ignore
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.perf_counter()
try:
    kernel[(1,)](out, 8)
except KeyboardInterrupt:
    print("interrupted", time.perf_counter() - start < 3, out.tolist() == [0] * 8, kernel.cache)
kernel.configs[:] = kernel.configs[:2]
kernel[(1,)](out, 8)
print(out.tolist() == [1] * 8, len(kernel.cache))
"""


@pytest.mark.cpu_only("child processes run on the CPU")
def test_control_c(target, tmp_path):
    # While threads compile: forty configurations would take four seconds and more.
    file = tmp_path / "program.py"
    file.write_text(INTERRUPTED)
    environment = {**os.environ, "NEREID_TUNING_THREADS": "2", "NEREID_CACHE": "0"}
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout.splitlines() == ["interrupted True True {}", "True 1"], done.stderr
