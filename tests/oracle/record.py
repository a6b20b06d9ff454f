"""Records what the real Triton answers: `python tests/oracle/record.py` rewrites triton-<version>.json, statements-<version>.json,
reasons-<version>.json (the exceptions behind its refusals of statements) and host-<version>.json beside this file; `python tests/oracle/record.py statements` the second alone.

Needs the wheel of Triton that `scripts/setup.sh` installs; no GPU. Takes two to four minutes.
"""

import importlib.metadata
import json
import pathlib
import subprocess
import sys
import tempfile

import answers
import cases
import statements

HERE = pathlib.Path(__file__).parent


def answers_of(all_cases):
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = pathlib.Path(folder, "cases.json"), pathlib.Path(folder, "answers.json")
        asked.write_text(json.dumps(all_cases))
        subprocess.run([sys.executable, HERE / "front_end.py", "triton", asked, answered], check=True)
        found = json.loads(answered.read_text())
    return {name: answers.of_triton(answer) for name, answer in found.items()}, {
        name: answers.reason_of(answer) for name, answer in found.items() if "refuses" in answer}


def main():
    version = importlib.metadata.version("triton")
    only = sys.argv[1:]
    for name, all_cases, pack in (("triton", cases.all_cases, answers.pack),
                                  ("statements", statements.all_cases, lambda found: json.dumps(found, indent=0) + "\n")):
        if only and name not in only:
            continue
        found, reasons = answers_of(list(all_cases()))
        path = HERE / f"{name}-{version}.json"
        path.write_text(pack(found))
        print(f"{len(found)} answers of Triton {version} in {path}")
        if name == "statements":
            (HERE / f"reasons-{version}.json").write_text(json.dumps(reasons, indent=0) + "\n")
    if not only or "host" in only:
        done = subprocess.run([sys.executable, HERE / "host.py", "triton"], check=True, stdout=subprocess.PIPE, text=True)
        (HERE / f"host-{version}.json").write_text(done.stdout)
        print(f"{len(json.loads(done.stdout))} answers about the host side")


if __name__ == "__main__":
    main()
