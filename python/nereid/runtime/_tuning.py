"""One tuning: compiles the configurations of a kernel ahead on threads, measures them as they become ready, and chooses.

The library (`_native.Search`) decides the order of measurements and the result: a short measurement of each configuration, a longer
one of those that are not clearly slower, and the best few once more in turns. A tuner that measures in its own way (`do_bench`,
`warmup`, `rep`, `use_cuda_graph`, an overridden `_bench`) is asked once for each configuration.
"""

import contextlib
import math
import shutil
import sys
import threading
import time
from queue import Empty, SimpleQueue

from .. import _measure, _native, knobs, testing
from ..errors import CompileTimeAssertionFailure, OutOfResources, PTXASError, TritonError
from . import _async_compile, _tuning_key
from ._heuristics import Heuristics
from .driver import device_of
from .jit import JITFunction

#: Measurements of different threads would disturb one another. A hook may wait for another thread that measures, so waiting has an end.
_measuring = threading.RLock()
_PATIENCE = 30.0


class Outcome:
    """The result of a tuning: the best configuration, [median, 20th, 80th percentile] in milliseconds by configuration (infinite for those
    that failed), the error by configuration that failed, seconds, and whether it came from the disk."""

    def __init__(self, configs, best, times, failures, seconds, from_disk=False):
        self.best = configs[best]
        self.timings = {config: timing for config, timing in zip(configs, times) if timing is not None}
        self.failures = {configs[index]: _without_frames(error) for index, error in sorted(failures.items())}
        self.seconds = seconds
        self.left_out = times.count(None)
        self.from_disk = from_disk


def _without_frames(error):
    """An error that is kept: without the frames that it came through, which hold the arguments of the launch."""
    for part in (error, error.__cause__):
        if part is not None:
            part.__traceback__ = part.__context__ = None
    return error


def tune(tuner, key, configs, args, kwargs, on_disk):
    """Measures the configurations for a launch, or, if `on_disk`, takes an earlier result. Raises the first one's error, with all
    reasons as a note, when none works."""
    for config in configs:
        tuner._check_conflicts(config, kwargs)
    device = device_of({**(tuner.nargs or {}), **kwargs})
    budget = tuner.budget or knobs.nereid.tuning_budget or 0
    text = _tuning_key.text_of(tuner, key, configs, kwargs) if on_disk else None
    place = text and (text, -1 if device is None else device)
    start = time.perf_counter()
    found = place and _native.tuning_find(*place, len(configs), budget)
    if found:
        return Outcome(configs, *found, {}, time.perf_counter() - start, from_disk=True)
    _refuse_capture(tuner, device)
    best, times, failures, cut_short = _search(tuner, configs, args, kwargs, device, budget)
    if place:
        _native.tuning_keep(*place, tuner.base_fn.__name__, best, times, budget if cut_short else 0)
    return Outcome(configs, best, times, failures, time.perf_counter() - start)


def _search(tuner, configs, args, kwargs, device, budget):
    """(number of the best, times of each or None, errors by number, whether the budget was too small)."""
    plain = tuner._measures_itself()
    search = _native.Search(len(configs), budget, plain, device is not None)
    failures, own, announced = {}, {}, set()
    with _Ahead(tuner, configs, args, kwargs, search, device is None, plain or budget > 0) as ahead, _Progress(tuner.base_fn.__name__) as progress:
        while True:
            ahead.collect(failures)
            step, index, runs = search.next()
            progress.show(search)
            if step == "done":
                break
            if step == "wait":
                ahead.wait()
                continue
            config = configs[index]
            try:
                with _alone():
                    if plain:
                        tuner._thread.skipped = None
                        own[index] = tuner._bench(*args, config=config, **kwargs)
                        if tuner._thread.skipped is not None and _number(own[index]) == math.inf:
                            raise tuner._thread.skipped
                        times = [_number(own[index])]
                    else:
                        if knobs.autotuning.print and index not in announced:
                            announced.add(index)
                            print(f"Autotuning kernel {tuner.base_fn.__name__} with config {config}")
                        times = _times(Call(tuner, config, args, kwargs), device, runs)
                search.report(index, times)
            except TritonError as error:
                if not is_skipped(error):
                    raise
                failures[index] = error
                search.fail(index)
                if knobs.autotuning.print:
                    print(f"Autotuning failed with {error}")
    best = search.best()
    if best is None or best in failures:
        raise _all_failed([failures[index] for index in sorted(failures)], [configs[index] for index in sorted(failures)])
    if plain:  # ties: by the other numbers, then by the position in the list, not by the order of compilation
        equal = [index for index in sorted(own) if index not in failures and _number(own[index]) == _number(own[best])]
        best = min(equal, key=lambda index: list(own[index]) if isinstance(own[index], (list, tuple)) else [own[index]])
    return best, [own.get(index, search.timing(index)) for index in range(len(configs))], failures, search.cut_short()


def is_skipped(error):
    """Whether a configuration that fails so is left out. Triton ends the tuning by errors in the kernel's text."""
    return not knobs.nereid.strict or isinstance(error, (OutOfResources, CompileTimeAssertionFailure, PTXASError))


def _number(times):
    """The number that counts of what was measured: the first of several. Not a number counts as infinitely slow."""
    median = times[0] if isinstance(times, (list, tuple)) else times
    return median if median == median else math.inf


def _all_failed(errors, configs):
    reasons = [f"  {config}: {reason(error)}" for config, error in zip(configs, errors)]
    if len(errors) > 1:
        errors[0].add_note("none of the configurations works:\n" + "\n".join(reasons))
    return errors[0]


def reason(error):
    """The first line of an error that says something."""
    text = str(getattr(error, "error_message", None) or error).strip()
    return text.split("\n")[0]


# ---- where it runs ----------------------------------------------------------------------------------


def _refuse_capture(tuner, device):
    torch = sys.modules.get("torch")
    if device is not None and torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        raise RuntimeError(f"the kernel `{tuner.base_fn.__name__}` is not tuned for these arguments, and nothing can be measured while a "
                           "CUDA graph is captured: launch it once before")


# ---- compiling ahead --------------------------------------------------------------------------------


class _Ahead:
    """Compiles the configurations on threads, in their order, while the caller measures. `quiet`: they are measured only when all are
    compiled, since both use the same cores.

    Queues that are written in C, and no futures: an interrupt in the middle of waiting for futures leaves their locks taken, so
    that the threads never end, nor the process.
    """

    def __init__(self, tuner, configs, args, kwargs, search, quiet, in_order):
        self._search = search
        self._quiet = quiet
        self._in_order = in_order  # a configuration is not ready before those in front of it in the list
        self._limit = search.remaining() / 2
        self._start = time.perf_counter()
        self._jobs, self._finished = SimpleQueue(), SimpleQueue()  # (number, what compiles), and (number, its error)
        self._pending, self._begun, self._done = set(), set(), []
        self._ends = False
        self._threads = 0
        self._most = min(max(_native.tuning_threads() - (not quiet), 1), len(configs))
        try:
            if len(configs) > 1 and _compiles_ahead(tuner.fn):
                for index, config in enumerate(configs):
                    self._begin(index, Call(tuner, config, args, kwargs))
        except BaseException:
            self._ends = True
            raise
        finally:
            for _ in range(self._threads):
                self._jobs.put(None)
        self._done += [(index, None) for index in range(len(configs)) if index not in self._pending]
        self._pending.update(range(len(configs)))

    def _begin(self, index, call):
        # An error before the compilation is raised again by the measurement, which reports it.
        with contextlib.suppress(Exception):
            call.set_up()
            self._index = index
            token = _async_compile.active_mode.set(self)
            try:
                call.compile_only()
            finally:
                _async_compile.active_mode.reset(token)

    def submit(self, key, compile_fn, finalize_fn):
        """Called by kernels under this mode (`_async_compile`)."""
        self._pending.add(self._index)
        self._jobs.put((self._index, compile_fn))
        if self._threads < self._most:
            self._threads += 1
            threading.Thread(target=self._work, name=f"nereid-tuner_{self._threads}").start()

    def _work(self):
        while not self._ends and threading.main_thread().is_alive():
            try:
                job = self._jobs.get(timeout=1)
            except Empty:  # of one that was interrupted before it could say that this is all
                continue
            if job is None or self._ends:
                return
            index, compile_fn = job
            self._begun.add(index)
            error = None
            try:
                compile_fn()
            except BaseException as raised:  # told when it is measured, unless it is one of those that leave a configuration out
                error = raised
            self._finished.put((index, error))
            del job, compile_fn, error

    def collect(self, failures):
        """Tells the search what has become ready or failed."""
        while not self._finished.empty():
            self._done.append(self._finished.get())
        if self._quiet and len(self._done) < len(self._pending):
            if time.perf_counter() - self._start < self._limit:
                return
            self._ends = True
            self._done += [(index, None) for index in self._pending - self._begun]
        held = []
        for index, error in sorted(self._done, key=lambda done: done[0]):
            if index not in self._pending:
                continue
            if self._in_order and min(self._pending) < index:
                held.append((index, error))
                continue
            self._pending.discard(index)
            if isinstance(error, TritonError) and is_skipped(error):
                failures[index] = error
                self._search.fail(index)
            else:
                self._search.ready(index)
        self._done = held

    def wait(self):
        """Until something has happened, or a moment has gone by."""
        with contextlib.suppress(Empty):
            self._done.append(self._finished.get(timeout=min(self._search.remaining() or 0.2, 0.2)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ends = True


def _compiles_ahead(fn):
    """Whether `fn.run(warmup=True)` is known to only bind the arguments and compile."""
    while type(fn).run is Heuristics.run and "run" not in fn.__dict__:
        fn = fn.fn
    return type(fn).run is JITFunction.run and "run" not in fn.__dict__ and not fn.pre_run_hooks and not knobs._hooked


# ---- measuring --------------------------------------------------------------------------------------


class Call:
    """One configuration's launch with the hooks around it."""

    def __init__(self, tuner, config, args, kwargs):
        self._tuner = tuner
        self._config = config
        self._args = args
        self._kwargs = {**kwargs, **config.all_kwargs()}
        self._arguments = {**(tuner.nargs or {}), **self._kwargs}

    def set_up(self):
        """Calls the configuration's hook."""
        if self._config.pre_hook:
            self._config.pre_hook(self._arguments)

    def compile_only(self):
        return self._tuner.fn.run(*self._args, **{**self._kwargs, "warmup": True})

    def around(self, launch):
        """`launch(run)` between the hooks. The hook after it is called even when the launch raises; if both raise, the hook's exception is raised, as in Triton."""
        tuner = self._tuner
        self.set_up()
        tuner.pre_hook(self._arguments)
        try:
            launch(self._run)
        except BaseException as error:
            tuner.post_hook(self._arguments, exception=error)
            raise
        tuner.post_hook(self._arguments, exception=None)

    def _run(self):
        self._tuner.fn.run(*self._args, **self._kwargs)

    def __call__(self):
        self.around(lambda run: run())


@contextlib.contextmanager
def _alone():
    owned = _measuring.acquire(timeout=_PATIENCE)
    try:
        yield
    finally:
        if owned:
            _measuring.release()


def _times(call, device, runs):
    """Milliseconds of single runs of the kernel, without the hooks around it."""
    with _measure.Clock() if device is None else _measure.Events(device) as meter:
        return meter.times(call.around, runs)


def measure_once(tuner, call, quantiles):
    """The default of `Autotuner.do_bench`, for callers: `call()` as a whole, with the tuner's `warmup` and `rep`."""
    warmup = 10 if tuner.num_warmups is None else tuner.num_warmups
    rep = 40 if tuner.num_reps is None else tuner.num_reps
    if device_of(tuner.nargs or {}) is None:
        return testing._summarize_statistics(testing._times_on_cpu(call, warmup, rep), quantiles, "mean")
    if tuner.use_cuda_graph:
        return testing.do_bench_cudagraph(call, rep=rep, quantiles=quantiles)
    return testing.do_bench(call, warmup=warmup, rep=rep, quantiles=quantiles)


# ---- what a terminal shows --------------------------------------------------------------------------


class _Progress:
    """A line on the terminal while a tuning takes long, gone at its end. Nothing where standard error is no terminal."""

    _AFTER, _EVERY = 2.0, 0.1

    def __init__(self, name):
        self._name = name
        self._stream = sys.stderr
        self._next = time.perf_counter() + self._AFTER
        try:
            self._wanted = self._stream.isatty()
        except (AttributeError, ValueError):
            self._wanted = False
        self._shown = False

    def show(self, search):
        if not self._wanted or time.perf_counter() < self._next:
            return
        self._next = time.perf_counter() + self._EVERY
        self._shown = True
        line = search.progress(self._name)[:max(shutil.get_terminal_size().columns - 1, 20)]
        self._stream.write(f"\r{line}\x1b[K")
        self._stream.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
