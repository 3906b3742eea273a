"""The verdict on a range of sizes, and what prevents a proof."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ttools.core.location import shown_place

#: Maximum number of values of an argument that a sentence lists.
_MOST_KEPT = 3


@dataclass(frozen=True)
class Unproved:
    """Something that was neither proved nor shown to be wrong.

    Attributes:
        reason: A sentence for the report, which may contain formulas.
        line: Line in the kernel or in host code; None if the location is unknown.
        file: File that contains the line.
        kernel: Name of the affected kernel; None if all kernels are affected.
        sizes: Minimum and maximum of each size concerned.
        phrase: The reason without formulas, to continue "unknown: "; by default the reason itself.
    """

    reason: str
    line: int | None = None
    file: str | None = None
    kernel: str | None = None
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    phrase: str = ""

    def place(self, root: Path) -> str:
        """Return the location as `kernel.py:12`; empty if it is unknown."""
        if self.file is None or self.line is None:
            return ""
        return shown_place(self.file, self.line, root=root)

    def text(self, root: Path) -> str:
        """Return the reason with its location and its sizes."""
        where = f"{place}: " if (place := self.place(root)) else ""
        about = f" (for {ranges_text(self.sizes)})" if self.sizes else ""
        return f"{where}not proved: {self.reason}{about}"


@dataclass(frozen=True)
class SizeRelation:
    """A relation between the sizes of a launch that is a condition of a verdict.

    Attributes:
        text: The relation as a formula, such as `offsets_ptr.shape[0] = n + 1`.
        launches: Number of launches with different sizes for which the relation was observed.
    """

    text: str
    launches: int

    @property
    def is_hypothesis(self) -> bool:
        """True if the relation was observed for only one launch."""
        return self.launches < 2


@dataclass(frozen=True, kw_only=True)
class KernelSizes:
    """The verdict on the launches of one kernel.

    Attributes:
        kernel: Name of the kernel, or a description if no kernel is known.
        checked: Minimum and maximum of each size.
        failing: The sizes of the first failure; None if none was found.
        is_least: True if no smaller value of any single size, with the other sizes unchanged,
            fails.
        failure: Description of the failure.
        unproved: Goals that were neither proved nor shown to be wrong.
        scope: The sizes in words; by default the ranges of `checked`.
        relations: Relations between sizes that are conditions of the verdict.
        kept: Values of integer arguments that are the only ones considered, by parameter.
    """

    kernel: str
    checked: Mapping[str, tuple[int, int]]
    failing: Mapping[str, int] | None = None
    is_least: bool = False
    failure: str = ""
    unproved: tuple[Unproved, ...] = ()
    scope: str = ""
    relations: tuple[SizeRelation, ...] = ()
    kept: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def verdict(self) -> Literal["failed", "unknown", "proved"]:
        """The verdict, in the words that all commands use."""
        if self.failing is not None:
            return "failed"
        return "unknown" if self.unproved else "proved"

    @property
    def conditions(self) -> str:
        """Text that adds relations and constant arguments to a sentence about sizes."""
        return relations_text(self.relations) + kept_text(self.kept)

    @property
    def whole_scope(self) -> str:
        """The sizes in words, with the relations between them and with constant arguments."""
        return (self.scope or ranges_text(self.checked)) + self.conditions

    def text(self, root: Path) -> str:
        """Return the verdict as a sentence; relations between sizes are its only formulas."""
        name = f"`{self.kernel}`" if self.kernel.isidentifier() else self.kernel
        if self.failing is not None:
            least = ", the least failing size" if self.is_least else ""
            return f"{name}: failed at {point_text(self.failing)}{least}{self.conditions}"
        scope = self.whole_scope
        text = f"{name}: {self.verdict}{f' for {scope}' if scope else ''}"
        if not self.unproved:
            return text
        # Choose a time limit only if there is no other reason, because any other one says more.
        first = min(self.unproved, key=lambda unproved: unproved.phrase.startswith("the time"))
        where = f" ({place})" if (place := first.place(root)) else ""
        return f"{text}: {first.phrase or first.reason}{where}"


@dataclass(frozen=True, kw_only=True)
class SizesVerdict:
    """The verdict on a range of sizes.

    Attributes:
        checked: Minimum and maximum of each size.
        verdict: `proved` if all sizes are correct, `fails` if some are wrong.
        assumptions: Conditions under which the verdict holds.
        abstained: Goals that could not be decided.
        sentences: Statements about each kernel.
        kernels: Verdicts by kernel; for a script, verdicts by kernel and launch.
        by_kernel: One verdict for each kernel.
        by_solver: Statements that were proved by a solver.
        seconds: Duration of the analysis.
        memory: Maximum number of bytes of a launch's tensors at the sizes considered; None for no
            limit.
    """

    checked: Mapping[str, tuple[int, int]]
    verdict: Literal["proved", "fails", "not proved"]
    assumptions: tuple[str, ...] = ()
    abstained: tuple[Unproved, ...] = ()
    sentences: tuple[str, ...] = ()
    kernels: tuple[KernelSizes, ...] = ()
    by_kernel: tuple[KernelSizes, ...] = ()
    by_solver: tuple[str, ...] = ()
    seconds: float = 0.0
    memory: int | None = None

    @property
    def verdicts(self) -> tuple[KernelSizes, ...]:
        """One verdict for each kernel if `by_kernel` is set, else the verdicts for each launch."""
        return self.by_kernel or self.kernels

    @property
    def word(self) -> str:
        """The verdict, in the words that all commands use."""
        return {"fails": "failed", "not proved": "unknown"}.get(self.verdict, self.verdict)

    @property
    def scope(self) -> str:
        """The sizes in words."""
        scopes = dict.fromkeys(kernel.whole_scope for kernel in self.by_kernel if kernel.scope)
        return "; ".join(scopes) or ranges_text(self.checked)

    def as_data(self) -> dict[str, Any]:
        return {
            "checked": {name: list(ends) for name, ends in self.checked.items()},
            "verdict": self.verdict,
            "memory": self.memory,
            "kernels": [
                {
                    "kernel": kernel.kernel,
                    "verdict": kernel.verdict,
                    "scope": kernel.whole_scope,
                    "relations": [
                        {"text": relation.text, "launches": relation.launches}
                        for relation in kernel.relations
                    ],
                    "kept": {name: list(values) for name, values in kernel.kept.items()},
                    "failing": None if kernel.failing is None else dict(kernel.failing),
                }
                for kernel in self.by_kernel
            ],
            "assumptions": list(self.assumptions),
            "abstained": [
                {
                    "line": unproved.line,
                    "file": unproved.file,
                    "kernel": unproved.kernel,
                    "reason": unproved.reason,
                    "sizes": {name: list(ends) for name, ends in unproved.sizes.items()},
                }
                for unproved in self.abstained
            ],
            "by_solver": list(self.by_solver),
            "seconds": self.seconds,
        }

    def details(self, root: Path) -> list[str]:
        """Return sentences about what is not proved and what the verdict relies on."""
        lines = [unproved.text(root) for unproved in self.abstained]
        return [*lines, *self.by_solver, *(f"assumed: {text}" for text in self.assumptions)]


def ranges_text(ranges: Mapping[str, tuple[int, int]]) -> str:
    """Format ranges as `n = 1 to 4,096, m = 7`."""
    return ", ".join(
        f"{name} = {low:,}" if low == high else f"{name} = {low:,} to {high:,}"
        for name, (low, high) in ranges.items()
    )


def relations_text(relations: Iterable[SizeRelation]) -> str:
    """Return text that adds relations to a sentence about sizes; empty if there are none."""
    texts: dict[bool, list[str]] = {False: [], True: []}
    for relation in relations:
        texts[relation.is_hypothesis].append(relation.text)
    observed, hypotheses = (" and ".join(part) for part in texts.values())
    text = f", with {observed}" if observed else ""
    return f"{text}, under the hypothesis that {hypotheses}" if hypotheses else text


def kept_text(kept: Mapping[str, tuple[int, ...]]) -> str:
    """Return text that adds constant arguments to a sentence about sizes; empty if there are none.

    An example is `, only for group_size = 32 or 64, seed = one of 9 values`.
    """
    texts = [
        f"{name} = {' or '.join(f'{value:,}' for value in values)}"
        if len(values) <= _MOST_KEPT
        else f"{name} = one of {len(values):,} values"
        for name, values in kept.items()
    ]
    return f", only for {', '.join(texts)}" if texts else ""


def point_text(sizes: Mapping[str, int]) -> str:
    """Format sizes as `n = 4,096, m = 7`."""
    return ", ".join(f"{name} = {value:,}" for name, value in sizes.items())
