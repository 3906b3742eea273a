"""Stops running launches at their time limit, at Ctrl-C, and when the process is to end.

Native code reads its launch's `abort` flag at the start of each iteration of long loops. While the
launching thread is in native code it notices neither the clock nor a signal, so a watching thread
sets the flag. The watching thread starts with the first launch that may take long. It is a Python
thread, but not registered with `threading`, whose list of threads belongs to the program. It sleeps
until a limit is reached or a signal arrives. A thread that polled would have to wait for the GIL,
which launches release and take again faster than a thread wakes up.
"""

from __future__ import annotations

import _thread
import ctypes
import math
import os
import posix
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from ttools.core.location import SourceLocation
from ttools.core.process.interruptible import at_interrupt
from ttools.core.process.thread_limit import ThreadLimitError, starting_thread
from ttools.interpreter.abi.launch_layout import NativeLaunch
from ttools.interpreter.runtime.signals import SignalPipe
from ttools.interpreter.runtime.support.native_runtime import native_runtime

Reason = Literal["timeout", "interrupt", "end"]

#: How often the thread looks at launches in whose time a signal came.
_TICK_S = 0.05
#: It looks again after a day at the latest, which is less than the most that `poll` takes.
_LONGEST_S = 86400.0
#: How long a launch waits at most for the thread to learn of it.
_NOTICE_S = 0.05
#: How long a process that is asked to end waits for what its launches have found so far.
_GRACE_S = 2.0


@dataclass(frozen=True)
class Stop:
    """The state of a launch when it was stopped.

    Attributes:
        reason: `timeout`; `interrupt` for Ctrl-C; `end` if the process ends.
        seconds: Seconds since the launch began.
        program: Coordinates of the first program that was stopped in a loop, or None.
        location: Source location of that loop.
        begun: Upper bound on the number of programs that had begun.
    """

    kernel: str
    reason: Reason
    seconds: float
    program: tuple[int, int, int] | None
    location: SourceLocation | None
    begun: int
    programs: int

    @property
    def progress(self) -> str:
        """The progress of the launch as a phrase."""
        of = "its only program" if self.programs == 1 else f"of {self.programs:,} programs"
        if self.programs == 1:
            return f"{of} had {'' if self.begun else 'not '}begun"
        return f"{self.begun:,} {of} had begun"


def note_stop(launch: NativeLaunch, stopped: Iterable[tuple[int, int]]) -> None:
    """Record the first of the stopped programs, as native code does for its own launch.

    Args:
        launch: Structure that receives the program and the site.
        stopped: Linear id of each program, and the site of the loop that it was in.
    """
    first = min(stopped, default=None)
    if first is not None:
        launch.stopped, launch.stopped_program, launch.stopped_site = 1, *first


class Running:
    """A launch that can be stopped.

    Attributes:
        launch: Structure that native code reads.
        began: Start time by the monotonic clock, in seconds.
        signals: Number of signals that the handler had counted when the launch began.
        deadline: Time by the monotonic clock at which the launch is stopped, in seconds.
        holds_main: True if Python's main thread is in the native code of this launch.
        reason: Reason for which the launch was stopped; None if it was not stopped.
    """

    __slots__ = (
        *("_hook", "address", "began", "deadline", "holds_main", "launch", "reason", "signals"),
    )

    def __init__(self, address: int, launch: NativeLaunch, seconds: float | None) -> None:
        self.address, self.launch = address, launch
        self.began = time.monotonic()
        self.deadline = math.inf if seconds is None else self.began + seconds
        self.signals: int = native_runtime().signal_target.count
        self.holds_main = False
        self.reason: Reason | None = None
        self._hook: Callable[[Any], object] | None = None

    def hold_main(self) -> None:
        """Record that Python's main thread enters its native code."""
        self.holds_main = True
        # Python may come to a signal where native code calls it, and nothing there takes what a
        # handler raises: the launch ends instead, and raises it then.
        self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        # LLVM takes its handlers out at the first signal, and ours with them; the program may have
        # had a handler of its own, as event loops do.
        if _state.pipe is not None and not _state.pipe.is_watched(signal.SIGINT):
            _state.pipe.watch(signal.SIGINT)

    def __enter__(self) -> Running:
        if _state.ending:
            wait_for_the_end()
        _state.running[self.address] = self
        if self.deadline < _state.until or _state.pipe is None:
            try:
                _state.start()
            except BaseException:
                self.__exit__()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._hook is not None:
            sys.unraisablehook = self._hook
        with _state.lock:
            _state.running.pop(self.address, None)

    def _unraisable(self, unraisable: Any) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            self.stop("interrupt")
        elif self._hook is not None:
            self._hook(unraisable)

    def stop(self, reason: Reason) -> None:
        """Stop the launch unless it has ended: another launch may then use its memory."""
        with _state.lock:
            if _state.running.get(self.address) is self:
                self.reason = self.reason or reason
                self.launch.abort = 1


class _State:
    """The watching thread of this process, and the launches that it watches.

    Attributes:
        running: Maps the address of each launch to the launch.
        until: Time of the next check by the monotonic clock, unless the thread is woken earlier.
        ending: True if the process is about to end.
        waiting: Number of threads that wait for the end of the process.
        last_words: Called with the number of a signal before the signal ends the process.
    """

    def __init__(self) -> None:
        self.running: dict[int, Running] = {}
        self.lock = threading.Lock()
        self.until = math.inf
        self.ending = False
        self.waiting = 0
        self.last_words: Callable[[int], None] | None = None
        self.pipe: SignalPipe | None = None
        self._asked = ctypes.c_int32(0)
        self._has_looked = threading.Event()

    def start(self) -> None:
        """Make the watching thread check the launches, and usually wait until it has.

        Raises:
            ThreadLimitError: The thread cannot be started.
        """
        self._has_looked.clear()
        with self.lock:
            if self.pipe is None or not self.pipe.wake():
                try:
                    self.pipe = SignalPipe()
                except OSError:
                    return  # the program has all descriptors; what it launches cannot be stopped
                try:
                    with starting_thread():
                        _thread.start_new_thread(self._watch, (self.pipe,))
                except ThreadLimitError:
                    self.pipe = None  # the next launch tries again
                    raise
                self.pipe.watch(signal.SIGINT)
        self._has_looked.wait(_NOTICE_S)

    def _watch(self, pipe: SignalPipe) -> None:
        poll = select.poll()
        poll.register(pipe.reader, select.POLLIN)
        while True:
            seconds = self._look()
            self._has_looked.set()
            if poll.poll(None if seconds is None else math.ceil(seconds * 1000)):
                numbers = pipe.read()
                if numbers is None:
                    with self.lock:
                        if self.pipe is pipe:
                            self.until, self.pipe = math.inf, None
                    return
                for number in numbers:
                    self._signalled(number)

    def _look(self) -> float | None:
        """Stop overdue launches; return the seconds until the next check, or None without one."""
        self._stop_interrupted()
        now = time.monotonic()
        for running in list(self.running.values()):
            if now >= running.deadline:
                running.stop("timeout")
        self.until = math.inf  # what begins from here on wakes us
        count = native_runtime().signal_target.count
        going_on = [launch for launch in list(self.running.values()) if launch.reason is None]
        deadlines = [
            launch.deadline if launch.signals == count else min(launch.deadline, now + _TICK_S)
            for launch in going_on
        ]
        self.until = min(deadlines, default=math.inf)
        if self.until == math.inf:
            return None
        return min(max(0.0, self.until - now), _LONGEST_S)

    def _signalled(self, number: int) -> None:
        if number != signal.SIGINT:
            self._end(number)
            return
        if self.last_words is not None:
            if self._asked.value:
                self._end(number)  # the user asks again, and Python has not come to the first time
                return
            self._asked.value = 1
            asked = ctypes.byref(self._asked)
            answered = ctypes.c_void_p(native_runtime().answered)
            if ctypes.pythonapi.Py_AddPendingCall(answered, asked):
                self._asked.value = 0
        self._stop_interrupted()

    def _stop_interrupted(self) -> None:
        """Stop launches of the main thread in whose time Ctrl-C came.

        Another handler may let the launch go on. One that began later is not meant: Python has
        raised what is seen only now. One whose native code the main thread was just about to
        enter is found at the next tick.
        """
        count = native_runtime().signal_target.count
        for running in list(self.running.values()):
            if (
                running.holds_main
                and running.signals != count
                and signal.getsignal(signal.SIGINT) is signal.default_int_handler
            ):
                running.stop("interrupt")

    def _end(self, number: int) -> None:
        """End the process as the signal would have, after calling `last_words`."""
        words, pipe = self.last_words, self.pipe
        if words is None or pipe is None:
            return
        self.ending = True
        expected = self.waiting + len(self.running)
        stop_all("end")
        until = time.monotonic() + _GRACE_S
        while self.waiting < expected and time.monotonic() < until:
            time.sleep(0.01)
        try:
            words(number)
        finally:
            pipe.release(number)
            if number != signal.SIGINT:
                os.kill(os.getpid(), number)
                time.sleep(_GRACE_S)
            # Not `os._exit`, in whose place others may act before the end.
            posix._exit(128 + number)


_state = _State()


def stop_all(reason: Reason) -> None:
    """Stop every launch of this process, in all threads."""
    for running in list(_state.running.values()):
        running.stop(reason)


def wait_for_the_end() -> NoReturn:
    """Wait until the process, which is about to end, has ended."""
    _state.waiting += 1
    while True:
        time.sleep(60)


@contextmanager
def last_words(say: Callable[[int], None]) -> Iterator[None]:
    """Call a function before SIGTERM, or a second Ctrl-C that Python does not come to, ends us.

    Launches are stopped before, and no thread returns from one. Where the program has a handler of
    its own, or the signal is ignored, nothing changes. Processes that are forked meanwhile end as
    they would without.

    Args:
        say: Called in the watching thread with the number of the signal.
    """
    before = _state.last_words
    _state.last_words = say
    _state.start()
    if _state.pipe is not None:
        _state.pipe.await_end(True)
    try:
        yield
    finally:
        _state.last_words = before
        if before is None and _state.pipe is not None:
            _state.pipe.await_end(False)


def _after_fork_in_child() -> None:
    """Reset the state in a forked process, which has no watching thread and no launches."""
    global _state
    inherited, _state = _state, _State()
    if inherited.pipe is not None:
        inherited.pipe.close_inherited()


at_interrupt(lambda: stop_all("interrupt"))
os.register_at_fork(after_in_child=_after_fork_in_child)
