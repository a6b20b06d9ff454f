"""Adds up the JUnit records of a test run and prints one closing line; exits with 1 when anything failed.

    python scripts/summary.py FOLDER

Before that line come the reasons: of each failed test the lines that tell what was expected, of each failed step the end of its output
(`failed-K.txt` in the folder, for the Kth line of `failed-steps`). Steps that were left out because the time was over (the lines of
`left-out`) are no failures, and named in a line of their own.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


MOST = 12
"""Failed tests whose reasons are printed; and lines of each."""


def telling(lines):
    """The lines that tell what failed, each with the three after it; at most MOST; none where no line looks like an error."""
    first = [index for index, line in enumerate(lines) if re.search(r"^E  |: Failure$|^FAIL|: (runtime )?error:|ERROR:", line)]
    chosen = sorted({index + step for index in first for step in range(4) if index + step < len(lines)})
    return [lines[index] for index in chosen][:MOST]


def reason(case):
    """Why a testcase of a JUnit record failed. pytest writes the traceback as the text of `failure`, ctest the output into `system-out`."""
    texts = [case.find(kind) for kind in ("failure", "error", "system-out")]
    lines = "\n".join(text.text or "" for text in texts if text is not None).splitlines()
    return telling(lines) or lines[-MOST:]


def show(lines):
    print("\n".join("    " + line[:300] for line in lines))


def main():
    folder = pathlib.Path(sys.argv[1])
    passed = failed = skipped = 0
    steps = folder / "failed-steps"
    names = steps.read_text().splitlines() if steps.exists() else []
    for index, name in enumerate(names, 1):
        output = folder / f"failed-{index}.txt"
        print(f"end of the step that failed: {name}")
        lines = output.read_text(errors="replace").splitlines()
        show(telling(lines[:-MOST]) + lines[-MOST:])
    for record in sorted(folder.glob("*.xml")):
        for case in ElementTree.parse(record).getroot().iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
                print(f"failed: {record.stem}: {case.get('classname')}::{case.get('name')}")
                if failed <= MOST:
                    show(reason(case))
            elif case.find("skipped") is not None:
                skipped += 1
            else:
                passed += 1
    left_out = folder / "left-out"
    without = left_out.read_text().splitlines() if left_out.exists() else []
    if without:
        print(f"LEFT OUT: {'; '.join(without)} (time); `scripts/test.sh --all` runs them")
    if names:
        print("failed steps: " + ", ".join(names))
        failed = max(failed, len(names))
    if passed == 0:
        print("no test ran")
        failed = max(failed, 1)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
