"""Result of an analysis of sizes: defects, and goals that are neither proved nor refuted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ttools.core.findings.findings import Finding, Witness
from ttools.core.reports.sizes import SizeRelation, Unproved
from ttools.prove.concrete.state import Event
from ttools.prove.host.launches import SymbolicCall
from ttools.prove.symbolic.conditions import Problem


@dataclass(frozen=True)
class Defect:
    """A finding, and the smallest size at which it appears.

    Attributes:
        event: The finding at that size.
        launch: The launch that has the finding.
        sizes: The sizes, by name.
        is_least: True if, for each size, the launch is known to be correct at all smaller values of
            this size while the other sizes keep their values.
        witness: Result of a real launch at these sizes; None if no launch was attempted.
        witness_note: Sentence that describes this result.
        shown: The finding of the real launch, if it confirms the defect.
        others: Number of further launches of the kernel that have the same defect, at these or
            other sizes.
        depends_on: Relation between sizes, as text, under which the defect disappears, if only one
            recorded launch suggests this relation; otherwise empty.
    """

    event: Event
    launch: SymbolicCall
    sizes: Mapping[str, int]
    is_least: bool
    witness: Witness | None = None
    witness_note: str = ""
    shown: Finding | None = None
    others: int = 0
    depends_on: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """A key that is equal for defects of the same kind, kernel and line."""
        return self.event.kind, self.launch.kernel, str(self.event.op.location)


@dataclass
class Result:
    """The result for a range of sizes.

    Attributes:
        checked: First and last value of each size.
        scope: The checked sizes in words, such as `n = 1 to 4,096`.
        defects: The defects, each at its smallest size.
        conditional: Defects that disappear under a relation between sizes that is only a
            hypothesis.
        relations: Relations between sizes that are conditions of the verdict.
        kept: Values of integer arguments that are the only ones considered, by parameter.
        assumptions: Assumptions on which the result depends, as sentences.
        abstained: Goals that are not proved.
        by_solver: Problems that only the solver could exclude.
        launches: Launches on the path through host code that makes the most launches.
        memory: Bytes that the tensors of a launch may take; None for no limit.
        parts: For a script, the results of its launches, which this result combines; otherwise
            empty.
    """

    checked: Mapping[str, tuple[int, int]]
    defects: list[Defect] = field(default_factory=list)
    conditional: list[Defect] = field(default_factory=list)
    relations: list[SizeRelation] = field(default_factory=list)
    kept: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)
    abstained: list[Unproved] = field(default_factory=list)
    by_solver: list[Problem] = field(default_factory=list)
    launches: list[SymbolicCall] = field(default_factory=list)
    parts: list[Result] = field(default_factory=list)
    scope: str = ""
    memory: int | None = None
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        """The verdict: `fails`, `proved` or `not proved`."""
        if self.defects:
            return "fails"
        return "not proved" if self.abstained else "proved"


def unique(abstentions: Iterable[Unproved]) -> list[Unproved]:
    """Return the first abstention for each line and reason."""
    first: dict[tuple[object, ...], Unproved] = {}
    for abstention in abstentions:
        first.setdefault(
            (abstention.file, abstention.line, abstention.kernel, abstention.reason.split(" ")[0]),
            abstention,
        )
    return list(first.values())
