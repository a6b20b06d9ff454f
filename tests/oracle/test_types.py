"""Types of results and refusals against the real Triton: every expression of cases.py means here what it means there.

What the real Triton answers is recorded (record.py); ours is asked now. `DIFFERENCES` lists what we do otherwise on purpose, and why;
an entry that no case needs any more is an error too.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import answers  # noqa: E402
import cases  # noqa: E402

RECORDED = HERE / "triton-3.6.0.json"

#: (pattern of family/types/expression, "more": we accept what Triton refuses, "less": we refuse, "other": another answer; reason)
DIFFERENCES = [
    (r"binary/.*/x (and|or) y", "more", "operands count as `!= 0`; Triton reinterprets their bits, which needs int1"),
    (r"(unary|scalar|shape)/.*/not [axi]", "more", "the operand counts as `== 0`"),
    (r"shape/.*/(a and a|i and i|a\.logical_and\(a > 0\))", "more", "operands count as `!= 0`"),
    (r"binary/.*/tl\.(join|interleave)\(x, y\)", "more", "operands of different types are promoted"),
    (r"binary/.*/tl\.(fdiv|div_rn|umulhi|fma)\(", "more", "operands are promoted before their type is judged"),
    (r"(unary|scalar)/.*/\+x", "more", "unary plus is the identity"),
    (r"memory/.*/tl\.load\(p \+ r, mask=1\)", "more", "a known number as a mask counts as `!= 0`"),
    (r".*fp8.*", "more", "8-bit floats take part in arithmetic and conversions like other floats"),
    (r"(cast|scalar|binary)/.*x\.to\(tl\.float8", "more", "integers and bools convert to 8-bit floats, through fp32"),
    (r"atomic/.*/tl\.atomic_cas\(p, 0, 1\)", "more", "the numbers are converted to the pointee's type"),
    (r"dot/.*acc=tl\.zeros\(\(16, 16\), tl\.float16\)\)", "more", "the accumulator's type is the result's type when `out_dtype` is not given"),
    (r"shape/.*/(tl\.broadcast_to\(1\.5.*|tl\.join\(1, 2\)|tl\.split\(tl\.join\(1, 2\)\))", "more", "numbers are taken for scalars"),
    (r"shape/.*/tl\.(argmax\(a, None\)|softmax\(a, 1\)|cat\(a, a.*)", "more", "newer than Triton 3.6, or its defect"),
    (r"shape/.*/(tl\.arange\(0, 12\)|tl\.arange\(-8, 8\)|tl\.full\(\(2, 3\), 1, tl\.int32\)|tl\.reshape\(a, 4, 33\))", "more", "sizes need not be powers of two; ranges may begin below zero"),
    (r"shape/.*/tl\.zeros\(4, tl\.int32\)", "more", "a number is a shape of one dimension"),
    (r"shape/.*/(0 < i < 4|1 < 2 < 3|1 in \(1, 2\)|\(z := 3\)|abs\(a\)|str\(3\))", "more", "extensions of the language"),
    (r"shape/.*/(tl\.unsqueeze\(a, 0\)|tl\.to_tensor\(.*\))", "more", "newer than Triton 3.6"),
    (r"atomic/fp(32|64)/tl\.atomic_(and|or|xor)\(.*", "less", "bits of floats are combined only after a bitcast"),
    (r"dot/fp64,fp64/.*acc=tl\.zeros\(\(16, 16\), tl\.float32\)\)", "less", "an fp32 accumulator cannot hold an fp64 product"),
    (r"dot/i8,i8/.*out_dtype=tl\.bfloat16\)", "less", "refused for integers as for floats"),
    (r"unary/.*/tl\.topk\(x, 4\)", "other", "the type stays; Triton's follows from the reductions it is made of"),
    (r"shape/.*/(a\[0\]|a\[0:4\]|a\[i\])", "more", "blocks are indexed by integers and slices"),
    (r"shape/.*/(tl\.sort\(a, 0\)|tl\.histogram\(r, 7\)|lambda x: x)", "more", "extensions of the language"),
    (r"shape/.*/tl\.inline_asm_elementwise", "less", "asked for the CPU, which has no PTX"),
    (r"dot/i8,i8/.*acc=tl\.zeros\(\(16, 16\), tl\.float32\)\)", "less", "an fp32 accumulator of an int32 product"),
    (r"shape/.*/tl\.topk\(a, 3\)", "less", "k must be a power of two: Triton gives 2 elements"),
    (r"shape/.*/a\.to\(tl\.float16\)\.exp\(\)", "less", "member functions take the types that the functions take"),
    (r"cast/fp8e5/.*fp_downcast_rounding='up'\)", "less", "an unknown rounding is refused also where nothing is rounded"),
    (r"binary/fp8e5,fp8e5/tl\.fma\(x, y, x\)", "less", "8-bit floats have no arithmetic of three operands"),
    (r"shape/.*/tl\.cdiv\(7, 2\)", "other", "known operands give a known result"),
    (r"shape/.*/range\(3\)", "other", "only the text"),
    (r"shape/.*/f'\{1:04d\}'", "other", "format specifications count"),
    (r"atomic/u32/tl\.atomic_cas\(p, 0, 1\)", "other", "the result has the pointee's type"),
]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("oracle")
    asked, answered = folder / "cases.json", folder / "answers.json"
    asked.write_text(json.dumps(cases.all_cases()))
    subprocess.run([sys.executable, HERE / "front_end.py", "nereid", asked, answered], check=True, timeout=600)
    ours = {name: answers.of_nereid(answer) for name, answer in json.loads(answered.read_text()).items()}
    theirs = answers.unpack(RECORDED.read_text())
    return ours, theirs


def kind_of_difference(ours, theirs):
    if ours.startswith("!") and theirs.startswith("!"):
        return None
    if ours.startswith("!"):
        return "less"
    return "more" if theirs.startswith("!") else None if ours == theirs else "other"


def test_the_record_is_of_these_cases(both):
    ours, theirs = both
    assert set(ours) == set(theirs), "run tests/oracle/record.py"


def test_same_types(both):
    ours, theirs = both
    used, unexplained = collections.Counter(), []
    for name, answer in ours.items():
        kind = kind_of_difference(answer, theirs.get(name, answer))
        if kind is None:
            continue
        reason = next((i for i, (pattern, what, _) in enumerate(DIFFERENCES) if what == kind and re.fullmatch(pattern + ".*", name)), None)
        used[reason] += 1
        if reason is None:
            unexplained.append(f"{name}\n    here   {answer}\n    Triton {theirs[name]}")
    assert not unexplained, f"{len(unexplained)} differences:\n" + "\n".join(unexplained[:40])
    unused = [pattern for i, (pattern, _, _) in enumerate(DIFFERENCES) if not used[i]]
    assert not unused, f"differences that are none any more: {unused}"


def test_nothing_is_an_internal_error(both):
    ours, _ = both
    broken = [f"{name}: {answer}" for name, answer in ours.items() if "internal error" in answer or "report" in answer]
    assert not broken, "\n".join(broken)
