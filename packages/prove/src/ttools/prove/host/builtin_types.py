"""`range` and `int` in host code: Python's own would need the number of a size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ttools.prove.host.paths import SymbolicFloat, SymbolicInt, cdiv


class _StandIn(type):
    """The type of what stands for a built-in type, and is equal to it."""

    original: type

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.original)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.original)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.original

    def __hash__(cls) -> int:
        return hash(cls.original)


class _Range(metaclass=_StandIn):
    """`range`: with a size among its ends, each iteration asks whether there is another one."""

    original = range

    def __new__(cls, *ends: Any) -> Any:
        if not any(type(end) is SymbolicInt for end in ends):
            return range(*ends)
        return super().__new__(cls)

    def __init__(self, *ends: Any) -> None:
        start, stop, step = (0, *ends, 1) if len(ends) == 1 else (*ends, 1)[:3]
        if step == 0:
            raise ValueError("range() arg 3 must not be zero")
        self._start, self._stop, self._step = start, stop, step

    def __iter__(self) -> Iterator[Any]:
        value, up = self._start, self._step > 0
        while value < self._stop if up else value > self._stop:
            yield value
            value = value + self._step

    def __len__(self) -> int:
        up = self._step > 0
        span = self._stop - self._start if up else self._start - self._stop
        return int(cdiv(span, abs(self._step))) if span > 0 else 0


class _Int(metaclass=_StandIn):
    """`int`: of a size it is the size, of a quotient of sizes another size."""

    original = int

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        (value, *others) = args or (0,)
        if not others and type(value) is SymbolicInt:
            return value
        if not others and isinstance(value, SymbolicFloat):
            return value.__trunc__()
        return int(*args, **kwargs)


class Shadows:
    """What stands for built-in types, under their names in the globals of modules.

    Code of these modules finds them before Python's own. They are away while Triton compiles, as
    kernels name the same types.

    Args:
        scopes: Globals of modules; names that a module has itself stay.
    """

    def __init__(self, scopes: Iterable[dict[str, Any]]) -> None:
        own = {t.original.__name__: t for t in (_Range, _Int)}
        self._names = [
            (scope, {name: t for name, t in own.items() if name not in scope}) for scope in scopes
        ]

    def _put(self) -> None:
        for scope, types in self._names:
            scope.update(types)

    def _remove(self) -> None:
        for scope, types in self._names:
            for name in types:
                scope.pop(name, None)

    @contextmanager
    def present(self) -> Iterator[None]:
        """Let code find them meanwhile."""
        self._put()
        try:
            yield
        finally:
            self._remove()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Let code find Python's own again, where they are present."""
        self._remove()
        try:
            yield
        finally:
            self._put()
