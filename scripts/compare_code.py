"""Compares the machine code of all test kernels before and after a change that should not affect it.

    pytest tests/language tests/kernels --ptx build/code/before            # PTX; with --ptx-target cpu object files
    ... change, build ...
    pytest tests/language tests/kernels --ptx build/code/after
    python scripts/compare_code.py build/code/before build/code/after

Prints every launch whose code no test of the other run has, at most one line a test, and the tests that only one run has. Exits with 1 when
there are any, with 2 when a folder holds no record. A tuner chooses by time how often it launches which configuration, and memory may be
aligned to 16 bytes by chance: of the tests named then, run the two versions a few times more into the same two folders.
"""

import argparse
import json
import pathlib
import sys


def codes(folder):
    """{test: {code: its first launch}} of the records in `folder` (tests/compile_only.py); a code is a digest."""
    found = {}
    for record in sorted(pathlib.Path(folder).glob("codes-*.jsonl")):
        for line in record.read_text().splitlines():
            entry = json.loads(line)
            found.setdefault(entry["test"], {}).setdefault(entry["code"], entry["launch"])
    if not found:
        print(f"{folder}: no codes-*.jsonl: run pytest --ptx {folder} first", file=sys.stderr)
        sys.exit(2)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", help="folder of pytest --ptx before the change")
    parser.add_argument("after", help="folder of pytest --ptx after the change")
    args = parser.parse_args()
    before, after = codes(args.before), codes(args.after)
    kernels = [set().union(*(set(test) for test in side.values())) for side in (before, after)]
    problems = 0
    for title, side, other, known in ("before", before, after, kernels[1]), ("after", after, before, kernels[0]):
        for test, launches in sorted(side.items()):
            if test not in other:
                problems += 1
                print(f"only {title}: {test}")
                continue
            for code in sorted(launches.keys() - known, key=launches.get):
                problems += 1
                print(f"code only {title}: {test}, launch {launches[code]}: {code}")
    print(f"{len(kernels[0])} kernels of {len(before)} tests before, {len(kernels[1])} of {len(after)} after: {problems} differences")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
