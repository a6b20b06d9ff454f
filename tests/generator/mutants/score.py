"""`python -m tests.generator.mutants.score`: how many of the seeded bugs the random programs find.

The package on PYTHONPATH was built from sources to which `apply.py` had been applied. The programs of fixed seeds are made once, with
what NumPy says of them; then each bug is turned on in processes of its own, which run the programs until one of them fails, or the
time is over. A program that fails without any bug is left out.
"""

import argparse
import concurrent.futures
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import time

from .table import MUTANTS


def _make(arguments):
    first, count = arguments
    from ..generate import program_of_seed
    from ..tree import run
    made = []
    for seed in range(first, first + count):
        try:
            program = program_of_seed(seed)
            made.append((seed, program, run(program)))
        except Exception:
            continue
    return made


def _one(options):
    """Runs the programs in this process; prints after each what the parent needs to know."""
    from ..run import check
    with open(options.programs, "rb") as file:
        programs = pickle.load(file)
    end = time.monotonic() + options.seconds
    for index, (seed, program, want) in enumerate(programs):
        if index < options.skip or seed in options.without:
            continue
        if options.limit and index >= options.limit:
            break
        if time.monotonic() > end:
            break
        print(f"start {index} {seed}", flush=True)
        failure = check(program, (options.target, ), variants=False, want=want)
        if failure:
            print(f"found {index} {seed} {failure.kind}: {' '.join(failure.text.split())[:110]}", flush=True)
            if not options.all:
                break
    print("end", flush=True)


def _run(number, options, everything=False, without=(), skip=0):
    """(found, text) for one bug; with `everything` the seeds that fail."""
    command = [sys.executable, "-m", "tests.generator.mutants.score", "--one", "--programs", options.programs, "--target", options.target,
               "--seconds", str(options.seconds * (6 if everything else 1)), "--skip", str(skip), "--limit", str(options.limit)]
    command += ["--all"] if everything else []
    for seed in without:
        command += ["--without", str(seed)]
    environment = {**os.environ, "NEREID_MUTANT": str(number), "NEREID_ALWAYS_COMPILE": "1", "NEREID_CPU_THREADS": "1", "NEREID_LINE_INFO": "0"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        out, _ = process.communicate(timeout=options.seconds * (6 if everything else 1) + 45)
        ended = f"crash (code {process.returncode})"
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
        ended = "hang"
    lines = out.splitlines()
    if everything:
        options.limit = max([options.limit] + [int(line.split()[1]) + 1 for line in lines if line.startswith("start")])
    found = [line for line in lines if line.startswith("found")]
    last = next((line for line in reversed(lines) if line.startswith("start")), "start 0 0")
    if lines and lines[-1] == "end":
        return found
    return found + [f"found {last.split()[1]} {last.split()[2]} {ended}"]


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.generator.mutants.score", description=__doc__)
    parser.add_argument("--target", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=600, help="how many programs")
    parser.add_argument("--seconds", type=float, default=30.0, help="for each bug")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="numbers of bugs, separated by commas")
    parser.add_argument("--programs", default="", help="a file of programs made before")
    parser.add_argument("--make", default="", help="only make the programs, into this file")
    for hidden in ("--one", "--all"):
        parser.add_argument(hidden, action="store_true", help=argparse.SUPPRESS)
    for hidden in ("--skip", "--limit"):
        parser.add_argument(hidden, type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--without", type=int, action="append", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return _one(options)
    if not options.programs:
        options.programs = options.make or str(pathlib.Path(tempfile.mkdtemp(prefix="nereid-mutants-")) / "programs.pickle")
        with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
            parts = pool.map(_make, [(first, 10) for first in range(options.first, options.first + options.count, 10)])
            programs = [program for part in parts for program in part]
        with open(options.programs, "wb") as file:
            pickle.dump(programs, file)
        print(f"{len(programs)} programs", flush=True)
        if options.make:
            return 0
    only = {int(n) for n in options.only.split(",") if n}
    mutants = [m for m in MUTANTS if (not only or m.number in only) and m.where in ("both", options.target)]
    without, skip = [], 0
    while True:  # a program that ends the process with no bug at all is left out like one that fails
        options.limit = 0
        failing = _run(0, options, True, without, skip)
        without += [int(line.split()[2]) for line in failing]
        if not failing or "crash" not in failing[-1] and "hang" not in failing[-1]:
            break
        skip = int(failing[-1].split()[1]) + 1
    print(f"{options.limit} programs; {len(without)} fail without a bug: {without}", flush=True)
    found, missed = 0, []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for mutant, lines in zip(mutants, pool.map(lambda m: _run(m.number, options, False, without), mutants)):
            found += bool(lines)
            missed += [] if lines else [mutant.number]
            what = " ".join(lines[-1].split()[1:]) if lines else "NOT FOUND"
            print(f"{mutant.number:4} {mutant.where:4} {mutant.why} [{pathlib.Path(mutant.file).name}]: {what}", flush=True)
    print(f"{found} of {len(mutants)} bugs found on {options.target} ({100 * found / max(len(mutants), 1):.1f} %); not found: {missed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
