"""`python -m tests.generator.mutants.apply FOLDER [WHERE | NUMBER...]`: compiles all seeded bugs into a copy of the sources, behind NEREID_MUTANT=number, or
those of some kinds (`where` of the table) or numbers alone, which changes fewer files.

One build then serves every bug: with the variable unset, or 0, it is the compiler as it is."""

import pathlib
import re
import sys

from .table import MUTANTS

HEADER = """// Made by tests/generator/mutants/apply.py: which of the seeded bugs is on, and which places have been reached.
#pragma once
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
namespace nereid {
/// A byte for each bug in the file that NEREID_MUTANT_REACHED names, or null.
inline char *mutantsReached() {
  static char *const bytes = []() -> char * {
    const char *path = std::getenv("NEREID_MUTANT_REACHED");
    int file = path ? ::open(path, O_RDWR) : -1;
    if (file < 0)
      return nullptr;
    void *mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    return mapped == MAP_FAILED ? nullptr : static_cast<char *>(mapped);
  }();
  return bytes;
}
inline bool mutated(int number) {
  static const int active = [] {
    const char *text = std::getenv("NEREID_MUTANT");
    return text ? std::atoi(text) : 0;
  }();
  if (char *bytes = mutantsReached())
    bytes[number] = 1;
  return active == number;
}
} // namespace nereid
"""

TEXTS = """// Made by tests/generator/mutants/apply.py: the seeded bugs of the prelude.
#pragma once
#include "support/mutant.h"
#include <string>
namespace nereid {
struct MutatedText {
  int number;
  const char *before, *after;
};
inline const MutatedText mutatedTexts[] = {
%s    {0, "", ""}};
inline std::string mutatedPrelude(std::string text) {
  for (const MutatedText &one : mutatedTexts)
    if (one.number && mutated(one.number))
      if (size_t at = text.find(one.before); at != std::string::npos)
        text.replace(at, std::string(one.before).size(), one.after);
  return text;
}
} // namespace nereid
"""

#: What may stand around an expression in a row of the table, and is the same in both forms.
_BEFORE = ("+ ", "!= ", "&& ", "= ")
_AFTER = (" ?", " &&", " ||", ");", "})", ";")


def _parts(text):
    """A list of arguments, cut at its own commas."""
    parts, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "([{"
        depth -= c in ")]}"
        if c == "," and depth == 0:
            parts.append(text[last:i])
            last = i + 1
    return parts + [text[last:]]


def switched(number, old, new):
    """`old`, or `new` while the bug is on."""
    before, after = _parts(old), _parts(new)
    if len(before) != len(after):
        raise ValueError(f"bug {number}: the two forms differ in their number of arguments")
    result = []
    for a, b in zip(before, after):
        if a == b:
            result.append(a)
            continue
        head = re.match(r"\s*", a).group()
        a, b = a.strip(), b.strip()
        tail = ""
        for word in _BEFORE:
            if a.startswith(word) and b.startswith(word):
                head, a, b = head + word, a[len(word):], b[len(word):]
        for word in _AFTER:
            if a.endswith(word) and b.endswith(word):
                a, b, tail = a[:-len(word)], b[:-len(word)], word + tail
                break
        result.append(f"{head}(::nereid::mutated({number}) ? ({b}) : ({a})){tail}")
    return ",".join(result)


def _literal(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def chosen(where):
    return [m for m in MUTANTS if not where or m.where in where or str(m.number) in where]


def apply(folder, where=()):
    """Edits the sources under a folder; the numbers of the bugs that no longer have their place. where: kinds and numbers (as text) of bugs, all without."""
    folder = pathlib.Path(folder)
    texts, lost, marked = [], [], set()
    for m in chosen(where):
        path = folder / m.file
        source = path.read_text()
        if source.count(m.context) != 1 or m.context.count(m.old) != 1:
            lost.append(m.number)
            continue
        if m.kind == "text":
            texts.append(f"    {{{m.number}, {_literal(m.old)}, {_literal(m.new)}}},\n")
            continue
        if m.kind == "skip":
            replaced = f"{{ if (!::nereid::mutated({m.number})) {{ {m.old} }} }}"  # also before an `else`
        else:
            replaced = m.context.replace(m.old, switched(m.number, m.old, m.new))
        source = source.replace(m.context, replaced)
        path.write_text(source)
        marked.add(path)
    for path in sorted(marked):
        path.write_text('#include "support/mutant.h"\n' + path.read_text())
    (folder / "src/support/mutant.h").write_text(HEADER)
    (folder / "src/support/mutant_texts.h").write_text(TEXTS % "".join(texts))
    prelude = folder / "src/frontend/prelude.cpp"
    source = prelude.read_text()
    count = source.count(", file.text)")
    if count != 1:
        raise SystemExit(f"src/frontend/prelude.cpp reads the prelude in {count} places")
    prelude.write_text('#include "support/mutant_texts.h"\n' + source.replace(", file.text)", ", mutatedPrelude(file.text))"))
    return lost


def main():
    where = sys.argv[2:]
    count = len(chosen(where))
    if len(sys.argv) < 2 or not count:
        raise SystemExit("usage: python -m tests.generator.mutants.apply FOLDER [WHERE | NUMBER...]: a copy of the sources, kinds or numbers of bugs")
    lost = apply(sys.argv[1], where)
    print(f"{count - len(lost)} of {count} bugs are in place" + (f"; without a place: {lost}" if lost else ""))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
