"""Statements against the real Triton: ways out of functions, names behind branches, unpacking, shapes of accesses. Strict mode refuses what Triton refuses.

What the real Triton answers is recorded (record.py). Besides what is listed here, everything that it accepts is accepted with the same
type, and strict mode accepts nothing else.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import answers  # noqa: E402
import statements  # noqa: E402

RECORDED = json.loads((HERE / "statements-3.6.0.json").read_text())

#: Refused, also in strict mode.
LESS = {
    "a name that was no tensor and is another thing on one side is forgotten: Triton goes on with the old value, whatever happened": [
        "y = None\nif x > 0:\n    y = x\nreturn y", "y = tl.float32\nif x > 0:\n    y = tl.float16\nreturn tl.zeros((4,), y)",
        "y = None\nif x > 0:\n    y = x\nif x > 1:\n    y = None\nreturn y is None",
    ],
}
#: Accepted in strict mode.
MORE = {}


@pytest.fixture(scope="module", params=["", "1"], ids=["extended", "strict"])
def answered(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("statements")
    asked, given = folder / "cases.json", folder / "answers.json"
    asked.write_text(json.dumps(list(statements.all_cases())))
    subprocess.run([sys.executable, HERE / "front_end.py", "nereid", asked, given], check=True, timeout=600,
                   env={**os.environ, "NEREID_STRICT": request.param or "0"}, stderr=subprocess.DEVNULL)
    ours = {name: answers.of_nereid(answer) for name, answer in json.loads(given.read_text()).items()}
    assert set(ours) == set(RECORDED), "run tests/oracle/record.py statements"
    return request.param == "1", ours


def listed(table):
    return {name for names in table.values() for name in names}


def test_what_triton_accepts_is_accepted(answered):
    _, ours = answered
    # Numbers stay known where Triton makes tensors of them.
    differ = {name for name, answer in ours.items()
              if not RECORDED[name].startswith("!") and re.sub(r"(?<!constexpr\()\b\d+(?=[,)]|$)", "int32()", answer) != RECORDED[name]}
    assert differ == listed(LESS), "\n\n".join(f"{name}\n    here   {ours[name]}\n    Triton {RECORDED[name]}" for name in differ ^ listed(LESS))


def test_strict_mode_refuses_what_triton_refuses(answered):
    strict, ours = answered
    if not strict:
        return
    more = {name for name, answer in ours.items() if RECORDED[name].startswith("!") and not answer.startswith("!")}
    assert more == listed(MORE), "\n\n".join(f"{name}\n    here   {ours[name]}" for name in more ^ listed(MORE))


def test_nothing_is_an_internal_error(answered):
    _, ours = answered
    assert not [name for name, answer in ours.items() if "internal error" in answer]
