"""Standard output, kept for a report that another program reads.

A script, its libraries and the processes that it starts write to descriptor 1, through `print` or
past Python. For a while that descriptor leads to standard error, and the report has a copy of the
one that was there.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

_OUT, _ERR = 1, 2


@contextmanager
def standard_output_kept() -> Iterator[TextIO]:
    """Sends what is written to standard output to standard error instead.

    Yields:
        What leads to standard output.
    """
    stream = sys.stdout
    _flush(stream)
    try:
        before = os.dup(_OUT)
    except OSError:  # standard output is closed
        yield stream
        return
    kept = stream
    if _is_descriptor(stream, _OUT):
        kept = io.TextIOWrapper(
            io.FileIO(before, "w", closefd=False),
            encoding=stream.encoding,
            errors=stream.errors,
            write_through=True,
        )
    else:  # somebody has put an object in its place
        sys.stdout = sys.stderr
    _lead(_OUT, _ERR)
    try:
        yield kept
    finally:
        _flush(sys.stdout)
        _flush(kept)
        if kept is stream:
            sys.stdout = stream
        os.dup2(before, _OUT)
        os.close(before)


def _lead(number: int, where: int) -> None:
    """Makes a descriptor a copy of another one, or of nowhere if that one is closed."""
    try:
        os.dup2(where, number)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


def _is_descriptor(stream: TextIO, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (AttributeError, OSError, ValueError):
        return False


def _flush(stream: TextIO) -> None:
    with suppress(OSError, ValueError):
        stream.flush()
