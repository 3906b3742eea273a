"""Runs a command until it ends or exceeds a time limit, or until the user presses Ctrl-C.

The command gets its own process group, so that the processes that it starts can be stopped together
with it. A terminal does not send Ctrl-C to that group, so this module forwards it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Literal

#: Signals that are sent in this order to stop a program, each with the number of seconds to wait.
_GRACE_S = ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 10.0))


@dataclass(frozen=True)
class Ended:
    """The end of a program.

    Attributes:
        why: Reason of the end: `itself` (it exited or crashed), `timeout`, or `interrupt` (the user
            pressed Ctrl-C).
        status: Exit status as `subprocess` returns it: negative for a signal.
    """

    why: Literal["itself", "timeout", "interrupt"]
    status: int


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: IO[bytes] | None = None,
    output: IO[bytes] | None = None,
    timeout: float | None = None,
) -> Ended:
    """Run a command and wait for its end.

    Args:
        command: Program and its arguments.
        environment: Environment variables of the command.
        stdin: File for its standard input; by default that of this process.
        output: File for its standard output and error; by default those of this process.
        timeout: Seconds after which the command is stopped; None for no limit.

    Raises:
        OSError: The command cannot be started.
    """
    process = subprocess.Popen(
        command,
        env=dict(environment),
        stdin=stdin,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        return Ended("itself", process.wait(timeout))
    except subprocess.TimeoutExpired:
        # A program that is waiting for a kernel does not react to SIGINT.
        return Ended("timeout", _stop(process, _GRACE_S[1:]))
    except KeyboardInterrupt:
        return Ended("interrupt", _stop(process, _GRACE_S))
    except BaseException:
        _stop(process, _GRACE_S[-1:])
        raise


def _stop(process: subprocess.Popen[bytes], signals: Sequence[tuple[signal.Signals, float]]) -> int:
    """Send signals to a process group until it ends; Ctrl-C skips the wait for the next signal."""
    for number, grace in signals:
        _signal_group(process, number)
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(grace)
            break
    # Processes that the program started may still be running.
    _signal_group(process, signal.SIGKILL)
    return process.poll() if process.poll() is not None else -signal.SIGKILL  # type: ignore[return-value]


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
