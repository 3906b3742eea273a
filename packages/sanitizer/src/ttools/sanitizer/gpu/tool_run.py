"""One run of a program under one tool of compute-sanitizer."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ttools.core.errors import TtoolsError, UsageError
from ttools.core.process.script import Target
from ttools.sanitizer.gpu.launch_log import LOG, REPORT, RunLog, read_log
from ttools.sanitizer.gpu.output import Output, read_output
from ttools.sanitizer.gpu.process import run
from ttools.sanitizer.gpu.tool import Tool
from ttools.sanitizer.gpu.tools import GpuTool

#: Files in the folder of a run: the program's standard input, and its output if it is not shown.
STDIN = "stdin"
STREAMS = "streams.txt"
_SIGNALLED = 128
_INTERRUPTED = 130
_ENVIRONMENT = {
    # With torch's memory pool, most out-of-bounds accesses would be inside another allocation.
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    "TTOOLS_BACKEND": "off",
}
#: Environment variables that make Triton not compile for the GPU, or omit line tables.
_UNSET = ("TRITON_INTERPRET", "TRITON_DISABLE_LINE_INFO")
#: Remarks of a tool that mean that nothing was checked.
_FATAL = re.compile(r"[Dd]evice not supported|No attachable process found|Failed to initialize")


@dataclass(frozen=True, kw_only=True)
class ToolRun:
    """The result of one run.

    Attributes:
        output: Parsed report of the tool.
        log: Log of the program's launches.
        status: Exit status of the program, as a shell reports it.
        why: Reason why the program ended; see `Ended`.
    """

    output: Output
    log: RunLog
    status: int
    why: Literal["itself", "timeout", "interrupt"]


def run_tool(
    tool: GpuTool,
    sanitizer: Tool,
    target: Target,
    folder: Path,
    *,
    shown: bool,
    timeout: float | None,
) -> ToolRun:
    """Run a program under a tool.

    Args:
        tool: The tool and its options.
        sanitizer: The compute-sanitizer of this machine.
        target: The user's program and its arguments.
        folder: Empty folder for the files of the run; a file `stdin` in it is the program's
            standard input.
        shown: If True, the program uses the streams of this process; otherwise its output goes to
            the file `streams.txt`.
        timeout: Seconds after which the program is stopped; None for no limit.

    Raises:
        UsageError: There is no such script or module.
        TtoolsError: The tool does not work on this machine, or the program failed to start.
    """
    command = [
        *(str(sanitizer.path), *tool.arguments(folder / REPORT)),
        *(sys.executable, "-m", "ttools.sanitizer.gpu.child", str(folder)),
        *(target.kind, target.name, *target.arguments),
    ]
    stdin = folder / STDIN
    try:
        with (
            (stdin if stdin.exists() else Path(os.devnull)).open("rb") as quiet,
            (folder / STREAMS).open("wb") as streams,
        ):
            ended = run(
                command,
                environment(os.environ),
                stdin=None if shown and not stdin.exists() else quiet,
                output=None if shown else streams,
                timeout=timeout,
            )
    except OSError as error:
        raise TtoolsError(f"`{sanitizer.path}` cannot be run: {error.strerror}") from error
    report = folder / REPORT
    output = read_output(report.read_bytes() if report.exists() else b"")
    log = read_log(folder)
    if ended.why == "itself":
        _require_run(tool, folder, output, log, ended.status)
    return ToolRun(
        output=output, log=log, status=_status(log, output, ended.why, ended.status), why=ended.why
    )


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the program: the inherited one with the settings of a run."""
    kept = {name: value for name, value in inherited.items() if name not in _UNSET}
    return {**kept, **_ENVIRONMENT}


def _require_run(tool: GpuTool, folder: Path, output: Output, log: RunLog, status: int) -> None:
    """Raise an error if nothing was checked in a run."""
    fatal = [remark for remark in output.remarks if _FATAL.search(remark)]
    if fatal:
        raise TtoolsError(f"compute-sanitizer {tool.name} cannot check here: {fatal[0]}")
    if log.refusal is not None:
        raise (UsageError if log.misuse else TtoolsError)(log.refusal)
    if not (folder / LOG).exists():
        reason = "; ".join(output.remarks) or f"it ended with status {status}"
        raise TtoolsError(f"compute-sanitizer {tool.name} did not start the program: {reason}")


def _status(log: RunLog, output: Output, why: str, status: int) -> int:
    """Return the exit status of the program as a shell reports it."""
    if why == "interrupt":
        return _INTERRUPTED
    if log.status is not None:
        return log.status
    # The program called os._exit, or a signal killed it. After a signal, compute-sanitizer exits
    # with the signal's number, or with 0.
    if output.crashed:
        return _SIGNALLED + status if 0 < status < _SIGNALLED else 1
    return _SIGNALLED - status if status < 0 else status
