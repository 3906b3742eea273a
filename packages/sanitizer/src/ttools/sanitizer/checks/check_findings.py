"""Findings of the checks that passes put into kernels, and of what could not be judged.

Owns how a check's site becomes a finding. What is checked is the passes' business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ttools.core.findings import Finding, Severity
from ttools.core.location import SourceLocation, users_place
from ttools.interpreter.monitor import Count
from ttools.sanitizer.hints.arguments import ArgumentPromise
from ttools.sanitizer.options import CHECKS, UNSUPPORTED
from ttools.sanitizer.passes.check import Note
from ttools.sanitizer.subject import Subject, lane_indices

_HELP = {
    "uninit_read": "write the memory before, for example with torch.zeros, or mask the load",
    "int_overflow": "widen one of the operands before, for example with `.to(tl.int64)`",
    "bad_hint": "remove the hint, or pass data that keep its promise",
    "nan": "look at the operands: which of them may be so?",
    "inf": "compute in a wider type, or subtract the maximum before exp",
    "div_by_zero": "guard the division, for example with tl.where",
}


@dataclass(frozen=True)
class _Told:
    message: str
    help: str


_PROMISES = {
    "specialisation": _Told(
        "the kernel was compiled for a multiple of {divisor} in `{name}`",
        "launch the function instead of the compiled kernel, or pass data as it was compiled for",
    ),
    "source": _Told(
        "`{name}` breaks the promise tl.multiple_of(…, {divisor})",
        "remove the hint, or pass data that keep its promise",
    ),
}


def check_findings(counts: Sequence[Count], subject: Subject) -> Iterator[Finding]:
    """The findings of one launch's checks."""
    for count in _first_births(counts):
        witness = count.witness
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
            location=users_place(witness.site.location) or witness.site.location,
            program=subject.program(witness.program),
            lane=lane_indices(witness.lane, witness.site.shape),
            shape=witness.site.shape,
            iteration=witness.turns,
            variables=subject.variables(witness.values),
            count=count.lanes,
            programs=count.programs,
            launch=subject.host_line,
            config=subject.config,
            help=told.get("help") or _HELP.get(kind),
        )


def _first_births(counts: Sequence[Count]) -> Iterator[Count]:
    """The checks that failed; of NaN and the like, which beget others, the first of each kind.

    First is the birth in the first program, and there the one that comes first in the source.
    """
    firsts: dict[str, Count] = {}
    for count in counts:
        if count.witness.site.kind != "check":
            continue
        told = dict(count.witness.site.attributes)
        if told["check"] != "numeric":
            yield count
            continue
        first = firsts.get(told["kind"])
        if first is None or _birth(count) < _birth(first):
            firsts[told["kind"]] = count
    yield from firsts.values()


def _birth(count: Count) -> tuple[int, int, int]:
    location = users_place(count.witness.site.location)
    line = (location.line, location.column) if location is not None else (0, 0)
    return (count.witness.program, *line)


def argument_findings(
    promises: Iterable[ArgumentPromise], values: Sequence[int], subject: Subject
) -> Iterator[Finding]:
    """Arguments that are not divisible as their kernel says.

    Args:
        promises: of the kernel.
        values: addresses and integers, one per parameter.
        subject: the launch.
    """
    for promise in promises:
        value = values[promise.parameter]
        if value % promise.divisor == 0:
            continue
        argument = subject.argument(promise.parameter)
        is_address = argument is not None and argument.shape is not None
        text = f"address {value:#x}" if is_address else f"value {value}"
        name = argument.name if argument else f"parameter {promise.parameter}"
        told = _PROMISES[promise.by]
        yield Finding(
            kind="bad_hint",
            check="hints",
            severity="error",
            message=told.message.format(name=name, divisor=promise.divisor),
            kernel=subject.kernel,
            argument=argument,
            location=promise.location,
            notes=(f"its {text} is no multiple",),
            launch=subject.host_line,
            config=subject.config,
            help=told.help,
        )


def unused_load_notes(places: Iterable[SourceLocation], subject: Subject) -> Iterator[Finding]:
    """Notes on loads that no check has seen, for Triton left them out.

    Args:
        places: of the loads.
        subject: the launch.
    """
    for place in places:
        yield Finding(
            kind="unused_load",
            check="memcheck",
            severity="note",
            message="nobody uses the value of this load, so Triton leaves it out: it is not judged",
            kernel=subject.kernel,
            location=users_place(place) or place,
            count=0,
            launch=subject.host_line,
            config=subject.config,
            help="remove it, or use its value",
        )


def unjudged(notes: Sequence[tuple[str, Note]], subject: Subject) -> Iterator[Finding]:
    """Warnings of what checks have left out.

    Args:
        notes: each with the name of its check.
        subject: the launch.
    """
    for check, note in notes:
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
