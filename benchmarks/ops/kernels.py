"""Time on the device: every family of `nereid.ops` against ATen over shapes of models, on a GPU or on the CPU.

    python benchmarks/ops/kernels.py [--device cuda] [--only softmax,sum] [--shapes 64x4096] [--seconds 0.3] [--json FILE] [--routes FILE]

Both run in turns, on GPUs with a cold cache (the L2 cache is flushed between calls). The median over rounds counts, on the CPU the shortest. Results are compared first: with ATen's in
fp64 where dtypes are narrower. The last lines give the geometric mean of ATen's time over ours, by family and over all. --routes writes the routing data of this
machine (`nereid/ops/routes`) after every shape, or what was measured into a file that exists, --routed lets those in force decide and lists what they leave to ours below 0.97.
"""

import argparse
import contextlib
import ctypes
import functools
import json
import math
import pathlib
import statistics
import sys
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import nereid.ops
from cases import FAMILIES, FULL, HALF, SHAPES
from host import flag_gems
from nereid.ops import _register, _routes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))

class OnCpu:
    """As measure.Bench, on the host, but the shortest reading counts: other programs only make them longer. clock: what counts the seconds of a call. Memory that is freed stays with the process: whether the C library returns a result's
    pages to the system, and has to fault them in again, depends on what else was allocated, and it would decide over whole milliseconds of either side."""

    _TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt

    def __init__(self, clock=time.perf_counter):
        self.clock = clock
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # of glibc
        if mallopt is not None:
            mallopt(self._TRIM_THRESHOLD, 2**31 - 1)
            mallopt(self._MMAP_THRESHOLD, 2**31 - 1)

    def _reading(self, context, call, times, estimate=False):
        """Seconds of a call, of so many. The first ones after the context has changed do not count: ours run in Python, and refill the caches, for up to eight calls."""
        with context():
            call()
            start, done = time.monotonic(), 0
            while not estimate and (passed := time.monotonic() - start) < 0.02 and (passed < 1e-3 or done < 10):
                call()
                done += 1
            start = self.clock()
            for _ in range(times):
                call()
            return (self.clock() - start) / times

    def pairs(self, calls, seconds):
        # Readings of 0.2 ms or more: what a call finds in the caches is then what calls have left there, not the change of context.
        shortest = min(self._reading(*call, 1, True) for call in calls for _ in range(2))
        times = min(200, max(1, math.ceil(2e-4 / max(shortest, 1e-6))))
        readings, end = [[], []], time.monotonic() + seconds
        while time.monotonic() < end or len(readings[0]) < 5:
            for which in ((0, 1) if len(readings[0]) % 2 else (1, 0)):
                readings[which].append(self._reading(*calls[which], times) * 1000)
        ours, theirs = map(min, readings)
        return [ours, theirs], ours / theirs, len(readings[0])


def graph(call):
    """A CUDA graph of a call, after some calls: what its launches take, and nothing of the host."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        call()
    return captured.replay


def error_of(call, only):
    """The largest relative error of ours against ATen's, by tensor, in units of the dtype's eps; inf where dtypes or shapes differ. only: names of the operators that take part."""
    theirs = call()
    with nereid.ops.use(only=only, routing=False):
        ours = call()
    worst = 0.0
    for mine, its in zip(*(item if isinstance(item, (tuple, list)) else [item] for item in (ours, theirs))):
        if mine is None and its is None:
            continue
        if mine.dtype != its.dtype or mine.shape != its.shape:
            return math.inf
        if not its.numel():
            continue
        if not its.dtype.is_floating_point:
            wrong = (mine != its).double().mean().item()
            worst = max(worst, 0 if wrong < 1e-3 else math.inf)
            continue
        difference = (mine.double() - its.double()).nan_to_num(0).norm() / its.double().nan_to_num(0).norm().clamp(min=1e-300)
        worst = max(worst, difference.item() / torch.finfo(its.dtype).eps)
    return worst


def graphs_of(cases, context):
    """{case: its graph in that context, or why there is none}. Switching flag-gems on takes a second, so all cases of a shape are captured at once."""
    found = {}
    with context():
        for name, call in cases.items():
            try:
                found[name] = graph(call)
            except Exception as problem:
                found[name] = f"{type(problem).__name__}: {problem}"[:200]
    return found


class _Dispatched(TorchDispatchMode):
    """The names of the operators that a call dispatches itself, views left out: not those that its operators call."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not func.is_view:
            self.names.append(func._schema.name.partition("::")[2])
        return func(*args, **(kwargs or {}))


class Observer:
    """Which shape classes a call has: those of all registered operators behind it."""

    def __init__(self, call):
        self.classes = []
        with _register.watched(self), _Dispatched() as dispatched:
            call()
        self.dispatched = dispatched.names

    def visit(self, operator, form, key, theirs, args, kwargs):
        values, _ = form.bind(args, kwargs)
        self.classes.append((operator.name, operator.routing_dtype(values), operator.shape_class(form, values)))

    @property
    def operators(self):
        return sorted({name for name, _, _ in self.classes})

    @property
    def point(self):
        """The class whose speed the call tells: the only one, or that of the only operator that it dispatches, or the only one beside copies. None: no such class."""
        found = self.classes
        if len(self.dispatched) == 1 and found and found[0][0] == self.dispatched[0].removesuffix("_"):
            found = found[:1]
        elif len(self.dispatched) == 1:
            found = [one for one in found if one[0] not in ("clone", "copy", "fill", "zero")]
        return found[0] if len(found) == 1 and found[0][2] is not None else None


def keep(routes, path):
    """Writes the points into a file, beside those that it has. Exits where it is of another machine."""
    if path.exists():
        earlier = _routes.read(path)
        if earlier.machine != routes.machine:
            sys.exit(f"{path} is of another machine: {earlier.machine}")
        earlier.update(routes)
        routes = earlier
    routes.save(path, date=time.strftime("%Y-%m-%d"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", help="names of cases or families, with commas")
    parser.add_argument("--seconds", type=float, default=0.1, help="a case")
    parser.add_argument("--shapes", default="", help="only these, such as 64x4096,1x1048576")
    parser.add_argument("--most", type=int, default=1 << 40, help="only shapes of at most so many elements")
    parser.add_argument("--json")
    parser.add_argument("--routes", type=pathlib.Path)
    parser.add_argument("--routed", action="store_true")
    parser.add_argument("--one-thread", action="store_true", help="on the CPU: one thread, and its own processor time: on a machine that others use, too")
    parser.add_argument("--flag-gems", action="store_true", help="also flag-gems, on the Triton that is installed")
    options = parser.parse_args()
    only = options.only and options.only.split(",")
    shapes = [shape for shape in SHAPES if not options.shapes or f"{shape[0]}x{shape[1]}" in options.shapes.split(",")]
    machine = _routes.machine(options.device)  # with all threads
    if options.device == "cuda":
        from measure import Bench
        bench = Bench()
    elif options.one_thread:
        nereid.knobs.nereid.cpu_threads = 1
        torch.set_num_threads(1)
        bench = OnCpu(time.thread_time)
    else:
        bench = OnCpu()
    gems = flag_gems() if options.flag_gems else None
    found, routes = [], _routes.Routes(machine)
    use = functools.partial(nereid.ops.use, routing=options.routed)
    for family, make in FAMILIES.items():
        for dtype in (HALF, FULL):
            for shape in shapes:
                if shape[0] * shape[1] > min(options.most, 1 << 23 if options.device == "cpu" else options.most):
                    continue
                cases = {name: call for name, call in make(options.device, dtype, shape).items() if not only or name in only or family in only}
                others = graphs_of(cases, gems) if gems else {}
                for name, call in cases.items():
                    row = {"family": family, "case": name, "dtype": str(dtype)[6:], "shape": shape}
                    try:
                        # Entering the context of all operators takes longer than most calls.
                        seen = Observer(call)
                        row["error"] = error_of(call, seen.operators)
                        if options.device == "cuda":
                            theirs = graph(call)
                            with use():  # what ours call in turn is ours, too
                                mine = graph(call)
                        else:
                            mine, theirs = (functools.partial(use, only=seen.operators), call), (contextlib.nullcontext, call)
                        (row["ours"], row["ATen"]), ratio, row["rounds"] = bench.pairs([mine, theirs], options.seconds)
                        row["speed"] = 1 / ratio
                        if callable(others.get(name)):
                            (_, row["flag-gems"]), ratio, _ = bench.pairs([mine, others[name]], options.seconds)
                            row["flag-gems/ours"] = 1 / ratio
                        elif name in others:
                            row["flag-gems failed"] = others[name]
                        point = seen.point
                        if point is not None:
                            routes.add(point[0], point[1], *point[2], row["speed"])
                    except Exception as problem:
                        row["failed"] = f"{type(problem).__name__}: {problem}"[:200]
                    found.append(row)
                    print(f"{family:11}{name:20}{row['dtype']:9}{str(shape):16}" + (row["failed"] if "failed" in row else
                          f"{row['ours'] * 1000:10.1f}{row['ATen'] * 1000:10.1f}{row['speed']:8.2f}   error {row['error']:.1f}" +
                          (f"   flag-gems {row['flag-gems'] * 1000:.1f} {row['flag-gems/ours']:.2f}" if "flag-gems" in row else "")), flush=True)
                if options.device == "cuda":
                    torch.cuda.empty_cache()
                others.clear()
                if options.routes and routes.points:
                    keep(routes, options.routes)
    print("microseconds: ours, ATen's; ATen's over ours; error in eps; flag-gems' and flag-gems' over ours")
    for family in (*FAMILIES, None):
        speeds = [row["speed"] for row in found if "speed" in row and family in (None, row["family"])]
        if speeds:
            print(f"{family or 'all'}: geometric mean {math.exp(statistics.mean(map(math.log, speeds))):.3f} of {len(speeds)} cases, "
                  f"{sum(speed < 0.97 for speed in speeds)} below 0.97, the lowest {min(speeds):.2f}")
        speeds = [row["flag-gems/ours"] for row in found if "flag-gems/ours" in row and family in (None, row["family"])]
        if speeds:
            print(f"    against flag-gems: {math.exp(statistics.mean(map(math.log, speeds))):.3f} of {len(speeds)} cases, the lowest {min(speeds):.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": torch.cuda.get_device_name() if options.device == "cuda" else "CPU", "torch": torch.__version__, "rows": found}, file, indent=1)


if __name__ == "__main__":
    main()
