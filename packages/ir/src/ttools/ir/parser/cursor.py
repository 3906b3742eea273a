"""Reads tokens one by one, with errors that name the expected token."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

import ttools.ir as ir
from ttools.core.compilation.string_escapes import unescape
from ttools.ir.parser.lexer import END, ParseError, Source
from ttools.ir.parser.types import parse_type

T = TypeVar("T")

_ADVICE = {
    "#ttg.": "this looks like TTGIR; ttools runs TTIR, the stage before (`kernel.asm['ttir']`)",
}


class Cursor:
    """A position in the tokens of a source."""

    __slots__ = ("index", "source", "tokens")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = source.tokens()
        self.index = 0

    @property
    def peek(self) -> str:
        """The next token, which is not consumed."""
        return self.tokens[self.index]

    def next(self) -> str:
        """Consume and return the next token, or return `END` at the end of the text."""
        token = self.tokens[self.index]
        if token:
            self.index += 1
        return token

    def accept(self, token: str) -> bool:
        """Consume `token` if it comes next, and return whether it did."""
        if self.tokens[self.index] == token:
            self.index += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if self.tokens[self.index] != token:
            self.fail(f"`{token}`")
        self.index += 1

    def fail(self, expected: str) -> NoReturn:
        """Raise a `ParseError` because the next token is not the expected one."""
        token = self.peek
        actual = "the end of the text" if token == END else f"`{token}`"
        self.error(f"expected {expected}, found {actual}")

    def error(self, message: str, index: int | None = None) -> NoReturn:
        """Raise a `ParseError` at the token with the given index, by default the next token."""
        at = self.index if index is None else index
        for sign, advice in _ADVICE.items():
            if sign in self.source.text:
                message = f"{message} ({advice})"
        raise ParseError(message, self.source, self.source.offset(at), len(self.tokens[at]))

    def keyword(self, expected: str = "a keyword") -> str:
        token = self.tokens[self.index]
        if not (token[:1].isalpha() or token[:1] == "_"):
            self.fail(expected)
        self.index += 1
        return token

    def string(self) -> str:
        token = self.tokens[self.index]
        if token[:1] != '"' or len(token) < 2:
            self.fail("a string")
        self.index += 1
        return unescape(token[1:-1])

    def symbol(self) -> str:
        """Return a symbol name (`@add`, `@"a b"`) without its `@`."""
        if self.accept("@"):
            return self.string()
        token = self.tokens[self.index]
        if token[:1] != "@":
            self.fail("a symbol (`@name`)")
        self.index += 1
        return token[1:]

    def integer(self) -> int:
        token = self.tokens[self.index]
        try:
            value = int(token, 0)
        except ValueError:
            self.fail("an integer")
        self.index += 1
        return value

    def type(self) -> ir.Type:
        kind = parse_type(self.tokens[self.index])
        if kind is None:
            self.fail("a type")
        self.index += 1
        return kind

    def types(self) -> list[ir.Type]:
        """Return the types that come next, separated by commas; the list may be empty."""
        if parse_type(self.peek) is None:
            return []
        types = [self.type()]
        while self.accept(","):
            types.append(self.type())
        return types

    def result_types(self) -> list[ir.Type]:
        """Return the types after `->`: one, or any number in parentheses."""
        return self.list("(", self.type, ")") if self.peek == "(" else [self.type()]

    def list(self, open: str, item: Callable[[], T], close: str) -> list[T]:
        """Parse `open item, item… close`, where the number of items may be 0."""
        self.expect(open)
        items: list[T] = []
        if self.accept(close):
            return items
        items.append(item())
        while self.accept(","):
            items.append(item())
        if not self.accept(close):
            self.fail(f"`,` or `{close}`")
        return items
