"""The lock file: winners as JSON, to be kept under version control and read by every rank.

Owns its format. Must not know how winners were found.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.json_document import read_json_document
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry

SCHEMA = "ttools.tuned/1"


class LockError(UsageError):
    """The lock file cannot be written; the one that was there still is."""


class Lock:
    """Winners by problem.

    Attributes:
        winners: values of the winning configuration of each problem.
    """

    def __init__(self, winners: dict[Problem, dict[str, Any]]) -> None:
        self.winners = winners

    def find(self, problem: Problem) -> dict[str, Any]:
        """The values of the winner for a kernel and key.

        Raises:
            UsageError: the file has none; says why where that is known.
        """
        if problem in self.winners:
            return self.winners[problem]
        raise UsageError(f"{problem}: {self._why_not(problem)}; tune without --locked first")

    def _why_not(self, problem: Problem) -> str:
        same = [each for each in self.winners if each.kernel == problem.kernel]
        if not same:
            return "the lock file has no winner for this kernel"
        same = [each for each in same if each.source == problem.source]
        if not same:
            return "the kernel's source has changed since the lock file was written"
        same = [each for each in same if each.key == problem.key]
        if not same:
            return "the lock file has no winner for this key"
        own = f"{problem.device}, {problem.versions}"
        others = "; ".join(f"{each.device}, {each.versions}" for each in same)
        return f"the lock file has winners for {others}, not for {own}"


def lock_of(entries: Iterable[TuningEntry]) -> Lock:
    """The winners of a store; problems without one are left out."""
    return Lock(
        {
            entry.problem: dict(trial.values)
            for entry in entries
            for trial in entry.trials
            if trial.key == entry.winner
        }
    )


def merged(old: Lock | None, new: Lock) -> Lock:
    """Both; of winners for the same kernel, key and device the new one."""
    if old is None:
        return new
    replaced = {(each.kernel, each.key, each.device) for each in new.winners}
    kept = {
        each: values
        for each, values in old.winners.items()
        if (each.kernel, each.key, each.device) not in replaced
    }
    return Lock({**kept, **new.winners})


@dataclass(frozen=True)
class _Winner:
    problem: Problem
    config: dict[str, Any]


@dataclass(frozen=True)
class _LockFile:
    winners: list[_Winner]


def read_lock(path: Path) -> Lock:
    """Reads a lock file.

    Raises:
        UsageError: it is not there, or is none.
    """
    if path.exists() and not path.is_file():  # a device may give bytes without end
        raise UsageError(f"`{path}` is no regular file, and no lock file")
    found = read_json_document(path, SCHEMA, "lock file", _LockFile)
    return Lock({each.problem: each.config for each in found.winners})


def lock_text(lock: Lock) -> str:
    """The file's text: equal winners make equal text, whatever order they were found in."""
    rows = [{"problem": asdict(p), "config": config} for p, config in lock.winners.items()]
    rows.sort(key=lambda row: json.dumps(row, sort_keys=True))
    return json.dumps({"schema": SCHEMA, "winners": rows}, indent=2) + "\n"


def _mode(path: Path) -> int:
    """The mode of the file that it replaces, else that of new files: all ranks read it."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def write_lock(lock: Lock, path: Path) -> None:
    """Replaces the lock file as a whole; a reader sees the old one or the new one.

    Raises:
        LockError: it cannot be written; the old one is still there.
    """
    if path.exists() and not path.is_file():
        raise LockError(f"cannot write the lock file `{path}`: it is no regular file")
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=path.name, delete=False, encoding="utf-8"
        ) as file:
            temporary = file.name
            file.write(lock_text(lock))
        Path(temporary).chmod(_mode(path))
        os.replace(temporary, path)  # noqa: PTH105 - both are plain strings
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise LockError(f"cannot write the lock file `{path}`: {error.strerror}") from error
