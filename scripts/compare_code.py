"""Compares the machine code of all test kernels before and after a change that should not affect it.

    pytest tests/language tests/kernels --ptx build/code/before            # PTX; with --ptx-target cpu object files
    ... change, build ...
    pytest tests/language tests/kernels --ptx build/code/after
    python scripts/compare_code.py build/code/before build/code/after

Prints every launch whose code differs, at most one line a test, and the launches that only one side has. Exits with 1 when
anything differs, with 2 when a folder holds no record.
"""

import argparse
import json
import pathlib
import sys


def codes(folder):
    """{(test, launch): digest of its code} of the records in `folder` (tests/compile_only.py)."""
    found = {}
    for record in sorted(pathlib.Path(folder).glob("codes-*.jsonl")):
        for line in record.read_text().splitlines():
            entry = json.loads(line)
            found[entry["test"], entry["launch"]] = entry["code"]
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
    different = [key for key in before if key in after and before[key] != after[key]]
    missing = [key for key in before if key not in after]
    new = [key for key in after if key not in before]
    for title, keys in ("different code", different), ("only before", missing), ("only after", new):
        by_test = {}
        for test, launch in keys:
            by_test.setdefault(test, []).append(launch)
        for test, launches in sorted(by_test.items()):
            example = (test, launches[0])
            pair = f"  {before[example]} {after[example]}" if title == "different code" else ""
            print(f"{title}: {test}, launches {launches[0]} to {launches[-1]} ({len(launches)}){pair}")
    print(f"{len(before)} launches before, {len(after)} after: {len(different)} differ, {len(missing)} only before, {len(new)} only after")
    return 1 if different or missing or new else 0


if __name__ == "__main__":
    sys.exit(main())
