"""The state of a run at one size: values of operations, active programs, and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ttools.ir import (
    Module,
    Operation,
    Value,
)
from ttools.ir.expr import Symbol, evaluate
from ttools.prove.concrete.lanes import (
    Lanes,
)
from ttools.prove.host.launches import Launch

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Event:
    """A finding at one size.

    Attributes:
        program: the first program concerned.
        argument: index of the argument, -1 if unknown.
        other: the other access of a race.
        given: what tables hold then, where a promise says what they may hold.
        refused: why a GPU refuses the launch, for an event that is about the launch itself.
    """

    kind: str
    op: Operation
    program: tuple[int, ...]
    lane: tuple[int, ...] = ()
    argument: int = -1
    element: int = 0
    other: Operation | None = None
    given: str = ""
    refused: str = ""


@dataclass
class Outcome:
    """What a run at one size shows.

    Attributes:
        events: by kind and operation.
        whole: whether all programs, lanes and iterations were computed and nothing was unknown, so
            that no event means that there is none.
        uncertain: operations whose addresses or masks depend on unknown data.
    """

    events: dict[tuple[str, Operation], Event] = field(default_factory=dict)
    whole: bool = True
    uncertain: list[Operation] = field(default_factory=list)


class State:
    """What one launch at one size has computed so far, as rules of operations see it.

    Args:
        launch: The launch; its expressions are evaluated.
        sizes: Values of the sizes.
        programs: The programs that run.

    Attributes:
        grid: Extents of the grid.
        values: Results of operations, in all programs.
    """

    def __init__(
        self,
        launch: Launch,
        module: Module,
        sizes: Mapping[Symbol, int],
        programs: Sequence[tuple[int, int, int]],
    ) -> None:
        self.programs = np.array(programs, np.int64).reshape(-1, 3)
        self.grid = [evaluate(e, sizes) for e in launch.grid]
        self.values: dict[Value, Lanes] = {}
        self._order = {op: n for n, op in enumerate(module.kernel.walk())}

    @property
    def count(self) -> int:
        return len(self.programs)

    def get(self, value: Value) -> Lanes:
        return self.values[value]

    def order(self, op: Operation) -> int:
        """Return the position of an operation in the kernel."""
        return self._order[op]
