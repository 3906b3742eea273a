"""Splitting of TTIR text into tokens, and errors that point to a position in the text.

A token is a string, whose first character determines its kind. Three constructs that MLIR's lexer
splits are single tokens here, because they make up most of a module and can be looked up as a
whole: a shaped or dialect type (`tensor<4x!tt.ptr<f32>>`), a reference to a location
(`loc(#loc4)`), and one of several results of an operation (`%acc#1`). The positions of tokens are
not stored; they are computed again when an error is reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice

from ttools.core.errors import TtoolsError

END = ""
"""The token that marks the end of the text."""


def _nested(depth: int) -> str:
    """Return a pattern for `<…>` with up to `depth` levels of brackets inside."""
    inner = _nested(depth - 1) if depth else r"(?!)"
    return rf"<(?:[^<>\n]|{inner})*>"


_TOKEN = re.compile(
    rf"""
    (?: [ \t\r\n] | //[^\n]* (?: \n | \Z ) )*
    (
      % [\w$.-]+ (?: \# \d+ )?                             # an SSA value
    | loc\( \# [\w$.-]+ \)                                 # a reference to a location
    | -> | ::
    | (?: tensor | vector | memref | tuple ) {_nested(5)}  # a shaped type
    | [A-Za-z_] [\w$.]*                                    # a name or a keyword
    | ! [\w$.]+ (?: {_nested(5)} )?                        # a dialect type
    | -? 0x [0-9A-Fa-f]+
    | -? \d+ (?: \. \d* (?: [eE] [-+]? \d+ )? )?
    | " (?: [^"\\\n] | \\ . )* "
    | [@^\#] [\w$.-]+                                      # a symbol, a block, an alias
    | \S | \Z
    )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Source:
    """A part of a TTIR text.

    Attributes:
        text: The whole text, from which the positions in errors are computed.
        file: Name of the text in errors.
        start, end: Offsets in `text` between which tokens are read.
    """

    text: str
    file: str
    start: int
    end: int

    def tokens(self) -> list[str]:
        """Return all tokens, `END` last."""
        return _TOKEN.findall(self.text, self.start, self.end)

    def offset(self, index: int) -> int:
        """Return the offset in the text at which the token number `index` begins."""
        match = next(islice(_TOKEN.finditer(self.text, self.start, self.end), index, None))
        return match.start(1) if match[1] else len(self.text[: self.end].rstrip())


class ParseError(TtoolsError):
    """The text is not TTIR as Triton prints it.

    Attributes:
        file, line, column: Position of the error in the TTIR text, counted from 1.
    """

    def __init__(self, message: str, source: Source, offset: int, length: int) -> None:
        super().__init__(message)
        before = source.text[:offset]
        self.file = source.file
        self.line = before.count("\n") + 1
        self.column = offset - (before.rfind("\n") + 1) + 1
        self._excerpt = source.text.splitlines()[self.line - 1 : self.line]
        self._length = length

    def _text(self) -> str:
        lines = [f"{self.file}:{self.line}:{self.column}: error: {self.message}"]
        for text in self._excerpt:
            lines.append(f"{self.line:5} | {text}")
            lines.append(f"{'':5} | {' ' * (self.column - 1)}{'^' * max(1, self._length)}")
        return "\n".join(lines)
