"""Verifies the files of a folder, and skips those that an earlier report contains."""

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
    """Verifies files.

    Attributes:
        slots: Number of files that are verified at the same time.
    """

    slots: int

    def submit(self, file: Path) -> None:
        """Begin to verify a file; the caller keeps at most as many files running as slots."""

    def next(self) -> tuple[Path, Verification]:
        """Wait until the verification of a file has finished; return the file and its result."""

    def end(self) -> None:
        """End the verifications that are still running."""


def verify_folder(
    folder: Path, start: Callable[[], Executor], report: Report, output: Path | None
) -> int:
    """Verify each Python file in a folder that defines `candidate`, `reference` and `inputs`.

    Args:
        folder: Folder that contains the files.
        start: Creates the executor; called only if a file must be verified.
        report: Called for each file that is finished, with its name, its verification and its line
            in the output.
        output: File to which a line of JSON is added for each verification. Files that it already
            contains with the same digest are skipped.

    Returns:
        The number of files that were skipped.

    Raises:
        UsageError: There are no such files, or the report cannot be written.
    """
    files = sorted(file for file in folder.glob("*.py") if is_case(file))
    if not files:
        raise UsageError(
            f"`{folder}` does not contain a file that defines candidate, reference and inputs"
        )
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
    """Return whether a file defines the three functions that a verification needs."""
    text = file.read_text("utf-8", "replace")
    return all(f"def {name}(" in text for name in ("candidate", "reference", "inputs"))


def no_verdict(why: str) -> Verification:
    """Return the inconclusive result of a file that could not be verified."""
    empty = Verification(verdict="inconclusive", failures=(), covered={"cases": 0})
    return replace(empty, notes=(why,))


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def _known(output: Path | None) -> set[tuple[str, str]]:
    """Return the name and digest of each file verified earlier; incomplete lines are ignored."""
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
