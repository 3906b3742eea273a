"""Integers that note where they come from, and are plain integers to everybody else.

Each operation is that of `int`; what it gives has a note if that follows. Comparisons give what
they give of `int`. Must not know tensors nor launches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ttools.sanitizer.sizes.script.notes import Note, combined, number

#: Notes of what `int` was called with, by number, as `int` itself gives a plain integer.
passed_to_int: defaultdict[int, set[Note]] = defaultdict(set)


def _binary(name: str, make: Callable[[Note, Note], Note | None]) -> Any:
    own = getattr(int, name)
    back = name.startswith("__r") and name != "__rshift__"

    def method(self: Any, other: Any) -> Any:
        value = own(self, other)
        if value is NotImplemented:
            return value
        notes = (note_of(other), self.note) if back else (self.note, note_of(other))
        return noted(value, make(*notes))

    method.__name__ = name
    return method


class Noted(int):
    """An integer with a note; made by `noted`."""

    note: Note

    __add__ = _binary("__add__", lambda a, b: combined("+", a, b))
    __radd__ = _binary("__radd__", lambda a, b: combined("+", a, b))
    __sub__ = _binary("__sub__", lambda a, b: _difference(a, b))
    __rsub__ = _binary("__rsub__", lambda a, b: _difference(a, b))
    __mul__ = _binary("__mul__", lambda a, b: combined("*", a, b))
    __rmul__ = _binary("__rmul__", lambda a, b: combined("*", a, b))
    __floordiv__ = _binary("__floordiv__", lambda a, b: combined("//", a, b))
    __rfloordiv__ = _binary("__rfloordiv__", lambda a, b: combined("//", a, b))
    __mod__ = _binary("__mod__", lambda a, b: combined("%", a, b))
    __rmod__ = _binary("__rmod__", lambda a, b: combined("%", a, b))
    __lshift__ = _binary("__lshift__", lambda a, b: _shifted("*", a, b))
    __rshift__ = _binary("__rshift__", lambda a, b: _shifted("//", a, b))

    def __truediv__(self, other: Any) -> Any:
        return _ratio(int.__truediv__(self, other), self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _ratio(int.__rtruediv__(self, other), other, self)

    def __divmod__(self, other: Any) -> Any:
        if int.__divmod__(self, other) is NotImplemented:
            return NotImplemented
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        if int.__rdivmod__(self, other) is NotImplemented:
            return NotImplemented
        return other // self, other % self

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        value = int.__pow__(self, other) if modulus is None else int.__pow__(self, other, modulus)
        if modulus is None and type(value) is int and 0 < other < 4:
            return noted(value, combined("*", *(self.note,) * int(other)))
        return value

    def __neg__(self) -> int:
        return noted(int.__neg__(self), combined("*", number(-1), self.note))

    def __pos__(self) -> int:
        return self

    def __abs__(self) -> int:
        return self if self > 0 else int.__abs__(self)

    __trunc__ = __floor__ = __ceil__ = __pos__  # type: ignore[assignment]

    def __int__(self) -> int:
        passed_to_int[plain(self)].add(self.note)
        return plain(self)

    def __copy__(self) -> int:
        return self

    def __deepcopy__(self, _: object) -> int:
        return self

    def __reduce_ex__(self, _: Any) -> Any:
        return int, (plain(self),)


class NotedRatio(float):
    """A quotient of two integers, which may be rounded to one that has a note."""

    parts: tuple[Any, Any]

    def __ceil__(self) -> int:
        return self._rounded("cdiv", float.__ceil__(self))

    def __floor__(self) -> int:
        return self._rounded("//", float.__floor__(self))

    def _rounded(self, kind: str, value: int) -> int:
        above, below = map(int, self.parts)
        exact = -(-above // below) if kind == "cdiv" else above // below
        made = combined(kind, *map(note_of, self.parts)) if value == exact and below > 0 else None
        return noted(value, made)

    def __int__(self) -> int:
        value = float.__int__(self)
        whole = self._rounded("//", value)
        if type(whole) is Noted:
            passed_to_int[value].add(whole.note)
        return value

    __trunc__ = __int__

    def __reduce_ex__(self, _: Any) -> Any:
        return float, (float.__pos__(self),)


# Programs name types in messages, and decide by names of types.
for _type, _name in ((Noted, "int"), (NotedRatio, "float")):
    _type.__name__ = _type.__qualname__ = _name
    _type.__module__ = "builtins"

_make_int = int.__new__
_as_int = int.__int__


def noted(value: int, note: Note | None) -> int:
    """The integer with that note, if there is one that says more than the number."""
    if note is None or note.kind == "number":
        return value
    made = _make_int(Noted, value)
    made.note = note
    return made


def note_of(value: Any) -> Note:
    """The note of an integer; a plain one is a number that comes from nowhere."""
    return value.note if type(value) is Noted else number(_as_int(value))


def plain(value: int) -> int:
    """Exactly an `int`."""
    return _as_int(value)


def stripped(value: Any) -> Any:
    """The same without notes, also inside of tuples and lists."""
    kind = type(value)
    if kind is Noted:
        return plain(value)
    if kind is NotedRatio:
        return float.__pos__(value)
    if kind in (tuple, list):
        return kind(map(stripped, value))
    return value


def _difference(a: Note, b: Note) -> Note | None:
    opposite = combined("*", number(-1), b)
    return combined("+", a, opposite) if opposite is not None else None


def _shifted(kind: str, a: Note, by: Note) -> Note | None:
    """Shifted by a number of bits that comes from nowhere."""
    return combined(kind, a, number(1 << by.parts[0])) if by.kind == "number" else None


def _ratio(value: Any, above: Any, below: Any) -> Any:
    if value is NotImplemented:
        return value
    made = NotedRatio(value)
    made.parts = above, below
    return made


def extremum(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """`min` or `max` with a note of all that was compared, not only of what was chosen."""

    def function(*args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) == 1:
            if type(args[0]) not in (list, tuple) or kwargs:
                found = original(*args, **kwargs)
                return plain(found) if type(found) is Noted else found
            among = args[0]
        else:
            among = args
        found = original(*args)
        if not any(type(each) is Noted for each in among):
            return found
        if not all(isinstance(each, int) for each in among):
            return stripped(found)
        note: Note | None = note_of(among[0])
        for each in among[1:]:
            note = combined(name, note, note_of(each)) if note is not None else None
        return noted(plain(found), note)

    return _alike(function, original)


def next_power(original: Callable[[int], int]) -> Callable[[int], int]:
    """The function of `triton.next_power_of_2` with a note."""

    def function(n: int) -> int:
        if type(n) is not Noted:
            return original(n)
        return noted(original(plain(n)), combined("next_power_of_2", n.note))

    return _alike(function, original)


def _alike(function: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """A function that says of itself what the original says."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(function, name, getattr(original, name))
    return function
