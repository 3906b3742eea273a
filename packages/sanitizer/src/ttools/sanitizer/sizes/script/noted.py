"""Integers that note where they come from, and are plain integers to everybody else.

Each operation is that of `int`; what it gives has a note if that follows. Comparisons give what
they give of `int`. Must not know tensors nor launches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from ttools.sanitizer.sizes.script.notes import Note, combined, number

#: Notes of what `int` and `len` were asked for, by number, as both give plain integers.
passed_to_int: defaultdict[int, set[Note]] = defaultdict(set)


Known = Note | None
_OF_EXTENTS = frozenset(f"__{way}{name}__" for way in ("", "r") for name in ("add", "sub", "mul"))


def _binary(name: str, make: Callable[[Known, Known], Known]) -> Any:
    own = getattr(int, name)
    back = name.startswith("__r") and name != "__rshift__"

    def method(self: Any, other: Any) -> Any:
        value = own(self, other)
        if value is NotImplemented:
            return value
        # A plain factor that `int` or `len` has given, too, may be an extent. Divisors are blocks.
        unknown = type(other) is not Noted and other in passed_to_int and name in _OF_EXTENTS
        known = None if unknown else note_of(other)
        notes = (known, self.note) if back else (self.note, known)
        return noted(value, make(*notes))

    method.__name__ = name
    return method


class Noted(int):
    """An integer with a note; made by `noted`.

    Attributes:
        note: where it comes from; None where that is extents, but it is not known how.
    """

    note: Known

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
    __and__, __rand__, __or__, __ror__, __xor__, __rxor__ = (
        _binary(f"__{name}__", lambda _, __: None)
        for name in ("and", "rand", "or", "ror", "xor", "rxor")
    )

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
        if type(value) is not int:
            return value
        known = modulus is None and 0 < other < 4
        return noted(value, combined("*", *(self.note,) * int(other)) if known else None)

    def __neg__(self) -> int:
        return noted(int.__neg__(self), combined("*", number(-1), self.note))

    def __pos__(self) -> int:
        return self

    def __abs__(self) -> int:
        return self if self > 0 else noted(int.__abs__(self), None)

    def __invert__(self) -> int:
        return noted(int.__invert__(self), None)

    def bit_length(self) -> int:
        """As of an `int`."""
        return noted(int.bit_length(self), None)

    __trunc__ = __floor__ = __ceil__ = __pos__

    def __int__(self) -> int:
        if self.note is not None:
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
        if type(whole) is Noted and whole.note is not None:
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


def noted(value: int, note: Known) -> int:
    """The integer with that note, if it says more than the number."""
    if note is not None and note.kind == "number":
        return value
    made = _make_int(Noted, value)
    made.note = note
    return made


def note_of(value: Any) -> Known:
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


def _difference(a: Known, b: Known) -> Known:
    return combined("+", a, combined("*", number(-1), b))


def _shifted(kind: str, a: Known, by: Known) -> Known:
    """Shifted by a number of bits that comes from nowhere."""
    known = by is not None and by.kind == "number"
    return combined(kind, a, number(1 << by.parts[0])) if by is not None and known else None


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
        return noted(plain(found), combined(name, *map(note_of, among)))

    return update_wrapper(function, original, updated=())


def next_power(original: Callable[[int], int]) -> Callable[[int], int]:
    """The function of `triton.next_power_of_2` with a note."""

    def function(n: int) -> int:
        if type(n) is not Noted:
            return original(n)
        return noted(original(plain(n)), combined("next_power_of_2", n.note))

    return update_wrapper(function, original, updated=())
