"""Parser of attribute values, including dense constants.

Values become Python objects (see `ir.Attribute`): the type of a typed integer is dropped, a `unit`
attribute becomes True, and arrays become tuples. A dialect attribute (`#tt.cache_policy<…>`)
becomes a dictionary if it has the form `#name<key = value, …>`, and otherwise remains text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import ttools.ir as ir
from ttools.core.compilation.string_escapes import unescape
from ttools.ir.parser.cursor import Cursor
from ttools.ir.parser.floats import FORMATS
from ttools.ir.parser.lexer import ParseError

_BOOLEANS = {"true": True, "false": False}
_HEX = re.compile(r"-?0x[0-9A-Fa-f]+")

# The literal of a dense constant: its shape and the tokens of its elements.
_Literal: TypeAlias = tuple[tuple[int, ...], list[str]]


def parse_attribute_dictionary(cursor: Cursor) -> dict[str, ir.Attribute]:
    """Parse `{name = value, flag, "quoted.name" = value}`."""
    return dict(cursor.list("{", lambda: _entry(cursor), "}"))


def _entry(cursor: Cursor) -> tuple[str, ir.Attribute]:
    name = cursor.string() if cursor.peek.startswith('"') else cursor.keyword("an attribute name")
    return name, parse_attribute(cursor) if cursor.accept("=") else True


def parse_attribute(cursor: Cursor) -> ir.Attribute:
    """Parse any attribute value."""
    token = cursor.peek
    if parse := _BY_TOKEN.get(token):
        return parse(cursor)
    first = token[:1]
    if first.isdigit() or first == "-":
        return _number(cursor)
    if first == '"':
        return cursor.string()
    if first == "@":
        return cursor.symbol()
    if first == "#":
        return _dialect_attribute(cursor)
    return cursor.type()


def _number(cursor: Cursor) -> ir.Attribute:
    start = cursor.index
    token = cursor.next()
    kind = cursor.type() if cursor.accept(":") else None
    try:
        if not isinstance(kind, ir.FloatType):
            return float(token) if "." in token else int(token, 0)
        if _HEX.fullmatch(token):
            return ir.Constant(kind, (int(token, 16),))
        return float(token)
    except ValueError:
        return cursor.error(f"`{token}` is not a number", start)


def _boolean(cursor: Cursor) -> bool:
    value = _BOOLEANS[cursor.next()]
    if cursor.accept(":"):
        cursor.type()
    return value


def _unit(cursor: Cursor) -> bool:
    cursor.next()
    return True


def _list(cursor: Cursor) -> tuple[ir.Attribute, ...]:
    return tuple(cursor.list("[", lambda: parse_attribute(cursor), "]"))


def _array(cursor: Cursor) -> tuple[ir.Attribute, ...]:
    """Parse `array<i32: 1, 2>`; an empty one is `array<i32>`."""
    cursor.expect("array")
    cursor.expect("<")
    cursor.type()
    values: list[ir.Attribute] = []
    while not cursor.accept(">"):
        cursor.expect("," if values else ":")
        values.append(parse_attribute(cursor))
    return tuple(values)


def _dialect_attribute(cursor: Cursor) -> ir.Attribute:
    """Parse `#name<key = value, …>` as a dictionary, any other `#name` or `#name<…>` as text."""
    start = cursor.index
    cursor.index += 1
    if cursor.peek == "<":
        try:
            return dict(cursor.list("<", lambda: _parameter(cursor), ">"))
        except ParseError:
            pass
    cursor.index = start
    parts = [cursor.next()]
    depth = 0
    while depth or cursor.peek == "<":
        token = cursor.next()
        if not token:
            cursor.fail("`>`")
        depth += {"<": 1, ">": -1}.get(token, 0)
        parts.append(token)
    return "".join(parts)


def _parameter(cursor: Cursor) -> tuple[str, ir.Attribute]:
    name = cursor.keyword()
    cursor.expect("=")
    token = cursor.peek
    if token[:1].isalpha() and token not in _BY_TOKEN:
        return name, cursor.keyword()
    return name, parse_attribute(cursor)


_BY_TOKEN: dict[str, Callable[[Cursor], ir.Attribute]] = {
    "true": _boolean,
    "false": _boolean,
    "unit": _unit,
    "[": _list,
    "{": parse_attribute_dictionary,
    "array": _array,
    "dense": lambda cursor: parse_constant(cursor),
}


def parse_constant(cursor: Cursor) -> ir.Constant:
    """Parse `1 : i32`, `true`, `0x7F800000 : f32`, `dense<[1, 2]> : tensor<2xi32>`."""
    start = cursor.index
    if cursor.accept("dense"):
        shape, elements = _dense_literal(cursor)
        cursor.expect(":")
        return _dense_constant(cursor, start, cursor.type(), shape, elements)
    token = cursor.next()
    if token in _BOOLEANS and cursor.peek != ":":
        return ir.Constant(ir.IntegerType(1), (int(_BOOLEANS[token]),))
    cursor.expect(":")
    kind = cursor.type()
    return ir.Constant(kind, (_encode(cursor, start, token, kind),))


def _dense_literal(cursor: Cursor) -> _Literal:
    cursor.expect("<")
    literal = ((0,), []) if cursor.peek == ">" else _nested_literal(cursor)
    cursor.expect(">")
    return literal


def _nested_literal(cursor: Cursor) -> _Literal:
    if cursor.peek != "[":
        return (), [cursor.next()]
    parts = cursor.list("[", lambda: _nested_literal(cursor), "]")
    if any(shape != parts[0][0] for shape, _ in parts):
        cursor.error("the rows of this constant differ in shape")
    inner = parts[0][0] if parts else ()
    return (len(parts), *inner), [element for _, elements in parts for element in elements]


def _dense_constant(
    cursor: Cursor, start: int, type: ir.Type, shape: tuple[int, ...], elements: list[str]
) -> ir.Constant:
    if not isinstance(type, ir.TensorType):
        cursor.error(f"a dense constant needs a tensor type, not `{type}`", start)
    if not shape and elements[0].startswith('"'):
        return _raw_constant(cursor, start, type, elements[0])
    if shape and shape != type.shape:
        cursor.error(f"the elements do not have the shape of `{type}`", start)
    bits = tuple(_encode(cursor, start, token, type.element) for token in elements)
    if len(bits) > 1 and len(set(bits)) == 1:
        bits = bits[:1]
    return ir.Constant(type, bits)


def _raw_constant(cursor: Cursor, start: int, type: ir.TensorType, token: str) -> ir.Constant:
    """Parse `dense<"0x00FF…">`: the little-endian bytes of a large constant."""
    width = type.element.width if isinstance(type.element, ir.IntegerType | ir.FloatType) else 8
    try:
        raw = bytes.fromhex(unescape(token[1:-1])[2:])
    except ValueError:
        cursor.error("expected hexadecimal digits", start)
    bits = tuple(_packed_bits(raw, type.numel) if width == 1 else _words(raw, (width + 7) // 8))
    if len(bits) not in (1, type.numel):
        cursor.error(f"the data does not have the size of `{type}`", start)
    return ir.Constant(type, bits)


def _words(raw: bytes, size: int) -> Iterator[int]:
    for offset in range(0, len(raw), size):
        yield int.from_bytes(raw[offset : offset + size], "little")


def _packed_bits(raw: bytes, count: int) -> Iterator[int]:
    """Return the bits of an `i1` constant, which LLVM stores as bytes from version 22 on."""
    if len(raw) == count or count > 8 * len(raw):
        return (int(byte != 0) for byte in raw)
    return (raw[index // 8] >> index % 8 & 1 for index in range(count))


def _encode(cursor: Cursor, start: int, token: str, type: ir.Type) -> int:
    """Return the bit pattern of one literal."""
    try:
        if isinstance(type, ir.IntegerType):
            value = int(_BOOLEANS[token]) if token in _BOOLEANS else int(token, 0)
            return value & ((1 << type.width) - 1)
        if isinstance(type, ir.FloatType):
            if _HEX.fullmatch(token):
                return int(token, 16) & ((1 << type.width) - 1)
            return FORMATS[type.name].encode(float(token))
    except ValueError:
        pass
    return cursor.error(f"`{token}` is not a constant of type `{type}`", start)
