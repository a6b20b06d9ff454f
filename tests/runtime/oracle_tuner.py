"""What a tuner does around a kernel, asked of the Triton that `python oracle_tuner.py` imports, or of Nereid (`python oracle_tuner.py nereid`):
one line of JSON a question. test_rules.py compares the two. No device: the kernels are stand-ins, the times are made up.
"""

import contextlib
import io
import json
import pickle
import re
import sys
import warnings

if sys.argv[1:] == ["nereid"]:
    import nereid
    nereid.install_as_triton()

import triton  # noqa: E402
from triton.runtime.autotuner import Autotuner, OutOfResources, PTXASError  # noqa: E402
from triton.runtime.errors import AutotunerError  # noqa: E402, F401
from triton.compiler.errors import CompileTimeAssertionFailure  # noqa: E402


class Tensor:
    """An array that says what is done to it."""

    def __init__(self, name, log, dtype="fp32"):
        self.name, self.log, self.dtype = name, log, dtype

    def zero_(self):
        self.log.append(f"zero {self.name}")

    def clone(self):
        self.log.append(f"save {self.name}")
        return Tensor(f"{self.name}'", self.log)

    def copy_(self, other):
        self.log.append(f"restore {self.name} from {other.name}")


class Kernel(triton.KernelInterface):
    """A kernel that notes its launches. fail: {BLOCK: exception}."""

    def __init__(self, log, fail=()):
        self.log, self.fail = log, dict(fail)
        self.fn = lambda x, n, BLOCK: None
        self.fn.__name__ = "kernel"
        self.arg_names = ["x", "n", "BLOCK"]

    def run(self, *args, **kwargs):
        self.log.append(("run", len(args), *sorted((name, value) for name, value in kwargs.items() if isinstance(value, (int, str)))))
        if kwargs.get("BLOCK") in self.fail and not kwargs.get("warmup"):
            raise self.fail[kwargs["BLOCK"]]
        return "result"

    def warmup(self, *args, **kwargs):
        self.log.append(("warmup", *sorted((name, value) for name, value in kwargs.items() if isinstance(value, (int, str)))))
        return kwargs["BLOCK"]


def configs(*sizes, **options):
    return [triton.Config({"BLOCK": size}, **options) for size in sizes]


class Scene:
    """A tuner over a noting kernel, whose measurements take the given times."""

    def __init__(self, sizes=(16, 32), times=(2.0, 1.0), key=("n", ), fail=(), made=None, cls=None, **options):
        self.log, self.times = [], iter(times)
        self.x = Tensor("x", self.log)
        self.kernel = Kernel(self.log, fail)
        options.setdefault("do_bench", self.bench)
        made = configs(*sizes) if made is None else made
        key = list(key) if isinstance(key, tuple) else key
        if cls is None:
            self.tuner = triton.autotune(made, key, **options)(self.kernel)
        else:
            self.tuner = cls(self.kernel, self.kernel.arg_names, made, key, options.pop("reset_to_zero", None),
                             options.pop("restore_value", None), **options)

    def bench(self, call, quantiles):
        self.log.append(("bench", quantiles))
        call()
        return next(self.times)

    def launch(self, *args, **kwargs):
        try:
            return self.tuner[(1, )](*(args or (self.x, 64)), **kwargs)
        except BaseException as error:
            return told(error)

    def state(self):
        tuner = self.tuner
        return {"log": self.log, "best": str(tuner.best_config) if tuner.cache else None, "cache": plain(tuner.cache),
                "timings": plain(getattr(tuner, "configs_timings", {})), "nargs": plain(tuner.nargs)}


def told(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def plain(value):
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if isinstance(value, (int, float, str, type(None))) else str(value) if isinstance(value, triton.Config) else type(value).__name__


QUESTIONS = []


def question(function):
    QUESTIONS.append(function)
    return function


@question
def the_course_of_a_tuning():
    scene = Scene()
    return scene.launch(), scene.launch(), scene.state()


@question
def hooks_of_the_user():
    log = []
    keep = lambda kind: lambda arguments, **more: log.append((kind, sorted(map(str, arguments)), plain(more)))
    scene = Scene(pre_hook=keep("before"), post_hook=keep("after"), made=configs(16, 32, pre_hook=keep("config")))
    return scene.launch(), scene.launch(), [entry for entry in log if entry[0] != "config" or True][:20], scene.tuner.user_defined_pre_hook


@question
def reset_and_restore():
    scene = Scene(reset_to_zero=["x"], restore_value=["x"])
    return scene.launch(), scene.launch(), scene.state()


@question
def restore_after_a_failure():
    scene = Scene(restore_value=["x"], fail={16: ValueError("broken")})
    return scene.launch(), scene.log, plain(scene.tuner.cache)


@question
def names_that_are_no_arguments():
    return [Scene(**{which: ["y"]}).launch() for which in ("reset_to_zero", "restore_value")]


def failures():
    yield "resources", OutOfResources(100, 10, "shared memory")
    yield "assertion", CompileTimeAssertionFailure(None, None, "too large")
    yield "assembler", PTXASError("no")
    yield "value", ValueError("no")
    yield "key", KeyError("no")
    yield "interrupt", KeyboardInterrupt()


@question
def failing_configurations():
    answers = {}
    for name, error in failures():
        scene = Scene(sizes=(16, 32, 64), times=([3.0] * 3, [2.0] * 3), fail={16: error})
        answers[name] = scene.launch(), scene.state() if scene.tuner.cache else None
    return answers


@question
def when_all_fail():
    return [Scene(fail={16: error, 32: error}).launch().split(":")[0] for name, error in failures() if name not in ("interrupt", "key")]


@question
def exceptions_in_hooks():

    def bad(*_, **__):
        raise RuntimeError("in the hook")

    def bad_reset(arguments, reset_only=False):
        if reset_only:
            raise RuntimeError("at the end")

    answers = [Scene(**{which: bad}).launch() for which in ("pre_hook", "post_hook")]
    answers.append(Scene(pre_hook=bad_reset).launch())
    answers.append(Scene(made=configs(16, 32, pre_hook=bad)).launch())
    answers.append(Scene(made=configs(16, pre_hook=bad)).launch())
    answers.append(Scene(post_hook=bad, fail={16: ValueError("broken")}).launch())
    answers.append(Scene(pre_hook=lambda arguments: None).launch())
    return answers


@question
def pruning_early():
    answers = []
    for result in ([], (), None, configs(128), configs(16, 32), configs(64)[:1]):
        seen = []
        early = lambda given, arguments, **more: seen.append((plain(given), sorted(arguments), plain(more))) or result
        scene = Scene(prune_configs_by={"early_config_prune": early})
        answers.append((scene.launch(), seen, plain(scene.tuner.cache)))
    return answers


@question
def pruning_by_a_model():
    answers = []
    for top in (1, 2, 3, 9, 0.5, 0.75, 1.0, 1.5, "1", None):
        seen = []
        model = lambda BLOCK, **more: seen.append((BLOCK, sorted(more))) or -BLOCK
        scene = Scene(sizes=(16, 32, 64, 128), times=(4, 3, 2, 1), prune_configs_by={"perf_model": model, "top_k": top})
        answers.append((scene.launch(), seen, plain(scene.tuner.cache)))
        if top != 1:  # the only one that is left is measured by Triton alone
            answers.append(plain(getattr(scene.tuner, "configs_timings", {})))
    return answers


@question
def pruning_by_both():
    scene = Scene(sizes=(16, 32, 64, 128), times=(4, 3), prune_configs_by={
        "early_config_prune": lambda given, arguments, **_: given[1:], "perf_model": lambda BLOCK, **_: 1, "top_k": 0.5})
    return scene.launch(), plain(scene.tuner.configs_timings)


@question
def a_model_that_fails():
    def bad(**_):
        raise ZeroDivisionError("model")
    return (Scene(prune_configs_by={"perf_model": bad}).launch(), Scene(prune_configs_by={"perf_model": bad, "top_k": 1}).launch(),
            Scene(prune_configs_by={"early_config_prune": lambda a, b, **_: bad()}).launch())


@question
def values_of_keys():
    answers = []
    for value in (None, (1, 2), [1, 2], {"a": 1}, 1.5, "text", True):
        scene = Scene(times=(2, 1, 2, 1))
        answers.append((scene.launch(scene.x, value), scene.launch(scene.x, value), plain(scene.tuner.cache)))
    return answers


@question
def equal_values_of_keys():
    scene = Scene(times=range(20))
    for value in (1, True, 1.0, 0, False, -0.0):
        scene.launch(scene.x, value)
    return plain(scene.tuner.cache), len(scene.log)


@question
def names_of_keys():
    answers = []
    for key in ((), ("x", ), ("n", "n"), ("missing", ), ("BLOCK", ), "n", "nn", "xn"):
        scene = Scene(key=key, times=(2, 1, 2, 1))
        scene.launch(scene.x, 3)
        scene.launch(scene.x, n=3)
        answers.append([[plain(part) for part in entry] for entry in scene.tuner.cache])
    return answers


@question
def dtypes_are_in_the_order_of_arguments():
    scene = Scene(times=(2, 1, 2, 1))
    other = Tensor("n", scene.log, "i8")
    scene.launch(scene.x, other)
    scene.launch(n=other, x=scene.x)
    return [[plain(part) for part in entry[1:]] for entry in scene.tuner.cache]


@question
def what_do_bench_returns():
    answers = []
    for times in ((2, 1), (1.0, 1.0), ([2, 0, 9], [1, 1, 1]), ((1, 5, 5), (1, 4, 6)), ([1.0], [0.5]), ([1.0, 2.0], [1.0, 2.0])):
        scene = Scene(times=times)
        answers.append((scene.launch(), plain(scene.tuner.cache), plain(scene.tuner.configs_timings)))
    return answers


@question
def equal_configurations():
    scene = Scene(sizes=(16, 32, 16), times=(1, 2, 1))
    return scene.launch(), plain(scene.tuner.cache), plain(scene.tuner.configs_timings)


@question
def keywords_that_configurations_set():
    answers = [Scene().launch(BLOCK=8), Scene(sizes=(16, )).launch(BLOCK=8)]
    return [answer.split(":")[0] for answer in answers], answers[0]


@question
def options_that_configurations_set():
    answers = [Scene().launch(num_warps=8), Scene(sizes=(16, )).launch(num_warps=8)]
    return [answer.split(":")[0] for answer in answers]


@question
def options_of_configurations():
    scene = Scene(made=[triton.Config({"BLOCK": 16}, num_warps=8, num_stages=2, num_ctas=2, maxnreg=64),
                        triton.Config({"BLOCK": 32}, num_warps=None, num_stages=None, num_ctas=None)])
    return scene.launch(), scene.log


@question
def one_configuration():
    log = []
    scene = Scene(made=configs(16, pre_hook=lambda arguments: log.append(sorted(arguments))))
    return scene.launch(), scene.launch(), scene.state(), log


@question
def no_configurations():
    return [str(triton.autotune(none, key=[])(Kernel([])).configs[0]) for none in ([], None, ())]


@question
def a_tuner_that_measures():

    class Own(Autotuner):

        def _bench(self, *args, config, **meta):
            return [config.kwargs["BLOCK"] % 48, 0, 0]

    scene = Scene(sizes=(16, 32, 48), cls=Own)
    return scene.launch(), scene.state()


@question
def a_tuner_with_its_own_run():

    class Own(Autotuner):

        def run(self, *args, **kwargs):
            return "before", super().run(*args, **kwargs)

    scene = Scene(cls=Own)
    return scene.launch(), scene.launch(), scene.state()


@question
def measuring_that_is_set_later():
    scene = Scene(do_bench=None)
    scene.tuner.do_bench = lambda call, quantiles: call() or scene.log.count("x") or 5.0
    return scene.launch(), scene.state()


@question
def the_configurations_are_the_users():
    mine = configs(16, 32)
    scene = Scene(made=mine)
    mine.append(triton.Config({"BLOCK": 64}))
    return len(scene.tuner.configs), scene.tuner.configs is mine


@question
def results_that_the_user_sets():
    scene = Scene()
    scene.tuner.cache[(64, "fp32")] = scene.tuner.configs[0]
    return scene.launch(), scene.state()


@question
def warmups():
    scene = Scene(prune_configs_by={"early_config_prune": lambda given, arguments, **_: given[1:]})
    return scene.tuner.warmup(scene.x, 64, grid=(1, )), scene.log, scene.tuner.nargs


@question
def tuners_in_rows():
    log = []
    inner = Kernel(log)
    tune = lambda name, *sizes: triton.autotune([triton.Config({name: size}) for size in sizes], ["n"], do_bench=lambda call, quantiles: call() and 1.0 or 1.0)
    inner.arg_names = ["x", "n", "EVEN", "BLOCK", "GROUP"]
    rules = triton.heuristics({"EVEN": lambda arguments: arguments["n"] % 2 == 0 and sorted(map(str, arguments))[0]})
    for wrapped in (tune("BLOCK", 16, 32)(rules(inner)), rules(tune("BLOCK", 16, 32)(inner)),
                    triton.heuristics({"EVEN": lambda arguments: True})(tune("BLOCK", 16, 32)(triton.heuristics({"GROUP": lambda arguments: arguments["BLOCK"] * 2})(inner)))):
        wrapped[(1, )](Tensor("x", log), 64)
    return log


@question
def what_is_printed():
    with contextlib.redirect_stdout(io.StringIO()) as out:
        triton.knobs.autotuning.print = True
        try:
            scene = Scene(sizes=(16, 32, 64), times=([3.0] * 3, [2.0] * 3), fail={16: OutOfResources(100, 10, "shared memory")})
            scene.launch()
            scene.launch()
        finally:
            triton.knobs.autotuning.print = False
    ours = ("  ", "Autotuning kernel kernel: ")  # what Nereid says beyond Triton
    return [re.sub(r"\d+\.\d\ds", "Ts", line) for line in out.getvalue().splitlines() if not line.startswith(ours)]


@question
def configurations():
    config = triton.Config({"BLOCK": 16}, 8, 2)
    same = pickle.loads(pickle.dumps(config))
    bare = triton.Config.__new__(triton.Config)
    bare.__setstate__({"kwargs": {"A": 1}})
    shadows = triton.Config({"num_warps": 2, "BLOCK": 1})
    return (str(config), config.all_kwargs(), config == same, hash(config) == hash(same), len({config, same}), str(bare), bare.all_kwargs(),
            triton.Config({}, maxnreg=0).all_kwargs(), triton.Config({}, ir_override="a.ptx").all_kwargs(), shadows.all_kwargs(), str(shadows),
            triton.Config({"A": 1}) == triton.Config({"A": True}), triton.Config({"A": 1, "B": 2}) == triton.Config({"B": 2, "A": 1}),
            told_of(lambda: hash(triton.Config({"A": [1]}))))


def told_of(call):
    try:
        return call()
    except Exception as error:
        return told(error)


@question
def old_options():
    answers = []
    for options in ({"warmup": 1}, {"rep": 1}, {"use_cuda_graph": True}):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tuner = triton.autotune(configs(16), ["n"], **options)(Kernel([]))
        answers.append(([str(w.message) for w in caught], tuner.num_warmups, tuner.num_reps, tuner.use_cuda_graph))
    return answers


if __name__ == "__main__":
    for function in QUESTIONS:
        try:
            answer = function()
        except Exception as error:
            answer = f"raised {told(error)}"
        print(json.dumps([function.__name__, answer], default=str))
