"""The formats of tunings that Python functions return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ttools.core.json_document import json_text
from ttools.core.reports.csv import csv_text
from ttools.tuner.report.frames import trial_frame
from ttools.tuner.report.html import write_page
from ttools.tuner.report.json import as_data
from ttools.tuner.store.lock import lock_of, lock_text
from ttools.tuner.store.store import TuningEntry


def formats_of(
    entries: Sequence[TuningEntry], notes: Sequence[str]
) -> Mapping[str, Callable[[], str]]:
    """Return the formats beyond text and Markdown, with a function for each of them.

    Args:
        entries: Tunings of a run.
        notes: Notes for the user.
    """
    return {
        "json": lambda: json_text(as_data(entries, notes=notes)),
        "csv": lambda: csv_text(trial_frame(entries)),
        "html": lambda: write_page(entries),
        "lock": lambda: lock_text(lock_of(entries)),
    }
