"""The search for the least sizes at which a launch on one way through host code is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ttools.interpreter.ir.expr import Symbol, evaluate
from ttools.sanitizer.sizes.algebra.solver import Solver
from ttools.sanitizer.sizes.host.launches import Launch
from ttools.sanitizer.sizes.host.regions import Box, Point, Region
from ttools.sanitizer.sizes.search.known import Known
from ttools.sanitizer.sizes.search.line import LineSearch
from ttools.sanitizer.sizes.symbolic.conditions import Key, Problem

#: Ends of a box, and sizes that a solver names, that are run.
_MOST_CORNERS, _MOST_WITNESSES = 8, 4
#: Sizes that run one after the other where nothing is proved.
_MOST_NEAR = 24


class Search(LineSearch):
    """The search for the least sizes of one launch on one way through host code.

    Args:
        known: what is known of all launches.
        where: the sizes.
        counted: the same by what the region counts.
        solver: is asked where proofs end; None if there is none.
    """

    def __init__(
        self,
        known: Known,
        where: Region,
        launch: Launch,
        counted: Launch,
        solver: Solver | None = None,
    ) -> None:
        super().__init__(known, where, launch, counted)
        self._solver = solver
        self._witnesses: list[Point] = []

    def asked(self, problems: dict[Key, Problem]) -> dict[Key, Problem]:
        """What is left of the problems on the whole box once the solver was asked.

        It is not asked about what is seen to be wrong at an end of the box. Sizes that it names are
        run, so that the search knows of them.
        """
        solver = self._solver
        askable = any(problem.askable for problem in problems.values())
        if solver is None or not askable or self._known.is_late():
            return problems
        trials = [self.trial(point) for point in self._corners()]
        # Others that are seen there are hidden so far: nothing but a proof may leave them out.
        wrong = problems.keys() & {trial.key(e) for trial in trials for e in trial.events}
        if problems.keys() == wrong:
            return problems
        left = self._with_solver(self._where.box, frozenset(wrong))
        if not any(problem.hides for problem in problems.values()):
            # All others are proved: what is here beside these had no time left.
            left = {key: problem for key, problem in left.items() if key in problems}
        for witness in solver.witnesses[:_MOST_WITNESSES]:
            point = self._point(witness)
            if self._where.holds(point) and not self._known.is_late():
                self.trial(point)
                self._witnesses.append(point)
        if not solver.shown:
            self._solver = None
        return {**{key: p for key, p in problems.items() if key in wrong}, **left}

    def _with_solver(self, box: Box, wrong: frozenset[Key] = frozenset()) -> dict[Key, Problem]:
        skipped = wrong | self._known.settled(box)
        return self._known.unproved(self._counted, self._where, box, None, skipped, self._solver)

    def _corners(self) -> list[Point]:
        """The ends of the box that are in the region."""
        found: list[Point] = [{}]
        for symbol in self._where.box:
            values = self._values(symbol)
            ends = dict.fromkeys((*values[:1], *values[-1:]))
            found = [{**point, symbol: v} for point in found for v in ends][:_MOST_CORNERS]
        return [point for point in found if self._where.holds(point)]

    def _point(self, witness: Mapping[Symbol, int]) -> Point:
        """Sizes from what the solver says of some of them or of their counters."""
        point = {s: witness.get(s, low) for s, (low, _) in self._where.box.items()}
        for symbol, expr in self._where.substitution().items():
            if expr.base_symbols() <= witness.keys():
                point[symbol] = evaluate(expr, witness)
        return point

    def settle(self, problem: Problem) -> bool:
        """Finds where a problem is a defect, or that it is none; whether that was possible."""
        if len(self._where.box) == 1:
            ((symbol, (low, _)),) = self._where.box.items()
            wrong = [key[0] for key, trial in self._trials.items() if trial.events]
            end = min((size for size in wrong if size > low), default=low) - 1
            before = {symbol: (low, end)}
            if end >= low and isinstance(self._on_line(problem.key, symbol, before), dict):
                return True
            return self._on_line(problem.key, symbol, dict(self._where.box)) is not False
        return self._in_box(problem)

    def left(self) -> dict[Key, Problem]:
        """What is proved on no box and was not run as a whole, along one size.

        A wrap that is not excluded hides what else may be wrong with an access. Where runs have
        shown it to be harmless, or where it is proved after all, the rest is still to be shown. So
        it is asked for apart before the first size at which a run has shown each defect.
        """
        found: dict[Key, Problem] = {}
        if len(self._where.box) != 1:
            return found
        ((symbol, (first, last)),) = self._where.box.items()
        whole = {key[0] for key, trial in self._trials.items() if trial.is_whole}
        wrong: dict[Key, int] = {}
        for (size,), trial in self._trials.items():
            for event in trial.events:
                key = trial.key(event)
                wrong[key] = min(size, wrong.get(key, size))
        cuts = whole | set(wrong.values())
        while first <= last:
            if first in whole:
                first += 1
                continue
            end = min((v for v in cuts if v > first), default=last + 1) - 1
            if self._next_point(symbol, {symbol: (first, end)}, first) is not True:
                part = {symbol: (first, end)}
                found |= self.problems(part) if self._solver is None else self._with_solver(part)
            first = end + 1
        return found

    def explore(self) -> None:
        """Looks for defects where something hinders proofs, so that no problem names them."""
        whole = len(self._where.box) == 1
        for point in self._near():
            trial = self.trial(point)
            for key in {trial.key(event) for event in trial.events}:
                if key not in self._known.defects:
                    self._known.found(trial, point, key, least=whole)
            whole = whole and trial.is_whole
        for point in self._candidates():
            if self._known.is_late():
                return
            trial = self.trial(point)
            for event in trial.events:
                key = trial.key(event)
                if key not in self._known.defects:
                    self._lower(key, point)

    def note_unnamed(self) -> None:
        """Notes wraps that runs have shown beside the problems that they were made for.

        An access that is not proved is asked for by its bounds; what is wrong may be a wrap before.
        Other kinds may follow from a wrap that is reported already.
        """
        for sizes, trial in [*self._trials.items()]:
            point = dict(zip(self._where.box, sizes, strict=True))
            for event in trial.events:
                key = trial.key(event)
                is_new = event.kind == "int_overflow" and key not in self._known.defects
                if is_new and not self._known.is_late():
                    self._lower(key, point)

    def _near(self) -> Iterator[Point]:
        """The first points along one size."""
        if len(self._where.box) != 1:
            return
        ((symbol, (value, _)),) = self._where.box.items()
        for _ in range(_MOST_NEAR):
            point = self._next_point(symbol, dict(self._where.box), value)
            if isinstance(point, bool) or self._known.is_late():
                return
            yield point
            value = point[symbol] + 1

    def _lower(self, key: Key, start: Point) -> None:
        """Notes a defect at a point, and at lower ones where halving each size finds it."""
        self._known.found(self.trial(start), start, key, least=False)
        for symbol, (low, _) in self._where.box.items():
            box = {s: (v, v) for s, v in start.items()} | {symbol: (low, start[symbol])}
            found = self._sampled(key, symbol, box, low, start[symbol])
            if isinstance(found, dict):
                start = found

    def _values(self, symbol: Symbol) -> list[int]:
        """Values of a size near which a defect is likely; each has the remainder of the region."""
        low, high = self._where.box[symbol]
        step, remainder = self._where.steps.get(symbol, (1, 0))
        moved = {v + (remainder - v) % step for v in _steps(low, high)}
        return sorted(v for v in moved if v <= high)

    def lowered(self, key: Key, point: Point, symbol: Symbol) -> Point | bool:
        """The least failing point of this region below a point, all other sizes being fixed.

        Returns:
            True if there is none, False if that is not known.
        """
        if any(
            not low <= point[s] <= high for s, (low, high) in self._where.box.items() if s != symbol
        ):
            return True
        low, high = self._where.box[symbol]
        high = min(high, point[symbol] - 1)
        if low > high:
            return True
        box = {s: (v, v) for s, v in point.items()} | {symbol: (low, high)}
        return self._on_line(key, symbol, box)

    # ---- several sizes
    def _in_box(self, problem: Problem) -> bool:
        key, start = problem.key, None
        for point in self._candidates():
            if self._known.is_late():
                break
            trial = self.trial(point)
            if trial.has(key):
                start = point
                break
            self._note(trial)
        if start is None:
            return False
        for _ in range(4):
            before = dict(start)
            for symbol, (low, _) in self._where.box.items():
                box = {s: (v, v) for s, v in start.items()} | {symbol: (low, start[symbol])}
                found = self._on_line(problem.key, symbol, box)
                if isinstance(found, dict):
                    start = found
            if start == before:
                break
        self._known.found(self.trial(start), start, key, least=True)
        return True

    def _candidates(self) -> list[Point]:
        """Points at which a defect is likely: corners first."""
        ends = {s: self._values(s) for s in self._where.box}
        found: list[Point] = [{}]
        for symbol, values in ends.items():
            found = [{**point, symbol: v} for point in found for v in values]
        found.sort(key=lambda p: -sum(v.bit_length() for v in p.values()))
        return self._witnesses + [point for point in found if self._where.holds(point)][:160]


def _steps(low: int, high: int) -> list[int]:
    values = {low, high, low + 1, (low + high) // 2, high - 1}
    values |= {1 << e for e in range(0, 40, 3)} | {(1 << e) + 1 for e in range(5, 40, 6)}
    return sorted(v for v in values if low <= v <= high)
