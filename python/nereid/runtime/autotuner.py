"""`@autotune` and `@heuristics`: choosing constants and options of a kernel by measuring, or by a rule.

The decorators can be stacked in any order above `@jit`; each is a `KernelInterface` whose `run` fills in its keywords and runs the
next one.
"""

import functools
import hashlib
import json
import math
import os
import threading
import warnings

from .. import _alias, _native, knobs
from ..errors import AutotunerError, OutOfResources, PTXASError, TritonError  # noqa: F401  (clients import them from here)
from . import _tuning
from ._heuristics import Decorated, Heuristics, arg_names_of, base_function, heuristics  # noqa: F401  (heuristics are here to everybody)
from .driver import cpu, cuda, device_of, driver


class Config:
    """One choice for the tuner: constants of the kernel (`kwargs`) and options. In `kwargs`, `nereid_num_warps` and the like are options, too.

    pre_hook: called with a dict of all arguments before the kernel runs with this configuration. ir_override: a file that takes
    the place of a stage of the compilation, which its ending names (`.tile`, `.llir`, `.ptx`). num_cpu_threads: threads of a launch on the CPU, 0 for the setting.
    """

    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, pre_hook=None, ir_override=None,
                 num_cpu_threads=0):
        self.kwargs = kwargs
        self.num_warps = num_warps
        self.num_stages = num_stages
        self.num_ctas = num_ctas
        self.num_cpu_threads = num_cpu_threads
        self.maxnreg = maxnreg
        self.pre_hook = pre_hook
        self.ir_override = ir_override

    def __setattr__(self, name, value):
        if name in self.__dict__:
            _native.choices_changed()
        object.__setattr__(self, name, value)

    def _options(self):
        options = {name: getattr(self, name) for name in ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")}
        options["num_cpu_threads"] = self.num_cpu_threads or None
        return {name: value for name, value in options.items() if value is not None}

    def all_kwargs(self):
        """The keywords that a launch with this configuration gets."""
        return {**self.kwargs, **{name: value for name, value in self._options().items() if f"nereid_{name}" not in self.kwargs}}

    def __setstate__(self, state):
        self.__dict__.update({"kwargs": {}, "num_warps": 4, "num_stages": 3, "num_ctas": 1, "num_cpu_threads": 0, "maxnreg": None,
                              "pre_hook": None, "ir_override": None, **state})

    def _key(self):
        return (*self.all_kwargs().items(), self.pre_hook)

    def _state(self):
        """The attributes that are written to a file. Configurations with a hook are never written."""
        return {name: value for name, value in self.__dict__.items() if name != "num_cpu_threads" or value}

    def __eq__(self, other):
        return isinstance(other, Config) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())

    def __str__(self):
        parts = [f"{name}: {value}" for name, value in self.kwargs.items()]
        parts += [f"num_warps: {self.num_warps}", f"num_ctas: {self.num_ctas}", f"num_stages: {self.num_stages}",
                  f"maxnreg: {self.maxnreg}"]
        if _alias.release() >= (3, 9):
            parts.append(f"ir_override: {self.ir_override}")
        return ", ".join(parts)

    __repr__ = __str__


def _clone(value):
    return value.clone() if hasattr(value, "clone") else value.copy()


def _restore(value, saved):
    if hasattr(value, "copy_"):
        value.copy_(saved)
    else:
        value[...] = saved


def _zero(value):
    if hasattr(value, "zero_"):
        value.zero_()
    else:
        value.fill(0)


#: Keywords of a launch that are no options of its code.
_NO_OPTIONS = ("grid", "warmup", "stream", "device", "device_type")


class Choices(dict):
    """`Autotuner.cache`: a dict that tells the launch path (docs/dispatch.md) when it changes."""

    _is_watched = True


def _telling(name):
    """A method of `dict` that changes it, and tells."""
    change = getattr(dict, name)

    @functools.wraps(change)
    def method(self, *args, **kwargs):
        _native.choices_changed()
        return change(self, *args, **kwargs)

    return method


for _name in ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update"):
    setattr(Choices, _name, _telling(_name))


class Autotuner(Decorated):
    """A kernel with several configurations, of which the fastest is found for each key.

    `cache`: best configuration by key. `best_config`: the one of the last launch. `configs_timings`: milliseconds (median, 20th and
    80th percentile) of each configuration at the last tuning, infinite for those that failed. `failures`: their errors, by
    configuration. `bench_time`: its seconds. `nargs`: the positional arguments of the launch that this thread is in, by name.

    budget: seconds that the tuning of one key may take (NEREID_TUNING_BUDGET otherwise).
    """

    def __init__(self, fn, arg_names, configs, key, reset_to_zero, restore_value, pre_hook=None, post_hook=None,
                 prune_configs_by=None, warmup=None, rep=None, use_cuda_graph=False, do_bench=None, cache_results=False,
                 budget=None):
        # A list is not copied: the user may change it later. A text is the name of one argument, or, as in Triton, of one for each character.
        self.configs = [Config({})] if not configs else configs if isinstance(configs, list) else list(configs)
        self.keys = [key] if isinstance(key, str) and key in arg_names else list(key or ())
        self.cache = Choices()
        self.arg_names = arg_names
        self.fn = fn
        self.base_fn = base_function(fn)
        self.cache_results = cache_results
        self.reset_to_zero = list(reset_to_zero or [])
        self.restore_value = list(restore_value or [])
        if _alias.release() >= (3, 9):
            self._check_names()
        self.user_defined_pre_hook = pre_hook is not None
        self.user_defined_post_hook = post_hook is not None
        self.pre_hook = pre_hook or self._default_pre_hook
        self.post_hook = post_hook or self._default_post_hook
        prune = prune_configs_by or {}
        self.perf_model = prune.get("perf_model")
        self.configs_top_k = prune.get("top_k", 1.0)
        self.early_config_prune = prune.get("early_config_prune")
        self.num_warmups = warmup
        self.num_reps = rep
        self.use_cuda_graph = use_cuda_graph
        self._do_bench = do_bench
        self.best_config = None
        self.configs_timings = {}
        self.failures = {}
        self.bench_time = None
        self.budget = budget
        self._left_out = 0
        self._start_threads()
        if warmup is not None or rep is not None or use_cuda_graph:
            warnings.warn("warmup, rep, and use_cuda_graph parameters are deprecated. See "
                          "https://github.com/triton-lang/triton/pull/4496 for details.", DeprecationWarning, stacklevel=2)

    def _check_names(self):
        """ValueError: a list of arguments' names has one that the kernel does not have. Before Triton 3.9 such names were left out."""
        for what, names in (("key", self.keys), ("reset_to_zero", self.reset_to_zero), ("restore_value", self.restore_value)):
            unknown = [name for name in names if name not in self.arg_names]
            if unknown:
                raise ValueError(f"{what} contains names that are not kernel arguments: {', '.join(unknown)}. Valid argument names are: "
                                 f"{', '.join(self.arg_names)}.")

    @property
    def nargs(self):
        own = getattr(self._thread, "nargs", None)
        if own is None:
            given = self._given()  # of a launch that did not come through `run`
            own = None if given is None else dict(zip(self.arg_names, given))
        return own

    @nargs.setter
    def nargs(self, value):
        self._thread.nargs = value

    def _start_threads(self):
        """Makes the state of this process: data of each thread, the thread that tunes each key, the kind of device of the first launch."""
        self._kind = None
        self._thread = threading.local()
        self._lock = threading.Lock()
        self._tuned_now = {}

    def __getstate__(self):
        own = ("_default_pre_hook", "_default_post_hook")
        transient = ("_thread", "_lock", "_tuned_now", "_kind", "failures", "base_fn")
        return {name: value for name, value in self.__dict__.items()
                if name not in transient and not (name in ("pre_hook", "post_hook") and getattr(value, "__name__", "") in own)}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.base_fn = base_function(self.fn)
        self.__dict__.setdefault("pre_hook", self._default_pre_hook)
        self.__dict__.setdefault("post_hook", self._default_post_hook)
        self.failures = {}
        self._start_threads()

    # -- hooks around each measured run --

    def _default_pre_hook(self, arguments, reset_only=False):
        for name in self.reset_to_zero:
            if arguments[name] is not None:
                _zero(arguments[name])
        if not reset_only:
            # Hooks of configurations may launch the kernel again, so what is saved is a stack.
            if not hasattr(self._thread, "saved"):
                self._thread.saved = []
            self._thread.saved.append({name: _clone(arguments[name]) for name in self.restore_value if arguments[name] is not None})

    def _default_post_hook(self, arguments, exception):
        saved = getattr(self._thread, "saved", None)
        for name, value in (saved.pop() if saved else {}).items():
            _restore(arguments[name], value)

    # -- measuring --

    @property
    def do_bench(self):
        """What measures: `do_bench(call, quantiles=...)` gives the milliseconds of `call()`."""
        return self._do_bench if self._do_bench is not None else self._measure

    @do_bench.setter
    def do_bench(self, measure):
        self._do_bench = measure

    def _measure(self, call, quantiles):
        return _tuning.measure_once(self, call, quantiles)

    def _own_bench(self):
        """Whether the user measures: no result of that is kept but where `cache_results` asks for it."""
        return (self._do_bench is not None or type(self)._bench is not Autotuner._bench or "_bench" in self.__dict__
                or type(self).do_bench is not Autotuner.do_bench)

    def _measures_itself(self):
        """Whether each configuration is measured by one call of `_bench`, in the way that the user chose."""
        return self._own_bench() or self.num_warmups is not None or self.num_reps is not None or self.use_cuda_graph

    def _check_conflicts(self, config, meta):
        conflicts = meta.keys() & config.kwargs.keys()
        if conflicts:
            raise ValueError(f"Conflicting meta-parameters: {', '.join(sorted(conflicts))}. Make sure that you don't "
                             "re-define auto-tuned symbols.")

    def _bench(self, *args, config, **meta):
        """Milliseconds of one configuration: median, 20th and 80th percentile; infinite ones for a configuration that is to be left out, whose
        error is kept in `_thread.skipped`. (Subclasses with a search of their own call this, too.)"""
        self._check_conflicts(config, meta)
        if knobs.autotuning.print:
            print(f"Autotuning kernel {self.base_fn.__name__} with config {config}")
        try:
            return self.do_bench(_tuning.Call(self, config, args, meta), quantiles=(0.5, 0.2, 0.8))
        except TritonError as error:
            if not _tuning.is_skipped(error):
                raise
            self._thread.skipped = error
            return [math.inf] * 3

    def _tune(self, key, configs, args, kwargs, on_disk=False):
        """Measures the configurations and keeps the best. Those that fail count as infinitely slow; when all do, the error of the first
        comes out. `on_disk`: takes the result from the disk, if it is there, and keeps it there. Says whether it was there."""
        found = _tuning.tune(self, key, configs, args, kwargs, on_disk)
        if not found.from_disk:
            self.bench_time = found.seconds
        self.configs_timings = found.timings
        self.failures = found.failures
        self._left_out = found.left_out
        self.cache[key] = found.best
        return found.from_disk

    def _in_tritons_cache(self):
        return self.cache_results or knobs.autotuning.cache

    def _report(self, key):
        """Prints what the last tuning measured and chose."""
        name, best = self.base_fn.__name__, self.cache[key]
        for config, error in self.failures.items():
            print(f"Autotuning kernel {name}: config {config} failed: {_tuning.reason(error)}")
        if self._left_out:
            print(f"Autotuning kernel {name}: {self._left_out} of the configs were not measured in the given time")
        for config, times in self.configs_timings.items():
            result = "failed" if math.isinf(_median(times)) else f"{_median(times):.4f} ms"
            print(f"  {result:>12}  {config}{'  <- best' if config is best else ''}")
        print(f"Triton autotuning for function {name},\nwith key as {key},\n"
              f"finished after {self.bench_time:.2f}s,\nbest config selected: {best};")

    def check_disk_cache(self, tuning_key, configs, bench_fn):
        """Takes the result of an earlier process from the disk, or calls `bench_fn()` and keeps its result there. Says whether it was
        there. Configurations with hooks are always measured."""
        if not tuning_key or any(config.pre_hook for config in configs):
            bench_fn()
            return False
        from .cache import get_cache_manager, triton_key
        function = self.fn
        while not hasattr(function, "cache_key"):
            function = function.fn
        device, kind = driver.active, getattr(self._thread, "kind", None)  # the launch may go elsewhere than others do
        if kind is not None and kind != getattr(device, "name", kind):
            device = cpu if kind == "cpu" else cuda
        identity = "\0".join([triton_key(), str(device.get_current_target()), function.cache_key, str(tuning_key), *map(str, configs)])
        manager = get_cache_manager(hashlib.sha256(identity.encode()).hexdigest())
        name = f"{self.base_fn.__name__[:150]}.autotune.json"
        path = manager.get_file(name)
        if path:
            with open(path) as file:
                timings = {Config(**config): times for config, times in json.load(file)["configs_timings"]}
            self.cache[tuning_key] = min(timings, key=lambda config: _median(timings[config]))
            self.configs_timings = timings
            return True
        bench_fn()
        manager.put(json.dumps({"key": tuning_key, "configs_timings": [(config._state(), times) for config, times
                                                                       in self.configs_timings.items()]}, default=str),
                    name, binary=False)
        return False

    def _key(self, kwargs):
        arguments = {**self.nargs, **{k: v for k, v in kwargs.items() if k in self.arg_names}}
        values = [arguments[name] for name in self.keys if name in arguments]
        values += [str(value.dtype) for value in arguments.values() if hasattr(value, "dtype")]
        # The best configuration for a GPU may not even run on the CPU. Triton's keys do not contain the kind of device: here the first kind has
        # the same keys, other kinds get a longer one.
        kind = self._kind_of(kwargs)
        if self._kind is None:
            self._kind = kind
        if kind != self._kind:
            values.append(kind)
        # Options of the launch that change the code are part of the key, too. One that a configuration sets as well makes the launch an error.
        values += [f"{name}={value!r}" for name, value in sorted(kwargs.items())
                   if name not in self.arg_names and name not in _NO_OPTIONS and not (name in ("target", "nereid_target") and value == kind)]
        return tuple(values)

    def _kind_of(self, kwargs):
        return "cpu" if device_of({**(self.nargs or {}), **kwargs}) is None else "cuda"

    def _choose(self, args, kwargs):
        """The configuration for these arguments, measured when it is not known."""
        if len(self.configs) == 1:
            return self.configs[0]
        key = self._key(kwargs)
        while key not in self.cache:
            owner = self._claim(key)
            if owner is None:
                continue  # another thread has tuned it, or has failed to
            try:
                self._find_best(key, args, kwargs)
            finally:
                self._release(key, owner)
        return self.cache[key]

    def _claim(self, key):
        """An owner when this thread is to tune the key; else waits for the thread that does. A thread that tunes already waits for none,
        since the other may wait for it."""
        tuning = getattr(self._tunings, "count", 0)
        mine = _Owner()
        with self._lock:
            owner = self._tuned_now.get(key)
            if owner is None or owner.process != os.getpid():
                owner = self._tuned_now[key] = mine
        if owner is not mine and not tuning:
            owner.done.wait()
            return None
        self._tunings.count = tuning + 1
        return mine

    def _release(self, key, owner):
        self._tunings.count -= 1
        with self._lock:
            if self._tuned_now.get(key) is owner:
                del self._tuned_now[key]
        owner.done.set()

    #: How many tunings of any kernel a thread is in: hooks may launch tuned kernels.
    _tunings = threading.local()

    def _find_best(self, key, args, kwargs):
        """Tunes the key, or takes an earlier result."""
        configs = list(dict.fromkeys(self.prune_configs(kwargs)))
        from_disk = False
        self._thread.kind = self._kind_of(kwargs)
        if len(configs) == 1:
            self.cache[key] = configs[0]
        else:
            if knobs.runtime.interpret or self._own_bench() and not self._in_tritons_cache():
                self._tune(key, configs, args, kwargs)
            elif self._in_tritons_cache():
                from_disk = self.check_disk_cache(key, configs, lambda: self._tune(key, configs, args, kwargs))
            else:
                from_disk = self._tune(key, configs, args, kwargs, on_disk=True)
            if not from_disk:
                self.pre_hook({**self.nargs, **kwargs, **self.cache[key].all_kwargs()}, reset_only=True)
        duration = None if from_disk or len(configs) == 1 else self.bench_time
        if knobs.autotuning.print and duration is not None:
            self._report(key)
        elif knobs.autotuning.print and from_disk:
            print(f"Autotuning kernel {self.base_fn.__name__}: an earlier tuning chose {self.cache[key]}")
        if knobs.autotuning.listener is not None:
            knobs.autotuning.listener(fn=self.fn, key=key, best_config=self.cache[key], configs_timings=self.configs_timings,
                                      duration=duration, cache_hit=from_disk)

    def _begin(self, args):
        """`nargs` of a launch; gives back those of the one around it on this thread."""
        outer = getattr(self._thread, "nargs", None)
        self.nargs = dict(zip(self.arg_names, args))
        return outer

    def _config_for(self, args, kwargs):
        """For the launch path: the configuration for these arguments, measured when it is not known, and its key in `cache`."""
        outer = self._begin(args)
        try:
            config = self._choose(args, kwargs)
            return config, None if len(self.configs) == 1 else self._key(kwargs)
        finally:
            self.nargs = outer

    def run(self, *args, **kwargs):
        outer = self._begin(args)
        try:
            config = self._choose(args, kwargs)
            self.best_config = config
            if config.pre_hook is not None:
                config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
            return self.fn.run(*args, **kwargs, **config.all_kwargs())
        finally:
            self.nargs = outer

    def prune_configs(self, kwargs):
        """The configurations worth measuring for the arguments of the launch (`nargs` and `kwargs`)."""
        configs = self.configs
        arguments = self.nargs or {}
        if self.early_config_prune:
            configs = self.early_config_prune(configs, arguments, **kwargs)
            if not configs:
                raise AutotunerError("No valid autotuner configs after pruning. `early_config_prune` should return at least "
                                     "one config.")
        if self.perf_model:
            top = self.configs_top_k
            if isinstance(top, float) and top <= 1.0:
                top = max(int(len(self.configs) * top), 1)
            elif not isinstance(top, int):
                raise TypeError("Error while pruning configs, top_k must be either 1) a float <= 1.0 or 2) an int")
            if len(configs) > top or self.budget:
                estimate = {c: self.perf_model(**arguments, **kwargs, **c.all_kwargs()) for c in configs}
                configs = sorted(estimate, key=estimate.get)[:top]
            if not configs:
                raise AutotunerError(f"No valid autotuner configs after pruning. `top_k` should leave at least one config, found {top}.")
        return configs

    def warmup(self, *args, **kwargs):
        """Compiles every configuration that would be measured."""
        outer = self._begin(args)
        try:
            return [self.fn.warmup(*args, **kwargs, **config.all_kwargs()) for config in self.prune_configs(kwargs)]
        finally:
            self.nargs = outer


class _Owner:
    """The thread that tunes a key: its process, and an event for threads that wait for the result."""

    def __init__(self):
        self.process = os.getpid()
        self.done = threading.Event()


def _median(times):
    """The number that counts of what was measured: the first of several."""
    return times[0] if isinstance(times, (list, tuple)) else times


def autotune(configs, key, prune_configs_by=None, reset_to_zero=None, restore_value=None, pre_hook=None, post_hook=None,
             warmup=None, rep=None, use_cuda_graph=False, do_bench=None, cache_results=False, budget=None):
    """Measures every configuration when an argument named in `key` has a new value (or an array another dtype), and keeps the
    fastest. TRITON_PRINT_AUTOTUNING=1 prints what was chosen.

    prune_configs_by: {"perf_model": f, "top_k": n, "early_config_prune": f}. reset_to_zero, restore_value: arguments that
    are zeroed, or saved and restored, around each measured run; those that are None are left alone. budget: seconds that the tuning of one key may take; the first
    configurations (the best ones by `perf_model`) are tried first.
    """
    if budget is not None and knobs.nereid.strict:
        raise TypeError("autotune() got an unexpected keyword argument 'budget'")
    if budget is not None and not budget >= 0:
        raise ValueError(f"autotune() takes a budget in seconds, 0 for none, found {budget!r}")

    def decorate(fn):
        return Autotuner(fn, arg_names_of(fn, "autotune"), configs, key, reset_to_zero, restore_value, pre_hook, post_hook,
                         prune_configs_by, warmup, rep, use_cuda_graph, do_bench, cache_results, budget)

    return decorate


_native.register(tuner_run=Autotuner.run)
