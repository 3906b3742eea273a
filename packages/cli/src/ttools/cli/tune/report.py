"""Tunings as tables, JSON, CSV or a lock file.

Owns headings, units and rounding. What the numbers mean is `ttools.tuner`'s to say.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from ttools.cli.console import write_json, write_tables, write_text
from ttools.cli.markdown import fenced, markdown
from ttools.cli.profile.report import seconds
from ttools.core.reports.report import config_text, counted

if TYPE_CHECKING:
    from ttools.tuner.measure.trial import Trial
    from ttools.tuner.store.store import TuningEntry


def write_as_text(entries: Sequence[TuningEntry], output: Path | None) -> None:
    """A table per kernel and key: the configurations that can win by time, then the others."""
    write_tables([_table(entry) for entry in entries if entry.trials], output)
    if output is None:
        write_text(winners_as_python(entries), None)


def write_as_markdown(entries: Sequence[TuningEntry], output: Path | None) -> None:
    """The same for a pull request, the lines to paste as a block of code."""
    tables = markdown(_table(entry) for entry in entries if entry.trials)
    write_text("\n".join(filter(None, (tables, fenced(winners_as_python(entries))))), output)


def write_as_json(
    entries: Sequence[TuningEntry],
    output: Path | None,
    *,
    script: dict[str, Any] | None = None,
    new: dict[str, int] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Schema `ttools.tune/1`: times in seconds."""
    data = {
        "schema": "ttools.tune/1",
        "script": script,
        "problems": [_plain(entry) for entry in entries],
        "notes": list(notes),
    }
    if new is not None:
        for row, entry in zip(data["problems"], entries, strict=True):  # type: ignore[arg-type]
            row["new_trials"] = new[str(entry.problem)]  # type: ignore[index]
    write_json(data, output)


def write_as_csv(
    entries: Sequence[TuningEntry], output: Path | None, *, history: bool = False
) -> None:
    """A row per trial."""
    from ttools.tuner.report.frames import trial_frame

    write_text(trial_frame(entries, history=history).to_csv(index=False), output)


def write_as_html(entries: Sequence[TuningEntry], output: Path | None) -> None:
    """A page that needs no network."""
    from ttools.tuner.report.html import write_page

    write_text(write_page(entries, "Tunings"), output)


def write_as_lock(entries: Sequence[TuningEntry], output: Path | None) -> None:
    """The winners, as `--locked` reads them."""
    from ttools.tuner.store.lock import lock_of, lock_text

    write_text(lock_text(lock_of(entries)), output)


def _table(entry: TuningEntry) -> Table:
    problem = entry.problem
    where = f"{problem.device}; {problem.versions}"
    state = "" if entry.complete else ", interrupted"
    tried = counted(len(entry.trials), "configuration")
    table = Table(
        title=escape(f"{problem} ({tried} tried{state})"),
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("")
    table.add_column("config", overflow="fold")
    compiled = any(trial.resources for trial in entry.trials)
    for name in _COMPILED if compiled else _TIMED:
        table.add_column(name, justify="right")
    table.add_column("cannot win because", overflow="fold")
    from ttools.tuner.store.ranking import estimate, ranked, winning_trial

    best = winning_trial(entry)
    least = None if best is None else estimate(entry, best)
    trials = ranked(entry)
    same = [t for t in trials if t.same_as and t.status == "ok" and t.key != entry.winner]
    able = [t for t in trials if estimate(entry, t) is not None and t not in same]
    unable = [trial for trial in trials if estimate(entry, trial) is None]
    for trial in (*able[:_MOST_SHOWN], *unable[:_MOST_SHOWN]):
        table.add_row(*_row(entry, trial, least, _static(trial) if compiled else None))
    left_out = _left_out(len(able) - _MOST_SHOWN, len(unable) - _MOST_SHOWN, len(same))
    table.caption = escape("\n".join(filter(None, [left_out, _why(entry), where])))
    return table


def _left_out(slower: int, unable: int, same: int) -> str:
    """What the table does not show, and what does."""
    parts = [f"{slower:,} slower"] if slower > 0 else []
    parts += [f"{unable:,} more that cannot win"] if unable > 0 else []
    parts += [f"{same:,} that make the same launch as another"] if same else []
    return f"{' and '.join(parts)} left out; --format csv has all" if parts else ""


def _why(entry: TuningEntry) -> str:
    from ttools.tuner.store.ranking import reason

    found = reason(entry)
    return f"the winner is {found}" if found else ""


def winners_as_python(entries: Sequence[TuningEntry]) -> str:
    """A line to paste for each kernel and key with a winner, with what it gains."""
    from ttools.tuner.store.ranking import config_source, gain_over_first, winning_trial

    lines = []
    for entry in entries:
        best, gain = winning_trial(entry), gain_over_first(entry)
        if best is None:
            continue
        gained = f", {gain:.2f} times as fast as the first configuration" if gain else ""
        lines.append(f"{config_source(best.values)}  # {entry.problem}{gained}\n")
    return "".join(lines)


#: Rows of configurations that can win, and of those that cannot.
_MOST_SHOWN = 10
_TIMED = ("median", "95% within", "timed", "ratio")
_COMPILED = ("predicted", "ratio", "registers", "spilled", "shared", "occupancy")


def _static(trial: Trial) -> tuple[str, ...]:
    own = trial.resources
    if own is None:
        return ("",) * 4
    share = own["occupancy"]
    return (
        str(own["registers"]),
        f"{own['spilled']:,} B",
        f"{own['shared']:,} B",
        "" if share is None else f"{share:.0%}",
    )


def _row(
    entry: TuningEntry, trial: Trial, least: float | None, static: tuple[str, ...] | None
) -> tuple[str, ...]:
    from ttools.tuner.store.ranking import estimate

    own = estimate(entry, trial)
    timed = "" if not trial.samples else "in turns" if trial.key in entry.final else "alone"
    return (
        "winner" if trial.key == entry.winner else "",
        escape(config_text(trial.values)),
        "" if own is None else seconds(own),
        *(() if static else (_interval(entry, trial), timed)),
        f"{own / least:.2f}" if own is not None and least else "",
        *(static or ()),
        escape(f"{trial.status.replace('_', ' ')}: {trial.reason}" if trial.reason else ""),
    )


def _interval(entry: TuningEntry, trial: Trial) -> str:
    """The uncertainty of the reported median, in percent."""
    from ttools.tuner.measure.confidence import median_interval
    from ttools.tuner.store.ranking import estimate, samples

    interval, own = median_interval(samples(entry, trial)), estimate(entry, trial)
    if interval is None or not own:
        return ""
    return " ".join(f"{end / own - 1:+.1%}" for end in interval)


def _plain(entry: TuningEntry) -> dict[str, Any]:
    from ttools.tuner.store.ranking import reason

    problem, where = entry.problem, entry.location
    winner = next((dict(t.values) for t in entry.trials if t.key == entry.winner), None)
    return {
        "kernel": problem.kernel,
        "location": where and {"file": where[0], "line": where[1]},
        "key": problem.key_values,
        "device": problem.device,
        "versions": problem.versions,
        "source": problem.source,
        "complete": entry.complete,
        "winner": winner,
        "reason": reason(entry),
        "trials": [_trial(entry, trial) for trial in entry.trials],
    }


def _trial(entry: TuningEntry, trial: Trial) -> dict[str, Any]:
    from ttools.tuner.store.ranking import estimate

    return {
        "config": dict(trial.values),
        "status": trial.status,
        "reason": trial.reason,
        "estimate": estimate(entry, trial),
        "seconds": trial.seconds,
        "interval": trial.interval,
        "samples": list(trial.samples),
        "final_samples": entry.final.get(trial.key, []),
        "predicted": trial.predicted,
        "resources": trial.resources,
        "checks": trial.checks,
        "conditions": trial.conditions,
        "same_as": json.loads(trial.same_as) if trial.same_as else None,
    }
