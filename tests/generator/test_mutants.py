"""The seeded bugs still have their places in the sources, so that the score can be measured at any time."""

import pathlib

import pytest

from generator.mutants.apply import switched
from generator.mutants.table import MUTANTS

ROOT = pathlib.Path(__file__).parents[2]


def test_every_bug_has_its_place():
    lost = []
    for mutant in MUTANTS:
        source = (ROOT / mutant.file).read_text()
        if source.count(mutant.context) != 1 or mutant.context.count(mutant.old) != 1:
            lost.append(f"{mutant.number} ({mutant.file}: {mutant.why})")
    assert not lost, "the code has changed under these seeded bugs: " + "; ".join(lost)


def test_numbers_and_reasons():
    assert len(MUTANTS) >= 100
    assert len({m.why for m in MUTANTS}) > 0.9 * len(MUTANTS)
    assert all(m.where in ("cpu", "cuda", "both", "modes", "gradients") and m.old != m.new for m in MUTANTS)


@pytest.mark.parametrize("old, new, text", [
    ("a.f(b)", "c", "(::nereid::mutated(7) ? (c) : (a.f(b)))"),
    ("isSigned ?", "true ?", "(::nereid::mutated(7) ? (true) : (isSigned)) ?"),
    ("x, g(y, z)", "x, y", "x, (::nereid::mutated(7) ? (y) : (g(y, z)))"),
])
def test_switched(old, new, text):
    assert switched(7, old, new) == text
