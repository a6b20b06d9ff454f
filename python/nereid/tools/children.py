"""`python -m nereid.tools.children`: which `triton` children of a process import, as one line of JSON; `nereid doctor` shows it.

    {"plain": {...}, "with_alias": {...}}       in a child of this process; in a child of one that has called install_as_triton()
    {"nereid": true, "version": "3.7.1", "path": "..."} or {"error": "..."}      each of them; {} where there is no `triton`

Children are run to find out. Nothing is imported in them but what the alias itself needs.
"""

import json
import subprocess
import sys

_CHILD = """
import importlib.metadata, importlib.util, json, os
found = importlib.util.find_spec("triton")
report = {}
if found is not None:
    report = {"nereid": hasattr(found.loader, "own"), "path": os.path.dirname(found.origin or "") or "?"}
    try:
        report["version"] = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        report["version"] = "of unknown version"
print(json.dumps(report))
"""
_PARENT = """
import subprocess, sys
sys.exit(subprocess.run([sys.executable, "-c", sys.argv[1]]).returncode)
"""


def _ask(*arguments):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"error": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}


def report():
    """Both answers as a dict."""
    sys.stdout.flush()
    return {"plain": _ask("-c", _CHILD), "with_alias": _ask("-m", "nereid", "-c", _PARENT, _CHILD)}


if __name__ == "__main__":
    print(json.dumps(report()))
