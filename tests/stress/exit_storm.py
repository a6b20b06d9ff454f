"""Processes that launch tuned kernels from disk and end, many at a time: none may hang at its end, fail, or lose what it compiled.

    python tests/stress/exit_storm.py [--seconds 60] [--processes 8] [--torch] [--patience 30]

Half of them are held on one processor. Each tunes, or finds a result, compiles a kernel of its own, and ends in one of several ways, with
threads of Python that go on. Of one that has not ended after `--patience` seconds the stacks of all threads are printed (by gdb, where there
is one). Prints one line; exit status 1 when anything was wrong.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM = """
import faulthandler, os, sys, threading
faulthandler.enable()
{first}
import numpy as np
import nereid, nereid.language as tl
nereid.runtime.driver.set_active_to_cpu()

@nereid.autotune([nereid.Config({{"B": size}}) for size in (16, 32, 64, 128)], key=["n"])
@nereid.jit
def tuned(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

@nereid.jit
def own(y, VALUE: tl.constexpr):
    tl.store(y + tl.arange(0, 16), VALUE)

x, y = np.ones(4096, np.float32), np.zeros(4096, np.float32)
tuned[lambda meta: (nereid.cdiv(4096, meta["B"]), )](x, y, 4096)
assert (y == 2).all()
own[(1, )](y, VALUE=int(sys.argv[1]))
assert y[3] == int(sys.argv[1])

def go_on():
    while True:
        tuned[(32, )](x, y, 4096)

way = int(sys.argv[1]) % 4
if way == 1:
    threading.Thread(target=go_on, daemon=True).start()
if way == 2:
    sys.exit(0)
if way == 3:
    keep = [tuned, own]
    keep.append(keep)  # freed by the last collection
print("done", flush=True)
"""


def stacks(process):
    if shutil.which("gdb") is None:
        return ""
    done = subprocess.run(["gdb", "-p", str(process.pid), "-batch", "-ex", "thread apply all bt 40"], capture_output=True, text=True)
    return done.stdout


def storm(seconds, processes, patience, torch=False):
    """(processes run, problems)."""
    problems, numbers, lock = [], iter(range(10**9)), threading.Lock()
    end = time.monotonic() + seconds
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program.py"
        program.write_text(PROGRAM.format(first="import torch" if torch else ""))
        environment = {**os.environ, "NEREID_CACHE": "1", "NEREID_TUNING_CACHE": "1", "NEREID_CACHE_DIR": folder}

        def loop(index):
            while time.monotonic() < end and not problems:
                with lock:
                    number = next(numbers)
                process = subprocess.Popen([sys.executable, program, str(number)], env=environment, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.PIPE, text=True)
                if index % 2:
                    os.sched_setaffinity(process.pid, {cores[index % len(cores)]})
                try:
                    _, errors = process.communicate(timeout=patience)
                    if process.returncode or errors:
                        problems.append(f"process {number} ended with {process.returncode}:\n{errors}")
                except subprocess.TimeoutExpired:
                    problems.append(f"process {number} hangs\n{stacks(process)}")
                    process.kill()
                    process.communicate()

        threads = [threading.Thread(target=loop, args=(index, )) for index in range(processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return next(numbers), problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--patience", type=float, default=30)
    parser.add_argument("--torch", action="store_true", help="with torch in each process")
    options = parser.parse_args()
    count, problems = storm(options.seconds, options.processes, options.patience, options.torch)
    print(f"{count} processes, {len(problems)} problems")
    print("\n".join(problems))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
