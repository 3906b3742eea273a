"""The syntax of inline PTX: parses text into instructions, register declarations and blocks.

Comments are dropped. Names of registers and instructions are not checked here; `machine.py` looks
them up. See "Statements" in the PTX ISA.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(
    r"(?P<number>-?(?:0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?"
    r"|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?))(?![\w.$])"
    r"|(?P<name>[A-Za-z_%$.][\w$%.]*(?:::[\w.]+)*)"
    r"|(?P<mark>[{}\[\](),;:@!|<>+\-=&*])"
)


class PtxSyntaxError(Exception):
    """The text is not in the supported syntax; the message contains the statement."""


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a register; `negated` is True for a predicate that follows `!`."""

    text: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """A literal as written: `3`, `0x7f`, `1.5`, `0f3F800000`."""

    text: str


@dataclass(frozen=True, slots=True)
class Braces:
    """`{a, b}`: the parts of a wider register, the part with the lowest bits first."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`p|q`: the two destinations of `setp`."""

    first: Name
    second: Name


@dataclass(frozen=True, slots=True)
class Address:
    """`[…]`: an address in memory."""


Operand = Name | Number | Braces | Pair | Address


@dataclass(frozen=True, slots=True)
class Instruction:
    """`@guard opcode.modifiers operands;`"""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Name | None
    text: str


@dataclass(frozen=True, slots=True)
class Declaration:
    """`.reg .type names;`"""

    type: str
    names: tuple[str, ...]


@dataclass(slots=True)
class Scope:
    """A block `{ … }`; its declarations are local."""

    statements: list[Statement] = field(default_factory=list)


Statement = Instruction | Declaration | Scope


def parse(text: str) -> Scope:
    """Parse the statements of an inline assembly string.

    Raises:
        PtxSyntaxError: The text is not in the supported syntax.
    """
    return _Parser(_COMMENT.sub(" ", text)).scope(outermost=True)


class _Parser:
    """A recursive-descent parser with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._kind, self._token, self._start = "", "", 0
        self._advance()

    def _advance(self) -> str:
        """Move to the next token; return the previous one."""
        left = self._token
        rest = self._text[self._position :]
        self._start = self._position + len(rest) - len(rest.lstrip())
        if self._start == len(self._text):
            self._kind, self._token = "end", ""
            return left
        match = _TOKEN.match(self._text, self._start)
        if match is None:
            raise PtxSyntaxError(self._line())
        self._kind, self._token = str(match.lastgroup), match.group()
        self._position = match.end()
        return left

    def _line(self) -> str:
        """Return the statement around the current token."""
        start = max(self._text.rfind(mark, 0, self._start) for mark in ";{}\n") + 1
        return self._text[start:].split("\n", 1)[0].strip()

    def _take(self, token: str) -> bool:
        if self._token != token or self._kind == "end":
            return False
        self._advance()
        return True

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise PtxSyntaxError(self._line())

    def _name(self) -> str:
        if self._kind != "name":
            raise PtxSyntaxError(self._line())
        return self._advance()

    # ---- statements
    def scope(self, *, outermost: bool = False) -> Scope:
        scope = Scope()
        while self._token != "}":
            if self._kind == "end":
                if outermost:
                    return scope
                raise PtxSyntaxError("a block without its closing brace")
            if self._take("{"):
                scope.statements.append(self.scope())
                self._expect("}")
            elif not self._take(";"):
                scope.statements += self._statement()
        if outermost:
            raise PtxSyntaxError("a closing brace without its block")
        return scope

    def _statement(self) -> list[Statement]:
        start = self._start
        guard = None
        if self._take("@"):
            negated = self._take("!")
            guard = Name(self._name(), negated)
        word = self._name()
        if self._token == ":":
            raise PtxSyntaxError(f"label {word}")
        if word.startswith("."):
            return self._declarations(word)
        opcode, *modifiers = word.split(".")
        operands: list[Operand] = []
        while self._token != ";" and self._kind != "end":
            if operands:
                self._expect(",")
            operands.append(self._operand())
        text = " ".join(self._text[start : self._start].split())
        if self._kind != "end":
            self._advance()
        return [Instruction(opcode, tuple(modifiers), tuple(operands), guard, text)]

    def _declarations(self, word: str) -> list[Statement]:
        if word != ".reg":
            raise PtxSyntaxError(self._line())
        type = self._name()
        names: list[str] = []
        while True:
            name = self._name()
            if self._take("<"):
                count = self._advance()
                if not count.isdigit():
                    raise PtxSyntaxError(self._line())
                names += [f"{name}{i}" for i in range(int(count))]
                self._expect(">")
            else:
                names.append(name)
            if self._take(";"):
                return [Declaration(type.removeprefix("."), tuple(names))]
            self._expect(",")

    # ---- operands
    def _operand(self) -> Operand:
        if self._take("{"):
            parts = [self._operand()]
            while self._take(","):
                parts.append(self._operand())
            self._expect("}")
            return Braces(tuple(parts))
        if self._take("["):
            while self._kind != "end" and not self._take("]"):
                self._advance()
            return Address()
        if self._kind == "number":
            return Number(self._advance())
        if self._take("!"):
            return Name(self._name(), negated=True)
        first = Name(self._name())
        return Pair(first, Name(self._name())) if self._take("|") else first
