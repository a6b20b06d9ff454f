"""PyTorch's own samples of its operators (`op_db` of torch.testing._internal) through `torch.compile`, compared with eager PyTorch.

    python tests/torch_opinfo/run.py --results cpu.jsonl                                        on the CPU (cpu_backend="triton")
    python tests/torch_opinfo/run.py --results cpu.jsonl --also cuda:90                         also compiles each kernel for a GPU
    python tests/torch_opinfo/run.py --device cuda --results gpu.jsonl --reference triton \\
        --jobs 14 --seed 1 --minutes 7                                                          on a GPU, seven minutes of it

Not part of CI: all samples take hours. The order is by rounds: a sample of each operator in its first dtype, then in the next one, then a second sample.
With `--seed` operators and samples are in random order, which a run that goes on must repeat. A result is a line of JSON for each sample; a run that is started again with the same
file goes on where it ended. Beside the file a table of outcomes and one by operator are written (`.md`). `--shard 2/8` takes each eighth operator from the
second on. Samples run in child processes (samples.py), which end after `--timeout` seconds without an answer; crashes and timeouts are results, too, and a process without an answer writes its stacks into `FILE.log`. A sample is skipped
where eager PyTorch refuses it, or gives two results for two calls; one of fp16 or bf16 also where eager PyTorch gives the wrong result, too, for the graphs of PyTorch's compiler without the roundings that this leaves out.

With `--reference` samples that fail run with another compiler as well: the Triton that is installed (a GPU), or none, which is PyTorch's C++ on the CPU.
The exit status is 1 if samples fail here and not there, or if that is not known, 2 for a run that could not start.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import threading
import time

import samples
from run_process import Process

#: Outcome of a sample → what it means. "passed" and "skipped" are no failures; "refused" may be nobody's fault, which the reference tells.
OUTCOMES = {
    "passed": "the result is that of eager PyTorch",
    "wrong": "another result",
    "error": "the compiler of kernels refused a kernel, or a launch failed",
    "refused": "PyTorch's compiler gave up before it called the compiler of kernels",
    "crash": "the process ended",
    "timeout": "the process gave no answer in time",
    "skipped": "eager PyTorch refuses the sample, its result is random or undefined, or depends on roundings between operators",
}
FAILURES = {"wrong", "error", "refused", "crash", "timeout"}
#: Options that all runs with one file have in common.
COMMON = ("device", "triton", "reference", "seed", "gradients", "also")


def start(options, triton):
    """A process that runs samples with the compiler `triton`."""
    environment = {name: value for name, value in os.environ.items() if name != "NEREID_AS_TRITON"}
    environment["TORCHINDUCTOR_CACHE_DIR"] = f"{options.folder}/{triton}"
    if options.jobs > 1:
        environment["OMP_NUM_THREADS"] = "1"
    given = ["--device", options.device, "--triton", triton, *["--gradients"] * options.gradients]
    if options.seed is not None:
        given += ["--seed", str(options.seed)]
    if options.also and triton == "nereid":
        given += ["--also", options.also]
    return Process([sys.executable, samples.__file__, *given], environment, f"{options.results}.log")


class Unavailable(Exception):
    """A compiler cannot be used here."""


class Late(Exception):
    """The time is over."""


class Worker:
    """Children, one for each compiler that is asked for."""

    def __init__(self, options, stop):
        self.options, self.stop, self.children = options, stop, {}
        self.known = None  # {operator: [dtype, ...]} of the last child that started

    def child(self, triton):
        if triton not in self.children:
            child = start(self.options, triton)
            answer = child.answer(min(600, max(self.stop - time.monotonic(), 0)))
            self.known = answer.get("operators") if isinstance(answer, dict) else None
            if isinstance(answer, str) and time.monotonic() >= self.stop:
                raise Late
            if not isinstance(answer, dict) or "unavailable" in answer:
                child.end()
                raise Unavailable(answer["unavailable"] if isinstance(answer, dict) else f"{answer}: see {self.options.results}.log")
            self.children[triton] = child
        return self.children[triton]

    def drop(self, triton):
        if (child := self.children.pop(triton, None)) is not None:
            child.end()

    def end(self):
        for triton in list(self.children):
            self.drop(triton)

    def run(self, triton, name, dtype, round_):
        """What came of the sample of this round, {"none": count} where there is none; raises Late or Unavailable."""
        child = self.child(triton)
        child.ask(f"{name} {dtype} {round_}")
        started = None
        while True:
            left = self.stop - time.monotonic()
            answer = child.answer(max(min(self.options.timeout, left), 0))
            if not isinstance(answer, dict):
                self.drop(triton)
                if time.monotonic() >= self.stop:
                    raise Late
                return {"sample": started, "outcome": "timeout" if answer.startswith("no answer") else "crash", "reason": answer}
            if "start" in answer:
                started = answer["start"]
                continue
            if samples.CUDA_FAULT.search(answer.get("detail", "") + answer.get("reason", "")):
                self.drop(triton)
            return answer


def tasks_of(known, options):
    """(operator, dtype, round) in the order in which they run. known: {operator: [dtype, ...]}"""
    names = [name for name in known if re.search(options.operators, name)]
    index, count = map(int, options.shard.split("/"))
    names = names[index - 1::count]
    if options.seed is not None:
        random.Random(options.seed).shuffle(names)
    dtypes = {name: [dtype for dtype in options.dtypes.split(",") if dtype in known[name]] for name in names}
    most = max((len(wanted) for wanted in dtypes.values()), default=0)
    return [(name, dtypes[name][position], round_) for round_ in range(options.samples) for position in range(most) for name in names
            if position < len(dtypes[name])]  # yapf: disable


def read(options):
    """The records of earlier runs. The first line of the file has their options; other options are an error."""
    path = pathlib.Path(options.results)
    common = {name: getattr(options, name) for name in COMMON}
    if not path.exists() or not path.stat().st_size:
        path.write_text(json.dumps({"options": common}) + "\n")
        return []
    lines = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]  # a killed run may have left half a line
    path.write_text("".join(lines))
    records = [json.loads(line) for line in lines]
    before = records[0].get("options")
    if before != common:
        print(f"{path} has the results of a run with {before}, not with {common}: take another file", file=sys.stderr)
        sys.exit(2)
    return records[1:]


def key_of(record):
    return record["operator"], record["dtype"], record["round"]


class Run:
    """The state that the workers share."""

    def __init__(self, options, records, tasks, began):
        self.options, self.lock, self.began = options, threading.Lock(), began
        self.stop = began + options.minutes * 60
        self.file = open(options.results, "a")
        self.unavailable, self.no_reference = "", ""  # why the compiler, the reference cannot be used
        self.counts = {key_of(record)[:2]: record["of"] for record in records if "of" in record}
        ours = {key_of(record): record for record in records if "reference" not in record}
        theirs = {key_of(record) for record in records if "reference" in record}
        again = [key for key, record in ours.items() if record["outcome"] in FAILURES and key not in theirs] if options.reference else []
        self.queue = collections.deque([(key, True) for key in again] + [(key, False) for key in tasks if key not in ours])
        self.total, self.finished = len(self.queue), 0

    def work(self, worker):
        try:
            while (task := self._next()) is not None:
                self._one(worker, *task)
        except Late:
            pass
        except Unavailable as error:
            with self.lock:
                self.unavailable = str(error)
        finally:
            worker.end()

    def _next(self):
        with self.lock:
            while self.queue and time.monotonic() < self.stop and not self.unavailable:
                (name, dtype, round_), again = self.queue.popleft()
                self.finished += 1
                if again or round_ < self.counts.get((name, dtype), round_ + 1):
                    return (name, dtype, round_), again
            return None

    def _one(self, worker, key, again):
        name, dtype, round_ = key
        identity = {"operator": name, "dtype": dtype, "round": round_}
        failed = again
        if not again:
            answer = worker.run(self.options.triton, *key)
            if "none" in answer:
                with self.lock:
                    self.counts[name, dtype] = answer["none"]
                return
            failed = answer["outcome"] in FAILURES
            self._write({**identity, **answer})
            self._say(f"{name} {dtype} sample {answer['sample']}: {answer['outcome']}, {answer['reason']}" if failed else "")
        if failed and self.options.reference and not self.no_reference:
            try:
                answer = worker.run(self.options.reference, *key)
            except Unavailable as error:
                self.no_reference = str(error)
                return
            self._write({**identity, "reference": self.options.reference, **answer})
            self._say(f"{name} {dtype} sample {answer.get('sample')} with {self.options.reference}: {answer.get('outcome')}")

    def _write(self, record):
        with self.lock:
            print(json.dumps(record), file=self.file, flush=True)
            if "of" in record:
                self.counts[record["operator"], record["dtype"]] = record["of"]

    def _say(self, text):
        with self.lock:
            if text or self.finished % 50 == 0:
                print(f"{self.finished}/{self.total}, {time.monotonic() - self.began:.0f} s  {text}", flush=True)


def run(options):
    records, began = read(options), time.monotonic()
    workers = [Worker(options, began + options.minutes * 60) for _ in range(options.jobs)]
    try:
        workers[0].child(options.triton)
    except (Late, Unavailable) as error:
        print(str(error) or f"nothing ran in {options.minutes} minutes", file=sys.stderr)
        return 2
    shared = Run(options, records, tasks_of(workers[0].known, options), began)
    threads = [threading.Thread(target=shared.work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shared.file.close()
    if shared.unavailable:
        print(shared.unavailable, file=sys.stderr)
        return 2
    if shared.queue:
        print(f"stopped after {options.minutes} minutes: {len(shared.queue)} of {shared.total} are left; the same command goes on")
    if shared.no_reference:
        print(f"nothing was compared with {options.reference}: {shared.no_reference}")
    return report(options)


def report(options):
    """Writes the table by operator beside the results, prints the reasons of failures and what the reference says. The exit status."""
    records = read(options)
    rows = collections.defaultdict(collections.Counter)
    reasons = collections.defaultdict(collections.Counter)
    for record in records:
        if "reference" not in record:
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
    pathlib.Path(options.results).with_suffix(".md").write_text("\n".join(lines) + "\n")
    print(f"{len({key[0] for key in rows})} operators, {len(rows)} with dtypes, {sum(total[name] for name in OUTCOMES)} samples: "
          f"{', '.join(f'{total[name]} {name}' for name in OUTCOMES)}; {total['kernels']} kernels")
    kinds = collections.defaultdict(set)
    for key, counter in reasons.items():
        for reason in counter:
            if reason.partition(":")[0] in FAILURES:
                kinds[reason].add(f"{key[0]} ({key[1]})")
    for reason, names in sorted(kinds.items(), key=lambda item: -len(item[1])):
        print(f"  {reason}: {', '.join(sorted(names)[:6])}{f' and {len(names) - 6} more' if len(names) > 6 else ''}")
    return _verdict(options, records)


def _verdict(options, records):
    failed = [record for record in records if "reference" not in record and record["outcome"] in FAILURES]
    there = {key_of(record): record.get("outcome") for record in records if "reference" in record}
    if not failed:
        print("no sample fails")
        return 0
    if not options.reference:
        print(f"{len(failed)} samples fail; they were not compared with another compiler (--reference)")
        return 1
    only = [record for record in failed if there.get(key_of(record)) in ("passed", "skipped")]
    unknown = [record for record in failed if key_of(record) not in there]
    for record in only:
        print(f"  only here: {record['operator']} {record['dtype']} sample {record['sample']}: {record['outcome']}, {record['reason']}")
    print(f"{len(failed)} samples fail: {len(failed) - len(only) - len(unknown)} with {options.reference}, too, {len(only)} only here, {len(unknown)} not compared")
    return bool(only or unknown)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", default="opinfo.jsonl", help="file of the results (default: opinfo.jsonl)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--triton", choices=["nereid", "triton", "none"], default="nereid",
                        help="whose kernels; none: PyTorch's own C++ on the CPU (default: nereid)")
    parser.add_argument("--reference", choices=["triton", "none"], help="whose kernels samples that fail run with as well")
    parser.add_argument("--dtypes", default="float32,int64", help="dtypes, separated by commas (default: float32,int64)")
    parser.add_argument("--samples", type=int, default=4, help="at most so many samples of an operator and dtype (default: 4)")
    parser.add_argument("--operators", default="", help="a regular expression of operators to run")
    parser.add_argument("--gradients", action="store_true", help="compare gradients as well")
    parser.add_argument("--also", metavar="TARGET", help='compile each kernel for this GPU as well ("cuda:90"), without running it')
    parser.add_argument("--seed", type=int, help="operators and samples in random order")
    parser.add_argument("--shard", default="1/1", metavar="I/N")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (default: 1)")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for a sample (default: 120)")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so many minutes; samples at work then are left for the next run")
    options = parser.parse_args()
    needed = "cpu" if "none" in (options.triton, options.reference) else "cuda" if "triton" in (options.triton, options.reference) else options.device
    if needed != options.device:
        parser.error(f"{'none is' if needed == 'cpu' else 'Triton is'} for --device {needed}")
    if options.also and options.triton != "nereid":
        parser.error("--also is for --triton nereid")
    pathlib.Path(options.results).absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as options.folder:
        return int(run(options))


if __name__ == "__main__":
    sys.exit(main())
