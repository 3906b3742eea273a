"""Programs taking turns: one that waits for memory is parked, and others go on in its stead.

One program runs at a time, in the launch's thread; only when it waits does another thread begin
with the next ones. Whoever runs holds the baton. Owns who gets it. Must not know what a wait is.
"""

from __future__ import annotations

import bdb
import contextvars
import ctypes
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ttools.core.process import interruptible
from ttools.core.process.thread_limit import starting_thread
from ttools.interpreter.eager.debugging.frames import from_the_kernel_on
from ttools.interpreter.eager.session import Program, Session

#: So many programs wait at once; then no further one is begun before one of them goes on.
_MOST_PARKED = 256


class _AbandonedError(BaseException):
    """Ends a program that is parked when another one has failed."""


@dataclass(eq=False)
class _Parked:
    """A program that waits.

    Attributes:
        address: of what it reads again and again.
        seen: what it read there.
        baton: given to it when it is to go on.
    """

    program: Program
    address: int
    seen: bytes
    baton: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @property
    def may_go_on(self) -> bool:
        """Whether it would read something else now."""
        return ctypes.string_at(self.address, len(self.seen)) != self.seen


class Turns:
    """Runs the programs of a launch.

    Args:
        programs: their ids, in the order in which they begin.
        run: runs the session's current program.
    """

    def __init__(
        self, session: Session, programs: Iterable[Program], run: Callable[[], None]
    ) -> None:
        self._session = session
        self._rest = deque(programs)
        self._run = run
        self._parked: list[_Parked] = []
        self._error: BaseException | None = None
        self._has_threads = False
        self._over = threading.Semaphore(0)

    @property
    def waiting(self) -> list[Program]:
        return [each.program for each in self._parked]

    def run(self) -> None:
        """Runs all programs; an error of one ends the launch."""
        try:
            self._work()
        except _AbandonedError:
            pass
        except Exception as error:  # noqa: BLE001 - raised again, when the others are gone
            self._error = self._error or error
        except BaseException as error:
            # Ctrl-C, or a debugger that is left: others may be running; they end by themselves.
            self._error = error
            for each in self._parked:
                each.baton.release()
            raise
        if self._has_threads:
            self._pass_on()
            interruptible.acquire(self._over)
        if self._error is not None:
            raise self._error

    def wait(self, address: int, seen: bytes) -> bool:
        """Runs other programs while the current one waits for memory.

        Args:
            address: of what it reads again and again.
            seen: what it read there.

        Returns:
            Whether others did.
        """
        if self._error is not None:
            raise _AbandonedError
        ready = next((each for each in self._parked if each.may_go_on), None)
        may_begin = bool(self._rest) and len(self._parked) < _MOST_PARKED
        if ready is None and not may_begin:
            return False
        me = _Parked(self._session.program, address, seen)
        self._parked.append(me)
        if ready is not None:
            self._resume(ready)
        else:
            self._begin_thread()
        interruptible.acquire(me.baton)
        if self._error is not None:
            raise _AbandonedError
        self._session.program = me.program
        return True

    # ---- threads

    def _work(self) -> None:
        while self._rest and self._error is None:
            self._session.program = self._rest.popleft()
            self._run()

    def _begin_thread(self) -> None:
        self._has_threads = True
        context = contextvars.copy_context()
        trace = sys.gettrace()
        # Python's debuggers trace one thread; those of editors care for new ones themselves.
        own = trace if isinstance(getattr(trace, "__self__", None), bdb.Bdb) else None
        thread = threading.Thread(
            target=context.run, args=(self._in_thread, own), name="eager programs", daemon=True
        )
        with starting_thread():
            thread.start()

    def _in_thread(self, trace: Any) -> None:
        if trace is not None:
            sys.settrace(trace)
        try:
            self._work()
        except _AbandonedError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by the launch's thread
            self._error = self._error or error.with_traceback(
                from_the_kernel_on(error.__traceback__)
            )
        finally:
            sys.settrace(None)
        self._pass_on()

    def _resume(self, one: _Parked) -> None:
        self._parked.remove(one)
        one.baton.release()

    def _pass_on(self) -> None:
        """Gives the baton away for good: this thread has nothing left to do."""
        if not self._parked:
            self._over.release()
            return
        ready = (each for each in self._parked if each.may_go_on)
        self._resume(next(ready, self._parked[0]))
