"""Debugger of eager kernels: Python's `pdb` without the frames of ttools and Triton.

It also implements `breakpoint()` in kernels.
"""

from __future__ import annotations

import os
import pdb
import sys
import traceback
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any

from ttools.interpreter.eager.debugging.frames import is_hidden, module_of
from ttools.interpreter.eager.session import failed_session

_RUNS_SCRIPTS = "ttools.core.process.script"


class Debugger(pdb.Pdb):
    """`pdb` that neither stops in hidden frames nor shows them.

    Attributes:
        left: True after the user has quit the session.
    """

    left = False

    def set_quit(self) -> None:
        """End the session; `pdb` calls this when the user quits."""
        self.left = True
        super().set_quit()

    def execute(self, code: CodeType, scope: dict[str, Any]) -> None:
        """Run a script's code; if it fails, debug it at the frame that raised."""
        try:
            self.run(code, scope)
        except pdb.Restart:
            self.message("Restarting")
        except SystemExit as leaving:
            self.message(f"The program exited via sys.exit(). Exit status: {leaving.code}")
        except Exception as error:  # noqa: BLE001 - the user's script may raise anything
            frames = error.__traceback__
            while frames is not None and is_hidden(frames.tb_frame):
                frames = frames.tb_next
            self.message("".join(traceback.format_exception(type(error), error, frames)).rstrip())
            self.message("Uncaught exception. Entering post mortem debugging")
            self.message("Running 'cont' or 'step' will restart the program")
            with failed_session():
                self.interaction(None, frames or error.__traceback__)

    def stop_here(self, frame: FrameType) -> bool:
        return not is_hidden(frame) and bool(super().stop_here(frame))

    def get_stack(
        self, f: FrameType | None, t: TracebackType | None
    ) -> tuple[list[tuple[FrameType, int]], int]:
        """Return the frames that are shown, with their lines, and the index of the current one."""
        stack, index = super().get_stack(f, t)
        # Frames from the outermost to the one that runs the user's script belong to ttools.
        start = max(
            (n for n, (frame, _) in enumerate(stack) if module_of(frame) == _RUNS_SCRIPTS),
            default=-1,
        )
        stack, index = stack[start + 1 :], max(index - start - 1, 0)
        shown = [entry for entry in stack if not is_hidden(entry[0])]
        before = sum(not is_hidden(entry[0]) for entry in stack[: index + 1])
        return (shown, max(before - 1, 0)) if shown else (stack, index)


class _InlineDebugger(Debugger):
    """Debugger that `breakpoint()` in a kernel starts if the program is not being debugged."""

    def set_quit(self) -> None:
        """Exit the program as `sys.exit(1)` does, because `BdbQuit` would print a traceback.

        Raises:
            SystemExit: The user has quit the debugger.
        """
        super().set_quit()
        raise SystemExit(1)


_active: list[Debugger] = []


class debugging:  # noqa: N801 - a context manager
    """Context in which `breakpoint()` in kernels enters a given debugger."""

    def __init__(self, debugger: Debugger) -> None:
        self._debugger = debugger

    def __enter__(self) -> Debugger:
        _active.append(self._debugger)
        return self._debugger

    def __exit__(self, *_: object) -> None:
        _active.remove(self._debugger)


def breakpoint_function() -> Callable[..., Any]:
    """Return the function that `breakpoint()` in a kernel calls.

    It starts the debugger that the user has configured, by `sys.breakpointhook` or
    PYTHONBREAKPOINT, and otherwise the debugger of this module.
    """
    chosen = os.environ.get("PYTHONBREAKPOINT", "")
    if sys.breakpointhook is not sys.__breakpointhook__ or (chosen and not _active):
        return breakpoint
    return _enter


def _enter(*_: Any, **named: Any) -> None:
    frame = sys._getframe(1)
    debugger = _active[-1] if _active else _InlineDebugger()
    header = named.get("header")
    if header is not None:
        debugger.message(header)
    debugger.set_trace(frame)


# ---- whole scripts


def debug_script(run: Callable[[Callable[[CodeType, dict[str, Any]], None]], int]) -> int:
    """Run a script under the debugger until the user leaves it, as `python -m pdb` does.

    Args:
        run: Runs the script once; takes the function that executes its code, and returns its exit
            status.

    Returns:
        The exit status of the last run.
    """
    debugger = Debugger()
    with debugging(debugger):
        while True:
            status = run(debugger.execute)
            if debugger.left:
                return status
            debugger.message("The program finished and will be restarted")
