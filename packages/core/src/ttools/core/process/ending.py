"""The end of a user's script as Python ends a process: its threads, exit functions, children.

Python does this when the process ends. A script's process lives on to report what the script did,
kernels of these last steps included, so they are taken here and in Python's order. Must not know
what is reported.
"""

from __future__ import annotations

import atexit
import gc
import multiprocessing.util
import os
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

from ttools.core.ownership import owner_of_frame
from ttools.core.patches import Patches
from ttools.core.process import interruptible
from ttools.core.process.thread_limit import ThreadLimitError, starting_thread

# Both register an exit function when they are first used. Those tidy up for the whole process.
weakref.finalize(multiprocessing.util, int).detach()

#: What executors of these modules set for good when they learn that the process ends.
_ENDING_FLAGS = {
    "concurrent.futures.thread": "_shutdown",
    "concurrent.futures.process": "_global_shutdown",
}

Register = Callable[..., Any]

_interrupted = threading.Event()
_latest: list[ModuleType] = []


class ScriptEnd:
    """What a script leaves to the end of its process; entered before the script starts.

    Functions that the script or a library gives to `atexit` meanwhile are kept for `finish`; ours
    are left to the end of the process.
    """

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._children = set(multiprocessing.active_children())
        self._functions: list[tuple[Callable[..., object], Callable[[], object]]] = []
        self._patches = Patches()

    def __enter__(self) -> ScriptEnd:
        self._patches.wrap(atexit, "register", self._registering)
        self._patches.wrap(atexit, "unregister", self._unregistering)
        return self

    def __exit__(self, *raised: Any) -> None:
        self._patches.undo()

    def finish(self) -> None:
        """Takes the steps; daemons are left alone.

        What an exit function raises is printed, as Python does.

        Raises:
            KeyboardInterrupt: the user has waited long enough.
        """
        try:
            self._end_executors()
            self._join_threads()
            self._call_functions()
            self._join_children()
        except KeyboardInterrupt:
            _interrupted.set()
            raise
        finally:
            for module, flag in _ENDING_FLAGS.items():
                if hasattr(sys.modules.get(module), flag):
                    setattr(sys.modules[module], flag, False)

    def _registering(self, register: Register) -> Register:
        def registered(function: Callable[..., object], /, *args: Any, **kwargs: Any) -> Any:
            if owner_of_frame(sys._getframe(1)) == "ttools":
                return register(function, *args, **kwargs)
            self._functions.append((function, partial(function, *args, **kwargs)))
            return function

        return registered

    def _unregistering(self, unregister: Register) -> Register:
        def unregistered(function: Callable[..., object], /) -> None:
            self._functions = [each for each in self._functions if each[0] != function]
            unregister(function)

        return unregistered

    def _end_executors(self) -> None:
        """Tells executors that the process ends: their idle threads wait for that only."""
        # What the standard library registers there may be called again at the real end.
        callbacks: list[Callable[[], object]] = threading._threading_atexits  # type: ignore[attr-defined]
        for callback in reversed(callbacks):
            # It waits for the executors' threads in a way that Ctrl-C would not end.
            thread = threading.Thread(target=_call, args=(callback,), daemon=True)
            try:
                with starting_thread():
                    thread.start()
            except ThreadLimitError:
                _call(callback)
            else:
                interruptible.join(thread)

    def _join_threads(self) -> None:
        while started := [
            thread
            for thread in threading.enumerate()
            if thread not in self._threads and not thread.daemon
        ]:
            for thread in started:
                interruptible.join(thread)

    def _call_functions(self) -> None:
        while self._functions:
            function, call = self._functions.pop()
            _call(call, f"Exception ignored in atexit callback: {function!r}")

    def _join_children(self) -> None:
        for child in multiprocessing.active_children():
            if child not in self._children and not child.daemon:
                interruptible.join(child)


def keep_until_end(module: ModuleType) -> None:
    """What `hasten_end` clears: the `__main__` of the latest script that was run here."""
    _latest[:] = [module]


def hasten_end() -> None:
    """What a command does last, so that Python does not destroy all modules one by one.

    With torch among them that takes up to a second. What the script holds is let go of as Python
    does it, and what it left in cycles is collected. Python then clears all other modules, too, but
    looks for no more cycles. Does nothing while threads may use any of that, nor where Triton would
    tell all that is not destroyed (since it is bound by nanobind).
    """
    from ttools.core.triton_versions import tells_leaks

    if threading.active_count() > 1 or tells_leaks():
        return
    for module in _latest:
        names = sorted(filter("__builtins__".__ne__, vars(module)), key=_is_public)
        vars(module).update(dict.fromkeys(names))
    gc.collect()
    gc.freeze()


def _is_public(name: str) -> bool:
    """Whether Python lets go of other names of a module before this one."""
    return not name.startswith("_") or name.startswith("__")


def leave_abruptly() -> None:
    """Has `leave_if_interrupted` end the process: threads go on that must not be waited for."""
    _interrupted.set()


def leave_if_interrupted(status: int) -> None:
    """Ends the process at once where waiting for its threads was given up.

    Ctrl-C has ended `finish`, and Python would wait for the same threads again, or a call in the
    background goes on.
    """
    if _interrupted.is_set():
        leave_at_once(status)


def leave_at_once(status: int) -> None:
    """Ends the process after its exit functions, without taking down what it has imported."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _call(function: Callable[[], object], title: str = "Exception ignored:") -> None:
    try:
        function()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - nothing ends the end of a process
        print(title, file=sys.stderr)  # noqa: T201 - as Python does
        traceback.print_exc()
