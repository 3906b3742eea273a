"""Suppressed findings: the file of rules, and how rules, comments and baselines are applied.

A suppression may name any kind or check, or a kind of one check, as in `accuracy/overflow`. If it
matches nothing, it is reported as unused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, Protocol

from ttools.core.errors import UsageError, file_errors
from ttools.core.findings.findings import Finding, TallyEntry
from ttools.core.json_document import parse_toml
from ttools.core.location import SourceLocation

#: The name of the check in notes about suppressions.
CHECK = "suppressions"
#: Kinds of notes about suppressions, each with an explanation.
KINDS = {
    "unused_suppression": "A suppression matches no finding of the run.",
    "bad_suppression": "A suppression without kinds or reason is not honoured.",
}
ANY = "*"
#: Separates a check from its kind.
_OF = "/"


@dataclass(frozen=True, kw_only=True)
class Suppressed:
    """A finding that was suppressed.

    Attributes:
        by: Source of the suppression: a comment, a rule of a file, a baseline, or a test's marker.
        reason: The reason given by its author.
    """

    finding: Finding
    by: Literal["inline", "file", "baseline", "marker"]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Ran:
    """The scope of a run, which distinguishes unused suppressions from those that could not match.

    Attributes:
        active: Function that returns whether the run looked for findings of a kind or check.
        kinds: All existing kinds, to recognise a mistyped one.
    """

    launches: Sequence[TallyEntry]
    active: Callable[[str], bool] = lambda name: True
    kinds: Collection[str] = ()

    @property
    def kernels(self) -> frozenset[str]:
        return frozenset(entry.spec.kernel for entry in self.launches)


class Source(Protocol):
    """A source of suppressions that records which of them were used."""

    def suppress(self, finding: Finding) -> Suppressed | None:
        """Return the suppressed finding with its reason if this source suppresses it, else None."""

    def unused(self, ran: Ran) -> list[Finding]:
        """Return notes on suppressions that matched nothing, but could have matched in this run."""


def apply(
    findings: Iterable[Finding], sources: Sequence[Source], ran: Ran
) -> tuple[list[Finding], list[Suppressed]]:
    """Separate findings that count, including notes on unused suppressions, from suppressed ones.

    Every source that matches a finding counts as used; the reason of the first one is recorded.
    """
    kept: list[Finding] = []
    hidden: list[Suppressed] = []
    for finding in findings:
        matches = [entry for source in sources if (entry := source.suppress(finding))]
        if matches:
            hidden.append(matches[0])
        else:
            kept.append(finding)
    for source in sources:
        kept += source.unused(ran)
    return kept, hidden


def names(finding: Finding) -> tuple[str, ...]:
    """Return the names by which a suppression may match a finding.

    These are its kind, its check, the kind of this check only (`check/kind`), all kinds of this
    check (`check/*`), and `*`. The check is necessary if a kind and a check have the same name, or
    if several checks have a kind of the same name.
    """
    check = f"{finding.check}{_OF}"
    return finding.kind, finding.check, f"{check}{finding.kind}", f"{check}{ANY}", ANY


def split_name(name: str) -> tuple[str, str]:
    """Split the name in a suppression into the check, or "", and the kind, the check or `*`.

    Only a name with a slash begins with a check, as in `accuracy/overflow`.
    """
    check, _, rest = name.rpartition(_OF)
    return check, rest


def unused_note(
    what: str,
    location: SourceLocation,
    kernel: str = "",
    kinds: Iterable[str] = (),
    known: Collection[str] = (),
) -> Finding:
    """Return the note that a suppression matched nothing.

    Args:
        what: The suppression, as the subject of a sentence.
        location: Position of the suppression.
        kernel: Name of the kernel that it applies to.
        kinds: Kinds that it names; the note suggests a correction for a mistyped one.
        known: Names of all existing kinds.
    """
    meant = [match for kind in kinds for match in _similar(kind, {*known, *KINDS})]
    return Finding(
        kind="unused_suppression",
        check=CHECK,
        severity="note",
        message=f"{what} matched no finding",
        kernel=kernel,
        location=location,
        help=f"did you mean `{meant[0]}`?" if meant else "remove it",
    )


def _similar(name: str, known: Collection[str]) -> list[str]:
    check, kind = split_name(name)
    if kind == ANY or kind in known:
        return []
    prefix = f"{check}{_OF}" if check else ""
    return [prefix + match for match in get_close_matches(kind, sorted(known), 1, 0.8)]


# --- the file ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One `[[suppress]]` entry of a file; fields that are None match anything.

    Attributes:
        reason: Explanation for readers; it is required.
        kind: A kind, a check, `check/kind` or `*`.
        kernel: Name of the kernel, with the wildcards `*` and `?`.
        file: End of the source's path, with the wildcards `*` and `?`.
        line: Line of the finding in that file.
        location: Position of the rule.
    """

    reason: str
    kind: str | None = None
    kernel: str | None = None
    file: str | None = None
    line: int | None = None
    location: SourceLocation

    def matches(self, finding: Finding) -> bool:
        return (
            (self.kind is None or self.kind in names(finding))
            and (self.kernel is None or fnmatchcase(finding.kernel, self.kernel))
            and (self.file is None or any(map(self._is_at, _places(finding))))
        )

    def _is_at(self, location: SourceLocation) -> bool:
        assert self.file is not None
        path = Path(location.file).as_posix()
        named = fnmatchcase(path, self.file) or fnmatchcase(path, f"*/{self.file}")
        return named and self.line in (None, location.line)

    def could_match(self, ran: Ran) -> bool:
        """Return whether the run launched a kernel and made a check that the rule may apply to."""
        launched = self.kernel is None or any(fnmatchcase(k, self.kernel) for k in ran.kernels)
        return launched and (self.kind in (None, ANY) or ran.active(self.kind))


def _places(finding: Finding) -> tuple[SourceLocation, ...]:
    if finding.location is None:
        return ()
    return (finding.location, *finding.location.callers)


class SuppressionFile:
    """The rules of a file.

    Raises:
        UsageError: The file cannot be read, or an entry is not a rule.
    """

    def __init__(self, path: Path) -> None:
        self.rules = _read(path)
        self._used: set[Rule] = set()

    def suppress(self, finding: Finding) -> Suppressed | None:
        """Suppress a finding with the reason of the first matching rule.

        All matching rules count as used.
        """
        matching = [rule for rule in self.rules if rule.matches(finding)]
        self._used.update(matching)
        if not matching:
            return None
        return Suppressed(finding=finding, by="file", reason=matching[0].reason)

    def unused(self, ran: Ran) -> list[Finding]:
        """Return a note for each rule that matched nothing although its kernel was launched."""
        return [
            unused_note(
                "this suppression", rule.location, rule.kernel or "", [rule.kind or ANY], ran.kinds
            )
            for rule in self.rules
            if rule not in self._used and rule.could_match(ran)
        ]


_FIELDS: dict[str, type] = {"reason": str, "kind": str, "kernel": str, "file": str, "line": int}


#: Maximum length of a pattern; matching takes time proportional to the square of the length.
_LONGEST = 1000


def _read(path: Path) -> list[Rule]:
    with file_errors(f"read `{path}`"):
        raw = path.read_bytes()
    try:
        text = raw.decode("utf-8")
        data = parse_toml(text)
    except ValueError as error:
        raise UsageError(f"`{path}` is not valid TOML: {error}") from error
    entries = data.pop("suppress", [])
    if data or not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise UsageError(f"`{path}`: only [[suppress]] tables are allowed")
    header = re.compile(r"\s*\[\[\s*suppress\s*\]\]")
    lines = [at for at, line in enumerate(text.splitlines(), 1) if header.match(line)]
    lines += [0] * (len(entries) - len(lines))
    return [
        _rule(entry, SourceLocation(str(path.absolute()), line, 1))
        for entry, line in zip(entries, lines, strict=False)
    ]


def _rule(entry: dict[str, Any], location: SourceLocation) -> Rule:
    for name, value in entry.items():
        expected = _FIELDS.get(name)
        if expected is None:
            raise UsageError(f"{location}: `{name}` is not one of {', '.join(_FIELDS)}")
        if type(value) is not expected:
            raise UsageError(f"{location}: `{name}` must be of type {expected.__name__}")
        if isinstance(value, str) and len(value) > _LONGEST:
            raise UsageError(f"{location}: `{name}` has more than {_LONGEST:,} characters")
    if not str(entry.get("reason", "")).strip():
        raise UsageError(f"{location}: a suppression needs a `reason`")
    if not {"kind", "kernel", "file"} & set(entry):
        raise UsageError(f"{location}: a suppression needs a `kind`, a `kernel` or a `file`")
    if "line" in entry and "file" not in entry:
        raise UsageError(f"{location}: `line` needs a `file`")
    return Rule(**entry, location=location)
