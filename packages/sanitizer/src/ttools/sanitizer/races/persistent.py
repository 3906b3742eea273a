"""A growing map from small integers to counts that shares its parts with the maps it came from.

A map is a tree of tuples of `FAN` entries and of a depth fixed by the number of keys: at the leaves
counts (0 where a key is absent), above them subtrees (None where all keys are absent). Joins return
an argument itself when it holds the other one, so that equal knowledge is one object.
"""

from typing import TypeAlias

FAN_BITS = 4
FAN = 1 << FAN_BITS

Map: TypeAlias = tuple["Map | int | None", ...] | None


def depth_of(keys: int) -> int:
    """Levels above the leaves of maps with that many keys."""
    depth = 0
    while FAN << (FAN_BITS * depth) < keys:
        depth += 1
    return depth


def get(tree: Map, key: int, depth: int) -> int:
    """The count of a key; 0 where it is absent."""
    for level in range(depth, 0, -1):
        if tree is None:
            return 0
        tree = tree[(key >> (FAN_BITS * level)) & (FAN - 1)]  # type: ignore[assignment]
    return 0 if tree is None else tree[key & (FAN - 1)]  # type: ignore[return-value]


def put(tree: Map, key: int, count: int, depth: int) -> Map:
    """The map with one count replaced."""
    at = (key >> (FAN_BITS * depth)) & (FAN - 1)
    if tree is None:
        tree = (None,) * FAN if depth else (0,) * FAN
    entry = put(tree[at], key, count, depth - 1) if depth else count  # type: ignore[arg-type]
    return (*tree[:at], entry, *tree[at + 1 :])


def join(one: Map, other: Map, depth: int) -> Map:
    """The larger count of every key."""
    if one is other or other is None:
        return one
    if one is None:
        return other
    if depth:
        joined = tuple(
            join(a, b, depth - 1)  # type: ignore[arg-type]
            for a, b in zip(one, other, strict=True)
        )
        if all(a is b for a, b in zip(joined, one, strict=True)):
            return one
        return other if all(a is b for a, b in zip(joined, other, strict=True)) else joined
    counts = tuple(map(max, one, other))  # type: ignore[arg-type]
    return one if counts == one else other if counts == other else counts
