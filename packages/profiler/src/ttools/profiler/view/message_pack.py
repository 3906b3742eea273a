"""Decodes MessagePack, in which newer versions of Proton can write their trees.

Owns the format's published specification, without extension types. Must not know what it holds.
"""

from __future__ import annotations

import struct
from typing import Any

_FIXED = {
    0xCA: ">f", 0xCB: ">d",
    0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_SIZES = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I", 0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
_COUNTS = {0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_DEEPEST = 400


def unpack(data: bytes) -> Any:
    """The one value that the bytes encode.

    Raises:
        ValueError: they encode none, or more.
    """
    try:
        value, end = _value(data, 0, 0)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"no MessagePack: {error}") from error
    if end != len(data):
        raise ValueError(f"no MessagePack: {len(data) - end} bytes follow the value")
    return value


def _value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > _DEEPEST:
        raise ValueError("no MessagePack that ttools reads: nested too deeply")
    kind = data[at]
    at += 1
    if kind <= 0x7F:
        return kind, at
    if kind >= 0xE0:
        return kind - 0x100, at
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], at
    if kind in _FIXED:
        return _number(data, at, _FIXED[kind])
    if 0xA0 <= kind <= 0xBF:
        return _text(data, at, kind & 0x1F)
    if kind in _SIZES:
        size, at = _number(data, at, _SIZES[kind])
        if kind <= 0xC6:
            return _bytes(data, at, size)
        return _text(data, at, size)
    if kind <= 0x9F:
        count, is_map = kind & 0x0F, kind <= 0x8F
    elif kind in _COUNTS:
        count, at = _number(data, at, _COUNTS[kind])
        is_map = kind >= 0xDE
    else:
        raise ValueError(f"no MessagePack that ttools reads: type {kind:#04x}")
    return _collection(data, at, depth, count, is_map)


def _collection(data: bytes, at: int, depth: int, count: int, is_map: bool) -> tuple[Any, int]:
    values = []
    for _ in range(2 * count if is_map else count):
        value, at = _value(data, at, depth + 1)
        values.append(value)
    if not is_map:
        return values, at
    return {str(name): value for name, value in zip(values[::2], values[1::2], strict=True)}, at


def _number(data: bytes, at: int, form: str) -> tuple[Any, int]:
    (value,) = struct.unpack_from(form, data, at)
    return value, at + struct.calcsize(form)


def _bytes(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if at + size > len(data):
        raise IndexError("it ends too early")
    return data[at : at + size], at + size


def _text(data: bytes, at: int, size: int) -> tuple[str, int]:
    raw, at = _bytes(data, at, size)
    return raw.decode(), at
