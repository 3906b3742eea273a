"""One run of a program whose kernels Triton instruments.

Owns the command, and which launch an error belongs to: the first that was not seen to end, since a
failed assertion ends the GPU's context. Must not know what errors mean.
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
    """Runs a program with a mode of Triton's instrumentation switched on.

    Args:
        folder: as of `run_tool`.
        shown: whether what it prints is shown, which it is once it has ended.
        timeout: in seconds.

    Returns:
        What the run left.

    Raises:
        UsageError: there is no such script or module.
        TtoolsError: something the mode needs is missing, or the program failed to start.
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
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:  # in a notebook
        sys.stdout.write(streams.read_text("utf-8", errors="replace"))
        return
    with streams.open("rb") as file:
        shutil.copyfileobj(file, buffer)
    buffer.flush()


def _require_run(tool: TritonTool, folder: Path, log: RunLog, status: int) -> None:
    if log.refusal is not None:
        raise (UsageError if log.misuse else TtoolsError)(log.refusal)
    if not (folder / LOG).exists():
        raise TtoolsError(f"`{tool.name}` did not start the program: it ended with status {status}")


def _failed(launches: Sequence[LogEntry]) -> list[LogEntry]:
    """The launches, with positions by which all errors are those of the one that failed."""
    first = next((n for n, each in enumerate(launches) if each.end is None), len(launches) - 1)
    before, during, after = (-2, -1), (0, sys.maxsize), (sys.maxsize, None)
    positions = (
        before if n < first else during if n == first else after for n in range(len(launches))
    )
    return [
        replace(each, begin=begin, end=end)
        for each, (begin, end) in zip(launches, positions, strict=True)
    ]


def _status(log: RunLog, why: str, status: int) -> int:
    if why == "interrupt":
        return _INTERRUPTED
    if log.status is not None:
        return log.status
    return _SIGNALLED - status if status < 0 else status
