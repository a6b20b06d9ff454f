"""Adds up the JUnit records of a test run and prints one closing line; exits with 1 when anything failed.

    python scripts/summary.py FOLDER
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def main():
    folder = pathlib.Path(sys.argv[1])
    passed = failed = skipped = 0
    for record in sorted(folder.glob("*.xml")):
        for case in ElementTree.parse(record).getroot().iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
                print(f"failed: {record.stem}: {case.get('classname')}::{case.get('name')}")
            elif case.find("skipped") is not None:
                skipped += 1
            else:
                passed += 1
    steps = folder / "failed-steps"
    if steps.exists():
        names = steps.read_text().splitlines()
        print("failed steps: " + ", ".join(names))
        failed = max(failed, len(names))
    if passed == 0:
        print("no test ran")
        failed = max(failed, 1)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
