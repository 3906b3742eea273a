"""Decodes MessagePack, in which newer versions of Proton can write their trees.

msgspec decodes; owns what is let through: what JSON can hold, and bytes. Must not know what a
document holds.
"""

from __future__ import annotations

from typing import Any

import msgspec


def unpack(data: bytes) -> Any:
    """The one value that the bytes encode; names in objects are text.

    Raises:
        ValueError: they encode none, or more, or an extension type.
        RecursionError: it nests too deeply.
    """
    try:
        return _plain(msgspec.msgpack.decode(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
        raise ValueError(f"no MessagePack: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    raise ValueError(f"no MessagePack that ttools reads: {type(value).__name__}")
