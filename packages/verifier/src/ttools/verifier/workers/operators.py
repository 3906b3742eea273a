"""Passes the torch operators that a program runs to a recorder.

Elements that leave torch, to NumPy or as Python numbers, are also recorded, because the program can
compute with them outside of torch.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ttools.core.ownership import owner_of_frame
from ttools.core.patches import Patches
from ttools.verifier.replay.execution import tensors_of
from ttools.verifier.workers.custom_operators import is_followed, looking_inside
from ttools.verifier.workers.recording import PlanRecorder

#: Operators and functions by which elements leave torch; the last of them takes out a single
#: element.
LEAVING = frozenset(
    ["numpy", "tolist", "__array__", "__dlpack__", "apply_", "map_", "map2_", "_local_scalar_dense"]
)
#: Operators that return a Python number or bool that depends on elements.
_RETURNING_NUMBERS = frozenset(["_local_scalar_dense", "equal", "is_nonzero", "allclose"])


@contextmanager
def watched(recorder: PlanRecorder) -> Iterator[None]:
    """Record the torch operators of this thread and of threads that the program starts."""

    def watched_run(run: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
        def run_watched(self: threading.Thread) -> None:
            with _modes(recorder):
                run(self)

        return run_watched

    with Patches() as patches, _modes(recorder):
        patches.wrap(threading.Thread, "run", watched_run)
        yield


@contextmanager
def _modes(recorder: PlanRecorder) -> Iterator[None]:
    with _Operators(recorder), _Leaving(recorder):
        yield


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False, so that torch does not import its compiler, which takes seconds."""
        return False

    def __init__(self, recorder: PlanRecorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if is_followed(name):
            with looking_inside(partial(_modes, self._recorder)):
                return func(*args, **(kwargs or {}))
        call = self._recorder.operator(func, args, kwargs or {})
        result = func(*args, **(kwargs or {}))
        if call is not None:
            call.returned(result)
        if _depends_on_elements(name, func) and not _is_read_by_ttools():
            self._recorder.read(tensors_of([*args, *(kwargs or {}).values()]))
            if name in LEAVING:
                self._recorder.leave(name, tensors_of(args))
        return result


class _Leaving(TorchFunctionMode):
    """Records calls of functions that take elements out of torch."""

    def __init__(self, recorder: PlanRecorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in LEAVING and not _is_read_by_ttools():
            self._recorder.read(tensors_of(args))
            self._recorder.leave(name, tensors_of(args))
        return func(*args, **(kwargs or {}))


def _depends_on_elements(name: str, operator: Any) -> bool:
    """Return whether an operator reveals elements, or how many elements meet a condition."""
    return name in _RETURNING_NUMBERS or torch.Tag.dynamic_output_shape in operator.tags


#: Modules of ttools that call the program's functions.
_CALLERS = frozenset(
    str(Path(__file__).parents[1] / f"{name}.py")
    for name in (
        *("workers/candidate", "workers/results", "workers/operators"),
        *("workers/custom_operators", "oracle/evaluation"),
    )
)


def _is_read_by_ttools() -> bool:
    """Return whether the elements are read by ttools itself rather than by the program."""
    frame = sys._getframe(2)
    while frame is not None and owner_of_frame(frame) != "ttools":
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and frame.f_code.co_filename not in _CALLERS
