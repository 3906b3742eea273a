"""Reserves standard output for a report that another program reads.

A script, its libraries and its child processes write to descriptor 1, by `print` or directly in C
code. While standard output is reserved, descriptor 1 refers to standard error, and the report is
written to a copy of the original descriptor.
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
    """Redirect standard output to standard error during the `with` block.

    Yields:
        A stream to the original standard output.
    """
    stream = sys.stdout
    _flush(stream)
    try:
        original = os.dup(_OUT)
    except OSError:  # standard output is closed
        yield stream
        return
    output = stream
    if _is_descriptor(stream, _OUT):
        output = io.TextIOWrapper(
            io.FileIO(original, "w", closefd=False),
            encoding=stream.encoding,
            errors=stream.errors,
            write_through=True,
        )
    else:  # `sys.stdout` is an object that does not write to the descriptor
        sys.stdout = sys.stderr
    _lead(_OUT, _ERR)
    try:
        yield output
    finally:
        _flush(sys.stdout)
        _flush(output)
        if output is stream:
            sys.stdout = stream
        os.dup2(original, _OUT)
        os.close(original)


def _lead(number: int, source: int) -> None:
    """Make a descriptor a copy of `source`, or of /dev/null if `source` is closed."""
    try:
        os.dup2(source, number)
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, number)
        os.close(null)


def _is_descriptor(stream: TextIO, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (AttributeError, OSError, ValueError):
        return False


def _flush(stream: TextIO) -> None:
    with suppress(OSError, ValueError):
        stream.flush()
