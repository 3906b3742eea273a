"""Greedy reduction of a failing object to a small one."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

#: Yields objects that are smaller than the argument, those that are likely to succeed first.
Candidates = Callable[[T], Iterator[T]]
#: Returns a candidate, perhaps simplified further, if it replaces the best object; else None.
Accepts = Callable[[T, T], "T | None"]


def shrink(start: T, steps: Sequence[Candidates[T]], accepts: Accepts[T], end: float) -> T:
    """Return the smallest object found by applying the steps until none of them succeeds.

    Args:
        start: The object to reduce.
        steps: Reductions by kind; the more effective ones come first.
        accepts: Called with a candidate and the best object so far.
        end: Time of `time.monotonic()` at which the search ends.
    """
    best, before = start, None
    while best is not before and time.monotonic() < end:
        before = best
        for candidates in steps:
            best = _pass(best, candidates, accepts, end)
    return best


def _pass(best: T, candidates: Candidates[T], accepts: Accepts[T], end: float) -> T:
    """Try candidates in order; after a success, continue with those of the new object."""
    tried = 0
    remaining = candidates(best)
    while time.monotonic() < end:
        candidate = next(remaining, None)
        if candidate is None:
            break
        accepted = accepts(candidate, best)
        if accepted is None:
            tried += 1
        else:
            best = accepted
            remaining = itertools.islice(candidates(best), tried, None)
    return best
