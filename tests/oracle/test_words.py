"""src/support/tritons_words.def against the recorded answers of the real Triton: a sentence that no recorded message matches is in
UNRECORDED, whose errors no case provokes (or which need a GPU).

The other way round, tests/language and tests/runtime match these sentences in the text of exceptions (`pytest.raises(match=...)`).
"""

import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import answers  # noqa: E402

ROWS = dict(re.findall(r'^TRITON\((\w+), "((?:[^"\\]|\\.)*)"\)$', (HERE.parents[1] / "src/support/tritons_words.def").read_text(), re.MULTILINE))
UNRECORDED = {
    "AttributeAssignment", "BlockPointerBase", "BlockPointerConstants", "BlockPointerLengths", "BlockPointerNaN", "BlockPointerOrder",
    "BlockPointerShape", "BoundaryCheckDuplicate", "BroadcastSize", "ConstexprReassigned", "DescriptorHalfExtremum", "DotInner", "ExternCount",
    "ExternNoOverload", "ExternTypes", "FieldNotInitialized", "FieldType", "Float8NotSupported", "NestedFunction", "NotAPointer", "OperatorStrict",
    "PointerNotOnGpu", "PointersInTwoPlaces", "ReturnInLoop", "ReturnInWith", "ScaledRank", "SeveralTargets", "StoreBlockOptions", "StoreToConst",
}


def pattern(sentence):
    pieces = re.split(r"(\{\d\})", sentence.replace('\\"', '"'))
    return re.compile("".join(".+" if re.fullmatch(r"\{\d\}", piece) else re.escape(piece) for piece in pieces), re.DOTALL)


def recorded_messages():
    types = answers.unpack((HERE / "triton-3.6.0.json").read_text())
    statements = json.loads((HERE / "statements-3.6.0.json").read_text())
    refusals = {answer[1:] for answer in [*types.values(), *statements.values()] if answer.startswith("!")}
    return refusals | {str(answer) for answer in json.loads((HERE / "host-3.6.0.json").read_text()).values()}


def test_sentences_are_tritons():
    messages = recorded_messages()
    unmatched = {name for name, sentence in ROWS.items() if not any(pattern(sentence).search(message) for message in messages)}
    assert unmatched == UNRECORDED
