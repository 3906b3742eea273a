"""Rules of comparisons, and of the selections, branches and masks that depend on their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ttools.interpreter.eager.elements import Handle
from ttools.sanitizer.accuracy.decisions import (
    LOGIC,
    FloatBits,
    Truth,
    alternatives_differ,
    compare,
    comparison_text,
)
from ttools.sanitizer.accuracy.follower import Follower, Rule, is_float, shadow_of
from ttools.sanitizer.accuracy.shadow import (
    NOTHING,
    Shadow,
    as_exact,
    chosen,
    joined_numbers,
    precision,
)
from ttools.sanitizer.accuracy.sources import in_random_numbers, in_sort


def _select(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    condition, a, b = arguments
    if isinstance(condition.shadow, Truth):
        if in_sort():
            f.decisions.use("sort", condition.shadow, np.ones(result.data.shape, bool))
        elif is_float(result):
            matters = alternatives_differ(a, b, precision(result.data.dtype))
            lanes = np.broadcast_to(matters, result.data.shape)
            f.decisions.use("where", condition.shadow, lanes)
        else:
            f.decisions.use("where", condition.shadow, np.asarray(a.data != b.data))
    if is_float(result):
        result.shadow = chosen(condition.data, shadow_of(a), shadow_of(b), result.data.shape)


def _comparison(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    """Record the lanes in which the comparison of the exact values has a different result."""
    a, b = arguments[:2]
    if not (isinstance(a.shadow, Shadow) or isinstance(b.shadow, Shadow)) or in_random_numbers():
        return
    first, second = shadow_of(a).exact, shadow_of(b).exact
    exact = compare(operation, first, second)
    differs = exact != result.data
    if differs.any():
        actual = as_exact(a.data), as_exact(b.data)
        text = comparison_text(operation)
        number = f.decisions.add(text, ("a", "b"), actual, (first, second), differs)
        result.shadow = Truth(exact, np.where(differs, np.int32(number), np.int32(NOTHING)))


def _logic(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    """Combine truth values, or the bits of two lanes of a float."""
    a, b = arguments[:2]
    if operation == "xor":
        bits = next((h.shadow for h in (a, b) if isinstance(h.shadow, FloatBits)), None)
        if bits is not None:
            result.shadow = bits.after_xor()
            return
    shadows = [h.shadow if isinstance(h.shadow, Truth) else None for h in (a, b)]
    if all(shadow is None for shadow in shadows) or a.element.text != "i1":
        return
    truths = [h.data if s is None else s.exact for h, s in zip((a, b), shadows, strict=True)]
    exact = np.asarray(LOGIC[operation](*truths))
    differs = exact != result.data
    if differs.any():
        decision = joined_numbers(
            [None if s is None else s.decision for s in shadows], result.data.shape
        )
        assert decision is not None
        result.shadow = Truth(exact, np.where(differs, decision, np.int32(NOTHING)))


def _bitcast(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    operand = arguments[0]
    if not is_float(result):
        if is_float(operand) and result.element.is_integer:
            result.shadow = FloatBits(operand)
        return
    bits = operand.shadow
    shadow = bits.shadow_of(result) if isinstance(bits, FloatBits) else None
    if shadow is None:
        f.restart(operation, result)
    result.shadow = shadow


def _number(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    """Record that a boolean is converted to a number."""
    if isinstance(arguments[0].shadow, Truth):
        f.decisions.use("number", arguments[0].shadow, np.ones(result.data.shape, bool))


def _branch(f: Follower, operation: str, arguments: Sequence[Any], result: Any) -> None:
    if isinstance(arguments[0].shadow, Truth):
        f.decisions.use("branch", arguments[0].shadow, np.ones(arguments[0].data.shape, bool))


def note_mask(f: Follower, mask: Handle | None) -> None:
    """Record that an access depends on a mask."""
    if mask is not None and isinstance(mask.shadow, Truth):
        f.decisions.use("mask", mask.shadow, np.ones(mask.data.shape, bool))


_ORDERS = tuple(order + name for order in "OU" for name in ("EQ", "NE", "LT", "LE", "GT", "GE"))
#: Builder methods that compare floats.
COMPARISONS = tuple(f"create_fcmp{name}" for name in _ORDERS)
#: The rule of each operation, by builder method.
RULES: dict[str, Rule] = {
    "create_select": _select,
    **dict.fromkeys(COMPARISONS, _comparison),
    **{f"create_{name}": _logic for name in LOGIC},
    "create_bitcast": _bitcast,
    "create_int_cast": _number,
    "branch": _branch,
}
