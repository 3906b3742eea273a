"""Lanes of values at one size as NumPy arrays: integers that wrap, with their exact twins.

Floats are numbers that stand for how they were computed: equal ones are equal floats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ttools.ir import (
    Operation,
)

#: An operation that has lost bits, and in which lanes.
Wrap: TypeAlias = "tuple[Operation, Any]"


@dataclass(frozen=True, eq=False)
class Lanes:
    """One value in all programs: the first axis is that of programs.

    Attributes:
        data: integers, elements from the base of a pointer, truth, or how floats came about.
        twin: of integers, what they would be in 64 bits; None if the same.
        wraps: operations that have lost bits on the way, and in which lanes.
        unknown: where nothing is known; None for nowhere.
        base: of a pointer, the argument that it derives from.
    """

    data: Any
    twin: Any = None
    wraps: tuple[Wrap, ...] = ()
    unknown: Any = None
    base: int | None = None

    @property
    def exact(self) -> Any:
        return self.data if self.twin is None else self.twin


def integers(data: Any, unknown: Any = None) -> Lanes:
    """Integers that have not wrapped."""
    return Lanes(data, unknown=unknown)


def hashed(*what: object) -> np.uint64:
    """A number for something."""
    text = hashlib.blake2b(repr(what).encode(), digest_size=8).digest()
    number: np.uint64 = np.uint64(int.from_bytes(text, "little"))
    return number


def mixed(name: object, *parts: Any) -> Any:
    """A number for the result of an operation on operands."""
    total = hashed(name)
    for part in parts:
        value = np.asarray(part).astype(np.uint64)
        total = (total ^ value) * np.uint64(0x9E3779B97F4A7C15)
        total = total ^ (total >> np.uint64(29))
    return total


def spread(data: Any, shape: tuple[int, ...]) -> Any:
    """An array in the shape of a tile; a scalar per program becomes one in all lanes."""
    data = np.asarray(data)
    if data.ndim == 0:
        return np.broadcast_to(data, shape)
    if data.ndim < len(shape):
        data = data.reshape(data.shape[:1] + (1,) * (len(shape) - data.ndim) + data.shape[1:])
    return np.broadcast_to(data, shape)


def wrapped(data: Any, width: int) -> Any:
    """64-bit integers cut to fewer bits, read with their sign."""
    if width >= 64:
        return data
    shift = np.int64(64 - width)
    return (data << shift) >> shift


def fit(*arrays: Any) -> tuple[Any, ...]:
    """Arrays with their program axis aligned."""
    rank = max(np.ndim(a) for a in arrays)
    return tuple(
        np.reshape(a, a.shape[:1] + (1,) * (rank - np.ndim(a)) + a.shape[1:])
        if np.ndim(a) < rank
        else a
        for a in arrays
    )


def either(*masks: Any) -> Any:
    """Where any is true; None if there is none."""
    found = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else np.logical_or(*fit(found, mask))
    return found


def merged(wraps: Iterable[Wrap]) -> tuple[Wrap, ...]:
    """Each operation once, with all lanes in which it has lost bits."""
    found: dict[Operation, Any] = {}
    for op, lanes in wraps:
        known = found.get(op)
        found[op] = lanes if known is None or known is lanes else np.logical_or(*fit(known, lanes))
    return tuple(found.items())


def hidden(value: Lanes, where: Any) -> Lanes:
    """A value that is not known in some programs."""
    return replace(value, unknown=either(value.unknown, where)) if where.any() else value


def select(condition: Lanes, one: Lanes, other: Lanes) -> Lanes:
    """Lane by lane one or the other."""

    def chosen(a: Any, b: Any) -> Any:
        c, x, y = fit(np.asarray(condition.data, bool), np.asarray(a), np.asarray(b))
        return np.where(c, x, y)

    twin = None
    if one.twin is not None or other.twin is not None:
        twin = chosen(one.exact, other.exact)
    unknown = condition.unknown
    if one.unknown is not None or other.unknown is not None:
        zero = np.zeros(1, bool)
        a = zero if one.unknown is None else one.unknown
        b = zero if other.unknown is None else other.unknown
        unknown = either(unknown, chosen(a, b))
    no = np.zeros(1, bool)
    wraps = merged(
        [(op, chosen(m, no)) for op, m in one.wraps]
        + [(op, chosen(no, m)) for op, m in other.wraps]
    )
    base = one.base
    data = chosen(one.data, other.data)
    if one.base != other.base:
        base, unknown = None, np.ones(np.shape(data), bool)
    return Lanes(data, twin, wraps, unknown, base)
