"""Running a program under another until it ends, takes too long, or the user has enough.

Owns signals and deadlines. The program has a process group of its own, so that all it started can
be stopped with it; Ctrl-C is passed on to it. Must not know what is run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Literal

#: For a program that is asked to end, each time a little less kindly.
_GRACE_S = ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 10.0))


@dataclass(frozen=True)
class Ended:
    """How a program ended.

    Attributes:
        why: by itself, because its time was up, or because the user pressed Ctrl-C.
        status: as `subprocess` gives it: negative for a signal.
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
    """Runs a command and waits for it.

    Args:
        stdin: what it reads; by default what we read.
        output: where both of its streams go; by default where ours do.
        timeout: in seconds.

    Raises:
        OSError: it cannot be started.
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
        # A program whose kernel hangs does not react to Ctrl-C.
        return Ended("timeout", _stop(process, _GRACE_S[1:]))
    except KeyboardInterrupt:
        return Ended("interrupt", _stop(process, _GRACE_S))
    except BaseException:
        _stop(process, _GRACE_S[-1:])
        raise


def _stop(process: subprocess.Popen[bytes], signals: Sequence[tuple[signal.Signals, float]]) -> int:
    """Ends a process and its group; another Ctrl-C ends the patience with it."""
    for number, grace in signals:
        _signal_group(process, number)
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(grace)
            break
    # What it started may have outlived it.
    _signal_group(process, signal.SIGKILL)
    return process.poll() if process.poll() is not None else -signal.SIGKILL  # type: ignore[return-value]


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
