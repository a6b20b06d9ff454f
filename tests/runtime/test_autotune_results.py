"""Results of tuning on disk: what they depend on, other processes, damaged files."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import nereid
import nereid.language as tl
import numpy as np
import pytest
from nereid.runtime import _tuning, _tuning_key


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NEREID_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NEREID_CACHE", "1")
    monkeypatch.setenv("NEREID_TUNING_CACHE", "1")
    return tmp_path / "cache" / "kernels"


@pytest.fixture
def searches(monkeypatch):
    """The number of searches so far, as a list."""
    done = []
    search = _tuning._search

    def counted(*args):
        done.append(1)
        return search(*args)

    monkeypatch.setattr(_tuning, "_search", counted)
    return done


def configs(*sizes, **options):
    return [nereid.Config({"BLOCK": size}, **options) for size in sizes]


def fill(configs, key=("n", ), **options):

    @nereid.autotune(configs=configs, key=list(key), **options)
    @nereid.jit
    def kernel(out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, i, mask=i < n)

    return kernel


def grid(meta):
    return (nereid.cdiv(meta["n"], meta["BLOCK"]), )


def run(kernel, n=100, dtype=np.int32):
    out = np.zeros(n, dtype)
    kernel[grid](out, n)
    assert out.tolist() == list(range(n))
    assert nereid.flush_cache()
    return kernel


def test_an_equal_tuner_takes_the_result(target, searches):
    first = run(fill(configs(32, 64)))
    second = run(fill(configs(32, 64)))
    assert len(searches) == 1
    assert second.best_config == first.best_config and second.configs_timings == first.configs_timings
    assert second.bench_time is None and first.bench_time > 0
    assert list(second.cache) == list(first.cache)


def test_what_a_result_depends_on(target, searches):
    run(fill(configs(32, 64)))
    run(fill(configs(32, 64)), n=101)
    run(fill(configs(32, 64)), dtype=np.int64)
    run(fill(configs(64, 32)))
    run(fill(configs(32, 64, num_warps=8)))
    run(fill(configs(32, 64), restore_value=["out"]))
    assert len(searches) == 5  # what is restored makes no other result

    @nereid.autotune(configs=configs(32, 64), key=["n"])
    @nereid.jit
    def kernel(out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, i + 0, mask=i < n)

    run(kernel)
    assert len(searches) == 6
    with nereid.knobs.nereid.scope():
        nereid.knobs.nereid.fp_fusion = False
        run(fill(configs(32, 64)))
    assert len(searches) == 7


@pytest.mark.cpu_only("threads of the CPU")
def test_the_number_of_threads_matters(target, monkeypatch, folder):
    code = """
        from nereid import _native
        import sys
        print(_native.tuning_find("k", -1, 1, 0.0))
        _native.tuning_keep("k", -1, "kernel", 0, [[1.0, 1.0, 1.0]], 0.0)
    """
    seen = [child(code, NEREID_CPU_THREADS=threads) for threads in ("1", "2", "1", "2")]
    assert seen == ["None", "None", "(0, [[1.0, 1.0, 1.0]])", "(0, [[1.0, 1.0, 1.0]])"]


def child(code, **environment):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


PROGRAM = """
import nereid, nereid.language as tl, numpy as np
from nereid.runtime import _tuning
search, done = _tuning._search, []
def counted(*args):
    done.append(1)
    return search(*args)
_tuning._search = counted
@nereid.autotune(configs=[nereid.Config({"BLOCK": b}) for b in (16, 32, 64)], key=["n"])
@nereid.jit
def kernel(out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, i, mask=i < n)
out = np.zeros(100, np.int32)
kernel[lambda meta: (nereid.cdiv(100, meta["BLOCK"]), )](out, 100)
assert out.tolist() == list(range(100))
print(len(done), kernel.best_config)
"""


@pytest.mark.cpu_only("child processes run on the CPU")
def test_other_processes(target, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    start = f"import runpy; runpy.run_path({str(file)!r}, run_name='__main__')"
    first = child(start)
    file.write_text("# it moves in its file\n" + PROGRAM)
    second = child(start)
    assert first.startswith("1 BLOCK") and second == first.replace("1 ", "0 ", 1)
    file.write_text(PROGRAM.replace("(out + i, i,", "(out + i, i + 0,"))
    assert child(start).startswith("1 ")


@pytest.mark.cpu_only("child processes run on the CPU")
def test_processes_at_once(target, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    running = [subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in running:
        output, errors = process.communicate()
        assert process.returncode == 0 and "BLOCK" in output, errors
    # What one of them has left is a result that all others take.
    start = f"import runpy; runpy.run_path({str(file)!r}, run_name='__main__')"
    later = {child(start) for _ in range(2)}
    assert len(later) == 1 and later.pop().startswith("0 BLOCK")


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b"",
                                    lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], lambda data: b"\0" * len(data)])
def test_a_damaged_file_is_measured_again(target, searches, folder, damage):
    run(fill(configs(32, 64)))
    file, = [path for path in folder.rglob("*") if path.is_file() and path.read_bytes()[12] == 3]  # the kind, EntryKind::Tuning
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    run(fill(configs(32, 64)))
    assert len(searches) == 2
    run(fill(configs(32, 64)))
    assert len(searches) == 2  # it was written anew


@pytest.mark.parametrize("off", ["NEREID_TUNING_CACHE", "NEREID_CACHE"])
def test_switched_off(target, searches, monkeypatch, off):
    monkeypatch.setenv(off, "0")
    run(fill(configs(32, 64)))
    run(fill(configs(32, 64)))
    assert len(searches) == 2


def test_a_folder_open_to_others_does_not_count(target, searches, folder):
    run(fill(configs(32, 64)))
    folder.chmod(0o777)
    run(fill(configs(32, 64)))
    assert len(searches) == 2


def test_ones_own_way_of_measuring_is_not_kept(target, searches):
    for _ in range(2):
        run(fill(configs(32, 64), do_bench=lambda call, quantiles: 1.0))
    assert len(searches) == 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_times_of_measuring_are_part_of_it(target, searches):
    for rep in (2, 2, 3):
        run(fill(configs(32, 64), warmup=1, rep=rep))
    assert len(searches) == 2


def test_configurations_with_hooks(target, searches):
    seen = []

    def hook(arguments):
        seen.append(arguments["BLOCK"])

    def other(arguments):
        seen.append(-arguments["BLOCK"])

    first = run(fill(configs(32, 64, pre_hook=hook)))
    del seen[:]
    second = run(fill(configs(32, 64, pre_hook=hook)))
    assert len(searches) == 1 and second.best_config == first.best_config and second.best_config.pre_hook is hook
    assert seen == [second.best_config.kwargs["BLOCK"]]
    run(fill(configs(32, 64, pre_hook=other)))
    assert len(searches) == 2


def test_pruning_is_done_in_every_process(target, searches):
    pruned = []

    def early(configs, arguments, **kwargs):
        pruned.append(1)
        return configs[:2]

    for _ in range(2):
        run(fill(configs(32, 64, 128), prune_configs_by={"early_config_prune": early}))
    assert len(pruned) == 2 and len(searches) == 1
    run(fill(configs(32, 64)))
    assert len(searches) == 1  # these two are what was measured


def test_rules_are_part_of_it(target, searches):

    def tuned(rule):

        @nereid.autotune(configs=configs(32, 64), key=["n"])
        @nereid.heuristics({"EVEN": rule})
        @nereid.jit
        def kernel(out, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out + i, i, mask=i < n)

        return kernel

    for modulus in (2, 2, 3):
        run(tuned(lambda arguments: arguments["n"] % modulus == 0))
    assert len(searches) == 2


def test_values_that_mean_nothing_elsewhere(target, searches):

    class Own:
        pass

    marks = [Own(), Own()]
    kernel = fill(configs(32, 64))
    assert _tuning_key.text_of(kernel, (1, "x"), kernel.configs, {}) is not None
    assert _tuning_key.text_of(kernel, (marks[0], ), kernel.configs, {}) is None
    assert _tuning_key.text_of(kernel, (True, ), kernel.configs, {}) != _tuning_key.text_of(kernel, (1, ), kernel.configs, {})
    assert _tuning_key.text_of(kernel, (1, ), kernel.configs, {"debug": True}) != _tuning_key.text_of(kernel, (1, ), kernel.configs, {})
    assert _tuning_key.text_of(kernel, (1, ), configs(tl.float32), {}) != _tuning_key.text_of(kernel, (1, ), configs(tl.float16), {})


def test_a_listener_hears_of_a_hit(target):
    heard = []
    with nereid.knobs.autotuning.scope():
        nereid.knobs.autotuning.listener = lambda **about: heard.append((about["cache_hit"], about["duration"] is None, len(about["configs_timings"])))
        for _ in range(2):
            run(fill(configs(32, 64)))
    assert heard == [(False, False, 2), (True, True, 2)]


def test_the_report_of_a_hit(target, monkeypatch, capsys):
    first = run(fill(configs(32, 64)))
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    run(fill(configs(32, 64)))
    assert capsys.readouterr().out == f"Autotuning kernel kernel: an earlier tuning chose {first.best_config}\n"


def test_a_result_that_was_cut_short(target, searches, monkeypatch):
    measure = _tuning._times

    def slowly(*args):
        time.sleep(0.5)
        return measure(*args)

    monkeypatch.setattr(_tuning, "_times", slowly)
    measured = len(run(fill(configs(32, 64, 128), budget=0.8)).configs_timings)
    assert measured < 3 and len(run(fill(configs(32, 64, 128), budget=0.8)).configs_timings) == measured
    assert len(searches) == 1
    monkeypatch.setattr(_tuning, "_times", measure)
    assert len(run(fill(configs(32, 64, 128), budget=30)).configs_timings) == 3
    assert len(run(fill(configs(32, 64, 128))).configs_timings) == 3
    assert len(searches) == 2


def test_threads_with_tuners_of_their_own(target):

    def launch(_):
        return run(fill(configs(32, 64))).best_config.kwargs["BLOCK"]

    barrier = threading.Barrier(3)
    with ThreadPoolExecutor(3, initializer=barrier.wait) as executor:
        assert set(executor.map(launch, range(6))) <= {32, 64}
