"""Tunings as tables, JSON, CSV or a lock file.

This module decides headings, units, rounding and what is left out; `ttools.tuner` computes the
numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table

from ttools.cli.blocks import MOST_SHOWN, block, paragraph, table
from ttools.cli.console import (
    new_table,
    say,
    verbosity,
    write_json,
    write_tables,
    write_text,
)
from ttools.cli.markdown import fenced, markdown
from ttools.core.errors import UsageError
from ttools.core.location import shown_path
from ttools.core.reports.csv import csv_text
from ttools.core.reports.numbers import amount, seconds
from ttools.core.reports.report import config_text, counted

if TYPE_CHECKING:
    from ttools.tuner.measure.trial import Trial
    from ttools.tuner.report.importances import Importances
    from ttools.tuner.store.store import TuningEntry


#: Columns for configurations that can win, if they were timed, and if they were only compiled.
TIMED = ("median", "timed", "ratio", "ratio within")
TIMED_ON_GPU = (*TIMED, "registers", "spilled")
#: Maximum number of configurations that cannot win in a report that is not verbose.
_MOST_UNABLE = 3
COMPILED = ("projected", "within", "ratio", "registers", "spilled", "shared", "occupancy")


@dataclass(frozen=True)
class TuningView:
    """The parts of a tuning that reports show."""

    entry: TuningEntry

    @cached_property
    def _ranked(self) -> list[Trial]:
        from ttools.tuner.store.ranking import ranked

        return ranked(self.entry)

    def _estimate(self, trial: Trial) -> float | None:
        from ttools.tuner.store.ranking import estimate

        return estimate(self.entry, trial)

    @cached_property
    def _same(self) -> list[Trial]:
        """Return the configurations that lead to the same launch as another configuration."""
        winner = self.entry.winner
        return [t for t in self._ranked if t.same_as and t.status == "ok" and t.key != winner]

    @cached_property
    def _able(self) -> list[Trial]:
        same = {trial.key for trial in self._same}
        return [t for t in self._ranked if self._estimate(t) is not None and t.key not in same]

    @cached_property
    def _unable(self) -> list[Trial]:
        return [trial for trial in self._ranked if self._estimate(trial) is None]

    @cached_property
    def common(self) -> Mapping[str, Any]:
        """Return the parameters that are equal in all configurations, if there are several."""
        all_values = [trial.values for trial in self.entry.trials]
        first = all_values[0] if len(all_values) > 1 else {}
        return {
            name: value
            for name, value in first.items()
            if all(name in values and values[name] == value for values in all_values)
        }

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the configurations that can win."""
        trials = self.entry.trials
        if not any(trial.resources for trial in trials):
            return TIMED
        return TIMED_ON_GPU if any(trial.samples for trial in trials) else COMPILED

    def able(self) -> list[tuple[str, ...]]:
        """Return rows for the fastest configurations: the winner's mark, configuration, columns."""
        from ttools.tuner.store.ranking import winning_trial

        best = winning_trial(self.entry)
        least = None if best is None else self._estimate(best)
        return [self._row(trial, least) for trial in self._able[:MOST_SHOWN]]

    def unable(self) -> list[tuple[str, str]]:
        """Return configurations that cannot win, with reasons."""
        return [(self.config(trial), _why_not(trial)) for trial in self._unable[: _most_unable()]]

    def config(self, trial: Trial) -> str:
        """Return the parameters that distinguish a configuration from the others."""
        distinguishing = {name: v for name, v in trial.values.items() if name not in self.common}
        return config_text(distinguishing or trial.values)

    def left_out(self) -> str:
        """Return what is not shown, and which command shows it; empty if everything is shown."""
        slower, unable = len(self._able) - MOST_SHOWN, len(self._unable) - _most_unable()
        parts = [f"{slower:,} slower"] if slower > 0 else []
        parts += [f"{unable:,} more that cannot win"] if unable > 0 else []
        same = len(self._same)
        parts += [f"{same:,} that make the same launch as another"] if same else []
        return f"{' and '.join(parts)} left out; `ttools tune export` has all" if parts else ""

    def counts(self) -> str:
        """Return, e.g., `12 configurations, 3 of them cannot win`."""
        state = "" if self.entry.complete else ", interrupted"
        n, unable = len(self.entry.trials), len(self._unable)
        cannot = f", {unable:,} of them cannot win" if unable else ""
        return f"{counted(n, 'configuration')}{state}{cannot}"

    def _row(self, trial: Trial, least: float | None) -> tuple[str, ...]:
        from ttools.tuner.report.texts import mark, ratio_interval_text

        estimated = self._estimate(trial)
        ratio = f"{estimated / least:.2f}" if estimated is not None and least else ""
        time = "" if estimated is None else seconds(estimated)
        head = mark(self.entry, trial), self.config(trial)
        if self.columns == COMPILED:
            own, within = trial.projection, ""
            if own is not None and estimated:
                time += "*" if own["outside"] else ""
                ends = own["low"], own["high"]
                within = " ".join(f"{end / estimated - 1:+.0%}" for end in ends)
            return *head, time, within, ratio, *_static(trial)
        is_alternating = trial.key in self.entry.final
        timed = "" if not trial.samples else "alternately" if is_alternating else "alone"
        shown = *head, time, timed, ratio, ratio_interval_text(self.entry, trial)
        return shown if self.columns == TIMED else (*shown, *_static(trial)[:2])

    def projected(self) -> str:
        """Return the winner's projected time with its interval; empty if it was not projected."""
        from ttools.tuner.report.texts import projected_text
        from ttools.tuner.store.ranking import winning_trial

        best = winning_trial(self.entry)
        return "" if best is None or best.projection is None else projected_text(best, star=False)

    def less_certain(self) -> str:
        """Return why projections with a star are less certain, unless the winner's line says it."""
        shown = [trial.projection for trial in self._able[:MOST_SHOWN]]
        why = dict.fromkeys(text for own in shown if own for text in own["outside"])
        stated = self.projected()
        return "; ".join(f"it {text}" for text in why if text not in stated)


def _most_unable() -> int:
    """Return the maximum number of configurations to show among those that cannot win."""
    return MOST_SHOWN if verbosity() == "verbose" else _MOST_UNABLE


def _why_not(trial: Trial) -> str:
    return f"{trial.status.replace('_', ' ')}: {trial.reason}" if trial.reason else trial.status


def _static(trial: Trial) -> Sequence[str]:
    resources = trial.resources
    if resources is None:
        return ("",) * 4
    share = resources["occupancy"]
    return (
        str(resources["registers"]),
        amount(resources["spilled"], "B") if resources["spilled"] else "",
        amount(resources["shared"], "B") if resources["shared"] else "",
        "" if share is None else f"{share:.0%}",
    )


def write_as_text(
    entries: Sequence[TuningEntry], output: Path | None, *, importance: bool = False
) -> None:
    """Write a block per kernel and key: configurations that can win, by time, then the others.

    Args:
        entries: Tunings of a store or a run.
        output: File to write; None for standard output.
        importance: If True, the importance of parameters is shown, which takes a second.
    """
    write_tables([_block(entry, importance) for entry in entries if entry.trials], output)
    if output is None:
        from ttools.tuner.report.texts import winners_as_python

        write_text(winners_as_python(entries), None)


def write_as_markdown(entries: Sequence[TuningEntry], output: Path | None) -> None:
    """Write the tables for a pull request, with the winners as a code block."""
    from ttools.tuner.report.texts import winners_as_python

    tables = markdown(part for entry in entries if entry.trials for part in _tables(entry))
    write_text("\n".join(filter(None, (tables, fenced(winners_as_python(entries))))), output)


def write_as_json(
    entries: Sequence[TuningEntry],
    output: Path | None,
    *,
    script: dict[str, Any] | None = None,
    run: Mapping[str, Mapping[str, Any]] | None = None,
    notes: Sequence[str] = (),
    importance: bool = False,
) -> None:
    """Write schema `ttools.tune/1`: times in seconds."""
    from ttools.tuner.report.json import as_data

    write_json(as_data(entries, script=script, run=run, notes=notes, importance=importance), output)


def write_as_csv(
    entries: Sequence[TuningEntry], output: Path | None, *, history: bool = False
) -> None:
    """Write a row per trial."""
    from ttools.tuner.report.frames import trial_frame

    write_text(csv_text(trial_frame(entries, history=history)), output)


def write_as_html(entries: Sequence[TuningEntry], output: Path | None) -> None:
    """Write a self-contained HTML page."""
    from ttools.tuner.report.html import write_page

    write_text(write_page(entries), output)


def write_as_t4(entries: Sequence[TuningEntry], output: Path | None) -> None:
    """Write files for Kernel Tuner's tools, one per tuning: FILE-1.json, FILE-2.json, ….

    Raises:
        UsageError: There are several tunings, but no file name.
    """
    from ttools.tuner.report.t4 import t4_of

    if len(entries) == 1:
        write_json(t4_of(entries[0]), output)
        return
    if output is None:
        raise UsageError(
            f"a T4 file contains one tuning, but there are {len(entries)}: give --output FILE.json "
            "to write FILE-1.json, FILE-2.json, …, or select a kernel with --only"
        )
    for number, entry in enumerate(entries, 1):
        file = output.with_name(f"{output.stem}-{number}{output.suffix}")
        write_json(t4_of(entry), file)
        say("note", f"{file}: {entry.problem}")


def write_as_files(form: str, entries: Sequence[TuningEntry], output: Path | None) -> None:
    """Write files of another project's format to a folder, or a single one to a file or stream.

    Raises:
        UsageError: There are several files, but no folder.
    """
    from ttools.tuner.configs.writing import WRITERS

    files = WRITERS[form](entries)
    if not files:
        raise UsageError("no tuning has a winner, so there is nothing to write")
    if output is not None and output.is_dir():
        for name, text in files.items():
            file = output / name
            file.parent.mkdir(parents=True, exist_ok=True)
            write_text(text, file)
        return
    if len(files) != 1:
        raise UsageError(
            f"the format {form} needs {counted(len(files), 'file')} for these tunings: give an "
            "existing folder as --output FOLDER, or select a kernel with --only"
        )
    write_text(next(iter(files.values())), output)


def write_as_lock(entries: Sequence[TuningEntry], output: Path | None) -> None:
    """Write the winners in the form that `--locked` reads."""
    from ttools.tuner.store.lock import lock_of, lock_text

    write_text(lock_text(lock_of(entries)), output)


def _importances(entry: TuningEntry) -> Importances | None:
    from ttools.tuner.report.importances import importances

    return importances(entry)


def _block(entry: TuningEntry, importance: bool) -> RenderableType:
    """Return a tuning as text."""
    from ttools.tuner.store.bit_equality import bit_class_summary, bit_equality
    from ttools.tuner.store.failing import failure_conditions
    from ttools.tuner.store.ranking import reason

    shown, problem = TuningView(entry), entry.problem
    able, unable = shown.able(), shown.unable()
    facts = [
        ("tried", shown.counts()),
        ("winner", reason(entry)),
        ("projected", shown.projected()),
        ("* less certain", shown.less_certain()),
        ("rejected", "; ".join(map(str, failure_conditions(entry)))),
        ("bits", bit_equality(entry)),
        ("predicted", bit_class_summary(entry)),
        ("matter", str((importance and _importances(entry)) or "")),
        ("on", f"{problem.device}; {problem.versions}"),
        ("in all", config_text(shown.common)),
    ]
    tables = [table(("", "config", *shown.columns), able, left=("", "config"))] if able else []
    if unable:
        tables.append(table(("cannot win", "because"), unable, left=("cannot win", "because")))
    if shown.left_out():
        tables.append(paragraph(shown.left_out()))
    where = entry.location
    place = f"{shown_path(where[0])}:{where[1]}" if where else ""
    return block(str(problem), facts, *tables, place=place)


def _tables(entry: TuningEntry) -> Iterator[Table]:
    """Yield a tuning as tables for Markdown."""
    from ttools.tuner.store.bit_equality import bit_class_summary, bit_equality
    from ttools.tuner.store.failing import failure_conditions
    from ttools.tuner.store.ranking import reason

    shown, problem = TuningView(entry), entry.problem
    timed = new_table(f"{problem} ({shown.counts()})", ("", "config"), shown.columns)
    for row in shown.able():
        timed.add_row(*row)
    won = reason(entry)
    common = config_text(shown.common)
    remarks = [
        shown.left_out(),
        f"the winner is {won}" if won else "",
        *(f"rejected: {condition}" for condition in failure_conditions(entry)),
        bit_equality(entry),
        bit_class_summary(entry),
        f"projected: {projected}" if (projected := shown.projected()) else "",
        f"* less certain: {doubts}" if (doubts := shown.less_certain()) else "",
        f"in all: {common}" if common else "",
        f"{problem.device}; {problem.versions}",
    ]
    timed.caption = "\n".join(filter(None, remarks))
    yield timed
    if unable := shown.unable():
        failed = new_table(None, ("config", "cannot win because"), ())
        for row in unable:
            failed.add_row(*row)
        yield failed
