"""Parser of operations, blocks, regions and modules.

It also manages the scopes of SSA names. Names are unique along a chain of nested regions, but
sibling regions may use the same name, and in a function of several blocks a use may come before the
definition in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import NoReturn

import ttools.ir as ir
from ttools.core.errors import UnsupportedError
from ttools.core.location import SourceLocation
from ttools.core.process.phases import tick
from ttools.ir.dialects import declared
from ttools.ir.parser.assembly import (
    OperandReader,
    OperationState,
    compile_syntax,
    name_attributes,
)
from ttools.ir.parser.attributes import parse_attribute_dictionary
from ttools.ir.parser.cursor import Cursor
from ttools.ir.parser.lexer import Source
from ttools.ir.parser.locations import LocationTable, first_column_of
from ttools.ir.parser.placeholder_prints import DESCRIPTOR_MARK, take_marks
from ttools.ir.parser.polls import POLL, expand_polls
from ttools.ir.parser.structured import STRUCTURED, Argument, parse_function

_ALIAS = re.compile(r"^(#[\w$.-]+)[ \t]*=[ \t]*(.*)$", re.MULTILINE)
_MODULE = re.compile(r"^[ \t]*(?:module|tt\.func)\b", re.MULTILINE)

# Placeholder for the type of a value that was used but has not been defined yet.
_UNDEFINED = ir.OpaqueType("?")


def parse_module(text: str, file: str = "<ttir>", *, first_column: int | None = None) -> ir.Module:
    """Parse TTIR as Triton prints it with `module.str()` or keeps it in `kernel.asm["ttir"]`.

    Prints that ttools has inserted as marks are replaced by the operations that they stand for, and
    polls are replaced by loops. Otherwise the result is that of `read_module`, which takes the same
    arguments and raises the same errors.
    """
    module = read_module(text, file, first_column=first_column)
    if DESCRIPTOR_MARK in text:
        take_marks(module)
    if POLL in text:
        expand_polls(module)
    return module


def read_module(text: str, file: str = "<ttir>", *, first_column: int | None = None) -> ir.Module:
    """Read TTIR without replacing any operations.

    An attribute that is missing in the text has its default, and is absent from `attributes`.
    Regions that MLIR leaves empty (an `scf.if` without else) are absent; terminators that MLIR does
    not print are present. Combine functions, such as that of `tt.reduce`, are nested regions.

    Args:
        text: Text of the module; locations may be missing.
        file: Name of the text in errors.
        first_column: Number of the first column of a line in locations, 0 or 1. By default it is
            the result of `first_column_of`.

    Raises:
        ParseError: The text is not TTIR.
        UnsupportedError: The text contains an operation that ttools does not support.
    """
    start = _MODULE.search(text)
    first = start.start() if start else 0
    aliases = {match[1]: match.span(2) for match in _ALIAS.finditer(text)}
    after = _ALIAS.search(text, first)
    source = Source(text, file, first, after.start() if after else len(text))
    if first_column is None:
        first_column = first_column_of(text)
    module = ModuleParser(source, LocationTable(text, file, aliases, first_column)).module()
    module.first_column = first_column
    return module


@cache
def _reader(name: str) -> Callable[[OperandReader], OperationState] | None:
    """Return the compiled format of an operation; None if it declares no format."""
    op = declared(name)
    return None if op.format is None else compile_syntax(op)


class ModuleParser:
    """Parses one module by recursive descent."""

    __slots__ = ("_blocks", "_names", "_undefined", "_values", "cursor", "locations")

    def __init__(self, source: Source, locations: LocationTable) -> None:
        self.cursor = Cursor(source)
        self.locations = locations
        self._values: dict[str, ir.Value] = {}
        # Positions of the first use of values that are not defined yet.
        self._undefined: dict[str, int] = {}
        # For each open region, the values that are defined in it, and its blocks by label.
        self._names: list[list[str]] = []
        self._blocks: list[dict[str, ir.Block]] = []

    def module(self) -> ir.Module:
        """Parse the whole text: a module, or functions without a module around them."""
        cursor = self.cursor
        if not cursor.accept("module"):
            return self._functions({}, "")
        if cursor.peek[:1] == "@":
            cursor.symbol()
        attributes = parse_attribute_dictionary(cursor) if cursor.accept("attributes") else {}
        cursor.expect("{")
        module = self._functions(attributes, "}")
        cursor.expect("}")
        self.location()
        if cursor.peek:
            cursor.fail("the end of the module")
        return module

    def _functions(self, attributes: dict[str, ir.Attribute], end: str) -> ir.Module:
        functions: dict[str, ir.Operation] = {}
        cursor = self.cursor
        while cursor.peek != end:
            if cursor.peek != "tt.func":
                self._reject_at_top_level(end)
            cursor.index += 1
            function = self._finish("tt.func", parse_function(self), None)
            name = str(function.attributes["sym_name"])
            if name in functions:
                cursor.error(f"`@{name}` is defined twice", cursor.index - 1)
            functions[name] = function
        if not functions:
            cursor.fail("`tt.func`" if end else "`module` or `tt.func`")
        return ir.Module(functions, attributes)

    def _reject_at_top_level(self, end: str) -> NoReturn:
        token = self.cursor.peek
        if not end or "." not in token:
            self.cursor.fail("`tt.func`" if end else "`module` or `tt.func`")
        raise UnsupportedError(f"operation `{token}` outside of a function", self._location_ahead())

    # Operations

    def operation(self, parent: ir.Block) -> ir.Operation:
        """Parse one operation with its results, regions and location."""
        tick()
        cursor = self.cursor
        results = self._result_names() if cursor.tokens[cursor.index][:1] == "%" else []
        at = cursor.index
        name = cursor.next()
        if name[:1] == '"':
            name = name[1:-1]
            state = self._generic(name)
        elif read := _reader(name):
            state = read(self)
        elif structured := STRUCTURED.get(name):
            state = structured(self)
        else:
            self._reject_operation(name, at)
        operation = self._finish(name, state, parent)
        types = state.types.get("results", [])
        if len(types) != len(results):
            cursor.error(
                f"`{name}` has {len(types)} results, but {len(results)} names are given", at
            )
        for index, (token, kind) in enumerate(zip(results, types, strict=True)):
            value = self.define(token, kind, operation, index, operation.location)
            operation.results.append(value)
        return operation

    def _finish(self, name: str, state: OperationState, parent: ir.Block | None) -> ir.Operation:
        """Make the operation from its parts, and read its location."""
        location = self.location()
        operation = ir.Operation(
            name,
            state.operands,
            [],
            state.attributes,
            state.regions,
            state.successors,
            location,
            parent,
        )
        for index, value in enumerate(state.operands):
            value.uses.append((operation, index))
        for region in state.regions:
            region.parent = operation
            # Arguments and terminators that MLIR does not print have no location in the text.
            for argument in region.entry.arguments:
                argument.location = argument.location or location
            if region.entry.operations and region.entry.terminator.location is None:
                region.entry.terminator.location = location
        return operation

    def _result_names(self) -> list[str]:
        """Parse `%a = `, `%a:2 = ` (its results are `%a#0` and `%a#1`), `%a, %b = `."""
        cursor = self.cursor
        names: list[str] = []
        while True:
            token = cursor.peek
            if token[:1] != "%" or "#" in token:
                cursor.fail("the name of a result")
            cursor.index += 1
            if cursor.accept(":"):
                names += (f"{token}#{index}" for index in range(cursor.integer()))
            else:
                names.append(token)
            if not cursor.accept(","):
                cursor.expect("=")
                return names

    def _generic(self, name: str) -> OperationState:
        """Parse `"name"(operands)[successors] <{properties}> ({regions}) {attributes} : type`."""
        cursor = self.cursor
        state = OperationState()
        state.operands = cursor.list("(", self.operand, ")")
        successors = cursor.list("[", self._label, "]") if cursor.peek == "[" else []
        if cursor.accept("<"):
            state.attributes |= parse_attribute_dictionary(cursor)
            cursor.expect(">")
        if cursor.peek == "(":
            state.regions = cursor.list("(", self.region, ")")
            state.regions = [region for region in state.regions if region.blocks]
        if cursor.peek == "{":
            state.attributes |= parse_attribute_dictionary(cursor)
        cursor.expect(":")
        operand_types = cursor.list("(", cursor.type, ")")
        if len(operand_types) != len(state.operands):
            count = len(state.operands)
            cursor.error(f"`{name}` has {count} operands, but {len(operand_types)} types")
        cursor.expect("->")
        state.types["results"] = cursor.result_types()
        name_attributes(state.attributes, declared(name))
        if successors:
            state.successors = _forwarded(state, successors)
        return state

    def _reject_operation(self, name: str, at: int) -> NoReturn:
        cursor = self.cursor
        cursor.index = at
        if not (name[:1].isalpha() and "." in name):
            cursor.fail("an operation")
        raise UnsupportedError(f"operation `{name}`", self._location_ahead())

    def _location_ahead(self) -> SourceLocation | None:
        """Return the location at the end of the operation that starts here, whatever its syntax."""
        cursor, depth = self.cursor, 0
        while cursor.peek:
            token = cursor.peek
            if depth == 0 and (token == "loc" or token.startswith("loc(")):
                return self.locations.parse(cursor)
            depth += (token in _OPENING) - (token in _CLOSING)
            if depth < 0:
                break
            cursor.index += 1
        return None

    # Parts of operations

    def operand(self) -> ir.Value:
        cursor = self.cursor
        token = cursor.tokens[cursor.index]
        value = self._values.get(token)
        if value is None:
            if token[:1] != "%":
                cursor.fail("a value (`%name`)")
            self._undefined[token] = cursor.index
            # The owner is set when the value is defined.
            value = ir.Value(_UNDEFINED, token[1:], ir.Block(), 0)
            self._values[token] = value
        cursor.index += 1
        return value

    def operands(self) -> list[ir.Value]:
        """Parse any number of values between commas."""
        if self.cursor.peek[:1] != "%":
            return []
        values = [self.operand()]
        while self.cursor.accept(","):
            values.append(self.operand())
        return values

    def define(
        self,
        token: str,
        type: ir.Type,
        owner: ir.Operation | ir.Block,
        index: int,
        location: SourceLocation | None,
    ) -> ir.Value:
        """Define the value `token`, which may already have been used, in the innermost region."""
        self._names[-1].append(token)
        value = self._values.get(token)
        if value is None:
            value = ir.Value(type, token[1:], owner, index, location, [])
            self._values[token] = value
            return value
        if self._undefined.pop(token, None) is None:
            self.cursor.error(f"`{token}` is defined twice", self.cursor.index - 1)
        value.define(type, owner, index, location)
        return value

    def location(self) -> SourceLocation | None:
        """Return the trailing `loc(…)`, if any."""
        cursor = self.cursor
        token = cursor.tokens[cursor.index]
        if token.startswith("loc("):
            cursor.index += 1
            return self.locations.resolve(token[4:-1], cursor)
        return self.locations.parse(cursor) if token == "loc" else None

    def successor(self, state: OperationState) -> None:
        """Parse `^bb1(%a, %b : i32, f32)`."""
        block = self._label()
        values: list[ir.Value] = []
        if self.cursor.accept("("):
            values = self.operands()
            self.cursor.expect(":")
            self.cursor.types()
            self.cursor.expect(")")
        state.operands += values
        state.successors.append((block, values))

    def _label(self) -> ir.Block:
        """Return the block with the label that comes next; the block may be defined later."""
        token = self.cursor.peek
        if token[:1] != "^":
            self.cursor.fail("a block (`^name`)")
        self.cursor.index += 1
        return self._blocks[-1].setdefault(token, ir.Block())

    # Regions

    def region(self, arguments: Sequence[Argument] = ()) -> ir.Region:
        """Parse `{ operations and labelled blocks }`; `arguments` are those of the entry block."""
        cursor = self.cursor
        region = ir.Region()
        self._names.append([])
        self._blocks.append({})
        start = cursor.index
        cursor.expect("{")
        tokens = cursor.tokens
        block = ir.Block([], [], region)
        if arguments or (cursor.peek not in ("}", "") and cursor.peek[0] != "^"):
            region.blocks.append(block)
            self._define_arguments(block, arguments)
        while (token := tokens[cursor.index]) != "}":
            if token[:1] == "^":
                block = self._labelled_block(region)
            elif token:
                block.operations.append(self.operation(block))
            else:
                cursor.error("this `{` is never closed", start)
        cursor.index += 1
        for label, target in self._blocks.pop().items():
            if target.parent is None:
                cursor.error(f"the block `{label}` does not exist", cursor.index - 1)
        for name in self._names.pop():
            del self._values[name]
        return region

    def _labelled_block(self, region: ir.Region) -> ir.Block:
        """Parse `^name(%a: i32 loc(…), …):`."""
        cursor = self.cursor
        block = self._label()
        if block.parent is not None:
            cursor.error("this block is defined twice", cursor.index - 1)
        block.parent = region
        region.blocks.append(block)
        if cursor.peek == "(":
            self._define_arguments(block, cursor.list("(", self._argument, ")"))
        cursor.expect(":")
        return block

    def _argument(self) -> Argument:
        cursor = self.cursor
        token = cursor.next()
        cursor.expect(":")
        return token, cursor.type(), self.location()

    def _define_arguments(self, block: ir.Block, arguments: Sequence[Argument]) -> None:
        for index, (token, kind, location) in enumerate(arguments):
            block.arguments.append(self.define(token, kind, block, index, location))

    def reject_undefined(self) -> None:
        """Check at the end of a function that all values that were used are defined."""
        for token, index in self._undefined.items():
            self.cursor.error(f"`{token}` is not defined", index)


_OPENING = frozenset("({[")
_CLOSING = frozenset(")}]")


def _forwarded(
    state: OperationState, blocks: Sequence[ir.Block]
) -> list[tuple[ir.Block, list[ir.Value]]]:
    """Return the operands that a branch in generic form passes to each of its target blocks.

    These operands are the last segments of the branch's operands.
    """
    sizes = state.attributes.get("operandSegmentSizes")
    if not isinstance(sizes, tuple):
        return [(block, list(state.operands)) for block in blocks]
    end = len(state.operands)
    pairs = []
    for block, size in zip(reversed(blocks), reversed(sizes), strict=False):
        count = size if isinstance(size, int) else 0
        pairs.append((block, state.operands[end - count : end]))
        end -= count
    return pairs[::-1]
