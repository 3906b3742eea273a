"""State of an evaluation at one size: the values of operations, and the findings."""

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
from ttools.prove.host.launches import SymbolicCall

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Event:
    """A finding at one size.

    Attributes:
        program: Id of the first program in which it occurs.
        lane: Index of the first lane of that program in which it occurs.
        argument: Index of the argument; -1 if unknown.
        element: Index of the element in the argument's storage.
        other: The other of the two accesses, for a race or overlapping stores.
        promise: Phrase that describes the contents of tables that are filled according to an
            assumption.
        refused: Reason why a GPU rejects the launch, if the finding concerns the launch itself.
    """

    kind: str
    op: Operation
    program: tuple[int, ...]
    lane: tuple[int, ...] = ()
    argument: int = -1
    element: int = 0
    other: Operation | None = None
    promise: str = ""
    refused: str = ""


@dataclass
class Outcome:
    """The result of an evaluation at one size.

    Attributes:
        events: Findings by kind and operation.
        whole: True if all programs, lanes and iterations were computed and no value was unknown. If
            there are also no events, the launch is correct at this size.
        uncertain: Operations whose addresses or masks depend on unknown data.
    """

    events: dict[tuple[str, Operation], Event] = field(default_factory=dict)
    whole: bool = True
    uncertain: list[Operation] = field(default_factory=list)


class State:
    """The values that one launch at one size has computed so far.

    Args:
        launch: The launch, whose expressions are evaluated at `sizes`.
        sizes: Values of the sizes.
        programs: Ids of the programs that run.

    Attributes:
        grid: Extents of the grid.
        values: Results of operations in all programs.
    """

    def __init__(
        self,
        launch: SymbolicCall,
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
