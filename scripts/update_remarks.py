#!/usr/bin/env python3
"""Rewrites the `expected-remark` lines of an IR test from what nereid-opt says now. Read the difference before you commit it.

    python scripts/update_remarks.py build/debug/src/faces/opt/nereid-opt tests/ir/transforms/integer-analysis.mlir
"""

import pathlib
import re
import subprocess
import sys


def main():
    tool, path = sys.argv[1], pathlib.Path(sys.argv[2])
    lines = [line for line in path.read_text().splitlines() if "expected-remark" not in line]
    command = next(line for line in lines if "RUN:" in line and "--verify-diagnostics" in line)
    options = [word for word in command.split() if word.startswith("--") and word != "--verify-diagnostics"]
    run = subprocess.run([tool, "-", *options, "-o", "/dev/null"], input="\n".join(lines) + "\n",
                         capture_output=True, text=True)
    remarks = {}
    for number, text in re.findall(r"^<stdin>:(\d+):\d+: remark: (.*)$", run.stderr, re.MULTILINE):
        remarks.setdefault(int(number), []).append(text)
    result = []
    for number, line in enumerate(lines, 1):
        indent = line[:len(line) - len(line.lstrip())]
        for i, text in enumerate(remarks.get(number, [])):
            result.append(f"{indent}// expected-remark @+{len(remarks[number]) - i} {{{{{text}}}}}")
        result.append(line)
    path.write_text("\n".join(result) + "\n")


if __name__ == "__main__":
    main()
