"""Rules of reductions and scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ttools.interpreter.eager.elements import Handle
from ttools.sanitizer.accuracy.decisions import FloatBits, Truth
from ttools.sanitizer.accuracy.follower import Follower, Mixed, Rule, is_float, shadow_of
from ttools.sanitizer.accuracy.shadow import NOTHING, Numbers, Shadow, as_exact, weighted
from ttools.sanitizer.accuracy.sources import Array, in_random_numbers

#: Padded lanes are harmless if they change a reduction by less than this share of its value.
NEUTRAL = 2.0**-19


def _reduce(f: Follower, operation: str, arguments: Sequence[Any], results: Any) -> None:
    handles, axis, function = arguments[:3]
    name = getattr(function, "__name__", "")
    results = list(results)
    value, result = handles[0], results[0]
    if isinstance(value.shadow, FloatBits):
        value.shadow.reduced = axis
    if not is_float(value):
        return
    if name == "_sum_combine":
        _sum(f, operation, value, axis, result)
    elif name in ("_elementwise_max", "_elementwise_min") or name.startswith("_arg"):
        _pick(f, operation, value, axis, result, is_max="max" in name)
        if name.startswith("_arg"):
            _note_choice(f, value, axis, is_max="max" in name)
    else:
        f.restart(f"{operation} with `{name}`", results)


def _sum(f: Follower, operation: str, value: Handle, axis: int, result: Handle) -> None:
    own, actual = shadow_of(value), as_exact(value.data)
    on_actual = np.asarray(actual.sum(axis))
    shadow = _along(own, axis, np.asarray(own.exact.sum(axis)), lambda rows: rows.sum(axis + 1))
    if own.padded is not None:
        finite = np.where(np.isfinite(actual), actual, 0.0)
        padding = (finite * own.padded).sum(axis)
        shadow.mixed = mark_mixed(
            f, operation, result, own.padded.all(axis), padding, on_actual, shadow.mixed
        )
    f.finish(operation, result, (value,), on_actual, shadow)


def mark_mixed(
    f: Follower,
    operation: str,
    result: Handle,
    is_padding: Any,
    padding: Any,
    total: Any,
    mixed: Numbers | None,
) -> Numbers | None:
    """Return the marks of a reduction's results that mix padded lanes with other lanes."""
    counts = np.asarray(~is_padding & (np.abs(padding) > NEUTRAL * np.abs(total)))
    if not counts.any():
        return mixed
    number = f.sources.at(operation, result.element.text)
    entry = f.mixed.setdefault(number, Mixed())
    share = np.where(counts, np.abs(padding) / np.maximum(np.abs(total), 1e-300), 0.0)
    lane = int(share.argmax()) if share.ndim else 0
    if float(share.reshape(-1)[lane]) > entry.share:
        entry.share = float(share.reshape(-1)[lane])
        entry.result = float(np.asarray(total).reshape(-1)[lane])
        entry.without = entry.result - float(np.asarray(padding).reshape(-1)[lane])
    old = np.int32(NOTHING) if mixed is None else mixed
    return np.where(counts, np.int32(number), old)


def _along(own: Shadow, axis: int, exact: Array, on_rows: Callable[[Any], Any]) -> Shadow:
    """Return the shadow of a reduction, with the marks of all elements along an axis."""
    return Shadow(
        exact,
        None if own.rows is None else np.array(on_rows(own.rows)),
        None if own.origin is None else np.asarray(own.origin.max(axis)),
        None if own.padded is None else np.asarray(own.padded.all(axis)),
        None if own.mixed is None else np.asarray(own.mixed.max(axis)),
        None if own.cancelled is None else np.asarray(own.cancelled.max(axis)),
    )


def _pick(
    f: Follower, operation: str, value: Handle, axis: int, result: Handle, *, is_max: bool
) -> None:
    """Give a maximum or minimum the shadow of the element that the kernel chose."""
    filled, index = _best(as_exact(value.data), axis, is_max=is_max)
    own = shadow_of(value)
    shadow = own.moved(
        lambda x: np.take_along_axis(x, index, axis).squeeze(axis),
        lambda rows: np.take_along_axis(
            rows, np.broadcast_to(index, (len(rows), *index.shape)), axis + 1
        ).squeeze(axis + 1),
    )
    if own.padded is not None:
        others = np.where(own.padded, -np.inf if is_max else np.inf, filled)
        best = others.max(axis) if is_max else others.min(axis)
        actual = as_exact(result.data)
        padding = np.where(np.isfinite(best), actual - best, 0.0)
        total = np.maximum(np.abs(actual), np.abs(best))
        is_padding = own.padded.all(axis)
        shadow.padded = np.asarray(is_padding)
        shadow.mixed = mark_mixed(f, operation, result, is_padding, padding, total, shadow.mixed)
    result.shadow = shadow


def _best(values: Array, axis: int, *, is_max: bool) -> tuple[Array, Any]:
    """Return values without NaN, and the first index of the largest or smallest along an axis."""
    filled = np.where(np.isnan(values), -np.inf if is_max else np.inf, values)
    return filled, np.expand_dims(filled.argmax(axis) if is_max else filled.argmin(axis), axis)


def _note_choice(f: Follower, value: Handle, axis: int, *, is_max: bool) -> None:
    """Record the rows whose largest or smallest exact value is at a different element."""
    own = value.shadow
    if not isinstance(own, Shadow) or in_random_numbers():
        return
    filled, index = _best(as_exact(value.data), axis, is_max=is_max)
    exact, other = _best(own.exact, axis, is_max=is_max)
    pairs = [
        (np.take_along_axis(array, index, axis), np.take_along_axis(array, other, axis))
        for array in (filled, exact)
    ]
    differs = np.asarray(pairs[1][0] != pairs[1][1])
    if differs.any():
        name, names = "argmax" if is_max else "argmin", ("chosen", "other")
        number = f.decisions.add(name, names, pairs[0], pairs[1], differs)
        truth = Truth(differs, np.where(differs, np.int32(number), np.int32(NOTHING)))
        f.decisions.use("index", truth, differs)


def _scan(f: Follower, operation: str, arguments: Sequence[Any], results: Any) -> None:
    handles, axis, function, reverse = arguments[:4]
    name = getattr(function, "__name__", "")
    results = list(results)
    value, result = handles[0], results[0]
    if not is_float(value):
        return
    if name not in ("_sum_combine", "_prod_combine"):
        f.restart(f"{operation} with `{name}`", results)
        return
    own, actual = shadow_of(value), as_exact(value.data)
    if reverse:
        actual = np.flip(actual, axis)
        own = own.moved(lambda x: np.flip(x, axis), lambda rows: np.flip(rows, axis + 1))
    accumulate = np.cumsum if name == "_sum_combine" else np.cumprod
    on_actual, exact = accumulate(actual, axis), accumulate(own.exact, axis)
    rows = own.rows
    if rows is not None and name == "_sum_combine":
        rows = np.cumsum(rows, axis + 1)
    elif rows is not None:
        # d(x1 ... xn) / d xi = x1 ... xn / xi, if no factor is zero.
        numbers = actual.astype(np.float64, copy=False)
        shares = np.cumsum(np.where(numbers != 0, rows / numbers, 0.0), axis + 1)
        rows = weighted([(shares, on_actual.astype(np.float64, copy=False))], actual.shape)
    marks = [own.origin, own.mixed, own.cancelled]
    origin, mixed, cancelled = (
        None if mark is None else np.maximum.accumulate(mark, axis) for mark in marks
    )
    shadow = Shadow(exact, rows, origin, own.padded, mixed, cancelled)
    if reverse:
        shadow = shadow.moved(lambda x: np.flip(x, axis), lambda rows: np.flip(rows, axis + 1))
        on_actual = np.flip(on_actual, axis)
    f.finish(operation, result, (value,), on_actual, shadow)


#: The rule of each operation, by builder method.
RULES: dict[str, Rule] = {
    "create_reduce": _reduce,
    "create_scan": _scan,
}
