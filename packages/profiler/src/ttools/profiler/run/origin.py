"""Where launches come from: the scopes or the Python functions around them, and the kernel's file.

Must not know how launches are timed or counted.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from types import FrameType
from typing import Any, Literal

from ttools.profiler.run.proton_scopes import ScopeRecorder

#: As Proton has it: `shadow` are the scopes that a program opens, `python` is its call stack.
Context = Literal["shadow", "python"]

_OURS = frozenset(("ttools", "ttools_triton", "triton", "torch", "contextlib", "functools"))
#: Runs the user's script: what called it is no business of the user's.
_RUNNER = "ttools.core.process.script"


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
    """The functions of the user's that led here, as `name (file.py:12)`."""
    found: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module == _RUNNER:
            break
        code = frame.f_code
        if module.partition(".")[0] not in _OURS and not code.co_filename.startswith("<frozen"):
            file = code.co_filename.replace("\\", "/").rpartition("/")[2]
            found.append(f"{code.co_name} ({file}:{frame.f_lineno})")
        frame = frame.f_back
    return tuple(reversed(found))


#: How Proton writes a frame of Python's stack.
_FRAME = re.compile(r"(.*):(\d+)@(.*)")


def frames_of_proton(stack: Sequence[str]) -> tuple[str, ...]:
    """The same of a stack that Proton has taken; scopes stay as they are."""
    found: list[str] = []
    for text in stack:
        frame = _FRAME.fullmatch(text)
        if frame is None:
            found.append(text)
            continue
        file = frame[1].replace("\\", "/")
        if file.endswith("/" + _RUNNER.replace(".", "/") + ".py"):
            found.clear()
        elif not file.startswith(("<", *_roots())):
            found.append(f"{frame[3]} ({file.rpartition('/')[2]}:{frame[2]})")
    return tuple(found)


@lru_cache(maxsize=1)
def _roots() -> tuple[str, ...]:
    """Where the files of Triton, torch and ttools are, and those of context managers."""
    packages = (sys.modules.get(name) for name in ("triton", "torch", "ttools"))
    folders = [f"{path}/" for each in packages if each for path in each.__path__]
    return (*folders, contextlib.__file__, functools.__file__)


def kernel_source(function: Any) -> tuple[str, int] | None:
    """File and first line of a `JITFunction`; None for a kernel that is no function."""
    code = getattr(getattr(function, "fn", None), "__code__", None)
    if code is None:
        return None
    # The code's own number is moved no further than to 1 in copies under longer decorators.
    return code.co_filename, int(getattr(function, "starting_line_number", code.co_firstlineno))
