"""The files of a folder one after the other; what is in the report is not done again.

Owns which file is next and the lines of the report. Must not know where files are verified.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ttools.core.errors import UsageError
from ttools.verifier.result import Verification

Report = Callable[[str, Verification, str], None]


class Executor(Protocol):
    """Where files are verified.

    Attributes:
        slots: how many are verified at a time.
    """

    slots: int

    def submit(self, file: Path) -> None:
        """Begins a file; there are no more begun than slots."""

    def next(self) -> tuple[Path, Verification]:
        """Waits for one of those that were begun."""

    def end(self) -> None:
        """Ends what has not ended."""


def verify_folder(
    folder: Path, start: Callable[[], Executor], report: Report, output: Path | None
) -> int:
    """Verifies each Python file of a folder that has `candidate`, `reference` and `inputs`.

    Args:
        folder: with the files.
        start: makes the executor, if there is anything to do.
        report: is called with the name, the verification and the line of each, as they end.
        output: takes a line of JSON for each; files that it knows, with these contents, are left
            out.

    Returns:
        How many were left out.

    Raises:
        UsageError: there are no such files, or the report cannot be written.
    """
    files = sorted(file for file in folder.glob("*.py") if is_case(file))
    if not files:
        raise UsageError(f"`{folder}` has no file with candidate, reference and inputs")
    finished = _known(output)
    due = [path for path in files if (path.name, _digest(path)) not in finished]
    left_out = len(files) - len(due)
    if not due:
        return left_out
    executor = start()
    running = 0
    try:
        while due or running:
            while due and running < executor.slots:
                executor.submit(due.pop(0))
                running += 1
            file, verification = executor.next()
            running -= 1
            line = json.dumps(
                {"file": file.name, "digest": _digest(file), **verification.as_dict()}
            )
            if output is not None:
                _append(output, line)
            report(file.name, verification, line)
    finally:
        executor.end()
    return left_out


def is_case(file: Path) -> bool:
    """Whether a file has what is verified; others may be imported by those that have."""
    text = file.read_text("utf-8", "replace")
    return all(f"def {name}(" in text for name in ("candidate", "reference", "inputs"))


def no_verdict(why: str) -> Verification:
    """Of a file that could not be verified."""
    empty = Verification(verdict="inconclusive", failures=(), covered={"cases": 0})
    return replace(empty, notes=(why,))


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def _known(output: Path | None) -> set[tuple[str, str]]:
    """Files of an earlier run; a line that was cut off is no result."""
    finished = set()
    if output is not None and output.is_file():
        for line in output.read_text("utf-8").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                finished.add((entry["file"], entry["digest"]))
    return finished


def _append(output: Path, line: str) -> None:
    try:
        text = output.read_text("utf-8") if output.is_file() else ""
        with output.open("a", encoding="utf-8") as file:
            file.write(("" if not text or text.endswith("\n") else "\n") + line + "\n")
    except OSError as error:
        raise UsageError(f"cannot write `{output}`: {error.strerror}") from error
