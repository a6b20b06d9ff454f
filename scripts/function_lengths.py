"""Lengths of the functions of this repository, C++ and Python.

    python scripts/function_lengths.py [N]      the N longest functions (20)

C++ is read without a compiler: braces are matched in the text without comments and literals, and what stands before a brace tells
whether a function begins. Lambdas count as part of the function around them.
"""

import ast
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CXX = {".cpp", ".h", ".hpp", ".c"}

_SKIPPED = re.compile(r"""R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"""
                      r"""|//[^\n]*|/\*(?:.|\n)*?\*/|^[ \t]*\#(?:.*\\\n)*.*$""", re.MULTILINE)
_FUNCTION = re.compile(r"\)\s*((const|noexcept|override|final|mutable|&|->[^;{]*)\s*)*(:\s.*)?$", re.DOTALL)
_NAME = re.compile(r"([\w:~]+)\s*\(")


def cxx_functions(text):
    """(line, lines, name) of each function that `text` defines."""
    text = _SKIPPED.sub(lambda match: "\n" * match[0].count("\n"), text)
    blocks, head, begins, line, depth = [], [], 0, 1, 0
    for letter in text:
        if letter == "{":
            before = "".join(head).strip()
            is_function = not depth and bool(_FUNCTION.search(before)) and not before.startswith(("namespace", "extern"))
            blocks.append((is_function, begins or line, before))
            depth += is_function
        elif letter == "}" and blocks:
            is_function, first, before = blocks.pop()
            depth -= is_function
            if is_function:
                name = _NAME.search(before)
                yield first, line - first + 1, name[1] if name else "?"
        if letter in "{};":
            head, begins = [], 0
        elif not letter.isspace():
            head.append(letter)
            begins = begins or line
        elif head:
            head.append(" ")
        line += letter == "\n"


def python_functions(text):
    """(line, lines, name) of each function that `text` defines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1, node.name


def functions(path):
    """(line, lines, name) of each function in a file; nothing of files in other languages."""
    if path.suffix in CXX:
        return cxx_functions(path.read_text())
    return python_functions(path.read_text()) if path.suffix == ".py" else ()


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    paths = [ROOT / name for name in listing.split("\0") if name and (ROOT / name).exists()]
    found = [(lines, str(path.relative_to(ROOT)), first, name) for path in paths for first, lines, name in functions(path)]
    for lines, path, first, name in sorted(found, reverse=True)[:count]:
        print(f"{lines:4} {path}:{first} {name}")


if __name__ == "__main__":
    main()
