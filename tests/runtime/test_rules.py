"""The rules of arguments, signatures and messages, and of tuners, asked of Triton 3.6 and of Nereid: the answers are the same."""

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent

# What is different on purpose: the answers of Nereid.
DIFFERENT = {
    # The text says which number is too large.
}


def answers(program, *arguments):
    environment = {name: value for name, value in os.environ.items() if name != "NEREID_AS_TRITON"}
    done = subprocess.run([sys.executable, HERE / program, *arguments], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return {question: in_tritons_words(answer) for question, answer in map(json.loads, done.stdout.splitlines())}


def in_tritons_words(answer):
    """An answer whose error has Triton's sentence as a note, with that sentence alone."""
    if isinstance(answer, list) and answer[:1] == ["raised"]:
        return [*answer[:-1], answer[-1].rpartition("note: in Triton's words: ")[2]]
    return answer


@pytest.mark.parametrize("program", ["oracle_rules.py", "oracle_tuner.py"])
def test_same_answers_as_triton(program):
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("Triton is not installed beside Nereid")
    if not version.startswith("3.6"):
        pytest.skip(f"the answers are those of Triton 3.6, found {version}")
    theirs, ours = answers(program), answers(program, "nereid")
    different = {question: (theirs[question], ours.get(question)) for question in theirs if theirs[question] != ours.get(question)}
    assert {question: pair[1] for question, pair in different.items()} == DIFFERENT, different
