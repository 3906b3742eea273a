"""Determines where launches come from: enclosing scopes or Python functions, and kernel source."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, Literal

from ttools.core.ownership import is_program_file, is_program_frame
from ttools.core.process import script
from ttools.profiler.run.proton_scopes import ScopeRecorder

#: Proton's contexts: `shadow` for the scopes that a program opens, `python` for its call stack.
Context = Literal["shadow", "python"]

#: The file that runs the user's script; its frames and those of its callers are not shown.
_RUNNER = script.__file__


class Origin:
    """Determines the scopes or functions in which launches are made.

    Attributes:
        scopes: Records the program's scopes while it listens.
    """

    def __init__(self, context: Context) -> None:
        self.scopes = ScopeRecorder()
        self._python = context == "python"

    @property
    def reported(self) -> list[tuple[tuple[str, ...], dict[str, float]]]:
        """Return the figures that the program reported for its scopes; none in context `python`."""
        return [] if self._python else self.scopes.metrics

    def stack(self) -> tuple[str, ...]:
        """Return the scopes or functions around this thread's launch, outermost first."""
        return python_stack() if self._python else self.scopes.current


def python_stack() -> tuple[str, ...]:
    """Return the user's functions on the stack, as `name (file.py:12)`, outermost first."""
    functions: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename == _RUNNER:
            break
        if is_program_frame(frame):
            file = code.co_filename.replace("\\", "/").rpartition("/")[2]
            functions.append(f"{code.co_name} ({file}:{frame.f_lineno})")
        frame = frame.f_back
    return tuple(reversed(functions))


#: A frame of Python's stack in Proton's notation.
_FRAME = re.compile(r"(.*):(\d+)@(.*)")


def frames_of_proton(stack: Sequence[str]) -> tuple[str, ...]:
    """Return a stack from Proton in the form of `python_stack`; scopes are unchanged."""
    functions: list[str] = []
    for text in stack:
        frame = _FRAME.fullmatch(text)
        if frame is None:
            functions.append(text)
            continue
        file = frame[1]
        if file == _RUNNER:
            functions.clear()
        elif is_program_file(file):
            name = file.replace("\\", "/").rpartition("/")[2]
            functions.append(f"{frame[3]} ({name}:{frame[2]})")
    return tuple(functions)


def kernel_source(function: Any) -> tuple[str, int] | None:
    """Return the file and first line of a `JITFunction`; None if it has no Python function."""
    code = getattr(getattr(function, "fn", None), "__code__", None)
    if code is None:
        return None
    # `co_firstlineno` of a relocated copy may be wrong, because it cannot be less than 1.
    return code.co_filename, int(getattr(function, "starting_line_number", code.co_firstlineno))
