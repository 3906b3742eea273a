"""Values that are computed at their first use: one of a process, or one of an object.

`functools.lru_cache` gives threads that call a function for the first time at once different
results, and keeps one of them: the others end while somebody uses them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class computed_once(Generic[T]):  # noqa: N801 - a decorator, as `property` is
    """A property that an object computes at its first use and keeps.

    `functools.cached_property` of Python before 3.12 holds one lock for all objects of a class
    while it computes, so that threads which wait for other processes wait for each other. Here is
    no lock: if threads ask one object at once, each may compute, and the first result is kept.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> computed_once[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            return self
        known = vars(instance)
        if self._name not in known:
            known.setdefault(self._name, self._compute(instance))
        return known[self._name]


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
