"""Identifies the Python frames of a user's kernel, and the source line that they run.

The globals in which kernels run contain a mark, which distinguishes their frames from those of
ttools and Triton.
"""

from __future__ import annotations

import bdb
import os
import pdb
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from types import FrameType, TracebackType

from ttools.core.location import SourceLocation
from ttools.core.ownership import (
    is_library_file,
    is_program_frame,
    owner_of_file,
    owner_of_frame,
)
from ttools.core.process.launch_frames import entries_of, traceback_of

#: Name of the mark in the globals of every function that the engine made from a jit function.
MARK = "__ttools_eager__"


def is_kernel_frame(frame: FrameType) -> bool:
    """Return whether a frame runs a jit function of the user, not one of Triton's library."""
    if MARK not in frame.f_globals:
        return False
    file = frame.f_code.co_filename
    # Observers of operations call this for each frame, so the owner of a file is cached.
    if file.startswith(os.sep):
        return not _is_of_triton(file)
    return owner_of_frame(frame) != "triton"


@lru_cache(maxsize=4096)
def _is_of_triton(file: str) -> bool:
    return owner_of_file(file) == "triton"


def kernel_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the kernel frames among a frame and its callers, innermost first."""
    while frame is not None:
        if is_kernel_frame(frame):
            yield frame
        frame = frame.f_back


def location() -> SourceLocation | None:
    """Return the source location of the innermost kernel frame, with the calls that led to it."""
    locations = [_location(frame) for frame in kernel_frames(sys._getframe(1))]
    return replace(locations[0], callers=tuple(locations[1:])) if locations else None


def is_at_prompt() -> bool:
    """Return whether the caller runs code that a user typed at a debugger prompt in a kernel."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_kernel_frame(frame):
            # A kernel only runs functions, so a module in its globals is code from a prompt.
            return frame.f_code.co_name == "<module>"
        frame = frame.f_back
    return False


def variable_of(value: object) -> str | None:
    """Return the name of the variable that holds a value in the innermost frame of user code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_program_frame(frame):
            for scope in (frame.f_locals, frame.f_globals):
                for name, variable_value in list(scope.items()):
                    if variable_value is value and not name.startswith("_"):
                        return name
            return None
        frame = frame.f_back
    return None


def _location(frame: FrameType) -> SourceLocation:
    code = frame.f_code
    return SourceLocation(code.co_filename, frame.f_lineno, _column(frame))


def _column(frame: FrameType) -> int:
    positions = getattr(frame.f_code, "co_positions", None)  # from Python 3.11
    if positions is None or frame.f_lasti < 0:
        return 0
    for index, (_, _, column, _) in enumerate(positions()):
        if index == frame.f_lasti // 2:
            return 0 if column is None else int(column) + 1
    return 0


# ---- frames of ttools, Triton and debuggers

_DEBUGGERS = (bdb.__file__, pdb.__file__)


def module_of(frame: FrameType) -> str:
    """Return the name of the module whose code a frame runs."""
    return str(frame.f_globals.get("__name__", ""))


def is_hidden(frame: FrameType | None) -> bool:
    """Return whether debuggers and tracebacks hide a frame.

    Hidden frames execute code of ttools, Triton or Python's debugger, or of a library that was
    called by one of these.
    """
    while frame is not None:
        if is_kernel_frame(frame):
            return False
        file = frame.f_code.co_filename
        if owner_of_frame(frame) in ("ttools", "triton") or file in _DEBUGGERS:
            return True
        # Code that was compiled from a string, such as the methods of named tuples, is treated as
        # part of its caller. The exception is a script that was passed as a string.
        made = file.startswith("<") and module_of(frame) != "__main__"
        if not made and not is_library_file(file):
            return False
        frame = frame.f_back
    return False


def from_the_kernel_on(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the kernel's frame on; unchanged if it has no kernel frame."""
    innermost = traceback
    while innermost is not None and not is_kernel_frame(innermost.tb_frame):
        innermost = innermost.tb_next
    return innermost or traceback


def without_machinery(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without hidden frames; unchanged if it has no kernel frame."""
    entries = entries_of(traceback)
    if any(is_kernel_frame(entry.tb_frame) for entry in entries):
        entries = [entry for entry in entries if not is_hidden(entry.tb_frame)]
    return traceback_of(entries)
