"""Lanes of values at one size, as NumPy arrays.

Integers have machine values, which wrap, and optionally exact 64-bit shadow values. A float is
represented by a hash of the operations that computed it, so that equal hashes mean equal floats.
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

#: An operation whose result has lost bits, and a mask of the lanes in which it has.
Wrap: TypeAlias = "tuple[Operation, Any]"


@dataclass(frozen=True, eq=False)
class Lanes:
    """One value in all programs. The first axis of each array is the axis of programs.

    Attributes:
        data: Integers, conditions, hashes of floats, or offsets of pointers in elements.
        shadow: The integers that 64-bit arithmetic would give; None if they equal `data`.
        wraps: Operations that lost bits in the computation of the value, each with a mask of the
            affected lanes.
        unknown: Mask of the lanes whose value is unknown; None if there are none.
        base: Index of the kernel argument that a pointer is derived from.
    """

    data: Any
    shadow: Any = None
    wraps: tuple[Wrap, ...] = ()
    unknown: Any = None
    base: int | None = None

    @property
    def exact(self) -> Any:
        """The shadow values, which are `data` unless bits were lost."""
        return self.data if self.shadow is None else self.shadow


def integers(data: Any, unknown: Any = None) -> Lanes:
    """Return integers that have not wrapped."""
    return Lanes(data, unknown=unknown)


def hashed(*parts: object) -> np.uint64:
    """Return a hash of the `repr` of some objects, which is the same in every process."""
    text = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    number: np.uint64 = np.uint64(int.from_bytes(text, "little"))
    return number


def mixed(name: object, *parts: Any) -> Any:
    """Return hashes for the results of an operation on operands."""
    total = hashed(name)
    for part in parts:
        value = np.asarray(part).astype(np.uint64)
        total = (total ^ value) * np.uint64(0x9E3779B97F4A7C15)
        total = total ^ (total >> np.uint64(29))
    return total


def spread(data: Any, shape: tuple[int, ...]) -> Any:
    """Broadcast an array to the shape of a tile; a program's scalar is copied to all its lanes."""
    data = np.asarray(data)
    if data.ndim == 0:
        return np.broadcast_to(data, shape)
    if data.ndim < len(shape):
        data = data.reshape(data.shape[:1] + (1,) * (len(shape) - data.ndim) + data.shape[1:])
    return np.broadcast_to(data, shape)


def wrapped(data: Any, width: int) -> Any:
    """Return the lowest bits of 64-bit integers, with sign extension."""
    if width >= 64:
        return data
    shift = np.int64(64 - width)
    return (data << shift) >> shift


def fit(*arrays: Any) -> tuple[Any, ...]:
    """Return the arrays with equal rank: new axes are inserted after the axis of programs."""
    rank = max(np.ndim(a) for a in arrays)
    return tuple(
        np.reshape(a, a.shape[:1] + (1,) * (rank - np.ndim(a)) + a.shape[1:])
        if np.ndim(a) < rank
        else a
        for a in arrays
    )


def either(*masks: Any) -> Any:
    """Return the union of masks; None if all of them are None."""
    union = None
    for mask in masks:
        if mask is not None:
            union = mask if union is None else np.logical_or(*fit(union, mask))
    return union


def merged(wraps: Iterable[Wrap]) -> tuple[Wrap, ...]:
    """Return each operation once, with the union of its masks."""
    masks: dict[Operation, Any] = {}
    for op, lanes in wraps:
        earlier = masks.get(op)
        masks[op] = (
            lanes if earlier is None or earlier is lanes else np.logical_or(*fit(earlier, lanes))
        )
    return tuple(masks.items())


def hidden(value: Lanes, where: Any) -> Lanes:
    """Return a copy of a value that is also unknown where the mask `where` is set."""
    return replace(value, unknown=either(value.unknown, where)) if where.any() else value


def select(condition: Lanes, one: Lanes, other: Lanes) -> Lanes:
    """Return `one` in lanes where the condition is true, and `other` elsewhere."""

    def chosen(a: Any, b: Any) -> Any:
        c, x, y = fit(np.asarray(condition.data, bool), np.asarray(a), np.asarray(b))
        return np.where(c, x, y)

    shadow = None
    if one.shadow is not None or other.shadow is not None:
        shadow = chosen(one.exact, other.exact)
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
    return Lanes(data, shadow, wraps, unknown, base)
