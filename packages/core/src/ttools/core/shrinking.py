"""Greedy reduction of a failing object to a small one."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

#: Function that yields objects smaller than its argument; those that are likely to succeed come
#: first.
Candidates = Callable[[T], Iterator[T]]
#: Function that returns a candidate, perhaps simplified further, if the candidate replaces the best
#: object, else None.
Accepts = Callable[[T, T], "T | None"]


def shrink(start: T, steps: Sequence[Candidates[T]], accepts: Accepts[T], end: float) -> T:
    """Return the smallest object found by applying the steps until none of them succeeds.

    Args:
        start: The object to reduce.
        steps: Reductions by kind; the more effective ones come first.
        accepts: Function to call with a candidate and the best object so far.
        end: Time of `time.monotonic()` at which the search ends.
    """
    best, before = start, None
    while best is not before and time.monotonic() < end:
        before = best
        for candidates in steps:
            best = _pass(best, candidates, accepts, end)
    return best


def _pass(best: T, candidates: Candidates[T], accepts: Accepts[T], end: float) -> T:
    """Try candidates in order; after a success, continue with the candidates of the new object."""
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
