"""Rearranges the structure of an input: brackets stay balanced, but the content changes.

Any text of brackets, strings, numbers and words is parsed as a tree, regardless of its language.
Therefore one mutator serves JSON, TOML, TTIR and expressions. It exchanges, repeats, removes or
wraps subtrees, repeats keys, changes types of values, inserts extreme numbers, and cuts multi-byte
characters apart. It also nests values just below and above the limits of readers.
"""

from __future__ import annotations

import io
import json
import re
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from tools.fuzz_readers import documents

_CLOSING = {b"[": b"]", b"(": b")", b"{": b"}", b"<": b">"}
_TOKEN = re.compile(
    rb'"(?:[^"\\\n]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|[^\W\d][\w.]*|\s+|.', re.S
)
_NUMBER = re.compile(rb"-?\d")
_NUMBERS = (
    *(b"0", b"-0", b"1", b"-1", b"127", b"128", b"255", b"32768", b"65536", b"2147483647"),
    *(b"2147483648", b"-2147483649", b"4294967296", b"9223372036854775807", b"1e308", b"-1e400"),
    *(b"9223372036854775808", b"18446744073709551616", b"5e-324", b"0.1", b"NaN", b"Infinity"),
    *(b"1" + b"0" * 4299, b"1" + b"0" * 4300),
)
_WIDE = ("ö", "€", "\U0001f600", "\u2028", "\ufeff")
#: Nesting depths around the limits of readers: 100 for documents, 200 for TTIR and profiles.
_DEPTHS = (2, 98, 99, 100, 101, 198, 199, 200, 201, 400, 990)


class Group:
    """A bracket with its contents; the whole text is a group without brackets."""

    def __init__(self, opening: bytes = b"") -> None:
        self.opening = opening
        self.closing = _CLOSING.get(opening, b"")
        self.parts: list[bytes | Group] = []

    def text(self) -> bytes:
        """Return the text of the group, built without recursion."""
        texts: list[bytes] = []
        pending: list[bytes | Group] = [self]
        while pending:
            part = pending.pop()
            if isinstance(part, bytes):
                texts.append(part)
            else:
                pending += [part.closing, *reversed(part.parts), part.opening]
        return b"".join(texts)


def parsed(data: bytes) -> Group:
    """Parse text as a tree; unmatched brackets are words."""
    stack = [Group()]
    for token in _TOKEN.findall(data):
        if token in _CLOSING:
            stack.append(Group(token))
        elif len(stack) > 1 and token == stack[-1].closing:
            group = stack.pop()
            stack[-1].parts.append(group)
        else:
            stack[-1].parts.append(token)
    while len(stack) > 1:  # the bracket was never closed
        group = stack.pop()
        stack[-1].parts += [group.opening, *group.parts]
    return stack[0]


def restructured(data: bytes, random: Random) -> bytes:
    """Return the text with a few changes to its structure."""
    tree = parsed(data)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        groups = _groups(tree)
        random.choice(_CHANGES)(groups, random)
    return tree.text()


def _groups(tree: Group) -> list[Group]:
    groups, pending = [], [tree]
    while pending:
        group = pending.pop()
        groups.append(group)
        pending += [part for part in group.parts if isinstance(part, Group)]
    return [group for group in groups if group.parts] or [tree]


Place = tuple[Group, int]


def _place(groups: list[Group], random: Random) -> Place:
    group = random.choice(groups)
    if not group.parts:
        group.parts.append(b"x")
    words = [n for n, part in enumerate(group.parts) if isinstance(part, Group) or part.strip()]
    return group, random.choice(words or [0])


def _exchange(groups: list[Group], random: Random) -> None:
    (one, n), (other, m) = _place(groups, random), _place(groups, random)
    first, second = one.parts[n], other.parts[m]
    if isinstance(first, bytes) and isinstance(second, bytes):  # a group may contain the other
        one.parts[n], other.parts[m] = second, first
    else:
        one.parts[n] = _copy(second)


def _copy(part: bytes | Group) -> bytes | Group:
    return part if isinstance(part, bytes) else parsed(part.text())


def _repeat(groups: list[Group], random: Random) -> None:
    group, at = _place(groups, random)
    copies = [_copy(group.parts[at]) for _ in range(random.choice((1, 1, 2, 200)))]
    comma: list[bytes | Group] = [b","] if random.random() < 0.7 else []
    for copy in copies:
        group.parts[at + 1 : at + 1] = [*comma, copy]


def _remove(groups: list[Group], random: Random) -> None:
    group, at = _place(groups, random)
    del group.parts[at]


def _double_key(groups: list[Group], random: Random) -> None:
    """Repeat a JSON or TOML key with another value."""
    keyed = [
        (group, n)
        for group in groups
        for n, part in enumerate(group.parts)
        if isinstance(part, bytes) and part in (b":", b"=") and n
    ]
    if not keyed:
        return _repeat(groups, random)
    group, at = random.choice(keyed)
    key, value = group.parts[at - 1], _copy(_take(groups, random))
    separator = group.parts[at]
    end = b"," if separator == b":" else b"\n"
    group.parts[at - 1 : at - 1] = [key, separator, value, end]
    return None


def _take(groups: list[Group], random: Random) -> bytes | Group:
    group, at = _place(groups, random)
    return group.parts[at]


def _retype(groups: list[Group], random: Random) -> None:
    """Replace a value by one of another type, such as a string, a list or an object around it."""
    group, at = _place(groups, random)
    text = _copy(group.parts[at])
    raw = text if isinstance(text, bytes) else text.text()
    choices = (
        *(b'"' + raw.replace(b'"', b"'") + b'"', b"[" + raw + b"]", b'{"a": ' + raw + b"}"),
        *(raw.strip(b'"') or b"0", b"null", b"true", b"{}", b"[]", b'""', b"-" + raw),
    )
    group.parts[at] = random.choice(choices)


def _extreme(groups: list[Group], random: Random) -> None:
    numbers = [
        (group, n)
        for group in groups
        for n, part in enumerate(group.parts)
        if isinstance(part, bytes) and _NUMBER.match(part)
    ]
    group, at = random.choice(numbers) if numbers else _place(groups, random)
    group.parts[at] = random.choice(_NUMBERS)


def _cut_character(groups: list[Group], random: Random) -> None:
    group, at = _place(groups, random)
    wide = random.choice(_WIDE).encode()
    group.parts[at] = b'"' + wide + wide[: random.randrange(1, len(wide) + 1)] + b'"'


def _nest(groups: list[Group], random: Random) -> None:
    group, at = _place(groups, random)
    part, depth = group.parts[at], random.choice(_DEPTHS)
    raw = part if isinstance(part, bytes) else part.text()
    opening, closing = random.choice(((b"[", b"]"), (b"(", b")"), (b'{"a":', b"}"), (b"<", b">")))
    group.parts[at] = opening * depth + raw + closing * depth


_CHANGES: tuple[Callable[[list[Group], Random], None], ...] = (
    *(_exchange, _exchange, _repeat, _remove, _double_key, _double_key),
    *(_retype, _retype, _extreme, _extreme, _cut_character, _nest),
)


# ---- inputs that are not text


def restructured_archive(data: bytes, random: Random) -> bytes:
    """Return a record in which one part has a different structure."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    parts = {name: archive.read(name) for name in archive.namelist()}
    texts = [name for name in sorted(parts) if b"\0" not in parts[name]]
    name = random.choice(texts or sorted(parts))
    parts[name] = restructured(parts[name], random)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as again:
        for part, content in parts.items():
            again.writestr(part, content)
    return stream.getvalue()


def restructured_store(data: bytes, random: Random) -> bytes:
    """Return a tuning store in which one cell has a different structure."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")
        path.write_bytes(data)
        base = sqlite3.connect(path, isolation_level=None)
        try:
            table = random.choice(("problem", "trial"))
            column = random.choice([row[1] for row in base.execute(f"PRAGMA table_info({table})")])
            value = base.execute(f"SELECT {column} FROM {table}").fetchone()[0]
            new = restructured(str(value).encode(), random).decode("utf-8", "replace")
            base.execute(f"UPDATE {table} SET {column} = ?", (new,))
        except (sqlite3.Error, OverflowError):
            pass  # SQLite rejects the value
        finally:
            base.close()
        return path.read_bytes()


def restructured_pack(data: bytes, random: Random) -> bytes:
    """Convert a JSON document to MessagePack with a different structure."""
    for _ in range(20):
        try:
            return documents.pack(json.loads(restructured(data, random)))
        except (ValueError, RecursionError):
            continue
    return documents.pack(json.loads(data))
