"""Compares our parser with CPython's own, over the standard library of the Python that runs this test.

Every file that `ast` parses must parse here, with the same kinds of node at the same byte ranges;
every file that `ast` refuses must give a diagnostic; nothing may crash.

Run alone:  python -m pytest tests/syntax      (NEREID_PARSE_PROGRAM names the program, else a build folder has it)
"""

import ast
import collections
import json
import os
import pathlib
import struct
import subprocess
import sys
import sysconfig
import warnings

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# How many files of a big package outside of the standard library are compared.
SAMPLE = 300
SHARDS = 8


def find_tool():
    named = os.environ.get("NEREID_PARSE_PROGRAM")
    builds = ["release", "debug", "asan"]
    found = [ROOT / "build" / name / "tests/syntax/nereid-parse" for name in builds]
    return next((str(p) for p in ([pathlib.Path(named)] if named else found) if p.exists()), None)


TOOL = find_tool()
pytestmark = pytest.mark.skipif(not TOOL, reason="nereid-parse is not built")


def stdlib_files():
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    return sorted(p for p in root.rglob("*.py") if "site-packages" not in p.parts)


def package_files(name):
    for folder in {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]}:
        root = pathlib.Path(folder) / name
        if root.is_dir():
            files = sorted(root.rglob("*.py"))
            return files[:: max(1, len(files) // SAMPLE)]
    return []


def readable(path):
    """The text, when it is UTF-8 (a file in another encoding is refused by design)."""
    data = path.read_bytes()
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return data


class Lines:
    """Byte offsets of CPython's (line, utf-8 column) pairs."""

    def __init__(self, data):
        self.base = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        self.starts = [self.base]
        i = self.base
        while i < len(data):
            if data[i] == 13 and i + 1 < len(data) and data[i + 1] == 10:
                i += 1
            if data[i] in (10, 13):
                self.starts.append(i + 1)
            i += 1

    def offset(self, line, column):
        return self.starts[line - 1] + column


def exact_value(value):
    """As the tool writes it (dump.cpp)."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if value is ...:
        return "Ellipsis"
    if isinstance(value, int):
        return f"i:{value:x}" if value else "i:"
    if isinstance(value, float):
        return "f:" + struct.pack(">d", value).hex()
    if isinstance(value, complex):
        return "j:" + struct.pack(">d", value.imag).hex()
    if isinstance(value, bytes):
        return "b:" + value.hex()
    return "s:" + value.encode("utf-8", "surrogatepass").hex()


def cpython_nodes(tree, lines):
    """(kind, begin, end, value) of each node with a position; nodes inside f-strings apart, since Python
    before 3.12 does not give them exact positions."""
    exact, inside = [], []
    todo = [(tree, False)]
    while todo:
        node, in_fstring = todo.pop()
        if hasattr(node, "lineno"):
            begin = lines.offset(node.lineno, node.col_offset)
            end = lines.offset(node.end_lineno, node.end_col_offset)
            value = exact_value(node.value) if isinstance(node, ast.Constant) else ""
            (inside if in_fstring else exact).append((type(node).__name__, begin, end, value))
        in_fstring = in_fstring or isinstance(node, ast.JoinedStr)
        todo.extend((child, in_fstring) for child in ast.iter_child_nodes(node))
    return exact, inside


def our_nodes(rows):
    """The same from the tool's rows, which are in pre-order."""
    exact, inside = [], []
    literal = None
    for kind, begin, end, *value in rows:
        in_fstring = literal is not None and literal[0] <= begin and end <= literal[1]
        if not in_fstring:
            literal = None
        (inside if in_fstring else exact).append((kind, begin, end, *(value or [""])))
        if kind == "JoinedStr" and not in_fstring:
            literal = (begin, end)
    return exact, inside


def run_tool(paths):
    """{path: rows, or None when the tool reported errors}, and what it said about them."""
    result = subprocess.run([TOOL, *map(str, paths)], capture_output=True)
    assert result.returncode in (0, 1), f"crashed with {result.returncode} on one of {paths}"
    files = {}
    rows = None
    for line in result.stdout.decode().splitlines():
        if line.startswith("== "):
            name, verdict = line[3:].rsplit(" ", 1)
            rows = [] if verdict == "ok" else None
            files[name] = rows
        else:
            rows.append(tuple(json.loads(line)))
    assert len(files) == len(paths)
    return files, result.stderr.decode()


def compare(path, data, rows):
    """A description of the first difference, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(data)
        except (SyntaxError, ValueError) as error:
            if rows is None or "encoding" in str(error):  # we do not look at encoding cookies
                return None
            return f"{path}: CPython refuses it ({error}), we do not"
        if rows is None:
            try:
                compile(data, str(path), "exec", dont_inherit=True)
            except SyntaxError:
                return None  # refused after parsing: `return` outside of a function...
            return f"{path}: we refuse what CPython accepts"
    lines = Lines(data)
    expected, expected_inside = cpython_nodes(tree, lines)
    actual, actual_inside = our_nodes(rows)
    checks = [(expected, actual)]
    if sys.version_info >= (3, 12):
        # The constants inside of an f-string that hold braces have odd ends in CPython.
        def comparable(nodes):
            return [
                node
                for node in nodes
                if node[0] != "Constant" or not {123, 125, 92} & set(data[node[1] : node[2] + 1])
            ]

        checks.append((comparable(expected_inside), comparable(actual_inside)))
    for want, got in checks:
        named = {node[1:3] for node in got if node[3] == "?"}
        want = [node for node in want if node[1:3] not in named or node[0] != "Constant"]
        got = [node for node in got if node[3] != "?"]
        missing = collections.Counter(want) - collections.Counter(got)
        surplus = collections.Counter(got) - collections.Counter(want)
        if missing or surplus:
            def show(nodes):
                first = sorted(nodes, key=lambda n: n[1:])[:3]
                return [(kind, begin, data[begin:end][:60]) for kind, begin, end, _ in first]

            return f"{path}: missing {show(missing)}, surplus {show(surplus)}"
    return None


def check(paths):
    readable_paths, texts = [], {}
    for path in paths:
        data = readable(path)
        if data is None:
            files, errors = run_tool([path])
            assert files[str(path)] is None and "not valid UTF-8" in errors
            continue
        readable_paths.append(path)
        texts[str(path)] = data
    differences = []
    for i in range(0, len(readable_paths), 50):
        files, errors = run_tool(readable_paths[i : i + 50])
        for name, rows in files.items():
            difference = compare(name, texts[name], rows)
            if difference:
                differences.append(difference)
    assert not differences, f"{len(differences)} of {len(paths)} files differ:\n" + "\n".join(
        differences[:20]
    )


@pytest.mark.parametrize("shard", range(SHARDS))
def test_standard_library(shard):
    files = stdlib_files()
    assert len(files) > 500
    check(files[shard::SHARDS])


@pytest.mark.parametrize("package", ["torch", "triton", "numpy"])
def test_installed_package(package):
    files = package_files(package)
    if not files:
        pytest.skip(f"{package} is not installed")
    check(files)
