"""Rules of operations that only move elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ttools.interpreter.eager.elements import Handle
from ttools.sanitizer.accuracy.decisions import Truth
from ttools.sanitizer.accuracy.follower import Follower, Rule, shadow_of
from ttools.sanitizer.accuracy.shadow import NOTHING, Shadow


def _moving(
    move: Callable[..., Callable[[Any], Any]], on_rows: Callable[..., Callable[[Any], Any]]
) -> Rule:
    def rule(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
        handle = next(a for a in arguments if isinstance(a, Handle))
        if isinstance(handle.shadow, (Shadow, Truth)):
            moved = handle.shadow.moved(move(result, *arguments), on_rows(result, *arguments))
            result.shadow = moved

    return rule


def _splat_rows(result: Handle, *_: Any) -> Callable[[Any], Any]:
    def move(rows: Any) -> Any:
        shape = result.data.shape
        wide = rows.reshape(len(rows), *([1] * (len(shape) - rows.ndim + 1)), *rows.shape[1:])
        return np.broadcast_to(wide, (len(rows), *shape))

    return move


_broadcast = _moving(lambda r, *_: lambda x: np.broadcast_to(x, r.data.shape), _splat_rows)
_reshape = _moving(
    lambda r, *_: lambda x: x.reshape(r.data.shape),
    lambda r, *_: lambda x: x.reshape(len(x), *r.data.shape),
)
_transpose = _moving(
    lambda r, value, order: lambda x: np.transpose(x, order),
    lambda r, value, order: lambda x: np.transpose(x, (0, *(n + 1 for n in order))),
)


def _stack(first: Shadow, second: Shadow, join: Callable[[Any, Any], Any]) -> Shadow:
    """Return the shadow of a value made of two values; `join` joins arrays along the last axes."""

    def both(a: Any, b: Any, shapes: tuple[Any, Any], missing: Any) -> Any:
        if a is None and b is None:
            return None
        a = np.full(shapes[0], missing) if a is None else a
        b = np.full(shapes[1], missing) if b is None else b
        return join(a, b)

    shapes = first.exact.shape, second.exact.shape
    rows = None
    if first.rows is not None or second.rows is not None:
        count = max(len(s.rows) for s in (first, second) if s.rows is not None)
        wide = [np.zeros((count, *shape)) for shape in shapes]
        for array, shadow in zip(wide, (first, second), strict=True):
            if shadow.rows is not None:
                array[: len(shadow.rows)] = shadow.rows
        rows = np.stack([join(a, b) for a, b in zip(*wide, strict=True)])
    none = np.int32(NOTHING)
    return Shadow(
        join(first.exact, second.exact),
        rows,
        both(first.origin, second.origin, shapes, none),
        both(first.padded, second.padded, shapes, False),
        both(first.mixed, second.mixed, shapes, none),
        both(first.cancelled, second.cancelled, shapes, none),
    )


def _concatenate(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    a, b = (shadow_of(x) for x in arguments[:2])
    result.shadow = _stack(a, b, lambda x, y: np.concatenate((x, y)))


def _join(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    a, b = (shadow_of(x) for x in arguments[:2])
    result.shadow = _stack(a, b, lambda x, y: np.stack((x, y), axis=-1))


def _split(f: Follower, operation: str, arguments: Sequence[Any], result: Sequence[Handle]) -> None:
    own = arguments[0].shadow
    if isinstance(own, Shadow):
        for n, handle in enumerate(result):
            handle.shadow = own.at((..., n))


def _gather(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    value, index, axis = arguments[:3]
    if not isinstance(value.shadow, Shadow):
        return
    inside = np.clip(index.data.astype(np.int64), 0, value.data.shape[axis] - 1)
    result.shadow = value.shadow.moved(
        lambda x: np.take_along_axis(x, inside, axis),
        lambda rows: np.take_along_axis(
            rows, np.broadcast_to(inside, (len(rows), *inside.shape)), axis + 1
        ),
    )


#: The rule of each operation, by builder method.
RULES: dict[str, Rule] = {
    "create_splat": _broadcast,
    "create_broadcast": _broadcast,
    "create_expand_dims": _reshape,
    "create_reshape": _reshape,
    "create_unsplat": _reshape,
    "create_trans": _transpose,
    "create_cat": _concatenate,
    "create_join": _join,
    "create_split": _split,
    "create_gather": _gather,
}
