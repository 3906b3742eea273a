"""Decisions of a kernel that would be different if it computed with exact values.

The exact value of a result is defined along the path that the kernel takes. A comparison whose
operands have errors is therefore evaluated twice, with the kernel's values and with the exact ones.
If the results differ, the truth value gets a `Truth` as its shadow, until something depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ttools.core.location import SourceLocation
from ttools.interpreter.eager.elements import Handle
from ttools.sanitizer.accuracy.shadow import NOTHING, Bools, Numbers, Shadow, as_exact
from ttools.sanitizer.accuracy.sources import Array

_SYMBOLS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
#: Operations on two truth values.
LOGIC: dict[str, Callable[[Any, Any], Any]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "icmpEQ": np.equal,
    "icmpNE": np.not_equal,
}
#: The alternatives of a selection count as different if their difference exceeds the sum of
#: `_ROUNDING` times the spacing at their size and `_ERRORS` times their errors.
_ROUNDING, _ERRORS = 16.0, 2.0


class Truth:
    """The shadow of truth values, some of which would be different for exact values.

    Attributes:
        exact: The truth values that result from the exact values.
        decision: For each lane, the number of the decision because of which the truth value
            differs, or `NOTHING`.
    """

    __slots__ = ("decision", "exact")

    def __init__(self, exact: Any, decision: Any) -> None:
        self.exact: Bools = np.asarray(exact)
        self.decision: Numbers = np.asarray(decision)

    def at(self, index: Any) -> Truth:
        """Return the shadow of the elements that a NumPy index selects."""
        return Truth(self.exact[index], self.decision[index])

    def moved(self, move: Callable[[Any], Any], _: Callable[[Any], Any]) -> Truth:
        """Return the truth values with their elements moved; see `Shadow.moved`."""
        return Truth(move(self.exact), move(self.decision))


class FloatBits:
    """The shadow of integers that contain the bits of a float, possibly those of another lane.

    Triton's sort exchanges two lanes `a` and `b` by `a ^ (a ^ b)`, where `a ^ b` is a reduction
    along an axis with two elements.

    Args:
        value: The float whose bits the integers contain.
        exchanged: The axis along which lanes are exchanged, or None.

    Attributes:
        reduced: The axis of the last reduction of the integers, or None.
    """

    __slots__ = ("exchanged", "reduced", "value")

    def __init__(self, value: Handle, exchanged: int | None = None) -> None:
        self.value, self.exchanged = value, exchanged
        self.reduced: int | None = None

    def at(self, index: Any) -> FloatBits:
        """Return the shadow of the elements that a NumPy index selects."""
        return FloatBits(self.value.at(index))

    def after_xor(self) -> FloatBits:
        """Return the shadow of the bits after an exclusive or with the reduction of both lanes."""
        return FloatBits(self.value, self.reduced)

    def shadow_of(self, result: Handle) -> Shadow | None:
        """Return the shadow of a float with these bits; None if its bits are not those expected."""
        own = self.value.shadow
        shadow = own if isinstance(own, Shadow) else Shadow(as_exact(self.value.data))
        bits, wanted = _bits(self.value), _bits(result)
        if self.exchanged is None:
            return shadow if np.array_equal(bits, wanted) else None
        is_exchanged = np.array_equal(np.flip(bits, self.exchanged), wanted)
        return _flipped(shadow, self.exchanged) if is_exchanged else None


def _bits(value: Handle) -> Any:
    words = np.ascontiguousarray(value.data).view(f"u{value.element.size}")
    return words.reshape(value.data.shape)


def _flipped(shadow: Shadow, axis: int) -> Shadow:
    return shadow.moved(lambda x: np.flip(x, axis), lambda rows: np.flip(rows, axis + 1))


@dataclass
class Use:
    """A place that depends on a decision.

    Attributes:
        what: Kind of the place: `branch`, `where`, `mask`, `number`, `sort` or `index`.
        place: Location of the place in the kernel; None if it is unknown.
        lanes: Number of lanes that are decided differently.
    """

    what: str
    place: SourceLocation | None
    lanes: int = 0


@dataclass(kw_only=True)
class Decision:
    """A comparison or a choice of an index that the exact values would decide differently.

    Attributes:
        what: The comparison, such as `a < b`, or `argmax` or `argmin`.
        place: Location of the comparison; None if it is unknown.
        actual: Names and values of the compared operands in the lane with the largest `gap`.
        exact: Names and exact values of the same operands.
        gap: Relative difference of the exact values.
        uses: What depends on the decision, by kind and line of the use.
    """

    what: str
    place: SourceLocation | None
    actual: tuple[tuple[str, float], ...] = ()
    exact: tuple[tuple[str, float], ...] = ()
    gap: float = -1.0
    uses: dict[object, Use] = field(default_factory=dict)


class Decisions:
    """The decisions of a launch that the exact values would make differently.

    Args:
        place: Returns the place in the source that the running kernel executes.
    """

    def __init__(self, place: Callable[[], SourceLocation | None]) -> None:
        self._place = place
        self._index: dict[object, int] = {}
        self.table: list[Decision] = []

    def add(
        self,
        what: str,
        names: tuple[str, str],
        actual: tuple[Array, Array],
        exact: tuple[Array, Array],
        differs: Bools,
    ) -> int:
        """Add lanes in which a comparison differs; return the number of the decision.

        Args:
            what: The comparison, or the operation that chooses.
            names: Names of the two compared values.
            actual: The compared values of the kernel.
            exact: Exact values of both operands.
            differs: The lanes that are decided differently.
        """
        place = self._place()
        key = what, place and (place.file, place.line)
        number = self._index.setdefault(key, len(self.table))
        if number == len(self.table):
            self.table.append(Decision(what=what, place=place))
        decision = self.table[number]
        pairs = [np.broadcast_to(array, differs.shape)[differs] for array in (*actual, *exact)]
        size = np.maximum(np.abs(pairs[2]), np.abs(pairs[3]))
        gaps = np.abs(pairs[2] - pairs[3]) / np.maximum(size, 1e-300)
        gaps = np.where(np.isnan(gaps), np.inf, gaps)
        lane = int(gaps.argmax())
        if float(gaps[lane]) > decision.gap:
            decision.gap = float(gaps[lane])
            values = [float(array[lane]) for array in pairs]
            decision.actual = tuple(zip(names, values[:2], strict=True))
            decision.exact = tuple(zip(names, values[2:], strict=True))
        return number

    def use(self, what: str, truth: Truth, lanes: Bools) -> None:
        """Record a use of truth values, such as a branch or a mask.

        Args:
            what: Kind of the use; see `Use`.
            truth: Shadow of the truth values.
            lanes: The lanes in which the use matters; lanes whose truth value does not differ are
                ignored.
        """
        decisions = np.broadcast_to(truth.decision, lanes.shape)[lanes]
        numbers, counts = np.unique(decisions, return_counts=True)
        place = self._place()
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            if number != NOTHING:
                key = what, place and (place.file, place.line)
                self.table[number].uses.setdefault(key, Use(what, place)).lanes += count


def compare(operation: str, first: Array, second: Array) -> Bools:
    """Return the result on exact values of a comparison of the builder, such as `fcmpOLT`."""
    result = np.asarray(_COMPARISONS[operation[-2:]](first, second))
    if operation[-3] == "U":
        result = result | np.isnan(first) | np.isnan(second)
    return result


def comparison_text(operation: str) -> str:
    """Return a comparison as text, such as `a < b`."""
    return f"a {_SYMBOLS[operation[-2:]]} b"


def alternatives_differ(first: Handle, second: Handle, spacing: float) -> Bools:
    """Return the lanes in which a selection's alternatives differ by more than their errors.

    In the other lanes, it does not matter which alternative is chosen. An example is `tl.where(x >
    0, x, 0)`: if the sign of `x` is wrong, `x` is as small as its error.

    Args:
        first: One alternative, a float.
        second: The other alternative, a float.
        spacing: Relative spacing of the type in which the kernel computes.
    """
    shadows = [h.shadow if isinstance(h.shadow, Shadow) else None for h in (first, second)]
    actual = [as_exact(first.data), as_exact(second.data)]
    exact = [a if s is None else s.exact for s, a in zip(shadows, actual, strict=True)]
    errors = sum(np.abs(a - e) for a, e in zip(actual, exact, strict=True))
    size = np.maximum(np.abs(exact[0]), np.abs(exact[1]))
    is_close = np.abs(exact[0] - exact[1]) <= _ERRORS * errors + _ROUNDING * spacing * size
    return np.asarray(~(is_close | (exact[0] == exact[1])))
