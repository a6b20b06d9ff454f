"""Records what the real Triton answers: `python tests/oracle/record.py` rewrites triton-<version>.json beside this file.

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

HERE = pathlib.Path(__file__).parent


def main():
    version = importlib.metadata.version("triton")
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = pathlib.Path(folder, "cases.json"), pathlib.Path(folder, "answers.json")
        asked.write_text(json.dumps(cases.all_cases()))
        subprocess.run([sys.executable, HERE / "front_end.py", "triton", asked, answered], check=True)
        found = json.loads(answered.read_text())
    path = HERE / f"triton-{version}.json"
    path.write_text(answers.pack({name: answers.of_triton(answer) for name, answer in found.items()}))
    print(f"{len(found)} answers of Triton {version} in {path}")


if __name__ == "__main__":
    main()
