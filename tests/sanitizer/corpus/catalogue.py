"""Registers the cases of the corpus, and reads the expected findings from comments.

The comment `# BUG: kind` marks a line with a defect: a finding of that kind may be reported there,
and has to be in the function around the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_MARK = re.compile(r"# BUG: (\w+)")


@dataclass(frozen=True, kw_only=True)
class Buggy:
    """A launch with a defect, and the same launch without it.

    Attributes:
        run: Launches the kernel; its argument is True for the repaired version.
        kind: Kind of the expected finding.
        argument: Parameter that the finding names; None if the finding cannot name one.
        also: Kinds of other findings that follow from the defect.
        checks: Checks that are enabled.
        all_configs: If True, every configuration of autotuned kernels runs.
        missed: Reason why the sanitizer does not find the defect; None if it finds it.
    """

    run: Callable[[bool], object]
    kind: str
    argument: str | None
    also: frozenset[str]
    checks: str
    all_configs: bool
    missed: str | None

    @property
    def name(self) -> str:
        """Return the unique name of the case."""
        return self.run.__name__


BUGGY: list[Buggy] = []
CLEAN: list[Callable[[], object]] = []
#: Names of cases without a defect whose programs store identical values, which leads to a note.
NOTED: set[str] = set()


def buggy(
    kind: str,
    argument: str | None,
    *,
    also: Iterable[str] = (),
    checks: str = "default",
    all_configs: bool = False,
    missed: str | None = None,
) -> Callable[[Callable[[bool], object]], Callable[[bool], object]]:
    """Register a function that launches a kernel with a defect; see `Buggy`."""

    def register(run: Callable[[bool], object]) -> Callable[[bool], object]:
        case = Buggy(
            run=run,
            kind=kind,
            argument=argument,
            also=frozenset(also),
            checks=checks,
            all_configs=all_configs,
            missed=missed,
        )
        BUGGY.append(case)
        return run

    return register


def clean(run: Callable[[], object]) -> Callable[[], object]:
    """Register a function whose launches have no defect."""
    CLEAN.append(run)
    return run


def noted(run: Callable[[], object]) -> Callable[[], object]:
    """Register a function without a defect whose programs or lanes store identical values."""
    NOTED.add(run.__name__)
    return clean(run)


@lru_cache(maxsize=64)
def marked_lines(file: str) -> dict[int, str]:
    """Return the kinds of the expected findings of a file, by line."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return {n: m[1] for n, line in enumerate(lines, 1) if (m := _MARK.search(line)) is not None}
