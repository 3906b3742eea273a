"""Ways to damage an input: changes of bytes, of words, and of values in documents.

All results depend only on the random generator that is passed.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from random import Random
from typing import Any

#: Nesting depth beyond that of any recursive parser.
DEEP = 50_000
#: Values that replace a value of a document.
HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -1e308, 1e308),
    *("", " ", "x", "x" * 5000, "\0", "\x1b[2J", "\u202e", "[red]", "../../etc/passwd", "nan"),
    *([], {}, [[]], [None], {"": None}, {"a": {"b": []}}, ["x"] * 300, [1, "a", None]),
)
_WORD = re.compile(rb"[A-Za-z_][\w.]*|\d+|\s+|[^\w\s]")
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_NUMBERS = (b"0", b"-1", b"9" * 40, b"9" * 5000, b"1e999", b"-0.0", b"4294967296", b"nan")
_BRACKETS = (b"[", b"(", b"{", b"<", b'{"a":', b"[[", b"not ", b"-", b"loc(")
_BYTES = (
    b"\0",
    b"\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\x1b[31m",
    b"\r\n",
    b'"',
    b"\\",
    b"%s",
    b"#",
)


def damaged_bytes(data: bytes, random: Random) -> bytes:
    """Return an input with some bytes or words changed."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        data = random.choice(_MUTATORS)(data, random)
    return data


def _flip(data: bytes, random: Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(random.choice((1, 1, 3, 16))):
        if damaged:
            damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    return bytes(damaged)


def _overwrite(data: bytes, random: Random) -> bytes:
    start, end = _slice(data, random)
    return data[:start] + random.randbytes(end - start) + data[end:]


def _truncate(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _delete(data: bytes, random: Random) -> bytes:
    start, end = _slice(data, random)
    return data[:start] + data[end:]


def _double(data: bytes, random: Random) -> bytes:
    start, end = _slice(data, random)
    return data[:end] + data[start:end] * random.choice((1, 1, 2, 50)) + data[end:]


def _insert(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(_BYTES) + data[at:]


def _nest(data: bytes, random: Random) -> bytes:
    at, depth = random.randrange(len(data) + 1), random.choice((150, 300, 1200, DEEP))
    return data[:at] + random.choice(_BRACKETS) * depth + data[at:]


def _empty(data: bytes, random: Random) -> bytes:
    return random.choice((b"", b" ", b"\n", b"{}", b"[]", b"null", b"0", b"\0" * 64))


def _number(data: bytes, random: Random) -> bytes:
    matches = list(_NUMBER.finditer(data))
    if not matches:
        return _insert(data, random)
    match = random.choice(matches)
    return data[: match.start()] + random.choice(_NUMBERS) + data[match.end() :]


def _words(data: bytes, random: Random) -> bytes:
    """Delete, repeat or exchange words."""
    words = _WORD.findall(data)
    if len(words) < 2:
        return _insert(data, random)
    one, other = random.randrange(len(words)), random.randrange(len(words))
    kind = random.randrange(4)
    if kind == 0:
        del words[one]
    elif kind == 1:
        words.insert(other, words[one])
    elif kind == 2:
        words[one], words[other] = words[other], words[one]
    else:
        words[one] = words[other]
    return b"".join(words)


def _lines(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\n")
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    if random.random() < 0.5:
        del lines[one]
    return b"\n".join(lines)


def _slice(data: bytes, random: Random) -> tuple[int, int]:
    start = random.randrange(len(data) + 1)
    return start, min(len(data), start + random.choice((1, 2, 8, 64, 1024)))


_MUTATORS: tuple[Callable[[bytes, Random], bytes], ...] = (
    *(_flip, _overwrite, _truncate, _delete, _double, _insert, _nest, _empty),
    *(_number, _number, _words, _words, _words, _lines),
)


def damaged_value(document: Any, random: Random) -> Any:
    """Return a document with some values replaced, deleted, repeated, renamed or nested deeply."""
    document = copy.deepcopy(document)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        holders = list(_holders(document))
        if not holders:
            return random.choice(HOSTILE)
        holder, key = random.choice(holders)
        _change(holder, key, random)
    return document


def _holders(value: Any) -> Any:
    """Yield every list and object with each of its keys."""
    pending = [value]
    while pending:
        container = pending.pop()
        if isinstance(container, (dict, list)):
            for key in list(container) if isinstance(container, dict) else range(len(container)):
                yield container, key
                pending.append(container[key])


def _change(holder: Any, key: Any, random: Random) -> None:
    kind = random.randrange(8)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif kind == 1:
        holder[random.choice((str(key) + "x", "", "*", str(key).upper()))] = holder.pop(key)
    elif kind == 2:
        deep: Any = holder[key]
        for _ in range(random.choice((3, 60, 200))):
            deep = [deep] if random.random() < 0.5 else {"children": [deep]}
        holder[key] = deep
    else:
        holder[key] = copy.deepcopy(random.choice(HOSTILE))
