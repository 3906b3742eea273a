"""`range` and `int` in host code: Python's own would need the number of a size.

Functions of the user's module get others under names of their own, so that kernels, which name the
same built-in types, keep Triton's. Must not know tensors nor launches.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from ttools.core.patches import Patches
from ttools.sanitizer.sizes.host.floats import HostFloat
from ttools.sanitizer.sizes.host.paths import HostInt, cdiv


class _StandIn(type):
    """The type of what stands for a built-in type, and is equal to it."""

    original: type

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.original)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.original

    def __hash__(cls) -> int:
        return hash(cls.original)


class _Range(metaclass=_StandIn):
    """`range`: with a size among its ends, each iteration asks whether there is another one."""

    original = range

    def __new__(cls, *ends: Any) -> Any:
        if not any(type(end) is HostInt for end in ends):
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
        if not others and type(value) is HostInt:
            return value
        if not others and isinstance(value, HostFloat):
            return value.__trunc__()
        return int(*args, **kwargs)


_STAND_INS: Mapping[str, type] = {"range": _Range, "int": _Int}
_NAMES = {name: f"<{name} of sizes>" for name in _STAND_INS}


def stand_in(patches: Patches, scope: dict[str, Any], *functions: Any) -> None:
    """Lets functions that share a module's globals use what stands for built-in types.

    Args:
        patches: undoes it.
        scope: globals of a module.
        functions: further functions of it that the globals do not name.
    """
    for function in {id(f): f for f in _functions(scope, functions)}.values():
        code = _renamed(function.__code__, frozenset(_NAMES.keys() - scope.keys()))
        if code is not function.__code__:
            patches.callback(functools.partial(setattr, function, "__code__", function.__code__))
            function.__code__ = code
    for name, new in _STAND_INS.items():
        scope[_NAMES[name]] = new
        patches.callback(functools.partial(scope.pop, _NAMES[name], None))


def _functions(scope: Mapping[str, Any], others: tuple[Any, ...]) -> Iterator[FunctionType]:
    module = scope.get("__name__")
    pending = [*scope.values(), *others]
    for value in scope.values():
        if isinstance(value, type) and value.__module__ == module:
            pending += vars(value).values()
    for value in pending:
        while value is not None:
            value = getattr(value, "__func__", value) if _is_method(value) else value
            if type(value) is FunctionType and value.__globals__ is scope:
                yield value
            value = getattr(value, "__wrapped__", None) if type(value) is FunctionType else None


def _is_method(value: Any) -> bool:
    return isinstance(value, (staticmethod, classmethod))


@functools.lru_cache(maxsize=1024)
def _renamed(code: CodeType, names: frozenset[str]) -> CodeType:
    """Code that has other names for built-in types; the same where it names none."""
    consts = tuple(_renamed(c, names) if isinstance(c, CodeType) else c for c in code.co_consts)
    used = {name for name in code.co_names if name in names}
    # One name may stand for an attribute, too, as in `x.int()`; then it stays.
    used -= {
        str(i.argval)
        for i in dis.get_instructions(code)
        if i.opcode in dis.hasname and i.opname not in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    inner = any(a is not b for a, b in zip(consts, code.co_consts, strict=True))
    if not used and not inner:
        return code
    new = tuple(_NAMES[name] if name in used else name for name in code.co_names)
    return code.replace(co_names=new, co_consts=consts)
