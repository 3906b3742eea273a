"""Rules of loads, stores and atomics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ttools.interpreter.eager.elements import Handle
from ttools.sanitizer.accuracy.decisions import Truth
from ttools.sanitizer.accuracy.follower import Follower, Rule, is_float, shadow_of
from ttools.sanitizer.accuracy.rules.comparisons import note_mask
from ttools.sanitizer.accuracy.shadow import (
    NOTHING,
    Shadow,
    as_exact,
    chosen,
    joined_numbers,
    random_changes,
    weighted,
)
from ttools.sanitizer.accuracy.sources import INPUTS
from ttools.sanitizer.accuracy.verdicts import settled_error


def _load(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    pointer, mask, other = arguments[0], None, None
    if operation == "masked_load":
        mask, other = arguments[1], arguments[2]
    note_mask(f, mask)
    if not is_float(result):
        return
    actual = as_exact(result.data)
    addresses, element = pointer.data, result.element
    is_narrow = element.size <= 2
    active = (
        np.ones(actual.shape, bool) if mask is None else np.broadcast_to(mask.data, actual.shape)
    )
    numbers = actual.astype(np.float64, copy=False)
    rows = None
    if f.follows_inputs:
        rows = random_changes(numbers, addresses, narrow=is_narrow)
        rows *= active
    shadow = Shadow(actual, rows)
    if active.any():
        kept = f.memory.find(addresses[active], element.dtype)
        loaded = None if kept is None else kept.load(np.where(active, addresses, kept.start))
        if kept is not None and loaded is not None:
            has_shadow, stored = loaded
            has_shadow = np.asarray(has_shadow & active)
            if is_narrow:  # 16-bit tensors count as 16-bit inputs, whoever wrote them
                if f.settles:
                    allowed = settled_error(element.dtype)
                    own = addresses[has_shadow]
                    has_shadow[has_shadow] &= ~kept.settled(own, f.launch, allowed)
                if rows is not None:
                    changes = rows.copy()
                    changes[:INPUTS] = 0.0
                    stored.rows = weighted([(stored.rows, 1.0), (changes, 1.0)], actual.shape)
            shadow = chosen(has_shadow, stored, shadow, actual.shape)
    if not active.all():
        own = other.shadow if isinstance(other, Handle) else None
        if isinstance(own, Shadow) and own.rows is not None:
            shadow = chosen(active, shadow, own, actual.shape)
        else:
            shadow.padded = ~active
    result.shadow = shadow


def _store(f: Follower, operation: str, arguments: Sequence[Any], result: Any) -> None:
    pointer, value = arguments[:2]
    mask = arguments[2] if operation == "masked_store" else None
    note_mask(f, mask)
    if isinstance(value.shadow, Truth):
        f.decisions.use("number", value.shadow, np.ones(value.data.shape, bool))
    if is_float(value):
        _record(f, operation, pointer, value, None if mask is None else mask.data)


def _record(f: Follower, operation: str, pointer: Handle, value: Handle, mask: Any) -> None:
    """Store the shadow of a value in memory."""
    shape = pointer.data.shape
    active = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
    if not active.any():
        return
    addresses = pointer.data[active]
    shadow = shadow_of(value)
    if shadow.exact.shape != shape:
        shadow = Shadow(np.broadcast_to(shadow.exact, shape))
    if shadow.mixed is not None:
        stored = active if shadow.padded is None else active & ~shadow.padded
        for number in np.unique(shadow.mixed[stored]).tolist():
            if number != NOTHING:
                f.mixed[number].lanes += int((shadow.mixed[stored] == number).sum())
    kept = f.memory.find(addresses, value.element.dtype)
    if kept is not None:
        source = f.sources.at(operation, value.element.text)
        kept.store_lanes(addresses, shadow.at(active), f.launch, source)


def _atomic(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    kind, pointer, value, mask = arguments[:4]
    note_mask(f, mask)
    if not is_float(value):
        return
    shape = pointer.data.shape
    active = np.ones(shape, bool) if mask is None else np.broadcast_to(mask.data, shape)
    if not active.any():
        return
    addresses = pointer.data[active]
    kept = f.memory.find(addresses, value.element.dtype)
    if kept is None:
        return
    places, first = np.unique(addresses, return_index=True)
    old_values = result.data[active][first]
    before = as_exact(old_values)
    after = _read(f, places, value)
    source = f.sources.at(operation, value.element.text)
    if "FADD" not in str(kind).upper() and not str(kind).upper().endswith(".ADD"):
        kept.store_lanes(places, Shadow(as_exact(after.data)), f.launch, source)
        return
    added = shadow_of(value).at(active)
    where = np.searchsorted(places, addresses)
    total, exact = np.zeros_like(before), np.zeros_like(before)
    np.add.at(total, where, as_exact(value.data[active]))
    np.add.at(exact, where, added.exact)
    old = Shadow(before)
    loaded = kept.load(places, old_values)
    if loaded is not None:
        old = chosen(loaded[0], loaded[1], old, before.shape)
    rows = old.rows
    if added.rows is not None:
        sums = np.zeros((len(added.rows), len(places)))
        np.add.at(sums.T, where, added.rows.T)
        rows = weighted([(rows, 1.0), (sums, 1.0)], (len(places),))
    origin = old.origin
    if added.origin is not None:
        new = np.full(len(places), NOTHING, np.int32)
        np.maximum.at(new, where, added.origin)
        origin = joined_numbers([origin, new], (len(places),))
    shadow = Shadow(old.exact + exact, rows, origin, None, None, old.cancelled)
    f.finish(operation, after, (Handle(old_values, after.element),), before + total, shadow)
    kept.store_lanes(places, shadow, f.launch, source)


def _read(f: Follower, places: Any, like: Handle) -> Handle:
    """Return the elements of memory at some addresses, in the type of a value."""
    from ttools.interpreter.runtime.snapshot import memory

    start = int(places.min())
    words = memory(start, int(places.max()) + like.element.size).view(np.uint8)
    index = (places - start)[:, None] + np.arange(like.element.size)
    return Handle(words[index].view(like.element.dtype).reshape(-1), like.element)


#: The rule of each operation, by builder method.
RULES: dict[str, Rule] = {
    "create_load": _load,
    "create_masked_load": _load,
    "create_store": _store,
    "create_masked_store": _store,
    "create_atomic_rmw": _atomic,
}
