"""A store of trials and winners in one SQLite file, so that nothing is measured twice.

Each trial is written as soon as it is done, and remains in the file if the run is interrupted.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from ttools.core.errors import TtoolsError, UsageError
from ttools.core.json_document import parse_json
from ttools.tuner.measure.reproducible import BitClasses
from ttools.tuner.measure.trial import Finite, Trial
from ttools.tuner.store.problem import Problem

SCHEMA = 7
#: For each configuration, the first configuration with equal bits, or the reason why it cannot be
#: compared.
_BIT_CLASS = """CREATE TABLE bit_class (
    problem INTEGER NOT NULL REFERENCES problem (id), target TEXT NOT NULL, config TEXT NOT NULL,
    same_as TEXT NOT NULL, reason TEXT NOT NULL, UNIQUE (problem, config)
)"""
#: Statements that convert a store of each earlier schema to the next schema.
_CONVERSIONS = {
    4: "ALTER TABLE trial ADD COLUMN projection TEXT",
    5: "ALTER TABLE trial ADD COLUMN bit_equal INTEGER",
    6: _BIT_CLASS,
}
#: SQLite's application ID, which marks the file as a store ("ttun").
_APPLICATION = 0x7474756E
_PATIENCE_S = 30.0
_TABLES = f"""
CREATE TABLE problem (
    id INTEGER PRIMARY KEY,
    kernel TEXT NOT NULL, source TEXT NOT NULL, key TEXT NOT NULL, device TEXT NOT NULL,
    versions TEXT NOT NULL, file TEXT, line INTEGER,
    winner TEXT, final TEXT, complete INTEGER NOT NULL DEFAULT 0, tuned TEXT,
    UNIQUE (kernel, source, key, device, versions)
);
CREATE TABLE trial (
    problem INTEGER NOT NULL REFERENCES problem (id), config TEXT NOT NULL,
    named TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL, samples TEXT NOT NULL,
    predicted REAL, resources TEXT, reference TEXT NOT NULL, checks TEXT NOT NULL,
    tried TEXT NOT NULL, conditions TEXT, same_as TEXT NOT NULL DEFAULT '',
    projection TEXT, bit_equal INTEGER
);
CREATE INDEX trial_of_config ON trial (problem, config);
{_BIT_CLASS};
-- Times in Unix seconds at which programs ended with all their tunings complete.
CREATE TABLE program (command TEXT PRIMARY KEY, ended REAL NOT NULL);
"""
_NAMES = ("problem", "trial", "program", "bit_class")


class StoreError(TtoolsError):
    """The store cannot be written; its previous contents are unchanged."""


@dataclass(frozen=True, kw_only=True)
class TuningEntry:
    """The stored results of a problem.

    Attributes:
        problem: The kernel, key and device.
        trials: The latest trial of each configuration, in the order in which they were made.
        earlier: Superseded trials, for whose configurations there are newer trials.
        winner: Key of the chosen configuration; None if none was chosen.
        final: Samples in seconds of the last comparison of finalists, by configuration key.
        complete: True if the search was not interrupted.
        location: File and line of the kernel.
        present: Key of the configuration in use before this tuning; it is not stored.
        constants: Integer arguments of the launch by name; they are not stored.
        bit_classes: Which configurations give equal bits; None if this was never requested.
    """

    problem: Problem
    trials: Sequence[Trial] = ()
    earlier: tuple[Trial, ...] = ()
    winner: str | None = None
    final: dict[str, list[Finite]] = field(default_factory=dict)
    complete: bool = False
    location: tuple[str, int] | None = None
    present: str | None = None
    constants: Mapping[str, int] = field(default_factory=dict)
    bit_classes: BitClasses | None = None


class TuningStore:
    """An open store.

    Args:
        path: Path of the file.
        create: If True, a missing file is created; if False, the file must exist.

    Raises:
        UsageError: The file is not a store, is damaged, or was written by a newer ttools.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        if not create and not path.is_file():
            raise UsageError(f"there is no store `{path}`")
        if not path.parent.is_dir():
            raise UsageError(f"cannot create `{path}`: there is no folder `{path.parent}`")
        if path.exists() and not path.is_file():
            raise UsageError(f"`{path}` is not a regular file, so it cannot be a store")
        with self._reading():
            self._base = sqlite3.connect(
                path, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False
            )
            self._base.row_factory = sqlite3.Row
            self._prepare(create)

    def _prepare(self, create: bool) -> None:
        (application,) = self._base.execute("PRAGMA application_id").fetchone()
        (schema,) = self._base.execute("PRAGMA user_version").fetchone()
        (tables,) = self._base.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != _APPLICATION and tables:
            raise UsageError(
                f"`{self.path}` is an SQLite file, but not a store of tunings; use another file"
            )
        if schema > SCHEMA:
            raise UsageError(
                f"`{self.path}` was written by a newer ttools (schema {schema}, this one supports "
                f"{SCHEMA}); the file is unchanged: update ttools, or use another store"
            )
        damage = self._base.execute("PRAGMA quick_check(1)").fetchone()[0]
        if damage != "ok":
            # The first line of SQLite's message only names the database.
            raise sqlite3.DatabaseError(damage.splitlines()[-1])
        if not tables and not create:
            raise UsageError(f"`{self.path}` is empty, so it is not a store of tunings")
        if not tables:
            try:
                self._execute(_TABLES, f"PRAGMA application_id = {_APPLICATION}")
            except StoreError as error:
                raise UsageError(
                    f"cannot create the store `{self.path}`: {error.__cause__}; free space, or use "
                    "another file"
                ) from error
        elif schema in _CONVERSIONS:
            # A file that cannot be written can still be read without the new columns.
            with suppress(StoreError):
                self._execute(";".join(_CONVERSIONS[older] for older in range(schema, SCHEMA)))
        elif schema != SCHEMA:  # from before the first release
            raise ValueError(f"its schema {schema} is not supported")
        else:
            self._check_columns()

    def _check_columns(self) -> None:
        """Check that all columns exist; SQLite opens a damaged schema without an error."""
        with closing(sqlite3.connect(":memory:")) as sound:
            sound.executescript(_TABLES)
            expected = {table: _columns(sound, table) for table in _NAMES}
        for table, columns in expected.items():
            for name in columns:
                if name not in _columns(self._base, table):
                    raise ValueError(f"its table `{table}` has no column `{name}`")

    def _execute(self, script: str, *further: str) -> None:
        """Execute all statements of a script or none, and set the schema version."""
        with self._transaction():
            for statement in [*filter(str.strip, script.split(";")), *further]:
                self._base.execute(statement)
            self._base.execute(f"PRAGMA user_version = {SCHEMA}")

    def close(self) -> None:
        """Close the file. All results have already been written."""
        self._base.close()

    # ---- reading
    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Report the file as damaged if it has contents that the store would not have written."""
        try:
            yield
        except UsageError:
            raise  # the file is not a store, and the message says why
        except (sqlite3.Error, OverflowError, ValueError, TypeError) as error:
            raise UsageError(_unusable(self.path, error)) from error

    def entry(self, problem: Problem) -> TuningEntry:
        """Return the results of a problem; the entry is empty if there are none.

        Raises:
            UsageError: The file is damaged.
        """
        with self._reading():
            row = self._base.execute(f"SELECT * FROM problem WHERE {_SAME}", astuple(problem))
            stored = row.fetchone()
            return TuningEntry(problem=problem) if stored is None else self._entry(stored)

    def entries(self, kernel: str | None = None) -> list[TuningEntry]:
        """Return the entries of all problems or of one kernel, in the order of their first tuning.

        Raises:
            UsageError: The file is damaged.
        """
        with self._reading():
            rows = self._base.execute(
                "SELECT * FROM problem WHERE :kernel IS NULL OR kernel = :kernel ORDER BY id",
                {"kernel": kernel},
            ).fetchall()
            return [self._entry(row) for row in rows]

    def ended(self, command: str) -> float:
        """Return when a program last completed all of its tunings, in Unix seconds; 0 if never.

        Raises:
            UsageError: The file is damaged.
        """
        with self._reading():
            row = self._base.execute("SELECT ended FROM program WHERE command = ?", (command,))
            return float((row.fetchone() or (0.0,))[0])

    def _entry(self, row: sqlite3.Row) -> TuningEntry:
        rows = self._base.execute(
            "SELECT * FROM trial WHERE problem = ? ORDER BY rowid", (row["id"],)
        ).fetchall()
        latest = set({row["config"]: number for number, row in enumerate(rows)}.values())
        stored = {
            **dict(row),
            "problem": dict(row),
            "trials": [_trial(row) for n, row in enumerate(rows) if n in latest],
            "earlier": [_trial(row) for n, row in enumerate(rows) if n not in latest],
            "final": parse_json(row["final"] or "{}"),
            "complete": bool(row["complete"]),
            "location": (row["file"], row["line"]) if row["file"] else None,
            "bit_classes": self._bit_classes(row["id"]),
        }
        return msgspec.convert(stored, TuningEntry)

    def _bit_classes(self, problem: int) -> dict[str, Any] | None:
        if not _columns(self._base, "bit_class"):
            return None  # the file is not writable, and is older than these classes
        rows = self._base.execute(
            "SELECT * FROM bit_class WHERE problem = ? ORDER BY rowid", (problem,)
        ).fetchall()
        if not rows:
            return None
        return {
            "target": rows[0]["target"],
            "same_as": {row["config"]: row["same_as"] for row in rows},
            "unknown": {row["config"]: row["reason"] for row in rows if row["reason"]},
        }

    # ---- writing
    def add(self, problem: Problem, trial: Trial, location: tuple[str, int]) -> None:
        """Add a trial; an older one of the same configuration is kept as history.

        Raises:
            StoreError: The file cannot be written; its previous contents are unchanged.
        """
        with self._transaction():
            number = self._number(problem, location)
            self._base.execute(
                "INSERT INTO trial VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(number, trial.key, json.dumps(dict(trial.values), default=repr)),
                    *(trial.status, trial.reason),
                    *(json.dumps(list(trial.samples)), trial.predicted),
                    None if trial.resources is None else json.dumps(dict(trial.resources)),
                    *(trial.reference, trial.checks, _now()),
                    None if trial.conditions is None else json.dumps(dict(trial.conditions)),
                    trial.same_as,
                    None if trial.projection is None else json.dumps(trial.projection),
                    trial.bit_equal,
                ),
            )

    def classify(self, problem: Problem, classes: BitClasses, location: tuple[str, int]) -> None:
        """Record which configurations of a problem give equal bits; replaces earlier classes.

        Raises:
            StoreError: The file cannot be written; its previous contents are unchanged.
        """
        with self._transaction():
            number = self._number(problem, location)
            self._base.execute("DELETE FROM bit_class WHERE problem = ?", (number,))
            self._base.executemany(
                "INSERT INTO bit_class VALUES (?, ?, ?, ?, ?)",
                [
                    (number, classes.target, key, first, classes.unknown.get(key, ""))
                    for key, first in classes.same_as.items()
                ],
            )

    def decide(
        self,
        problem: Problem,
        winner: str | None,
        final: dict[str, list[float]],
        complete: bool,
        location: tuple[str, int],
    ) -> None:
        """Record the winner of a problem.

        Raises:
            StoreError: The file cannot be written; its previous contents are unchanged.
        """
        with self._transaction():
            self._base.execute(
                "UPDATE problem SET winner = ?, final = ?, complete = ?, tuned = ? WHERE id = ?",
                (winner, json.dumps(final), complete, _now(), self._number(problem, location)),
            )

    def end(self, command: str) -> None:
        """Record that a program has ended with all tunings complete.

        Raises:
            StoreError: The file cannot be written; its previous contents are unchanged.
        """
        with self._transaction():
            self._base.execute("REPLACE INTO program VALUES (?, ?)", (command, time.time()))

    def _number(self, problem: Problem, location: tuple[str, int]) -> int:
        self._base.execute(
            "INSERT OR IGNORE INTO problem (kernel, source, key, device, versions, file, line) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*astuple(problem), *location),
        )
        row = self._base.execute(f"SELECT id FROM problem WHERE {_SAME}", astuple(problem))
        return int(row.fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._base.execute("BEGIN IMMEDIATE")
            yield
            self._base.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise StoreError(
                f"cannot write to the store `{self.path}`: {error}; its earlier contents are "
                "unchanged, and new results are only in this run's report"
            ) from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._base.in_transaction:
            self._base.execute("ROLLBACK")


_SAME = "kernel = ? AND source = ? AND key = ? AND device = ? AND versions = ?"


def _columns(base: sqlite3.Connection, table: str) -> list[str]:
    """Return the names of a table's columns; empty if there is no such table."""
    return [name for _, name, *_ in base.execute(f"PRAGMA table_info({table})")]


def _trial(row: sqlite3.Row) -> dict[str, Any]:
    stored = {"projection": None, "bit_equal": None, **dict(row), "values": row["named"]}
    for name in ("values", "samples", "resources", "conditions", "projection"):
        stored[name] = None if stored[name] is None else parse_json(stored[name])
    if stored["bit_equal"] in (0, 1):  # SQLite has no Booleans
        stored["bit_equal"] = bool(stored["bit_equal"])
    return stored


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _unusable(path: Path, error: Exception) -> str:
    return (
        f"`{path}` cannot be used as a store: {error}; the file is unchanged: move it away to "
        "start a new store, or use another file"
    )
