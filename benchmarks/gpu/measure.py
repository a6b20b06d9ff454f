"""Times on the GPU, and errors against float64.

What is compared is measured in turns: each round runs every candidate once, with a cold L2 cache, between two events; the median over
the rounds counts. Outputs exist beforehand and are poisoned before their values are judged.
"""

import statistics
import time

import torch


class Bench:

    def __init__(self):
        self.flush = torch.empty(256 * 1024 * 1024, dtype=torch.int8, device="cuda")

    def once(self, calls, rounds):
        """Milliseconds of each call, `rounds` readings each, in turns."""
        events = [[(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in calls]
                  for _ in range(rounds)]
        for row in events:
            for call, (start, end) in zip(calls, row):
                self.flush.zero_()
                start.record()
                call()
                end.record()
        torch.cuda.synchronize()
        return [[row[i][0].elapsed_time(row[i][1]) for row in events] for i in range(len(calls))]

    def medians(self, calls, seconds=0.5, most=200):
        """Median milliseconds of each call, in about `seconds` altogether."""
        first = [statistics.median(readings) for readings in self.once(calls, 3)]
        one_round = sum(first) / 1000 + 0.00012 * len(calls)
        rounds = max(5, min(most, int(seconds / one_round)))
        return [statistics.median(readings) for readings in self.once(calls, rounds)]

    def pairs(self, calls, seconds, most=2000):
        """Times of two calls against each other: (median milliseconds of each, median of first over second, readings of each).

        Made for kernels of a few microseconds: behind a pause the GPU always has work waiting, so that what the host takes for a launch
        is not measured; who comes first changes from round to round. At least 20 rounds.
        """
        first = [statistics.median(readings) for readings in self.once(calls, 3)]
        # The flush takes about 0.07 ms, the host's part of a round at most 0.1 ms a call.
        rounds = max(20, min(most, int(seconds / (sum(first) / 1000 + 0.0002))))
        readings = [[], []]
        for start in range(0, rounds, 40):
            events = []
            torch.cuda._sleep(4_000_000)
            for i in range(start, min(start + 40, rounds)):
                for which in ((0, 1) if i % 2 else (1, 0)):
                    before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                    self.flush.zero_()
                    before.record()
                    calls[which]()
                    after.record()
                    events.append((which, before, after))
            torch.cuda.synchronize()
            for which, before, after in events:
                readings[which].append(before.elapsed_time(after))
        ratio = statistics.median(a / b for a, b in zip(*readings))
        return [statistics.median(values) for values in readings], ratio, rounds

    def tune(self, makers, seconds):
        """The fastest of some configurations: `makers` maps each to a function without arguments that compiles it and returns the
        call. Returns (configuration, call, failures); gives up new ones after `seconds`."""
        start = time.monotonic()
        best, failures = None, []
        for config, make in makers.items():
            if best is not None and time.monotonic() - start > seconds:
                failures.append([config, "not tried: out of time"])
                continue
            try:
                call = make()
                call()
                readings = self.once([call], 5)[0]
            except Exception as error:
                torch.cuda.synchronize()  # raises when the device is lost
                failures.append([config, f"{type(error).__name__}: {error}"[:200]])
                continue
            took = statistics.median(readings)
            if best is None or took < best[0]:
                best = (took, config, call)
        return (best[1], best[2], failures) if best else (None, None, failures)


def poison(*outputs):
    for output in outputs:
        if output.dtype.is_floating_point:
            output.copy_(torch.full((), float("nan"), device=output.device).to(output.dtype).expand(output.shape))
        else:
            output.fill_(1)


def relative_error(got, want):
    """Size of the difference over the size of `want`; infinite where something was not written."""
    got, want = got.double(), want.double()
    if not bool(torch.isfinite(got).all()):
        return float("inf")
    return float((got - want).norm() / want.norm().clamp(min=1e-300))
