"""`ttools tune rules STORE`: rules made of what was measured, as Python or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ttools.cli.console import say, write_text

if TYPE_CHECKING:
    from ttools.tuner.rules.synthesis import KernelRules
    from ttools.tuner.store.store import TuningEntry


def write_as_python(entries: Sequence[TuningEntry], output: Path | None) -> None:
    """A module with a function that chooses a configuration, for each kernel."""
    from ttools.tuner.rules.python import module_text

    write_text(module_text(_found(entries)), output)


def write_as_json(entries: Sequence[TuningEntry], output: Path | None) -> None:
    """Schema `ttools.tuning-rules/1`, as `@ttools.tuner.heuristics(FILE)` reads it."""
    from ttools.tuner.rules.document import rules_text

    write_text(rules_text(_found(entries)), output)


def _found(entries: Sequence[TuningEntry]) -> list[KernelRules]:
    from ttools.tuner.rules.synthesis import synthesise

    found = synthesise(entries)
    for rules in found:
        say("note", str(rules))
    return found
