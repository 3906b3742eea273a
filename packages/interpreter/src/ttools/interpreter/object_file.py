"""Reads the one thing we need to know of a native object: which symbols it leaves undefined.

Knows the ELF64 symbol table and nothing of LLVM; the JIT linker does the loading itself.
"""

from __future__ import annotations

import struct

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SHT_SYMTAB = 2
_SHN_UNDEF = 0


def undefined_symbols(object_code: bytes) -> list[str]:
    """The names that a relocatable ELF64 object needs from elsewhere, in symbol table order.

    Raises:
        ValueError: if `object_code` is no such object (a damaged or foreign cache entry).
    """
    if object_code[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a little-endian ELF64 object")
    try:
        return _undefined(object_code)
    except (struct.error, IndexError) as error:
        raise ValueError(f"damaged ELF object: {error}") from error


def _undefined(object_code: bytes) -> list[str]:
    (table_offset,) = struct.unpack_from("<Q", object_code, 40)
    entry_size, count = struct.unpack_from("<HH", object_code, 58)
    sections = [
        _SECTION.unpack_from(object_code, table_offset + i * entry_size) for i in range(count)
    ]
    names: list[str] = []
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind != _SHT_SYMTAB:
            continue
        strings = sections[link][4]
        for position in range(offset, offset + size, _SYMBOL.size):
            name, _, _, section, _, _ = _SYMBOL.unpack_from(object_code, position)
            if section == _SHN_UNDEF and name:
                start = strings + name
                names.append(object_code[start : object_code.index(b"\0", start)].decode())
    return names
