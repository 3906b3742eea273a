"""Runs of `interpret()`: their options, their results, and the stack of active runs.

The stack is the only state outside of runs. This module decides which of several active runs a
launch belongs to.
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


#: Takes the name of a kernel and what compiles it; returns what that returns, or None.
CompileKernel = Callable[[str, Callable[[], Any]], Any]
_MOST_NAMED = 4


class Run:
    """A run of the engine: the options and the results of its launches.

    Args:
        selects: Takes the name of a kernel; returns whether it belongs to the run.
        launch_options: Options for running the programs of launches.
        schedule: Schedule that kernels are compiled with.
        first_config: If True, autotuners use their first configuration without timing any.
        observer: Runs the launches in place of the launcher, with instruments of its choice.
        tune: Runs untimed autotuned launches; in their first configuration by default.
        compile_kernel: Called in place of Triton's front end, see `interpret`.
        engine: `eager` runs all kernels as Python; `native` only those that cannot be compiled.
        dot: Computation of products of f32 tiles; by default `TTOOLS_DOT`.
        unsafe: If True, accesses outside of tensors are executed; by default `TTOOLS_UNSAFE`.

    Attributes:
        shared: True if threads that entered no run belong to it.
        emits: The options that kernels are compiled with.
        statistics: Counts and times of the kernels.
        warnings: Warnings about launches, without repetition.
        unchecked_assertions: The first assertion of each kernel whose assertions were not compiled.
        skipped: Accesses outside of tensors that were skipped.
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
        #: The runs that were active where this one was entered last, outermost first.
        self._entered_in: tuple[Run, ...] = ()
        #: What launches belong to that these other runs have a part in, too.
        self._shared_with: tuple[tuple[Run, ...], Run] | None = None

    def warn(self, text: str) -> None:
        """Add a warning unless it was given before."""
        with self._lock:
            if text not in self.warnings:
                self.warnings.append(text)

    def together_with(self, outer: tuple[Run, ...]) -> Run:
        """Return the run for launches that belong to this run and to outer runs.

        Args:
            outer: The outer runs, innermost first. If the last one has an observer, launches run
                with its options, except for those of `dot`, `unsafe` and `programs` that this run
                sets.
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
        """Return this run with a time limit for each launch, unless it has one of its own.

        Args:
            seconds: Seconds after which a launch is stopped; None for any time.
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
        text = f"assertions are not checked in {shown}, whose debug is off"
        return [f"{text}: launch with debug=True or set TRITON_DEBUG=1"]


class _Entered(threading.local):
    """The runs that a thread has entered outside of event loops."""

    def __init__(self) -> None:
        self.runs: list[Run] = []


# Each context (thread, asyncio task) sees the runs entered in it. One that entered none, as it may
# be older than the run, sees what its thread has entered around the event loop; threads that
# entered none, such as autograd's or a pool's, see the innermost run of the process that is shared.
_own_runs: ContextVar[tuple[Run, ...]] = ContextVar("ttools_active_runs", default=())
_entered = _Entered()
_all_runs: list[Run] = []
_lock = threading.Lock()


def enter(run: Run) -> int:
    """Make `run` the innermost active one of this context.

    Returns:
        How many runs are active in the process, this one included.
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
        How many runs are still active in the process.
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
    """Return the innermost run of those that a launch made here and now may belong to."""
    runs = active_runs()
    return runs[0] if runs else None


def active_runs() -> Sequence[Run]:
    """Return the runs that a launch made here and now may belong to, innermost first."""
    if not _all_runs:
        return ()
    entered = _own_runs.get()
    if len(entered) == 1 and entered[0] in _all_runs:
        return entered  # what nearly every launch comes to, several times
    own = _still_active(entered) or _still_active(_entered.runs)
    # The main thread works for itself only: what another thread entered is not its business.
    if own or threading.current_thread() is threading.main_thread():
        return own
    with _lock:
        shared = next((run for run in reversed(_all_runs) if run.shared), None)
    return () if shared is None else (shared, *_still_active(shared._entered_in))


def _still_active(runs: Sequence[Run]) -> Sequence[Run]:
    """Return the runs that have not ended, each once and innermost first.

    A copied context also contains runs that have ended since it was copied.
    """
    return [run for run in dict.fromkeys(reversed(runs)) if run in _all_runs]


def dot_mode(run: Run | None) -> DotMode:
    """Return the mode of matrix products in launches of a run, or without a run."""
    return dot_from_environment() if run is None else run.dot


def receive_launch(kernel: str, grid: tuple[Any, Any, Any]) -> tuple[Grid, Run | None]:
    """Announce a launch that Triton hands over; return its grid and the run that it belongs to.

    Raises:
        UsageError: The grid does not consist of integers.
    """
    __tracebackhide__ = True
    note_child_launch(kernel)
    run = selecting_run(kernel)
    if run is None and active_run() is None:
        announce_implicit_launch()
    x, y, z = grid
    try:
        return (operator.index(x), operator.index(y), operator.index(z)), run
    except TypeError:
        message = f"kernel `{kernel}`: the grid must be integers, not {grid}"
        raise UsageError(message) from None


def selecting_run(kernel: str) -> Run | None:
    """Return the run that a launch of a kernel made here and now belongs to.

    It is the innermost that selects the kernel. One without an observer, such as a script's own
    `interpret()`, leaves the launch to the observer of the run around it, such as the command's
    that runs the script; both count it.
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
                run.warn(f"kernel `{kernel}` ran as Python, as the script's own interpret() asks")
        plain = tuple(run for run in outer if run.observer is None)
        return first.together_with(plain) if plain else first
    last = next((n for n, run in enumerate(selecting) if run.observer is not None), len(outer))
    return first if last == 0 else first.together_with(tuple(outer[:last]))
