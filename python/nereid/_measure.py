"""Timing calls on a device: what the tuner and `testing.do_bench` share.

A meter times runs one by one. `times(around, runs)` calls `around(timed)` for each; that does what is not to be timed, and calls
`timed(run)` once, which times `run()`.
"""

import time


class Clock:
    """Times calls that are done when they return."""

    def times(self, around, runs):
        times = []

        def timed(run):
            start = time.perf_counter_ns()
            run()
            times.append((time.perf_counter_ns() - start) / 1_000_000)

        for _ in range(runs):
            around(timed)
        return times

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Events:
    """Times what is launched on the current stream of a GPU (its number, or the current one), between events, each run with a cold L2
    cache. The launches run ahead of the device, so that launching is not in the times."""

    def __init__(self, device=None):
        import torch
        self._torch = torch
        self._device = torch.cuda.device(-1 if device is None else device)  # of -1 torch changes nothing

    def times(self, around, runs):
        from .runtime.driver import cuda
        event = self._torch.cuda.Event
        pairs = [(event(enable_timing=True), event(enable_timing=True)) for _ in range(runs)]

        def timed(run):
            cuda.clear_cache(self._cache)
            start.record()
            run()
            end.record()

        for start, end in pairs:
            around(timed)
        self._torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in pairs]

    def __enter__(self):
        from .runtime.driver import cuda
        self._device.__enter__()
        self._cache = cuda.get_empty_cache_for_benchmark()
        return self

    def __exit__(self, *error):
        self._cache = None
        self._device.__exit__(*error)
