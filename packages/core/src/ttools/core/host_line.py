"""Which line of the user's program launches a kernel.

Owns whose frames are skipped on the way there. Must not know what is launched.
"""

from __future__ import annotations

import sys
from types import FrameType

_OURS = ("ttools", "ttools_triton", "triton", "torch", "contextlib", "functools")

#: Whether a module belongs to Triton, torch or ttools; a launch asks for all its callers.
_ours: dict[object, bool] = {}


def host_line() -> str | None:
    """The innermost line outside Triton, torch and ttools: `file:line`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        ours = _ours.get(name)
        if ours is None:
            ours = _ours[name] = str(name).partition(".")[0] in _OURS
        if not ours and not frame.f_code.co_filename.startswith("<frozen"):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None
