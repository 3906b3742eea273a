"""Phases of long work on a launch, with progress and time limits.

A `Work` describes what one thread does for one launch. Code that may run for a long time runs in a
phase (`with phase("race analysis")`), and its outer loops call `tick`, which records the progress
and ends the phase after its time limit. A phase stops only when `tick` is called, never in the
middle of a step, so that data stays consistent and the program can continue. In a thread without a
`Work`, a call of `tick` costs only one lookup.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from ttools.core.process.interruptible import at_interrupt

Reason = Literal["timeout", "interrupt"]


class PhaseStopped(BaseException):
    """Raised in a phase that has reached its time limit or that `Work.ask` has stopped.

    It does not derive from `Exception`, so that code which handles general failures does not catch
    it.

    Attributes:
        phase: Name of the phase.
        reason: Cause of the stop.
        seconds: Duration of the phase until the stop.
    """

    def __init__(self, phase: str, reason: Reason, seconds: float) -> None:
        super().__init__(f"{phase}: {reason} after {seconds:.3g} s")
        self.phase, self.reason, self.seconds = phase, reason, seconds


class Phase:
    """One phase and its progress.

    Attributes:
        began: Start time on the monotonic clock.
        deadline: End of the time limit on the same clock; infinite for no limit.
        done: Number of finished units; None if they are not counted.
        total: Number of units; None if it is unknown.
        unit: Noun for the units, in the plural.
    """

    __slots__ = ("began", "deadline", "done", "name", "total", "unit")

    def __init__(self, name: str, limit: float) -> None:
        self.name = name
        self.began = time.monotonic()
        self.deadline = self.began + limit
        self.done: int | None = None
        self.total: int | None = None
        self.unit = ""

    @property
    def seconds(self) -> float:
        """Return the time since the start."""
        return time.monotonic() - self.began

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds until the time limit, at least 0; None if there is no limit."""
        if self.deadline == math.inf:
            return None
        return max(self.deadline - time.monotonic(), 0.0)


class Work:
    """The work of one thread for one launch; a context manager that can be nested.

    Args:
        kernel: Name of the kernel.
        number: Number of the launch among those of its kernel, from 1.
        seconds: Time limit for each phase; None for no limit.
        first: Name of the first phase.

    Attributes:
        phase: The innermost current phase.
        broken: The innermost phase that an exception has ended; None if there is none.
    """

    __slots__ = ("_around", "_asked", "_limit", "_thread", "broken", "kernel", "number", "phase")

    def __init__(self, kernel: str, number: int, seconds: float | None, first: str) -> None:
        self.kernel, self.number = kernel, number
        self._limit = math.inf if seconds is None else seconds
        self.phase = Phase(first, self._limit)
        self.broken: Phase | None = None
        self._asked: Reason | None = None
        self._thread = threading.get_ident()
        self._around: Work | None = None

    def __enter__(self) -> Work:
        self._around, _current.work = _current.work, self
        _all[self] = None
        return self

    def __exit__(self, *_: object) -> None:
        _all.pop(self, None)
        _current.work = self._around

    def text(self) -> str:
        """Return, e.g., `race analysis of k (launch 3): 1,200,000 of 4,000,000 records, 40 s`."""
        phase = self.phase
        what = f"{phase.name} of {self.kernel} (launch {self.number:,})"
        if phase.done is None:
            return f"{what}: {phase.seconds:.0f} s"
        of = f" of {phase.total:,}" if phase.total else ""
        return f"{what}: {phase.done:,}{of} {phase.unit}, {phase.seconds:.0f} s"

    def begin(self, name: str) -> None:
        """End the current phase and begin another one in its place."""
        # A launch has several phases that take microseconds each, so the object is reused.
        phase = self.phase
        phase.name, phase.done = name, None
        phase.began = began = time.monotonic()
        phase.deadline = began + self._limit

    @contextmanager
    def doing(self, name: str) -> Iterator[Phase]:
        """Run a nested phase, whose duration is not counted by the outer phase's time limit."""
        outer, self.phase = self.phase, Phase(name, self._limit)
        inner = self.phase
        try:
            yield inner
        except BaseException:
            self.broken = self.broken or inner
            raise
        finally:
            outer.deadline += inner.seconds
            self.phase = outer

    def tick(self, done: int | None = None, total: int | None = None, unit: str = "") -> None:
        """Record the progress of the phase.

        Raises:
            PhaseStopped: The time limit was reached, or the phase was asked to stop.
        """
        phase = self.phase
        if done is not None:
            phase.done, phase.total, phase.unit = done, total, unit
        reason = self._asked or ("timeout" if time.monotonic() > phase.deadline else None)
        if reason is not None:
            raise PhaseStopped(phase.name, reason, phase.seconds)

    def ask(self, reason: Reason) -> None:
        """Make the phase end at the next call of `tick`."""
        self._asked = reason


class _Current(threading.local):
    work: Work | None = None


_current = _Current()
#: The `Work` objects of all threads, in the order in which they began. The values are not used.
_all: dict[Work, None] = {}


def current_work() -> Work | None:
    """Return the current `Work` of this thread, or None."""
    return _current.work


def works() -> list[Work]:
    """Return the `Work` objects of all threads of this process."""
    return list(_all)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Run a phase of this thread's `Work`; do nothing if there is none."""
    work = _current.work
    if work is None:
        yield
    else:
        with work.doing(name):
            yield


def tick(done: int | None = None, total: int | None = None, unit: str = "") -> None:
    """Record the progress of this thread's work, see `Work.tick`.

    Raises:
        PhaseStopped: The time limit was reached, or the phase was asked to stop.
    """
    work = _current.work
    if work is not None:
        work.tick(done, total, unit)


def stop_other_works(reason: Reason) -> None:
    """Make the work of all other threads end when they next call `tick`."""
    for work in works():
        if work._thread != threading.get_ident():
            work.ask(reason)


def _forget_after_fork() -> None:
    """Remove the `Work` objects of other threads, which do not exist in a forked process."""
    for work in works():
        if work._thread != threading.get_ident():
            _all.pop(work, None)


os.register_at_fork(after_in_child=_forget_after_fork)
at_interrupt(lambda: stop_other_works("interrupt"))
