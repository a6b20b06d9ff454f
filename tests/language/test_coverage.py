"""The matrix has no empty cell without a reason: every builtin is run by a test of this folder, or says why not."""

import json

import pytest

import nereid
import test_atomics
import test_behaviours_numeric
import test_block_pointers
import test_control_flow
import test_descriptors
import test_dot
import test_dot_scaled
import test_elementwise
import test_extern
import test_gather
import test_histogram
import test_inline_asm
import test_map_elementwise
import test_memory
import test_random
import test_reductions
import test_shapes
import test_sort

#: Names that no matrix runs, and why.
REASONS = {
    "pointer_type": "a type, used by test_memory", "block_type": "a type", "dtype": "a type", "tuple": "a type of values",
    "constexpr": "the identity on known values", "const": "an annotation", "tensor": "a type, used by annotations and isinstance",
    "at_most": "tests/differentiation/test_hints.py", "save": "tests/differentiation/test_hints.py", "to": "the same as cast: test_casts", "make_block_ptr": "test_block_pointers", "advance": "test_block_pointers",
}
ALIASES = {"neg": "neg", "not": "invert"}


def builtins():
    return json.loads(nereid.language_json())


def test_every_builtin_is_covered():
    covered = set(REASONS)
    for module in (test_atomics, test_behaviours_numeric, test_block_pointers, test_control_flow, test_descriptors, test_dot, test_dot_scaled, test_elementwise, test_extern, test_gather,
                   test_histogram, test_inline_asm, test_map_elementwise, test_memory, test_random, test_reductions, test_shapes, test_sort):
        covered |= module.COVERED
    missing = sorted({row["name"] for row in builtins() if not row["name"].startswith("_")} - covered)
    assert not missing, f"no test runs {', '.join(missing)}: add a row to the matrix, or a reason"


def test_every_builtin_is_documented():
    undocumented = [row["name"] for row in builtins() if not row.get("doc", "").strip()]
    assert not undocumented


@pytest.mark.parametrize("op", test_elementwise.OPS, ids=lambda o: o.text)
def test_every_row_has_dtypes(op):
    assert op.dtypes
