"""Which Python frames belong to the user's kernel, and where in its source the innermost one is.

Kernels run in globals that carry a mark, so that their frames can be
distinguished from ours and Triton's.
"""

from __future__ import annotations

import bdb
import pdb
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType, TracebackType

from ttools.core.location import SourceLocation
from ttools.core.ownership import is_library_file, is_program_frame, owner_of_frame

#: In the globals of every function that the engine made of a jit function.
MARK = "__ttools_eager__"


def is_kernel_frame(frame: FrameType) -> bool:
    """Return whether a frame runs a jit function of the user's."""
    return MARK in frame.f_globals and owner_of_frame(frame) != "triton"


def kernel_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """The frames of the user's kernel from one outwards, innermost first."""
    while frame is not None:
        if is_kernel_frame(frame):
            yield frame
        frame = frame.f_back


def location() -> SourceLocation | None:
    """Where in the user's kernel this is called from, and how the program came there."""
    locations = [_location(frame) for frame in kernel_frames(sys._getframe(1))]
    return replace(locations[0], callers=tuple(locations[1:])) if locations else None


def is_at_prompt() -> bool:
    """Whether this is called by what a user typed into a debugger that stands in a kernel."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_kernel_frame(frame):
            return frame.f_code.co_name == "<module>"  # of a kernel only functions are run
        frame = frame.f_back
    return False


def variable_of(value: object) -> str | None:
    """Return the name of the variable that holds a value in the nearest frame of the program."""
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


# ---- machinery

_DEBUGGERS = (bdb.__file__, pdb.__file__)


def module_of(frame: FrameType) -> str:
    """The name of the module that a frame runs code of."""
    return str(frame.f_globals.get("__name__", ""))


def is_hidden(frame: FrameType | None) -> bool:
    """Return whether a frame is machinery.

    That is code of ttools', of Triton's, of Python's debugger, or of a library that one of these
    called.
    """
    while frame is not None:
        if is_kernel_frame(frame):
            return False
        file = frame.f_code.co_filename
        if owner_of_frame(frame) in ("ttools", "triton") or file in _DEBUGGERS:
            return True
        # Code made from text belongs to whoever calls it (the methods of named tuples are such),
        # but for a script given as text.
        made = file.startswith("<") and module_of(frame) != "__main__"
        if not made and not is_library_file(file):
            return False
        frame = frame.f_back
    return False


def from_the_kernel_on(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without what led to the kernel; all of it if it leads to none."""
    innermost = traceback
    while innermost is not None and not is_kernel_frame(innermost.tb_frame):
        innermost = innermost.tb_next
    return innermost or traceback


def without_machinery(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback of the user's code only, from the kernel on; all of it if it leads to none."""
    entries: list[TracebackType] = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    kept = entries
    if any(is_kernel_frame(entry.tb_frame) for entry in entries):
        kept = [entry for entry in entries if not is_hidden(entry.tb_frame)]
    made: TracebackType | None = None
    for entry in reversed(kept):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made
