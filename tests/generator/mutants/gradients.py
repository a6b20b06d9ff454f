"""`python -m tests.generator.mutants.gradients [NUMBER...]`: which of the seeded bugs of gradients the tests of gradients find.

The package on PYTHONPATH was built from sources to which `apply.py` had been applied. Each bug is turned on in a process that runs the tests until one fails.
Exits with 1 if a bug is not found.
"""

import os
import pathlib
import re
import subprocess
import sys
import time

from .table import MUTANTS

TESTS = pathlib.Path(__file__).parents[2] / "differentiation"
FILES = ("test_partial_sums.py", "test_grad_loads.py", "test_grad_ownership.py", "test_grad_schedules.py", "test_random_products.py", "test_random_addresses.py", "test_grad_loops.py",
         "test_grad_attention.py", "test_random_attention.py", "test_grad_maxima.py", "test_whole_gradients.py", "test_grad_picked.py", "test_random_picked.py", "test_grad_outputs.py", "test_random_schedules.py", "test_random_extremes.py",
         "test_extreme_inputs.py")
#: What runs first, by the file of a bug.
FIRST = {"Schedules.cpp": (*FILES[3:5], "test_random_schedules.py"), "TransposeLoops.cpp": FILES[6:7], "Combiners.cpp": ("test_grad.py", ), "Outside.cpp": FILES[3:5], "TileSizes.cpp": FILES[3:5], "Coordinates.cpp": FILES[3:5], "Transposed.cpp": FILES[3:5], "PartialSums.cpp": FILES[:1], "MergeLoads.cpp": FILES[1:2], "Ownership.cpp": (*FILES[1:3], "test_whole_gradients.py"),
         "OnlineSums.cpp": (*FILES[7:10], "test_grad_picked.py"), "PickedElements.cpp": FILES[11:14], "Transpose.cpp": FILES[13:14], "Differentiate.cpp": FILES[13:14], "CountRounds.cpp": FILES[6:7], "ScheduledBlocks.cpp": FILES[7:9], "Bounds.cpp": FILES[7:9], "Relative.cpp": FILES[15:], "Rules.cpp": FILES[15:], "FloatBounds.cpp": FILES[15:]}
#: Seconds of a bug. One that makes a test run forever counts as found.
LIMIT = 900


def run(number, files=FILES, *options):
    """What finds a bug: a test, or how the process ended; "" where nothing does."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *options, *(str(TESTS / file) for file in files)]
    environment = {**os.environ, "NEREID_MUTANT": str(number), "NEREID_CACHE": "0"}
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return "hang"
    if done.returncode == 0:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (.*)", done.stdout, re.MULTILINE)
    return failed.group(1)[:150] if failed else f"crash (code {done.returncode})"


def find(mutant):
    """The same, with a few tests of those first that know the bug's file."""
    first = FIRST.get(pathlib.Path(mutant.file).name, FILES)
    return run(mutant.number, first, "--every", "8", "--each-function") or run(mutant.number, dict.fromkeys((*first, *FILES)))


def main():
    only = {int(number) for number in sys.argv[1:]}
    if found := run(0):
        raise SystemExit(f"the tests fail without a bug: {found}")
    missed = []
    bugs = [m for m in MUTANTS if m.where == "gradients" and (not only or m.number in only)]
    for m in bugs:
        start = time.monotonic()
        found = find(m)
        print(f"{m.number:4} {m.why} [{pathlib.Path(m.file).name}], {time.monotonic() - start:.0f} s: {found or 'NOT FOUND'}", flush=True)
        if not found:
            missed.append(m.number)
    print(f"{len(bugs) - len(missed)} of {len(bugs)} bugs found; not found: {missed}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
