"""One run of a program under one tool of compute-sanitizer.

Owns the command, the environment and what to make of how it ended. Must not know what the errors
mean.
"""

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

#: Files in the folder of a run: what the program reads, and its output where it is not shown.
STDIN = "stdin"
STREAMS = "streams.txt"
_SIGNALLED = 128
_INTERRUPTED = 130
_ENVIRONMENT = {
    # torch's pool would hide most accesses beyond a tensor.
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    "TTOOLS_BACKEND": "off",
}
#: Variables under which Triton would not compile, or keep no lines.
_UNSET = ("TRITON_INTERPRET", "TRITON_DISABLE_LINE_INFO")
#: Remarks after which nothing was checked.
_HOPELESS = re.compile(r"[Dd]evice not supported|No attachable process found|Failed to initialize")


@dataclass(frozen=True, kw_only=True)
class ToolRun:
    """What a run left.

    Attributes:
        log: of the program's launches.
        status: of the program, as a shell would give it.
        why: it ended.
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
    """Runs a program under a tool.

    Args:
        sanitizer: the program it belongs to.
        folder: an empty one for what the run leaves; a file `stdin` in it is what it reads.
        shown: whether it has our streams; else what it writes goes to a file.
        timeout: in seconds.

    Raises:
        UsageError: there is no such script or module.
        TtoolsError: the tool cannot check here, or the program failed to start.
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


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The environment of the program: ours, with what a run needs."""
    kept = {name: value for name, value in ours.items() if name not in _UNSET}
    return {**kept, **_ENVIRONMENT}


def _require_run(tool: GpuTool, folder: Path, output: Output, log: RunLog, status: int) -> None:
    """Refuses a run in which nothing was checked."""
    hopeless = [remark for remark in output.remarks if _HOPELESS.search(remark)]
    if hopeless:
        raise TtoolsError(f"compute-sanitizer {tool.name} cannot check here: {hopeless[0]}")
    if log.refusal is not None:
        raise (UsageError if log.misuse else TtoolsError)(log.refusal)
    if not (folder / LOG).exists():
        said = "; ".join(output.remarks) or f"it ended with status {status}"
        raise TtoolsError(f"compute-sanitizer {tool.name} did not start the program: {said}")


def _status(log: RunLog, output: Output, why: str, status: int) -> int:
    if why == "interrupt":
        return _INTERRUPTED
    if log.status is not None:
        return log.status
    # It called os._exit, or a signal ended it; compute-sanitizer ends with the signal's number, or
    # with 0.
    if output.crashed:
        return _SIGNALLED + status if 0 < status < _SIGNALLED else 1
    return _SIGNALLED - status if status < 0 else status
