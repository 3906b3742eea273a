"""Wraps text to the 80 columns of a terminal without dividing paths and commands.

A reader copies paths and commands, and editors and terminals turn paths into links. Therefore,
neither is divided over two lines or cut off. A line with a path or command of more than 80 columns
is wider than the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from textwrap import wrap

#: Assumed width of the terminal in columns.
WIDTH = 80
#: Text in backquotes that is a command or contains a path.
_QUOTED = re.compile(
    r"`(?:(?:ttools|python3?|pip3?|uv|pytest|git|make)\s[^`]*|[^`]*(?:/|\.py\b)[^`]*)`"
)
#: Stands for a blank at which a line must not be divided.
_BLANK = "\ue000"


def wrapped(
    text: str,
    indent: str = "",
    hanging: str | None = None,
    *,
    width: int = WIDTH,
    whole: Iterable[str] = (),
) -> list[str]:
    """Return a paragraph as lines.

    Args:
        text: Text of the paragraph.
        indent: Indentation of the first line.
        hanging: Indentation of the other lines; by default that of the first line plus two columns.
        width: Maximum number of columns, except for longer words.
        whole: Parts of the text that must not be divided although they may contain blanks, such as
            paths. Words and commands in backquotes are never divided.
    """
    for part in whole:
        text = text.replace(part, part.replace(" ", _BLANK))
    lines = wrap(
        unbroken(text),
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  " if hanging is None else hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return list(map(with_blanks, lines))


def shortened(text: str, indent: str = "", *, width: int = WIDTH) -> str:
    """Return a text as one line; if it is too long, its end is replaced by an ellipsis."""
    first, *others = wrapped(text, indent, width=width) or [indent]
    if not others:
        return first
    return f"{wrapped(text, indent, width=width - 2)[0]} …"


def unbroken(text: str) -> str:
    """Return text with the blanks in paths and commands replaced, for a layout that wraps it.

    `with_blanks` restores the blanks afterwards.
    """
    return _QUOTED.sub(lambda match: match[0].replace(" ", _BLANK), text)


def with_blanks(text: str) -> str:
    """Return text in which the blanks that `unbroken` has replaced are restored."""
    return text.replace(_BLANK, " ")


def width_of_whole_parts(text: str) -> int:
    """Return the number of columns of the longest path or command in a text; 0 if there is none."""
    words = unbroken(text).split()
    return max((len(word) for word in words if "/" in word or _BLANK in word), default=0)
