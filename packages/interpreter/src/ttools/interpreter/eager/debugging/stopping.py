"""Debugger that runs an eager program up to a statement in a given iteration of its loops.

It finds the statements of the running Python code at a source location, and counts the iterations
of the loops that each frame executes.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

from ttools.core.location import SourceLocation, source_lines
from ttools.core.syntax_trees import function_at, syntax_tree
from ttools.interpreter.eager.debugging.debugger import Debugger, debugging
from ttools.interpreter.eager.debugging.frames import is_hidden, is_kernel_frame, kernel_frames
from ttools.interpreter.eager.session import failed_session, forget_failure

#: The compiler unrolls loops over this range, so their iterations are not counted.
_UNROLLED = "static_range"


@dataclass(frozen=True)
class StopPoint:
    """The statement and iteration in which a program stops.

    Attributes:
        location: Location of the statement, with the calls that lead to it.
        iterations: Zero-based iteration of each enclosing loop that the compiler does not unroll,
            outermost first; empty if unknown.
    """

    location: SourceLocation
    iterations: tuple[int, ...] = ()


class StoppingDebugger(Debugger):
    """`pdb` that lets programs run until they reach a statement.

    Args:
        stop: The place to stop; with None, the debugger only stops if a program fails.
        message: Text that is printed before the first prompt.
    """

    def __init__(self, stop: StopPoint | None, message: str) -> None:
        super().__init__()
        self._stop = stop
        self._message = message
        self._seeks = True
        self._iterations: dict[FrameType, _Iterations] = {}

    def debug(self, run: Callable[[], None]) -> bool:
        """Run programs and open a prompt at the statement, or where a program fails.

        Returns:
            True if a prompt was opened.
        """
        self.reset()
        with debugging(self):
            sys.settrace(self.trace_dispatch)
            try:
                run()
            except Exception as error:  # noqa: BLE001 - the user's kernel may raise anything
                if self.left or not self._seeks:
                    forget_failure()
                    return True
                sys.settrace(None)
                self._look_at(error)
            finally:
                if self._seeks:
                    sys.settrace(None)
                if sys.gettrace() is None:  # the user does not step through code any more
                    self.botframe = None
        return not self._seeks

    def _look_at(self, error: Exception) -> None:
        self._seeks = False
        frames = error.__traceback__
        while frames is not None and is_hidden(frames.tb_frame):
            frames = frames.tb_next
        self.message(self._message)
        with failed_session():
            self.interaction(None, frames or error.__traceback__)

    # ---- methods that bdb calls

    def stop_here(self, frame: FrameType) -> bool:
        return not self._seeks and super().stop_here(frame)

    def dispatch_call(self, frame: FrameType, arg: None) -> Any:
        """Trace only kernel frames until the statement is reached."""
        if not self._seeks:
            return super().dispatch_call(frame, arg)
        return self.trace_dispatch if is_kernel_frame(frame) else None

    def dispatch_return(self, frame: FrameType, arg: Any) -> Any:
        """Discard the iteration counts of a frame that ends."""
        self._iterations.pop(frame, None)
        return self.trace_dispatch if self._seeks else super().dispatch_return(frame, arg)

    def dispatch_exception(self, frame: FrameType, arg: Any) -> Any:
        """Ignore exceptions until the statement is reached; `debug` handles them."""
        return self.trace_dispatch if self._seeks else super().dispatch_exception(frame, arg)

    def dispatch_line(self, frame: FrameType) -> Any:
        """Stop if a frame reaches the statement in the requested iterations."""
        if self._seeks:
            self._iterations.setdefault(frame, _Iterations(frame)).came_to(frame.f_lineno)
            if not self._is_there(frame):
                return self.trace_dispatch
            self._seeks = False
            self._iterations.clear()
            self.message(self._message)
            self._follow(frame)
        return super().dispatch_line(frame)

    def _follow(self, frame: FrameType) -> None:
        """Step through this frame, and then through its callers."""
        outer: FrameType | None = frame
        while outer is not None:
            outer.f_trace = self.trace_dispatch
            self.botframe = outer
            outer = outer.f_back
        self.set_step()

    def _is_there(self, frame: FrameType) -> bool:
        if self._stop is None:
            return False
        frames = list(kernel_frames(frame))
        if not _is_chain(frames, self._stop.location):
            return False
        iterations = [
            n for kernel_frame in reversed(frames) for n in self._iterations_of(kernel_frame)
        ]
        return _agree(iterations, self._stop.iterations)

    def _iterations_of(self, frame: FrameType) -> list[int]:
        counter = self._iterations.get(frame)
        return counter.at(frame.f_lineno) if counter else []


def _is_chain(frames: Sequence[FrameType], location: SourceLocation) -> bool:
    """Return whether the innermost frame is at a location, and its callers at the location's calls.

    Args:
        frames: Kernel frames, innermost first.
        location: The location, with the calls that lead to it.
    """
    files = {frame.f_code.co_filename for frame in frames}
    wanted = [place for place in (location, *location.callers) if _is_one_of(place.file, files)]
    return len(wanted) == len(frames) and all(
        _is_one_of(location.file, {frame.f_code.co_filename})
        and frame.f_lineno in _statement(frame.f_code.co_filename, location.line)
        for frame, location in zip(frames, wanted, strict=True)
    )


def _is_one_of(file: str, files: set[str]) -> bool:
    return file in files or Path(file).absolute() in {Path(name).absolute() for name in files}


def _agree(here: Sequence[int], wanted: Sequence[int]) -> bool:
    """Return whether a frame is in the requested iterations of its loops.

    The compiler removes loops that have a single iteration, so `wanted` may have fewer entries than
    `here`. Each entry of `here` that has no counterpart must then be iteration 0: `(0, 3)` agrees
    with `(3,)`. Any iteration agrees if none is requested.

    Args:
        here: The iteration of each loop around the frame.
        wanted: The requested iteration of each loop that the compiler kept.
    """
    if not wanted or len(here) < len(wanted):
        return True
    if here[0] == 0 and len(here) > len(wanted) and _agree(here[1:], wanted):
        return True
    return here[0] == wanted[0] and _is_only_zeros_or(here[1:], wanted[1:])


def _is_only_zeros_or(here: Sequence[int], wanted: Sequence[int]) -> bool:
    return _agree(here, wanted) if wanted else not any(here)


# ---- the source


@dataclass(frozen=True)
class _Loop:
    """The line of a loop's head and the lines of its body."""

    head: int
    body: range


class _Iterations:
    """Counts the iterations of a frame's loops by the lines that the frame executes."""

    def __init__(self, frame: FrameType) -> None:
        self._loops = _loops(frame.f_code.co_filename, frame.f_code.co_firstlineno)
        self._counts = dict.fromkeys(self._loops, 0)
        self._before = 0

    def came_to(self, line: int) -> None:
        for loop in self._loops:
            if loop.head == line:
                self._counts[loop] = self._counts[loop] + 1 if self._before in loop.body else 0
        self._before = line

    def at(self, line: int) -> list[int]:
        """Return the iteration of each loop around a line, outermost first."""
        return [self._counts[loop] for loop in self._loops if line in loop.body]


@lru_cache(maxsize=256)
def _loops(file: str, first_line: int) -> tuple[_Loop, ...]:
    """Return the loops of a function whose iterations the compiler counts, outer before inner.

    Args:
        file: Source file of the function.
        first_line: First line of the function, or of its first decorator.
    """
    function = function_at("".join(source_lines(file)), first_line)
    if function is None:
        return ()
    loops = [
        _Loop(node.lineno, range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1))
        for node in ast.walk(function)
        if isinstance(node, ast.While) or (isinstance(node, ast.For) and not _is_unrolled(node))
    ]
    return tuple(sorted(loops, key=lambda loop: (loop.head, -len(loop.body))))


def _is_unrolled(loop: ast.For) -> bool:
    return isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func).endswith(_UNROLLED)


@lru_cache(maxsize=256)
def _statement(file: str, line: int) -> range:
    """Return the lines of the innermost statement at a line.

    For a statement with a body, such as `if`, these are the lines before the body.
    """
    best = range(line, line + 1)
    size: int | None = None
    tree = syntax_tree("".join(source_lines(file)))
    for node in () if tree is None else ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        body = getattr(node, "body", None)
        end = body[0].lineno if body else (node.end_lineno or node.lineno) + 1
        lines = range(node.lineno, max(end, node.lineno + 1))
        if line in lines and (size is None or len(lines) < size):
            best, size = lines, len(lines)
    return best
