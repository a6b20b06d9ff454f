"""`python -m tests.generator.mutants.score`: how many of the seeded bugs the random programs find.

The package on PYTHONPATH was built from sources to which `apply.py` had been applied. The programs of fixed seeds are made once, with
what NumPy says of them, and run once without any bug: one that fails is left out, and which bugs' places each of them reaches is noted.
Then each bug is turned on in processes of its own, which run the programs that reach its place, the quickest first, until one of them
fails. Bugs that are not found get what is left of the time, the one that had the least of it first. A program that does not reach
the place of a bug cannot show it, so leaving it out changes nothing but the time.
"""

import argparse
import concurrent.futures
import dataclasses
import mmap
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import time

from .table import MUTANTS


def _make(arguments):
    first, count, modes, kind = arguments
    from ..generate import overflows_in, program_of_seed
    from ..tree import run
    made = []
    for seed in range(first, first + count):
        try:
            program = program_of_seed(seed, overflows=overflows_in(seed, modes), kind=kind)
            made.append((seed, program, run(program)))
        except Exception:
            continue
    return made


def _write(path, programs):
    """The programs one after the other, and where each begins."""
    places = []
    with open(path, "wb") as file:
        for program in programs:
            places.append(file.tell())
            pickle.dump(program, file)
    path.with_suffix(".places").write_bytes(pickle.dumps(places))
    return len(places)


def _child(options):
    """Runs some of the programs in this process; prints after each what the parent needs to know."""
    from ..run import check
    places = pickle.loads(options.programs.with_suffix(".places").read_bytes())
    programs = open(options.programs, "rb")
    reached = None
    if options.reached:
        with open(options.reached, "r+b") as file:
            reached = mmap.mmap(file.fileno(), 4096)
    for index in map(int, sys.stdin.read().split()):
        programs.seek(places[index])
        seed, program, want = pickle.load(programs)
        print(f"start {index} {seed}", flush=True)
        if reached is not None:
            reached[:] = bytes(4096)
        before = time.monotonic()
        targets = (options.target, ) if options.target != "compile" else ()
        failure = check(program, targets, ("cuda:90", ) if not targets else (), variants=False, want=want,
                        modes=tuple(filter(None, options.compile_mode.split(","))))
        if failure:
            print(f"found {index} {seed} {failure.kind}: {' '.join(failure.text.split())[:110]}", flush=True)
            if reached is None:
                break
        elif reached is not None:
            here = ",".join(str(n) for n, byte in enumerate(reached[:]) if byte)
            print(f"passed {index} {time.monotonic() - before:.3f} {here}", flush=True)
    print("end", flush=True)


def _run(number, options, indices, limit, reached=""):
    """The lines of a child that runs these programs with one bug. What ends the child or hangs is a line of its own."""
    command = [sys.executable, "-m", "tests.generator.mutants.score", "--child", "--programs", str(options.programs), "--target", options.target,
               "--compile-mode", options.compile_mode]
    command += ["--reached", reached] if reached else []
    environment = {**os.environ, "NEREID_MUTANT": str(number), "NEREID_ALWAYS_COMPILE": "1", "NEREID_CPU_THREADS": "1", "NEREID_LINE_INFO": "0"}
    environment.update({"NEREID_MUTANT_REACHED": reached} if reached else {})
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        out, _ = process.communicate(" ".join(map(str, indices)), timeout=limit)
        ended = f"crash (code {process.returncode})"
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
        ended = "hang"
    lines = out.splitlines()
    if not lines or lines[-1] != "end":
        last = next((line for line in reversed(lines) if line.startswith("start")), None)
        if last is not None:
            lines.append(f"found {last.split()[1]} {last.split()[2]} {ended}")
    return lines


def _reference(options, indices):
    """The programs without a bug: index -> (seconds, places), and the seeds that fail."""
    passed, failing = {}, []
    with tempfile.NamedTemporaryFile(prefix="nereid-reached-") as file:
        file.write(bytes(4096))
        file.flush()
        rest = list(indices)
        while rest:
            lines = _run(0, options, rest, 60 + 5 * len(rest), file.name)
            seen = {int(line.split()[1]) for line in lines if line.startswith("start")}
            for line in lines:
                words = line.split()
                if words[0] == "passed":
                    passed[int(words[1])] = (float(words[2]), {int(n) for n in words[3].split(",")} if len(words) > 3 else set())
                elif words[0] == "found":
                    failing.append((int(words[2]), " ".join(words[3:])))
            if not seen:
                break
            rest = [i for i in rest if i not in seen]
    return passed, failing


@dataclasses.dataclass
class Bug:
    """The state of the search for one bug."""
    mutant: object
    programs: list          #: indices of what may show it, in order
    next: int = 0
    running: int = 0
    spent: float = 0.0      #: seconds given to it so far, what runs now included
    found: str = ""


class Search:
    """Gives the processes their work: the bug that had the least time first."""

    def __init__(self, bugs, cost, options):
        self.bugs, self.cost, self.options = bugs, cost, options
        self.lock = threading.Condition()

    def take(self):
        """A bug with the programs to run next, or None where nothing is left."""
        while True:
            if time.monotonic() > self.options.end:
                return None
            open_bugs = [b for b in self.bugs if not b.found and b.next < len(b.programs)]
            if open_bugs:
                bug = min(open_bugs, key=lambda b: (b.spent, b.next / len(b.programs)))
                first, seconds = bug.next, 0.0
                while bug.next < len(bug.programs) and seconds < self.options.batch:
                    seconds += self.cost[bug.programs[bug.next]]
                    bug.next += 1
                bug.spent += seconds
                bug.running += 1
                return bug, bug.programs[first:bug.next], seconds
            if not any(b.running for b in self.bugs):
                return None
            self.lock.wait(1.0)

    def work(self):
        while True:
            with self.lock:
                taken = self.take()
            if taken is None:
                return
            bug, indices, seconds = taken
            left = max(self.options.end - time.monotonic(), 1.0)
            lines = _run(bug.mutant.number, self.options, indices, min(4 * seconds + 40, left + 20))
            found = [line for line in lines if line.startswith("found")]
            if found and found[-1].endswith(" hang") and time.monotonic() > self.options.end:
                found = found[:-1]    # the time is over, which proves nothing
            with self.lock:
                bug.running -= 1
                if found and not bug.found:
                    bug.found = " ".join(found[0].split()[1:])
                self.lock.notify_all()


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.generator.mutants.score", description=__doc__)
    parser.add_argument("--target", choices=["cpu", "cuda", "sim", "sim:cuda:90", "compile"], default="cpu")
    parser.add_argument("--compile-mode", default="", metavar="MODES", help="also run every program in these modes: checked,debug")
    parser.add_argument("--kind", choices=["any", "tiles"], default="any", help="of programs: tiles for the copy engine, divided warps and clusters, on sim:cuda:90")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=600, help="how many programs")
    parser.add_argument("--seconds", type=float, default=600.0, help="for everything but making the programs")
    parser.add_argument("--batch", type=float, default=12.0, help="seconds of programs for a process")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="numbers of bugs, separated by commas")
    parser.add_argument("--programs", type=pathlib.Path, default=None, help="a file of programs made before")
    parser.add_argument("--make", type=pathlib.Path, default=None, help="only make the programs, into this file")
    parser.add_argument("--places", action="store_true", help="only say how many programs reach the place of each bug")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--reached", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return _child(options)
    if options.make or not options.programs:
        options.programs = options.make or pathlib.Path(tempfile.mkdtemp(prefix="nereid-mutants-")) / "programs.pickle"
        with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
            parts = pool.map(_make, [(first, 10, options.compile_mode.split(","), options.kind) for first in range(options.first, options.first + options.count, 10)])
            print(f"{_write(options.programs, (program for part in parts for program in part))} programs", flush=True)
        if options.make:
            return 0
    start = time.monotonic()
    options.end = start + options.seconds
    count = len(pickle.loads(options.programs.with_suffix(".places").read_bytes()))
    only = {int(n) for n in options.only.split(",") if n}
    where = ("both", {"cpu": "cpu"}.get(options.target, "cuda"), *(("modes", ) if options.compile_mode else ()))
    mutants = [m for m in MUTANTS if (not only or m.number in only) and m.where in where]
    passed, failing = {}, []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for good, bad in pool.map(lambda part: _reference(options, range(part, count, options.jobs)), range(options.jobs)):
            passed.update(good)
            failing += bad
    print(f"{count} programs in {time.monotonic() - start:.0f} s; {len(failing)} fail without a bug: {[seed for seed, _ in failing]}", flush=True)
    for seed, failure in sorted(failing)[:12]:
        print(f"  seed {seed}: {failure}")
    cost = {index: seconds for index, (seconds, _) in passed.items()}
    bugs = []
    for m in mutants:   # text of the prelude is read once for a process, so every program may show it
        those = [i for i in passed if m.kind == "text" or m.number in passed[i][1]]
        bugs.append(Bug(m, sorted(those, key=lambda i: (cost[i], i))))
    if not options.places:
        search = Search(bugs, cost, options)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for done in [pool.submit(search.work) for _ in range(options.jobs)]:
                done.result()
    for bug in bugs:
        m = bug.mutant
        print(f"{m.number:4} {m.where:4} {m.why} [{pathlib.Path(m.file).name}], {len(bug.programs)} programs reach it, {bug.spent:.0f} s: "
              f"{bug.found or 'NOT FOUND'}", flush=True)
    missed = [b.mutant.number for b in bugs if not b.found]
    print(f"{len(bugs) - len(missed)} of {len(bugs)} bugs found on {options.target} ({100 - 100 * len(missed) / max(len(bugs), 1):.1f} %), "
          f"{time.monotonic() - start:.0f} s; not found: {missed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
