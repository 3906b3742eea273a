"""Findings of the checks that passes put into kernels, and of what those could not judge.

Owns how a check's site becomes a finding. What is checked is the passes' business.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ttools.core.findings import Finding, Severity
from ttools.interpreter.monitor import Count
from ttools.sanitizer.options import CHECKS, UNSUPPORTED
from ttools.sanitizer.passes.check import Note
from ttools.sanitizer.subject import Subject, lane_indices

_HELP = {
    "uninit_read": "give the load an `other`, or write the memory before it is read",
    "int_overflow": "widen one of the operands before, for example with `.to(tl.int64)`",
    "bad_hint": "remove the hint, or pass data that keep its promise",
    "div_by_zero": "guard the division, for example with tl.where",
}


def check_findings(counts: Sequence[Count], subject: Subject) -> Iterator[Finding]:
    """The findings of one launch's checks."""
    for count in counts:
        witness = count.witness
        if witness.site.kind != "check":
            continue
        told = dict(witness.site.attributes)
        kind, argument = told["kind"], subject.argument(int(told.get("argument", -1)))
        severity: Severity = CHECKS[told["check"]][kind]
        yield Finding(
            kind=kind,
            check=told["check"],
            severity=severity,
            message=told["message"] + (f" (`{argument.name}`)" if argument else ""),
            kernel=subject.kernel,
            argument=argument,
            location=witness.site.location,
            program=subject.program(witness.program),
            lane=lane_indices(witness.lane, witness.site.shape),
            shape=witness.site.shape,
            iteration=witness.turns,
            variables=subject.variables(witness.values),
            count=count.lanes,
            programs=count.programs,
            launch=subject.host_line,
            config=subject.config,
            help=_HELP.get(kind),
        )


def unjudged(notes: Sequence[Note], subject: Subject, check: str) -> Iterator[Finding]:
    """Warnings of what a check has left out."""
    for note in notes:
        yield Finding(
            kind=UNSUPPORTED,
            check=check,
            severity="warning",
            message=f"not judged: {note.text}",
            kernel=subject.kernel,
            location=note.location,
            launch=subject.host_line,
            config=subject.config,
        )
