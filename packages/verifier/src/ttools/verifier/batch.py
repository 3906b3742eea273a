"""Many files, one verdict each, in several processes; what is in the report is not done again.

The process has imported everything, and forks one that compares for each file: starting costs
nothing. Owns which file is next and the lines of the report.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ttools.core.errors import TtoolsError, UsageError
from ttools.verifier.options import VerifyOptions
from ttools.verifier.result import Verification

Report = Callable[[str, Verification, str], None]


def verify_folder(
    folder: Path, jobs: int, options: VerifyOptions, report: Report, output: Path | None
) -> int:
    """Verifies each Python file of a folder that has `candidate`, `reference` and `inputs`.

    Args:
        folder: with the files.
        jobs: how many are verified at a time.
        options: of each.
        report: is called with the name, the verification and the line of each, as they end.
        output: takes a line of JSON for each; files that it knows, with these contents, are left
            out.

    Returns:
        How many were left out.

    Raises:
        UsageError: there are no such files, or the report cannot be written.
    """
    files = sorted(each for each in folder.glob("*.py") if _is_case(each))
    if not files:
        raise UsageError(f"`{folder}` has no file with candidate, reference and inputs")
    known = _known(output)
    due = [each for each in files if (each.name, _digest(each)) not in known]
    from ttools.verifier.workers.warm_up import warm_up

    warm_up()
    running: dict[int, tuple[Path, int]] = {}
    try:
        while due or running:
            while due and len(running) < jobs:
                file = due.pop(0)
                pid, pipe = _start(file, options)
                running[pid] = file, pipe
            pid = _next(running)
            file, pipe = running.pop(pid)
            found = _collect(pid, pipe)
            entry = {"file": file.name, "digest": _digest(file), **found.as_dict()}
            line = json.dumps(entry)
            if output is not None:
                _append(output, line)
            report(file.name, found, line)
    finally:
        for pid, (_, pipe) in running.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 15)
            os.close(pipe)
            os.waitpid(pid, 0)
    return len(files) - len([e for e in files if (e.name, _digest(e)) not in known])


def _is_case(file: Path) -> bool:
    text = file.read_text("utf-8", "replace")
    return all(f"def {name}(" in text for name in ("candidate", "reference", "inputs"))


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def _known(output: Path | None) -> set[tuple[str, str]]:
    """Files of an earlier run; a line that was cut off is no result."""
    known = set()
    if output is not None and output.is_file():
        for line in output.read_text("utf-8").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                known.add((entry["file"], entry["digest"]))
    return known


def _append(output: Path, line: str) -> None:
    try:
        text = output.read_text("utf-8") if output.is_file() else ""
        with output.open("a", encoding="utf-8") as file:
            file.write(("" if not text or text.endswith("\n") else "\n") + line + "\n")
    except OSError as error:
        raise UsageError(f"cannot write `{output}`: {error.strerror}") from error


def _start(file: Path, options: VerifyOptions) -> tuple[int, int]:
    """A process that verifies a file, and the pipe that its result comes by."""
    from ttools.verifier.judging.judge import Judge
    from ttools.verifier.judging.processes import Subject
    from ttools.verifier.workers.process import end_with_parent

    reads, writes = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writes)
        return pid, reads
    status = 1
    try:
        os.close(reads)
        os.setpgid(0, 0)
        end_with_parent()
        path = file.resolve()
        subject = Subject(f"{path}:candidate", f"{path}:reference", f"{path}:inputs")
        answer: dict[str, Any]
        try:
            answer = Judge(subject, options).run().as_dict()
        except TtoolsError as error:
            answer = _failed(str(error)).as_dict()
        except Exception as error:  # noqa: BLE001 - of one file; the others go on
            why = f"the process that compares has failed: {type(error).__name__}: {error}"
            answer = _failed(why).as_dict()
        with os.fdopen(writes, "w") as stream:
            json.dump(answer, stream)
        status = 0
    finally:
        os._exit(status)


def _next(running: dict[int, tuple[Path, int]]) -> int:
    """A process whose result is there."""
    import select

    ready, _, _ = select.select([pipe for _, pipe in running.values()], [], [])
    return next(pid for pid, (_, pipe) in running.items() if pipe in ready)


def _collect(pid: int, pipe: int) -> Verification:
    with os.fdopen(pipe) as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    try:
        return Verification.of_dict(json.loads(text))
    except ValueError:
        return _failed("the process that compares has died")


def _failed(why: str) -> Verification:
    empty = Verification(verdict="inconclusive", failures=(), covered={"cases": 0})
    return replace(empty, notes=(why,))
