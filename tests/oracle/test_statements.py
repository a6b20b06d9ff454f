"""Statements against the real Triton: ways out of functions, names behind branches, unpacking, shapes of accesses, conditions of loops, `topk`,
descriptors, `dot_scaled`. Strict mode refuses what Triton refuses.

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

#: Triton's refusals: the class of the exception and those of its causes.
REASONS = json.loads((HERE / "reasons-3.6.0.json").read_text())

#: Refused or of another type, also in strict mode.
LESS = {
    "a name that was no tensor and is another thing on one side is forgotten: Triton goes on with the old value, whatever happened": [
        "y = None\nif x > 0:\n    y = x\nreturn y", "y = tl.float32\nif x > 0:\n    y = tl.float16\nreturn tl.zeros((4,), y)",
        "y = None\nif x > 0:\n    y = x\nif x > 1:\n    y = None\nreturn y is None",
    ],
    "`topk` keeps the type; Triton takes the greatest of pairs, by which small types become 32 bits wide": [
        *[f"tl.topk({x}, {k})" for x in ("a > 0", "a.to(tl.float8e5)") for k in (1, 2, 4)], "tl.topk(h, 1)", "tl.topk(h, 2)",
        "tl.topk(b.to(tl.uint8), 2)", "tl.topk(b.to(tl.uint8), 4)"],
    "`k` is a power of two and not larger than the dimension; Triton takes the next smaller power of two, and fails in a later pass": [
        "tl.topk(one, 2)", "tl.topk(one, 4)", "tl.topk(one, 16)", "tl.topk(a, 3)", "tl.topk(a, 5)", "tl.topk(a, 0)", "tl.topk(a, -1)", "tl.topk(a, None)"],
    "the member gives what the function gives; Triton's gives nothing": ["b.sort()", "b.sort(descending=True)"],
    "scales are 8 bits wide; Triton takes any type here and fails in a later pass": ["tl.dot_scaled(a8, s.to(tl.float32), 'e5m2', b8, t, 'e5m2')"],
    "sizes are positive; Triton fails in a later pass": ["tl.make_tensor_descriptor(p, [64, 64], [64, 1], [0, 16]).block_shape"],
}
#: Accepted in strict mode.
MORE = {
    "Triton fails here by itself: it asks a dtype for its size, compares a number with None": [
        "tl.topk(b, 1)", "tl.topk(b.to(tl.int64), 1)", "tl.topk(b.to(tl.uint8), 1)", "tl.flip(a)", "tl.flip(b)", "a.flip()"],
    "the last dimension may be counted from the end": ["tl.topk(a, 8, -1)", "tl.sort(a, -1)"],
    "`topk` takes `descending`, as `sort` does; of `sort` it may be a run-time value": [
        "tl.sort(a, descending=i)"],
    "batches": ["tl.dot_scaled(a8[None], s[None], 'e5m2', b8[None], t[None], 'e5m2')"],
}

#: Other causes than Triton's, in strict mode.
OTHER_CAUSES = {
    "`dot_scaled`: Triton asserts that a format which it knows is one of those that the product takes, and looks at formats before types": [
        "tl.dot_scaled(a8, s, 'e3m2', b8, t, 'e5m2')", "tl.dot_scaled(f, s, 'e4m3', e, t, 'e4m3')", "tl.dot_scaled(a8, s, 'bf16', b8, t, 'bf16')"],
    "one error for arguments of a wrong kind; Triton has an assertion, a comparison or a conversion that fails": [
        "d.load([r, 0])", "d.store([0, 0], i)", "d.store([0, 0], p)", "e.store([i], i)", "tl.make_tensor_descriptor(i, [64], [1], [16]).block_shape",
        "tl.make_tensor_descriptor(p + r, [64], [1], [16]).block_shape", "d.load(0)", "d.load(i)", "d.load([0.5, 0])", "d.load([None, 0])", "e.load(i)",
        "tl.make_tensor_descriptor(p, [64, 64], [64, 1], [i, 16]).block_shape", "tl.make_tensor_descriptor(p, [64, 64], [64.0, 1], [8, 16]).block_shape",
        "tl.make_tensor_descriptor(p, [64.0, 64], [64, 1], [8, 16]).block_shape", "tl.make_tensor_descriptor(p, 64, 1, 16).block_shape", "tl.flip(i)",
        "e.store([0], (1, 2))", "tl.cat(i, i, can_reorder=True)", "d + 1"],
    "one error for types that an atomic operation does not take; Triton asserts it of descriptors": [
        f"d.atomic_{name}([0, 0], a)" for name in ("min", "max", "and", "or", "xor")],
    "written in the language: an operator or assertion of the library fails": [
        "tl.topk(a, 8.0)", "tl.topk(a, 'x')", "tl.topk(a, 8, dim=1.0)", "tl.topk(a, (2,))", "tl.topk(h, 16)", "tl.topk(a, 32)"],
    "`flip` is a function of the compiler here": ["tl.flip(a, 2)"],
    "of `while` with an `else`, and of chained comparisons, only one of the two names the construct": [
        "while 0 < x < 5:\n    x = x - 1\nreturn x", "while x > 0:\n    x -= 1\nelse:\n    x = 5\nreturn x"],
}


@pytest.fixture(scope="module", params=["", "1"], ids=["extended", "strict"])
def answered(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("statements")
    asked, given = folder / "cases.json", folder / "answers.json"
    asked.write_text(json.dumps(list(statements.all_cases())))
    subprocess.run([sys.executable, HERE / "front_end.py", "nereid", asked, given], check=True, timeout=600,
                   env={**os.environ, "NEREID_STRICT": request.param or "0", "NEREID_TRITON_VERSION": "3.6"}, stderr=subprocess.DEVNULL)
    found = json.loads(given.read_text())
    ours = {name: answers.of_nereid(answer) for name, answer in found.items()}
    assert set(ours) == set(RECORDED), "run tests/oracle/record.py statements"
    reasons = {name: answers.reason_of(answer) for name, answer in found.items() if "refuses" in answer}
    return request.param == "1", ours, reasons


def listed(table):
    return {name for names in table.values() for name in names}


def test_what_triton_accepts_is_accepted(answered):
    _, ours, _ = answered
    # Numbers stay known where Triton makes tensors of them.
    differ = {name for name, answer in ours.items()
              if not RECORDED[name].startswith("!") and RECORDED[name] not in (answer, re.sub(r"(?<!constexpr\()\b\d+(?=[,)]|$)", "int32()", answer))}
    assert differ == listed(LESS), "\n\n".join(f"{name}\n    here   {ours[name]}\n    Triton {RECORDED[name]}" for name in differ ^ listed(LESS))


def test_strict_mode_refuses_what_triton_refuses(answered):
    strict, ours, _ = answered
    if not strict:
        return
    more = {name for name, answer in ours.items() if RECORDED[name].startswith("!") and not answer.startswith("!")}
    assert more == listed(MORE), "\n\n".join(f"{name}\n    here   {ours[name]}" for name in more ^ listed(MORE))


def test_nothing_is_an_internal_error(answered):
    _, ours, _ = answered
    assert not [name for name, answer in ours.items() if "internal error" in answer]


def chain(reason):
    """The classes of an error and its causes. A class of the error that tells more than Triton's counts as that one; the calls of library functions,
    which are other ones here, as one."""
    names = reason.split()
    if names[0] in ("CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"):
        names[0] = "CompilationError"
    return [name for i, name in enumerate(names) if i < 2 or name != "CompilationError" or names[i - 1] != name]


def test_refusals_have_the_same_causes(answered):
    strict, _, reasons = answered
    # Where Triton's own code fails its exceptions mean nothing.
    by_itself = {"RuntimeError", "AttributeError", "IndexError"}
    compared = [name for name in REASONS if name in reasons and REASONS[name].split()[-1] not in by_itself]
    assert len(compared) > 150
    if not strict:    # what is accepted further is refused for other reasons
        return
    differ = {name for name in compared if chain(REASONS[name]) != chain(reasons[name])}
    assert differ == listed(OTHER_CAUSES), "\n\n".join(
        f"{name}\n    here   {reasons[name]}\n    Triton {REASONS[name]}" for name in differ ^ listed(OTHER_CAUSES))
