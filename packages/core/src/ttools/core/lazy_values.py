"""Values computed on first use, once per process or once per object.

`functools.lru_cache` may compute different results for threads that make the first call at the same
time, and keeps only one of them. The functions here give all callers the same result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class computed_once(Generic[T]):  # noqa: N801 - a decorator, as `property` is
    """A property that is computed on first use and kept.

    Before Python 3.12, `functools.cached_property` holds one lock for all objects of a class while
    it computes, which blocks unrelated threads. This class uses no lock: if several threads read
    the property of the same object concurrently, each may compute it, and the first result is kept.
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
        values = vars(instance)
        if self._name not in values:
            values.setdefault(self._name, self._compute(instance))
        return values[self._name]


def once(function: Callable[[], T]) -> Callable[[], T]:
    """Decorate a function so that all callers get the same result.

    There is no lock, so no deadlock is possible: concurrent first calls may each compute, and all
    return the result that was stored first.
    """
    results: list[T] = []

    def first_result() -> T:
        if not results:
            results.append(function())
        return results[0]

    # Every launch calls such functions. After the first call, `lru_cache` returns the result
    # without running Python code.
    return functools.wraps(function)(functools.lru_cache(maxsize=1)(first_result))
