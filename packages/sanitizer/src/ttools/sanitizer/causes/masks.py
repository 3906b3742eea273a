"""The conditions whose conjunction is a mask, and the lanes that a mask fails to exclude."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttools.core.findings.causes import Cause
from ttools.interpreter.analysis.lane_values import LaneValues, Numbers, along, viewed
from ttools.interpreter.runtime.monitor import Witness
from ttools.ir import Operation, Value, shape_of
from ttools.ir.semantics import comparison, conjunction, lanes_of, number_of
from ttools.sanitizer.causes.index_parts import Part, parts_of

_UPPER = ("lt", "le")
_LOWER = ("gt", "ge")


@dataclass(frozen=True)
class Conjunct:
    """One condition of a mask.

    Attributes:
        condition: The condition, with its own shape.
        views: The views through which its lanes become lanes of the mask, in order.
    """

    condition: Value
    views: tuple[Value, ...] = ()

    def holds(self, values: LaneValues) -> Numbers | None:
        """Return where the condition holds, by lane of the mask; None if that is unknown."""
        own = values.of(self.condition)
        return None if own is None else self.moved(own)

    def excess(self, values: LaneValues) -> Numbers | None:
        """Return how far the compared value is beyond the bound, for each lane of the condition.

        Tightening the comparison excludes the lanes with the greatest excess first. The result is
        None if the condition is not an ordered comparison of integers, or if their values are
        unknown.
        """
        op = self.condition.defining_op
        compared = comparison(op) if op is not None else None
        if compared is None or compared.predicate[-2:] not in (*_UPPER, *_LOWER):
            return None
        left, right = values.of(compared.left), values.of(compared.right)
        if left is None or right is None:
            return None
        return left - right if compared.predicate[-2:] in _UPPER else right - left

    def moved(self, own: Numbers) -> Numbers | None:
        """Return lanes of the condition as lanes of the mask."""
        array = own
        for view in self.views:
            op = view.defining_op
            assert op is not None
            lanes = viewed(array, lanes_of(view)[0], op.operands[0], view)
            if lanes is None:
                return None
            array = lanes
        return array


def conjuncts(mask: Value | None) -> list[Conjunct]:
    """Return the conditions whose conjunction is a mask; constant conditions are left out."""
    return [] if mask is None else list(_conjuncts(mask, ()))


def _conjuncts(value: Value, views: tuple[Value, ...]) -> Iterator[Conjunct]:
    op = value.defining_op
    if number_of(value) == 1:
        return
    if op is not None and (parts := conjunction(op)):
        for part in parts:
            yield from _conjuncts(part, views)
    elif op is not None and len(lanes_of(value)) == 1:
        yield from _conjuncts(op.operands[0], (value, *views))
    else:
        yield Conjunct(value, views)


@dataclass(frozen=True)
class WrongLanes:
    """The lanes of an access that are outside its memory and that its mask fails to exclude.

    Attributes:
        value: The condition that admits these lanes, or the index that no condition bounds.
        threshold: The smallest excess over the bound, or the smallest index, among these lanes.
        is_index: True if `value` is an index.
    """

    value: Value
    threshold: int
    is_index: bool = False

    def is_in(self, access: Operation) -> bool:
        """Return whether the mask of an access or, for an index, its address contains the value."""
        if self.is_index:
            return any(part.value is self.value for part in parts_of(access.address))
        return any(part.condition is self.value for part in conjuncts(access.mask))

    def in_access(self, access: Operation, values: LaneValues) -> NDArray[np.bool_] | None:
        """Return the lanes of another access that are wrong in the same way.

        Returns:
            An array of programs and lanes, possibly with extent 1 along axes on which all are
            equal; None if the access does not depend on the value, or the lanes are unknown.
        """
        if self.is_index:
            indices = self.indices(access, values)
            return None if indices is None else indices >= self.threshold
        for condition in conjuncts(access.mask):
            if condition.condition is self.value:
                excess = condition.excess(values)
                moved = None if excess is None else condition.moved(excess)
                return None if moved is None else moved >= self.threshold
        return None

    def indices(self, access: Operation, values: LaneValues) -> Numbers | None:
        """Return the wrong index for each lane of another access; None if it is unknown."""
        part = next((p for p in parts_of(access.address) if p.value is self.value), None)
        return None if part is None else indices_of(part, access, values)


def indices_of(part: Part, access: Operation, values: LaneValues) -> Numbers | None:
    """Return a part of an address for each lane of the access; None if it is unknown."""
    own = values.of(part.value)
    if own is None:
        return None
    rank = len(shape_of(access.address.type))
    return along(own, part.axes, (0,) * len(part.axes), rank)


@dataclass(frozen=True)
class Explained:
    """The cause of a finding, with data for the analysis of other findings.

    Attributes:
        wrong: The lanes that the mask fails to exclude, if they are known.
        variables: Names of the variables that explain the finding, the most helpful first.
        witness: The lane of the access that failed first.
        outside: The lanes that lie outside in the program of the witness, by axis of the tile; None
            if they are unknown.
    """

    cause: Cause
    wrong: WrongLanes | None = None
    variables: tuple[str, ...] = ()
    witness: Witness | None = None
    outside: NDArray[np.bool_] | None = None
