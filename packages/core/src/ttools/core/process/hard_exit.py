"""Calls a function before `os._exit`, which ends a program without calling exit functions."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from ttools.core.process.script import return_to, working_folder


@contextmanager
def before_hard_exit(last: Callable[[int], int]) -> Iterator[None]:
    """Call `last` if `os._exit` would end this process during the `with` block.

    The working directory of the call is the one in which the block was entered. Forks of the
    process are not affected.

    Args:
        last: Function that receives the program's status and returns the status to end with.
    """
    leave = os._exit
    owner, folder = os.getpid(), working_folder()

    def leave_after_last(status: int) -> NoReturn:
        if os.getpid() == owner:
            os._exit = leave  # so that `last` is called only once, even if it calls `os._exit`
            return_to(folder)
            status = _called(last, status)
        leave(status)

    os._exit = leave_after_last
    try:
        yield
    finally:
        os._exit = leave


def _called(last: Callable[[int], int], status: int) -> int:
    try:
        status = last(status)
    except Exception:  # noqa: BLE001 - no caller is left to catch it
        traceback.print_exc()
        status = status or 1
    flush_streams()
    return status


def flush_streams() -> None:
    """Flush the standard streams, ignoring errors."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
