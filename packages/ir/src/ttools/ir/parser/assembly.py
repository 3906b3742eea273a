"""Compiles declared assembly formats into functions that read one operation.

A format (see `ttools.ir.dialects.declaration`) is compiled to a list of steps. Each step is a
closure that reads one element of the format; running all steps reads an operation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import ttools.ir as ir
from ttools.ir.dialects import Op
from ttools.ir.parser.attributes import (
    parse_attribute,
    parse_attribute_dictionary,
    parse_constant,
)
from ttools.ir.parser.cursor import Cursor
from ttools.ir.parser.types import parse_type


class OperationState:
    """The parts of an operation that have been read so far."""

    __slots__ = ("attributes", "operands", "regions", "segments", "successors", "types")

    def __init__(self) -> None:
        self.operands: list[ir.Value] = []
        self.attributes: dict[str, ir.Attribute] = {}
        self.types: dict[str, list[ir.Type]] = {}
        self.regions: list[ir.Region] = []
        self.successors: list[tuple[ir.Block, list[ir.Value]]] = []
        self.segments: dict[str, list[ir.Value]] = {}


class OperandReader(Protocol):
    """The methods of the parser that the steps use in addition to the cursor."""

    cursor: Cursor

    def operand(self) -> ir.Value: ...

    def operands(self) -> list[ir.Value]: ...

    def successor(self, state: OperationState) -> None: ...


Step: TypeAlias = Callable[[OperandReader, OperationState], None]
ReadAttribute: TypeAlias = Callable[[Cursor], ir.Attribute]
Starts: TypeAlias = Callable[[str], bool]
"""Decides from the next token whether an optional part is present."""

_PIECE = re.compile(
    r"""\s*(?:
      `(?P<literal>[^`]+)`
    | \$(?P<operand>\w+)(?P<many>\*)?
    | (?P<oilist>oilist\()
    | (?P<kind>[\w-]+)\(\$(?P<name>\w+)(?P<each>\*)?(?:,\s*(?P<prefix>[\w.]+))?\)
    | (?P<word>[a-z-]+)
    | (?P<punctuation>\(|\)\?|\)|\|)
    )""",
    re.VERBOSE,
)

_DIMENSIONS = {"x": 0, "y": 1, "z": 2}
_ROUNDING_MODES = frozenset(
    {"to_nearest_even", "downward", "upward", "toward_zero", "to_nearest_away"}
)


def compile_syntax(syntax: Op) -> Callable[[OperandReader], OperationState]:
    """Return a function that parses the text of an operation between its name and its location.

    In the `OperationState` that the function returns, `types["results"]` are the result types.
    """
    steps = _FormatCompiler(syntax).steps()
    results = _compile_results(syntax.results)
    reorder = syntax.operands
    renames = bool(syntax.enums or syntax.parts)

    def read(reader: OperandReader) -> OperationState:
        state = OperationState()
        for step in steps:
            step(reader, state)
        if reorder:
            order_operands(state, reorder)
        if renames:
            name_attributes(state.attributes, syntax)
        state.types["results"] = results(state)
        return state

    return read


def order_operands(state: OperationState, names: Sequence[str]) -> None:
    """Put operands in the order of the definition and record the number of operands per name."""
    parts = [state.segments.get(name, []) for name in names]
    state.operands = [value for part in parts for value in part]
    state.attributes["operandSegmentSizes"] = tuple(len(part) for part in parts)


def name_attributes(attributes: dict[str, ir.Attribute], syntax: Op) -> None:
    """Replace the numbers of enums by their names, and split attributes into declared parts."""
    for name, names in syntax.enums.items():
        value = attributes.get(name)
        if type(value) is int:
            attributes[name] = names.get(value, value)
    for name, parts in syntax.parts.items():
        whole = attributes.pop(name, None)
        if isinstance(whole, dict):
            attributes |= {parts[key]: value for key, value in whole.items() if key in parts}


class _FormatCompiler:
    """Compiles the pieces of one format by recursive descent."""

    def __init__(self, syntax: Op) -> None:
        assert syntax.format is not None
        self._pieces = list(_PIECE.finditer(syntax.format))
        self._index = 0
        self._by_segment = bool(syntax.operands)

    def steps(self) -> list[Step]:
        return [step for _, step in self._until(None)]

    def _until(self, *ends: str | None) -> list[tuple[Starts, Step]]:
        """Compile the pieces before one of the punctuation marks `ends`, or all remaining pieces.

        Returns:
            For each piece, a test of whether a token can begin it, and the step that reads it.
        """
        parts = []
        while self._index < len(self._pieces):
            piece = self._pieces[self._index]
            if piece["punctuation"] in ends and piece["punctuation"] is not None:
                break
            self._index += 1
            parts.append(self._part(piece))
        return parts

    def _part(self, piece: re.Match[str]) -> tuple[Starts, Step]:
        if literal := piece["literal"]:
            return (lambda token: token == literal), _literal(literal)
        if name := piece["operand"]:
            return _starts_operand, self._operand(name, bool(piece["many"]))
        if piece["oilist"]:
            return _never, self._oilist()
        if kind := piece["kind"]:
            return _never, self._directive(kind, piece)
        if word := piece["word"]:
            return _never, _WORDS[word]
        return _never, self._optional()

    def _optional(self) -> Step:
        parts = self._until(")?")
        self._index += 1
        starts = parts[0][0]
        steps = [step for _, step in parts]

        def read_optional(reader: OperandReader, state: OperationState) -> None:
            if starts(reader.cursor.peek):
                for step in steps:
                    step(reader, state)

        return read_optional

    def _oilist(self) -> Step:
        clauses: list[tuple[Starts, list[Step]]] = []
        while True:
            parts = self._until("|", ")")
            clauses.append((parts[0][0], [step for _, step in parts]))
            self._index += 1
            if self._pieces[self._index - 1]["punctuation"] == ")":
                break

        def read_clauses(reader: OperandReader, state: OperationState) -> None:
            while True:
                token = reader.cursor.peek
                for starts, steps in clauses:
                    if starts(token):
                        for step in steps:
                            step(reader, state)
                        break
                else:
                    return

        return read_clauses

    def _operand(self, name: str, many: bool) -> Step:
        if self._by_segment:

            def read_segment(reader: OperandReader, state: OperationState) -> None:
                state.segments[name] = reader.operands() if many else [reader.operand()]

            return read_segment
        return _read_operands if many else _read_operand

    def _directive(self, kind: str, piece: re.Match[str]) -> Step:
        name = piece["name"]
        if kind == "type":
            return _types(name) if piece["each"] else _type(name)
        if kind == "short-type":
            return _short_type(name, piece["prefix"])
        return _attribute(name, _ATTRIBUTE_KINDS[kind])


def _never(token: str) -> bool:
    return False


def _starts_operand(token: str) -> bool:
    return token[:1] == "%"


def _literal(text: str) -> Step:
    def read_literal(reader: OperandReader, state: OperationState) -> None:
        reader.cursor.expect(text)

    return read_literal


def _read_operand(reader: OperandReader, state: OperationState) -> None:
    state.operands.append(reader.operand())


def _read_operands(reader: OperandReader, state: OperationState) -> None:
    state.operands += reader.operands()


def _type(name: str) -> Step:
    def read_type(reader: OperandReader, state: OperationState) -> None:
        state.types[name] = [reader.cursor.type()]

    return read_type


def _types(name: str) -> Step:
    def read_types(reader: OperandReader, state: OperationState) -> None:
        state.types[name] = reader.cursor.types()

    return read_types


def _short_type(name: str, prefix: str) -> Step:
    def read_short_type(reader: OperandReader, state: OperationState) -> None:
        cursor = reader.cursor
        start = cursor.index
        if cursor.accept("<"):
            while not cursor.accept(">"):
                cursor.index += 1
                if not cursor.peek:
                    cursor.fail("`>`")
            text = "".join(cursor.tokens[start : cursor.index])
            kind = parse_type(f"!{prefix}{text}")
            if kind is None:
                cursor.error(f"`{text}` is not a type `!{prefix}<…>`", start)
            state.types[name] = [kind]
        else:
            state.types[name] = [cursor.type()]

    return read_short_type


def _attribute(name: str, read: ReadAttribute) -> Step:
    def read_attribute(reader: OperandReader, state: OperationState) -> None:
        value = read(reader.cursor)
        if value is not None:
            state.attributes[name] = value

    return read_attribute


def _read_attribute_dictionary(reader: OperandReader, state: OperationState) -> None:
    if reader.cursor.peek == "{":
        state.attributes |= parse_attribute_dictionary(reader.cursor)


def _read_functional_type(reader: OperandReader, state: OperationState) -> None:
    cursor = reader.cursor
    state.types["operands"] = cursor.list("(", cursor.type, ")")
    cursor.expect("->")
    state.types["results"] = cursor.result_types()


def _read_successor(reader: OperandReader, state: OperationState) -> None:
    reader.successor(state)


_WORDS: dict[str, Step] = {
    "attr-dict": _read_attribute_dictionary,
    "functional-type": _read_functional_type,
    "successor": _read_successor,
}


def _flags(cursor: Cursor) -> tuple[str, ...]:
    return tuple(cursor.list("<", cursor.keyword, ">"))


def _words(cursor: Cursor) -> tuple[str, ...]:
    words = [cursor.keyword()]
    while cursor.accept("|"):
        words.append(cursor.keyword())
    return tuple(words)


def _dimension(cursor: Cursor) -> int:
    if cursor.peek not in _DIMENSIONS:
        cursor.fail("`x`, `y` or `z`")
    return _DIMENSIONS[cursor.next()]


def _rounding(cursor: Cursor) -> str | None:
    return cursor.next() if cursor.peek in _ROUNDING_MODES else None


def _presence(cursor: Cursor) -> bool:
    return True


_ATTRIBUTE_KINDS: dict[str, ReadAttribute] = {
    "keyword": Cursor.keyword,
    "string": Cursor.string,
    "symbol": Cursor.symbol,
    "flags": _flags,
    "words": _words,
    "dimension": _dimension,
    "rounding": _rounding,
    "presence": _presence,
    "constant": parse_constant,
    "attribute": parse_attribute,
}


ResultRule: TypeAlias = Callable[[OperationState], list[ir.Type]]


def _compile_results(rules: Sequence[str]) -> ResultRule:
    compiled = [_compile_result(rule) for rule in rules]
    if len(compiled) == 1:
        return compiled[0]
    return lambda state: [kind for rule in compiled for kind in rule(state)]


def _compile_result(rule: str) -> ResultRule:
    if "(" not in rule:
        return lambda state: state.types[rule]
    rule_name, name = rule[:-1].split("(")
    if rule_name == "constant":
        return lambda state: _constant_type(state, name)
    derive = _TYPE_RULES[rule_name]
    return lambda state: [derive(state.types[name][-1])]


def _constant_type(state: OperationState, name: str) -> list[ir.Type]:
    value = state.attributes[name]
    return [value.type] if isinstance(value, ir.Constant) else []


def _pointee(type: ir.Type) -> ir.Type:
    element = ir.element_type(type)
    if not isinstance(element, ir.PointerType):
        return type
    if isinstance(type, ir.TensorType):
        return ir.TensorType(type.shape, element.pointee)
    return element.pointee


def _i1(type: ir.Type) -> ir.Type:
    boolean = ir.IntegerType(1)
    return ir.TensorType(type.shape, boolean) if isinstance(type, ir.TensorType) else boolean


_TYPE_RULES: dict[str, Callable[[ir.Type], ir.Type]] = {
    "pointee": _pointee,
    "i1": _i1,
    "element": ir.element_type,
    "last": lambda kind: kind,
}
