"""Describes for which sizes and parameters a failure occurs, by the simplest condition.

Starting from the reduced inputs of a failure, each parameter of `inputs` is changed alone, to find
the parameters on which the failure depends; then pairs of these parameters are changed. For
example, if a kernel loads one scale for each block of K, the failure at `group=16, block_k=32`
depends on both parameters, and the condition `block_k > group` separates their nine combinations
into failing and passing ones.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from ttools.core.reports.report import counted
from ttools.core.separation import separating_condition
from ttools.verifier.cases.domain import Domain
from ttools.verifier.cases.plan import Case

#: Maximum number of values of a parameter that are combined with values of another parameter.
_MOST_COMBINED = 4
#: Sizes that distinguish conditions on divisibility.
_FAR = (8, 16, 24, 48, 64, 96, 128, 192, 256)
#: Returns whether a case fails in the same way; None if it cannot be decided.
Fails = Callable[[Case], bool | None]


def failing_condition(case: Case, domain: Domain, fails: Fails, tries: int) -> str:
    """Return a clause that says where a failure occurs; empty if no simple condition is known.

    Args:
        case: The reduced case that fails.
        domain: Domain of the inputs.
        fails: Function that runs a case.
        tries: Maximum number of cases to run.
    """
    if case.after or case.order is not None:
        return ""
    grid = _Grid(case, domain, fails, tries)
    near = {name: grid.near(name) for name in grid.names}
    relevant = [name for name in grid.names if grid.depends_on(name, near[name])]
    if not relevant:
        far = {name: grid.far(name) for name in domain.sizes}
        relevant = [name for name in far if grid.depends_on(name, far[name])]
    if len(relevant) == 1:
        (name,) = relevant
        values = sorted({*near[name], *grid.far(name)}) if name in domain.sizes else near[name]
        return grid.described([name], [{name: value} for value in values])
    for pair in combinations(relevant, 2):
        few = [grid.nearest(name, near[name]) for name in pair]
        points = [dict(zip(pair, combination, strict=True)) for combination in product(*few)]
        text = grid.described(pair, points)
        if text:
            return text
    return ""


class _Grid:
    """The outcomes of cases that differ from one case in few parameters."""

    def __init__(self, case: Case, domain: Domain, fails: Fails, tries: int) -> None:
        self._case, self._domain, self._fails, self._left = case, domain, fails, tries
        self._outcomes: dict[tuple[Any, ...], bool | None] = {}
        self.names = [*domain.sizes, *domain.choices]

    def near(self, name: str) -> list[Any]:
        """Return values of a parameter: all values of a list, or sizes near that in the case."""
        if name in self._domain.choices:
            return [self._value(name, number) for number in range(len(self._domain.choices[name]))]
        own = self._case.sizes[name]
        low, _ = self._domain.sizes[name]
        return self._within(name, (low, own // 2, own - 1, own, own + 1, 2 * own, 3 * own + 1))

    def far(self, name: str) -> list[int]:
        """Return sizes that are multiples of different powers of two."""
        return self._within(name, _FAR)

    def _within(self, name: str, sizes: Sequence[int]) -> list[int]:
        low, high = self._domain.sizes[name]
        return sorted({size for size in sizes if max(low, 1) <= size <= high})

    def depends_on(self, name: str, values: Sequence[Any]) -> bool:
        """Return whether some of the values of a parameter make the case pass."""
        return False in [self.outcome({name: value}) for value in values]

    def nearest(self, name: str, values: list[Any]) -> list[Any]:
        """Return a few of the values: the one in the case, the one below it, and some above it.

        The case is reduced, so larger values tell more about the failure than smaller ones.
        """
        own = self._own(name)
        at = values.index(own) if own in values else 0
        first = min(max(0, at - 1), max(0, len(values) - _MOST_COMBINED))
        return values[first : first + _MOST_COMBINED]

    def outcome(self, changed: dict[str, Any]) -> bool | None:
        """Return whether the case fails with changed values; None if it cannot be decided."""
        key = tuple(changed.get(name, self._own(name)) for name in self.names)
        if key == tuple(map(self._own, self.names)):
            return True
        if key not in self._outcomes:
            if not self._left:
                return None
            self._left -= 1
            self._outcomes[key] = self._fails(self._with(changed))
        return self._outcomes[key]

    def described(self, names: Sequence[str], points: Sequence[dict[str, Any]]) -> str:
        """Return a clause with the condition that separates failing from passing points.

        Args:
            names: Parameters on which the condition may depend.
            points: Values of these parameters to try.
        """
        decided = [(point, outcome) for point in points for outcome in [self.outcome(point)]]
        failing = [point for point, outcome in decided if outcome]
        passing = [point for point, outcome in decided if outcome is False]
        condition = separating_condition(failing, passing)
        if condition is None:
            return ""
        noun = "value" if len(names) == 1 else "combination"
        tried = counted(len(failing) + len(passing), noun)
        return f"fails exactly where {condition.text} ({tried} tried)"

    def _own(self, name: str) -> Any:
        if name in self._case.sizes:
            return self._case.sizes[name]
        return self._value(name, self._case.choices[name])

    def _value(self, name: str, number: int) -> Any:
        """Return a value of a parameter: the number if it is a number, otherwise its label."""
        literal = self._domain.literals.get(name, [""] * (number + 1))[number]
        try:
            value = ast.literal_eval(literal)
        except (ValueError, SyntaxError):
            value = None
        return value if type(value) in (int, bool) else self._domain.choices[name][number]

    def _with(self, changed: dict[str, Any]) -> Case:
        sizes, choices = dict(self._case.sizes), dict(self._case.choices)
        for name, value in changed.items():
            if name in sizes:
                sizes[name] = value
            else:
                choices[name] = self.near(name).index(value)
        return replace(self._case, sizes=sizes, choices=choices)
