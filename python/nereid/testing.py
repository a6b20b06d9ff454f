"""Measuring and comparing."""

import contextlib
import functools
import gc
import math
import os
import subprocess
import sys
import time
from typing import Any, Dict, List

from . import _measure


def _quantile(times, q):
    ordered = sorted(times)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _summarize_statistics(times, quantiles, return_mode):
    if quantiles is not None:
        values = [_quantile(times, q) for q in quantiles]
        return values[0] if len(values) == 1 else values
    if return_mode == "all":
        return times
    if return_mode == "mean":
        return sum(times) / len(times)
    return {"min": min(times), "max": max(times), "median": _quantile(times, 0.5)}[return_mode]


def _check_mode(return_mode):
    if return_mode not in ("mean", "median", "min", "max", "all"):
        raise ValueError(f"return_mode must be mean, median, min, max or all, found {return_mode!r}")


def do_bench(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean"):
    """Time of `fn()` in milliseconds: called for `warmup` ms, then measured for about `rep` ms.

    On a GPU (`runtime.driver.active`) it is the device's time, between events on the current stream, with a cold L2 cache; on the CPU
    the time of the call. quantiles: numbers in [0, 1], returned instead of the mean. return_mode: "mean", "median", "min", "max" or
    "all".
    """
    _check_mode(return_mode)
    measure = _times_on_gpu if _on_gpu() else _times_on_cpu
    return _summarize_statistics(measure(fn, warmup, rep, grad_to_none), quantiles, return_mode)


def _on_gpu():
    from .runtime.driver import driver
    if driver.active.name != "cuda":
        return False
    import torch
    return torch.cuda.is_available()  # there may be a GPU that only another library knows


def _around(fn, grad_to_none):
    """`fn` as a meter (`_measure`) takes it."""

    def around(timed):
        for tensor in grad_to_none or ():
            tensor.grad = None
        timed(fn)

    return around


def _times_on_gpu(fn, warmup, rep, grad_to_none=None):
    import torch
    fn()
    torch.cuda.synchronize()
    around = _around(fn, grad_to_none)
    with _measure.Events() as meter:
        estimate = max(sum(meter.times(around, 5)) / 5, 1e-3)
        for _ in range(max(1, int(warmup / estimate))):
            fn()
        return meter.times(around, max(1, int(rep / estimate)))


@contextlib.contextmanager
def cuda_graph_without_gc(*args, **kwargs):
    """`torch.cuda.graph(...)` during which Python collects no garbage: a kernel that is freed while a graph is recorded would be unloaded, which
    CUDA does not allow then."""
    import torch
    collects = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(*args, **kwargs) as graph:
            yield graph
    finally:
        if collects:
            gc.enable()


def do_bench_cudagraph(fn, rep=20, grad_to_none=None, quantiles=None, return_mode="mean"):
    """Time of `fn()` on the GPU in milliseconds without the cost of launching: many calls recorded in one CUDA graph."""
    import torch
    _check_mode(return_mode)
    if not torch.cuda.is_available():
        raise RuntimeError("do_bench_cudagraph measures on a GPU, and torch finds none; do_bench measures on the CPU, too")
    with torch.cuda.stream(torch.cuda.Stream()):
        fn()
        for tensor in grad_to_none or ():
            tensor.detach_()
            tensor.requires_grad_(True)
            tensor.grad = None

        def record(calls):
            graph = torch.cuda.CUDAGraph()
            with cuda_graph_without_gc(graph):
                for _ in range(calls):
                    for tensor in grad_to_none or ():
                        tensor.grad = None
                    fn()
            torch.cuda.synchronize()
            return graph

        def replay(graph):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            return start.elapsed_time(end)

        graph = record(5)
        estimate = max(min(replay(graph) for _ in range(5)) / 5, 1e-3)
        calls = max(1, int(rep / estimate))
        graph = record(calls)
        return _summarize_statistics([replay(graph) / calls for _ in range(10)], quantiles, return_mode)


def _times_on_cpu(fn, warmup, rep, grad_to_none=None):
    clock = time.perf_counter_ns
    start = clock()
    fn()
    first = clock() - start
    runs = 0
    start = clock()
    while runs < 5 and (runs == 0 or clock() - start < warmup * 1_000_000):
        fn()
        runs += 1
    estimate = max(min((clock() - start) // max(runs, 1), first), 1)
    for _ in range(max(0, min(int(warmup * 1_000_000 / estimate), 1000) - runs)):
        fn()
    return _measure.Clock().times(_around(fn, grad_to_none), max(3, min(int(rep * 1_000_000 / estimate), 10_000)))


def do_bench_proton(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean"):
    """Measures with Triton's profiler, which is not part of this package: raises RuntimeError. `do_bench` measures the device's time."""
    raise RuntimeError("do_bench_proton needs Triton's profiler, which this package does not have: use do_bench")


def do_bench_cudagraph_proton(fn, rep=20, grad_to_none=None, quantiles=None, return_mode="mean"):
    """The same with CUDA graphs: raises RuntimeError. `do_bench_cudagraph` measures."""
    raise RuntimeError("do_bench_cudagraph_proton needs Triton's profiler, which this package does not have: use do_bench_cudagraph")


def assert_close(x, y, atol=None, rtol=None, err_msg=""):
    """Raises AssertionError when two arrays, tensors or numbers differ by more than `atol + rtol * |y|` (1e-2 and 0 by default).

    atol and rtol may be functions of y's dtype. NaN equals NaN, infinities equal themselves; an array of one element may be compared with
    one of another shape.
    """
    import numpy as np
    dtype = getattr(y, "dtype", np.asarray(y).dtype)
    x, y = (_as_numpy(v) for v in (x, y))
    atol, rtol = (limit(dtype) if callable(limit) else limit for limit in (atol, rtol))
    atol, rtol = 1e-2 if atol is None else atol, 0.0 if rtol is None else rtol
    if x.size > 1 or y.size > 1:
        np.testing.assert_allclose(x, y, atol=atol, rtol=rtol, err_msg=err_msg, equal_nan=True)
    elif not np.allclose(x, y, atol=atol, rtol=rtol, equal_nan=True):
        raise AssertionError(f"{err_msg} {x} is not close to {y} (atol={atol}, rtol={rtol})")


def _as_numpy(value):
    import numpy as np
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.double() if value.dtype.is_floating_point else value
        return value.numpy()
    array = np.asarray(value)
    return array.astype(np.float64) if array.dtype.kind not in "fiubc" else array


# ---- reports of measurements ------------------------------------------------------------------------


class Benchmark:
    """One plot: lines over x.

    x_names: names of the arguments that get a value of x_vals (a value, or one for each name). line_arg: the argument that tells the
    lines apart; its values are line_vals, shown as line_names. args: further arguments. styles: (colour, line style) of each line.
    """

    def __init__(self, x_names: List[str], x_vals: List[Any], line_arg: str, line_vals: List[Any], line_names: List[str], plot_name: str,
                 args: Dict[str, Any], xlabel: str = "", ylabel: str = "", x_log: bool = False, y_log: bool = False, styles=None):
        self.x_names = x_names
        self.x_vals = x_vals
        self.x_log = x_log
        self.line_arg = line_arg
        self.line_vals = line_vals
        self.line_names = line_names
        self.y_log = y_log
        self.styles = styles
        self.xlabel = xlabel
        self.ylabel = ylabel
        self.plot_name = plot_name
        self.args = args


class Table:
    """What a benchmark measured, where pandas is not installed: `columns`, `rows`; `str` shows it."""

    def __init__(self, columns, rows):
        self.columns = columns
        self.rows = rows

    def __str__(self):
        cells = [["", *self.columns]] + [[str(i), *map(_cell, row)] for i, row in enumerate(self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths)).rstrip() for row in cells)

    def __getitem__(self, column):
        index = self.columns.index(column)
        return [row[index] for row in self.rows]

    def __len__(self):
        return len(self.rows)

    def to_csv(self, path, float_format="%.6f", index=False):
        """Writes it as text with commas."""
        import csv
        with open(path, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows([["" if v is None else float_format % v if isinstance(v, float) else v for v in row] for row in self.rows])


def _cell(value):
    return "" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)


class Mark:
    """What `perf_report` makes of a function."""

    def __init__(self, fn, benchmarks):
        self.fn = fn
        self.benchmarks = benchmarks

    def _measure(self, bench, kwargs):
        """Rows: values of x, then of each line the mean, then the lower and the upper ends, None where there is none."""
        rows = []
        for x in bench.x_vals:
            if not isinstance(x, (list, tuple)):
                x = [x] * len(bench.x_names)
            if len(x) != len(bench.x_names):
                raise ValueError(f"Expected {len(bench.x_names)} values, got {x}")
            results = []
            for value in bench.line_vals:
                result = self.fn(**dict(zip(bench.x_names, x)), **{bench.line_arg: value}, **bench.args, **kwargs)
                middle, low, high = result if isinstance(result, (tuple, list)) else (result, None, None)
                results.append((middle, low, high))
            rows.append([*x, *(middle for middle, _, _ in results), *(low for _, low, _ in results), *(high for *_, high in results)])
        return rows

    def _plot(self, bench, table, save_path, show_plots):
        """Draws the lines with their ranges; a picture in the folder when one is given."""
        try:
            import matplotlib
            if not show_plots:
                matplotlib.use("Agg")
            import matplotlib.pyplot as plt
        except ImportError:
            print(f"no plot of {bench.plot_name}: the package `matplotlib` is not installed", file=sys.stderr)
            return
        lines = len(bench.line_names)
        first = len(bench.x_names)
        columns = list(zip(*table.rows))
        plt.figure()
        axes = plt.subplot()
        for i, name in enumerate(bench.line_names):
            colour, style = bench.styles[i] if bench.styles else (None, None)
            drawn, = axes.plot(columns[0], columns[first + i], label=name, color=colour, ls=style)
            low, high = columns[first + lines + i], columns[first + 2 * lines + i]
            if all(value is not None and not math.isnan(value) for value in (*low, *high)):
                axes.fill_between(columns[0], low, high, alpha=0.15, color=drawn.get_color())
        axes.legend()
        axes.set_xlabel(bench.xlabel or bench.x_names[0])
        axes.set_ylabel(bench.ylabel)
        axes.set_xscale("log" if bench.x_log else "linear")
        axes.set_yscale("log" if bench.y_log else "linear")
        if show_plots:
            plt.show()
        if save_path:
            plt.savefig(os.path.join(save_path, f"{bench.plot_name}.png"))
        plt.close()

    def _run(self, bench: Benchmark, save_path: str, show_plots: bool, print_data: bool, diff_col=False, save_precision=6, **kwrags):
        lines = [f"{name} ({bench.ylabel})" if bench.ylabel else name for name in bench.line_names]
        full = Table([*bench.x_names, *lines, *(f"{name}-min" for name in lines), *(f"{name}-max" for name in lines)],
                     self._measure(bench, kwrags))
        if bench.plot_name and (show_plots or save_path):
            self._plot(bench, full, save_path, show_plots)
        keep = len(bench.x_names) + len(lines)
        table = Table(full.columns[:keep], [row[:keep] for row in full.rows])
        if diff_col and len(lines) == 2:
            table = Table([*table.columns, "Diff"], [[*row, row[-1] - row[-2]] for row in table.rows])
        with contextlib.suppress(ImportError):
            import pandas
            table = pandas.DataFrame(table.rows, columns=table.columns)
        if print_data:
            print(bench.plot_name + ":")
            print(table)
        if save_path:
            table.to_csv(os.path.join(save_path, f"{bench.plot_name}.csv"), float_format=f"%.{save_precision}f", index=False)
        return table

    def run(self, show_plots=False, print_data=False, save_path="", return_df=False, **kwargs):
        """Measures every benchmark.

        save_path: a folder for tables (CSV), plots (PNG, with matplotlib) and a page of all plots (results.html). Returns the table, or
        a list of tables, if `return_df`: a pandas.DataFrame where pandas is installed, else a `Table`.
        """
        several = isinstance(self.benchmarks, (list, tuple))
        tables = []
        if save_path:
            os.makedirs(save_path, exist_ok=True)
        for bench in self.benchmarks if several else [self.benchmarks]:
            tables.append((bench, self._run(bench, save_path, show_plots, print_data, **kwargs)))
        if save_path:
            with open(os.path.join(save_path, "results.html"), "w") as page:
                page.write("<html><body>\n")
                for bench, table in tables:
                    if os.path.exists(os.path.join(save_path, f"{bench.plot_name}.png")):
                        page.write(f'<image src="{bench.plot_name}.png"/>\n')
                    else:
                        page.write(f"<h2>{bench.plot_name}</h2><pre>{table}</pre>\n")
                page.write("</body></html>\n")
        if return_df:
            return [table for _, table in tables] if several else tables[0][1]
        return None


def perf_report(benchmarks):
    """Makes a function that measures once (`fn(x..., line_arg=..., ...)`, a number, or its middle, lower and upper end) a `Mark`.

    benchmarks: a Benchmark or several.
    """
    return lambda fn: Mark(fn, benchmarks)


# ---- what the hardware can do -----------------------------------------------------------------------


def _gpu_properties(device):
    from .runtime.driver import cuda
    return cuda.utils.get_device_properties(cuda.get_current_device() if device is None else device)


def _capability(device):
    from .runtime.driver import cuda
    return cuda.get_device_capability(device)


def get_dram_gbps(device=None):
    """Bandwidth of a GPU's memory in GB/s, from its clock and width."""
    properties = _gpu_properties(device)
    return properties["mem_clock_rate"] * properties["mem_bus_width"] * 2 / 1e6 / 8


def _bits(dtype):
    """Bits of an element type of torch or of the language, and whether it is a float."""
    name = str(dtype).split(".")[-1]
    names = {"fp64": 64, "float64": 64, "double": 64, "fp32": 32, "float32": 32, "fp16": 16, "float16": 16, "bf16": 16, "bfloat16": 16}
    if name in names:
        return names[name], True
    if "fp8" in name or "float8" in name:
        return 8, True
    digits = "".join(c for c in name if c.isdigit())
    if not name.startswith(("int", "uint", "i", "u")) or not digits:
        raise ValueError(f"unknown type of elements: {dtype}")
    return int(digits), False


#: Operations a clock and a multiprocessor in the matrix units: by major architecture, of 32-bit (tf32), 16-bit and 8-bit elements.
_MATRIX_OPERATIONS = {8: (1024, 2048, 4096), 9: (2048, 4096, 8192), 10: (4096, 8192, 16384), 12: (512, 1024, 2048)}


def get_max_tensorcore_tflops(dtype, clock_rate, device=None):
    """Largest rate of matrix products on a GPU in TFLOPS, at a clock in kHz."""
    bits, _ = _bits(dtype)
    major, minor = _capability(device)
    if bits not in (32, 16, 8):
        raise RuntimeError("dtype not supported")
    if major < 8:
        operations = 1024 if bits == 16 else 256 if bits == 32 else 2048
    else:
        operations = _MATRIX_OPERATIONS.get(major, _MATRIX_OPERATIONS[10])[{32: 0, 16: 1, 8: 2}[bits]]
    if (major, minor) in ((8, 6), (8, 9)):
        operations //= 2
    return _gpu_properties(device)["multiprocessor_count"] * clock_rate * operations / 1e9


def get_max_simd_tflops(dtype, clock_rate, device=None):
    """Largest rate of arithmetic outside of the matrix units in TFLOPS, at a clock in kHz."""
    bits, _ = _bits(dtype)
    major, minor = _capability(device)
    if bits not in (32, 16):
        raise RuntimeError("dtype not supported")
    lanes = 128 if major >= 9 or (major, minor) in ((8, 6), (8, 9)) else 64
    packed = 1
    if bits == 16:
        packed = 4 if (major, minor) == (8, 0) and "bf" not in str(dtype) else 2
    return _gpu_properties(device)["multiprocessor_count"] * lanes * packed * 2 * clock_rate / 1e9


def nvsmi(attrs):
    """Numbers that `nvidia-smi --query-gpu` gives for the first GPU, one for each name in `attrs`."""
    names = ",".join(attrs)
    try:
        text = subprocess.check_output(["nvidia-smi", "-i", "0", "--query-gpu=" + names, "--format=csv,noheader,nounits"])
    except FileNotFoundError as error:
        raise RuntimeError("there is no program `nvidia-smi`: is the NVIDIA driver installed?") from error
    return [int(part) for part in text.decode("utf-8").split(",")]


def _smi(*options):
    subprocess.check_output(["nvidia-smi", "-i", "0", *options])


@contextlib.contextmanager
def set_gpu_clock(ref_sm_clock=1350, ref_mem_clock=1215):
    """A context in which the GPU runs at these clocks (MHz); gives the TFLOPS of its matrix units for 16-bit floats and the GB/s of its
    memory then. Takes the right to set clocks (`nvidia-smi -lgc`)."""
    try:
        _smi("-pm", "1")
        _smi(f"--lock-gpu-clocks={ref_sm_clock},{ref_sm_clock}")
        _smi(f"--lock-memory-clocks={ref_mem_clock},{ref_mem_clock}")
        sm, memory = nvsmi(["clocks.current.sm", "clocks.current.memory"])
        if abs(sm - ref_sm_clock) >= 10 or abs(memory - ref_mem_clock) >= 10:
            raise RuntimeError(f"the GPU's clocks are {sm} and {memory} MHz, not {ref_sm_clock} and {ref_mem_clock}")
        yield (get_max_tensorcore_tflops("float16", ref_sm_clock * 1000),
               ref_mem_clock * 1000 * _gpu_properties(None)["mem_bus_width"] * 2 / 1e6 / 8)
    finally:
        for options in (("-pm", "0"), ("--reset-gpu-clocks", ), ("--reset-memory-clocks", )):
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                _smi(*options)


def cuda_memcheck(**target_kwargs):
    """A decorator of tests: runs the test under compute-sanitizer, in a process of its own, when its keywords are those given here.

    The test gets pytest's `request`, if it wants to be named in that process.
    """

    def decorate(test):

        @functools.wraps(test)
        def wrapper(*args, **kwargs):
            checked = all(kwargs.get(name) == value for name, value in target_kwargs.items())
            if checked and "PYTORCH_NO_CUDA_MEMORY_CACHING" not in os.environ:
                request = kwargs.get("request")
                if request is None:
                    raise RuntimeError("a test under cuda_memcheck must have pytest's `request` among its arguments")
                command = ["compute-sanitizer", "--error-exitcode", "1", sys.executable, "-m", "pytest", "-vs", request.node.nodeid]
                try:
                    done = subprocess.run(command, capture_output=True, text=True,
                                          env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
                except FileNotFoundError as error:
                    raise RuntimeError("there is no program `compute-sanitizer`: it is part of the CUDA toolkit") from error
                assert done.returncode == 0 and "ERROR SUMMARY: 0 errors" in done.stdout, done.stdout + done.stderr
            else:
                test(*args, **kwargs)

        return wrapper

    return decorate
