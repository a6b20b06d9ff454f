"""scripts/check_diagnostics.py: what it refuses in a registry of diagnostics and in the table of Triton's sentences."""

import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("check_diagnostics", ROOT / "scripts" / "check_diagnostics.py")
check = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(check)

ROWS = check.diagnostics("""
// comments are no rows
DIAG(NoParameters, Error, "cannot write through a \\"const\\" pointer")
DIAG(Rank, Error, "expected rank {0}, found `{1}` (NVIDIA H100: any)", Int, Str)
DIAG(Appended, Error, "wrong rank: Expected rank {0}", Int)
DIAG(TwoSentences, Error, "invalid axis {0}. Expected an axis", Int)
""")


def test_rows_are_read():
    assert [(name, count) for name, _, count in ROWS] == [("NoParameters", 0), ("Rank", 2), ("Appended", 1), ("TwoSentences", 1)]


def test_second_sentences_are_refused():
    assert [problem.split('"')[:2] for problem in check.problems_of_messages(ROWS)] == [
        ["diagnostic Appended holds a second sentence, ", "Expected rank {0}"],
        ["diagnostic TwoSentences holds a second sentence, ", "Expected an axis"]]


def test_rows_of_tritons_words():
    good = 'TRITON(Rank, "Expected {1}, but got {0}")\n// a comment\nTRITON(NoParameters, "Cannot \\"store\\"")\n'
    assert list(check.problems_of_words(ROWS, good)) == []
    assert list(check.problems_of_words(ROWS, good + 'TRITON(Rnak, "Expected")\n')) == ["tritons_words.def: Rnak is not a diagnostic"]
    assert list(check.problems_of_words(ROWS, good + 'TRITON(Rank, "Expected")\n')) == ["tritons_words.def: Rank has two rows"]
    assert list(check.problems_of_words(ROWS, 'TRITON(Rank, "Expected {0} and {2}")')) == [
        "tritons_words.def: Rank names {2}, but the diagnostic has 2 parameters"]
    assert list(check.problems_of_words(ROWS, "TRITON(Rank)")) == ['tritons_words.def: expected TRITON(Name, "sentence"), found TRITON(Rank)']
