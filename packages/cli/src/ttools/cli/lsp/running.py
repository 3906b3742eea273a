"""Runs of `ttools sanitize` and `ttools profile` that an editor asked for.

Owns the process: its streams, which are not the editor's, its limit of time, and its end together
with what it started. Must not know what becomes of the report.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import ttools_entry
from ttools.cli.lsp.reports import Loaded, load
from ttools.core.errors import UsageError
from ttools.core.process.worker import exit_text

_TAIL = 4000


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        report: what it found; None if it wrote no report.
        said: the end of what it printed.
        failure: a sentence where there is no report.
    """

    report: Loaded | None
    said: str
    failure: str = ""


async def run(command: str, words: Sequence[str], folder: Path, limit: float) -> Outcome:
    """Runs a command on what the words say; being cancelled ends it and all it started.

    Args:
        command: `sanitize` or `profile`.
        words: options, the script and its arguments.
        folder: to run it in.
        limit: seconds.
    """
    began = time.time()
    with TemporaryDirectory(prefix="ttools-lsp-") as scratch:
        report, output = Path(scratch, "report.json"), Path(scratch, "output.txt")
        # The entry's own file, not `-m`: that would put the workspace on the path of our imports.
        line = [sys.executable, ttools_entry.__file__, command]
        line += ["--format", "json", "--output", str(report), *words]
        with output.open("wb") as stream:
            process = await asyncio.create_subprocess_exec(
                *line,
                cwd=folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
            late = False
            try:
                await asyncio.wait_for(process.wait(), limit)
            except asyncio.TimeoutError:
                late = True
            finally:
                await _end(process)
        said = output.read_bytes()[-_TAIL:].decode(errors="replace")
        if late:
            return Outcome(None, said, f"it took longer than {limit:g} s (ttools.limitSeconds)")
        if not report.exists():
            ended = f"the process {exit_text(process.returncode)}"
            return Outcome(None, said, _last_error(said) or ended)
        try:
            return Outcome(load(report, began), said)
        except UsageError as error:
            return Outcome(None, said, str(error))


async def _end(process: asyncio.subprocess.Process) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)  # what the script has left behind, too
    except ProcessLookupError:
        return
    await process.wait()


def _last_error(said: str) -> str:
    """The last line that says what is wrong."""
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error: ")]
    return (errors or lines or [""])[-1].removeprefix("error: ").strip()
