"""Line tables: the source line of each address of a native object, from its debug information.

This module decodes the line programs of DWARF 4 (section 6.2 of the standard) as LLVM writes them
into an ELF64 object.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass

from ttools.interpreter.native.object_file import Section, sections, symbol_values

_RELOCATION = struct.Struct("<QQq")
#: Opcodes of a line program.
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 1, 2, 3, 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2


@dataclass(frozen=True)
class LineTable:
    """Maps addresses to lines.

    Attributes:
        starts: Ascending offsets from the requested symbol at which a new line begins, in bytes.
        lines: The line that begins at each offset; 0 for code without a line.
    """

    starts: tuple[int, ...]
    lines: tuple[int, ...]

    def line_at(self, offset: int) -> int:
        """Return the line of an address; 0 if it has none."""
        row = bisect_right(self.starts, offset) - 1
        return self.lines[row] if row >= 0 else 0


def line_table(object_code: bytes, symbol: str) -> LineTable:
    """Return the line table of an object.

    Args:
        object_code: A relocatable object with debug information.
        symbol: Name of the function that offsets are relative to.

    Raises:
        ValueError: The object has a different format, or no debug information.
    """
    object_sections = sections(object_code)
    text = object_sections.get(".debug_line")
    origin = symbol_values(object_code).get(symbol)
    if text is None or origin is None:
        raise ValueError("the object has no lines")
    addresses = _relocated(object_sections.get(".rela.debug_line"))
    try:
        rows = _Program(text.data, addresses).rows()
    except (struct.error, IndexError) as error:
        raise ValueError(f"damaged debug information: {error}") from error
    # If several rows have the same address, the last of them is valid.
    last = dict(sorted(rows, key=lambda row: row[0]))
    return LineTable(tuple(start - origin for start in last), tuple(last.values()))


def _relocated(section: Section | None) -> dict[int, int]:
    """Return the addresses that the linker would insert, by their offset in the line programs."""
    data = section.data if section is not None else b""
    whole = len(data) // _RELOCATION.size * _RELOCATION.size
    return {at: addend for at, _, addend in _RELOCATION.iter_unpack(data[:whole])}


class _Program:
    """Runs the line programs of a section."""

    def __init__(self, data: bytes, addresses: dict[int, int]) -> None:
        self._data, self._addresses, self._at = data, addresses, 0

    def rows(self) -> list[tuple[int, int]]:
        """Return the address and the line of each row; at the end of a sequence, the line is 0."""
        all_rows: list[tuple[int, int]] = []
        while self._at < len(self._data):
            all_rows += self._unit()
        return all_rows

    def _unit(self) -> list[tuple[int, int]]:
        (length,) = self._take("<I")
        end = self._at + length
        version, header = self._take("<HI")
        if version not in (2, 3, 4):
            raise ValueError(f"lines of DWARF {version}")
        begin = self._at + header
        (step,) = self._take("<B")
        if version == 4:
            self._take("<B")  # operations per instruction
        _, base, span, special = self._take("<BbBB")
        operands = self._take(f"<{special - 1}B")
        self._at = begin
        rows, address, line = [], 0, 1
        while self._at < end:
            (code,) = self._take("<B")
            if code >= special:
                advance, change = divmod(code - special, span)
                address, line = address + step * advance, line + base + change
                rows.append((address, line))
            elif code == 0:
                size = self._unsigned()
                after = self._at + size
                (extended,) = self._take("<B")
                if extended == _END_SEQUENCE:
                    rows.append((address, 0))
                    address, line = 0, 1
                elif extended == _SET_ADDRESS:
                    address = self._addresses.get(self._at, 0)
                self._at = after
            elif code == _COPY:
                rows.append((address, line))
            elif code == _ADVANCE_PC:
                address += step * self._unsigned()
            elif code == _ADVANCE_LINE:
                line += self._signed()
            elif code == _CONST_ADD_PC:
                address += step * ((255 - special) // span)
            elif code == _FIXED_ADVANCE_PC:
                address += self._take("<H")[0]
            else:
                for _ in range(operands[code - 1]):
                    self._unsigned()
        self._at = end
        return rows

    def _take(self, form: str) -> tuple[int, ...]:
        fields = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return fields

    def _unsigned(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def _signed(self) -> int:
        start = self._at
        value = self._unsigned()
        bits = 7 * (self._at - start)
        return value - (1 << bits) if value >> (bits - 1) else value
