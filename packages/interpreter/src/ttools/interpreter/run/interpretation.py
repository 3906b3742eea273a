"""Runs of `interpret()`: their options, their results, and the stack of active runs.

This module also decides which of several active runs a launch belongs to.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from ttools.core.errors import UsageError
from ttools.core.location import SourceLocation
from ttools.core.process.child_launches import note_child_launch
from ttools.core.spec import Grid
from ttools.interpreter.abi.module import DotMode, dot_from_environment
from ttools.interpreter.run.notices import announce_implicit_launch
from ttools.interpreter.run.skipped_accesses import SkippedAccess, unsafe_from_environment
from ttools.interpreter.run.stats import JointStatistics, Statistics
from ttools.interpreter.runtime.launch_options import LaunchOptions

if TYPE_CHECKING:
    from ttools.interpreter.run.kernel_launch import Observer
    from ttools.interpreter.run.tuned_launch import TunedCall


#: Takes the name of a kernel and a function that compiles it. Returns the result of this function,
#: or None if the launch should be skipped.
CompileKernel = Callable[[str, Callable[[], Any]], Any]
_MOST_NAMED = 4


class Run:
    """A run of the engine: the options and the results of its launches.

    Args:
        selects: Takes the name of a kernel, and returns whether its launches belong to the run.
        launch_options: Options for running the programs of launches.
        schedule: The schedule with which kernels are compiled.
        first_config: If True, autotuners use their first configuration without timing any.
        observer: Runs the launches in place of the launcher, with the instruments that it chooses.
        tune: Runs untimed autotuned launches; by default, they run in their first configuration.
        compile_kernel: Called in place of Triton's front end, see `interpret`.
        engine: `eager` runs all kernels as Python; `native` only those that cannot be compiled.
        dot: How matrix products are computed, see `DotMode`; by default the value of `TTOOLS_DOT`.
        unsafe: If True, accesses outside tensors are executed; by default the value of
            `TTOOLS_UNSAFE`.

    Attributes:
        shared: If True, launches of threads that have entered no run may belong to this one.
        emits: The options of the run that affect the compilation of kernels.
        statistics: Counts and times of the kernels.
        warnings: Warnings about launches, without repetition.
        unchecked_assertions: The first assertion of each kernel whose assertions were not compiled.
        skipped: Accesses outside tensors that were skipped.
    """

    def __init__(
        self,
        *,
        selects: Callable[[str], bool],
        launch_options: LaunchOptions,
        schedule: Literal["fused", "materialised"],
        first_config: bool,
        observer: Observer | None = None,
        tune: Callable[[TunedCall], Any] | None = None,
        compile_kernel: CompileKernel | None = None,
        engine: Literal["native", "eager"] = "native",
        dot: DotMode | None = None,
        unsafe: bool | None = None,
    ) -> None:
        self.shared = True
        self.selects = selects
        self.engine: Literal["native", "eager"] = engine
        self.launch_options = launch_options
        self.schedule: Literal["fused", "materialised"] = schedule
        self.dot: DotMode = dot_from_environment() if dot is None else dot
        self._own_dot = dot
        self.unsafe = unsafe_from_environment() if unsafe is None else unsafe
        self._own_unsafe = unsafe
        self.skipped: list[SkippedAccess] = []
        self.emits = (schedule, self.dot)
        self.first_config = first_config
        self.observer = observer
        self.tune = tune
        self.compile_kernel = compile_kernel
        self.statistics = Statistics()
        self.warnings: list[str] = []
        self.unchecked_assertions: dict[str, SourceLocation] = {}
        self._lock = threading.Lock()
        #: The runs that were active when this one was entered last, outermost first.
        self._entered_in: tuple[Run, ...] = ()
        #: The latest result of `together_with`, with its argument.
        self._shared_with: tuple[tuple[Run, ...], Run] | None = None

    def warn(self, text: str) -> None:
        """Add a warning, unless the run has the same warning already."""
        with self._lock:
            if text not in self.warnings:
                self.warnings.append(text)

    def together_with(self, outer: tuple[Run, ...]) -> Run:
        """Return the run for launches that belong to this run and to outer runs.

        Args:
            outer: The outer runs, innermost first. If the last one has an observer, launches run
                with its options. Only `dot`, `unsafe` and `programs` are taken from this run, if it
                sets them.
        """
        previous = self._shared_with
        if previous is not None and previous[0] == outer:
            return previous[1]
        shared = copy(self)
        if outer[-1].observer is not None:
            shared = copy(outer[-1])
            shared.dot = self._own_dot or shared.dot
            if self._own_unsafe is not None:
                shared.unsafe = self._own_unsafe
            shared.emits = (shared.schedule, shared.dot)
            own = self.launch_options
            if own.programs is not None:
                shared.launch_options = replace(
                    shared.launch_options, programs=own.programs, seed=own.seed
                )
        shared.statistics = JointStatistics([run.statistics for run in (self, *outer)])
        self._shared_with = (outer, shared)
        return shared

    def limited(self, seconds: float | None) -> Run:
        """Return this run with a time limit for each launch, unless it already has a limit.

        Args:
            seconds: Seconds after which a launch is stopped; None for no limit.
        """
        if seconds is None or self.launch_options.seconds is not None:
            return self
        limited = copy(self)
        limited.launch_options = replace(self.launch_options, seconds=seconds)
        return limited

    @property
    def notes(self) -> list[str]:
        """Notes on behaviour of Triton that may surprise the user."""
        unchecked = list(self.unchecked_assertions.items())
        if not unchecked:
            return []
        shown = ", ".join(f"`{name}` ({at.file}:{at.line})" for name, at in unchecked[:_MOST_NAMED])
        more = len(unchecked) - _MOST_NAMED
        shown += f" and {more} more" if more > 0 else ""
        text = f"assertions in {shown} are not checked, because debug is off"
        return [f"{text}: launch with debug=True or set TRITON_DEBUG=1"]


class _Entered(threading.local):
    """The runs that a thread has entered outside event loops."""

    def __init__(self) -> None:
        self.runs: list[Run] = []


# A launch belongs to the runs that were entered in its context (thread or asyncio task). A context
# may have entered none, because a task may be older than a run, for example. Then the launch
# belongs to the runs that its thread has entered outside the event loop. If the thread has entered
# none either, as is usual for threads of autograd or of a pool, the launch belongs to the innermost
# shared run of the process.
_own_runs: ContextVar[tuple[Run, ...]] = ContextVar("ttools_active_runs", default=())
_entered = _Entered()
_all_runs: list[Run] = []
_lock = threading.Lock()


def enter(run: Run) -> int:
    """Make `run` the innermost active run of this context.

    Returns:
        The number of active runs in the process, including this one.
    """
    with _lock:
        run._entered_in = _own_runs.get()
        _own_runs.set((*run._entered_in, run))
        _all_runs.append(run)
        if not _in_event_loop():
            _entered.runs.append(run)
        return len(_all_runs)


def leave(run: Run) -> int:
    """Undo the latest `enter(run)`.

    Returns:
        The number of runs that are still active in the process.
    """
    with _lock:
        own = list(_own_runs.get())
        _remove_last(own, run)
        _own_runs.set(tuple(own))
        _remove_last(_all_runs, run)
        if not _in_event_loop():
            _remove_last(_entered.runs, run)
        return len(_all_runs)


def _in_event_loop() -> bool:
    """Return whether an asyncio task is running, which shares its thread with other tasks."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


def _remove_last(runs: list[Run], run: Run) -> None:
    for index in range(len(runs) - 1, -1, -1):
        if runs[index] is run:
            del runs[index]
            return


def active_run() -> Run | None:
    """Return the innermost run that a launch in the current context may belong to."""
    runs = active_runs()
    return runs[0] if runs else None


def active_runs() -> Sequence[Run]:
    """Return the runs that a launch in the current context may belong to, innermost first."""
    if not _all_runs:
        return ()
    entered = _own_runs.get()
    if len(entered) == 1 and entered[0] in _all_runs:
        return entered  # the common case; almost every launch reaches it several times
    own = _still_active(entered) or _still_active(_entered.runs)
    # Launches of the main thread never belong to a run that another thread has entered.
    if own or threading.current_thread() is threading.main_thread():
        return own
    with _lock:
        shared = next((run for run in reversed(_all_runs) if run.shared), None)
    return () if shared is None else (shared, *_still_active(shared._entered_in))


def _still_active(runs: Sequence[Run]) -> Sequence[Run]:
    """Return the given runs that have not ended yet, without duplicates and innermost first.

    A context that was copied may contain runs that have ended since then.
    """
    return [run for run in dict.fromkeys(reversed(runs)) if run in _all_runs]


def dot_mode(run: Run | None) -> DotMode:
    """Return the mode of matrix products in launches of a run, or without a run."""
    return dot_from_environment() if run is None else run.dot


def receive_launch(kernel: str, grid: tuple[Any, Any, Any]) -> tuple[Grid, Run | None]:
    """Process a launch that Triton makes, and return its grid and the run that it belongs to.

    Raises:
        UsageError: The grid does not consist of integers.
    """
    __tracebackhide__ = True
    note_child_launch(kernel)
    run = selecting_run(kernel) if _all_runs else None
    if run is None and active_run() is None:
        announce_implicit_launch()
    x, y, z = grid
    try:
        return (operator.index(x), operator.index(y), operator.index(z)), run
    except TypeError:
        message = f"kernel `{kernel}`: the grid must be integers, not {grid}"
        raise UsageError(message) from None


def selecting_run(kernel: str) -> Run | None:
    """Return the run that a launch of a kernel in the current context belongs to.

    This is the innermost active run that selects the kernel. If it has no observer, but a run
    around it has one, the launch belongs to both: the observer runs it, and both count it. An
    example is a script with its own `interpret()` that is run by `ttools sanitize`.
    """
    runs = active_runs()
    if len(runs) == 1:
        return runs[0] if runs[0].selects(kernel) else None
    selecting = [run for run in runs if run.selects(kernel)]
    if len(selecting) < 2:
        return selecting[0] if selecting else None
    first, *outer = selecting
    if first.engine == "eager":
        for run in outer:
            if run.observer is not None:
                run.warn(
                    f"kernel `{kernel}` ran as Python and was not checked, as the script's own "
                    "interpret() requests"
                )
        plain = tuple(run for run in outer if run.observer is None)
        return first.together_with(plain) if plain else first
    last = next((n for n, run in enumerate(selecting) if run.observer is not None), len(outer))
    return first if last == 0 else first.together_with(tuple(outer[:last]))
