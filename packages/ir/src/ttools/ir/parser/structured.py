"""Parser of operations with a custom syntax: functions and control flow.

Each function reads the text of one operation between its name and its location.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import ttools.ir as ir
from ttools.core.location import SourceLocation
from ttools.ir.parser.assembly import OperandReader, OperationState
from ttools.ir.parser.attributes import parse_attribute_dictionary

Argument: TypeAlias = tuple[str, ir.Type, SourceLocation | None]
"""The token, type and location of an argument of a block."""

_INDEX = ir.IntegerType(64)


class RegionReader(OperandReader, Protocol):
    """The methods of the parser that these functions use."""

    def region(self, arguments: Sequence[Argument] = ()) -> ir.Region: ...

    def location(self) -> SourceLocation | None: ...

    def reject_undefined(self) -> None: ...


def parse_function(reader: RegionReader) -> OperationState:
    """Parse `public @name(%x: i32 {attributes} loc(…)) -> (f32) attributes {…} {body}`.

    The operation has the attributes `sym_name`, `visibility`, `arg_attrs` and `result_types` in
    addition to those in the text.
    """
    cursor = reader.cursor
    state = OperationState()
    # MLIR leaves out the default visibility.
    visibility = "public" if cursor.peek[:1] == "@" else cursor.keyword("`public` or `private`")
    name = cursor.symbol()
    parameters = cursor.list("(", lambda: _parameter(reader), ")")
    results: list[ir.Type] = []
    if cursor.accept("->"):
        results = cursor.result_types()
    if cursor.accept("attributes"):
        state.attributes |= parse_attribute_dictionary(cursor)
    state.attributes |= {
        "sym_name": name,
        "visibility": visibility,
        "arg_attrs": tuple(attributes for _, attributes in parameters),
        "result_types": tuple(results),
    }
    if cursor.peek == "{":
        state.regions.append(reader.region([argument for argument, _ in parameters]))
        reader.reject_undefined()
    return state


def _parameter(reader: RegionReader) -> tuple[Argument, dict[str, ir.Attribute]]:
    """Parse `%x: i32 {attributes} loc(…)`, or a type alone in a declaration without body."""
    cursor = reader.cursor
    token = ""
    if cursor.peek[:1] == "%":
        token = cursor.next()
        cursor.expect(":")
    kind = cursor.type()
    attributes = parse_attribute_dictionary(cursor) if cursor.peek == "{" else {}
    return (token, kind, reader.location()), attributes


Reader: TypeAlias = "Callable[[RegionReader], OperationState]"
STRUCTURED: dict[str, Reader] = {}


def _syntax_of(name: str) -> Callable[[Reader], Reader]:
    """Register the decorated function as the parser of an operation."""

    def register(reader: Reader) -> Reader:
        STRUCTURED[name] = reader
        return reader

    return register


@_syntax_of("scf.for")
def _parse_for(reader: RegionReader) -> OperationState:
    """Parse a counted loop.

    The format is
    `unsigned %i = %a to %b step %c iter_args(%x = %y) -> (f32) : i32 {body} {attributes}`.
    """
    cursor = reader.cursor
    state = OperationState()
    if cursor.accept("unsigned"):
        state.attributes["unsignedCmp"] = True
    variable = _binder(reader)
    for separator in ("=", "to", "step"):
        cursor.expect(separator)
        state.operands.append(reader.operand())
    names: list[str] = []
    results: list[ir.Type] = []
    if cursor.accept("iter_args"):
        names = _bind_initial_values(reader, state)
        cursor.expect("->")
        results = cursor.result_types()
    kind = cursor.type() if cursor.accept(":") else _INDEX
    carried = _arguments(reader, names, results)
    state.regions.append(_terminated(reader.region([(variable, kind, None), *carried])))
    _read_attributes(reader, state)
    state.types["results"] = results
    return state


@_syntax_of("scf.while")
def _parse_while(reader: RegionReader) -> OperationState:
    """Parse `(%x = %y) : (f32) -> (f32) {before} do {after} attributes {…}`."""
    cursor = reader.cursor
    state = OperationState()
    names = _bind_initial_values(reader, state) if cursor.peek == "(" else []
    cursor.expect(":")
    types = cursor.list("(", cursor.type, ")")
    cursor.expect("->")
    state.types["results"] = cursor.result_types()
    state.regions.append(reader.region(_arguments(reader, names, types)))
    cursor.expect("do")
    state.regions.append(_terminated(reader.region()))
    if cursor.accept("attributes"):
        state.attributes |= parse_attribute_dictionary(cursor)
    return state


@_syntax_of("scf.if")
def _parse_if(reader: RegionReader) -> OperationState:
    """Parse `%condition -> (f32) {then} else {else} {attributes}`."""
    cursor = reader.cursor
    state = OperationState()
    state.operands.append(reader.operand())
    state.types["results"] = cursor.result_types() if cursor.accept("->") else []
    state.regions.append(_terminated(reader.region()))
    if cursor.accept("else"):
        state.regions.append(_terminated(reader.region()))
    _read_attributes(reader, state)
    return state


@_syntax_of("scf.execute_region")
def _parse_execute_region(reader: RegionReader) -> OperationState:
    """Parse `no_inline -> f32 {body} {attributes}`."""
    cursor = reader.cursor
    state = OperationState()
    if cursor.accept("no_inline"):
        state.attributes["no_inline"] = True
    state.types["results"] = cursor.result_types() if cursor.accept("->") else []
    state.regions.append(reader.region())
    _read_attributes(reader, state)
    return state


@_syntax_of("cf.switch")
def _parse_switch(reader: RegionReader) -> OperationState:
    """Parse `%flag : i32, [default: ^bb1(%a : f32), 42: ^bb2] {attributes}`."""
    cursor = reader.cursor
    state = OperationState()
    state.operands.append(reader.operand())
    cursor.expect(":")
    cursor.type()
    cursor.expect(",")
    cases: list[int] = []

    def case() -> None:
        if not cursor.accept("default"):
            cases.append(cursor.integer())
        cursor.expect(":")
        reader.successor(state)

    cursor.list("[", case, "]")
    _read_attributes(reader, state)
    state.attributes["case_values"] = tuple(cases)
    return state


@_syntax_of("scf.index_switch")
def _parse_index_switch(reader: RegionReader) -> OperationState:
    """Parse `%value {attributes} -> f32 case 2 {…} default {…}`; the default region comes first."""
    cursor = reader.cursor
    state = OperationState()
    state.operands.append(reader.operand())
    _read_attributes(reader, state)
    state.types["results"] = cursor.result_types() if cursor.accept("->") else []
    cases: list[int] = []
    while cursor.accept("case"):
        cases.append(cursor.integer())
        state.regions.append(_terminated(reader.region()))
    cursor.expect("default")
    state.regions.insert(0, _terminated(reader.region()))
    state.attributes["cases"] = tuple(cases)
    return state


def _bind_initial_values(reader: RegionReader, state: OperationState) -> list[str]:
    """Parse `(%x = %y, …)`: return the names of arguments, and add the values to the operands."""
    cursor = reader.cursor

    def bind() -> str:
        name = _binder(reader)
        cursor.expect("=")
        state.operands.append(reader.operand())
        return name

    return cursor.list("(", bind, ")")


def _binder(reader: RegionReader) -> str:
    token = reader.cursor.peek
    if token[:1] != "%":
        reader.cursor.fail("the name of an argument (`%name`)")
    reader.cursor.index += 1
    return token


def _arguments(
    reader: RegionReader, names: Sequence[str], types: Sequence[ir.Type]
) -> list[Argument]:
    if len(names) != len(types):
        reader.cursor.error(f"{len(names)} carried values, but {len(types)} types")
    return [(name, kind, None) for name, kind in zip(names, types, strict=True)]


def _read_attributes(reader: RegionReader, state: OperationState) -> None:
    if reader.cursor.peek == "{":
        state.attributes |= parse_attribute_dictionary(reader.cursor)


def _terminated(region: ir.Region) -> ir.Region:
    """Add the `scf.yield` that MLIR does not print if it yields no values."""
    if not region.blocks:
        region.blocks.append(ir.Block([], [], region))
    block = region.blocks[-1]
    if not block.operations or block.operations[-1].name != "scf.yield":
        block.operations.append(ir.Operation("scf.yield", parent=block))
    return region
