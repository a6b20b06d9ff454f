"""Measuring and comparing."""

import time


def _quantile(times, q):
    ordered = sorted(times)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _summary(times, quantiles, return_mode):
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
    return _summary(measure(fn, warmup, rep, grad_to_none), quantiles, return_mode)


def _on_gpu():
    from .runtime.driver import driver
    return driver.active.name == "cuda"


def _times_on_gpu(fn, warmup, rep, grad_to_none=None):
    import torch
    from .runtime.driver import cuda
    fn()
    torch.cuda.synchronize()
    cache = cuda.get_empty_cache_for_benchmark()

    def measure(runs):
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
        for start, end in events:
            for tensor in grad_to_none or ():
                tensor.grad = None
            cuda.clear_cache(cache)
            start.record()
            fn()
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in events]

    estimate = max(sum(measure(5)) / 5, 1e-3)
    for _ in range(max(1, int(warmup / estimate))):
        fn()
    return measure(max(1, int(rep / estimate)))


def do_bench_cudagraph(fn, rep=20, grad_to_none=None, quantiles=None, return_mode="mean"):
    """Time of `fn()` on the GPU in milliseconds without the cost of launching: many calls recorded in one CUDA graph."""
    import torch
    _check_mode(return_mode)
    with torch.cuda.stream(torch.cuda.Stream()):
        fn()
        for tensor in grad_to_none or ():
            tensor.detach_()
            tensor.requires_grad_(True)
            tensor.grad = None

        def record(calls):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
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
        return _summary([replay(graph) / calls for _ in range(10)], quantiles, return_mode)


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
    times = []
    for _ in range(max(3, min(int(rep * 1_000_000 / estimate), 10_000))):
        for tensor in grad_to_none or ():
            tensor.grad = None
        start = clock()
        fn()
        times.append((clock() - start) / 1_000_000)
    return times


def assert_close(x, y, atol=None, rtol=None, err_msg=""):
    """Raises AssertionError when two arrays or tensors differ by more than `atol + rtol * |y|` (1e-2 and 0 by default)."""
    import numpy as np
    x, y = (np.asarray(v.detach().cpu().double() if hasattr(v, "detach") else v) for v in (x, y))
    np.testing.assert_allclose(x, y, atol=1e-2 if atol is None else atol, rtol=0.0 if rtol is None else rtol,
                               err_msg=err_msg, equal_nan=True)
