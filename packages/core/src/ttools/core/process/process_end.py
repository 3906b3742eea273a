"""The steps by which Python ends a process, such as joining threads and calling exit functions.

Python takes these steps when a process ends. After a script has ended, however, the process
continues in order to report what the script did. The steps are therefore taken here, in Python's
order, so that kernels which are launched during these steps are reported, too.
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

# Both modules register exit functions on first use. These functions must belong to the process, not
# to the script.
weakref.finalize(multiprocessing.util, int).detach()

#: Flags that these modules set permanently when the process begins to end.
_ENDING_FLAGS = {
    "concurrent.futures.thread": "_shutdown",
    "concurrent.futures.process": "_global_shutdown",
}

Register = Callable[..., Any]

_interrupted = threading.Event()
_latest: list[ModuleType] = []


class ScriptEnd:
    """Ends a script in the way that Python ends a process; entered before the script starts.

    Functions that the script or a library registers with `atexit` in the `with` block are kept for
    `finish`; functions of ttools stay registered with Python.
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
        """Join threads and call exit functions, as Python does; daemon threads keep running.

        Exceptions in exit functions are printed, as Python does.

        Raises:
            KeyboardInterrupt: The user pressed Ctrl-C while the function was waiting.
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
            self._functions = [entry for entry in self._functions if entry[0] != function]
            unregister(function)

        return unregistered

    def _end_executors(self) -> None:
        """Run the callbacks that end idle threads of executors, which would otherwise never end."""
        # The standard library's callbacks may be called again when the process ends.
        callbacks: list[Callable[[], object]] = threading._threading_atexits  # type: ignore[attr-defined]
        for callback in reversed(callbacks):
            # The callback joins threads in a way that Ctrl-C would not interrupt.
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
    """Remember the latest script's `__main__`, which `hasten_end` clears."""
    _latest[:] = [module]


def hasten_end() -> None:
    """Prepare for a quick exit, in which Python does not search all modules for cycles.

    If torch is imported, that search takes up to a second. This function clears the names of the
    script's module in Python's order and collects cycles once. Python then clears the other modules
    without further collections. The function does nothing if other threads are running, or if
    Triton's nanobind bindings would report objects that were not destroyed.
    """
    from ttools.core.triton_versions import reports_leaks

    if threading.active_count() > 1 or reports_leaks():
        return
    for module in _latest:
        names = sorted(filter("__builtins__".__ne__, vars(module)), key=_is_public)
        vars(module).update(dict.fromkeys(names))
    gc.collect()
    gc.freeze()


def _is_public(name: str) -> bool:
    """Return whether a module's name is public; Python clears private names before public ones."""
    return not name.startswith("_") or name.startswith("__")


def leave_abruptly() -> None:
    """Make `leave_if_interrupted` terminate the process; some threads must not be joined."""
    _interrupted.set()


def leave_if_interrupted(status: int) -> None:
    """Terminate the process immediately if the wait for its threads was interrupted.

    Otherwise, Python would wait again: for the threads that were being joined when Ctrl-C arrived,
    or for a call that continues in the background.
    """
    if _interrupted.is_set():
        leave_at_once(status)


def leave_at_once(status: int) -> None:
    """Run the exit functions and terminate the process without destroying its modules."""
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
    except BaseException:  # noqa: BLE001 - the remaining steps must be taken
        print(title, file=sys.stderr)  # noqa: T201 - as Python does
        traceback.print_exc()
