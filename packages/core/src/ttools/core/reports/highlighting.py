"""Highlights source code in HTML pages, by Pygments.

Pygments distinguishes some 80 kinds of tokens. Pages colour five of them, which `STYLE` defines for
light and dark pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

#: CSS rules for the classes that `highlighted` uses.
STYLE = Markup(
    ":root { --keyword: #6f42c1; --string: #0a6b35; --literal: #0550ae; --name: #953800; }\n"
    "@media (prefers-color-scheme: dark) { :root { --keyword: #d2a8ff; --string: #7ee787; "
    "--literal: #79c0ff; --name: #ffa657; } }\n"
    ".hk { color: var(--keyword); } .hs { color: var(--string); } .hn { color: var(--literal); } "
    ".hf { color: var(--name); } .hc { color: var(--dim); font-style: italic; }"
)
#: The lexer of Pygments for each language or compilation stage. There is none for MLIR (`ttir`,
#: `ttgir`).
_LEXERS = {"python": "python", "ptx": "ptx", "llir": "llvm", "amdgcn": "amdgpu"}
#: The class for each kind of token, the most specific kind first.
_CLASSES = (
    ("Comment", "hc"),
    ("Literal.String", "hs"),
    ("Literal.Number", "hn"),
    ("Keyword.Constant", "hn"),
    ("Keyword", "hk"),
    ("Operator.Word", "hk"),
    ("Name.Function", "hf"),
    ("Name.Class", "hf"),
    ("Name.Decorator", "hf"),
    ("Name.Builtin", "hf"),
)


def highlighted(
    lines: Sequence[str],
    language: str = "python",
    marks: Mapping[int, tuple[int, int]] | None = None,
) -> list[Markup]:
    """Return lines of source code as HTML.

    Args:
        lines: The lines, without line ends.
        language: `python`, or the name of a compilation stage.
        marks: Maps the index of a line to the columns to underline: the first one, and the one
            after the last.
    """
    marks = marks or {}
    return [
        Markup("").join(_html(text, token, marks.get(index, (0, 0))))
        for index, (text, token) in enumerate(zip(lines, _tokens(lines, language), strict=True))
    ]


def pieces(lines: Sequence[str], language: str = "python") -> list[list[tuple[str, str]]]:
    """Return lines of source code as lists of (class, text); the class may be empty."""
    return [
        [(css, text[start:end]) for start, end, css in token]
        for text, token in zip(lines, _tokens(lines, language), strict=True)
    ]


def _html(
    text: str, tokens: Iterable[tuple[int, int, str]], mark: tuple[int, int]
) -> Iterator[Markup]:
    first, last = mark
    for start, end, css in tokens:
        cuts = sorted({start, *(cut for cut in mark if start < cut < end), end})
        for left, right in pairwise(cuts):
            piece = escape(text[left:right])
            if css:
                piece = Markup('<span class="{}">{}</span>').format(css, piece)
            if first <= left < last:
                piece = Markup("<mark>{}</mark>").format(piece)
            yield piece


def _tokens(lines: Sequence[str], language: str) -> list[list[tuple[int, int, str]]]:
    """Return start, end and class of the tokens of each line; together they cover all of it."""
    lexer = _lexer(language)
    if lexer is None:
        return [[(0, len(line), "")] if line else [] for line in lines]
    result: list[list[tuple[int, int, str]]] = [[] for _ in lines]
    row = column = 0
    for _, kind, value in lexer.get_tokens_unprocessed("\n".join(lines)):
        css = _class_of(str(kind).removeprefix("Token."))
        for index, part in enumerate(value.split("\n")):
            if index:
                row, column = row + 1, 0
            if part:
                result[row].append((column, column + len(part), css))
                column += len(part)
    return result


def _class_of(kind: str) -> str:
    return next((css for name, css in _CLASSES if kind == name or kind.startswith(f"{name}.")), "")


def _lexer(language: str) -> Any:
    """Return Pygments' lexer, or None for a language that it does not support."""
    from pygments.lexers import get_lexer_by_name

    name = _LEXERS.get(language)
    return None if name is None else get_lexer_by_name(name)
