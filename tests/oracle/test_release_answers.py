"""Releases of Triton since 3.7: what they do otherwise than 3.6 is done here, too, by the rules that NEREID_TRITON_VERSION chooses.

`release-<version>.json` holds the recorded differences (releases.py). Names and signatures are there whatever the version is; types and accepted
statements are asked of ours for each release. What is otherwise on purpose is listed with its reason, and a reason without a difference is an error.
"""

import collections
import json
import os
import re
import subprocess
import sys

import answers
import cases
import newer
import pytest
import releases
import statements
import test_host
import test_signatures
import test_statements
import test_types


RELEASES = releases.recorded()
NEWEST = list(RELEASES)[-1]

_WARNINGS = "deprecations that Triton announces; nothing is to change here"
_BY_POSITION = "the name of a parameter that is given by position"
#: Of names and signatures, besides those of test_signatures.py.
SIGNATURES = {
    "triton._utils.CAT_CAN_REORDER_WARNING": _WARNINGS,
    "triton._utils.FP_FUSION_DEFAULT_WARNING": _WARNINGS,
    "triton._utils.RESHAPE_CAN_REORDER_WARNING": _WARNINGS,
    "triton._utils.prewarm_deprecation_warnings": _WARNINGS,
    "triton._utils.warn_once": _WARNINGS,
    "triton.knobs.FP_FUSION_DEFAULT_WARNING": _WARNINGS,
    "triton.language.core.CAT_CAN_REORDER_WARNING": _WARNINGS,
    "triton.language.core.RESHAPE_CAN_REORDER_WARNING": _WARNINGS,
    "triton.language.core.dataclass_transform": "a name of `typing` for type checkers",
    "triton.language.pointer_type.__init__(address_space)": "there is one address space; 1 is its number",
    "triton.runtime.jit.P": "a name of `typing` for type checkers",
    "triton.runtime.jit.get_def_": "`JITFunction.def_file_line_number` and `def_file_col_number` have the answers",
    "triton.testing.cublas": "a binding of cuBLAS for Triton's own tests",
    "triton.tools.ragged_tma.": _BY_POSITION,
    "triton.FutureKernel.__init__(": "both orders are understood",
    "triton.runtime._async_compile.FutureKernel.__init__(": "both orders are understood",
}

#: Of types: as in test_types.py, for the newest release.
TYPES = [
    (r"newer/.*/tl\.topk\(", "other", "the type stays; Triton's follows from the reductions it is made of"),
    (r"newer/fp8e5/tl\.clamp\(x, 0, 2\.0\)", "less", "an 8-bit float and an integer have a common type since 3.9 only"),
    (r"newer/.*/tl\.unsqueeze\(x, -1\)", "other", "counted from the end of the result, as since 3.9"),
    (r"dot/.*acc=tl\.zeros\(\(16, 16\), tl\.float16\)\)", "less", "the accumulator must have the result's type; Triton gives another type without a word"),
    (r".*/fp8.*/tl\.fma\(", "less", "8-bit floats have no arithmetic of three operands"),
    (r"shape/.*/a\[:, :, :\]", "more", "full slices beyond the rank are left out, as before 3.9"),
    (r"unary/.*/tl\.histogram\(", "more", "all integers are counted"),
]


def signature_reason(difference):
    own = max((start for start in SIGNATURES if difference.startswith(start)), key=len, default=None)
    return own or test_signatures.reason(difference)


@pytest.mark.parametrize("version", RELEASES)
def test_names_and_signatures(version):
    whole = releases.signatures_of(RELEASES[version])
    found = [difference for module in whole for difference in test_signatures.differences_of_module(module, whole)]
    unexpected = [difference for difference in found if signature_reason(difference) is None]
    assert not unexpected, "\n" + "\n".join(unexpected)
    if version == NEWEST:
        unused = [start for start in SIGNATURES if not any(difference.startswith(start) for difference in found)]
        assert not unused, unused


def asked_of_ours(version, questions, tmp_path, strict=False):
    asked, answered = tmp_path / "cases.json", tmp_path / "answers.json"
    asked.write_text(json.dumps(questions))
    subprocess.run([sys.executable, releases.HERE / "front_end.py", "nereid", asked, answered], check=True, timeout=900, stderr=subprocess.DEVNULL,
                   env={**os.environ, "NEREID_TRITON_VERSION": version, "NEREID_STRICT": str(int(strict))})
    return {name: answers.of_nereid(answer) for name, answer in json.loads(answered.read_text()).items()}


def expected_answers(kind, version):
    """What this release answers to all questions whose answer differs between releases."""
    base, own = releases.base_answers(kind), RELEASES[version][kind]
    names = {name for release in RELEASES.values() for name in release[kind]}
    return {name: own.get(name, base.get(name)) for name in names if name in own or name in base}


@pytest.mark.parametrize("version", RELEASES)
def test_types_of_expressions(version, tmp_path):
    theirs = expected_answers("types", version)
    ours = asked_of_ours(version, [case for case in [*cases.all_cases(), *newer.all_cases()] if case["id"] in theirs], tmp_path)
    assert set(ours) == set(theirs), "run tests/oracle/releases.py"
    used, unexplained = collections.Counter(), []
    reasons = TYPES + test_types.DIFFERENCES
    for name, answer in ours.items():
        kind = test_types.kind_of_difference(answer, theirs[name])
        if kind is None or kind == "more" and version != NEWEST and name.startswith("newer/"):  # names are there in every release
            continue
        reason = next((pattern for pattern, what, _ in reasons if what == kind and re.fullmatch(pattern + ".*", name)), None)
        used[reason] += 1
        if reason is None:
            unexplained.append(f"{name}\n    here   {answer}\n    Triton {theirs[name]}")
    assert not unexplained, f"{len(unexplained)} differences:\n" + "\n".join(unexplained[:60])
    if version == NEWEST:
        unused = [pattern for pattern, _, reason in TYPES if not used[pattern] and "since 3.9" not in reason]
        assert not unused, f"differences that are none any more: {unused}"


#: Statements that the newest release accepts and ours do not, or with another answer, besides those of test_statements.py.
STATEMENTS = {
    "the type stays": ["tl.topk(b.to(tl.uint8), 1)"],
    "a name that was no tensor and is another thing on one side is forgotten": ["y = None\nif x > 0:\n    y = x\nif x > 1:\n    y = None\nreturn y is None"],
}


@pytest.mark.parametrize("version", RELEASES)
def test_statements_that_triton_accepts(version, tmp_path):
    theirs = expected_answers("statements", version)
    ours = asked_of_ours(version, [case for case in statements.all_cases() if case["id"] in theirs], tmp_path)
    accepted = {name for name, answer in theirs.items() if not answer.startswith("!")}
    known = lambda text: (text, re.sub(r"(?<!constexpr\()\b\d+(?=[,)]|$)", "int32()", text), re.sub(r"\bint32\(\)", "", text))
    differ = {name for name in accepted if theirs[name] not in known(ours[name])}
    listed = {name for names in STATEMENTS.values() for name in names}
    unexpected = differ - listed - test_statements.listed(test_statements.LESS)
    assert not unexpected, "\n\n".join(f"{name}\n    here   {ours[name]}\n    Triton {theirs[name]}" for name in unexpected)
    if version == NEWEST:
        assert listed <= differ, listed - differ


#: Of types in strict mode, besides TYPES and those of test_types.py.
STRICT_TYPES = [(r"newer/.*cache_modifier='\.cs'", "more", "a hint that is accepted in every release"), (r"shape/fp32/tl\.softmax\(a, 1\)", "more", "before 3.9 Triton divides by the sums of another axis, whose shape differs")]


@pytest.mark.parametrize("version", RELEASES)
def test_strict_mode_refuses_what_the_release_refuses(version, tmp_path):
    """And accepts what it accepts, with the same types: expressions and statements whose answer differs between releases."""
    unexpected = []
    theirs = expected_answers("types", version)
    ours = asked_of_ours(version, [case for case in [*cases.all_cases(), *newer.all_cases()] if case["id"] in theirs], tmp_path, strict=True)
    reasons = STRICT_TYPES + TYPES + test_types.DIFFERENCES
    for name, answer in ours.items():
        kind = test_types.kind_of_difference(answer, theirs[name])
        if kind and not any(what == kind and re.fullmatch(pattern + ".*", name) for pattern, what, _ in reasons):
            unexpected.append((name, answer, theirs[name]))
    theirs = expected_answers("statements", version)
    ours = asked_of_ours(version, [case for case in statements.all_cases() if case["id"] in theirs], tmp_path, strict=True)
    listed = {name for names in STATEMENTS.values() for name in names} | test_statements.listed(test_statements.LESS) | test_statements.listed(test_statements.MORE)
    for name, answer in ours.items():
        if answer.startswith("!") != theirs[name].startswith("!") and name not in listed:
            unexpected.append((name, answer, theirs[name]))
    assert not unexpected, "\n\n".join(f"{name}\n    here   {answer}\n    Triton {other}" for name, answer, other in unexpected)


#: Of the host side, besides those of test_host.py: reasons, and the questions.
HOST = {
    "arguments without a fact are left out": ["fill.warmup(torch.int32, 16, grid=(1, )).src.attrs"],
    "names of compiled kernels are our own": ["tl.constexpr_type(3).mangle()"],
    "block pointers stay": ["inspect.signature(tl.load)", "inspect.signature(tl.store)"],
    "there is no profiler of Triton's here": ["names(triton.knobs.proton)"],
    "options of AMD's GPUs, of Blackwell and of the floating-point sanitizer, which are accepted and not kept": ["names(compiled().metadata)", "names(triton.knobs.compilation)"],
    "a helper of the tuner's own loop": ["names(tuned)"],
}


@pytest.mark.parametrize("version", RELEASES)
def test_the_host_side(version):
    """All questions of `host_questions.txt`, not only those whose answer differs: a rule of one release must not reach into another."""
    theirs, ours = {**test_host.RECORDED, **RELEASES[version]["host"]}, test_host.asked(NEREID_TRITON_VERSION=version)
    assert set(ours) == set(theirs), "run tests/oracle/releases.py"
    differ = {question for question, answer in theirs.items() if not test_host.same(answer, ours[question])}
    listed = {question for questions in HOST.values() for question in questions}
    unexpected = [question for question in differ - listed if not test_host.reasons(question)]
    assert not unexpected, "\n\n".join(f"{question}\n    Triton {theirs[question]}\n    here   {ours[question]}" for question in unexpected)
    if version == NEWEST:
        assert listed <= differ, listed - differ
