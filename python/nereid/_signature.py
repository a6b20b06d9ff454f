"""Texts with parts between commas: signatures, grids."""


def split(text, brackets="()[]{}<>"):
    """The parts of a text between its commas, without the spaces around them; commas within brackets and quotes belong to a part."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in brackets:
            depth += -1 if brackets.index(character) % 2 else 1
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts] if text.strip() else []
