"""What a process has one of.

`functools.lru_cache` gives threads that call a function for the first time at once different
results, and keeps one of them: the others end while somebody uses them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def once(function: Callable[[], T]) -> Callable[[], T]:
    """A function that gives all callers the same result and keeps it.

    There is no lock, so that nothing can wait for itself: several first calls may compute, and all
    get the result that was there first.
    """
    results: list[T] = []

    def first_result() -> T:
        if not results:
            results.append(function())
        return results[0]

    # Launches call such functions: from the second call on no code of Python's runs.
    return functools.wraps(function)(functools.lru_cache(maxsize=1)(first_result))
