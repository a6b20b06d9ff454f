"""PyTorch's own samples of its operators (`op_db` of torch.testing._internal) through `torch.compile`, compared with eager PyTorch.

    python tests/torch_opinfo/run.py --results cpu.jsonl                        on the CPU (cpu_backend="triton")
    python tests/torch_opinfo/run.py --device cuda --results ours.jsonl         on a GPU
    python tests/torch_opinfo/run.py --device cuda --triton triton --results theirs.jsonl --failures-of ours.jsonl
    python tests/torch_opinfo/run.py --compare ours.jsonl theirs.jsonl          what fails in the first and not in the second

Not part of CI: all samples take hours. A result is a line of JSON for each sample; a run that is started again with the
same file goes on where it ended, and beside the file a table of outcomes and one by operator are written (`.md`). `--shard 2/8` takes each eighth operator from the
second on. Samples run in child processes, which end after `--timeout` seconds without an answer; crashes and timeouts are results, too. A sample is skipped
where eager PyTorch refuses it, or gives two results for two calls.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import select
import subprocess
import sys
import time
import types
import unittest

#: dtype of the arguments or of a result → tolerance (relative, absolute), the larger one counts. Fused kernels keep intermediate results in fp32.
TOLERANCES = {"float64": (1e-7, 1e-7), "float32": (1e-4, 1e-4), "float16": (2e-2, 2e-2), "bfloat16": (5e-2, 5e-2), "complex64": (1e-4, 1e-4)}
#: Outcome of a sample → what it means. "passed" and "skipped" are no failures; "refused" may be nobody's fault, which a run with the real Triton tells.
OUTCOMES = {
    "passed": "the result is that of eager PyTorch",
    "wrong": "another result",
    "error": "the compiler of kernels refused a kernel, or a launch failed",
    "refused": "PyTorch's compiler gave up before it called the compiler of kernels",
    "crash": "the process ended",
    "timeout": "the process gave no answer in time",
    "skipped": "eager PyTorch refuses the sample, or its result is random or undefined",
}
FAILURES = {"wrong", "error", "refused", "crash", "timeout"}
#: Memory that nobody has written.
UNDEFINED = re.compile(r"(^|[._])empty")


# In the child


def child(options):
    """Answers lines `operator dtype first` with lines of JSON: before and after each sample, and after the last one."""
    out = os.fdopen(os.dup(1), "w")  # what programs print goes elsewhere
    os.dup2(2, 1)
    if options.triton == "nereid":
        import nereid
        nereid.install_as_triton()
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
    operators = {_name(operator): operator for operator in op_db}

    def say(**what):
        print(json.dumps(what), file=out, flush=True)

    if options.list:
        for name, operator in operators.items():
            say(operator=name, dtypes=sorted(str(dtype).removeprefix("torch.") for dtype in operator.supported_dtypes(options.device)))
        return
    say(ready=True)
    for line in sys.stdin:
        name, dtype, first = line.split()
        operator = operators[name]
        gradients = options.gradients and operator.supports_autograd and dtype.startswith(("float", "bfloat"))
        torch.manual_seed(0)
        try:
            samples = operator.sample_inputs(options.device, getattr(torch, dtype), requires_grad=gradients)
            for i, sample in enumerate(samples):
                if i >= options.samples:
                    break
                if i >= int(first):
                    say(start=i)
                    say(sample=i, **_outcome(operator, sample, dtype, gradients))
        except Exception as error:
            say(sample=-1, outcome="skipped", reason=f"no samples: {type(error).__name__}")
        say(end=True)


def _name(operator):
    return operator.name + (f".{operator.variant_test_name}" if operator.variant_test_name else "")


def _outcome(operator, sample, dtype, gradients):
    import torch
    from torch._inductor import metrics

    def function(*arguments, **keywords):
        return operator.op(*arguments, **keywords)

    def run(called):
        torch.manual_seed(1)  # of random operators both start alike; what they draw differs
        copy = sample.transform(lambda t: t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t)
        result = called(copy.input, *copy.args, **copy.kwargs)
        if gradients:
            result = sample.output_process_fn_grad(result)
        leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        inputs = [t for t in torch.utils._pytree.tree_leaves((copy.input, copy.args, copy.kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        if gradients and wanted and inputs:
            leaves += [g for g in torch.autograd.grad(sum(leaf.sum() for leaf in wanted), inputs, allow_unused=True) if g is not None]
        return result, [leaf.detach() for leaf in leaves]

    shapes = [list(t.shape) for t in torch.utils._pytree.tree_leaves((sample.input, sample.args, sample.kwargs)) if isinstance(t, torch.Tensor)]
    device = sample.input.device if isinstance(sample.input, torch.Tensor) else None
    try:
        want = run(function)
        again = run(lambda *a, **k: (torch.rand(3, device=device), function(*a, **k))[1])
        if UNDEFINED.search(operator.name):
            return {"outcome": "skipped", "reason": "undefined contents"}
        try:
            torch.testing.assert_close(again[1], want[1], rtol=0, atol=0, equal_nan=True)
        except AssertionError:
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
            rtol, atol = max(TOLERANCES.get(name, (0, 0)) for name in (dtype, str(theirs.dtype).removeprefix("torch.")))
            torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol, equal_nan=True)
        plain = [value for value in torch.utils._pytree.tree_leaves(got[0]) if not isinstance(value, torch.Tensor)]
        torch.testing.assert_close(plain, [value for value in torch.utils._pytree.tree_leaves(want[0]) if not isinstance(value, torch.Tensor)], equal_nan=True)
    except Exception as error:
        return {"outcome": "wrong", "reason": "wrong result", "detail": str(error)[:1500], "shapes": shapes, "kernels": kernels, "seconds": seconds}
    return {"outcome": "passed", "kernels": kernels, "seconds": seconds}


def _chain(error):
    """The errors that led to an error, it first, the innermost last."""
    chain = [error]
    while (inner := getattr(chain[-1], "inner_exception", None) or chain[-1].__cause__) is not None and inner not in chain:
        chain.append(inner)
    return chain


def _blame(chain):
    """Who ended a compilation: "error", if the compiler of kernels was at work, "refused", if PyTorch's compiler did not get as far."""
    import traceback
    for error in chain:
        frames = (frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__))
        if type(error).__module__.partition(".")[0] in ("nereid", "triton") or any(re.search(r"[/\\](nereid|triton)[/\\](?!.*[/\\]torch[/\\])", name) for name in frames):
            return "error"
    return "refused"


def _class_of(error):
    """The kind of an error: its class and its first line without numbers and names."""
    line = next((line for line in str(error).splitlines() if "error:" in line), (str(error).strip().splitlines() or [""])[0])
    line = line[line.find("error:") + 7:] if "error:" in line else line
    return f"{type(error).__name__}: " + re.sub(r"\b(?:tmp|buf)?\d[\w.]*\b", "N", line)[:120]


# In the parent


class Child:
    """A process that runs samples."""

    def __init__(self, options):
        environment = {name: value for name, value in os.environ.items() if name != "NEREID_AS_TRITON"}
        self.log = open(f"{options.results}.log", "ab")
        self.process = subprocess.Popen([sys.executable, __file__, "--child", *options.given], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, env=environment)
        self.text = b""

    def ask(self, line):
        self.process.stdin.write((line + "\n").encode())
        self.process.stdin.flush()

    def answer(self, seconds):
        """The next answer; a text where there is none: why the process has ended."""
        end = time.monotonic() + seconds
        while b"\n" not in self.text:
            if not select.select([self.process.stdout], [], [], max(end - time.monotonic(), 0))[0]:
                self.end()
                return f"no answer in {seconds} s"
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                status = self.end()
                return f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
            self.text += more
        line, self.text = self.text.split(b"\n", 1)
        return json.loads(line)

    def end(self):
        if self.process.poll() is None:
            try:
                self.process.wait(1)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.log.close()
        return self.process.wait()


def operators_of(options):
    """(operator, dtype) pairs to run."""
    chosen = child_list(options)
    names = [name for name in chosen if re.search(options.operators, name)]
    index, count = map(int, options.shard.split("/"))
    names = names[index - 1::count]
    wanted = options.dtypes.split(",")
    return [(name, dtype) for name in names for dtype in wanted if dtype in chosen[name]]


def child_list(options):
    process = Child(argparse.Namespace(**{**vars(options), "given": [*options.given, "--list"]}))
    found = {}
    while isinstance(answer := process.answer(600), dict):
        found[answer["operator"]] = answer["dtypes"]
    if not found:
        sys.exit(f"{answer}: see {options.results}.log")
    return found


def read(file):
    path = pathlib.Path(file)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(options):
    before = read(options.results)
    finished = {(record["operator"], record["dtype"]) for record in before if record.get("end")}
    only = {(record["operator"], record["dtype"]) for record in read(options.failures_of) if record.get("outcome") in FAILURES} if options.failures_of else None
    work = [pair for pair in operators_of(options) if pair not in finished and (only is None or pair in only)]
    done = collections.defaultdict(int)
    for record in before:
        if (record["operator"], record["dtype"]) not in finished and "sample" in record:
            done[record["operator"], record["dtype"]] = record["sample"] + 1
    process, stop = None, time.monotonic() + options.minutes * 60
    with open(options.results, "a") as results:

        def write(**record):
            print(json.dumps(record), file=results, flush=True)

        for position, (name, dtype) in enumerate(work):
            if time.monotonic() > stop:
                print(f"stopped after {options.minutes} minutes: {len(work) - position} operators are left")
                break
            next_sample, ended, failed = done[name, dtype], False, ""
            while not ended:
                if process is None:
                    process = Child(options)
                    answer = process.answer(600)
                    if not isinstance(answer, dict):
                        sys.exit(f"{answer}: see {options.results}.log")
                process.ask(f"{name} {dtype} {next_sample}")
                while True:
                    answer = process.answer(options.timeout)
                    if not isinstance(answer, dict):
                        outcome = "timeout" if answer.startswith("no answer") else "crash"
                        write(operator=name, dtype=dtype, sample=next_sample, outcome=outcome, reason=answer)
                        failed, process, next_sample = answer, None, next_sample + 1
                        break
                    if "sample" in answer:
                        write(operator=name, dtype=dtype, **answer)
                        next_sample = answer["sample"] + 1
                        if answer["outcome"] in FAILURES:
                            failed = answer["reason"]
                            if "CUDA error" in answer.get("detail", "") + failed:  # nothing more runs in a process after a fault
                                process.process.kill()
                                process.end()
                                process = None
                                break
                    if "end" in answer:
                        write(operator=name, dtype=dtype, end=True)
                        ended = True
                        break
                if next_sample >= options.samples and not ended:
                    write(operator=name, dtype=dtype, end=True)
                    ended = True
            print(f"{position + 1}/{len(work)} {name} {dtype} {failed or 'ok'}", flush=True)
    if process is not None:
        process.process.kill()
        process.end()
    table(options.results)


def table(file):
    """Writes the table by operator beside the results, and prints the reasons of failures."""
    rows = collections.defaultdict(collections.Counter)
    reasons = collections.defaultdict(collections.Counter)
    for record in read(file):
        if "outcome" in record:
            row = rows[record["operator"], record["dtype"]]
            row[record["outcome"]] += 1
            row["kernels"] += record.get("kernels", 0)
            if record.get("reason"):
                reasons[record["operator"], record["dtype"]][f"{record['outcome']}: {record['reason']}"] += 1
    total = sum(rows.values(), collections.Counter())
    lines = ["| outcome | samples | meaning |", "|---|---|---|", *(f"| {name} | {total[name]} | {meaning} |" for name, meaning in OUTCOMES.items()), "",
             f"| operator | dtype | {' | '.join(OUTCOMES)} | kernels | reasons |", "|---|---|" + "---|" * (len(OUTCOMES) + 2)]
    for key, row in sorted(rows.items()):
        why = "; ".join(reason.replace("|", "\\|") for reason in reasons[key])
        lines.append(f"| {key[0]} | {key[1]} | {' | '.join(str(row[name]) for name in OUTCOMES)} | {row['kernels']} | {why} |")
    pathlib.Path(file).with_suffix(".md").write_text("\n".join(lines) + "\n")
    print(f"{len(rows)} operators and dtypes, {sum(total[name] for name in OUTCOMES)} samples: {', '.join(f'{total[name]} {name}' for name in OUTCOMES)}; "
          f"{total['kernels']} kernels")
    kinds = collections.defaultdict(set)
    for key, counter in reasons.items():
        for reason in counter:
            if reason.partition(":")[0] in FAILURES:
                kinds[reason].add(f"{key[0]} ({key[1]})")
    for reason, names in sorted(kinds.items(), key=lambda item: -len(item[1])):
        print(f"  {reason}: {', '.join(sorted(names)[:6])}{f' and {len(names) - 6} more' if len(names) > 6 else ''}")


def compare(ours, theirs):
    """Prints the samples that fail in the first file and not in the second; the exit status says whether there are any."""
    other = {(record["operator"], record["dtype"], record["sample"]): record for record in read(theirs) if "sample" in record}
    count = 0
    for record in read(ours):
        if record.get("outcome") in FAILURES:
            there = other.get((record["operator"], record["dtype"], record["sample"]), {"outcome": "not run"})
            if there["outcome"] not in FAILURES:
                count += 1
                print(f"{record['operator']} {record['dtype']} sample {record['sample']}: {record['reason']} ({there['outcome']} in {theirs})")
    print(f"{count} samples fail in {ours} and not in {theirs}")
    return count > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", default="opinfo.jsonl", help="file of the results (default: opinfo.jsonl)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--triton", choices=["nereid", "triton", "none"], default="nereid",
                        help="whose kernels; none: PyTorch's own C++ on the CPU (default: nereid)")
    parser.add_argument("--dtypes", default="float32,int64", help="dtypes, separated by commas (default: float32,int64)")
    parser.add_argument("--samples", type=int, default=4, help="at most so many samples of an operator and dtype (default: 4)")
    parser.add_argument("--operators", default="", help="a regular expression of operators to run")
    parser.add_argument("--failures-of", help="run only what failed in this file")
    parser.add_argument("--gradients", action="store_true", help="compare gradients as well")
    parser.add_argument("--shard", default="1/1", metavar="I/N")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for a sample (default: 120)")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no operator after so many minutes")
    parser.add_argument("--compare", nargs=2, metavar=("OURS", "THEIRS"))
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compare:
        return compare(*options.compare)
    if options.child:
        return child(options)
    options.given = ["--device", options.device, "--triton", options.triton, "--samples", str(options.samples), *["--gradients"] * options.gradients]
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
