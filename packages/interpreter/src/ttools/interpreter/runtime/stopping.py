"""Stops running launches at their time limit, at Ctrl-C, and when a signal terminates the process.

Native code reads the `abort` flag of its launch at the start of each iteration of long loops. The
launching thread cannot react to a time limit or a signal while it is in native code, so a watching
thread sets the flag. The watching thread is started by the first launch that may take a long time.
It is a Python thread, but it is not registered with `threading`, whose list of threads belongs to
the program. It sleeps until a time limit is reached or a signal arrives. It does not poll, because
it would have to wait for the GIL, which short launches release for less time than a thread takes to
wake up.
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

#: The interval at which the thread checks launches during which a signal has arrived.
_TICK_S = 0.05
#: The longest sleep of the thread, which is less than the longest timeout of `poll`.
_LONGEST_S = 86400.0
#: The longest time that a new launch waits until the thread has taken it into account.
_NOTICE_S = 0.05
#: Maximum time for which a process that received a terminating signal waits for its launches.
_GRACE_S = 2.0


@dataclass(frozen=True)
class Stop:
    """The state of a launch when it was stopped.

    Attributes:
        kernel: Name of the kernel.
        reason: `timeout`; `interrupt` for Ctrl-C; `end` if the process ends.
        seconds: Seconds since the launch began.
        program: Coordinates of the first program that was stopped in a loop, or None.
        location: Source location of that loop.
        begun: Upper bound of the number of programs that had begun.
        programs: Number of programs of the launch.
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
    """Record which of the stopped programs comes first.

    Args:
        launch: Structure that receives the program and the site.
        stopped: Linear id of each stopped program, and the site of the loop in which it was.
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
        """Record that Python's main thread enters the native code of this launch."""
        self.holds_main = True
        # Python may handle a signal in a callback from native code, where nothing catches the
        # exception of the handler. This hook then stops the launch, which raises the exception
        # when it has ended.
        self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        # Our handler may have been removed: LLVM removes its own handlers, and ours with them, at
        # the first signal, and the program may have installed one for a while, as event loops do.
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
        """Stop the launch, unless it has ended and another launch may use its memory."""
        with _state.lock:
            if _state.running.get(self.address) is self:
                self.reason = self.reason or reason
                self.launch.abort = 1


class _State:
    """The watching thread of this process, and the launches that it watches.

    Attributes:
        running: Maps the address of each launch to the launch.
        until: Time of the next check by the monotonic clock, unless the thread is woken earlier.
        ending: True if a signal is about to terminate the process.
        waiting: Number of threads that wait for the end of the process.
        before_termination: Called with the number of a signal before the signal terminates the
            process; None for no call.
        pipe: The pipe from which the thread reads signals; None if the thread does not run.
    """

    def __init__(self) -> None:
        self.running: dict[int, Running] = {}
        self.lock = threading.Lock()
        self.until = math.inf
        self.ending = False
        self.waiting = 0
        self.before_termination: Callable[[int], None] | None = None
        self.pipe: SignalPipe | None = None
        self._asked = ctypes.c_int32(0)
        self._has_looked = threading.Event()

    def start(self) -> None:
        """Make the watching thread check the launches, and wait a short time until it has done so.

        The thread is started if it does not run.

        Raises:
            ThreadLimitError: The thread cannot be started.
        """
        self._has_looked.clear()
        with self.lock:
            if self.pipe is None or not self.pipe.wake():
                try:
                    self.pipe = SignalPipe()
                except OSError:
                    return  # the program uses all file descriptors; its launches cannot be stopped
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
        """Stop overdue launches, and return the seconds until the next check; None for no check."""
        self._stop_interrupted()
        now = time.monotonic()
        for running in list(self.running.values()):
            if now >= running.deadline:
                running.stop("timeout")
        self.until = math.inf  # a launch that begins from here on wakes this thread
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
        if self.before_termination is not None:
            if self._asked.value:
                self._end(number)  # a second Ctrl-C, and Python has not handled the first one yet
                return
            self._asked.value = 1
            asked = ctypes.byref(self._asked)
            answered = ctypes.c_void_p(native_runtime().answered)
            if ctypes.pythonapi.Py_AddPendingCall(answered, asked):
                self._asked.value = 0
        self._stop_interrupted()

    def _stop_interrupted(self) -> None:
        """Stop launches of the main thread during which the user has pressed Ctrl-C.

        Launches continue if the program has installed another handler. A launch that began after
        the signal is not stopped, because Python has already raised the exception. A launch whose
        native code the main thread was just about to enter is stopped at the next tick.
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
        """Call `before_termination`, then terminate the process as the signal would have done."""
        function, pipe = self.before_termination, self.pipe
        if function is None or pipe is None:
            return
        self.ending = True
        expected = self.waiting + len(self.running)
        stop_all("end")
        until = time.monotonic() + _GRACE_S
        while self.waiting < expected and time.monotonic() < until:
            time.sleep(0.01)
        try:
            function(number)
        finally:
            pipe.release(number)
            if number != signal.SIGINT:
                os.kill(os.getpid(), number)
                time.sleep(_GRACE_S)
            # `os._exit` is not called, because a program may have replaced it.
            posix._exit(128 + number)


_state = _State()


def stop_all(reason: Reason) -> None:
    """Stop all launches of this process, in all threads."""
    for running in list(_state.running.values()):
        running.stop(reason)


def wait_for_the_end() -> NoReturn:
    """Wait until the process ends, which is about to happen."""
    _state.waiting += 1
    while True:
        time.sleep(60)


@contextmanager
def before_termination(function: Callable[[int], None]) -> Iterator[None]:
    """Return a context in which a function is called before a signal terminates the process.

    The signal is SIGTERM, or a second Ctrl-C if Python has not handled the first one. All launches
    are stopped before the function is called, and no thread returns from a launch afterwards. If
    the program handles or ignores the signal, nothing changes. In forked processes, the function is
    not called.

    Args:
        function: Called in the watching thread with the number of the signal.
    """
    earlier = _state.before_termination
    _state.before_termination = function
    _state.start()
    if _state.pipe is not None:
        _state.pipe.await_end(True)
    try:
        yield
    finally:
        _state.before_termination = earlier
        if earlier is None and _state.pipe is not None:
            _state.pipe.await_end(False)


def _after_fork_in_child() -> None:
    """Reset the state in a forked process, which has no watching thread and no launches."""
    global _state
    inherited, _state = _state, _State()
    if inherited.pipe is not None:
        inherited.pipe.close_inherited()


at_interrupt(lambda: stop_all("interrupt"))
os.register_at_fork(after_in_child=_after_fork_in_child)
