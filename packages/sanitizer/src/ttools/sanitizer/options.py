"""What a sanitizer run checks: the names of checks and kinds, and the options of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ttools.core.errors import UsageError
from ttools.core.findings import Severity

#: Checks and the kinds each reports, with their severity.
CHECKS: dict[str, dict[str, Severity]] = {
    "memcheck": {
        "oob_load": "error",
        "oob_store": "error",
        "oob_atomic": "error",
        "view_oob": "warning",
        "misaligned": "error",
        "use_after_free": "error",
        "unused_load": "note",
    },
    "racecheck": {"overlapping_store": "error", "race": "error", "intra_program_race": "warning"},
    "initcheck": {"uninit_read": "error"},
    "overflow": {"int_overflow": "error"},
    "hints": {"bad_hint": "error"},
    "deadlock": {"deadlock": "error", "divergent_barrier": "error"},
    "numeric": {"nan": "warning", "inf": "warning", "div_by_zero": "warning"},
}
#: What a check could not judge; belongs to every check.
UNSUPPORTED = "unsupported"
DEFAULT_CHECKS = ("memcheck", "racecheck", "initcheck", "overflow", "hints", "deadlock")
#: Names that users of other tools type.
ALIASES = {
    "asan": "memcheck",
    "tsan": "racecheck",
    "msan": "initcheck",
    "synccheck": "deadlock",
}


def parse_checks(names: Iterable[str]) -> frozenset[str]:
    """Checks by name, alias, comma-separated list, `all` or `default`; if none is named, the last.

    Raises:
        UsageError: naming the unknown check and the known ones.
    """
    names = list(names) if isinstance(names, Iterable) else [names]
    for text in names:
        if not isinstance(text, str):
            raise UsageError(f"checks={names!r}: must be names of checks")
    chosen: set[str] = set()
    parts = (part.strip() for text in names for part in text.split(","))
    for name in filter(None, parts):
        lower = name.lower()
        if lower == "all":
            chosen |= set(CHECKS)
        elif lower == "default":
            chosen |= set(DEFAULT_CHECKS)
        elif ALIASES.get(lower, lower) in CHECKS:
            chosen.add(ALIASES.get(lower, lower))
        else:
            known = ", ".join([*CHECKS, *ALIASES, "default", "all"])
            raise UsageError(f"there is no check `{name}`; choose from {known}")
    return frozenset(chosen or DEFAULT_CHECKS)


def is_active(checks: Iterable[str], name: str) -> bool:
    """Whether a run of `checks` reports findings that go by `name`, a kind or a check.

    A name that no check knows counts as active: whoever wrote it should hear that it matches
    nothing.
    """
    active = set(checks)
    known = any(name == check or name in kinds for check, kinds in CHECKS.items())
    return not known or any(name == check or name in CHECKS[check] for check in active)


@dataclass(frozen=True, kw_only=True)
class SanitizeOptions:
    """What to check, and how grave a view's bounds are.

    Attributes:
        checks: names of `CHECKS`.
        view_bounds: severity of leaving the elements of the view passed, inside its storage.
        threads: how many threads run programs; None for torch's number.
        seed: of the second, shuffled run of launches whose programs synchronise.
        max_findings: at most so many findings that count are told, the gravest of them.
        all_configs: run every configuration of autotuned kernels.
    """

    checks: frozenset[str] = frozenset(DEFAULT_CHECKS)
    view_bounds: Literal["error", "warning", "off"] = "warning"
    threads: int | None = None
    seed: int = 0
    max_findings: int = 100
    all_configs: bool = False

    def __post_init__(self) -> None:
        """Refuses numbers that make no sense; `threads` is checked where they are started."""
        if not isinstance(self.seed, int):
            raise UsageError(f"seed={self.seed!r}: must be an integer")
        if not isinstance(self.max_findings, int) or self.max_findings < 1:
            raise UsageError(f"max_findings={self.max_findings!r}: must be a positive integer")
