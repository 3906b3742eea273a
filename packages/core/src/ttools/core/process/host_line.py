"""The line of the user's program that launches a kernel, and the lines that call it."""

from __future__ import annotations

import sys
from types import CodeType, FrameType

from ttools.core.ownership import is_program_frame

#: Maximum number of callers of a launch that are reported, including the outermost one.
_MOST_CALLERS = 5
#: Modules that run the user's program; their frames, and all frames further out, are omitted.
_RUNNERS = (
    *("ttools.cli", "ttools.core.process", "ttools_entry", "runpy"),
    *("_pytest", "pluggy", "unittest", "IPython", "ipykernel", "threading", "asyncio"),
)

#: Cache of code objects that do not belong to the user's program, by `id`, because every launch
#: checks all of its callers.
_ours: dict[int, CodeType] = {}
#: Depth of the user's frame at the last launch, with its code, instruction and line. Programs
#: launch kernels in loops, and checking the frame at the same depth first is much cheaper than
#: creating a frame object for each caller. Depth 1 skips the frame of this function, because a
#: frame that refers to itself keeps the tensors of its callers alive. Frames in between are not
#: checked. As a result, one case is reported imprecisely: if an expression calls `kernel[grid]`
#: itself in one launch, but calls a helper that launches the kernel in the next one, the second
#: launch is reported with the line of the expression instead of the helper's line.
_latest: tuple[int, CodeType | None, int, str] = 1, None, 0, ""


def host_line() -> str | None:
    """Return the innermost line outside Triton, torch and ttools, as `file:line`."""
    global _latest
    depth, latest_code, instruction, line = _latest
    try:
        latest = sys._getframe(depth)
    except ValueError:  # the stack is shallower
        pass
    else:
        if latest.f_code is latest_code and latest.f_lasti == instruction:
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


def host_callers() -> tuple[str, ...]:
    """Return the lines that lead to the line of `host_line`, the innermost first, as `file:line`.

    If there are too many, the innermost ones and the outermost one are kept.
    """
    lines: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if lines and any(name == runner or name.startswith(f"{runner}.") for runner in _RUNNERS):
            break
        if is_program_frame(frame):
            lines.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        frame = frame.f_back
    callers = list(dict.fromkeys(lines[1:]))
    if len(callers) > _MOST_CALLERS:
        del callers[_MOST_CALLERS - 1 : -1]
    return tuple(callers)
