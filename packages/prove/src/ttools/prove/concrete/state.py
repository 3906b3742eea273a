"""The state of a run at one size: values of operations, active programs, and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
    spread,
)
from ttools.prove.host.launches import Launch, Memory

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Event:
    """A finding at one size.

    Attributes:
        kind: of the finding.
        op: where.
        program: the first program concerned.
        lane: its first lane.
        argument: index of the argument, -1 if unknown.
        element: of the storage.
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


@dataclass
class _Bounds:
    elements: int
    offset: int
    dims: list[tuple[int, int]]
    is_whole: bool
    memory: Memory


class State:
    """What one launch at one size has computed so far.

    Args:
        launch: the launch, whose polynomials are evaluated.
        programs: those that run.
        written: numbers of the storages that the kernel writes to.
    """

    def __init__(
        self,
        launch: Launch,
        module: Module,
        values: Mapping[Symbol, int],
        programs: Sequence[tuple[int, int, int]],
        written: frozenset[int],
    ) -> None:
        self.launch, self._module, self._sizes = launch, module, values
        self.programs = np.array(programs, np.int64).reshape(-1, 3)
        self.grid = [evaluate(e, values) for e in launch.grid]
        self._written = written
        self.outcome = Outcome()
        self._values: dict[Value, Lanes] = {}
        self._active: Bools = np.ones(len(self.programs), bool)
        self._order = {op: n for n, op in enumerate(module.kernel.walk())}
        self._records: dict[int, list[tuple[Any, ...]]] = {}
        self._bounds: dict[int, _Bounds] = {}

    @property
    def count(self) -> int:
        return len(self.programs)

    def get(self, value: Value) -> Lanes:
        return self._values[value]

    def order(self, op: Operation) -> int:
        return self._order[op]

    def _known(self, condition: Lanes, op: Operation) -> Bools:
        if condition.unknown is None:
            return np.ones(self.count, bool)
        if (condition.unknown & self._active).any():
            self._unsure(op)
        known: Bools = ~condition.unknown
        return known

    def _unsure(self, op: Operation) -> None:
        self.outcome.whole = False
        if op not in self.outcome.uncertain:
            self.outcome.uncertain.append(op)

    def _event(self, kind: str, op: Operation, marked: Bools, element: Any, base: int) -> None:
        if (kind, op) not in self.outcome.events:
            where = np.argwhere(marked)[0]
            index = tuple(int(n) for n in where[1:])
            number = int(spread(element, marked.shape)[tuple(where)])
            program = tuple(int(n) for n in self.programs[where[0]])
            self.outcome.events[kind, op] = Event(kind, op, program, index, base, number)

    def _bounds_of(self, base: int) -> _Bounds:
        known = self._bounds.get(base)
        if known is None:
            memory = self.launch.arguments[base]
            assert isinstance(memory, Memory)
            elements = evaluate(memory.elements, self._sizes)
            offset = evaluate(memory.offset, self._sizes)
            shape = [evaluate(e, self._sizes) for e in memory.shape]
            strides = [evaluate(s, self._sizes) for s in memory.strides]
            dims = sorted(
                ((s, e) for s, e in zip(strides, shape, strict=True) if e != 1 and s), reverse=True
            )
            count = 1
            for extent in shape:
                count *= extent
            dense, step = offset == 0 and count == elements, 1
            for s, e in reversed(dims):
                dense, step = dense and s == step, step * e
            if 0 in shape:
                dims = [(1, 0)]
            known = self._bounds[base] = _Bounds(elements, offset, dims, dense, memory)
        return known
