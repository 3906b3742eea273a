"""Damage to inputs that are structured documents: they are parsed, changed, and written again.

The formats are JSON, MessagePack, SQLite, ZIP archives of records, and traces of values.
"""

from __future__ import annotations

import io
import json
import sqlite3
import struct
import tempfile
import zipfile
from pathlib import Path
from random import Random
from typing import Any

from tools.fuzz_readers.mutations import HOSTILE, damaged_bytes, damaged_value

_TRACE_HEADER = struct.Struct("<BxHIIqQ")


def damaged_json(data: bytes, random: Random) -> bytes:
    """Return a JSON document with damaged values."""
    return json.dumps(damaged_value(json.loads(data), random)).encode("utf-8", "surrogatepass")


def damaged_message_pack(data: bytes, random: Random) -> bytes:
    """Return a MessagePack document with damaged values; the input is JSON."""
    return pack(damaged_value(json.loads(data), random))


def pack(value: Any) -> bytes:
    """Return a value in MessagePack; numbers beyond 64 bits become floats or infinity."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return (
            b"\xd3" + struct.pack(">q", value)
            if value < 2**63
            else b"\xcf" + struct.pack(">Q", value)
        )
    if isinstance(value, (int, float)):
        return b"\xcb" + struct.pack(">d", value if isinstance(value, float) else float("inf"))
    if isinstance(value, str):
        raw = value.encode("utf-8", "surrogatepass")
        return b"\xdb" + struct.pack(">I", len(raw)) + raw
    if isinstance(value, list):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(pack, value))
    pairs = (pack(str(name)) + pack(each) for name, each in value.items())
    return b"\xdf" + struct.pack(">I", len(value)) + b"".join(pairs)


def damaged_store(data: bytes, random: Random) -> bytes:
    """Return a tuning store with a damaged cell, table or header."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")
        path.write_bytes(data)
        base = sqlite3.connect(path, isolation_level=None)
        try:
            _damage_store(base, random)
        except (sqlite3.Error, OverflowError):
            pass  # SQLite rejects the value, so the store stays unchanged
        finally:
            base.close()
        return path.read_bytes()


def _damage_store(base: sqlite3.Connection, random: Random) -> None:
    table = random.choice(("problem", "trial", "trial"))
    columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
    column, kind = random.choice(columns), random.randrange(8)
    if kind == 0:
        base.execute(f"PRAGMA user_version = {random.choice((-1, 0, 1, 3, 99))}")
    elif kind == 1:
        base.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    elif kind == 2:
        base.execute(f"DROP TABLE {table}")
    elif kind == 3:
        base.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
    elif kind in (4, 5):
        value = base.execute(f"SELECT {column} FROM {table}").fetchone()[0]
        text = str(value).encode()
        try:
            changed = damaged_json(text, random)
        except ValueError:
            changed = damaged_bytes(text, random)
        as_text = random.random() < 0.8
        new = changed.decode("utf-8", "replace") if as_text else changed
        base.execute(f"UPDATE {table} SET {column} = ?", (new,))
    else:
        new = random.choice(HOSTILE)
        new = json.dumps(new) if isinstance(new, (list, dict)) else new
        base.execute(f"UPDATE {table} SET {column} = ?", (new,))


def damaged_archive(data: bytes, random: Random) -> bytes:
    """Return a record with a damaged, missing or changed part."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    parts = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(sorted(parts))
    kind = random.randrange(6)
    if kind == 0:
        del parts[name]
    elif name.endswith(".json") and kind < 5:
        parts[name] = damaged_json(parts[name], random)
    else:
        parts[name] = damaged_bytes(parts[name], random)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as again:
        for part, content in parts.items():
            again.writestr(part, content)
    return stream.getvalue()


def damaged_trace(data: bytes, random: Random) -> bytes:
    """Return a trace with a damaged description, header or value."""
    end = data.index(b"\n") + 1
    blocks: list[tuple[list[Any], bytes]] = []
    at = end
    while at < len(data):
        fields = list(_TRACE_HEADER.unpack_from(data, at))
        at += _TRACE_HEADER.size
        blocks.append((fields, data[at : at + fields[-1]]))
        at += fields[-1]
    chosen = random.randrange(len(blocks))
    header, content = blocks[chosen]
    if header[0] == 1 and random.random() < 0.8:
        content = damaged_json(content, random)
        header[-1] = len(content)
    else:
        place = random.randrange(1, len(header))
        largest = (1 << 16) if place == 1 else 1 << (63 if place > 3 else 32)
        header[place] = random.choice((0, 1, 2, 7, largest - 1, random.randrange(largest)))
    blocks[chosen] = (header, content)
    return data[:end] + b"".join(_TRACE_HEADER.pack(*h) + c for h, c in blocks)
