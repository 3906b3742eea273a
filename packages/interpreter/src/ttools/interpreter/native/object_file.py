"""Reads sections, defined symbols and undefined symbols of native objects in ELF64 format.

Loading objects is the task of LLVM's JIT linker, see `jit.py`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SHT_SYMTAB, _SHT_NOBITS = 2, 8
_SHN_UNDEF = 0


class Section(NamedTuple):
    """A section of an object file.

    Attributes:
        kind: The type of the section (`sh_type`).
        link: The number of the section that it refers to (`sh_link`).
        data: Contents of the section.
    """

    kind: int
    link: int
    data: bytes


def sections(object_code: bytes) -> dict[str, Section]:
    """Return the sections of a relocatable ELF64 object, by name.

    Raises:
        ValueError: `object_code` is not such an object, for example in a damaged cache entry.
    """
    named, every = _sections(object_code)
    return {_text(named, name): section for name, section in every}


def undefined_symbols(object_code: bytes) -> list[str]:
    """Return the names of an object's undefined symbols, in the order of the symbol table.

    Raises:
        ValueError: `object_code` is not a relocatable ELF64 object.
    """
    return [name for name, section, _ in _symbols(object_code) if section == _SHN_UNDEF and name]


def symbol_values(object_code: bytes) -> dict[str, int]:
    """Return the offset of each defined symbol in its section.

    Raises:
        ValueError: `object_code` is not a relocatable ELF64 object.
    """
    symbols = _symbols(object_code)
    return {name: value for name, section, value in symbols if section != _SHN_UNDEF and name}


def _symbols(object_code: bytes) -> list[tuple[str, int, int]]:
    """Return the name, the section and the value of each symbol."""
    _, every = _sections(object_code)
    symbols = []
    try:
        for _, (kind, link, data) in every:
            if kind == _SHT_SYMTAB:
                strings = every[link][1].data
                for name, _, _, section, value, _ in _SYMBOL.iter_unpack(data):
                    symbols.append((_text(strings, name), section, value))
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"damaged ELF object: {error}") from error
    return symbols


def _sections(object_code: bytes) -> tuple[bytes, list[tuple[int, Section]]]:
    """Return the table of section names, and each section with the offset of its name in it."""
    if object_code[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a little-endian ELF64 object")
    try:
        (table,) = struct.unpack_from("<Q", object_code, 40)
        entry_size, count, names = struct.unpack_from("<HHH", object_code, 58)
        rows = [_SECTION.unpack_from(object_code, table + i * entry_size) for i in range(count)]
        named_sections = []
        for name, kind, _, _, offset, size, link, _, _, _ in rows:
            data = b"" if kind == _SHT_NOBITS else object_code[offset : offset + size]
            named_sections.append((name, Section(kind, link, data)))
        return named_sections[names][1].data, named_sections
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"damaged ELF object: {error}") from error


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode()
