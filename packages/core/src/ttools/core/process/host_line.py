"""Finds the line of the user's program that launches a kernel, and the lines that call it."""

from __future__ import annotations

import sys
from types import CodeType, FrameType

from ttools.core.ownership import is_program_frame

#: Who calls a user's program: nobody behind them is of interest.
_RUNNERS = (
    *("ttools.cli", "ttools.core.process", "ttools_entry", "runpy"),
    *("_pytest", "pluggy", "unittest", "IPython", "ipykernel", "threading", "asyncio"),
)

#: Code outside the user's program, by its identity: a launch asks for all its callers.
_ours: dict[int, CodeType] = {}
#: How far out the program was at the last launch, its code, instruction and line. Programs launch
#: in loops, and Python makes an object of each frame that is looked at, but for one far out. The
#: first is not our own frame: one that refers to itself keeps its callers' tensors for a while.
#: What lies between is not looked at, so where one expression calls `kernel[grid]` at one time and
#: a helper that calls `kernel.run` at another, the helper's launch has the expression's line.
_latest: tuple[int, CodeType | None, int, str] = 1, None, 0, ""


def host_line() -> str | None:
    """Return the innermost line outside Triton, torch and ttools, as `file:line`."""
    global _latest
    depth, known, instruction, line = _latest
    try:
        latest = sys._getframe(depth)
    except ValueError:  # there are not so many
        pass
    else:
        if latest.f_code is known and latest.f_lasti == instruction:
            return line
    frame: FrameType | None = sys._getframe(1)
    depth = 1
    while frame is not None:
        code = frame.f_code
        if id(code) not in _ours:
            if not is_program_frame(frame):
                _ours[id(code)] = code
            else:
                line = f"{code.co_filename}:{frame.f_lineno}"
                _latest = depth, code, frame.f_lasti, line
                return line
        depth, frame = depth + 1, frame.f_back
    return None


def host_callers(most: int = 4) -> tuple[str, ...]:
    """Return the lines that call the one of `host_line`, the innermost first, as `file:line`.

    Args:
        most: The number of innermost lines that are kept besides the outermost one.
    """
    found: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if found and any(name == each or name.startswith(f"{each}.") for each in _RUNNERS):
            break
        if is_program_frame(frame):
            found.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        frame = frame.f_back
    callers = list(dict.fromkeys(found[1:]))
    return tuple(callers if len(callers) <= most + 1 else [*callers[:most], callers[-1]])
