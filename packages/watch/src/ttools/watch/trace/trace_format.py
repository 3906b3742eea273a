"""The binary format of a trace: its writer, which runs during launches, and its reader.

A trace consists of a magic line and blocks. A block is a header, followed by `size` bytes. A block
of kind JSON describes a launch, an assignment, a source file or the end of the trace. A block of
kind VALUE contains one value: the iterations of the enclosing loops, the mask with one byte per
lane if the assignment has a mask, and the elements. Reading a trace does not execute any part of
it.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import msgspec

from ttools.core.errors import UsageError, file_errors

MAGIC = b"ttools trace 2\n"
#: Version of the format. Version 1 differs in that it calls assignments "places".
_FIRST_MAGIC = b"ttools trace 1\n"
JSON, VALUE = 1, 2
#: The header of a block: kind, number of enclosing loops, assignment, launch, program, size.
_HEADER = struct.Struct("<BxHIIqQ")
#: Maximum size of a description.
_LARGEST_TEXT = 1 << 26


@dataclass(frozen=True, slots=True)
class ValueBlock:
    """The position of a value in a trace.

    Attributes:
        assignment: Number of the assignment.
        launch: Number of the launch.
        program: Linear id of the program.
        loops: Number of enclosing loops, whose iterations precede the value.
        start: Offset of the first byte after the header.
        size: Number of bytes after the header.
    """

    assignment: int
    launch: int
    program: int
    loops: int
    start: int
    size: int


class TraceWriter:
    """Writes a trace; several threads may use it at the same time.

    Args:
        limit: Maximum number of bytes of values.

    Attributes:
        refused: Number of values that were not written because of the limit.
    """

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self._file = file
        self._limit = limit
        self._used = 0
        self._lock = threading.Lock()
        self.refused = 0
        file.write(MAGIC)

    def describe(self, kind: str, data: object) -> None:
        """Write a description, given as a dataclass or a dictionary."""
        text = json.dumps({kind: msgspec.to_builtins(data)}, separators=(",", ":")).encode()
        with self._lock:
            self._write(_HEADER.pack(JSON, 0, 0, 0, 0, len(text)) + text)

    def value(
        self,
        assignment: int,
        launch: int,
        program: int,
        iterations: bytes,
        mask: bytes,
        data: bytes,
    ) -> bool:
        """Write a value; if this would exceed the limit, return False."""
        size = len(iterations) + len(mask) + len(data)
        header = _HEADER.pack(VALUE, len(iterations) // 8, assignment, launch, program, size)
        with self._lock:
            self._used += _HEADER.size + size
            if self.refused or self._used > self._limit:
                self.refused += 1
                return False
            self._write(header + iterations + mask + data)
            return True

    def _write(self, data: bytes) -> None:
        with file_errors("write the trace"):
            self._file.write(data)

    def flush(self) -> None:
        """Flush the file, so that other processes see its content."""
        with self._lock, file_errors("write the trace"):
            self._file.flush()


def read_blocks(data: Any, name: str) -> Iterator[dict[str, Any] | ValueBlock]:
    """Yield the blocks of a trace, which may be truncated if its writer was interrupted.

    Args:
        data: Bytes, or a memory map of a file.
        name: Name of the trace for messages.

    Raises:
        UsageError: The data is not a trace, or is damaged.
    """
    if bytes(data[: len(MAGIC)]) not in (MAGIC, _FIRST_MAGIC):
        raise UsageError(f"`{name}` is not a trace of ttools")
    at, end = len(MAGIC), len(data)
    while at + _HEADER.size <= end:
        kind, loops, assignment, launch, program, size = _HEADER.unpack_from(data, at)
        start = at + _HEADER.size
        if kind not in (JSON, VALUE) or (kind == JSON and size > _LARGEST_TEXT):
            raise UsageError(f"`{name}` is damaged at byte {at:,}")
        if start + size > end:
            return
        if kind == VALUE:
            yield ValueBlock(assignment, launch, program, loops, start, size)
        else:
            try:
                described = json.loads(bytes(data[start : start + size]))
            except ValueError:
                raise UsageError(f"`{name}` is damaged at byte {at:,}") from None
            if not isinstance(described, dict):
                raise UsageError(f"`{name}` is damaged at byte {at:,}")
            yield described
        at = start + size
