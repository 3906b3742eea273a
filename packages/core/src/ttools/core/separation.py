"""The simplest condition on named numbers that separates failing points from passing ones.

A point is a configuration, a set of sizes, or any other mapping of names to values. The conditions
are comparisons of a name with a number or with another name, divisibility, powers of two, and
bounds of ratios and products of two names. Conditions are tried in the order of their complexity.
The first one that separates some of the points is checked at the other points. A point that
contradicts it is added to the points that conditions are derived from. A condition is returned only
if a third of the points of each side was never used to derive it, and if no other condition of the
same complexity separates all points.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations
from typing import Any

#: Values of names; conditions use integers, booleans and strings.
Point = Mapping[str, Any]

#: A side with fewer points than this number does not determine a condition.
FEWEST = 3
#: Number of points of each side from which the first condition is derived.
_FIRST = 2
#: Maximum number of names to examine, because all pairs of names are tried, and maximum number of
#: points; with more points, no condition is derived.
_MOST_NAMES, _MOST_POINTS = 24, 2_000
#: Maximum number of points on the other side with which a point is compared to determine its
#: distance.
_MOST_COMPARED = 200
#: Divisors in conditions without a second name.
_DIVISORS = (2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A condition on the values of named parameters.

    Attributes:
        text: The condition as it is shown, such as `BLOCK_K > 64` or `N % BLOCK != 0`.
        names: Names that the condition uses.
        complexity: Rank of the condition; lower is simpler, and 1 compares one name with a value.
    """

    text: str
    names: tuple[str, ...]
    complexity: int
    holds: Callable[[Point], bool] = field(compare=False, repr=False)


def separating_condition(
    failing: Sequence[Point], passing: Sequence[Point], constants: Point | None = None
) -> Condition | None:
    """Return the simplest condition that holds at all failing points and at no passing point.

    Args:
        failing: Points at which the condition must hold.
        passing: Points at which the condition must not hold.
        constants: Further values that are equal at all points, such as the sizes of a launch. A
            bound that equals exactly one of them is shown by its name.

    Returns:
        None if no simple condition separates the points, if several equally simple ones do, or if
        there are too few points to check it on points that it was not derived from.
    """
    if min(len(failing), len(passing)) < FEWEST or len(failing) + len(passing) > _MOST_POINTS:
        return None
    names = _names([*failing, *passing])
    equal = {n: failing[0][n] for n in names if _is_fixed(n, failing, passing)}
    fixed = {n: v for n, v in {**equal, **(constants or {})}.items() if type(v) is int}
    varying = [n for n in names if n not in equal][:_MOST_NAMES]
    space = _Space(
        varying=varying,
        graded=frozenset(n for n in varying if len({p[n] for p in (*failing, *passing)}) > 2),
        fixed=fixed,
    )
    derived = _derived(*_nearest_first(failing, passing, varying), space)
    if derived is None:
        return None
    rivals = {
        frozenset(other.names)
        for other in _candidates(failing, passing, space)
        if other.complexity == derived.complexity and _separates(other, failing, passing)
    }
    return derived if rivals <= {frozenset(derived.names)} else None


@dataclass(frozen=True, kw_only=True)
class _Space:
    """Properties of the points that do not depend on their results.

    Attributes:
        varying: Names whose values differ between points.
        graded: Names with more than two values, for which a bound is better than an equation.
        fixed: Integers that are equal at all points, by name.
    """

    varying: Sequence[str]
    graded: frozenset[str]
    fixed: Mapping[str, int]


def _derived(failing: Sequence[Point], passing: Sequence[Point], space: _Space) -> Condition | None:
    """Return the first condition that also separates the points from which it was not derived."""
    used = [list(failing[:_FIRST]), list(passing[:_FIRST])]
    most = [len(side) - max(1, len(side) // 3) for side in (failing, passing)]
    while len(used[0]) <= most[0] and len(used[1]) <= most[1]:
        bad, good = used
        separating = (c for c in _candidates(bad, good, space) if _separates(c, bad, good))
        condition = next(separating, None)
        if condition is None:
            return None
        missed = next((point for point in failing if not condition.holds(point)), None)
        wrong = next((point for point in passing if condition.holds(point)), None)
        if missed is None and wrong is None:
            return condition
        bad += [] if missed is None else [missed]
        good += [] if wrong is None else [wrong]
    return None


def _nearest_first(
    failing: Sequence[Point], passing: Sequence[Point], varying: Sequence[str]
) -> tuple[Sequence[Point], Sequence[Point]]:
    """Sort the points of each side by their distance to the other side.

    The points next to the border determine a bound, and the points far from it can then contradict
    the bound.
    """

    def apart(one: Point, other: Point) -> tuple[int, float]:
        different = [(one[name], other[name]) for name in varying if one[name] != other[name]]
        return len(different), sum(map(_doublings, different))

    def ordered(side: Sequence[Point], others: Sequence[Point]) -> Sequence[Point]:
        compared = others[:: -(-len(others) // _MOST_COMPARED)]
        return sorted(side, key=lambda point: min(apart(point, other) for other in compared))

    return ordered(failing, passing), ordered(passing, failing)


def _doublings(values: tuple[Any, Any]) -> float:
    """Return how many doublings separate two positive numbers; 1 for other values."""
    if all(type(value) is int and value > 0 for value in values):
        return abs(math.log2(values[0] / values[1]))
    return 1.0


def _names(points: Sequence[Point]) -> list[str]:
    """Return the names that have a usable value at all points."""
    return [n for n in points[0] if all(isinstance(p.get(n), (int, str)) for p in points)]


def _is_fixed(name: str, failing: Sequence[Point], passing: Sequence[Point]) -> bool:
    first = failing[0][name]
    return all(point[name] == first for point in (*failing, *passing))


def _separates(condition: Condition, failing: Iterable[Point], passing: Iterable[Point]) -> bool:
    return all(map(condition.holds, failing)) and not any(map(condition.holds, passing))


def _candidates(
    failing: Sequence[Point], passing: Sequence[Point], space: _Space
) -> Iterator[Condition]:
    """Yield conditions in the order of their complexity, with bounds that fit the points."""
    numbers = [n for n in space.varying if all(type(p[n]) is int for p in (*failing, *passing))]
    positive = [n for n in numbers if all(p[n] > 0 for p in (*failing, *passing))]
    for name in space.varying:
        yield from _of_one(name, failing, passing, name in numbers, space)
    for one, other in permutations(numbers, 2):
        yield _condition(f"{one} > {other}", (one, other), 2, lambda a, b: a > b)
        yield _condition(f"{one} >= {other}", (one, other), 2, lambda a, b: a >= b)
    for one, other in permutations(numbers, 2):
        if other in positive:
            yield _condition(f"{one} % {other} != 0", (one, other), 2, lambda a, b: a % b != 0)
            yield _condition(f"{one} % {other} == 0", (one, other), 2, lambda a, b: a % b == 0)
    for one, other in combinations(numbers, 2):
        yield _condition(f"{one} == {other}", (one, other), 2, lambda a, b: a == b)
        yield _condition(f"{one} != {other}", (one, other), 2, lambda a, b: a != b)
    for one, other in combinations(positive, 2):
        yield from _of_two(one, other, failing, passing)


def _of_one(
    name: str, failing: Sequence[Point], passing: Sequence[Point], is_number: bool, space: _Space
) -> Iterator[Condition]:
    """Yield comparisons of a name with a value, and its divisibility."""
    bad = {point[name] for point in failing}
    good = {point[name] for point in passing}
    if is_number and name in space.graded:
        if min(bad) > max(good):
            bound = _bound(">", max(good), min(bad), space.fixed)
            yield _condition(f"{name} {bound}", (name,), 1, _above(max(good)))
        elif max(bad) < min(good):
            bound = _bound("<", min(good), max(bad), space.fixed)
            yield _condition(f"{name} {bound}", (name,), 1, _below(min(good)))
    if len(bad) == 1:
        (value,) = bad
        yield _condition(f"{name} == {value!r}", (name,), 1, _equal(value))
    elif len(good) == 1:
        (value,) = good
        yield _condition(f"{name} != {value!r}", (name,), 1, _different(value))
    if not is_number:
        return
    yield _condition(f"{name} is not a power of two", (name,), 1, lambda a: not _is_power(a))
    yield _condition(f"{name} is a power of two", (name,), 1, _is_power)
    divisors = {value: named for named, value in space.fixed.items() if value > 1}
    divisors |= {value: "" for value in _DIVISORS if value not in divisors}
    for divisor, named in divisors.items():
        shown = f"{named} ({divisor})" if named else str(divisor)
        yield _condition(f"{name} % {shown} != 0", (name,), 2, _indivisible(divisor))
        yield _condition(f"{name} % {shown} == 0", (name,), 2, _divisible(divisor))


def _of_two(
    one: str, other: str, failing: Sequence[Point], passing: Sequence[Point]
) -> Iterator[Condition]:
    """Yield bounds on the ratios and on the product of two names with positive values."""
    operations: tuple[tuple[str, tuple[str, str], Callable[[int, int], float]], ...] = (
        ("/", (one, other), operator.truediv),
        ("/", (other, one), operator.truediv),
        ("*", (one, other), operator.mul),
    )
    for sign, names, operation in operations:
        bad = [operation(*(point[name] for name in names)) for point in failing]
        good = [operation(*(point[name] for name in names)) for point in passing]
        text = f"{names[0]} {sign} {names[1]}"
        if min(bad) > max(good):
            test = _pair(operation, _above(max(good)))
            yield _condition(f"{text} > {max(good):g}", names, 3, test)
        elif sign == "*" and max(bad) < min(good):
            test = _pair(operation, _below(min(good)))
            yield _condition(f"{text} < {min(good):g}", names, 3, test)


def _bound(sign: str, passing: int, failing: int, fixed: Mapping[str, int]) -> str:
    """Return a bound between two values; if exactly one constant lies between them, name it.

    Args:
        sign: Sign of the comparison, `>` or `<`.
        passing: The value closest to the bound at which points pass.
        failing: The value closest to the bound at which points fail.
        fixed: Values of the constants, by name.
    """
    low, high = sorted((passing, failing))
    named = [name for name, value in fixed.items() if low <= value <= high]
    if len(named) != 1:
        return f"{sign} {passing}"
    inclusive = "=" if fixed[named[0]] == failing else ""
    return f"{sign}{inclusive} {named[0]} ({fixed[named[0]]})"


def _condition(
    text: str, names: tuple[str, ...], complexity: int, test: Callable[..., bool]
) -> Condition:
    def holds(point: Point) -> bool:
        return test(*(point[name] for name in names))

    return Condition(text=text, names=names, complexity=complexity, holds=holds)


def _pair(
    operation: Callable[[int, int], float], test: Callable[[float], bool]
) -> Callable[[int, int], bool]:
    return lambda one, other: test(operation(one, other))


def _above(bound: float) -> Callable[[float], bool]:
    return lambda value: value > bound


def _below(bound: float) -> Callable[[float], bool]:
    return lambda value: value < bound


def _equal(expected: object) -> Callable[[object], bool]:
    return lambda value: value == expected


def _different(expected: object) -> Callable[[object], bool]:
    return lambda value: value != expected


def _divisible(divisor: int) -> Callable[[int], bool]:
    return lambda value: value % divisor == 0


def _indivisible(divisor: int) -> Callable[[int], bool]:
    return lambda value: value % divisor != 0


def _is_power(value: int) -> bool:
    return value > 0 and not value & (value - 1)
