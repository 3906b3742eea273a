"""The lock file: winners as JSON, to be kept under version control and read by every rank."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.json_document import parse_json, read_json_document
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry

SCHEMA = "ttools.tuned/1"


class LockError(UsageError):
    """The lock file cannot be written; an existing one is unchanged."""


@dataclass(frozen=True)
class LockedBits:
    """A class of configurations that give equal bits.

    Attributes:
        gpu: The GPU for which the orders of evaluation were compared.
        equal_to: Values of the first configuration of the class.
        configurations: Number of configurations in the class.
    """

    gpu: str
    equal_to: dict[str, Any]
    configurations: int


class Lock:
    """Winning configurations by problem.

    Attributes:
        winners: Values of the winning configuration of each problem.
        bits: The class of equal bits to which the winner belongs, for problems whose classes are
            known.
    """

    def __init__(
        self,
        winners: dict[Problem, dict[str, Any]],
        bits: Mapping[Problem, LockedBits] | None = None,
    ) -> None:
        self.winners = winners
        self.bits = {} if bits is None else dict(bits)

    def find(self, problem: Problem) -> dict[str, Any]:
        """Return the values of the winner for a kernel and key.

        Raises:
            UsageError: The file has no winner for this problem; the message gives the reason if it
                is known.
        """
        if problem in self.winners:
            return self.winners[problem]
        raise UsageError(f"{problem}: {self._why_not(problem)}; tune without --locked first")

    def _why_not(self, problem: Problem) -> str:
        same = [stored for stored in self.winners if stored.kernel == problem.kernel]
        if not same:
            return "the lock file has no winner for this kernel"
        same = [stored for stored in same if stored.source == problem.source]
        if not same:
            return "the kernel's source has changed since the lock file was written"
        same = [stored for stored in same if stored.key == problem.key]
        if not same:
            return "the lock file has no winner for this key"
        own = f"{problem.device}, {problem.versions}"
        others = "; ".join(f"{stored.device}, {stored.versions}" for stored in same)
        return f"the lock file has winners for {others}, not for {own}"


def lock_of(entries: Iterable[TuningEntry]) -> Lock:
    """Return the winners of a store; problems without a winner are left out."""
    entries = list(entries)
    bits = ((entry.problem, _bits(entry)) for entry in entries)
    return Lock(
        {
            entry.problem: dict(trial.values)
            for entry in entries
            for trial in entry.trials
            if trial.key == entry.winner
        },
        {problem: own for problem, own in bits if own is not None},
    )


def _bits(entry: TuningEntry) -> LockedBits | None:
    """Return the class of equal bits to which the winner belongs; None if it is unknown."""
    classes, winner = entry.bit_classes, entry.winner
    if classes is None or winner is None or winner not in classes.same_as:
        return None
    if winner in classes.unknown:
        return None
    first = parse_json(classes.same_as[winner])
    return LockedBits(classes.target, first, len(classes.equal_to(winner)))


def merged(old: Lock | None, new: Lock) -> Lock:
    """Merge two locks; the new winner replaces an old one for the same kernel, key and device."""
    if old is None:
        return new
    replaced = {(problem.kernel, problem.key, problem.device) for problem in new.winners}
    kept = {
        problem: values
        for problem, values in old.winners.items()
        if (problem.kernel, problem.key, problem.device) not in replaced
    }
    bits = {problem: own for problem, own in old.bits.items() if problem in kept}
    return Lock({**kept, **new.winners}, {**bits, **new.bits})


@dataclass(frozen=True)
class _Winner:
    problem: Problem
    config: dict[str, Any]
    bits: LockedBits | None = None


@dataclass(frozen=True)
class _LockFile:
    winners: list[_Winner]


def read_lock(path: Path) -> Lock:
    """Read a lock file.

    Raises:
        UsageError: The file does not exist, or is not a lock file.
    """
    if path.exists() and not path.is_file():  # reading a device may never end
        raise UsageError(f"`{path}` is not a regular file, so it cannot be a lock file")
    document = read_json_document(path, SCHEMA, "lock file", _LockFile)
    return Lock(
        {winner.problem: winner.config for winner in document.winners},
        {winner.problem: winner.bits for winner in document.winners if winner.bits is not None},
    )


def lock_text(lock: Lock) -> str:
    """Return the file's text; equal winners yield equal text, in whatever order they were found."""
    rows: list[dict[str, Any]] = [
        {"problem": asdict(p), "config": config} for p, config in lock.winners.items()
    ]
    for row, problem in zip(rows, lock.winners, strict=True):
        if problem in lock.bits:
            row["bits"] = asdict(lock.bits[problem])
    rows.sort(key=lambda row: json.dumps(row, sort_keys=True))
    return json.dumps({"schema": SCHEMA, "winners": rows}, indent=2) + "\n"


def _mode(path: Path) -> int:
    """Return the permissions of the existing file, or those that the umask gives to a new file.

    A temporary file is readable only by its owner, but a lock file must be readable by all ranks.
    """
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def write_lock(lock: Lock, path: Path) -> None:
    """Replace the lock file atomically: readers see either the old file or the new one.

    Raises:
        LockError: The file cannot be written; an existing one is unchanged.
    """
    if path.exists() and not path.is_file():
        raise LockError(f"cannot write the lock file `{path}`: it is not a regular file")
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
