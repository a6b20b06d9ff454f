"""PyTorch's own tests of its compiler with `cpu_backend="triton"`, run with Nereid as the Triton.

    python tests/torch_inductor/run.py CHECKOUT --results FILE

PyTorch does not ship its tests: CHECKOUT is a folder with its sources (`test/inductor/test_triton_cpu_backend.py` and `test_torchinductor.py` are read), best of the installed release. Where a file imports a name that the
installed release does not have, tests that use it are skipped. Not part of CI (a test takes a second of PyTorch's own work, 779 take a quarter of an hour on an idle core). The tests are in random order, so that a part
of them, `--minutes` or `--shard`, says something about all; a run that is started again with the same file goes on. Tests that fail run with PyTorch's C++ as well, in their class for it. The exit status is 1 if tests fail here and not there.
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

for folder in ("torch_opinfo", "torch_inductor"):
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / folder))

import suite_cases as cases  # noqa: E402
from run_process import Process  # noqa: E402

OUTCOMES = {
    "passed": "the test passed",
    "failed": "an assertion or an exception",
    "crash": "the process ended",
    "timeout": "no answer in time",
    "unexpected": "PyTorch marks the test as one that fails with Triton on CPUs, and it passed",
    "expected": "PyTorch marks the test as one that fails with Triton on CPUs, and it failed",
    "skipped": "PyTorch skips the test here, or its release lacks what the test calls",
}
FAILURES = {"failed", "crash", "timeout"}


class Run:
    """The state that the workers share."""

    def __init__(self, options):
        self.options, self.lock, self.stop = options, threading.Lock(), time.monotonic() + options.minutes * 60
        self.queue, self.file, self.failure = collections.deque(), open(options.results, "a"), ""

    def fill(self, tests, records):
        ours = {record["test"]: record for record in records if record["compiler"] == "nereid" and not (self.options.marked and left_out(record))}
        theirs = {record["test"] for record in records if record["compiler"] == "cpp"}
        again = [test for test in tests if test in ours and ours[test]["outcome"] in FAILURES and test not in theirs]
        self.queue = collections.deque([(test, True) for test in again] + [(test, False) for test in tests if test not in ours])

    def start(self, compiler):
        """(process, names of the tests); raises RuntimeError."""
        environment = {name: value for name, value in os.environ.items() if name != "NEREID_AS_TRITON"}
        environment.update(TORCHINDUCTOR_CACHE_DIR=f"{self.options.folder}/{compiler}", PYTORCH_TESTING_DEVICE_ONLY_FOR="cpu")
        command = [sys.executable, cases.__file__, str(self.options.checkout), "--compiler", compiler] + ["--marked"] * self.options.marked
        process = Process(command, environment, f"{self.options.results}.log")
        answer = process.answer(600)
        if not isinstance(answer, dict) or "unavailable" in answer:
            process.end()
            raise RuntimeError(answer if isinstance(answer, str) else answer["unavailable"])
        return process, answer["tests"]

    def work(self, processes):
        """processes: {compiler: process}"""
        try:
            while self.queue and time.monotonic() < self.stop and not self.failure:
                with self.lock:
                    test, again = self.queue.popleft()
                if again or self.one(processes, "nereid", test):
                    self.one(processes, "cpp", test)
        except (IndexError, RuntimeError) as error:  # the queue may have become empty
            self.failure = str(error) if isinstance(error, RuntimeError) else self.failure
        finally:
            for process in processes.values():
                process.end()

    def one(self, processes, compiler, test):
        """Whether the test fails."""
        if compiler not in processes:
            processes[compiler], _ = self.start(compiler)
        began = time.monotonic()
        processes[compiler].ask(test)
        answer = processes[compiler].answer(self.options.timeout)
        if not isinstance(answer, dict):
            processes.pop(compiler).end()
            answer = {"outcome": "timeout" if answer.startswith("no answer") else "crash", "reason": answer}
        with self.lock:
            print(json.dumps({"test": test, "compiler": compiler, "seconds": round(time.monotonic() - began, 1), **answer}), file=self.file, flush=True)
            if answer["outcome"] in FAILURES:
                print(f"{test} ({compiler}): {answer['outcome']}, {answer['reason']}", flush=True)
        return answer["outcome"] in FAILURES


def left_out(record):
    """Whether a test did not run because the suite skips it with Triton on CPUs."""
    return record["outcome"] == "skipped" and cases.MARK in record["reason"] and "marked" not in record


def shard(text):
    """(K, N) of "K/N"."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not K/N with 1 <= K <= N")
    return int(match[1]), int(match[2])


def part(tests, seed, number, parts):
    """The tests of a shard in the order in which they run."""
    random.Random(seed).shuffle(tests)
    return tests[number - 1::parts]


def read(path):
    path = pathlib.Path(path)
    if not path.exists():
        return []
    lines = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]  # a killed run may have left half a line
    path.write_text("".join(lines))
    return [json.loads(line) for line in lines]


def report(options):
    records = read(options.results)
    ours = list({record["test"]: record for record in records if record["compiler"] == "nereid"}.values())  # the last record of each
    theirs = {record["test"]: record["outcome"] for record in records if record["compiler"] == "cpp"}
    for what, some in (("tests", [record for record in ours if "marked" not in record]), ("tests that PyTorch skips with Triton on CPUs", [record for record in ours if "marked" in record])):
        counts = collections.Counter(record["outcome"] for record in some)
        if some:
            print(f"{len(some)} {what}: {', '.join(f'{counts[name]} {name}' for name in OUTCOMES)}")
    failed = [record for record in ours if record["outcome"] in FAILURES]
    only = [record for record in failed if theirs.get(record["test"]) not in FAILURES]
    for record in only:
        print(f"  {record['test']}: {record['reason']} ({theirs.get(record['test'], 'not run')} with C++)")
    print(f"{len(failed)} tests fail, {len(only)} of them only here")
    return int(bool(only))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=pathlib.Path, metavar="CHECKOUT", help="folder with PyTorch's sources")
    parser.add_argument("--results", default="torch_inductor.jsonl", help="file of the results (default: torch_inductor.jsonl)")
    parser.add_argument("--tests", default="", help="a regular expression of tests to run")
    parser.add_argument("--marked", action="store_true", help="also run tests that PyTorch skips with Triton on CPUs, because its own Triton crashes or lacks a function")
    parser.add_argument("--shard", type=shard, default=(1, 1), metavar="K/N", help="the K-th of N parts of the tests, each with a file of its own; the results are the lines of all files together")
    parser.add_argument("--seed", type=int, default=0, help="of the order (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (default: 1)")
    parser.add_argument("--timeout", type=int, default=300, help="seconds for a test (default: 300)")
    parser.add_argument("--minutes", type=float, default=1e6, help="start no test after so many minutes")
    options = parser.parse_args()
    wanted = options.checkout / "test" / "inductor" / "test_triton_cpu_backend.py"
    if not wanted.exists():
        parser.error(f"{wanted} does not exist: give a folder with PyTorch's sources")
    with tempfile.TemporaryDirectory() as options.folder:
        records, run = read(options.results), Run(options)
        try:
            process, tests = run.start("nereid")
        except RuntimeError as error:
            print(f"{error}; see {options.results}.log", file=sys.stderr)
            return 2
        run.fill(part([test for test in tests if re.search(options.tests, test)], options.seed, *options.shard), records)
        threads = [threading.Thread(target=run.work, args=({"nereid": process} if i == 0 else {}, )) for i in range(options.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if run.failure:
        print(f"{run.failure}; see {options.results}.log", file=sys.stderr)
        return 2
    if run.queue:
        print(f"stopped after {options.minutes} minutes: {len(run.queue)} tests are left; the same command goes on")
    return report(options)


if __name__ == "__main__":
    sys.exit(main())
