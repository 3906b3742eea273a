"""One run of a program whose kernels are instrumented by Triton.

A failed assertion destroys the GPU's context, so at most one launch of a run has errors: the first
launch that the log does not report as finished.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ttools.core.errors import TtoolsError, UsageError
from ttools.core.process.script import Target
from ttools.sanitizer.gpu.device_output import read_device_output
from ttools.sanitizer.gpu.instrumentation import TritonTool
from ttools.sanitizer.gpu.launch_log import LOG, LogEntry, RunLog, read_log
from ttools.sanitizer.gpu.process import run
from ttools.sanitizer.gpu.tool_run import STDIN, STREAMS, ToolRun, environment

_SIGNALLED, _INTERRUPTED = 128, 130


def run_instrumented(
    tool: TritonTool, target: Target, folder: Path, *, shown: bool, timeout: float | None
) -> ToolRun:
    """Run a program with a mode of Triton's instrumentation switched on.

    Args:
        tool: The mode to switch on.
        target: The user's program and its arguments.
        folder: Empty folder for the files of the run; a file `stdin` in it is the program's
            standard input.
        shown: If True, the output of the program is shown after it has ended.
        timeout: Seconds after which the program is stopped; None for no limit.

    Raises:
        UsageError: There is no such script or module.
        TtoolsError: A runtime that the mode needs is missing, or the program failed to start.
    """
    command = [
        *(sys.executable, "-m", "ttools.sanitizer.gpu.child", str(folder)),
        *(target.kind, target.name, *target.arguments),
    ]
    stdin, streams = folder / STDIN, folder / STREAMS
    with (
        (stdin if stdin.exists() else Path(os.devnull)).open("rb") as quiet,
        streams.open("wb") as written,
    ):
        ended = run(
            command,
            {**environment(os.environ), **tool.environment()},
            stdin=quiet,
            output=written,
            timeout=timeout,
        )
    if shown:
        _show(streams)
    log = read_log(folder)
    if ended.why == "itself":
        _require_run(tool, folder, log, ended.status)
    output = read_device_output(streams.read_text("utf-8", errors="replace"))
    log.launches = _failed(log.launches) if output.records else log.launches
    return ToolRun(
        output=output, log=log, status=_status(log, ended.why, ended.status), why=ended.why
    )


def _show(streams: Path) -> None:
    """Copy the output of the program to standard output."""
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:  # in a notebook
        sys.stdout.write(streams.read_text("utf-8", errors="replace"))
        return
    with streams.open("rb") as file:
        shutil.copyfileobj(file, buffer)
    buffer.flush()


def _require_run(tool: TritonTool, folder: Path, log: RunLog, status: int) -> None:
    """Raise an error if the program was not run."""
    if log.refusal is not None:
        raise (UsageError if log.misuse else TtoolsError)(log.refusal)
    if not (folder / LOG).exists():
        raise TtoolsError(f"`{tool.name}` did not start the program: it ended with status {status}")


def _failed(launches: Sequence[LogEntry]) -> list[LogEntry]:
    """Return the launches with positions that assign all errors to the failed launch.

    The positions of these errors are offsets in the program's output. Positions in the log are
    lengths of compute-sanitizer's report, which does not exist in such a run. The failed launch
    therefore gets all positions from 0 on, and the other launches end before or begin after these
    positions.
    """
    first = next((n for n, launch in enumerate(launches) if launch.end is None), len(launches) - 1)
    before, during, after = (-2, -1), (0, sys.maxsize), (sys.maxsize, None)
    positions = (
        before if n < first else during if n == first else after for n in range(len(launches))
    )
    return [
        replace(launch, begin=begin, end=end)
        for launch, (begin, end) in zip(launches, positions, strict=True)
    ]


def _status(log: RunLog, why: str, status: int) -> int:
    """Return the exit status of the program as a shell reports it."""
    if why == "interrupt":
        return _INTERRUPTED
    if log.status is not None:
        return log.status
    return _SIGNALLED - status if status < 0 else status
