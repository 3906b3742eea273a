"""The check `reproducibility`: results whose last bits may differ from run to run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from ttools.core.errors import TtoolsError
from ttools.core.findings.findings import Finding, Related
from ttools.core.location import SourceLocation
from ttools.core.reports.report import counted
from ttools.core.spec import ArgumentSpec
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.sanitizer.checks.check import Kind, Kinds, Observation
from ttools.sanitizer.checks.repeated import RepeatedCheck
from ttools.sanitizer.memory.unwritten_elements import Bools
from ttools.sanitizer.reproducibility.hashes import UNSURE
from ttools.sanitizer.reproducibility.memory import HashMemory
from ttools.sanitizer.reproducibility.one_launch import DependenceFollower, FixedOrders, OrderedSum


class Reproducibility(RepeatedCheck):
    """Finds results that depend on the order of programs or on unwritten memory; on request."""

    name = "reproducibility"
    page = "reference/reproducibility.md"
    seeks = "results that differ from run to run"
    observes: ClassVar[frozenset[Observation]] = frozenset({"allocations"})
    kinds: ClassVar[Kinds] = {
        "atomic_order": Kind(
            severity="warning",
            meaning="Programs add floating-point numbers atomically to an element, and another "
            "order of the additions may give another result.",
            help="store each part to an element of its own and add the parts in a second kernel, "
            "or let a semaphore fix the order",
        ),
        "unwritten_operand": Kind(
            severity="warning",
            meaning="A reduction or a product of matrices includes memory that was never written, "
            "or lanes that a mask leaves out, and its result is stored.",
            help="give the load a mask and `other=0.0`, or fill the padding, for example with "
            "torch.zeros",
        ),
        "program_order": Kind(
            severity="note",
            meaning="A stored result may depend on the order in which programs run, because a "
            "program uses what another program of the launch has stored or what an atomic returns.",
            help="pass the value from one launch to the next, or let a semaphore fix the order",
        ),
        "derived_constant": Kind(
            severity="note",
            meaning="For another extent of its tensors, host code launches a kernel with another "
            "constant or number of warps, so that the bits of a row may depend on the batch.",
            help="choose the constant independently of the batch; `ttools reproduce --batch` "
            "determines whether rows have equal bits",
        ),
    }

    def prepare(self, options: LaunchOptions) -> LaunchOptions:
        """Save memory, and record which bytes were never written."""
        options = super().prepare(options)
        self._unwritten: dict[tuple[int, int], Bools] = {}
        if self._before is not None:
            for start, end in self.extents():
                marks = self.checked.memory.unwritten_bytes(start)
                if marks is not None and marks.any():
                    self._unwritten[start, end] = marks[: end - start].copy()
        return options

    def findings(self) -> Iterator[Finding]:
        """Repeat the launch with hashes, and report what the stored results depend on."""
        if self.checked.hung or self.checked.is_trial:
            return
        if self.lacks_source:
            yield self.finding("unsupported", "not followed: the launch has no Python source")
        if self._before is None:
            return
        try:
            first, limited = self._followed("first")
            second, _ = self._followed("second") if first.loads else (first, "")
        except TtoolsError as error:
            text = str(error).splitlines()[0]
            yield self.finding("unsupported", f"not followed: {text}")
            return
        notes = (limited,) if limited else ()
        yield from (self._atomic(one, notes) for one in first.ordered.values())
        if second is not first:
            yield from self._unwritten_operands(first, second, notes)
        if _is_unsure(first):
            yield from (self._program_order(place, notes) for place in first.unsure.values())

    def _followed(self, salt: str) -> tuple[DependenceFollower, str]:
        """Repeat the launch; return its follower and a sentence about programs left out."""
        memory = HashMemory()
        memory.begin(self.extents())
        follower = DependenceFollower(
            orders=FixedOrders(), memory=memory, launch=1, unwritten=self._unwritten, salt=salt
        )
        limited = self.repeat(follower)
        follower.finish()
        return follower, limited

    def _atomic(self, one: OrderedSum, notes: tuple[str, ...]) -> Finding:
        argument = self._argument(one.start)
        name = f"`{argument.name}`" if argument else "an output"
        count = counted(len(one.elements), "element")
        return self.finding(
            "atomic_order",
            f"the order of atomic additions decides {count} of {name}, the first of which is "
            f"element {min(one.elements)} of its storage",
            location=one.place,
            argument=argument,
            count=len(one.elements),
            notes=notes,
        )

    def _unwritten_operands(
        self, first: DependenceFollower, second: DependenceFollower, notes: tuple[str, ...]
    ) -> Iterator[Finding]:
        """Yield, for each line, the first reduction whose value depends on unwritten elements."""
        changed = _changed(first, second)
        if not changed:
            return
        related = tuple(
            Related(message="loaded here", location=place) for place in first.loads.values()
        )
        places: dict[SourceLocation, None] = {}
        for (place, one), (_, other) in zip(first.reductions, second.reductions, strict=False):
            if one != other:
                places.setdefault(place)
        name = self._argument(changed[0])
        output = f"`{name.name}`" if name else "an output"
        for place in places:
            yield self.finding(
                "unwritten_operand",
                "a reduction includes elements that were never written, and "
                f"{counted(changed[1], 'element')} of {output} depend on them",
                location=place,
                related=related,
                argument=name,
                count=changed[1],
                notes=notes,
            )

    def _program_order(self, place: SourceLocation, notes: tuple[str, ...]) -> Finding:
        return self.finding(
            "program_order",
            "what this line reads depends on the order of programs, and so may a stored result",
            location=place,
            notes=notes,
        )

    def _argument(self, start: int) -> ArgumentSpec | None:
        launch = self.checked.launch
        for index in sorted(launch.kernel.plan.pointers):
            memory = launch.memory(index)
            if memory is not None and memory.storage == start:
                return self.checked.spec.argument(index)
        return None


def _changed(first: DependenceFollower, second: DependenceFollower) -> tuple[int, int] | None:
    """Return the storage and the number of stored elements whose hashes differ; None for none."""
    pairs = zip(first.memory.storages(), second.memory.storages(), strict=False)
    for one, other in pairs:
        stored = (one.launch > 0) & (other.launch > 0)
        count = int(np.count_nonzero(stored & (one.values != other.values)))
        if count:
            return one.start, count
    return None


def _is_unsure(follower: DependenceFollower) -> bool:
    """Return whether a stored element may depend on the order of programs."""
    return any(
        bool(((stored.launch > 0) & ((stored.values & UNSURE) != 0)).any())
        for stored in follower.memory.storages()
    )
