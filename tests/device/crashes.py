"""Runs random programs again and again in processes of their own, to catch a crash that seldom comes:

    python tests/device/crashes.py 700001394 seed_700001983.pickle --times 50 --before 40

Each seed, or program that was kept (a pickle: seeds mean other programs once the generator has changed), runs alone `--times` times, then once behind the `--before` seeds in front of it, as a long run would have it (`--every` of
them: a process of a run with 16 takes every 16th). Faults print what Python was doing; where `cuda-gdb` or `gdb` is found, one more run
under it prints the stacks of all threads in C. `--target sim` needs no GPU.
"""

import argparse
import collections
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

CODE = """
import pickle, sys
from tests.generator.generate import program_of_seed
from tests.generator.run import check
for word in sys.argv[2:]:
    print("program", word, flush=True)
    program = program_of_seed(int(word)) if word.isdigit() else pickle.load(open(word, "rb"))
    failure = check(program, (sys.argv[1], ))
    print(failure or "ok", flush=True)
"""


def run(seeds, target, debugger=()):
    """How a process ends that runs these seeds: "ok", what failed, or the signal; and what it wrote."""
    environment = {**os.environ, "NEREID_ALWAYS_COMPILE": "1", "NEREID_LINE_INFO": "0", "NEREID_CPU_THREADS": "1"}
    command = [*debugger, sys.executable, "-X", "faulthandler", "-c", CODE, target, *map(str, seeds)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode < 0 and not debugger:
        return f"signal {-done.returncode}", done.stdout + done.stderr
    wrong = [line for line in done.stdout.splitlines() if line.startswith("Failure")]
    return (wrong[0][:200] if wrong else "ok" if done.returncode == 0 else f"code {done.returncode}"), done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--before", type=int, default=40)
    parser.add_argument("--every", type=int, default=16)
    parser.add_argument("--target", default="cuda")
    options = parser.parse_args()
    bad = False
    for word in options.programs:
        first = int("".join(filter(str.isdigit, pathlib.Path(word).stem)) or 0)
        seed = word if word.isdigit() else str(pathlib.Path(word).resolve())
        ends, shown = collections.Counter(), False
        chain = [first - options.every * i for i in range(options.before, 0, -1) if first >= options.every * i] + [seed]
        for seeds in [[seed]] * options.times + [chain]:
            end, text = run(seeds, options.target)
            ends[end] += 1
            if end != "ok" and not shown:
                shown = True
                print(f"seed {seed}, {len(seeds)} programs in the process: {end}\n{text[-4000:]}", flush=True)
        print(f"seed {seed}: {dict(ends)}", flush=True)
        bad |= set(ends) != {"ok"}
        debugger = shutil.which("cuda-gdb") or shutil.which("gdb")
        if any(end.startswith("signal") for end in ends) and debugger:
            words = ["-ex", "set confirm off", "-ex", "run", "-ex", "info registers rip rsp", "-ex", "x/8i $rip", "-ex", "thread apply all backtrace 40"]
            print(run([seed], options.target, (debugger, "-q", "-batch", *words, "--args"))[1][-20000:], flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
