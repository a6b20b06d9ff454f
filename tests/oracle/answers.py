"""Answers of the two compilers in one form: the text of a value, or "!" and the message of a refusal; and the file that keeps them.

In the file, `family/expression` leads to the answers with the types that get each: most expressions have few different ones.
"""

import collections
import json
import re


def of_triton(answer):
    """The message is that of the exception at the root, without its class, place and source."""
    if "shows" in answer:
        return shown(answer["shows"])
    text = answer["refuses"].split("\n")[-1]
    text = re.sub(r"^\w+(Error|Impl)?: ", "", text)
    if match := re.fullmatch(r"\w+\((['\"])(.*)\1\)", text):
        text = match[2].replace("\\'", "'")
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return "!" + text.replace("triton.language.", "")


def of_nereid(answer):
    if "shows" in answer:
        return shown(answer["shows"])
    if "error: " not in answer["refuses"]:  # that of an exception behind the error
        return "!" + re.sub(r"^\w+: ", "", answer["refuses"])
    return "!" + answer["refuses"].split("error: ", 1)[-1].split("\n")[0]


def reason_of(answer):
    """The classes of the exceptions behind a refusal, its own first."""
    return " ".join(answer["causes"])


def shown(text):
    """Triton shows a tuple as a list of texts, and what has no value as a tensor of type void: brackets of all kinds count as one."""
    text = text.translate(str.maketrans("[]", "()", "\"'\\")).replace(",)", ")")
    return "None" if text == "void()" else text


def split(name):
    """family, types, expression of an id."""
    return name.split("/", 2)


def pack(found):
    table = collections.defaultdict(lambda: collections.defaultdict(list))
    for name, answer in sorted(found.items()):
        family, types, expression = split(name)
        # The types of the case stand for themselves in an answer.
        table[f"{family}/{expression}"][answer].append(types)
    lines = [f"{json.dumps(key)}: " + json.dumps({answer: " ".join(types) for answer, types in value.items()}) for key, value in sorted(table.items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def unpack(text):
    found = {}
    for key, value in json.loads(text).items():
        family, expression = key.split("/", 1)
        for answer, types in value.items():
            for each in types.split(" "):
                found[f"{family}/{each}/{expression}"] = answer
    return found
