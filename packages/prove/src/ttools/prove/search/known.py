"""What is known of all launches so far, and what is to be had of one: proofs, runs at a size."""

from __future__ import annotations

from collections.abc import Mapping

from ttools.ir.expr import Symbol
from ttools.prove.algebra.limits import Limit
from ttools.prove.algebra.solver import Solver
from ttools.prove.concrete.trial import Trial
from ttools.prove.host.kernels import Kernels
from ttools.prove.host.launches import Launch
from ttools.prove.host.regions import Box, Point, Region
from ttools.prove.result import Defect
from ttools.prove.symbolic.conditions import Key, Problem, unproved


class Known:
    """What is known of all launches so far.

    Args:
        first: the least of each that is asked about, by name.
        limit: of time, after which nothing else is tried.
    """

    def __init__(self, names: Mapping[Symbol, str], first: Mapping[str, int], limit: Limit) -> None:
        self._names, self._first, self._limit = names, dict(first), limit
        self.kernels = Kernels()
        self.defects: dict[Key, Defect] = {}

    def is_late(self) -> bool:
        """Whether there is no time left."""
        return self._limit.left < 0

    def found(self, trial: Trial, point: Point, key: Key | None, least: bool) -> None:
        """Takes the findings of a size; of the one searched for, whether it is the least."""
        sizes = {self._names[s]: v for s, v in point.items()}
        for event in trial.events:
            own = trial.key(event)
            known = self.defects.get(own)
            is_least = (least and own == key) or sizes == self._first
            if known is not None and _below(known.sizes, sizes):
                continue
            if known is None or (is_least and not known.is_least) or _below(sizes, known.sizes):
                self.defects[own] = Defect(event, trial.launch, sizes, is_least)

    def trial(self, launch: Launch, point: Point) -> Trial:
        return Trial(launch, self.kernels.module(launch), point, self.kernels.storages(launch))

    def settled(self, box: Box) -> frozenset[Key]:
        """Defects whose least size is known and not above the sizes of a box."""
        lows = [low for low, _ in box.values()]
        if len(lows) > 1:
            return frozenset()
        return frozenset(
            k for k, d in self.defects.items() if d.is_least and [*d.sizes.values()] <= lows
        )

    def unproved(
        self,
        launch: Launch,
        where: Region,
        box: Box,
        only: Key | None,
        skipped: frozenset[Key],
        solver: Solver | None = None,
    ) -> dict[Key, Problem]:
        """What is not proved of a launch on a part of a region; at least what is asked about."""
        space = where.space(box)
        if space is None:
            return {}
        space.limit = self._limit
        module, written = self.kernels.module(launch), self.kernels.storages(launch)
        found = unproved(launch, module, space, written, only, skipped, solver)
        return {p.key: p for p in found}


def _below(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Whether sizes are smaller, where several are none of them larger."""
    return one != other and all(one[n] <= other[n] for n in one)
