"""`nereid.ops.tune`: ours against ATen's kernel on the calls of a program, on the machine at hand."""

import statistics
import threading
import time

import torch

from . import _routes, products
from ._declare import Native
from ._verify import copied

_FLUSHED = 256 << 20  # bytes: more than the L2 cache of any GPU


class Tuner:
    """Measures calls. seconds: for one shape class. found: {device: Routes} with what was measured."""

    def __init__(self, seconds):
        self.seconds, self.found = seconds, {}
        self._seen = set()
        self._busy = threading.local()
        self._flush = {}

    def visit(self, operator, form, key, theirs, args, kwargs):
        """Measures a call of a class that was not met before, on copies of what it writes. Calls that ours does not serve are left out."""
        if getattr(self._busy, "now", False) or torch.Tag.nondeterministic_seeded in form.overload.tags:
            return
        device = key.lower()
        if device == "cuda" and torch.cuda.is_current_stream_capturing():
            return
        values, _ = form.bind(args, kwargs)
        its_class = operator.shape_class(form, values)
        if its_class is None:
            return
        name = (operator.name, operator.routing_dtype(values), *its_class)
        if name in self._seen:
            return
        self._seen.add(name)
        self._busy.now = True
        try:
            self._measure(operator, form, device, theirs, args, kwargs, name)
        finally:
            self._busy.now = False

    def _measure(self, operator, form, device, theirs, args, kwargs, name):
        args, kwargs = copied(form, args, kwargs)

        def ours():
            return operator.call(form, *form.bind(args, kwargs))

        if type(ours()) is Native:
            return
        routes = self.found.setdefault(device, _routes.Routes(_routes.machine(device)))
        choices = operator.configurations(form, form.bind(args, kwargs)[0])
        if choices is not None:
            wanted, candidates = choices
            times = {}
            for tiles in candidates:
                products.choose(wanted, tiles)
                times[tiles], = self._times([ours], device)
            best = min(times, key=times.get)
            products.choose(wanted, best)
            routes.add_tiles(wanted, best)
        mine, its = self._times([ours, lambda: theirs(args, kwargs)], device)
        routes.add(*name, its / mine)

    def _times(self, calls, device):
        """The median seconds of each call, in turns, with a cold cache on GPUs."""
        readings = [[] for _ in calls]
        for call in calls:
            call()
        end = time.monotonic() + self.seconds
        while len(readings[0]) < 5 or (time.monotonic() < end and len(readings[0]) < 200):
            for i in (range(len(calls)) if len(readings[0]) % 2 else reversed(range(len(calls)))):
                readings[i].append(self._once(calls[i], device))
        return [statistics.median(times) for times in readings]

    def _once(self, call, device):
        if device == "cpu":
            start = time.perf_counter()
            call()
            return time.perf_counter() - start
        device = torch.cuda.current_device()
        if device not in self._flush:
            self._flush[device] = torch.empty(_FLUSHED, dtype=torch.int8, device=device)
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(200_000)  # the host is done with its part before the GPU begins
        self._flush[device].zero_()
        before.record()
        call()
        after.record()
        after.synchronize()
        return before.elapsed_time(after) / 1000
