#!/usr/bin/env python3
"""Checks the registry of diagnostics, prints what is wrong, and fails:

- Every diagnostic is named by a test.
- A message is one sentence of ours: none starts with a capital after a colon, semicolon or full stop. Triton's sentences are rows of
  src/support/tritons_words.def.
- Every row there names a diagnostic of the registry, once, and only parameters that it has.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUFFIXES = {".cpp", ".h", ".py", ".mlir", ".txt", ".def"}
TEXT = r'"((?:[^"\\]|\\.)*)"'


def diagnostics(registry):
    """(name, message, number of parameters) of each row."""
    rows = re.findall(rf"^DIAG\((\w+), \w+, {TEXT}((?:, \w+)*)\)$", registry, re.MULTILINE)
    return [(name, message, types.count(",")) for name, message, types in rows]


def problems_of_messages(rows):
    for name, message, _ in rows:
        if found := re.search(r"[:;.!?] [A-Z][a-z]+ ", message):
            yield f"diagnostic {name} holds a second sentence, \"{message[found.start() + 2:]}\": if it is Triton's, move it to tritons_words.def"


def problems_of_words(rows, words):
    counts = {name: count for name, _, count in rows}
    seen = set()
    for line in words.splitlines():
        if not line.startswith("TRITON"):
            continue
        row = re.fullmatch(rf"TRITON\((\w+), {TEXT}\)", line)
        if not row:
            yield f"tritons_words.def: expected TRITON(Name, \"sentence\"), found {line}"
            continue
        name, sentence = row.groups()
        if name not in counts:
            yield f"tritons_words.def: {name} is not a diagnostic"
        elif name in seen:
            yield f"tritons_words.def: {name} has two rows"
        else:
            for parameter in sorted(set(re.findall(r"\{(\d+)\}", sentence))):
                if int(parameter) >= counts[name]:
                    yield f"tritons_words.def: {name} names {{{parameter}}}, but the diagnostic has {counts[name]} parameters"
        seen.add(name)


def problems_of_tests(rows):
    named = set()
    for path in (ROOT / "tests").rglob("*"):
        if path.suffix in SUFFIXES and path.is_file():
            named |= set(re.findall(r"\w+", path.read_text(errors="replace")))
    for name, _, _ in rows:
        if name not in named:
            yield f"diagnostic {name} is named by no test"


def main():
    registry = (ROOT / "src/support/diagnostics.def").read_text()
    rows = diagnostics(registry)
    problems = [*problems_of_messages(rows), *problems_of_words(rows, (ROOT / "src/support/tritons_words.def").read_text()),
                *problems_of_tests(rows)]
    if len(rows) != len(re.findall(r"^DIAG\(", registry, re.MULTILINE)):
        problems.append("diagnostics.def: a row is not of the form DIAG(Name, Kind, \"message\", types)")
    print("\n".join(problems) if problems else f"{len(rows)} diagnostics: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
