#!/usr/bin/env python3
"""Every diagnostic in the registry must be named by a test: lists those that are not, and fails."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUFFIXES = {".cpp", ".h", ".py", ".mlir", ".txt", ".def"}


def main():
    registry = (ROOT / "src/support/diagnostics.def").read_text()
    names = re.findall(r"^DIAG\((\w+)", registry, re.MULTILINE)
    words = set()
    for path in (ROOT / "tests").rglob("*"):
        if path.suffix in SUFFIXES and path.is_file():
            words |= set(re.findall(r"\w+", path.read_text(errors="replace")))
    missing = [name for name in names if name not in words]
    for name in missing:
        print(f"diagnostic {name} is named by no test")
    print(f"{len(names) - len(missing)} of {len(names)} diagnostics are tested")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
