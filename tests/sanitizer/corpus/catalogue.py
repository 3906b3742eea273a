"""How a file of cases says what the sanitizer should find in them.

A line that is at fault ends in `# BUG: kind`; it counts for findings of that kind in the function
around it. Owns the lists of cases. Must not know what a case does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_MARK = re.compile(r"# BUG: (\w+)")


@dataclass(frozen=True, kw_only=True)
class Buggy:
    """A kernel or a launch with a defect, and the same without it.

    Attributes:
        run: launches the repaired form if its argument is true.
        kind: of the finding.
        argument: the parameter that the finding names; None where none can be named.
        also: kinds of further findings that the defect leads to.
        checks: of the run.
        all_configs: whether every configuration of autotuned kernels runs.
        missed: why the defect is not found, if it is not.
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
        """What tells it from all others."""
        return self.run.__name__


BUGGY: list[Buggy] = []
CLEAN: list[Callable[[], object]] = []
#: Clean ones in which programs store identical values, which is worth a note.
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
    """Registers a function that launches something with a defect; see `Buggy`."""

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
    """Registers a function whose launches have no defect."""
    CLEAN.append(run)
    return run


def noted(run: Callable[[], object]) -> Callable[[], object]:
    """Like `clean`, but several programs, or lanes of one store, store identical values."""
    NOTED.add(run.__name__)
    return clean(run)


@lru_cache(maxsize=64)
def marked_lines(file: str) -> dict[int, str]:
    """The lines of a file that are at fault, with the kind of the finding."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return {n: m[1] for n, line in enumerate(lines, 1) if (m := _MARK.search(line)) is not None}


@lru_cache(maxsize=256)
def function_around(file: str, line: int) -> str | None:
    """The name of the innermost function around a line."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno).name if around else None
