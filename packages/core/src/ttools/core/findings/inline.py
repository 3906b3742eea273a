"""Comments in a kernel's source that suppress findings: `# ttools: ignore[kind] reason`.

A comment applies to its own line, or to the next line of code if it stands alone. A comment on a
call of an inlined function covers findings inside that call.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ttools.core.findings.findings import Finding
from ttools.core.findings.suppressions import ANY, CHECK, Ran, Suppressed, names, unused_note
from ttools.core.location import SourceLocation, source_lines
from ttools.core.syntax_trees import functions_around

_COMMENT = re.compile(r"#\s*ttools:\s*ignore\b(?:\[(?P<kinds>[^\]]*)\](?P<reason>.*))?")

#: Reasons why a comment has no effect, each with its remedy.
_NO_KINDS = "names no kinds", "write `# ttools: ignore[kind] reason`"
_NO_REASON = "gives no reason", "write the reason after the bracket"


@dataclass(frozen=True)
class Comment:
    """One comment.

    Attributes:
        kinds: The kinds or checks that the comment names, or `check/kind`; `*` means any.
        reason: Text after the bracket; a comment without a reason has no effect.
        covers: Number of the line of code that the comment applies to.
    """

    location: SourceLocation
    kinds: frozenset[str]
    reason: str
    covers: int


class InlineSuppressions:
    """The comments of all files that contain a run's findings and launches."""

    def __init__(self) -> None:
        self._used: set[Comment] = set()
        self._files: set[str] = set()

    def suppress(self, finding: Finding) -> Suppressed | None:
        """Suppress a finding if a comment covers it."""
        if finding.location is None:
            return None
        for location in (finding.location, *finding.location.callers):
            self._files.add(location.file)
            for comment in comments_of(location.file):
                covered = comment.covers == location.line and comment.kinds & set(names(finding))
                if covered and comment.reason:
                    self._used.add(comment)
                    return Suppressed(finding=finding, by="inline", reason=comment.reason)
        return None

    def unused(self, ran: Ran) -> list[Finding]:
        """Return notes on comments in launched kernels that matched nothing or give no reason."""
        hosts = {(entry.spec.site.line or "").rpartition(":")[0] for entry in ran.launches}
        notes: list[Finding] = []
        for file in sorted(self._files | hosts - {""}):
            for comment in comments_of(file):
                kernel = _function_around(file, comment.location.line, ran.kernels)
                if kernel is None or comment in self._used:
                    continue
                if not comment.kinds:
                    notes.append(_not_honoured(comment, kernel, *_NO_KINDS))
                elif not comment.reason:
                    notes.append(_not_honoured(comment, kernel, *_NO_REASON))
                elif any(kind == ANY or ran.active(kind) for kind in comment.kinds):
                    kinds = sorted(comment.kinds)
                    notes.append(
                        unused_note("this comment", comment.location, kernel, kinds, ran.kinds)
                    )
        return notes


def _not_honoured(comment: Comment, kernel: str, why: str, advice: str) -> Finding:
    return Finding(
        kind="bad_suppression",
        check=CHECK,
        severity="note",
        message=f"this comment {why}, so it is not honoured",
        kernel=kernel,
        location=comment.location,
        help=advice,
    )


def comments_of(file: str) -> tuple[Comment, ...]:
    """Return the comments of a file; none if it cannot be read as Python."""
    return _comments(file, "".join(source_lines(file)))


@lru_cache(maxsize=32)
def _comments(file: str, source: str) -> tuple[Comment, ...]:
    comments = []
    lines = source.splitlines()
    for line, column, text in _comment_tokens(source):
        match = _COMMENT.match(text)
        if match is None:
            continue
        kinds = frozenset(filter(None, map(str.strip, (match["kinds"] or "").split(","))))
        alone = not lines[line - 1][:column].strip()
        comments.append(
            Comment(
                # Columns of locations count bytes, as Python's `ast` does.
                SourceLocation(file, line, len(lines[line - 1][:column].encode()) + 1),
                kinds,
                (match["reason"] or "").strip(" \t:-"),
                _next_code(lines, line) if alone else line,
            )
        )
    return tuple(comments)


def _comment_tokens(source: str) -> Iterator[tuple[int, int, str]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield (*token.start, token.string)
    except (tokenize.TokenError, SyntaxError):
        return


def _next_code(lines: list[str], line: int) -> int:
    """Return the first line below `line` that is not a comment."""
    following = line + 1
    while following <= len(lines) and lines[following - 1].lstrip().startswith("#"):
        following += 1
    return following


def _function_around(file: str, line: int, kernels: frozenset[str]) -> str | None:
    """Return the name of the kernel whose source contains the line."""
    around = functions_around("".join(source_lines(file)), line)
    return next((function.name for function in around if function.name in kernels), None)
