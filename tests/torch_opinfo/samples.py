"""Runs samples of PyTorch's operators; a process that `run.py` starts and asks.

It begins with the line {"operators": {name: [dtype, ...]}}, or {"unavailable": why}. A line of input is `operator dtype round`. The answers are lines of JSON: {"start": index of the sample}, then {"sample": index, "of": number of samples,
"outcome": ...}; or {"none": number of samples} where the operator has no sample of this round.
"""

import argparse
import faulthandler
import importlib.util
import itertools
import json
import os
import random
import re
import signal
import sys
import time
import traceback
import types
import unittest

#: dtype of the arguments or of a result → tolerance (relative, absolute), the larger one counts. Fused kernels keep intermediate results in fp32.
TOLERANCES = {"float64": (1e-7, 1e-7), "float32": (1e-4, 1e-4), "float16": (2e-2, 2e-2), "bfloat16": (5e-2, 5e-2), "complex64": (1e-4, 1e-4)}
#: Floats that PyTorch's compiler rounds to where a kernel stores them, not between the operators inside of it.
NARROW = {"float16", "bfloat16"}
#: Memory that nobody has written.
UNDEFINED = re.compile(r"(^|[._])empty")
#: Remainders whose samples have zeros in the first argument, by which integers are divided: what comes out is undefined on GPUs.
DIVIDES_BY_INPUT = {"__rmod__"}
#: Samples of an operator and dtype that are looked at.
MOST = 200


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", required=True)
    parser.add_argument("--triton", required=True)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--also")
    parser.add_argument("--gradients", action="store_true")
    options = parser.parse_args()
    out = os.fdopen(os.dup(1), "w")  # what programs print goes elsewhere
    os.dup2(2, 1)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # the parent asks what a sample without an answer does

    def say(**what):
        print(json.dumps(what), file=out, flush=True)

    if options.triton == "nereid":
        import nereid
        nereid.install_as_triton()
    elif options.triton == "triton" and importlib.util.find_spec("triton") is None:
        return say(unavailable="no Triton is installed")
    operators = _operators(options)
    say(operators={name: sorted(str(dtype).removeprefix("torch.") for dtype in operator.supported_dtypes(options.device)) for name, operator in operators.items()})
    for line in sys.stdin:
        name, dtype, round_ = line.split()
        _answer(say, operators[name], name, dtype, int(round_), options)


def _operators(options):
    """Name → OpInfo, of all operators; PyTorch's compiler is set up as `options` say."""
    import torch
    import torch._inductor.config as config
    try:
        import expecttest  # noqa: F401
    except ImportError:  # the samples do not need it, only the base class of PyTorch's own tests beside them
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)
    from torch.testing._internal.common_methods_invocations import op_db
    config.compile_threads = 1
    config.fx_graph_cache = False
    if options.device == "cpu" and options.triton != "none":
        config.cpu_backend = "triton"
    if options.also:
        _compile_also_for(options.also)
    if options.device == "cuda":
        torch.zeros(1, device="cuda")
    return {operator.name + (f".{operator.variant_test_name}" if operator.variant_test_name else ""): operator for operator in op_db}


def _compile_also_for(target):
    """From here on each kernel that PyTorch compiles is compiled for `target` ("cuda:90") first."""
    import triton
    from triton.backends.compiler import GPUTarget
    backend, _, arch = target.partition(":")
    other = GPUTarget(backend, int(arch), 32)
    compile_ = triton.compile

    def both(source, target=None, options=None, **keywords):
        compile_(source, target=other, options={name: value for name, value in (options or {}).items() if name != "debug"}, **keywords)
        return compile_(source, target=target, options=options, **keywords)

    triton.compile = both


def _answer(say, operator, name, dtype, round_, options):
    import torch
    gradients = options.gradients and operator.supports_autograd and dtype.startswith(("float", "bfloat"))
    torch.manual_seed(0)
    try:
        samples = list(itertools.islice(operator.sample_inputs(options.device, getattr(torch, dtype), requires_grad=gradients), MOST))
    except Exception as error:
        say(start=0)
        return say(sample=0, of=0, outcome="skipped", reason=f"no samples: {type(error).__name__}: {str(error)[:200]}")
    order = list(range(len(samples)))
    if options.seed is not None:
        random.Random(f"{options.seed} {name} {dtype}").shuffle(order)
    if round_ >= len(order):
        return say(none=len(order))
    index = order[round_]
    say(start=index)
    say(sample=index, of=len(order), **_outcome(operator, samples[index], dtype, gradients))
    del samples
    if options.device == "cuda":
        try:
            torch.cuda.empty_cache()  # other processes share the GPU
        except RuntimeError:  # after a fault; the parent ends this process
            pass


def _outcome(operator, sample, dtype, gradients):
    """What came of a sample: a dict with "outcome" (a key of run.OUTCOMES), and for other than passed samples "reason"."""
    import torch
    from torch._inductor import metrics
    leaves_of = torch.utils._pytree.tree_leaves

    def function(*arguments, **keywords):
        return operator.op(*arguments, **keywords)

    def run(called):
        torch.manual_seed(1)  # of random operators both start alike; what they draw differs
        copy = sample.transform(lambda t: t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t)
        result = called(copy.input, *copy.args, **copy.kwargs)
        if gradients:
            result = sample.output_process_fn_grad(result)
        leaves = [leaf for leaf in leaves_of(result) if isinstance(leaf, torch.Tensor)]
        inputs = [t for t in leaves_of((copy.input, copy.args, copy.kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        if gradients and wanted and inputs:
            leaves += [g for g in torch.autograd.grad(sum(leaf.sum() for leaf in wanted), inputs, allow_unused=True) if g is not None]
        return result, [leaf.detach() for leaf in leaves]

    shapes = [list(t.shape) for t in leaves_of((sample.input, sample.args, sample.kwargs)) if isinstance(t, torch.Tensor)]
    device = sample.input.device if isinstance(sample.input, torch.Tensor) else None
    try:
        want = run(function)
        again = run(lambda *a, **k: (torch.rand(3, device=device), function(*a, **k))[1])
        if UNDEFINED.search(operator.name):
            return {"outcome": "skipped", "reason": "undefined contents"}
        if operator.name in DIVIDES_BY_INPUT and not sample.input.dtype.is_floating_point and bool((sample.input == 0).any()):
            return {"outcome": "skipped", "reason": "integers divided by zero"}
        try:
            torch.testing.assert_close(again[1], want[1], rtol=0, atol=0, equal_nan=True)
        except AssertionError:
            if not _nearly(again[1], want[1], dtype):
                return {"outcome": "skipped", "reason": "random"}
    except Exception as error:
        return {"outcome": "skipped", "reason": f"eager: {type(error).__name__}: {str(error)[:200]}"}
    torch._dynamo.reset()
    metrics.reset()
    started = time.monotonic()
    try:
        got = run(torch.compile(function))
    except Exception as error:
        text = str(error)
        for end in ("Set TORCHDYNAMO_VERBOSE", "The above exception"):
            text = text.split(end)[0]
        chain = _chain(error)
        return {"outcome": _blame(chain), "reason": _class_of(chain[-1]), "detail": text.strip()[-2000:], "shapes": shapes}
    kernels, seconds = metrics.generated_kernel_count, round(time.monotonic() - started, 2)
    try:
        assert len(got[1]) == len(want[1]), f"{len(got[1])} tensors instead of {len(want[1])}"
        for ours, theirs in zip(got[1], want[1]):
            _close(ours, theirs, dtype)
        plain = [[value for value in leaves_of(result[0]) if not isinstance(value, torch.Tensor)] for result in (got, want)]
        torch.testing.assert_close(*plain, equal_nan=True)
    except Exception as error:
        if dtype in NARROW and _is_rounding(run, function, got[1], dtype):
            return {"outcome": "skipped", "reason": "roundings between operators", "detail": str(error)[:1500], "shapes": shapes}
        return {"outcome": "wrong", "reason": "wrong result", "detail": str(error)[:1500], "shapes": shapes, "kernels": kernels, "seconds": seconds}
    return {"outcome": "passed", "kernels": kernels, "seconds": seconds}


def _close(ours, theirs, dtype):
    import torch
    rtol, atol = max(TOLERANCES.get(name, (0, 0)) for name in (dtype, str(theirs.dtype).removeprefix("torch.")))
    torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol, equal_nan=True)


def _nearly(ours, theirs, dtype):
    """Whether two calls of eager PyTorch differ by rounding alone, as sums by atomics do."""
    try:
        for one, other in zip(ours, theirs):
            _close(one, other, dtype)
    except AssertionError:
        return False
    return True


def _is_rounding(run, function, ours, dtype):
    """Whether eager PyTorch gives `ours`, too, where it runs the graphs of PyTorch's compiler as that compiler computes them: intermediate results in fp32, tensors that a graph stores in their own type.

    An example is the gradient of a minimum of bf16 sums: elements equal to the minimum share it, but the minimum was stored and has been rounded, the sums are computed again and have not. None is equal, and zero is divided by zero.
    """
    import torch
    torch._dynamo.reset()
    try:
        same = run(torch.compile(function, backend=_eager_graphs()))
        for one, other in zip(ours, same[1], strict=True):
            _close(one, other, dtype)
    except Exception:  # graphs that cannot run so, or another result
        return False
    finally:
        torch._dynamo.reset()
    return True


def _eager_graphs():
    """A backend of `torch.compile` that runs the graphs which Inductor would compile by operators of eager PyTorch, `NARROW` types as fp32 inside of a graph."""
    import torch
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table
    narrow = {getattr(torch, name) for name in NARROW}

    def widen(value):
        if isinstance(value, torch.dtype):
            return torch.float32 if value in narrow else value
        return value.float() if isinstance(value, torch.Tensor) and value.dtype in narrow else value

    class Wide(torch.fx.Interpreter):

        def run_node(self, node):
            result = super().run_node(node)
            return result if node.op == "output" else torch.utils._pytree.tree_map(widen, result)

        def call_function(self, target, args, kwargs):
            return super().call_function(target, *torch.utils._pytree.tree_map(widen, (args, kwargs)))

        def output(self, target, args, kwargs):
            (node, ) = (node for node in self.module.graph.nodes if node.op == "output")
            metas = [getattr(argument, "meta", {}).get("val") for argument in node.args[0]]
            return [value.to(meta.dtype) if isinstance(value, torch.Tensor) else value for value, meta in zip(args[0], metas)]

    def compiler(graph, inputs):
        return make_boxed_func(Wide(graph).run)

    return aot_autograd(fw_compiler=compiler, bw_compiler=compiler, decompositions=select_decomp_table, partition_fn=min_cut_rematerialization_partition)


def _chain(error):
    """The errors that led to an error, it first, the innermost last."""
    chain = [error]
    while (inner := getattr(chain[-1], "inner_exception", None) or chain[-1].__cause__) is not None and inner not in chain:
        chain.append(inner)
    return chain


def _blame(chain):
    """Who ended a compilation: "error", if the compiler of kernels was at work, "refused", if PyTorch's compiler did not get as far."""
    for error in chain:
        frames = (frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__))
        if type(error).__module__.partition(".")[0] in ("nereid", "triton") or any(re.search(r"[/\\](nereid|triton)[/\\](?!.*[/\\]torch[/\\])", name) for name in frames):
            return "error"
        if CUDA_FAULT.search(str(error)):  # a launch
            return "error"
    return "refused"


#: Faults of a GPU, after which nothing runs in a process.
CUDA_FAULT = re.compile(r"CUDA (driver )?error|CUDA_ERROR_|AcceleratorError")


def _class_of(error):
    """The kind of an error: its class and its first line without numbers and names."""
    line = next((line for line in str(error).splitlines() if "error:" in line), (str(error).strip().splitlines() or [""])[0])
    line = line[line.find("error:") + 7:] if "error:" in line else line
    return f"{type(error).__name__}: " + re.sub(r"\b(?:tmp|buf)?\d[\w.]*\b", "N", line)[:120]


if __name__ == "__main__":
    main()
