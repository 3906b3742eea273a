"""Finds where launches come from: the scopes or Python functions around them, the kernel's file."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, Literal

from ttools.core.ownership import is_program_file, is_program_frame
from ttools.core.process import script
from ttools.profiler.run.proton_scopes import ScopeRecorder

#: As Proton has it: `shadow` are the scopes that a program opens, `python` is its call stack.
Context = Literal["shadow", "python"]

#: Runs the user's script; nobody behind it is of interest.
_RUNNER = script.__file__


class Origin:
    """Tells where a launch is being made.

    Attributes:
        scopes: hears of the program's scopes while it listens.
    """

    def __init__(self, context: Context) -> None:
        self.scopes = ScopeRecorder()
        self._python = context == "python"

    @property
    def reported(self) -> list[tuple[tuple[str, ...], dict[str, float]]]:
        """What the program says of its scopes, where these distinguish launches."""
        return [] if self._python else self.scopes.metrics

    def stack(self) -> tuple[str, ...]:
        """Scopes or functions around this thread's launch, outermost first."""
        return python_stack() if self._python else self.scopes.current


def python_stack() -> tuple[str, ...]:
    """Return the functions of the user's that led here, as `name (file.py:12)`."""
    found: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename == _RUNNER:
            break
        if is_program_frame(frame):
            file = code.co_filename.replace("\\", "/").rpartition("/")[2]
            found.append(f"{code.co_name} ({file}:{frame.f_lineno})")
        frame = frame.f_back
    return tuple(reversed(found))


#: How Proton writes a frame of Python's stack.
_FRAME = re.compile(r"(.*):(\d+)@(.*)")


def frames_of_proton(stack: Sequence[str]) -> tuple[str, ...]:
    """Return the same of a stack that Proton has taken; scopes stay as they are."""
    found: list[str] = []
    for text in stack:
        frame = _FRAME.fullmatch(text)
        if frame is None:
            found.append(text)
            continue
        file = frame[1]
        if file == _RUNNER:
            found.clear()
        elif is_program_file(file):
            name = file.replace("\\", "/").rpartition("/")[2]
            found.append(f"{frame[3]} ({name}:{frame[2]})")
    return tuple(found)


def kernel_source(function: Any) -> tuple[str, int] | None:
    """File and first line of a `JITFunction`; None for a kernel that is no function."""
    code = getattr(getattr(function, "fn", None), "__code__", None)
    if code is None:
        return None
    # The code's own number is moved no further than to 1 in copies under longer decorators.
    return code.co_filename, int(getattr(function, "starting_line_number", code.co_firstlineno))
