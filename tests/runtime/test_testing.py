"""`triton.testing`: timers, comparisons, reports."""

import os
import sys
import time

import nereid
import numpy as np
import pytest
import torch
from nereid import testing


def sleep():
    time.sleep(0.002)


@pytest.mark.cpu_only("measures Python that sleeps")
def test_do_bench_measures_calls(target):
    assert 2 <= testing.do_bench(sleep, warmup=4, rep=20) < 50
    for mode in ("min", "max", "mean", "median"):
        assert testing.do_bench(sleep, 2, 10, return_mode=mode) >= 2
    times = testing.do_bench(sleep, 2, 10, return_mode="all")
    assert len(times) >= 3 and min(times) >= 2
    low, high = testing.do_bench(sleep, 2, 10, quantiles=[0.0, 1.0])
    assert 2 <= low <= high
    assert isinstance(testing.do_bench(sleep, 2, 4, quantiles=[0.5]), float)
    with pytest.raises(ValueError, match="return_mode must be mean, median, min, max or all, found 'best'"):
        testing.do_bench(sleep, return_mode="best")


def test_gradients_are_dropped(target):
    x = torch.ones(3, requires_grad=True)
    seen = []

    def call():
        seen.append(x.grad)
        x.sum().backward()

    testing.do_bench(call, warmup=1, rep=1, grad_to_none=[x])
    assert seen[-1] is None


@pytest.mark.parametrize("quantiles, mode, expected", [([0.5, 0.0, 1.0], "mean", [3.0, 1.0, 10.0]), ([0.25], "mean", 2.0), (None, "mean", 4.0),
                                                       (None, "median", 3.0), (None, "min", 1.0), (None, "max", 10.0),
                                                       (None, "all", [10.0, 1.0, 3.0, 2.0, 4.0])])
def test_statistics(quantiles, mode, expected):
    assert testing._summarize_statistics([10.0, 1.0, 3.0, 2.0, 4.0], quantiles, mode) == expected


def test_what_needs_triton_s_profiler_says_so():
    with pytest.raises(RuntimeError, match="do_bench_proton needs Triton's profiler.*use do_bench"):
        testing.do_bench_proton(sleep)
    with pytest.raises(RuntimeError, match="use do_bench_cudagraph"):
        testing.do_bench_cudagraph_proton(sleep)


def test_cuda_graphs_need_a_gpu():
    if torch.cuda.is_available():
        assert testing.do_bench_cudagraph(lambda: torch.ones(1, device="cuda").add_(1), rep=2) > 0
    else:
        with pytest.raises(RuntimeError, match="do_bench_cudagraph measures on a GPU"):
            testing.do_bench_cudagraph(sleep)


def test_assert_close():
    testing.assert_close(np.float32([1, np.nan, np.inf]), torch.tensor([1.005, np.nan, np.inf]))
    testing.assert_close(1.0, torch.tensor([[1.0]]))
    testing.assert_close(torch.tensor([1.0], dtype=torch.bfloat16), 1.0)
    testing.assert_close(torch.tensor([1.0, 2.0]), [1.1, 2.2], atol=0, rtol=0.11)
    testing.assert_close(torch.tensor([100.0, 2.0]), torch.tensor([101.0, 2.0]), atol=lambda dtype: {torch.float32: 2.0}[dtype])
    with pytest.raises(AssertionError, match="mine"):
        testing.assert_close([1, 2], [1, 3], err_msg="mine")
    with pytest.raises(AssertionError, match="mine 1.0 is not close to 2.0"):
        testing.assert_close(1.0, 2.0, err_msg="mine")
    with pytest.raises(AssertionError):
        testing.assert_close([1.0, 2.0], [np.nan, 2.0])


def bench(**options):
    return testing.Benchmark(**{**dict(x_names=["n"], x_vals=[1, 2], line_arg="way", line_vals=["a", "b"], line_names=["A", "B"],
                                       plot_name="times", args={"factor": 10}, ylabel="ms"), **options})


def measure(n, way, factor, offset=0):
    middle = n * factor + (way == "b") + offset
    return middle, middle - 0.5, middle + 0.5


@pytest.fixture(params=["with pandas", "without pandas"])
def pandas(request, monkeypatch):
    if request.param == "without pandas":
        monkeypatch.setitem(sys.modules, "pandas", None)
        return None
    return pytest.importorskip("pandas")


def test_reports(pandas, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    report = testing.perf_report(bench())(measure)
    assert report.run(save_path=str(tmp_path / "out"), print_data=True, offset=1) is None
    printed = capsys.readouterr()
    assert printed.out.startswith("times:\n") and "A (ms)" in printed.out and "21" in printed.out
    assert "no plot of times: the package `matplotlib` is not installed" in printed.err
    assert (tmp_path / "out" / "times.csv").read_text() == "n,A (ms),B (ms)\n1,11,12\n2,21,22\n"
    assert "times" in (tmp_path / "out" / "results.html").read_text()


def test_tables(pandas):
    table = testing.perf_report(bench())(measure).run(return_df=True)
    assert list(table.columns) == ["n", "A (ms)", "B (ms)"] and list(table["B (ms)"]) == [11, 21] and len(table) == 2
    both = testing.perf_report([bench(), bench(plot_name="others", x_vals=[3])])(measure).run(return_df=True, diff_col=True)
    assert [list(each["Diff"]) for each in both] == [[1, 1], [1]]


def test_a_line_may_be_a_number_and_x_several_names(pandas):
    report = testing.perf_report(bench(x_names=["m", "n"], x_vals=[(1, 2), 5], ylabel=""))(lambda m, n, way, factor: float(m * n))
    table = report.run(return_df=True)
    assert list(table["A"]) == [2.0, 25.0] and list(table["m"]) == [1, 5]
    with pytest.raises(ValueError, match="Expected 2 values, got"):
        testing.perf_report(bench(x_names=["m", "n"], x_vals=[(1, 2, 3)]))(measure).run()


def test_plots(tmp_path):
    pytest.importorskip("matplotlib")
    testing.perf_report(bench(styles=[("red", "-"), ("blue", "--")], x_log=True))(measure).run(save_path=str(tmp_path))
    assert (tmp_path / "times.png").stat().st_size > 1000 and 'src="times.png"' in (tmp_path / "results.html").read_text()


@pytest.fixture
def h100(monkeypatch):
    """Answers of a driver with one GPU."""
    from nereid.runtime.driver import cuda
    numbers = {"mem_clock_rate": 2619000, "mem_bus_width": 5120, "multiprocessor_count": 132, "arch": 90}
    monkeypatch.setattr(type(cuda.utils), "get_device_properties", staticmethod(lambda device: numbers))
    monkeypatch.setattr(type(cuda), "get_current_device", staticmethod(lambda: 0))


def test_what_the_hardware_can_do(h100):
    assert round(testing.get_dram_gbps()) == 3352
    assert round(testing.get_max_tensorcore_tflops(torch.float16, 1830000)) == 989
    assert round(testing.get_max_tensorcore_tflops(torch.float32, 1830000)) == 495
    assert round(testing.get_max_tensorcore_tflops(torch.float8_e5m2, 1830000)) == 1979
    assert round(testing.get_max_simd_tflops(torch.float32, 1980000)) == 67
    assert round(testing.get_max_simd_tflops(nereid.language.float16, 1980000)) == 134
    with pytest.raises(RuntimeError, match="dtype not supported"):
        testing.get_max_simd_tflops(torch.float64, 1)


def program(folder, monkeypatch, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_nvidia_smi(tmp_path, monkeypatch, h100):
    with monkeypatch.context() as context:
        context.setenv("PATH", str(tmp_path))
        with pytest.raises(RuntimeError, match="there is no program `nvidia-smi`"):
            testing.nvsmi(["clocks.current.sm"])
    program(tmp_path, monkeypatch, "nvidia-smi", f'echo "$@" >> {tmp_path}/calls\necho "1350, 1215"')
    assert testing.nvsmi(["a", "b"]) == [1350, 1215]
    with testing.set_gpu_clock() as (flops, bandwidth):
        assert round(flops) == 730 and round(bandwidth) == 1555
    calls = (tmp_path / "calls").read_text()
    assert "--lock-gpu-clocks=1350,1350" in calls and calls.rstrip().endswith("--reset-memory-clocks")


def test_cuda_memcheck(tmp_path, monkeypatch):
    calls = []

    @testing.cuda_memcheck(size=8)
    def check(size, request=None):
        calls.append(size)

    class Request:

        class node:
            nodeid = "file.py::test"

    check(size=4)
    program(tmp_path, monkeypatch, "compute-sanitizer", "echo ERROR SUMMARY: 0 errors $@")
    check(size=8, request=Request)
    assert calls == [4]
    program(tmp_path, monkeypatch, "compute-sanitizer", "echo ERROR SUMMARY: 2 errors; exit 1")
    with pytest.raises(AssertionError, match="2 errors"):
        check(size=8, request=Request)
