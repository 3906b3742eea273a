"""The type of what an instruction makes, read off its text.

Knows the forms in which this package writes instructions, no more of LLVM's syntax than that.
"""

from __future__ import annotations

import re
from functools import lru_cache

_TYPE = re.compile(r"<\d+ x \w+>|\{[^{}]*\}|\b(?:i\d+|half|float|double|ptr)\b")
_VECTOR = re.compile(r"<(\d+) x (\w+)>")
_OPEN, _CLOSE = "<([{", ">)]}"
#: What makes a value of the type of its first operand.
_SAME = re.compile(
    r"f?(add|sub|mul)|[suf](div|rem)|and|or|xor|shl|[la]shr|fneg|freeze|phi|load|call|insert\w+"
)
_CAST = re.compile(r"[sz]ext|f?trunc|fptrunc|fpext|fpto[us]i|[us]itofp|ptrtoint|inttoptr|bitcast")


@lru_cache(maxsize=4096)
def value_type(text: str) -> str | None:
    """The type of the value of an instruction; None where the text does not tell.

    Args:
        text: of the instruction, without the name of the value.
    """
    op = text.partition(" ")[0]
    if _CAST.fullmatch(op):
        return text.rpartition(" to ")[2]
    first = _TYPE.search(text)
    if first is None:
        return None
    if _SAME.fullmatch(op):
        return first[0]
    if op in ("icmp", "fcmp"):
        return _like(first[0], "i1")
    if op == "extractelement":
        return _VECTOR.fullmatch(first[0])[2]  # type: ignore[index]
    types = [found[0] for part in _operands(text) if (found := _TYPE.search(part))]
    if op in ("select", "atomicrmw"):
        return types[1]
    if op == "getelementptr":
        return next((_like(type, "ptr") for type in types[1:] if _VECTOR.fullmatch(type)), "ptr")
    if op == "shufflevector":
        lanes, element = _VECTOR.fullmatch(types[2]), _VECTOR.fullmatch(types[0])
        return f"<{lanes[1]} x {element[2]}>" if lanes and element else None
    return None


def _operands(text: str) -> list[str]:
    """The text between the commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for n, character in enumerate(text):
        if character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:n])
            start = n + 1
    return [*parts, text[start:]]


def _like(type: str, element: str) -> str:
    """A type of as many elements."""
    vector = _VECTOR.fullmatch(type)
    return f"<{vector[1]} x {element}>" if vector else element
