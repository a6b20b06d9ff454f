"""Checks of the repository itself: formatting, length of files and functions, that every test is run, that every path in the docs exists, diagnostics, layers.

    python scripts/check_repository.py [--fix]      --fix rewrites the formatting
"""

import argparse
import pathlib
import re
import subprocess
import sys

import function_lengths

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONGEST_FILE = 1200
LONGEST_FUNCTION = 150
CODE = {".cpp", ".h", ".hpp", ".c"}
TEXT = CODE | {".td", ".py", ".pyi", ".def", ".mlir", ".sh", ".cmake", ".md"}


def tracked():
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).exists()]


def llvm_version():
    text = (ROOT / "cmake" / "LLVMVersion.cmake").read_text()
    return re.search(r"set\(NEREID_LLVM_VERSION (\d+)\)", text).group(1)


def check_format(files, fix):
    sources = [str(f) for f in files if f.suffix in CODE]
    tool = f"clang-format-{llvm_version()}"
    arguments = ["-i"] if fix else ["--dry-run", "-Werror"]
    result = subprocess.run([tool, *arguments, *sources], capture_output=True, text=True)
    bad = sorted({line.split(":")[0] for line in result.stderr.splitlines() if "clang-format-violations" in line})
    return [f"{pathlib.Path(b).relative_to(ROOT)}: not formatted (scripts/check_repository.py --fix)" for b in bad]


def check_length(files):
    for f in files:
        if f.suffix in TEXT and "docs/reference" not in str(f):
            lines = f.read_bytes().count(b"\n")
            if lines > LONGEST_FILE:
                yield f"{f.relative_to(ROOT)}: {lines} lines, at most {LONGEST_FILE}: split it along a real seam"


def check_functions(files):
    for f in files:
        for line, lines, name in function_lengths.functions(f):
            if lines > LONGEST_FUNCTION:
                yield f"{f.relative_to(ROOT)}:{line}: {name} has {lines} lines, at most {LONGEST_FUNCTION}: cut it along its steps"


def check_tests_run(files):
    """A test that no runner picks up is worse than none: it is trusted."""
    lists = "\n".join(f.read_text() for f in files if f.name == "CMakeLists.txt")
    of_gpus = "\n".join(f.read_text() for f in files if f.match("scripts/test_gpu*.sh"))
    only_on_gpus = re.compile(r"def test_\w+\([^)]*\b(on_)?gpu\b|usefixtures\(\"(on_)?gpu\"\)")
    for f in files:
        relative = f.relative_to(ROOT)
        if relative.parts[0] != "tests":
            continue
        if relative.match("test_*.py") and only_on_gpus.search(f.read_text()) and not re.search(rf"\btests/{relative.parts[1]}\b", of_gpus):
            yield f"{relative}: has tests that need a GPU, but scripts/test_gpu*.sh do not run tests/{relative.parts[1]}"
        if f.suffix == ".cpp" and not re.search(rf"\b{re.escape(f.name)}\b", lists):
            yield f"{relative}: no CMakeLists.txt names it"
        if f.suffix == ".py" and "def test_" in f.read_text() and not f.name.startswith("test_"):
            yield f"{relative}: holds tests, but pytest only collects test_*.py"
        if f.suffix == ".mlir" and "RUN:" not in f.read_text():
            yield f"{relative}: has no RUN line"


def check_test_modules(files):
    """pytest puts the folder of each test file on sys.path, tests import modules beside them, and in one process each name is one module: the first
    that is imported. So no two modules below `tests` have one name, nor one of those of `examples`, whose folders tests put there. Programs (with `__main__`),
    members of packages, and what CMake compiles are imported in other ways."""
    elsewhere = {f.parent for f in files if f.name in ("__init__.py", "CMakeLists.txt") and f.parent != ROOT / "tests"}
    modules = {}
    for f in files:
        relative = f.relative_to(ROOT)
        if relative.parts[0] not in ("tests", "examples") or f.suffix != ".py" or f.name in ("conftest.py", "lit.cfg.py", "__main__.py"):
            continue
        if not relative.match("test_*.py") and (f.parent in elsewhere or "\nif __name__ == " in f.read_text()):
            continue
        other = modules.setdefault(f.name, relative)
        if other != relative and "tests" in (relative.parts[0], other.parts[0]):
            yield f"{relative}: Python imports only one module of a name in a run of pytest, see {other}"


def anchors(page):
    """The anchors that the headings of a page make, as code hosts name them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def check_paths(files):
    """Paths in backticks, links of the docs and the headings that links name must exist."""
    pages = [f for f in files if f.suffix == ".md" and f.name != "CHANGELOG.md"]
    rooms = "include|src|python|tests|docs|scripts|benchmarks|examples|cmake"
    quoted = re.compile(rf"`((?:{rooms})/[\w./-]+)`")
    link = re.compile(r"\]\((?!https?:|mailto:)([^)#]*)(?:#([^)]*))?\)")
    for page in pages:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)  # not the examples
        text = re.sub(r"`[^`\n]*\]\([^`\n]*`", "", text)  # nor subscripts and calls in code spans
        for path in quoted.findall(text):
            if not (ROOT / path).exists():
                yield f"{page.relative_to(ROOT)}: names {path}, which does not exist"
        for path, heading in link.findall(text):
            linked = page.parent / path if path else page
            if not linked.exists():
                yield f"{page.relative_to(ROOT)}: links to {path}, which does not exist"
            elif heading and linked.suffix == ".md" and heading not in anchors(linked):
                yield f"{page.relative_to(ROOT)}: links to #{heading}, which is no heading of {linked.name}"


def check_diagnostics():
    script = ROOT / "scripts" / "check_diagnostics.py"
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    return [] if result.returncode == 0 else (result.stdout + result.stderr).splitlines()


def check_layering():
    script = ROOT / "scripts" / "check_layering.py"
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    return [] if result.returncode == 0 else (result.stdout + result.stderr).splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fix", action="store_true", help="rewrite the formatting")
    args = parser.parse_args()
    files = tracked()
    problems = [*check_format(files, args.fix), *check_length(files), *check_functions(files), *check_tests_run(files),
                *check_test_modules(files), *check_paths(files), *check_diagnostics(), *check_layering()]
    print("\n".join(problems) if problems else "repository checks: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
