"""The search along one size, all others being fixed: proofs up to a size, runs beyond."""

from __future__ import annotations

import time
from typing import Any

from ttools.interpreter.ir.expr import Symbol
from ttools.sanitizer.sizes.concrete.trial import Trial
from ttools.sanitizer.sizes.host.launches import Launch
from ttools.sanitizer.sizes.host.regions import Box, Point, Region
from ttools.sanitizer.sizes.search.known import Known
from ttools.sanitizer.sizes.symbolic.conditions import Key, Problem

_MOST_STEPS = 12
#: Sizes of a range that are all run.
_MOST_ALONE = 256
#: Sizes that are asked for being in a region, one after the other.
_MOST_TRIED = 256
#: Seconds of a proof that is not found, from which on a size is run first.
_SLOW = 0.2


class LineSearch:
    """The search for the least failing value of one size.

    Args:
        known: what is known of all launches.
        where: the sizes.
        counted: the same by what the region counts.
    """

    def __init__(self, known: Known, where: Region, launch: Launch, counted: Launch) -> None:
        self._known, self._where, self.launch, self._counted = known, where, launch, counted
        self._proofs: dict[tuple[tuple[tuple[int, int], ...], Key | None], dict[Key, Problem]] = {}
        self._trials: dict[tuple[int, ...], Trial] = {}
        self.uncertain: list[Any] = []

    def problems(self, box: Box, only: Key | None = None) -> dict[Key, Problem]:
        """What is not proved on a box; at least what is asked about."""
        ends, settled = tuple(box.values()), self._known.settled(box)
        whole = (ends, None) in self._proofs and only not in settled
        key = (ends, None if whole else only)
        if key not in self._proofs:
            skipped = settled if only is None else frozenset[Key]()
            self._proofs[key] = self._known.unproved(self._counted, self._where, box, only, skipped)
        return self._proofs[key]

    def trial(self, point: Point) -> Trial:
        key = tuple(point.values())
        if key not in self._trials:
            self._trials[key] = self._known.trial(self.launch, point)
        return self._trials[key]

    def _note(self, trial: Trial) -> None:
        self.uncertain += [op for op in trial.uncertain if op not in self.uncertain]

    def _on_line(self, key: Key, symbol: Symbol, box: Box) -> Point | bool:
        """Along one size, all others being fixed: the least failing point.

        Returns:
            True if there is none, False if that is not known.
        """
        low, high = box[symbol]
        first = self._next_point(symbol, box, low)
        if isinstance(first, dict) and self.trial(first).has(key):
            self._known.found(self.trial(first), first, key, least=True)
            return first
        for _ in range(_MOST_STEPS):
            if key not in self.problems({**box, symbol: (low, high)}, key):
                return True
            end = self._proved_until(key, symbol, box, low, high)
            point = self._next_point(symbol, box, end)
            if isinstance(point, bool):
                return point
            trial = self.trial(point)
            if trial.has(key) or trial.look_further(key, self._known.is_late):
                self._known.found(trial, point, key, least=True)
                return point
            self._known.found(trial, point, key, least=False)
            low = end  # all before is proved
            if not trial.is_whole:
                if trial.uncertain and not trial.events:
                    self._note(trial)
                    return False
                break
            low = point[symbol] + 1
            if low > high:
                return True
        else:
            if high - low < _MOST_ALONE:
                found = self._one_by_one(key, symbol, box, low)
                if found is not None:
                    return found
        return self._sampled(key, symbol, box, low, high)

    def _one_by_one(self, key: Key, symbol: Symbol, box: Box, low: int) -> Point | bool | None:
        """The least failing point of few, which are all run; None if one cannot be as a whole."""
        while not self._known.is_late():
            point = self._next_point(symbol, box, low)
            if isinstance(point, bool):
                return point
            trial = self.trial(point)
            if trial.has(key):
                self._known.found(trial, point, key, least=True)
                return point
            self._known.found(trial, point, key, least=False)
            if not trial.is_whole:
                return None
            low = point[symbol] + 1
        return None

    def _proved_until(self, key: Key, symbol: Symbol, box: Box, low: int, high: int) -> int:
        """The least end of a range from `low` on for which there is no proof."""
        good, bad = low - 1, high
        if key in self.problems({**box, symbol: (low, low)}, key):
            return low
        is_slow = False
        while bad - good > 1:
            middle = (good + bad) // 2
            point = {**{s: first for s, (first, _) in box.items()}, symbol: middle}
            if is_slow and self._where.holds(point) and self.trial(point).has(key):
                bad = middle  # no proof is there to be found
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
        """The size from which on runs show a defect, if they do so up to a size from one on."""
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
        """The first point of the region from a value on.

        Returns:
            True if there is none, False if none was found among the first.
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
        """Tries sizes here and there, and halves between right and wrong ones."""
        values = [low, low + 1, low + 2, high, high - 1, (low + high) // 2]
        values += [v + d for e in range(4, 40) for v in (1 << e,) for d in (-1, 0, 1, 7)]
        wrong = None
        for value in sorted({v for v in values if low <= v <= high}):
            point = self._next_point(symbol, box, value)
            if isinstance(point, bool) or self._known.is_late():
                continue
            trial = self.trial(point)
            self._note(trial)
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
        self._known.found(self.trial(wrong), wrong, key, least=False)
        return wrong
