"""Search for the smallest sizes at which a launch fails.

A proof for a box of sizes rules out a problem for all of them. Where a proof fails, the launch is
evaluated at single sizes. A size is reported as failing only if an evaluation shows it. A size
counts as correct only if it was proved, or if all of its programs were evaluated and no value was
unknown.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from ttools.ir.expr import Symbol, evaluate
from ttools.prove.algebra.proofs import Limit
from ttools.prove.algebra.solver import Solver
from ttools.prove.host.kernels import Kernels
from ttools.prove.host.launches import SymbolicCall
from ttools.prove.host.regions import Box, Point, Region
from ttools.prove.result import Defect
from ttools.prove.search.trial import Trial
from ttools.prove.symbolic.conditions import Key, Problem, unproved

_MOST_STEPS = 12
#: A range with at most this many sizes is evaluated size by size.
_MOST_ALONE = 256
#: Maximum number of consecutive sizes that are tested to find one in the region.
_MOST_TRIED = 256
#: Once a proof has taken more seconds than this, sizes are evaluated before another proof is
#: attempted.
_SLOW = 0.2


#: Maximum number of corners of a box, and of sizes from the solver's models, that are evaluated.
_MOST_CORNERS, _MOST_WITNESSES = 8, 4
#: Number of consecutive sizes that are evaluated if something prevents a proof.
_MOST_NEAR = 24


class SearchState:
    """The state that the searches for all launches of an analysis share.

    Args:
        names: Names of the sizes.
        first: Smallest value of each size, by name.
        limit: Time limit of the analysis.

    Attributes:
        defects: The defects, each at the smallest size found so far.
    """

    def __init__(self, names: Mapping[Symbol, str], first: Mapping[str, int], limit: Limit) -> None:
        self._names, self._first, self._limit = names, dict(first), limit
        self.kernels = Kernels()
        self.defects: dict[Key, Defect] = {}

    def is_late(self) -> bool:
        """Return whether the time limit has passed."""
        return self._limit.left < 0

    def record(self, trial: Trial, point: Point, key: Key | None, least: bool) -> None:
        """Record the findings at a size.

        Args:
            trial: The launch at that size.
            key: Key of the defect that is searched for.
            least: True if no smaller size has that defect.
        """
        sizes = {self._names[s]: v for s, v in point.items()}
        for event in trial.events:
            own = trial.key(event)
            defect = self.defects.get(own)
            is_least = (least and own == key) or sizes == self._first
            if defect is not None and _below(defect.sizes, sizes):
                continue
            if defect is None or (is_least and not defect.is_least) or _below(sizes, defect.sizes):
                self.defects[own] = Defect(event, trial.launch, sizes, is_least)

    def point(self, defect: Defect) -> Point:
        """Return the sizes of a defect by their symbols."""
        return {symbol: defect.sizes[name] for symbol, name in self._names.items()}

    def trial(self, launch: SymbolicCall, point: Point) -> Trial:
        return Trial(launch, self.kernels.module(launch), point, self.kernels.storages(launch))

    def settled(self, box: Box) -> frozenset[Key]:
        """Return the keys of defects whose smallest size is known and not above the start of a box.

        If there are several sizes, the result is empty.
        """
        lows = [low for low, _ in box.values()]
        if len(lows) > 1:
            return frozenset()
        return frozenset(
            k for k, d in self.defects.items() if d.is_least and [*d.sizes.values()] <= lows
        )

    def unproved(
        self,
        launch: SymbolicCall,
        where: Region,
        box: Box,
        only: Key | None,
        skipped: frozenset[Key],
        solver: Solver | None = None,
    ) -> dict[Key, Problem]:
        """Return the problems of a launch on a part of a region, by their keys.

        Args:
            launch: The launch, with sizes replaced by the region's counters.
            box: The part of the region.
            only: Key of the problem of interest, if problems with other keys may be left out.
            skipped: Keys of problems that may be left out.
            solver: Z3, if it is to be used.
        """
        space = where.space(box)
        if space is None:
            return {}
        space.limit = self._limit
        module, written = self.kernels.module(launch), self.kernels.storages(launch)
        problems = unproved(launch, module, space, written, only, skipped, solver)
        return {p.key: p for p in problems}


class Search:
    """The search for the smallest sizes at which one launch fails, on one path of host code.

    Args:
        state: State that all launches share.
        where: The sizes of the path.
        counted: The launch with sizes replaced by the region's counters.
        solver: Z3, which is used where other proofs fail; None if it is not installed.

    Attributes:
        uncertain: Operations whose addresses or masks depend on unknown data.
    """

    def __init__(
        self,
        state: SearchState,
        where: Region,
        launch: SymbolicCall,
        counted: SymbolicCall,
        solver: Solver | None = None,
    ) -> None:
        self._state, self._where, self.launch, self._counted = state, where, launch, counted
        self._proofs: dict[tuple[tuple[tuple[int, int], ...], Key | None], dict[Key, Problem]] = {}
        self._trials: dict[tuple[int, ...], Trial] = {}
        self.uncertain: list[Any] = []
        self._solver = solver
        self._witnesses: list[Point] = []

    def asked(self, problems: dict[Key, Problem]) -> dict[Key, Problem]:
        """Return the problems on the whole box that the solver cannot rule out.

        The solver is not queried about problems that evaluation confirms at a corner of the box.
        The sizes in the solver's models are evaluated.
        """
        solver = self._solver
        askable = any(problem.askable for problem in problems.values())
        if solver is None or not askable or self._state.is_late():
            return problems
        trials = [self.trial(point) for point in self._corners()]
        # Evaluation may also show defects that one of the problems hides. Queries about these are
        # not skipped, because only a proof may exclude them.
        wrong = problems.keys() & {trial.key(e) for trial in trials for e in trial.events}
        if problems.keys() == wrong:
            return problems
        left = self._with_solver(self._where.box, frozenset(wrong))
        if not any(problem.hides for problem in problems.values()):
            # All other conditions are already proved. A problem that is new here only means that
            # the solver ran out of time.
            left = {key: problem for key, problem in left.items() if key in problems}
        for witness in solver.witnesses[:_MOST_WITNESSES]:
            point = self._point(witness)
            if self._where.holds(point) and not self._state.is_late():
                self.trial(point)
                self._witnesses.append(point)
        if not solver.shown:
            self._solver = None
        return {**{key: p for key, p in problems.items() if key in wrong}, **left}

    def _with_solver(self, box: Box, wrong: frozenset[Key] = frozenset()) -> dict[Key, Problem]:
        skipped = wrong | self._state.settled(box)
        return self._state.unproved(self._counted, self._where, box, None, skipped, self._solver)

    def _corners(self) -> list[Point]:
        """Return the corners of the box that are in the region."""
        corners: list[Point] = [{}]
        for symbol in self._where.box:
            values = self._values(symbol)
            ends = dict.fromkeys((*values[:1], *values[-1:]))
            corners = [{**point, symbol: v} for point in corners for v in ends][:_MOST_CORNERS]
        return [point for point in corners if self._where.holds(point)]

    def _point(self, witness: Mapping[Symbol, int]) -> Point:
        """Return the point that the solver's values of sizes, or of the sizes' counters, describe.

        A size without a value has its first value.
        """
        point = {s: witness.get(s, low) for s, (low, _) in self._where.box.items()}
        for symbol, expr in self._where.substitution().items():
            if expr.base_symbols() <= witness.keys():
                point[symbol] = evaluate(expr, witness)
        return point

    def settle(self, problem: Problem) -> bool:
        """Find the smallest size at which a problem is a defect, or show that it is never a defect.

        Returns:
            False if neither succeeded.
        """
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
        """Return the problems on the parts of a range whose sizes were not evaluated completely.

        An integer that may wrap hides other problems of its access. If evaluation or a later proof
        shows that the wrap is harmless, the hidden problems still have to be excluded. Proofs are
        therefore attempted for the parts of the range that lie between sizes that were evaluated
        completely and the first sizes at which evaluation shows a defect. If there are several
        sizes, they are attempted for the parts in which one size is smaller than at a recorded
        wrap.
        """
        problems: dict[Key, Problem] = {}
        if len(self._where.box) != 1:
            for part in self._parts_below_wraps():
                problems |= self._problems_of_part(part)
            return problems
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
                problems |= self._problems_of_part({symbol: (first, end)})
            first = end + 1
        return problems

    def _problems_of_part(self, part: Box) -> dict[Key, Problem]:
        return self.problems(part) if self._solver is None else self._with_solver(part)

    def _parts_below_wraps(self) -> Iterator[Box]:
        box = dict(self._where.box)
        for key, defect in [*self._state.defects.items()]:
            if key[:2] == ("int_overflow", self.launch.kernel):
                point = self._state.point(defect)
                for symbol, (low, high) in box.items():
                    if low < point[symbol]:
                        yield {**box, symbol: (low, min(high, point[symbol] - 1))}

    def explore(self) -> None:
        """Search for defects that no problem describes because something prevents the proofs."""
        whole = len(self._where.box) == 1
        for point in self._near():
            trial = self.trial(point)
            for key in {trial.key(event) for event in trial.events}:
                if key not in self._state.defects:
                    self._state.record(trial, point, key, least=whole)
            whole = whole and trial.is_whole
        for point in self._candidates():
            if self._state.is_late():
                return
            trial = self.trial(point)
            for event in trial.events:
                key = trial.key(event)
                if key not in self._state.defects:
                    self._lower(key, point)

    def record_unnamed(self) -> None:
        """Record integer wraps that evaluation has shown during the search for other problems.

        If an integer wraps, a later access may be out of bounds and therefore unproved, although
        the defect is the wrap. Defects of other kinds are not recorded here, because they may be
        consequences of a wrap that is already reported.
        """
        for sizes, trial in [*self._trials.items()]:
            point = dict(zip(self._where.box, sizes, strict=True))
            for event in trial.events:
                key = trial.key(event)
                is_new = event.kind == "int_overflow" and key not in self._state.defects
                if is_new and not self._state.is_late():
                    self._lower(key, point)

    def _near(self) -> Iterator[Point]:
        """Yield the first points of the region if there is one size; otherwise none."""
        if len(self._where.box) != 1:
            return
        ((symbol, (value, _)),) = self._where.box.items()
        for _ in range(_MOST_NEAR):
            point = self._next_point(symbol, dict(self._where.box), value)
            if isinstance(point, bool) or self._state.is_late():
                return
            yield point
            value = point[symbol] + 1

    def _lower(self, key: Key, start: Point) -> None:
        """Record a defect at a point, and at smaller points found by bisecting each size."""
        self._state.record(self.trial(start), start, key, least=False)
        for symbol, (low, _) in self._where.box.items():
            box = {s: (v, v) for s, v in start.items()} | {symbol: (low, start[symbol])}
            lower = self._sampled(key, symbol, box, low, start[symbol])
            if isinstance(lower, dict):
                start = lower

    def _values(self, symbol: Symbol) -> list[int]:
        """Return values of a size at which defects are likely, all with the region's remainder."""
        low, high = self._where.box[symbol]
        step, remainder = self._where.steps.get(symbol, (1, 0))
        moved = {v + (remainder - v) % step for v in _steps(low, high)}
        return sorted(v for v in moved if v <= high)

    def lowered(self, key: Key, point: Point, symbol: Symbol) -> Point | bool:
        """Return the first failing point that differs from `point` in a smaller value of one size.

        Returns:
            The point; True if there is none in this region; False if it is unknown.
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
            if self._state.is_late():
                break
            trial = self.trial(point)
            if trial.has(key):
                start = point
                break
            self._record_uncertain(trial)
        if start is None:
            return False
        for _ in range(4):
            before = dict(start)
            for symbol, (low, _) in self._where.box.items():
                box = {s: (v, v) for s, v in start.items()} | {symbol: (low, start[symbol])}
                lower = self._on_line(problem.key, symbol, box)
                if isinstance(lower, dict):
                    start = lower
            if start == before:
                break
        self._state.record(self.trial(start), start, key, least=True)
        return True

    def _candidates(self) -> list[Point]:
        """Return points where defects are likely: the solver's, then others in descending order."""
        ends = {s: self._values(s) for s in self._where.box}
        points: list[Point] = [{}]
        for symbol, values in ends.items():
            points = [{**point, symbol: v} for point in points for v in values]
        points.sort(key=lambda p: -sum(v.bit_length() for v in p.values()))
        return self._witnesses + [point for point in points if self._where.holds(point)][:160]

    def problems(self, box: Box, only: Key | None = None) -> dict[Key, Problem]:
        """Return the problems on a box; those with other keys than `only` may be missing."""
        ends, settled = tuple(box.values()), self._state.settled(box)
        whole = (ends, None) in self._proofs and only not in settled
        key = (ends, None if whole else only)
        if key not in self._proofs:
            skipped = settled if only is None else frozenset[Key]()
            self._proofs[key] = self._state.unproved(self._counted, self._where, box, only, skipped)
        return self._proofs[key]

    def trial(self, point: Point) -> Trial:
        key = tuple(point.values())
        if key not in self._trials:
            self._trials[key] = self._state.trial(self.launch, point)
        return self._trials[key]

    def _record_uncertain(self, trial: Trial) -> None:
        self.uncertain += [op for op in trial.uncertain if op not in self.uncertain]

    def _on_line(self, key: Key, symbol: Symbol, box: Box) -> Point | bool:
        """Return the smallest failing point of a box in which all sizes but one are fixed.

        Returns:
            The point; True if there is none; False if it is unknown.
        """
        low, high = box[symbol]
        first = self._next_point(symbol, box, low)
        if isinstance(first, dict) and self.trial(first).has(key):
            self._state.record(self.trial(first), first, key, least=True)
            return first
        for _ in range(_MOST_STEPS):
            if key not in self.problems({**box, symbol: (low, high)}, key):
                return True
            end = self._proved_until(key, symbol, box, low, high)
            point = self._next_point(symbol, box, end)
            if isinstance(point, bool):
                return point
            trial = self.trial(point)
            if trial.has(key) or trial.look_further(key, self._state.is_late):
                self._state.record(trial, point, key, least=True)
                return point
            self._state.record(trial, point, key, least=False)
            low = end  # all smaller sizes are proved
            if not trial.is_whole:
                if trial.uncertain and not trial.events:
                    self._record_uncertain(trial)
                    return False
                break
            low = point[symbol] + 1
            if low > high:
                return True
        else:
            if high - low < _MOST_ALONE:
                result = self._one_by_one(key, symbol, box, low)
                if result is not None:
                    return result
        return self._sampled(key, symbol, box, low, high)

    def _one_by_one(self, key: Key, symbol: Symbol, box: Box, low: int) -> Point | bool | None:
        """Evaluate each point from `low` on, in order, and return the first that fails.

        Returns:
            The point. If there is no further point, the result of `_next_point`, True or False.
            None if the time limit has passed or a point cannot be evaluated as a whole.
        """
        while not self._state.is_late():
            point = self._next_point(symbol, box, low)
            if isinstance(point, bool):
                return point
            trial = self.trial(point)
            if trial.has(key):
                self._state.record(trial, point, key, least=True)
                return point
            self._state.record(trial, point, key, least=False)
            if not trial.is_whole:
                return None
            low = point[symbol] + 1
        return None

    def _proved_until(self, key: Key, symbol: Symbol, box: Box, low: int, high: int) -> int:
        """Return the smallest `end` for which the range from `low` to `end` is not proved."""
        good, bad = low - 1, high
        if key in self.problems({**box, symbol: (low, low)}, key):
            return low
        is_slow = False
        while bad - good > 1:
            middle = (good + bad) // 2
            point = {**{s: first for s, (first, _) in box.items()}, symbol: middle}
            if is_slow and self._where.holds(point) and self.trial(point).has(key):
                bad = middle  # there is no proof, because the launch fails at `middle`
                continue
            start = time.thread_time()
            if key in self.problems({**box, symbol: (low, middle)}, key):
                bad = middle
            else:
                good = middle
            if not is_slow and time.thread_time() - start > _SLOW:
                is_slow = True
                end = self._seen_from(key, symbol, box, good, bad)
                if end is None:
                    continue
                if key not in self.problems({**box, symbol: (low, end - 1)}, key):
                    return end
                bad = end - 1
        return bad

    def _seen_from(self, key: Key, symbol: Symbol, box: Box, good: int, bad: int) -> int | None:
        """Find the first size above `good` with a defect by bisection; None if `bad` has none."""
        wrong = self._next_point(symbol, {**box, symbol: (bad, bad)}, bad)
        if isinstance(wrong, bool) or not self.trial(wrong).has(key):
            return None
        while bad - good > 1:
            middle = (good + bad) // 2
            point = self._next_point(symbol, {**box, symbol: (middle, bad - 1)}, middle)
            if isinstance(point, dict) and self.trial(point).has(key):
                bad = point[symbol]
            else:
                good = middle
        return bad

    def _next_point(self, symbol: Symbol, box: Box, value: int) -> Point | bool:
        """Return the first point of the region at which a size is at least `value`.

        Returns:
            The point; True if there is none; False if the points that were tried are not in the
            region, but later ones may be.
        """
        rest = {s: low for s, (low, _) in box.items()}
        step, remainder = self._where.steps.get(symbol, (1, 0))
        first, high = value + (remainder - value) % step, box[symbol][1]
        for n in range(first, min(high, first + _MOST_TRIED * step) + 1, step):
            point = {**rest, symbol: n}
            if self._where.holds(point):
                return point
        return first + _MOST_TRIED * step >= high

    def _sampled(self, key: Key, symbol: Symbol, box: Box, low: int, high: int) -> Point | bool:
        """Evaluate scattered sizes, and bisect between a correct size and a failing one."""
        values = [low, low + 1, low + 2, high, high - 1, (low + high) // 2]
        values += [v + d for e in range(4, 40) for v in (1 << e,) for d in (-1, 0, 1, 7)]
        wrong = None
        for value in sorted({v for v in values if low <= v <= high}):
            point = self._next_point(symbol, box, value)
            if isinstance(point, bool) or self._state.is_late():
                continue
            trial = self.trial(point)
            self._record_uncertain(trial)
            if trial.has(key):
                wrong = point
                break
            low = max(low, value) if value > low else low
        if wrong is None:
            return False
        good, bad = low - 1, wrong[symbol]
        while bad - good > 1:
            middle = (good + bad) // 2
            point = self._next_point(symbol, {**box, symbol: (box[symbol][0], bad)}, middle)
            if isinstance(point, bool) or point[symbol] >= bad:
                bad = min(bad, max(middle, good + 1))
                if bad == middle:
                    continue
                break
            if self.trial(point).has(key):
                wrong, bad = point, point[symbol]
            else:
                good = max(middle, point[symbol])
        self._state.record(self.trial(wrong), wrong, key, least=False)
        return wrong


def _steps(low: int, high: int) -> list[int]:
    values = {low, high, low + 1, (low + high) // 2, high - 1}
    values |= {1 << e for e in range(0, 40, 3)} | {(1 << e) + 1 for e in range(5, 40, 6)}
    return sorted(v for v in values if low <= v <= high)


def _below(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Return whether `one` differs from `other` and no size in `one` is larger."""
    return one != other and all(one[n] <= other[n] for n in one)
