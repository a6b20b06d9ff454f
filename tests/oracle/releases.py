"""Records how a release of Triton differs from 3.6: `python tests/oracle/releases.py FOLDER [--quick]` writes release-<version>.json beside this file.

FOLDER holds an unpacked wheel: `pip download --no-deps triton==3.9.0 -d WHEELS; unzip -d FOLDER WHEELS/triton-*.whl`. It must not be an
environment's: the installed Triton stays the one that `record.py` asks. No GPU; takes some minutes, with `--quick` one: then only questions are asked
whose answers differ from 3.6 in a release that is recorded already.

The file has an object for each kind of question, with what differs from the answers of 3.6 only:

    signatures   {module: {name: description as record_signatures.py gives it, or null for a name that is not there}}
    types        {id: answer}, of cases.py, and all of newer.py
    statements   {id: answer}, of statements.py
    host         {question: answer}, of host_questions.txt
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import answers
import cases
import newer
import statements

HERE = pathlib.Path(__file__).parent
BASE = "3.6.0"


def read(name):
    return json.loads((HERE / name).read_text())


#: What 3.6 answers.
def base_answers(kind):
    if kind == "types":
        return answers.unpack((HERE / f"triton-{BASE}.json").read_text())
    return read({"statements": f"statements-{BASE}.json", "host": f"host-{BASE}.json", "signatures": f"signatures-{BASE}.json"}[kind])


def recorded():
    """{version: its file} of the releases that are recorded, in order."""
    found = {re.fullmatch(r"release-(.*)", path.stem).group(1): json.loads(path.read_text()) for path in HERE.glob("release-*.json")}
    return dict(sorted(found.items(), key=lambda item: [int(part) for part in item[0].split(".")]))


def signatures_of(release):
    """All names and signatures of a recorded release."""
    whole = base_answers("signatures")
    for module, names in release["signatures"].items():
        for name, description in names.items():
            if description is None:
                whole[module].pop(name, None)
            else:
                whole.setdefault(module, {})[name] = description
    return whole


def differing(base, found):
    """What is new or other in `found`; two refusals count as one answer."""
    refused = lambda answer: isinstance(answer, str) and answer.startswith("!")
    return {name: answer for name, answer in found.items() if name not in base or answer != base[name] and not (refused(answer) and refused(base[name]))}


def run(folder, *command):
    environment = {**os.environ, "PYTHONPATH": str(folder), "TRITON_DEFAULT_FP_FUSION": "1"}
    return subprocess.run([sys.executable, *map(str, command)], env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def ask(folder, questions):
    with tempfile.TemporaryDirectory() as work:
        asked, answered = pathlib.Path(work, "cases.json"), pathlib.Path(work, "answers.json")
        asked.write_text(json.dumps(questions))
        run(folder, HERE / "front_end.py", "triton", asked, answered)
        return {name: answers.of_triton(answer) for name, answer in json.loads(answered.read_text()).items()}


def changed_signatures(folder):
    base, found = base_answers("signatures"), json.loads(run(folder, HERE / "record_signatures.py", "triton"))
    changes = {}
    for module in {**base, **found}:
        old, new = base.get(module, {}), found.get(module, {})
        names = {name: new.get(name) for name in {**old, **new} if old.get(name) != new.get(name)}
        if names:
            changes[module] = names
    return changes


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    version = run(folder, "-c", "import triton; print(triton.__version__)").strip()
    quick = "--quick" in sys.argv
    known = {kind: {name for release in recorded().values() for name in release[kind]} for kind in ("types", "statements")}
    wanted = lambda kind, questions: [case for case in questions if not quick or case["id"] in known[kind]]
    release = {
        "signatures": changed_signatures(folder),
        "types": {**differing(base_answers("types"), ask(folder, wanted("types", cases.all_cases()))), **ask(folder, list(newer.all_cases()))},
        "statements": differing(base_answers("statements"), ask(folder, wanted("statements", statements.all_cases()))),
        "host": differing(base_answers("host"), json.loads(run(folder, HERE / "host.py", "triton"))),
    }
    path = HERE / f"release-{version}.json"
    path.write_text(json.dumps(release, indent=0, sort_keys=True) + "\n")
    print(f"{path.name}: " + ", ".join(f"{len(found)} {kind}" for kind, found in release.items()))


if __name__ == "__main__":
    main()
