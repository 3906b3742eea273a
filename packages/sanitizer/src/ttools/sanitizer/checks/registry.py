"""The registry of checks: their names, aliases and kinds of findings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ttools.core.errors import UsageError, did_you_mean
from ttools.core.findings.findings import TallyEntry
from ttools.core.findings.suppressions import ANY, Ran, split_name
from ttools.core.reports.report import Rule
from ttools.sanitizer.checks.accuracy import Accuracy
from ttools.sanitizer.checks.check import SHARED_KINDS, Check
from ttools.sanitizer.checks.deadlock import Deadlock
from ttools.sanitizer.checks.hints import Hints
from ttools.sanitizer.checks.initcheck import Initcheck
from ttools.sanitizer.checks.launch_rules import GpuRules
from ttools.sanitizer.checks.memcheck import Memcheck
from ttools.sanitizer.checks.numeric import Numeric
from ttools.sanitizer.checks.overflow import Overflow
from ttools.sanitizer.checks.racecheck import Racecheck
from ttools.sanitizer.checks.reproducibility import Reproducibility

#: The checks in the order in which their passes are applied (after those of a check that rewrites
#: first) and their findings are made.
CHECKS: dict[str, type[Check]] = {
    check.name: check
    for check in (
        Memcheck,
        Overflow,
        Hints,
        Initcheck,
        Racecheck,
        Deadlock,
        GpuRules,
        Numeric,
        Accuracy,
        Reproducibility,
    )
}


def default_checks() -> frozenset[str]:
    """Return the names of the checks that run by default."""
    return frozenset(name for name, check in CHECKS.items() if check.is_default)


def kinds() -> Mapping[str, str]:
    """Return the meaning of each kind."""
    return {name: rule.meaning for name, rule in rules().items()}


def rules() -> Mapping[str, Rule]:
    """Return each kind's rule for reports; the first check that declares a kind defines it."""
    described: dict[str, Rule] = {}
    for check in CHECKS.values():
        for name, kind in check.kinds.items():
            described.setdefault(name, Rule(kind.meaning, kind.help, check.page))
    for name, kind in SHARED_KINDS.items():
        described.setdefault(name, Rule(kind.meaning, kind.help))
    return described


def kinds_table() -> str:
    """Return the rows of the documentation's table of kinds."""
    rows = [
        kind.row(name, f"`{check.name}`")
        for check in CHECKS.values()
        for name, kind in check.kinds.items()
    ]
    return "".join([*rows, *(kind.row(name, "any") for name, kind in SHARED_KINDS.items())])


def parse_checks(names: Iterable[str]) -> frozenset[str]:
    """Return the checks named by a user; the default checks if `names` is empty.

    Args:
        names: Names, aliases, `all` (except slow ones), `default`, or comma-separated lists of
            these.

    Raises:
        UsageError: If a name is unknown; the message lists the valid ones.
    """
    names = list(names) if isinstance(names, Iterable) else [names]
    for text in names:
        if not isinstance(text, str):
            raise UsageError(f"checks={names!r}: must be names of checks")
    aliases = {alias: name for name, check in CHECKS.items() for alias in check.aliases}
    chosen: set[str] = set()
    parts = (part.strip() for text in names for part in text.split(","))
    for name in filter(None, parts):
        lower = name.lower()
        if lower == "all":
            chosen |= {check for check in CHECKS if not CHECKS[check].is_slow}
        elif lower == "default":
            chosen |= default_checks()
        elif aliases.get(lower, lower) in CHECKS:
            chosen.add(aliases.get(lower, lower))
        else:
            valid = ", ".join([*CHECKS, *aliases, "default", "all"])
            near = did_you_mean(lower, [*CHECKS, *aliases, "default", "all"])
            raise UsageError(f"there is no check `{name}`{near or f'; choose from {valid}'}")
    return frozenset(chosen or default_checks())


def checks_named(name: str) -> frozenset[str]:
    """Return the checks whose findings a suppression with this name may match.

    Args:
        name: A check, a kind, or `check/kind`; other names belong to no check.
    """
    only, kind = split_name(name)
    if only:
        check = CHECKS.get(only)
        has_kind = check is not None and kind in (ANY, *check.kinds, *SHARED_KINDS)
        return frozenset([only] if has_kind else [])
    return frozenset(c.name for c in CHECKS.values() if kind == c.name or kind in c.kinds)


def what_ran(launches: Sequence[TallyEntry], checks: Collection[str]) -> Ran:
    """Describe which checks ran on which launches, to report suppressions that matched nothing.

    A name that belongs to no check counts as active, so that a suppression with this name is
    reported as unused. A name that belongs to several checks only counts as active if all of them
    ran: a comment that names `overflow`, which is a check and a kind of another check, may be meant
    for either.
    """

    def is_active(name: str) -> bool:
        return checks_named(name) <= set(checks)

    # The part of a launch that was not checked may contain the defect that a suppression is meant
    # for.
    cut_short = {entry.spec.kernel for entry in launches if entry.unfinished}
    whole = [entry for entry in launches if entry.spec.kernel not in cut_short]
    return Ran(launches=whole, active=is_active, kinds=kinds())
