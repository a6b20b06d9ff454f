"""`@autotune` and `@heuristics`: choosing constants and options of a kernel by measuring, or by a rule.

The decorators can be stacked in any order above `@jit`; each is a `KernelInterface` whose `run` fills in its keywords and runs the
next one.
"""

import inspect
import math
import time

from .. import knobs, testing
from ..errors import AutotunerError, TritonError
from .driver import cpu, driver
from .jit import KernelInterface


class Config:
    """One choice for the tuner: constants of the kernel (`kwargs`) and options.

    pre_hook: called with a dict of all arguments before the kernel runs with this configuration.
    """

    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, num_cpu_threads=0, maxnreg=None, pre_hook=None,
                 ir_override=None):
        self.kwargs = kwargs
        self.num_warps = num_warps
        self.num_stages = num_stages
        self.num_ctas = num_ctas
        self.num_cpu_threads = num_cpu_threads
        self.maxnreg = maxnreg
        self.pre_hook = pre_hook
        self.ir_override = ir_override

    def _options(self):
        options = {"num_warps": self.num_warps, "num_ctas": self.num_ctas, "num_stages": self.num_stages}
        for name in ("num_cpu_threads", "maxnreg", "ir_override"):
            if getattr(self, name):
                options[name] = getattr(self, name)
        return options

    def all_kwargs(self):
        """The keywords that a launch with this configuration gets."""
        return {**self.kwargs, **self._options()}

    def __setstate__(self, state):
        self.__dict__.update({"num_cpu_threads": 0, "maxnreg": None, "pre_hook": None, "ir_override": None, **state})

    def _key(self):
        return (*self.all_kwargs().items(), self.pre_hook)

    def __eq__(self, other):
        return isinstance(other, Config) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())

    def __str__(self):
        parts = [f"{name}: {value}" for name, value in self.kwargs.items()]
        parts += [f"num_warps: {self.num_warps}", f"num_ctas: {self.num_ctas}", f"num_stages: {self.num_stages}",
                  f"maxnreg: {self.maxnreg}"]
        return ", ".join(parts)

    __repr__ = __str__


def _on_gpu(array):
    return getattr(array, "is_cuda", False) or hasattr(array, "__cuda_array_interface__")


def _base_function(fn):
    while not inspect.isfunction(fn):
        fn = fn.fn
    return fn


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


class Autotuner(KernelInterface):
    """A kernel with several configurations, of which the fastest is found for each key.

    `cache`: best configuration by key. `best_config`: the one of the last launch. `configs_timings`: milliseconds (median, 20th and
    80th percentile) of each configuration at the last tuning, infinite for those that failed. `bench_time`: its seconds.
    """

    def __init__(self, fn, arg_names, configs, key, reset_to_zero=None, restore_value=None, pre_hook=None, post_hook=None,
                 prune_configs_by=None, warmup=None, rep=None, use_cuda_graph=False, do_bench=None, cache_results=False):
        if isinstance(key, str):
            raise TypeError(f"the key of a tuner is a list of argument names, found {key!r}")
        self.configs = list(configs) if configs else [Config({})]
        self.keys = list(key)
        self.cache = {}
        self.arg_names = arg_names
        self.fn = fn
        self.base_fn = _base_function(fn)
        self.reset_to_zero = list(reset_to_zero or [])
        self.restore_value = list(restore_value or [])
        self._user_pre_hook = pre_hook
        self._user_post_hook = post_hook
        self.pre_hook = pre_hook or self._default_pre_hook
        self.post_hook = post_hook or self._default_post_hook
        prune = prune_configs_by or {}
        self.perf_model = prune.get("perf_model")
        self.configs_top_k = prune.get("top_k", 1.0)
        self.early_config_prune = prune.get("early_config_prune")
        self.warmup_time = 10 if warmup is None else warmup
        self.rep_time = 40 if rep is None else rep
        self.use_cuda_graph = use_cuda_graph
        self.do_bench = do_bench
        self.cache_results = cache_results
        self.best_config = None
        self.configs_timings = {}
        self.bench_time = None
        self.nargs = None
        self._saved = {}

    # -- hooks around each measured run --

    def _default_pre_hook(self, arguments, reset_only=False):
        for name in self.reset_to_zero:
            _zero(arguments[name])
        if not reset_only:
            self._saved = {name: _clone(arguments[name]) for name in self.restore_value}

    def _default_post_hook(self, arguments, exception):
        for name, saved in self._saved.items():
            _restore(arguments[name], saved)
        self._saved = {}

    # -- measuring --

    def _bench(self, *args, config, **kwargs):
        """Milliseconds of one configuration: median, 20th and 80th percentile. Raises what the kernel raises."""
        conflicts = kwargs.keys() & config.kwargs.keys()
        if conflicts:
            raise ValueError(f"Conflicting meta-parameters: {', '.join(sorted(conflicts))}. Make sure that you don't "
                             "re-define auto-tuned symbols.")
        current = {**kwargs, **config.all_kwargs()}
        arguments = {**dict(zip(self.arg_names, args)), **current}

        def call():
            if config.pre_hook:
                config.pre_hook(arguments)
            self.pre_hook(arguments)
            try:
                self.fn.run(*args, **current)
            except Exception as error:
                self.post_hook(arguments, exception=error)
                raise
            self.post_hook(arguments, exception=None)

        quantiles = (0.5, 0.2, 0.8)
        if self.do_bench is not None:
            return self.do_bench(call, quantiles=quantiles)
        arrays = [value for value in arguments.values() if hasattr(value, "dtype")]
        if driver.active is cpu or arrays and not any(map(_on_gpu, arrays)):
            return testing._summary(testing._times_on_cpu(call, self.warmup_time, self.rep_time), quantiles, "mean")
        if self.use_cuda_graph:
            return testing.do_bench_cudagraph(call, rep=self.rep_time, quantiles=quantiles)
        return testing.do_bench(call, warmup=self.warmup_time, rep=self.rep_time, quantiles=quantiles)

    def _tune(self, key, args, kwargs):
        start = time.perf_counter()
        timings, failure = {}, None
        for config in self.prune_configs(kwargs, args):
            try:
                timings[config] = self._bench(*args, config=config, **kwargs)
            except TritonError as error:
                failure = failure or error
                timings[config] = [math.inf] * 3
        best = min(timings, key=timings.get)
        if failure is not None and math.isinf(timings[best][0]):
            raise failure
        self.bench_time = time.perf_counter() - start
        self.configs_timings = timings
        self.cache[key] = best
        arguments = {**dict(zip(self.arg_names, args)), **kwargs, **best.all_kwargs()}
        if self._user_pre_hook is None:
            self._default_pre_hook(arguments, reset_only=True)
        if knobs.autotuning.print:
            print(f"Autotuning kernel {self.base_fn.__name__} finished after {self.bench_time:.2f} s, with key {key}, "
                  f"best config selected: {best};")
            for config, times in timings.items():
                result = "failed" if math.isinf(times[0]) else f"{times[0]:.4f} ms"
                print(f"  {result:>12}  {config}{'  <- best' if config is best else ''}")

    def _key(self, args, kwargs):
        arguments = {**dict(zip(self.arg_names, args)), **{k: v for k, v in kwargs.items() if k in self.arg_names}}
        values = [arguments[name] for name in self.keys if name in arguments]
        values += [str(value.dtype) for value in arguments.values() if hasattr(value, "dtype")]
        return tuple(values)

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args))
        if len(self.configs) > 1:
            key = self._key(args, kwargs)
            if key not in self.cache:
                self._tune(key, args, kwargs)
            config = self.cache[key]
        else:
            config = self.configs[0]
        self.best_config = config
        if config.pre_hook is not None:
            config.pre_hook({**dict(zip(self.arg_names, args)), **kwargs, **config.all_kwargs()})
        result = self.fn.run(*args, **kwargs, **config.all_kwargs())
        self.nargs = None
        return result

    def prune_configs(self, kwargs, args=()):
        """The configurations worth measuring for these arguments."""
        configs = self.configs
        arguments = dict(zip(self.arg_names, args)) or self.nargs or {}
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
            if len(configs) > top:
                estimate = {c: self.perf_model(**arguments, **kwargs, **c.all_kwargs()) for c in configs}
                configs = sorted(estimate, key=estimate.get)[:top]
        return configs

    def warmup(self, *args, **kwargs):
        """Compiles every configuration that would be measured."""
        self.nargs = dict(zip(self.arg_names, args))
        return [
            self.fn.warmup(*args, **kwargs, **config.all_kwargs()) for config in self.prune_configs(kwargs, args)
        ]


def autotune(configs, key, prune_configs_by=None, reset_to_zero=None, restore_value=None, pre_hook=None, post_hook=None,
             warmup=None, rep=None, use_cuda_graph=False, do_bench=None, cache_results=False):
    """Measures every configuration when an argument named in `key` has a new value (or an array another dtype), and keeps the
    fastest. TRITON_PRINT_AUTOTUNING=1 prints what was chosen.

    prune_configs_by: {"perf_model": f, "top_k": n, "early_config_prune": f}. reset_to_zero, restore_value: arguments that
    are zeroed, or saved and restored, around each measured run.
    """

    def decorate(fn):
        return Autotuner(fn, fn.arg_names, configs, key, reset_to_zero, restore_value, pre_hook, post_hook,
                         prune_configs_by, warmup, rep, use_cuda_graph, do_bench, cache_results)

    return decorate


class Heuristics(KernelInterface):
    """A kernel with arguments that rules compute from the others."""

    def __init__(self, fn, arg_names, values):
        self.fn = fn
        self.values = values
        self.arg_names = arg_names

    def run(self, *args, **kwargs):
        for name, rule in self.values.items():
            kwargs[name] = rule({**dict(zip(self.arg_names, args)), **kwargs})
        return self.fn.run(*args, **kwargs)


def heuristics(values):
    """`values`: {name of an argument: function of the dict of all arguments that gives its value}."""

    def decorate(fn):
        return Heuristics(fn, fn.arg_names, values)

    return decorate
