"""The phases of long work on a launch: what a thread does now, how far it is, when it must stop.

A `Work` is what one thread does for one launch. Code that may take long runs in a phase
(`with phase("race analysis")`), and its outer loops call `tick`, which notes the progress and ends
the phase once its time is over. A phase is stopped only there, never in the middle of a step, so
that what it leaves is consistent and the program can go on. Threads that do no such work pay for
one lookup.
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
    """Ends a phase whose time is over, or which was asked to end.

    It is no `Exception`: what Triton's front end and ttools make of failures must let it pass.

    Attributes:
        phase: name of the phase.
        reason: why it was stopped.
        seconds: how long it had taken.
    """

    def __init__(self, phase: str, reason: Reason, seconds: float) -> None:
        super().__init__(f"{phase}: {reason} after {seconds:.3g} s")
        self.phase, self.reason, self.seconds = phase, reason, seconds


class Phase:
    """One phase, and how far it has come.

    Attributes:
        began: time of its beginning by the monotonic clock.
        deadline: when its time is over, by the same clock; infinite for no limit.
        done: how many units are done; None if they are not counted.
        total: how many units there are; None if that is unknown.
        unit: what is counted, in the plural.
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
        """How long it has taken so far."""
        return time.monotonic() - self.began


class Work:
    """What one thread does for one launch; a context manager, which threads may nest.

    Args:
        kernel: name of the kernel.
        number: number of the launch among those of its kernel, from 1.
        seconds: the most that each phase may take; None for any time.
        first: name of the phase that it begins with.

    Attributes:
        phase: the innermost phase of now.
        broken: the innermost phase that an exception has left; None if there is none.
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
        _all[id(self)] = self
        return self

    def __exit__(self, *_: object) -> None:
        _all.pop(id(self), None)
        _current.work = self._around

    def text(self) -> str:
        """`race analysis of k (launch 3): 1,200,000 of 4,000,000 records, 40 s`."""
        phase = self.phase
        what = f"{phase.name} of {self.kernel} (launch {self.number:,})"
        if phase.done is None:
            return f"{what}: {phase.seconds:.0f} s"
        of = f" of {phase.total:,}" if phase.total else ""
        return f"{what}: {phase.done:,}{of} {phase.unit}, {phase.seconds:.0f} s"

    def begin(self, name: str) -> None:
        """Ends the phase of now, and begins another one in its place."""
        # Each launch has several, most of which take microseconds: no new object is made.
        phase = self.phase
        phase.name, phase.done = name, None
        phase.began = began = time.monotonic()
        phase.deadline = began + self._limit

    @contextmanager
    def doing(self, name: str) -> Iterator[Phase]:
        """Runs a phase; the clock of the one around it stands still meanwhile."""
        around, self.phase = self.phase, Phase(name, self._limit)
        own = self.phase
        try:
            yield own
        except BaseException:
            self.broken = self.broken or own
            raise
        finally:
            around.deadline += own.seconds
            self.phase = around

    def tick(self, done: int | None = None, total: int | None = None, unit: str = "") -> None:
        """Notes the progress of the phase.

        Raises:
            PhaseStopped: its time is over, or it was asked to end.
        """
        phase = self.phase
        if done is not None:
            phase.done, phase.total, phase.unit = done, total, unit
        reason = self._asked or ("timeout" if time.monotonic() > phase.deadline else None)
        if reason is not None:
            raise PhaseStopped(phase.name, reason, phase.seconds)

    def ask(self, reason: Reason) -> None:
        """Has the next tick end the phase."""
        self._asked = reason


class _Current(threading.local):
    work: Work | None = None


_current = _Current()
#: The works of all threads, by identity, in the order in which they began.
_all: dict[int, Work] = {}


def current_work() -> Work | None:
    """Return what this thread does now."""
    return _current.work


def works() -> list[Work]:
    """Return what all threads of this process do now."""
    return list(_all.values())


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Runs a phase of this thread's work; outside of any work this does nothing."""
    work = _current.work
    if work is None:
        yield
    else:
        with work.doing(name):
            yield


def tick(done: int | None = None, total: int | None = None, unit: str = "") -> None:
    """Notes the progress of this thread's work, see `Work.tick`.

    Raises:
        PhaseStopped: the time of the phase is over, or it was asked to end.
    """
    work = _current.work
    if work is not None:
        work.tick(done, total, unit)


def stop_other_works(reason: Reason) -> None:
    """Has the works of all threads but this one end at their next tick."""
    for work in works():
        if work._thread != threading.get_ident():
            work.ask(reason)


def _forget_after_fork() -> None:
    """Other threads do not exist in a forked process."""
    for key, work in list(_all.items()):
        if work._thread != threading.get_ident():
            _all.pop(key, None)


os.register_at_fork(after_in_child=_forget_after_fork)
at_interrupt(lambda: stop_other_works("interrupt"))
